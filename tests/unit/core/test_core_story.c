/* SPDX-License-Identifier: Apache-2.0
 * Golden stories: what happens, line by line, in a calm round, when a node dies in its work, and when it comes back.
 * The lines are milliseconds of virtual time and one act each; they are in tests/unit/core/story_NAME.txt. After a
 * change that is meant, ISO_GOLDEN_WRITE=1 test_core_story writes them anew, and the difference is read in the review.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core_sim.h"

static char *read_all(FILE *f, size_t *length)
{
    *length = 0;
    char *text = calloc(1, 1 << 16);
    if (f)
        *length = fread(text, 1, (1 << 16) - 1, f);
    return text;
}

static void story(const char *name, const sim_options *o)
{
    char path[512];
    snprintf(path, sizeof path, "%s/unit/core/story_%s.txt", ISO_TEST_ROOT, name);
    FILE *told = tmpfile();
    assert_non_null(told);
    sim_options traced = *o;
    traced.trace = true;
    sim *s = sim_new(&traced, 1);
    s->trace = told;
    sim_run(s);
    assert_int_equal(s->wrong[0], 0);
    sim_free(s);
    rewind(told);
    size_t now_length, golden_length;
    char *now = read_all(told, &now_length);
    fclose(told);
    if (getenv("ISO_GOLDEN_WRITE")) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        fwrite(now, 1, now_length, out);
        fclose(out);
    }
    FILE *in = fopen(path, "r");
    char *golden = read_all(in, &golden_length);
    if (in)
        fclose(in);
    if (strcmp(now, golden) != 0) {
        const char *a = now, *b = golden;
        int line = 1;
        for (; *a && *a == *b; a++, b++)
            line += *a == '\n';
        print_error("%s differs in line %d; the story now:\n%s\n", path, line, now);
    }
    assert_true(now_length > 200);
    assert_string_equal(now, golden);
    free(now);
    free(golden);
}

static void small_job(sim_options *o)
{
    sim_options_default(o);
    o->config.samples = 24;
    o->config.batch = 16;
    o->config.epochs = 1;
    o->config.nodes_first = 2;
    o->config.first_wait = ISO_NEVER;
    o->nodes = 2;
    o->speed[0] = 4;
    o->speed[1] = 2;
    o->first_join[1] = 10000;
}

static void a_calm_epoch(void **state)
{
    (void)state;
    sim_options o;
    small_job(&o);
    o.config.test = 6;
    story("calm", &o);
}

static void a_calm_epoch_in_shared_memory(void **state)
{
    (void)state;
    sim_options o;
    small_job(&o);
    o.config.sums_in_place = o.config.shared_weights = true;
    story("shared", &o);
}

static void a_node_dies_in_its_work(void **state)
{
    (void)state;
    sim_options o;
    small_job(&o);
    o.die_order_at[1] = 2;
    o.return_after = 50000000;
    story("death", &o);
}

static void a_node_dies_unnoticed_and_returns(void **state)
{
    (void)state;
    sim_options o;
    small_job(&o);
    iso_policy_spec_default(&o.config.policy, iso_policy_find("bsp"));
    o.config.samples = 32;
    o.config.deadline_floor = 5000000;
    o.config.deadline_first = 20000000;
    o.die_order_at[0] = 1;
    o.tell_death = 0;
    o.return_after = 25000000;
    story("return", &o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_calm_epoch),
        cmocka_unit_test(a_calm_epoch_in_shared_memory),
        cmocka_unit_test(a_node_dies_in_its_work),
        cmocka_unit_test(a_node_dies_unnoticed_and_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
