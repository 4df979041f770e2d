/* SPDX-License-Identifier: Apache-2.0
 * The table of layer kinds: a new layer is one file in layer/ and one line here. */
#include <string.h>

#include "nn/layer.h"

/* X(symbol) */
#define KINDS(X)                 \
    X(iso_layer_dense)           \
    X(iso_layer_conv)            \
    X(iso_layer_max_pool)        \
    X(iso_layer_avg_pool)        \
    X(iso_layer_subsample)       \
    X(iso_layer_flatten)         \
    X(iso_layer_relu)            \
    X(iso_layer_leaky_relu)      \
    X(iso_layer_sigmoid)         \
    X(iso_layer_tanh)            \
    X(iso_layer_lecun_tanh)

#define DECLARE(symbol) extern const iso_layer_kind symbol;
KINDS(DECLARE)
#undef DECLARE

static const iso_layer_kind *const table[] = {
#define ROW(symbol) &symbol,
    KINDS(ROW)
#undef ROW
};

uint32_t iso_layer_kind_count(void)
{
    return sizeof table / sizeof *table;
}

const iso_layer_kind *iso_layer_kind_at(uint32_t index)
{
    return index < iso_layer_kind_count() ? table[index] : NULL;
}

const iso_layer_kind *iso_layer_kind_find(const char *name)
{
    for (uint32_t i = 0; i < iso_layer_kind_count(); i++)
        if (!strcmp(table[i]->name, name))
            return table[i];
    return NULL;
}

const char *iso_layer_kind_name(const iso_layer_kind *kind)
{
    return kind->name;
}

const char *iso_layer_kind_help(const iso_layer_kind *kind)
{
    return kind->help;
}

const iso_option *iso_layer_kind_options(const iso_layer_kind *kind, uint32_t *count)
{
    *count = kind->option_count;
    return kind->options;
}

int iso_layer_spec_default(iso_layer_spec *out, const char *kind, iso_error *e)
{
    memset(out, 0, sizeof *out);
    out->kind = iso_layer_kind_find(kind);
    if (!out->kind)
        return iso_error_set(e, ISO_E_ARGUMENT, "there is no layer kind '%s'", kind);
    for (uint32_t i = 0; i < out->kind->option_count; i++)
        out->value[i] = out->kind->options[i].standard;
    return ISO_OK;
}
