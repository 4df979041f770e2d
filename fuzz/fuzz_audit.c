/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: the bytes as an audit log, and behind a NUL as the metrics it is held against. Whatever they say, the
 * check ends, its counts add up, and it finds no fault only where every sample of every epoch was counted once. */
#include <string.h>

#include "check.h"
#include "engine/run/audit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SAMPLES = 100, EPOCHS = 3 };

static void check(const char *events, size_t events_size, const char *metrics, size_t metrics_size, bool finished)
{
    iso_audit a;
    iso_error e = {.text = ""};
    int status = iso_audit_check(&(iso_audit_input){.events_name = "events",
                                                    .events = events,
                                                    .events_size = events_size,
                                                    .metrics_name = "metrics",
                                                    .metrics = metrics,
                                                    .metrics_size = metrics_size,
                                                    .samples = SAMPLES,
                                                    .epochs = EPOCHS,
                                                    .finished = finished,
                                                    .border = finished ? 0 : 3},
                                 &a, &e);
    FUZZ_CHECK(status == ISO_OK || (status == ISO_E_FORMAT && e.text[0]));
    if (status == ISO_OK) {
        FUZZ_CHECK(a.fault_count <= a.faults && a.fault_count <= ISO_AUDIT_FAULTS_MAX);
        for (uint32_t i = 0; i < a.epoch_count; i++) {
            const iso_audit_epoch *k = &a.epoch[i];
            FUZZ_CHECK(k->once + k->more + k->never == SAMPLES);
            FUZZ_CHECK(a.faults || (k->more == 0 && (k->never == 0 || (!finished && i + 1 == a.epoch_count))));
        }
        FUZZ_CHECK(a.faults || !finished || a.whole == EPOCHS);
    }
    iso_audit_clear(&a, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *events = (const char *)data, *end = size ? memchr(events, 0, size) : NULL;
    size_t events_size = end ? (size_t)(end - events) : size;
    const char *metrics = end ? end + 1 : NULL;
    size_t metrics_size = end ? size - events_size - 1 : 0;
    check(size ? events : "", events_size, metrics, metrics_size, true);
    check(size ? events : "", events_size, metrics, metrics_size, false);
    return 0;
}
