/* SPDX-License-Identifier: Apache-2.0
 * What a run tells: the observer's calls, lines of metrics.jsonl and events.jsonl. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "engine/local/bell.h"
#include "engine/run/audit.h"
#include "engine/run/session.h"

void iso_tell(const iso_session *s, iso_message_level level, const char *format, ...)
{
    const iso_observer *o = s->options->observer;
    if (!o || !o->message)
        return;
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    o->message(o->context, level, text);
}

void iso_tell_begin(iso_session *s)
{
    const iso_observer *o = s->options->observer;
    s->progress = (iso_progress){.round = s->resumed_round,
                                 .rounds = s->rounds_in_epoch * s->job->epochs,
                                 .epoch = (s->resumed_round ? s->snapshot.epoch : 0) + 1,
                                 .epochs = s->job->epochs,
                                 .samples = s->total.samples,
                                 .samples_total = s->training_part.count * s->job->epochs,
                                 .loss = NAN,
                                 .accuracy = NAN,
                                 .rate = NAN,
                                 .samples_per_second = NAN,
                                 .seconds_left = NAN};
    if (!o || !o->begin)
        return;
    o->begin(o->context, &(iso_train_begin){.out = s->run.path,
                                            .sync = iso_policy_name(s->policy.policy),
                                            .isa = iso_net_isa(s->net),
                                            .workers = s->workers,
                                            .unit = s->unit,
                                            .batch = s->batch,
                                            .parameters = iso_net_parameters(s->net),
                                            .train_samples = s->training_part.count,
                                            .validation_samples = s->feed.view[ISO_FEED_VALIDATION].count,
                                            .test_samples = s->feed.view[ISO_FEED_TEST].count,
                                            .epochs = s->job->epochs,
                                            .rounds = s->progress.rounds,
                                            .seed = s->job->seed,
                                            .resumed_round = s->resumed_round});
}

/* ---- progress ------------------------------------------------------------------------------------------ */

/* Samples a second over about the last two seconds: from the oldest point that is young enough. */
static void measure_speed(iso_session *s, int64_t now)
{
    const int64_t span = 2000000000;
    uint64_t samples = s->progress.samples;
    uint32_t kept = s->points < ISO_SPEED_POINTS ? s->points : ISO_SPEED_POINTS;
    for (uint32_t i = s->points - kept; i < s->points; i++) {
        int64_t at = s->point[i % ISO_SPEED_POINTS].at;
        if (now - at > span && i + 1 < s->points)
            continue;
        if (now > at)
            s->progress.samples_per_second =
                (double)(samples - s->point[i % ISO_SPEED_POINTS].samples) * 1e9 / (double)(now - at);
        break;
    }
    s->point[s->points % ISO_SPEED_POINTS].at = now;
    s->point[s->points++ % ISO_SPEED_POINTS].samples = samples;
}

void iso_tell_progress(iso_session *s, bool now_wanted)
{
    const iso_observer *o = s->options->observer;
    int64_t clock = iso_clock_ns(), now = iso_session_now(s);
    uint32_t rate = s->options->progress_per_second ? s->options->progress_per_second : 10;
    if (!now_wanted && clock - s->told_at < 1000000000 / (int64_t)rate)
        return;
    s->told_at = clock;
    measure_speed(s, now);
    iso_progress *p = &s->progress;
    p->seconds = (double)(now - s->begun_at) * 1e-9;
    p->seconds_left =
        p->samples_per_second > 0 ? (double)(p->samples_total - p->samples) / p->samples_per_second : NAN;
    if (o && o->progress)
        o->progress(o->context, p);
}

void iso_tell_round(iso_session *s, const iso_note *n)
{
    const iso_round_result *r = &n->round;
    iso_progress *p = &s->progress;
    int64_t ns = r->ended - r->started;
    p->round = r->round;
    p->epoch = r->epoch + 1;
    p->samples = r->samples_done;
    p->rate = r->rate;
    if (r->epoch_totals.samples) {
        p->loss = iso_wide_loss(r->epoch_totals.loss) / (double)r->epoch_totals.samples;
        p->accuracy = (double)r->epoch_totals.correct / (double)r->epoch_totals.samples;
    }
    s->training_ns += ns;
    s->samples += r->totals.samples;
    s->total.rounds = r->round;
    s->total.samples = r->samples_done;
    for (uint32_t i = 0; i < s->workers; i++) {
        iso_node_summary *t = &s->total.nodes[s->node[i]];
        t->samples += n->node[i].samples;
        t->busy_seconds += (double)n->node[i].busy_ns * 1e-9;
        t->idle_seconds += (double)n->node[i].idle_ns * 1e-9;
        t->score = n->node[i].score > 0 ? n->node[i].score : t->score;
    }
    iso_round_record line = {.round = r->round,
                             .epoch = r->epoch + 1,
                             .samples = r->totals.samples,
                             .correct = r->totals.correct,
                             .loss =
                                 r->totals.samples ? iso_wide_loss(r->totals.loss) / (double)r->totals.samples : NAN,
                             .rate = r->rate,
                             .ns = ns,
                             .bytes_up = n->bytes_up,
                             .bytes_down = n->bytes_down,
                             .sent_up = n->sent_up,
                             .sent_down = n->sent_down,
                             .steps = r->steps,
                             .variance = r->variance,
                             .theta = r->theta,
                             .probe_accuracy = n->probe};
    s->total.bytes_up += n->bytes_up;
    s->total.bytes_down += n->bytes_down;
    s->total.sent_up += n->sent_up;
    s->total.sent_down += n->sent_down;
    iso_metrics_line(&s->metrics_text, &s->metrics_trail, &line, n->node, s->name, s->workers);
}

/* ---- events -------------------------------------------------------------------------------------------- */

void iso_tell_event(iso_session *s, const char *event, int64_t at, uint64_t round, const char *more)
{
    iso_buffer *b = &s->events_text;
    iso_buffer_format(b, "{\"event\":\"%s\",\"seconds\":", event);
    iso_buffer_number(b, at > s->begun_at ? (double)((at - s->begun_at) / 1000) * 1e-6 : 0);
    iso_buffer_format(b, ",\"round\":%" PRIu64 "%s", round, more);
    iso_trail_end(&s->events_trail, b);
}

/* ,"KEY":VALUE or null; returns the new end. */
static char *more_number(char *at, const char *end, const char *key, double value)
{
    char digits[ISO_NUMBER_TEXT];
    if (isfinite(value))
        iso_print_double(digits, value);
    else
        snprintf(digits, sizeof digits, "null");
    int n = snprintf(at, (size_t)(end - at), ",\"%s\":%s", key, digits);
    return n > 0 && n < end - at ? at + n : at;
}

static double mean_loss(const iso_totals *t)
{
    return t->samples ? iso_wide_loss(t->loss) / (double)t->samples : NAN;
}

static double share_correct(const iso_totals *t)
{
    return t->samples ? (double)t->correct / (double)t->samples : NAN;
}

void iso_tell_epoch(iso_session *s, const iso_note *n)
{
    const iso_epoch_result *r = &n->epoch;
    iso_epoch_report report = {.epoch = r->epoch + 1,
                               .epochs = s->job->epochs,
                               .round = r->round,
                               .train_loss = mean_loss(&r->train),
                               .train_accuracy = share_correct(&r->train),
                               .validation_loss = mean_loss(&r->validation),
                               .validation_accuracy = share_correct(&r->validation),
                               .test_loss = mean_loss(&r->test),
                               .test_accuracy = share_correct(&r->test),
                               .rate = s->progress.rate,
                               .seconds = (double)(n->at - s->epoch_begun_at) * 1e-9,
                               .best = r->best};
    if (s->engine->has_model && !s->engine->has_model(s)) /* time alone has passed: there is nothing to be right or wrong */
        report.train_loss = report.train_accuracy = report.validation_loss = report.validation_accuracy = report.test_loss =
            report.test_accuracy = NAN;
    report.samples_per_second = report.seconds > 0 ? (double)r->train.samples / report.seconds : NAN;
    s->epoch_begun_at = n->at;
    iso_summary *t = &s->total;
    t->epochs = report.epoch;
    t->train_loss = report.train_loss;
    t->train_accuracy = report.train_accuracy;
    t->validation_loss = report.validation_loss;
    t->validation_accuracy = report.validation_accuracy;
    t->test_loss = report.test_loss;
    t->test_accuracy = report.test_accuracy;
    if (report.best)
        t->best = (iso_best_epoch){report.epoch, report.validation_loss, report.validation_accuracy};

    char more[600], *at = more;
    const char *end = more + sizeof more;
    at += snprintf(at, sizeof more, ",\"epoch\":%" PRIu32, report.epoch);
    at = more_number(at, end, "train_loss", report.train_loss);
    at = more_number(at, end, "train_accuracy", report.train_accuracy);
    at = more_number(at, end, "validation_loss", report.validation_loss);
    at = more_number(at, end, "validation_accuracy", report.validation_accuracy);
    at = more_number(at, end, "test_loss", report.test_loss);
    at = more_number(at, end, "test_accuracy", report.test_accuracy);
    snprintf(at, (size_t)(end - at), ",\"best\":%s", report.best ? "true" : "false");
    iso_tell_event(s, "epoch", n->at, r->round, more);
    const iso_observer *o = s->options->observer;
    if (o && o->epoch)
        o->epoch(o->context, &report);
}

/* What a person should hear of at once. */
static void record_message(iso_session *s, const iso_record *r)
{
    const char *name = r->node == ISO_COORDINATOR || r->node >= s->workers ? "" : iso_session_node(s, r->node);
    switch (r->kind) {
    case ISO_RECORD_DEAD:
        iso_tell(s, ISO_MESSAGE_WARNING,
                 "%s did not answer in time in round %" PRIu64 ": the others do its work until it is back", name,
                 r->round + 1);
        break;
    case ISO_RECORD_LOST:
        iso_tell(s, ISO_MESSAGE_WARNING, "%s is lost in round %" PRIu64 ": the others do its work", name, r->round + 1);
        break;
    case ISO_RECORD_LEAVE: /* in threads: other programs take its core */
        iso_tell(s, ISO_MESSAGE_INFO, "%s leaves for a while: the others do its work", name);
        break;
    case ISO_RECORD_RETURN:
        iso_tell(s, ISO_MESSAGE_INFO, "%s is back", name);
        break;
    case ISO_RECORD_WAITING:
        iso_tell(s, ISO_MESSAGE_WARNING, "no worker answers: waiting for one to come back");
        break;
    case ISO_RECORD_REFUSED:
        iso_tell(s, ISO_MESSAGE_WARNING, "%s was refused: %s", name, iso_refusal_text(r->reason));
        break;
    default:
        break;
    }
}

void iso_tell_counted(iso_session *s, const iso_note *n)
{
    iso_record r = n->record;
    r.range = iso_note_ranges(n);
    if (n->more || s->ranges.size) {
        if (!iso_buffer_put(&s->ranges, r.range, r.range_count * sizeof *r.range)) {
            s->events_text.failed = true; /* told when it is written */
            return;
        }
        r.range = (const iso_range *)(const void *)s->ranges.bytes;
        r.range_count = (uint32_t)(s->ranges.size / sizeof *r.range);
    }
    if (n->more)
        return;
    iso_audit_line(&s->events_text, &r, s->name[r.node]);
    iso_buffer_clear(&s->ranges);
}

void iso_tell_record(iso_session *s, const iso_record *r, int64_t at)
{
    char more[240];
    int n = snprintf(more, sizeof more, ",\"epoch\":%" PRIu32, r->epoch + 1);
    if (r->node < s->workers && n > 0)
        n += snprintf(more + n, sizeof more - (size_t)n, ",\"node\":%s", s->name[r->node]);
    if (r->kind == ISO_RECORD_REVOKE && n > 0)
        n += snprintf(more + n, sizeof more - (size_t)n, ",\"units\":%" PRIu64, r->units);
    if (r->reason && n > 0)
        snprintf(more + n, sizeof more - (size_t)n, ",\"reason\":%" PRIu32, r->reason);
    iso_tell_event(s, r->kind == ISO_RECORD_EPOCH ? "epoch_begin" : iso_record_name(r->kind), at, r->round, more);
    record_message(s, r);
}
