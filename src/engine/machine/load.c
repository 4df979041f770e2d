/* SPDX-License-Identifier: Apache-2.0
 * Reads /proc/self/task/N/schedstat and /proc/stat. */
#include "engine/machine/load.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STAT_BYTES = 1 << 16, CORES_MAX = 4096 };

int iso_load_thread(void)
{
    return (int)syscall(SYS_gettid);
}

/* The beginning of a file as text. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t got = 0;
    for (ssize_t n = 1; n > 0 && got + 1 < size; got += n > 0 ? (size_t)n : 0)
        n = read(fd, text + got, size - 1 - got);
    close(fd);
    text[got] = '\0';
    return got > 0;
}

bool iso_load_waited(int thread, uint64_t *ns)
{
    char path[64], text[128], *end;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", thread);
    if (!read_text(path, text, sizeof text))
        return false;
    strtoull(text, &end, 10); /* ns on a core */
    const char *second = end;
    *ns = strtoull(second, &end, 10);
    return end != second;
}

/* "cpu3 user nice system idle iowait ...": ticks of a line that begins with a core's number. */
static uint64_t idle_ticks(const char *numbers)
{
    uint64_t value = 0, idle = 0;
    char *end;
    for (int i = 0; i < 5; i++) {
        value = strtoull(numbers, &end, 10);
        numbers = end;
        idle += i >= 3 ? value : 0;
    }
    return idle;
}

bool iso_load_idle(uint64_t *ns)
{
    long ticks_per_second = sysconf(_SC_CLK_TCK);
    cpu_set_t *set = CPU_ALLOC(CORES_MAX);
    char *text = malloc(STAT_BYTES);
    size_t bytes = CPU_ALLOC_SIZE(CORES_MAX);
    bool good = set && text && ticks_per_second > 0 && sched_getaffinity(0, bytes, set) == 0 &&
                read_text("/proc/stat", text, STAT_BYTES);
    uint64_t ticks = 0;
    uint32_t found = 0;
    for (const char *line = text; good && line; line = strchr(line, '\n')) {
        line += *line == '\n';
        char *end;
        if (strncmp(line, "cpu", 3) != 0)
            break;
        unsigned long core = strtoul(line + 3, &end, 10);
        if (end == line + 3 || core >= CORES_MAX || !CPU_ISSET_S(core, bytes, set))
            continue;
        ticks += idle_ticks(end);
        found++;
    }
    CPU_FREE(set);
    free(text);
    if (!good || found == 0)
        return false;
    *ns = ticks * (1000000000u / (uint64_t)ticks_per_second);
    return true;
}
