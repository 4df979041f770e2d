/* SPDX-License-Identifier: Apache-2.0
 * The simulator as an engine of a session (engine/run/engine.h): a coordinator and its nodes in virtual time.
 *
 * Place: engine. Thread: the caller's alone. */
#ifndef ISO_ENGINE_SIMULATE_SIMULATE_H
#define ISO_ENGINE_SIMULATE_SIMULATE_H

#include "base/buffer.h"
#include "engine/local/feed.h"
#include "engine/local/local.h"
#include "isochron/simulate.h"

typedef struct iso_sim iso_sim;

typedef struct iso_sim_config {
    const iso_net *net; /* pointers are borrowed for the simulator's life */
    const iso_feed *feed;
    const iso_job *job;
    const iso_simulate_options *options;
    iso_policy_spec policy;
    uint32_t unit;
    uint64_t job_digest, data_digest;
    const iso_alloc *alloc;
} iso_sim_config;

/* Takes what does not depend on what happens. Errors: ISO_E_NOMEM, ISO_E_ARGUMENT. */
int iso_sim_new(iso_sim **out, const iso_sim_config *config, iso_error *e);
/* NULL is fine. */
void iso_sim_free(iso_sim *s);

/* As the functions of iso_local (engine/local/local.h). _take: weights to start from, internal layout [P']; _publish: those of
 * now, published [P]. */
void iso_sim_take(iso_sim *s, const float *internal);
void iso_sim_publish(iso_sim *s, float *published);
size_t iso_sim_state_max(const iso_sim *s);
uint32_t iso_sim_arrays(const iso_sim *s);
const char *iso_sim_array_name(const iso_sim *s, uint32_t index);
int iso_sim_resume(iso_sim *s, const iso_snapshot *snapshot, iso_error *e);
int iso_sim_start(iso_sim *s, iso_snapshot *snapshot, float *best, iso_error *e);
/* Lets time pass until there is something to tell; NULL when `until_ns` of the real clock has come before. */
const iso_note *iso_sim_next(iso_sim *s, int64_t until_ns);
void iso_sim_pop(iso_sim *s);
const iso_error *iso_sim_error(const iso_sim *s);
void iso_sim_stop(iso_sim *s);
/* Virtual ns since the start. */
int64_t iso_sim_now(const iso_sim *s);

/* Line `index` of what the seeds mean and what was drawn from them; false past the last. */
bool iso_sim_drawn(const iso_sim *s, uint32_t index, char out[200]);
/* The timeline as JSON; NULL when none was wanted. Once, at the end. */
const iso_buffer *iso_sim_timeline(iso_sim *s);

#endif
