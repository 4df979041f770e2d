/* SPDX-License-Identifier: Apache-2.0
 * What a synchronisation policy is to the coordinator: a row with words for people and functions for decisions. One
 * file a policy, one line in the table of policy.c. A policy decides who computes how much and when, never what: in the
 * exact-sum policies all of them give the same weights. */
#ifndef ISO_CORE_POLICY_H
#define ISO_CORE_POLICY_H

#include "isochron/core.h"

/* What is known when a node asks for work. Speeds are samples a nanosecond; 0: not known yet. */
typedef struct iso_asking {
    uint32_t units, free;        /* of the pass; free > 0 */
    uint32_t leased;             /* units that nodes are computing now */
    uint32_t live, idle;         /* nodes that take part; those of them that hold no lease (the asking one included) */
    uint32_t holding;            /* leases this node holds already */
    double speed;                /* of this node */
    double total_speed, fastest; /* of all live nodes: unknown ones count as the mean; the largest known */
} iso_asking;

struct iso_policy {
    const char *name, *summary, *source;
    const iso_option *parameters;
    uint32_t parameter_count;
    bool ignores_batch;
    /* Sets what differs from the standard plan: exact sums, the job's batch, pulled by the nodes. */
    void (*plan)(const double *value, uint64_t samples, uint64_t batch, iso_plan *plan); /* NULL: nothing */
    /* Units for this node now; more than `free` means all. 0: nothing for it in this pass, unless units come back.
     * Training passes over a batch only. NULL: iso_share_guided. */
    uint32_t (*units)(const iso_policy_spec *spec, const iso_asking *a);
};

extern const iso_policy iso_policy_nns, iso_policy_bsp, iso_policy_cumulative, iso_policy_online, iso_policy_lb_bsp,
    iso_policy_ssp, iso_policy_asp, iso_policy_local_sgd, iso_policy_post_local, iso_policy_adacomm, iso_policy_fda,
    iso_policy_diloco, iso_policy_mixbp, iso_policy_hmdspt;

/* The words of iso_payload, and rows that several policies share. */
extern const char *const iso_payload_words[];
#define ISO_PARAMETER_PAYLOAD(standard)                                                                                \
    {"payload", ISO_OPTION_CHOICE, (standard), 0, ISO_PAYLOADS - 1, iso_payload_words, "how differences are sent"}
#define ISO_PARAMETER_LOCAL_BATCH(standard)                                                                            \
    {"local_batch", ISO_OPTION_INT, (standard), 1, 4096, NULL, "samples of a node's own step"}
#define ISO_PARAMETER_PERIOD(standard, help) {"period", ISO_OPTION_INT, (standard), 1, 1 << 24, NULL, (help)}

/* The plan of local steps with payload both ways: rounds of `period` steps of the fastest node. */
void iso_plan_local(iso_plan *plan, iso_payload payload, double local_batch, double period);
/* The plan of gradients that are applied as they come. */
void iso_plan_free(iso_plan *plan, iso_payload payload, double local_batch);

/* Shares of others' making. Guided self-scheduling by speed; evaluation passes use it whatever the policy. */
uint32_t iso_share_guided(const iso_asking *a);
/* What is free, in equal parts over the idle nodes. */
uint32_t iso_share_equal(const iso_asking *a);

/* iso_policy_spec_set and _parse against any row: the tests have rows of their own. */
int iso_policy_set(const iso_policy *p, double *value, const char *key, size_t key_length, const char *text,
                   size_t length, iso_error *e);
int iso_policy_set_all(const iso_policy *p, double *value, const char *parameters, iso_error *e);

#endif
