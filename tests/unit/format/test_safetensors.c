/* SPDX-License-Identifier: Apache-2.0
 * Proves: every safetensors case of the manifest gets its answer; what is written is read back and has the stated
 * layout; cuts, changed bytes and allocation failures are survived. */
#include "test.h"

#include "base/buffer.h"
#include "isochron/format.h"

static int read_copy(const void *bytes, size_t size, test_bytes *keep, iso_tensors **out, iso_error *e)
{
    *keep = test_bytes_copy(bytes, size);
    e->text[0] = '\0';
    return iso_tensors_read(out, keep->bytes, keep->size, "dir/file", NULL, e);
}

static void expect_error(const char *name, const char *words[])
{
    char answer[256];
    test_expect_word(test_case_answer(name, answer), "error");
    size_t size;
    uint8_t *bytes = test_case_read(name, &size);
    test_bytes keep;
    iso_tensors *t;
    iso_error e;
    int status = read_copy(bytes, size, &keep, &t, &e);
    if (status != ISO_E_FORMAT || t)
        fail_msg("%s: status %d; the manifest says %s", name, status, answer);
    test_expect_word(e.text, "dir/file: ");
    for (; *words; words++)
        test_expect_word(e.text, *words);
    test_bytes_free(&keep);
    free(bytes);
}

#define EXPECT_ERROR(name, ...) expect_error("safetensors/" name ".safetensors", (const char *[]){__VA_ARGS__, NULL})

static void cases_get_the_manifests_answer(void **state)
{
    (void)state;
    EXPECT_ERROR("short", "data ends early", "\"w\"", "up to 8", "7 there");
    EXPECT_ERROR("hlen-huge", "1152921504606846976", "62 there");
    EXPECT_ERROR("7-bytes", "too small", "7 there");
    EXPECT_ERROR("shape-lies", "\"w\"", "12 bytes by its shape", "8 by its offsets");
    EXPECT_ERROR("dup-key", "twice", "w");
    EXPECT_ERROR("metadata-int", "\"epoch\"", "strings");
    static const char *const good[] = {"safetensors/ok.safetensors", "safetensors/space-pad.safetensors"};
    for (size_t i = 0; i < TEST_COUNT(good); i++) {
        size_t size;
        uint8_t *bytes = test_case_read(good[i], &size);
        test_bytes keep;
        iso_tensors *t;
        iso_error e;
        assert_int_equal(read_copy(bytes, size, &keep, &t, &e), ISO_OK);
        assert_int_equal(iso_tensors_count(t), 1);
        const iso_tensor_view *w = iso_tensors_find(t, "w");
        assert_non_null(w);
        assert_ptr_equal(w, iso_tensors_at(t, 0));
        assert_null(iso_tensors_at(t, 1));
        assert_null(iso_tensors_find(t, "v"));
        assert_true(w->type == ISO_TENSOR_F32 && w->rank == 1 && w->dim[0] == 2 && w->count == 2 && w->bytes == 8);
        float values[2];
        iso_tensor_copy(w, values);
        assert_true(values[0] == 1 && values[1] == 2);
        iso_tensors_free(t);
        test_bytes_free(&keep);
        free(bytes);
    }
    size_t size;
    uint8_t *bytes = test_case_read("safetensors/metadata-only.safetensors", &size);
    test_bytes keep;
    iso_tensors *t;
    iso_error e;
    assert_int_equal(read_copy(bytes, size, &keep, &t, &e), ISO_OK);
    assert_int_equal(iso_tensors_count(t), 0);
    assert_int_equal(iso_tensors_metadata_count(t), 1);
    assert_string_equal(iso_tensors_metadata(t, "format"), "x");
    const char *key, *value;
    iso_tensors_metadata_at(t, 0, &key, &value);
    assert_string_equal(key, "format");
    assert_string_equal(value, "x");
    assert_null(iso_tensors_metadata(t, "other"));
    iso_tensors_free(t);
    test_bytes_free(&keep);
    free(bytes);
}

static void a_file_of_another_model_is_listed(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = test_case_read("safetensors/missing-tensor.safetensors", &size);
    iso_tensors *t;
    iso_error e;
    assert_int_equal(iso_tensors_read(&t, bytes, size, "f", NULL, &e), ISO_OK);
    const iso_tensor_out wanted[] = {{.name = "conv1.weight", .type = ISO_TENSOR_F32, .rank = 4, .dim = {6, 1, 5, 5}},
                                     {.name = "conv1.bias", .type = ISO_TENSOR_F32, .rank = 1, .dim = {6}}};
    assert_int_equal(iso_tensors_check(t, wanted, 2, NULL, &e), ISO_E_MISMATCH);
    test_expect_word(e.text, "missing (1): conv1.bias");
    test_expect_word(e.text, "of another shape (1): conv1.weight is F32 [2], wanted F32 [6, 1, 5, 5]");
    const iso_tensor_out right[] = {{.name = "conv1.weight", .type = ISO_TENSOR_F32, .rank = 1, .dim = {2}}};
    assert_int_equal(iso_tensors_check(t, right, 1, NULL, &e), ISO_OK);
    assert_int_equal(iso_tensors_check(t, right, 0, NULL, &e), ISO_E_MISMATCH);
    test_expect_word(e.text, "not wanted (1): conv1.weight");
    assert_int_equal(iso_tensors_check(t, right, 0, "conv1.", &e), ISO_OK);
    iso_tensor_out many[200];
    char names[200][24];
    for (int i = 0; i < 200; i++) {
        snprintf(names[i], sizeof names[i], "layer%d", i);
        many[i] = (iso_tensor_out){.name = names[i], .type = ISO_TENSOR_F32};
    }
    assert_int_equal(iso_tensors_check(t, many, 200, NULL, &e), ISO_E_MISMATCH);
    test_expect_word(e.text, "missing (200): layer0, layer1");
    test_expect_word(e.text, "not wanted (1): conv1.weight");
    iso_tensors_free(t);
    free(bytes);
}

static void expect_refused(const char *header, size_t data_bytes, const char *word)
{
    uint8_t data[64] = {0};
    test_bytes file = test_safetensors(header, data, data_bytes);
    iso_tensors *t;
    iso_error e = {.text = ""};
    int status = iso_tensors_read(&t, file.bytes, file.size, "f", NULL, &e);
    if (status != ISO_E_FORMAT)
        fail_msg("%s: status %d", header, status);
    test_expect_word(e.text, word);
    test_bytes_free(&file);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    expect_refused("", 0, "does not begin with {");
    expect_refused("[1]", 0, "does not begin with {");
    expect_refused(" {}", 0, "does not begin with {");
    expect_refused("{", 0, "not JSON");
    expect_refused("{} x", 0, "not JSON");
    expect_refused("{\"w\":3}", 0, "\"w\" is not an object");
    expect_refused("{\"w\":{\"dtype\":\"F99\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "unknown dtype F99");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "dimension 0");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "dimension 0");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
                   "larger than any file");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4,
                   "larger than any file");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4,
                   "dimension 0");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
                   "more than 8 dimensions");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "[begin, end]");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "[begin, end]");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "1 byte left over");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "leave a hole");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"v\":{\"dtype\":\"F32\",\"shape\":"
                   "[1],\"data_offsets\":[2,6]}}",
                   6, "overlap");
    expect_refused("{\"__metadata__\":3}", 0, "not an object");
    expect_refused("{\"w\":{}}", 0, "\"w\": no dtype");
    expect_refused("{\"w\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "the key dtype is there twice");
    expect_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ is there twice");
    expect_refused("{\"a\\u0062\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                   "\"ab\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                   0, "\"ab\" is there twice");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", 4, "dimension 0");
    expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1e0],\"data_offsets\":[0,4]}}", 4, "dimension 0");
    expect_refused("{\"\\u0000\":{}}", 0, "escape");
    expect_refused("{\"\\ud800\":{}}", 0, "escape");
    expect_refused("{\"\\udc00\":{}}", 0, "escape");
    expect_refused("{\"\\x\":{}}", 0, "an escape");
    expect_refused("{\"\xff\":{}}", 0, "UTF-8");
    expect_refused("{\"a\nb\":{}}", 0, "end of a string");
    expect_refused("{\"a\" {}}", 0, "colon");
    expect_refused("{\"a\":{},}", 0, "no dtype");
    expect_refused("{\"w\":{\"x\":tru}}", 0, "a value wanted");
    expect_refused("{\"w\":{\"x\":[1,2}}", 0, "comma or ]");
    expect_refused("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "twice");
}

/* What the reference reader takes is taken: escapes, blanks, other keys, members in any order. */
static void odd_but_valid_headers_load(void **state)
{
    (void)state;
    const char *header =
        " \t{ \"\\u00e4\\ud83d\\ude00\\n\\/\" : { \"x\" : [ {\"y\":[1.5e3,-2,true,false,null,\"s\"]} , [] , {} ] ,"
        "\"data_offsets\" : [ 0 , 4 ] , \"shape\" : [ ] , \"dtype\" : \"F32\" } , \"__metadata__\" : { } }\n ";
    test_bytes file = test_safetensors(header + 2, "\0\0\x80\x3f", 4);
    iso_tensors *t;
    iso_error e = {.text = ""};
    if (iso_tensors_read(&t, file.bytes, file.size, "f", NULL, &e) != ISO_OK)
        fail_msg("%s", e.text);
    assert_string_equal(iso_tensors_at(t, 0)->name, "\xC3\xA4\xF0\x9F\x98\x80\n/");
    assert_true(iso_tensors_at(t, 0)->rank == 0 && iso_tensors_at(t, 0)->count == 1);
    iso_tensors_free(t);
    test_bytes_free(&file);
    /* Escapes at the edges of each length of UTF-8. */
    file = test_safetensors(
        "{\"__metadata__\":{\"\\u007f\\u0080\\u07ff\\u0800\\uffff\\ud800\\udc00\\udbff\\udfff\":\"\\\"\\b\\f\\r\\t\"}}",
        "", 0);
    assert_int_equal(iso_tensors_read(&t, file.bytes, file.size, "f", NULL, &e), ISO_OK);
    const char *key, *value;
    iso_tensors_metadata_at(t, 0, &key, &value);
    assert_string_equal(key, "\x7f\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
    assert_string_equal(value, "\"\b\f\r\t");
    iso_tensors_free(t);
    test_bytes_free(&file);
    /* Nesting without end is refused before the stack is. */
    test_bytes deep = {NULL, 0};
    test_put_text(&deep, "{\"w\":{\"x\":");
    for (int i = 0; i < 100000; i++)
        test_put_text(&deep, "[");
    test_put_u8(&deep, 0);
    file = test_safetensors((const char *)deep.bytes, "", 0);
    assert_int_equal(iso_tensors_read(&t, file.bytes, file.size, "f", NULL, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "less nesting");
    test_bytes_free(&file);
    test_bytes_free(&deep);
}

static int into_buffer(void *context, const void *bytes, size_t size, iso_error *e)
{
    return iso_buffer_put(context, bytes, size) ? ISO_OK : iso_error_set(e, ISO_E_NOMEM, "out of memory");
}

static const float weights[6] = {1, -2, 3, -4, 5, -6};
static const int64_t counts[2] = {-1, INT64_MAX};
static const uint8_t flags[3] = {1, 0, 1};
static const iso_tensor_out model[] = {
    {"b.weight", ISO_TENSOR_F32, 2, {2, 3}, weights}, {"flags", ISO_TENSOR_U8, 1, {3}, flags},
    {"a.bias", ISO_TENSOR_F32, 0, {0}, weights},      {"sum", ISO_TENSOR_I64, 1, {2}, counts},
    {"nothing", ISO_TENSOR_F32, 2, {0, 5}, NULL},
};
static const iso_metadata notes[] = {{"z", "last"}, {"a", "line\nbreak \"quoted\""}};

static void what_is_written_reads_back(void **state)
{
    (void)state;
    iso_buffer file;
    iso_error e;
    uint64_t size = 0;
    iso_buffer_init(&file, NULL, 0);
    assert_int_equal(iso_tensors_write(model, 5, notes, 2, NULL, NULL, NULL, &size, &e), ISO_OK);
    assert_int_equal(iso_tensors_write(model, 5, notes, 2, into_buffer, &file, NULL, NULL, &e), ISO_OK);
    assert_int_equal(file.size, size);
    const char *right = "{\"__metadata__\":{\"a\":\"line\\u000abreak \\\"quoted\\\"\",\"z\":\"last\"},"
                        "\"sum\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
                        "\"a.bias\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[16,20]},"
                        "\"b.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[20,44]},"
                        "\"nothing\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[44,44]},"
                        "\"flags\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[44,47]}}";
    assert_memory_equal(file.bytes + 8, right, strlen(right));
    assert_int_equal((file.size - 47) % 8, 0);
    for (size_t at = 8 + strlen(right); at < file.size - 47; at++)
        assert_int_equal(file.bytes[at], ' ');
    iso_tensors *t;
    assert_int_equal(iso_tensors_read(&t, file.bytes, file.size, "f", NULL, &e), ISO_OK);
    assert_int_equal(iso_tensors_check(t, model, 5, NULL, &e), ISO_OK);
    assert_string_equal(iso_tensors_metadata(t, "a"), "line\nbreak \"quoted\"");
    float back[6];
    iso_tensor_copy(iso_tensors_find(t, "b.weight"), back);
    assert_memory_equal(back, weights, sizeof back);
    int64_t sums[2];
    iso_tensor_copy(iso_tensors_find(t, "sum"), sums);
    assert_memory_equal(sums, counts, sizeof sums);
    iso_tensors_free(t);
    iso_buffer_fini(&file);
    /* Nothing at all is a valid file. */
    iso_buffer_init(&file, NULL, 0);
    assert_int_equal(iso_tensors_write(NULL, 0, NULL, 0, into_buffer, &file, NULL, &size, &e), ISO_OK);
    assert_int_equal(size, 16);
    assert_int_equal(iso_tensors_read(&t, file.bytes, file.size, "f", NULL, &e), ISO_OK);
    iso_tensors_free(t);
    iso_buffer_fini(&file);
}

static void the_order_given_does_not_matter(void **state)
{
    (void)state;
    uint64_t random = test_seed("the_order_given_does_not_matter");
    iso_buffer first;
    iso_error e;
    iso_buffer_init(&first, NULL, 0);
    assert_int_equal(iso_tensors_write(model, 5, notes, 2, into_buffer, &first, NULL, NULL, &e), ISO_OK);
    for (int n = 0; n < 50; n++) {
        iso_tensor_out mixed[5];
        memcpy(mixed, model, sizeof mixed);
        for (size_t i = 4; i > 0; i--) {
            size_t j = test_random_below(&random, i + 1);
            iso_tensor_out kept = mixed[i];
            mixed[i] = mixed[j];
            mixed[j] = kept;
        }
        iso_buffer again;
        iso_buffer_init(&again, NULL, 0);
        assert_int_equal(iso_tensors_write(mixed, 5, notes, 2, into_buffer, &again, NULL, NULL, &e), ISO_OK);
        assert_int_equal(again.size, first.size);
        assert_memory_equal(again.bytes, first.bytes, first.size);
        iso_buffer_fini(&again);
    }
    iso_buffer_fini(&first);
}

static int stop_at(void *context, const void *bytes, size_t size, iso_error *e)
{
    int *left = context;
    (void)bytes;
    (void)size;
    return (*left)-- > 0 ? ISO_OK : iso_error_set(e, ISO_E_IO, "disk full");
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    iso_error e;
    const iso_tensor_out twice[] = {{.name = "w", .type = ISO_TENSOR_U8}, {.name = "w", .type = ISO_TENSOR_F32}};
    assert_int_equal(iso_tensors_write(twice, 2, NULL, 0, NULL, NULL, NULL, NULL, &e), ISO_E_ARGUMENT);
    test_expect_word(e.text, "two tensors are called \"w\"");
    const iso_tensor_out reserved[] = {{.name = "__metadata__", .type = ISO_TENSOR_U8}};
    assert_int_equal(iso_tensors_write(reserved, 1, NULL, 0, NULL, NULL, NULL, NULL, &e), ISO_E_ARGUMENT);
    const iso_tensor_out bad[] = {{.name = "\xFF", .type = ISO_TENSOR_U8}};
    assert_int_equal(iso_tensors_write(bad, 1, NULL, 0, NULL, NULL, NULL, NULL, &e), ISO_E_ARGUMENT);
    const iso_tensor_out large[] = {{.name = "w", .type = ISO_TENSOR_F32, .rank = 2, .dim = {1ull << 62, 4}}};
    assert_int_equal(iso_tensors_write(large, 1, NULL, 0, NULL, NULL, NULL, NULL, &e), ISO_E_ARGUMENT);
    test_expect_word(e.text, "too large");
    const iso_metadata doubled[] = {{"k", "1"}, {"k", "2"}};
    assert_int_equal(iso_tensors_write(NULL, 0, doubled, 2, NULL, NULL, NULL, NULL, &e), ISO_E_ARGUMENT);
    for (int good = 0; good < 5; good++) { /* header and four tensors with bytes */
        int left = good;
        assert_int_equal(iso_tensors_write(model, 5, notes, 2, stop_at, &left, NULL, NULL, &e), ISO_E_IO);
        assert_string_equal(e.text, "disk full");
        assert_int_equal(left, -1);
    }
}

static void every_cut_and_every_changed_byte_is_survived(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = test_case_read("safetensors/space-pad.safetensors", &size);
    for (size_t cut = 0; cut < size; cut++) {
        test_bytes keep;
        iso_tensors *t;
        iso_error e;
        assert_int_equal(read_copy(bytes, cut, &keep, &t, &e), ISO_E_FORMAT);
        test_bytes_free(&keep);
    }
    for (size_t at = 0; at < size; at++) {
        uint8_t before = bytes[at];
        for (int value = 0; value < 256; value++) {
            bytes[at] = (uint8_t)value;
            test_bytes keep;
            iso_tensors *t;
            iso_error e;
            int status = read_copy(bytes, size, &keep, &t, &e);
            assert_true(status == ISO_OK || (status == ISO_E_FORMAT && strlen(e.text) > 12));
            for (uint32_t i = 0; status == ISO_OK && i < iso_tensors_count(t); i++) {
                uint8_t copy[100];
                assert_true(iso_tensors_at(t, i)->bytes <= 8);
                iso_tensor_copy(iso_tensors_at(t, i), copy);
            }
            iso_tensors_free(t);
            test_bytes_free(&keep);
        }
        bytes[at] = before;
    }
    free(bytes);
}

static int read_for_allocations(const iso_alloc *a, void *context)
{
    const iso_buffer *file = context;
    iso_tensors *t;
    iso_error e;
    int status = iso_tensors_read(&t, file->bytes, file->size, "f", a, &e);
    if (status == ISO_OK) /* nothing is lost on the way either */
        assert_string_equal(iso_tensors_metadata(t, "a"), "line\nbreak \"quoted\"");
    iso_tensors_free(t);
    return status;
}

static int write_for_allocations(const iso_alloc *a, void *context)
{
    int left = 100;
    iso_error e;
    (void)context;
    return iso_tensors_write(model, 5, notes, 2, stop_at, &left, a, NULL, &e);
}

static void every_allocation_failure_is_survived(void **state)
{
    (void)state;
    iso_buffer file;
    iso_error e;
    iso_buffer_init(&file, NULL, 0);
    assert_int_equal(iso_tensors_write(model, 5, notes, 2, into_buffer, &file, NULL, NULL, &e), ISO_OK);
    assert_true(test_every_allocation(read_for_allocations, &file) >= 6);
    assert_true(test_every_allocation(write_for_allocations, NULL) >= 3);
    iso_buffer_fini(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_get_the_manifests_answer),
        cmocka_unit_test(a_file_of_another_model_is_listed),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(odd_but_valid_headers_load),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(the_order_given_does_not_matter),
        cmocka_unit_test(what_cannot_be_written_is_refused),
        cmocka_unit_test(every_cut_and_every_changed_byte_is_survived),
        cmocka_unit_test(every_allocation_failure_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
