/* SPDX-License-Identifier: Apache-2.0
 * What speaks against training on some data, a sentence each: known before it begins, and hard to see in its figures. */
#include <stdarg.h>
#include <stdio.h>

#include "isochron/data.h"

#define UNEVEN 10u /* times as many samples in one class as in another */
#define SHOWN 8u   /* classes that a sentence names */

typedef struct teller {
    const iso_data_parts *parts;
    uint64_t *training, *counts; /* [classes] samples of each: of the training set, of the set at hand */
    void (*tell)(void *context, const char *sentence);
    void *context;
} teller;

/* Classes that a sentence is about. */
typedef struct choice {
    uint32_t count;
    uint64_t samples;       /* of them in the set at hand */
    char names[SHOWN * 48]; /* "3, 7 and 2 more" */
} choice;

static void say(const teller *t, const char *format, ...) ISO_PRINTF(2, 3);
static void say(const teller *t, const char *format, ...)
{
    char text[800];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    t->tell(t->context, text);
}

/* The name of class k, "1" or "cat", cut to what a sentence has room for. */
static const char *name_of(const teller *t, uint32_t k, char out[44])
{
    char number[16];
    snprintf(out, 44, "%.40s", iso_dataset_class_name(t->parts->training.set, k, number));
    return out;
}

/* The classes whose training samples are there or not, and whose samples at hand are there or not. */
static choice choose(const teller *t, bool trained, bool present)
{
    choice c = {.names = ""};
    size_t at = 0;
    char name[44];
    for (uint32_t k = 0; k < t->parts->classes; k++) {
        if ((t->training[k] > 0) != trained || (t->counts[k] > 0) != present)
            continue;
        if (c.count++ < SHOWN)
            at += (size_t)snprintf(c.names + at, sizeof c.names - at, "%s%s", at ? ", " : "", name_of(t, k, name));
        c.samples += t->counts[k];
    }
    if (c.count > SHOWN)
        snprintf(c.names + at, sizeof c.names - at, " and %u more", c.count - SHOWN);
    return c;
}

/* The class with the fewest (sign -1) or the most samples among those that have any. */
static uint32_t extreme(const uint64_t *counts, uint32_t classes, int sign)
{
    uint32_t found = classes;
    for (uint32_t k = 0; k < classes; k++)
        if (counts[k] && (found == classes || (sign < 0 ? counts[k] < counts[found] : counts[k] > counts[found])))
            found = k;
    return found;
}

static void tell_training(const teller *t)
{
    uint32_t classes = t->parts->classes;
    choice none = choose(t, false, false);
    uint32_t least = extreme(t->training, classes, -1), most = extreme(t->training, classes, 1);
    char few[44], many[44];
    if (none.count + 1 == classes)
        say(t, "all %llu training samples are of class %s: there is nothing to tell apart",
            (unsigned long long)t->parts->training.count, name_of(t, most, many));
    else if (none.count)
        say(t, "%u of %u classes %s no training sample: %s", none.count, classes, none.count == 1 ? "has" : "have",
            none.names);
    if (t->training[most] / t->training[least] >= UNEVEN)
        say(t, "the classes are uneven: %llu training samples of class %s, %llu of class %s",
            (unsigned long long)t->training[most], name_of(t, most, many), (unsigned long long)t->training[least],
            name_of(t, least, few));
}

/* A set that the model is measured on. */
static void tell_measured(const teller *t, const iso_view *v, const char *what)
{
    choice strange = choose(t, false, true), absent = choose(t, true, false), known = choose(t, true, true);
    if (strange.count)
        say(t, "%llu of %llu %s samples are of %s without a training sample: %s", (unsigned long long)strange.samples,
            (unsigned long long)v->count, what, strange.count == 1 ? "a class" : "classes", strange.names);
    if (known.count == 1 && !strange.count && absent.count)
        say(t, "all %llu %s samples are of class %s", (unsigned long long)v->count, what, known.names);
    else if (absent.count)
        say(t, "%u of %u trained classes %s no %s sample: %s", absent.count, absent.count + known.count,
            absent.count == 1 ? "has" : "have", what, absent.names);
}

/* What a reader found, and what does not vary. */
static void tell_sets(const teller *t)
{
    const iso_data_parts *p = t->parts;
    const iso_view *view[] = {&p->training, &p->validation, &p->test};
    for (int i = 0; i < 3; i++) {
        const iso_dataset *set = view[i]->count ? view[i]->set : NULL;
        if (set && set->warning && (i == 0 || set != p->training.set))
            say(t, "%.300s: %.400s", set->source, set->warning);
    }
    if (p->constant_channels)
        say(t, "%u of %u channels of the training data are constant: they tell nothing", p->constant_channels,
            p->training.set->shape.c);
}

int iso_data_doubts(const iso_data_parts *parts, const iso_alloc *a, void (*tell)(void *context, const char *sentence),
                    void *context, iso_error *e)
{
    teller t = {.parts = parts, .tell = tell, .context = context};
    tell_sets(&t);
    if (!parts->training.set->labels || !parts->classes)
        return ISO_OK;
    t.training = iso_new_raw(a, parts->classes, sizeof *t.training);
    t.counts = iso_new_raw(a, parts->classes, sizeof *t.counts);
    int status = t.training && t.counts ? ISO_OK
                                        : iso_error_set(e, ISO_E_NOMEM, "out of memory for the counts of %u classes",
                                                        parts->classes);
    if (status == ISO_OK) {
        iso_view_class_counts(&parts->training, parts->classes, t.training);
        iso_view_class_counts(&parts->training, parts->classes, t.counts);
        tell_training(&t);
    }
    const iso_view *measured[] = {&parts->validation, &parts->test};
    for (int i = 0; status == ISO_OK && i < 2; i++) {
        if (!measured[i]->count || !measured[i]->set->labels)
            continue;
        iso_view_class_counts(measured[i], parts->classes, t.counts);
        tell_measured(&t, measured[i], i ? "test" : "validation");
    }
    iso_free(a, t.training);
    iso_free(a, t.counts);
    return status;
}
