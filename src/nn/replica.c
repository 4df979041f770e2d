/* SPDX-License-Identifier: Apache-2.0
 * A node's replica: local steps on its own weights, or a gradient sum, and what goes up and comes down.
 *
 * Between rounds own == base, bit for bit, and base is what every replica has. encode changes neither weights nor the error
 * memory: the new error waits in next_error until apply or adopt says that the answer was delivered. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "nn/codec.h"

enum { STATES_MAX = 2, DEFERRED_UNITS = 4 };

struct iso_replica {
    iso_replica_config config;
    const iso_kernels *kernels;
    size_t values, parameters;
    uint32_t states;

    float *base, *own;            /* [P']; GRADIENT: own is where the mean goes on its way to the answer */
    float *published;             /* [P]: base once more, for differences block by block */
    float *state[STATES_MAX];     /* [P'] */
    float *base_state[STATES_MAX];/* carry: as of the round's beginning */
    float *direction;             /* [P'], of any length; NULL without a monitor */
    double length;                /* of direction; 0: there is none */
    iso_narrow *narrow;           /* steps of few samples; then there are no sums and no kept rows */
    int64_t *sum;                 /* [P'], of the samples of the open step (GRADIENT: of the round) */
    float *error, *next_error;    /* [P], room for whole registers; next_error serves as scratch before it is written */
    bool answered;                /* next_error belongs to an answer under way */

    unsigned char *kept;          /* kept_capacity blocks */
    size_t kept_bytes;
    uint32_t pass_unit, kept_capacity, kept_count;
    bool deferred;                /* dense gradients are taken in the step itself */

    uint32_t epoch;
    uint64_t units;               /* bound on the units of a sum */
    uint64_t pending, pending_at; /* samples of the open step, position of its first */
    uint64_t steps, samples;      /* since begin */
    uint64_t made;                /* steps since the optimiser's state was 0 */
    int32_t bad_layer;            /* -1, or where this round's work went wrong */
    bool moved;                   /* own (or the carried state) is no longer the base */
};

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

static bool config_good(const iso_replica_config *c)
{
    bool unit = c->unit >= ISO_LANES && c->unit <= ISO_UNIT_MAX && c->unit % ISO_LANES == 0;
    bool local = c->way == ISO_WAY_LOCAL;
    bool batch = c->local_batch > 0 && unit && (c->local_batch % c->unit == 0 || c->unit % c->local_batch == 0);
    return unit && c->samples > 0 && (local ? batch : !c->carry);
}

/* Blocks of kept rows: a step of a few units is taken from them, a larger one from sums. One more than the step has units: a
 * short unit inside it splits the next one. */
static uint32_t kept_blocks(const iso_replica_config *c)
{
    uint32_t units = c->local_batch / c->unit;
    return c->way != ISO_WAY_LOCAL || units > DEFERRED_UNITS || units <= 1 ? 1 : units + 1;
}

static bool is_narrow(const iso_replica_config *c)
{
    return c->way == ISO_WAY_LOCAL && c->local_batch <= ISO_NARROW_MAX;
}

uint32_t iso_replica_pass_unit(const iso_replica_config *c)
{
    if (is_narrow(c))
        return 0;
    bool small = c->way == ISO_WAY_LOCAL && c->local_batch < c->unit;
    return small ? (uint32_t)iso_round16(c->local_batch) : c->unit;
}

static float *take_floats(iso_arena *a, bool wanted, size_t count)
{
    return wanted ? iso_arena_take_zeroed(a, count, sizeof(float)) : NULL;
}

static iso_replica *carve(const iso_replica_config *c, iso_arena *a)
{
    bool local = c->way == ISO_WAY_LOCAL;
    size_t values = iso_net_values(c->net), parameters = iso_net_parameters(c->net), room = iso_round16(parameters);
    iso_replica r = {.config = *c, .kernels = c->net->kernels, .values = values, .parameters = parameters};
    iso_replica *place = iso_arena_take_zeroed(a, 1, sizeof *place);
    r.states = local ? iso_optimizer_states(c->optimizer) : 0;
    r.base = take_floats(a, true, values);
    r.own = take_floats(a, true, values);
    r.published = take_floats(a, true, parameters);
    r.direction = take_floats(a, c->monitor, values);
    for (uint32_t i = 0; i < r.states; i++) {
        r.state[i] = take_floats(a, true, values);
        r.base_state[i] = take_floats(a, c->carry, values);
    }
    r.error = take_floats(a, true, room);
    r.next_error = take_floats(a, true, room);
    r.pass_unit = iso_replica_pass_unit(c);
    size_t narrow_bytes = is_narrow(c) ? iso_narrow_bytes(c->net, c->local_batch) : 0;
    if (narrow_bytes) {
        void *memory = iso_arena_take(a, narrow_bytes, 1);
        r.narrow = memory ? iso_narrow_init(c->net, c->local_batch, memory) : NULL;
    } else {
        r.sum = iso_arena_take_zeroed(a, values, sizeof *r.sum);
        r.kept_capacity = kept_blocks(c);
        r.kept_bytes = (iso_kept_bytes(c->net, r.pass_unit) + ISO_ALIGN - 1) / ISO_ALIGN * ISO_ALIGN;
        r.kept = iso_arena_take_zeroed(a, r.kept_capacity, r.kept_bytes);
    }
    r.deferred = local && c->local_batch / c->unit <= DEFERRED_UNITS;
    r.units = 1;
    r.bad_layer = -1;
    if (place)
        *place = r;
    return place;
}

size_t iso_replica_bytes(const iso_replica_config *config)
{
    size_t bytes;
    if (!config_good(config))
        return SIZE_MAX;
    iso_arena a = iso_arena_sizing();
    carve(config, &a);
    return iso_arena_size(&a, &bytes) ? bytes : SIZE_MAX;
}

iso_replica *iso_replica_init(const iso_replica_config *config, void *memory)
{
    ISO_ASSERT(config_good(config));
    iso_arena a = iso_arena_on(memory, iso_replica_bytes(config));
    return carve(config, &a);
}

const float *iso_replica_weights(const iso_replica *r)
{
    return r->base;
}

const float *iso_replica_error(const iso_replica *r)
{
    return r->error;
}

uint32_t iso_replica_check(const iso_replica *r)
{
    return iso_values_check(0, r->published, r->parameters);
}

/* ---- rounds ---------------------------------------------------------------------------------------------------------------- */

static void forget_samples(iso_replica *r)
{
    if (r->pending || (r->config.way == ISO_WAY_GRADIENT && r->samples))
        memset(r->sum, 0, r->values * sizeof *r->sum);
    r->pending = r->steps = r->samples = 0;
    r->kept_count = 0;
    r->bad_layer = -1;
    r->answered = false;
}

/* own = base, and the carried state with it. */
static void return_to_base(iso_replica *r)
{
    if (r->config.way == ISO_WAY_LOCAL && r->moved) {
        memcpy(r->own, r->base, r->values * sizeof *r->own);
        for (uint32_t i = 0; r->config.carry && i < r->states; i++)
            memcpy(r->state[i], r->base_state[i], r->values * sizeof(float));
    }
    r->moved = false;
    forget_samples(r);
}

void iso_replica_begin(iso_replica *r, uint32_t epoch, uint64_t units)
{
    return_to_base(r);
    r->epoch = epoch;
    r->units = units ? units : 1;
}

void iso_replica_reset(iso_replica *r)
{
    for (uint32_t i = 0; i < r->states; i++) {
        memset(r->state[i], 0, r->values * sizeof(float));
        if (r->config.carry)
            memset(r->base_state[i], 0, r->values * sizeof(float));
    }
    memset(r->error, 0, r->parameters * sizeof(float));
    memset(r->next_error, 0, r->parameters * sizeof(float));
    if (r->direction)
        memset(r->direction, 0, r->values * sizeof(float));
    r->length = 0;
    r->made = 0;
    return_to_base(r);
}

/* ---- work ------------------------------------------------------------------------------------------------------------------ */

/* The loaded samples against the replica's weights: into the open step. */
static void train(iso_replica *r, iso_pass *pass, const int32_t *labels, iso_unit_result *result)
{
    const iso_replica_config *c = &r->config;
    bool local = c->way == ISO_WAY_LOCAL;
    void *kept = r->kept + (r->deferred ? r->kept_count : 0) * r->kept_bytes;
    iso_pass_train(pass, local ? r->own : r->base, labels, kept, result);
    iso_pass_gradient(pass, kept, !r->deferred, local ? c->local_batch / c->unit + 1 : r->units, r->sum, result);
    r->kept_count++;
}

/* Number of the step whose first sample is at `position`: for Adam. Carried work counts from the run's beginning, wherever it
 * was done. */
static uint64_t step_number(const iso_replica *r, uint64_t position)
{
    const iso_replica_config *c = &r->config;
    if (!c->carry)
        return r->made + 1;
    uint64_t in_epoch = c->samples / c->local_batch + (c->samples % c->local_batch != 0);
    return r->epoch * in_epoch + position / c->local_batch + 1;
}

/* The step of `samples` samples of which the first is at `position`. */
static iso_update update_of(iso_replica *r, uint64_t position, uint64_t samples)
{
    const iso_replica_config *c = &r->config;
    iso_update u = {.optimizer = c->optimizer, .step = step_number(r, position), .samples = samples,
                    .units = c->local_batch / c->unit + 1, .w = r->own, .state = r->state, .unit = r->pass_unit};
    u.rate = iso_schedule_rate(c->schedule, c->optimizer, r->epoch * c->samples + position, samples, c->samples,
                               c->total);
    return u;
}

static void count_step(iso_replica *r)
{
    r->moved = true;
    r->pending = 0;
    r->kept_count = 0;
    r->steps++;
    r->made++;
}

static void make_step(iso_replica *r, int32_t *bad_layer)
{
    const void *kept[DEFERRED_UNITS + 1];
    for (uint32_t i = 0; r->deferred && i < r->kept_count; i++)
        kept[i] = r->kept + i * r->kept_bytes;
    iso_update u = update_of(r, r->pending_at, r->pending);
    u.sum = &r->sum;
    u.sum_count = 1;
    u.kept = kept;
    u.kept_count = r->deferred ? r->kept_count : 0;
    iso_net_update(r->config.net, &u, 0, r->values, bad_layer);
    count_step(r);
}

/* `count` samples of a unit, `last` when they are its last ones. */
static void work_wide(iso_replica *r, iso_pass *pass, const int32_t *labels, uint64_t position, uint32_t count, bool last,
                      iso_unit_result *result)
{
    const iso_replica_config *c = &r->config;
    if (r->pending == 0)
        r->pending_at = position;
    train(r, pass, labels, result);
    if (c->way != ISO_WAY_LOCAL)
        return;
    r->pending += count;
    bool whole = r->pending == c->local_batch || (last && c->local_batch < c->unit);
    if (whole || (r->deferred && r->kept_count == r->kept_capacity)) {
        int32_t bad;
        make_step(r, &bad);
        result->bad_layer = result->bad_layer < 0 ? bad : result->bad_layer;
    }
}

void iso_replica_work(iso_replica *r, iso_pass *pass, uint64_t first, uint32_t n, iso_replica_load load, void *context,
                      iso_unit_result *result)
{
    const iso_replica_config *c = &r->config;
    ISO_ASSERT(n <= c->unit);
    *result = (iso_unit_result){.bad_layer = -1};
    for (uint32_t at = 0, count; at < n && result->bad_layer < 0; at += count) {
        uint64_t room = c->way == ISO_WAY_LOCAL ? c->local_batch - r->pending : n;
        count = room < n - at ? (uint32_t)room : n - at;
        iso_unit_result some;
        const int32_t *labels = load(context, first + at, count, r->narrow ? NULL : pass, r->narrow);
        if (r->narrow) {
            iso_update u = update_of(r, first + at, count);
            iso_narrow_step(r->narrow, labels, &u, &some);
            count_step(r);
        } else {
            work_wide(r, pass, labels, first + at, count, at + count == n, &some);
        }
        r->samples += count;
        result->samples += some.samples;
        result->correct += some.correct;
        result->loss += some.loss;
        result->bad_layer = some.bad_layer;
    }
    r->bad_layer = r->bad_layer < 0 ? result->bad_layer : r->bad_layer;
}

uint64_t iso_replica_pending(const iso_replica *r)
{
    return r->pending;
}

void iso_replica_finish(iso_replica *r, int32_t *bad_layer)
{
    *bad_layer = -1;
    if (r->pending)
        make_step(r, bad_layer);
    r->bad_layer = r->bad_layer < 0 ? *bad_layer : r->bad_layer;
}

uint64_t iso_replica_steps(const iso_replica *r)
{
    return r->steps;
}

uint64_t iso_replica_samples(const iso_replica *r)
{
    return r->samples;
}

void iso_replica_figures(const iso_replica *r, iso_figures *out)
{
    *out = (iso_figures){0, 0};
    r->kernels->distance(r->own, r->base, r->length > 0 ? r->direction : NULL, r->values, &out->norm2, &out->dot);
    out->dot = r->length > 0 ? out->dot / r->length : 0;
}

/* ---- up -------------------------------------------------------------------------------------------------------------------- */

static size_t exact_bytes(const iso_replica *r)
{
    return iso_payload_bytes(ISO_PAYLOAD_EXACT, r->parameters) * (1 + (r->config.carry ? r->states : 0));
}

size_t iso_replica_full_bytes(const iso_replica *r)
{
    return exact_bytes(r);
}

size_t iso_replica_answer_bytes(const iso_replica *r, iso_payload payload)
{
    return r->config.carry ? exact_bytes(r) : iso_payload_bytes(payload, r->parameters);
}

/* Values [begin, begin + n) of what is to be told, zeros behind them; whole: all of it, published. */
static void difference(const iso_replica *r, iso_payload payload, const float *whole, size_t begin, size_t n, float *value)
{
    bool as_it_is = r->config.way == ISO_WAY_GRADIENT || payload == ISO_PAYLOAD_EXACT;
    memcpy(value, whole + begin, n * sizeof *value);
    memset(value + n, 0, (iso_round16(n) - n) * sizeof *value);
    for (size_t i = 0; !as_it_is && i < n; i++)
        value[i] -= r->published[begin + i];
}

static int encode_array(iso_replica *r, iso_payload payload, const float *from, uint8_t *out, iso_error *e)
{
    float *rest = r->next_error;
    iso_net_publish(r->config.net, from, rest);
    for (size_t begin = 0; begin < r->parameters; begin += ISO_BLOCK) {
        float value[ISO_BLOCK];
        size_t n = iso_block_values(r->parameters, begin), bad = 0;
        difference(r, payload, rest, begin, n, value);
        if (r->kernels->pack(payload, out + iso_payload_bytes(payload, begin), n, value, r->error + begin, rest + begin))
            continue;
        while (bad + 1 < n && fabsf(value[bad]) < 0x1p22f)
            bad++;
        return iso_value_error(r->config.net, begin + bad, "the node's answer", e);
    }
    return ISO_OK;
}

int iso_replica_encode(iso_replica *r, iso_payload payload, void *out, size_t count, iso_error *e)
{
    bool local = r->config.way == ISO_WAY_LOCAL;
    if (r->samples == 0)
        return iso_error_set(e, ISO_E_STATE, "an answer is asked for before any sample was worked off");
    if ((unsigned)payload >= ISO_PAYLOADS || (r->config.carry && payload != ISO_PAYLOAD_EXACT))
        return iso_error_set(e, ISO_E_ARGUMENT, "payload %s does not fit a node that %s", iso_payload_name(payload),
                             r->config.carry ? "carries its optimiser's state" : "knows exact, fp32, bf16, int8 and int4");
    if (count != iso_replica_answer_bytes(r, payload))
        return iso_error_set(e, ISO_E_ARGUMENT, "room for %zu bytes where an answer takes %zu", count,
                             iso_replica_answer_bytes(r, payload));
    int32_t bad;
    iso_replica_finish(r, &bad);
    if (r->bad_layer >= 0)
        return iso_error_set(e, ISO_E_NONFINITE, "the node's answer: %s has values that are not finite or too large; lower the "
                             "learning rate", r->config.net->layer[r->bad_layer].name);
    if (!local)
        r->kernels->mean(r->own, r->sum, r->values, 0x1p-40 / (double)r->samples);
    size_t array = iso_payload_bytes(payload, r->parameters);
    int status = encode_array(r, payload, r->own, out, e);
    for (uint32_t i = 0; status == ISO_OK && r->config.carry && i < r->states; i++)
        status = encode_array(r, payload, r->state[i], (uint8_t *)out + (i + 1) * array, e);
    r->answered = status == ISO_OK;
    return status;
}

/* ---- down ------------------------------------------------------------------------------------------------------------------ */

/* The answer under way counts: what it did not say is next time's. */
static void deliver(iso_replica *r)
{
    float *error = r->error;
    if (r->answered) {
        r->error = r->next_error;
        r->next_error = error;
    }
    r->answered = false;
}

/* The new base, and how far it is from the old one; *moved gets the differences. */
static void decode_base(iso_replica *r, iso_payload payload, const uint8_t *bytes, float *moved)
{
    for (size_t begin = 0; begin < r->parameters; begin += ISO_BLOCK) {
        float value[ISO_BLOCK], *base = r->published + begin;
        size_t n = iso_block_values(r->parameters, begin);
        r->kernels->unpack(payload, value, n, bytes + iso_payload_bytes(payload, begin), ISO_DECODED_LIMIT);
        for (size_t i = 0; i < n; i++) {
            float now = payload == ISO_PAYLOAD_EXACT ? value[i] : base[i] + value[i];
            moved[begin + i] = payload == ISO_PAYLOAD_EXACT ? now - base[i] : value[i];
            base[i] = now;
        }
    }
    iso_net_adopt(r->config.net, r->published, r->base);
    if (r->direction) {
        double square = 0, none = 0;
        iso_net_adopt(r->config.net, moved, r->direction);
        r->kernels->distance(r->direction, NULL, NULL, r->values, &square, &none);
        r->length = sqrt(square);
    }
}

static void decode_state(iso_replica *r, uint32_t index, const uint8_t *bytes, float *scratch)
{
    for (size_t begin = 0; begin < r->parameters; begin += ISO_BLOCK) {
        float value[ISO_BLOCK];
        size_t n = iso_block_values(r->parameters, begin);
        r->kernels->unpack(ISO_PAYLOAD_EXACT, value, n, bytes + iso_payload_bytes(ISO_PAYLOAD_EXACT, begin), ISO_DECODED_LIMIT);
        memcpy(scratch + begin, value, n * sizeof *value);
    }
    iso_net_adopt(r->config.net, scratch, r->base_state[index]);
}

/* All is looked at before anything changes. */
static int take_down(iso_replica *r, iso_payload payload, const void *bytes, size_t count, iso_error *e)
{
    size_t array = iso_payload_bytes(payload, r->parameters);
    uint32_t states = r->config.carry && payload == ISO_PAYLOAD_EXACT ? r->states : 0;
    if (states && count != array * (1 + states))
        return iso_error_set(e, ISO_E_PROTOCOL, "weights with their optimiser's state: %zu bytes where %zu are right", count,
                             array * (1 + states));
    for (uint32_t i = 0; i <= states; i++) {
        int status = iso_payload_verify(r->kernels, r->config.net, payload, r->parameters, (const uint8_t *)bytes + i * array,
                                        states ? array : count, ISO_DECODED_LIMIT, i ? "optimiser state" : "weights", e);
        if (status)
            return status;
    }
    deliver(r);
    decode_base(r, payload, bytes, r->next_error);
    for (uint32_t i = 0; i < states; i++)
        decode_state(r, i, (const uint8_t *)bytes + (i + 1) * array, r->next_error);
    r->moved = true; /* own weights and carried state follow the base */
    return_to_base(r);
    return ISO_OK;
}

int iso_replica_adopt(iso_replica *r, const void *bytes, size_t count, iso_error *e)
{
    return take_down(r, ISO_PAYLOAD_EXACT, bytes, count, e);
}

int iso_replica_apply(iso_replica *r, iso_payload payload, const void *bytes, size_t count, iso_error *e)
{
    if (r->config.carry && payload != ISO_PAYLOAD_EXACT)
        return iso_error_set(e, ISO_E_ARGUMENT, "payload %s does not fit a node that carries its optimiser's state",
                             iso_payload_name(payload));
    return take_down(r, payload, bytes, count, e);
}
