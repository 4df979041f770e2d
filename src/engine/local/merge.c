/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's side of the ways in which nodes have weights of their own: answers are kept until their merge, the merge runs
 * in slices like an optimiser's step, and what it changed goes to the workers by reference. With the lock held. */
#include <string.h>

#include "engine/local/inside.h"

static void take_back(iso_local *l)
{
    while (l->taken) {
        parcel *p = l->taken;
        l->taken = p->next_taken;
        iso_local_parcel_drop(p);
    }
    l->taken_last = &l->taken;
}

void iso_local_taken(iso_local *l, const iso_take *t)
{
    parcel *p = l->arriving;
    iso_local_parcel_hold(p);
    p->node = t->node;
    p->samples = t->samples;
    p->next_taken = NULL;
    *l->taken_last = p;
    l->taken_last = &p->next_taken;
}

/* Puts the answers of the merge into the sums: all of them, or with free ones the first of this node. */
static int gather(iso_local *l, const iso_update_order *o, iso_error *e)
{
    parcel **at = &l->taken;
    int result = 0;
    while (result == 0 && *at) {
        parcel *p = *at;
        if (l->plan.free && p->node != o->nodes[0]) {
            at = &p->next_taken;
            continue;
        }
        *at = p->next_taken;
        result = iso_merger_take(l->merger, p->payload, p->data, p->bytes, p->samples, e);
        iso_local_parcel_drop(p);
        if (l->plan.free)
            break;
    }
    l->taken_last = &l->taken;
    while (*l->taken_last)
        l->taken_last = &(*l->taken_last)->next_taken;
    return result;
}

void iso_local_merge_begin(iso_local *l, const iso_update_order *o)
{
    iso_error e;
    iso_merger_begin(l->merger, o->samples);
    int result = gather(l, o, &e);
    if (result) {
        iso_local_fail(l, result, e.text);
        return;
    }
    parcel *p = iso_local_parcel(l, iso_merger_down_bytes(l->merger));
    if (!p) {
        iso_local_fail(l, ISO_E_NOMEM, "no memory for what a merge changes");
        return;
    }
    p->payload = iso_merger_down(l->merger);
    p->round = o->round + 1;
    iso_local_parcel_drop(l->down);
    l->down = p;
    l->update.step = (iso_merge_step){.rate = o->rate, .step = o->step};
    l->update.open = 0;
}

void iso_local_merge_add(iso_local *l, const iso_update_order *o, uint32_t i)
{
    size_t begin, end;
    iso_merger_slice(l->merger, o->slice_count, o->slice, &begin, &end);
    l->update.order[i] = o->order;
    l->update.begin[i] = begin;
    l->update.end[i] = end;
    l->update.open++;
}

void iso_local_merge_slice(iso_local *l, uint32_t slice, int32_t *bad_layer)
{
    const update_job *u = &l->update;
    *bad_layer = -1;
    if (u->begin[slice] < u->end[slice])
        iso_merger_merge(l->merger, l->plan.way == ISO_PLAN_GRADIENT ? &u->step : NULL, (size_t)u->begin[slice],
                         (size_t)u->end[slice], l->down->data, bad_layer);
}

void iso_local_merge_done(iso_local *l)
{
    if (--l->update.open > 0)
        return;
    iso_merger_end(l->merger);
    if (l->down->payload != ISO_PAYLOAD_EXACT)
        return;
    iso_local_parcel_drop(l->full);
    l->full = l->down;
    iso_local_parcel_hold(l->full);
}

/* The weights after `round` rounds as one parcel for whoever asks; NULL: no memory. */
static parcel *full_weights(iso_local *l, uint64_t round)
{
    if (l->full && l->full->round == round)
        return l->full;
    iso_local_parcel_drop(l->full);
    l->full = iso_local_parcel(l, iso_merger_full_bytes(l->merger));
    if (!l->full)
        return NULL;
    iso_merger_full(l->merger, l->full->data);
    l->full->round = round;
    l->full->payload = ISO_PAYLOAD_EXACT;
    return l->full;
}

parcel *iso_local_news(iso_local *l, const iso_frame *frame)
{
    parcel *p = frame->kind == ISO_FRAME_DELTA ? l->down : full_weights(l, frame->round);
    if (!p)
        iso_local_fail(l, ISO_E_NOMEM, "no memory for a copy of the weights");
    return p;
}

/* ---- memory, borders ----------------------------------------------------------------------------------- */

static int no_room(iso_error *e, const char *what, size_t bytes)
{
    return iso_error_set(e, ISO_E_NOMEM, "no memory for %s: %zu bytes were asked for", what, bytes);
}

int iso_local_merger_init(iso_local *l, iso_error *e)
{
    l->taken_last = &l->taken;
    if (!l->replicas)
        return 0;
    iso_merger_config c = {.net = l->config.net,
                           .optimizer = &l->core.optimizer,
                           .way = l->plan.way == ISO_PLAN_LOCAL ? ISO_WAY_LOCAL : ISO_WAY_GRADIENT,
                           .outer = l->plan.outer,
                           .down = l->plan.down,
                           .carry = l->plan.one_node};
    size_t bytes = iso_merger_bytes(&c);
    l->merger_memory = bytes == SIZE_MAX ? NULL : iso_new_raw(l->alloc, bytes, 1);
    if (!l->merger_memory)
        return no_room(e, "the weights and their merge", bytes);
    l->merger = iso_merger_init(&c, l->merger_memory);
    return 0;
}

void iso_local_merger_fini(iso_local *l)
{
    take_back(l);
    iso_local_parcels_free(l);
    iso_free(l->alloc, l->merger_memory);
}

uint32_t iso_local_state_arrays(const iso_local *l)
{
    return l->replicas ? iso_merger_arrays(l->merger) - 1 : l->states;
}

const char *iso_local_state_name(const iso_local *l, uint32_t index)
{
    return l->replicas ? iso_merger_array_name(l->merger, index + 1) : iso_optimizer_state_name(&l->core.optimizer, index);
}

void iso_local_get_weights(const iso_local *l, float *out)
{
    if (l->replicas)
        memcpy(out, iso_merger_array(l->merger, 0), iso_net_parameters(l->config.net) * sizeof *out);
    else
        iso_net_publish(l->config.net, l->buffer[l->current], out);
}

void iso_local_publish_states(const iso_local *l, float *const *out)
{
    for (uint32_t i = 0; i < iso_local_state_arrays(l); i++)
        if (l->replicas)
            memcpy(out[i], iso_merger_array(l->merger, i + 1), iso_net_parameters(l->config.net) * sizeof(float));
        else
            iso_net_publish(l->config.net, l->state[i], out[i]);
}

void iso_local_adopt(iso_local *l, const iso_snapshot *s)
{
    const iso_net *net = l->config.net;
    const size_t bytes = iso_net_parameters(net) * sizeof(float);
    if (!l->replicas)
        iso_net_adopt(net, s->weights, l->buffer[l->current]);
    else
        memcpy(iso_merger_array(l->merger, 0), s->weights, bytes);
    for (uint32_t i = 0; i < iso_local_state_arrays(l); i++)
        if (!l->replicas)
            iso_net_adopt(net, s->state[i], l->state[i]);
        else
            memcpy(iso_merger_array(l->merger, i + 1), s->state[i], bytes);
}
