/* SPDX-License-Identifier: Apache-2.0
 * Samples a second of local steps on one core: an optimiser step after every b samples, by the narrow kernels and by the wide pass on a
 * unit of 16. The same LeNet-5, samples and optimiser for all; rounds are interleaved and the median of each is printed.
 *     bench_narrow [ISA [ROUNDS]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "isochron/nn.h"
#include "nn/kernel/kernel.h"

enum { SAMPLES = 4096, ROUNDS_MAX = 99 };

typedef struct bench {
    iso_net *net;
    iso_pass *pass;
    iso_narrow *narrow;
    void *kept;
    uint8_t *data;
    int32_t label[SAMPLES];
    float *w, *state[2];
    int64_t *sum;
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(size_t bytes)
{
    void *p = iso_new(NULL, 1, bytes);
    if (!p)
        exit(4);
    return p;
}

/* Blobs of light at a place that the label tells: something to learn, and about as dark as digits are. */
static void draw(bench *b)
{
    b->data = take((size_t)SAMPLES * 784);
    uint32_t seed = 1;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        b->label[i] = (int32_t)(i * 7 % 10);
        for (uint32_t y = 0; y < 28; y++)
            for (uint32_t x = 0; x < 28; x++) {
                int dy = (int)y - 7 - b->label[i] % 5 * 3, dx = (int)x - 9 - b->label[i] / 5 * 9;
                seed = seed * 1664525u + 1013904223u;
                b->data[i * 784 + y * 28 + x] = dy * dy + dx * dx < 30 ? (uint8_t)(128 + (seed >> 25)) : 0;
            }
    }
}

static void open_bench(bench *b, iso_isa isa)
{
    static iso_model model;
    iso_error e = {0};
    iso_preset_options options = {.classes = 10};
    if (iso_model_preset(&model, "lenet5", &options, &e) || iso_net_new(&b->net, &model, (iso_shape){1, 28, 28}, 10, isa, NULL, &e)) {
        fprintf(stderr, "%s\n", e.text);
        exit(3);
    }
    size_t values = iso_net_values(b->net);
    b->pass = iso_pass_init(b->net, 16, true, take(iso_pass_bytes(b->net, 16, true)));
    b->narrow = iso_narrow_init(b->net, ISO_NARROW_MAX, take(iso_narrow_bytes(b->net, ISO_NARROW_MAX)));
    b->kept = take(iso_kept_bytes(b->net, 16));
    b->w = take(values * sizeof(float));
    b->state[0] = take(values * sizeof(float));
    b->state[1] = take(values * sizeof(float));
    b->sum = take(values * sizeof *b->sum);
    draw(b);
}

static void wide_step(bench *b, uint32_t n, const uint8_t *const *sample, const int32_t *label, iso_update u, iso_unit_result *r)
{
    static const float scale = 1.0f / 128, shift = -0.5f;
    int32_t bad;
    iso_pass_load_u8(b->pass, n, sample, &scale, &shift);
    iso_pass_train(b->pass, b->w, label, b->kept, r);
    iso_pass_gradient(b->pass, b->kept, false, 1, b->sum, r);
    const void *kept = b->kept;
    u.samples = n;
    u.units = 1;
    u.sum = &b->sum;
    u.sum_count = 1;
    u.kept = &kept;
    u.kept_count = 1;
    u.unit = 16;
    iso_net_update(b->net, &u, 0, iso_net_values(b->net), &bad);
}

/* One pass over all samples from the first weights; samples a second. */
static double run(bench *b, uint32_t n, bool narrow, const iso_optimizer *o, uint32_t *correct)
{
    static const float scale = 1.0f / 128, shift = -0.5f;
    size_t values = iso_net_values(b->net);
    iso_net_init(b->net, 1, b->w);
    memset(b->state[0], 0, values * sizeof(float));
    memset(b->state[1], 0, values * sizeof(float));
    *correct = 0;
    double start = now();
    for (uint32_t at = 0; at + n <= SAMPLES; at += n) {
        const uint8_t *sample[16];
        iso_unit_result r;
        iso_update u = {.optimizer = o, .rate = o->learning_rate, .step = at / n + 1, .w = b->w, .state = b->state};
        for (uint32_t i = 0; i < n; i++)
            sample[i] = b->data + (size_t)(at + i) * 784;
        if (narrow) {
            iso_narrow_load_u8(b->narrow, n, sample, &scale, &shift);
            iso_narrow_step(b->narrow, b->label + at, &u, &r);
        } else {
            wide_step(b, n, sample, b->label + at, u, &r);
        }
        *correct += r.correct;
    }
    return SAMPLES / (now() - start);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; uint32_t n; bool narrow; } way[] = {
        {"wide, b = 16", 16, false}, {"narrow, b = 1", 1, true}, {"narrow, b = 2", 2, true}, {"narrow, b = 4", 4, true},
        {"narrow, b = 8", 8, true}, {"wide, b = 1", 1, false}, {"wide, b = 4", 4, false}};
    enum { WAYS = sizeof way / sizeof *way };
    static const struct { const char *name; iso_optimizer o; } optimizer[] = {
        {"SGD", {ISO_SGD, 0.002, 0, 0, 0, 0, 0, false}}, {"SGD, momentum .9", {ISO_SGD, 0.001, 0.9, 0, 0, 0, 0, false}},
        {"Adam", {ISO_ADAM, 0.0005, 0, 0.9, 0.999, 1e-8, 0, false}}};
    static double seen[WAYS][ROUNDS_MAX];
    static bench b;
    iso_isa isa = ISO_ISA_AUTO;
    int rounds = argc > 2 ? atoi(argv[2]) : 15;
    if ((argc > 1 && iso_isa_parse(argv[1], &isa)) || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "bench_narrow [auto|scalar|avx2|avx512 [ROUNDS]]\n");
        return 2;
    }
    open_bench(&b, isa);
    iso_kernels_flush_denormals();
    printf("| optimiser | step | samples/s | share of b = 16 | right, first pass |\n|---|---|---|---|---|\n");
    for (size_t k = 0; k < sizeof optimizer / sizeof *optimizer; k++) {
        uint32_t correct[WAYS];
        for (int round = 0; round < rounds; round++)
            for (int i = 0; i < WAYS; i++)
                seen[i][round] = run(&b, way[i].n, way[i].narrow, &optimizer[k].o, &correct[i]);
        for (int i = 0; i < WAYS; i++) {
            qsort(seen[i], (size_t)rounds, sizeof seen[i][0], by_size);
            double median = seen[i][rounds / 2], base = seen[0][rounds / 2];
            printf("| %s | %s | %.0f | %.2f | %u |\n", optimizer[k].name, way[i].name, median, median / base, correct[i]);
        }
    }
    return 0;
}
