/* SPDX-License-Identifier: Apache-2.0
 * Dense layers of few samples. Forward: samples x registers of outputs. Backward to the inputs: panels are turned 16x16, lane =
 * input. The weights' step: gradient, grid and optimiser in one walk over the panels, nothing in between is stored.
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
    static void data_samples_##M(const iso_dense *l, float *dx, const float *dy, const float *w) \
    { \
        static const size_t rows[16] = {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240}; \
        size_t dx_row = iso_narrow_row(l->in), dy_row = iso_narrow_row(l->out), whole = l->in / VL * VL, last[VL]; \
        for (size_t i = 0; i < VL; i++) /* beyond the last input it again */ \
            last[i] = 16 * (whole + i < l->in ? i : l->in % VL - 1); \
        for (size_t output = 0; output < l->out; output += 16, w += (size_t)l->in * 16) { \
            for (size_t i = 0; i < whole; i += VL) \
                data_##M(output == 0, dx + i, dx_row, dy + output, dy_row, w + i * 16, rows); \
            if (whole != l->in) \
                data_##M(output == 0, dx + whole, dx_row, dy + output, dy_row, w + whole * 16, last); \
        } \
    }
ISO_DEFINE_DATA(1)
ISO_DEFINE_DATA(2)
ISO_DEFINE_DATA(4)

void ISO_K(narrow_dense_data)(const iso_dense *d, uint32_t n, float *dx, const float *dy, const float *w)
{
    static void (*const samples[])(const iso_dense *, float *, const float *, const float *) = {data_samples_1, data_samples_2,
                                                                                               data_samples_4};
    for (uint32_t row = 0; row < n;) {
        uint32_t log = power_in(n - row, 2);
        samples[log](d, dx + row * iso_narrow_row(d->in), dy + row * iso_narrow_row(d->out), w);
        row += 1u << log;
    }
}

/* ---- the weights' step ----------------------------------------------------------------------------------------------------------- */

typedef struct step_call {
    const iso_dense *l;
    const iso_step *s;
    const float *x, *dy;
    float *w, *v0, *v1;       /* v0, v1: state, NULL where the optimiser has none */
    uint32_t n;
} step_call;

/* n, kind and power are constants of the call where they can be; power: of step_power. */
ISO_INLINE void step_panels(const step_call *call, iso_optimizer_kind kind, bool momentum, uint32_t n, bool power, step_seen *seen)
{
    const iso_step s = *call->s;
    const size_t in = call->l->in, out = call->l->out, x_row = iso_narrow_row(in), dy_row = iso_narrow_row(out);
    const float *restrict x = call->x, *restrict dy = call->dy;
    float *restrict w = call->w, *restrict v0 = call->v0, *restrict v1 = call->v1;
    step_seen so_far = *seen;
    size_t at = 0;
    for (size_t output = 0; output < out; output += 16) {
        for (size_t input = 0; input < in; input++) {
            for (size_t part = 0; part < 16; part += VL, at += VL) {
                vf g = v_mul(v_set(x[input]), v_load(dy + output + part));
                for (uint32_t i = 1; i < n; i++)
                    g = v_fma(v_set(x[i * x_row + input]), v_load(dy + i * dy_row + output + part), g);
                step_gradient(&s, kind, w + at, momentum ? v0 + at : NULL, kind == ISO_ADAM ? v1 + at : NULL,
                              grid_mean(g, power, s.scale), &so_far);
            }
        }
    }
    *seen = so_far;
}

#define ISO_DEFINE_STEP(NAME, KIND, MOMENTUM) \
    static void step_##NAME(const step_call *call, step_seen *seen) \
    { \
        if (call->n == 1) \
            step_panels(call, KIND, MOMENTUM, 1, true, seen); \
        else if (call->n == 4) \
            step_panels(call, KIND, MOMENTUM, 4, true, seen); \
        else if (step_power(call->s)) \
            step_panels(call, KIND, MOMENTUM, call->n, true, seen); \
        else \
            step_panels(call, KIND, MOMENTUM, call->n, false, seen); \
    }
ISO_DEFINE_STEP(plain, ISO_SGD, false)
ISO_DEFINE_STEP(momentum, ISO_SGD, true)
ISO_DEFINE_STEP(nesterov, ISO_NESTEROV, true)
ISO_DEFINE_STEP(adam, ISO_ADAM, true)

bool ISO_K(narrow_dense_step)(const iso_dense *d, const iso_step *s, uint32_t n, const float *x, const float *dy, float *w,
                              float *const *state)
{
    step_seen seen = step_seen_none();
    step_call call = {.l = d, .s = s, .x = x, .dy = dy, .w = w, .n = n};
    if (s->kind == ISO_ADAM) {
        call.v0 = state[0];
        call.v1 = state[1];
        step_adam(&call, &seen);
    } else if (s->momentum == 0.0f) {
        step_plain(&call, &seen);
    } else {
        call.v0 = state[0];
        (s->kind == ISO_NESTEROV ? step_nesterov : step_momentum)(&call, &seen);
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
        step_gradient(&numbers, KIND, w + i, STATE0, STATE1, grid_mean(v_load(g + i), power, numbers.scale), &seen);
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
