/* SPDX-License-Identifier: Apache-2.0
 * Output and its failures (output.h). */
#include "cli/output.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

static int output_errno; /* of the first failed write to standard output */

/* Why an earlier write failed, when stdio has not kept the reason: a reader that has gone shows on the descriptor. */
static int lost_reason(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && out.revents & (POLLERR | POLLHUP) ? EPIPE : EIO;
}

int cli_output_flush(void)
{
    bool failed = ferror(stdout);
    errno = 0;
    if (fflush(stdout) || failed) {
        if (!output_errno)
            output_errno = errno ? errno : lost_reason();
        clearerr(stdout);
    }
    return output_errno ? ISO_E_IO : ISO_OK;
}

int cli_output_end(int status)
{
    if (!cli_output_flush())
        return status;
    if (output_errno == EPIPE)
        return status ? status : 128 + SIGPIPE;
    cli_error("standard output: %s", strerror(output_errno));
    return status ? status : 1;
}

bool cli_error_is_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && term[0] && strcmp(term, "dumb");
}

bool cli_error_has_colour(void)
{
    const char *none = getenv("NO_COLOR");
    return cli_error_is_terminal() && !(none && none[0]);
}

int cli_error_width(void)
{
    struct winsize size;
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col)
        return size.ws_col;
    return 80;
}

static void message(const char *before, const char *format, va_list list)
{
    fputs(before, stderr);
    vfprintf(stderr, format, list);
    fputs("\n", stderr);
    fflush(stderr);
}

void cli_error(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    message(cli_error_has_colour() ? "\x1b[31misochron:\x1b[0m " : "isochron: ", format, list);
    va_end(list);
}

void cli_warning(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    message(cli_error_has_colour() ? "\x1b[33mwarning:\x1b[0m " : "warning: ", format, list);
    va_end(list);
}

/* Does the sentence begin with FILE:LINE:COLUMN: ? Editors jump there, so nothing may stand before it. */
static bool has_place(const char *text)
{
    unsigned line, column;
    char after;
    for (const char *c = text; (c = strchr(c, ':')); c++)
        if (sscanf(c, ":%u:%u:%c", &line, &column, &after) == 3 && after == ' ')
            return true;
    return false;
}

int cli_failed(int code, const iso_error *e)
{
    const char *text = e && e->text[0] ? e->text : iso_status_text(code);
    if (!code)
        return 0;
    if (has_place(text)) {
        fprintf(stderr, "%s\n", text);
        fflush(stderr);
    } else {
        cli_error("%s", text);
    }
    return code == ISO_E_JOB || code == ISO_E_ARGUMENT ? 2 : 1;
}

int cli_job_failed(int code, const iso_error *e)
{
    int status = cli_failed(code, e);
    return code == ISO_E_SHAPE ? 2 : status;
}

void cli_put_text(const char *text, int indent)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\n')
            printf("\n%*s", indent, "");
        else
            putchar((unsigned char)*c < 32 || *c == 127 ? '?' : *c);
    }
}

static char *slot(void)
{
    static char text[8][48];
    static unsigned next;
    return text[next++ % 8];
}

const char *cli_grouped(uint64_t number)
{
    char digits[24], *out = slot();
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

const char *cli_bytes(double bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    unsigned u = 0;
    for (; bytes >= 1024 && u < 5; u++)
        bytes /= 1024;
    char *out = slot(), number[ISO_NUMBER_TEXT];
    iso_print_fixed(number, bytes, u ? 1 : 0);
    snprintf(out, 48, "%s %s", number, unit[u]);
    return out;
}

const char *cli_clock(double seconds)
{
    char *out = slot();
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9)
        return strcpy(out, "-");
    unsigned long whole = (unsigned long)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(out, 48, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(out, 48, "%lu:%02lu", whole / 60, whole % 60);
    return out;
}

const char *cli_duration(double seconds)
{
    char number[ISO_NUMBER_TEXT];
    if (!(seconds >= 0 && seconds < 59.95))
        return cli_clock(seconds);
    char *out = slot();
    iso_print_fixed(number, seconds, seconds < 10 ? 2 : 1);
    snprintf(out, 48, "%s s", number);
    return out;
}

const char *cli_fixed(double value, int digits)
{
    char *out = slot(), number[ISO_NUMBER_TEXT];
    if (!isfinite(value))
        return strcpy(out, "-");
    if (fabs(value) >= 1e15)
        iso_print_double(number, value);
    else
        iso_print_fixed(number, value, digits);
    return strcpy(out, number);
}
