/* SPDX-License-Identifier: Apache-2.0
 * Whole files as bytes. Small files are read, so that nobody can change them under a run; large ones are mapped, so
 * that they need not fit in memory beside everything else. */
#include "engine/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "engine/machine/memory.h"

#define MAP_FROM ((size_t)256 << 20) /* bytes */
#define PIPE_CHUNK ((size_t)1 << 16)

static int io_failed(const char *path, const char *what, iso_error *e)
{
    return iso_error_set(e, ISO_E_IO, "%s: %s: %s", path, what, strerror(errno));
}

static void release_heap(void *context, const uint8_t *bytes, size_t size)
{
    (void)size;
    iso_free(context, (void *)(uintptr_t)bytes);
}

static void release_map(void *context, const uint8_t *bytes, size_t size)
{
    (void)context;
    munmap((void *)(uintptr_t)bytes, size);
}

static bool is_stopped(const atomic_int *stop)
{
    return stop && atomic_load_explicit(stop, memory_order_relaxed) != 0;
}

static int stopped(const char *path, iso_error *e)
{
    return iso_error_set(e, ISO_E_INTERRUPTED, "stopped while %s was read", path);
}

/* Half of what this process may use: the other half is for what is made of it. */
static size_t memory_share(void)
{
    uint64_t half = iso_memory_allowed() / 2;
    return half < ISO_FILE_MAX ? (size_t)half : ISO_FILE_MAX;
}

/* Fills b up to the end of the file, at most to its limit. */
static int fill(int file, const char *path, const atomic_int *stop, iso_buffer *b, iso_error *e)
{
    for (;;) {
        size_t left = b->limit - b->size;
        if (is_stopped(stop))
            return stopped(path, e);
        if (left == 0)
            return iso_error_set(e, ISO_E_FORMAT, "%s: larger than %zu bytes", path, b->limit - 1);
        if (b->size == b->capacity && !iso_buffer_reserve(b, left < PIPE_CHUNK ? left : PIPE_CHUNK))
            return iso_error_set(e, ISO_E_NOMEM, "%s: out of memory after %zu bytes", path, b->size);
        ssize_t got = read(file, b->bytes + b->size, b->capacity - b->size);
        if (got == 0)
            return ISO_OK;
        if (got > 0)
            b->size += (size_t)got;
        else if (errno != EINTR)
            return io_failed(path, "cannot be read", e);
    }
}

/* Everything up to the end of the file, whatever its kind; expected is a guess of the size. */
static int read_all(int file, const char *path, size_t expected, size_t max, const atomic_int *stop, const iso_alloc *a,
                    iso_bytes *out, iso_error *e)
{
    iso_buffer b;
    iso_buffer_init(&b, a, max + 1); /* the byte too many tells a file that is too large */
    int status = iso_buffer_reserve(&b, expected < max ? expected + 1 : max + 1)
                     ? fill(file, path, stop, &b, e)
                     : iso_error_set(e, ISO_E_NOMEM, "%s: out of memory for %zu bytes", path, expected);
    if (status != ISO_OK)
        iso_buffer_fini(&b);
    else
        *out = (iso_bytes){b.bytes, b.size, release_heap, (void *)(uintptr_t)a};
    return status;
}

/* How much is read of something whose size nobody knows. */
static size_t unknown_max(mode_t mode, size_t max)
{
    size_t most = S_ISCHR(mode) || S_ISBLK(mode) ? ISO_DEVICE_MAX : memory_share();
    return most < max ? most : max;
}

static int read_open(int file, const char *path, size_t max, const atomic_int *stop, const iso_alloc *a, iso_bytes *out,
                     iso_error *e)
{
    struct stat info;
    if (fstat(file, &info) != 0)
        return io_failed(path, "cannot be looked at", e);
    if (S_ISDIR(info.st_mode))
        return iso_error_set(e, ISO_E_IO, "%s: is a folder, a file is wanted", path);
    size_t size = S_ISREG(info.st_mode) && info.st_size > 0 ? (size_t)info.st_size : 0;
    if (size > max)
        return iso_error_set(e, ISO_E_FORMAT, "%s: %zu bytes, at most %zu are read", path, size, max);
    if (size >= MAP_FROM) {
        void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
        if (map != MAP_FAILED) {
            *out = (iso_bytes){map, size, release_map, NULL};
            return ISO_OK;
        }
    }
    if (size)
        return read_all(file, path, size, max, NULL, a, out, e); /* it ends by itself */
    return read_all(file, path, PIPE_CHUNK, unknown_max(info.st_mode, max), stop, a, out, e);
}

static int read_path(const char *path, size_t max, const atomic_int *stop, const iso_alloc *a, iso_bytes *out,
                     iso_error *e)
{
    *out = (iso_bytes){0};
    if (max == 0 || max > ISO_FILE_MAX)
        max = ISO_FILE_MAX;
    if (strcmp(path, "-") == 0)
        return read_open(STDIN_FILENO, "standard input", max, stop, a, out, e);
    int file;
    do
        file = open(path, O_RDONLY | O_CLOEXEC); /* waits for the other end of a named pipe */
    while (file < 0 && errno == EINTR && !is_stopped(stop));
    if (file < 0)
        return is_stopped(stop) ? stopped(path, e) : io_failed(path, "cannot be opened", e);
    int status = read_open(file, path, max, stop, a, out, e);
    close(file);
    return status;
}

int iso_file_read(const char *path, size_t max, const iso_alloc *a, iso_bytes *out, iso_error *e)
{
    return read_path(path, max, NULL, a, out, e);
}

int iso_file_load(const char *path, size_t max, const atomic_int *stop, const iso_alloc *a, iso_bytes *out,
                  bool *was_gzip, iso_error *e)
{
    iso_bytes raw;
    int status = read_path(path, max, stop, a, &raw, e);
    bool gzip = status == ISO_OK && iso_is_gzip(raw.bytes, raw.size);
    if (was_gzip)
        *was_gzip = gzip;
    *out = raw;
    if (gzip) {
        size_t share = memory_share();
        status = iso_gunzip(raw.bytes, raw.size, path, max && max < share ? max : share, a, out, e);
        iso_bytes_release(&raw);
    }
    return status;
}

iso_path_kind iso_path_kind_of(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return ISO_PATH_MISSING;
    return S_ISREG(info.st_mode) ? ISO_PATH_FILE : S_ISDIR(info.st_mode) ? ISO_PATH_FOLDER : ISO_PATH_OTHER;
}
