/* SPDX-License-Identifier: Apache-2.0
 * The same shapes in oneDNN, one core, its own choice of layouts; reorders are not counted.
 */
#ifndef ISO_BENCH_ONEDNN_H
#define ISO_BENCH_ONEDNN_H

#include "nn/kernel/kernel.h"

typedef struct onednn_times {
    double forward, data, weights; /* seconds, 0: not measured */
} onednn_times;

#if defined ISO_BENCH_ONEDNN
onednn_times onednn_conv(const iso_conv *c, uint32_t n);
onednn_times onednn_dense(uint32_t in, uint32_t out, uint32_t n);
#else
static inline onednn_times onednn_conv(const iso_conv *c, uint32_t n)
{
    (void)c;
    (void)n;
    return (onednn_times){0};
}
static inline onednn_times onednn_dense(uint32_t in, uint32_t out, uint32_t n)
{
    (void)in;
    (void)out;
    (void)n;
    return (onednn_times){0};
}
#endif

#endif
