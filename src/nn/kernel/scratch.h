/* SPDX-License-Identifier: Apache-2.0
 * Where the backward convolutions keep their intermediate values inside the caller's scratch. The same for every instruction
 * set, so that a net's memory does not depend on the CPU.
 */
#ifndef ISO_NN_KERNEL_SCRATCH_H
#define ISO_NN_KERNEL_SCRATCH_H

#include "nn/kernel/narrow.h"

/* conv_data. */
typedef struct iso_conv_data_scratch {
    size_t left, width;   /* zero columns before a row of dy; columns of a padded row */
    size_t most_taps;     /* taps a block: whole filters, at least one */
    float *padded;        /* [K][P][width][16] */
    float *packed;        /* [most_taps][6] */
    int32_t *taps;        /* [2][most_taps] */
    size_t bytes;
} iso_conv_data_scratch;

/* conv_pool_backward. */
typedef struct iso_conv_pool_scratch {
    size_t sample;        /* floats of one sample as a row: [H + 2pr][W + 2pc][C], and room to read beyond its end */
    size_t row;           /* round16(S C): one kernel row of a weight gradient, [S][C] */
    size_t frame;         /* round16((S + stride) C): one kernel row of weights, shifted by 0 or stride pixels */
    size_t list;          /* floats of one list: the pooled pixels of a plane, and room to write beyond them */
    size_t near;          /* floats of one pixel's list: the filters, and room to write beyond them */
    uint32_t filters;     /* filters whose lists are held at a time */
    float *x, *dx;        /* [16][sample] each */
    float *sums;          /* [16][K][R][row] */
    float *bias;          /* [K][16] */
    float *frames;        /* [2][K][R][frame] */
    float *value;         /* [16][filters][list], or [2][16][near]: gradients that are not 0 ... */
    int32_t *at;          /* ... and their places */
    uint32_t *count;      /* [16][filters] */
    size_t bytes;
} iso_conv_pool_scratch;

/* The convolutions of narrow.h. One sample at a time but for the sums. */
typedef struct iso_narrow_conv_places {
    size_t left, top, width, height; /* zero columns and rows before dy; columns and rows of padded */
    size_t row, frame;    /* as in iso_conv_pool_scratch */
    size_t list, near;    /* floats of one list: the pooled pixels, or the filters, and room to write beyond them */
    size_t sample;        /* floats of one sample's sums, a multiple of 16 */
    int32_t *taps;        /* offsets of the taps of one output */
    float *packed;        /* weights as panels [outputs/16][taps][16] */
    float *padded;        /* [height][width][K] */
    float *sums, *bias;   /* [n][sample], [n][round16(K)] */
    float *frames;        /* [2][K][R][frame] */
    float *dx;            /* bordered, with room for a frame beyond the end */
    float *value;         /* [K][list], or [2][near] */
    int32_t *at;
    uint32_t *count;      /* [K] */
    size_t bytes;
} iso_narrow_conv_places;

/* The places inside `scratch`; NULL gives the sizes alone. */
iso_narrow_conv_places iso_narrow_conv_layout(const iso_conv *c, uint32_t n, void *scratch);
iso_conv_data_scratch iso_conv_data_layout(const iso_conv *c, void *scratch);
iso_conv_pool_scratch iso_conv_pool_layout(const iso_conv *c, void *scratch);

#endif
