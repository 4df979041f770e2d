/* SPDX-License-Identifier: Apache-2.0
 * The control bodies of frames as structs, and their codecs. A body has one exact length for its kind (WORK: for its
 * number of ranges); decoding checks it and every field that indexes something, so that the state machines need not. */
#ifndef ISO_CORE_BODY_H
#define ISO_CORE_BODY_H

#include "isochron/core.h"

typedef struct body_hello {
    uint64_t life, samples, data_digest, job_digest;
    uint32_t program;
} body_hello;

typedef struct body_welcome {
    uint64_t life; /* echo: which HELLO this answers */
} body_welcome;

typedef struct body_refuse {
    uint64_t life; /* echo */
    uint32_t reason;
} body_refuse;

/* What is stale is named by what the offending frame said, so that a late RESET cannot hit a newer life. */
typedef struct body_reset {
    uint64_t life;        /* echo of a HELLO's life; 0 with floor 0: it was no HELLO */
    uint64_t floor;       /* the smallest life that will be welcome; 0: any larger one */
    uint32_t incarnation; /* echo of the header */
    uint32_t session;     /* echo of the header */
} body_reset;

typedef struct body_work {
    iso_purpose_of_pass purpose;
    bool final;           /* training: answer with SUM */
    bool exact;           /* local steps: with payload exact */
    uint32_t epoch, number, part, unit, pass_units, range_count;
    uint64_t first, end;
    iso_range range[ISO_RANGES_MAX];
} body_work;

/* DONE and SUM. number: leases of this pass finished so far; totals: of all of this part. */
typedef struct body_answer {
    iso_purpose_of_pass purpose;
    uint32_t number, part;
    uint32_t units;       /* done of lease `number`: fewer than it has when it was cut */
    iso_totals totals;
} body_answer;

typedef struct body_collect {
    uint32_t number, part;
    bool cut;             /* end lease `number` when `units` of it are done, or at the next border */
    uint32_t units;
} body_collect;

typedef struct body_pulse {
    uint32_t number, part;
    uint64_t samples;     /* of the lease so far */
    iso_figures figures;
} body_pulse;

typedef struct body_need {
    bool drifted;         /* its weights are wrong: it joins again */
} body_need;

void iso_body_put_hello(iso_frame *f, const body_hello *b);
void iso_body_put_welcome(iso_frame *f, const body_welcome *b);
void iso_body_put_refuse(iso_frame *f, const body_refuse *b);
void iso_body_put_reset(iso_frame *f, const body_reset *b);
void iso_body_put_work(iso_frame *f, const body_work *b);
void iso_body_put_answer(iso_frame *f, const body_answer *b);
void iso_body_put_collect(iso_frame *f, const body_collect *b);
void iso_body_put_pulse(iso_frame *f, const body_pulse *b);
void iso_body_put_need(iso_frame *f, const body_need *b);

/* false: the body is not one. */
bool iso_body_get_hello(const iso_frame *f, body_hello *b);
bool iso_body_get_welcome(const iso_frame *f, body_welcome *b);
bool iso_body_get_refuse(const iso_frame *f, body_refuse *b);
bool iso_body_get_reset(const iso_frame *f, body_reset *b);
bool iso_body_get_work(const iso_frame *f, body_work *b);
bool iso_body_get_answer(const iso_frame *f, body_answer *b);
bool iso_body_get_collect(const iso_frame *f, body_collect *b);
bool iso_body_get_pulse(const iso_frame *f, body_pulse *b);
bool iso_body_get_need(const iso_frame *f, body_need *b);

/* Passes in the order they come: 0 is before the first. */
static inline uint64_t pass_key(uint64_t round, iso_purpose_of_pass purpose)
{
    return round * 4 + (uint64_t)purpose + 1;
}

#endif
