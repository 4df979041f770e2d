/* SPDX-License-Identifier: Apache-2.0
 * Proves: files, pipes and standard input are read whole; gzip is known by content and checked to the last byte (every
 * cut, every changed byte); folders are listed in byte order; errors name the path and the reason; every allocation
 * failure is survived. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "engine/file/file.h"

static void expect_bytes(const iso_bytes *b, const void *right, size_t size)
{
    assert_int_equal(b->size, size);
    if (size)
        assert_memory_equal(b->bytes, right, size);
}

static void files_are_read_whole(void **state)
{
    (void)state;
    char *folder = scratch_make();
    static const size_t sizes[] = {0, 1, 4095, 4096, 65536, 65537, 1000000};
    uint8_t *content = malloc(1000000);
    for (size_t i = 0; i < 1000000; i++)
        content[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        const char *path = scratch_path(folder, "file");
        scratch_write(path, content, sizes[i]);
        iso_bytes b;
        iso_error e;
        test_heap heap;
        test_heap_init(&heap, 0);
        assert_int_equal(iso_file_read(path, 0, &heap.alloc, &b, &e), ISO_OK);
        expect_bytes(&b, content, sizes[i]);
        assert_true(heap.largest <= sizes[i] + 65537);
        iso_bytes_release(&b);
        test_heap_expect_empty(&heap);
        if (sizes[i] > 0) { /* one byte too many */
            assert_int_equal(iso_file_read(path, sizes[i] - 1 ? sizes[i] - 1 : 1, NULL, &b, &e),
                             sizes[i] > 1 ? ISO_E_FORMAT : ISO_OK);
            iso_bytes_release(&b);
            assert_int_equal(iso_file_read(path, sizes[i], NULL, &b, &e), ISO_OK);
            iso_bytes_release(&b);
        }
    }
    free(content);
    scratch_remove(folder);
}

static void large_files_are_mapped(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const char *path = scratch_path(folder, "sparse");
    size_t size = ((size_t)256 << 20) + 1; /* takes no room on the disk */
    scratch_write(path, "begin", 5);
    assert_int_equal(truncate(path, (off_t)size), 0);
    test_heap heap;
    test_heap_init(&heap, 0);
    iso_bytes b;
    iso_error e;
    assert_int_equal(iso_file_read(path, 0, &heap.alloc, &b, &e), ISO_OK);
    assert_int_equal(heap.calls, 0);
    assert_int_equal(b.size, size);
    assert_memory_equal(b.bytes, "begin", 6);
    assert_int_equal(b.bytes[size - 1], 0);
    iso_bytes_release(&b);
    assert_int_equal(iso_file_read(path, size - 1, &heap.alloc, &b, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "at most 268435456 are read");
    scratch_remove(folder);
}

/* A process that writes the bytes into a pipe; returns the reading end. */
static int pipe_of(const void *bytes, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        const char *p = bytes;
        while (size) {
            ssize_t done = write(ends[1], p, size < 1000 ? size : 1000);
            if (done <= 0)
                _exit(1);
            p += done;
            size -= (size_t)done;
        }
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

static void pipes_and_standard_input_are_read_whole(void **state)
{
    (void)state;
    size_t size = 300000;
    uint8_t *content = malloc(size);
    for (size_t i = 0; i < size; i++)
        content[i] = (uint8_t)(i * 13);
    iso_bytes b;
    iso_error e;
    for (int way = 0; way < 3; way++) {
        int end = pipe_of(content, size), kept = dup(STDIN_FILENO);
        char path[64];
        snprintf(path, sizeof path, "/dev/fd/%d", end);
        if (way > 0)
            assert_int_equal(dup2(end, STDIN_FILENO), STDIN_FILENO);
        int status = iso_file_read(way > 0 ? "-" : path, way == 2 ? size - 1 : 0, NULL, &b, &e);
        if (way == 2) {
            assert_int_equal(status, ISO_E_FORMAT);
            test_expect_word(e.text, "standard input: larger than 299999 bytes");
        } else {
            assert_int_equal(status, ISO_OK);
            expect_bytes(&b, content, size);
            iso_bytes_release(&b);
        }
        close(end);
        dup2(kept, STDIN_FILENO);
        close(kept);
    }
    free(content);
}

static void errors_name_path_and_reason(void **state)
{
    (void)state;
    char *folder = scratch_make();
    iso_bytes b;
    iso_error e;
    const char *missing = scratch_path(folder, "missing");
    assert_int_equal(iso_file_read(missing, 0, NULL, &b, &e), ISO_E_IO);
    test_expect_word(e.text, missing);
    test_expect_word(e.text, "No such file");
    assert_int_equal(iso_file_read(folder, 0, NULL, &b, &e), ISO_E_IO);
    test_expect_word(e.text, "is a folder, a file is wanted");
    const char *under = scratch_path(folder, "file/x");
    scratch_write(scratch_path(folder, "file"), "x", 1);
    assert_int_equal(iso_file_read(under, 0, NULL, &b, &e), ISO_E_IO);
    test_expect_word(e.text, "Not a directory");
    iso_listing l;
    assert_int_equal(iso_folder_list(missing, NULL, &l, &e), ISO_E_IO);
    test_expect_word(e.text, missing);
    assert_int_equal(iso_path_kind_of(missing), ISO_PATH_MISSING);
    assert_int_equal(iso_path_kind_of(folder), ISO_PATH_FOLDER);
    assert_int_equal(iso_path_kind_of(scratch_path(folder, "file")), ISO_PATH_FILE);
    assert_int_equal(iso_path_kind_of("/dev/null"), ISO_PATH_OTHER);
    assert_int_equal(iso_file_read("/proc/self/mem", 0, NULL, &b, &e),
                     ISO_E_IO); /* opens, but address 0 cannot be read */
    test_expect_word(e.text, "/proc/self/mem: cannot be read: Input/output error");
    if (geteuid() != 0) {
        const char *locked = scratch_path(folder, "locked");
        scratch_write(locked, "x", 1);
        chmod(locked, 0);
        assert_int_equal(iso_file_read(locked, 0, NULL, &b, &e), ISO_E_IO);
        test_expect_word(e.text, "Permission denied");
    }
    scratch_remove(folder);
}

static void gzip_is_known_by_content(void **state)
{
    (void)state;
    size_t size;
    uint8_t *right = test_case_read("idx/ok-images-idx3-ubyte", &size);
    static const struct {
        const char *name;
        bool gzip;
    } cases[] = {{"idx/ok.gz", true}, {"idx/gz-without-ext", true}, {"idx/plain-named.gz", false}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char path[512];
        iso_bytes b;
        iso_error e;
        bool gzip = !cases[i].gzip;
        assert_int_equal(iso_file_load(test_case_path(cases[i].name, path), 0, NULL, NULL, &b, &gzip, &e), ISO_OK);
        assert_int_equal(gzip, cases[i].gzip);
        expect_bytes(&b, right, size);
        iso_bytes_release(&b);
    }
    char path[512];
    iso_bytes b;
    iso_error e;
    assert_int_equal(iso_file_load(test_case_path("idx/trailing-garbage.gz", path), 0, NULL, NULL, &b, NULL, &e),
                     ISO_E_FORMAT);
    test_expect_word(e.text, "trailing-garbage.gz: 3 bytes behind the end of the gzip data (byte 42)");
    assert_null(b.bytes);
    free(right);
}

static int gunzip(const void *bytes, size_t size, size_t max, iso_bytes *out, iso_error *e)
{
    test_bytes copy = test_bytes_copy(bytes, size);
    e->text[0] = '\0';
    int status = iso_gunzip(copy.bytes, copy.size, "f.gz", max, NULL, out, e);
    test_bytes_free(&copy);
    return status;
}

static void members_are_joined(void **state)
{
    (void)state;
    test_bytes one = test_gzip("first,", 6), two = test_gzip("second", 6), none = test_gzip("", 0);
    test_bytes all = {NULL, 0};
    test_put(&all, one.bytes, one.size);
    test_put(&all, none.bytes, none.size);
    test_put(&all, two.bytes, two.size);
    iso_bytes b;
    iso_error e;
    assert_int_equal(gunzip(all.bytes, all.size, 0, &b, &e), ISO_OK);
    expect_bytes(&b, "first,second", 12);
    iso_bytes_release(&b);
    test_put(&all, "\0\0\0", 3); /* padding, as tapes have it */
    assert_int_equal(gunzip(all.bytes, all.size, 0, &b, &e), ISO_OK);
    iso_bytes_release(&b);
    test_put(&all, "\x1f\x8b", 2); /* a member that only begins */
    assert_int_equal(gunzip(all.bytes, all.size, 0, &b, &e), ISO_E_FORMAT);
    /* A second member that is cut is an error, not the first member alone. */
    assert_int_equal(gunzip(all.bytes, one.size + 12, 0, &b, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "cut");
    test_bytes_free(&all);
    test_bytes_free(&one);
    test_bytes_free(&two);
    test_bytes_free(&none);
}

static void damage_is_found(void **state)
{
    (void)state;
    uint8_t text[400];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * i / 7);
    test_bytes z = test_gzip(text, sizeof text);
    iso_bytes b;
    iso_error e;
    for (size_t cut = 2; cut < z.size; cut++) {
        if (gunzip(z.bytes, cut, 0, &b, &e) != ISO_E_FORMAT)
            fail_msg("cut at %zu of %zu loads", cut, z.size);
        test_expect_word(e.text, "f.gz: the gzip file is cut: it ends at byte");
    }
    for (size_t at = 0; at < z.size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            z.bytes[at] = (uint8_t)(z.bytes[at] ^ 1 << bit);
            int status = gunzip(z.bytes, z.size, 0, &b, &e);
            if (status ==
                ISO_OK) { /* only where nothing depends on it: flags and time, padding of the first and the last byte */
                assert_true((at >= 3 && at <= 10) || at == z.size - 9);
                expect_bytes(&b, text, sizeof text);
            } else {
                assert_int_equal(status, ISO_E_FORMAT);
                assert_true(strlen(e.text) > 10);
            }
            iso_bytes_release(&b);
            z.bytes[at] = (uint8_t)(z.bytes[at] ^ 1 << bit);
        }
    }
    z.bytes[z.size - 8] ^= 1;
    assert_int_equal(gunzip(z.bytes, z.size, 0, &b, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "incorrect data check");
    test_bytes_free(&z);
}

static void the_size_is_bounded(void **state)
{
    (void)state;
    size_t size = 10000000;
    uint8_t *zeros = calloc(size, 1);
    test_bytes z = test_gzip(zeros, size); /* about 10 KB: the highest ratio there is */
    iso_bytes b;
    iso_error e;
    assert_int_equal(gunzip(z.bytes, z.size, 0, &b, &e), ISO_OK);
    expect_bytes(&b, zeros, size);
    iso_bytes_release(&b);
    assert_int_equal(gunzip(z.bytes, z.size, size, &b, &e), ISO_OK);
    iso_bytes_release(&b);
    assert_int_equal(gunzip(z.bytes, z.size, size - 1, &b, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "more than 9999999 bytes when decompressed");
    for (int i = 1; i <= 4; i++) /* a trailer that lies does not make the heap grow */
        z.bytes[z.size - (size_t)i] = 0xFF;
    test_heap heap;
    test_heap_init(&heap, 0);
    assert_int_equal(iso_gunzip(z.bytes, z.size, "f", 0, &heap.alloc, &b, &e), ISO_E_FORMAT);
    assert_true(heap.largest < 2 * size);
    test_heap_expect_empty(&heap);
    test_bytes_free(&z);
    free(zeros);
}

static void folders_are_listed_in_byte_order(void **state)
{
    (void)state;
    char *folder = scratch_make();
    static const char *const names[] = {".hidden", "1", "10", "2", "B", "_", "a", "b", "\xC3\xA4"};
    for (size_t i = TEST_COUNT(names); i-- > 0;)
        scratch_write(scratch_path(folder, names[i]), "", 0);
    iso_listing l;
    iso_error e;
    assert_int_equal(iso_folder_list(folder, NULL, &l, &e), ISO_OK);
    assert_int_equal(l.count, TEST_COUNT(names));
    for (size_t i = 0; i < l.count; i++)
        assert_string_equal(l.name[i], names[i]);
    iso_listing_free(&l);
    iso_listing_free(&l);
    char *empty = scratch_make();
    assert_int_equal(iso_folder_list(empty, NULL, &l, &e), ISO_OK);
    assert_int_equal(l.count, 0);
    iso_listing_free(&l);
    scratch_remove(empty);
    scratch_remove(folder);
    static const char *const paths[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"a//", "b", "a/b"}, {".", "b", "./b"}};
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        char *path = iso_path_join(NULL, paths[i][0], paths[i][1]);
        assert_string_equal(path, paths[i][2]);
        iso_free(NULL, path);
    }
    assert_string_equal(iso_path_name("a/b"), "b");
    assert_string_equal(iso_path_name("b"), "b");
    assert_string_equal(iso_path_name("/b"), "b");
}

static int list_for_allocations(const iso_alloc *a, void *context)
{
    iso_listing l;
    iso_error e;
    int status = iso_folder_list(context, a, &l, &e);
    iso_listing_free(&l);
    return status;
}

static int load_for_allocations(const iso_alloc *a, void *context)
{
    iso_bytes b;
    iso_error e;
    int status = iso_file_load(context, 0, NULL, a, &b, NULL, &e);
    iso_bytes_release(&b);
    return status;
}

static void every_allocation_failure_is_survived(void **state)
{
    (void)state;
    char path[512];
    assert_true(test_every_allocation(list_for_allocations, (void *)(uintptr_t)test_case_path("idx", path)) > 10);
    assert_true(test_every_allocation(load_for_allocations, (void *)(uintptr_t)test_case_path("idx/ok.gz", path)) >= 3);
}

/* What gives bytes without end is refused soon; a device that ends is read. */
static void devices_are_bounded(void **state)
{
    (void)state;
    iso_bytes b;
    iso_error e;
    test_heap heap;
    test_heap_init(&heap, 0);
    assert_int_equal(iso_file_load("/dev/zero", 0, NULL, &heap.alloc, &b, NULL, &e), ISO_E_FORMAT);
    assert_non_null(strstr(e.text, "/dev/zero: larger than 1048576 bytes"));
    assert_true(heap.largest <= 4 * ISO_DEVICE_MAX);
    test_heap_expect_empty(&heap);
    assert_int_equal(iso_file_load("/dev/null", 0, NULL, NULL, &b, NULL, &e), ISO_OK);
    expect_bytes(&b, "", 0);
    iso_bytes_release(&b);
}

static atomic_int stop_flag;

static void on_alarm(int number)
{
    atomic_store(&stop_flag, number);
}

/* A named pipe nobody writes to, and one that somebody holds open in silence: a signal that sets the flag ends the wait. */
static void a_stop_ends_the_wait(void **state)
{
    (void)state;
    char *folder = scratch_make();
    const char *path = scratch_path(folder, "pipe");
    iso_bytes b;
    iso_error e;
    assert_int_equal(mkfifo(path, 0600), 0);
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm; /* no SA_RESTART */
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    for (int held = 0; held < 2; held++) {
        int other = held ? open(path, O_RDWR) : -1;
        atomic_store(&stop_flag, 0);
        struct itimerval soon = {.it_interval = {0, 20000}, .it_value = {0, 20000}}, never = {.it_value = {0, 0}};
        setitimer(ITIMER_REAL, &soon, NULL);
        int status = iso_file_load(path, 0, &stop_flag, NULL, &b, NULL, &e);
        setitimer(ITIMER_REAL, &never, NULL);
        assert_int_equal(status, ISO_E_INTERRUPTED);
        assert_non_null(strstr(e.text, path));
        if (other >= 0)
            close(other);
    }
    sigaction(SIGALRM, &before, NULL);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_whole),
        cmocka_unit_test(large_files_are_mapped),
        cmocka_unit_test(pipes_and_standard_input_are_read_whole),
        cmocka_unit_test(errors_name_path_and_reason),
        cmocka_unit_test(gzip_is_known_by_content),
        cmocka_unit_test(members_are_joined),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(the_size_is_bounded),
        cmocka_unit_test(folders_are_listed_in_byte_order),
        cmocka_unit_test(every_allocation_failure_is_survived),
        cmocka_unit_test(devices_are_bounded),
        cmocka_unit_test(a_stop_ends_the_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
