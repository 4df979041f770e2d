/* SPDX-License-Identifier: Apache-2.0
 * Opening, locking and clearing the run folder. The writing of files is in write.c. */
#include "engine/run/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const own_files[] = {"job.yaml",          "metrics.jsonl",    "events.jsonl", "summary.json",
                                        "model.safetensors", ISO_BEST_NAME, "latest"};

static const char checkpoint_head[] = "checkpoint-", checkpoint_tail[] = ".safetensors";

int iso_run_error(const iso_run *f, const char *name, const char *what, int errno_value, iso_error *e)
{
    char reason[128];
    const char *text = strerror_r(errno_value, reason, sizeof reason);
    const char *hint = errno_value == ENOSPC || errno_value == EDQUOT ? "; free space, then go on with --resume" : "";
    return iso_error_set(e, ISO_E_IO, "%s%s%s: %s: %s%s", f->path, *name ? "/" : "", name, what, text, hint);
}

void iso_checkpoint_name(uint64_t round, char out[ISO_CHECKPOINT_NAME_MAX])
{
    snprintf(out, ISO_CHECKPOINT_NAME_MAX, "%s%" PRIu64 "%s", checkpoint_head, round, checkpoint_tail);
}

bool iso_checkpoint_round(const char *name, uint64_t *round)
{
    size_t head = sizeof checkpoint_head - 1;
    if (strncmp(name, checkpoint_head, head) != 0 || name[head] < '0' || name[head] > '9')
        return false;
    errno = 0;
    *round = strtoull(name + head, NULL, 10);
    char again[ISO_CHECKPOINT_NAME_MAX];
    iso_checkpoint_name(*round, again);
    return errno == 0 && strcmp(name, again) == 0;
}

static bool is_result(const char *name)
{
    uint64_t round;
    for (size_t i = 0; i < sizeof own_files / sizeof own_files[0]; i++)
        if (strcmp(name, own_files[i]) == 0)
            return true;
    return iso_checkpoint_round(name, &round);
}

/* ".NAME.tmp" of a file that a run writes, or of the writing test. */
static bool is_temporary(const char *name)
{
    size_t length = strlen(name);
    char inner[ISO_CHECKPOINT_NAME_MAX];
    if (length < 6 || length - 5 >= sizeof inner || name[0] != '.' || strcmp(name + length - 4, ".tmp") != 0)
        return false;
    memcpy(inner, name + 1, length - 5);
    inner[length - 5] = 0;
    return is_result(inner) || strcmp(inner, "write-test") == 0;
}

/* Calls each(context, name) for every entry but "." and ".."; stops at its first result that is not 0 and returns it.
 */
static int each_entry(const iso_run *f, int (*each)(void *context, const char *name), void *context, iso_error *e)
{
    int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return iso_run_error(f, "", "the folder cannot be listed", why, e);
    }
    int result = 0;
    for (struct dirent *entry; result == 0 && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = each(context, entry->d_name);
    closedir(dir);
    return result;
}

typedef struct census {
    iso_run *folder;
    bool remove_results;
    uint32_t results, others;
    char other[256]; /* one of the others */
    iso_error *e;
} census;

static int count_and_sweep(void *context, const char *name)
{
    census *c = context;
    bool temporary = is_temporary(name), result = is_result(name);
    if (temporary || (result && c->remove_results))
        return iso_run_remove(c->folder, name, c->e);
    if (result)
        c->results++;
    else if (c->others++ == 0)
        snprintf(c->other, sizeof c->other, "%s", name);
    return 0;
}

/* Makes path and its parents. *made: the last part did not exist. */
static int make_folders(const char *path, char *work, bool *made, iso_error *e)
{
    size_t length = strlen(path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(work, path, i);
        work[i] = 0;
        struct stat info;
        *made = mkdir(work, 0777) == 0;
        if (*made)
            continue;
        int why = errno;
        if (stat(work, &info) == 0 && !S_ISDIR(info.st_mode))
            return iso_error_set(e, ISO_E_IO,
                                 "%s is a file, not a folder: the run folder %s cannot be made; give another --out",
                                 work, path);
        if (why != EEXIST && !(stat(work, &info) == 0 && S_ISDIR(info.st_mode)))
            return iso_error_set(e, ISO_E_IO, "the run folder %s cannot be made: %s: %s; give another --out", path,
                                 work, strerror_r(why, (char[128]){0}, 128));
    }
    return 0;
}

static int lock(iso_run *f, iso_error *e)
{
    while (flock(f->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR)
            continue;
        if (errno == EWOULDBLOCK)
            return iso_error_set(e, ISO_E_BUSY, "%s is in use by another run; wait for it or give another --out",
                                 f->path);
        f->unlocked = true; /* some network file systems have no locks on folders */
        break;
    }
    return 0;
}

static int examine(iso_run *f, iso_run_mode mode, iso_error *e)
{
    census c = {.folder = f, .remove_results = mode == ISO_RUN_FORCE, .e = e};
    int result = each_entry(f, count_and_sweep, &c, e);
    if (result)
        return result;
    if (mode == ISO_RUN_NEW && c.results + c.others > 0)
        return iso_error_set(
            e, ISO_E_BUSY,
            "%s is not empty (%s): give another --out, --resume to go on with it, or --force to replace it", f->path,
            c.results ? "it holds a run" : c.other);
    if (mode == ISO_RUN_RESUME && c.results == 0 && c.others > 0)
        return iso_error_set(e, ISO_E_BUSY, "%s holds no run to resume (but %s); give the run's own folder", f->path,
                             c.other);
    iso_replace trial;
    result = iso_replace_begin(&trial, f, "write-test", e);
    if (result == 0)
        result = iso_replace_write(&trial, "", 1, e);
    iso_replace_abort(&trial);
    return result;
}

int iso_run_open(iso_run *f, const char *path, iso_run_mode mode, const iso_train_faults *faults, const iso_alloc *a,
                 iso_error *e)
{
    *f = (iso_run){.fd = -1, .alloc = a, .faults = faults};
    if (!*path)
        return iso_error_set(e, ISO_E_ARGUMENT, "the run folder has no name; give one with --out DIR");
    f->path = iso_strdup(a, path);
    char *work = iso_new_raw(a, strlen(path) + 1, 1);
    int result = f->path && work ? 0 : iso_error_set(e, ISO_E_NOMEM, "no memory for the name of the run folder");
    if (result == 0)
        result = make_folders(path, work, &f->made, e);
    iso_free(a, work);
    if (result == 0) {
        f->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (f->fd < 0)
            result = iso_run_error(f, "", "the run folder cannot be opened", errno, e);
    }
    if (result == 0)
        result = lock(f, e);
    if (result == 0)
        result = examine(f, mode, e);
    if (result)
        iso_run_close(f);
    return result;
}

void iso_run_close(iso_run *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->made)
        rmdir(f->path); /* fails, as it should, once something is in it */
    iso_free(f->alloc, f->path);
    *f = (iso_run){.fd = -1, .alloc = f->alloc};
}

bool iso_run_has(const iso_run *f, const char *name)
{
    return faccessat(f->fd, name, F_OK, 0) == 0;
}

int iso_run_read(const iso_run *f, const char *name, size_t limit, unsigned char **bytes, size_t *size, iso_error *e)
{
    *bytes = NULL;
    *size = 0;
    int fd = openat(f->fd, name, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return iso_run_error(f, name, "cannot be opened", why, e);
    }
    int result = 0;
    size_t length = (size_t)info.st_size;
    unsigned char *block = NULL;
    if (!S_ISREG(info.st_mode) || info.st_size < 0 || length > limit)
        result = iso_error_set(e, ISO_E_FORMAT, "%s/%s: not a file of at most %zu bytes", f->path, name, limit);
    else if (!(block = iso_new_raw(f->alloc, length + 1, 1)))
        result = iso_error_set(e, ISO_E_NOMEM, "%s/%s: no memory for its %zu bytes", f->path, name, length);
    size_t have = 0;
    while (result == 0 && have < length) {
        ssize_t n = read(fd, block + have, length - have);
        if (n > 0)
            have += (size_t)n;
        else if (n == 0)
            result = iso_error_set(e, ISO_E_IO, "%s/%s: became shorter while it was read", f->path, name);
        else if (errno != EINTR)
            result = iso_run_error(f, name, "reading failed", errno, e);
    }
    close(fd);
    if (result) {
        iso_free(f->alloc, block);
        return result;
    }
    block[length] = 0;
    *bytes = block;
    *size = length;
    return 0;
}

typedef struct rounds_list {
    uint64_t *round;
    size_t count, capacity;
} rounds_list;

static int list_round(void *context, const char *name)
{
    rounds_list *l = context;
    uint64_t round;
    if (iso_checkpoint_round(name, &round)) {
        if (l->count < l->capacity)
            l->round[l->count] = round;
        l->count++;
    }
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

int iso_run_checkpoints(const iso_run *f, uint64_t **rounds, size_t *count, iso_error *e)
{
    *rounds = NULL;
    *count = 0;
    rounds_list l = {0};
    int result = each_entry(f, list_round, &l, e);
    if (result || l.count == 0)
        return result;
    l = (rounds_list){.round = iso_new(f->alloc, l.count, sizeof *l.round), .capacity = l.count};
    if (!l.round)
        return iso_error_set(e, ISO_E_NOMEM, "%s: no memory to list its checkpoints", f->path);
    result = each_entry(f, list_round, &l, e);
    if (l.count > l.capacity)
        l.count = l.capacity; /* the folder is locked; what another program put there meanwhile is not ours */
    if (result) {
        iso_free(f->alloc, l.round);
        return result;
    }
    qsort(l.round, l.count, sizeof *l.round, newest_first);
    *rounds = l.round;
    *count = l.count;
    return 0;
}
