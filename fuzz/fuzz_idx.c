/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: the bytes as a data file, in each role, also with an allocation that fails. What loads must be whole:
 * every value can be read, every label is in range, statistics and report work, memory is bounded by the size of the
 * input. */
#include <string.h>

#include "check.h"
#include "isochron/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const iso_dataset *d, const iso_alloc *a)
{
    iso_error e;
    iso_data_report r;
    FUZZ_CHECK(d->count > 0 && (d->values || d->labels) && d->source);
    if (d->values) {
        const uint8_t *last = iso_dataset_sample(d, d->count - 1);
        volatile uint8_t byte = last[iso_dataset_sample_bytes(d) - 1];
        (void)byte;
    }
    for (uint64_t i = 0; d->labels && i < d->count; i++)
        FUZZ_CHECK(d->labels[i] >= 0 && (uint32_t)d->labels[i] < d->classes);
    int status = iso_data_report_make(&r, d, a, &e);
    FUZZ_CHECK(status == ISO_OK || status == ISO_E_NOMEM);
    iso_data_report_free(&r);
}

static void read_once(const uint8_t *data, size_t size, iso_role role, const char *format, size_t fail_at)
{
    fuzz_heap heap;
    fuzz_heap_init(&heap, fail_at);
    iso_bytes bytes = {data, size, NULL, NULL};
    iso_dataset d;
    iso_error e = {.text = ""};
    int status = iso_data_read(&bytes, &(iso_read_options){.name = "input", .format = format, .role = role},
                               &heap.alloc, &d, &e);
    FUZZ_CHECK(heap.largest <= 8 * size + 2000);
    if (status == ISO_OK) {
        use(&d, &heap.alloc);
    } else {
        FUZZ_CHECK(status == ISO_E_FORMAT || (status == ISO_E_NOMEM && fail_at));
        FUZZ_CHECK(strncmp(e.text, "input: ", 7) == 0 && strlen(e.text) > 12);
    }
    iso_dataset_free(&d);
    FUZZ_CHECK(heap.live == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int role = ISO_ROLE_ANY; role <= ISO_ROLE_LABELS; role++) {
        read_once(data, size, (iso_role)role, NULL, 0);
        read_once(data, size, (iso_role)role, "idx", 0);
    }
    for (size_t k = 1; k <= 4; k++)
        read_once(data, size, ISO_ROLE_ANY, "idx", k);
    return 0;
}
