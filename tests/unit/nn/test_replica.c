/* SPDX-License-Identifier: Apache-2.0
 * A node's replica: alone it is serial training bit for bit; with others all replicas stay equal bit for bit; nothing that
 * rounding takes away is lost; a round that was cut leaves no trace; bytes from outside do no harm. */
#include "replica_test.h"

static const iso_merger_config local_exact = {.way = ISO_WAY_LOCAL, .down = ISO_PAYLOAD_INT8};

static void expect_serial(const rep_serial *s, const iso_merger *m, const iso_replica *r, const char *what)
{
    size_t values = iso_net_values(s->world->net);
    const float *got = iso_replica_weights(r);
    for (size_t i = 0; i < values; i++)
        if (memcmp(&got[i], &s->w[i], sizeof(float)) != 0)
            fail_msg("%s: internal weight %zu is %a, serial training has %a", what, i, (double)got[i], (double)s->w[i]);
    assert_int_equal(iso_replica_check(r), iso_merger_check(m));
}

/* Rounds of uneven length, whole steps each, on one node. */
static void one_node(const iso_optimizer *o, uint32_t unit, uint32_t batch)
{
    rep_world w;
    rep_node node;
    rep_serial serial;
    void *memory;
    char what[100];
    snprintf(what, sizeof what, "optimiser %d, unit %u, local batch %u", (int)o->kind, unit, batch);
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, o);
    rep_node_open(&node, &w, &(iso_replica_config){.unit = unit, .local_batch = batch, .monitor = true});
    rep_serial_open(&serial, &w, unit);
    iso_merger *m = rep_merger_open(&w, local_exact, &memory);
    rep_node_adopt(&node, m);
    int64_t loss = 0;
    for (uint32_t epoch = 0, turn = 0; epoch < 2; epoch++) {
        rep_serial_epoch(&serial, epoch, batch);
        for (uint64_t at = 0, end; at < REP_SAMPLES; at = end, turn++) {
            uint64_t piece = batch > unit ? batch : unit;
            end = at + piece * (1 + turn % 3) < REP_SAMPLES ? at + piece * (1 + turn % 3) : REP_SAMPLES;
            iso_replica_begin(node.replica, epoch, 100);
            loss += rep_node_work(&node, at, end).loss;
            iso_merger_begin(m, REP_SAMPLES);
            rep_take(m, &node, ISO_PAYLOAD_EXACT);
            assert_int_equal(iso_replica_pending(node.replica), 0);
            assert_int_equal(iso_replica_samples(node.replica), end - at);
            assert_int_equal(iso_replica_steps(node.replica), (end - at + batch - 1) / batch);
            rep_merge_to(m, NULL, &node, 1);
        }
    }
    expect_serial(&serial, m, node.replica, what);
    assert_true(loss == serial.loss);
    rep_serial_close(&serial);
    rep_node_close(&node);
    rep_world_close(&w);
    iso_free(NULL, memory);
}

static void one_exact_node_is_serial_training(void **state)
{
    (void)state;
    static const struct { uint32_t unit, batch; } cut[] = {{16, 1},  {16, 4},  {16, 8},  {16, 16}, {16, 32}, {16, 48},
                                                           {16, 96}, {32, 16}, {48, 24}, {64, 4},  {64, 64}};
    for (size_t i = 0; i < TEST_COUNT(cut); i++)
        for (size_t o = 0; o < TEST_COUNT(rep_optimizers); o++)
            one_node(&rep_optimizers[o], cut[i].unit, cut[i].batch);
}

/* Work that moves from node to node with the optimiser's state; a round in between is cut and done by another node. */
static void carried_work_is_serial_training(void **state)
{
    (void)state;
    for (size_t o = 0; o < TEST_COUNT(rep_optimizers); o++) {
        rep_world w;
        rep_node node[3];
        rep_serial serial;
        void *memory;
        rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[o]);
        for (int k = 0; k < 3; k++)
            rep_node_open(&node[k], &w, &(iso_replica_config){.unit = 16, .local_batch = 2, .carry = true});
        rep_serial_open(&serial, &w, 16);
        iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = ISO_WAY_LOCAL, .carry = true}, &memory);
        for (uint32_t epoch = 0, turn = 0; epoch < 2; epoch++) {
            rep_serial_epoch(&serial, epoch, 2);
            for (uint64_t at = 0; at < REP_SAMPLES; at += 64, turn++) {
                rep_node *n = &node[turn % 3];
                uint64_t end = at + 64 < REP_SAMPLES ? at + 64 : REP_SAMPLES;
                if (turn == 7)
                    iso_replica_reset(n->replica);
                rep_node_adopt(n, m);
                iso_replica_begin(n->replica, epoch, 4);
                if (turn % 4 == 1) {
                    rep_node_work(n, at, at + 10);
                    iso_replica_begin(n->replica, epoch, 4); /* cut, and begun again */
                }
                rep_node_work(n, at, end);
                iso_merger_begin(m, REP_SAMPLES);
                rep_take(m, n, ISO_PAYLOAD_EXACT);
                rep_merge_to(m, NULL, n, 1);
            }
        }
        expect_serial(&serial, m, node[(2 * 6 - 1) % 3].replica, "carried");
        assert_int_equal(iso_merger_arrays(m), 1 + iso_optimizer_states(&w.optimizer));
        for (int k = 0; k < 3; k++)
            rep_node_close(&node[k]);
        rep_serial_close(&serial);
        rep_world_close(&w);
        iso_free(NULL, memory);
    }
}

/* Fifty rounds of four uneven nodes; one of them joins late, another one loses its session. Returns the hash at the end. */
static uint32_t many_nodes(iso_isa isa, iso_payload up, iso_payload down, iso_outer outer)
{
    enum { NODES = 4, ROUNDS = 50 };
    static const uint32_t share[NODES] = {48, 32, 16, 8};
    rep_world w;
    rep_node node[NODES];
    void *memory;
    rep_world_open(&w, REP_SMALL, rep_small_input, isa, &rep_optimizers[1]);
    iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = ISO_WAY_LOCAL, .down = down, .outer = outer}, &memory);
    for (int k = 0; k < NODES; k++) {
        rep_node_open(&node[k], &w, &(iso_replica_config){.unit = 16, .local_batch = 8, .monitor = true});
        rep_node_adopt(&node[k], m);
    }
    uint32_t before = iso_merger_check(m);
    for (uint32_t r = 0; r < ROUNDS; r++) {
        uint64_t at = r % 3 * 104;
        uint8_t again[4 * 20000];
        iso_merger_begin(m, REP_SAMPLES);
        for (uint32_t k = 0; k < NODES; k++) {
            if (k == 3 && r == 20)
                continue; /* away for a round */
            iso_replica_begin(node[k].replica, r / 3 % 4, 4);
            rep_node_work(&node[k], at, at + share[k]);
            at += share[k];
            rep_take(m, &node[k], up);
            size_t bytes = iso_replica_answer_bytes(node[k].replica, up);
            assert_true(bytes <= sizeof again);
            memcpy(again, node[k].up, bytes);
            rep_node_encode(&node[k], up);
            assert_memory_equal(again, node[k].up, bytes);
        }
        rep_merge_to(m, NULL, node, r == 20 ? NODES - 1 : NODES);
        if (r == 20 || r == 33) {
            iso_replica_reset(node[3].replica);
            rep_node_adopt(&node[3], m);
            assert_int_equal(iso_replica_check(node[3].replica), iso_merger_check(m));
        }
        assert_true(iso_merger_check(m) != before);
        before = iso_merger_check(m);
    }
    for (int k = 0; k < NODES; k++)
        rep_node_close(&node[k]);
    rep_world_close(&w);
    iso_free(NULL, memory);
    return before;
}

static void replicas_stay_equal(void **state)
{
    (void)state;
    for (int up = 0; up < (int)ISO_PAYLOADS; up++)
        for (int down = 0; down < (int)ISO_PAYLOADS; down++)
            many_nodes(ISO_ISA_AUTO, (iso_payload)up, (iso_payload)down, (iso_outer){1, 0});
    many_nodes(ISO_ISA_AUTO, ISO_PAYLOAD_INT8, ISO_PAYLOAD_INT8, (iso_outer){0.7, 0.9});
}

static void every_set_gives_the_same_weights(void **state)
{
    (void)state;
    static const iso_isa sets[] = {ISO_ISA_AVX2, ISO_ISA_AVX512};
    for (int p = 0; p < (int)ISO_PAYLOADS; p++) {
        iso_payload payload = (iso_payload)p;
        uint32_t want = many_nodes(ISO_ISA_SCALAR, payload, payload, (iso_outer){0.9, 0.5});
        for (size_t i = 0; i < TEST_COUNT(sets); i++)
            if (iso_isa_best() >= sets[i])
                assert_int_equal(many_nodes(sets[i], payload, payload, (iso_outer){0.9, 0.5}), want);
    }
}

/* Sum of what was sent + error memory = sum of what was to be sent. What a node wants to say it says exactly first. */
static void nothing_is_lost(void **state)
{
    (void)state;
    for (int p = ISO_PAYLOAD_FP32; p < (int)ISO_PAYLOADS; p++) {
        iso_payload payload = (iso_payload)p;
        rep_world w;
        rep_node node;
        void *memory;
        rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[1]);
        rep_node_open(&node, &w, &(iso_replica_config){.unit = 16, .local_batch = 4});
        iso_merger *m = rep_merger_open(&w, (iso_merger_config){.way = ISO_WAY_LOCAL, .down = payload}, &memory);
        rep_node_adopt(&node, m);
        double *sent = calloc(w.parameters, sizeof *sent), *raw = calloc(w.parameters, sizeof *raw);
        float *base = malloc(w.parameters * sizeof *base), *value = malloc(w.parameters * sizeof *value);
        double largest = 0;
        for (uint32_t r = 0; r < 30; r++) {
            iso_net_publish(w.net, iso_replica_weights(node.replica), base);
            iso_replica_begin(node.replica, 1, 4);
            rep_node_work(&node, r * 10, r * 10 + 40 < REP_SAMPLES ? r * 10 + 40 : REP_SAMPLES);
            size_t bytes = rep_node_encode(&node, ISO_PAYLOAD_EXACT);
            assert_int_equal(iso_payload_decode(ISO_ISA_AUTO, ISO_PAYLOAD_EXACT, w.parameters, node.up, bytes, value, NULL), ISO_OK);
            for (size_t i = 0; i < w.parameters; i++)
                raw[i] += (double)value[i] - (double)base[i];
            iso_merger_begin(m, REP_SAMPLES);
            rep_take(m, &node, payload);
            bytes = iso_replica_answer_bytes(node.replica, payload);
            assert_int_equal(iso_payload_decode(ISO_ISA_AUTO, payload, w.parameters, node.up, bytes, value, NULL), ISO_OK);
            for (size_t i = 0; i < w.parameters; i++)
                sent[i] += (double)value[i];
            rep_merge_to(m, NULL, &node, 1);
        }
        for (size_t i = 0; i < w.parameters; i++) {
            double lost = fabs(sent[i] + (double)iso_replica_error(node.replica)[i] - raw[i]);
            if (lost > 30 * 0x1p-24)
                fail_msg("%s: value %zu lost %g of %g", iso_payload_name(payload), i, lost, raw[i]);
            largest = fabs(sent[i]) > largest ? fabs(sent[i]) : largest;
        }
        assert_true(largest > 0.01);
        free(sent);
        free(raw);
        free(base);
        free(value);
        rep_node_close(&node);
        rep_world_close(&w);
        iso_free(NULL, memory);
    }
}

/* The monitor's figures against doubles, and the direction after a merge. */
static void figures_measure_the_difference(void **state)
{
    (void)state;
    rep_world w;
    rep_node node;
    void *memory;
    iso_figures f;
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[1]);
    rep_node_open(&node, &w, &(iso_replica_config){.unit = 16, .local_batch = 4, .monitor = true});
    iso_merger *m = rep_merger_open(&w, local_exact, &memory);
    float *before = malloc(w.parameters * sizeof(float)), *base = malloc(w.parameters * sizeof(float));
    float *own = malloc(w.parameters * sizeof(float));
    rep_node_adopt(&node, m);
    iso_replica_reset(node.replica); /* no direction yet */
    for (int r = 0; r < 2; r++) {
        iso_replica_figures(node.replica, &f);
        assert_true(f.norm2 == 0 && f.dot == 0);
        iso_replica_begin(node.replica, 1, 4);
        rep_node_work(&node, 64 * (uint64_t)r, 64 * (uint64_t)r + 64);
        iso_replica_figures(node.replica, &f);
        iso_net_publish(w.net, iso_replica_weights(node.replica), base);
        size_t bytes = rep_node_encode(&node, ISO_PAYLOAD_EXACT);
        assert_int_equal(iso_payload_decode(ISO_ISA_AUTO, ISO_PAYLOAD_EXACT, w.parameters, node.up, bytes, own, NULL), ISO_OK);
        double square = 0, dot = 0, length = 0;
        for (size_t i = 0; i < w.parameters; i++) {
            double d = (double)own[i] - (double)base[i], xi = r ? (double)base[i] - (double)before[i] : 0;
            square += d * d;
            dot += d * xi;
            length += xi * xi;
        }
        dot = r ? dot / sqrt(length) : 0;
        assert_true(square > 1e-6 && fabs(f.norm2 - square) < 1e-5 * square);
        assert_true(fabs(f.dot - dot) < 1e-4 * sqrt(square) && f.dot * f.dot <= f.norm2 * (1 + 1e-6));
        assert_true((f.dot != 0) == (r > 0));
        memcpy(before, base, w.parameters * sizeof(float));
        iso_merger_begin(m, REP_SAMPLES);
        rep_take(m, &node, ISO_PAYLOAD_INT8);
        rep_merge_to(m, NULL, &node, 1);
    }
    free(before);
    free(base);
    free(own);
    rep_node_close(&node);
    rep_world_close(&w);
    iso_free(NULL, memory);
}

/* Work thrown away leaves the base, the error memory and the next answer as they would have been. Without momentum, since momentum
 * is soft. */
static void a_cut_round_leaves_no_trace(void **state)
{
    (void)state;
    rep_world w;
    rep_node node[2];
    void *memory;
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[0]);
    iso_merger *m = rep_merger_open(&w, local_exact, &memory);
    for (int way = 0; way < 2; way++) {
        for (int k = 0; k < 2; k++) {
            rep_node_open(&node[k], &w, &(iso_replica_config){.way = way ? ISO_WAY_GRADIENT : ISO_WAY_LOCAL, .unit = 16,
                                                              .local_batch = 32});
            rep_node_adopt(&node[k], m);
        }
        for (int r = 0; r < 3; r++) {
            iso_replica_begin(node[0].replica, 1, 9);
            if (r > 0) {
                rep_node_work(&node[0], 100, 100 + 16 * (uint64_t)r); /* an open step is left when r is 1 */
                if (r == 2)
                    rep_node_encode(&node[0], ISO_PAYLOAD_INT4);
                iso_replica_begin(node[0].replica, 1, 9);
                assert_int_equal(iso_replica_samples(node[0].replica), 0);
            }
            iso_replica_begin(node[1].replica, 1, 9);
            for (int k = 0; k < 2; k++) {
                rep_node_work(&node[k], 0, 40);
                rep_node_encode(&node[k], ISO_PAYLOAD_INT4);
                if (r == 1) { /* asked again after more units: the larger answer */
                    rep_node_work(&node[k], 40, 72);
                    rep_node_encode(&node[k], ISO_PAYLOAD_INT4);
                }
            }
            assert_memory_equal(node[0].up, node[1].up, iso_payload_bytes(ISO_PAYLOAD_INT4, w.parameters));
            rep_node_adopt(&node[0], m);
            rep_node_adopt(&node[1], m);
            assert_memory_equal(iso_replica_error(node[0].replica), iso_replica_error(node[1].replica), w.parameters * 4);
        }
        rep_node_close(&node[0]);
        rep_node_close(&node[1]);
    }
    rep_world_close(&w);
    iso_free(NULL, memory);
}

static void bad_bytes_change_nothing(void **state)
{
    (void)state;
    rep_world w;
    rep_node node;
    void *memory;
    iso_error e;
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[1]);
    rep_node_open(&node, &w, &(iso_replica_config){.unit = 16, .local_batch = 16, .monitor = true});
    iso_merger *m = rep_merger_open(&w, local_exact, &memory);
    rep_node_adopt(&node, m);
    uint32_t check = iso_replica_check(node.replica);
    for (int p = 0; p < (int)ISO_PAYLOADS; p++) {
        size_t bytes = iso_payload_bytes((iso_payload)p, w.parameters);
        uint8_t *block = malloc(bytes + 1);
        memset(block, 0, bytes + 1);
        assert_int_equal(iso_replica_apply(node.replica, (iso_payload)p, block, bytes - 1, &e), ISO_E_PROTOCOL);
        assert_int_equal(iso_replica_apply(node.replica, (iso_payload)p, block, bytes + 1, &e), ISO_E_PROTOCOL);
        size_t last_block = (w.parameters - 1) / ISO_BLOCK * ISO_BLOCK;
        size_t last = p >= ISO_PAYLOAD_INT8 ? iso_payload_bytes((iso_payload)p, last_block) : bytes - 1;
        block[last] = 0x7f;
        if (p < ISO_PAYLOAD_INT8)
            block[last - 1] = 0xff;
        int status = iso_replica_apply(node.replica, (iso_payload)p, block, bytes, &e);
        assert_int_equal(status, p >= ISO_PAYLOAD_INT8 ? ISO_E_PROTOCOL : ISO_E_NONFINITE);
        test_expect_word(e.text, p >= ISO_PAYLOAD_INT8 ? "exponent" : "dense2.bias");
        assert_int_equal(iso_replica_check(node.replica), check);
        free(block);
    }
    assert_int_equal(iso_replica_encode(node.replica, ISO_PAYLOAD_INT8, node.up, 10, &e), ISO_E_STATE);
    iso_replica_begin(node.replica, 0, 1);
    rep_node_work(&node, 0, 16);
    assert_int_equal(iso_replica_encode(node.replica, ISO_PAYLOAD_INT8, node.up, 10, &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_replica_encode(node.replica, (iso_payload)9, node.up, 10, &e), ISO_E_ARGUMENT);
    rep_node_close(&node);
    rep_world_close(&w);
    iso_free(NULL, memory);
}

static void a_bad_sample_is_named_and_can_be_left_behind(void **state)
{
    (void)state;
    rep_world w;
    rep_node node;
    void *memory;
    iso_error e = {0};
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[1]);
    rep_node_open(&node, &w, &(iso_replica_config){.unit = 16, .local_batch = 16});
    iso_merger *m = rep_merger_open(&w, local_exact, &memory);
    rep_node_adopt(&node, m);
    uint32_t check = iso_replica_check(node.replica);
    float kept = w.x[20 * w.inputs];
    w.x[20 * w.inputs] = NAN;
    iso_replica_begin(node.replica, 0, 4);
    assert_true(rep_node_work(&node, 0, 32).bad_layer >= 0);
    assert_int_equal(iso_replica_encode(node.replica, ISO_PAYLOAD_INT8, node.up, iso_payload_bytes(ISO_PAYLOAD_INT8, w.parameters), &e),
                     ISO_E_NONFINITE);
    test_expect_word(e.text, "conv1 ");
    w.x[20 * w.inputs] = kept;
    iso_replica_reset(node.replica);
    rep_node_adopt(&node, m);
    assert_int_equal(iso_replica_check(node.replica), check);
    iso_replica_begin(node.replica, 0, 4);
    assert_int_equal(rep_node_work(&node, 0, 32).bad_layer, -1);
    rep_node_encode(&node, ISO_PAYLOAD_INT8);
    rep_node_close(&node);
    rep_world_close(&w);
    iso_free(NULL, memory);
}

static void configurations_are_checked(void **state)
{
    (void)state;
    rep_world w;
    rep_world_open(&w, REP_SMALL, rep_small_input, ISO_ISA_AUTO, &rep_optimizers[1]);
    iso_replica_config good = {.net = w.net, .optimizer = &w.optimizer, .schedule = &w.schedule, .samples = 10, .total = 10,
                               .unit = 32, .local_batch = 16}, c;
    assert_true(iso_replica_bytes(&good) < SIZE_MAX);
    static const struct { uint32_t unit, batch; } bad[] = {{32, 0}, {32, 12}, {32, 48}, {24, 24}, {0, 1}, {80, 80}};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        c = good;
        c.unit = bad[i].unit;
        c.local_batch = bad[i].batch;
        assert_true(iso_replica_bytes(&c) == SIZE_MAX);
    }
    c = good;
    c.way = ISO_WAY_GRADIENT;
    assert_true(iso_replica_bytes(&c) < SIZE_MAX);
    c.carry = true;
    assert_true(iso_replica_bytes(&c) == SIZE_MAX);
    c = good;
    c.samples = 0;
    assert_true(iso_replica_bytes(&c) == SIZE_MAX);
    rep_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_exact_node_is_serial_training),
        cmocka_unit_test(carried_work_is_serial_training),
        cmocka_unit_test(replicas_stay_equal),
        cmocka_unit_test(every_set_gives_the_same_weights),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(figures_measure_the_difference),
        cmocka_unit_test(a_cut_round_leaves_no_trace),
        cmocka_unit_test(bad_bytes_change_nothing),
        cmocka_unit_test(a_bad_sample_is_named_and_can_be_left_behind),
        cmocka_unit_test(configurations_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
