/* SPDX-License-Identifier: Apache-2.0
 * Formats one line for the caller's log hook. */
#include "isochron/log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void iso_log_line(const iso_log *log, iso_log_level level, const char *format, ...)
{
    if (!log || !log->write)
        return;
    char line[1000];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= 0)
        log->write(log->context, level, line);
}
