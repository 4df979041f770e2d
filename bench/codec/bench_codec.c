/* SPDX-License-Identifier: Apache-2.0
 * What payloads cost on one core: nanoseconds a value of each kernel in each instruction set, and microseconds of a node's and the
 * coordinator's whole operations on LeNet-5 (61,706 values). Rounds are interleaved; the least and the median of each are printed.
 *     bench_codec [ROUNDS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "isochron/replica.h"
#include "nn/codec.h"

enum { VALUES = 61706, ROOM = 61712, ROUNDS_MAX = 199, OPERATIONS = 7 };

typedef struct bench {
    iso_net *net;
    iso_replica *replica;
    iso_merger *merger;
    iso_pass *pass;
    float *value, *work, *error, *sample;
    int64_t *sum;
    uint8_t *bytes, *down;
    int32_t label[16];
} bench;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *take(size_t bytes)
{
    void *p = iso_new(NULL, 1, bytes);
    if (!p)
        exit(4);
    return p;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef void (*operation)(bench *b, const iso_kernels *k, iso_payload payload);

static void encode(bench *b, const iso_kernels *k, iso_payload payload)
{
    memcpy(b->work, b->value, VALUES * sizeof(float));
    for (size_t at = 0; at < VALUES; at += ISO_BLOCK)
        k->pack(payload, b->bytes + iso_payload_bytes(payload, at), iso_block_values(VALUES, at), b->work + at, b->error + at,
                b->error + at);
}

static void decode(bench *b, const iso_kernels *k, iso_payload payload)
{
    for (size_t at = 0; at < VALUES; at += ISO_BLOCK)
        k->unpack(payload, b->work + at, iso_block_values(VALUES, at), b->bytes + iso_payload_bytes(payload, at), 0x1p23f);
}

static void accumulate(bench *b, const iso_kernels *k, iso_payload payload)
{
    float block[ISO_BLOCK];
    for (size_t at = 0; at < VALUES; at += ISO_BLOCK) {
        size_t n = iso_block_values(VALUES, at);
        k->unpack(payload, block, n, b->bytes + iso_payload_bytes(payload, at), 0x1p23f);
        k->weigh(b->sum + at, block, iso_round16(n), 16 * 0x1p40);
    }
}

static void kernels(bench *b, int rounds)
{
    static const iso_isa sets[] = {ISO_ISA_AVX512, ISO_ISA_AVX2, ISO_ISA_SCALAR};
    static const struct { const char *name; operation run; } what[] = {
        {"encode, error feedback", encode}, {"decode", decode}, {"decode and add to sums", accumulate}};
    static double took[3][3][ISO_PAYLOADS][ROUNDS_MAX];
    for (int r = 0; r < rounds; r++)
        for (int s = 0; s < 3; s++)
            for (int p = 0; iso_kernels_of(sets[s]) && p < (int)ISO_PAYLOADS; p++)
                for (int w = 0; w < 3; w++) {
                    double begun = now();
                    what[w].run(b, iso_kernels_of(sets[s]), (iso_payload)p);
                    took[s][w][p][r] = (now() - begun) * 1e9 / VALUES;
                }
    printf("ns a value: least (median)%*s", 6, "");
    for (int p = 0; p < (int)ISO_PAYLOADS; p++)
        printf("%16s", iso_payload_name((iso_payload)p));
    printf("\n");
    for (int s = 0; s < 3; s++)
        for (int w = 0; iso_kernels_of(sets[s]) && w < 3; w++) {
            printf("  %-7s %-22s", iso_isa_name(sets[s]), what[w].name);
            for (int p = 0; p < (int)ISO_PAYLOADS; p++) {
                qsort(took[s][w][p], (size_t)rounds, sizeof(double), ascending);
                printf("   %5.2f (%5.2f)", took[s][w][p][0], took[s][w][p][rounds / 2]);
            }
            printf("\n");
        }
}

static const int32_t *load(void *context, uint64_t position, uint32_t n, iso_pass *pass, iso_narrow *narrow)
{
    static const float one = 1, zero = 0;
    bench *b = context;
    const float *sample[16];
    for (uint32_t i = 0; i < n; i++)
        sample[i] = b->sample + (position + i) % 16 * 784;
    if (narrow)
        iso_narrow_load_f32(narrow, n, sample, &one, &zero);
    else
        iso_pass_load_f32(pass, n, sample, &one, &zero);
    return b->label;
}

static double timed(double *since)
{
    double t = now(), took = (t - *since) * 1e6;
    *since = t;
    return took;
}

/* One round of one node; the time of each operation. */
static void round_of(bench *b, iso_payload payload, double *took)
{
    iso_unit_result result;
    iso_figures figures;
    int32_t bad;
    size_t bytes = iso_replica_answer_bytes(b->replica, payload);
    double t = now();
    iso_replica_begin(b->replica, 0, 1);
    iso_replica_work(b->replica, b->pass, 0, 16, load, b, &result);
    took[0] = timed(&t);
    iso_replica_figures(b->replica, &figures);
    took[1] = timed(&t);
    if (iso_replica_encode(b->replica, payload, b->bytes, bytes, NULL))
        exit(3);
    took[2] = timed(&t);
    iso_merger_begin(b->merger, 64);
    t = now();
    if (iso_merger_take(b->merger, payload, b->bytes, bytes, 16, NULL))
        exit(3);
    took[3] = timed(&t);
    iso_payload down = iso_merger_down(b->merger);
    size_t down_bytes = iso_merger_down_bytes(b->merger);
    iso_merger_merge(b->merger, NULL, 0, VALUES, b->down, &bad);
    iso_merger_end(b->merger);
    took[4] = timed(&t);
    if (bad >= 0 || iso_replica_apply(b->replica, down, b->down, down_bytes, NULL))
        exit(3);
    took[5] = timed(&t);
    if (iso_replica_check(b->replica) != iso_merger_check(b->merger))
        exit(3);
    took[6] = timed(&t);
}

static void operations(bench *b, int rounds)
{
    static const char *const names[OPERATIONS] = {"16 samples: step", "monitor's figures", "encode an answer", "take an answer",
                                                  "merge", "apply", "check both"};
    static const iso_optimizer optimizer = {ISO_SGD, 0.01, 0.9, 0, 0, 0, 0, false};
    static const iso_schedule schedule = {.kind = ISO_CONSTANT};
    static double took[OPERATIONS][ISO_PAYLOADS][ROUNDS_MAX];
    for (int p = 0; p < (int)ISO_PAYLOADS; p++) {
        iso_replica_config c = {.net = b->net, .optimizer = &optimizer, .schedule = &schedule, .samples = 1000, .total = 1000,
                                .unit = 16, .local_batch = 16, .monitor = true};
        iso_merger_config m = {.net = b->net, .optimizer = &optimizer, .down = (iso_payload)p};
        void *memory[] = {take(iso_replica_bytes(&c)), take(iso_merger_bytes(&m))};
        b->replica = iso_replica_init(&c, memory[0]);
        b->merger = iso_merger_init(&m, memory[1]);
        iso_net_init(b->net, 1, b->value);
        iso_net_publish(b->net, b->value, iso_merger_array(b->merger, 0));
        iso_merger_full(b->merger, b->bytes);
        if (iso_replica_adopt(b->replica, b->bytes, iso_merger_full_bytes(b->merger), NULL))
            exit(3);
        for (int r = 0; r < rounds; r++) {
            double one[OPERATIONS];
            round_of(b, (iso_payload)p, one);
            for (int i = 0; i < OPERATIONS; i++)
                took[i][p][r] = one[i];
        }
        iso_free(NULL, memory[0]);
        iso_free(NULL, memory[1]);
    }
    printf("\nmicroseconds, LeNet-5, %s: least (median)\n", iso_isa_name(iso_isa_best()));
    for (int i = 0; i < OPERATIONS; i++) {
        printf("  %-30s", names[i]);
        for (int p = 0; p < (int)ISO_PAYLOADS; p++) {
            qsort(took[i][p], (size_t)rounds, sizeof(double), ascending);
            printf("   %5.0f (%5.0f)", took[i][p][0], took[i][p][rounds / 2]);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    static bench b;
    static iso_model model;
    int rounds = argc > 1 ? atoi(argv[1]) : 51;
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    if (iso_model_preset(&model, "lenet5", &(iso_preset_options){.classes = 10}, NULL) ||
        iso_net_new(&b.net, &model, (iso_shape){1, 28, 28}, 10, ISO_ISA_AUTO, NULL, NULL) || iso_net_parameters(b.net) != VALUES)
        return 3;
    b.pass = iso_pass_init(b.net, 16, true, take(iso_pass_bytes(b.net, 16, true)));
    b.value = take(iso_net_values(b.net) * sizeof(float));
    b.work = take(ROOM * sizeof(float));
    b.error = take(ROOM * sizeof(float));
    b.sum = take(ROOM * sizeof(int64_t));
    b.bytes = take(4 * ROOM);
    b.down = take(4 * ROOM);
    b.sample = take(16 * 784 * sizeof(float));
    uint32_t seed = 1;
    for (size_t i = 0; i < VALUES; i++)
        b.value[i] = (float)((int32_t)(seed = seed * 1664525u + 1013904223u) >> 12) * 0x1p-26f;
    for (size_t i = 0; i < 16 * 784; i++)
        b.sample[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-24f;
    for (int i = 0; i < 16; i++)
        b.label[i] = i % 10;
    kernels(&b, rounds);
    operations(&b, rounds);
    iso_net_free(b.net);
    return 0;
}
