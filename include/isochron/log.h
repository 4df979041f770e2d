/* SPDX-License-Identifier: Apache-2.0
 * The library never prints: what it has to say goes to a hook of the caller's. Levels are by how often they can come.
 */
#ifndef ISOCHRON_LOG_H
#define ISOCHRON_LOG_H

#include "isochron/error.h"

typedef enum iso_log_level {
    ISO_LOG_WARNING, /* something a person should act on; the run goes on */
    ISO_LOG_RUN,     /* a few lines a run */
    ISO_LOG_EPOCH,   /* a few lines an epoch */
    ISO_LOG_ROUND    /* a line or more a round */
} iso_log_level;

/* text is one sentence without a newline, valid during the call. Must be safe from any thread that uses the library. */
typedef struct iso_log {
    void (*write)(void *context, iso_log_level level, const char *text);
    void *context;
} iso_log;

/* Formats and writes one line; a NULL log or a NULL write does nothing. Long lines are cut at 1,000 bytes. */
ISO_API void iso_log_line(const iso_log *log, iso_log_level level, const char *format, ...) ISO_PRINTF(3, 4);

#endif
