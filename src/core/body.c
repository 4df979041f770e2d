/* SPDX-License-Identifier: Apache-2.0
 * Codecs of the control bodies; byte tables in docs/protocol.md. */
#include "core/body.h"

#include "base/bytes.h"

enum {
    HELLO_BYTES = 36,
    WELCOME_BYTES = 8,
    REFUSE_BYTES = 12,
    RESET_BYTES = 24,
    WORK_BYTES = 40,
    ANSWER_BYTES = 60,
    COLLECT_BYTES = 16,
    PULSE_BYTES = 32,
    NEED_BYTES = 4
};

_Static_assert(WORK_BYTES + 8 * ISO_RANGES_MAX <= ISO_BODY_MAX, "the largest body fits");

static iso_writer writer(iso_frame *f)
{
    return iso_writer_on(f->body, sizeof f->body);
}

static iso_reader reader(const iso_frame *f)
{
    return iso_reader_on(f->body, f->body_bytes);
}

void iso_body_put_hello(iso_frame *f, const body_hello *b)
{
    iso_writer w = writer(f);
    iso_write_u64(&w, b->life);
    iso_write_u64(&w, b->samples);
    iso_write_u64(&w, b->data_digest);
    iso_write_u64(&w, b->job_digest);
    iso_write_u32(&w, b->program);
    f->body_bytes = HELLO_BYTES;
}

bool iso_body_get_hello(const iso_frame *f, body_hello *b)
{
    if (f->body_bytes != HELLO_BYTES)
        return false;
    iso_reader r = reader(f);
    b->life = iso_read_u64(&r);
    b->samples = iso_read_u64(&r);
    b->data_digest = iso_read_u64(&r);
    b->job_digest = iso_read_u64(&r);
    b->program = iso_read_u32(&r);
    return true;
}

void iso_body_put_welcome(iso_frame *f, const body_welcome *b)
{
    iso_store_u64(f->body, b->life);
    f->body_bytes = WELCOME_BYTES;
}

bool iso_body_get_welcome(const iso_frame *f, body_welcome *b)
{
    if (f->body_bytes != WELCOME_BYTES)
        return false;
    b->life = iso_load_u64(f->body);
    return true;
}

void iso_body_put_refuse(iso_frame *f, const body_refuse *b)
{
    iso_store_u64(f->body, b->life);
    iso_store_u32(f->body + 8, b->reason);
    f->body_bytes = REFUSE_BYTES;
}

bool iso_body_get_refuse(const iso_frame *f, body_refuse *b)
{
    if (f->body_bytes != REFUSE_BYTES)
        return false;
    b->life = iso_load_u64(f->body);
    b->reason = iso_load_u32(f->body + 8);
    return true;
}

void iso_body_put_reset(iso_frame *f, const body_reset *b)
{
    iso_writer w = writer(f);
    iso_write_u64(&w, b->life);
    iso_write_u64(&w, b->floor);
    iso_write_u32(&w, b->incarnation);
    iso_write_u32(&w, b->session);
    f->body_bytes = RESET_BYTES;
}

bool iso_body_get_reset(const iso_frame *f, body_reset *b)
{
    if (f->body_bytes != RESET_BYTES)
        return false;
    iso_reader r = reader(f);
    b->life = iso_read_u64(&r);
    b->floor = iso_read_u64(&r);
    b->incarnation = iso_read_u32(&r);
    b->session = iso_read_u32(&r);
    return true;
}

void iso_body_put_work(iso_frame *f, const body_work *b)
{
    iso_writer w = writer(f);
    iso_write_u8(&w, (uint8_t)b->purpose);
    iso_write_u8(&w, (uint8_t)(b->final | b->exact << 1));
    iso_write_u16(&w, (uint16_t)b->range_count);
    iso_write_u32(&w, b->epoch);
    iso_write_u32(&w, b->number);
    iso_write_u32(&w, b->part);
    iso_write_u32(&w, b->unit);
    iso_write_u32(&w, b->pass_units);
    iso_write_u64(&w, b->first);
    iso_write_u64(&w, b->end);
    for (uint32_t i = 0; i < b->range_count; i++) {
        iso_write_u32(&w, b->range[i].first);
        iso_write_u32(&w, b->range[i].count);
    }
    f->body_bytes = WORK_BYTES + 8 * b->range_count;
}

/* Ranges are not empty, ascending, within the pass; the pass has as many units as its positions make. */
static bool work_fits(const body_work *b)
{
    if (b->unit == 0 || b->unit > ISO_UNIT_MAX || b->end <= b->first || b->number == 0)
        return false;
    if (iso_units_in(b->end - b->first, b->unit) != b->pass_units)
        return false;
    uint32_t next = 0;
    for (uint32_t i = 0; i < b->range_count; i++) {
        if (b->range[i].count == 0 || b->range[i].first < next || b->range[i].first >= b->pass_units ||
            b->range[i].count > b->pass_units - b->range[i].first)
            return false;
        next = b->range[i].first + b->range[i].count;
    }
    return b->range_count > 0;
}

bool iso_body_get_work(const iso_frame *f, body_work *b)
{
    if (f->body_bytes < WORK_BYTES)
        return false;
    iso_reader r = reader(f);
    uint8_t purpose = iso_read_u8(&r), flags = iso_read_u8(&r);
    b->range_count = iso_read_u16(&r);
    if (purpose > ISO_PASS_TRAIN || flags > 3 || b->range_count > ISO_RANGES_MAX ||
        f->body_bytes != WORK_BYTES + 8 * b->range_count)
        return false;
    b->purpose = (iso_purpose_of_pass)purpose;
    b->final = flags & 1;
    b->exact = flags >> 1 & 1;
    b->epoch = iso_read_u32(&r);
    b->number = iso_read_u32(&r);
    b->part = iso_read_u32(&r);
    b->unit = iso_read_u32(&r);
    b->pass_units = iso_read_u32(&r);
    b->first = iso_read_u64(&r);
    b->end = iso_read_u64(&r);
    for (uint32_t i = 0; i < b->range_count; i++) {
        b->range[i].first = iso_read_u32(&r);
        b->range[i].count = iso_read_u32(&r);
    }
    return work_fits(b);
}

void iso_body_put_answer(iso_frame *f, const body_answer *b)
{
    iso_writer w = writer(f);
    iso_write_u32(&w, (uint32_t)b->purpose);
    iso_write_u32(&w, b->number);
    iso_write_u32(&w, b->part);
    iso_write_u32(&w, b->units);
    iso_write_u32(&w, (uint32_t)b->totals.bad_layer);
    iso_write_u64(&w, b->totals.samples);
    iso_write_u64(&w, b->totals.correct);
    iso_write_u64(&w, b->totals.loss.low);
    iso_write_i64(&w, b->totals.loss.high);
    iso_write_i64(&w, b->totals.busy);
    f->body_bytes = ANSWER_BYTES;
}

bool iso_body_get_answer(const iso_frame *f, body_answer *b)
{
    if (f->body_bytes != ANSWER_BYTES)
        return false;
    iso_reader r = reader(f);
    uint32_t purpose = iso_read_u32(&r);
    if (purpose > ISO_PASS_TRAIN)
        return false;
    b->purpose = (iso_purpose_of_pass)purpose;
    b->number = iso_read_u32(&r);
    b->part = iso_read_u32(&r);
    b->units = iso_read_u32(&r);
    b->totals.bad_layer = iso_load_i32(iso_read_bytes(&r, 4));
    b->totals.samples = iso_read_u64(&r);
    b->totals.correct = iso_read_u64(&r);
    b->totals.loss.low = iso_read_u64(&r);
    b->totals.loss.high = iso_read_i64(&r);
    b->totals.busy = iso_read_i64(&r);
    return b->totals.busy >= 0 && b->totals.bad_layer >= -1 && b->totals.correct <= b->totals.samples;
}

void iso_body_put_collect(iso_frame *f, const body_collect *b)
{
    iso_writer w = writer(f);
    iso_write_u32(&w, b->number);
    iso_write_u32(&w, b->part);
    iso_write_u32(&w, b->cut);
    iso_write_u32(&w, b->units);
    f->body_bytes = COLLECT_BYTES;
}

bool iso_body_get_collect(const iso_frame *f, body_collect *b)
{
    if (f->body_bytes != COLLECT_BYTES)
        return false;
    iso_reader r = reader(f);
    b->number = iso_read_u32(&r);
    b->part = iso_read_u32(&r);
    uint32_t cut = iso_read_u32(&r);
    b->cut = cut != 0;
    b->units = iso_read_u32(&r);
    return cut <= 1;
}

void iso_body_put_pulse(iso_frame *f, const body_pulse *b)
{
    iso_writer w = writer(f);
    iso_write_u32(&w, b->number);
    iso_write_u32(&w, b->part);
    iso_write_u64(&w, b->samples);
    iso_write_f64(&w, b->figures.norm2);
    iso_write_f64(&w, b->figures.dot);
    f->body_bytes = PULSE_BYTES;
}

bool iso_body_get_pulse(const iso_frame *f, body_pulse *b)
{
    if (f->body_bytes != PULSE_BYTES)
        return false;
    iso_reader r = reader(f);
    b->number = iso_read_u32(&r);
    b->part = iso_read_u32(&r);
    b->samples = iso_read_u64(&r);
    b->figures.norm2 = iso_read_f64(&r);
    b->figures.dot = iso_read_f64(&r);
    /* false for NaN too */
    return b->figures.norm2 >= 0 && b->figures.norm2 < 1e30 && b->figures.dot > -1e30 && b->figures.dot < 1e30;
}

void iso_body_put_need(iso_frame *f, const body_need *b)
{
    iso_store_u32(f->body, b->drifted);
    f->body_bytes = NEED_BYTES;
}

bool iso_body_get_need(const iso_frame *f, body_need *b)
{
    if (f->body_bytes != NEED_BYTES || iso_load_u32(f->body) > 1)
        return false;
    b->drifted = iso_load_u32(f->body) != 0;
    return true;
}
