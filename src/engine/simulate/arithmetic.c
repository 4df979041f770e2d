/* SPDX-License-Identifier: Apache-2.0
 * What nodes and the coordinator compute (inside.h): with real arithmetic the same numbers as in every engine, with the cost
 * model counts alone. */
#include <math.h>
#include <string.h>

#include "engine/simulate/inside.h"

#define PROBE_SAMPLES 2500u /* of the test set */
#define PROBE_UNIT ISO_UNIT_MAX

static iso_feed_part part_of(iso_purpose_of_pass purpose)
{
    return purpose == ISO_PASS_TRAIN  ? ISO_FEED_TRAIN
           : purpose == ISO_PASS_TEST ? ISO_FEED_TEST
                                      : ISO_FEED_VALIDATION;
}

static bool real(const iso_sim *s)
{
    return !s->config.options->cost_model;
}

/* ---- a node's units ------------------------------------------------------------------------------------ */

typedef struct loading {
    iso_sim *s;
    uint32_t epoch;
} loading;

static const int32_t *load(void *context, uint64_t position, uint32_t n, iso_pass *pass, iso_narrow *narrow)
{
    const loading *l = context;
    if (pass)
        iso_feeder_load(&l->s->feeder, ISO_FEED_TRAIN, l->epoch, position, n, pass);
    else
        iso_feeder_load_narrow(&l->s->feeder, l->epoch, position, n, narrow);
    return l->s->feeder.label;
}

static void train(iso_sim *s, sim_node *n, uint64_t first, uint32_t count, iso_unit_result *r)
{
    if (n->replica) {
        loading l = {s, n->order.epoch};
        iso_replica_work(n->replica, s->pass, first, count, load, &l, r);
        return;
    }
    iso_feeder_load(&s->feeder, ISO_FEED_TRAIN, n->order.epoch, first, count, s->pass);
    iso_pass_train(s->pass, n->weights->internal, s->feeder.label, s->kept, r);
    iso_pass_gradient(s->pass, s->kept, true, n->order.pass_units, n->sum, r);
}

static void evaluate(iso_sim *s, sim_node *n, uint64_t first, uint32_t count, iso_unit_result *r)
{
    const float *w = n->replica ? iso_replica_weights(n->replica) : n->weights->internal;
    iso_feeder_load(&s->feeder, part_of(n->order.purpose), n->order.epoch, first, count, s->eval);
    iso_pass_evaluate(s->eval, w, s->feeder.label, r);
}

void iso_sim_unit(iso_sim *s, sim_node *n, uint64_t first, uint32_t count)
{
    iso_unit_result r = {.samples = count, .loss = (int64_t)count << ISO_GRID_BITS, .bad_layer = -1};
    if (!n->has_weights) {
        iso_sim_fail(s, ISO_E_WRONG, "node %s computes without weights", n->machine->name);
        return;
    }
    if (real(s) && n->order.purpose == ISO_PASS_TRAIN)
        train(s, n, first, count, &r);
    else if (real(s))
        evaluate(s, n, first, count, &r);
    iso_totals_add_unit(&n->totals, &r);
}

void iso_sim_unit_twice(iso_sim *s, uint32_t id, uint64_t first, uint32_t count)
{
    sim_node *n = &s->node[id];
    if (s->config.options->canary != ISO_CANARY_DOUBLE_COUNT || s->planted || n->order.purpose != ISO_PASS_TRAIN || s->round < 1)
        return;
    iso_totals before = n->totals;
    s->planted = true;
    iso_sim_unit(s, n, first, count);
    iso_sim_span_add(s, &n->done, first, count);
    n->totals = before; /* nobody says so */
}

bool iso_sim_node_room(iso_sim *s, sim_node *n)
{
    if (!real(s))
        return true;
    if (s->plan.way == ISO_PLAN_SUM) {
        if (!n->sum)
            n->sum = iso_new(s->alloc, s->values, sizeof *n->sum);
        if (!n->sum)
            iso_sim_no_memory(s);
        return n->sum;
    }
    iso_replica_config c;
    iso_sim_replica_config(s, &c);
    if (!n->replica_memory)
        n->replica_memory = iso_new_raw(s->alloc, 1, iso_replica_bytes(&c));
    if (!n->replica_memory) {
        iso_sim_no_memory(s);
        return false;
    }
    n->replica = iso_replica_init(&c, n->replica_memory);
    return true;
}

void iso_sim_replica_config(const iso_sim *s, iso_replica_config *c)
{
    *c = (iso_replica_config){.net = s->config.net,
                              .optimizer = &s->core.optimizer,
                              .schedule = &s->core.schedule,
                              .way = s->plan.way == ISO_PLAN_LOCAL ? ISO_WAY_LOCAL : ISO_WAY_GRADIENT,
                              .samples = s->core.samples,
                              .total = s->core.samples * s->core.epochs,
                              .unit = s->config.unit,
                              .local_batch = s->plan.local_batch,
                              .monitor = s->plan.monitor_every > 0,
                              .carry = s->plan.one_node};
}

/* ---- a node's weights ---------------------------------------------------------------------------------- */

static sim_blob *find_news(sim_node *n, uint64_t round, bool full)
{
    for (uint32_t i = 0; i < SIM_NEWS; i++)
        if (n->news[i] && n->news[i]->round == round && n->news[i]->full == full)
            return n->news[i];
    return NULL;
}

/* In the middle, but not in the padding, which nobody reads: that is 0. */
static void flip_in(uint32_t *value, size_t count)
{
    size_t i = count / 2;
    while (i + 1 < count && value[i] == 0)
        i++;
    value[i] ^= 1u << 12;
}

/* The canary: one bit of what a node holds turns. */
static void flip_bit(iso_sim *s, sim_node *n)
{
    if (n->replica) {
        flip_in((uint32_t *)(void *)(uintptr_t)iso_replica_weights(n->replica), s->values);
        return;
    }
    if (!n->weights || !n->weights->internal) {
        n->damaged = true;
        return;
    }
    sim_blob *copy = iso_sim_blob(s, 0, 0, true);
    if (!copy)
        return;
    memcpy(copy->internal, n->weights->internal, s->values * sizeof(float));
    flip_in((uint32_t *)(void *)copy->internal, s->values);
    copy->round = n->weights->round;
    copy->true_one = n->weights;
    n->weights = copy;
}

static void forget_older(iso_sim *s, sim_node *n, uint64_t round)
{
    for (uint32_t i = 0; i < SIM_NEWS; i++)
        if (n->news[i] && n->news[i]->round <= round)
            iso_sim_drop(s, &n->news[i]);
}

void iso_sim_adopt(iso_sim *s, uint32_t id, uint64_t round, bool full)
{
    sim_node *n = &s->node[id];
    sim_blob *b = find_news(n, round, full);
    iso_error e = {0};
    if (!b) {
        iso_sim_fail(s, ISO_E_WRONG, "node %s was told to take weights of round %llu that it does not have", n->machine->name,
                     (unsigned long long)round);
        return;
    }
    if (n->replica) {
        int result = full ? iso_replica_adopt(n->replica, b->data, b->bytes, &e)
                          : iso_replica_apply(n->replica, b->payload, b->data, b->bytes, &e);
        if (result)
            iso_sim_fail(s, ISO_E_WRONG, "node %s cannot take the weights of round %llu: %s", n->machine->name,
                         (unsigned long long)round, e.text);
    } else {
        iso_sim_drop(s, &n->weights);
        n->weights = iso_sim_hold(b);
    }
    n->has_weights = true;
    n->base_round = round;
    forget_older(s, n, round);
    if (s->config.options->canary == ISO_CANARY_BIT_FLIP && !s->planted && round >= 2) {
        s->planted = true;
        flip_bit(s, n);
    }
}

/* ---- answers ------------------------------------------------------------------------------------------- */

static sim_blob *answer_of_replica(iso_sim *s, sim_node *n)
{
    iso_payload payload = n->exact ? ISO_PAYLOAD_EXACT : s->plan.up;
    size_t bytes = real(s) ? iso_replica_answer_bytes(n->replica, payload) : 0;
    sim_blob *b = iso_sim_blob(s, bytes, real(s) ? bytes : iso_payload_bytes(payload, s->parameters), false);
    iso_error e = {0};
    if (!b)
        return NULL;
    b->payload = payload;
    if (real(s) && iso_replica_encode(n->replica, payload, b->data, bytes, &e)) {
        iso_sim_fail(s, e.code, "%s", e.text);
        iso_sim_drop(s, &b);
    }
    return b;
}

sim_blob *iso_sim_answer(iso_sim *s, sim_node *n)
{
    if (n->answer)
        return n->answer;
    if (s->plan.way == ISO_PLAN_SUM) {
        size_t bytes = real(s) ? s->values * sizeof *n->sum : 0;
        n->answer = iso_sim_blob(s, bytes, s->parameters * sizeof(float), false);
        if (n->answer && bytes)
            memcpy(n->answer->data, n->sum, bytes);
    } else {
        n->answer = answer_of_replica(s, n);
    }
    if (n->answer)
        iso_sim_span_copy(s, &n->answer->spans, &n->done);
    return n->answer;
}

/* ---- the coordinator's weights ------------------------------------------------------------------------- */

sim_blob *iso_sim_full(iso_sim *s)
{
    if (s->full)
        return s->full;
    size_t bytes = !real(s) ? 0 : s->merger ? iso_merger_full_bytes(s->merger) : s->parameters * sizeof(float);
    uint64_t cost = real(s) ? bytes : s->parameters * sizeof(float);
    s->full = iso_sim_blob(s, bytes, cost, real(s) && !s->merger);
    if (!s->full)
        return NULL;
    s->full->round = s->border;
    s->full->full = true;
    if (s->merger) {
        iso_merger_full(s->merger, s->full->data);
    } else if (real(s)) {
        iso_net_publish(s->config.net, s->w, (float *)(void *)s->full->data);
        memcpy(s->full->internal, s->w, s->values * sizeof(float));
    }
    return s->full;
}

static void step_on_sums(iso_sim *s, const iso_update_order *o, int32_t *bad_layer)
{
    int64_t *sum[1] = {s->merged};
    iso_update u = {.optimizer = &s->core.optimizer,
                    .rate = o->rate,
                    .step = o->step,
                    .samples = o->samples,
                    .units = o->units,
                    .w = s->w,
                    .state = s->state,
                    .sum = sum,
                    .sum_count = 1,
                    .unit = s->config.unit};
    iso_net_update(s->config.net, &u, 0, s->values, bad_layer);
}

static void take_answers(iso_sim *s, const iso_update_order *o)
{
    iso_error e = {0};
    iso_merger_begin(s->merger, o->samples);
    for (uint32_t i = 0; i < o->node_count && !s->ended; i++) {
        for (const sim_blob *b = s->node[s->update_node[i]].taken; b && !s->ended; b = b->before)
            if (iso_merger_take(s->merger, b->payload, b->data, b->bytes, b->spans.samples, &e))
                iso_sim_fail(s, e.code == ISO_E_NONFINITE ? e.code : ISO_E_WRONG, "%s", e.text);
    }
}

static void merge(iso_sim *s, const iso_update_order *o, int32_t *bad_layer)
{
    take_answers(s, o);
    if (s->ended)
        return;
    size_t bytes = iso_merger_down_bytes(s->merger);
    iso_merge_step step = {.rate = o->rate, .step = o->step};
    s->change = iso_sim_blob(s, bytes, bytes, false);
    if (!s->change)
        return;
    s->change->payload = iso_merger_down(s->merger);
    s->change->round = o->round + 1;
    iso_merger_merge(s->merger, s->plan.way == ISO_PLAN_GRADIENT ? &step : NULL, 0, s->parameters, s->change->data, bad_layer);
    iso_merger_end(s->merger);
    s->check[(o->round + 1) % SIM_CHECKS] = iso_merger_check(s->merger);
}

/* Without arithmetic differences still have a size: exact ones, which a lone node's are, that of the weights. */
static void pretend(iso_sim *s, const iso_update_order *o)
{
    iso_payload payload = o->node_count == 1 && s->node[s->update_node[0]].taken->payload == ISO_PAYLOAD_EXACT
                              ? ISO_PAYLOAD_EXACT
                              : s->plan.down;
    s->change = iso_sim_blob(s, 0, iso_payload_bytes(payload, s->parameters), false);
    if (s->change)
        s->change->round = o->round + 1;
}

void iso_sim_update(iso_sim *s, int32_t *bad_layer)
{
    const iso_update_order *o = &s->update;
    *bad_layer = -1;
    iso_sim_drop(s, &s->full);
    iso_sim_drop(s, &s->change);
    if (s->plan.way == ISO_PLAN_SUM && real(s))
        step_on_sums(s, o, bad_layer);
    else if (real(s))
        merge(s, o, bad_layer);
    else if (s->plan.way != ISO_PLAN_SUM)
        pretend(s, o);
    s->border = o->round + 1;
}

void iso_sim_take(iso_sim *s, const float *internal)
{
    if (s->merger) {
        iso_net_publish(s->config.net, internal, iso_merger_array(s->merger, 0));
        s->check[0] = iso_merger_check(s->merger);
    } else {
        memcpy(s->w, internal, s->values * sizeof(float));
    }
}

void iso_sim_publish(iso_sim *s, float *published)
{
    if (s->merger)
        memcpy(published, iso_merger_array(s->merger, 0), s->parameters * sizeof(float));
    else
        iso_net_publish(s->config.net, s->w, published);
}

double iso_sim_probe(iso_sim *s)
{
    uint64_t count = s->core.test < PROBE_SAMPLES ? s->core.test : PROBE_SAMPLES;
    if (!real(s) || !count)
        return NAN;
    if (s->merger)
        iso_net_adopt(s->config.net, iso_merger_array(s->merger, 0), s->w);
    iso_totals t;
    iso_totals_clear(&t);
    for (uint64_t first = 0; first < count; first += PROBE_UNIT) {
        uint32_t n = count - first < PROBE_UNIT ? (uint32_t)(count - first) : PROBE_UNIT;
        iso_unit_result r;
        iso_feeder_load(&s->feeder, ISO_FEED_TEST, 0, first, n, s->eval);
        iso_pass_evaluate(s->eval, s->w, s->feeder.label, &r);
        iso_totals_add_unit(&t, &r);
    }
    return (double)t.correct / (double)count;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static bool take_passes(iso_sim *s)
{
    const iso_net *net = s->config.net;
    uint32_t unit = s->config.unit;
    if (s->plan.way != ISO_PLAN_SUM) {
        iso_replica_config c;
        iso_sim_replica_config(s, &c);
        unit = iso_replica_pass_unit(&c);
    }
    size_t copies = iso_feeder_bytes(s->config.feed), kept = iso_kept_bytes(net, s->config.unit);
    if (unit) {
        s->pass_memory = iso_new_raw(s->alloc, iso_pass_bytes(net, unit, true), 1);
        s->kept = iso_new_raw(s->alloc, kept ? kept : 1, 1);
        if (!s->pass_memory || !s->kept)
            return false;
        s->pass = iso_pass_init(net, unit, true, s->pass_memory);
    }
    s->eval_memory = iso_new_raw(s->alloc, iso_pass_bytes(net, PROBE_UNIT, false), 1);
    s->feeder_memory = copies ? iso_new_raw(s->alloc, copies, 1) : NULL;
    if (!s->eval_memory || (copies && !s->feeder_memory))
        return false;
    s->eval = iso_pass_init(net, PROBE_UNIT, false, s->eval_memory);
    iso_feeder_init(&s->feeder, s->config.feed, s->feeder_memory);
    return true;
}

static bool take_merger(iso_sim *s)
{
    iso_merger_config c = {.net = s->config.net,
                           .optimizer = &s->core.optimizer,
                           .way = s->plan.way == ISO_PLAN_LOCAL ? ISO_WAY_LOCAL : ISO_WAY_GRADIENT,
                           .outer = s->plan.outer,
                           .down = s->plan.down,
                           .carry = s->plan.one_node};
    s->merger_memory = iso_new_raw(s->alloc, 1, iso_merger_bytes(&c));
    if (!s->merger_memory)
        return false;
    s->merger = iso_merger_init(&c, s->merger_memory);
    return true;
}

int iso_sim_arithmetic_init(iso_sim *s, iso_error *e)
{
    bool enough = (s->w = iso_new(s->alloc, s->values, sizeof(float))) != NULL;
    if (enough && real(s)) {
        enough = take_passes(s);
        if (s->plan.way == ISO_PLAN_SUM) {
            enough = enough && (s->merged = iso_new(s->alloc, s->values, sizeof *s->merged));
            for (uint32_t i = 0; enough && i < s->states; i++)
                enough = (s->state[i] = iso_new(s->alloc, s->values, sizeof(float))) != NULL;
        } else {
            enough = enough && take_merger(s) && (s->scratch = iso_new(s->alloc, s->parameters, sizeof(float)));
        }
    }
    return enough ? 0 : iso_error_set(e, ISO_E_NOMEM, "no memory for the coordinator of a simulation");
}

void iso_sim_arithmetic_fini(iso_sim *s)
{
    iso_free(s->alloc, s->w);
    iso_free(s->alloc, s->merged);
    iso_free(s->alloc, s->scratch);
    for (uint32_t i = 0; i < ISO_STATES_MAX; i++)
        iso_free(s->alloc, s->state[i]);
    iso_free(s->alloc, s->merger_memory);
    iso_free(s->alloc, s->pass_memory);
    iso_free(s->alloc, s->kept);
    iso_free(s->alloc, s->eval_memory);
    iso_free(s->alloc, s->feeder_memory);
}
