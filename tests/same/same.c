/* SPDX-License-Identifier: Apache-2.0
 * The promise of the same bits, on libc and libm alone: trains small networks on drawn samples with every instruction set that
 * this processor has, and compares the SHA-256 of the published weights with the file of expected ones.
 *     same EXPECTED-FILE     fails when a line differs
 *     same                   prints the lines, for a new file */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/sha256.h"
#include "isochron/nn.h"

enum { SIDE = 28, VALUES = SIDE * SIDE, CLASSES = 10, BATCH = 40, UNIT = 16, UNITS = 3, STEPS = 12 };

typedef struct setting {
    const char *name, *preset, *form;
    iso_optimizer optimizer;
    iso_loss loss;
} setting;

static const setting settings[] = {
    {"lenet5-momentum", "lenet5", NULL, {ISO_SGD, 0.05, 0.9, 0, 0, 0, 5e-4, false}, ISO_LOSS_CROSS_ENTROPY},
    {"lenet5-1998-nesterov", "lenet5", "1998", {ISO_NESTEROV, 0.002, 0.9, 0, 0, 0, 0, false}, ISO_LOSS_MSE},
    {"mlp-adam", "mlp", NULL, {ISO_ADAM, 0.001, 0, 0.9, 0.999, 1e-8, 1e-4, true}, ISO_LOSS_CROSS_ENTROPY},
};

static void *take(size_t bytes)
{
    void *p = iso_new(NULL, 1, bytes);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

/* A batch of noisy pictures whose bright row tells the class. */
static void draw(uint32_t step, uint8_t *pixel, int32_t *label)
{
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = 7, .purpose = ISO_PURPOSE_TEST, .epoch = step});
    for (uint32_t i = 0; i < BATCH; i++) {
        label[i] = (int32_t)iso_rng_below32(&r, CLASSES);
        for (uint32_t v = 0; v < VALUES; v++)
            pixel[i * VALUES + v] = (uint8_t)(iso_rng_below32(&r, 120) + (v / SIDE / 2 == (uint32_t)label[i] + 2 ? 120 : 0));
    }
}

typedef struct run {
    iso_net *net;
    iso_pass *pass;
    float *w, *state[2];
    int64_t *sum;
    char *kept;
    size_t kept_bytes;
} run;

/* One step; every second one takes the dense gradients from the kept units, the others from the sums. */
static int train_step(run *r, const setting *s, uint32_t step, const uint8_t *pixel, const int32_t *label)
{
    const float scale = 1.0f / 128, shift = -1;
    bool sums = step % 2;
    const void *kept[UNITS];
    for (uint32_t u = 0; u < UNITS; u++) {
        const uint8_t *sample[UNIT];
        uint32_t n = u * UNIT + UNIT <= BATCH ? UNIT : BATCH - u * UNIT;
        iso_unit_result result;
        for (uint32_t i = 0; i < n; i++)
            sample[i] = pixel + (size_t)(u * UNIT + i) * VALUES;
        kept[u] = r->kept + u * r->kept_bytes;
        iso_pass_load_u8(r->pass, n, sample, &scale, &shift);
        iso_pass_train(r->pass, r->w, label + u * UNIT, r->kept + u * r->kept_bytes, &result);
        iso_pass_gradient(r->pass, kept[u], sums, UNITS, r->sum, &result);
        if (result.bad_layer >= 0)
            return 1;
    }
    iso_update update = {.optimizer = &s->optimizer, .rate = s->optimizer.learning_rate, .step = step + 1, .samples = BATCH,
                         .units = UNITS, .w = r->w, .state = r->state, .sum = &r->sum, .sum_count = 1, .kept = kept,
                         .kept_count = sums ? 0 : UNITS, .unit = UNIT};
    int32_t bad;
    iso_net_update(r->net, &update, 0, iso_net_values(r->net), &bad);
    return bad >= 0;
}

static int train(const setting *s, iso_isa isa, char hex[65])
{
    static iso_model model;
    static uint8_t pixel[BATCH * VALUES];
    static int32_t label[BATCH];
    iso_error e;
    run r = {0};
    if (iso_model_preset(&model, s->preset, &(iso_preset_options){.classes = CLASSES, .form = s->form}, &e))
        return fprintf(stderr, "%s\n", e.text), 1;
    model.loss = s->loss;
    if (iso_net_new(&r.net, &model, (iso_shape){1, SIDE, SIDE}, CLASSES, isa, NULL, &e))
        return fprintf(stderr, "%s\n", e.text), 1;
    size_t values = iso_net_values(r.net), parameters = iso_net_parameters(r.net);
    void *memory = take(iso_pass_bytes(r.net, UNIT, true));
    r.pass = iso_pass_init(r.net, UNIT, true, memory);
    r.kept_bytes = (iso_kept_bytes(r.net, UNIT) + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
    r.kept = take(UNITS * r.kept_bytes);
    r.w = take(values * sizeof(float));
    r.state[0] = take(values * sizeof(float));
    r.state[1] = take(values * sizeof(float));
    r.sum = take(values * sizeof(int64_t));
    float *published = take(parameters * sizeof(float));
    int failed = 0;
    iso_net_init(r.net, 3, r.w);
    for (uint32_t step = 0; step < STEPS && !failed; step++) {
        draw(step, pixel, label);
        failed = train_step(&r, s, step, pixel, label);
    }
    iso_net_publish(r.net, r.w, published);
    iso_sha256 hash;
    uint8_t digest[32];
    iso_sha256_init(&hash);
    iso_sha256_add_f32(&hash, published, parameters);
    iso_sha256_end(&hash, digest);
    iso_sha256_hex(digest, hex);
    void *block[] = {memory, r.kept, r.w, r.state[0], r.state[1], r.sum, published};
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        iso_free(NULL, block[i]);
    iso_net_free(r.net);
    return failed;
}

/* The expected hash of a name, from lines "NAME HASH". */
static int find(const char *path, const char *name, char hex[65])
{
    char line[256], word[128];
    FILE *f = fopen(path, "r");
    int found = 0;
    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%127s %64s", word, hex) == 2 && !strcmp(word, name);
    if (f)
        fclose(f);
    return found;
}

int main(int argc, char **argv)
{
    static const iso_isa isas[] = {ISO_ISA_SCALAR, ISO_ISA_AVX2, ISO_ISA_AVX512};
    int failed = 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (size_t k = 0; k < sizeof isas / sizeof *isas; k++) {
            char hex[65], wanted[65] = "";
            if (isas[k] > iso_isa_best())
                continue;
            if (train(&settings[i], isas[k], hex))
                return fprintf(stderr, "%s on %s did not train\n", settings[i].name, iso_isa_name(isas[k])), 1;
            printf("%s %s %s\n", settings[i].name, hex, iso_isa_name(isas[k]));
            if (argc > 1 && (!find(argv[1], settings[i].name, wanted) || strcmp(hex, wanted))) {
                fprintf(stderr, "%s on %s: other weights than expected (%s)\n", settings[i].name, iso_isa_name(isas[k]), wanted);
                failed = 1;
            }
        }
    return failed;
}
