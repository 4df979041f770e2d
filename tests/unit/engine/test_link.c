/* SPDX-License-Identifier: Apache-2.0
 * The simulator's links against closed forms: one packet, many, wires that are shared, far and near machines, losses,
 * repetitions and reordering, machines that go. A rate of 1e9 bytes a second makes a byte a nanosecond. */
#include <math.h>

#include "test.h"

#include "engine/simulate/inside.h"

#define NODES 5u
#define MS ((int64_t)1000000)
#define SECOND (1000 * MS)
#define BYTE_A_NS 1e9
#define HEADER ((int64_t)ISO_FRAME_HEADER)
#define ARRIVALS 40000u

typedef struct arrival {
    int64_t at, tag;
    uint32_t node;
    bool up, dead;
} arrival;

/* A star without cores: frames are sent, and what arrives is written down. */
typedef struct star {
    test_heap heap;
    iso_cluster cluster;
    iso_machine machine[NODES];
    iso_simulate_options options;
    sim_node node[NODES];
    arrival arrived[ARRIVALS];
    uint32_t count;
    iso_sim s; /* the last: it ends in an array of no fixed length */
} star;

static star *make(double own, double shared, int64_t latency)
{
    star *t = calloc(1, sizeof *t);
    assert_non_null(t);
    const iso_ratio never = {0, 1};
    test_heap_init(&t->heap, 0);
    t->cluster = (iso_cluster){.bandwidth = shared, .count = NODES, .machine = t->machine};
    t->options.cluster = &t->cluster;
    t->s.config.options = &t->options;
    t->s.alloc = t->s.queue.alloc = &t->heap.alloc;
    t->s.node = t->node;
    t->s.count = NODES;
    t->s.seed = 1;
    t->s.first_free = UINT32_MAX;
    t->s.healed = true;
    t->s.loss = t->s.duplicate = t->s.reorder = never;
    for (uint32_t i = 0; i < NODES; i++) {
        t->machine[i] = (iso_machine){.name = "m"};
        t->machine[i].link = (iso_link){.bandwidth = own, .latency = latency, .loss = never, .duplicate = never, .reorder = never};
        t->node[i] = (sim_node){.machine = &t->machine[i], .up = true, .life = 1};
    }
    return t;
}

static void end(star *t)
{
    assert_false(t->s.ended);
    iso_sim_network_fini(&t->s);
    iso_free(t->s.alloc, t->s.queue.event);
    test_heap_expect_empty(&t->heap);
    free(t);
}

/* What comes up to and at `until` is written down. */
static void run(star *t, int64_t until)
{
    while (t->s.queue.count && t->s.queue.event[0].at <= until) {
        sim_event e;
        assert_true(sim_queue_take(&t->s.queue, &e));
        assert_true(e.at >= t->s.now);
        t->s.now = e.at;
        if (e.kind == SIM_PACKET) {
            iso_sim_pass(&t->s, e.what, e.at);
            continue;
        }
        const sim_message *m = &t->s.message[e.what];
        assert_int_equal(e.kind, SIM_MESSAGE);
        assert_true(t->count < ARRIVALS);
        t->arrived[t->count++] = (arrival){e.at, (int64_t)m->frame.round, m->node, m->up, m->dead};
    }
    t->s.now = until;
}

/* `bytes` in all, header included, at time `at`; the tag comes back with the arrival. */
static void send(star *t, int64_t at, uint32_t node, bool up, int64_t bytes, int64_t tag)
{
    if (at > t->s.now)
        run(t, at);
    assert_true(bytes >= HEADER);
    iso_frame f = {.kind = ISO_FRAME_HEARTBEAT, .slice_count = 1, .chunk_count = 1, .round = (uint64_t)tag};
    sim_blob *blob = iso_sim_blob(&t->s, 0, (uint64_t)(bytes - HEADER), false);
    iso_sim_send(&t->s, node, up, &f, blob);
    iso_sim_drop(&t->s, &blob);
}

static void expect(const star *t, uint32_t index, int64_t tag, int64_t at)
{
    assert_true(index < t->count);
    assert_int_equal(t->arrived[index].tag, tag);
    assert_int_equal(t->arrived[index].at, at);
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static const double rates[] = {0, BYTE_A_NS, BYTE_A_NS / 7, BYTE_A_NS / 1000};
static const int64_t ns_a_byte[] = {0, 1, 7, 1000};

/* n packets at once over two wires: the i-th is there at i max(t1, t2) + latency, in both directions. */
static void test_back_to_back(void **state)
{
    (void)state;
    for (uint32_t a = 0; a < TEST_COUNT(rates); a++)
        for (uint32_t b = 0; b < TEST_COUNT(rates); b++)
            for (int up = 0; up < 2; up++) {
                star *t = make(rates[a], rates[b], 3 * MS);
                for (int64_t i = 1; i <= 20; i++)
                    send(t, 5, 0, up, 1000, i);
                run(t, SECOND);
                for (int64_t i = 1; i <= 20; i++)
                    expect(t, (uint32_t)i - 1, i, 5 + i * 1000 * most(ns_a_byte[a], ns_a_byte[b]) + 3 * MS);
                assert_int_equal(up ? t->s.bytes_up : t->s.bytes_down, 20 * 1000);
                assert_int_equal(up ? t->s.bytes_down : t->s.bytes_up, 0);
                end(t);
            }
}

/* Packets that are not of one size: the pipeline's recurrence, which is the longest path of (packet, wire). */
static void test_sizes(void **state)
{
    (void)state;
    for (int up = 0; up < 2; up++) {
        star *t = make(BYTE_A_NS / 7, BYTE_A_NS, 2 * MS);
        uint64_t seed = test_seed("test_link sizes");
        int64_t at = 0, first_free = 0, second_free = 0, wanted[200];
        int64_t one = up ? 7 : 1, two = up ? 1 : 7;
        for (int64_t i = 0; i < 200; i++) {
            int64_t bytes = HEADER + (int64_t)test_random_below(&seed, 3000);
            at += (int64_t)test_random_below(&seed, 20000);
            send(t, at, 0, up, bytes, i);
            int64_t begin = most(at, first_free);
            first_free = begin + bytes * one;
            second_free = most(begin + 2 * MS, second_free) + bytes * two;
            wanted[i] = most(second_free, first_free + 2 * MS);
        }
        run(t, SECOND);
        assert_int_equal(t->count, 200);
        for (int64_t i = 0; i < 200; i++)
            expect(t, (uint32_t)i, i, wanted[i]);
        end(t);
    }
}

/* What many send at once shares the coordinator's wire: the last byte comes when all of it has been carried. */
static void test_shared(void **state)
{
    (void)state;
    for (int up = 0; up < 2; up++) {
        star *t = make(0, BYTE_A_NS, MS);
        for (uint32_t i = 0; i < NODES; i++)
            send(t, 0, i, up, 1000 * (int64_t)(i + 1), i);
        run(t, SECOND);
        int64_t sum = 0;
        for (uint32_t i = 0; i < NODES; i++)
            expect(t, i, i, (sum += 1000 * (int64_t)(i + 1)) + MS);
        end(t);
    }
}

/* A packet under way takes no wire: it neither holds up those that come before it nor those that come once it is through. */
static void test_far_and_near(void **state)
{
    (void)state;
    star *t = make(0, BYTE_A_NS, MS);
    t->machine[1].link.latency = 10 * SECOND;
    send(t, 0, 1, true, 5 * MS, 100);
    for (int64_t i = 0; i < 9; i++)
        send(t, i * SECOND, 0, true, 5 * MS, i);
    send(t, 10 * SECOND, 0, true, 5 * MS, 9);       /* comes while the far one is carried */
    send(t, 11 * SECOND, 0, true, 5 * MS, 10);
    run(t, 20 * SECOND);
    for (int64_t i = 0; i < 9; i++)
        expect(t, (uint32_t)i, i, i * SECOND + 6 * MS);
    expect(t, 9, 100, 10 * SECOND + 5 * MS);
    expect(t, 10, 9, 10 * SECOND + 10 * MS);
    expect(t, 11, 10, 11 * SECOND + 6 * MS);
    t->count = 0;
    for (uint32_t i = 0; i < 2; i++)
        send(t, 20 * SECOND, 1 - i, false, 5 * MS, i); /* down, the far one first: the near one waits for its bytes alone */
    run(t, 40 * SECOND);
    expect(t, 0, 1, 20 * SECOND + 11 * MS);
    expect(t, 1, 0, 30 * SECOND + 5 * MS);
    end(t);
}

/* A slow machine's bytes trickle through the coordinator's wire and leave it to others; it is full when it is. */
static void test_slow_and_fast(void **state)
{
    (void)state;
    star *t = make(BYTE_A_NS, BYTE_A_NS, 0);
    t->machine[0].link.bandwidth = BYTE_A_NS / 1000;
    send(t, 0, 0, true, 1000, 0);
    send(t, 100, 1, true, 1000, 1);
    send(t, 100, 2, true, 1000, 2);
    run(t, SECOND);
    expect(t, 0, 1, 2000); /* 1000 of the slow machine's, its own 1000 */
    expect(t, 1, 2, 3000);
    expect(t, 2, 0, MS);
    end(t);
}

static int by_first(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : x[3] < y[3] ? -1 : 1;
}

/* Random traffic of machines near and far, fast and slow: sorted by when their first bytes come, served one after the other. */
static void test_order_of_coming(void **state)
{
    (void)state;
    enum { PACKETS = 3000 };
    static int64_t packet[PACKETS][4]; /* first and last byte at the second wire, bytes, tag */
    static int64_t wanted[PACKETS];
    star *t = make(0, BYTE_A_NS, 0);
    uint64_t seed = test_seed("test_link order");
    int64_t own_free[NODES] = {0}, at = 0, free_at = 0, last_of[NODES] = {0}, last_tag[NODES];
    for (uint32_t i = 0; i < NODES; i++) {
        t->machine[i].link.latency = (int64_t[]){0, 10, MS, 20 * MS, SECOND}[i];
        t->machine[i].link.bandwidth = rates[i % TEST_COUNT(rates)];
        last_tag[i] = -1;
    }
    for (int64_t i = 0; i < PACKETS; i++) {
        uint32_t node = (uint32_t)test_random_below(&seed, NODES);
        int64_t bytes = HEADER + (int64_t)test_random_below(&seed, 2000);
        at += (int64_t)test_random_below(&seed, 3000);
        send(t, at, node, true, bytes, i);
        int64_t begin = most(at, own_free[node]), latency = t->machine[node].link.latency;
        own_free[node] = begin + bytes * ns_a_byte[node % TEST_COUNT(rates)];
        memcpy(packet[i], (int64_t[4]){begin + latency, own_free[node] + latency, bytes, i}, sizeof packet[i]);
    }
    run(t, 1000 * SECOND);
    qsort(packet, PACKETS, sizeof packet[0], by_first);
    for (uint32_t i = 0; i < PACKETS; i++) {
        free_at = most(packet[i][0], free_at) + packet[i][2];
        wanted[packet[i][3]] = most(free_at, packet[i][1]);
    }
    assert_int_equal(t->count, PACKETS);
    for (uint32_t i = 0; i < PACKETS; i++) {
        const arrival *a = &t->arrived[i];
        assert_int_equal(a->at, wanted[a->tag]);
        assert_true(a->tag > last_tag[a->node] && a->at >= last_of[a->node]); /* a link keeps the order */
        last_tag[a->node] = a->tag;
        last_of[a->node] = a->at;
    }
    end(t);
}

/* `count` packets of 1000 bytes, one every 10 us, over links of which `set` made something; the rate is of 1/8. */
static star *lossy(iso_ratio *(*of)(iso_link *), bool up, int64_t count)
{
    star *t = make(BYTE_A_NS, BYTE_A_NS, MS);
    *of(&t->machine[0].link) = (iso_ratio){1, 8};
    t->s.seed = test_seed("test_link");
    t->s.lossy = true;
    t->s.core.resend = 1;
    for (int64_t i = 0; i < count; i++)
        send(t, i * 10000, 0, up, 1000, i);
    run(t, 1000 * SECOND);
    return t;
}

static iso_ratio *loss_of(iso_link *l)
{
    return &l->loss;
}

static iso_ratio *duplicate_of(iso_link *l)
{
    return &l->duplicate;
}

static iso_ratio *reorder_of(iso_link *l)
{
    return &l->reorder;
}

static bool near_an_eighth(int64_t count, int64_t of)
{
    return fabs((double)count - (double)of / 8) < 5 * sqrt((double)of * 7 / 64);
}

/* An eighth is lost, and those that come do so when they would have come anyhow; the lost ones are counted as sent. */
static void test_loss(void **state)
{
    (void)state;
    for (int up = 0; up < 2; up++) {
        star *t = lossy(loss_of, up, 20000);
        assert_true(near_an_eighth(20000 - (int64_t)t->count, 20000));
        for (uint32_t i = 0; i < t->count; i++) {
            assert_int_equal(t->arrived[i].at, t->arrived[i].tag * 10000 + 1000 + MS);
            assert_true(i == 0 || t->arrived[i].tag > t->arrived[i - 1].tag);
        }
        assert_int_equal(up ? t->s.bytes_up : t->s.bytes_down, 20000 * 1000);
        end(t);
    }
}

/* A lost packet takes the sender's wire, not the one that it never comes to. */
static void test_loss_takes_one_wire(void **state)
{
    (void)state;
    star *t = make(BYTE_A_NS, BYTE_A_NS / 7, 0);
    t->machine[1].link.loss = (iso_ratio){1, 1};
    t->s.lossy = true;
    t->s.core.resend = 1;
    for (int64_t i = 0; i < 10; i++) {
        send(t, 0, 1, true, 1000, i);
        send(t, 0, 0, true, 1000, 100 + i);
    }
    run(t, SECOND);
    assert_int_equal(t->count, 10);
    for (int64_t i = 0; i < 10; i++)
        expect(t, (uint32_t)i, 100 + i, (i + 1) * 7000);
    assert_int_equal(t->node[1].wire_up.busy_until, 10000);
    end(t);
}

/* A repeated packet comes twice, and takes the second wire twice. */
static void test_duplicates(void **state)
{
    (void)state;
    for (int up = 0; up < 2; up++) {
        star *t = lossy(duplicate_of, up, 20000);
        assert_true(near_an_eighth((int64_t)t->count - 20000, 20000));
        for (uint32_t i = 0; i < t->count; i++) {
            bool again = i > 0 && t->arrived[i].tag == t->arrived[i - 1].tag;
            assert_int_equal(t->arrived[i].at, t->arrived[i].tag * 10000 + (again ? 2000 : 1000) + MS);
        }
        end(t);
    }
}

/* An eighth is up to 20 latencies and 1 ms late, evenly; nothing else is. */
static void test_reordering(void **state)
{
    (void)state;
    for (int up = 0; up < 2; up++) {
        star *t = lossy(reorder_of, up, 20000);
        int64_t late = 0, most_late = 0, sum = 0, back = 0;
        assert_int_equal(t->count, 20000);
        for (uint32_t i = 0; i < t->count; i++) {
            int64_t by = t->arrived[i].at - (t->arrived[i].tag * 10000 + 1000 + MS);
            assert_true(by >= 0 && by <= 21 * MS + 3000); /* or has met a late one */
            back += i > 0 && t->arrived[i].tag < t->arrived[i - 1].tag;
            late += by > 3000;
            sum += by > 3000 ? by : 0;
            most_late = most(by, most_late);
        }
        assert_true(near_an_eighth(late, 20000) && back > 1000);
        assert_true(fabs((double)sum / (double)late - 10.5 * MS) < 0.5 * MS && most_late > 20 * MS);
        end(t);
    }
}

/* A machine that goes takes with it what its own link has not done with; what was out goes on, and the link is free again. */
static void test_a_machine_goes(void **state)
{
    (void)state;
    star *t = make(BYTE_A_NS / 1000, 0, 10 * MS);
    t->s.core.resend = 1;
    for (int64_t i = 0; i < 10; i++)
        send(t, 0, 0, true, 1000, i); /* a millisecond each */
    send(t, 0, 1, true, 1000, 100);
    run(t, 5 * MS + MS / 2);
    t->node[0].up = false;
    iso_sim_unplug(&t->s, 0);
    send(t, 6 * MS, 0, false, 1000, 200); /* comes while nobody is there */
    run(t, 17 * MS);
    t->node[0].up = true;
    t->node[0].life++;
    send(t, 17 * MS, 0, true, 1000, 300);
    send(t, 17 * MS, 0, false, 1000, 400);
    run(t, SECOND);
    uint32_t came = 0;
    for (uint32_t i = 0; i < t->count; i++)
        came += !t->arrived[i].dead;
    assert_int_equal(came, 5 + 1 + 2);
    for (uint32_t i = 0; i < t->count; i++) {
        const arrival *a = &t->arrived[i];
        if (a->node == 0 && a->tag < 10)
            assert_true(a->dead == (a->tag >= 5) && a->at == (a->tag + 11) * MS);
        else
            assert_true(a->tag == 100 ? a->at == 11 * MS : a->tag >= 300 && a->at == 28 * MS);
    }
    end(t);
}

/* However slow a wire, times stay in their range. */
static void test_slowest(void **state)
{
    (void)state;
    sim_wire w = {0};
    int64_t last = 0;
    for (int i = 0; i < 100; i++) {
        sim_passage p = sim_wire_carry(&w, 1e-9, (sim_passage){last, last}, 1e12);
        assert_true(p.first >= 0 && p.last >= p.first && p.last >= last && p.last <= (int64_t)1 << 62);
        last = p.last;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_back_to_back),      cmocka_unit_test(test_sizes),      cmocka_unit_test(test_shared),
        cmocka_unit_test(test_far_and_near),      cmocka_unit_test(test_slow_and_fast), cmocka_unit_test(test_order_of_coming),
        cmocka_unit_test(test_loss),              cmocka_unit_test(test_loss_takes_one_wire), cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_reordering),        cmocka_unit_test(test_a_machine_goes), cmocka_unit_test(test_slowest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
