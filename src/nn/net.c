/* SPDX-License-Identifier: Apache-2.0
 * Building a network: shapes from front to back, what each layer absorbs, where each tensor lies. */
#include "nn/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The largest activation or tensor: keeps every size far from overflow. */
#define VALUES_MAX ((uint64_t)1 << 31)

static void name_layer(iso_net *net, uint32_t index, const iso_layer_spec *spec)
{
    iso_layer *l = &net->layer[index];
    uint32_t number = 1;
    for (uint32_t i = 0; i < index; i++)
        number += net->layer[i].kind == spec->kind;
    if (spec->name[0]) {
        memcpy(l->name, spec->name, sizeof l->name);
        l->name[sizeof l->name - 1] = 0;
        return;
    }
    /* kind and number by hand: the formatted printing of libc asks the locale */
    size_t length = strlen(spec->kind->name), digits = 0;
    char text[10];
    for (uint32_t n = number; n; n /= 10)
        text[digits++] = (char)('0' + n % 10);
    memcpy(l->name, spec->kind->name, length);
    while (digits)
        l->name[length++] = text[--digits];
}

static int check_options(const iso_layer *l, iso_error *e)
{
    for (uint32_t i = 0; i < l->kind->option_count; i++) {
        const iso_option *o = &l->kind->options[i];
        double v = l->value[i];
        if (isnan(v))
            return iso_error_set(e, ISO_E_ARGUMENT, "%s: %s must be given", l->name, o->name);
        if (!(v >= o->min && v <= o->max) || (o->type != ISO_OPTION_FLOAT && v != (double)(int64_t)v))
            return iso_error_set(e, ISO_E_ARGUMENT, "%s: %s %g is not from %g to %g", l->name, o->name, v, o->min, o->max);
    }
    return ISO_OK;
}

static int set_layers(iso_net *net, const iso_model *model, iso_error *e)
{
    iso_shape shape = net->input;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const iso_layer_spec *spec = &model->layer[i];
        iso_layer *l = &net->layer[i];
        l->kind = spec->kind;
        l->index = i;
        l->in = shape;
        memcpy(l->value, spec->value, sizeof l->value);
        name_layer(net, i, spec);
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(net->layer[j].name, l->name))
                return iso_error_set(e, ISO_E_ARGUMENT, "two layers are called %s", l->name);
        int code = check_options(l, e);
        if (!code)
            code = l->kind->setup(l, e);
        if (code)
            return code;
        if (iso_shape_values(l->out) > VALUES_MAX || l->part[ISO_WEIGHT].values > VALUES_MAX)
            return iso_error_set(e, ISO_E_SHAPE, "%s: an output of %ux%ux%u or its weights are too large", l->name, l->out.c,
                                 l->out.h, l->out.w);
        shape = l->out;
    }
    if (iso_shape_values(shape) != net->classes)
        return iso_error_set(e, ISO_E_SHAPE, "%s: the last layer gives %zu values, the data has %u classes",
                             net->layer[net->layer_count - 1].name, iso_shape_values(shape), net->classes);
    return ISO_OK;
}

static void absorb_layers(iso_net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i += 1 + net->layer[i].absorbs) {
        iso_layer *l = &net->layer[i];
        if (l->kind->absorb)
            l->absorbs = l->kind->absorb(l, l + 1, net->layer_count - 1 - i);
        for (uint32_t j = 1; j <= l->absorbs; j++)
            l[j].absorbed = true;
        l->out_whole = l[l->absorbs].out;
    }
}

/* He et al. 2015 before relu, LeCun et al. 1998 before the tanh forms, Glorot & Bengio 2010 elsewhere. */
static iso_init resolve_init(const iso_net *net, uint32_t index, iso_init wanted)
{
    if (wanted != ISO_INIT_AUTO)
        return wanted;
    iso_act act = index + 1 < net->layer_count ? net->layer[index + 1].kind->act : ISO_ACT_NONE;
    if (act == ISO_ACT_RELU || act == ISO_ACT_LEAKY_RELU)
        return ISO_INIT_HE;
    return act == ISO_ACT_TANH || act == ISO_ACT_LECUN_TANH ? ISO_INIT_LECUN : ISO_INIT_XAVIER;
}

static void place_parts(iso_net *net, iso_init init)
{
    static const char *const suffix[ISO_PARTS] = {".weight", ".bias"};
    for (uint32_t i = 0; i < net->layer_count; i++) {
        iso_layer *l = &net->layer[i];
        l->init = resolve_init(net, i, init);
        for (int part = 0; part < ISO_PARTS; part++) {
            iso_part *p = &l->part[part];
            p->published = net->parameters;
            p->offset = net->values;
            net->parameters += p->count;
            net->values += p->values;
            if (!p->count)
                continue;
            iso_tensor *t = &net->tensor[net->tensor_count++];
            size_t length = strlen(l->name);
            *t = (iso_tensor){.layer = i, .bias = part == ISO_BIAS, .rank = p->rank, .offset = p->published, .count = p->count};
            memcpy(t->dim, p->dim, sizeof t->dim);
            memcpy(t->name, l->name, length);
            memcpy(t->name + length, suffix[part], strlen(suffix[part]) + 1);
        }
    }
}

static int check_model(const iso_model *model, iso_shape input, uint32_t classes, iso_error *e)
{
    if (!model->count || model->count > ISO_LAYERS_MAX)
        return iso_error_set(e, ISO_E_ARGUMENT, "a model has 1 to %u layers, this one has %u", ISO_LAYERS_MAX, model->count);
    if (!input.c || !input.h || !input.w || (uint64_t)input.h * input.w > VALUES_MAX ||
        (uint64_t)input.h * input.w * input.c > VALUES_MAX)
        return iso_error_set(e, ISO_E_SHAPE, "an input of %ux%ux%u is empty or too large", input.c, input.h, input.w);
    if (!classes || classes > 1u << 20)
        return iso_error_set(e, ISO_E_ARGUMENT, "%u classes: 1 to %u are possible", classes, 1u << 20);
    for (uint32_t i = 0; i < model->count; i++) {
        const char *name = model->layer[i].name;
        if (!memchr(name, 0, ISO_NAME_MAX - sizeof ".weight"))
            return iso_error_set(e, ISO_E_ARGUMENT, "the name of layer %u is too long", i);
    }
    return ISO_OK;
}

int iso_net_new(iso_net **out, const iso_model *model, iso_shape input, uint32_t classes, iso_isa isa, const iso_alloc *a,
                iso_error *e)
{
    *out = NULL;
    a = a ? a : iso_alloc_default();
    int code = check_model(model, input, classes, e);
    if (code)
        return code;
    const iso_kernels *kernels = iso_kernels_of(isa);
    if (!kernels)
        return iso_error_set(e, ISO_E_UNSUPPORTED, "this processor has no %s; use auto or %s", iso_isa_name(isa),
                             iso_isa_name(iso_isa_best()));
    iso_net *net = iso_new(a, 1, sizeof *net);
    if (!net)
        return iso_error_set(e, ISO_E_NOMEM, "no memory for a network");
    net->alloc = *a;
    net->input = input;
    net->classes = classes;
    net->isa = isa == ISO_ISA_AUTO ? iso_isa_best() : isa;
    net->kernels = kernels;
    net->loss = model->loss;
    net->layer_count = model->count;
    net->layer = iso_new(a, model->count, sizeof *net->layer);
    net->tensor = iso_new(a, (size_t)model->count * ISO_PARTS, sizeof *net->tensor);
    code = net->layer && net->tensor ? set_layers(net, model, e) : iso_error_set(e, ISO_E_NOMEM, "no memory for a network");
    if (code) {
        iso_net_free(net);
        return code;
    }
    absorb_layers(net);
    place_parts(net, model->init);
    *out = net;
    return ISO_OK;
}

void iso_net_free(iso_net *net)
{
    if (!net)
        return;
    iso_alloc a = net->alloc;
    iso_free(&a, net->tensor);
    iso_free(&a, net->layer);
    iso_free(&a, net);
}

size_t iso_net_parameters(const iso_net *net) { return net->parameters; }
size_t iso_net_values(const iso_net *net) { return net->values; }
iso_shape iso_net_input(const iso_net *net) { return net->input; }
uint32_t iso_net_classes(const iso_net *net) { return net->classes; }
iso_isa iso_net_isa(const iso_net *net) { return net->isa; }
uint32_t iso_net_tensor_count(const iso_net *net) { return net->tensor_count; }
uint32_t iso_net_layer_count(const iso_net *net) { return net->layer_count; }

const iso_tensor *iso_net_tensor(const iso_net *net, uint32_t index)
{
    return index < net->tensor_count ? &net->tensor[index] : NULL;
}

iso_layer_info iso_net_layer(const iso_net *net, uint32_t index)
{
    const iso_layer *l = &net->layer[index];
    return (iso_layer_info){l->name, l->kind->name, l->in, l->out, l->part[ISO_WEIGHT].count + l->part[ISO_BIAS].count, l->flops,
                            l->unused_rows, l->unused_columns};
}

uint32_t iso_net_unit(const iso_net *net, uint64_t batch)
{
    (void)net;
    uint32_t unit = ISO_UNIT_MAX;
    while (unit > ISO_LANES && batch < 4 * (uint64_t)unit)
        unit -= ISO_LANES;
    return unit;
}
