/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's side: answers become exact integer sums, sums become the next weights and the bytes that tell them.
 *
 * All arrays are in the published layout, so a slice is a run of blocks of each of them and of the bytes. A lone exact answer is
 * not summed but held as it is, in the place of the sums, until a second one comes or it is assigned. */
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "nn/codec.h"

enum { STATES_MAX = 2, ARRAYS_MAX = STATES_MAX + 3, HELD_MAX = 1 + STATES_MAX };

#define SAMPLES_MAX ((uint64_t)1 << 29) /* of one answer: a value of 24 bits times it is exact in double */

struct iso_merger {
    iso_merger_config config;
    const iso_kernels *kernels;
    size_t parameters;
    uint32_t states, arrays;
    float *array[ARRAYS_MAX];     /* [P] each, room for whole registers: weights first */
    const char *name[ARRAYS_MAX];
    float **state;                /* those of array that are the optimiser's */
    float *weights, *error, *outer;
    int64_t *sum;                 /* [P], room for whole registers; NULL: carry */
    unsigned char *held;          /* the exact answer's bytes; carry: with states; else in the place of sum */
    bool is_held, dirty;          /* the lone answer is held; sums may hold something */
    uint64_t limit, samples;      /* samples begin allowed, and taken */
    uint32_t answers;
};

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

static bool steps_outside(const iso_merger_config *c)
{
    return c->way == ISO_WAY_LOCAL && (c->outer.momentum != 0 || (c->outer.rate != 1 && c->outer.rate != 0));
}

static bool config_good(const iso_merger_config *c)
{
    bool outer = !steps_outside(c) || c->outer.rate > 0;
    return outer && (unsigned)c->down < ISO_PAYLOADS && !(c->carry && (c->way != ISO_WAY_LOCAL || steps_outside(c)));
}

static float *add_array(iso_merger *m, iso_arena *a, const char *name)
{
    float *array = iso_arena_take_zeroed(a, iso_round16(m->parameters), sizeof(float));
    m->array[m->arrays] = array;
    m->name[m->arrays++] = name;
    return array;
}

static iso_merger *carve(const iso_merger_config *c, iso_arena *a)
{
    iso_merger m = {.config = *c, .kernels = c->net->kernels, .parameters = iso_net_parameters(c->net)};
    iso_merger *place = iso_arena_take_zeroed(a, 1, sizeof *place);
    m.weights = add_array(&m, a, "weights");
    m.states = c->carry || c->way == ISO_WAY_GRADIENT ? iso_optimizer_states(c->optimizer) : 0;
    for (uint32_t i = 0; i < m.states; i++)
        add_array(&m, a, iso_optimizer_state_name(c->optimizer, i));
    if (c->down != ISO_PAYLOAD_EXACT && !c->carry)
        m.error = add_array(&m, a, "error");
    if (steps_outside(c) && c->outer.momentum != 0)
        m.outer = add_array(&m, a, "outer");
    if (c->carry) {
        m.held = iso_arena_take(a, (1 + m.states) * m.parameters, sizeof(float));
    } else {
        m.sum = iso_arena_take_zeroed(a, iso_round16(m.parameters), sizeof *m.sum);
        m.held = (unsigned char *)m.sum;
    }
    if (place) {
        *place = m;
        place->state = place->array + 1;
    }
    return place;
}

size_t iso_merger_bytes(const iso_merger_config *config)
{
    size_t bytes;
    if (!config_good(config))
        return SIZE_MAX;
    iso_arena a = iso_arena_sizing();
    carve(config, &a);
    return iso_arena_size(&a, &bytes) ? bytes : SIZE_MAX;
}

iso_merger *iso_merger_init(const iso_merger_config *config, void *memory)
{
    ISO_ASSERT(config_good(config));
    iso_arena a = iso_arena_on(memory, iso_merger_bytes(config));
    return carve(config, &a);
}

uint32_t iso_merger_arrays(const iso_merger *m)
{
    return m->arrays;
}

float *iso_merger_array(iso_merger *m, uint32_t index)
{
    return index < m->arrays ? m->array[index] : NULL;
}

const char *iso_merger_array_name(const iso_merger *m, uint32_t index)
{
    return index < m->arrays ? m->name[index] : NULL;
}

uint32_t iso_merger_check(const iso_merger *m)
{
    return iso_values_check(0, m->weights, m->parameters);
}

/* ---- full weights ---------------------------------------------------------------------------------------------------------- */

static size_t array_bytes(const iso_merger *m)
{
    return iso_payload_bytes(ISO_PAYLOAD_EXACT, m->parameters);
}

size_t iso_merger_full_bytes(const iso_merger *m)
{
    return array_bytes(m) * (1 + (m->config.carry ? m->states : 0));
}

static void put_values(void *out, const float *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        iso_store_f32((uint8_t *)out + 4 * i, value[i]);
}

static void get_values(float *value, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        value[i] = iso_load_f32((const uint8_t *)bytes + 4 * i);
}

void iso_merger_full(const iso_merger *m, void *out)
{
    for (uint32_t i = 0; i <= (m->config.carry ? m->states : 0); i++)
        put_values((uint8_t *)out + i * array_bytes(m), m->array[i], m->parameters);
}

/* ---- answers --------------------------------------------------------------------------------------------------------------- */

void iso_merger_begin(iso_merger *m, uint64_t samples)
{
    if (m->dirty && m->sum)
        memset(m->sum, 0, iso_round16(m->parameters) * sizeof *m->sum);
    m->dirty = m->is_held = false;
    m->limit = samples < (uint64_t)1 << 40 ? samples : (uint64_t)1 << 40;
    m->samples = 0;
    m->answers = 0;
}

/* value[i] -= the present weights, for an exact answer beside others; zeros behind them. False when one is not below limit. */
static bool less_weights(const iso_merger *m, size_t begin, size_t n, float limit, float *value)
{
    bool good = true;
    for (size_t i = 0; i < n; i++) {
        value[i] -= m->weights[begin + i];
        good &= fabsf(value[i]) < limit;
    }
    memset(value + n, 0, (iso_round16(n) - n) * sizeof *value);
    return good;
}

/* Would the differences of these exact weights all be below limit? */
static int verify_difference(const iso_merger *m, const uint8_t *bytes, float limit, iso_error *e)
{
    float value[ISO_BLOCK];
    for (size_t begin = 0; begin < m->parameters; begin += ISO_BLOCK) {
        size_t n = iso_block_values(m->parameters, begin), bad = 0;
        get_values(value, bytes + 4 * begin, n);
        if (less_weights(m, begin, n, limit, value))
            continue;
        while (fabsf(value[bad]) < limit)
            bad++;
        return iso_value_error(m->config.net, begin + bad, "a node's difference", e);
    }
    return ISO_OK;
}

/* The held weights become sums, in place: from the last block on, since sums take twice their room. */
static void release_held(iso_merger *m)
{
    size_t blocks = (m->parameters + ISO_BLOCK - 1) / ISO_BLOCK;
    for (size_t b = blocks; b-- > 0;) {
        float value[ISO_BLOCK];
        size_t begin = b * ISO_BLOCK, n = iso_block_values(m->parameters, begin);
        get_values(value, m->held + 4 * begin, n);
        less_weights(m, begin, n, INFINITY, value);
        memset(m->sum + begin, 0, iso_round16(n) * sizeof *m->sum);
        m->kernels->weigh(m->sum + begin, value, iso_round16(n), (double)m->samples * 0x1p40);
    }
    m->is_held = false;
}

static void add_answer(iso_merger *m, iso_payload payload, const uint8_t *bytes, uint64_t samples)
{
    bool weights = payload == ISO_PAYLOAD_EXACT && m->config.way == ISO_WAY_LOCAL;
    for (size_t begin = 0; begin < m->parameters; begin += ISO_BLOCK) {
        float value[ISO_BLOCK];
        size_t n = iso_block_values(m->parameters, begin);
        m->kernels->unpack(payload, value, n, bytes + iso_payload_bytes(payload, begin), ISO_DECODED_LIMIT);
        if (weights)
            less_weights(m, begin, n, INFINITY, value);
        m->kernels->weigh(m->sum + begin, value, iso_round16(n), (double)samples * 0x1p40);
    }
}

/* Everything that can be wrong, before anything is changed. */
static int verify_answer(const iso_merger *m, iso_payload payload, const uint8_t *bytes, size_t count, uint64_t samples,
                         iso_error *e)
{
    float limit = (float)(0x1p22 / (double)(m->limit ? m->limit : 1));
    bool carry = m->config.carry, weights = payload == ISO_PAYLOAD_EXACT && m->config.way == ISO_WAY_LOCAL;
    if (samples == 0 || samples >= SAMPLES_MAX || samples > m->limit - m->samples)
        return iso_error_set(e, ISO_E_ARGUMENT, "an answer over %llu samples where at most %llu are left",
                             (unsigned long long)samples, (unsigned long long)(m->limit - m->samples));
    if (carry && (payload != ISO_PAYLOAD_EXACT || m->answers > 0))
        return iso_error_set(e, ISO_E_STATE, "an optimiser's state comes with one exact answer; this is %s number %u",
                             iso_payload_name(payload), m->answers + 1);
    if (carry && count != iso_merger_full_bytes(m))
        return iso_error_set(e, ISO_E_PROTOCOL, "a node's answer: %zu bytes where weights and state take %zu", count,
                             iso_merger_full_bytes(m));
    for (uint32_t i = 0; i <= (carry ? m->states : 0); i++) {
        int status = iso_payload_verify(m->kernels, m->config.net, payload, m->parameters, bytes + i * array_bytes(m),
                                        carry ? array_bytes(m) : count, weights ? ISO_DECODED_LIMIT : limit, "a node's answer", e);
        if (status)
            return status;
    }
    bool alone = weights && m->answers == 0 && !steps_outside(&m->config);
    if (m->is_held) {
        int status = verify_difference(m, m->held, limit, e);
        if (status)
            return status;
    }
    return weights && !alone ? verify_difference(m, bytes, limit, e) : ISO_OK;
}

int iso_merger_take(iso_merger *m, iso_payload payload, const void *bytes, size_t count, uint64_t samples, iso_error *e)
{
    int status = verify_answer(m, payload, bytes, count, samples, e);
    if (status)
        return status;
    bool weights = payload == ISO_PAYLOAD_EXACT && m->config.way == ISO_WAY_LOCAL;
    m->dirty = true;
    if (weights && m->answers == 0 && !steps_outside(&m->config)) {
        memcpy(m->held, bytes, count);
        m->is_held = true;
    } else {
        if (m->is_held)
            release_held(m);
        add_answer(m, payload, bytes, samples);
    }
    m->samples += samples;
    m->answers++;
    return ISO_OK;
}

uint64_t iso_merger_samples(const iso_merger *m)
{
    return m->samples;
}

uint32_t iso_merger_answers(const iso_merger *m)
{
    return m->answers;
}

iso_payload iso_merger_down(const iso_merger *m)
{
    return m->is_held ? ISO_PAYLOAD_EXACT : m->config.down;
}

size_t iso_merger_down_bytes(const iso_merger *m)
{
    return m->config.carry ? iso_merger_full_bytes(m) : iso_payload_bytes(iso_merger_down(m), m->parameters);
}

/* ---- the merge ------------------------------------------------------------------------------------------------------------- */

void iso_merger_slice(const iso_merger *m, uint32_t count, uint32_t index, size_t *begin, size_t *end)
{
    uint64_t blocks = (m->parameters + ISO_BLOCK - 1) / ISO_BLOCK;
    *begin = (size_t)(blocks * index / count) * ISO_BLOCK;
    *end = (size_t)(blocks * (index + 1) / count) * ISO_BLOCK;
    *begin = *begin < m->parameters ? *begin : m->parameters;
    *end = *end < m->parameters ? *end : m->parameters;
}

/* The lone exact answer: as it is. */
static void assign(iso_merger *m, size_t begin, size_t end, uint8_t *out)
{
    for (uint32_t i = 0; i <= (m->config.carry ? m->states : 0); i++) {
        size_t at = i * array_bytes(m) + 4 * begin;
        get_values(m->array[i] + begin, m->held + at, end - begin);
        memcpy(out + at, m->held + at, 4 * (end - begin));
    }
}

/* One optimiser step on values [begin, begin + n), at most a block, of w [n], which lie in one tensor. */
static bool step_run(iso_merger *m, const iso_step *s, size_t begin, size_t n, float *w)
{
    float values[ISO_BLOCK], states[STATES_MAX][ISO_BLOCK];
    int64_t sums[ISO_BLOCK], *sum = sums;
    float *state[STATES_MAX] = {states[0], states[1]};
    size_t whole = iso_round16(n), rest = whole - n;
    memcpy(values, w, n * sizeof *values);
    memset(values + n, 0, rest * sizeof *values);
    memcpy(sums, m->sum + begin, n * sizeof *sums);
    memset(sums + n, 0, rest * sizeof *sums);
    for (uint32_t i = 0; i < m->states; i++) {
        memcpy(states[i], m->state[i] + begin, n * sizeof(float));
        memset(states[i] + n, 0, rest * sizeof(float));
    }
    bool good = m->kernels->update(s, whole, values, state, &sum, 1);
    memcpy(w, values, n * sizeof *w);
    for (uint32_t i = 0; i < m->states; i++)
        memcpy(m->state[i] + begin, states[i], n * sizeof(float));
    return good;
}

/* The block's weights after the optimiser's step; tensor by tensor, since biases may not decay. *bad: a layer, or left alone. */
static void step_block(iso_merger *m, const iso_merge_step *step, size_t begin, size_t n, float *value, int32_t *bad)
{
    const iso_net *net = m->config.net;
    memcpy(value, m->weights + begin, n * sizeof *value);
    for (uint32_t t = 0; t < net->tensor_count; t++) {
        const iso_tensor *tensor = &net->tensor[t];
        size_t from = begin > tensor->offset ? begin : tensor->offset;
        size_t end = tensor->offset + tensor->count, to = begin + n < end ? begin + n : end;
        if (from >= to)
            continue;
        iso_step s = iso_step_of(m->config.optimizer, step->rate, step->step, m->samples, tensor->bias);
        if (!step_run(m, &s, from, to - from, value + (from - begin)) && *bad < 0)
            *bad = (int32_t)tensor->layer;
    }
}

/* The block's mean difference, by way of the outer step. */
static void difference_block(iso_merger *m, size_t begin, size_t n, float *value)
{
    float rate = (float)m->config.outer.rate;
    m->kernels->mean(value, m->sum + begin, iso_round16(n), 0x1p-40 / (double)m->samples);
    if (m->outer)
        m->kernels->outer(value, m->outer + begin, iso_round16(n), rate, (float)m->config.outer.momentum);
    else if (steps_outside(&m->config))
        for (size_t i = 0; i < n; i++)
            value[i] *= rate;
}

/* Is every value below 2^22? Else *bad becomes the first one's layer. */
static void look_block(const iso_merger *m, size_t begin, size_t n, const float *value, int32_t *bad)
{
    int good = 1;
    for (size_t i = 0; i < n; i++)
        good &= fabsf(value[i]) < 0x1p22f;
    for (size_t i = 0; !good && i < n && *bad < 0; i++)
        if (!(fabsf(value[i]) < 0x1p22f))
            *bad = iso_layer_of(m->config.net, begin + i);
}

/* The block's new weights, and the bytes that tell them. */
static void merge_block(iso_merger *m, const iso_merge_step *step, size_t begin, size_t n, uint8_t *out, int32_t *bad)
{
    float value[ISO_BLOCK], *w = m->weights + begin;
    iso_payload down = m->config.down;
    bool exact = down == ISO_PAYLOAD_EXACT, gradient = step != NULL;
    uint8_t *at = out + iso_payload_bytes(down, begin);
    memset(value + n, 0, (iso_round16(n) - n) * sizeof *value);
    if (gradient)
        step_block(m, step, begin, n, value, bad);
    else
        difference_block(m, begin, n, value);
    memset(m->sum + begin, 0, iso_round16(n) * sizeof *m->sum);
    if (exact) {
        for (size_t i = 0; i < n; i++)
            w[i] = gradient ? value[i] : w[i] + value[i];
        put_values(at, w, n);
    } else {
        for (size_t i = 0; gradient && i < n; i++)
            value[i] -= w[i];
        if (!m->kernels->pack(down, at, n, value, m->error + begin, m->error + begin))
            look_block(m, begin, n, value, bad); /* what pack could not encode is still there */
        for (size_t i = 0; i < n; i++)
            w[i] += value[i];
    }
    look_block(m, begin, n, w, bad);
}

void iso_merger_merge(iso_merger *m, const iso_merge_step *step, size_t begin, size_t end, void *out, int32_t *bad_layer)
{
    ISO_ASSERT(m->answers > 0 && begin % ISO_BLOCK == 0 && end <= m->parameters);
    ISO_ASSERT((m->config.way == ISO_WAY_GRADIENT) == (step != NULL));
    *bad_layer = -1;
    if (m->is_held) {
        assign(m, begin, end, out);
        return;
    }
    for (size_t at = begin; at < end; at += ISO_BLOCK)
        merge_block(m, step, at, iso_block_values(m->parameters, at), out, bad_layer);
}

void iso_merger_end(iso_merger *m)
{
    m->samples = m->limit = 0;
    m->answers = 0;
    if (!m->is_held)
        m->dirty = false;
    m->is_held = false;
}
