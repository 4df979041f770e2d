/* SPDX-License-Identifier: Apache-2.0
 * The figures of a run (summary.h). */
#include "cli/summary.h"

#include <math.h>
#include <stdio.h>

#include "cli/output.h"
#include "engine/file/file.h"
#include "engine/run/summary.h"

int cli_summary_read(iso_summary *s, const char *folder, iso_error *e)
{
    iso_bytes bytes = {0};
    char *path = iso_path_join(NULL, folder, "summary.json");
    iso_summary_begin(s);
    int r = path ? iso_file_read(path, ISO_SUMMARY_BYTES_MAX, NULL, &bytes, e)
                 : iso_error_set(e, ISO_E_NOMEM, "out of memory");
    if (!r)
        r = iso_summary_parse(s, (const char *)bytes.bytes, bytes.size, path, NULL, e);
    iso_bytes_release(&bytes);
    iso_free(NULL, path);
    return r;
}

void cli_summary_print(const iso_summary *s, const char *out)
{
    if (isfinite(s->test_accuracy))
        printf("test accuracy   %s (loss %s)\n", cli_fixed(s->test_accuracy, 4), cli_fixed(s->test_loss, 4));
    if (isfinite(s->validation_accuracy))
        printf("validation      %s (loss %s)\n", cli_fixed(s->validation_accuracy, 4),
               cli_fixed(s->validation_loss, 4));
    if (s->best.epoch)
        printf("best            %s/%s: epoch %u, the lowest validation loss (%s, accuracy %s)\n", out, ISO_BEST_NAME,
               s->best.epoch, cli_fixed(s->best.validation_loss, 4), cli_fixed(s->best.validation_accuracy, 4));
    printf("training        %s (loss %s), %u epochs, %s rounds, %s samples\n", cli_fixed(s->train_accuracy, 4),
           cli_fixed(s->train_loss, 4), s->epochs, cli_grouped(s->rounds), cli_grouped(s->samples));
    printf("time            %s, %s samples/s on %u %s", cli_duration(s->seconds),
           cli_grouped(isfinite(s->samples_per_second) ? (uint64_t)s->samples_per_second : 0), s->node_count,
           s->node_count == 1 ? "worker" : "workers");
    if (isfinite(s->efficiency))
        printf(", efficiency %s", cli_fixed(s->efficiency, 3));
    printf("\nweights         sha256 %s\nrun folder      %s\n", s->weights_sha256, out);
}

void cli_summary_json(cli_json *j, const char *key, const iso_summary *s, const char *out)
{
    cli_json_open(j, key, '{');
    if (!key)
        cli_json_text(j, "event", "summary");
    cli_json_text(j, "out", out);
    cli_json_number(j, "train_loss", s->train_loss);
    cli_json_number(j, "train_accuracy", s->train_accuracy);
    cli_json_number(j, "validation_loss", s->validation_loss);
    cli_json_number(j, "validation_accuracy", s->validation_accuracy);
    cli_json_number(j, "test_loss", s->test_loss);
    cli_json_number(j, "test_accuracy", s->test_accuracy);
    if (s->best.epoch) {
        cli_json_open(j, "best", '{');
        cli_json_text(j, "file", ISO_BEST_NAME);
        cli_json_whole(j, "epoch", s->best.epoch);
        cli_json_number(j, "validation_loss", s->best.validation_loss);
        cli_json_number(j, "validation_accuracy", s->best.validation_accuracy);
        cli_json_close(j, '}');
    } else {
        cli_json_text(j, "best", NULL);
    }
    cli_json_whole(j, "epochs", s->epochs);
    cli_json_whole(j, "rounds", s->rounds);
    cli_json_whole(j, "samples", s->samples);
    cli_json_number(j, "seconds", s->seconds);
    cli_json_number(j, "samples_per_second", s->samples_per_second);
    cli_json_number(j, "efficiency", s->efficiency);
    cli_json_whole(j, "bytes_up", s->bytes_up);
    cli_json_whole(j, "bytes_down", s->bytes_down);
    cli_json_text(j, "weights_sha256", s->weights_sha256);
    cli_json_whole(j, "seed", s->seed);
    cli_json_text(j, "engine", s->engine);
    cli_json_text(j, "sync", s->sync);
    cli_json_open(j, "nodes", '[');
    for (uint32_t i = 0; i < s->node_count; i++) {
        const iso_node_summary *n = &s->nodes[i];
        cli_json_open(j, NULL, '{');
        cli_json_text(j, "name", n->name);
        cli_json_number(j, "score", n->score);
        cli_json_number(j, "share", n->share);
        cli_json_whole(j, "samples", n->samples);
        cli_json_number(j, "busy_seconds", n->busy_seconds);
        cli_json_number(j, "idle_seconds", n->idle_seconds);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}
