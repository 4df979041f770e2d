/* SPDX-License-Identifier: Apache-2.0
 * Networks: description, parameters, one computing unit forward and backward, the optimiser's step.
 *
 * Letters: N samples, C channels, H height, W width, K filters, R S kernel height and width, G lane groups, P values.
 * A *unit* is 16, 32, 48 or 64 samples; inside it the sample is the vector lane: a unit has G = unit/16 lane groups and an
 * activation is [G][C][H][W][16]. A short unit is padded with zero samples whose gradient is exactly 0.
 *
 * Parameters exist in two layouts of fp32:
 *   published  P = iso_net_parameters: tensors in order of the layers, dense [out][in], convolution [out][in][r][s], then the
 *              bias. Files, frames between processes and hashes use it.
 *   internal   P' = iso_net_values >= P: what the kernels read (dense weights in panels of 16 outputs, padding is 0 and stays
 *              0). It depends on the network alone, never on the CPU.
 * Arithmetic (docs/determinism.md): every output value is one chain of fused multiply-adds in a stated order; gradients of a
 * unit are rounded to the grid 2^-40 and summed as int64; so the same bits come from every instruction set, compiler, split.
 *
 * Intended use
 *   1. iso_model_preset (or fill an iso_model by hand), iso_net_new.
 *   2. iso_net_init the internal weights w; zero the optimiser's state and the int64 sums.
 *   3. For each unit of a batch: iso_pass_load_*, iso_pass_train, iso_pass_gradient into a sum. Any thread, any order.
 *   4. iso_net_update over all values (or slices of them, on several threads) with all sums of the batch. Back to 3.
 */
#ifndef ISOCHRON_NN_H
#define ISOCHRON_NN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isochron/alloc.h"
#include "isochron/error.h"
#include "isochron/shape.h"

#define ISO_LANES 16u
#define ISO_UNIT_MAX 64u         /* samples in the largest unit */
#define ISO_NAME_MAX 48u         /* bytes of a layer's or tensor's name, with the NUL */
#define ISO_LAYERS_MAX 128u
#define ISO_LAYER_OPTIONS_MAX 8u
#define ISO_KEPT_MAX 64u           /* units a step can take from kept blocks */
#define ISO_GRID_BITS 40         /* gradients and losses are summed as multiples of 2^-40 */

typedef enum iso_isa { ISO_ISA_AUTO, ISO_ISA_SCALAR, ISO_ISA_AVX2, ISO_ISA_AVX512 } iso_isa;

/* "auto", "scalar", "avx2", "avx512" <-> iso_isa; _parse returns ISO_E_ARGUMENT for another word. */
ISO_API int iso_isa_parse(const char *word, iso_isa *out);
ISO_API const char *iso_isa_name(iso_isa isa);
/* The best set this CPU has; ISO_E_UNSUPPORTED from iso_net_new when another one is asked for. */
ISO_API iso_isa iso_isa_best(void);

/* ---- description of a model ------------------------------------------------------------------------------------------- */

typedef enum iso_option_type { ISO_OPTION_INT, ISO_OPTION_FLOAT, ISO_OPTION_BOOL, ISO_OPTION_CHOICE } iso_option_type;

/* One option of a layer kind, as the job file spells it. The value is a double (for a choice: its index). */
typedef struct iso_option {
    const char *name;
    iso_option_type type;
    double standard, min, max;    /* default and bounds; required when standard is NaN */
    const char *const *choices;   /* NULL-terminated, for ISO_OPTION_CHOICE */
    const char *help;
} iso_option;

typedef struct iso_layer_kind iso_layer_kind;

/* The table of layer kinds ("conv", "dense", "max_pool", ...). index 0..count-1. NULL when there is none such. */
ISO_API uint32_t iso_layer_kind_count(void);
ISO_API const iso_layer_kind *iso_layer_kind_at(uint32_t index);
ISO_API const iso_layer_kind *iso_layer_kind_find(const char *name);
ISO_API const char *iso_layer_kind_name(const iso_layer_kind *kind);
ISO_API const char *iso_layer_kind_help(const iso_layer_kind *kind);
/* Options in the order of iso_layer_spec.value; the first one is what the short form `dense: 120` sets. */
ISO_API const iso_option *iso_layer_kind_options(const iso_layer_kind *kind, uint32_t *count);

typedef struct iso_layer_spec {
    const iso_layer_kind *kind;
    double value[ISO_LAYER_OPTIONS_MAX];
    char name[ISO_NAME_MAX];      /* "" lets iso_net_new name it: conv1, conv2, dense1, ... */
} iso_layer_spec;

typedef enum iso_loss { ISO_LOSS_CROSS_ENTROPY, ISO_LOSS_MSE } iso_loss;
typedef enum iso_init { ISO_INIT_AUTO, ISO_INIT_LECUN, ISO_INIT_XAVIER, ISO_INIT_HE } iso_init;

typedef struct iso_model {
    iso_layer_spec layer[ISO_LAYERS_MAX];
    uint32_t count;
    iso_loss loss;
    iso_init init;                /* AUTO: He before relu-like activations, LeCun before tanh forms, Xavier elsewhere */
} iso_model;

/* A layer spec with every option at its default; ISO_E_ARGUMENT for an unknown kind. */
ISO_API int iso_layer_spec_default(iso_layer_spec *out, const char *kind, iso_error *e);

/* What a preset can be told; zero or NULL means the preset's default. */
typedef struct iso_preset_options {
    uint32_t classes;             /* outputs; required */
    uint32_t hidden[16], hidden_count;
    const char *activation;       /* mlp: relu (default), leaky_relu, sigmoid, tanh, lecun_tanh */
    const char *form;             /* lenet5: "modern" (default, 61,706 parameters on 28x28) or "1998" */
} iso_preset_options;

/* Presets by name ("mlp", "lenet5"); names are listed by _at (NULL past the end). Errors: ISO_E_ARGUMENT with the right words. */
ISO_API const char *iso_preset_at(uint32_t index);
ISO_API int iso_model_preset(iso_model *out, const char *preset, const iso_preset_options *options, iso_error *e);

/* ---- optimiser and schedule ------------------------------------------------------------------------------------------- */

typedef enum iso_optimizer_kind { ISO_SGD, ISO_NESTEROV, ISO_ADAM } iso_optimizer_kind;

typedef struct iso_optimizer {
    iso_optimizer_kind kind;
    double learning_rate;         /* the schedule multiplies it; steps are taken in floats: below 2^-149 it is 0 */
    double momentum;              /* SGD, Nesterov */
    double beta1, beta2, epsilon; /* Adam */
    double weight_decay;          /* added to the gradient (coupled), as the AlexNet paper writes it */
    bool decay_bias;
} iso_optimizer;

typedef enum iso_schedule_kind { ISO_CONSTANT, ISO_STEP, ISO_COSINE } iso_schedule_kind;

typedef struct iso_schedule {
    iso_schedule_kind kind;
    double warmup_epochs;         /* a straight rise first: a step that ends after a share of them has that share of the rate */
    double step_epochs, gamma;    /* step: times gamma each step_epochs */
    double final_factor;          /* cosine ends at learning_rate * final_factor */
} iso_schedule;

/* fp32 arrays of P' values the optimiser keeps: 0, 1 (momentum) or 2 (Adam); and their names in checkpoints. */
ISO_API uint32_t iso_optimizer_states(const iso_optimizer *o);
ISO_API const char *iso_optimizer_state_name(const iso_optimizer *o, uint32_t index);

/* The rate of the step over `step` samples that begins after `done` of `total` samples, `epoch` samples each; own arithmetic, equal
 * bits anywhere. */
ISO_API double iso_schedule_rate(const iso_schedule *s, const iso_optimizer *o, uint64_t done, uint64_t step, uint64_t epoch,
                                 uint64_t total);

/* ---- a built network: immutable, shared by all threads ------------------------------------------------------------------ */

typedef struct iso_net iso_net;

typedef struct iso_tensor {
    char name[ISO_NAME_MAX];      /* "conv1.weight", "dense2.bias" */
    uint32_t layer;               /* index of its layer */
    bool bias;
    uint32_t rank, dim[4];
    size_t offset, count;         /* in the published layout */
} iso_tensor;

typedef struct iso_layer_info {
    const char *name, *kind;
    iso_shape in, out;
    size_t parameters;
    double flops;                 /* forward, one sample, a multiply-add counted as 2 */
    uint32_t unused_rows, unused_columns; /* input pixels a stride leaves over: `check` warns */
} iso_layer_info;

/* Builds a network for inputs of one shape. Errors: ISO_E_SHAPE (names the layer and the numbers that do not fit), E_NOMEM,
 * E_UNSUPPORTED (isa), E_ARGUMENT. The last layer must give `classes` values. Owns nothing of the caller's. */
ISO_API int iso_net_new(iso_net **out, const iso_model *model, iso_shape input, uint32_t classes, iso_isa isa, const iso_alloc *a,
                        iso_error *e);
ISO_API void iso_net_free(iso_net *net);

ISO_API size_t iso_net_parameters(const iso_net *net);   /* P, published */
ISO_API size_t iso_net_values(const iso_net *net);       /* P', internal; a multiple of 16 */
ISO_API iso_shape iso_net_input(const iso_net *net);
ISO_API uint32_t iso_net_classes(const iso_net *net);
ISO_API iso_isa iso_net_isa(const iso_net *net);
ISO_API uint32_t iso_net_tensor_count(const iso_net *net);
ISO_API const iso_tensor *iso_net_tensor(const iso_net *net, uint32_t index);
ISO_API uint32_t iso_net_layer_count(const iso_net *net);
ISO_API iso_layer_info iso_net_layer(const iso_net *net, uint32_t index);

/* Samples in a unit for `unit: auto`: a function of the network and the batch only. */
ISO_API uint32_t iso_net_unit(const iso_net *net, uint64_t batch);

/* Fills w [P'] with the initial weights of a seed. Counter-based: keyed by (seed, init, layer, index in the published layout). */
ISO_API void iso_net_init(const iso_net *net, uint64_t seed, float *w);
/* internal [P'] -> published [P], and back (padding becomes 0). */
ISO_API void iso_net_publish(const iso_net *net, const float *w, float *published);
ISO_API void iso_net_adopt(const iso_net *net, const float *published, float *w);

/* ---- one computing unit ------------------------------------------------------------------------------------------------- */

/* What one unit gave. loss is the sum over its samples on the grid 2^-40; a sample whose loss is 2^16 or more counts as too
 * large for it. */
typedef struct iso_unit_result {
    uint32_t samples, correct;
    int64_t loss;
    int32_t bad_layer;            /* -1, or the layer where a value became not finite or too large for the grid */
} iso_unit_result;

/* Working memory of one unit in flight; belongs to one thread at a time. */
typedef struct iso_pass iso_pass;

/* Bytes of a pass's scratch (reused by every unit), and of what it keeps of one unit until the weight gradients are taken. */
ISO_API size_t iso_pass_bytes(const iso_net *net, uint32_t unit, bool training);
ISO_API size_t iso_kept_bytes(const iso_net *net, uint32_t unit);

/* Makes a pass in caller memory of iso_pass_bytes (aligned to ISO_ALIGN). No end call is needed. */
ISO_API iso_pass *iso_pass_init(const iso_net *net, uint32_t unit, bool training, void *memory);

/* Loads n <= unit samples: sample[i] points to C*H*W values [C][H][W]; a value becomes fma(value, scale[c], shift[c]).
 * The values, scale and shift are borrowed until the pass has run on them or loads others. */
ISO_API void iso_pass_load_u8(iso_pass *p, uint32_t n, const uint8_t *const *sample, const float *scale, const float *shift);
ISO_API void iso_pass_load_f32(iso_pass *p, uint32_t n, const float *const *sample, const float *scale, const float *shift);
/* The same with one scale and shift a value instead of a channel: C*H*W of each (columns of a table). */
ISO_API void iso_pass_load_columns(iso_pass *p, uint32_t n, const float *const *sample, const float *scale, const float *shift);

/* Forward only. evaluate: loss and correct answers; predict: probabilities (cross-entropy) or raw outputs, out [n][classes]. */
ISO_API void iso_pass_evaluate(iso_pass *p, const float *w, const int32_t *labels, iso_unit_result *r);
ISO_API void iso_pass_predict(iso_pass *p, const float *w, float *out);

/* Forward, loss and backward of the loaded samples against w [P'], labels [n]. What the weight gradients need of the dense
 * layers goes to `kept` (iso_kept_bytes, aligned to ISO_ALIGN). Gradients are of the sum over samples, not of the mean. */
ISO_API void iso_pass_train(iso_pass *p, const float *w, const int32_t *labels, void *kept, iso_unit_result *r);

/* Adds the unit's gradient, on the grid, to sum [P']. `units` is how many units will be merged (bounds each value to
 * 2^62/units). all = true: every parameter. all = false: only what iso_net_update cannot take from `kept` later.
 * r->bad_layer is set when a value does not fit. Must follow iso_pass_train on the same pass. */
ISO_API void iso_pass_gradient(iso_pass *p, const void *kept, bool all, uint64_t units, int64_t *sum, iso_unit_result *r);

/* ---- the optimiser's step ----------------------------------------------------------------------------------------------- */

typedef struct iso_update {
    const iso_optimizer *optimizer;
    double rate;                  /* of iso_schedule_rate */
    uint64_t step;                /* 1, 2, ...: Adam's bias correction */
    uint64_t samples;             /* the gradient sum is divided by this */
    uint64_t units;               /* as in iso_pass_gradient */
    float *w;                     /* [P'] in and out */
    float *const *state;          /* iso_optimizer_states arrays [P'], in and out */
    int64_t *const *sum;          /* sum_count arrays [P']; what is read is set back to 0 */
    uint32_t sum_count;
    const void *const *kept;      /* all units of this batch, at most ISO_KEPT_MAX, when their gradients were taken with
                                     all = false (then what the sums hold for these layers is not looked at); else none */
    uint32_t kept_count;
    uint32_t unit;                /* samples a kept unit was laid out for */
} iso_update;

/* One step on the internal values [begin, end), both multiples of 16. Slices that do not overlap may run on several threads.
 * *bad_layer: -1, or the layer where the gradient or the new weight is not finite or beyond the grid. */
ISO_API void iso_net_update(const iso_net *net, const iso_update *u, size_t begin, size_t end, int32_t *bad_layer);

/* ---- steps of few samples ------------------------------------------------------------------------------------------------ */

/* One optimiser step after every 1 to ISO_NARROW_MAX samples, forward to update in one call. Here the vector lane is an output
 * (a filter, a channel, a dense output) instead of a sample. A step of n samples has the bits of iso_pass_load, iso_pass_train,
 * iso_pass_gradient (all, units 1) and iso_net_update (samples n, units 1) on a unit of 16 of which n are there: weights,
 * optimiser state, loss and right answers. Every b from 1 to ISO_NARROW_MAX works for every network, optimiser and set. */
#define ISO_NARROW_MAX 8u
typedef struct iso_narrow iso_narrow;

/* Bytes for steps of at most b samples, 1 <= b <= ISO_NARROW_MAX; SIZE_MAX when they are too many to count. */
ISO_API size_t iso_narrow_bytes(const iso_net *net, uint32_t b);

/* Made in caller memory of iso_narrow_bytes (aligned to ISO_ALIGN); belongs to one thread at a time; nothing is allocated later.
 * No end call is needed. */
ISO_API iso_narrow *iso_narrow_init(const iso_net *net, uint32_t b, void *memory);

/* As iso_pass_load_*, 1 <= n <= b. Sample values, scale and shift are borrowed until the step has run. */
ISO_API void iso_narrow_load_u8(iso_narrow *p, uint32_t n, const uint8_t *const *sample, const float *scale, const float *shift);
ISO_API void iso_narrow_load_f32(iso_narrow *p, uint32_t n, const float *const *sample, const float *scale, const float *shift);
ISO_API void iso_narrow_load_columns(iso_narrow *p, uint32_t n, const float *const *sample, const float *scale,
                                     const float *shift);

/* Forward, loss, backward and update of the loaded samples, labels [n], in place. Of u: optimizer, rate, step, w [P'] and state
 * are used; the gradient is divided by n. r as of iso_pass_train; when r->bad_layer is not -1 a value was not finite or too large
 * for the grid: w and state are then spoilt from that layer on and not to be used (untouched when the loss itself was bad). */
ISO_API void iso_narrow_step(iso_narrow *p, const int32_t *labels, const iso_update *u, iso_unit_result *r);

#endif
