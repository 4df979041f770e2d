/* SPDX-License-Identifier: Apache-2.0
 * The cluster file: what every key means, and that each mistake is named with its place and the right words. */
#include "test.h"

#include "isochron/cluster.h"

static const char whole[] =
    "link: {bandwidth: 1Gbit, latency: 0.5ms, loss: 2/1000, duplicate: 1/100, reorder: 0}\n"
    "coordinator: {bandwidth: 10 Gbit/s}\n"
    "nodes:\n"
    "  - {name: a, speed: 4000, overhead: 20us, memory: 4GiB}\n"
    "  - {name: w, count: 3, speed: 0.5, noise: 0.05, outliers: {rate: 1/100, factor: 4}, link: {bandwidth: 100Mbit}}\n"
    "  - {speed: 1e3, drift: {shape: triangle, amplitude: 0.5, period: 20s}, bursts: {every: 1min, length: 2s, factor: 0.25}}\n"
    "  - name: d\n"
    "    speed: 500\n"
    "    events: [{at: 10s, speed: 125}, {at: 20s, pause: 3s}, {at: 20s, crash: true}, {at: 40s, join: true}]\n";

static int parse(iso_cluster *c, const char *text, iso_error *e)
{
    return iso_cluster_parse(c, "c.yaml", text, strlen(text), NULL, e);
}

/* Every key arrives in its member, in base units; `count` makes machines that share their events. */
static void test_whole(void **state)
{
    (void)state;
    iso_cluster c;
    iso_error e = {0};
    if (parse(&c, whole, &e))
        fail_msg("%s", e.text);
    assert_int_equal(c.count, 6);
    assert_true(c.bandwidth == 10e9 / 8);
    const iso_machine *a = &c.machine[0], *w = &c.machine[3], *n = &c.machine[4], *d = &c.machine[5];
    assert_string_equal(a->name, "a");
    assert_true(a->speed == 4000 && a->overhead == 20000 && a->memory == (uint64_t)4 << 30);
    assert_true(a->link.bandwidth == 125e6 && a->link.latency == 500000);
    assert_true(a->link.loss.numerator == 2 && a->link.loss.denominator == 1000 && a->link.reorder.numerator == 0);
    assert_string_equal(w->name, "w-3");
    assert_true(w->speed == 0.5 && w->noise == 0.05 && w->outliers.denominator == 100 && w->outlier_factor == 4);
    assert_true(w->link.bandwidth == 12.5e6 && w->link.latency == 500000);
    assert_string_equal(n->name, "5");
    assert_true(n->drift == ISO_DRIFT_TRIANGLE && n->amplitude == 0.5 && n->period == 20000000000);
    assert_true(n->burst_every == 60000000000 && n->burst_length == 2000000000 && n->burst_factor == 0.25);
    assert_int_equal(d->events, 4);
    const iso_machine_event *event = &c.event[d->event];
    assert_true(event[0].kind == ISO_MACHINE_SPEED && event[0].speed == 125 && event[0].at == 10000000000);
    assert_true(event[1].kind == ISO_MACHINE_PAUSE && event[1].length == 3000000000);
    assert_true(event[2].kind == ISO_MACHINE_CRASH && event[3].kind == ISO_MACHINE_JOIN);
    assert_true(iso_cluster_speed(&c) == 4000 + 3 * 0.5 + 1000 + 500);
    iso_cluster_clear(&c);
    assert_int_equal(c.count, 0);
}

/* A file that says nothing of links has usable ones. */
static void test_standard(void **state)
{
    (void)state;
    iso_cluster c;
    assert_int_equal(parse(&c, "nodes: [{speed: 10}, {speed: 20}]", NULL), 0);
    assert_string_equal(c.machine[1].name, "2");
    assert_true(c.machine[1].link.bandwidth == 125e6 && c.bandwidth == 125e6 && c.machine[0].outliers.numerator == 0);
    iso_cluster_clear(&c);
}

static void test_mistakes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *word[3];
    } wrong[] = {
        {"", {"c.yaml:1:1: ", "nodes"}},
        {"- a", {"c.yaml:1:1: ", "keys with values", "a list"}},
        {"nodes: [", {"c.yaml:", "not YAML"}},
        {"link: {}", {"c.yaml:1:1: ", "nodes is missing"}},
        {"nodes: []", {"c.yaml:1:8: ", "an empty one"}},
        {"nodes: a", {"c.yaml:1:8: ", "a list of machines"}},
        {"node: [{speed: 1}]", {"c.yaml:1:1: ", "'node'", "did you mean 'nodes'"}},
        {"nodes:\n- {name: a, sped: 5}", {"c.yaml:2:13: ", "'sped'", "did you mean 'speed'"}},
        {"nodes:\n- {name: a}", {"c.yaml:2:3: ", "speed"}},
        {"nodes:\n- {name: a, speed: 5, speed: 6}", {"c.yaml:2:23: ", "nodes.speed is there twice"}},
        {"nodes:\n- {name: a, speed: fast}", {"c.yaml:2:20: ", "nodes.speed", "'fast'"}},
        {"nodes:\n- {name: a, speed: 0}", {"c.yaml:2:20: ", "nodes.speed"}},
        {"nodes:\n- {name: a, speed: -1}", {"c.yaml:2:20: ", "nodes.speed"}},
        {"nodes:\n- {name: a, speed: [1]}", {"c.yaml:2:20: ", "one value", "a list"}},
        {"nodes:\n- {name: a, speed: 5}\n- {name: a, speed: 5}", {"c.yaml:3:3: ", "two machines a"}},
        {"nodes:\n- {name: a-3, speed: 5}\n- {name: a, count: 5, speed: 5}", {"c.yaml:3:3: ", "two machines a-3"}},
        {"nodes:\n- {name: a, speed: 5, count: 0}", {"c.yaml:2:30: ", "nodes.count"}},
        {"nodes:\n- {name: a, speed: 5, count: 65537}", {"c.yaml:2:30: ", "65536"}},
        {"nodes:\n- {speed: 5, count: 65536}\n- {speed: 5}", {"c.yaml:3:3: ", "65536"}},
        {"nodes:\n- {name: 12345678901234567890123456789012, speed: 5}", {"c.yaml:2:10: ", "31"}},
        {"nodes:\n- {name: 1234567890123456789012345678901, count: 2, speed: 5}", {"c.yaml:2:3: ", "too long"}},
        {"nodes:\n- {name: \"a\\nb\", speed: 5}", {"c.yaml:2:10: ", "quotes"}},
        {"nodes:\n- {speed: 5, overhead: 20}", {"c.yaml:2:24: ", "unit", "'20'"}},
        {"nodes:\n- {speed: 5, overhead: 20 parsec}", {"c.yaml:2:24: ", "us"}},
        {"nodes:\n- {speed: 5, overhead: -1s}", {"c.yaml:2:24: ", "overhead"}},
        {"nodes:\n- {speed: 5, memory: 4}", {"c.yaml:2:22: ", "GiB"}},
        {"nodes:\n- {speed: 5, noise: 9}", {"c.yaml:2:21: ", "from 0 to 3"}},
        {"nodes:\n- {speed: 5, outliers: {rate: 1/2}}", {"c.yaml:2:24: ", "factor"}},
        {"nodes:\n- {speed: 5, outliers: {rate: 3/2, factor: 2}}", {"c.yaml:2:31: ", "ratio", "'3/2'"}},
        {"nodes:\n- {speed: 5, outliers: {rate: 0.1, factor: 2}}", {"c.yaml:2:31: ", "2/1000"}},
        {"nodes:\n- {speed: 5, drift: {shape: sin, amplitude: 0.1, period: 1s}}", {"c.yaml:2:29: ", "'sin'", "sine"}},
        {"nodes:\n- {speed: 5, drift: {shape: sine, amplitude: 1, period: 1s}}", {"c.yaml:2:46: ", "amplitude"}},
        {"nodes:\n- {speed: 5, drift: {shape: sine, amplitude: 0.1, period: 0}}", {"c.yaml:2:59: ", "period"}},
        {"nodes:\n- {speed: 5, bursts: {every: 1s, length: 2s, factor: 0.5}}", {"c.yaml:2:22: ", "longer"}},
        {"nodes:\n- {speed: 5, events: {at: 1s}}", {"c.yaml:2:22: ", "a list of events"}},
        {"nodes:\n- {speed: 5, events: [{at: 1s}]}", {"c.yaml:2:23: ", "one of speed, pause, crash, join"}},
        {"nodes:\n- {speed: 5, events: [{crash: true}]}", {"c.yaml:2:23: ", "at: TIME"}},
        {"nodes:\n- {speed: 5, events: [{at: 1s, crash: true, join: true}]}", {"c.yaml:2:23: ", "one of"}},
        {"nodes:\n- {speed: 5, events: [{at: 1s, crash: yes}]}", {"c.yaml:2:39: ", "true"}},
        {"nodes:\n- {speed: 5, events: [{at: 2s, pause: 1s}, {at: 1s, pause: 1s}]}", {"c.yaml:2:44: ", "order"}},
        {"nodes:\n- {speed: 5, events: [{at: 1s, stop: true}]}", {"c.yaml:2:32: ", "'stop'"}},
        {"link: {bandwidth: 0}\nnodes: [{speed: 1}]", {"c.yaml:1:19: ", "Gbit"}},
        {"link: {bandwidth: 5Gbit/h}\nnodes: [{speed: 1}]", {"c.yaml:1:19: ", "Gbit"}},
        {"link: {bandwith: 1Gbit}\nnodes: [{speed: 1}]", {"c.yaml:1:8: ", "did you mean 'bandwidth'"}},
        {"link: {loss: 1/0}\nnodes: [{speed: 1}]", {"c.yaml:1:14: ", "ratio"}},
        {"coordinator: {speed: 1}\nnodes: [{speed: 1}]", {"c.yaml:1:15: ", "bandwidth"}},
        {"nodes: [{speed: 1}]\nnodes: [{speed: 1}]", {"c.yaml:2:1: ", "twice"}},
    };
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        iso_cluster c;
        iso_error e = {0};
        if (parse(&c, wrong[i].text, &e) != ISO_E_JOB)
            fail_msg("no error for: %s", wrong[i].text);
        assert_null(c.machine);
        for (size_t k = 0; k < 3 && wrong[i].word[k]; k++)
            test_expect_word(e.text, wrong[i].word[k]);
    }
}

static int with_heap(const iso_alloc *a, void *context)
{
    iso_cluster c;
    iso_error e = {0};
    (void)context;
    int result = iso_cluster_parse(&c, "c.yaml", whole, strlen(whole), a, &e);
    iso_cluster_clear(&c);
    return result;
}

static void test_memory(void **state)
{
    (void)state;
    assert_true(test_every_allocation(with_heap, NULL) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_standard),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
