/* SPDX-License-Identifier: Apache-2.0
 * How fast a node is: a scalar Kalman filter on ln(nanoseconds a sample), and its fixed cost apart from that. Pure
 * arithmetic on plain structs that may be copied, compared and saved; docs/algorithms.md 3.1.
 *
 *     probe    segments of 1, 2, 4 .. units until one lasts ISO_PROBE_NS; the first (cold) one is dropped, the median of the
 *              last three kept ones is the start. What is measured so far serves meanwhile.
 *     filter   p += q; e = z - x; |e| <= 4 sqrt(p + r): x += g e, p *= 1 - g, g = p / (p + r)
 *     gate     a value further away is held out; when the next one is out on the same side too the node has really changed:
 *              x = the mean of both, p = 2 r
 *     noise    r = (1.4826 * median |z - last z|)^2 / 2, the median running, never below 0.02^2, at first 0.05^2. Not of |e|:
 *              on a node that drifts e holds the filter's lag too, r would grow, and the filter slow down just when it must
 *              follow
 *
 * Invariants: ns is 0 (nothing known) or finite and positive; one outlier never moves it. */
#ifndef ISO_CORE_SCORE_H
#define ISO_CORE_SCORE_H

#include <stdbool.h>
#include <stdint.h>

#define ISO_PROBE_NS 20000000.0 /* a segment so long is measured well */
#define ISO_PROBE_UNITS_MAX 64u
#define ISO_OVERHEADS 16u

/* All zeros: nothing known. */
typedef struct iso_score {
    double ns;               /* a sample, as to be used; 0: not known */
    double x, p;             /* ln ns and its variance */
    double last;             /* the last value that counted */
    double deviation;        /* running median of what two neighbouring values differ by: r follows from it */
    double held;             /* the value that was held out */
    int32_t side;            /* of the held out value: -1 faster, 1 slower; 0: there is none */
    uint32_t probes;         /* segments measured while probing */
    uint32_t probe_units;    /* doublings of the next probe */
    bool settled;            /* the probe is over, or a hint came */
    double probe[3];         /* the last ones kept: ln ns */
} iso_score;

/* A segment of `samples` samples took `ns` of compute (waiting excluded). samples or ns not positive or not finite: nothing
 * happens. Cost O(1), about 50 ns. */
void iso_score_measure(iso_score *s, double samples, double ns);

/* What was known of the node before it came: ns a sample, from a measurement of another run. No probe then; the first
 * measurement outweighs it by far. Not positive or not finite: nothing happens. */
void iso_score_hint(iso_score *s, double ns);

/* Units that the next segment of a node should have while it is probed: 1, 2, 4 ..; 0 when the probe is over. */
uint32_t iso_score_probe_units(const iso_score *s);

/* r, the variance of one measurement's logarithm. */
double iso_score_noise(const iso_score *s);

/* What a lease costs beside its samples: sending, latency, waking. The least of the last 16. All zeros: nothing known. */
typedef struct iso_overhead {
    float last[ISO_OVERHEADS]; /* ns */
    uint32_t count;            /* noted; the ring's place is count % ISO_OVERHEADS */
} iso_overhead;

/* ns >= 0; else nothing happens. */
void iso_overhead_note(iso_overhead *o, double ns);
/* ns; 0 while nothing is known. */
double iso_overhead_ns(const iso_overhead *o);

#endif
