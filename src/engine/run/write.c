/* SPDX-License-Identifier: Apache-2.0
 * Writing into the run folder: files that appear whole or not at all, and journals. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/run/folder.h"

int iso_run_planted(const iso_run *f, iso_file_step step, const char *name)
{
    return f->faults && f->faults->file ? f->faults->file(f->faults->context, step, name) : 0;
}

static int write_all(const iso_run *f, int fd, const char *name, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    int why = iso_run_planted(f, ISO_FILE_WRITE, name);
    while (why == 0 && size > 0) {
        ssize_t n = write(fd, at, size);
        if (n < 0) {
            if (errno != EINTR)
                why = errno;
        } else if (n == 0) {
            why = ENOSPC; /* a write that takes nothing would go on for ever */
        } else {
            at += n;
            size -= (size_t)n;
        }
    }
    return why;
}

static int sync_to_disk(const iso_run *f, int fd, iso_file_step step, const char *name)
{
    int why = iso_run_planted(f, step, name);
    while (why == 0 && fsync(fd) != 0)
        if (errno != EINTR)
            why = errno;
    return why == EINVAL || why == ENOTSUP ? 0 : why; /* pipes and special files cannot be synced */
}

int iso_run_sync_folder(const iso_run *f, int folder)
{
    return sync_to_disk(f, folder, ISO_FILE_SYNC_FOLDER, "");
}

/* The descriptor is closed in any case. */
static int close_file(const iso_run *f, int fd, const char *name)
{
    int why = iso_run_planted(f, ISO_FILE_CLOSE, name);
    if (close(fd) != 0 && errno != EINTR && why == 0)
        why = errno;
    return why;
}

static int replace_failed(iso_replace *r, const char *what, int why, iso_error *e)
{
    iso_replace_abort(r);
    return iso_run_error(r->folder, r->name, what, why, e);
}

int iso_replace_begin(iso_replace *r, iso_run *f, const char *name, iso_error *e)
{
    *r = (iso_replace){.folder = f, .fd = -1};
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->temporary, sizeof r->temporary, ".%s.tmp", name);
    int why = iso_run_planted(f, ISO_FILE_OPEN, name);
    if (why == 0) {
        r->fd = openat(f->fd, r->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
        why = r->fd < 0 ? errno : 0;
    }
    return why ? replace_failed(r, "cannot be made", why, e) : 0;
}

int iso_replace_write(iso_replace *r, const void *bytes, size_t size, iso_error *e)
{
    int why = r->fd < 0 ? EBADF : write_all(r->folder, r->fd, r->name, bytes, size);
    return why ? replace_failed(r, "writing failed", why, e) : 0;
}

int iso_replace_commit(iso_replace *r, iso_error *e)
{
    const iso_run *f = r->folder;
    int why = r->fd < 0 ? EBADF : sync_to_disk(f, r->fd, ISO_FILE_SYNC, r->name);
    if (why)
        return replace_failed(r, "writing to the disk failed", why, e);
    int fd = r->fd;
    r->fd = -1;
    why = close_file(f, fd, r->name);
    if (why == 0) {
        why = iso_run_planted(f, ISO_FILE_RENAME, r->name);
        if (why == 0 && renameat(f->fd, r->temporary, f->fd, r->name) != 0)
            why = errno;
    }
    if (why) {
        unlinkat(f->fd, r->temporary, 0);
        return iso_run_error(f, r->name, "closing or renaming failed", why, e);
    }
    why = iso_run_sync_folder(f, f->fd);
    return why ? iso_run_error(f, r->name, "writing the folder to the disk failed", why, e) : 0;
}

void iso_replace_abort(iso_replace *r)
{
    if (r->fd < 0)
        return;
    close(r->fd);
    r->fd = -1;
    unlinkat(r->folder->fd, r->temporary, 0);
}

int iso_run_put(iso_run *f, const char *name, const void *bytes, size_t size, iso_error *e)
{
    iso_replace r;
    int result = iso_replace_begin(&r, f, name, e);
    if (result == 0)
        result = iso_replace_write(&r, bytes, size, e);
    if (result == 0)
        result = iso_replace_commit(&r, e);
    return result;
}

int iso_run_remove(iso_run *f, const char *name, iso_error *e)
{
    int why = iso_run_planted(f, ISO_FILE_REMOVE, name);
    if (why == 0 && unlinkat(f->fd, name, 0) != 0 && errno != ENOENT)
        why = errno;
    return why ? iso_run_error(f, name, "cannot be removed", why, e) : 0;
}

int iso_journal_open(iso_journal *j, iso_run *f, const char *name, uint64_t keep, iso_error *e)
{
    *j = (iso_journal){.folder = f, .fd = -1};
    snprintf(j->name, sizeof j->name, "%s", name);
    int why = iso_run_planted(f, ISO_FILE_OPEN, name);
    if (why == 0) {
        j->fd = openat(f->fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (j->fd < 0 || ftruncate(j->fd, (off_t)keep) != 0)
            why = errno;
    }
    if (why) {
        if (j->fd >= 0)
            close(j->fd);
        j->fd = -1;
        return iso_run_error(f, name, "cannot be opened for writing", why, e);
    }
    return 0;
}

int iso_journal_append(iso_journal *j, const void *bytes, size_t size, iso_error *e)
{
    int why = write_all(j->folder, j->fd, j->name, bytes, size);
    return why ? iso_run_error(j->folder, j->name, "writing failed", why, e) : 0;
}

int iso_journal_sync(iso_journal *j, iso_error *e)
{
    int why = sync_to_disk(j->folder, j->fd, ISO_FILE_SYNC, j->name);
    return why ? iso_run_error(j->folder, j->name, "writing to the disk failed", why, e) : 0;
}

int iso_journal_close(iso_journal *j, iso_error *e)
{
    if (j->fd < 0)
        return 0;
    int fd = j->fd;
    j->fd = -1;
    int why = close_file(j->folder, fd, j->name);
    return why ? iso_run_error(j->folder, j->name, "closing failed", why, e) : 0;
}
