/* SPDX-License-Identifier: Apache-2.0
 * For tests of networks: a net with all the memory that one unit needs. */
#ifndef ISO_TESTS_NN_TEST_H
#define ISO_TESTS_NN_TEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "isochron/nn.h"
#include "test.h"

typedef struct nn_bench {
    iso_net *net;
    iso_pass *pass;
    uint32_t unit, n;
    float *w, *x;                 /* weights [P'], samples [unit][C*H*W] */
    const float *sample[ISO_UNIT_MAX];
    float *scale, *shift;         /* one a channel: 1 and 0 */
    int32_t label[ISO_UNIT_MAX];
    void *memory, *kept;
    int64_t *sum;
} nn_bench;

/* "conv 4 3 1 1, relu, max_pool 2, flatten, dense 5": kinds with their first options. */
static inline iso_model nn_model(const char *text, iso_loss loss)
{
    static iso_model m;
    memset(&m, 0, sizeof m);
    m.loss = loss;
    char copy[1024], *rest = copy;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(rest, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char *inside = word, *kind = strtok_r(word, " ", &inside);
        iso_layer_spec *spec = &m.layer[m.count++];
        assert_int_equal(iso_layer_spec_default(spec, kind, NULL), ISO_OK);
        uint32_t i = 0;
        for (char *value; (value = strtok_r(NULL, " ", &inside));)
            spec->value[i++] = strtod(value, NULL);
    }
    return m;
}

static inline void *nn_take(size_t bytes)
{
    void *p = iso_new(NULL, 1, bytes);
    assert_non_null(p);
    return p;
}

/* Random samples in [-1, 1), random labels, first weights with biases that are not 0. */
static inline void nn_bench_fill(nn_bench *b, uint64_t seed)
{
    iso_shape s = iso_net_input(b->net);
    size_t values = (size_t)s.c * s.h * s.w;
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = seed, .purpose = ISO_PURPOSE_TEST});
    for (uint32_t i = 0; i < b->n; i++) {
        b->sample[i] = b->x + i * values;
        b->label[i] = (int32_t)iso_rng_below32(&r, iso_net_classes(b->net));
        for (size_t v = 0; v < values; v++)
            b->x[i * values + v] = 2 * iso_rng_float(&r) - 1;
    }
    size_t p = iso_net_parameters(b->net);
    float *published = nn_take(p * sizeof(float));
    iso_net_init(b->net, seed, b->w);
    iso_net_publish(b->net, b->w, published);
    for (uint32_t t = 0; t < iso_net_tensor_count(b->net); t++) {
        const iso_tensor *tensor = iso_net_tensor(b->net, t);
        for (size_t v = 0; tensor->bias && v < tensor->count; v++)
            published[tensor->offset + v] = 0.2f * iso_rng_float(&r) - 0.1f;
    }
    iso_net_adopt(b->net, published, b->w);
    iso_free(NULL, published);
}

static inline void nn_bench_open(nn_bench *b, const iso_model *model, iso_shape input, uint32_t classes, iso_isa isa, uint32_t unit,
                                 uint32_t n)
{
    iso_error e = {0};
    memset(b, 0, sizeof *b);
    b->unit = unit;
    b->n = n;
    if (iso_net_new(&b->net, model, input, classes, isa, NULL, &e))
        fail_msg("%s", e.text);
    b->memory = nn_take(iso_pass_bytes(b->net, unit, true));
    b->pass = iso_pass_init(b->net, unit, true, b->memory);
    b->kept = nn_take(iso_kept_bytes(b->net, unit));
    b->w = nn_take(iso_net_values(b->net) * sizeof *b->w);
    b->sum = nn_take(iso_net_values(b->net) * sizeof *b->sum);
    b->x = nn_take((size_t)unit * input.c * input.h * input.w * sizeof *b->x);
    b->scale = nn_take(input.c * sizeof(float));
    b->shift = nn_take(input.c * sizeof(float));
    for (uint32_t c = 0; c < input.c; c++)
        b->scale[c] = 1;
    nn_bench_fill(b, 1);
}

static inline void nn_bench_close(nn_bench *b)
{
    iso_net_free(b->net);
    void *block[] = {b->memory, b->kept, b->w, b->sum, b->x, b->scale, b->shift};
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        iso_free(NULL, block[i]);
}

/* Forward and backward of the unit into a cleared sum. */
static inline iso_unit_result nn_bench_gradient(nn_bench *b)
{
    iso_unit_result r;
    memset(b->sum, 0, iso_net_values(b->net) * sizeof *b->sum);
    iso_pass_load_f32(b->pass, b->n, b->sample, b->scale, b->shift);
    iso_pass_train(b->pass, b->w, b->label, b->kept, &r);
    iso_pass_gradient(b->pass, b->kept, true, 1, b->sum, &r);
    return r;
}

/* Loss of the unit, summed over its samples. */
static inline double nn_bench_loss(nn_bench *b)
{
    iso_unit_result r;
    iso_pass_load_f32(b->pass, b->n, b->sample, b->scale, b->shift);
    iso_pass_evaluate(b->pass, b->w, b->label, &r);
    assert_int_equal(r.bad_layer, -1);
    return (double)r.loss * 0x1p-40;
}

/* The sum of the gradient in the published order, as doubles. */
static inline void nn_bench_published(const nn_bench *b, double *out)
{
    size_t values = iso_net_values(b->net);
    float *as_float = nn_take(values * sizeof(float)), *published = nn_take(iso_net_parameters(b->net) * sizeof(float));
    for (size_t i = 0; i < values; i++)
        as_float[i] = (float)((double)b->sum[i] * 0x1p-40);
    iso_net_publish(b->net, as_float, published);
    for (size_t i = 0; i < iso_net_parameters(b->net); i++)
        out[i] = (double)published[i];
    iso_free(NULL, as_float);
    iso_free(NULL, published);
}

#endif
