/* SPDX-License-Identifier: Apache-2.0
 * Dense layers of few samples. Forward: samples x registers of outputs. Backward: one walk over the panels, some inputs at a time while
 * their weights are in the first-level cache. There the weights are turned 16x16 for dx (lane = input), and then take their step:
 * gradient, grid and optimiser in registers, nothing in between is stored.
 */
#include "nn/kernel/isa/isa.h"
#include "nn/kernel/isa/narrow_simd.h"
#include "nn/kernel/isa/tile.h"
#include "nn/kernel/isa/transpose.h"

/* ---- forward --------------------------------------------------------------------------------------------------------------- */

#define FORWARD(M, N) ISO_DEFINE_TILE(forward, M, N, s->a_row)
FORWARD(1, 1)
FORWARD(1, 2)
FORWARD(1, 4)
FORWARD(1, 8)
FORWARD(2, 1)
FORWARD(2, 2)
FORWARD(2, 4)
FORWARD(4, 1)
FORWARD(4, 2)
typedef void dense_tile(const tile_sum *, const tile_ends *);
#define MOST 8
/* [log2 of the samples][log2 of the registers] */
static dense_tile *const tiles[3][4] = {
    {forward_1x1, forward_1x2, forward_1x4, forward_1x8}, {forward_2x1, forward_2x2, forward_2x4}, {forward_4x1, forward_4x2}};
static const uint32_t most_log[3] = {3, 2, 1};

/* The largest power of two of at most `most` and n, as its logarithm. */
ISO_INLINE uint32_t power_in(size_t n, uint32_t most)
{
    uint32_t log = 0;
    while (log < most && (size_t)2 << log <= n)
        log++;
    return log;
}

void ISO_K(narrow_dense_forward)(const iso_dense *d, uint32_t n, float *y, const float *x, const float *w, const float *bias,
                                 iso_act act)
{
    size_t total = iso_round16(d->out) / VL, x_row = iso_narrow_row(d->in), y_row = iso_narrow_row(d->out);
    const float *panel[MOST], *from[MOST];
    float *to[MOST];
    tile_sum sum = {.outer = 1, .n = d->in, .a_row = x_row, .ak = 1, .b = panel, .bk = 16};
    tile_ends ends = {.to = to, .to_row = y_row, .from = from, .from_row = 0, .relu = act == ISO_ACT_RELU};
    for (uint32_t row = 0, rows; row < n; row += rows) {
        uint32_t row_log = power_in(n - row, 2);
        rows = 1u << row_log;
        sum.a = x + row * x_row;
        for (size_t column = 0, columns; column < total; column += columns) {
            uint32_t log = power_in(total - column, most_log[row_log]);
            columns = (size_t)1 << log;
            for (size_t v = 0; v < columns; v++) {
                size_t output = (column + v) * VL;
                panel[v] = w + output / 16 * d->in * 16 + output % 16;
                from[v] = bias + output;
                to[v] = y + row * y_row + output;
            }
            tiles[row_log][log](&sum, &ends);
        }
    }
}

/* ---- backward to the inputs --------------------------------------------------------------------------------------------------- */

#define CHUNK 128 /* inputs; a multiple of 16 */

/* Some inputs of one panel. */
typedef struct chunk {
    const float *x, *dy;      /* the first input, and the panel's first output, of the first sample */
    float *w, *v0, *v1;       /* [count][16]; v0, v1: state, NULL where the optimiser has none */
    size_t count, x_row, dy_row;
    uint32_t n;
    bool fresh;               /* dx begins with this panel */
} chunk;

/* VL inputs of one panel: c[m] = fma(w[output], dy[m][output], c[m]) over its 16 outputs, of M samples. */
#define ISO_B_START(m, x_) vf c##m = fresh ? v_zero() : v_load(dx + (m) * dx_row);
#define ISO_B_FMA0(m, x_) c##m = v_fma(a, v_set(dy[(m) * dy_row + quad]), c##m);
#define ISO_B_FMA1(m, x_) c##m = v_fma(b, v_set(dy[(m) * dy_row + quad + 1]), c##m);
#define ISO_B_FMA2(m, x_) c##m = v_fma(c, v_set(dy[(m) * dy_row + quad + 2]), c##m);
#define ISO_B_FMA3(m, x_) c##m = v_fma(d, v_set(dy[(m) * dy_row + quad + 3]), c##m);
#define ISO_B_STORE(m, x_) v_store(dx + (m) * dx_row, c##m);
#define ISO_DEFINE_DATA(M) \
    ISO_INLINE void data_##M(bool fresh, float *dx, size_t dx_row, const float *dy, size_t dy_row, const float *w, const size_t *at) \
    { \
        ISO_ROWS_##M(ISO_B_START, ~) \
        for (size_t quad = 0; quad < 16; quad += 4) { \
            vf a = v_quads(w + quad, at, 0), b = v_quads(w + quad, at, 1), c = v_quads(w + quad, at, 2), d = v_quads(w + quad, at, 3); \
            v_transpose4(&a, &b, &c, &d); \
            ISO_ROWS_##M(ISO_B_FMA0, ~) \
            ISO_ROWS_##M(ISO_B_FMA1, ~) \
            ISO_ROWS_##M(ISO_B_FMA2, ~) \
            ISO_ROWS_##M(ISO_B_FMA3, ~) \
        } \
        ISO_ROWS_##M(ISO_B_STORE, ~) \
    } \
    static void data_samples_##M(const chunk *k, float *dx, const float *dy) \
    { \
        static const size_t rows[16] = {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240}; \
        size_t whole = k->count / VL * VL, last[VL]; \
        for (size_t i = 0; i < whole; i += VL) \
            data_##M(k->fresh, dx + i, k->x_row, dy, k->dy_row, k->w + i * 16, rows); \
        if (whole == k->count) \
            return; \
        for (size_t i = 0; i < VL; i++) /* beyond the last input it again */ \
            last[i] = 16 * (whole + i < k->count ? i : k->count % VL - 1); \
        data_##M(k->fresh, dx + whole, k->x_row, dy, k->dy_row, k->w + whole * 16, last); \
    }
ISO_DEFINE_DATA(1)
ISO_DEFINE_DATA(2)
ISO_DEFINE_DATA(4)

static void chunk_data(const chunk *k, float *dx)
{
    static void (*const samples[])(const chunk *, float *, const float *) = {data_samples_1, data_samples_2, data_samples_4};
    for (uint32_t row = 0; row < k->n;) {
        uint32_t log = power_in(k->n - row, 2);
        samples[log](k, dx + row * k->x_row, k->dy + row * k->dy_row);
        row += 1u << log;
    }
}

/* ---- the weights' step ----------------------------------------------------------------------------------------------------------- */

/* n, kind and power are constants of the call where they can be; power: of step_power. bounded: no gradient can be too large. */
ISO_INLINE void step_chunk(const chunk *k, const iso_step *step, iso_optimizer_kind kind, bool momentum, uint32_t n, bool power,
                           bool bounded, step_seen *seen)
{
    const iso_step s = *step;
    const size_t count = k->count, x_row = k->x_row, dy_row = k->dy_row;
    const float *restrict x = k->x, *restrict dy = k->dy;
    float *restrict w = k->w, *restrict v0 = k->v0, *restrict v1 = k->v1;
    step_seen so_far = *seen;
    vf own[ISO_PARTS]; /* one sample's products go to the grid without a step between: scaled here they round alike */
    for (size_t part = 0; part < ISO_PARTS; part++)
        own[part] = v_mul(v_load(dy + part * VL), v_set(GRID_SCALE));
    for (size_t input = 0; input < count; input++) {
        for (size_t part = 0; part < ISO_PARTS; part++) {
            size_t at = input * 16 + part * VL;
            vf g;
            if (n == 1) {
                g = v_mul(v_set(x[input]), own[part]);
            } else {
                g = v_mul(v_set(x[input]), v_load(dy + part * VL));
                for (uint32_t i = 1; i < n; i++)
                    g = v_fma(v_set(x[i * x_row + input]), v_load(dy + i * dy_row + part * VL), g);
                g = v_mul(g, v_set(GRID_SCALE));
            }
            step_gradient(&s, kind, w + at, momentum ? v0 + at : NULL, kind == ISO_ADAM ? v1 + at : NULL, grid_mean(g, power, s.scale),
                          bounded, &so_far);
        }
    }
    *seen = so_far;
}

typedef void chunk_step(const chunk *, const iso_step *, step_seen *);
#define ISO_DEFINE_STEP(NAME, KIND, MOMENTUM) \
    static void NAME##_1(const chunk *k, const iso_step *s, step_seen *seen) \
    { \
        step_chunk(k, s, KIND, MOMENTUM, 1, true, true, seen); \
    } \
    static void NAME##_4(const chunk *k, const iso_step *s, step_seen *seen) \
    { \
        step_chunk(k, s, KIND, MOMENTUM, 4, true, true, seen); \
    } \
    static void NAME##_power(const chunk *k, const iso_step *s, step_seen *seen) \
    { \
        step_chunk(k, s, KIND, MOMENTUM, k->n, true, false, seen); \
    } \
    static void NAME##_any(const chunk *k, const iso_step *s, step_seen *seen) \
    { \
        step_chunk(k, s, KIND, MOMENTUM, k->n, false, false, seen); \
    }
ISO_DEFINE_STEP(plain, ISO_SGD, false)
ISO_DEFINE_STEP(momentum, ISO_SGD, true)
ISO_DEFINE_STEP(nesterov, ISO_NESTEROV, true)
ISO_DEFINE_STEP(adam, ISO_ADAM, true)
static chunk_step *const steps[4][4] = {{plain_1, plain_4, plain_power, plain_any},
                                        {momentum_1, momentum_4, momentum_power, momentum_any},
                                        {nesterov_1, nesterov_4, nesterov_power, nesterov_any},
                                        {adam_1, adam_4, adam_power, adam_any}};

/* The largest magnitude of n rows of `count` values; NaN or infinity when one is not finite. */
static float largest_of(const float *rows, size_t step, uint32_t n, size_t count)
{
    vf most = v_zero(), wrong = v_zero();
    float lanes[VL], not_finite[VL], largest = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        size_t at = 0;
        for (; at + VL <= count; at += VL) {
            vf value = v_load(rows + i * step + at);
            most = v_max(v_abs(value), most);
            wrong = v_fma(value, v_zero(), wrong);
        }
        for (; at < count; at++) {
            float value = __builtin_fabsf(rows[i * step + at]);
            largest = value > largest ? value : largest;
            wrong = v_fma(v_set(value), v_zero(), wrong);
        }
    }
    v_store(lanes, most);
    v_store(not_finite, wrong);
    for (size_t i = 0; i < VL; i++)
        largest = (lanes[i] > largest ? lanes[i] : largest) + not_finite[i];
    return largest;
}

static chunk_step *choose_step(const iso_dense *d, const iso_step *s, uint32_t n, const float *x, const float *dy)
{
    size_t kind = s->kind == ISO_ADAM ? 3 : s->momentum == 0.0f ? 0 : s->kind == ISO_NESTEROV ? 2 : 1;
    if (n == 1 || n == 4) {
        float bound = largest_of(x, iso_narrow_row(d->in), n, d->in) * largest_of(dy, iso_narrow_row(d->out), n, d->out);
        if (bound < 0x1p18f)
            return steps[kind][n == 4];
    }
    return steps[kind][step_power(s) ? 2 : 3];
}

bool ISO_K(narrow_dense_backward)(const iso_dense *d, const iso_step *s, uint32_t n, float *dx, const float *x, const float *dy, float *w,
                                  float *const *state)
{
    step_seen seen = step_seen_none();
    chunk k = {.n = n, .x_row = iso_narrow_row(d->in), .dy_row = iso_narrow_row(d->out)};
    chunk_step *step = choose_step(d, s, n, x, dy);
    size_t at = 0;
    for (size_t output = 0; output < d->out; output += 16) {
        for (size_t input = 0; input < d->in; input += k.count, at += k.count * 16) {
            k.count = d->in - input < CHUNK ? d->in - input : CHUNK;
            k.fresh = output == 0;
            k.x = x + input;
            k.dy = dy + output;
            k.w = w + at;
            k.v0 = state[0] != NULL ? state[0] + at : NULL;
            k.v1 = state[1] != NULL ? state[1] + at : NULL;
            if (dx != NULL)
                chunk_data(&k, dx + input);
            step(&k, s, &seen);
        }
    }
    return step_good(s, seen);
}

/* ---- the step of other values ---------------------------------------------------------------------------------------------------- */

bool ISO_K(narrow_step)(const iso_step *s, size_t count, float *w, float *const *state, const float *g)
{
    const iso_step numbers = *s;
    step_seen seen = step_seen_none();
    const bool power = step_power(s);
#define ISO_STEPS(KIND, STATE0, STATE1) \
    for (size_t i = 0; i < count; i += VL) \
        step_gradient(&numbers, KIND, w + i, STATE0, STATE1, \
                      grid_mean(v_mul(v_load(g + i), v_set(GRID_SCALE)), power, numbers.scale), false, &seen);
    if (s->kind == ISO_ADAM) {
        ISO_STEPS(ISO_ADAM, state[0] + i, state[1] + i)
    } else if (s->momentum == 0.0f) {
        ISO_STEPS(ISO_SGD, NULL, NULL)
    } else if (s->kind == ISO_NESTEROV) {
        ISO_STEPS(ISO_NESTEROV, state[0] + i, NULL)
    } else {
        ISO_STEPS(ISO_SGD, state[0] + i, NULL)
    }
#undef ISO_STEPS
    return step_good(s, seen);
}
