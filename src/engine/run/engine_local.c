/* SPDX-License-Identifier: Apache-2.0
 * The local engine in a session (engine.h). */
#include <inttypes.h>
#include <stdio.h>

#include "engine/local/need.h"
#include "engine/machine/memory.h"
#include "engine/run/session.h"

static int nodes(iso_session *s)
{
    if (s->options->workers > ISO_WORKERS_MAX)
        return iso_error_set(s->error, ISO_E_ARGUMENT, "workers: %" PRIu32 "; 1 to %u are possible", s->options->workers,
                             ISO_WORKERS_MAX);
    if (s->options->workers)
        s->job->workers = s->options->workers;
    s->workers = s->job->workers ? s->job->workers : iso_cores_allowed();
    return 0;
}

static double need_of(const iso_session *s, uint32_t workers, iso_need *need)
{
    *need = iso_local_need(&(iso_need_of){.net = s->net,
                                          .optimizer = &s->job->optimizer,
                                          .batch = s->batch,
                                          .unit = s->unit,
                                          .workers = workers,
                                          .plan = &s->plan,
                                          .samples = s->training_part.count,
                                          .best = s->feed.view[ISO_FEED_VALIDATION].count > 0});
    return need->parameters + need->optimizer + need->workers;
}

/* Refuses what the machine cannot hold, with the numbers: the kernel would grant it and kill the process later. */
static int check_memory(const iso_session *s)
{
    iso_need need, alone;
    double calibration = s->options->calibrate ? need_of(s, 1, &alone) : 0;
    double all = need_of(s, s->workers, &need) + calibration, allowed = (double)iso_memory_allowed();
    if (all <= allowed)
        return 0;
    const double mib = 1 << 20;
    return iso_error_set(s->error, ISO_E_NOMEM,
                         "the run needs about %.0f MiB of memory, %.0f MiB are allowed here: weights %.0f, optimizer "
                         "%.0f, %" PRIu32 " workers %.0f, calibration %.0f MiB; take fewer workers or a smaller network",
                         all / mib, allowed / mib, need.parameters / mib, need.optimizer / mib, s->workers,
                         need.workers / mib, calibration / mib);
}

static int open(iso_session *s, uint64_t job_digest)
{
    int result = check_memory(s);
    if (result)
        return result;
    for (uint32_t i = 0; i < s->workers; i++) {
        char name[ISO_NODE_NAME_MAX];
        snprintf(name, sizeof name, "worker-%" PRIu32, i);
        iso_session_name(s, i, name);
    }
    iso_local_config c = {.net = s->net,
                          .feed = &s->feed,
                          .job = s->job,
                          .workers = s->workers,
                          .unit = s->unit,
                          .throttle = s->options->throttle,
                          .throttle_count = s->options->throttle_count,
                          .policy = s->policy,
                          .job_digest = job_digest,
                          .data_digest = s->data.train.fingerprint,
                          .faults = s->options->faults,
                          .alloc = s->alloc};
    iso_local *l;
    result = iso_local_new(&l, &c, s->error);
    s->self = l;
    return result;
}

static int calibrate(iso_session *s)
{
    for (uint32_t i = 0; i < s->workers; i++) {
        double speed;
        int result = iso_local_calibrate(s->self, i, s->options->stop, &speed, s->error);
        if (result)
            return result;
        iso_tell(s, ISO_MESSAGE_INFO, "%s alone: %.0f samples a second", iso_session_node(s, i), speed);
        s->alone += speed;
    }
    return 0;
}

static int greet(iso_session *s)
{
    uint32_t cores = iso_cores_allowed();
    uint64_t units = iso_units_in(s->batch, s->unit);
    if (s->workers > cores)
        iso_tell(s, ISO_MESSAGE_WARNING, "%" PRIu32 " workers share %" PRIu32 " %s", s->workers, cores,
                 cores == 1 ? "core" : "cores");
    if (s->workers > units)
        iso_tell(s, ISO_MESSAGE_INFO,
                 "a batch of %" PRIu64 " samples in units of %" PRIu32 " keeps %" PRIu64 " of %" PRIu32
                 " workers busy; the others are idle",
                 s->batch, s->unit, units, s->workers);
    return s->options->calibrate ? calibrate(s) : 0;
}

static void take(void *self, const float *internal)
{
    iso_local_set_weights(self, internal);
}

static void publish(void *self, float *published)
{
    iso_local_get_weights(self, published);
}

static void free_self(void *self)
{
    iso_local_free(self);
}

static size_t state_max(void *self)
{
    return iso_local_state_max(self);
}

static uint32_t arrays(void *self)
{
    return iso_local_state_arrays(self);
}

static const char *array_name(void *self, uint32_t index)
{
    return iso_local_state_name(self, index);
}

static int resume(void *self, const iso_snapshot *snapshot, iso_error *e)
{
    return iso_local_resume(self, snapshot, e);
}

static int start(void *self, iso_snapshot *snapshot, float *best, iso_error *e)
{
    return iso_local_start(self, snapshot, best, e);
}

static const iso_note *next(void *self, int64_t until_ns)
{
    return iso_local_next(self, until_ns);
}

static void pop(void *self)
{
    iso_local_pop(self);
}

static const iso_error *error(void *self)
{
    return iso_local_error(self);
}

static void stop(void *self)
{
    iso_local_stop(self);
}

static void join(void *self)
{
    iso_local_join(self);
}

const iso_engine iso_engine_local = {.name = "local",
                                     .nodes = nodes,
                                     .open = open,
                                     .free = free_self,
                                     .take = take,
                                     .publish = publish,
                                     .state_max = state_max,
                                     .arrays = arrays,
                                     .array_name = array_name,
                                     .resume = resume,
                                     .greet = greet,
                                     .start = start,
                                     .next = next,
                                     .pop = pop,
                                     .error = error,
                                     .stop = stop,
                                     .join = join};
