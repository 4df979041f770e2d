/* SPDX-License-Identifier: Apache-2.0
 * Broken invariants (never bad input: that is an error code). On in all builds. The handler is a hook: the default one
 * writes one line to standard error and aborts; a host that must not die (a JVM) installs its own, which may not return
 * to the caller (it leaves by longjmp) or, if it does return, the process aborts. */
#ifndef ISO_BASE_ASSERT_H
#define ISO_BASE_ASSERT_H

#include "isochron/error.h"

typedef void (*iso_assert_handler)(const char *condition, const char *file, int line);

/* Installs a handler, NULL for the default; returns the one before. Thread: any. */
ISO_API iso_assert_handler iso_assert_set_handler(iso_assert_handler handler);

/* Calls the handler, then aborts. */
ISO_API _Noreturn void iso_assert_failed(const char *condition, const char *file, int line);

#define ISO_ASSERT(condition) ((condition) ? (void)0 : iso_assert_failed(#condition, __FILE__, __LINE__))

#endif
