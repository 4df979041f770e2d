/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's side: its core, its effects, and what the session is told. */
#include <string.h>

#include "engine/simulate/inside.h"

#define MERGED_A_NS 10.0 /* values that the coordinator merges in a ns, all answers together */

/* ---- notes --------------------------------------------------------------------------------------------- */

/* Notes stand one after the other, each at a multiple of the alignment. `more` bytes follow the note. */
static iso_note *note_new(iso_sim *s, iso_note_kind kind, size_t more)
{
    size_t size = (sizeof(iso_note) + more + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
    if (!iso_buffer_reserve(&s->notes, size)) {
        iso_sim_no_memory(s);
        return NULL;
    }
    iso_note *n = (iso_note *)(void *)(s->notes.bytes + s->notes.size);
    memset(n, 0, size);
    s->notes.size += size;
    n->kind = kind;
    n->at = s->now;
    return n;
}

size_t iso_sim_note_size(const iso_sim *s, const iso_note *n)
{
    size_t more = n->kind == ISO_NOTE_ROUND     ? s->count * sizeof(iso_node_record)
                  : n->kind == ISO_NOTE_COUNTED ? n->record.range_count * sizeof(iso_range)
                                                : 0;
    return (sizeof *n + more + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
}

static const char *node_state(const iso_node_info *info)
{
    return info->state == ISO_NODE_LIVE ? (info->round_samples ? "working" : "idle") : iso_node_state_name(info->state);
}

static double probe_if_due(iso_sim *s, uint64_t done)
{
    if (done < s->next_probe)
        return 0;
    uint64_t gap = done / 32, least = s->core.samples / 256;
    s->next_probe = done + (gap > least ? gap : least);
    return iso_sim_probe(s);
}

static void tell_round(iso_sim *s, const iso_round_result *r)
{
    iso_sim_check_round(s, r);
    iso_sim_trace(s, s->count, "round", r->started, r->ended, r->totals.samples);
    iso_note *n = s->ended ? NULL : note_new(s, ISO_NOTE_ROUND, s->count * sizeof(iso_node_record));
    if (!n)
        return;
    n->round = *r;
    n->bytes_up = s->bytes_up;
    n->bytes_down = s->bytes_down;
    n->sent_up = s->sent_up;
    n->sent_down = s->sent_down;
    n->probe = probe_if_due(s, r->samples_done);
    s->bytes_up = s->bytes_down = s->sent_up = s->sent_down = 0;
    int64_t span = r->ended - r->started;
    for (uint32_t i = 0; i < s->count; i++) {
        iso_node_info info;
        iso_coordinator_node(s->coordinator, i, &info);
        n->node[i] = (iso_node_record){.samples = info.round_samples,
                                       .busy_ns = info.round_busy,
                                       .idle_ns = span > info.round_busy ? span - info.round_busy : 0,
                                       .score = info.score,
                                       .state = node_state(&info)};
    }
}

static void tell_epoch(iso_sim *s, const iso_epoch_result *r)
{
    iso_sim_check_epoch(s, r);
    iso_note *n = s->ended ? NULL : note_new(s, ISO_NOTE_EPOCH, 0);
    if (!n)
        return;
    n->epoch = *r;
    n->epoch.best = r->best && s->best && !s->config.options->cost_model;
    if (n->epoch.best)
        iso_sim_publish(s, s->best);
}

static void tell_record(iso_sim *s, const iso_record *r)
{
    bool counted = r->kind == ISO_RECORD_COUNTED;
    if (counted)
        iso_sim_check_counted(s, r);
    size_t ranges = counted ? r->range_count * sizeof *r->range : 0;
    iso_note *n = s->ended ? NULL : note_new(s, counted ? ISO_NOTE_COUNTED : ISO_NOTE_RECORD, ranges);
    if (!n)
        return;
    n->record = *r;
    if (counted) {
        memcpy(n->node, r->range, ranges);
        n->record.range = NULL;
    }
    const char *what = r->kind == ISO_RECORD_BAD_FRAME    ? "frame that makes no sense"
                       : r->kind == ISO_RECORD_BAD_TOTALS ? "wrong count of samples"
                                                          : NULL;
    if (what)
        iso_sim_fail(s, ISO_E_WRONG, "the coordinator got a %s of node %s", what,
                     r->node < s->count ? s->node[r->node].machine->name : "?");
}

static void checkpoint(iso_sim *s)
{
    iso_snapshot *p = s->snapshot;
    iso_saved saved = {0};
    if (s->config.options->cost_model)
        return;
    p->core_bytes = iso_coordinator_save(s->coordinator, p->core, p->core_capacity);
    iso_saved_read(&saved, p->core, p->core_bytes, NULL);
    p->round = saved.round;
    p->epoch = saved.epoch;
    iso_sim_publish(s, p->weights);
    for (uint32_t i = 0; i < p->states; i++)
        if (s->merger)
            memcpy(p->state[i], iso_merger_array(s->merger, i + 1), s->parameters * sizeof(float));
        else
            iso_net_publish(s->config.net, s->state[i], p->state[i]);
    note_new(s, ISO_NOTE_CHECKPOINT, 0);
}

static void end(iso_sim *s, iso_note_kind kind, bool stopped)
{
    iso_note *n = note_new(s, kind, 0);
    s->ended = true;
    if (n)
        n->stopped = stopped;
}

/* ---- frames and orders --------------------------------------------------------------------------------- */

static void send_to(iso_sim *s, uint32_t id, const iso_frame *f, sim_blob *blob)
{
    if (!s->ended)
        iso_sim_send(s, id, false, f, blob);
}

static void send(iso_sim *s, const iso_frame *f)
{
    sim_blob *blob = f->kind == ISO_FRAME_WEIGHTS ? iso_sim_full(s) : f->kind == ISO_FRAME_DELTA ? s->change : NULL;
    bool bulk = f->kind == ISO_FRAME_WEIGHTS || f->kind == ISO_FRAME_DELTA;
    if (s->ended || (bulk && (!blob || blob->round != f->round))) {
        iso_sim_fail(s, ISO_E_WRONG, "a %s frame of round %llu was sent when there were others", iso_frame_name(f->kind),
                     (unsigned long long)f->round);
        return;
    }
    if (f->to != ISO_EVERYONE) {
        send_to(s, f->to, f, blob);
        return;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        iso_node_info info;
        if (iso_coordinator_node(s->coordinator, i, &info) && info.state == ISO_NODE_LIVE)
            send_to(s, i, f, blob);
    }
}

static void take(iso_sim *s, const iso_take *t)
{
    sim_node *n = &s->node[t->node];
    sim_blob *b = n->arrived;
    if (!b || b->spans.samples != t->samples) {
        iso_sim_fail(s, ISO_E_WRONG, "round %llu: the answer of node %s holds %llu samples and says %llu",
                     (unsigned long long)s->border + 1, n->machine->name, b ? (unsigned long long)b->spans.samples : 0,
                     (unsigned long long)t->samples);
        return;
    }
    b->before = n->taken;
    n->taken = b;
    n->arrived = NULL; /* the reference goes with it */
    if (s->plan.way != ISO_PLAN_SUM)
        return;
    for (uint32_t i = 0; i < b->spans.count; i++)
        iso_sim_span_add(s, &s->merging, b->spans.span[i].first, b->spans.span[i].count);
    const int64_t *sum = (const int64_t *)(const void *)b->data;
    for (size_t i = 0; sum && i < s->values; i++)
        s->merged[i] += sum[i];
}

static void update(iso_sim *s, const iso_update_order *o)
{
    s->update = *o;
    memcpy(s->update_node, o->nodes, o->node_count * sizeof *o->nodes);
    s->update.nodes = s->update_node;
    double values = (double)s->parameters * (double)(o->node_count + 1);
    iso_sim_at(s, s->now + (int64_t)(values / MERGED_A_NS), SIM_UPDATED, ISO_COORDINATOR, o->slice, o->order);
}

void iso_sim_updated(iso_sim *s, uint32_t slice)
{
    iso_event done = {.kind = ISO_EVENT_ORDER_DONE, .order = s->update.order};
    iso_totals_clear(&done.totals);
    if (slice != s->update.slice)
        return;
    iso_sim_check_update(s);
    if (!s->ended)
        iso_sim_update(s, &done.totals.bad_layer);
    for (uint32_t i = 0; i < s->update.node_count; i++)
        iso_sim_drop(s, &s->node[s->update_node[i]].taken);
    if (!s->ended)
        iso_sim_step(s, &done);
}

/* The canary drops timers once a frame that it should repeat is lost. */
static void wake(iso_sim *s, int64_t at)
{
    s->timer++;
    if (at != ISO_NEVER && !s->dropped)
        iso_sim_at(s, at, SIM_TIMER, ISO_COORDINATOR, 0, s->timer);
}

static void effect(iso_sim *s, const iso_effect *f)
{
    switch (f->kind) {
    case ISO_EFFECT_SEND:
        send(s, &f->frame);
        return;
    case ISO_EFFECT_UPDATE:
        update(s, &f->update);
        return;
    case ISO_EFFECT_TAKE:
        take(s, &f->take);
        return;
    case ISO_EFFECT_WAKE:
        wake(s, f->at);
        return;
    case ISO_EFFECT_CHECKPOINT:
        checkpoint(s);
        return;
    case ISO_EFFECT_ROUND:
        tell_round(s, &f->round_result);
        return;
    case ISO_EFFECT_EPOCH:
        tell_epoch(s, &f->epoch_result);
        return;
    case ISO_EFFECT_LOG:
        tell_record(s, &f->record);
        return;
    case ISO_EFFECT_DONE:
        end(s, ISO_NOTE_DONE, f->stopped);
        return;
    case ISO_EFFECT_FAILED:
        iso_sim_fail(s, f->error->code, "%s", f->error->text);
        return;
    default:
        iso_sim_fail(s, ISO_E_WRONG, "the coordinator gave the effect %s", iso_effect_name(f->kind));
    }
}

void iso_sim_step(iso_sim *s, iso_event *event)
{
    event->now = s->now;
    if (iso_coordinator_step(s->coordinator, event, &s->effects)) {
        iso_sim_fail(s, ISO_E_WRONG, "the coordinator refused an event");
        return;
    }
    for (uint32_t i = 0; i < s->effects.count && !s->ended; i++)
        effect(s, &s->effects.item[i]);
}
