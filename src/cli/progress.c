/* SPDX-License-Identifier: Apache-2.0
 * The observer of a training (progress.h). Everything here goes to standard error but the JSON lines. */
#include "cli/progress.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/output.h"
#include "cli/signals.h"

#define JSON_SECONDS 0.5  /* between two progress lines */
#define PLAIN_SECONDS 5.0 /* in a pipe: a line at least so often while an epoch runs */

static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0])
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static void clear_bar(cli_progress *p)
{
    if (p->drawn)
        fputs("\r\x1b[K", stderr);
    p->drawn = false;
}

/* The observer's JSON lines; a reader that has gone stops the run at its last round border. */
static void flush_json(cli_progress *p)
{
    int none = 0;
    if (cli_json_flush(&p->json))
        atomic_compare_exchange_strong(&cli_stop, &none, SIGPIPE);
}

static void begin_json(cli_progress *p, const char *event)
{
    cli_json_open(&p->json, NULL, '{');
    cli_json_text(&p->json, "event", event);
}

static void end_json(cli_progress *p)
{
    cli_json_close(&p->json, '}');
    flush_json(p);
}

static void on_begin(void *context, const iso_train_begin *b)
{
    cli_progress *p = context;
    if (p->lines_json) {
        begin_json(p, "begin");
        cli_json_text(&p->json, "out", b->out);
        cli_json_text(&p->json, "sync", b->sync);
        cli_json_text(&p->json, "isa", iso_isa_name(b->isa));
        cli_json_whole(&p->json, "workers", b->workers);
        cli_json_whole(&p->json, "unit", b->unit);
        cli_json_whole(&p->json, "batch", b->batch);
        cli_json_whole(&p->json, "parameters", b->parameters);
        cli_json_whole(&p->json, "train_samples", b->train_samples);
        cli_json_whole(&p->json, "validation_samples", b->validation_samples);
        cli_json_whole(&p->json, "test_samples", b->test_samples);
        cli_json_whole(&p->json, "epochs", b->epochs);
        cli_json_whole(&p->json, "rounds", b->rounds);
        cli_json_whole(&p->json, "seed", b->seed);
        cli_json_whole(&p->json, "resumed_round", b->resumed_round);
        end_json(p);
    }
    if (p->quiet)
        return;
    fprintf(stderr, "%s parameters, %s training samples", cli_grouped(b->parameters), cli_grouped(b->train_samples));
    if (b->validation_samples)
        fprintf(stderr, ", %s for validation", cli_grouped(b->validation_samples));
    fprintf(stderr, ", %s for test; batch %s, %u %s, %s, %s, seed %llu\n", cli_grouped(b->test_samples),
            cli_grouped(b->batch), b->workers, b->workers == 1 ? "worker" : "workers", b->sync, iso_isa_name(b->isa),
            (unsigned long long)b->seed);
    if (b->resumed_round)
        fprintf(stderr, "going on after round %s of %s\n", cli_grouped(b->resumed_round), cli_grouped(b->rounds));
    fprintf(stderr, "run folder %s\n", b->out);
    fflush(stderr);
}

/* "epoch 3/10 [######    ]  42%  loss 0.312  acc 0.8871  80,123/s  0:12 left", cut to the terminal's width. */
static void draw_bar(cli_progress *p, const iso_progress *g)
{
    char head[64], tail[160], bar[256];
    bool wide = cli_error_width() >= 100;
    double done = g->samples_total ? (double)g->samples / (double)g->samples_total : 0;
    snprintf(head, sizeof head, "epoch %u/%u ", g->epoch, g->epochs);
    snprintf(tail, sizeof tail, " %3.0f%%  loss %s  %s %s  %s%s  %s left", 100 * done, cli_fixed(g->loss, 4),
             wide ? "accuracy" : "acc", cli_fixed(g->accuracy, 4),
             cli_grouped(isfinite(g->samples_per_second) ? (uint64_t)g->samples_per_second : 0),
             wide ? " samples/s" : "/s", cli_clock(g->seconds_left));
    int width = cli_error_width() - 1, room = width - (int)strlen(head) - (int)strlen(tail) - 2;
    int cells = room < 6 ? 0 : room > 40 ? 40 : room, full = (int)(done * cells);
    size_t at = 0;
    for (int i = 0; i < cells; i++)
        at += (size_t)snprintf(bar + at, sizeof bar - at, "%s",
                               p->utf8    ? (i < full ? "\u2501" : " ")
                               : i < full ? "="
                                          : " ");
    bar[at] = 0;
    if (cells)
        fprintf(stderr, "\r%s[%s%s%s]%s\x1b[K", head, p->colour ? "\x1b[32m" : "", bar, p->colour ? "\x1b[0m" : "",
                tail);
    else
        fprintf(stderr, "\r%.*s\x1b[K", width > 0 ? width : 0, tail + 1);
    fflush(stderr);
    p->drawn = true;
}

static void on_progress(void *context, const iso_progress *g)
{
    cli_progress *p = context;
    if (p->lines_json) {
        if (g->seconds - p->last_line < JSON_SECONDS && g->seconds > p->last_line)
            return;
        p->last_line = g->seconds;
        begin_json(p, "progress");
        cli_json_whole(&p->json, "round", g->round);
        cli_json_whole(&p->json, "rounds", g->rounds);
        cli_json_whole(&p->json, "epoch", g->epoch);
        cli_json_whole(&p->json, "samples", g->samples);
        cli_json_whole(&p->json, "samples_total", g->samples_total);
        cli_json_number(&p->json, "loss", g->loss);
        cli_json_number(&p->json, "accuracy", g->accuracy);
        cli_json_number(&p->json, "rate", g->rate);
        cli_json_number(&p->json, "samples_per_second", g->samples_per_second);
        cli_json_number(&p->json, "seconds", g->seconds);
        cli_json_number(&p->json, "seconds_left", g->seconds_left);
        end_json(p);
        return;
    }
    if (p->quiet)
        return;
    if (p->terminal) {
        draw_bar(p, g);
        return;
    }
    if (g->seconds - p->last_line < PLAIN_SECONDS)
        return;
    p->last_line = g->seconds;
    fprintf(stderr, "epoch %u/%u  round %s/%s  loss %s  accuracy %s  %s samples/s  %s left\n", g->epoch, g->epochs,
            cli_grouped(g->round), cli_grouped(g->rounds), cli_fixed(g->loss, 4), cli_fixed(g->accuracy, 4),
            cli_grouped(isfinite(g->samples_per_second) ? (uint64_t)g->samples_per_second : 0),
            cli_duration(g->seconds_left));
    fflush(stderr);
}

static void epoch_json(cli_progress *p, const iso_epoch_report *r)
{
    begin_json(p, "epoch");
    cli_json_whole(&p->json, "epoch", r->epoch);
    cli_json_whole(&p->json, "epochs", r->epochs);
    cli_json_whole(&p->json, "round", r->round);
    cli_json_number(&p->json, "train_loss", r->train_loss);
    cli_json_number(&p->json, "train_accuracy", r->train_accuracy);
    cli_json_number(&p->json, "validation_loss", r->validation_loss);
    cli_json_number(&p->json, "validation_accuracy", r->validation_accuracy);
    cli_json_number(&p->json, "test_loss", r->test_loss);
    cli_json_number(&p->json, "test_accuracy", r->test_accuracy);
    cli_json_number(&p->json, "rate", r->rate);
    cli_json_number(&p->json, "seconds", r->seconds);
    cli_json_number(&p->json, "samples_per_second", r->samples_per_second);
    cli_json_bool(&p->json, "best", r->best);
    end_json(p);
}

static void on_epoch(void *context, const iso_epoch_report *r)
{
    cli_progress *p = context;
    p->epoch_seconds += r->seconds;
    if (p->lines_json) {
        epoch_json(p, r);
        return;
    }
    if (p->quiet)
        return;
    clear_bar(p);
    fprintf(stderr, "epoch %*u/%u  loss %s  accuracy %s",
            r->epochs > 99  ? 3
            : r->epochs > 9 ? 2
                            : 1,
            r->epoch, r->epochs, cli_fixed(r->train_loss, 4), cli_fixed(r->train_accuracy, 4));
    if (isfinite(r->validation_accuracy))
        fprintf(stderr, "  validation %s%s", cli_fixed(r->validation_accuracy, 4), r->best ? " (best)" : "");
    if (isfinite(r->test_accuracy))
        fprintf(stderr, "  test %s", cli_fixed(r->test_accuracy, 4));
    fprintf(stderr, "  %s  %s samples/s\n", cli_duration(r->seconds),
            cli_grouped(isfinite(r->samples_per_second) ? (uint64_t)r->samples_per_second : 0));
    fflush(stderr);
    p->last_line = p->epoch_seconds;
}

static void on_message(void *context, iso_message_level level, const char *sentence)
{
    cli_progress *p = context;
    clear_bar(p);
    if (level == ISO_MESSAGE_WARNING)
        cli_warning("%s", sentence);
    else if (!p->quiet)
        fprintf(stderr, "%s\n", sentence);
}

void cli_progress_init(cli_progress *p, bool quiet, bool json)
{
    memset(p, 0, sizeof *p);
    p->observer = (iso_observer){p, on_begin, on_progress, on_epoch, on_message};
    p->quiet = quiet || json;
    p->lines_json = json;
    p->terminal = !p->quiet && cli_error_is_terminal();
    p->colour = cli_error_has_colour();
    p->utf8 = locale_is_utf8();
    cli_json_init(&p->json);
}

void cli_progress_end(cli_progress *p)
{
    clear_bar(p);
    fflush(stderr);
    cli_json_fini(&p->json);
}

unsigned cli_progress_rate(const cli_progress *p)
{
    return p->terminal ? 10 : 1;
}
