/* SPDX-License-Identifier: Apache-2.0
 * The optimisers against their textbook forms in double, the schedules against theirs, and whether a network learns. */
#include "nn_test.h"

static const iso_optimizer optimizers[] = {
    {ISO_SGD, 0.1, 0, 0, 0, 0, 0, false},
    {ISO_SGD, 0.1, 0.9, 0, 0, 0, 0.01, false},
    {ISO_NESTEROV, 0.1, 0.8, 0, 0, 0, 0.01, true},
    {ISO_ADAM, 0.01, 0, 0.9, 0.999, 1e-8, 0, false},
    {ISO_ADAM, 0.01, 0, 0.8, 0.95, 1e-4, 0.02, true},
};

/* One weight: w, and what the optimiser keeps of it. */
typedef struct textbook {
    double w, v, s;
} textbook;

static void textbook_step(textbook *t, const iso_optimizer *o, double g, bool bias, int step)
{
    g += bias && !o->decay_bias ? 0 : o->weight_decay * t->w;
    if (o->kind == ISO_ADAM) {
        t->v = o->beta1 * t->v + (1 - o->beta1) * g;
        t->s = o->beta2 * t->s + (1 - o->beta2) * g * g;
        t->w -= o->learning_rate * (t->v / (1 - pow(o->beta1, step))) / (sqrt(t->s / (1 - pow(o->beta2, step))) + o->epsilon);
        return;
    }
    t->v = o->momentum * t->v + g;
    t->w -= o->learning_rate * (o->kind == ISO_NESTEROV ? o->momentum * t->v + g : t->v);
}

static void optimisers_follow_their_books(void **state)
{
    (void)state;
    for (size_t k = 0; k < TEST_COUNT(optimizers); k++) {
        const iso_optimizer *o = &optimizers[k];
        iso_model model = nn_model("conv 3 2,flatten,dense 21", ISO_LOSS_MSE);
        nn_bench b;
        nn_bench_open(&b, &model, (iso_shape){1, 5, 5}, 21, ISO_ISA_AUTO, 16, 1);
        size_t values = iso_net_values(b.net), p = iso_net_parameters(b.net);
        float *state_of[2] = {nn_take(values * sizeof(float)), nn_take(values * sizeof(float))}, *published = nn_take(p * sizeof(float));
        textbook *book = nn_take(p * sizeof *book);
        double *gradient = nn_take(p * sizeof *gradient);
        iso_net_publish(b.net, b.w, published);
        for (size_t i = 0; i < p; i++)
            book[i].w = (double)published[i];
        for (int step = 1; step <= 7; step++) {
            iso_rng r = iso_rng_make(&(iso_rng_key){.seed = (uint64_t)step, .purpose = ISO_PURPOSE_TEST});
            float *g = nn_take(p * sizeof(float)), *inside = nn_take(values * sizeof(float));
            for (size_t i = 0; i < p; i++)
                g[i] = 4 * iso_rng_float(&r) - 2;
            iso_net_adopt(b.net, g, inside);
            for (size_t i = 0; i < values; i++)
                b.sum[i] = (int64_t)llrint((double)inside[i] * 0x1p40) * 3;
            iso_update u = {.optimizer = o, .rate = o->learning_rate, .step = (uint64_t)step, .samples = 3, .units = 1, .w = b.w,
                            .state = state_of, .sum = &b.sum, .sum_count = 1, .unit = 16};
            int32_t bad;
            iso_net_update(b.net, &u, 0, values, &bad);
            assert_int_equal(bad, -1);
            for (uint32_t t = 0; t < iso_net_tensor_count(b.net); t++)
                for (size_t i = 0; i < iso_net_tensor(b.net, t)->count; i++) {
                    size_t at = iso_net_tensor(b.net, t)->offset + i;
                    textbook_step(&book[at], o, (double)g[at], iso_net_tensor(b.net, t)->bias, step);
                }
            iso_free(NULL, g);
            iso_free(NULL, inside);
        }
        iso_net_publish(b.net, b.w, published);
        for (size_t i = 0; i < p; i++)
            if (fabs((double)published[i] - book[i].w) > 2e-5)
                fail_msg("optimiser %zu, weight %zu: %g, by the book %g", k, i, (double)published[i], book[i].w);
        void *block[] = {state_of[0], state_of[1], published, book, gradient};
        for (size_t i = 0; i < TEST_COUNT(block); i++)
            iso_free(NULL, block[i]);
        nn_bench_close(&b);
    }
}

static void optimisers_say_what_they_keep(void **state)
{
    (void)state;
    static const uint32_t states[] = {0, 1, 1, 2, 2};
    for (size_t k = 0; k < TEST_COUNT(optimizers); k++) {
        assert_int_equal(iso_optimizer_states(&optimizers[k]), states[k]);
        for (uint32_t i = 0; i < states[k]; i++)
            assert_non_null(iso_optimizer_state_name(&optimizers[k], i));
        assert_null(iso_optimizer_state_name(&optimizers[k], states[k]));
    }
}

static void schedules_follow_their_curves(void **state)
{
    (void)state;
    iso_optimizer o = {.learning_rate = 0.4};
    const uint64_t batch = 37, epoch = 1000, total = 10 * epoch;
    for (uint64_t done = 0; done <= total; done += batch) {
        double at = (double)done, t = fmax(at - 2000, 0) / 8000;
        iso_schedule constant = {ISO_CONSTANT, 0, 0, 0, 0}, step = {ISO_STEP, 0, 3, 0.5, 0}, cosine = {ISO_COSINE, 2, 0, 0, 0.1};
        assert_true(iso_schedule_rate(&constant, &o, done, batch, epoch, total) == 0.4);
        double wanted = 0.4 * pow(0.5, floor(at / 3000));
        assert_true(fabs(iso_schedule_rate(&step, &o, done, batch, epoch, total) - wanted) < 1e-15);
        wanted = done + batch < 2000 ? 0.4 * (at + (double)batch) / 2000 : 0.4 * (0.1 + 0.9 * 0.5 * (1 + cos(acos(-1) * t)));
        assert_true(fabs(iso_schedule_rate(&cosine, &o, done, batch, epoch, total) - wanted) < 1e-15);
    }
    /* the first step of a warm-up learns its share, one that is all of it learns in full */
    iso_schedule warm = {ISO_CONSTANT, 0.5, 0, 0, 0};
    assert_true(iso_schedule_rate(&warm, &o, 0, 50, epoch, total) == 0.4 * 0.1);
    assert_true(iso_schedule_rate(&warm, &o, 0, 500, epoch, total) == 0.4);
    assert_true(iso_schedule_rate(&warm, &o, 0, epoch, epoch, total) == 0.4);
    /* a step of no length or a run of no samples ends */
    iso_schedule tiny = {ISO_STEP, 0, 1e-300, 0.5, 0}, cosine = {ISO_COSINE, 3, 0, 0, 0};
    assert_true(iso_schedule_rate(&tiny, &o, 5000, batch, epoch, total) == 0);
    assert_true(isfinite(iso_schedule_rate(&cosine, &o, 3000, batch, epoch, 3000)));
}

/* Eight samples with random labels are learnt by heart, by every optimiser. */
static void eight_samples_are_learnt_by_heart(void **state)
{
    (void)state;
    static const char *const models[] = {"conv 6 5 1 2,relu,max_pool 2,flatten,dense 40,relu,dense 4", "flatten,dense 40,tanh,dense 4",
                                         "conv 6 3,lecun_tanh,subsample 2,conv 16 3 1 0 1,lecun_tanh,flatten,dense 4"};
    static const iso_optimizer of[] = {{ISO_SGD, 0.05, 0.9, 0, 0, 0, 0, false}, {ISO_NESTEROV, 0.02, 0.9, 0, 0, 0, 0, false},
                                       {ISO_ADAM, 0.01, 0, 0.9, 0.999, 1e-8, 0, false}};
    for (size_t k = 0; k < TEST_COUNT(models); k++) {
        iso_model model = nn_model(models[k], ISO_LOSS_CROSS_ENTROPY);
        nn_bench b;
        nn_bench_open(&b, &model, (iso_shape){1, 12, 12}, 4, ISO_ISA_AUTO, 16, 8);
        size_t values = iso_net_values(b.net);
        float *state_of[2] = {nn_take(values * sizeof(float)), nn_take(values * sizeof(float))};
        double first = nn_bench_loss(&b);
        iso_unit_result r = {0};
        for (uint64_t step = 1; step <= 200; step++) {
            r = nn_bench_gradient(&b);
            iso_update u = {.optimizer = &of[k], .rate = of[k].learning_rate, .step = step, .samples = 8, .units = 1, .w = b.w,
                            .state = state_of, .sum = &b.sum, .sum_count = 1, .unit = 16};
            int32_t bad;
            iso_net_update(b.net, &u, 0, values, &bad);
            assert_int_equal(bad, -1);
        }
        if (r.correct != 8 || nn_bench_loss(&b) > first / 20)
            fail_msg("%s: %u of 8 right, loss %g from %g", models[k], r.correct, nn_bench_loss(&b), first);
        iso_free(NULL, state_of[0]);
        iso_free(NULL, state_of[1]);
        nn_bench_close(&b);
    }
}

/* A weight that is not a number is found at its layer, in the forward pass, the gradient or the step. */
static void what_is_not_finite_is_named(void **state)
{
    (void)state;
    iso_model model = nn_model("conv 4 3,tanh,flatten,dense 6,sigmoid,dense 4", ISO_LOSS_CROSS_ENTROPY);
    nn_bench b;
    nn_bench_open(&b, &model, (iso_shape){1, 6, 6}, 4, ISO_ISA_AUTO, 16, 8);
    size_t p = iso_net_parameters(b.net), values = iso_net_values(b.net);
    float *published = nn_take(p * sizeof(float)), *velocity = nn_take(values * sizeof(float));
    static const uint32_t layer_of[] = {0, 0, 3, 3, 5, 5};
    for (uint32_t t = 0; t < iso_net_tensor_count(b.net); t++) {
        nn_bench_fill(&b, 1);
        iso_net_publish(b.net, b.w, published);
        published[iso_net_tensor(b.net, t)->offset] = NAN;
        iso_net_adopt(b.net, published, b.w);
        assert_int_equal(nn_bench_gradient(&b).bad_layer, layer_of[t]);
    }
    nn_bench_fill(&b, 1);
    nn_bench_gradient(&b);
    iso_optimizer o = {ISO_SGD, 1, 0.9, 0, 0, 0, 0, false};
    iso_update u = {.optimizer = &o, .rate = INFINITY, .step = 1, .samples = 8, .units = 1, .w = b.w, .state = &velocity,
                    .sum = &b.sum, .sum_count = 1, .unit = 16};
    int32_t bad;
    iso_net_update(b.net, &u, 0, values, &bad);
    assert_int_equal(bad, 0);
    iso_free(NULL, published);
    iso_free(NULL, velocity);
    nn_bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimisers_follow_their_books),
        cmocka_unit_test(optimisers_say_what_they_keep),
        cmocka_unit_test(schedules_follow_their_curves),
        cmocka_unit_test(eight_samples_are_learnt_by_heart),
        cmocka_unit_test(what_is_not_finite_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
