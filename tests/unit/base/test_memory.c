/* SPDX-License-Identifier: Apache-2.0
 * Proves: sizes cannot wrap round; blocks are aligned; an arena's two passes agree and never leave the block; a buffer
 * grows, keeps its limit and survives every allocation failure; cursors never leave their bytes; texts of errors are
 * cut, not overrun. */
#include "test.h"

#include <limits.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/size.h"
#include "base/text.h"
#include "isochron/log.h"

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    size_t s = 77;
    uint64_t u = 77;
    assert_true(iso_size_mul(SIZE_MAX, 1, &s) && s == SIZE_MAX);
    assert_true(iso_size_mul(0, SIZE_MAX, &s) && s == 0);
    assert_true(iso_size_mul(SIZE_MAX, 0, &s) && s == 0);
    s = 77;
    assert_false(iso_size_mul(SIZE_MAX / 2 + 1, 2, &s));
    assert_false(iso_size_add(SIZE_MAX, 1, &s));
    assert_false(iso_size_round_up(SIZE_MAX - 5, 64, &s));
    assert_false(iso_u64_mul(UINT64_MAX / 3 + 1, 3, &u));
    assert_false(iso_u64_add(UINT64_MAX - 1, 2, &u));
    assert_true(s == 77 && u == 77);
    assert_true(iso_size_add(SIZE_MAX - 1, 1, &s) && s == SIZE_MAX);
    assert_true(iso_size_round_up(65, 64, &s) && s == 128);
    assert_true(iso_size_round_up(0, 64, &s) && s == 0);
}

static void blocks_are_aligned_and_zeroed(void **state)
{
    (void)state;
    for (size_t n = 0; n < 200; n += 7) {
        uint8_t *block = iso_new(NULL, n, 3);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % ISO_ALIGN, 0);
        for (size_t i = 0; i < 3 * n; i++)
            assert_int_equal(block[i], 0);
        iso_free(NULL, block);
    }
    assert_null(iso_new(NULL, SIZE_MAX / 2, 3));
    assert_null(iso_new_raw(NULL, SIZE_MAX - 10, 1));
    iso_free(NULL, NULL);
    char *copy = iso_strdup(NULL, "text");
    assert_string_equal(copy, "text");
    iso_free(NULL, copy);
    test_heap heap;
    test_heap_init(&heap, 1);
    assert_null(iso_strdup(&heap.alloc, "text"));
    assert_null(iso_new(&heap.alloc, SIZE_MAX, 2)); /* refused before the heap is asked */
    assert_int_equal(heap.calls, 1);
}

static void carve(iso_arena *a, void *part[4])
{
    part[0] = iso_arena_take(a, 3, 5);
    part[1] = iso_arena_take_zeroed(a, 100, 8);
    part[2] = iso_arena_take(a, 0, 8);
    part[3] = iso_arena_take(a, 64, 1);
}

static void an_arena_measures_what_it_carves(void **state)
{
    (void)state;
    void *part[4];
    iso_arena sizing = iso_arena_sizing();
    carve(&sizing, part);
    size_t bytes = 0;
    assert_true(iso_arena_size(&sizing, &bytes));
    assert_null(part[0]);
    uint8_t *block = iso_new_raw(NULL, bytes, 1);
    iso_arena a = iso_arena_on(block, bytes);
    carve(&a, part);
    size_t used = 0;
    assert_true(iso_arena_size(&a, &used) && used == bytes);
    for (int i = 0; i < 4; i++)
        assert_true((uintptr_t)part[i] % ISO_ALIGN == 0 && (uint8_t *)part[i] >= block &&
                    (uint8_t *)part[i] <= block + bytes);
    for (int i = 0; i < 800; i++)
        assert_int_equal(((uint8_t *)part[1])[i], 0);
    memset(part[3], 1, 64);
    assert_null(iso_arena_take(&a, 1, 1)); /* full */
    assert_false(iso_arena_size(&a, &used));
    for (size_t small = 0; small < bytes; small += 64) {
        a = iso_arena_on(block, small);
        carve(&a, part);
        assert_false(iso_arena_size(&a, &used));
    }
    iso_arena_on(block, bytes);
    iso_free(NULL, block);
    sizing = iso_arena_sizing();
    iso_arena_take(&sizing, SIZE_MAX, 2);
    assert_false(iso_arena_size(&sizing, &bytes));
    sizing = iso_arena_sizing();
    iso_arena_take(&sizing, SIZE_MAX / 2 + 1, 1);
    iso_arena_take(&sizing, SIZE_MAX / 2 + 1, 1);
    assert_false(iso_arena_size(&sizing, &bytes));
}

static int fill_a_buffer(const iso_alloc *alloc, void *context)
{
    (void)context;
    iso_buffer b;
    iso_buffer_init(&b, alloc, 0);
    for (int i = 0; i < 300; i++)
        iso_buffer_format(&b, "%d,", i);
    char longer[1200];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    iso_buffer_format(&b, "%s", longer);
    iso_buffer_number(&b, 0.1);
    bool failed = b.failed;
    if (!failed) {
        assert_memory_equal(b.bytes, "0,1,2,", 6);
        assert_memory_equal(b.bytes + b.size - 4, "x0.1", 4);
        assert_int_equal(b.size, 10 * 2 + 90 * 3 + 200 * 4 + 1199 + 3);
    }
    iso_buffer_fini(&b);
    assert_true(b.size == 0 && b.bytes == NULL);
    return failed ? ISO_E_NOMEM : 0;
}

static void a_buffer_grows_or_fails_whole(void **state)
{
    (void)state;
    assert_true(test_every_allocation(fill_a_buffer, NULL) >= 4);
    iso_buffer b;
    iso_buffer_init(&b, NULL, 10);
    assert_true(iso_buffer_text(&b, "0123456789"));
    assert_false(iso_buffer_text(&b, "x"));
    assert_false(iso_buffer_put(&b, "", 0)); /* failure stays */
    assert_int_equal(b.size, 10);
    iso_buffer_clear(&b);
    assert_true(iso_buffer_text(&b, "0123456789"));
    assert_null(iso_buffer_add(&b, SIZE_MAX));
    iso_buffer_fini(&b);
}

static void json_strings_are_escaped(void **state)
{
    (void)state;
    iso_buffer b;
    iso_buffer_init(&b, NULL, 0);
    iso_buffer_json(&b, "a\"b\\c\n\x01\x7f \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xFF\xC3");
    iso_buffer_put(&b, "", 1);
    assert_string_equal(
        (char *)b.bytes,
        "\"a\\\"b\\\\c\\u000a\\u0001\\u007f \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xEF\xBF\xBD\xEF\xBF\xBD\"");
    iso_buffer_fini(&b);
    assert_true(iso_is_utf8("\xF4\x8F\xBF\xBF", 4));
    assert_false(iso_is_utf8("\xF4\x90\x80\x80", 4)); /* beyond U+10FFFF */
    assert_false(iso_is_utf8("\xED\xA0\x80", 3));     /* a surrogate */
    assert_false(iso_is_utf8("\xC0\x80", 2));         /* a long form */
    assert_false(iso_is_utf8("\xE2\x82", 2));         /* cut */
    assert_false(iso_is_utf8("a\0b", 3));
}

/* Every code point is UTF-8 in its own form only; every pair of bytes and every lead with good followers against the
 * rule. */
static void utf8_is_told_exactly(void **state)
{
    (void)state;
    for (uint32_t c = 1; c <= 0x110000; c++) {
        char text[4];
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
        for (size_t i = 0; i < n; i++)
            text[i] = (char)((i ? 0x80 : lead[n]) |
                             ((c >> (6 * (n - 1 - i))) & (i || n == 1 ? 0x7Fu >> (n > 1) : 0xFFu)));
        bool right = c < 0x110000 && !(c >= 0xD800 && c < 0xE000);
        if (iso_is_utf8(text, n) != right)
            fail_msg("U+%04X", c);
    }
    for (unsigned a = 0x80; a < 256; a++)
        for (unsigned b = 0; b < 256; b++) {
            const char text[2] = {(char)a, (char)b};
            assert_int_equal(iso_is_utf8(text, 2), a >= 0xC2 && a <= 0xDF && b >= 0x80 && b <= 0xBF);
        }
    assert_false(iso_is_utf8("\xE0\x9F\xBF", 3) || iso_is_utf8("\xF0\x8F\xBF\xBF", 4)); /* long forms */
    assert_true(iso_is_utf8("", 0));
}

static void cursors_stay_inside(void **state)
{
    (void)state;
    test_bytes b = {NULL, 0};
    for (uint8_t i = 1; i <= 40; i++)
        test_put_u8(&b, i);
    iso_reader r = iso_reader_on(b.bytes, b.size);
    assert_int_equal(iso_read_u8(&r), 1);
    assert_int_equal(iso_read_u16(&r), 0x0302);
    assert_int_equal(iso_read_u32(&r), 0x07060504);
    assert_true(iso_read_u64(&r) == 0x0F0E0D0C0B0A0908);
    assert_int_equal(iso_reader_left(&r), 25);
    assert_non_null(iso_read_bytes(&r, 22));
    assert_false(r.failed);
    assert_int_equal(iso_read_u32(&r), 0); /* 3 bytes left */
    assert_true(r.failed);
    assert_int_equal(iso_read_u8(&r), 0); /* failure stays */
    test_bytes_free(&b);
    r = iso_reader_on(NULL, 0);
    assert_int_equal(iso_reader_left(&r), 0);
    iso_read_u8(&r);
    assert_true(r.failed);

    uint8_t *out = malloc(39); /* exactly what is written: a sanitizer sees one byte more */
    iso_writer w = iso_writer_on(out, 39);
    iso_write_u8(&w, 0x11);
    iso_write_u16(&w, 0x2233);
    iso_write_u32(&w, 0x44556677);
    iso_write_u64(&w, 0x8899AABBCCDDEEFF);
    iso_write_i64(&w, -2);
    iso_write_f32(&w, 1.5f);
    iso_write_f64(&w, -0.25);
    iso_write_bytes(&w, "wxyz", 4);
    assert_false(w.failed);
    assert_int_equal(iso_writer_left(&w), 0);
    iso_write_u8(&w, 1);
    assert_true(w.failed);
    static const uint8_t right[] = {0x11, 0x33, 0x22, 0x77, 0x66, 0x55, 0x44, 0xFF, 0xEE, 0xDD, 0xCC, 0xBB, 0xAA,
                                    0x99, 0x88, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00, 0x00, 0xC0,
                                    0x3F, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xD0, 0xBF, 'w',  'x',  'y',  'z'};
    assert_memory_equal(out, right, sizeof right);
    r = iso_reader_on(out + 15, 20);
    assert_true(iso_read_i64(&r) == -2 && iso_read_f32(&r) == 1.5f && iso_read_f64(&r) == -0.25 && !r.failed);
    free(out);
    static const uint8_t big[] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(iso_load_u16_be(big), 0x0102);
    assert_int_equal(iso_load_u32_be(big), 0x01020304);
    assert_true(iso_load_u64_be(big) == 0x0102030405060708);
}

static void texts_of_errors_are_cut(void **state)
{
    (void)state;
    iso_error e;
    char longer[1500];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(iso_error_set(&e, ISO_E_FORMAT, "%s", longer), ISO_E_FORMAT);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_int_equal(iso_error_prefix(&e, "file %d: ", 7), ISO_E_FORMAT);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_memory_equal(e.text, "file 7: xxx", 11);
    assert_int_equal(iso_error_prefix(&e, "%s", longer), ISO_E_FORMAT);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    iso_error_set(&e, ISO_E_IO, "%s", "reason");
    iso_error_prefix(&e, "p: ");
    assert_string_equal(e.text, "p: reason");
    assert_int_equal(iso_error_set(NULL, ISO_E_IO, "nobody reads this"), ISO_E_IO);
    assert_int_equal(iso_error_prefix(NULL, "nor this"), 0);
    for (int code = -15; code <= 0; code++) {
        assert_string_not_equal(iso_status_name(code), "E_UNKNOWN");
        assert_true(strlen(iso_status_text(code)) > 3);
    }
    assert_string_equal(iso_status_name(-999), "E_UNKNOWN");
    assert_string_equal(iso_status_name(ISO_E_NOMEM), "E_NOMEM");
}

static void words_find_their_neighbours(void **state)
{
    (void)state;
    static const char *const words[] = {"learning_rate", "momentum", "weight_decay", "name",
                                        "cosine",        "step",     "nns",          "bsp"};
    static const struct {
        const char *word, *nearest;
    } cases[] = {{"learning_rat", "learning_rate"},
                 {"learning-rate", "learning_rate"},
                 {"LearningRate", "learning_rate"},
                 {"momentun", "momentum"},
                 {"mometnum", "momentum"},
                 {"cosin", "cosine"},
                 {"nn", "nns"},
                 {"setp", "step"},
                 {"fast", NULL},
                 {"", NULL},
                 {"xylophone", NULL}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        const char *nearest = iso_nearest_word(cases[i].word, words, TEST_COUNT(words));
        if (cases[i].nearest ? !nearest || strcmp(nearest, cases[i].nearest) != 0 : nearest != NULL)
            fail_msg("'%s' gives %s", cases[i].word, nearest ? nearest : "nothing");
    }
    assert_int_equal(iso_word_distance("kitten", "sitting"), 3);
    assert_int_equal(iso_word_distance("ab", "ba"), 1);
    assert_int_equal(iso_word_distance("abcd", "wxyz"), 4);
    assert_int_equal(iso_word_distance("abcdef", "badcfe"), 3);
    assert_int_equal(iso_word_distance("abc", "cab"), 2);
    assert_int_equal(iso_word_distance("Learning-Rate", "learning_rate"), 0);
    assert_int_equal(iso_word_distance("", "abc"), 3);
    char longer[100];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(iso_word_distance(longer, "a"), 99);
}

static char logged[1100];

static void remember(void *context, iso_log_level level, const char *text)
{
    *(int *)context += level == ISO_LOG_EPOCH;
    snprintf(logged, sizeof logged, "%s", text);
}

static jmp_buf out_of_assert;
static char broken[200];

static void leave(const char *condition, const char *file, int line)
{
    (void)file;
    (void)line;
    snprintf(broken, sizeof broken, "%s", condition);
    longjmp(out_of_assert, 1);
}

static void hooks_are_called(void **state)
{
    (void)state;
    int calls = 0;
    iso_log log = {remember, &calls};
    iso_log_line(&log, ISO_LOG_EPOCH, "epoch %d", 3);
    assert_string_equal(logged, "epoch 3");
    assert_int_equal(calls, 1);
    iso_log_line(NULL, ISO_LOG_RUN, "nobody listens");
    iso_log_line(&(iso_log){NULL, NULL}, ISO_LOG_RUN, "nobody listens");
    iso_assert_handler before = iso_assert_set_handler(leave);
    if (setjmp(out_of_assert) == 0)
        ISO_ASSERT(calls == 99);
    assert_string_equal(broken, "calls == 99");
    ISO_ASSERT(calls == 1);
    assert_ptr_equal(iso_assert_set_handler(before), leave);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(blocks_are_aligned_and_zeroed),
        cmocka_unit_test(an_arena_measures_what_it_carves),
        cmocka_unit_test(a_buffer_grows_or_fails_whole),
        cmocka_unit_test(json_strings_are_escaped),
        cmocka_unit_test(utf8_is_told_exactly),
        cmocka_unit_test(cursors_stay_inside),
        cmocka_unit_test(texts_of_errors_are_cut),
        cmocka_unit_test(words_find_their_neighbours),
        cmocka_unit_test(hooks_are_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
