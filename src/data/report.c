/* SPDX-License-Identifier: Apache-2.0
 * What `isochron inspect` tells about a data set. */
#include "isochron/data.h"

static int measure_values(iso_data_report *r, iso_error *e)
{
    const iso_dataset *d = r->set;
    iso_channel *channel = iso_new_raw(r->alloc, d->shape.c, sizeof *channel);
    if (!channel)
        return iso_error_set(e, ISO_E_NOMEM, "out of memory for a report on %u channels", d->shape.c);
    iso_view all = iso_view_all(d);
    int status = iso_normalize_measure(&all, ISO_NORMALIZE_NONE, channel, &r->constant_channels, e);
    if (status == ISO_OK) {
        r->minimum = channel[0].minimum;
        r->maximum = channel[0].maximum;
        for (uint32_t c = 0; c < d->shape.c; c++) {
            r->minimum = channel[c].minimum < r->minimum ? channel[c].minimum : r->minimum;
            r->maximum = channel[c].maximum > r->maximum ? channel[c].maximum : r->maximum;
            r->mean += channel[c].mean / d->shape.c;
        }
    }
    iso_free(r->alloc, channel);
    return status;
}

static int count_classes(iso_data_report *r, iso_error *e)
{
    const iso_dataset *d = r->set;
    r->classes = d->classes;
    r->class_counts = iso_new_raw(r->alloc, d->classes, sizeof *r->class_counts);
    if (!r->class_counts)
        return iso_error_set(e, ISO_E_NOMEM, "out of memory for the counts of %u classes", d->classes);
    iso_view all = iso_view_all(d);
    iso_view_class_counts(&all, d->classes, r->class_counts);
    r->label_minimum = r->label_maximum = d->labels[0];
    for (uint64_t i = 0; i < d->count; i++) {
        r->label_minimum = d->labels[i] < r->label_minimum ? d->labels[i] : r->label_minimum;
        r->label_maximum = d->labels[i] > r->label_maximum ? d->labels[i] : r->label_maximum;
    }
    for (uint32_t k = 0; k < d->classes; k++)
        r->empty_classes += r->class_counts[k] == 0;
    return ISO_OK;
}

int iso_data_report_make(iso_data_report *out, const iso_dataset *d, const iso_alloc *a, iso_error *e)
{
    *out = (iso_data_report){.set = d, .alloc = a};
    int status = ISO_OK;
    if (d->values)
        status = measure_values(out, e);
    if (status == ISO_OK && d->labels)
        status = count_classes(out, e);
    if (status != ISO_OK)
        iso_data_report_free(out);
    return status;
}

void iso_data_report_free(iso_data_report *r)
{
    if (!r)
        return;
    iso_free(r->alloc, r->class_counts);
    *r = (iso_data_report){0};
}
