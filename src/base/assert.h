/* SPDX-License-Identifier: Apache-2.0
 * Broken invariants (never bad input: that is an error code). On in all builds. What happens then is the host's choice:
 * iso_assert_set_handler in isochron/error.h. */
#ifndef ISO_BASE_ASSERT_H
#define ISO_BASE_ASSERT_H

#include "isochron/error.h"

/* Calls the handler, then aborts. */
_Noreturn void iso_assert_failed(const char *condition, const char *file, int line);

#define ISO_ASSERT(condition) ((condition) ? (void)0 : iso_assert_failed(#condition, __FILE__, __LINE__))

#endif
