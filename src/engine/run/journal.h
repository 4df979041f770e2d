/* SPDX-License-Identifier: Apache-2.0
 * metrics.jsonl and events.jsonl: one JSON object a line.
 *
 * A round of a small network takes less than half a millisecond, so a line must cost little: records are plain
 * structs that the round's thread fills, and another thread turns them into text, with integer arithmetic and without
 * allocation.
 *
 * The trail: a line may end in ,"check":"0a1b2c3d"} which is the crc32c of the run's mark and of all that stands in the
 * file before this key. So a line that was changed, lost, doubled, moved or taken from another run is found at the next
 * check behind it. metrics.jsonl has one in each line, events.jsonl in each but the many of `counted`.
 * Place: engine. Thread: one at a time. */
#ifndef ISO_ENGINE_RUN_JOURNAL_H
#define ISO_ENGINE_RUN_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "engine/run/folder.h"

typedef struct iso_trail {
    uint32_t crc;
    size_t at; /* writing: bytes of the text not yet written that are in crc */
} iso_trail;

/* kept: what stands in the file already. */
void iso_trail_begin(iso_trail *t, const char *mark, const void *kept, size_t size);
/* Ends the line being written to b: a check, a brace, a newline. */
void iso_trail_end(iso_trail *t, iso_buffer *b);
/* All of b is in: it may be written and cleared. */
void iso_trail_take(iso_trail *t, const iso_buffer *b);

typedef enum iso_trail_state { ISO_TRAIL_NONE, ISO_TRAIL_GOOD, ISO_TRAIL_BROKEN } iso_trail_state;

/* Reads the next line, without its newline: has it a check, and does it fit? A broken trail goes on from the check that
 * was found, so that each break is told once. */
iso_trail_state iso_trail_follow(iso_trail *t, const char *line, size_t size);

/* What one node did in one round. state: a static word, "working", "lost", ... */
typedef struct iso_node_record {
    uint64_t samples;
    int64_t busy_ns, idle_ns;
    double score; /* samples a second; 0 while unknown: written as null */
    const char *state;
} iso_node_record;

/* One finished round. samples, loss, accuracy, seconds and bytes are this round's own. */
typedef struct iso_round_record {
    uint64_t round; /* from 1 */
    uint32_t epoch; /* from 1 */
    uint64_t samples, correct;
    double loss; /* mean over the samples */
    double rate; /* learning rate of the step */
    int64_t ns;
    uint64_t bytes_up, bytes_down; /* as a wire counts them: exact sums as fp32 */
    uint64_t sent_up, sent_down;   /* bytes really sent; no keys when none were */
    uint32_t steps;                /* of the fastest node, rounds of local steps alone; 0: no key */
    double variance, theta;        /* of their monitor; theta 0: no keys */
    double probe_accuracy; /* on the test set after this round, off the clock; not above 0: none was made, and no key */
} iso_round_record;

/* Appends the line of a round, with its check. name[i] is node i's name as JSON text with its quotes. */
void iso_metrics_line(iso_buffer *b, iso_trail *t, const iso_round_record *r, const iso_node_record *node,
                      const char (*name)[ISO_NODE_NAME_MAX], uint32_t count);

/* Bytes of the lines up to and with the one whose "round" is `round` (0: none); what a kill left behind them is not
 * counted. *complete: the line of `round` is there and each line before it has the round after its predecessor's. */
uint64_t iso_metrics_upto(const char *text, size_t size, uint64_t round, bool *complete);

/* Bytes of the whole lines. */
uint64_t iso_lines_whole(const char *text, size_t size);

#endif
