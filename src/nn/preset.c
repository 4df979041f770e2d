/* SPDX-License-Identifier: Apache-2.0
 * Ready networks by name. */
#include <string.h>

#include "isochron/nn.h"

static const char *const presets[] = {"mlp", "lenet5", NULL};

const char *iso_preset_at(uint32_t index)
{
    return index < sizeof presets / sizeof *presets ? presets[index] : NULL;
}

/* Adds a layer with its first options; a kind that is not there leaves the model as it is. */
static void add(iso_model *m, const char *kind, uint32_t count, const double *value)
{
    iso_layer_spec *spec = &m->layer[m->count];
    if (iso_layer_spec_default(spec, kind, NULL))
        return;
    for (uint32_t i = 0; i < count; i++)
        spec->value[i] = value[i];
    m->count++;
}

static void add_one(iso_model *m, const char *kind, double value)
{
    add(m, kind, 1, &value);
}

static void add_plain(iso_model *m, const char *kind)
{
    add(m, kind, 0, NULL);
}

static int mlp(iso_model *m, const iso_preset_options *o, iso_error *e)
{
    static const char *const activations[] = {"relu", "leaky_relu", "sigmoid", "tanh", "lecun_tanh"};
    static const uint32_t usual[] = {256, 128};
    const uint32_t *hidden = o->hidden_count ? o->hidden : usual;
    uint32_t count = o->hidden_count ? o->hidden_count : 2;
    const char *activation = NULL;
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (!strcmp(o->activation ? o->activation : "relu", activations[i]))
            activation = activations[i];
    if (!activation)
        return iso_error_set(e, ISO_E_ARGUMENT, "activation '%s' is not one of relu, leaky_relu, sigmoid, tanh, lecun_tanh",
                             o->activation);
    if (o->form)
        return iso_error_set(e, ISO_E_ARGUMENT, "the preset mlp has no option form");
    add_plain(m, "flatten");
    for (uint32_t i = 0; i < count && i < sizeof o->hidden / sizeof *o->hidden; i++) {
        add_one(m, "dense", hidden[i]);
        add_plain(m, activation);
    }
    add_one(m, "dense", o->classes);
    return ISO_OK;
}

/* The form everybody trains now: ReLU, max pooling, whole connections. */
static void lenet5_modern(iso_model *m, uint32_t classes)
{
    add(m, "conv", 4, (double[]){6, 5, 1, 2});
    add_plain(m, "relu");
    add_one(m, "max_pool", 2);
    add(m, "conv", 2, (double[]){16, 5});
    add_plain(m, "relu");
    add_one(m, "max_pool", 2);
    add_plain(m, "flatten");
    add_one(m, "dense", 120);
    add_plain(m, "relu");
    add_one(m, "dense", 84);
    add_plain(m, "relu");
    add_one(m, "dense", classes);
}

/* LeCun, Bottou, Bengio, Haffner 1998, section II.B, with a dense output layer in the place of the radial basis functions. */
static void lenet5_1998(iso_model *m, uint32_t classes)
{
    add(m, "conv", 4, (double[]){6, 5, 1, 2});
    add_plain(m, "lecun_tanh");
    add_one(m, "subsample", 2);
    add_plain(m, "lecun_tanh");
    add(m, "conv", 5, (double[]){16, 5, 1, 0, 1});
    add_plain(m, "lecun_tanh");
    add_one(m, "subsample", 2);
    add_plain(m, "lecun_tanh");
    add(m, "conv", 2, (double[]){120, 5});
    add_plain(m, "lecun_tanh");
    add_plain(m, "flatten");
    add_one(m, "dense", 84);
    add_plain(m, "lecun_tanh");
    add_one(m, "dense", classes);
}

static int lenet5(iso_model *m, const iso_preset_options *o, iso_error *e)
{
    const char *form = o->form ? o->form : "modern";
    m->init = ISO_INIT_LECUN; /* measured: docs/decisions.md */
    if (o->hidden_count || o->activation)
        return iso_error_set(e, ISO_E_ARGUMENT, "the preset lenet5 has no option %s; a list of layers has",
                             o->hidden_count ? "hidden" : "activation");
    if (!strcmp(form, "modern"))
        lenet5_modern(m, o->classes);
    else if (!strcmp(form, "1998"))
        lenet5_1998(m, o->classes);
    else
        return iso_error_set(e, ISO_E_ARGUMENT, "form '%s' is not one of modern, 1998", form);
    return ISO_OK;
}

int iso_model_preset(iso_model *out, const char *preset, const iso_preset_options *options, iso_error *e)
{
    memset(out, 0, sizeof *out);
    if (!options->classes)
        return iso_error_set(e, ISO_E_ARGUMENT, "the preset %s needs the number of classes", preset);
    if (!strcmp(preset, "mlp"))
        return mlp(out, options, e);
    if (!strcmp(preset, "lenet5"))
        return lenet5(out, options, e);
    return iso_error_set(e, ISO_E_ARGUMENT, "there is no preset '%s'; there are mlp, lenet5", preset);
}
