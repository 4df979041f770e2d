/* SPDX-License-Identifier: Apache-2.0
 * The course of a run: passes one after the other, the update between them, round borders, the end.
 *
 *     GATHER -> WORK (train) -> UPDATE -> border -> [WORK (validation, test) after an epoch] -> WORK ... -> DONE
 *
 * Only (round, evaluated) decide what comes next, so a saved border needs nothing else to go on from. */
#include "core/coordinator.h"

#include <string.h>

#include "base/assert.h"

enum { SPEEDS_ANEW = 64 }; /* passes between two fresh sums of the speeds, against drift of the running ones */

uint32_t iso_course_epoch(const iso_coordinator *c)
{
    if (c->plan.whole_epoch)
        return c->epoch;
    uint64_t epochs = c->round / c->rounds_epoch;
    return (uint32_t)(c->evaluated ? epochs : epochs - 1);
}

uint64_t iso_course_cursor(const iso_coordinator *c)
{
    if (c->plan.whole_epoch)
        return c->settled;
    return c->evaluated ? c->round % c->rounds_epoch * c->batch : c->config.samples;
}

bool iso_course_finished(const iso_coordinator *c)
{
    return c->evaluated && (c->plan.whole_epoch ? c->epoch == c->config.epochs : c->round == c->rounds);
}

/* ---- checkpoints ---- */

static bool saved_already(const iso_coordinator *c)
{
    return c->saved_any && c->saved_round == c->round && c->saved_evaluated == c->evaluated;
}

static void checkpoint(iso_coordinator *c)
{
    c->checkpoint_wanted = false;
    if (saved_already(c))
        return;
    iso_emit(c, ISO_EFFECT_CHECKPOINT)->round = c->round;
    c->saved_any = c->saving = true;
    c->saved_round = c->round;
    c->saved_evaluated = c->evaluated;
    c->saved_at = c->now;
}

static bool checkpoint_due(const iso_coordinator *c)
{
    uint64_t rounds = c->config.checkpoint_rounds;
    int64_t ns = c->config.checkpoint_ns;
    return c->checkpoint_wanted || (rounds > 0 && c->round % rounds == 0) || (ns > 0 && c->now - c->saved_at >= ns);
}

void iso_course_checkpoint_wanted(iso_coordinator *c)
{
    if (c->phase == ISO_PHASE_GATHER || c->phase == ISO_PHASE_WORK)
        checkpoint(c);
    else if (c->phase == ISO_PHASE_UPDATE)
        c->checkpoint_wanted = true;
}

/* ---- the end ---- */

static void goodbye(iso_coordinator *c)
{
    for (uint32_t i = 0; i < c->live_count; i++)
        iso_emit_frame(c, ISO_FRAME_BYE, c->live[i]);
}

void iso_course_finish(iso_coordinator *c, bool stopped)
{
    checkpoint(c);
    goodbye(c);
    c->phase = ISO_PHASE_DONE;
    iso_emit(c, ISO_EFFECT_DONE)->stopped = stopped;
}

void iso_course_stop(iso_coordinator *c)
{
    if (c->phase == ISO_PHASE_UPDATE)
        c->stopping = true; /* the weights are half new: the border comes first */
    else if (c->phase == ISO_PHASE_GATHER || c->phase == ISO_PHASE_WORK)
        iso_course_finish(c, true);
}

void iso_course_fail(iso_coordinator *c, int32_t layer)
{
    const char *what = c->purpose == ISO_PASS_TRAIN ? "loss, gradient or weight" : "loss";
    const iso_net *net = c->config.net;
    uint32_t epoch = iso_course_epoch(c) + 1;
    unsigned long long round = c->purpose == ISO_PASS_TRAIN ? c->round + 1 : c->round;
    bool named = net && (uint32_t)layer < iso_net_layer_count(net);
    const char *name = named ? iso_net_layer(net, (uint32_t)layer).name : "";
    if (named)
        iso_error_set(&c->error, ISO_E_NONFINITE,
                      "%s: a %s is not finite or beyond the gradient grid in round %llu (epoch %u, %s)", name, what,
                      round, (unsigned)epoch, iso_purpose_name(c->purpose));
    else
        iso_error_set(&c->error, ISO_E_NONFINITE,
                      "layer %d: a %s is not finite or beyond the gradient grid in round %llu (epoch %u, %s)",
                      (int)layer, what, round, (unsigned)epoch, iso_purpose_name(c->purpose));
    goodbye(c);
    c->phase = ISO_PHASE_FAILED;
    iso_emit(c, ISO_EFFECT_FAILED)->error = &c->error;
}

/* ---- passes ---- */

static void begin_pass(iso_coordinator *c, iso_purpose_of_pass purpose)
{
    uint64_t first = 0, count = purpose == ISO_PASS_TEST ? c->config.test : c->config.validation;
    bool train = purpose == ISO_PASS_TRAIN, whole = train && c->plan.whole_epoch;
    c->phase = ISO_PHASE_WORK;
    c->purpose = purpose;
    c->key = pass_key(c->round, purpose);
    if (whole)
        count = c->config.samples;
    else if (train)
        iso_round_positions(c->config.samples, c->batch, c->round % c->rounds_epoch, &first, &count);
    bool begins = iso_course_cursor(c) == 0;
    if (train && begins)
        iso_emit_record(c, ISO_RECORD_EPOCH, ISO_COORDINATOR);
    if (!whole || begins) /* else the epoch's pool goes on */
        iso_pool_begin(&c->pool, first, first + count, c->config.unit);
    ISO_ASSERT(c->idle == c->live_count && c->held == 0);
    c->counted = c->leased = 0;
    c->sum_count = 0;
    c->pass_started = c->now;
    if (train && c->plan.free)
        for (uint32_t i = 0; i < c->live_count; i++)
            c->nodes[c->live[i]].clock = 0;
    iso_totals_clear(&c->pass_totals);
    if (c->passes++ % SPEEDS_ANEW == 0 || c->speeds_stale)
        iso_member_speeds(c);
    if (train && c->plan.by_score && !whole)
        iso_shares_grant(c);
    iso_lease_share(c);
}

static void finish_epoch(iso_coordinator *c)
{
    iso_epoch_result *r = &iso_emit(c, ISO_EFFECT_EPOCH)->epoch_result;
    *r = (iso_epoch_result){
        .epoch = iso_course_epoch(c),
        .round = c->round,
        .train = c->epoch_totals,
        .validation = c->evaluation[ISO_PASS_VALIDATION],
        .test = c->evaluation[ISO_PASS_TEST],
        .last = iso_course_epoch(c) + 1 == c->config.epochs,
    };
    if (r->validation.samples > 0) {
        double loss = iso_wide_loss(r->validation.loss) / (double)r->validation.samples;
        r->best = !c->has_best || loss < c->best;
        if (r->best)
            c->best = loss;
        c->has_best = true;
    }
    iso_totals_clear(&c->epoch_totals);
    c->evaluated = true;
    if (c->plan.whole_epoch) {
        c->epoch++;
        c->settled = 0;
    }
}

/* From a border to what comes next. */
static void go_on(iso_coordinator *c)
{
    while (!c->evaluated) {
        iso_purpose_of_pass purpose = c->stage++;
        if (purpose == ISO_PASS_TRAIN) {
            finish_epoch(c);
        } else {
            iso_totals_clear(&c->evaluation[purpose]);
            if ((purpose == ISO_PASS_TEST ? c->config.test : c->config.validation) > 0) {
                begin_pass(c, purpose);
                return;
            }
        }
    }
    if (iso_course_finished(c))
        iso_course_finish(c, false);
    else
        begin_pass(c, ISO_PASS_TRAIN);
}

void iso_course_gather(iso_coordinator *c)
{
    bool waited = c->now >= c->gather_until && c->live_count > 0;
    if (c->live_count < c->config.nodes_first && !waited)
        return;
    c->stage = ISO_PASS_VALIDATION;
    go_on(c);
}

/* ---- update and border ---- */

/* Keeps of the nodes that sent a sum those whose sum still counts, and adds up what they did. */
static void merge_totals(iso_coordinator *c)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->sum_count; i++) {
        const node *n = &c->nodes[c->sums[i]];
        if (n->counted.samples == 0)
            continue;
        iso_totals_add(&c->pass_totals, &n->counted);
        c->sums[kept++] = c->sums[i];
    }
    c->sum_count = kept;
    ISO_ASSERT(c->plan.whole_epoch || c->pass_totals.samples == c->pool.end - c->pool.first);
}

static void begin_update(iso_coordinator *c)
{
    const iso_core_config *config = &c->config;
    if (!c->plan.free)
        merge_totals(c);
    c->phase = ISO_PHASE_UPDATE;
    c->bad_layer = -1;
    uint64_t done = iso_course_epoch(c) * config->samples + iso_course_cursor(c);
    c->rate = iso_schedule_rate(&config->schedule, &config->optimizer, done, c->pass_totals.samples, config->samples,
                                config->samples * config->epochs) /
              (double)(1 + c->staleness);
    c->slices_open = 0;
    memset(c->slice_open, 0, sizeof c->slice_open);
    for (uint32_t i = 0; i < config->slices; i++) {
        uint64_t begin = 0, end = 0;
        if (c->plan.way == ISO_PLAN_SUM) {
            iso_slice_values(config->values, config->slices, i, &begin, &end);
            if (begin == end)
                continue;
        }
        c->slice_open[i / 64] |= (uint64_t)1 << (i % 64);
        c->slices_open++;
        iso_emit(c, ISO_EFFECT_UPDATE)->update = (iso_update_order){
            .order = c->round << 16 | i,
            .round = c->round,
            .slice = i,
            .slice_count = config->slices,
            .begin = begin,
            .end = end,
            .rate = c->rate,
            .step = c->round + 1,
            .samples = c->pass_totals.samples,
            .units = c->pool.units,
            .nodes = c->sums,
            .node_count = c->sum_count,
            .staleness = c->staleness,
        };
    }
}

void iso_course_check(iso_coordinator *c)
{
    bool local = c->purpose == ISO_PASS_TRAIN && c->plan.way == ISO_PLAN_LOCAL;
    if (c->purpose == ISO_PASS_TRAIN && c->plan.free) {
        if (c->saving && c->queue_count > 0)
            iso_arm(c, c->now);
        else if (iso_free_next(c, &c->staleness))
            begin_update(c);
        return;
    }
    if (local ? c->held > 0 || c->sum_count == 0 : c->counted != c->pool.units)
        return;
    if (c->purpose == ISO_PASS_TRAIN) {
        begin_update(c);
        return;
    }
    c->evaluation[c->purpose] = c->pass_totals;
    go_on(c);
}

/* Counts the runs of units of one node, and makes run_start[node] the place of its first one. */
static void place_runs(iso_coordinator *c)
{
    uint32_t runs = 0;
    for (uint32_t i = 0; i < c->sum_count; i++)
        c->run_start[c->sums[i]] = 0;
    for (uint32_t i = 0; i < c->pool.units; i++)
        if (i == 0 || iso_pool_node(&c->pool, i) != iso_pool_node(&c->pool, i - 1))
            c->run_start[iso_pool_node(&c->pool, i)]++;
    for (uint32_t i = 0; i < c->sum_count; i++) {
        uint32_t count = c->run_start[c->sums[i]];
        c->run_start[c->sums[i]] = runs;
        runs += count;
    }
}

/* Sorts the round's units by node into runs, and says who did what. The ranges stay until the next border. */
static void audit(iso_coordinator *c)
{
    place_runs(c);
    for (uint32_t i = 0; i < c->pool.units;) {
        uint32_t id = iso_pool_node(&c->pool, i), first = i;
        while (i < c->pool.units && iso_pool_node(&c->pool, i) == id)
            i++;
        c->run[c->run_start[id]++] = (iso_range){.first = first, .count = i - first};
    }
    uint32_t start = 0; /* run_start has moved to each node's end, which is the next one's start */
    for (uint32_t i = 0; i < c->sum_count; i++) {
        uint32_t id = c->sums[i];
        iso_record *r = iso_emit_record(c, ISO_RECORD_COUNTED, id);
        r->range = &c->run[start];
        r->range_count = c->run_start[id] - start;
        for (uint32_t k = 0; k < r->range_count; k++)
            r->units += r->range[k].count;
        r->first = c->pool.first;
        r->end = c->pool.end;
        r->unit = c->pool.unit;
        start = c->run_start[id];
    }
}

static void tell_round(iso_coordinator *c, uint32_t epoch)
{
    iso_emit(c, ISO_EFFECT_ROUND)->round_result = (iso_round_result){
        .round = c->round,
        .epoch = epoch,
        .totals = c->pass_totals,
        .epoch_totals = c->epoch_totals,
        .samples_done = iso_course_epoch(c) * c->config.samples + iso_course_cursor(c),
        .rate = c->rate,
        .started = c->pass_started,
        .ended = c->now,
        .nodes = c->sum_count,
        .epoch_end = !c->evaluated,
        .steps = c->plan.way == ISO_PLAN_LOCAL ? c->pace.steps : 0,
        .variance = iso_pace_variance(&c->pace),
        .theta = c->plan.monitor_every > 0 ? iso_pace_threshold(&c->pace, &c->plan) : 0,
    };
}

static void border(iso_coordinator *c)
{
    uint32_t epoch = iso_course_epoch(c);
    if (c->plan.way == ISO_PLAN_LOCAL)
        iso_local_settle(c);
    else if (c->plan.free)
        iso_free_settle(c);
    else if (c->config.audit)
        audit(c);
    for (uint32_t i = 0; i < c->sum_count; i++) {
        node *n = &c->nodes[c->sums[i]]; /* free: it has no new lease before this one is applied */
        n->samples += n->counted.samples;
        n->busy += n->counted.busy;
    }
    iso_totals_add(&c->epoch_totals, &c->pass_totals);
    c->round++;
    c->settled += c->plan.whole_epoch ? c->pass_totals.samples : 0;
    c->evaluated = c->plan.whole_epoch ? c->settled < c->config.samples : c->round % c->rounds_epoch != 0;
    c->stage = ISO_PASS_VALIDATION;
    tell_round(c, epoch);
    if (c->stopping) {
        iso_course_finish(c, true);
        return;
    }
    if (checkpoint_due(c))
        checkpoint(c);
    if (c->plan.free && c->evaluated) {
        iso_free_go_on(c);
        return;
    }
    bool needed = c->evaluated || epoch + 1 < c->config.epochs || c->config.validation > 0 || c->config.test > 0;
    if (!c->config.shared_weights && c->live_count > 0 && needed)
        iso_member_news(c);
    go_on(c);
}

void iso_course_order_done(iso_coordinator *c, const iso_event *ev)
{
    uint64_t slice = ev->order & 0xFFFF;
    if (c->phase != ISO_PHASE_UPDATE || ev->order >> 16 != c->round || slice >= c->config.slices)
        return;
    uint64_t bit = (uint64_t)1 << (slice % 64);
    if (!(c->slice_open[slice / 64] & bit))
        return;
    c->slice_open[slice / 64] &= ~bit;
    c->slices_open--;
    int32_t bad = ev->totals.bad_layer;
    if (bad >= 0 && (c->bad_layer < 0 || bad < c->bad_layer))
        c->bad_layer = bad;
    if (c->slices_open > 0)
        return;
    if (c->bad_layer >= 0)
        iso_course_fail(c, c->bad_layer);
    else
        border(c);
}
