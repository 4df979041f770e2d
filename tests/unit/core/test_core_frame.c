/* SPDX-License-Identifier: Apache-2.0
 * Frames as bytes: what goes in comes out, nothing damaged gets through, nothing is read past the end; bodies refuse
 * what would index out of range; chunks are gathered whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "core/body.h"

static iso_frame sample_frame(const void *bulk, uint32_t bytes)
{
    iso_frame f = {
        .kind = ISO_FRAME_SUM,
        .incarnation = 3,
        .session = 17,
        .from = 5,
        .to = ISO_COORDINATOR,
        .round = 0x123456789A,
        .serial = 7,
        .slice = 1,
        .slice_count = 3,
        .chunk_index = 2,
        .chunk_count = 4,
        .chunk_stride = bytes,
        .chunk_bytes = bytes,
        .bulk = bulk,
    };
    iso_body_put_answer(&f, &(body_answer){.purpose = ISO_PASS_TRAIN,
                                           .number = 2,
                                           .totals = {.samples = 9, .correct = 4, .bad_layer = -1}});
    return f;
}

/* An exact copy on the heap, so that the sanitizer sees a read past the end. */
static int decode_copy(iso_frame *f, const uint8_t *bytes, size_t count, iso_error *e)
{
    uint8_t *copy = malloc(count > 0 ? count : 1);
    memcpy(copy, bytes, count);
    int status = iso_frame_decode(f, copy, count, e);
    free(copy);
    return status;
}

static void what_goes_in_comes_out(void **state)
{
    (void)state;
    uint8_t bulk[40], bytes[512];
    for (size_t i = 0; i < sizeof bulk; i++)
        bulk[i] = (uint8_t)(i * 7);
    iso_frame in = sample_frame(bulk, sizeof bulk), out;
    iso_error e;
    size_t count = iso_frame_encode(&in, bytes, sizeof bytes);
    assert_true(count == iso_frame_bytes(&in) && count == ISO_FRAME_HEADER + in.body_bytes + sizeof bulk);
    assert_true(iso_frame_span(bytes) == count);
    assert_int_equal(iso_frame_decode(&out, bytes, count, &e), ISO_OK);
    assert_true(out.kind == in.kind && out.incarnation == in.incarnation && out.session == in.session &&
                out.from == in.from);
    assert_true(out.to == in.to && out.round == in.round && out.serial == in.serial && out.slice == 1 &&
                out.slice_count == 3);
    assert_true(out.chunk_index == 2 && out.chunk_count == 4 && out.chunk_stride == 40 && out.chunk_bytes == 40);
    assert_true(out.body_bytes == in.body_bytes && memcmp(out.body, in.body, in.body_bytes) == 0);
    assert_memory_equal(out.bulk, bulk, sizeof bulk);
}

/* The byte table of docs/protocol.md, literally. */
static void the_header_has_its_documented_bytes(void **state)
{
    (void)state;
    iso_frame f = {.kind = ISO_FRAME_COLLECT,
                   .incarnation = 2,
                   .session = 9,
                   .from = ISO_COORDINATOR,
                   .to = 4,
                   .round = 258,
                   .slice_count = 1,
                   .chunk_count = 1};
    iso_body_put_collect(&f, &(body_collect){.number = 3, .part = 1, .cut = true, .units = 7});
    static const uint8_t expected[60] = {'I', 'S', 'O', 'F', 1,   0,   6,   0,   2, 0, 0, 0, 9, 0, 0, 0, 2, 1, 0, 0,
                                         0,   0,   0,   0,   255, 255, 255, 255, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0,
                                         1,   0,   0,   0,   0,   0,   0,   0,   0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0};
    static const uint8_t body[16] = {3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0};
    uint8_t bytes[100];
    assert_int_equal(iso_frame_encode(&f, bytes, sizeof bytes), 80);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_memory_equal(bytes + 64, body, sizeof body);
    uint32_t crc = iso_crc32c(iso_crc32c(0, bytes, 60), body, 16);
    assert_true(iso_load_u32(bytes + 60) == crc);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    uint8_t bulk[24] = {1}, bytes[256];
    iso_frame f = sample_frame(bulk, sizeof bulk), out;
    iso_error e;
    size_t count = iso_frame_encode(&f, bytes, sizeof bytes - 1);
    for (size_t n = 0; n < count; n++) {
        assert_int_equal(decode_copy(&out, bytes, n, &e), ISO_E_PROTOCOL);
        assert_int_equal(iso_frame_encode(&f, bytes, n), 0);
    }
    iso_frame_encode(&f, bytes, sizeof bytes);
    assert_int_equal(decode_copy(&out, bytes, count + 1, &e), ISO_E_PROTOCOL);
    assert_int_equal(decode_copy(&out, bytes, count, &e), ISO_OK);
}

static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    uint8_t bulk[24] = {1}, bytes[256];
    iso_frame f = sample_frame(bulk, sizeof bulk), out;
    iso_error e;
    size_t count = iso_frame_encode(&f, bytes, sizeof bytes);
    for (size_t i = 0; i < count * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        int status = decode_copy(&out, bytes, count, &e);
        assert_true(status == ISO_E_PROTOCOL || (status == ISO_E_UNSUPPORTED && (i / 8 == 4 || i / 8 == 5)));
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

static void another_version_is_named(void **state)
{
    (void)state;
    uint8_t bytes[256];
    iso_frame f = {.kind = ISO_FRAME_HELLO, .from = 6, .to = ISO_COORDINATOR, .slice_count = 1, .chunk_count = 1}, out;
    iso_error e;
    iso_body_put_hello(&f, &(body_hello){.life = 1});
    size_t count = iso_frame_encode(&f, bytes, sizeof bytes);
    bytes[4] = 9;
    assert_int_equal(decode_copy(&out, bytes, count, &e), ISO_E_UNSUPPORTED);
    assert_true(out.kind == ISO_FRAME_HELLO && out.from == 6 && strstr(e.text, "found 9") != NULL);
}

/* Fields out of range are neither written nor, with a right crc, read. */
static void fields_out_of_range_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[512], bulk[64] = {0};
    iso_error e;
    iso_frame good = sample_frame(bulk, 16), out;
    for (int i = 0; i < 9; i++) {
        iso_frame f = good;
        switch (i) {
        case 0: f.kind = 0; break;
        case 1: f.kind = 15; break;
        case 2: f.slice = 3; break;
        case 3: f.slice_count = 0; break;
        case 4: f.chunk_index = 4; break;
        case 5: f.chunk_count = 0; break;
        case 6: f.chunk_bytes = 15; break;
        case 7: f.chunk_stride = ISO_CHUNK_MAX + 1; break;
        default: f.body_bytes = ISO_BODY_MAX + 1; break;
        }
        assert_int_equal(iso_frame_encode(&f, bytes, sizeof bytes), 0);
    }
    /* the same through the decoder: patch the field, mend the crc */
    static const struct {
        int at;
        uint32_t value;
    } patch[] = {{6, 0}, {6, 15}, {32, 9}, {34, 0}, {36, 4}, {40, 0}, {44, 15}, {48, 0}, {56, 500}, {58, 1}};
    for (size_t i = 0; i < sizeof patch / sizeof *patch; i++) {
        size_t count = iso_frame_encode(&good, bytes, sizeof bytes);
        if (patch[i].at >= 36 && patch[i].at < 56)
            iso_store_u32(bytes + patch[i].at, patch[i].value);
        else
            iso_store_u16(bytes + patch[i].at, (uint16_t)patch[i].value);
        iso_store_u32(bytes + 60, iso_crc32c(iso_crc32c(0, bytes, 60), bytes + 64, count - 64));
        assert_int_equal(decode_copy(&out, bytes, count, &e), ISO_E_PROTOCOL);
        assert_true(strstr(e.text, "expected") != NULL || strstr(e.text, "header says") != NULL);
    }
}

static void bodies_come_back_and_refuse_other_lengths(void **state)
{
    (void)state;
    iso_frame f = {0};
    body_work in = {.purpose = ISO_PASS_TRAIN,
                    .final = true,
                    .epoch = 3,
                    .number = 2,
                    .part = 1,
                    .unit = 16,
                    .pass_units = 10,
                    .range_count = 2,
                    .first = 1000,
                    .end = 1159,
                    .range = {{1, 2}, {5, 5}}},
              out;
    iso_body_put_work(&f, &in);
    assert_true(iso_body_get_work(&f, &out));
    assert_true(out.purpose == in.purpose && out.final && out.epoch == 3 && out.number == 2 && out.part == 1 &&
                out.unit == 16);
    assert_true(out.pass_units == 10 && out.first == 1000 && out.end == 1159 && out.range_count == 2);
    assert_true(out.range[1].first == 5 && out.range[1].count == 5);
    uint32_t whole = f.body_bytes;
    for (f.body_bytes = 0; f.body_bytes <= ISO_BODY_MAX; f.body_bytes++) {
        body_hello hello;
        body_answer answer;
        body_collect collect;
        body_reset reset;
        body_refuse refuse;
        body_welcome welcome;
        assert_true(iso_body_get_work(&f, &out) == (f.body_bytes == whole));
        assert_true(!iso_body_get_hello(&f, &hello) || f.body_bytes == 36);
        assert_true(!iso_body_get_answer(&f, &answer) || f.body_bytes == 60);
        assert_true(!iso_body_get_collect(&f, &collect) || f.body_bytes == 16);
        assert_true(!iso_body_get_reset(&f, &reset) || f.body_bytes == 24);
        assert_true(!iso_body_get_refuse(&f, &refuse) || f.body_bytes == 12);
        assert_true(!iso_body_get_welcome(&f, &welcome) || f.body_bytes == 8);
    }
}

/* Work that would index beyond the pass, or answers that cannot be, do not get through. */
static void nonsense_bodies_are_refused(void **state)
{
    (void)state;
    body_work good = {.purpose = ISO_PASS_TRAIN,
                      .number = 1,
                      .unit = 16,
                      .pass_units = 10,
                      .range_count = 2,
                      .end = 159,
                      .range = {{1, 2}, {5, 5}}},
              out;
    for (int i = 0; i < 12; i++) {
        iso_frame f = {0};
        body_work b = good;
        switch (i) {
        case 0: break;
        case 1: b.range[1].count = 6; break;
        case 2: b.range[1].first = 2; break;
        case 3: b.range[0].count = 0; break;
        case 4: b.range[1] = (iso_range){9, UINT32_MAX}; break;
        case 5: b.pass_units = 9; break;
        case 6: b.unit = 0; break;
        case 7: b.unit = 65; break;
        case 8: b.first = 159; break;
        case 9: b.number = 0; break;
        case 10: b.range_count = 0; break;
        default: b.range[1].first = 10; break;
        }
        iso_body_put_work(&f, &b);
        assert_true(iso_body_get_work(&f, &out) == (i == 0));
    }
    iso_frame f = {0};
    body_answer answer = {.purpose = ISO_PASS_TRAIN, .totals = {.samples = 3, .correct = 4, .bad_layer = -1}}, got;
    iso_body_put_answer(&f, &answer);
    assert_false(iso_body_get_answer(&f, &got));
    answer.totals.correct = 3;
    answer.totals.busy = -1;
    iso_body_put_answer(&f, &answer);
    assert_false(iso_body_get_answer(&f, &got));
    answer.totals.busy = 0;
    answer.totals.bad_layer = -2;
    iso_body_put_answer(&f, &answer);
    assert_false(iso_body_get_answer(&f, &got));
}

enum { DATA = 103, STRIDE = 10, CHUNKS = 11 };

static void chunk_of(iso_frame *f, const uint8_t *data, uint32_t index, uint64_t round, uint32_t serial)
{
    *f = (iso_frame){.kind = ISO_FRAME_WEIGHTS, .incarnation = 1, .round = round, .serial = serial, .slice_count = 1};
    assert_true(iso_frame_cut(f, data, DATA, STRIDE, index));
}

/* Any order, repeats included: complete exactly once, when the last missing chunk comes. */
static void chunks_in_any_order_make_the_whole(void **state)
{
    (void)state;
    uint8_t data[DATA], got[DATA];
    uint64_t seen[1];
    iso_assembly a;
    iso_frame f;
    assert_int_equal(iso_assembly_words(DATA, STRIDE), 1);
    iso_assembly_init(&a, got, DATA, STRIDE, seen);
    srand(3);
    for (uint64_t round = 1; round <= 300; round++) {
        int have[CHUNKS] = {0}, missing = CHUNKS, complete = 0;
        for (int i = 0; i < DATA; i++)
            data[i] = (uint8_t)rand();
        while (missing > 0) {
            uint32_t index = (uint32_t)rand() % CHUNKS;
            chunk_of(&f, data, index, round, 0);
            iso_gather g = iso_assembly_add(&a, &f);
            missing -= !have[index];
            assert_int_equal(g, have[index] ? ISO_GATHER_OLD : missing == 0 ? ISO_GATHER_COMPLETE : ISO_GATHER_MORE);
            complete += g == ISO_GATHER_COMPLETE;
            have[index] = 1;
        }
        assert_int_equal(complete, 1);
        assert_memory_equal(got, data, DATA);
    }
}

/* A newer version in the middle: nothing of the older one is used, and its late chunks change nothing. */
static void versions_do_not_mix(void **state)
{
    (void)state;
    uint8_t before[DATA], after[DATA], got[DATA];
    uint64_t seen[1];
    iso_assembly a;
    iso_frame f;
    memset(before, 1, DATA);
    memset(after, 2, DATA);
    iso_assembly_init(&a, got, DATA, STRIDE, seen);
    for (uint32_t i = 0; i < CHUNKS - 1; i++) {
        chunk_of(&f, before, i, 4, 1);
        assert_int_equal(iso_assembly_add(&a, &f), ISO_GATHER_MORE);
    }
    for (uint32_t i = 0; i < CHUNKS; i++) {
        chunk_of(&f, after, CHUNKS - 1 - i, 4, 2);
        assert_int_equal(iso_assembly_add(&a, &f), i + 1 < CHUNKS ? ISO_GATHER_MORE : ISO_GATHER_COMPLETE);
        chunk_of(&f, before, 0, 4, 1); /* the last one that is missing, but of the older version */
        assert_int_equal(iso_assembly_add(&a, &f), ISO_GATHER_OLD);
    }
    assert_memory_equal(got, after, DATA);
    chunk_of(&f, after, 3, 4, 3);
    f.chunk_bytes--;
    assert_int_equal(iso_assembly_add(&a, &f), ISO_GATHER_BAD);
    chunk_of(&f, after, 3, 4, 3);
    f.chunk_count++;
    assert_int_equal(iso_assembly_add(&a, &f), ISO_GATHER_BAD);
    chunk_of(&f, after, 3, 4, 3);
    f.chunk_stride--;
    assert_int_equal(iso_assembly_add(&a, &f), ISO_GATHER_BAD);
    chunk_of(&f, after, 3, 4, 3);
    f.bulk = NULL;
    assert_int_equal(iso_assembly_add(&a, &f), ISO_GATHER_BAD);
    assert_memory_equal(got, after, DATA);
}

static void no_bytes_are_one_chunk(void **state)
{
    (void)state;
    uint64_t seen[1];
    iso_assembly a;
    iso_frame f = {.kind = ISO_FRAME_SUM, .slice_count = 1};
    iso_assembly_init(&a, NULL, 0, STRIDE, seen);
    assert_true(iso_frame_cut(&f, NULL, 0, STRIDE, 0));
    assert_false(iso_frame_cut(&f, NULL, 0, STRIDE, 1));
    assert_int_equal(iso_assembly_add(&a, &f), ISO_GATHER_COMPLETE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(the_header_has_its_documented_bytes),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(fields_out_of_range_are_refused),
        cmocka_unit_test(bodies_come_back_and_refuse_other_lengths),
        cmocka_unit_test(nonsense_bodies_are_refused),
        cmocka_unit_test(chunks_in_any_order_make_the_whole),
        cmocka_unit_test(versions_do_not_mix),
        cmocka_unit_test(no_bytes_are_one_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
