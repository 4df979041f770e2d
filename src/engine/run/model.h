/* SPDX-License-Identifier: Apache-2.0
 * Pieces of reading a trained model that training uses too (weights to start from). Place: engine. */
#ifndef ISO_ENGINE_RUN_MODEL_H
#define ISO_ENGINE_RUN_MODEL_H

#include "isochron/data.h"
#include "isochron/format.h"
#include "isochron/nn.h"
#include "isochron/train.h"

/* The model file a path means: itself, or in a run folder model.safetensors, else the newest checkpoint. *out is a
 * block of a. Errors: ISO_E_IO, ISO_E_NOMEM. */
int iso_model_path_of(const char *path, const iso_alloc *a, char **out, iso_error *e);

/* Weights of a file into internal [P']; other tensors named "state..." may be there. Errors: ISO_E_SHAPE (lists what
 * does not fit), ISO_E_FORMAT (a weight is not finite), ISO_E_NOMEM. */
int iso_weights_read(const iso_net *net, const iso_tensors *t, const char *path, const iso_alloc *a, float *internal,
                     char sha256[ISO_SHA256_TEXT], iso_error *e);

/* iso_pass_load_u8 or _f32, by type. */
static inline void iso_pass_load(iso_pass *pass, iso_dtype dtype, uint32_t n, const void *const *sample,
                                 const float *scale, const float *shift)
{
    if (dtype == ISO_U8)
        iso_pass_load_u8(pass, n, (const uint8_t *const *)sample, scale, shift);
    else
        iso_pass_load_f32(pass, n, (const float *const *)sample, scale, shift);
}

#endif
