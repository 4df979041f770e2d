/* SPDX-License-Identifier: Apache-2.0
 * The table of policies, the text form of their parameters with its messages, and the shares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/policy.h"

static void the_table_is_complete(void **state)
{
    (void)state;
    static const char *const names[] = {"nns", "bsp", "cumulative", "online"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_non_null(iso_policy_find(names[i]));
    assert_null(iso_policy_find("nn"));
    assert_null(iso_policy_find(""));
    assert_null(iso_policy_find(NULL));
    assert_null(iso_policy_at(iso_policy_count()));
    for (uint32_t i = 0; i < iso_policy_count(); i++) {
        uint32_t count;
        const iso_policy *p = iso_policy_at(i);
        assert_ptr_equal(iso_policy_find(iso_policy_name(p)), p);
        assert_true(strlen(iso_policy_summary(p)) > 10 && strlen(iso_policy_summary(p)) < 120);
        assert_true(strlen(iso_policy_source(p)) > 5);
        assert_null(strchr(iso_policy_summary(p), '\n'));
        iso_policy_parameters(p, &count);
        assert_true(count <= ISO_PARAMETERS_MAX);
    }
}

static void batches_are_the_policys(void **state)
{
    (void)state;
    iso_policy_spec s;
    iso_error e;
    assert_int_equal(iso_policy_parse(&s, "nns", &e), ISO_OK);
    assert_true(iso_policy_batch(&s, 100, 32) == 32 && iso_policy_batch(&s, 10, 32) == 10);
    assert_false(iso_policy_ignores_batch(s.policy));
    assert_int_equal(iso_policy_parse(&s, "cumulative", &e), ISO_OK);
    assert_true(iso_policy_batch(&s, 100, 32) == 100 && iso_policy_ignores_batch(s.policy));
    assert_int_equal(iso_policy_parse(&s, "online", &e), ISO_OK);
    assert_true(iso_policy_batch(&s, 100, 32) == 1 && iso_policy_ignores_batch(s.policy));
}

static void wrong_policies_list_the_right_ones(void **state)
{
    (void)state;
    iso_policy_spec s = {.policy = iso_policy_find("bsp")};
    iso_error e;
    static const char *const wrong[] = {"nnss", "", "NNS", ":a=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(iso_policy_parse(&s, wrong[i], &e), ISO_E_ARGUMENT);
        assert_non_null(strstr(e.text, "nns, bsp, lb-bsp, cumulative, online, hmdspt, mixbp"));
    }
    assert_int_equal(iso_policy_parse(&s, "nns:", &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_policy_parse(&s, "nns:chunk=1", &e), ISO_E_ARGUMENT);
    assert_non_null(strstr(e.text, "'nns' has no parameter 'chunk': it takes none"));
    assert_int_equal(iso_policy_parse(&s, "bad\033[31m", &e), ISO_E_ARGUMENT);
    assert_null(strchr(e.text, '\033'));
    assert_ptr_equal(s.policy, iso_policy_find("bsp"));
    assert_int_equal(iso_policy_spec_set(&s, "x", "1", &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_policy_spec_parse(&s, "", &e), ISO_OK);
}

/* A row as later policies will have it: all types of parameters. */
static const char *const payloads[] = {"fp32", "bf16", "int8", "int4", NULL};
static const iso_option options[] = {
    {.name = "payload", .type = ISO_OPTION_CHOICE, .standard = 2, .choices = payloads, .help = "codec"},
    {.name = "local_batch", .type = ISO_OPTION_INT, .standard = 16, .min = 1, .max = 4096, .help = "samples"},
    {.name = "theta", .type = ISO_OPTION_FLOAT, .standard = 1, .min = 0.01, .max = 100, .help = "trigger"},
    {.name = "nesterov", .type = ISO_OPTION_BOOL, .standard = 0, .help = "outer step"},
};
static const iso_policy rich = {.name = "rich", .parameters = options, .parameter_count = 4};

static void parameters_of_every_type_are_parsed(void **state)
{
    (void)state;
    iso_policy_spec s;
    iso_error e;
    iso_policy_spec_default(&s, &rich);
    assert_true(s.value[0] == 2 && s.value[1] == 16 && s.value[2] == 1 && s.value[3] == 0);
    assert_int_equal(iso_policy_spec_parse(&s, "payload=int4:local_batch=8:theta=2.5e-1:nesterov=true", &e), ISO_OK);
    assert_true(s.value[0] == 3 && s.value[1] == 8 && s.value[2] == 0.25 && s.value[3] == 1);
    assert_int_equal(iso_policy_spec_set(&s, "payload", "fp32", &e), ISO_OK);
    assert_true(s.value[0] == 0);
}

static void wrong_parameters_say_what_is_right(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } cases[] = {
        {"payloads=int4", "its parameters are payload, local_batch, theta, nesterov"},
        {"payload=int2", "expected one of fp32, bf16, int8, int4"},
        {"payload=", "expected one of fp32"},
        {"local_batch=0", "expected a whole number from 1 to 4096"},
        {"local_batch=8.5", "expected a whole number from 1 to 4096"},
        {"local_batch=eight", "'eight', expected a whole number"},
        {"theta=1e3", "expected a number from 0.01 to 100"},
        {"theta=nan", "expected a number from 0.01 to 100"},
        {"nesterov=yes", "expected one of false, true"},
        {"payload", "key=value:key=value, found 'payload'"},
        {"theta=1:theta=2", "'theta' is given twice"},
        {"theta=1:", "a ':' at the end"},
        {":theta=1", "found ''"},
        {"=1", "has no parameter ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_policy_spec s, before;
        iso_error e = {0};
        iso_policy_spec_default(&s, &rich);
        before = s;
        assert_int_equal(iso_policy_spec_parse(&s, cases[i].text, &e), ISO_E_ARGUMENT);
        if (!strstr(e.text, cases[i].says))
            print_error("'%s' says: %s\n", cases[i].text, e.text);
        assert_non_null(strstr(e.text, cases[i].says));
        assert_memory_equal(s.value, before.value, sizeof s.value);
    }
}

/* Equal split: what is given out node by node differs by one unit at most and is everything. */
static void equal_shares_are_equal(void **state)
{
    (void)state;
    for (uint32_t units = 1; units <= 40; units++)
        for (uint32_t nodes = 1; nodes <= 12; nodes++) {
            uint32_t left = units, least = UINT32_MAX, most = 0;
            for (uint32_t idle = nodes; idle > 0; idle--) {
                uint32_t share =
                    left > 0 ? iso_share_equal(&(iso_asking){.units = units, .free = left, .idle = idle, .live = nodes})
                             : 0;
                least = share < least ? share : least;
                most = share > most ? share : most;
                left -= share;
            }
            assert_true(left == 0 && most - least <= 1);
        }
    assert_int_equal(iso_share_equal(&(iso_asking){.free = 5, .idle = 1, .holding = 1}), 0);
}

static void guided_shares_follow_speed(void **state)
{
    (void)state;
    iso_asking a = {.units = 64, .free = 64, .live = 4, .idle = 4, .total_speed = 15, .fastest = 8};
    assert_int_equal(iso_share_guided(&a), 1); /* unknown: a probe */
    a.speed = 8;
    assert_int_equal(iso_share_guided(&a), 18); /* 64 * 8/15 / 2, rounded up */
    a.speed = 1;
    assert_int_equal(iso_share_guided(&a), 3);
    a.free = 1;
    a.leased = 3;
    assert_int_equal(iso_share_guided(&a), 0); /* the others do the last unit sooner than this node could */
    a.speed = 8;
    assert_int_equal(iso_share_guided(&a), 1);
    /* a hundred nodes of nearly one speed, as many units: the last one still takes part */
    iso_asking many = {.units = 100,
                       .free = 1,
                       .leased = 99,
                       .live = 100,
                       .idle = 1,
                       .speed = 0.95,
                       .total_speed = 100,
                       .fastest = 1.05};
    assert_int_equal(iso_share_guided(&many), 1);
    iso_asking alone = {.units = 4, .free = 4, .live = 1, .idle = 1, .speed = 2, .total_speed = 2, .fastest = 2};
    assert_int_equal(iso_share_guided(&alone), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_complete),
        cmocka_unit_test(batches_are_the_policys),
        cmocka_unit_test(wrong_policies_list_the_right_ones),
        cmocka_unit_test(parameters_of_every_type_are_parsed),
        cmocka_unit_test(wrong_parameters_say_what_is_right),
        cmocka_unit_test(equal_shares_are_equal),
        cmocka_unit_test(guided_shares_follow_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
