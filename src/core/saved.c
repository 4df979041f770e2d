/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's state at a round border as bytes, for checkpoints. Byte table (little-endian):
 *    0 u32 magic "ISOS"    4 u16 version         6 u16 flags: 1 evaluated, 2 has a best validation loss, 4 whole epoch
 *    8 u32 incarnation    12 u32 epochs         16 u32 unit           20 u32 nodes that follow
 *   24 u64 round          32 u64 samples        40 u64 batch          48 u64 seed
 *   56 u64 validation     64 u64 test           72 f64 best           80 u64 epoch samples
 *   88 u64 epoch correct  96 i128 epoch loss   112 i64 epoch busy
 *  120 u32 epoch         124 u32 bytes of the bitmap             128 u64 samples settled in the epoch
 *  136 f64 first loss    144 f64 loss          152 f64 peak rate     160 f64 theta
 *  168 u32 rounds        172 u32 steps         176 u32 calibrating   180 u32 zero
 *  184 nodes: u32 id, u32 zero, f64 ns a sample
 *      bitmap: bit i % 8 of byte i / 8 is set when unit i of a partly done epoch counts (whole epoch only)
 *  end u32 crc32c of all before it */
#include "core/coordinator.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

enum {
    SAVED_VERSION = 2,
    FIXED_BYTES = 184,
    NODE_BYTES = 16,
    CRC_BYTES = 4,
    FLAG_EVALUATED = 1,
    FLAG_BEST = 2,
    FLAG_WHOLE = 4
};
static const uint32_t saved_magic = 0x534F5349; /* "ISOS" */

typedef struct saved {
    iso_saved view;
    uint32_t unit, nodes;
    uint64_t validation, test;
    bool has_best;
    double best;
    iso_totals epoch_totals;
    bool whole;
    iso_pace pace;
    uint32_t bitmap_bytes;
    const uint8_t *node; /* nodes * NODE_BYTES */
    const uint8_t *bitmap;
} saved;

static bool partly_done(bool whole, bool evaluated, uint64_t settled)
{
    return whole && evaluated && settled > 0;
}

static size_t bitmap_bytes(uint64_t samples, uint32_t unit)
{
    return ((size_t)iso_units_in(samples, unit) + 7) / 8;
}

static void write_bitmap(iso_writer *w, const iso_coordinator *c, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = 0;
        for (uint32_t bit = 0; bit < 8; bit++) {
            uint32_t unit = (uint32_t)i * 8 + bit;
            byte |= (uint8_t)((unit < c->pool.units && iso_pool_settled(&c->pool, unit)) << bit);
        }
        iso_write_u8(w, byte);
    }
}

static void write_pace(iso_writer *w, const iso_pace *p)
{
    iso_write_f64(w, p->first_loss);
    iso_write_f64(w, p->loss);
    iso_write_f64(w, p->peak_rate);
    iso_write_f64(w, p->theta);
    iso_write_u32(w, p->rounds);
    iso_write_u32(w, p->steps);
    iso_write_u32(w, p->calibrating);
    iso_write_u32(w, 0);
}

static void read_pace(iso_reader *r, iso_pace *p)
{
    p->first_loss = iso_read_f64(r);
    p->loss = iso_read_f64(r);
    p->peak_rate = iso_read_f64(r);
    p->theta = iso_read_f64(r);
    p->rounds = iso_read_u32(r);
    p->steps = iso_read_u32(r);
    p->calibrating = iso_read_u32(r);
    iso_read_u32(r);
}

size_t iso_coordinator_state_max(const iso_core_config *config)
{
    if (iso_core_config_check(config, NULL) != ISO_OK)
        return 0;
    return FIXED_BYTES + (size_t)config->nodes_max * NODE_BYTES + bitmap_bytes(config->samples, config->unit) + CRC_BYTES;
}

size_t iso_coordinator_save(const iso_coordinator *c, void *out, size_t capacity)
{
    const iso_core_config *config = &c->config;
    if ((c->phase == ISO_PHASE_UPDATE && !c->plan.free) || c->phase == ISO_PHASE_FAILED)
        return 0;
    iso_writer w = iso_writer_on(out, capacity);
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < config->nodes_max; i++)
        nodes += c->nodes[i].score.ns > 0;
    iso_write_u32(&w, saved_magic);
    iso_write_u16(&w, SAVED_VERSION);
    iso_write_u16(&w, (uint16_t)((c->evaluated ? FLAG_EVALUATED : 0) | (c->has_best ? FLAG_BEST : 0) |
                                (c->plan.whole_epoch ? FLAG_WHOLE : 0)));
    iso_write_u32(&w, c->incarnation);
    iso_write_u32(&w, config->epochs);
    iso_write_u32(&w, config->unit);
    iso_write_u32(&w, nodes);
    iso_write_u64(&w, c->round);
    iso_write_u64(&w, config->samples);
    iso_write_u64(&w, c->batch);
    iso_write_u64(&w, config->seed);
    iso_write_u64(&w, config->validation);
    iso_write_u64(&w, config->test);
    iso_write_f64(&w, c->best);
    iso_write_u64(&w, c->epoch_totals.samples);
    iso_write_u64(&w, c->epoch_totals.correct);
    iso_write_u64(&w, c->epoch_totals.loss.low);
    iso_write_i64(&w, c->epoch_totals.loss.high);
    iso_write_i64(&w, c->epoch_totals.busy);
    bool partly = partly_done(c->plan.whole_epoch, c->evaluated, c->settled);
    size_t map = partly ? bitmap_bytes(config->samples, config->unit) : 0;
    iso_write_u32(&w, c->epoch);
    iso_write_u32(&w, (uint32_t)map);
    iso_write_u64(&w, c->settled);
    write_pace(&w, &c->pace);
    for (uint32_t i = 0; i < config->nodes_max; i++) {
        if (c->nodes[i].score.ns <= 0)
            continue;
        iso_write_u32(&w, i);
        iso_write_u32(&w, 0);
        iso_write_f64(&w, c->nodes[i].score.ns);
    }
    write_bitmap(&w, c, map);
    size_t bytes = capacity - iso_writer_left(&w);
    iso_write_u32(&w, w.failed ? 0 : iso_crc32c(0, out, bytes));
    return w.failed ? 0 : bytes + CRC_BYTES;
}

static int wrong(iso_error *e, const char *what)
{
    return iso_error_set(e, ISO_E_FORMAT, "coordinator state: %s; the checkpoint is damaged, use an older one", what);
}

static void read_fixed(saved *s, iso_reader *r, unsigned flags)
{
    iso_saved *v = &s->view;
    v->incarnation = iso_read_u32(r);
    v->epochs = iso_read_u32(r);
    s->unit = iso_read_u32(r);
    s->nodes = iso_read_u32(r);
    v->round = iso_read_u64(r);
    v->samples = iso_read_u64(r);
    v->batch = iso_read_u64(r);
    v->seed = iso_read_u64(r);
    s->validation = iso_read_u64(r);
    s->test = iso_read_u64(r);
    s->best = iso_read_f64(r);
    iso_totals_clear(&s->epoch_totals);
    s->epoch_totals.samples = iso_read_u64(r);
    s->epoch_totals.correct = iso_read_u64(r);
    s->epoch_totals.loss.low = iso_read_u64(r);
    s->epoch_totals.loss.high = iso_read_i64(r);
    s->epoch_totals.busy = iso_read_i64(r);
    v->epoch = iso_read_u32(r);
    s->bitmap_bytes = iso_read_u32(r);
    v->cursor = iso_read_u64(r);
    read_pace(r, &s->pace);
    s->whole = (flags & FLAG_WHOLE) != 0;
    v->evaluated = (flags & FLAG_EVALUATED) != 0;
    s->has_best = (flags & FLAG_BEST) != 0;
}

/* Epoch and cursor as they were written. */
static int read_whole(saved *s, iso_error *e)
{
    iso_saved *v = &s->view;
    bool over = v->epoch == v->epochs;
    if (v->epoch > v->epochs || v->cursor > v->samples || (over && (v->cursor > 0 || !v->evaluated)) ||
        (!v->evaluated && v->cursor != v->samples) || (v->evaluated && v->cursor == v->samples) || s->unit == 0 ||
        s->unit > ISO_UNIT_MAX)
        return wrong(e, "its epoch is not one of the run");
    if (s->bitmap_bytes != (partly_done(true, v->evaluated, v->cursor) ? bitmap_bytes(v->samples, s->unit) : 0))
        return wrong(e, "its list of units has the wrong length");
    v->samples_done = v->epoch * v->samples + v->cursor;
    v->finished = over;
    return ISO_OK;
}

/* What follows from round and evaluated. */
static int read_course(saved *s, iso_error *e)
{
    iso_saved *v = &s->view;
    const uint64_t most = (uint64_t)1 << 46;
    if (v->samples == 0 || v->samples > most || v->batch == 0 || v->batch > v->samples || v->epochs == 0 ||
        v->samples > most / v->epochs)
        return wrong(e, "samples, batch or epochs are out of range");
    if (s->whole)
        return read_whole(s, e);
    uint64_t rounds_epoch = iso_epoch_rounds(v->samples, v->batch), in_epoch = v->round % rounds_epoch;
    if (v->round > rounds_epoch * v->epochs || (!v->evaluated && (v->round == 0 || in_epoch != 0)))
        return wrong(e, "its round is not one of the run");
    v->epoch = (uint32_t)(v->round / rounds_epoch - !v->evaluated);
    v->cursor = v->evaluated ? in_epoch * v->batch : v->samples;
    v->samples_done = v->epoch * v->samples + v->cursor;
    v->finished = v->round == rounds_epoch * v->epochs && v->evaluated;
    return ISO_OK;
}

static int read_saved(saved *s, const void *state, size_t bytes, iso_error *e)
{
    memset(s, 0, sizeof *s);
    if (bytes < FIXED_BYTES + CRC_BYTES)
        return wrong(e, "it is cut short");
    iso_reader r = iso_reader_on(state, bytes);
    if (iso_read_u32(&r) != saved_magic)
        return wrong(e, "the magic \"ISOS\" is missing");
    unsigned version = iso_read_u16(&r), flags = iso_read_u16(&r);
    if (version != SAVED_VERSION)
        return iso_error_set(e, ISO_E_FORMAT, "coordinator state: version %u, this program reads version %d", version,
                             SAVED_VERSION);
    if (iso_load_u32((const uint8_t *)state + bytes - CRC_BYTES) != iso_crc32c(0, state, bytes - CRC_BYTES))
        return wrong(e, "the crc32c does not fit");
    read_fixed(s, &r, flags);
    if (flags > (FLAG_EVALUATED | FLAG_BEST | FLAG_WHOLE) || s->nodes > ISO_NODES_MAX ||
        bytes != FIXED_BYTES + (size_t)s->nodes * NODE_BYTES + s->bitmap_bytes + CRC_BYTES)
        return wrong(e, "its length is not what it says");
    s->node = iso_read_bytes(&r, (size_t)s->nodes * NODE_BYTES);
    s->bitmap = iso_read_bytes(&r, s->bitmap_bytes);
    return read_course(s, e);
}

int iso_saved_read(iso_saved *out, const void *state, size_t bytes, iso_error *e)
{
    saved s;
    int status = read_saved(&s, state, bytes, e);
    if (status == ISO_OK)
        *out = s.view;
    return status;
}

static int same(const char *what, uint64_t before, uint64_t now, iso_error *e)
{
    if (before == now)
        return ISO_OK;
    return iso_error_set(e, ISO_E_MISMATCH, "the checkpoint was made with %s %llu, the job has %llu", what,
                         (unsigned long long)before, (unsigned long long)now);
}

/* The epoch's pool with its settled units. False: they are not as many samples as the state says. */
static bool restore_pool(iso_coordinator *c, const saved *s)
{
    uint64_t samples = 0;
    iso_pool_begin(&c->pool, 0, c->config.samples, c->config.unit);
    for (uint32_t i = 0; i < s->bitmap_bytes * 8; i++) {
        if (!(s->bitmap[i / 8] >> i % 8 & 1))
            continue;
        if (i >= c->pool.units)
            return false;
        iso_pool_restore(&c->pool, i);
        samples += iso_pool_samples(&c->pool, &(iso_range){.first = i, .count = 1}, 1);
    }
    return samples == s->view.cursor;
}

int iso_coordinator_resume(iso_coordinator *c, const void *state, size_t bytes, iso_error *e)
{
    saved s;
    if (c->phase != ISO_PHASE_NEW)
        return iso_error_set(e, ISO_E_STATE, "a coordinator can only resume before it has started");
    int status = read_saved(&s, state, bytes, e);
    if (status != ISO_OK)
        return status;
    const iso_core_config *config = &c->config;
    if (same("training samples:", s.view.samples, config->samples, e) || same("batch", s.view.batch, c->batch, e) ||
        same("unit", s.unit, config->unit, e) || same("epochs", s.view.epochs, config->epochs, e) ||
        same("seed", s.view.seed, config->seed, e) ||
        same("validation samples:", s.validation, config->validation, e) ||
        same("test samples:", s.test, config->test, e))
        return ISO_E_MISMATCH;
    if (s.whole != c->plan.whole_epoch)
        return iso_error_set(e, ISO_E_MISMATCH, "the checkpoint was made by another kind of policy");
    if (s.bitmap_bytes > 0 && !restore_pool(c, &s))
        return wrong(e, "its list of units is not that of its samples");
    c->epoch = s.whole ? s.view.epoch : 0;
    c->settled = s.whole ? s.view.cursor : 0;
    c->pace = s.pace;
    c->round = c->saved_round = s.view.round;
    c->evaluated = c->saved_evaluated = s.view.evaluated;
    c->saved_any = c->resumed = true;
    c->has_best = s.has_best;
    c->best = s.best;
    c->epoch_totals = s.epoch_totals;
    if (s.view.incarnation >= c->incarnation)
        c->incarnation = s.view.incarnation + 1;
    for (uint32_t i = 0; i < s.nodes; i++) {
        const uint8_t *at = s.node + (size_t)i * NODE_BYTES;
        uint32_t id = iso_load_u32(at);
        double ns = iso_load_f64(at + 8);
        if (id < config->nodes_max && ns > 0 && ns < 1e18)
            iso_score_hint(&c->nodes[id].score, ns);
    }
    return ISO_OK;
}
