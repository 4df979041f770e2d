/* SPDX-License-Identifier: Apache-2.0
 * A test that must fail: CTest expects it to (WILL_FAIL), so a harness that no longer notices failures is itself noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void fails(void **state)
{
    (void)state;
    assert_int_equal(1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
