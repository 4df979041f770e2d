/* SPDX-License-Identifier: Apache-2.0
 * Does a file hold the tensors that a network wants? All differences are listed at once, and nothing is filled in. */
#include <stdio.h>
#include <string.h>

#include "isochron/format.h"

typedef struct list {
    char text[240];
    size_t used;
    uint32_t count;
} list;

static void add(list *l, const char *format, const char *name, const char *detail)
{
    l->count++;
    if (l->used + 60 >= sizeof l->text)
        return; /* the count goes on */
    int more = snprintf(l->text + l->used, sizeof l->text - l->used, format, l->used ? ", " : "", name, detail);
    if (more > 0)
        l->used += (size_t)more < sizeof l->text - l->used ? (size_t)more : sizeof l->text - l->used - 1;
}

/* "F32 [6, 1, 5, 5]" */
static void describe(char *out, size_t room, iso_tensor_type type, uint32_t rank, const uint64_t *dim)
{
    size_t at = (size_t)snprintf(out, room, "%s [", iso_tensor_type_name(type));
    for (uint32_t i = 0; i < rank && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, i ? ", %llu" : "%llu", (unsigned long long)dim[i]);
    if (at < room)
        snprintf(out + at, room - at, "]");
}

static bool same(const iso_tensor_view *v, const iso_tensor_out *w)
{
    return v->type == w->type && v->rank == w->rank && memcmp(v->dim, w->dim, v->rank * sizeof *v->dim) == 0;
}

static bool is_wanted(const iso_tensor_out *wanted, uint32_t count, const char *name, const char *ignore)
{
    if (ignore && strncmp(name, ignore, strlen(ignore)) == 0)
        return true;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(wanted[i].name, name) == 0)
            return true;
    return false;
}

static const char *section(char *out, size_t room, const list *l, const char *title, const char *before)
{
    if (l->count)
        snprintf(out, room, "%s%s (%u): %s%s", before, title, l->count, l->text,
                 l->used + 60 >= sizeof l->text ? ", ..." : "");
    else
        out[0] = '\0';
    return out;
}

int iso_tensors_check(const iso_tensors *t, const iso_tensor_out *wanted, uint32_t count, const char *ignore,
                      iso_error *e)
{
    list missing = {.used = 0}, other = {.used = 0}, extra = {.used = 0};
    for (uint32_t i = 0; i < count; i++) {
        const iso_tensor_view *v = iso_tensors_find(t, wanted[i].name);
        if (!v) {
            add(&missing, "%s%.48s%s", wanted[i].name, "");
        } else if (!same(v, &wanted[i])) {
            char there[80], right[80], detail[200];
            describe(there, sizeof there, v->type, v->rank, v->dim);
            describe(right, sizeof right, wanted[i].type, wanted[i].rank, wanted[i].dim);
            snprintf(detail, sizeof detail, "%s, wanted %s", there, right);
            add(&other, "%s%.48s is %s", wanted[i].name, detail);
        }
    }
    for (uint32_t i = 0; i < iso_tensors_count(t); i++) {
        const char *name = iso_tensors_at(t, i)->name;
        if (!is_wanted(wanted, count, name, ignore))
            add(&extra, "%s%.48s%s", name, "");
    }
    if (!missing.count && !other.count && !extra.count)
        return ISO_OK;
    char a[300], b[300], c[300];
    return iso_error_set(e, ISO_E_MISMATCH, "the tensors are those of another model%s%s%s",
                         section(a, sizeof a, &missing, "missing", "; "),
                         section(b, sizeof b, &other, "of another shape", "; "),
                         section(c, sizeof c, &extra, "not wanted", "; "));
}
