/* SPDX-License-Identifier: Apache-2.0
 * The promises of a step: its bits do not depend on how the batch is cut over workers, in which order sums arrive, whether dense
 * gradients are kept or summed, how the update is sliced, nor on the instruction set; and the gradient is that of the batch. */
#include "nn_test.h"

enum { BATCH = 150, WORKERS = 4 };

static const struct { const char *model; iso_shape input; } nets[] = {
    {"conv 6 5 1 2,relu,max_pool 2,conv 16 5,relu,max_pool 2,flatten,dense 30,relu,dense 5", {1, 20, 20}},
    {"conv 6 3,lecun_tanh,subsample 2,conv 16 3 1 0 1,lecun_tanh,avg_pool 2,flatten,dense 19,sigmoid,dense 5", {2, 14, 15}},
    {"dense 70,relu,dense 33,leaky_relu,dense 5", {37, 1, 1}},
};

/* How a batch is worked off. */
typedef struct plan {
    iso_isa isa;
    uint32_t unit, workers, slices;
    bool kept;
    uint64_t seed;                /* who takes which unit, and in which order */
} plan;

typedef struct trainer {
    iso_net *net;
    iso_pass *pass;
    void *memory;
    float *w, *velocity;
    int64_t *sum[WORKERS];
    char *kept;
    size_t kept_bytes;
    float *x;
    int32_t label[BATCH];
} trainer;

static const iso_optimizer optimizer = {ISO_SGD, 0.05, 0.9, 0, 0, 0, 1e-3, false};

static void open_trainer(trainer *t, size_t net, const plan *p)
{
    iso_error e;
    iso_model model = nn_model(nets[net].model, ISO_LOSS_CROSS_ENTROPY);
    if (iso_net_new(&t->net, &model, nets[net].input, 5, p->isa, NULL, &e))
        fail_msg("%s", e.text);
    size_t values = iso_net_values(t->net), inputs = (size_t)nets[net].input.c * nets[net].input.h * nets[net].input.w;
    t->memory = nn_take(iso_pass_bytes(t->net, p->unit, true));
    t->pass = iso_pass_init(t->net, p->unit, true, t->memory);
    t->kept_bytes = (iso_kept_bytes(t->net, p->unit) + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
    t->kept = nn_take(t->kept_bytes * ISO_KEPT_MAX);
    t->w = nn_take(values * sizeof(float));
    t->velocity = nn_take(values * sizeof(float));
    for (uint32_t i = 0; i < WORKERS; i++)
        t->sum[i] = nn_take(values * sizeof(int64_t));
    t->x = nn_take(BATCH * inputs * sizeof(float));
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = 3, .purpose = ISO_PURPOSE_TEST});
    for (size_t i = 0; i < BATCH * inputs; i++)
        t->x[i] = 2 * iso_rng_float(&r) - 1;
    for (uint32_t i = 0; i < BATCH; i++)
        t->label[i] = (int32_t)iso_rng_below32(&r, 5);
    iso_net_init(t->net, 9, t->w);
}

static void close_trainer(trainer *t)
{
    iso_net_free(t->net);
    void *block[] = {t->memory, t->kept, t->w, t->velocity, t->x, t->sum[0], t->sum[1], t->sum[2], t->sum[3]};
    for (size_t i = 0; i < TEST_COUNT(block); i++)
        iso_free(NULL, block[i]);
}

/* Samples [first, first + n) of the batch into worker's sum. */
static void run_unit(trainer *t, const plan *p, uint32_t unit, uint32_t units, uint32_t worker, int64_t *loss)
{
    static float ones[64], zeros[64];
    const float *sample[ISO_UNIT_MAX];
    iso_shape s = iso_net_input(t->net);
    size_t inputs = (size_t)s.c * s.h * s.w;
    uint32_t first = unit * p->unit, n = first + p->unit <= BATCH ? p->unit : BATCH - first;
    for (uint32_t c = 0; c < 64; c++)
        ones[c] = 1;
    for (uint32_t i = 0; i < n; i++)
        sample[i] = t->x + (first + i) * inputs;
    void *kept = t->kept + unit * t->kept_bytes;
    iso_unit_result r;
    iso_pass_load_f32(t->pass, n, sample, ones, zeros);
    iso_pass_train(t->pass, t->w, t->label + first, kept, &r);
    iso_pass_gradient(t->pass, kept, !p->kept, units, t->sum[worker], &r);
    assert_int_equal(r.bad_layer, -1);
    assert_int_equal(r.samples, n);
    *loss += r.loss;
}

/* One step over the whole batch by the plan; returns the loss on the grid. */
static int64_t step(trainer *t, const plan *p)
{
    uint32_t units = (BATCH + p->unit - 1) / p->unit, order[BATCH];
    const void *kept[ISO_KEPT_MAX];
    int64_t loss = 0;
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = p->seed, .purpose = ISO_PURPOSE_TEST, .epoch = 1});
    for (uint32_t i = 0; i < units; i++) {
        uint32_t at = iso_rng_below32(&r, i + 1);
        order[i] = order[at];
        order[at] = i;
        kept[i] = t->kept + i * t->kept_bytes;
    }
    for (uint32_t i = 0; i < units; i++)
        run_unit(t, p, order[i], units, iso_rng_below32(&r, p->workers), &loss);
    iso_update u = {.optimizer = &optimizer, .rate = 0.05, .step = 1, .samples = BATCH, .units = units, .w = t->w,
                    .state = &t->velocity, .sum = t->sum, .sum_count = p->workers, .kept = kept,
                    .kept_count = p->kept ? units : 0, .unit = p->unit};
    size_t blocks = iso_net_values(t->net) / ISO_LANES;
    for (uint32_t i = p->slices; i-- > 0;) {
        int32_t bad;
        iso_net_update(t->net, &u, blocks * i / p->slices * ISO_LANES, blocks * (i + 1) / p->slices * ISO_LANES, &bad);
        assert_int_equal(bad, -1);
    }
    return loss;
}

/* Weights and velocity after three steps, as bytes. */
static float *train(size_t net, const plan *p, size_t *count, int64_t *loss)
{
    trainer t;
    open_trainer(&t, net, p);
    *loss = 0;
    for (int s = 0; s < 3; s++)
        *loss += step(&t, p);
    size_t values = iso_net_values(t.net);
    float *result = nn_take(2 * values * sizeof(float));
    memcpy(result, t.w, values * sizeof(float));
    memcpy(result + values, t.velocity, values * sizeof(float));
    for (uint32_t i = 0; i < p->workers; i++)
        for (size_t v = 0; !p->kept && v < values; v++)
            assert_int_equal(t.sum[i][v], 0);
    *count = 2 * values;
    close_trainer(&t);
    return result;
}

static void the_split_does_not_show(void **state)
{
    (void)state;
    for (size_t net = 0; net < TEST_COUNT(nets); net++)
        for (uint32_t unit = 16; unit <= 64; unit += 16) {
            plan calm = {ISO_ISA_SCALAR, unit, 1, 1, false, 1};
            size_t count, other_count;
            int64_t loss, other_loss;
            float *right = train(net, &calm, &count, &loss);
            for (uint64_t seed = 1; seed <= 6; seed++) {
                plan p = {ISO_ISA_AUTO, unit, 1 + (uint32_t)seed % WORKERS, 1 + (uint32_t)seed * 7 % 13, seed % 2, seed};
                if (seed == 5 && iso_isa_best() == ISO_ISA_AVX512)
                    p.isa = ISO_ISA_AVX2;
                float *other = train(net, &p, &other_count, &other_loss);
                assert_int_equal(count, other_count);
                if (memcmp(right, other, count * sizeof(float)) || loss != other_loss)
                    fail_msg("net %zu, unit %u, plan of seed %u: other bits", net, unit, (unsigned)seed);
                iso_free(NULL, other);
            }
            iso_free(NULL, right);
        }
}

/* The whole batch's gradient does not depend on the unit beyond rounding: sums over units of 16 and of 64 agree. */
static void the_gradient_is_that_of_the_batch(void **state)
{
    (void)state;
    for (size_t net = 0; net < TEST_COUNT(nets); net++) {
        trainer a, b;
        plan small = {ISO_ISA_AUTO, 16, 3, 1, false, 2}, large = {ISO_ISA_AUTO, 64, 1, 1, false, 2};
        open_trainer(&a, net, &small);
        open_trainer(&b, net, &large);
        int64_t loss[2] = {0, 0};
        for (uint32_t u = 0; u < (BATCH + 15) / 16; u++)
            run_unit(&a, &small, u, 10, u % 3, &loss[0]);
        for (uint32_t u = 0; u < (BATCH + 63) / 64; u++)
            run_unit(&b, &large, u, 3, 0, &loss[1]);
        assert_int_equal(loss[0], loss[1]);
        for (size_t v = 0; v < iso_net_values(a.net); v++) {
            double x = (double)(a.sum[0][v] + a.sum[1][v] + a.sum[2][v]) * 0x1p-40, y = (double)b.sum[0][v] * 0x1p-40;
            if (fabs(x - y) > 1e-4 * (1 + fabs(y)))
                fail_msg("net %zu value %zu: %g in units of 16, %g in units of 64", net, v, x, y);
        }
        close_trainer(&a);
        close_trainer(&b);
    }
}

/* y = w x + b with w = 1, b = 0, loss (y - 1)^2 / 2: two samples of x = 2 on one worker, five of x = 1 on another. The gradient of
 * the sum is 2 * (2 - 1) * 2 + 5 * (1 - 1) * 1 = 4, of the mean 4/7; the mean of the workers' means would be 1. */
static void uneven_shares_keep_the_exact_gradient(void **state)
{
    (void)state;
    iso_model model = nn_model("dense 1", ISO_LOSS_MSE);
    nn_bench b;
    nn_bench_open(&b, &model, (iso_shape){1, 1, 1}, 1, ISO_ISA_AUTO, 16, 2);
    float published[2] = {1, 0};
    iso_net_adopt(b.net, published, b.w);
    int64_t total = 0;
    const float x_of[2] = {2, 1};
    const uint32_t n_of[2] = {2, 5};
    for (int part = 0; part < 2; part++) {
        b.n = n_of[part];
        for (uint32_t i = 0; i < b.n; i++) {
            b.x[i] = x_of[part];
            b.sample[i] = &b.x[i];
            b.label[i] = 0;
        }
        assert_int_equal(nn_bench_gradient(&b).bad_layer, -1);
        total += b.sum[0];
    }
    assert_int_equal(total, (int64_t)4 << 40);
    nn_bench_close(&b);
}

/* What stands in the lanes behind a short unit changes nothing: the sum of 5 samples is that of the same 5 in a full unit's
 * place, and its kept rows give the same step. */
static void a_short_unit_adds_nothing(void **state)
{
    (void)state;
    for (size_t net = 0; net < TEST_COUNT(nets); net++) {
        iso_model model = nn_model(nets[net].model, ISO_LOSS_CROSS_ENTROPY);
        nn_bench a, b;
        nn_bench_open(&a, &model, nets[net].input, 5, ISO_ISA_AUTO, 64, 5);
        nn_bench_open(&b, &model, nets[net].input, 5, ISO_ISA_AUTO, 16, 5);
        a.n = 64; /* fills every lane with something first */
        nn_bench_fill(&a, 1);
        nn_bench_gradient(&a);
        a.n = 5;
        nn_bench_gradient(&a);
        memcpy(b.x, a.x, 5 * (size_t)nets[net].input.c * nets[net].input.h * nets[net].input.w * sizeof(float));
        memcpy(b.label, a.label, sizeof a.label);
        memcpy(b.w, a.w, iso_net_values(a.net) * sizeof(float));
        nn_bench_gradient(&b);
        assert_memory_equal(a.sum, b.sum, iso_net_values(a.net) * sizeof(int64_t));
        nn_bench_close(&a);
        nn_bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_split_does_not_show),
        cmocka_unit_test(the_gradient_is_that_of_the_batch),
        cmocka_unit_test(uneven_shares_keep_the_exact_gradient),
        cmocka_unit_test(a_short_unit_adds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
