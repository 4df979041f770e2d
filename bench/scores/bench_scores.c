/* SPDX-License-Identifier: Apache-2.0
 * The scores and shares against an oracle that knows the true speeds: four nodes 8:4:2:1, 256 units a round, measurements with
 * 5 % log-normal noise and 1 % outliers of four times, 300 rounds, 20 seeds. Efficiency is the time of an equal finish without
 * noise over the time used; what counts is ours over the oracle's, noise hitting both alike.
 *
 *     bench_scores [SEEDS]      prints tables in Markdown */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "core/partition.h"
#include "core/score.h"

enum { NODES = 4, UNITS = 256, ROUNDS = 300, STEP = 100, STEP_BACK = 200, SOON = 3 };

typedef enum course { STATIC, STEPPED, DRIFT, BURSTS, COURSES } course;
static const char *const names[COURSES] = {"static", "a node 4x slower, rounds 100 to 200", "drift of +-50 %, period 100",
                                           "bursts of 3x, 20 rounds in 150"};

typedef struct figures {
    double ideal, ours, oracle;             /* times */
    double ours_after, oracle_after;        /* STEPPED: from the third round after a change on, for ten rounds */
    double late;                            /* STEPPED: rounds until the shares are within a tenth of the oracle's */
    double changes;
} figures;

static double normal(iso_rng *r)
{
    double u = iso_rng_double(r), v = iso_rng_double(r);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

/* True time of a unit. */
static double unit_time(course c, uint32_t k, uint32_t round, uint32_t seed)
{
    double t = 1e6 * (double)(1 << k);
    if (c == STEPPED && k == seed % NODES && round >= STEP && round < STEP_BACK)
        t *= 4;
    if (c == DRIFT)
        t /= 1 + 0.5 * sin(6.283185307179586 * (round / 100.0 + (k * 0.29 + seed * 0.37)));
    if (c == BURSTS && (round + 37 * k + 5 * seed) % 150 < 20)
        t *= 3;
    return t;
}

static double finish(const iso_share *s, const double *time)
{
    double last = 0;
    for (uint32_t k = 0; k < NODES; k++)
        last = fmax(last, s[k].units * time[k]);
    return last;
}

static bool near(const iso_share *a, const iso_share *b)
{
    for (uint32_t k = 0; k < NODES; k++)
        if (fabs((double)a[k].units - b[k].units) > 1 + 0.1 * b[k].units)
            return false;
    return true;
}

/* New shares if they pay; true when they changed. */
static bool plan(iso_share *s, const iso_score *score)
{
    iso_share best[NODES];
    uint32_t heap[NODES];
    for (uint32_t k = 0; k < NODES; k++) {
        s[k] = (iso_share){.unit_ns = score[k].ns > 0 ? score[k].ns : 1e6, .most = UINT32_MAX, .units = s[k].units};
        best[k] = s[k];
    }
    iso_partition(best, NODES, UNITS, heap);
    if (s[0].units > 0 && iso_partition_keep(iso_partition_makespan(s, NODES), iso_partition_makespan(best, NODES)))
        return false;
    bool changed = memcmp(s, best, sizeof best) != 0;
    memcpy(s, best, sizeof best);
    return changed;
}

static void run(course c, uint32_t seed, figures *f)
{
    iso_rng r = iso_rng_make(&(iso_rng_key){.seed = seed, .purpose = ISO_PURPOSE_NOISE, .layer = (uint32_t)c});
    iso_score score[NODES] = {0};
    iso_share ours[NODES] = {0}, oracle[NODES] = {0};
    uint32_t heap[NODES], waiting = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        double time[NODES], rate = 0;
        for (uint32_t k = 0; k < NODES; k++) {
            double t = unit_time(c, k, round, seed);
            rate += 1 / t;
            oracle[k] = (iso_share){.unit_ns = t, .most = UINT32_MAX};
            time[k] = t * exp(0.05 * normal(&r)) * (iso_rng_chance(&r, 1, 100) ? 4 : 1);
        }
        iso_partition(oracle, NODES, UNITS, heap);
        f->changes += plan(ours, score);
        double used = finish(ours, time), best = finish(oracle, time);
        f->ideal += UNITS / rate;
        f->ours += used;
        f->oracle += best;
        uint32_t since = round >= STEP_BACK ? round - STEP_BACK : round - STEP;
        if (c == STEPPED && round >= STEP) {
            waiting = since == 0 ? 1 : waiting;
            waiting = waiting && !near(ours, oracle);
            f->late += waiting;
            if (since >= SOON && since < SOON + 10) {
                f->ours_after += used;
                f->oracle_after += best;
            }
        }
        for (uint32_t k = 0; k < NODES; k++)
            iso_score_measure(&score[k], ours[k].units * 16.0, ours[k].units * time[k]);
    }
}

int main(int argc, char **argv)
{
    uint32_t seeds = argc > 1 ? (uint32_t)atoi(argv[1]) : 20;
    puts("| course | ours | oracle | ours / oracle | changes of shares a run |\n|---|---|---|---|---|");
    figures stepped = {0};
    for (course c = STATIC; c < COURSES; c++) {
        figures f = {0};
        for (uint32_t seed = 1; seed <= seeds; seed++)
            run(c, seed, &f);
        printf("| %s | %.3f | %.3f | **%.4f** | %.0f |\n", names[c], f.ideal / f.ours, f.ideal / f.oracle, f.oracle / f.ours,
               f.changes / seeds);
        if (c == STEPPED)
            stepped = f;
    }
    printf("\nStep: from the %drd round after a change on, ten rounds long: **%.4f** of the oracle; the shares are the oracle's\n"
           "within a tenth after %.2f rounds (mean).\n",
           SOON, stepped.oracle_after / stepped.ours_after, stepped.late / (2 * seeds));
    return 0;
}
