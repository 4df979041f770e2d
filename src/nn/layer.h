/* SPDX-License-Identifier: Apache-2.0
 * What a layer is: a row of functions (iso_layer_kind, one file a kind in layer/) and what a built network knows of one layer.
 *
 * Between layers an activation of G lane groups stands in one of these layouts:
 *   LANES  [G][C][H][W][16]                       the sample is innermost
 *   ROWS   [16 G][ld], ld = round16(C*H*W)        a sample is a row
 * A layer says which layout it wants and gives; the pass converts where two neighbours differ. A convolution wants LANES with a
 * border of zeros. Gradients between layers are always LANES without border.
 *
 * A layer may *absorb* the layers after it (an activation, a pooling) and compute them in one go; a *view* (flatten) changes
 * the shape and nothing else. What is absorbed or a view has no functions called. */
#ifndef ISO_NN_LAYER_H
#define ISO_NN_LAYER_H

#include "isochron/nn.h"
#include "nn/kernel/narrow.h"

typedef enum iso_layout { ISO_LAYOUT_LANES, ISO_LAYOUT_ROWS } iso_layout;

/* The part of a layer's parameters that is one tensor. count 0: there is none. */
typedef struct iso_part {
    size_t count, values;         /* published, internal (a multiple of 16) */
    size_t published, offset;     /* where it begins in the two layouts */
    uint32_t rank, dim[4];
    size_t fan_in, fan_out;       /* for the initial weights */
} iso_part;

enum { ISO_WEIGHT, ISO_BIAS, ISO_PARTS };

typedef struct iso_layer {
    const iso_layer_kind *kind;
    char name[ISO_NAME_MAX];
    double value[ISO_LAYER_OPTIONS_MAX];
    uint32_t index;
    iso_shape in, out;            /* out: of this layer alone, before what it absorbs */
    iso_shape out_whole;          /* after what it absorbs */
    iso_part part[ISO_PARTS];
    double flops;
    uint32_t unused_rows, unused_columns;
    uint32_t absorbs;             /* following layers computed by this one */
    bool absorbed;                /* computed by an earlier one */
    iso_act act;                  /* absorbed activation, or an elementwise layer's own */
    float slope;
    bool pooled;                  /* absorbed 2x2 max pooling */
    iso_init init;                /* resolved, never AUTO */
    iso_conv conv;                /* conv: geometry; its pads are the border wanted of the input (0 in other layers) */
    iso_pool pool;                /* max_pool, avg_pool, subsample */
    iso_dense dense;              /* dense */
} iso_layer;

/* One layer's work on one unit. The pass owns all of it. */
typedef struct iso_work {
    const iso_kernels *kernels;
    uint32_t groups;
    const float *w;               /* all weights [P'] */
    const float *x;               /* input in the layout wanted (ROWS: lies in the kept block) */
    float *y;                     /* output in the layout given, of the last absorbed layer */
    float *dy;                    /* LANES: gradient of y; may be overwritten */
    float *dx;                    /* LANES: gradient of x without border; NULL: not wanted */
    void *saved;                  /* saved_bytes, from forward to backward */
    void *scratch;                /* scratch_bytes, of no one */
    float *gradient;              /* [P']: the unit's weight gradient, for layers that do not keep */
    float *kept_dy;               /* ROWS: where a layer that keeps leaves its output gradient */
} iso_work;

/* One layer's work on a step of few samples: layouts of nn/kernel/narrow.h. A layer with parameters takes its step in `backward`,
 * after dx. Activations between images are pixels, with the border that conv asks for in x alone. */
typedef struct iso_narrow_work {
    const iso_kernels *kernels;
    uint32_t n;
    uint32_t states;
    float *w, *const *state;      /* all weights [P'] and the optimiser's `states` arrays */
    const iso_step *step;         /* [ISO_PARTS] */
    const float *x;
    float *y;
    float *dy;                    /* may be overwritten */
    float *dx;                    /* NULL: not wanted */
    void *saved, *scratch;        /* as in iso_work */
} iso_narrow_work;

struct iso_layer_kind {
    const char *name, *help;
    const iso_option *options;
    uint32_t option_count;
    iso_layout wants, gives;
    iso_act act;                  /* an elementwise layer */
    bool view;
    bool keeps;                   /* weight gradient from kept rows, in `gradient` and `update` */
    /* Reads l->value and l->in; sets out, parts, flops, geometry. Errors: ISO_E_SHAPE naming l->name and the numbers. */
    int (*setup)(iso_layer *l, iso_error *e);
    /* How many of the `count` layers behind l it computes as well (sets l->act, l->pooled, ...). NULL: none. */
    uint32_t (*absorb)(iso_layer *l, const iso_layer *next, uint32_t count);
    /* NULL: 0 bytes. */
    size_t (*saved_bytes)(const iso_layer *l, uint32_t groups);
    size_t (*scratch_bytes)(const iso_layer *l, uint32_t groups);
    /* training false: what only backward reads need not be saved. NULL for views. */
    void (*forward)(const iso_layer *l, const iso_work *k, bool training);
    void (*backward)(const iso_layer *l, const iso_work *k);
    /* The same for steps of n samples. False when a value does not fit the grid or a new weight is not finite. */
    size_t (*narrow_saved)(const iso_layer *l, uint32_t n);
    size_t (*narrow_scratch)(const iso_layer *l, uint32_t n);
    void (*narrow_forward)(const iso_layer *l, const iso_narrow_work *k);
    bool (*narrow_backward)(const iso_layer *l, const iso_narrow_work *k);
    /* Where published value i of a part lies among its internal ones. NULL: at i. Layers that keep
     * have panels [out/16][in][16] of their weights [out][in]. */
    size_t (*place)(const iso_layer *l, int part, size_t i);
    /* Initial value of all weights when they are not drawn. NULL: drawn. Biases begin at 0. */
    float (*start)(const iso_layer *l);
    /* Layers that keep. As the kernels dense_gradient, dense_update: false when a value does not fit. */
    bool (*gradient)(const iso_layer *l, const iso_kernels *k, uint32_t n, const iso_dense_unit *unit, int64_t *sum, float limit);
    bool (*update)(const iso_layer *l, const iso_kernels *k, int part, const iso_step *s, size_t begin, size_t end, uint32_t n,
                   const iso_dense_unit *unit, uint32_t units, float *w, float *const *state, float limit);
};

/* Values of an activation, and the floats a row of it takes. */
static inline size_t iso_shape_values(iso_shape s) { return (size_t)s.c * s.h * s.w; }
static inline size_t iso_shape_row(iso_shape s) { return iso_round16(iso_shape_values(s)); }

/* For setup: one tensor with its published dimensions (internal values: count rounded up to 16). */
void iso_part_set(iso_part *p, uint32_t rank, const uint32_t *dim, size_t fan_in, size_t fan_out);

/* For narrow_backward: the step of one part from its gradient g [values]. */
bool iso_narrow_part(const iso_layer *l, const iso_narrow_work *k, int part, const float *g);

/* For setup of windows: output size of one axis, and what the stride leaves over. Errors: ISO_E_SHAPE. */
int iso_window_axis(const iso_layer *l, const char *what, uint32_t window, uint32_t stride, uint32_t padding, uint32_t in,
                    uint32_t *out, uint32_t *unused, iso_error *e);

/* Is this layer a plain max pooling of 2x2 windows and stride 2? */
bool iso_layer_is_max_pool_2(const iso_layer *l);

#endif
