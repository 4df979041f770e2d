/* SPDX-License-Identifier: Apache-2.0
 * Bitmaps of counted samples (tally.h). */
#include "engine/run/tally.h"

#include <stdbool.h>
#include <string.h>

#include "isochron/error.h"

static size_t words(const iso_tally *t)
{
    return (size_t)(t->samples / 64 + (t->samples % 64 != 0));
}

int iso_tally_init(iso_tally *t, uint64_t samples, uint32_t epochs, const iso_alloc *a)
{
    *t = (iso_tally){.samples = samples, .epochs = epochs, .alloc = a};
    t->epoch = epochs ? iso_new(a, epochs, sizeof *t->epoch) : NULL;
    return t->epoch || !epochs ? ISO_OK : ISO_E_NOMEM;
}

void iso_tally_fini(iso_tally *t)
{
    for (uint32_t i = 0; t->epoch && i < t->epochs; i++) {
        iso_free(t->alloc, t->epoch[i].once);
        iso_free(t->alloc, t->epoch[i].more);
    }
    iso_free(t->alloc, t->epoch);
    *t = (iso_tally){.alloc = t->alloc};
}

/* The bits of word `index` that lie in [first, end). */
static uint64_t mask_of(uint64_t index, uint64_t first, uint64_t end)
{
    uint64_t low = index * 64, mask = UINT64_MAX;
    if (first > low)
        mask &= UINT64_MAX << (first - low);
    if (end < low + 64)
        mask &= (UINT64_C(1) << (end - low)) - 1;
    return mask;
}

static unsigned lowest(uint64_t word)
{
    return (unsigned)__builtin_ctzll(word);
}

/* Does [first, end) hold a sample that was counted before? */
static bool any_counted(const iso_tally_epoch *e, uint64_t first, uint64_t end)
{
    for (uint64_t w = first / 64; e->once && w <= (end - 1) / 64; w++)
        if (e->once[w] & mask_of(w, first, end))
            return true;
    return !e->once && e->counted;
}

/* The bitmaps that counting [first, end) needs. */
static int make_room(iso_tally *t, iso_tally_epoch *e, uint64_t first, uint64_t end)
{
    if (!e->once && !e->counted && !(e->once = iso_new(t->alloc, words(t), sizeof *e->once)))
        return ISO_E_NOMEM;
    if (!e->more && any_counted(e, first, end) && !(e->more = iso_new(t->alloc, words(t), sizeof *e->more)))
        return ISO_E_NOMEM;
    return ISO_OK;
}

int iso_tally_add(iso_tally *t, uint32_t epoch, uint64_t first, uint64_t count, uint64_t *again, uint64_t *first_again)
{
    *again = *first_again = 0;
    if (epoch >= t->epochs || first > t->samples || count > t->samples - first)
        return ISO_E_ARGUMENT;
    if (!count)
        return ISO_OK;
    iso_tally_epoch *e = &t->epoch[epoch];
    uint64_t end = first + count;
    int r = make_room(t, e, first, end);
    if (r)
        return r;
    for (uint64_t w = first / 64; w <= (end - 1) / 64; w++) {
        uint64_t mask = mask_of(w, first, end), before = e->once ? e->once[w] & mask : mask;
        if (before) {
            if (!*again)
                *first_again = w * 64 + lowest(before);
            *again += (uint64_t)__builtin_popcountll(before);
            e->more_count += (uint64_t)__builtin_popcountll(before & ~e->more[w]);
            e->more[w] |= before;
        }
        if (e->once) {
            e->once[w] |= mask;
            e->counted += (uint64_t)__builtin_popcountll(mask & ~before);
        }
    }
    if (e->once && e->counted == t->samples) {
        iso_free(t->alloc, e->once);
        e->once = NULL;
    }
    return ISO_OK;
}

/* Bits of word w of the samples that were counted `times` times: never (0), more than once (2). */
static uint64_t word_of(const iso_tally *t, const iso_tally_epoch *e, int times, uint64_t w)
{
    uint64_t once = e->once ? e->once[w] : e->counted ? UINT64_MAX : 0;
    return (times ? e->more ? e->more[w] : 0 : ~once) & mask_of(w, 0, t->samples);
}

uint64_t iso_tally_run(const iso_tally *t, uint32_t epoch, int times, uint64_t from, uint64_t *first)
{
    if (epoch >= t->epochs)
        return 0;
    const iso_tally_epoch *e = &t->epoch[epoch];
    uint64_t found = from, end;
    while (found < t->samples) {
        uint64_t w = found / 64, bits = word_of(t, e, times, w) & (UINT64_MAX << found % 64);
        if (bits) {
            found = w * 64 + lowest(bits);
            break;
        }
        found = (w + 1) * 64;
    }
    if (found >= t->samples)
        return 0;
    for (end = found; end < t->samples;) {
        uint64_t w = end / 64, gap = ~word_of(t, e, times, w) & (UINT64_MAX << end % 64);
        if (gap) {
            end = w * 64 + lowest(gap);
            break;
        }
        end = (w + 1) * 64;
    }
    *first = found;
    return (end < t->samples ? end : t->samples) - found;
}
