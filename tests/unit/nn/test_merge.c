/* SPDX-License-Identifier: Apache-2.0
 * The merger: answers are weighted by their samples, in any order and any slices with the same bits; it degrades to what its
 * settings say (weighted batches, serial steps, plain averages); saved arrays go on as if never stopped; bad answers change nothing. */
#include "replica_test.h"

/* ---- answers made by hand ---------------------------------------------------------------------------------------------- */

typedef struct answer {
    iso_payload payload;
    uint8_t *bytes;
    size_t count;
    uint64_t samples;
} answer;

static answer make_answer(const rep_world *w, iso_payload payload, const float *value, uint64_t samples)
{
    answer a = {.payload = payload, .count = iso_payload_bytes(payload, w->parameters), .samples = samples};
    iso_error e;
    assert_non_null(a.bytes = malloc(a.count));
    if (iso_payload_encode(ISO_ISA_AUTO, payload, w->parameters, value, NULL, NULL, NULL, a.bytes, &e))
        fail_msg("%s", e.text);
    return a;
}

static void take(iso_merger *m, const answer *a)
{
    iso_error e;
    if (iso_merger_take(m, a->payload, a->bytes, a->count, a->samples, &e))
        fail_msg("%s", e.text);
}

/* Differences, or weights near the first ones for the exact payload of the LOCAL way. */
static answer random_answer(const rep_world *w, iso_payload payload, bool weights, uint64_t *random)
{
    float *value = weights ? rep_first_weights(w) : nn_take(w->parameters * sizeof(float));
    for (size_t i = 0; i < w->parameters; i++)
        value[i] += (float)((double)(test_random(random) >> 11) * 0x1p-53 - 0.5) * 0.1f;
    answer a = make_answer(w, payload, value, 1 + test_random_below(random, 50));
    iso_free(NULL, value);
    return a;
}

/* Sixty orders and cuts of five answers, one of each payload. */
static void order_and_slices_do_not_show(void **state)
{
    (void)state;
    uint64_t random = test_seed("test_merge");
    rep_world w;
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[2]);
    for (int way = 0; way < 2; way++)
        for (int down = 0; down < (int)ISO_PAYLOADS; down++) {
            answer a[ISO_PAYLOADS];
            for (int p = 0; p < (int)ISO_PAYLOADS; p++)
                a[p] = random_answer(&w, (iso_payload)p, p == ISO_PAYLOAD_EXACT && way == 0, &random);
            uint8_t *first = NULL;
            uint32_t check = 0;
            for (uint32_t turn = 0; turn < 6; turn++) {
                void *memory;
                iso_payload payload;
                size_t bytes;
                iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = way ? ISO_WAY_GRADIENT : ISO_WAY_LOCAL,
                                                                        .down = (iso_payload)down, .outer = {0.7, way ? 0 : 0.9}}, &memory);
                iso_merger_begin(m, 1000);
                for (uint32_t i = 0, at = turn; i < ISO_PAYLOADS; i++, at += 1 + turn % 4)
                    take(m, &a[at % ISO_PAYLOADS]);
                assert_int_equal(iso_merger_answers(m), ISO_PAYLOADS);
                iso_merge_step step = {0.1, 1};
                uint8_t *out = rep_merge(m, way ? &step : NULL, 1 + turn, &payload, &bytes);
                assert_int_equal(payload, down);
                if (!first) {
                    first = out;
                    check = iso_merger_check(m);
                } else {
                    assert_memory_equal(first, out, bytes);
                    free(out);
                }
                assert_int_equal(iso_merger_check(m), check);
                iso_free(NULL, memory);
            }
            free(first);
            for (int p = 0; p < (int)ISO_PAYLOADS; p++)
                free(a[p].bytes);
        }
    rep_world_close(&w);
}

/* Exact weights of two nodes: the first one is held until the second comes, and then counts as its difference does. */
static void exact_weights_count_as_differences(void **state)
{
    (void)state;
    uint64_t random = test_seed("test_merge");
    rep_world w;
    void *memory;
    iso_payload payload;
    size_t bytes;
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[0]);
    iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = ISO_WAY_LOCAL, .down = ISO_PAYLOAD_EXACT}, &memory);
    answer a = random_answer(&w, ISO_PAYLOAD_EXACT, true, &random), b = random_answer(&w, ISO_PAYLOAD_EXACT, true, &random);
    float *first = rep_first_weights(&w), *x = malloc(a.count), *y = malloc(a.count);
    memcpy(x, a.bytes, a.count);
    memcpy(y, b.bytes, b.count);
    iso_merger_begin(m, 1000);
    take(m, &a);
    take(m, &b);
    free(rep_merge(m, NULL, 2, &payload, &bytes));
    double n = (double)(a.samples + b.samples), furthest = 0;
    for (size_t i = 0; i < w.parameters; i++) {
        double want = ((double)a.samples * (double)x[i] + (double)b.samples * (double)y[i]) / n;
        assert_true(fabs((double)iso_merger_array(m, 0)[i] - want) < 1e-6);
        furthest = fabs(want - (double)first[i]) > furthest ? fabs(want - (double)first[i]) : furthest;
    }
    assert_true(furthest > 0.01);
    iso_merger_begin(m, 1000); /* held, then thrown away: no trace in the next sums */
    take(m, &a);
    assert_int_equal(iso_merger_down(m), ISO_PAYLOAD_EXACT);
    iso_merger_begin(m, 1000);
    take(m, &b);
    free(rep_merge(m, NULL, 1, &payload, &bytes));
    assert_memory_equal(iso_merger_array(m, 0), y, b.count);
    iso_merger_begin(m, 1000);
    answer zero = random_answer(&w, ISO_PAYLOAD_INT8, false, &random);
    memset(zero.bytes, 0, zero.count);
    take(m, &zero);
    free(rep_merge(m, NULL, 1, &payload, &bytes));
    assert_memory_equal(iso_merger_array(m, 0), y, b.count);
    free(first);
    free(x);
    free(y);
    free(a.bytes);
    free(b.bytes);
    free(zero.bytes);
    rep_world_close(&w);
    iso_free(NULL, memory);
}

/* ---- degrees of the proposal -------------------------------------------------------------------------------------------- */

/* users.md A1: y = w x, w = 1; 2 samples x = 2, t = 0 and 5 samples x = 1, t = 3: the gradient is -2/7, not +1. */
static void two_and_five_samples(void **state)
{
    (void)state;
    rep_world w;
    void *memory;
    iso_payload payload;
    size_t bytes;
    iso_error e;
    static const iso_optimizer plain = {ISO_SGD, 1, 0, 0, 0, 0, 0, false};
    rep_world_open(&w, "dense 5", (iso_shape){1, 1, 1}, ISO_ISA_AUTO, &plain);
    for (int way = 0; way < 2; way++)
        for (int p = ISO_PAYLOAD_FP32; p < (int)ISO_PAYLOADS; p++) {
            iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = way ? ISO_WAY_GRADIENT : ISO_WAY_LOCAL,
                                                                    .down = ISO_PAYLOAD_FP32}, &memory);
            float g[10] = {0}, sign = way ? 1 : -1;
            iso_merger_array(m, 0)[0] = 1;
            g[0] = sign * 4; /* mean of (w x - t) x over 2 samples */
            answer a = make_answer(&w, (iso_payload)p, g, 2);
            g[0] = sign * -2; /* over 5 */
            answer b = make_answer(&w, (iso_payload)p, g, 5);
            iso_merge_step step = {1, 1};
            iso_merger_begin(m, 7);
            take(m, &a);
            take(m, &b);
            assert_int_equal(iso_merger_take(m, a.payload, a.bytes, a.count, 0, &e), ISO_E_ARGUMENT);
            assert_int_equal(iso_merger_take(m, a.payload, a.bytes, a.count, 1, &e), ISO_E_ARGUMENT);
            free(rep_merge(m, way ? &step : NULL, 1, &payload, &bytes));
            assert_true(fabs((double)iso_merger_array(m, 0)[0] - (1 + 2.0 / 7)) < 1e-6);
            free(a.bytes);
            free(b.bytes);
            iso_free(NULL, memory);
        }
    rep_world_close(&w);
}

/* H = 1 without momentum and an fp32 payload: three uneven nodes are one step over all their samples. */
static void one_step_a_round_is_weighted_bsp(void **state)
{
    (void)state;
    static const uint32_t share[] = {32, 16, 8};
    static const iso_payload payloads[] = {ISO_PAYLOAD_EXACT, ISO_PAYLOAD_FP32};
    for (int way = 0; way < 2; way++)
        for (size_t p = 0; p < TEST_COUNT(payloads); p++) {
            rep_world w;
            rep_node node[3];
            rep_serial serial;
            void *memory;
            rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[way ? 3 : 0]);
            w.schedule = (iso_schedule){.kind = ISO_CONSTANT}; /* else nodes' rates differ with their positions */
            rep_serial_open(&serial, &w, 16);
            iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = way ? ISO_WAY_GRADIENT : ISO_WAY_LOCAL,
                                                                    .down = payloads[p]}, &memory);
            for (int k = 0; k < 3; k++) {
                rep_node_open(&node[k], &w, &(iso_replica_config){.way = way ? ISO_WAY_GRADIENT : ISO_WAY_LOCAL, .unit = 32,
                                                                  .local_batch = 32});
                rep_node_adopt(&node[k], m);
            }
            for (uint32_t r = 0; r < 12; r++) {
                uint64_t at = r % 5 * 56;
                rep_serial_step(&serial, 1, at, at + 56);
                iso_merger_begin(m, REP_SAMPLES);
                double rate = iso_schedule_rate(&w.schedule, &w.optimizer, REP_SAMPLES + at, 56, REP_SAMPLES, w.total);
                for (uint32_t k = 0; k < 3; k++) {
                    iso_replica_begin(node[k].replica, 1, 1);
                    rep_node_work(&node[k], at, at + share[k]);
                    at += share[k];
                    rep_take(m, &node[k], payloads[p]);
                }
                iso_merge_step step = {rate, r + 1};
                rep_merge_to(m, way ? &step : NULL, node, 3);
            }
            float *want = malloc(w.parameters * sizeof(float));
            iso_net_publish(w.net, serial.w, want);
            for (size_t i = 0; i < w.parameters; i++)
                if (!(fabs((double)iso_merger_array(m, 0)[i] - (double)want[i]) < 1e-5))
                    fail_msg("way %d, %s: weight %zu is %g, one step over all samples gives %g", way, iso_payload_name(payloads[p]), i,
                             (double)iso_merger_array(m, 0)[i], (double)want[i]);
            free(want);
            for (int k = 0; k < 3; k++)
                rep_node_close(&node[k]);
            rep_serial_close(&serial);
            rep_world_close(&w);
            iso_free(NULL, memory);
        }
}

/* The optimiser's step on published blocks has the bits of iso_net_update, for every optimiser, on one node's exact gradient. */
static void gradient_steps_are_those_of_the_network(void **state)
{
    (void)state;
    for (size_t o = 0; o < TEST_COUNT(rep_optimizers); o++) {
        rep_world w;
        void *memory;
        rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[o]);
        size_t values = iso_net_values(w.net);
        iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = ISO_WAY_GRADIENT, .down = ISO_PAYLOAD_EXACT}, &memory);
        float *internal = nn_take(values * sizeof(float)), *state_of[2] = {nn_take(values * 4), nn_take(values * 4)};
        float *value = nn_take(w.parameters * 4), *inside = nn_take(values * 4);
        int64_t *sum = nn_take(values * sizeof *sum);
        uint64_t random = test_seed("test_merge");
        iso_net_init(w.net, 9, internal);
        for (uint32_t r = 1; r <= 3; r++) {
            for (size_t i = 0; i < w.parameters; i++)
                value[i] = (float)((int64_t)test_random_below(&random, 2001) - 1000) * 0x1p-10f;
            iso_net_adopt(w.net, value, inside);
            for (size_t i = 0; i < values; i++)
                sum[i] = (int64_t)((double)inside[i] * 0x1p40) * 13;
            int32_t bad;
            iso_update u = {.optimizer = &w.optimizer, .rate = 0.01 * r, .step = r, .samples = 13, .units = 1, .w = internal,
                            .state = state_of, .sum = &sum, .sum_count = 1};
            iso_net_update(w.net, &u, 0, values, &bad);
            answer a = make_answer(&w, r == 2 ? ISO_PAYLOAD_FP32 : ISO_PAYLOAD_EXACT, value, 13);
            iso_merge_step step = {0.01 * r, r};
            iso_payload payload;
            size_t bytes;
            iso_merger_begin(m, 13);
            take(m, &a);
            uint8_t *out = rep_merge(m, &step, 2, &payload, &bytes);
            assert_memory_equal(out, iso_merger_array(m, 0), bytes);
            free(out);
            free(a.bytes);
        }
        for (uint32_t i = 0; i < iso_merger_arrays(m); i++) {
            iso_net_publish(w.net, i ? state_of[i - 1] : internal, value);
            assert_memory_equal(value, iso_merger_array(m, i), w.parameters * 4);
            assert_string_equal(iso_merger_array_name(m, i), i ? iso_optimizer_state_name(&w.optimizer, i - 1) : "weights");
        }
        assert_int_equal(iso_merger_arrays(m), 1 + iso_optimizer_states(&w.optimizer));
        assert_null(iso_merger_array(m, 9));
        void *block[] = {internal, state_of[0], state_of[1], value, inside, sum, memory};
        for (size_t i = 0; i < TEST_COUNT(block); i++)
            iso_free(NULL, block[i]);
        rep_world_close(&w);
    }
}

/* Answers applied one by one, each with its own rate: w - sum of rate / (1 + staleness) gradient. */
static void answers_may_be_applied_one_by_one(void **state)
{
    (void)state;
    rep_world w;
    void *memory;
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[0]);
    iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = ISO_WAY_GRADIENT, .down = ISO_PAYLOAD_EXACT}, &memory);
    uint64_t random = test_seed("test_merge");
    float *value = nn_take(w.parameters * 4);
    double *want = calloc(w.parameters, sizeof *want);
    for (size_t i = 0; i < w.parameters; i++)
        want[i] = (double)iso_merger_array(m, 0)[i];
    for (uint32_t r = 0; r < 10; r++) {
        iso_merge_step step = {0.1 / (1 + r % 4), r + 1};
        for (size_t i = 0; i < w.parameters; i++) {
            value[i] = (float)(test_random_below(&random, 1000)) * 1e-3f;
            want[i] -= step.rate * (double)value[i];
        }
        answer a = make_answer(&w, ISO_PAYLOAD_FP32, value, 16);
        iso_payload payload;
        size_t bytes;
        iso_merger_begin(m, 16);
        take(m, &a);
        free(rep_merge(m, &step, 1, &payload, &bytes));
        free(a.bytes);
    }
    for (size_t i = 0; i < w.parameters; i++)
        assert_true(fabs((double)iso_merger_array(m, 0)[i] - want[i]) < 1e-6);
    free(want);
    iso_free(NULL, value);
    iso_free(NULL, memory);
    rep_world_close(&w);
}

static void the_outer_step_is_nesterovs(void **state)
{
    (void)state;
    rep_world w;
    void *memory;
    uint64_t random = test_seed("test_merge");
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[0]);
    iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = ISO_WAY_LOCAL, .down = ISO_PAYLOAD_FP32, .outer = {0.7, 0.9}}, &memory);
    float *value = nn_take(w.parameters * 4);
    double *want = calloc(w.parameters, sizeof *want), *velocity = calloc(w.parameters, sizeof *velocity);
    for (size_t i = 0; i < w.parameters; i++)
        want[i] = (double)iso_merger_array(m, 0)[i];
    for (uint32_t r = 0; r < 6; r++) {
        for (size_t i = 0; i < w.parameters; i++) {
            value[i] = (float)test_random_below(&random, 1000) * 1e-5f;
            velocity[i] = 0.9 * velocity[i] + (double)value[i];
            want[i] += 0.7 * ((double)value[i] + 0.9 * velocity[i]);
        }
        answer a = make_answer(&w, ISO_PAYLOAD_FP32, value, 16);
        iso_payload payload;
        size_t bytes;
        iso_merger_begin(m, 16);
        take(m, &a);
        free(rep_merge(m, NULL, 2, &payload, &bytes));
        free(a.bytes);
    }
    assert_string_equal(iso_merger_array_name(m, 1), "error");
    assert_string_equal(iso_merger_array_name(m, 2), "outer");
    for (size_t i = 0; i < w.parameters; i++) {
        assert_true(fabs((double)iso_merger_array(m, 0)[i] - want[i]) < 1e-6);
        assert_true(fabs((double)iso_merger_array(m, 2)[i] - velocity[i]) < 1e-6);
    }
    free(want);
    free(velocity);
    iso_free(NULL, value);
    iso_free(NULL, memory);
    rep_world_close(&w);
}

/* What the coordinator's rounding takes away is said later: weights + error = weights of exact merges. A second merger that gets
 * the arrays half way goes on with the same bits. */
static void the_error_memory_keeps_what_is_not_said(void **state)
{
    (void)state;
    for (int p = ISO_PAYLOAD_FP32; p < (int)ISO_PAYLOADS; p++) {
        rep_world w;
        void *memory[2];
        uint64_t random = test_seed("test_merge");
        rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[0]);
        iso_merger_config config = {.way = ISO_WAY_LOCAL, .down = (iso_payload)p, .outer = {0.7, 0.9}};
        iso_merger *m = rep_merger_open(&w, config, &memory[0]), *other = rep_merger_open(&w, config, &memory[1]);
        iso_merger_config exact = config;
        exact.down = ISO_PAYLOAD_EXACT;
        void *exact_memory;
        iso_merger *x = rep_merger_open(&w, exact, &exact_memory);
        for (uint32_t r = 0; r < 40; r++) {
            answer a = random_answer(&w, ISO_PAYLOAD_BF16, false, &random);
            iso_merger *all[3] = {m, x, other};
            for (int k = 0; k < (r < 20 ? 2 : 3); k++) {
                iso_payload payload;
                size_t bytes;
                iso_merger_begin(all[k], 50);
                take(all[k], &a);
                free(rep_merge(all[k], NULL, 1, &payload, &bytes));
            }
            free(a.bytes);
            for (uint32_t i = 0; r == 19 && i < iso_merger_arrays(m); i++)
                memcpy(iso_merger_array(other, i), iso_merger_array(m, i), w.parameters * 4);
        }
        for (size_t i = 0; i < w.parameters; i++) {
            double said = (double)iso_merger_array(m, 0)[i] + (double)iso_merger_array(m, 1)[i];
            assert_true(fabs(said - (double)iso_merger_array(x, 0)[i]) < 1e-5);
        }
        for (uint32_t i = 0; i < iso_merger_arrays(m); i++)
            assert_memory_equal(iso_merger_array(other, i), iso_merger_array(m, i), w.parameters * 4);
        iso_free(NULL, memory[0]);
        iso_free(NULL, memory[1]);
        iso_free(NULL, exact_memory);
        rep_world_close(&w);
    }
}

/* ---- what must not do harm ------------------------------------------------------------------------------------------------ */

static void bad_answers_change_nothing(void **state)
{
    (void)state;
    rep_world w;
    void *memory[2];
    iso_error e;
    uint64_t random = test_seed("test_merge");
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[0]);
    iso_merger_config config = {.way = ISO_WAY_LOCAL, .down = ISO_PAYLOAD_INT8};
    iso_merger *m = rep_merger_open(&w, config, &memory[0]), *clean = rep_merger_open(&w, config, &memory[1]);
    answer good = random_answer(&w, ISO_PAYLOAD_INT8, false, &random);
    assert_int_equal(iso_merger_take(m, good.payload, good.bytes, good.count, 1, &e), ISO_E_ARGUMENT); /* not begun */
    iso_merger_begin(m, 100);
    iso_merger_begin(clean, 100);
    take(m, &good);
    take(clean, &good);
    for (int p = 0; p < (int)ISO_PAYLOADS; p++) {
        answer a = random_answer(&w, (iso_payload)p, p == ISO_PAYLOAD_EXACT, &random);
        assert_int_equal(iso_merger_take(m, a.payload, a.bytes, a.count - 1, 1, &e), ISO_E_PROTOCOL);
        assert_int_equal(iso_merger_take(m, a.payload, a.bytes, a.count + 1, 1, &e), ISO_E_PROTOCOL);
        assert_int_equal(iso_merger_take(m, a.payload, a.bytes, a.count, 101, &e), ISO_E_ARGUMENT);
        assert_int_equal(iso_merger_take(m, a.payload, a.bytes, a.count, UINT64_MAX, &e), ISO_E_ARGUMENT);
        size_t at = p < ISO_PAYLOAD_INT8 ? a.count - 2 : iso_payload_bytes(a.payload, ISO_BLOCK);
        a.bytes[at] = 0xff;
        a.bytes[at + (p < ISO_PAYLOAD_INT8)] = 0xff;
        assert_int_equal(iso_merger_take(m, a.payload, a.bytes, a.count, 1, &e), p < ISO_PAYLOAD_INT8 ? ISO_E_NONFINITE : ISO_E_PROTOCOL);
        test_expect_word(e.text, p < ISO_PAYLOAD_INT8 ? "dense2.bias" : "exponent of block 1");
        free(a.bytes);
    }
    float *large = nn_take(w.parameters * 4);
    large[70] = 50000; /* times 100 samples: more than 2^22 */
    answer a = make_answer(&w, ISO_PAYLOAD_FP32, large, 1);
    assert_int_equal(iso_merger_take(m, a.payload, a.bytes, a.count, 1, &e), ISO_E_NONFINITE);
    test_expect_word(e.text, "value 10 of dense1.weight");
    assert_int_equal(iso_merger_take(m, (iso_payload)17, a.bytes, a.count, 1, &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_merger_answers(m), 1);
    iso_payload payload;
    size_t bytes;
    uint8_t *x = rep_merge(m, NULL, 1, &payload, &bytes), *y = rep_merge(clean, NULL, 1, &payload, &bytes);
    assert_memory_equal(x, y, bytes);
    assert_int_equal(iso_merger_check(m), iso_merger_check(clean));
    void *block[] = {x, y, a.bytes, good.bytes};
    for (size_t i = 0; i < TEST_COUNT(block); i++)
        free(block[i]);
    iso_free(NULL, large);
    iso_free(NULL, memory[0]);
    iso_free(NULL, memory[1]);
    rep_world_close(&w);
}

/* A held answer whose difference turns out too large when a second one comes: named, and it stays held. */
static void a_held_answer_is_looked_at_again(void **state)
{
    (void)state;
    rep_world w;
    void *memory;
    iso_error e;
    iso_payload payload;
    size_t bytes;
    uint64_t random = test_seed("test_merge");
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[0]);
    iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = ISO_WAY_LOCAL, .down = ISO_PAYLOAD_INT8}, &memory);
    float *far = rep_first_weights(&w);
    far[3] += 100;
    answer a = make_answer(&w, ISO_PAYLOAD_EXACT, far, 10), b = random_answer(&w, ISO_PAYLOAD_INT4, false, &random);
    iso_merger_begin(m, 1 << 20);
    take(m, &a);
    assert_int_equal(iso_merger_take(m, b.payload, b.bytes, b.count, 10, &e), ISO_E_NONFINITE);
    test_expect_word(e.text, "value 3 of conv1.weight");
    uint8_t *out = rep_merge(m, NULL, 2, &payload, &bytes);
    assert_int_equal(payload, ISO_PAYLOAD_EXACT);
    assert_memory_equal(out, far, bytes);
    assert_memory_equal(iso_merger_array(m, 0), far, bytes);
    free(out);
    free(a.bytes);
    free(b.bytes);
    iso_free(NULL, far);
    iso_free(NULL, memory);
    rep_world_close(&w);
}

static void too_large_weights_name_their_layer(void **state)
{
    (void)state;
    static const iso_payload downs[] = {ISO_PAYLOAD_EXACT, ISO_PAYLOAD_INT8};
    for (size_t d = 0; d < TEST_COUNT(downs); d++)
        for (int way = 0; way < 2; way++) {
            rep_world w;
            void *memory;
            int32_t bad;
            rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[0]);
            iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = way ? ISO_WAY_GRADIENT : ISO_WAY_LOCAL, .down = downs[d],
                                                                    .outer = {way ? 1 : 4, 0}}, &memory);
            float *value = nn_take(w.parameters * 4);
            value[70] = 3e6f; /* dense1 */
            answer a = make_answer(&w, ISO_PAYLOAD_FP32, value, 1);
            iso_merge_step step = {4, 1};
            uint8_t *out = malloc(iso_merger_down_bytes(m));
            iso_merger_begin(m, 1);
            take(m, &a);
            iso_merger_merge(m, way ? &step : NULL, 0, w.parameters, out, &bad);
            assert_int_equal(bad, 4);
            assert_string_equal(iso_net_layer(w.net, (uint32_t)bad).name, "dense1");
            free(out);
            free(a.bytes);
            iso_free(NULL, value);
            iso_free(NULL, memory);
            rep_world_close(&w);
        }
}

static void configurations_are_checked(void **state)
{
    (void)state;
    rep_world w;
    iso_error e;
    void *memory;
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[3]);
    iso_merger_config c = {.net = w.net, .optimizer = &w.optimizer, .down = ISO_PAYLOAD_INT8};
    assert_true(iso_merger_bytes(&c) < SIZE_MAX);
    c.outer = (iso_outer){0, 0.9};
    assert_true(iso_merger_bytes(&c) == SIZE_MAX);
    c.outer = (iso_outer){0.7, 0};
    c.carry = true;
    assert_true(iso_merger_bytes(&c) == SIZE_MAX);
    c.carry = false;
    c.down = (iso_payload)5;
    assert_true(iso_merger_bytes(&c) == SIZE_MAX);
    iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = ISO_WAY_LOCAL, .carry = true}, &memory);
    assert_int_equal(iso_merger_full_bytes(m), 3 * 4 * w.parameters);
    uint8_t *full = calloc(1, iso_merger_full_bytes(m));
    iso_merger_begin(m, 100);
    assert_int_equal(iso_merger_take(m, ISO_PAYLOAD_INT8, full, iso_payload_bytes(ISO_PAYLOAD_INT8, w.parameters), 1, &e), ISO_E_STATE);
    assert_int_equal(iso_merger_take(m, ISO_PAYLOAD_EXACT, full, 4 * w.parameters, 1, &e), ISO_E_PROTOCOL);
    assert_int_equal(iso_merger_take(m, ISO_PAYLOAD_EXACT, full, iso_merger_full_bytes(m), 1, &e), ISO_OK);
    assert_int_equal(iso_merger_take(m, ISO_PAYLOAD_EXACT, full, iso_merger_full_bytes(m), 1, &e), ISO_E_STATE);
    free(full);
    iso_free(NULL, memory);
    rep_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_slices_do_not_show),
        cmocka_unit_test(exact_weights_count_as_differences),
        cmocka_unit_test(two_and_five_samples),
        cmocka_unit_test(one_step_a_round_is_weighted_bsp),
        cmocka_unit_test(gradient_steps_are_those_of_the_network),
        cmocka_unit_test(answers_may_be_applied_one_by_one),
        cmocka_unit_test(the_outer_step_is_nesterovs),
        cmocka_unit_test(the_error_memory_keeps_what_is_not_said),
        cmocka_unit_test(bad_answers_change_nothing),
        cmocka_unit_test(a_held_answer_is_looked_at_again),
        cmocka_unit_test(too_large_weights_name_their_layer),
        cmocka_unit_test(configurations_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
