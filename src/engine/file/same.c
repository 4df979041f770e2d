/* SPDX-License-Identifier: Apache-2.0
 * Two files side by side: do they hold the same, compressed or not? */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "engine/file/file.h"

#define PIECE 65536u /* bytes of each file */

static int open_failed(const char *path, iso_error *e)
{
    int why = errno; /* 0: zlib had no memory */
    return why ? iso_error_set(e, ISO_E_IO, "%s: cannot be opened: %s", path, strerror(why))
               : iso_error_set(e, ISO_E_NOMEM, "%s: out of memory", path);
}

/* Up to PIECE bytes; *got is less at the end alone. zlib passes what is not gzip through. */
static int read_piece(gzFile file, const char *path, void *piece, unsigned *got, iso_error *e)
{
    errno = 0;
    int n = gzread(file, piece, PIECE), code = Z_OK;
    int why = errno;
    const char *text = gzerror(file, &code);
    *got = n > 0 ? (unsigned)n : 0;
    if (n >= 0 && (code == Z_OK || code == Z_STREAM_END))
        return ISO_OK;
    if (code == Z_ERRNO)
        return iso_error_set(e, ISO_E_IO, "%s: cannot be read: %s", path, strerror(why));
    if (code == Z_MEM_ERROR)
        return iso_error_set(e, ISO_E_NOMEM, "%s: out of memory while decompressing", path);
    return iso_error_set(e, ISO_E_FORMAT, "%s: damaged gzip data: %s", path, text);
}

static int compare(gzFile f, const char *one, gzFile g, const char *other, uint8_t *memory, bool *same, iso_error *e)
{
    for (unsigned n = PIECE, m = PIECE; *same && n == PIECE;) {
        int r = read_piece(f, one, memory, &n, e);
        if (r == ISO_OK)
            r = read_piece(g, other, memory + PIECE, &m, e);
        if (r != ISO_OK)
            return r;
        *same = n == m && memcmp(memory, memory + PIECE, n) == 0;
    }
    return ISO_OK;
}

int iso_file_same(const char *one, const char *other, const iso_alloc *a, bool *same, iso_error *e)
{
    uint8_t *memory = iso_new_raw(a, 2 * PIECE, 1);
    *same = true;
    if (!memory)
        return iso_error_set(e, ISO_E_NOMEM, "%s: out of memory", one);
    errno = 0;
    gzFile f = gzopen(one, "rbe"), g = NULL;
    int r = f ? ISO_OK : open_failed(one, e);
    if (r == ISO_OK) {
        errno = 0;
        g = gzopen(other, "rbe");
        r = g ? compare(f, one, g, other, memory, same, e) : open_failed(other, e);
    }
    if (f)
        gzclose_r(f);
    if (g)
        gzclose_r(g);
    iso_free(a, memory);
    return r;
}
