/* SPDX-License-Identifier: Apache-2.0
 * The audit log: lines say what a record counted; the check finds every sample that was lost or doubled, and only
 * those, in logs with resumes, cuts and garbage. */
#include <jansson.h>
#include <string.h>

#include "engine/run/audit.h"
#include "engine/run/tally.h"
#include "test.h"

#define SAMPLES 100u

/* ---- the writer ---------------------------------------------------------------------------------------- */

static void a_line_names_positions(void **state)
{
    (void)state;
    iso_buffer b;
    iso_buffer_init(&b, NULL, 0);
    const iso_range range[] = {{0, 2}, {2, 1}, {4, 1}, {6, 1}, {9, 3}};
    iso_record r = {.kind = ISO_RECORD_COUNTED,
                    .node = 3,
                    .epoch = 1,
                    .round = 16,
                    .range = range,
                    .range_count = 5,
                    .first = 64,
                    .end = 170,
                    .unit = 16};
    iso_audit_line(&b, &r, "\"a\"");
    static const char want[] =
        "{\"event\":\"counted\",\"round\":17,\"epoch\":2,\"node\":\"a\",\"positions\":[[64,48],[128,16],[160,10]]}\n";
    assert_int_equal(b.size, sizeof want - 1);
    assert_memory_equal(b.bytes, want, b.size);
    r.range = &range[4]; /* behind the end of the round */
    r.range_count = 1;
    iso_audit_line(&b, &r, "\"a\"");
    assert_int_equal(b.size, sizeof want - 1);
    iso_buffer_fini(&b);
}

static void numbers_of_any_size_fit(void **state)
{
    (void)state;
    iso_buffer b;
    iso_buffer_init(&b, NULL, 0);
    iso_range range[64];
    for (uint32_t i = 0; i < 64; i++)
        range[i] = (iso_range){UINT32_MAX - 128 + 2 * i, 1};
    iso_record r = {.epoch = UINT32_MAX - 1,
                    .round = UINT64_MAX - 1,
                    .range = range,
                    .range_count = 64,
                    .first = UINT64_MAX / 2,
                    .end = UINT64_MAX,
                    .unit = UINT32_MAX};
    iso_audit_line(&b, &r, "\"0123456789012345678901234567890\"");
    assert_false(b.failed);
    assert_true(b.size <= b.capacity);
    json_t *o = json_loadb((const char *)b.bytes, b.size, JSON_DECODE_INT_AS_REAL, NULL);
    assert_int_equal(json_array_size(json_object_get(o, "positions")), 64);
    json_decref(o);
    iso_buffer_fini(&b);
}

/* ---- the tally ----------------------------------------------------------------------------------------- */

/* Random ranges against a plain array. */
static void a_tally_counts_like_an_array(void **state)
{
    (void)state;
    uint64_t seed = test_seed("a_tally_counts_like_an_array");
    for (unsigned turn = 0; turn < 300; turn++) {
        uint64_t samples = 1 + test_random_below(&seed, 300), again, first_again, first;
        uint8_t plain[300] = {0};
        iso_tally t;
        assert_int_equal(iso_tally_init(&t, samples, 2, NULL), 0);
        for (unsigned step = 0; step < 12; step++) {
            uint64_t at = test_random_below(&seed, samples), n = 1 + test_random_below(&seed, samples - at), want = 0;
            uint64_t want_first = UINT64_MAX;
            for (uint64_t i = at; i < at + n; i++) {
                if (plain[i] && want++ == 0)
                    want_first = i;
                plain[i] = plain[i] < 2 ? plain[i] + 1 : 2;
            }
            assert_int_equal(iso_tally_add(&t, 1, at, n, &again, &first_again), 0);
            assert_int_equal(again, want);
            if (want)
                assert_int_equal(first_again, want_first);
            uint64_t once = 0, more = 0;
            for (uint64_t i = 0; i < samples; i++) {
                once += plain[i] > 0;
                more += plain[i] > 1;
            }
            assert_int_equal(t.epoch[1].counted, once);
            assert_int_equal(t.epoch[1].more_count, more);
            assert_int_equal(t.epoch[0].counted, 0);
            for (int times = 0; times <= 2; times += 2) {
                uint64_t from = test_random_below(&seed, samples), a = from, end;
                while (a < samples && plain[a] != times)
                    a++;
                for (end = a; end < samples && plain[end] == times;)
                    end++;
                assert_int_equal(iso_tally_run(&t, 1, times, from, &first), end - a);
                if (end > a)
                    assert_int_equal(first, a);
            }
        }
        assert_int_equal(iso_tally_add(&t, 2, 0, 1, &again, &first_again), ISO_E_ARGUMENT);
        assert_int_equal(iso_tally_add(&t, 0, samples, 1, &again, &first_again), ISO_E_ARGUMENT);
        assert_int_equal(iso_tally_add(&t, 0, UINT64_MAX, 2, &again, &first_again), ISO_E_ARGUMENT);
        iso_tally_fini(&t);
    }
}

static void a_whole_epoch_keeps_no_memory(void **state)
{
    (void)state;
    test_heap heap;
    test_heap_init(&heap, 0);
    iso_tally t;
    uint64_t again, first;
    assert_int_equal(iso_tally_init(&t, 1000000, 3, &heap.alloc), 0);
    size_t before = heap.live_bytes;
    for (uint32_t e = 0; e < 3; e++)
        for (uint64_t at = 0; at < 1000000; at += 1000)
            assert_int_equal(iso_tally_add(&t, e, at, 1000, &again, &first), 0);
    assert_int_equal(heap.live_bytes, before);
    assert_int_equal(iso_tally_add(&t, 1, 17, 2, &again, &first), 0);
    assert_int_equal(again, 2);
    assert_int_equal(first, 17);
    iso_tally_fini(&t);
    test_heap_expect_empty(&heap);
}

/* ---- logs ---------------------------------------------------------------------------------------------- */

typedef struct log_text {
    char text[1 << 16], metrics[1 << 16];
} log_text;

static void say(char *log, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t n = strlen(log);
    vsnprintf(log + n, (1 << 16) - n, format, list);
    va_end(list);
}

static void begin_log(log_text *l, unsigned epochs)
{
    memset(l, 0, sizeof *l);
    say(l->text, "{\"event\":\"start\",\"seconds\":0,\"round\":0,\"samples\":%u,\"epochs\":%u,\"batch\":50}\n", SAMPLES,
        epochs);
}

/* Round `round` (from 1) of two in an epoch: node a does 30 of its 50 samples, node b 20. */
static void add_round(log_text *l, unsigned round)
{
    unsigned epoch = (round - 1) / 2 + 1, first = (round - 1) % 2 * 50;
    say(l->text, "{\"event\":\"counted\",\"round\":%u,\"epoch\":%u,\"node\":\"a\",\"positions\":[[%u,10],[%u,20]]}\n",
        round, epoch, first, first + 30);
    say(l->text, "{\"event\":\"counted\",\"round\":%u,\"epoch\":%u,\"node\":\"b\",\"positions\":[[%u,20]]}\n", round,
        epoch, first + 10);
    say(l->metrics,
        "{\"round\":%u,\"epoch\":%u,\"samples\":50,\"nodes\":[{\"name\":\"a\",\"samples\":30},{\"name\":\"b\","
        "\"samples\":"
        "20},{\"name\":\"c\",\"samples\":0}]}\n",
        round, epoch);
}

static void whole_log(log_text *l)
{
    begin_log(l, 2);
    for (unsigned round = 1; round <= 4; round++)
        add_round(l, round);
}

static iso_audit check_log(const log_text *l, bool finished, uint64_t border)
{
    iso_audit a;
    iso_error e = {0};
    int r = iso_audit_check(&(iso_audit_input){.events_name = "events.jsonl",
                                               .events = l->text,
                                               .events_size = strlen(l->text),
                                               .metrics_name = "metrics.jsonl",
                                               .metrics = l->metrics[0] ? l->metrics : NULL,
                                               .metrics_size = strlen(l->metrics),
                                               .finished = finished,
                                               .border = border},
                            &a, &e);
    if (r)
        fail_msg("%s", e.text);
    return a;
}

static void expect_order(const log_text *l, bool finished, uint64_t border)
{
    iso_audit a = check_log(l, finished, border);
    if (a.faults)
        fail_msg("%s", a.fault[0]);
    iso_audit_clear(&a, NULL);
}

/* A fault must hold all the words, separated by '|'. */
static void expect_fault(const log_text *l, bool finished, const char *words)
{
    iso_audit a = check_log(l, finished, 0);
    bool found = false;
    for (uint32_t i = 0; i < a.fault_count && !found; i++) {
        char copy[200], *rest = copy, *word;
        snprintf(copy, sizeof copy, "%s", words);
        found = true;
        while ((word = strsep(&rest, "|")))
            found &= strstr(a.fault[i], word) != NULL;
    }
    if (!found)
        fail_msg("no fault with '%s' among %u; the first: %s", words, a.fault_count, a.fault_count ? a.fault[0] : "-");
    iso_audit_clear(&a, NULL);
}

/* Line `number` from 1; *size with its newline. */
static char *line_of(char *log, unsigned number, size_t *size)
{
    while (--number)
        log = strchr(log, '\n') + 1;
    *size = (size_t)(strchr(log, '\n') - log) + 1;
    return log;
}

static void remove_line(char *log, unsigned number)
{
    size_t size;
    char *at = line_of(log, number, &size);
    memmove(at, at + size, strlen(at + size) + 1);
}

static void a_whole_log_is_in_order(void **state)
{
    (void)state;
    static log_text l;
    whole_log(&l);
    expect_order(&l, true, 0);
    iso_audit a = check_log(&l, true, 0);
    assert_int_equal(a.samples, SAMPLES);
    assert_int_equal(a.epoch_count, 2);
    assert_int_equal(a.whole, 2);
    assert_int_equal(a.rounds, 4);
    assert_int_equal(a.lines, 8);
    assert_int_equal(a.epoch[1].once, SAMPLES);
    iso_audit_clear(&a, NULL);
    l.metrics[0] = 0;
    expect_order(&l, true, 0);
}

static void every_lost_line_is_named(void **state)
{
    (void)state;
    static log_text l;
    for (unsigned line = 2; line <= 9; line++) {
        char words[64];
        whole_log(&l);
        remove_line(l.text, line);
        unsigned round = line / 2, epoch = (round - 1) / 2 + 1;
        snprintf(words, sizeof words, "epoch %u, round %u, node %c", epoch, round, line % 2 ? 'b' : 'a');
        expect_fault(&l, true, words);
        snprintf(words, sizeof words, "epoch %u: %u samples were never counted", epoch, line % 2 ? 20 : 30);
        expect_fault(&l, true, words);
        l.metrics[0] = 0;
        expect_fault(&l, true, words);
    }
}

static void every_doubled_line_is_named(void **state)
{
    (void)state;
    static log_text l;
    for (unsigned line = 2; line <= 9; line++) {
        char words[120], copy[200];
        size_t size;
        whole_log(&l);
        const char *at = line_of(l.text, line, &size);
        snprintf(copy, sizeof copy, "%.*s", (int)size, at);
        say(l.text, "%s", copy);
        unsigned round = line / 2, epoch = (round - 1) / 2 + 1;
        snprintf(words, sizeof words, "events.jsonl:10: |epoch %u, round %u, node %c|had been counted before", epoch,
                 round, line % 2 ? 'b' : 'a');
        expect_fault(&l, true, words);
        l.metrics[0] = 0;
        expect_fault(&l, false, words);
    }
}

static void a_resume_takes_back_what_was_lost(void **state)
{
    (void)state;
    static log_text l;
    begin_log(&l, 2);
    add_round(&l, 1);
    add_round(&l, 2);
    add_round(&l, 3);
    say(l.text, "{\"event\":\"resume\",\"seconds\":0,\"round\":1,\"samples\":100,\"epochs\":2}\n"
                "{\"event\":\"resumed\",\"seconds\":0,\"round\":1,\"epoch\":1}\n");
    add_round(&l, 2);
    say(l.text, "{\"event\":\"resume\",\"seconds\":0,\"round\":1,\"samples\":100,\"epochs\":2}\n");
    add_round(&l, 2);
    add_round(&l, 3);
    add_round(&l, 4);
    expect_order(&l, true, 0);
    iso_audit a = check_log(&l, true, 0);
    assert_int_equal(a.resumes, 2);
    assert_int_equal(a.superseded, 6);
    iso_audit_clear(&a, NULL);
    say(l.text, "{\"event\":\"start\",\"seconds\":0,\"round\":0,\"samples\":100,\"epochs\":2}\n");
    l.metrics[0] = 0;
    for (unsigned round = 1; round <= 4; round++)
        add_round(&l, round);
    expect_order(&l, true, 0);
    say(l.text, "{\"event\":\"resume\",\"seconds\":0,\"round\":3}\n"); /* round 4 is lost, and nobody did it again */
    l.metrics[0] = 0;
    expect_fault(&l, true, "epoch 2: 50 samples were never counted");
    expect_order(&l, false, 3);
}

static void a_run_in_the_middle_is_no_fault(void **state)
{
    (void)state;
    static log_text l;
    begin_log(&l, 5);
    for (unsigned round = 1; round <= 3; round++)
        add_round(&l, round);
    expect_order(&l, false, 3);
    iso_audit a = check_log(&l, false, 2);
    assert_int_equal(a.epoch_count, 2);
    assert_int_equal(a.whole, 1);
    assert_int_equal(a.settled, 100);
    assert_int_equal(a.last_round, 3);
    iso_audit_clear(&a, NULL);
    expect_fault(&l, true, "epoch 3: 100 samples were never counted");
    l.text[strlen(l.text) - 20] = 0; /* killed while it wrote */
    expect_order(&l, false, 2);
    a = check_log(&l, false, 2);
    assert_true(a.cut);
    iso_audit_clear(&a, NULL);
    whole_log(&l);
    say(l.text, "{\"event\":\"do");
    expect_fault(&l, true, "its last line is cut");
}

static void other_spellings_say_the_same(void **state)
{
    (void)state;
    static log_text l;
    whole_log(&l);
    remove_line(l.text, 3);
    say(l.text,
        "{ \"node\" : \"\\u0062\", \"positions\": [ [10, 20] ], \"epoch\": 1, \"round\": 1, \"event\": \"counted\"}\n");
    iso_audit a = check_log(&l, true, 0);
    assert_int_equal(a.epoch[0].once, SAMPLES);
    for (uint32_t i = 0; i < a.fault_count; i++) /* but its place is wrong */
        if (!strstr(a.fault[i], "behind round 4") && !strstr(a.fault[i], "round 1, node b"))
            fail_msg("%s", a.fault[i]);
    assert_int_equal(a.faults, 3);
    iso_audit_clear(&a, NULL);
}

static void garbage_is_named_by_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":1,\"node\":\"a\",\"posi", "events.jsonl:10: not a JSON object"},
        {"\x01\xff", "events.jsonl:10: "},
        {"[]", "events.jsonl:10: not an event"},
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":1,\"node\":\"a\",\"positions\":[]}", "without positions"},
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":1,\"positions\":[[0,1]]}", "without a node"},
        {"{\"event\":\"counted\",\"round\":5,\"node\":\"a\",\"positions\":[[0,1]]}", "without round and epoch"},
        {"{\"event\":\"counted\",\"round\":0,\"epoch\":1,\"node\":\"a\",\"positions\":[[0,1]]}", "count from 1"},
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":1,\"node\":\"a\",\"positions\":[[0,0]]}",
         "empty or not in ascending"},
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":1,\"node\":\"a\",\"positions\":[[7,5],[3,4]]}", "ascending"},
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":1,\"node\":\"a\",\"positions\":[[-1,5]]}", "not pairs"},
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":1,\"node\":\"a\",\"positions\":[[1,2,3]]}", "not pairs"},
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":3,\"node\":\"a\",\"positions\":[[0,1]]}", "epoch 3 are not in"},
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":2,\"node\":\"a\",\"positions\":[[99,2]]}",
         "99 to 100 of epoch 2"},
        {"{\"event\":\"counted\",\"round\":5,\"epoch\":2,\"node\":\"a\",\"positions\":[[18446744073709551615,9]]}",
         ":10: "},
        {"{\"event\":\"counted\",\"round\":99999999999999999999,\"epoch\":2,\"node\":\"a\",\"positions\":[[1,9]]}",
         ":10: "},
        {"{\"event\":\"resume\"}", "without its round"},
        {"{\"event\":\"start\",\"round\":4,\"samples\":99,\"epochs\":2}",
         ":10: a training of 99 samples; this run has 100"},
    };
    static log_text l;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        whole_log(&l);
        say(l.text, "%s\n", cases[i].line);
        expect_fault(&l, true, cases[i].words);
    }
    whole_log(&l);
    say(l.metrics, "nonsense\n");
    expect_fault(&l, true, "metrics.jsonl:5");
}

static void a_log_that_says_nothing_is_an_error(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{\"event\":\"start\"", "{\"event\":\"start\",\"round\":0}\n"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++) {
        iso_audit a;
        iso_error e = {0};
        assert_int_equal(
            iso_audit_check(&(iso_audit_input){.events_name = "e", .events = texts[i], .events_size = strlen(texts[i])},
                            &a, &e),
            ISO_E_FORMAT);
        iso_audit_clear(&a, NULL);
    }
    static log_text l;
    begin_log(&l, 2);
    expect_fault(&l, true, "without an audit log");
}

/* Whatever the bytes are: no crash, no hang; run it under the sanitizers. */
static void any_damage_is_survived(void **state)
{
    (void)state;
    static log_text l;
    uint64_t seed = test_seed("any_damage_is_survived");
    for (unsigned turn = 0; turn < 2000; turn++) {
        whole_log(&l);
        size_t n = strlen(l.text);
        for (unsigned k = 0; k < 3; k++)
            l.text[test_random_below(&seed, n)] = (char)(1 + test_random_below(&seed, 255));
        iso_audit a;
        iso_error e = {0};
        int r = iso_audit_check(&(iso_audit_input){.events_name = "e",
                                                   .events = l.text,
                                                   .events_size = n,
                                                   .metrics_name = "m",
                                                   .metrics = l.metrics,
                                                   .metrics_size = strlen(l.metrics),
                                                   .samples = SAMPLES,
                                                   .epochs = 2,
                                                   .finished = true},
                                &a, &e);
        assert_int_equal(r, 0);
        assert_true(a.fault_count <= ISO_AUDIT_FAULTS_MAX);
        iso_audit_clear(&a, NULL);
    }
}

static int check_with(const iso_alloc *alloc, void *context)
{
    const log_text *l = context;
    iso_audit a;
    iso_error e = {0};
    int r = iso_audit_check(&(iso_audit_input){.events_name = "e",
                                               .events = l->text,
                                               .events_size = strlen(l->text),
                                               .metrics_name = "m",
                                               .metrics = l->metrics,
                                               .metrics_size = strlen(l->metrics),
                                               .finished = true,
                                               .alloc = alloc},
                            &a, &e);
    iso_audit_clear(&a, alloc);
    return r;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static log_text l;
    whole_log(&l);
    assert_true(test_every_allocation(check_with, &l) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_names_positions),          cmocka_unit_test(numbers_of_any_size_fit),
        cmocka_unit_test(a_tally_counts_like_an_array),    cmocka_unit_test(a_whole_epoch_keeps_no_memory),
        cmocka_unit_test(a_whole_log_is_in_order),         cmocka_unit_test(every_lost_line_is_named),
        cmocka_unit_test(every_doubled_line_is_named),     cmocka_unit_test(a_resume_takes_back_what_was_lost),
        cmocka_unit_test(a_run_in_the_middle_is_no_fault), cmocka_unit_test(other_spellings_say_the_same),
        cmocka_unit_test(garbage_is_named_by_its_line),    cmocka_unit_test(a_log_that_says_nothing_is_an_error),
        cmocka_unit_test(any_damage_is_survived),          cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
