/* SPDX-License-Identifier: Apache-2.0
 * The hook behind ISO_ASSERT. */
#include "base/assert.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static _Atomic(iso_assert_handler) installed;

iso_assert_handler iso_assert_set_handler(iso_assert_handler handler)
{
    return atomic_exchange(&installed, handler);
}

void iso_assert_failed(const char *condition, const char *file, int line)
{
    iso_assert_handler handler = atomic_load(&installed);
    if (handler)
        handler(condition, file, line);
    else
        fprintf(stderr, "isochron: %s:%d: broken invariant: %s\n", file, line, condition);
    abort();
}
