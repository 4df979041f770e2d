/* SPDX-License-Identifier: Apache-2.0
 * Checkers: what must be true after every event. They look at what nodes really worked off and what really was merged, not at
 * what the core says of it, and hold the one against the other. */
#include <inttypes.h>
#include <string.h>

#include "base/crc32c.h"
#include "engine/simulate/inside.h"

/* Counts what a round merges; a sample must be new in its epoch. */
static void count(iso_sim *s, const sim_spans *spans, const char *what, iso_tally *tally)
{
    for (uint32_t i = 0; i < spans->count && !s->ended; i++) {
        uint64_t again, first_again;
        int r = iso_tally_add(tally, spans->epoch, spans->span[i].first, spans->span[i].count, &again, &first_again);
        if (r == ISO_E_NOMEM)
            iso_sim_no_memory(s);
        else if (r)
            iso_sim_fail(s, ISO_E_WRONG, "round %" PRIu64 ": %s positions %" PRIu64 " and %" PRIu64 " more, beyond the epoch",
                         s->update.round + 1, what, spans->span[i].first, spans->span[i].count);
        else if (again)
            iso_sim_fail(s, ISO_E_WRONG, "round %" PRIu64 ": %s position %" PRIu64 " of epoch %u for the second time (%" PRIu64 " such)",
                         s->update.round + 1, what, first_again, (unsigned)spans->epoch + 1, again);
    }
}

void iso_sim_check_update(iso_sim *s)
{
    const iso_update_order *o = &s->update;
    sim_spans *m = &s->merging;
    if (o->round != s->border) {
        iso_sim_fail(s, ISO_E_WRONG, "an update of round %" PRIu64 " after %" PRIu64 " rounds", o->round + 1, s->border);
        return;
    }
    for (uint32_t i = 0; i < o->node_count && !s->ended; i++) {
        const sim_node *n = &s->node[o->nodes[i]];
        const sim_blob *b = n->taken;
        if (!b) {
            iso_sim_fail(s, ISO_E_WRONG, "round %" PRIu64 " merges node %s, of which nothing was taken", o->round + 1, n->machine->name);
            return;
        }
        m->epoch = b->spans.epoch;
        for (; b && s->plan.way != ISO_PLAN_SUM; b = b->before)
            for (uint32_t k = 0; k < b->spans.count; k++)
                iso_sim_span_add(s, m, b->spans.span[k].first, b->spans.span[k].count);
    }
    if (m->samples != o->samples)
        iso_sim_fail(s, ISO_E_WRONG, "round %" PRIu64 " merges answers of %" PRIu64 " samples and says %" PRIu64, o->round + 1,
                     m->samples, o->samples);
    count(s, m, "merges", &s->counted);
    s->merged_samples = m->samples;
    m->count = 0;
    m->samples = 0;
}

void iso_sim_check_counted(iso_sim *s, const iso_record *r)
{
    for (uint32_t i = 0; i < r->range_count && !s->ended; i++) {
        uint64_t first = r->first + (uint64_t)r->range[i].first * r->unit, end = first + (uint64_t)r->range[i].count * r->unit;
        end = end < r->end ? end : r->end;
        sim_span span = {first, end > first ? end - first : 0};
        s->audit_samples += span.count;
        count(s, &(sim_spans){.span = &span, .count = 1, .epoch = r->epoch}, "the audit log has", &s->audited);
    }
}

void iso_sim_check_round(iso_sim *s, const iso_round_result *r)
{
    if (r->round != s->round + 1 || r->round != s->border)
        iso_sim_fail(s, ISO_E_WRONG, "round %" PRIu64 " was told after round %" PRIu64, r->round, s->round);
    else if (r->totals.samples != s->merged_samples || s->audit_samples != s->merged_samples)
        iso_sim_fail(s, ISO_E_WRONG, "round %" PRIu64 " told %" PRIu64 " samples, merged %" PRIu64 ", and its audit log has %" PRIu64,
                     r->round, r->totals.samples, s->merged_samples, s->audit_samples);
    s->round = r->round;
    s->audit_samples = 0;
    s->progress++;
}

void iso_sim_check_epoch(iso_sim *s, const iso_epoch_result *r)
{
    uint64_t first, never = s->resumed ? 0 : iso_tally_run(&s->counted, r->epoch, 0, 0, &first);
    if (never)
        iso_sim_fail(s, ISO_E_WRONG, "epoch %u ended without position %" PRIu64 " and %" PRIu64 " more", (unsigned)r->epoch + 1, first,
                     never - 1);
    s->progress++;
}

/* A replica keeps its weights twice: as they came, and as the kernels read them. Both have to be the coordinator's. */
static bool same_replica(const iso_sim *s, const sim_node *n)
{
    if (n->base_round + SIM_CHECKS <= s->border)
        return true; /* so old that nobody remembers */
    uint32_t right = s->check[n->base_round % SIM_CHECKS];
    iso_net_publish(s->config.net, iso_replica_weights(n->replica), s->scratch);
    return iso_replica_check(n->replica) == right && iso_crc32c(0, s->scratch, s->parameters * sizeof(float)) == right;
}

static bool same_weights(const iso_sim *s, const sim_node *n)
{
    if (n->replica)
        return same_replica(s, n);
    if (n->weights && n->weights->true_one)
        return memcmp(n->weights->internal, n->weights->true_one->internal, s->values * sizeof(float)) == 0;
    return !n->damaged;
}

void iso_sim_check_weights(iso_sim *s, uint32_t id)
{
    const sim_node *n = &s->node[id];
    if (!n->has_weights)
        iso_sim_fail(s, ISO_E_WRONG, "node %s was told to compute and has no weights", n->machine->name);
    else if (n->base_round != n->order.round)
        iso_sim_fail(s, ISO_E_WRONG, "node %s computes for round %" PRIu64 " with the weights of round %" PRIu64, n->machine->name,
                     n->order.round + 1, n->base_round + 1);
    else if (!same_weights(s, n))
        iso_sim_fail(s, ISO_E_WRONG, "the replica of node %s differs from the weights of round %" PRIu64, n->machine->name, n->base_round);
}

void iso_sim_check_progress(iso_sim *s)
{
    iso_coordinator_view v;
    iso_coordinator_look(s->coordinator, &v);
    uint64_t seen = s->progress + v.units_counted;
    bool faulty = s->config.options->draw_faults && !s->healed;
    if (seen != s->progress_seen || faulty) {
        s->progress_seen = seen;
        s->progress_at = s->now;
    } else if (s->now - s->progress_at > s->patience) {
        iso_sim_fail(s, ISO_E_STUCK,
                     "nothing that counts has happened since %.3f s, after round %" PRIu64 ": %u nodes, %" PRIu64 " of %" PRIu64
                     " units counted",
                     (double)s->progress_at * 1e-9, s->round, (unsigned)v.nodes, v.units_counted, v.units);
    }
}
