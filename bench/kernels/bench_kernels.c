/* SPDX-License-Identifier: Apache-2.0
 * Time of every kernel a training step of LeNet-5, of an MLP, or of AlexNet's third convolution runs, on one core: microseconds
 * a unit, GFLOP/s, and the share of the peak that a loop of register-only fused multiply-adds reaches. With ISO_BENCH_ONEDNN the
 * same shapes in oneDNN stand beside them.
 *
 *   bench_kernels [ISA [UNIT]]     ISA: auto, avx512, avx2, scalar; UNIT: samples, 16 or 32
 *
 * Times are minima over rounds of at least a millisecond: on a shared machine the minimum is what the code can do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_onednn.h"
#include "nn/kernel/kernel.h"

static const iso_kernels *K;
static uint32_t unit, groups;
static double peak; /* GFLOP/s */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *array(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (p == NULL) {
        fprintf(stderr, "bench_kernels: out of memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static float *numbers(size_t n)
{
    static uint32_t state = 1;
    float *p = array(n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        p[i] = (float)(int32_t)state * 0x1p-32f;
    }
    return p;
}

typedef void bench_body(void *context);

/* Shortest time of one run, in seconds. */
static double shortest(bench_body *body, void *context)
{
    size_t runs = 1;
    double best = 1e9, used = 0;
    for (int round = 0; round < 400 && used < 0.4; round++) {
        double start = now();
        for (size_t i = 0; i < runs; i++)
            body(context);
        double took = now() - start;
        used += took;
        if (took < 1e-3) {
            runs *= 2;
            round = -1;
            continue;
        }
        best = took / (double)runs < best ? took / (double)runs : best;
    }
    return best;
}

static double total; /* microseconds a unit of the table at hand */

/* flops 0: not arithmetic. onednn: seconds, or 0. */
static void line(const char *name, double flops, double seconds, double onednn)
{
    total += seconds * 1e6;
    printf("  %-38s %9.2f us", name, seconds * 1e6);
    if (flops > 0)
        printf(" %8.1f GFLOP/s %5.1f %%", flops / seconds * 1e-9, flops / seconds * 1e-7 / peak);
    else if (onednn > 0)
        printf("%25s", "");
    if (onednn > 0)
        printf("   oneDNN %9.2f us %8.1f GFLOP/s %5.1f %%  ratio %.2f", onednn * 1e6, flops / onednn * 1e-9,
               flops / onednn * 1e-7 / peak, onednn / seconds);
    printf("\n");
}

/* ---- convolutions -------------------------------------------------------------------------------------------------------- */

typedef struct conv_bench {
    iso_conv c;
    float *x, *y, *w, *bias, *dx, *dw, *db, *dy;
    uint8_t *arg;
    void *scratch;
    bool want_dx;
} conv_bench;

static void run_pool_forward(void *context)
{
    conv_bench *b = context;
    K->conv_pool_forward(&b->c, groups, b->y, b->arg, b->x, b->w, b->bias);
}

static void run_pool_backward(void *context)
{
    conv_bench *b = context;
    K->conv_pool_backward(&b->c, groups, b->want_dx ? b->dx : NULL, b->dw, b->db, b->x, b->dy, b->arg, b->w, b->scratch);
}

static void run_forward(void *context)
{
    conv_bench *b = context;
    K->conv_forward(&b->c, groups, b->y, b->x, b->w, b->bias, ISO_ACT_RELU);
}

static void run_data(void *context)
{
    conv_bench *b = context;
    K->conv_data(&b->c, groups, b->dx, b->dy, b->w, b->scratch);
}

static void run_weights(void *context)
{
    conv_bench *b = context;
    K->conv_weights(&b->c, groups, b->dw, b->db, b->x, b->dy);
}

static conv_bench conv_make(uint32_t channels, uint32_t side, uint32_t filters, uint32_t kernel, uint32_t pad, bool pooled)
{
    conv_bench b = {.c = {.channels = channels, .rows = side, .columns = side, .filters = filters, .kernel_rows = kernel,
                          .kernel_columns = kernel, .stride = 1, .pad_rows = pad, .pad_columns = pad}};
    iso_conv_finish(&b.c, pooled);
    size_t weights = (size_t)filters * channels * kernel * kernel;
    b.x = numbers(groups * b.c.x_group);
    b.y = numbers(groups * b.c.y_group);
    b.dy = numbers(groups * b.c.y_group);
    b.dx = numbers(groups * b.c.dx_group);
    b.w = numbers(weights);
    b.dw = numbers(weights);
    b.bias = numbers(filters);
    b.db = numbers(filters);
    b.arg = array(groups * b.c.y_group);
    b.scratch = array(iso_conv_scratch(&b.c));
    return b;
}

static void conv_free(conv_bench *b)
{
    void *all[] = {b->x, b->y, b->dy, b->dx, b->w, b->dw, b->bias, b->db, b->arg, b->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static double conv_flops(const iso_conv *c)
{
    return 2.0 * unit * c->filters * c->out_rows * c->out_columns * c->channels * c->kernel_rows * c->kernel_columns;
}

/* Fused with ReLU and pooling. The share of the backward pass counts its useful quarter alone. */
static void bench_pooled(const char *name, uint32_t channels, uint32_t side, uint32_t filters, uint32_t kernel, uint32_t pad,
                         bool want_dx)
{
    char text[64];
    conv_bench b = conv_make(channels, side, filters, kernel, pad, true);
    onednn_times o = onednn_conv(&b.c, unit);
    b.want_dx = want_dx;
    snprintf(text, sizeof text, "%s + relu + pool", name);
    line(text, conv_flops(&b.c), shortest(run_pool_forward, &b), o.forward);
    snprintf(text, sizeof text, want_dx ? "%s backward (dw, dx)" : "%s backward (dw)", name);
    line(text, conv_flops(&b.c) * (want_dx ? 2 : 1), shortest(run_pool_backward, &b), o.weights + (want_dx ? o.data : 0));
    conv_free(&b);
}

static void bench_plain(const char *name, uint32_t channels, uint32_t side, uint32_t filters, uint32_t kernel, uint32_t pad)
{
    char text[64];
    conv_bench b = conv_make(channels, side, filters, kernel, pad, false);
    onednn_times o = onednn_conv(&b.c, unit);
    snprintf(text, sizeof text, "%s + relu", name);
    line(text, conv_flops(&b.c), shortest(run_forward, &b), o.forward);
    snprintf(text, sizeof text, "%s data", name);
    line(text, conv_flops(&b.c), shortest(run_data, &b), o.data);
    snprintf(text, sizeof text, "%s weights", name);
    line(text, conv_flops(&b.c), shortest(run_weights, &b), o.weights);
    conv_free(&b);
}

/* ---- dense ------------------------------------------------------------------------------------------------------------------ */

typedef struct dense_bench {
    iso_dense d;
    float *x, *y, *w, *bias, *dx, *dy, *dy_lanes, *velocity;
    int64_t *sum, *sum_b;
    iso_dense_unit unit[2];
} dense_bench;

static const iso_step sgd = {.kind = ISO_SGD, .scale = 0x1p-40 / 64, .rate = 1e-6f, .momentum = 0.9f};

static void run_dense_forward(void *context)
{
    dense_bench *b = context;
    K->dense_forward(&b->d, unit, b->y, b->x, b->w, b->bias, ISO_ACT_RELU);
}

static void run_dense_data(void *context)
{
    dense_bench *b = context;
    K->dense_data(&b->d, groups, b->dx, b->dy_lanes, b->w);
}

static void run_dense_gradient(void *context)
{
    dense_bench *b = context;
    if (!K->dense_gradient(&b->d, unit, b->unit, b->sum, b->sum_b, 0x1p20f))
        abort();
}

static void run_dense_update(void *context)
{
    dense_bench *b = context;
    float *const state[] = {b->velocity};
    size_t values = iso_round16(b->d.out) * b->d.in;
    if (!K->dense_update(&b->d, &sgd, 0, values, unit, b->unit, 2, b->w, state, NULL, 0, 0x1p20f))
        abort();
}

static void bench_dense(uint32_t in, uint32_t out, bool want_dx)
{
    char text[64];
    size_t values = iso_round16(out) * in;
    dense_bench b = {.d = {.in = in, .out = out, .ldx = iso_round16(in), .ldy = iso_round16(out)}};
    b.x = numbers(unit * b.d.ldx);
    b.y = numbers(unit * b.d.ldy);
    b.dy = numbers(unit * b.d.ldy);
    b.dy_lanes = numbers(unit * b.d.ldy);
    b.dx = numbers(unit * b.d.ldx);
    b.w = numbers(values);
    b.velocity = numbers(values);
    b.bias = numbers(b.d.ldy);
    b.sum = array(values * sizeof *b.sum);
    b.sum_b = array(b.d.ldy * sizeof *b.sum_b);
    b.unit[0] = b.unit[1] = (iso_dense_unit){.x = b.x, .dy = b.dy};
    onednn_times o = onednn_dense(in, out, unit);
    double flops = 2.0 * unit * in * out;
    snprintf(text, sizeof text, "dense %u-%u + relu", in, out);
    line(text, flops, shortest(run_dense_forward, &b), o.forward);
    if (want_dx) {
        snprintf(text, sizeof text, "dense %u-%u data", in, out);
        line(text, flops, shortest(run_dense_data, &b), o.data);
    }
    double kept = total;
    snprintf(text, sizeof text, "dense %u-%u weights to grid", in, out);
    line(text, flops, shortest(run_dense_gradient, &b), o.weights);
    total = kept;
    snprintf(text, sizeof text, "dense %u-%u fused update, 2 units", in, out);
    double both = shortest(run_dense_update, &b);
    line(text, flops * 2, both, 0);
    total = kept + both * 1e6 / 2;
    void *all[] = {b.x, b.y, b.dy, b.dy_lanes, b.dx, b.w, b.velocity, b.bias, b.sum, b.sum_b};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------- */

typedef struct other_bench {
    iso_conv c;
    float *lanes, *rows, *scale, *shift;
    const uint8_t *sample[16];
    size_t count, ld;
    int32_t label[16];
    int64_t loss, *sum;
    uint32_t correct;
    float *state;
} other_bench;

static void run_load(void *context)
{
    other_bench *b = context;
    for (uint32_t g = 0; g < groups; g++)
        K->load_u8(b->lanes, &b->c, 16, b->sample, b->scale, b->shift);
}

static void run_load_rows(void *context)
{
    other_bench *b = context;
    for (uint32_t i = 0; i < unit; i++)
        K->load_row_u8(b->rows + i % 16 * b->ld, (uint32_t)b->count, b->sample[i % 16], b->scale, b->shift);
}

static void run_to_rows(void *context)
{
    other_bench *b = context;
    for (uint32_t g = 0; g < groups; g++)
        K->lanes_to_rows(b->rows, b->ld, b->lanes, b->count);
}

static void run_loss(void *context)
{
    other_bench *b = context;
    for (uint32_t g = 0; g < groups; g++)
        K->cross_entropy(10, 16, b->rows, b->lanes, b->label, &b->loss, &b->correct);
}

static void run_update(void *context)
{
    other_bench *b = context;
    float *const state[] = {b->state};
    int64_t *const sum[] = {b->sum};
    if (!K->update(&sgd, b->count, b->lanes, state, sum, 1))
        abort();
}

static void run_grid(void *context)
{
    other_bench *b = context;
    if (!K->grid_add(b->sum, b->lanes, b->count, 0x1p20f))
        abort();
}

static void bench_other(const char *name, bench_body *body, size_t count)
{
    other_bench b = {.c = {.channels = 1, .rows = 28, .columns = 28, .filters = 6, .kernel_rows = 5, .kernel_columns = 5,
                           .stride = 1, .pad_rows = 2, .pad_columns = 2},
                     .count = count, .ld = iso_round16(count)};
    iso_conv_finish(&b.c, true);
    size_t most = count * 16 + b.c.x_group;
    uint8_t *image = array(1024);
    b.lanes = numbers(most);
    b.rows = numbers(most);
    b.state = numbers(most);
    b.scale = numbers(1024);
    b.shift = numbers(1024);
    b.sum = array(most * sizeof *b.sum);
    for (int i = 0; i < 16; i++)
        b.sample[i] = image;
    line(name, 0, shortest(body, &b), 0);
    void *all[] = {b.lanes, b.rows, b.state, b.scale, b.shift, b.sum, image};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

#include "bench_peak.h"

int main(int argc, char **argv)
{
    iso_isa isa = ISO_ISA_AUTO;
    if (argc > 1 && iso_isa_parse(argv[1], &isa) != ISO_OK) {
        fprintf(stderr, "bench_kernels: %s is none of auto, avx512, avx2, scalar\n", argv[1]);
        return 2;
    }
    K = iso_kernels_of(isa);
    unit = argc > 2 ? (uint32_t)atoi(argv[2]) : 16;
    if (K == NULL || unit < 16 || unit > 64 || unit % 16 != 0) {
        fprintf(stderr, "bench_kernels: this CPU lacks %s, or the unit is not 16, 32, 48 or 64\n", argc > 1 ? argv[1] : "it");
        return 2;
    }
    groups = unit / 16;
    iso_kernels_flush_denormals();
    peak = peak_gflops(K->name);
    printf("%s, unit of %u samples, peak of this instruction set %.0f GFLOP/s on one core\n", K->name, unit, peak);

    printf("LeNet-5\n");
    total = 0;
    bench_other("load 28x28", run_load, 784);
    bench_pooled("conv1 1-6 5x5 28x28 pad 2", 1, 28, 6, 5, 2, false);
    bench_pooled("conv2 6-16 5x5 14x14", 6, 14, 16, 5, 0, true);
    bench_other("lanes to rows, 400", run_to_rows, 400);
    bench_dense(400, 120, true);
    bench_dense(120, 84, true);
    bench_dense(84, 10, true);
    bench_other("cross-entropy, 10", run_loss, 10);
    bench_other("convolutions' 2,572 weights to grid", run_grid, 2576);
    printf("  %-38s %9.2f us: %.1f k samples/s a core (fused update)\n", "sum", total, unit * 1e3 / total);

    printf("MLP 784-256-128-10\n");
    total = 0;
    bench_other("load rows, 784", run_load_rows, 784);
    bench_dense(784, 256, false);
    bench_dense(256, 128, true);
    bench_dense(128, 10, true);
    bench_other("cross-entropy, 10", run_loss, 10);
    printf("  %-38s %9.2f us: %.1f k samples/s a core (fused update)\n", "sum", total, unit * 1e3 / total);
    bench_other("update of 61,706 values (a batch)", run_update, 61712);

    printf("AlexNet\n");
    bench_plain("conv3 256-384 3x3 13x13 pad 1", 256, 13, 384, 3, 1);
    return 0;
}
