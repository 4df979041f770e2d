/* SPDX-License-Identifier: Apache-2.0
 * Single steps of the two machines, frame by frame: misuse, refusals, stale peers, wrong totals, values that are not
 * finite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/body.h"

typedef struct desk {
    iso_core_config config;
    iso_coordinator *c;
    void *memory;
    iso_effects fx;
} desk;

static void open_desk(desk *d)
{
    memset(d, 0, sizeof *d);
    iso_core_config_default(&d->config);
    d->config.samples = 40;
    d->config.batch = 20;
    d->config.unit = 10;
    d->config.values = 32;
    d->config.nodes_max = 3;
    d->config.nodes_first = 1;
    d->config.optimizer.learning_rate = 0.5;
    d->config.job_digest = 1;
    d->config.data_digest = 2;
    d->config.program = 3;
    d->config.shared_weights = d->config.sums_in_place = true;
}

static void start_desk(desk *d)
{
    size_t bytes = iso_coordinator_bytes(&d->config);
    assert_true(bytes > 0);
    d->memory = aligned_alloc(ISO_ALIGN, (bytes + 63) / 64 * 64);
    memset(d->memory, 0xA5, bytes);
    d->c = iso_coordinator_init(&d->config, 4, d->memory);
    assert_non_null(d->c);
    d->fx.capacity = iso_coordinator_effects_max(&d->config);
    d->fx.item = calloc(d->fx.capacity, sizeof *d->fx.item);
    assert_int_equal(iso_coordinator_step(d->c, &(iso_event){.kind = ISO_EVENT_START}, &d->fx), ISO_OK);
}

static void close_desk(desk *d)
{
    free(d->memory);
    free(d->fx.item);
}

static void give(desk *d, iso_event ev)
{
    assert_int_equal(iso_coordinator_step(d->c, &ev, &d->fx), ISO_OK);
}

static void give_frame(desk *d, const iso_frame *f)
{
    give(d, (iso_event){.kind = ISO_EVENT_FRAME, .frame = f});
}

static iso_frame frame_of(iso_frame_kind kind, uint32_t from, uint32_t session)
{
    return (iso_frame){.kind = kind,
                       .incarnation = 4,
                       .session = session,
                       .from = from,
                       .to = ISO_COORDINATOR,
                       .slice_count = 1,
                       .chunk_count = 1};
}

static void give_hello(desk *d, uint32_t from, uint64_t life)
{
    iso_frame f = frame_of(ISO_FRAME_HELLO, from, 0);
    iso_body_put_hello(&f, &(body_hello){.life = life, .samples = 40, .data_digest = 2, .job_digest = 1, .program = 3});
    give_frame(d, &f);
}

static void give_answer(desk *d, iso_frame_kind kind, uint32_t from, uint32_t session, uint64_t round, uint32_t number,
                        uint64_t samples, int32_t bad_layer)
{
    iso_frame f = frame_of(kind, from, session);
    f.round = round;
    iso_body_put_answer(&f, &(body_answer){.purpose = ISO_PASS_TRAIN, .number = number, .units = 1,
                                           .totals = {.samples = samples, .busy = 1000, .bad_layer = bad_layer}});
    give_frame(d, &f);
}

/* The only effect of a kind; NULL when there is none or more. */
static const iso_effect *only(const desk *d, iso_effect_kind kind)
{
    const iso_effect *found = NULL;
    for (uint32_t i = 0; i < d->fx.count; i++) {
        if (d->fx.item[i].kind != kind)
            continue;
        if (found)
            return NULL;
        found = &d->fx.item[i];
    }
    return found;
}

static const iso_frame *sent(const desk *d, iso_frame_kind kind)
{
    for (uint32_t i = 0; i < d->fx.count; i++)
        if (d->fx.item[i].kind == ISO_EFFECT_SEND && d->fx.item[i].frame.kind == kind)
            return &d->fx.item[i].frame;
    return NULL;
}

static const iso_record *logged(const desk *d, iso_record_kind kind)
{
    for (uint32_t i = 0; i < d->fx.count; i++)
        if (d->fx.item[i].kind == ISO_EFFECT_LOG && d->fx.item[i].record.kind == kind)
            return &d->fx.item[i].record;
    return NULL;
}

static void misuse_is_an_error_and_does_nothing(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    start_desk(&d);
    assert_int_equal(iso_coordinator_step(d.c, &(iso_event){.kind = ISO_EVENT_START}, &d.fx), ISO_E_STATE);
    assert_int_equal(iso_coordinator_step(d.c, &(iso_event){.kind = (iso_event_kind)99}, &d.fx), ISO_E_ARGUMENT);
    assert_int_equal(iso_coordinator_step(d.c, &(iso_event){.kind = ISO_EVENT_FRAME}, &d.fx), ISO_E_ARGUMENT);
    d.fx.capacity--;
    assert_int_equal(iso_coordinator_step(d.c, &(iso_event){.kind = ISO_EVENT_TIMER}, &d.fx), ISO_E_ARGUMENT);
    assert_int_equal(d.fx.count, 0);
    d.fx.capacity++;
    give(&d, (iso_event){.kind = ISO_EVENT_PEER_LOST, .node = 77});
    give(&d, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = 5});
    give(&d, (iso_event){.kind = ISO_EVENT_TIMER, .now = 5});
    assert_int_equal(d.fx.count, 0);
    iso_coordinator *fresh = iso_coordinator_init(&d.config, 0, d.memory);
    assert_int_equal(iso_coordinator_step(fresh, &(iso_event){.kind = ISO_EVENT_TIMER}, &d.fx), ISO_E_STATE);
    close_desk(&d);
}

static void wrong_configurations_are_named(void **state)
{
    (void)state;
    static const char *const words[] = {
        "samples",          "batch",           "unit",       "epochs", "values", "values % 16",     "nodes_max",
        "nodes_max",        "nodes_first",     "slices",     "depth",  "resend", "deadline_factor", "policy",
        "samples * epochs", "units of a pass", "nodes_first"};
    for (int i = 0; i < 17; i++) {
        desk d;
        iso_error e = {0};
        open_desk(&d);
        iso_core_config *c = &d.config;
        switch (i) {
        case 0: c->samples = 0; break;
        case 1: c->batch = 0; break;
        case 2: c->unit = 65; break;
        case 3: c->epochs = 0; break;
        case 4: c->values = 0; break;
        case 5: c->values = 40; break;
        case 6: c->nodes_max = 0; break;
        case 7: c->nodes_max = ISO_NODES_MAX + 1; break;
        case 8: c->nodes_first = 4; break;
        case 9: c->slices = 0; break;
        case 10: c->depth = 3; break;
        case 11: c->resend = -1; break;
        case 12: c->deadline_factor = 0; break;
        case 13: c->policy.policy = NULL; break;
        case 14: c->samples = (uint64_t)1 << 40; c->epochs = UINT32_MAX; break;
        case 15: c->samples = c->batch = (uint64_t)1 << 45; break;
        default: c->nodes_first = 0; break;
        }
        assert_int_equal(iso_core_config_check(c, &e), ISO_E_ARGUMENT);
        assert_non_null(strstr(e.text, words[i]));
        assert_true(iso_coordinator_bytes(c) == 0 && iso_coordinator_effects_max(c) == 0 &&
                    iso_coordinator_state_max(c) == 0);
        assert_null(iso_coordinator_init(c, 0, &d));
    }
}

static void strangers_are_refused_with_the_reason(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    start_desk(&d);
    for (int i = 0; i < 5; i++) {
        body_hello b = {.life = 8, .samples = 40, .data_digest = 2, .job_digest = 1, .program = 3};
        static const uint32_t reasons[] = {ISO_REFUSAL_PROGRAM, ISO_REFUSAL_JOB, ISO_REFUSAL_DATA, ISO_REFUSAL_DATA,
                                           ISO_REFUSAL_FULL};
        b.program += i == 0;
        b.job_digest += i == 1;
        b.data_digest += i == 2;
        b.samples += i == 3;
        iso_frame f = frame_of(ISO_FRAME_HELLO, i == 4 ? 3 : 0, 0);
        iso_body_put_hello(&f, &b);
        give_frame(&d, &f);
        body_refuse refuse;
        assert_non_null(sent(&d, ISO_FRAME_REFUSE));
        assert_true(iso_body_get_refuse(sent(&d, ISO_FRAME_REFUSE), &refuse) && refuse.reason == reasons[i] &&
                    refuse.life == 8);
        assert_true(logged(&d, ISO_RECORD_REFUSED)->reason == reasons[i]);
        assert_true(strlen(iso_refusal_text(refuse.reason)) > 20);
    }
    iso_frame f = frame_of(ISO_FRAME_HELLO, ISO_EVERYONE, 0);
    give_frame(&d, &f);
    assert_null(only(&d, ISO_EFFECT_SEND)); /* an answer to it would go to everyone */
    close_desk(&d);
}

static void a_stale_peer_is_answered_with_reset(void **state)
{
    (void)state;
    desk d;
    body_reset reset;
    open_desk(&d);
    d.config.nodes_first = 2;
    d.config.first_wait = ISO_NEVER;
    start_desk(&d);
    give_hello(&d, 1, 10);
    assert_int_equal(sent(&d, ISO_FRAME_WELCOME)->session, 1);
    give_hello(&d, 1, 10); /* repeated: the same session */
    assert_int_equal(sent(&d, ISO_FRAME_WELCOME)->session, 1);
    assert_null(logged(&d, ISO_RECORD_JOIN));
    static const iso_frame_kind kinds[] = {ISO_FRAME_DONE, ISO_FRAME_SUM, ISO_FRAME_NEED, ISO_FRAME_HEARTBEAT};
    for (int i = 0; i < 4; i++) {
        iso_frame f = frame_of(kinds[i], 1, 9); /* a session there never was */
        give_frame(&d, &f);
        assert_true(iso_body_get_reset(sent(&d, ISO_FRAME_RESET), &reset) && reset.session == 9 && reset.floor == 0);
        f = frame_of(kinds[i], 2, 1); /* a node that did not join */
        give_frame(&d, &f);
        assert_true(sent(&d, ISO_FRAME_RESET)->to == 2);
        f = frame_of(kinds[i], 1, 1);
        f.incarnation = 3; /* an earlier coordinator's */
        give_frame(&d, &f);
        assert_true(iso_body_get_reset(sent(&d, ISO_FRAME_RESET), &reset) && reset.incarnation == 3);
    }
    give_hello(&d, 1, 9); /* an earlier life */
    assert_true(iso_body_get_reset(sent(&d, ISO_FRAME_RESET), &reset) && reset.life == 9 && reset.floor == 11);
    give_hello(&d, 1, 11); /* a later one */
    assert_int_equal(sent(&d, ISO_FRAME_WELCOME)->session, 2);
    assert_non_null(logged(&d, ISO_RECORD_LOST));
    assert_non_null(logged(&d, ISO_RECORD_RETURN));
    close_desk(&d);
}

static void nonsense_is_dropped_and_told(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    start_desk(&d);
    give_hello(&d, 0, 1);
    iso_frame f = frame_of(ISO_FRAME_DONE, 0, 1); /* without a body */
    give_frame(&d, &f);
    assert_int_equal(logged(&d, ISO_RECORD_BAD_FRAME)->reason, ISO_FRAME_DONE);
    f = frame_of(ISO_FRAME_WORK, 0, 1); /* a coordinator's */
    give_frame(&d, &f);
    assert_int_equal(logged(&d, ISO_RECORD_BAD_FRAME)->reason, ISO_FRAME_WORK);
    f = frame_of(ISO_FRAME_HELLO, 0, 0);
    give_frame(&d, &f);
    assert_int_equal(logged(&d, ISO_RECORD_BAD_FRAME)->reason, ISO_FRAME_HELLO);
    f = frame_of(ISO_FRAME_DONE, 500, 1);
    give_frame(&d, &f);
    assert_non_null(logged(&d, ISO_RECORD_BAD_FRAME));
    assert_null(only(&d, ISO_EFFECT_SEND));
    close_desk(&d);
}

/* Totals that are not those of the leases: the node is reset, its units are given again, none is counted. */
static void wrong_totals_do_not_count(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        desk d;
        open_desk(&d);
        start_desk(&d);
        give_hello(&d, 0, 1);
        give_answer(&d, ISO_FRAME_DONE, 0, 1, 0, i == 2 ? 7 : 1, i == 0 ? 11 : i == 1 ? 9 : 10, -1);
        assert_non_null(logged(&d, ISO_RECORD_BAD_TOTALS));
        assert_non_null(logged(&d, ISO_RECORD_REVOKE));
        assert_non_null(sent(&d, ISO_FRAME_RESET));
        iso_coordinator_view view;
        iso_coordinator_look(d.c, &view);
        assert_true(view.nodes == 0 && view.units_free == 2 && view.units_counted == 0);
        close_desk(&d);
    }
}

static void answers_count_once(void **state)
{
    (void)state;
    desk d;
    iso_coordinator_view view;
    open_desk(&d);
    start_desk(&d);
    give_hello(&d, 0, 1);
    assert_non_null(sent(&d, ISO_FRAME_WORK));
    give_answer(&d, ISO_FRAME_SUM, 0, 1, 3, 1, 10, -1); /* of another round */
    assert_int_equal(d.fx.count, 0);
    for (int i = 0; i < 3; i++)
        give_answer(&d, ISO_FRAME_DONE, 0, 1, 0, 1, 10, -1);
    assert_int_equal(d.fx.count, 0);
    iso_frame other = frame_of(ISO_FRAME_SUM, 0, 1); /* of another part */
    iso_body_put_answer(&other, &(body_answer){.purpose = ISO_PASS_TRAIN, .number = 2, .part = 1,
                                               .totals = {.samples = 20, .bad_layer = -1}});
    give_frame(&d, &other);
    assert_int_equal(d.fx.count, 0);
    give_answer(&d, ISO_FRAME_SUM, 0, 1, 0, 2, 20, -1);
    assert_int_equal(only(&d, ISO_EFFECT_TAKE)->take.node, 0);
    const iso_update_order *u = &only(&d, ISO_EFFECT_UPDATE)->update;
    assert_true(u->round == 0 && u->begin == 0 && u->end == 32 && u->samples == 20 && u->units == 2 &&
                u->node_count == 1 && u->step == 1);
    uint64_t order = u->order;
    give_answer(&d, ISO_FRAME_SUM, 0, 1, 0, 2, 20, -1); /* repeated while the update runs */
    assert_int_equal(d.fx.count, 0);
    assert_true(iso_coordinator_save(d.c, d.fx.item, sizeof *d.fx.item * d.fx.capacity) == 0);
    give(&d, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = order + 1, .totals = {.bad_layer = -1}});
    assert_int_equal(d.fx.count, 0);
    give(&d, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = order, .totals = {.bad_layer = -1}});
    assert_int_equal(only(&d, ISO_EFFECT_ROUND)->round_result.totals.samples, 20);
    give(&d, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = order, .totals = {.bad_layer = -1}});
    assert_int_equal(d.fx.count, 0);
    iso_coordinator_look(d.c, &view);
    assert_true(view.round == 1 && view.cursor == 20 && view.samples_done == 20 && view.phase == ISO_PHASE_WORK);
    close_desk(&d);
}

/* All nodes turn slower in the middle of a pass: against the speeds seen before each of them seems too slow for the
 * last unit, yet somebody must. */
static void when_all_turn_slow_somebody_works(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    d.config.batch = 40;
    d.config.nodes_first = 3;
    start_desk(&d);
    for (uint32_t i = 0; i < 3; i++) {
        iso_coordinator_hint(d.c, i, 4e7); /* 250 ns a unit; the answers say 1000 */
        give_hello(&d, i, 1);
    }
    for (uint32_t i = 0; i < 3; i++) {
        give_answer(&d, ISO_FRAME_DONE, i, i + 1, 0, 1, 10, -1);
        assert_true(sent(&d, ISO_FRAME_COLLECT)->to == i);
        assert_true((sent(&d, ISO_FRAME_WORK) != NULL) == (i == 2));
    }
    close_desk(&d);
}

/* A speed that was told counts from the first pass on: a node known to be too slow is not even probed in it. */
static void a_hint_is_taken(void **state)
{
    (void)state;
    desk d;
    iso_node_info info;
    open_desk(&d);
    d.config.nodes_first = 2;
    start_desk(&d);
    iso_coordinator_hint(d.c, 0, 1e6);
    iso_coordinator_hint(d.c, 1, 1e3);
    iso_coordinator_hint(d.c, 1, -5); /* no speed: ignored */
    iso_coordinator_hint(d.c, 9, 1e3);
    give_hello(&d, 1, 1);
    give_hello(&d, 0, 1);
    assert_true(sent(&d, ISO_FRAME_WORK)->to == 0);
    assert_true(iso_coordinator_node(d.c, 1, &info) && info.holding == 0 && info.score > 999 && info.score < 1001);
    close_desk(&d);
}

/* users.md E1: stops at that step, names layer and round, no checkpoint; in a unit and in the update. */
static void what_is_not_finite_ends_the_run(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        desk d;
        open_desk(&d);
        d.config.checkpoint_rounds = 1;
        start_desk(&d);
        give_hello(&d, 0, 1);
        if (i == 0) {
            give_answer(&d, ISO_FRAME_DONE, 0, 1, 0, 1, 10, 2);
        } else {
            give_answer(&d, ISO_FRAME_DONE, 0, 1, 0, 1, 10, -1);
            give_answer(&d, ISO_FRAME_SUM, 0, 1, 0, 2, 20, -1);
            give(&d, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = 0, .totals = {.bad_layer = 2}});
        }
        const iso_error *e = only(&d, ISO_EFFECT_FAILED)->error;
        assert_int_equal(e->code, ISO_E_NONFINITE);
        assert_non_null(strstr(e->text, "layer 2"));
        assert_non_null(strstr(e->text, "in round 1 (epoch 1, train)"));
        assert_null(only(&d, ISO_EFFECT_CHECKPOINT));
        assert_non_null(sent(&d, ISO_FRAME_BYE));
        unsigned char room[512];
        assert_true(iso_coordinator_save(d.c, room, sizeof room) == 0); /* no border belongs to these weights */
        give(&d, (iso_event){.kind = ISO_EVENT_STOP});
        give(&d, (iso_event){.kind = ISO_EVENT_CHECKPOINT_WANTED});
        assert_int_equal(d.fx.count, 0);
        iso_frame f = frame_of(ISO_FRAME_HEARTBEAT, 2, 7);
        give_frame(&d, &f);
        assert_true(sent(&d, ISO_FRAME_BYE)->to == 2);
        close_desk(&d);
    }
}

static void checkpoints_on_demand_and_stop(void **state)
{
    (void)state;
    desk d;
    open_desk(&d);
    start_desk(&d);
    give_hello(&d, 0, 1);
    give(&d, (iso_event){.kind = ISO_EVENT_CHECKPOINT_WANTED});
    assert_true(only(&d, ISO_EFFECT_CHECKPOINT)->round == 0); /* in the middle of a pass: the border before it */
    give(&d, (iso_event){.kind = ISO_EVENT_CHECKPOINT_WANTED});
    assert_int_equal(d.fx.count, 0); /* it is saved already */
    give_answer(&d, ISO_FRAME_DONE, 0, 1, 0, 1, 10, -1);
    give_answer(&d, ISO_FRAME_SUM, 0, 1, 0, 2, 20, -1);
    give(&d, (iso_event){.kind = ISO_EVENT_CHECKPOINT_WANTED});
    give(&d, (iso_event){.kind = ISO_EVENT_STOP});
    assert_int_equal(d.fx.count, 0); /* an update runs: both wait for its border */
    give(&d, (iso_event){.kind = ISO_EVENT_ORDER_DONE, .order = 0, .totals = {.bad_layer = -1}});
    assert_true(only(&d, ISO_EFFECT_CHECKPOINT)->round == 1);
    assert_true(only(&d, ISO_EFFECT_DONE)->stopped);
    assert_null(sent(&d, ISO_FRAME_WORK));
    close_desk(&d);
}

/* ---- worker ---- */

typedef struct bench {
    _Alignas(64) unsigned char memory[4096];
    iso_effect item[ISO_WORKER_EFFECTS_MAX];
    iso_effects fx;
    iso_worker *w;
} bench;

static void open_bench(bench *b)
{
    assert_true(iso_worker_bytes() <= sizeof b->memory);
    b->fx = (iso_effects){.item = b->item, .capacity = ISO_WORKER_EFFECTS_MAX};
    b->w = iso_worker_init(
        &(iso_worker_config){
            .node = 2, .life = 7, .samples = 40, .shared_weights = true, .resend = 1000, .heartbeat = 5000},
        b->memory);
}

static void tell(bench *b, iso_event ev)
{
    assert_int_equal(iso_worker_step(b->w, &ev, &b->fx), ISO_OK);
}

static const iso_effect *first(const bench *b, iso_effect_kind kind)
{
    for (uint32_t i = 0; i < b->fx.count; i++)
        if (b->fx.item[i].kind == kind)
            return &b->fx.item[i];
    return NULL;
}

static iso_frame order_of(iso_frame_kind kind, uint32_t incarnation, uint32_t session, uint64_t round)
{
    return (iso_frame){.kind = kind,
                       .incarnation = incarnation,
                       .session = session,
                       .from = ISO_COORDINATOR,
                       .to = 2,
                       .round = round,
                       .slice_count = 1,
                       .chunk_count = 1};
}

static void tell_welcome(bench *b, uint32_t incarnation, uint32_t session, uint64_t life)
{
    iso_frame f = order_of(ISO_FRAME_WELCOME, incarnation, session, 0);
    iso_body_put_welcome(&f, &(body_welcome){.life = life});
    tell(b, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
}

static void tell_work(bench *b, uint32_t session, uint64_t round, uint32_t number, uint32_t part, bool final)
{
    iso_frame f = order_of(ISO_FRAME_WORK, 1, session, round);
    body_work work = {.purpose = ISO_PASS_TRAIN,
                      .final = final,
                      .number = number,
                      .part = part,
                      .unit = 10,
                      .pass_units = 4,
                      .range_count = 1,
                      .end = 40,
                      .range = {{number - 1, 1}}};
    iso_body_put_work(&f, &work);
    tell(b, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
}

static void finish_order(bench *b, uint64_t order)
{
    tell(b, (iso_event){
                .kind = ISO_EVENT_ORDER_DONE, .order = order, .totals = {.samples = 10, .bad_layer = -1, .busy = 5}});
}

static void a_worker_computes_in_order_and_answers_again(void **state)
{
    (void)state;
    bench b;
    body_answer answer;
    open_bench(&b);
    assert_int_equal(iso_worker_step(b.w, &(iso_event){.kind = ISO_EVENT_TIMER}, &b.fx), ISO_E_STATE);
    tell(&b, (iso_event){.kind = ISO_EVENT_START});
    assert_int_equal(first(&b, ISO_EFFECT_SEND)->frame.kind, ISO_FRAME_HELLO);
    tell_welcome(&b, 1, 5, 6); /* for an earlier life */
    tell_welcome(&b, 1, 5, 7);
    tell_work(&b, 5, 0, 2, 0, false); /* overtook the first */
    assert_null(first(&b, ISO_EFFECT_COMPUTE));
    tell_work(&b, 5, 0, 1, 0, false);
    assert_true(first(&b, ISO_EFFECT_COMPUTE)->compute.fresh);
    uint64_t order = first(&b, ISO_EFFECT_COMPUTE)->compute.order;
    tell_work(&b, 5, 0, 1, 0, false); /* repeated: it runs */
    assert_int_equal(b.fx.count, 0);
    tell_work(&b, 5, 0, 2, 0, true);
    finish_order(&b, order + 9); /* not ours */
    assert_int_equal(b.fx.count, 0);
    finish_order(&b, order);
    assert_int_equal(first(&b, ISO_EFFECT_SEND)->frame.kind, ISO_FRAME_DONE);
    assert_false(first(&b, ISO_EFFECT_COMPUTE)->compute.fresh);
    finish_order(&b, first(&b, ISO_EFFECT_COMPUTE)->compute.order);
    assert_int_equal(first(&b, ISO_EFFECT_SEND)->frame.kind, ISO_FRAME_SUM);
    assert_true(iso_body_get_answer(&first(&b, ISO_EFFECT_SEND)->frame, &answer) && answer.number == 2 &&
                answer.totals.samples == 20);
    tell_work(&b, 5, 0, 2, 0, true); /* the SUM got lost */
    assert_int_equal(first(&b, ISO_EFFECT_SEND)->frame.kind, ISO_FRAME_SUM);
    tell_work(&b, 5, 0, 3, 1, false); /* a new part: a new sum */
    assert_true(first(&b, ISO_EFFECT_COMPUTE)->compute.fresh);
    tell_work(&b, 5, 1, 1, 0, false); /* the next round began without us */
    assert_non_null(first(&b, ISO_EFFECT_CANCEL));
    assert_null(first(&b, ISO_EFFECT_COMPUTE));
    finish_order(&b, first(&b, ISO_EFFECT_CANCEL)->order);
    assert_null(first(&b, ISO_EFFECT_SEND)); /* a cancelled result is not told */
    assert_true(first(&b, ISO_EFFECT_COMPUTE)->compute.round == 1 && first(&b, ISO_EFFECT_COMPUTE)->compute.fresh);
}

static void a_reset_worker_joins_again_when_it_is_free(void **state)
{
    (void)state;
    bench b;
    iso_worker_view view;
    open_bench(&b);
    tell(&b, (iso_event){.kind = ISO_EVENT_START});
    tell_welcome(&b, 1, 5, 7);
    tell_work(&b, 5, 0, 1, 0, false);
    uint64_t order = first(&b, ISO_EFFECT_COMPUTE)->compute.order;
    iso_frame f = order_of(ISO_FRAME_RESET, 1, 5, 0);
    iso_body_put_reset(&f, &(body_reset){.incarnation = 1, .session = 4}); /* about an older session */
    tell(&b, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
    assert_int_equal(b.fx.count, 0);
    iso_body_put_reset(&f, &(body_reset){.incarnation = 1, .session = 5});
    tell(&b, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
    assert_true(first(&b, ISO_EFFECT_CANCEL)->order == order);
    assert_null(first(&b, ISO_EFFECT_SEND)); /* it still computes: not before that has ended */
    finish_order(&b, order);
    assert_int_equal(first(&b, ISO_EFFECT_SEND)->frame.kind, ISO_FRAME_HELLO);
    iso_body_put_reset(&f, &(body_reset){.life = 8, .floor = 20});
    tell(&b, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
    iso_worker_look(b.w, &view);
    assert_true(view.life == 20 && view.phase == ISO_WORKER_JOINING && !view.running);
    tell_welcome(&b, 2, 1, 20);
    iso_worker_look(b.w, &view);
    assert_true(view.incarnation == 2 && view.session == 1 && view.phase == ISO_WORKER_READY);
    tell_work(&b, 1, 0, 1, 0, false); /* incarnation 1: of the coordinator before */
    assert_null(first(&b, ISO_EFFECT_COMPUTE));
    tell(&b, (iso_event){.kind = ISO_EVENT_TIMER, .now = 1000000});
    assert_int_equal(first(&b, ISO_EFFECT_SEND)->frame.kind, ISO_FRAME_HEARTBEAT);
    tell(&b, (iso_event){.kind = ISO_EVENT_PEER_LOST});
    assert_int_equal(first(&b, ISO_EFFECT_SEND)->frame.kind, ISO_FRAME_HELLO);
}

static void tell_weights(bench *b, uint32_t incarnation, uint64_t round)
{
    iso_frame f = order_of(ISO_FRAME_WEIGHTS, incarnation, 0, round);
    tell(b, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
}

/* Weights that travel: a lease waits for its own, and one of a round that is over is not begun. */
static void a_worker_waits_for_the_right_weights(void **state)
{
    (void)state;
    bench b;
    open_bench(&b);
    b.w = iso_worker_init(&(iso_worker_config){.node = 2, .life = 7, .samples = 40, .resend = 1000}, b.memory);
    tell(&b, (iso_event){.kind = ISO_EVENT_START});
    tell_weights(&b, 1, 3); /* before WELCOME */
    assert_true(first(&b, ISO_EFFECT_ADOPT)->round == 3);
    tell_welcome(&b, 1, 5, 7);
    tell_work(&b, 5, 4, 1, 0, false);
    assert_null(first(&b, ISO_EFFECT_COMPUTE));
    tell(&b, (iso_event){.kind = ISO_EVENT_TIMER, .now = 1000});
    assert_true(first(&b, ISO_EFFECT_SEND)->frame.kind == ISO_FRAME_NEED &&
                first(&b, ISO_EFFECT_SEND)->frame.round == 4);
    tell_weights(&b, 1, 3);
    assert_int_equal(b.fx.count, 0);
    tell_weights(&b, 1, 4);
    assert_true(b.item[0].kind == ISO_EFFECT_ADOPT && b.item[1].kind == ISO_EFFECT_COMPUTE);
    uint64_t order = b.item[1].compute.order;
    tell_weights(&b, 1, 5); /* the round is over: not adopted while the order runs */
    assert_true(first(&b, ISO_EFFECT_CANCEL)->order == order);
    assert_null(first(&b, ISO_EFFECT_ADOPT));
    finish_order(&b, order);
    assert_true(b.fx.count == 1 && b.item[0].kind == ISO_EFFECT_ADOPT && b.item[0].round == 5);
    tell_work(&b, 5, 4, 1, 0, false); /* late */
    assert_int_equal(b.fx.count, 0);
    tell(&b, (iso_event){.kind = ISO_EVENT_TIMER, .now = 9000});
    assert_null(first(&b, ISO_EFFECT_SEND)); /* nothing is lacking */
    tell_weights(&b, 2, 1); /* another coordinator, at an earlier round: its weights count, and we join it */
    assert_true(first(&b, ISO_EFFECT_ADOPT)->round == 1);
    assert_int_equal(first(&b, ISO_EFFECT_SEND)->frame.kind, ISO_FRAME_HELLO);
}

static void a_worker_ends_when_told(void **state)
{
    (void)state;
    bench b;
    open_bench(&b);
    tell(&b, (iso_event){.kind = ISO_EVENT_START});
    iso_frame f = order_of(ISO_FRAME_REFUSE, 1, 0, 0);
    iso_body_put_refuse(&f, &(body_refuse){.life = 7, .reason = ISO_REFUSAL_DATA});
    tell(&b, (iso_event){.kind = ISO_EVENT_FRAME, .frame = &f});
    assert_int_equal(first(&b, ISO_EFFECT_FAILED)->error->code, ISO_E_MISMATCH);
    assert_non_null(strstr(first(&b, ISO_EFFECT_FAILED)->error->text, "node 2 was refused"));
    open_bench(&b);
    tell(&b, (iso_event){.kind = ISO_EVENT_START});
    tell_welcome(&b, 1, 5, 7);
    tell_work(&b, 5, 0, 1, 0, false);
    tell(&b, (iso_event){.kind = ISO_EVENT_STOP});
    assert_int_equal(first(&b, ISO_EFFECT_SEND)->frame.kind, ISO_FRAME_BYE);
    assert_non_null(first(&b, ISO_EFFECT_CANCEL));
    assert_true(first(&b, ISO_EFFECT_DONE)->stopped);
    tell_work(&b, 5, 0, 1, 0, false);
    assert_int_equal(b.fx.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misuse_is_an_error_and_does_nothing),
        cmocka_unit_test(wrong_configurations_are_named),
        cmocka_unit_test(strangers_are_refused_with_the_reason),
        cmocka_unit_test(a_stale_peer_is_answered_with_reset),
        cmocka_unit_test(nonsense_is_dropped_and_told),
        cmocka_unit_test(wrong_totals_do_not_count),
        cmocka_unit_test(answers_count_once),
        cmocka_unit_test(when_all_turn_slow_somebody_works),
        cmocka_unit_test(a_hint_is_taken),
        cmocka_unit_test(what_is_not_finite_ends_the_run),
        cmocka_unit_test(checkpoints_on_demand_and_stop),
        cmocka_unit_test(a_worker_computes_in_order_and_answers_again),
        cmocka_unit_test(a_reset_worker_joins_again_when_it_is_free),
        cmocka_unit_test(a_worker_waits_for_the_right_weights),
        cmocka_unit_test(a_worker_ends_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
