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
#include "isochron/replica.h"

enum { SIDE = 28, VALUES = SIDE * SIDE, CLASSES = 10, BATCH = 40, UNIT = 16, UNITS = 3, STEPS = 12, NODES = 3, ROUNDS = 4 };

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

static void hash_of(const float *published, size_t parameters, char hex[65])
{
    iso_sha256 hash;
    uint8_t digest[32];
    iso_sha256_init(&hash);
    iso_sha256_add_f32(&hash, published, parameters);
    iso_sha256_end(&hash, digest);
    iso_sha256_hex(digest, hex);
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
    hash_of(published, parameters, hex);
    void *block[] = {memory, r.kept, r.w, r.state[0], r.state[1], r.sum, published};
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        iso_free(NULL, block[i]);
    iso_net_free(r.net);
    return failed;
}

/* ---- local steps on uneven nodes, differences in a payload, merged ------------------------------------------------------- */

typedef struct local_setting {
    const char *name;
    iso_payload payload;
    uint32_t local_batch;
    iso_optimizer optimizer;
    iso_outer outer;
} local_setting;

static const local_setting local_settings[] = {
    {"local-int8", ISO_PAYLOAD_INT8, 16, {ISO_SGD, 0.03, 0.9, 0, 0, 0, 0, false}, {1, 0}},
    {"local-int4-online", ISO_PAYLOAD_INT4, 1, {ISO_SGD, 0.01, 0, 0, 0, 0, 0, false}, {1, 0}},
    {"local-bf16-outer", ISO_PAYLOAD_BF16, 4, {ISO_ADAM, 0.001, 0, 0.9, 0.999, 1e-8, 0, false}, {0.7, 0.9}},
};

static uint8_t pool_pixel[BATCH * VALUES];
static int32_t pool_label[BATCH];

static const int32_t *load(void *context, uint64_t position, uint32_t n, iso_pass *pass, iso_narrow *narrow)
{
    static const float scale = 1.0f / 128, shift = -1;
    const uint8_t *sample[UNIT];
    (void)context;
    for (uint32_t i = 0; i < n; i++)
        sample[i] = pool_pixel + (position + i) * VALUES;
    if (narrow)
        iso_narrow_load_u8(narrow, n, sample, &scale, &shift);
    else
        iso_pass_load_u8(pass, n, sample, &scale, &shift);
    return pool_label + position;
}

/* One round: node k works off k + 1 units of 13 samples and answers; all apply the merge. */
static int local_round(iso_replica **replica, iso_merger *m, iso_pass *pass, iso_payload payload, uint8_t *bytes)
{
    iso_error e;
    int32_t bad = -1;
    size_t up = iso_replica_answer_bytes(replica[0], payload), half, end;
    iso_merger_begin(m, NODES * BATCH);
    for (uint32_t k = 0; k < NODES; k++) {
        iso_unit_result result;
        iso_replica_begin(replica[k], 0, NODES);
        for (uint32_t u = 0; u <= k; u++)
            iso_replica_work(replica[k], pass, u * 13, 13, load, NULL, &result);
        if (iso_replica_encode(replica[k], payload, bytes, up, &e) ||
            iso_merger_take(m, payload, bytes, up, iso_replica_samples(replica[k]), &e))
            return fprintf(stderr, "%s\n", e.text), 1;
    }
    iso_merger_slice(m, 2, 1, &half, &end);
    iso_merger_merge(m, NULL, half, end, bytes, &bad);
    iso_merger_merge(m, NULL, 0, half, bytes, bad < 0 ? &bad : &(int32_t){0});
    size_t down = iso_merger_down_bytes(m);
    iso_merger_end(m);
    for (uint32_t k = 0; k < NODES && bad < 0; k++)
        if (iso_replica_apply(replica[k], payload, bytes, down, &e) || iso_replica_check(replica[k]) != iso_merger_check(m))
            return fprintf(stderr, "node %u differs\n", k), 1;
    return bad >= 0;
}

static int train_local(const local_setting *s, iso_isa isa, char hex[65])
{
    static iso_model model;
    iso_error e;
    iso_net *net;
    iso_schedule schedule = {.kind = ISO_CONSTANT};
    if (iso_model_preset(&model, "lenet5", &(iso_preset_options){.classes = CLASSES}, &e) ||
        iso_net_new(&net, &model, (iso_shape){1, SIDE, SIDE}, CLASSES, isa, NULL, &e))
        return fprintf(stderr, "%s\n", e.text), 1;
    iso_replica_config c = {.net = net, .optimizer = &s->optimizer, .schedule = &schedule, .samples = BATCH, .total = BATCH,
                            .unit = UNIT, .local_batch = s->local_batch, .monitor = true};
    iso_merger_config mc = {.net = net, .optimizer = &s->optimizer, .outer = s->outer, .down = s->payload};
    size_t values = iso_net_values(net), parameters = iso_net_parameters(net);
    iso_replica *replica[NODES];
    void *memory[NODES], *merger_memory = take(iso_merger_bytes(&mc)), *pass_memory = take(iso_pass_bytes(net, UNIT, true));
    iso_merger *m = iso_merger_init(&mc, merger_memory);
    iso_pass *pass = iso_pass_init(net, UNIT, true, pass_memory);
    float *w = take(values * sizeof(float));
    uint8_t *bytes = take(4 * parameters);
    iso_net_init(net, 3, w);
    iso_net_publish(net, w, iso_merger_array(m, 0));
    iso_merger_full(m, bytes);
    int failed = 0;
    for (uint32_t k = 0; k < NODES; k++) {
        memory[k] = take(iso_replica_bytes(&c));
        replica[k] = iso_replica_init(&c, memory[k]);
        failed |= iso_replica_adopt(replica[k], bytes, 4 * parameters, &e);
    }
    for (uint32_t r = 0; r < ROUNDS && !failed; r++) {
        draw(r, pool_pixel, pool_label);
        failed = local_round(replica, m, pass, s->payload, bytes);
    }
    hash_of(iso_merger_array(m, 0), parameters, hex);
    for (uint32_t k = 0; k < NODES; k++)
        iso_free(NULL, memory[k]);
    void *block[] = {merger_memory, pass_memory, w, bytes};
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        iso_free(NULL, block[i]);
    iso_net_free(net);
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
    hex[0] = found ? hex[0] : '\0';
    return found;
}

enum { SYNCHRONOUS = sizeof settings / sizeof *settings, LOCAL = sizeof local_settings / sizeof *local_settings };

/* Setting `index` on one instruction set: prints its line; 1 when it did not train or is not as expected. */
static int check(size_t index, iso_isa isa, const char *expected)
{
    char hex[65] = "", wanted[65] = "";
    bool local = index >= SYNCHRONOUS;
    const char *name = local ? local_settings[index - SYNCHRONOUS].name : settings[index].name;
    if (local ? train_local(&local_settings[index - SYNCHRONOUS], isa, hex) : train(&settings[index], isa, hex))
        return fprintf(stderr, "%s on %s did not train\n", name, iso_isa_name(isa)), 1;
    printf("%s %s %s\n", name, hex, iso_isa_name(isa));
    if (!expected || (find(expected, name, wanted) && !strcmp(hex, wanted)))
        return 0;
    return fprintf(stderr, "%s on %s: other weights than expected (%s)\n", name, iso_isa_name(isa), wanted), 1;
}

int main(int argc, char **argv)
{
    static const iso_isa isas[] = {ISO_ISA_SCALAR, ISO_ISA_AVX2, ISO_ISA_AVX512};
    int failed = 0;
    for (size_t i = 0; i < SYNCHRONOUS + LOCAL; i++)
        for (size_t k = 0; k < sizeof isas / sizeof *isas; k++)
            if (isas[k] <= iso_isa_best())
                failed |= check(i, isas[k], argc > 1 ? argv[1] : NULL);
    return failed;
}
