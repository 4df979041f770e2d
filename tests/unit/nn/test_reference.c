/* SPDX-License-Identifier: Apache-2.0
 * Outputs, gradients, ten losses and the last weights agree with PyTorch's (tests/reference/make_reference.py made the files). */
#include "nn_test.h"

enum { BATCH = 8, STEPS = 10, SPOTS = 16 };

typedef struct reference {
    const char *name, *model;
    iso_optimizer optimizer;
} reference;

#define LENET5 "conv 6 5 1 2,relu,max_pool 2,conv 16 5,relu,max_pool 2,flatten,dense 120,relu,dense 84,relu,dense 10"
static const reference references[] = {
    {"lenet5-momentum", LENET5, {ISO_SGD, 0.05, 0.9, 0, 0, 0, 0, true}},
    {"lenet5-decay", LENET5, {ISO_SGD, 0.05, 0, 0, 0, 0, 0.01, true}},
    {"mlp-nesterov", "flatten,dense 256,relu,dense 128,relu,dense 10", {ISO_NESTEROV, 0.02, 0.9, 0, 0, 0, 0, true}},
    {"mlp-tanh-adam", "flatten,dense 256,tanh,dense 128,tanh,dense 10", {ISO_ADAM, 0.001, 0, 0.9, 0.999, 1e-8, 0, true}},
};

/* The numbers behind a key of the reference file. */
static size_t find(const char *file, const char *key, double *out, size_t most)
{
    char path[512], line[4096];
    snprintf(path, sizeof path, "%s/reference/%s.txt", ISO_TEST_ROOT, file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t count = 0, length = strlen(key);
    while (!count && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, length) || line[length] != ' ')
            continue;
        char *at = line + length, *end;
        for (double v = strtod(at, &end); end != at && count < most; v = strtod(at = end, &end))
            out[count++] = v;
    }
    fclose(f);
    if (!count)
        fail_msg("%s: no line %s", path, key);
    return count;
}

/* The generator's formula. */
static float value(uint64_t stream, uint64_t i)
{
    uint64_t h = (i + stream * 1000003) * 0x9E3779B97F4A7C15u >> 48;
    return ((float)h - 32768) / 32768;
}

static void fill(nn_bench *b)
{
    float *published = nn_take(iso_net_parameters(b->net) * sizeof(float));
    for (uint32_t t = 0; t < iso_net_tensor_count(b->net); t++) {
        const iso_tensor *tensor = iso_net_tensor(b->net, t);
        double fan = tensor->rank > 1 ? (double)(tensor->count / tensor->dim[0]) : 100;
        float scale = (float)(1 / pow(2, nearbyint(log2(fan) / 2)));
        for (size_t i = 0; i < tensor->count; i++)
            published[tensor->offset + i] = value(t + 1, i) * scale;
    }
    iso_net_adopt(b->net, published, b->w);
    iso_free(NULL, published);
    for (uint32_t i = 0; i < BATCH; i++) {
        b->label[i] = (int32_t)(i * 3 % 10);
        for (size_t v = 0; v < 784; v++)
            b->x[i * 784 + v] = value(100, i * 784 + v);
    }
}

static void near(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s: %.9g, PyTorch has %.9g", what, got, wanted);
}

/* 16 values spread over the tensor, their sum and sum of squares, relative to the tensor's root mean square. */
static void compare(const char *file, const char *key, const double *values, size_t count, double tolerance)
{
    double wanted[SPOTS + 2], sum = 0, squares = 0;
    assert_int_equal(find(file, key, wanted, SPOTS + 2), SPOTS + 2);
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
        squares += values[i] * values[i];
    }
    double size = sqrt(wanted[SPOTS + 1] / (double)count) + 1e-12;
    for (size_t k = 0; k < SPOTS; k++)
        near(key, values[k * count / SPOTS], wanted[k], tolerance * size * 10);
    near(key, sum, wanted[SPOTS], tolerance * size * (double)count);
    near(key, squares, wanted[SPOTS + 1], tolerance * wanted[SPOTS + 1] * 10 + 1e-12);
}

static void step(nn_bench *b, const reference *c, uint64_t number, float *const *state)
{
    iso_update u = {.optimizer = &c->optimizer, .rate = c->optimizer.learning_rate, .step = number, .samples = BATCH, .units = 1,
                    .w = b->w, .state = state, .sum = &b->sum, .sum_count = 1, .unit = b->unit};
    int32_t bad;
    iso_net_update(b->net, &u, 0, iso_net_values(b->net), &bad);
    assert_int_equal(bad, -1);
}

static void check(const reference *c)
{
    char key[64];
    double outputs[80], losses[STEPS];
    float got[80];
    iso_model model = nn_model(c->model, ISO_LOSS_CROSS_ENTROPY);
    nn_bench b;
    nn_bench_open(&b, &model, (iso_shape){1, 28, 28}, 10, ISO_ISA_AUTO, 16, BATCH);
    fill(&b);
    size_t p = iso_net_parameters(b.net);
    double *values = nn_take(p * sizeof *values);
    float *published = nn_take(p * sizeof *published);
    float *state[2] = {nn_take(iso_net_values(b.net) * sizeof(float)), nn_take(iso_net_values(b.net) * sizeof(float))};
    find(c->name, "outputs", outputs, 80);
    find(c->name, "losses", losses, STEPS);

    /* raw outputs: those of the same net with the other loss */
    iso_model raw = nn_model(c->model, ISO_LOSS_MSE);
    nn_bench r;
    nn_bench_open(&r, &raw, (iso_shape){1, 28, 28}, 10, ISO_ISA_AUTO, 16, BATCH);
    fill(&r);
    iso_pass_load_f32(r.pass, BATCH, r.sample, r.scale, r.shift);
    iso_pass_predict(r.pass, r.w, got);
    for (size_t i = 0; i < 80; i++)
        near("output", (double)got[i], outputs[i], 2e-5);
    nn_bench_close(&r);

    for (uint32_t s = 0; s < STEPS; s++) {
        iso_unit_result result = nn_bench_gradient(&b);
        near("loss", (double)result.loss * 0x1p-40 / BATCH, losses[s], 1e-4);
        nn_bench_published(&b, values);
        for (uint32_t t = 0; s == 0 && t < iso_net_tensor_count(b.net); t++) {
            const iso_tensor *tensor = iso_net_tensor(b.net, t);
            for (size_t i = 0; i < tensor->count; i++)
                values[tensor->offset + i] /= BATCH;
            snprintf(key, sizeof key, "gradient %u", t);
            compare(c->name, key, values + tensor->offset, tensor->count, 1e-4);
        }
        step(&b, c, s + 1, state);
    }
    iso_net_publish(b.net, b.w, published);
    for (uint32_t t = 0; t < iso_net_tensor_count(b.net); t++) {
        const iso_tensor *tensor = iso_net_tensor(b.net, t);
        for (size_t i = 0; i < tensor->count; i++)
            values[i] = (double)published[tensor->offset + i];
        snprintf(key, sizeof key, "last %u", t);
        compare(c->name, key, values, tensor->count, 1e-3);
    }
    void *block[] = {values, published, state[0], state[1]};
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        iso_free(NULL, block[i]);
    nn_bench_close(&b);
}

static void agrees_with_pytorch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
        print_message("%s\n", references[i].name);
        check(&references[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
