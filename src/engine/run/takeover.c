/* SPDX-License-Identifier: Apache-2.0
 * A new run in the place of an earlier one. The name of the folder that holds the new run's files says how far it is:
 *
 *   .new-run         begun; the earlier run stands, this one may be thrown away
 *   .new-run-stands  its first checkpoint is on the disk: the earlier run's files go
 *   .new-run-moves   they are gone: its own files move up
 *
 * One name becomes the next by a rename. What was done under a name is on the disk before the next one, and a name before
 * anything is done under it. So whatever ends the process, the next one goes on from the name that it finds, and at every
 * moment the files of one whole run are there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/run/folder.h"

static const char begun[] = ISO_RUN_PENDING, stands[] = ISO_RUN_PENDING "-stands", moves[] = ISO_RUN_PENDING "-moves";

typedef struct sweep {
    iso_run *run;
    int from; /* the folder of the names */
    bool up;  /* results move up, else they are removed; temporary files are removed */
    uint32_t done;
    iso_error *e;
} sweep;

static int sweep_one(void *context, const char *name)
{
    sweep *s = context;
    const iso_run *f = s->run;
    bool result = iso_run_is_result(name), move = result && s->up;
    if (!result && !iso_run_is_temporary(name))
        return 0;
    int why = iso_run_planted(f, move ? ISO_FILE_RENAME : ISO_FILE_REMOVE, name);
    if (why == 0 && (move ? renameat(s->from, name, f->root, name) : unlinkat(s->from, name, 0)) != 0)
        why = errno;
    s->done++;
    return why ? iso_run_error(f, name, move ? "cannot be moved into the run folder" : "cannot be removed", why, s->e) : 0;
}

/* Until none is left: a folder that changes while it is listed need not show all names. */
static int sweep_all(iso_run *f, int from, bool up, iso_error *e)
{
    sweep s = {.run = f, .from = from, .up = up, .e = e};
    int result;
    do {
        s.done = 0;
        result = iso_run_each(f, from, sweep_one, &s, e);
    } while (result == 0 && s.done);
    return result;
}

static int sync_folder(iso_run *f, iso_error *e)
{
    int why = iso_run_sync_folder(f, f->root);
    return why ? iso_run_error(f, "", "writing the folder to the disk failed", why, e) : 0;
}

static int rename_folder(iso_run *f, const char *from, const char *to, iso_error *e)
{
    int why = iso_run_planted(f, ISO_FILE_RENAME, from);
    if (why == 0 && renameat(f->root, from, f->root, to) != 0)
        why = errno;
    return why ? iso_run_error(f, from, "cannot be renamed", why, e) : 0;
}

static bool has(int folder, const char *name)
{
    return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int open_inner(const iso_run *f, const char *name)
{
    return openat(f->root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int move_up(iso_run *f, iso_error *e)
{
    int from = open_inner(f, moves);
    if (from < 0)
        return iso_run_error(f, moves, "cannot be opened", errno, e);
    int result = sync_folder(f, e); /* its name; then what it held */
    if (result == 0)
        result = sweep_all(f, from, true, e);
    if (result == 0)
        result = sync_folder(f, e);
    close(from);
    if (result == 0 && unlinkat(f->root, moves, AT_REMOVEDIR) != 0)
        result = iso_run_error(f, moves, "cannot be removed", errno, e);
    return result;
}

static int remove_earlier(iso_run *f, iso_error *e)
{
    int result = sync_folder(f, e);
    if (result == 0)
        result = sweep_all(f, f->root, false, e);
    if (result == 0)
        result = sync_folder(f, e);
    return result ? result : rename_folder(f, stands, moves, e);
}

/* From whichever name there is to the end. */
static int finish(iso_run *f, iso_error *e)
{
    int result = !has(f->root, moves) && has(f->root, stands) ? remove_earlier(f, e) : 0;
    return result == 0 && has(f->root, moves) ? move_up(f, e) : result;
}

int iso_run_take_over(iso_run *f, iso_error *e)
{
    if (!iso_run_is_pending(f))
        return 0;
    int result = rename_folder(f, begun, stands, e);
    if (result)
        return result;
    close(f->fd); /* open journals go with their files */
    f->fd = f->root;
    return finish(f, e);
}

/* ---- a run that is pending ----------------------------------------------------------------------------- */

/* Removes what a pending run wrote, and its folder unless somebody else put something there. */
static int throw_away(iso_run *f, int from, iso_error *e)
{
    int result = sweep_all(f, from, false, e);
    if (result == 0)
        unlinkat(f->root, begun, AT_REMOVEDIR);
    return result;
}

int iso_run_settle(iso_run *f, iso_error *e)
{
    int result = finish(f, e), from = result ? -1 : open_inner(f, begun);
    if (from >= 0) {
        result = throw_away(f, from, e);
        close(from);
    }
    return result;
}

int iso_run_begin_pending(iso_run *f, iso_error *e)
{
    int why = iso_run_planted(f, ISO_FILE_OPEN, begun);
    if (why == 0 && mkdirat(f->root, begun, 0777) != 0 && errno != EEXIST)
        why = errno;
    int fd = why ? -1 : open_inner(f, begun);
    if (why == 0 && fd < 0)
        why = errno;
    if (why)
        return iso_run_error(f, begun, "the folder cannot be made", why, e);
    f->fd = fd;
    return 0;
}

void iso_run_end_pending(iso_run *f)
{
    if (!f->keep)
        throw_away(f, f->fd, NULL); /* what cannot be removed now, the next call removes */
    close(f->fd);
    f->fd = f->root;
}

/* ---- for readers --------------------------------------------------------------------------------------- */

int iso_run_look(const char *path, const iso_alloc *a, iso_error *e)
{
    int why, folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool cut = folder >= 0 && (has(folder, stands) || has(folder, moves));
    if (folder >= 0)
        close(folder);
    if (!cut)
        return 0;
    iso_run f = {.root = -1, .fd = -1, .alloc = a, .path = iso_strdup(a, path)};
    if (!f.path)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for the name of the run folder");
    int result = iso_run_enter(&f, &why, e);
    if (result == ISO_E_BUSY)
        result = 0; /* a run is just doing it */
    else if (result == 0 && f.unlocked)
        result = iso_error_set(e, ISO_E_BUSY, "without locks on this file system, it may be that a run is at it; train --resume does it");
    else if (result == 0)
        result = finish(&f, e);
    if (result)
        iso_error_prefix(e, "files of the run in %s have still to move there out of %s or %s inside: ", path, stands, moves);
    iso_run_close(&f);
    return result;
}
