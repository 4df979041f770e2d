/* SPDX-License-Identifier: Apache-2.0
 * What nodes and the coordinator tell each other besides exact sums: payloads, a node's replica, the coordinator's merger.
 *
 * Two ways of working need them (the third, exact int64 sums of unit gradients, is isochron/nn.h alone):
 *   LOCAL      a node makes optimiser steps of `local_batch` samples on its own weights and answers with its *difference*,
 *              own weights minus the weights of the round's beginning (local-sgd, fda, hmdspt, mixbp, online, ...).
 *   GRADIENT   a node answers with the mean gradient of its samples (lb-bsp with a lossy payload, ssp, asp).
 *
 *        node                                     coordinator
 *     iso_replica_begin                        iso_merger_begin
 *     iso_replica_work (unit by unit)
 *     iso_replica_encode  ---- up payload --->  iso_merger_take (any order: same bits)
 *                                               iso_merger_merge (slices on any threads), iso_merger_end
 *     iso_replica_apply   <--- down payload --
 *
 * All replicas that apply the same bytes have the same weights, bit for bit, as the coordinator's. A node that missed a
 * round takes the full weights: iso_merger_full -> iso_replica_adopt.
 *
 * Payloads (all little-endian; values in the published layout, isochron/nn.h):
 *   exact   the sender's own numbers as fp32: LOCAL up and every down payload carry *weights*, not a difference, so a lone
 *           node's weights are assigned bit for bit; GRADIENT up carries the mean gradient. No error memory is involved.
 *           With `carry` the optimiser's arrays follow the weights.
 *   fp32    a difference (gradient) in fp32, rounded to a multiple of 2^-40
 *   bf16    the upper half of an fp32, rounded to nearest even (below 2^-33: to a multiple of 2^-40)
 *   int8    blocks of 1024 values (the last may be short): a byte E = 0..56, then a byte a value, q = -127..127; the value is
 *           q 2^(E-40), E the least with 127 2^(E-40) >= the block's largest |value|, q rounded to nearest even
 *   int4    the same with q = -7..7, E = 0..60: byte j of a block of n values holds value j in its low and value j + ceil(n/2) in its
 *           high four bits, two's complement
 * What rounding takes away stays in the sender's *error memory* and is added next time (not for exact): nothing is lost.
 * So every value on the way is a multiple of 2^-40 and sums of sample-weighted values are exact integers, in any order.
 * A value that is not finite, or 2^22 or more, is an error that names it.
 *
 * Thread rule: one caller at a time an object, but iso_merger_merge on slices that do not overlap. Nothing here allocates.
 * Bytes that come from outside are not trusted: no length, exponent or value in them can do harm, and an error leaves the
 * object as it was. */
#ifndef ISOCHRON_REPLICA_H
#define ISOCHRON_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/error.h"
#include "isochron/nn.h"

#define ISO_BLOCK 1024u                  /* values that share an exponent; slices of a merge are multiples of it */

/* ---- payloads ------------------------------------------------------------------------------------------------------ */

typedef enum iso_payload {
    ISO_PAYLOAD_EXACT, ISO_PAYLOAD_FP32, ISO_PAYLOAD_BF16, ISO_PAYLOAD_INT8, ISO_PAYLOAD_INT4
} iso_payload;
#define ISO_PAYLOADS 5u

/* "exact", "fp32", "bf16", "int8", "int4" <-> iso_payload; _name gives "?" for another number, _parse ISO_E_ARGUMENT for
 * another word. Thread: any, as all functions of this section. */
ISO_API const char *iso_payload_name(iso_payload payload);
ISO_API int iso_payload_parse(const char *word, iso_payload *out);
/* Bytes of `values` encoded values. LeNet-5 (61,706): 246,824, 246,824, 123,412, 61,767, 30,914. Saturates at SIZE_MAX. */
ISO_API size_t iso_payload_bytes(iso_payload payload, size_t values);

/* Encodes value [values] + error_in [values] (NULL: zeros) into out, iso_payload_bytes bytes. error_out [values] (may be
 * error_in, or NULL) receives what was not sent, sent [values] (may be value, or NULL) what was. For EXACT: the values as
 * they are; error_out becomes a copy of error_in (zeros when NULL). isa: whose kernels (all give the same bytes).
 * Errors: ISO_E_NONFINITE with the index of the first bad value, then out, error_out and sent are undefined;
 * ISO_E_UNSUPPORTED for an isa this machine lacks. */
ISO_API int iso_payload_encode(iso_isa isa, iso_payload payload, size_t values, const float *value, const float *error_in,
                               float *error_out, float *sent, void *out, iso_error *e);
/* Decodes `count` bytes into value [values]. Errors: ISO_E_PROTOCOL (wrong length, a bad exponent: which block),
 * ISO_E_NONFINITE (fp32, bf16, exact: which value), ISO_E_UNSUPPORTED; then value is undefined. */
ISO_API int iso_payload_decode(iso_isa isa, iso_payload payload, size_t values, const void *bytes, size_t count, float *value,
                               iso_error *e);

/* ---- a node's replica ---------------------------------------------------------------------------------------------- */

typedef enum iso_replica_way { ISO_WAY_LOCAL, ISO_WAY_GRADIENT } iso_replica_way;

typedef struct iso_replica_config {
    const iso_net *net;                  /* these three are borrowed for the replica's life */
    const iso_optimizer *optimizer;
    const iso_schedule *schedule;
    iso_replica_way way;
    uint64_t samples, total;             /* of an epoch; of the run (iso_schedule_rate) */
    uint32_t unit;                       /* samples in a unit: 16, 32, 48, 64 */
    uint32_t local_batch;                /* LOCAL: samples of a local step, dividing the unit or a multiple of it */
    bool monitor;                        /* LOCAL: keep the direction that iso_replica_figures needs */
    bool carry;                          /* LOCAL, payload exact only: the optimiser's state travels with the weights, so that
                                            the work can move from node to node and stays serial SGD bit for bit */
} iso_replica_config;

typedef struct iso_replica iso_replica;

/* Bytes of a replica; SIZE_MAX when a field is out of range. Arrays: base (in both layouts), own weights (GRADIENT:
 * the mean), sum and states [P'], two error memories [P], the direction [P'] (monitor), the states once more (carry), kept rows
 * of a few units. */
ISO_API size_t iso_replica_bytes(const iso_replica_config *config);
/* Makes a replica in caller memory of iso_replica_bytes (aligned to ISO_ALIGN). Weights and all other arrays are 0: adopt
 * before the first round. No end call is needed. */
ISO_API iso_replica *iso_replica_init(const iso_replica_config *config, void *memory);

/* Takes full weights: iso_replica_full_bytes bytes of iso_merger_full (EXACT, with the states when carry). The last answer
 * counts as delivered (see encode). Optimiser state without carry and the error memory stay; the direction becomes new minus
 * old weights. Errors: ISO_E_PROTOCOL (length), ISO_E_NONFINITE (which value). */
ISO_API int iso_replica_adopt(iso_replica *r, const void *bytes, size_t count, iso_error *e);
ISO_API size_t iso_replica_full_bytes(const iso_replica *r);
/* After joining or a lost session: optimiser state, error memory and direction become 0, an open round is forgotten. */
ISO_API void iso_replica_reset(iso_replica *r);
/* The round's result as iso_merger_merge made it: payload is what iso_merger_end named. base += difference (EXACT: base =
 * weights), own = base, direction = that difference, and the last answer counts as delivered. Errors as adopt. */
ISO_API int iso_replica_apply(iso_replica *r, iso_payload payload, const void *bytes, size_t count, iso_error *e);

/* The weights of the round's beginning, internal layout [P']: what evaluation runs on. Valid for the replica's life, its
 * contents until the next adopt or apply. */
ISO_API const float *iso_replica_weights(const iso_replica *r);
/* crc32c over the base weights, published layout, little-endian; equals iso_merger_check of the same weights. */
ISO_API uint32_t iso_replica_check(const iso_replica *r);

/* Begins a round in epoch `epoch` (from 0) against the base weights; work of a round begun before and not encoded for a merge
 * is thrown away (its optimiser steps too, when carry). units: units of work the round can have at most, at least 1. */
ISO_API void iso_replica_begin(iso_replica *r, uint32_t epoch, uint64_t units);

/* Samples of the training pass that work wants: the next multiple of 16 of a step's samples, the unit at most; 0: none, steps of
 * at most ISO_NARROW_MAX samples have a pass of their own inside the replica. */
ISO_API uint32_t iso_replica_pass_unit(const iso_replica_config *config);

/* Loads samples at epoch positions [position, position + n), n <= iso_replica_pass_unit, into `pass` (iso_pass_load_*) or, when
 * that is NULL, into `narrow` (iso_narrow_load_*), and returns their labels [n], valid until the next call. */
typedef const int32_t *(*iso_replica_load)(void *context, uint64_t position, uint32_t n, iso_pass *pass, iso_narrow *narrow);

/* Works off one unit, positions [first, first + n), n <= config.unit; the pass is a training pass of iso_replica_pass_unit
 * samples on the same network (NULL when that is 0). LOCAL: ceil(n / local_batch) steps, or a part of one step when a step has
 * several units (made when its last sample has come; _finish makes a short one). Rate: iso_schedule_rate at the step's first
 * sample. GRADIENT: the unit's gradient joins the sum. *result: the unit's samples, right answers and loss, each measured before
 * the step that learns from it; bad_layer when a value is not finite or too large (the replica is then of no use but for reset
 * and adopt). */
ISO_API void iso_replica_work(iso_replica *r, iso_pass *pass, uint64_t first, uint32_t n, iso_replica_load load, void *context,
                              iso_unit_result *result);
/* Samples that wait for their step to be full (0: at a step's border). */
ISO_API uint64_t iso_replica_pending(const iso_replica *r);
/* Makes the short last step of a lease, if samples wait for it. *bad_layer: -1, or as above. */
ISO_API void iso_replica_finish(iso_replica *r, int32_t *bad_layer);
/* Local steps made, and samples worked off, since begin. */
ISO_API uint64_t iso_replica_steps(const iso_replica *r);
ISO_API uint64_t iso_replica_samples(const iso_replica *r);

/* The monitor's 16 bytes: |own - base|^2, and the dot product of own - base with the direction of the last merged difference,
 * of length 1 (0 before the first one). Sums in a fixed order: the same bits everywhere. config.monitor. */
typedef struct iso_figures {
    double norm2, dot;
} iso_figures;
ISO_API void iso_replica_figures(const iso_replica *r, iso_figures *out);

/* Bytes of an answer in this payload (EXACT with carry: as full_bytes). */
ISO_API size_t iso_replica_answer_bytes(const iso_replica *r, iso_payload payload);
/* The answer: own minus base plus error memory (GRADIENT: mean gradient plus error memory), encoded into out [count]. May be
 * asked for again until the next begin, apply or adopt, and gives the same bytes. The error memory takes what was not sent
 * when apply or adopt comes; begin without them takes the answer for lost. Makes a waiting short step first (finish).
 * Errors: ISO_E_NONFINITE (names tensor and value), ISO_E_ARGUMENT (count, or a payload other than EXACT with carry),
 * ISO_E_STATE (no sample was worked off). */
ISO_API int iso_replica_encode(iso_replica *r, iso_payload payload, void *out, size_t count, iso_error *e);
/* The error memory [P] as of the last delivered answer, published layout (tests, reports). */
ISO_API const float *iso_replica_error(const iso_replica *r);

/* ---- the coordinator's merger -------------------------------------------------------------------------------------- */

/* Outer step of the LOCAL way on the mean difference D: u = momentum u + D; w += rate (D + momentum u). No outer step, w += D:
 * rate 1 (or 0, what is left empty) and momentum 0. (DiLoCo: .7, .9.) */
typedef struct iso_outer {
    double rate, momentum;
} iso_outer;

typedef struct iso_merger_config {
    const iso_net *net;                  /* both borrowed for the merger's life */
    const iso_optimizer *optimizer;      /* GRADIENT: its step; carry: whose states travel. Else not looked at */
    iso_replica_way way;
    iso_outer outer;                     /* LOCAL */
    iso_payload down;                    /* EXACT: full weights after every merge */
    bool carry;                          /* as in iso_replica_config */
} iso_merger_config;

typedef struct iso_merger iso_merger;

/* Bytes of a merger; SIZE_MAX when a field is out of range. Arrays [P], published layout: weights, error memory, outer
 * velocity or optimiser states as needed, and int64 sums. */
ISO_API size_t iso_merger_bytes(const iso_merger_config *config);
/* Makes a merger in caller memory of iso_merger_bytes (aligned to ISO_ALIGN). All arrays are 0. */
ISO_API iso_merger *iso_merger_init(const iso_merger_config *config, void *memory);

/* Its arrays [P] in the published layout, to be filled at the start, saved at a round border and loaded again: index 0 is
 * "weights", then the optimiser's states by name (GRADIENT, carry), "error" (lossy down), "outer" (an outer momentum).
 * _array: NULL past the end. Contents change in iso_merger_merge alone. */
ISO_API uint32_t iso_merger_arrays(const iso_merger *m);
ISO_API float *iso_merger_array(iso_merger *m, uint32_t index);
ISO_API const char *iso_merger_array_name(const iso_merger *m, uint32_t index);
/* crc32c over the weights, little-endian. */
ISO_API uint32_t iso_merger_check(const iso_merger *m);

/* Full weights for a node that joins or fell behind: iso_merger_full_bytes bytes for iso_replica_adopt. Not during a merge. */
ISO_API size_t iso_merger_full_bytes(const iso_merger *m);
ISO_API void iso_merger_full(const iso_merger *m, void *out);

/* Begins a merge; what was taken before and not merged is forgotten. samples: at least as many as will be taken in all
 * (bounds a value to 2^22 / samples), at most 2^40. */
ISO_API void iso_merger_begin(iso_merger *m, uint64_t samples);
/* Adds a node's answer over `samples` samples, 1 .. 2^29 - 1. Any order, any mixture of payloads: the same bits. LOCAL, EXACT:
 * weights; as the only answer they will be assigned, beside others their difference from the present weights counts, in fp32.
 * Errors, nothing is changed: ISO_E_PROTOCOL (length, exponent), ISO_E_NONFINITE (names tensor and value), ISO_E_ARGUMENT
 * (samples 0, or more than begin allowed), ISO_E_STATE (carry: not EXACT, or a second answer). */
ISO_API int iso_merger_take(iso_merger *m, iso_payload payload, const void *bytes, size_t count, uint64_t samples, iso_error *e);
/* Samples, and answers, taken since begin. */
ISO_API uint64_t iso_merger_samples(const iso_merger *m);
ISO_API uint32_t iso_merger_answers(const iso_merger *m);

/* What the merge of the answers taken so far will send down: EXACT when that is the down payload or a lone exact answer is
 * assigned; its bytes are iso_merger_down_bytes (EXACT with carry: as full_bytes). */
ISO_API iso_payload iso_merger_down(const iso_merger *m);
ISO_API size_t iso_merger_down_bytes(const iso_merger *m);

/* How a merge steps in the GRADIENT way. */
typedef struct iso_merge_step {
    double rate;                         /* of iso_schedule_rate, over 1 + staleness where the policy says so */
    uint64_t step;                       /* 1, 2, ...: Adam's bias correction */
} iso_merge_step;

/* Merges published values [begin, end): begin a multiple of ISO_BLOCK, end too or P. At least one answer must have been
 * taken. Writes this slice's bytes of the down payload at their place in `out` (iso_merger_down_bytes in all), moves weights,
 * error memory, velocity and states, and clears the sums. step: GRADIENT; else NULL. Slices that do not overlap may run on
 * several threads; each value once. *bad_layer: -1, or the layer where a value became not finite or 2^22 or more (then
 * weights and out are of no use). */
ISO_API void iso_merger_merge(iso_merger *m, const iso_merge_step *step, size_t begin, size_t end, void *out,
                              int32_t *bad_layer);
/* Slice `index` of `count` of P values for iso_merger_merge, nearly equal; may be empty. */
ISO_API void iso_merger_slice(const iso_merger *m, uint32_t count, uint32_t index, size_t *begin, size_t *end);
/* Ends the merge after its last slice; the next begin may come. */
ISO_API void iso_merger_end(iso_merger *m);

#endif
