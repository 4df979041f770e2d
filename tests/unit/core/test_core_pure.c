/* SPDX-License-Identifier: Apache-2.0
 * The core is pure: its object files ask for no memory, clock, random number, file, thread, printing or exit. `nm`
 * lists what they ask for; a list without what the core does need would mean that nothing was looked at. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const forbidden[] = {
    "malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "time", "clock", "clock_gettime",
    "gettimeofday", "nanosleep", "rand", "srand", "random", "getrandom", "printf", "fprintf", "sprintf", "snprintf",
    "vsnprintf", "puts", "putchar", "fputs", "fwrite", "open", "fopen", "read", "write", "close", "getenv", "setlocale",
    "exit", "abort", "system", "iso_new", "iso_new_raw", "iso_free", "iso_alloc_default"};
static const char *const prefixes[] = {"pthread_", "__printf", "__fprintf", "__sprintf", "__snprintf", "socket", "std"};

static bool is_forbidden(const char *symbol)
{
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (strcmp(symbol, forbidden[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(symbol, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void the_core_asks_for_nothing_impure(void **state)
{
    (void)state;
    char command[1024], line[512];
    int symbols = 0, needed = 0, bad = 0;
    snprintf(command, sizeof command, "find '%s' -path '*iso_core.dir*' -name '*.o' -exec nm -u {} +", ISO_BUILD_DIR);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    while (fgets(line, sizeof line, out)) {
        char symbol[256];
        if (sscanf(line, " U %255s", symbol) != 1)
            continue;
        symbols++;
        needed += strcmp(symbol, "iso_schedule_rate") == 0 || strcmp(symbol, "iso_crc32c") == 0;
        if (is_forbidden(symbol)) {
            print_error("src/core asks for %s\n", symbol);
            bad++;
        }
    }
    assert_int_equal(pclose(out), 0);
    assert_true(symbols > 20 && needed >= 2);
    assert_int_equal(bad, 0);
}

/* The canary: the same look would see these. */
static void the_list_catches_what_it_should(void **state)
{
    (void)state;
    static const char *const caught[] = {
        "malloc", "free", "time", "clock_gettime", "rand", "printf", "pthread_mutex_lock", "open", "stderr"};
    for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
        assert_true(is_forbidden(caught[i]));
    assert_false(is_forbidden("memcpy"));
    assert_false(is_forbidden("iso_error_set"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_core_asks_for_nothing_impure),
        cmocka_unit_test(the_list_catches_what_it_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
