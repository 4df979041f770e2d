/* SPDX-License-Identifier: Apache-2.0
 * Payloads: floats to bytes with error feedback, bytes to floats, floats to weighted integer sums and back; the monitor's
 * figures. Each is one correctly rounded operation a value after another, so all sets give the same bytes.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/grid.h"

enum { BLOCK = ISO_BLOCK, HALF = BLOCK / 2 };

#define LARGEST 0x1p22f
#define EXPONENT_BIAS 40          /* byte 0: a scale of 2^-40 */
#define EXPONENT_MAX_INT8 56      /* 127 2^16 >= 2^22 */
#define EXPONENT_MAX_INT4 60      /* 7 2^20 >= 2^22 */

static const bool little_endian = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

ISO_INLINE vf v_rint(vf x) { return v_sub(v_add(x, v_set(0x1.8p23f)), v_set(0x1.8p23f)); } /* |x| < 2^22, ties to even */
ISO_INLINE vi i_whole(vf x) { return i_sub(i_bits(v_add(x, v_set(0x1.8p23f))), i_set(0x4B400000)); } /* of a v_rint */
ISO_INLINE vf v_power(int exponent) { return v_bits(i_set((127 + exponent) << 23)); }

/* x to a multiple of 2^-40, where it is below `least` (at most 2^-17) and so may not be one */
ISO_INLINE vf v_grid(vf x, float least)
{
    vf size = v_mul(v_abs(x), v_set(0x1p40f)), whole = v_mul(v_sub(v_add(size, v_set(0x1p23f)), v_set(0x1p23f)), v_set(0x1p-40f));
    vf rounded = v_bits(i_or(i_bits(whole), i_and(i_bits(x), i_set(INT32_MIN))));
    return v_select(v_lt(v_abs(x), v_set(least)), rounded, x);
}

static size_t up16(size_t n)
{
    return iso_round16(n);
}

static void put_words(uint8_t *out, const void *words, size_t n, size_t width)
{
    const uint8_t *from = words;
    if (little_endian) {
        memcpy(out, from, n * width);
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < width; b++)
            out[i * width + b] = from[i * width + width - 1 - b];
}

/* The largest lane; false when a value was not finite or not below limit. */
static bool lanes_below(vf largest, vf wrong, float limit, float *out)
{
    float lane[VL], bad[VL], top = 0;
    bool good = true;
    v_store(lane, largest);
    v_store(bad, wrong);
    for (int i = 0; i < VL; i++) {
        top = lane[i] > top ? lane[i] : top;
        good &= bad[i] == 0.0f;
    }
    *out = top;
    return good && top < limit;
}

/* |value| of all: *largest. False when one is not finite or not below limit. */
static bool look(const float *value, size_t n, float limit, float *largest)
{
    vf top = v_zero(), wrong = v_zero();
    for (size_t i = 0; i < up16(n); i += VL) {
        vf x = v_load(value + i);
        top = v_max(v_abs(x), top);
        wrong = v_add(v_sub(x, x), wrong);
    }
    return lanes_below(top, wrong, limit, largest);
}

static bool add_error(float *value, const float *error, size_t n, float *largest)
{
    vf top = v_zero(), wrong = v_zero();
    for (size_t i = 0; i < up16(n); i += VL) {
        vf x = v_flush(v_add(v_load(value + i), v_load(error + i)));
        top = v_max(v_abs(x), top);
        wrong = v_add(v_sub(x, x), wrong);
        v_store(value + i, x);
    }
    return lanes_below(top, wrong, LARGEST, largest);
}

/* The least exponent k >= -40 with (2^bits - 1) 2^k >= largest, for quanta of so many bits and a sign. */
static int exponent_for(float largest, int bits)
{
    uint32_t pattern, top;
    float whole = (float)((1 << bits) - 1), rounded;
    memcpy(&pattern, &largest, sizeof pattern);
    int k = (int)(pattern >> 23) - 127 - (bits - 1);
    if (k < -EXPONENT_BIAS)
        return -EXPONENT_BIAS;
    memcpy(&top, &whole, sizeof top);
    top += (uint32_t)k << 23;
    memcpy(&rounded, &top, sizeof rounded);
    return rounded >= largest ? k : k + 1;
}

/* One register of quanta: *value becomes what is sent, *rest what is not. */
ISO_INLINE vf quantise(float *value, float *rest, vf scale, vf inverse)
{
    vf x = v_load(value), whole = v_rint(v_mul(x, inverse)), sent = v_mul(whole, scale);
    v_store(rest, v_sub(x, sent));
    v_store(value, sent);
    return whole;
}

static void pack_int8(uint8_t *out, size_t n, float *value, float *rest, float largest)
{
    uint8_t temp[BLOCK], *to = n % 16 ? temp : out + 1;
    int k = exponent_for(largest, 7);
    vf scale = v_power(k), inverse = v_power(-k);
    for (size_t i = 0; i < up16(n); i += VL) {
        vf whole = quantise(value + i, rest + i, scale, inverse);
        i_store_u8(to + i, i_and(i_whole(whole), i_set(255)));
    }
    out[0] = (uint8_t)(k + EXPONENT_BIAS);
    if (n % 16)
        memcpy(out + 1, temp, n);
}

static void pack_nibbles(uint8_t *out, size_t n, float *low, float *high, float *rest_low, float *rest_high, int k)
{
    vf scale = v_power(k), inverse = v_power(-k);
    for (size_t i = 0; i < n; i += VL) {
        vf a = quantise(low + i, rest_low + i, scale, inverse), b = quantise(high + i, rest_high + i, scale, inverse);
        vi lower = i_and(i_whole(a), i_set(15)), upper = i_and(i_whole(v_mul(b, v_set(16.0f))), i_set(240));
        i_store_u8(out + i, i_or(lower, upper));
    }
}

static void pack_int4(uint8_t *out, size_t n, float *value, float *rest, float largest)
{
    int k = exponent_for(largest, 3);
    out[0] = (uint8_t)(k + EXPONENT_BIAS);
    if (n == BLOCK) {
        pack_nibbles(out + 1, HALF, value, value + HALF, rest, rest + HALF, k);
        return;
    }
    size_t half = (n + 1) / 2, room = up16(half);
    float low[HALF], high[HALF], rest_low[HALF], rest_high[HALF];
    uint8_t temp[HALF];
    memset(low, 0, room * sizeof *low);
    memset(high, 0, room * sizeof *high);
    memcpy(low, value, half * sizeof *low);
    memcpy(high, value + half, (n - half) * sizeof *high);
    pack_nibbles(temp, room, low, high, rest_low, rest_high, k);
    memcpy(value, low, half * sizeof *low);
    memcpy(value + half, high, (n - half) * sizeof *high);
    memcpy(rest, rest_low, half * sizeof *rest_low);
    memcpy(rest + half, rest_high, (n - half) * sizeof *rest_high);
    memset(rest + n, 0, (up16(n) - n) * sizeof *rest);
    memcpy(out + 1, temp, half);
}

static void pack_bf16(uint8_t *out, size_t n, float *value, float *rest)
{
    uint16_t word[BLOCK];
    for (size_t i = 0; i < up16(n); i += VL) {
        vf x = v_load(value + i), gridded = v_grid(x, 0x1p-33f);
        vi bits = i_bits(gridded), odd = i_and(i_shr16(bits), i_set(1));
        vi upper = i_shr16(i_add(i_add(bits, i_set(0x7FFF)), odd));
        vf sent = v_bits(i_shl16(upper));
        i_store_u16(word + i, upper);
        v_store(rest + i, v_sub(x, sent));
        v_store(value + i, sent);
    }
    put_words(out, word, n, sizeof *word);
}

static void pack_fp32(uint8_t *out, size_t n, float *value, float *rest)
{
    for (size_t i = 0; i < up16(n); i += VL) {
        vf x = v_load(value + i), sent = v_grid(x, 0x1p-17f);
        v_store(rest + i, v_sub(x, sent));
        v_store(value + i, sent);
    }
    put_words(out, value, n, sizeof *value);
}

bool ISO_K(pack)(iso_payload payload, uint8_t *out, size_t n, float *value, const float *error, float *rest)
{
    float largest;
    if (payload == ISO_PAYLOAD_EXACT) {
        if (rest != error)
            memcpy(rest, error, up16(n) * sizeof *rest);
        put_words(out, value, n, sizeof *value);
        return look(value, n, LARGEST, &largest);
    }
    if (!add_error(value, error, n, &largest))
        return false;
    if (payload == ISO_PAYLOAD_INT8)
        pack_int8(out, n, value, rest, largest);
    else if (payload == ISO_PAYLOAD_INT4)
        pack_int4(out, n, value, rest, largest);
    else if (payload == ISO_PAYLOAD_BF16)
        pack_bf16(out, n, value, rest);
    else
        pack_fp32(out, n, value, rest);
    return true;
}

/* ---- and back ------------------------------------------------------------------------------------------------------------- */

/* byte & mask as a two's complement number whose sign is `sign` */
ISO_INLINE vf v_signed(vi byte, int32_t mask, int32_t sign)
{
    vi x = i_and(i_add(i_and(byte, i_set(mask)), i_set(sign)), i_set(mask));
    return v_from_i(i_sub(x, i_set(sign)));
}

static void unpack_int8(float *value, size_t n, const uint8_t *in)
{
    uint8_t temp[BLOCK];
    const uint8_t *from = in + 1;
    vf scale = v_power((int)in[0] - EXPONENT_BIAS);
    if (n % 16) {
        memset(temp + n, 0, up16(n) - n);
        from = memcpy(temp, from, n);
    }
    for (size_t i = 0; i < up16(n); i += VL)
        v_store(value + i, v_mul(v_signed(i_load_u8(from + i), 255, 128), scale));
}

static void unpack_int4(float *value, size_t n, const uint8_t *in)
{
    float low[HALF], high[HALF];
    uint8_t temp[HALF];
    size_t half = (n + 1) / 2;
    bool whole = n == BLOCK;
    const uint8_t *from = in + 1;
    float *to_low = whole ? value : low, *to_high = whole ? value + HALF : high;
    vf scale = v_power((int)in[0] - EXPONENT_BIAS), sixteenth = v_mul(scale, v_set(0x1p-4f));
    if (!whole) {
        memset(temp, 0, up16(half));
        from = memcpy(temp, from, half);
    }
    for (size_t i = 0; i < up16(half); i += VL) {
        vi byte = i_load_u8(from + i);
        v_store(to_low + i, v_mul(v_signed(byte, 15, 8), scale));
        v_store(to_high + i, v_mul(v_signed(byte, 240, 128), sixteenth));
    }
    if (whole)
        return;
    memcpy(value, low, half * sizeof *low);
    memcpy(value + half, high, (n - half) * sizeof *high);
    memset(value + n, 0, (up16(n) - n) * sizeof *value);
}

static void unpack_words(iso_payload payload, float *value, size_t n, const uint8_t *in)
{
    uint16_t word[BLOCK];
    memset(value + n, 0, (up16(n) - n) * sizeof *value);
    if (payload != ISO_PAYLOAD_BF16) {
        put_words((uint8_t *)value, in, n, sizeof *value);
        return;
    }
    memset(word + n, 0, (up16(n) - n) * sizeof *word);
    put_words((uint8_t *)word, in, n, sizeof *word);
    for (size_t i = 0; i < up16(n); i += VL)
        v_store(value + i, v_bits(i_shl16(i_load_u16(word + i))));
}

bool ISO_K(unpack)(iso_payload payload, float *value, size_t n, const uint8_t *in, float limit)
{
    float largest;
    if (payload == ISO_PAYLOAD_INT8) {
        if (in[0] > EXPONENT_MAX_INT8)
            return false;
        unpack_int8(value, n, in);
    } else if (payload == ISO_PAYLOAD_INT4) {
        if (in[0] > EXPONENT_MAX_INT4)
            return false;
        unpack_int4(value, n, in);
    } else {
        unpack_words(payload, value, n, in);
    }
    return look(value, n, limit, &largest);
}

/* ---- sums, steps, figures ------------------------------------------------------------------------------------------------- */

void ISO_K(weigh)(int64_t *sum, const float *value, size_t n, double scale)
{
    for (size_t i = 0; i < n; i += VL)
        q_store(sum + i, q_add(q_load(sum + i), q_rint_scaled(value + i, scale)));
}

void ISO_K(mean)(float *value, const int64_t *sum, size_t n, double scale)
{
    for (size_t i = 0; i < n; i += VL)
        v_store(value + i, v_from_d(d_from_q(q_load(sum + i)), scale));
}

void ISO_K(outer)(float *value, float *velocity, size_t n, float rate, float momentum)
{
    vf m = v_set(momentum), r = v_set(rate);
    for (size_t i = 0; i < n; i += VL) {
        vf x = v_load(value + i), u = v_flush(v_fma(m, v_load(velocity + i), x));
        v_store(velocity + i, u);
        v_store(value + i, v_mul(r, v_fma(m, u, x)));
    }
}

static double tree16(float *a)
{
    for (int width = 8; width > 1; width /= 2)
        for (int i = 0; i < width; i++)
            a[i] += a[i + width];
    return (double)a[0] + (double)a[1];
}

void ISO_K(distance)(const float *w, const float *base, const float *direction, size_t n, double *square, double *dot)
{
    float lane[16], other[16];
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t end = n - first < BLOCK ? n : first + BLOCK;
        for (size_t part = 0; part < 16; part += VL) {
            vf squares = v_zero(), dots = v_zero();
            for (size_t i = first + part; i < end; i += 16) {
                vf d = base == NULL ? v_load(w + i) : v_sub(v_load(w + i), v_load(base + i));
                squares = v_fma(d, d, squares);
                if (direction != NULL)
                    dots = v_fma(d, v_load(direction + i), dots);
            }
            v_store(lane + part, squares);
            v_store(other + part, dots);
        }
        *square += tree16(lane);
        *dot += tree16(other);
    }
}
