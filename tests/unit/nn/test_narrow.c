/* SPDX-License-Identifier: Apache-2.0
 * Steps of few samples against the wide pass: a unit of 16 lanes of which few hold a sample is the oracle, and weights, optimiser state,
 * loss and right answers are the same bytes after every step, for every layer, loss, optimiser and instruction set. */
#include "nn_test.h"

enum { STEPS = 4 };

static const iso_isa isas[] = {ISO_ISA_SCALAR, ISO_ISA_AVX2, ISO_ISA_AVX512};

static const iso_optimizer optimizers[] = {
    {ISO_SGD, 0.05, 0.9, 0, 0, 0, 0, false},
    {ISO_SGD, 0.05, 0, 0, 0, 0, 0.01, false},
    {ISO_NESTEROV, 0.02, 0.8, 0, 0, 0, 0.01, true},
    {ISO_ADAM, 0.003, 0, 0.9, 0.999, 1e-8, 0.02, false},
    {ISO_SGD, 0.05, 0, 0, 0, 0, 0, false},
};

typedef struct twin {
    nn_bench b;                   /* the wide pass; b.n samples are drawn, a step takes some of them */
    iso_narrow *narrow;
    void *memory;
    float *w, *state[2], *wide_state[2];
    uint8_t *bytes;               /* the samples as bytes */
    const uint8_t *byte[ISO_UNIT_MAX];
    float *scale, *shift;         /* one a value */
} twin;

static size_t values_of(const twin *t)
{
    iso_shape s = iso_net_input(t->b.net);
    return (size_t)s.c * s.h * s.w;
}

static void twin_open(twin *t, const iso_model *model, iso_shape input, uint32_t classes, iso_isa isa)
{
    memset(t, 0, sizeof *t);
    nn_bench_open(&t->b, model, input, classes, isa, 16, 16);
    size_t values = iso_net_values(t->b.net), inputs = values_of(t);
    t->memory = nn_take(iso_narrow_bytes(t->b.net, ISO_NARROW_MAX));
    t->narrow = iso_narrow_init(t->b.net, ISO_NARROW_MAX, t->memory);
    t->w = nn_take(values * sizeof(float));
    memcpy(t->w, t->b.w, values * sizeof(float));
    for (int i = 0; i < 2; i++) {
        t->state[i] = nn_take(values * sizeof(float));
        t->wide_state[i] = nn_take(values * sizeof(float));
    }
    t->bytes = nn_take(16 * inputs);
    t->scale = nn_take(inputs * sizeof(float));
    t->shift = nn_take(inputs * sizeof(float));
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = 7, .purpose = ISO_PURPOSE_TEST});
    for (size_t i = 0; i < 16 * inputs; i++)
        t->bytes[i] = (uint8_t)iso_rng_below32(&r, 256);
    for (size_t i = 0; i < inputs; i++) {
        t->scale[i] = 0.02f * iso_rng_float(&r);
        t->shift[i] = iso_rng_float(&r) - 0.5f;
    }
    for (uint32_t i = 0; i < 16; i++)
        t->byte[i] = t->bytes + i * inputs;
}

static void twin_close(twin *t)
{
    nn_bench_close(&t->b);
    void *block[] = {t->memory, t->w, t->state[0], t->state[1], t->wide_state[0], t->wide_state[1], t->bytes, t->scale, t->shift};
    for (size_t i = 0; i < TEST_COUNT(block); i++)
        iso_free(NULL, block[i]);
}

/* Which of the three ways to load: the values themselves, bytes, columns. */
static void load_both(twin *t, uint32_t first, uint32_t n, uint64_t step)
{
    nn_bench *b = &t->b;
    if (step % 3 == 1) {
        iso_pass_load_u8(b->pass, n, t->byte + first, t->scale, t->shift);
        iso_narrow_load_u8(t->narrow, n, t->byte + first, t->scale, t->shift);
    } else if (step % 3 == 2) {
        iso_pass_load_f32(b->pass, n, b->sample + first, b->scale, b->shift);
        iso_narrow_load_f32(t->narrow, n, b->sample + first, b->scale, b->shift);
    } else {
        iso_pass_load_columns(b->pass, n, b->sample + first, t->scale, t->shift);
        iso_narrow_load_columns(t->narrow, n, b->sample + first, t->scale, t->shift);
    }
}

static void wide_step(twin *t, uint32_t first, uint32_t n, iso_update u, iso_unit_result *r)
{
    nn_bench *b = &t->b;
    int32_t bad;
    memset(b->sum, 0, iso_net_values(b->net) * sizeof *b->sum);
    iso_pass_train(b->pass, b->w, b->label + first, b->kept, r);
    iso_pass_gradient(b->pass, b->kept, true, 1, b->sum, r);
    u.w = b->w;
    u.state = t->wide_state;
    u.samples = n;
    u.units = 1;
    u.sum = &b->sum;
    u.sum_count = 1;
    u.unit = 16;
    iso_net_update(b->net, &u, 0, iso_net_values(b->net), &bad);
    assert_int_equal(bad, -1);
}

static void same(const twin *t, const float *got, const float *want, const char *text, const char *what, uint32_t n, uint64_t step)
{
    for (size_t i = 0; i < iso_net_values(t->b.net); i++)
        if (memcmp(&got[i], &want[i], sizeof *got)) {
            uint32_t layer = 0;
            for (uint32_t k = 0; k < iso_net_tensor_count(t->b.net); k++)
                layer = iso_net_tensor(t->b.net, k)->offset <= i ? iso_net_tensor(t->b.net, k)->layer : layer;
            fail_msg("%s, %s, %u samples, step %llu: %s %zu (about %s) is %a, expected %a", text, iso_isa_name(iso_net_isa(t->b.net)), n,
                     (unsigned long long)step, what, i, iso_net_layer(t->b.net, layer).name, (double)got[i], (double)want[i]);
        }
}

/* Some steps of n samples by both ways. */
static void compare(twin *t, const iso_optimizer *o, uint32_t n, const char *text)
{
    for (uint64_t step = 1; step <= STEPS; step++) {
        iso_unit_result wide, narrow;
        uint32_t first = (uint32_t)((step - 1) * n % 9);
        iso_update u = {.optimizer = o, .rate = o->learning_rate / (double)step, .step = step, .w = t->w, .state = t->state};
        load_both(t, first, n, step);
        wide_step(t, first, n, u, &wide);
        iso_narrow_step(t->narrow, t->b.label + first, &u, &narrow);
        if (wide.bad_layer != -1)
            fail_msg("%s, %u samples: the wide pass itself went astray at step %llu", text, n, (unsigned long long)step);
        assert_int_equal(narrow.bad_layer, -1);
        assert_int_equal(narrow.samples, n);
        assert_int_equal(narrow.correct, wide.correct);
        assert_true(narrow.loss == wide.loss);
        same(t, t->w, t->b.w, text, "weight", n, step);
        for (uint32_t i = 0; i < iso_optimizer_states(o); i++)
            same(t, t->state[i], t->wide_state[i], text, iso_optimizer_state_name(o, i), n, step);
    }
}

static void compare_model(const iso_model *model, iso_shape input, uint32_t classes, const char *text, uint32_t turn)
{
    for (size_t i = 0; i < TEST_COUNT(isas); i++) {
        if (isas[i] > iso_isa_best())
            continue;
        for (uint32_t n = 1; n <= ISO_NARROW_MAX; n++) {
            if (isas[i] == ISO_ISA_SCALAR && n % 3 != 1 && n != 8)
                continue;
            twin t;
            twin_open(&t, model, input, classes, isas[i]);
            compare(&t, &optimizers[(turn + n) % TEST_COUNT(optimizers)], n, text);
            twin_close(&t);
        }
    }
}

static void presets_have_the_bits_of_the_wide_pass(void **state)
{
    (void)state;
    static const struct { const char *preset, *form, *activation; } of[] = {
        {"lenet5", "modern", NULL}, {"lenet5", "1998", NULL}, {"mlp", NULL, "relu"}, {"mlp", NULL, "sigmoid"}};
    for (uint32_t k = 0; k < TEST_COUNT(of); k++) {
        iso_model model;
        iso_preset_options options = {.classes = 10, .hidden = {37, 70}, .hidden_count = of[k].activation ? 2 : 0, .form = of[k].form,
                                      .activation = of[k].activation};
        assert_int_equal(iso_model_preset(&model, of[k].preset, &options, NULL), ISO_OK);
        compare_model(&model, (iso_shape){1, 28, 28}, 10, of[k].preset, k);
    }
}

static void every_layer_has_the_bits_of_the_wide_pass(void **state)
{
    (void)state;
    static const struct { const char *text; iso_shape in; uint32_t classes; iso_loss loss; } of[] = {
        {"conv 5 3 2 1,tanh,conv 18 3 1 1,sigmoid,flatten,dense 7", {3, 9, 11}, 7, ISO_LOSS_CROSS_ENTROPY},
        {"conv 17 5 3 2,leaky_relu,conv 3 2 2 0,relu,flatten,dense 33,tanh,dense 5", {2, 17, 13}, 5, ISO_LOSS_MSE},
        {"conv 6 3 1 1,relu,max_pool 2,conv 20 3,relu,max_pool 2,flatten,dense 40,leaky_relu,dense 4", {3, 15, 18}, 4,
         ISO_LOSS_CROSS_ENTROPY},
        {"conv 7 4 2 1,relu,max_pool 2,conv 33 2 1 0,relu,max_pool 2,flatten,dense 3", {1, 22, 23}, 3, ISO_LOSS_CROSS_ENTROPY},
        {"conv 4 3,max_pool 3 2,relu,conv 40 3 1 2,avg_pool 3 1,lecun_tanh,flatten,dense 6", {1, 12, 12}, 6, ISO_LOSS_CROSS_ENTROPY},
        {"max_pool 2,conv 8 3 1 1,lecun_tanh,subsample 2,tanh,conv 9 2,flatten,dense 11", {2, 13, 12}, 11, ISO_LOSS_MSE},
        {"relu,avg_pool 2,conv 20 1,relu,conv 5 5 1 2,max_pool 3 2", {20, 6, 6}, 5, ISO_LOSS_CROSS_ENTROPY},
        {"conv 5 3 1 1,relu,max_pool 2,conv 3 2 1 0", {2, 6, 8}, 18, ISO_LOSS_CROSS_ENTROPY},
        {"flatten,conv 12 1 1 1,relu,max_pool 2,conv 2 1,sigmoid,dense 9", {2, 3, 3}, 9, ISO_LOSS_CROSS_ENTROPY},
        {"conv 33 3 1 1,relu,max_pool 2,conv 2 3 1 0,relu,max_pool 2,flatten,dense 6", {1, 9, 43}, 6, ISO_LOSS_CROSS_ENTROPY},
        {"conv 5 4 1 0,relu,max_pool 2,flatten,dense 150,relu,dense 20,relu,dense 3", {1, 12, 25}, 3, ISO_LOSS_CROSS_ENTROPY},
        {"dense 20,relu,dense 16,sigmoid,dense 2", {9, 1, 1}, 2, ISO_LOSS_MSE},
        {"subsample 2,conv 6 2 3 1,relu,max_pool 2,flatten,dense 4", {1, 12, 9}, 4, ISO_LOSS_CROSS_ENTROPY},
        {"conv 3 2 2,relu,max_pool 2,conv 40 1,tanh,flatten,dense 100,relu,dense 300,relu,dense 4", {1, 5, 7}, 4, ISO_LOSS_CROSS_ENTROPY},
    };
    for (uint32_t k = 0; k < TEST_COUNT(of); k++) {
        iso_model model = nn_model(of[k].text, of[k].loss);
        compare_model(&model, of[k].in, of[k].classes, of[k].text, k);
    }
}

/* A weight or a sample that is not a number is found at its layer, and the weights stay as they were. */
static void what_is_not_finite_is_found_at_its_layer(void **state)
{
    (void)state;
    iso_model model = nn_model("conv 4 3 1 1,relu,max_pool 2,flatten,dense 12,tanh,dense 3", ISO_LOSS_CROSS_ENTROPY);
    static const int32_t layers[] = {0, 4, 6};
    for (uint32_t k = 0; k < TEST_COUNT(layers); k++) {
        twin t;
        twin_open(&t, &model, (iso_shape){1, 8, 8}, 3, ISO_ISA_AUTO);
        size_t values = iso_net_values(t.b.net), p = iso_net_parameters(t.b.net);
        float *published = nn_take(p * sizeof(float)), *before = nn_take(values * sizeof(float));
        iso_net_publish(t.b.net, t.w, published);
        for (uint32_t i = 0; i < iso_net_tensor_count(t.b.net); i++)
            if (iso_net_tensor(t.b.net, i)->layer == (uint32_t)layers[k] && iso_net_tensor(t.b.net, i)->bias)
                published[iso_net_tensor(t.b.net, i)->offset] = NAN;
        iso_net_adopt(t.b.net, published, t.w);
        memcpy(before, t.w, values * sizeof(float));
        iso_update u = {.optimizer = &optimizers[0], .rate = 0.1, .step = 1, .w = t.w, .state = t.state};
        iso_unit_result wide, r;
        iso_pass_load_f32(t.b.pass, 2, t.b.sample, t.b.scale, t.b.shift);
        iso_pass_train(t.b.pass, t.w, t.b.label, t.b.kept, &wide);
        iso_narrow_load_f32(t.narrow, 2, t.b.sample, t.b.scale, t.b.shift);
        iso_narrow_step(t.narrow, t.b.label, &u, &r);
        assert_int_equal(r.bad_layer, layers[k]);
        assert_int_equal(r.bad_layer, wide.bad_layer);
        assert_memory_equal(before, t.w, values * sizeof(float));
        iso_free(NULL, published);
        iso_free(NULL, before);
        twin_close(&t);
    }
}

/* A gradient beyond the grid, and a step that leaves the floats, name their layer as the wide pass does. The weights are 0, so that the
 * huge samples reach nothing but the first layer's gradient. */
static void what_does_not_fit_is_found_at_its_layer(void **state)
{
    (void)state;
    static const struct { const char *text; float scale; double rate; int32_t layer; } of[] = {
        {"flatten,dense 3", 0x1p26f, 0.01, 1},
        {"conv 4 3,tanh,flatten,dense 3", 0x1p40f, 0.01, 0},
        {"conv 4 3,relu,max_pool 2,flatten,dense 3", 0x1p40f, 0.01, 0},
        {"subsample 2,flatten,dense 3", 0x1p40f, 0.01, 0},
        {"flatten,dense 3", 0x1p15f, 1e37, 1},
        {"conv 4 3,tanh,flatten,dense 3", 0x1p15f, 1e37, 0},
    };
    for (size_t k = 0; k < TEST_COUNT(of); k++)
        for (uint32_t n = 1; n <= ISO_NARROW_MAX; n++) {
            twin t;
            iso_unit_result r;
            iso_model model = nn_model(of[k].text, ISO_LOSS_MSE);
            twin_open(&t, &model, (iso_shape){1, 8, 8}, 3, ISO_ISA_AUTO);
            float *published = nn_take(iso_net_parameters(t.b.net) * sizeof(float));
            iso_net_publish(t.b.net, t.w, published);
            for (uint32_t i = 0; i < iso_net_tensor_count(t.b.net); i++) {
                const iso_tensor *tensor = iso_net_tensor(t.b.net, i);
                for (size_t v = 0; tensor->layer == (uint32_t)of[k].layer && v < tensor->count; v++)
                    published[tensor->offset + v] = tensor->bias ? 0.25f : 0.0f;
            }
            iso_net_adopt(t.b.net, published, t.w);
            t.b.scale[0] = of[k].scale;
            iso_update u = {.optimizer = &optimizers[n % 2], .rate = of[k].rate, .step = 1, .w = t.w, .state = t.state};
            iso_narrow_load_f32(t.narrow, n, t.b.sample, t.b.scale, t.b.shift);
            iso_narrow_step(t.narrow, t.b.label, &u, &r);
            if (r.bad_layer != of[k].layer)
                fail_msg("%s, %u samples, rate %g: layer %d was named", of[k].text, n, of[k].rate, r.bad_layer);
            iso_free(NULL, published);
            twin_close(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_bits_of_the_wide_pass),
        cmocka_unit_test(every_layer_has_the_bits_of_the_wide_pass),
        cmocka_unit_test(what_is_not_finite_is_found_at_its_layer),
        cmocka_unit_test(what_does_not_fit_is_found_at_its_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
