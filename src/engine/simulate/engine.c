/* SPDX-License-Identifier: Apache-2.0
 * The simulator in a session (engine/run/engine.h), and iso_simulate. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash64.h"
#include "engine/machine/memory.h"
#include "engine/run/session.h"
#include "engine/simulate/simulate.h"

#define TIMELINE "trace.json"

static int nodes(iso_session *s)
{
    const iso_simulate_options *o = s->setting;
    s->workers = o->cluster->count;
    if (s->options->resume && o->cost_model)
        return iso_error_set(s->error, ISO_E_ARGUMENT, "a run without arithmetic keeps no checkpoint: it cannot be resumed");
    return 0;
}

/* Bytes of one machine, about: what it would need itself, and what its part of the simulation does. */
static double machine_bytes(const iso_session *s)
{
    iso_plan plan;
    iso_policy_plan(&s->policy, s->training_part.count, s->job->batch, &plan);
    if (plan.way == ISO_PLAN_SUM)
        return (double)iso_net_values(s->net) * (sizeof(int64_t) + sizeof(float));
    iso_replica_config c = {.net = s->net,
                            .optimizer = &s->job->optimizer,
                            .schedule = &s->job->schedule,
                            .way = plan.way == ISO_PLAN_LOCAL ? ISO_WAY_LOCAL : ISO_WAY_GRADIENT,
                            .samples = s->training_part.count,
                            .total = s->training_part.count * s->job->epochs,
                            .unit = s->unit,
                            .local_batch = plan.local_batch,
                            .monitor = plan.monitor_every > 0,
                            .carry = plan.one_node};
    return (double)iso_replica_bytes(&c);
}

static int check_memory(const iso_session *s)
{
    const iso_simulate_options *o = s->setting;
    const double mib = 1 << 20, own = machine_bytes(s), allowed = (double)iso_memory_allowed();
    for (uint32_t i = 0; i < o->cluster->count; i++) {
        const iso_machine *m = &o->cluster->machine[i];
        if (m->memory > 0 && (double)m->memory < own)
            return iso_error_set(s->error, ISO_E_ARGUMENT, "node %s has %.1f MiB of memory, the job needs about %.1f MiB there", m->name,
                                 (double)m->memory / mib, own / mib);
    }
    if (o->cost_model || own * o->cluster->count <= allowed)
        return 0;
    return iso_error_set(s->error, ISO_E_NOMEM,
                         "%" PRIu32 " machines with real arithmetic need about %.0f MiB, %.0f MiB are allowed here: take --cost-model, "
                         "fewer machines or a smaller network",
                         o->cluster->count, own * o->cluster->count / mib, allowed / mib);
}

static int open(iso_session *s, uint64_t job_digest)
{
    const iso_simulate_options *o = s->setting;
    int result = check_memory(s);
    if (result)
        return result;
    for (uint32_t i = 0; i < s->workers; i++)
        iso_session_name(s, i, o->cluster->machine[i].name);
    s->alone = iso_cluster_speed(o->cluster);
    iso_sim_config c = {.net = s->net,
                        .feed = &s->feed,
                        .job = s->job,
                        .options = o,
                        .policy = s->policy,
                        .unit = s->unit,
                        .job_digest = job_digest,
                        .data_digest = s->data.train.fingerprint,
                        .alloc = s->alloc};
    iso_sim *sim;
    result = iso_sim_new(&sim, &c, s->error);
    s->self = sim;
    return result;
}

static void add_link(iso_hash64 *h, const iso_link *l)
{
    const int64_t value[] = {l->latency, l->loss.numerator, l->loss.denominator, l->duplicate.numerator,
                             l->duplicate.denominator, l->reorder.numerator, l->reorder.denominator};
    iso_hash64_add(h, &l->bandwidth, sizeof l->bandwidth);
    iso_hash64_add(h, value, sizeof value);
}

/* Part by part: what lies between them in memory is anything. */
static void add_cluster(iso_hash64 *h, const iso_cluster *c)
{
    iso_hash64_add(h, &c->bandwidth, sizeof c->bandwidth);
    for (uint32_t i = 0; i < c->count; i++) {
        const iso_machine *m = &c->machine[i];
        const double real[] = {m->speed, m->noise, m->outlier_factor, m->amplitude, m->burst_factor};
        const int64_t whole[] = {m->overhead, (int64_t)m->memory, m->outliers.numerator, m->outliers.denominator, (int64_t)m->drift,
                                 m->period, m->burst_every, m->burst_length, m->events};
        iso_hash64_add(h, m->name, strlen(m->name) + 1);
        iso_hash64_add(h, real, sizeof real);
        iso_hash64_add(h, whole, sizeof whole);
        add_link(h, &m->link);
        for (uint32_t k = 0; k < m->events; k++) {
            const iso_machine_event *e = &c->event[m->event + k];
            const int64_t part[] = {(int64_t)e->kind, e->at, e->length};
            iso_hash64_add(h, part, sizeof part);
            iso_hash64_add(h, &e->speed, sizeof e->speed);
        }
    }
}

/* A simulation made again is the same run, byte for byte. */
static uint64_t mark(const iso_session *s)
{
    const iso_simulate_options *o = s->setting;
    const uint64_t part[] = {s->job_digest, o->draw_faults, o->fault_seed, o->cost_model, (uint64_t)o->canary};
    iso_hash64 h;
    iso_hash64_init(&h);
    iso_hash64_add(&h, part, sizeof part);
    for (size_t i = 0; i < ISO_CARD_SETS; i++) {
        const uint64_t set[] = {s->card.set[i].there, s->card.set[i].fingerprint};
        iso_hash64_add(&h, set, sizeof set);
    }
    iso_hash64_add(&h, s->card.init, strlen(s->card.init));
    add_cluster(&h, o->cluster);
    return iso_hash64_value(&h);
}

static int greet(iso_session *s)
{
    char line[200];
    for (uint32_t i = 0; iso_sim_drawn(s->self, i, line); i++)
        iso_tell(s, ISO_MESSAGE_INFO, "%s", line);
    return 0;
}

static void free_self(void *self)
{
    iso_sim_free(self);
}

static void take(void *self, const float *internal)
{
    iso_sim_take(self, internal);
}

static void publish(void *self, float *published)
{
    iso_sim_publish(self, published);
}

static size_t state_max(void *self)
{
    return iso_sim_state_max(self);
}

static uint32_t arrays(void *self)
{
    return iso_sim_arrays(self);
}

static const char *array_name(void *self, uint32_t index)
{
    return iso_sim_array_name(self, index);
}

static int resume(void *self, const iso_snapshot *snapshot, iso_error *e)
{
    return iso_sim_resume(self, snapshot, e);
}

static int start(void *self, iso_snapshot *snapshot, float *best, iso_error *e)
{
    return iso_sim_start(self, snapshot, best, e);
}

static const iso_note *next(void *self, int64_t until_ns)
{
    return iso_sim_next(self, until_ns);
}

static void pop(void *self)
{
    iso_sim_pop(self);
}

static const iso_error *error(void *self)
{
    return iso_sim_error(self);
}

static void stop(void *self)
{
    iso_sim_stop(self);
}

static void join(void *self)
{
    (void)self; /* there are no threads */
}

static int64_t now(void *self)
{
    return iso_sim_now(self);
}

static int close(iso_session *s)
{
    const iso_buffer *b = iso_sim_timeline(s->self);
    if (!b)
        return 0;
    if (b->failed)
        return iso_error_set(s->error, ISO_E_NOMEM, "%s/" TIMELINE ": no memory for so long a timeline", s->run.path);
    return iso_run_put(&s->run, TIMELINE, b->bytes, b->size, s->error);
}

static bool has_model(const iso_session *s)
{
    const iso_simulate_options *o = s->setting;
    return !o->cost_model;
}

static const iso_engine simulator = {.name = "simulate",
                                     .nodes = nodes,
                                     .open = open,
                                     .free = free_self,
                                     .take = take,
                                     .publish = publish,
                                     .state_max = state_max,
                                     .arrays = arrays,
                                     .array_name = array_name,
                                     .resume = resume,
                                     .mark = mark,
                                     .greet = greet,
                                     .start = start,
                                     .next = next,
                                     .pop = pop,
                                     .error = error,
                                     .stop = stop,
                                     .join = join,
                                     .now = now,
                                     .close = close,
                                     .has_model = has_model};

int iso_simulate(const struct iso_job *job, const iso_train_options *options, const iso_simulate_options *simulate,
                 iso_summary *summary, iso_error *e)
{
    return iso_session_run(&simulator, simulate, job, options, summary, e);
}
