/* SPDX-License-Identifier: Apache-2.0
 * Status names and error texts. The one file of base that formats for the core: nothing here allocates or prints. */
#include "isochron/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *iso_status_name(int status)
{
    switch (status) {
#define NAME_CASE(name, value, text) \
    case value:                      \
        return #name;
        ISO_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    default:
        return "E_UNKNOWN";
    }
}

const char *iso_status_text(int status)
{
    switch (status) {
#define TEXT_CASE(name, value, text) \
    case value:                      \
        return text;
        ISO_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    default:
        return "an unknown status";
    }
}

int iso_error_set(iso_error *e, int code, const char *format, ...)
{
    if (!e)
        return code;
    e->code = code;
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(e->text, sizeof e->text, format, arguments) < 0)
        e->text[0] = '\0';
    va_end(arguments);
    return code;
}

int iso_error_prefix(iso_error *e, const char *format, ...)
{
    if (!e)
        return 0;
    char prefix[sizeof e->text];
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    if (wanted < 0)
        return e->code;
    size_t length = strlen(prefix);
    size_t old = strlen(e->text);
    if (old > sizeof e->text - 1 - length)
        old = sizeof e->text - 1 - length;
    memmove(e->text + length, e->text, old);
    memcpy(e->text, prefix, length);
    e->text[length + old] = '\0';
    return e->code;
}
