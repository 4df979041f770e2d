/* SPDX-License-Identifier: Apache-2.0
 * Processes side by side (compare_run.h). */
#include "cli/compare_run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/signals.h"

#define POLL_MS 200
#define WORDS_KEPT 4000u        /* bytes of a process's standard error */
#define WARNING "warning: "     /* as cli_warning begins a line where there is no colour */
#define LONGEST_LINE (1u << 20) /* bytes of a line of its standard output */

typedef struct runner {
    cli_task *task;
    size_t count, next, over;
    unsigned jobs, running;
    bool bar, drawn, ending;
    iso_buffer warned; /* lines of warnings that were told: each of them once, whichever runs it came from */
    int status;
    double began;
    cli_task_ended ended;
    void *context;
} runner;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- a process ----------------------------------------------------------------------------------------- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Starts it with its output in two pipes. Returns 0 or an errno value. */
static int start(cli_task *t)
{
    extern char **environ;
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
        int why = errno;
        close_fd(&out[0]);
        close_fd(&out[1]);
        return why;
    }
    char *argv[CLI_TASK_ARGUMENTS + 1] = {(char *)(uintptr_t) "isochron"};
    for (size_t i = 0; i + 1 < CLI_TASK_ARGUMENTS && t->argument[i]; i++)
        argv[i + 1] = (char *)(uintptr_t)t->argument[i]; /* posix_spawn changes no string */
    int r = posix_spawn_file_actions_init(&actions);
    if (!r) {
        r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        r = r ? r : posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
        r = r ? r : posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
        r = r ? r : posix_spawn(&t->pid, "/proc/self/exe", &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close_fd(&out[1]);
    close_fd(&err[1]);
    if (r) {
        t->pid = 0;
        close_fd(&out[0]);
        close_fd(&err[0]);
        return r;
    }
    t->out = out[0];
    t->err = err[0];
    t->began = now();
    return 0;
}

/* A JSON line of a simulation: how far is it? Other lines say nothing. */
static void read_progress(cli_task *t, const char *line, size_t size)
{
    json_t *o = json_loadb(line, size, 0, NULL);
    double samples = json_number_value(json_object_get(o, "samples")),
           total = json_number_value(json_object_get(o, "samples_total"));
    if (total > 0 && samples >= 0 && samples <= total)
        t->part = samples / total;
    json_decref(o);
}

static void read_lines(cli_task *t)
{
    iso_buffer *b = &t->lines;
    size_t at = 0;
    for (const uint8_t *end; at < b->size && (end = memchr(b->bytes + at, '\n', b->size - at));) {
        read_progress(t, (const char *)b->bytes + at, (size_t)(end - b->bytes) - at);
        at = (size_t)(end - b->bytes) + 1;
    }
    if (at)
        memmove(b->bytes, b->bytes + at, b->size - at);
    b->size -= at;
    if (b->size > LONGEST_LINE)
        b->size = 0;
}

/* Takes what a pipe has; closes it at its end. */
static void drain(cli_task *t, int *fd, bool words)
{
    char bytes[8192];
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        close_fd(fd);
        return;
    }
    iso_buffer *b = words ? &t->words : &t->lines;
    iso_buffer_put(b, bytes, (size_t)n);
    if (!words) {
        read_lines(t);
    } else if (b->size > 2 * WORDS_KEPT) {
        memmove(b->bytes, b->bytes + b->size - WORDS_KEPT, WORDS_KEPT);
        b->size = WORDS_KEPT;
    }
}

static void reap(cli_task *t)
{
    int how;
    pid_t r;
    while ((r = waitpid(t->pid, &how, 0)) < 0 && errno == EINTR)
        ;
    t->status = r < 0 ? 1 : WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
    t->took = now() - t->began;
    t->pid = 0;
    t->over = true;
    t->part = 1;
}

/* ---- all of them --------------------------------------------------------------------------------------- */

static void clear_bar(runner *r)
{
    if (r->drawn)
        fputs("\r\x1b[K", stderr);
    r->drawn = false;
}

/* "7/12 runs [=====   ] 58%  hmdspt, seed 2 31%  bsp, seed 1 80%  1:20 left" */
static void draw_bar(runner *r)
{
    double part = 0, spent = now() - r->began;
    char tail[256] = "";
    for (size_t i = 0; i < r->count; i++) {
        const cli_task *t = &r->task[i];
        size_t n = strlen(tail);
        part += t->part / (double)r->count;
        if (t->pid)
            snprintf(tail + n, sizeof tail - n, "  %s %.0f%%", t->name, 100 * t->part);
    }
    int width = cli_error_width() - 1, cells = width >= 90 ? 24 : width >= 60 ? 12 : 0, full = (int)(part * cells);
    char line[512], bar[32] = "";
    for (int i = 0; i < cells; i++)
        bar[i] = i < full ? '=' : ' ';
    snprintf(line, sizeof line, "%zu/%zu runs %s%s%s %.0f%%  %s left%s", r->over, r->count, cells ? "[" : "", bar,
             cells ? "]" : "", 100 * part, part > 0.01 ? cli_clock(spent / part - spent) : "-", tail);
    fprintf(stderr, "\r%.*s\x1b[K", width > 0 ? width : 0, line);
    fflush(stderr);
    r->drawn = true;
}

static void end_all(runner *r, int status)
{
    if (!r->status)
        r->status = status;
    if (r->ending)
        return;
    r->ending = true;
    for (size_t i = 0; i < r->count; i++)
        if (r->task[i].pid)
            kill(r->task[i].pid, SIGTERM);
}

static void tell_failure(runner *r, cli_task *t)
{
    clear_bar(r);
    if (t->status > 128)
        cli_error("%s: ended by signal %d", t->name, t->status - 128);
    else
        cli_error("%s: exit status %d", t->name, t->status);
    if (t->words.size)
        fprintf(stderr, "%.*s", (int)t->words.size, (const char *)t->words.bytes);
    fflush(stderr);
}

static void tell_warnings(runner *r, const cli_task *t)
{
    const char *at = (const char *)t->words.bytes, *end = at + t->words.size;
    for (const char *next; at < end; at = next) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        next = line_end ? line_end + 1 : end;
        size_t length = (size_t)(next - at);
        if (length < sizeof WARNING || strncmp(at, WARNING, sizeof WARNING - 1) != 0 || !line_end ||
            (r->warned.size && memmem(r->warned.bytes, r->warned.size, at, length)))
            continue;
        iso_buffer_put(&r->warned, at, length);
        clear_bar(r);
        fprintf(stderr, "%.*s", (int)length, at);
    }
}

static void on_end(runner *r, size_t index)
{
    cli_task *t = &r->task[index];
    reap(t);
    r->running--;
    r->over++;
    if (t->status && !r->ending) {
        tell_failure(r, t);
        end_all(r, t->status < 128 ? t->status : 1);
    } else if (!t->status && !r->ending) {
        tell_warnings(r, t);
        clear_bar(r);
        int status = r->ended(r->context, index);
        if (status)
            end_all(r, status);
    }
}

static void start_more(runner *r)
{
    while (!r->ending && r->next < r->count && r->running < r->jobs) {
        cli_task *t = &r->task[r->next++];
        int why = start(t);
        if (why) {
            clear_bar(r);
            cli_error("%s: no process for it: %s", t->name, strerror(why));
            end_all(r, 1);
            return;
        }
        r->running++;
    }
}

/* Waits for words of any process, or a moment. */
static void wait_for_words(runner *r, struct pollfd *poll_fd, size_t *task_of)
{
    nfds_t n = 0;
    for (size_t i = 0; i < r->count; i++) {
        const int fd[2] = {r->task[i].out, r->task[i].err};
        for (int k = 0; k < 2 && r->task[i].pid; k++)
            if (fd[k] >= 0) {
                poll_fd[n] = (struct pollfd){.fd = fd[k], .events = POLLIN};
                task_of[n++] = i;
            }
    }
    if (poll(poll_fd, n, POLL_MS) <= 0)
        return;
    for (nfds_t k = 0; k < n; k++) {
        cli_task *t = &r->task[task_of[k]];
        if (poll_fd[k].revents && poll_fd[k].fd == t->out)
            drain(t, &t->out, false);
        else if (poll_fd[k].revents)
            drain(t, &t->err, true);
    }
}

static void loop(runner *r, struct pollfd *poll_fd, size_t *task_of)
{
    double drawn_at = 0;
    while (start_more(r), r->running) {
        wait_for_words(r, poll_fd, task_of);
        for (size_t i = 0; i < r->count; i++)
            if (r->task[i].pid && r->task[i].out < 0 && r->task[i].err < 0)
                on_end(r, i);
        if (atomic_load(&cli_stop))
            end_all(r, 128 + atomic_load(&cli_stop));
        if (r->bar && now() - drawn_at > 0.1) {
            draw_bar(r);
            drawn_at = now();
        }
    }
    clear_bar(r);
    fflush(stderr);
}

int cli_tasks_run(cli_task *task, size_t count, unsigned jobs, bool quiet, cli_task_ended ended, void *context)
{
    runner r = {.task = task,
                .count = count,
                .jobs = jobs ? jobs : 1,
                .ended = ended,
                .context = context,
                .bar = !quiet && cli_error_is_terminal(),
                .began = now()};
    iso_buffer_init(&r.warned, NULL, 0);
    struct pollfd *poll_fd = calloc(2 * count, sizeof *poll_fd);
    size_t *task_of = calloc(2 * count, sizeof *task_of);
    if (poll_fd && task_of) {
        for (size_t i = 0; i < count; i++) {
            task[i].out = task[i].err = -1;
            iso_buffer_init(&task[i].lines, NULL, 0);
            iso_buffer_init(&task[i].words, NULL, 0);
        }
        loop(&r, poll_fd, task_of);
        for (size_t i = 0; i < count; i++) {
            iso_buffer_fini(&task[i].lines);
            iso_buffer_fini(&task[i].words);
        }
    } else {
        cli_error("out of memory");
        r.status = 1;
    }
    iso_buffer_fini(&r.warned);
    free(poll_fd);
    free(task_of);
    return r.status;
}
