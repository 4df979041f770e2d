/* SPDX-License-Identifier: Apache-2.0
 * Counted data of frames, and lists of samples (inside.h). */
#include <string.h>

#include "engine/simulate/inside.h"

sim_blob *iso_sim_blob(iso_sim *s, size_t bytes, uint64_t cost, bool internal)
{
    sim_blob *b = iso_new(s->alloc, 1, sizeof *b);
    bool whole = b != NULL;
    if (b)
        *b = (sim_blob){.refs = 1, .bytes = bytes, .cost = cost};
    if (b && bytes)
        whole = (b->data = iso_new_raw(s->alloc, bytes, 1)) != NULL;
    if (whole && internal)
        whole = (b->internal = iso_new_raw(s->alloc, s->values, sizeof(float))) != NULL;
    if (whole)
        return b;
    iso_sim_drop(s, &b);
    iso_sim_no_memory(s);
    return NULL;
}

sim_blob *iso_sim_hold(sim_blob *b)
{
    if (b)
        b->refs++;
    return b;
}

void iso_sim_drop(iso_sim *s, sim_blob **b)
{
    sim_blob *old = *b;
    *b = NULL;
    if (!old || --old->refs)
        return;
    iso_sim_drop(s, &old->true_one);
    iso_sim_drop(s, &old->before);
    iso_sim_span_fini(s, &old->spans);
    iso_free(s->alloc, old->data);
    iso_free(s->alloc, old->internal);
    iso_free(s->alloc, old);
}

static bool room(iso_sim *s, sim_spans *list, uint32_t more)
{
    if (list->capacity - list->count >= more)
        return true;
    uint32_t capacity = list->count + more + list->count / 2 + 4;
    sim_span *span = iso_new_raw(s->alloc, capacity, sizeof *span);
    if (!span) {
        iso_sim_no_memory(s);
        return false;
    }
    if (list->count)
        memcpy(span, list->span, list->count * sizeof *span);
    iso_free(s->alloc, list->span);
    list->span = span;
    list->capacity = capacity;
    return true;
}

void iso_sim_span_add(iso_sim *s, sim_spans *list, uint64_t first, uint64_t count)
{
    sim_span *last = list->count ? &list->span[list->count - 1] : NULL;
    list->samples += count;
    if (last && last->first + last->count == first)
        last->count += count;
    else if (room(s, list, 1))
        list->span[list->count++] = (sim_span){first, count};
}

void iso_sim_span_copy(iso_sim *s, sim_spans *to, const sim_spans *from)
{
    to->count = 0;
    to->samples = from->samples;
    to->epoch = from->epoch;
    if (from->count && room(s, to, from->count)) {
        memcpy(to->span, from->span, from->count * sizeof *to->span);
        to->count = from->count;
    }
}

void iso_sim_span_fini(iso_sim *s, sim_spans *list)
{
    iso_free(s->alloc, list->span);
    *list = (sim_spans){.span = NULL};
}
