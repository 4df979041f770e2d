/* SPDX-License-Identifier: Apache-2.0
 * A binary heap (queue.h). */
#include "engine/simulate/queue.h"

#include <string.h>

static bool before(const sim_event *a, const sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static bool grow(sim_queue *q)
{
    if (q->count < q->capacity)
        return true;
    if (q->capacity > UINT32_MAX / 2)
        return false;
    uint32_t capacity = q->capacity ? q->capacity * 2 : 256;
    sim_event *more = iso_new_raw(q->alloc, capacity, sizeof *more);
    if (!more)
        return false;
    if (q->count)
        memcpy(more, q->event, q->count * sizeof *more);
    iso_free(q->alloc, q->event);
    q->event = more;
    q->capacity = capacity;
    return true;
}

bool sim_queue_put(sim_queue *q, const sim_event *event)
{
    if (!grow(q))
        return false;
    sim_event e = *event;
    e.sequence = q->sequence++;
    uint32_t i = q->count++;
    for (; i > 0 && before(&e, &q->event[(i - 1) / 2]); i = (i - 1) / 2)
        q->event[i] = q->event[(i - 1) / 2];
    q->event[i] = e;
    return true;
}

bool sim_queue_take(sim_queue *q, sim_event *out)
{
    if (!q->count)
        return false;
    *out = q->event[0];
    sim_event last = q->event[--q->count];
    uint32_t i = 0;
    for (uint32_t child = 1; child < q->count; child = 2 * i + 1) {
        child += child + 1 < q->count && before(&q->event[child + 1], &q->event[child]);
        if (!before(&q->event[child], &last))
            break;
        q->event[i] = q->event[child];
        i = child;
    }
    if (q->count)
        q->event[i] = last;
    return true;
}
