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

#define ENTER_TRIES 100 /* of a folder that others make and remove at the same time */

static const char *const own_files[] = {"job.yaml",          "metrics.jsonl",    "events.jsonl", "summary.json",
                                        "model.safetensors", ISO_BEST_NAME,      "latest",       "trace.json"};

static const char checkpoint_head[] = "checkpoint-", checkpoint_tail[] = ".safetensors";

int iso_run_error(const iso_run *f, const char *name, const char *what, int errno_value, iso_error *e)
{
    char reason[128];
    const char *text = strerror_r(errno_value, reason, sizeof reason), *hint = "";
    if (errno_value == ENOSPC || errno_value == EDQUOT)
        hint = iso_run_is_pending(f) ? "; free space and begin again: the earlier run stands" : "; free space, then go on with --resume";
    return iso_error_set(e, ISO_E_IO, "%s%s%s%s: %s: %s%s", f->path, iso_run_is_pending(f) ? "/" ISO_RUN_PENDING : "", *name ? "/" : "",
                         name, what, text, hint);
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

bool iso_run_is_result(const char *name)
{
    uint64_t round;
    for (size_t i = 0; i < sizeof own_files / sizeof own_files[0]; i++)
        if (strcmp(name, own_files[i]) == 0)
            return true;
    return iso_checkpoint_round(name, &round);
}

bool iso_run_is_temporary(const char *name)
{
    size_t length = strlen(name);
    char inner[ISO_CHECKPOINT_NAME_MAX];
    if (length < 6 || length - 5 >= sizeof inner || name[0] != '.' || strcmp(name + length - 4, ".tmp") != 0)
        return false;
    memcpy(inner, name + 1, length - 5);
    inner[length - 5] = 0;
    return iso_run_is_result(inner) || strcmp(inner, "write-test") == 0;
}

int iso_run_each(const iso_run *f, int folder, int (*each)(void *context, const char *name), void *context, iso_error *e)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int why = errno;
        if (fd >= 0)
            close(fd);
        return iso_run_error(f, "", "the folder cannot be listed", why, e);
    }
    int result = 0;
    while (result == 0) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno)
                result = iso_run_error(f, "", "the folder cannot be listed", errno, e);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            result = each(context, entry->d_name);
    }
    closedir(dir);
    return result;
}

typedef struct census {
    iso_run *folder;
    uint32_t results, others;
    char other[256]; /* one of the others */
    iso_error *e;
} census;

static int count_and_sweep(void *context, const char *name)
{
    census *c = context;
    struct stat info;
    if (iso_run_is_temporary(name))
        return iso_run_remove(c->folder, name, c->e);
    if (!iso_run_is_result(name)) {
        if (c->others++ == 0)
            snprintf(c->other, sizeof c->other, "%s", name);
        return 0;
    }
    c->results++;
    if (fstatat(c->folder->fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode))
        return iso_error_set(c->e, ISO_E_BUSY,
                             "%s/%s is a folder, and a run writes a file of this name: move it away or give another --out",
                             c->folder->path, name);
    return 0;
}

/* ---- entering and leaving ------------------------------------------------------------------------------ */

/* The next end of a part of the path after `at`: the place of a '/' or the end. */
static size_t part_end(const char *path, size_t at)
{
    do
        at++;
    while (path[at] != '/' && path[at] != 0);
    return at;
}

/* Makes path and its parents; work has room for it. Errors: ISO_E_IO, ISO_E_BUSY when a file has its name; *why is ENOENT when
 * somebody else removed a parent meanwhile. */
static int make_folders(iso_run *f, char *work, int *why, iso_error *e)
{
    const char *path = f->path;
    struct stat info;
    *why = 0;
    for (size_t i = 0; path[i];) {
        i = part_end(path, i);
        memcpy(work, path, i);
        work[i] = 0;
        if (mkdir(work, 0777) == 0) {
            if (f->made == 0 || i < f->made)
                f->made = i;
            continue;
        }
        *why = errno;
        bool there = stat(work, &info) == 0;
        if (*why == EEXIST && !there) /* removed since, or a link to nothing */
            *why = errno;
        if (!there || (*why != EEXIST && !S_ISDIR(info.st_mode)))
            return iso_error_set(e, ISO_E_IO, "the run folder %s cannot be made: %s: %s; give another --out", path, work,
                                 strerror_r(*why, (char[128]){0}, 128));
        if (!S_ISDIR(info.st_mode))
            return iso_error_set(e, path[i] ? ISO_E_IO : ISO_E_BUSY,
                                 "%s is a file, not a folder: the run folder %s cannot be made; give another --out", work, path);
    }
    return 0;
}

/* Removes what make_folders made, as far as it is empty. */
static void remove_made(iso_run *f)
{
    size_t i = f->made ? strlen(f->path) : 0;
    for (; i >= f->made && i > 0; i--) {
        if (f->path[i] != '/' && f->path[i] != 0)
            continue;
        f->path[i] = 0;
        if (rmdir(f->path) != 0 && errno != ENOENT)
            return;
    }
}

static int lock(iso_run *f, iso_error *e)
{
    int why = iso_run_planted(f, ISO_FILE_LOCK, "");
    while (why == 0 && flock(f->root, LOCK_EX | LOCK_NB) != 0)
        if (errno != EINTR)
            why = errno;
    if (why == EWOULDBLOCK) {
        f->made = 0; /* it is the other one's now */
        return iso_error_set(e, ISO_E_BUSY, "%s is in use by another run; wait for it or give another --out", f->path);
    }
    f->unlocked = why != 0; /* some network file systems have no locks on folders */
    return 0;
}

/* Is the open and locked folder still the one of that name? A call that had made it may have removed it again. */
static bool has_its_name(const iso_run *f)
{
    struct stat open_one, named;
    return fstat(f->root, &open_one) == 0 && stat(f->path, &named) == 0 && open_one.st_dev == named.st_dev &&
           open_one.st_ino == named.st_ino;
}

int iso_run_enter(iso_run *f, int *why, iso_error *e)
{
    f->fd = f->root = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *why = f->root < 0 ? errno : 0;
    if (*why) /* closed to us: somebody else's */
        return iso_error_set(e, *why == EACCES ? ISO_E_BUSY : ISO_E_IO, "%s: the run folder cannot be opened: %s", f->path,
                             strerror_r(*why, (char[128]){0}, 128));
    return lock(f, e);
}

static int make_and_enter(iso_run *f, char *work, iso_error *e)
{
    for (int tries = 1;; tries++) {
        int why, result = make_folders(f, work, &why, e);
        if (result == 0)
            result = iso_run_enter(f, &why, e);
        bool gone = result ? why == ENOENT : !has_its_name(f);
        if (!gone || tries == ENTER_TRIES)
            return result;
        if (f->root >= 0)
            close(f->root);
        f->root = f->fd = -1;
    }
}

/* May a run of this mode have the folder as it is? */
static int examine(iso_run *f, iso_run_mode mode, census *c, iso_error *e)
{
    int result = iso_run_each(f, f->root, count_and_sweep, c, e);
    if (result)
        return result;
    if (mode == ISO_RUN_NEW && c->results + c->others > 0)
        return iso_error_set(e, ISO_E_BUSY,
                             "%s is not empty (%s): give another --out, --resume to go on with it, or --force to replace it", f->path,
                             c->results ? "it holds a run" : c->other);
    if (mode == ISO_RUN_NEW && f->unlocked && !f->made)
        return iso_error_set(e, ISO_E_BUSY,
                             "%s is there already, and this file system has no locks: another run may just begin in it; give another "
                             "--out, or --force to use it",
                             f->path);
    if (mode == ISO_RUN_RESUME && c->results == 0 && c->others > 0)
        return iso_error_set(e, ISO_E_BUSY, "%s holds no run to resume (but %s); give the run's own folder", f->path, c->other);
    return 0;
}

/* Proves that files can be written. */
static int write_test(iso_run *f, iso_error *e)
{
    iso_replace trial;
    int result = iso_replace_begin(&trial, f, "write-test", e);
    if (result == 0)
        result = iso_replace_write(&trial, "", 1, e);
    iso_replace_abort(&trial);
    return result;
}

int iso_run_open(iso_run *f, const char *path, iso_run_mode mode, const iso_train_faults *faults, const iso_alloc *a,
                 iso_error *e)
{
    *f = (iso_run){.root = -1, .fd = -1, .alloc = a, .faults = faults};
    if (!*path)
        return iso_error_set(e, ISO_E_ARGUMENT, "the run folder has no name; give one with --out DIR");
    f->path = iso_strdup(a, path);
    char *work = iso_new_raw(a, strlen(path) + 1, 1);
    census c = {.folder = f, .e = e};
    int result = f->path && work ? 0 : iso_error_set(e, ISO_E_NOMEM, "no memory for the name of the run folder");
    if (result == 0)
        result = make_and_enter(f, work, e);
    iso_free(a, work);
    if (result == 0)
        result = iso_run_settle(f, e);
    if (result == 0)
        result = examine(f, mode, &c, e);
    if (result == 0 && mode == ISO_RUN_FORCE && c.results)
        result = iso_run_begin_pending(f, e);
    if (result == 0)
        result = write_test(f, e);
    if (result)
        iso_run_close(f);
    return result;
}

void iso_run_close(iso_run *f)
{
    if (iso_run_is_pending(f))
        iso_run_end_pending(f);
    if (f->path)
        remove_made(f); /* while it is locked: who waits for it sees that it is gone */
    if (f->root >= 0)
        close(f->root);
    iso_free(f->alloc, f->path);
    *f = (iso_run){.root = -1, .fd = -1, .alloc = f->alloc};
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
    int result = iso_run_each(f, f->fd, list_round, &l, e);
    if (result || l.count == 0)
        return result;
    l = (rounds_list){.round = iso_new(f->alloc, l.count, sizeof *l.round), .capacity = l.count};
    if (!l.round)
        return iso_error_set(e, ISO_E_NOMEM, "%s: no memory to list its checkpoints", f->path);
    result = iso_run_each(f, f->fd, list_round, &l, e);
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
