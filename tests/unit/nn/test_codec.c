/* SPDX-License-Identifier: Apache-2.0
 * Payloads: every instruction set gives the oracle's bytes; what is not sent is in the error memory; sums of decoded values are
 * exact whatever the order; bytes from outside do no harm. */
#include <float.h>

#include "nn/codec.h"
#include "nn_test.h"

static const iso_isa sets[] = {ISO_ISA_SCALAR, ISO_ISA_AVX2, ISO_ISA_AVX512};
static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 511, 1023, 1024, 1025, 1039, 2047, 2500, 61706};

/* ---- the oracle: doubles, one value after another ------------------------------------------------------------------------ */

static float oracle_bf16(float v)
{
    int exponent;
    if (fabsf(v) < 0x1p-33f)
        return (float)(nearbyint(v * 0x1p40) * 0x1p-40);
    double mantissa = frexp(v, &exponent);
    return (float)ldexp(nearbyint(mantissa * 256) / 256, exponent);
}

static void oracle_block(iso_payload payload, size_t n, const float *v, float *sent, uint8_t *out)
{
    float largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fabsf(v[i]) > largest ? fabsf(v[i]) : largest;
    int k = -40, top = payload == ISO_PAYLOAD_INT8 ? 127 : 7;
    while (ldexp(top, k) < (double)largest)
        k++;
    out[0] = (uint8_t)(k + 40);
    memset(out + 1, 0, payload == ISO_PAYLOAD_INT8 ? n : (n + 1) / 2);
    for (size_t i = 0; i < n; i++) {
        int q = (int)nearbyint(ldexp(v[i], -k));
        size_t half = (n + 1) / 2;
        sent[i] = (float)ldexp(q, k);
        if (payload == ISO_PAYLOAD_INT8)
            out[1 + i] = (uint8_t)q;
        else if (i < half)
            out[1 + i] |= (uint8_t)(q & 15);
        else
            out[1 + i - half] |= (uint8_t)((q & 15) << 4);
    }
}

static void oracle(iso_payload payload, size_t count, const float *value, const float *error, float *sent, float *rest,
                   uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        float v = value[i] + error[i];
        v = fabsf(v) < 0x1p-60f ? 0 : v;
        if (payload == ISO_PAYLOAD_EXACT)
            v = value[i];
        sent[i] = payload == ISO_PAYLOAD_BF16   ? oracle_bf16(v)
                  : payload == ISO_PAYLOAD_FP32 ? fabsf(v) < 0x1p-17f ? (float)(nearbyint(v * 0x1p40) * 0x1p-40) : v
                                                : v;
        rest[i] = v;
        if (payload == ISO_PAYLOAD_BF16) {
            uint32_t bits;
            memcpy(&bits, &sent[i], sizeof bits);
            out[2 * i] = (uint8_t)(bits >> 16);
            out[2 * i + 1] = (uint8_t)(bits >> 24);
        } else if (payload <= ISO_PAYLOAD_FP32) {
            memcpy(out + 4 * i, &sent[i], 4);
        }
    }
    for (size_t at = 0; payload >= ISO_PAYLOAD_INT8 && at < count; at += ISO_BLOCK) {
        size_t n = count - at < ISO_BLOCK ? count - at : ISO_BLOCK;
        oracle_block(payload, n, rest + at, sent + at, out + iso_payload_bytes(payload, at));
    }
    for (size_t i = 0; i < count; i++)
        rest[i] = payload == ISO_PAYLOAD_EXACT ? error[i] : rest[i] - sent[i];
}

/* ---- values of every kind ------------------------------------------------------------------------------------------------ */

enum { ORDINARY, SPREAD, TIES, LARGE, TINY, ZERO, KINDS };

static float draw(int kind, uint64_t *random)
{
    double x = (double)(test_random(random) >> 11) * 0x1p-53 * 2 - 1;
    switch (kind) {
    case ORDINARY:
        return (float)(0.01 * x);
    case SPREAD:
        return (float)ldexp(x, (int)test_random_below(random, 60) - 45);
    case TIES:
        return (float)((double)((int64_t)test_random_below(random, 255) - 127) * 0.5);
    case LARGE:
        return (float)(x * 4194303.0);
    case TINY:
        return (float)ldexp(x, -(int)test_random_below(random, 100) - 30);
    default:
        return 0;
    }
}

typedef struct buffers {
    float *value, *error, *sent, *rest, *want_sent, *want_rest, *decoded;
    uint8_t *out, *want;
    size_t count;
} buffers;

/* Exactly sized malloc memory: a sanitizer sees what goes beyond. */
static buffers open_buffers(iso_payload payload, size_t count)
{
    buffers b = {.count = count};
    float **array[] = {&b.value, &b.error, &b.sent, &b.rest, &b.want_sent, &b.want_rest, &b.decoded};
    for (size_t i = 0; i < TEST_COUNT(array); i++)
        assert_non_null(*array[i] = malloc(count * sizeof(float)));
    assert_non_null(b.out = malloc(iso_payload_bytes(payload, count)));
    assert_non_null(b.want = malloc(iso_payload_bytes(payload, count)));
    return b;
}

static void close_buffers(buffers *b)
{
    void *block[] = {b->value, b->error, b->sent, b->rest, b->want_sent, b->want_rest, b->decoded, b->out, b->want};
    for (size_t i = 0; i < TEST_COUNT(block); i++)
        free(block[i]);
}

static void same(const char *what, iso_payload payload, iso_isa isa, const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("%s %s, %s: value %zu of %zu is %a, not %a", iso_isa_name(isa), iso_payload_name(payload), what, i, n,
                     (double)got[i], (double)want[i]);
}

static void compare_one(iso_payload payload, size_t count, int kind, uint64_t *random)
{
    iso_error e = {0};
    buffers b = open_buffers(payload, count);
    for (size_t i = 0; i < count; i++) {
        b.value[i] = draw(kind, random);
        b.error[i] = kind == LARGE || kind == ZERO || kind == TIES ? 0 : draw(kind, random);
    }
    oracle(payload, count, b.value, b.error, b.want_sent, b.want_rest, b.want);
    for (size_t s = 0; s < TEST_COUNT(sets); s++) {
        if (!iso_kernels_of(sets[s]))
            continue;
        if (iso_payload_encode(sets[s], payload, count, b.value, b.error, b.rest, b.sent, b.out, &e))
            fail_msg("%s", e.text);
        same("sent", payload, sets[s], b.sent, b.want_sent, count);
        same("rest", payload, sets[s], b.rest, b.want_rest, count);
        assert_memory_equal(b.out, b.want, iso_payload_bytes(payload, count));
        if (iso_payload_decode(sets[s], payload, count, b.out, iso_payload_bytes(payload, count), b.decoded, &e))
            fail_msg("%s", e.text);
        same("decoded", payload, sets[s], b.decoded, b.want_sent, count);
    }
    close_buffers(&b);
}

static void every_set_gives_the_oracles_bytes(void **state)
{
    (void)state;
    uint64_t random = test_seed("test_codec");
    for (int p = 0; p < (int)ISO_PAYLOADS; p++)
        for (size_t i = 0; i < TEST_COUNT(sizes); i++)
            for (int kind = 0; kind < KINDS; kind++)
                compare_one((iso_payload)p, sizes[i], kind, &random);
}

static void sizes_are_those_of_the_description(void **state)
{
    (void)state;
    static const size_t lenet[] = {246824, 246824, 123412, 61767, 30914};
    for (int p = 0; p < (int)ISO_PAYLOADS; p++) {
        iso_payload back;
        assert_int_equal(iso_payload_bytes((iso_payload)p, 61706), lenet[p]);
        assert_int_equal(iso_payload_bytes((iso_payload)p, 0), 0);
        assert_int_equal(iso_payload_parse(iso_payload_name((iso_payload)p), &back), ISO_OK);
        assert_int_equal(back, p);
        assert_true(iso_payload_bytes((iso_payload)p, SIZE_MAX - 1) == SIZE_MAX);
    }
    iso_payload other;
    assert_int_equal(iso_payload_parse("int16", &other), ISO_E_ARGUMENT);
    assert_string_equal(iso_payload_name((iso_payload)77), "?");
}

/* A thousand rounds of one value each: what was sent and what is kept add up to what was to be sent. */
static void nothing_is_lost(void **state)
{
    (void)state;
    enum { COUNT = 1500, ROUNDS = 400 };
    uint64_t random = test_seed("test_codec");
    for (int p = ISO_PAYLOAD_FP32; p < (int)ISO_PAYLOADS; p++) {
        buffers b = open_buffers((iso_payload)p, COUNT);
        double raw[COUNT] = {0}, sent[COUNT] = {0}, moved = 0;
        memset(b.error, 0, COUNT * sizeof(float));
        for (int r = 0; r < ROUNDS; r++) {
            for (size_t i = 0; i < COUNT; i++)
                raw[i] += (double)(b.value[i] = draw(ORDINARY, &random));
            assert_int_equal(iso_payload_encode(ISO_ISA_AUTO, (iso_payload)p, COUNT, b.value, b.error, b.error, b.value, b.out,
                                                NULL), ISO_OK);
            for (size_t i = 0; i < COUNT; i++)
                sent[i] += (double)b.value[i];
        }
        for (size_t i = 0; i < COUNT; i++) {
            double lost = fabs(sent[i] + (double)b.error[i] - raw[i]);
            if (lost > ROUNDS * 0.02 * 0x1p-24)
                fail_msg("%s: value %zu lost %g of %g", iso_payload_name((iso_payload)p), i, lost, raw[i]);
            moved += fabs(sent[i]);
        }
        assert_true(moved > 1);
        close_buffers(&b);
    }
}

/* Decoded values times samples: the sum is the integer that exact arithmetic gives, forwards and backwards. */
static void weighted_sums_are_exact(void **state)
{
    (void)state;
    enum { COUNT = 1024, NODES = 7 };
    uint64_t random = test_seed("test_codec");
    for (int p = ISO_PAYLOAD_FP32; p < (int)ISO_PAYLOADS; p++) {
        float value[NODES][COUNT], none[COUNT] = {0}, rest[COUNT];
        int64_t want[COUNT] = {0}, sum[COUNT];
        uint64_t samples[NODES];
        uint8_t out[4 * COUNT + 1];
        for (int k = 0; k < NODES; k++) {
            samples[k] = 1 + test_random_below(&random, 20000);
            for (size_t i = 0; i < COUNT; i++)
                value[k][i] = draw(i % 3 ? ORDINARY : TINY, &random);
            assert_true(iso_kernels_of(ISO_ISA_SCALAR)->pack((iso_payload)p, out, COUNT, value[k], none, rest));
            for (size_t i = 0; i < COUNT; i++) {
                double grid = (double)value[k][i] * 0x1p40;
                assert_true(grid == nearbyint(grid));
                want[i] += (int64_t)grid * (int64_t)samples[k];
            }
        }
        for (size_t s = 0; s < TEST_COUNT(sets); s++)
            for (int turn = 0; iso_kernels_of(sets[s]) && turn < 2; turn++) {
                memset(sum, 0, sizeof sum);
                for (int k = 0; k < NODES; k++) {
                    int node = turn ? NODES - 1 - k : k;
                    iso_kernels_of(sets[s])->weigh(sum, value[node], COUNT, (double)samples[node] * 0x1p40);
                }
                assert_memory_equal(sum, want, sizeof sum);
            }
    }
}

static void figures_are_the_same_everywhere(void **state)
{
    (void)state;
    enum { COUNT = 2064 };
    uint64_t random = test_seed("test_codec");
    float w[COUNT], base[COUNT], direction[COUNT];
    double square = 0, dot = 0, first_square = 0, first_dot = 0;
    for (size_t i = 0; i < COUNT; i++) {
        w[i] = draw(ORDINARY, &random);
        base[i] = draw(ORDINARY, &random);
        direction[i] = draw(ORDINARY, &random);
        double d = (double)w[i] - (double)base[i];
        square += d * d;
        dot += d * (double)direction[i];
    }
    for (size_t s = 0; s < TEST_COUNT(sets); s++) {
        if (!iso_kernels_of(sets[s]))
            continue;
        double a = 0, b = 0;
        iso_kernels_of(sets[s])->distance(w, base, direction, COUNT, &a, &b);
        assert_true(fabs(a - square) < 1e-5 * square && fabs(b - dot) < 1e-5 * square);
        if (s == 0) {
            first_square = a;
            first_dot = b;
        }
        assert_true(a == first_square && b == first_dot);
    }
}

static void a_bad_value_is_named(void **state)
{
    (void)state;
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 0x1p22f, -FLT_MAX};
    for (int p = 0; p < (int)ISO_PAYLOADS; p++)
        for (size_t i = 0; i < TEST_COUNT(bad); i++) {
            iso_error e = {0};
            buffers b = open_buffers((iso_payload)p, 1300);
            memset(b.value, 0, 1300 * sizeof(float));
            b.value[1234] = bad[i];
            assert_int_equal(iso_payload_encode(ISO_ISA_AUTO, (iso_payload)p, 1300, b.value, NULL, NULL, NULL, b.out, &e),
                             ISO_E_NONFINITE);
            test_expect_word(e.text, "value 1234 ");
            close_buffers(&b);
        }
}

/* Any length, any byte: an error that says which, or finite values. */
static void bad_bytes_do_no_harm(void **state)
{
    (void)state;
    enum { COUNT = 1100 };
    uint64_t random = test_seed("test_codec");
    for (int p = 0; p < (int)ISO_PAYLOADS; p++) {
        iso_payload payload = (iso_payload)p;
        size_t bytes = iso_payload_bytes(payload, COUNT);
        iso_error e = {0};
        buffers b = open_buffers(payload, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            b.value[i] = draw(ORDINARY, &random);
        assert_int_equal(iso_payload_encode(ISO_ISA_AUTO, payload, COUNT, b.value, NULL, NULL, NULL, b.out, NULL), ISO_OK);
        for (size_t length = 0; length < bytes + 5; length++)
            if (length != bytes)
                assert_int_equal(iso_payload_decode(ISO_ISA_AUTO, payload, COUNT, b.out, length, b.decoded, &e), ISO_E_PROTOCOL);
        for (size_t at = 0; at < bytes; at++)
            for (int v = 0; v < 256; v += at % ISO_BLOCK < 3 ? 1 : 51) {
                uint8_t before = b.out[at];
                b.out[at] = (uint8_t)v;
                int status = iso_payload_decode(ISO_ISA_AUTO, payload, COUNT, b.out, bytes, b.decoded, &e);
                assert_true(status == ISO_OK || status == ISO_E_PROTOCOL || status == ISO_E_NONFINITE);
                for (size_t i = 0; status == ISO_OK && i < COUNT; i++)
                    assert_true(fabsf(b.decoded[i]) < 0x1p23f);
                b.out[at] = before;
            }
        close_buffers(&b);
    }
    uint8_t block[3] = {57, 1, 1};
    float value[2];
    iso_error e = {0};
    assert_int_equal(iso_payload_decode(ISO_ISA_AUTO, ISO_PAYLOAD_INT8, 2, block, 3, value, &e), ISO_E_PROTOCOL);
    test_expect_word(e.text, "exponent of block 0 is 57");
    assert_int_equal(iso_payload_decode(ISO_ISA_AUTO, (iso_payload)9, 2, block, 8, value, &e), ISO_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_gives_the_oracles_bytes), cmocka_unit_test(sizes_are_those_of_the_description),
        cmocka_unit_test(nothing_is_lost),                   cmocka_unit_test(weighted_sums_are_exact),
        cmocka_unit_test(figures_are_the_same_everywhere),   cmocka_unit_test(a_bad_value_is_named),
        cmocka_unit_test(bad_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
