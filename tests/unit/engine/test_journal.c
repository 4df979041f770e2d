/* SPDX-License-Identifier: Apache-2.0
 * metrics.jsonl: each line is JSON with the keys of the design whatever the numbers are; an interrupted file is cut
 * at the right place; summary.json comes back as it went out. */
#include <jansson.h>
#include <math.h>

#include "engine/run/journal.h"
#include "engine/run/summary.h"
#include "test.h"

static const char names[3][ISO_NODE_NAME_MAX] = {"\"w0\"", "\"w1\"", "\"w2\""};

static json_t *parse_line(iso_buffer *b)
{
    assert_false(b->failed);
    assert_true(b->size > 0 && b->bytes[b->size - 1] == '\n');
    json_error_t why;
    json_t *o = json_loadb((const char *)b->bytes, b->size, JSON_DECODE_INT_AS_REAL, &why);
    if (!o)
        fail_msg("%s: %.*s", why.text, (int)b->size, (const char *)b->bytes);
    return o;
}

static double real(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v))
        fail_msg("no number '%s'", key);
    return json_number_value(v);
}

static void a_line_says_what_the_round_did(void **state)
{
    (void)state;
    iso_buffer b;
    iso_trail t;
    iso_buffer_init(&b, NULL, 0);
    iso_trail_begin(&t, "", NULL, 0);
    iso_round_record r = {.round = 12,
                          .epoch = 3,
                          .samples = 64,
                          .correct = 16,
                          .loss = 2.302585093,
                          .rate = 0.05,
                          .ns = 471234,
                          .bytes_up = 5,
                          .bytes_down = 6};
    iso_node_record n[2] = {
        {.samples = 48, .busy_ns = 400000, .idle_ns = 71234, .score = 120000.04, .state = "working"},
        {.samples = 16, .busy_ns = 100000, .idle_ns = 371234, .score = 0, .state = "lost"}};
    iso_metrics_line(&b, &t, &r, n, names, 2);
    json_t *o = parse_line(&b);
    assert_int_equal(real(o, "round"), 12);
    assert_int_equal(real(o, "epoch"), 3);
    assert_int_equal(real(o, "samples"), 64);
    assert_true(real(o, "loss") == 2.302585093);
    assert_true(real(o, "accuracy") == 0.25);
    assert_true(real(o, "rate") == 0.05);
    assert_true(real(o, "seconds") == 0.000471234);
    assert_int_equal(real(o, "bytes_up"), 5);
    assert_int_equal(real(o, "bytes_down"), 6);
    assert_null(json_object_get(o, "probe_accuracy"));
    json_decref(o);
    iso_trail_take(&t, &b);
    iso_buffer_clear(&b);
    r.probe_accuracy = 0.9712;
    iso_metrics_line(&b, &t, &r, n, names, 2);
    o = parse_line(&b);
    assert_true(real(o, "probe_accuracy") == 0.9712);
    json_t *nodes = json_object_get(o, "nodes"), *first = json_array_get(nodes, 0),
           *second = json_array_get(nodes, 1);
    assert_int_equal(json_array_size(nodes), 2);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "w0");
    assert_true(real(first, "score") == 120000.0);
    assert_true(real(first, "share") == 0.75);
    assert_int_equal(real(first, "samples"), 48);
    assert_true(real(first, "busy_seconds") == 0.0004);
    assert_true(real(first, "idle_seconds") == 0.000071234);
    assert_string_equal(json_string_value(json_object_get(first, "state")), "working");
    assert_true(json_is_null(json_object_get(second, "score")));
    assert_string_equal(json_string_value(json_object_get(second, "state")), "lost");
    json_decref(o);
    iso_buffer_fini(&b);
}

/* The largest and oddest numbers give JSON too, and no line is longer than the room that was reserved (the sanitizer
 * looks). */
static void extremes_stay_json(void **state)
{
    (void)state;
    iso_trail t;
    iso_trail_begin(&t, "", NULL, 0);
    const double odd[] = {0, 1e-300, 4.2e6, 1e9, 1e300, NAN, INFINITY, -1, 0.9999999999};
    iso_node_record n[3];
    for (size_t i = 0; i < TEST_COUNT(odd); i++) {
        iso_round_record r = {.round = UINT64_MAX,
                              .epoch = UINT32_MAX,
                              .samples = i % 2 ? UINT64_MAX : 0,
                              .correct = UINT64_MAX,
                              .loss = odd[i],
                              .rate = i < 5 ? odd[i] : 2.2250738585072014e-308,
                              .ns = i % 2 ? INT64_MAX : INT64_MIN,
                              .bytes_up = UINT64_MAX,
                              .bytes_down = UINT64_MAX};
        for (int k = 0; k < 3; k++)
            n[k] = (iso_node_record){.samples = UINT64_MAX,
                                     .busy_ns = INT64_MAX,
                                     .idle_ns = INT64_MIN,
                                     .score = odd[i],
                                     .state = "working"};
        iso_buffer b;
        iso_buffer_init(&b, NULL, 0);
        iso_metrics_line(&b, &t, &r, n, names, 3);
        json_decref(parse_line(&b));
        iso_metrics_line(&b, &t, &r, n, names, 0);
        iso_trail_take(&t, &b);
        iso_buffer_fini(&b);
    }
    test_heap heap;
    test_heap_init(&heap, 1);
    iso_buffer b;
    iso_buffer_init(&b, &heap.alloc, 0);
    iso_metrics_line(&b, &t, &(iso_round_record){.round = 1}, n, names, 3);
    assert_true(b.failed);
    iso_buffer_fini(&b);
    test_heap_expect_empty(&heap);
}

static void an_interrupted_file_is_cut_at_the_round(void **state)
{
    (void)state;
    iso_buffer b;
    iso_trail t;
    uint64_t end[6] = {0};
    iso_buffer_init(&b, NULL, 0);
    iso_trail_begin(&t, "", NULL, 0);
    for (uint64_t round = 1; round <= 5; round++) {
        iso_metrics_line(&b, &t, &(iso_round_record){.round = round, .samples = 1}, NULL, names, 0);
        end[round] = b.size;
    }
    const char *text = (const char *)b.bytes;
    bool complete;
    for (uint64_t round = 0; round <= 5; round++) {
        assert_int_equal(iso_metrics_upto(text, b.size, round, &complete), end[round]);
        assert_true(complete);
    }
    assert_int_equal(iso_metrics_upto(text, b.size, 6, &complete), end[5]);
    assert_false(complete);
    /* cut anywhere: only whole lines count */
    for (size_t size = 0; size <= b.size; size++) {
        uint64_t whole = 0;
        for (int i = 1; i <= 5; i++)
            whole = end[i] <= size ? end[i] : whole;
        assert_int_equal(iso_metrics_upto(text, size, 5, &complete), whole);
        assert_int_equal(complete, size == b.size);
        assert_int_equal(iso_lines_whole(text, size), whole);
    }
    /* a line that is not ours, or of a wrong round, ends what is kept */
    const char *strange[] = {
        "{\"round\":2,\"epoch\":1}\n", "\n", "{}\n", "{\"round\":1x,}\n", "{\"round\":0,}\n", "{\"round\":,}\n"};
    for (size_t i = 0; i < TEST_COUNT(strange); i++) {
        assert_int_equal(iso_metrics_upto(strange[i], strlen(strange[i]), 2, &complete), 0);
        assert_false(complete);
    }
    iso_buffer_fini(&b);
}

/* The states of the lines of text[0, size): "G" a good check, "N" none, "B" a broken one. */
static void states_of(const char *mark, const char *text, size_t size, char *out)
{
    iso_trail t;
    iso_trail_begin(&t, mark, NULL, 0);
    for (const char *end; (end = memchr(text, '\n', size)); size -= (size_t)(end - text) + 1, text = end + 1)
        *out++ = "NGB"[iso_trail_follow(&t, text, (size_t)(end - text))];
    *out = 0;
}

/* Lines 1 and 2 have a check, 3 has none, 4 has one; written in pieces. */
static size_t write_trail(const char *mark, char *out)
{
    iso_buffer b;
    iso_trail t;
    size_t size = 0;
    iso_buffer_init(&b, NULL, 0);
    iso_trail_begin(&t, mark, NULL, 0);
    for (int line = 1; line <= 4; line++) {
        iso_buffer_format(&b, "{\"line\":%d", line);
        if (line == 3)
            iso_buffer_text(&b, "}\n");
        else
            iso_trail_end(&t, &b);
        if (line == 2) { /* it is written, and the file is opened again */
            iso_trail_take(&t, &b);
            memcpy(out, b.bytes, size = b.size);
            iso_buffer_clear(&b);
            iso_trail_begin(&t, mark, out, size);
        }
    }
    memcpy(out + size, b.bytes, b.size);
    size += b.size;
    iso_buffer_fini(&b);
    return size;
}

static void a_trail_finds_every_change(void **state)
{
    (void)state;
    char text[256], changed[512], states[16];
    size_t size = write_trail("0123456789abcdef", text), line[5] = {0};
    states_of("0123456789abcdef", text, size, states);
    assert_string_equal(states, "GGNG");
    states_of("0123456789abcdee", text, size, states); /* of another run: told once */
    assert_string_equal(states, "BGNG");
    for (size_t i = 0, n = 0; i < size; i++)
        if (text[i] == '\n')
            line[++n] = i + 1;
    for (size_t i = 0; i < size; i++) { /* any bit, but those of line ends */
        memcpy(changed, text, size);
        changed[i] ^= 1;
        if (text[i] == '\n' || changed[i] == '\n')
            continue;
        states_of("0123456789abcdef", changed, size, states);
        assert_string_not_equal(states, "GGNG");
    }
    for (size_t n = 0; n < 4; n++) { /* a line lost, a line doubled */
        memcpy(changed, text, line[n]);
        memcpy(changed + line[n], text + line[n + 1], size - line[n + 1]);
        states_of("0123456789abcdef", changed, size - (line[n + 1] - line[n]), states);
        assert_true(n == 3 || strchr(states, 'B')); /* the end of a file is not missed by what stands before it */
        memcpy(changed, text, line[n + 1]);
        memcpy(changed + line[n + 1], text + line[n], size - line[n]);
        states_of("0123456789abcdef", changed, size + line[n + 1] - line[n], states);
        assert_non_null(strchr(states, 'B'));
    }
    memcpy(changed, text + line[1], line[2] - line[1]); /* lines 1 and 2 change places */
    memcpy(changed + line[2] - line[1], text, line[1]);
    memcpy(changed + line[2], text + line[2], size - line[2]);
    states_of("0123456789abcdef", changed, size, states);
    assert_string_equal(states, "BBNB");
}

static iso_summary example(const iso_alloc *a)
{
    iso_summary s;
    iso_summary_begin(&s);
    s.train_loss = 0.25;
    s.test_accuracy = 0.9012;
    s.epochs = 10;
    s.rounds = 9380;
    s.samples = 600000;
    s.seconds = 4.5;
    s.samples_per_second = 133333.3;
    s.seed = UINT64_MAX;
    s.bytes_up = 1u << 20;
    memset(s.weights_sha256, 'a', 64);
    snprintf(s.engine, sizeof s.engine, "local");
    snprintf(s.sync, sizeof s.sync, "nns");
    snprintf(s.mark, sizeof s.mark, "0123456789abcdef");
    for (int i = 0; i < 2; i++) {
        iso_node_summary *n = iso_summary_node(&s, i ? "w1" : "w0", a);
        if (n)
            *n = (iso_node_summary){.name = {'w', (char)('0' + i)},
                                    .score = 60000.5,
                                    .share = 0.5,
                                    .samples = 300000,
                                    .busy_seconds = 4,
                                    .idle_seconds = .25};
    }
    return s;
}

static void a_summary_comes_back(void **state)
{
    (void)state;
    iso_summary s = example(NULL), back;
    assert_ptr_equal(iso_summary_node(&s, "w1", NULL), &s.nodes[1]);
    char *text = iso_summary_text(&s, true, NULL);
    assert_non_null(text);
    assert_null(strchr(text, '\n'));
    assert_int_equal(iso_summary_parse(&back, text, strlen(text), "summary.json", NULL, NULL), 0);
    assert_true(back.train_loss == 0.25 && back.test_accuracy == 0.9012 && back.seconds == 4.5 &&
                back.samples_per_second == 133333.3);
    assert_true(isnan(back.validation_loss) && isnan(back.efficiency) && isnan(back.test_loss));
    assert_true(back.epochs == 10 && back.rounds == 9380 && back.samples == 600000 && back.seed == UINT64_MAX &&
                back.bytes_up == 1u << 20);
    assert_string_equal(back.weights_sha256, s.weights_sha256);
    assert_string_equal(back.engine, "local");
    assert_string_equal(back.sync, "nns");
    assert_string_equal(back.mark, s.mark);
    assert_int_equal(back.node_count, 2);
    assert_memory_equal(back.nodes, s.nodes, 2 * sizeof *s.nodes);
    iso_free(NULL, text);
    iso_summary_clear(&back, NULL);
    iso_summary_clear(&s, NULL);

    iso_error e = {0};
    const char *bad[] = {"", "[]", "{", "nonsense", "{\"rounds\": NaN}"};
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_int_equal(iso_summary_parse(&back, bad[i], strlen(bad[i]), "x/summary.json", NULL, &e), ISO_E_FORMAT);
        test_expect_word(e.text, "x/summary.json");
    }
    const char odd[] =
        "{\"rounds\": \"many\", \"seconds\": -1, \"nodes\": [7, {\"name\": \"a\"}], \"weights_sha256\": 3}";
    assert_int_equal(iso_summary_parse(&back, odd, strlen(odd), "x", NULL, &e), 0);
    assert_true(back.rounds == 0 && back.seconds == 0 && back.weights_sha256[0] == 0);
    iso_summary_clear(&back, NULL);
}

static int out_and_back(const iso_alloc *a, void *context)
{
    (void)context;
    iso_summary s = example(a), back = {0};
    int result = s.node_count == 2 ? 0 : ISO_E_NOMEM;
    char *text = result ? NULL : iso_summary_text(&s, false, a);
    if (!text)
        result = ISO_E_NOMEM;
    if (result == 0)
        result = iso_summary_parse(&back, text, strlen(text), "x", a, NULL);
    iso_free(a, text);
    iso_summary_clear(&back, a);
    iso_summary_clear(&s, a);
    return result;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(test_every_allocation(out_and_back, NULL) >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_says_what_the_round_did),
        cmocka_unit_test(extremes_stay_json),
        cmocka_unit_test(a_trail_finds_every_change),
        cmocka_unit_test(an_interrupted_file_is_cut_at_the_round),
        cmocka_unit_test(a_summary_comes_back),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
