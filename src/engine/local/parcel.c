/* SPDX-License-Identifier: Apache-2.0
 * Bulk data that threads hand to each other: answers, full weights, what a merge changed. Bytes stay where they are written;
 * who holds a parcel may read it, and it is used again when nobody does. So a stalled reader costs a parcel, never a wrong
 * number. */
#include "engine/local/inside.h"

/* Gives back the memory of a parcel that nobody holds and that is too small, so that no size is kept for ever. */
static void forget_one(iso_local *l)
{
    for (parcel **at = &l->parcels; *at; at = &(*at)->next) {
        parcel *p = *at;
        if (atomic_load_explicit(&p->holders, memory_order_acquire) != 0)
            continue;
        *at = p->next;
        iso_free(l->alloc, p->data);
        iso_free(l->alloc, p);
        return;
    }
}

static parcel *make(iso_local *l, size_t bytes)
{
    forget_one(l);
    parcel *p = iso_new(l->alloc, 1, sizeof *p);
    if (!p)
        return NULL;
    p->data = iso_new_raw(l->alloc, bytes ? bytes : 1, 1);
    if (!p->data) {
        iso_free(l->alloc, p);
        return NULL;
    }
    p->room = bytes;
    p->next = l->parcels;
    l->parcels = p;
    return p;
}

parcel *iso_local_parcel(iso_local *l, size_t bytes)
{
    parcel *best = NULL;
    for (parcel *p = l->parcels; p; p = p->next)
        if (p->room >= bytes && (!best || p->room < best->room) &&
            atomic_load_explicit(&p->holders, memory_order_acquire) == 0)
            best = p;
    if (!best)
        best = make(l, bytes);
    if (best) {
        best->bytes = bytes;
        best->round = 0;
        best->next_taken = NULL;
        atomic_store_explicit(&best->holders, 1, memory_order_relaxed);
    }
    return best;
}

void iso_local_parcel_hold(parcel *p)
{
    atomic_fetch_add_explicit(&p->holders, 1, memory_order_relaxed);
}

void iso_local_parcel_drop(parcel *p)
{
    if (p)
        atomic_fetch_sub_explicit(&p->holders, 1, memory_order_release);
}

void iso_local_parcels_free(iso_local *l)
{
    while (l->parcels) {
        parcel *p = l->parcels;
        l->parcels = p->next;
        iso_free(l->alloc, p->data);
        iso_free(l->alloc, p);
    }
}
