/* SPDX-License-Identifier: Apache-2.0
 * Learning rate over the run. No libm: the rate is part of every weight's bits. */
#include <math.h>

#include "isochron/nn.h"
#include "nn/power.h"

/* cos(pi t) for t in [0, 1]: sin(pi (1/2 - t)) by its Taylor series to the 21st power; within 1e-16. */
static double cos_pi(double t)
{
    static const double coefficient[] = {
        1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000,
        1.0 / 355687428096000, -1.0 / 121645100408832000, 1.0 / 51090942171709440000.0,
    };
    double z = 3.14159265358979323846 * (0.5 - t), square = z * z, sum = 0;
    for (int i = (int)(sizeof coefficient / sizeof *coefficient) - 1; i >= 0; i--)
        sum = fma(sum, square, coefficient[i]);
    return sum * z;
}

double iso_schedule_rate(const iso_schedule *s, const iso_optimizer *o, uint64_t done, uint64_t step, uint64_t epoch,
                         uint64_t total)
{
    double rate = o->learning_rate, warm = s->warmup_epochs * (double)epoch, at = (double)done, end = (double)(done + step);
    if (end < warm)
        return rate * (end / warm);
    if (s->kind == ISO_STEP) {
        double steps = at / (s->step_epochs * (double)epoch);
        return rate * iso_power(s->gamma, steps < 0x1p40 ? (uint64_t)steps : (uint64_t)1 << 40);
    }
    if (s->kind == ISO_COSINE) {
        double whole = (double)total - warm, t = whole > 0 ? (at - warm) / whole : 0;
        t = t > 1 ? 1 : t < 0 ? 0 : t; /* below 0: the step that ends the warm-up */
        return rate * fma(1 - s->final_factor, 0.5 * (1 + cos_pi(t)), s->final_factor);
    }
    return rate;
}
