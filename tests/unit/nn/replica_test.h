/* SPDX-License-Identifier: Apache-2.0
 * For tests of replicas and the merger: a network with samples, nodes that work on them, serial training to compare with. */
#ifndef ISO_TESTS_REPLICA_TEST_H
#define ISO_TESTS_REPLICA_TEST_H

#include "isochron/replica.h"
#include "nn_test.h"

enum { REP_SAMPLES = 330, REP_CLASSES = 5, REP_NODES = 5, REP_UNIT_MAX = 64 };

typedef struct rep_world {
    iso_net *net;
    iso_optimizer optimizer;
    iso_schedule schedule;
    float *x;
    int32_t label[REP_SAMPLES];
    float ones[64], zeros[64];
    size_t inputs, parameters;
    uint64_t total;
} rep_world;

typedef struct rep_node {
    rep_world *world;
    iso_replica_config config;
    iso_replica *replica;
    void *memory, *pass_memory;
    iso_pass *pass;
    uint8_t *up;                  /* room for any answer */
} rep_node;

static const iso_optimizer rep_optimizers[] = {
    {ISO_SGD, 0.05, 0, 0, 0, 0, 0, false},
    {ISO_SGD, 0.02, 0.9, 0, 0, 0, 1e-3, false},
    {ISO_NESTEROV, 0.02, 0.9, 0, 0, 0, 1e-3, true},
    {ISO_ADAM, 0.002, 0, 0.9, 0.999, 1e-8, 1e-3, false},
};

static inline void rep_world_open(rep_world *w, const char *model, iso_shape input, iso_isa isa, const iso_optimizer *o)
{
    iso_error e;
    iso_model m = nn_model(model, ISO_LOSS_CROSS_ENTROPY);
    memset(w, 0, sizeof *w);
    if (iso_net_new(&w->net, &m, input, REP_CLASSES, isa, NULL, &e))
        fail_msg("%s", e.text);
    w->optimizer = *o;
    w->total = 4 * REP_SAMPLES;
    w->schedule = (iso_schedule){.kind = ISO_COSINE, .warmup_epochs = 0.3, .final_factor = 0.1};
    w->inputs = (size_t)input.c * input.h * input.w;
    w->parameters = iso_net_parameters(w->net);
    w->x = nn_take(REP_SAMPLES * w->inputs * sizeof(float));
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = 3, .purpose = ISO_PURPOSE_TEST});
    for (size_t i = 0; i < REP_SAMPLES * w->inputs; i++)
        w->x[i] = 2 * iso_rng_float(&r) - 1;
    for (uint32_t i = 0; i < REP_SAMPLES; i++)
        w->label[i] = (int32_t)iso_rng_below32(&r, REP_CLASSES);
    for (int i = 0; i < 64; i++)
        w->ones[i] = 1;
}

static inline void rep_world_close(rep_world *w)
{
    iso_net_free(w->net);
    iso_free(NULL, w->x);
}

#define REP_SMALL "conv 6 3 1 1,relu,max_pool 2,flatten,dense 19,sigmoid,dense 5"
static const iso_shape rep_small_input = {1, 8, 8};

/* The first weights, published. */
static inline float *rep_first_weights(const rep_world *w)
{
    float *internal = nn_take(iso_net_values(w->net) * sizeof(float)), *published = nn_take(w->parameters * sizeof(float));
    iso_net_init(w->net, 9, internal);
    iso_net_publish(w->net, internal, published);
    iso_free(NULL, internal);
    return published;
}

static inline const int32_t *rep_load(void *context, uint64_t position, uint32_t n, iso_pass *pass, iso_narrow *narrow)
{
    rep_world *w = context;
    const float *sample[REP_UNIT_MAX];
    assert_true(position + n <= REP_SAMPLES && (pass == NULL) != (narrow == NULL));
    for (uint32_t i = 0; i < n; i++)
        sample[i] = w->x + (position + i) * w->inputs;
    if (narrow)
        iso_narrow_load_f32(narrow, n, sample, w->ones, w->zeros);
    else
        iso_pass_load_f32(pass, n, sample, w->ones, w->zeros);
    return w->label + position;
}

/* A node whose memory is as large as it said and not a byte more. */
static inline void rep_node_open(rep_node *n, rep_world *w, const iso_replica_config *config)
{
    n->world = w;
    n->config = *config;
    n->config.net = w->net;
    n->config.optimizer = &w->optimizer;
    n->config.schedule = &w->schedule;
    n->config.samples = REP_SAMPLES;
    n->config.total = w->total;
    size_t bytes = iso_replica_bytes(&n->config);
    assert_true(bytes < SIZE_MAX);
    n->memory = nn_take(bytes);
    n->replica = iso_replica_init(&n->config, n->memory);
    uint32_t unit = iso_replica_pass_unit(&n->config);
    n->pass_memory = unit ? nn_take(iso_pass_bytes(w->net, unit, true)) : NULL;
    n->pass = unit ? iso_pass_init(w->net, unit, true, n->pass_memory) : NULL;
    n->up = nn_take(3 * 4 * w->parameters);
}

static inline void rep_node_close(rep_node *n)
{
    iso_free(NULL, n->memory);
    iso_free(NULL, n->pass_memory);
    iso_free(NULL, n->up);
}

/* Positions [first, end), unit by unit. */
static inline iso_unit_result rep_node_work(rep_node *n, uint64_t first, uint64_t end)
{
    iso_unit_result all = {.bad_layer = -1}, r;
    for (uint64_t at = first; at < end; at += n->config.unit) {
        uint32_t count = end - at < n->config.unit ? (uint32_t)(end - at) : n->config.unit;
        iso_replica_work(n->replica, n->pass, at, count, rep_load, n->world, &r);
        all.samples += r.samples;
        all.correct += r.correct;
        all.loss += r.loss;
        all.bad_layer = all.bad_layer < 0 ? r.bad_layer : all.bad_layer;
    }
    return all;
}

static inline size_t rep_node_encode(rep_node *n, iso_payload payload)
{
    iso_error e;
    size_t bytes = iso_replica_answer_bytes(n->replica, payload);
    if (iso_replica_encode(n->replica, payload, n->up, bytes, &e))
        fail_msg("%s", e.text);
    return bytes;
}

static inline void rep_node_adopt(rep_node *n, const iso_merger *m)
{
    iso_error e;
    size_t bytes = iso_merger_full_bytes(m);
    uint8_t *full = malloc(bytes);
    iso_merger_full(m, full);
    assert_int_equal(iso_replica_full_bytes(n->replica), bytes);
    if (iso_replica_adopt(n->replica, full, bytes, &e))
        fail_msg("%s", e.text);
    free(full);
}

/* A merger whose weights are the first ones. */
static inline iso_merger *rep_merger_open(const rep_world *w, iso_merger_config config, void **memory)
{
    config.net = w->net;
    config.optimizer = &w->optimizer;
    size_t bytes = iso_merger_bytes(&config);
    assert_true(bytes < SIZE_MAX);
    *memory = nn_take(bytes);
    iso_merger *m = iso_merger_init(&config, *memory);
    float *first = rep_first_weights(w);
    memcpy(iso_merger_array(m, 0), first, w->parameters * sizeof(float));
    iso_free(NULL, first);
    return m;
}

static inline void rep_take(iso_merger *m, rep_node *n, iso_payload payload)
{
    iso_error e;
    size_t bytes = rep_node_encode(n, payload);
    if (iso_merger_take(m, payload, n->up, bytes, iso_replica_samples(n->replica), &e))
        fail_msg("%s", e.text);
}

/* Merges in `slices` parts, in any order; the down payload comes back in malloc memory. */
static inline uint8_t *rep_merge(iso_merger *m, const iso_merge_step *step, uint32_t slices, iso_payload *payload, size_t *bytes)
{
    *payload = iso_merger_down(m);
    *bytes = iso_merger_down_bytes(m);
    uint8_t *down = malloc(*bytes);
    assert_non_null(down);
    for (uint32_t i = slices; i-- > 0;) {
        size_t begin, end;
        int32_t bad;
        iso_merger_slice(m, slices, i, &begin, &end);
        iso_merger_merge(m, step, begin, end, down, &bad);
        assert_int_equal(bad, -1);
    }
    iso_merger_end(m);
    return down;
}

/* The same to all nodes, whose weights are then the merger's. */
static inline void rep_merge_to(iso_merger *m, const iso_merge_step *step, rep_node *node, uint32_t nodes)
{
    iso_payload payload;
    size_t bytes;
    iso_error e;
    uint8_t *down = rep_merge(m, step, 3, &payload, &bytes);
    for (uint32_t k = 0; k < nodes; k++) {
        if (iso_replica_apply(node[k].replica, payload, down, bytes, &e))
            fail_msg("%s", e.text);
        assert_int_equal(iso_replica_check(node[k].replica), iso_merger_check(m));
    }
    free(down);
}

/* Serial training: one optimiser step after each `batch` positions, gradients of units summed. */
typedef struct rep_serial {
    rep_world *world;
    float *w, *state[2];
    int64_t *sum;
    void *pass_memory, *kept;
    iso_pass *pass;
    uint32_t unit;
    uint64_t steps;
    int64_t loss;
} rep_serial;

static inline void rep_serial_open(rep_serial *s, rep_world *w, uint32_t unit)
{
    size_t values = iso_net_values(w->net);
    *s = (rep_serial){.world = w, .unit = unit};
    s->w = nn_take(values * sizeof(float));
    s->state[0] = nn_take(values * sizeof(float));
    s->state[1] = nn_take(values * sizeof(float));
    s->sum = nn_take(values * sizeof(int64_t));
    s->pass_memory = nn_take(iso_pass_bytes(w->net, unit, true));
    s->pass = iso_pass_init(w->net, unit, true, s->pass_memory);
    s->kept = nn_take(iso_kept_bytes(w->net, unit));
    iso_net_init(w->net, 9, s->w);
}

static inline void rep_serial_close(rep_serial *s)
{
    void *block[] = {s->w, s->state[0], s->state[1], s->sum, s->pass_memory, s->kept};
    for (size_t i = 0; i < TEST_COUNT(block); i++)
        iso_free(NULL, block[i]);
}

/* One step over positions [first, end) of an epoch. */
static inline void rep_serial_step(rep_serial *s, uint32_t epoch, uint64_t first, uint64_t end)
{
    rep_world *w = s->world;
    int32_t bad;
    for (uint64_t at = first; at < end; at += s->unit) {
        uint32_t n = end - at < s->unit ? (uint32_t)(end - at) : s->unit;
        iso_unit_result r;
        const int32_t *labels = rep_load(w, at, n, s->pass, NULL);
        iso_pass_train(s->pass, s->w, labels, s->kept, &r);
        iso_pass_gradient(s->pass, s->kept, true, 64, s->sum, &r);
        assert_int_equal(r.bad_layer, -1);
        s->loss += r.loss;
    }
    iso_update u = {.optimizer = &w->optimizer, .step = ++s->steps, .samples = end - first, .units = 64, .w = s->w,
                    .state = s->state, .sum = &s->sum, .sum_count = 1};
    u.rate = iso_schedule_rate(&w->schedule, &w->optimizer, (uint64_t)epoch * REP_SAMPLES + first, end - first, REP_SAMPLES,
                               w->total);
    iso_net_update(w->net, &u, 0, iso_net_values(w->net), &bad);
    assert_int_equal(bad, -1);
}

static inline void rep_serial_epoch(rep_serial *s, uint32_t epoch, uint32_t batch)
{
    for (uint64_t at = 0; at < REP_SAMPLES; at += batch)
        rep_serial_step(s, epoch, at, at + batch < REP_SAMPLES ? at + batch : REP_SAMPLES);
}

#endif
