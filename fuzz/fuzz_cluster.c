/* SPDX-License-Identifier: Apache-2.0
 * Cluster files of any bytes: an error with its place, or a cluster whose every number is within its bounds. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

#include "isochron/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_machine(const iso_cluster *c, const iso_machine *m)
{
    FUZZ_CHECK(m->speed > 0 && m->overhead >= 0 && m->noise >= 0 && m->outlier_factor >= 1);
    FUZZ_CHECK(m->link.latency >= 0 && m->link.bandwidth >= 0 && m->link.loss.denominator > 0);
    FUZZ_CHECK(m->link.loss.numerator <= m->link.loss.denominator && m->outliers.numerator <= m->outliers.denominator);
    FUZZ_CHECK(m->burst_length <= m->burst_every && m->amplitude < 1 && m->name[0]);
    FUZZ_CHECK(strlen(m->name) < ISO_CLUSTER_NAME_MAX && (uint64_t)m->event + m->events <= c->event_count);
    for (uint32_t i = 0; i < m->events; i++)
        FUZZ_CHECK(c->event[m->event + i].at >= (i ? c->event[m->event + i - 1].at : 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    iso_cluster c;
    iso_error e = {0};
    int r = iso_cluster_parse(&c, "c.yaml", (const char *)data, size, NULL, &e);
    FUZZ_CHECK(r == ISO_OK || (r == ISO_E_JOB && strncmp(e.text, "c.yaml:", 7) == 0) || r == ISO_E_NOMEM);
    FUZZ_CHECK(r == ISO_OK || (!c.machine && !c.count));
    for (uint32_t i = 0; i < c.count; i++)
        check_machine(&c, &c.machine[i]);
    iso_cluster_clear(&c);
    return 0;
}
