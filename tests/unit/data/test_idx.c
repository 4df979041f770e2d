/* SPDX-License-Identifier: Apache-2.0
 * Proves: every IDX case of the manifest gets the manifest's answer; every type and rank is read right; every cut,
 * every single-byte change of the header and every allocation failure ends in a value or an error, never in a read
 * beyond the bytes (the address sanitizer watches exactly sized blocks) or an allocation that the size of the file does
 * not prove. */
#include "test.h"

#include <float.h>
#include <math.h>

#include "isochron/data.h"

/* Reads a copy of the bytes; on success *keep holds the copy as long as the set needs it. */
static int read_bytes(const void *bytes, size_t size, iso_role role, test_bytes *keep, iso_dataset *out, iso_error *e)
{
    *keep = test_bytes_copy(bytes, size);
    iso_bytes b = {keep->bytes, keep->size, NULL, NULL};
    e->text[0] = '\0';
    return iso_data_read(&b, &(iso_read_options){.name = "dir/file", .role = role}, NULL, out, e);
}

static int read_case(const char *name, iso_role role, test_bytes *keep, iso_dataset *out, iso_error *e)
{
    size_t size;
    uint8_t *bytes = test_case_read(name, &size);
    int status = read_bytes(bytes, size, role, keep, out, e);
    free(bytes);
    return status;
}

static void expect_error(const char *name, iso_role role, const char *words[])
{
    char answer[256];
    assert_non_null(strstr(test_case_answer(name, answer), "error"));
    test_bytes keep;
    iso_dataset d;
    iso_error e;
    int status = read_case(name, role, &keep, &d, &e);
    if (status != ISO_E_FORMAT)
        fail_msg("%s: status %d; the manifest says %s", name, status, answer);
    test_expect_word(e.text, "dir/file: ");
    for (; *words; words++)
        test_expect_word(e.text, *words);
    assert_null(d.values);
    test_bytes_free(&keep);
}

#define EXPECT_ERROR(name, role, ...) expect_error(name, role, (const char *[]){__VA_ARGS__, NULL})

static void cases_get_the_manifests_answer(void **state)
{
    (void)state;
    EXPECT_ERROR("idx/trunc-images", ISO_ROLE_ANY, "12 bytes wanted", "9 there", "3 x 2 x 2");
    EXPECT_ERROR("idx/header-only", ISO_ROLE_ANY, "short header", "16 bytes wanted", "10 there");
    EXPECT_ERROR("idx/trailing", ISO_ROLE_ANY, "2 bytes left over", "byte 28");
    EXPECT_ERROR("idx/swapped-magic", ISO_ROLE_ANY, "magic", "03 08 00 00", "byte order");
    EXPECT_ERROR("idx/images-as-labels", ISO_ROLE_LABELS, "labels are wanted", "3 dimensions", "3 x 2 x 2");
    EXPECT_ERROR("idx/huge-count", ISO_ROLE_ANY, "4294967295 x 65535 x 65535", "1 byte there");
    EXPECT_ERROR("idx/html-instead.gz", ISO_ROLE_ANY, "3c 68 74 6d", "HTML", "download");
}

static void good_cases_load(void **state)
{
    (void)state;
    static const uint8_t pixels[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    static const char *const images[] = {"idx/ok-images-idx3-ubyte", "idx/images-as-labels", "idx/plain-named.gz"};
    test_bytes keep;
    iso_dataset d;
    iso_error e;
    for (size_t i = 0; i < TEST_COUNT(images); i++) {
        assert_int_equal(read_case(images[i], ISO_ROLE_ANY, &keep, &d, &e), ISO_OK);
        assert_true(d.count == 3 && d.shape.c == 1 && d.shape.h == 2 && d.shape.w == 2 && d.dtype == ISO_U8);
        assert_memory_equal(d.values, pixels, sizeof pixels);
        assert_ptr_equal(d.values, keep.bytes + 16); /* used where it lies */
        assert_memory_equal(iso_dataset_sample(&d, 2), pixels + 8, 4);
        assert_null(d.labels);
        assert_string_equal(d.source, "dir/file: IDX, 3 x 2 x 2, u8");
        iso_dataset_free(&d);
        test_bytes_free(&keep);
    }
    assert_int_equal(read_case("idx/ok-labels-idx1-ubyte", ISO_ROLE_ANY, &keep, &d, &e), ISO_OK);
    assert_true(d.count == 3 && d.classes == 3 && !d.values && d.labels[0] == 0 && d.labels[1] == 1 &&
                d.labels[2] == 2);
    iso_dataset_free(&d);
    test_bytes_free(&keep);
    /* Alone, a label of 9 is fine; a model of 3 classes refuses it and names the item. */
    assert_int_equal(read_case("idx/label-9-of-3", ISO_ROLE_LABELS, &keep, &d, &e), ISO_OK);
    assert_int_equal(d.classes, 10);
    assert_int_equal(iso_dataset_check_labels(&d, 10, &e), ISO_OK);
    assert_int_equal(iso_dataset_check_labels(&d, 3, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "label 9 at item 2, the model has 3 classes");
    iso_dataset_free(&d);
    test_bytes_free(&keep);
}

static void expect_values(uint8_t type, const void *data, size_t bytes, const float *right, uint32_t count)
{
    const uint32_t dim[2] = {count, 1};
    test_bytes file = test_idx(type, 2, dim, data, bytes), keep;
    iso_dataset d;
    iso_error e;
    if (read_bytes(file.bytes, file.size, ISO_ROLE_SAMPLES, &keep, &d, &e) != ISO_OK)
        fail_msg("type %02x: %s", type, e.text);
    assert_true(d.dtype == ISO_F32 && d.count == count);
    assert_memory_equal(d.values, right, count * sizeof *right);
    iso_dataset_free(&d);
    test_bytes_free(&keep);
    test_bytes_free(&file);
}

static void every_type_becomes_floats(void **state)
{
    (void)state;
    expect_values(0x09, "\x80\xff\x00\x7f", 4, (const float[]){-128, -1, 0, 127}, 4);
    expect_values(0x0B, "\x80\x00\xff\xff\x7f\xff", 6, (const float[]){-32768, -1, 32767}, 3);
    expect_values(0x0C, "\x80\x00\x00\x00\x00\x00\x00\x05", 8, (const float[]){-2147483648.f, 5}, 2);
    expect_values(0x0D, "\x3f\x80\x00\x00\xc0\x20\x00\x00", 8, (const float[]){1, -2.5f}, 2);
    expect_values(0x0E, "\x3f\xf8\x00\x00\x00\x00\x00\x00\x3f\xb9\x99\x99\x99\x99\x99\x9a", 16,
                  (const float[]){1.5f, 0.1f}, 2);
}

static void shapes_follow_the_rank(void **state)
{
    (void)state;
    static const uint8_t data[24] = {0};
    static const uint32_t dims[3][4] = {{2, 12}, {2, 3, 4}, {2, 3, 2, 2}};
    static const iso_shape shapes[3] = {{12, 1, 1}, {1, 3, 4}, {3, 2, 2}};
    for (uint32_t rank = 2; rank <= 4; rank++) {
        test_bytes file = test_idx(8, rank, dims[rank - 2], data, 24), keep;
        iso_dataset d;
        iso_error e;
        assert_int_equal(read_bytes(file.bytes, file.size, ISO_ROLE_SAMPLES, &keep, &d, &e), ISO_OK);
        assert_memory_equal(&d.shape, &shapes[rank - 2], sizeof d.shape);
        assert_int_equal(d.count, 2);
        assert_int_equal(iso_dataset_sample_bytes(&d), 12);
        iso_dataset_free(&d);
        test_bytes_free(&keep);
        test_bytes_free(&file);
    }
}

static void expect_refused(test_bytes file, iso_role role, int code, const char *word)
{
    test_bytes keep;
    iso_dataset d;
    iso_error e;
    int status = read_bytes(file.bytes, file.size, role, &keep, &d, &e);
    if (status != code)
        fail_msg("status %d, wanted %d (%s): %s", status, code, word, e.text);
    test_expect_word(e.text, word);
    test_bytes_free(&keep);
    test_bytes_free(&file);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    const uint32_t three[1] = {3}, none[3] = {0, 2, 2}, flat[3] = {3, 0, 2}, two[2] = {1, 2};
    expect_refused(test_idx(8, 3, none, "", 0), ISO_ROLE_ANY, ISO_E_FORMAT,
                   "empty data set: the header says 0 x 2 x 2");
    expect_refused(test_idx(8, 3, flat, "", 0), ISO_ROLE_ANY, ISO_E_FORMAT, "empty data set");
    expect_refused((test_bytes){NULL, 0}, ISO_ROLE_ANY, ISO_E_FORMAT, "the file is empty");
    expect_refused(test_idx(8, 1, three, "\0\1\2", 3), ISO_ROLE_SAMPLES, ISO_E_FORMAT, "these are labels");
    expect_refused(test_idx(9, 1, three, "\0\xff\2", 3), ISO_ROLE_ANY, ISO_E_FORMAT, "label -1 at item 1");
    expect_refused(test_idx(0x0C, 1, three, "\0\0\0\0\0\x10\0\0\0\0\0\1", 12), ISO_ROLE_ANY, ISO_E_FORMAT,
                   "label 1048576 at item 1");
    expect_refused(test_idx(0x0D, 1, three, "\0\0\0\0\0\0\0\0\0\0\0\0", 12), ISO_ROLE_ANY, ISO_E_FORMAT,
                   "whole numbers");
    expect_refused(test_idx(0x0D, 2, two, "\0\0\0\0\x7f\xc0\0\0", 8), ISO_ROLE_ANY, ISO_E_FORMAT,
                   "value 1 of sample 0 (byte 16)");
    expect_refused(test_idx(0x0E, 2, two, "\0\0\0\0\0\0\0\0\x7f\xe0\0\0\0\0\0\0", 16), ISO_ROLE_ANY, ISO_E_FORMAT,
                   "value 1 of sample 0");
    expect_refused(test_idx(8, 5, (const uint32_t[]){1, 1, 1, 1, 1}, "\0", 1), ISO_ROLE_ANY, ISO_E_FORMAT,
                   "5 dimensions");
    expect_refused(test_idx(8, 3, (const uint32_t[]){3u << 24, 2u << 24, 2u << 24}, "\0\1\2\3\4\5\6\7\10\11\12\13", 12),
                   ISO_ROLE_ANY, ISO_E_FORMAT, "the dimensions are in the wrong byte order");
    expect_refused(test_bytes_copy("\1\x08\0\0\1\0\0\0\0", 9), ISO_ROLE_ANY, ISO_E_FORMAT, "byte order is wrong");
    expect_refused(test_bytes_copy("\4\x0d\0\0\1\0\0\0\0", 9), ISO_ROLE_ANY, ISO_E_FORMAT, "(00 00 0d 04)");
    expect_refused(test_bytes_copy("\x89PNG\r\n", 6), ISO_ROLE_ANY, ISO_E_FORMAT, "a PNG image");
    expect_refused(test_bytes_copy("a,b\n1,2\n", 8), ISO_ROLE_ANY, ISO_E_FORMAT, "text");
}

static void formats_are_chosen_and_named(void **state)
{
    (void)state;
    iso_error e;
    iso_dataset d;
    size_t size;
    uint8_t *bytes = test_case_read("idx/ok-labels-idx1-ubyte", &size);
    iso_bytes b = {bytes, size, NULL, NULL};
    assert_int_equal(iso_data_read(&b, &(iso_read_options){.name = "f", .format = "idxx"}, NULL, &d, &e),
                     ISO_E_ARGUMENT);
    test_expect_word(e.text, "unknown data format \"idxx\" (did you mean \"idx\"?)");
    assert_ptr_equal(b.bytes, bytes); /* still the caller's */
    assert_int_equal(iso_data_read(&b, &(iso_read_options){.format = "idx"}, NULL, &d, &e), ISO_OK);
    iso_dataset_free(&d);
    assert_int_equal(iso_data_read(&b, NULL, NULL, &d, &e), ISO_OK);
    test_expect_word(d.source, "data: IDX, 3, u8");
    iso_dataset_free(&d);
    free(bytes);
    assert_string_equal(iso_format_at(0), "idx");
    assert_null(iso_format_at(1000));
    assert_non_null(iso_format_help("idx"));
    assert_null(iso_format_help("nothing"));
    /* A name that says IDX gets IDX's own words about what is wrong. */
    b = (iso_bytes){(const uint8_t *)"\1\2\3\4", 4, NULL, NULL};
    assert_int_equal(iso_data_read(&b, &(iso_read_options){.name = "x-idx3-ubyte"}, NULL, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "an IDX file begins with");
}

/* The largest request may not exceed what the file itself proves: 8 bytes a byte of file (i8 labels to counts) and some
 * text. */
static void read_with_bounds(const uint8_t *bytes, size_t size)
{
    for (int role = ISO_ROLE_ANY; role <= ISO_ROLE_LABELS; role++) {
        test_heap heap;
        test_heap_init(&heap, 0);
        test_bytes copy = test_bytes_copy(bytes, size);
        iso_bytes b = {copy.bytes, copy.size, NULL, NULL};
        iso_dataset d;
        iso_error e = {0};
        int status = iso_data_read(&b, &(iso_read_options){.name = "f", .role = (iso_role)role}, &heap.alloc, &d, &e);
        if (status == ISO_OK) {
            assert_true(d.count > 0 && (d.values || d.labels));
            if (d.values)
                assert_non_null(iso_dataset_sample(&d, d.count - 1));
        } else {
            assert_true(status == ISO_E_FORMAT && strlen(e.text) > 10);
        }
        assert_true(heap.largest <= 8 * size + 1000);
        iso_dataset_free(&d);
        test_heap_expect_empty(&heap);
        test_bytes_free(&copy);
    }
}

static void every_cut_and_every_changed_byte_is_survived(void **state)
{
    (void)state;
    static const char *const names[] = {"idx/ok-images-idx3-ubyte", "idx/ok-labels-idx1-ubyte", "idx/trailing",
                                        "idx/huge-count"};
    for (size_t n = 0; n < TEST_COUNT(names); n++) {
        size_t size;
        uint8_t *bytes = test_case_read(names[n], &size);
        for (size_t cut = 0; cut <= size; cut++)
            read_with_bounds(bytes, cut);
        for (size_t at = 0; at < size; at++) {
            uint8_t before = bytes[at];
            for (int value = 0; value < 256; value++) {
                bytes[at] = (uint8_t)value;
                read_with_bounds(bytes, size);
            }
            bytes[at] = before;
        }
        free(bytes);
    }
}

/* No cut of a good file loads. */
static void no_cut_file_loads(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = test_case_read("idx/ok-images-idx3-ubyte", &size);
    for (size_t cut = 0; cut < size; cut++) {
        test_bytes keep;
        iso_dataset d;
        iso_error e;
        assert_int_equal(read_bytes(bytes, cut, ISO_ROLE_ANY, &keep, &d, &e), ISO_E_FORMAT);
        test_bytes_free(&keep);
    }
    free(bytes);
}

static int read_for_allocations(const iso_alloc *a, void *context)
{
    const test_bytes *file = context;
    iso_bytes b = {file->bytes, file->size, NULL, NULL};
    iso_dataset d;
    iso_error e;
    int status = iso_data_read(&b, NULL, a, &d, &e);
    assert_true(status == ISO_OK || strlen(e.text) > 5);
    iso_dataset_free(&d);
    return status;
}

static void every_allocation_failure_is_survived(void **state)
{
    (void)state;
    test_bytes files[] = {
        test_idx(8, 3, (const uint32_t[]){1, 1, 2}, "\1\2", 2), test_idx(9, 1, (const uint32_t[]){2}, "\1\2", 2),
        test_idx(0x0C, 2, (const uint32_t[]){1, 1}, "\x7f\xff\xff\xff", 4), /* rounded: comes with a warning */
    };
    static const size_t least[] = {1, 2, 3};
    for (size_t i = 0; i < TEST_COUNT(files); i++) {
        assert_true(test_every_allocation(read_for_allocations, &files[i]) >= least[i]);
        test_bytes_free(&files[i]);
    }
}

static int releases;

static void count_release(void *context, const uint8_t *bytes, size_t size)
{
    (void)context;
    (void)bytes;
    (void)size;
    releases++;
}

static void borrowed_bytes_are_given_back_once(void **state)
{
    (void)state;
    size_t image_size, label_size;
    uint8_t *image = test_case_read("idx/ok-images-idx3-ubyte", &image_size);
    uint8_t *label = test_case_read("idx/ok-labels-idx1-ubyte", &label_size);
    iso_bytes images = {image, image_size, count_release, NULL}, labels = {label, label_size, count_release, NULL};
    iso_dataset d, l;
    iso_error e;
    assert_int_equal(iso_data_read(&images, NULL, NULL, &d, &e), ISO_OK);
    assert_null(images.bytes); /* now the data set's */
    assert_int_equal(iso_data_read(&labels, NULL, NULL, &l, &e), ISO_OK);
    assert_non_null(labels.bytes); /* converted: still the caller's */
    uint64_t before = d.fingerprint;
    assert_int_equal(iso_dataset_join(&d, &l, &e), ISO_OK);
    assert_true(d.labels[2] == 2 && d.classes == 3 && d.fingerprint != before && !l.labels);
    iso_dataset_free(&l);
    iso_dataset_free(&d);
    assert_int_equal(releases, 1);
    iso_dataset_free(&d);
    iso_dataset_free(NULL);
    iso_bytes_release(&labels);
    iso_bytes_release(&labels);
    iso_bytes_release(NULL);
    assert_int_equal(releases, 2);
    free(image);
    free(label);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_get_the_manifests_answer),
        cmocka_unit_test(good_cases_load),
        cmocka_unit_test(every_type_becomes_floats),
        cmocka_unit_test(shapes_follow_the_rank),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(formats_are_chosen_and_named),
        cmocka_unit_test(every_cut_and_every_changed_byte_is_survived),
        cmocka_unit_test(no_cut_file_loads),
        cmocka_unit_test(every_allocation_failure_is_survived),
        cmocka_unit_test(borrowed_bytes_are_given_back_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
