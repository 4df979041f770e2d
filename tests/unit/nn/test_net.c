/* SPDX-License-Identifier: Apache-2.0
 * Building networks: published sizes, names, layouts, errors with the numbers in them, memory that runs out. */
#include "nn_test.h"

static iso_net *build(const char *preset, const iso_preset_options *options, iso_shape input)
{
    static iso_model model;
    iso_error e = {0};
    iso_net *net = NULL;
    if (iso_model_preset(&model, preset, options, &e) || iso_net_new(&net, &model, input, options->classes, ISO_ISA_AUTO, NULL, &e))
        fail_msg("%s", e.text);
    return net;
}

static size_t parameters_of(const iso_net *net, const char *layer)
{
    for (uint32_t i = 0; i < iso_net_layer_count(net); i++)
        if (!strcmp(iso_net_layer(net, i).name, layer))
            return iso_net_layer(net, i).parameters;
    fail_msg("no layer %s", layer);
    return 0;
}

/* LeNet-5 on 28x28: 156 + 2416 + 48120 + 10164 + 850; the 1998 form: 156 + 12 + 1516 + 32 + 48120 + 10164 and 850 for a dense end. */
static void lenet5_has_the_published_sizes(void **state)
{
    (void)state;
    static const struct { const char *form, *layer; size_t parameters; } rows[] = {
        {NULL, "conv1", 156}, {NULL, "conv2", 2416}, {NULL, "dense1", 48120}, {NULL, "dense2", 10164}, {NULL, "dense3", 850},
        {"1998", "conv1", 156}, {"1998", "subsample1", 12}, {"1998", "conv2", 1516}, {"1998", "subsample2", 32},
        {"1998", "conv3", 48120}, {"1998", "dense1", 10164}, {"1998", "dense2", 850},
    };
    iso_net *net[] = {build("lenet5", &(iso_preset_options){.classes = 10}, (iso_shape){1, 28, 28}),
                      build("lenet5", &(iso_preset_options){.classes = 10, .form = "1998"}, (iso_shape){1, 28, 28})};
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        assert_int_equal(parameters_of(net[rows[i].form ? 1 : 0], rows[i].layer), rows[i].parameters);
    assert_int_equal(iso_net_parameters(net[0]), 61706);
    assert_int_equal(iso_net_parameters(net[1]), 60850);
    iso_net_free(net[0]);
    iso_net_free(net[1]);
}

/* Tensors follow each other without gaps, in the order of the layers, and multiply out. */
static void tensors_cover_the_published_layout(void **state)
{
    (void)state;
    iso_net *net = build("lenet5", &(iso_preset_options){.classes = 7, .form = "1998"}, (iso_shape){1, 32, 32});
    size_t at = 0;
    for (uint32_t t = 0; t < iso_net_tensor_count(net); t++) {
        const iso_tensor *tensor = iso_net_tensor(net, t);
        size_t product = 1;
        for (uint32_t d = 0; d < tensor->rank; d++)
            product *= tensor->dim[d];
        assert_int_equal(tensor->offset, at);
        assert_int_equal(tensor->count, product);
        assert_non_null(strstr(tensor->name, tensor->bias ? ".bias" : ".weight"));
        at += product;
    }
    assert_int_equal(at, iso_net_parameters(net));
    assert_null(iso_net_tensor(net, iso_net_tensor_count(net)));
    assert_int_equal(iso_net_values(net) % ISO_LANES, 0);
    iso_net_free(net);
}

/* adopt then publish gives every value back; padding inside stays 0; the first weights fit their bounds and follow the seed. */
static void layouts_turn_into_each_other(void **state)
{
    (void)state;
    for (int form = 0; form < 2; form++) {
        iso_net *net = build("lenet5", &(iso_preset_options){.classes = 10, .form = form ? "1998" : NULL}, (iso_shape){1, 28, 28});
        size_t p = iso_net_parameters(net), values = iso_net_values(net), zeros = 0;
        float *published = nn_take(p * sizeof(float)), *back = nn_take(p * sizeof(float)), *w = nn_take(values * sizeof(float));
        for (size_t i = 0; i < p; i++)
            published[i] = (float)(i + 1);
        iso_net_adopt(net, published, w);
        iso_net_publish(net, w, back);
        assert_memory_equal(published, back, p * sizeof(float));
        for (size_t i = 0; i < values; i++)
            zeros += w[i] == 0;
        assert_int_equal(zeros, values - p);
        iso_net_init(net, 5, w);
        iso_net_publish(net, w, back);
        iso_net_init(net, 5, w);
        iso_net_publish(net, w, published);
        assert_memory_equal(published, back, p * sizeof(float));
        iso_net_init(net, 6, w);
        iso_net_publish(net, w, back);
        assert_memory_not_equal(published, back, p * sizeof(float));
        const iso_tensor *t = iso_net_tensor(net, 0);
        double square = 0;
        for (size_t i = 0; i < t->count; i++) {
            assert_true(fabsf(published[t->offset + i]) <= sqrtf(3.0f / 25));
            square += (double)(published[t->offset + i] * published[t->offset + i]);
        }
        assert_true(square / (double)t->count > 0.6 / 25 && square / (double)t->count < 1.4 / 25);
        void *block[] = {published, back, w};
        for (size_t i = 0; i < TEST_COUNT(block); i++)
            iso_free(NULL, block[i]);
        iso_net_free(net);
    }
}

/* Each model is wrong in one way; the message names the layer and the numbers. */
static void errors_name_layer_and_numbers(void **state)
{
    (void)state;
    static const struct { const char *model; iso_shape input; int code; const char *words[4]; } rows[] = {
        {"conv 4 40,flatten,dense 3", {1, 28, 28}, ISO_E_SHAPE, {"conv1", "40", "28x28", "padding 0"}},
        {"max_pool 5,flatten,dense 3", {1, 4, 9}, ISO_E_SHAPE, {"max_pool1", "5", "4x9"}},
        {"conv 4 3,dense 3", {1, 8, 8}, ISO_E_SHAPE, {"dense1", "4x6x6", "flatten"}},
        {"flatten,dense 4", {1, 8, 8}, ISO_E_SHAPE, {"dense1", "4", "3 classes"}},
        {"conv 15 3 1 0 1,flatten,dense 3", {6, 8, 8}, ISO_E_SHAPE, {"conv1", "lenet5", "15", "6"}},
        {"conv 0 3,flatten,dense 3", {1, 8, 8}, ISO_E_ARGUMENT, {"conv1", "filters", "0"}},
        {"conv 1.5 3,flatten,dense 3", {1, 8, 8}, ISO_E_ARGUMENT, {"conv1", "filters", "1.5"}},
        {"conv 4,flatten,dense 3", {1, 8, 8}, ISO_E_ARGUMENT, {"conv1", "kernel", "given"}},
        {"flatten,dense 3", {0, 8, 8}, ISO_E_SHAPE, {"0x8x8", "empty"}},
        {"flatten,dense 3", {1, 1u << 20, 1u << 20}, ISO_E_SHAPE, {"too large"}},
        {"conv 65536 1,conv 65536 1,flatten,dense 3", {1, 64, 64}, ISO_E_SHAPE, {"conv2", "too"}},
        {"flatten,dense 1048576,dense 1048576,dense 3", {64, 64, 64}, ISO_E_SHAPE, {"dense1", "too"}},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        iso_model model = nn_model(rows[i].model, ISO_LOSS_CROSS_ENTROPY);
        iso_error e = {0};
        iso_net *net = (iso_net *)&model;
        assert_int_equal(iso_net_new(&net, &model, rows[i].input, 3, ISO_ISA_AUTO, NULL, &e), rows[i].code);
        assert_null(net);
        for (size_t k = 0; k < TEST_COUNT(rows[i].words) && rows[i].words[k]; k++)
            if (!strstr(e.text, rows[i].words[k]))
                fail_msg("%s: '%s' is not in '%s'", rows[i].model, rows[i].words[k], e.text);
    }
}

/* Layers that a person named keep their names; two of one name and names without an end are refused. */
static void names_are_unique(void **state)
{
    (void)state;
    iso_net *net;
    iso_error e;
    iso_model model = nn_model("flatten,dense 4,relu,dense 3", ISO_LOSS_MSE);
    strcpy(model.layer[1].name, "body");
    assert_int_equal(iso_net_new(&net, &model, (iso_shape){1, 2, 2}, 3, ISO_ISA_AUTO, NULL, &e), ISO_OK);
    assert_string_equal(iso_net_tensor(net, 0)->name, "body.weight");
    assert_string_equal(iso_net_layer(net, 3).name, "dense2");
    iso_net_free(net);
    strcpy(model.layer[3].name, "body");
    assert_int_equal(iso_net_new(&net, &model, (iso_shape){1, 2, 2}, 3, ISO_ISA_AUTO, NULL, &e), ISO_E_ARGUMENT);
    memset(model.layer[3].name, 'x', sizeof model.layer[3].name);
    assert_int_equal(iso_net_new(&net, &model, (iso_shape){1, 2, 2}, 3, ISO_ISA_AUTO, NULL, &e), ISO_E_ARGUMENT);
    model.count = 0;
    assert_int_equal(iso_net_new(&net, &model, (iso_shape){1, 2, 2}, 3, ISO_ISA_AUTO, NULL, &e), ISO_E_ARGUMENT);
}

static int make_net(const iso_alloc *a, void *context)
{
    iso_net *net;
    int code = iso_net_new(&net, context, (iso_shape){1, 28, 28}, 10, ISO_ISA_AUTO, a, NULL);
    iso_net_free(net);
    return code;
}

static void memory_that_runs_out(void **state)
{
    (void)state;
    static iso_model model;
    assert_int_equal(iso_model_preset(&model, "lenet5", &(iso_preset_options){.classes = 10}, NULL), ISO_OK);
    assert_true(test_every_allocation(make_net, &model) > 1);
}

static void presets_refuse_what_they_do_not_know(void **state)
{
    (void)state;
    static iso_model model;
    iso_error e;
    assert_int_equal(iso_model_preset(&model, "lenet6", &(iso_preset_options){.classes = 10}, &e), ISO_E_ARGUMENT);
    assert_non_null(strstr(e.text, "lenet5"));
    assert_int_equal(iso_model_preset(&model, "lenet5", &(iso_preset_options){.classes = 10, .form = "1989"}, &e), ISO_E_ARGUMENT);
    assert_non_null(strstr(e.text, "1998"));
    assert_int_equal(iso_model_preset(&model, "lenet5", &(iso_preset_options){.classes = 10, .activation = "relu"}, &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_model_preset(&model, "mlp", &(iso_preset_options){.classes = 10, .activation = "rel"}, &e), ISO_E_ARGUMENT);
    assert_non_null(strstr(e.text, "leaky_relu"));
    assert_int_equal(iso_model_preset(&model, "mlp", &(iso_preset_options){.classes = 10, .form = "x"}, &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_model_preset(&model, "mlp", &(iso_preset_options){0}, &e), ISO_E_ARGUMENT);
    for (uint32_t i = 0; iso_preset_at(i); i++)
        assert_int_equal(iso_model_preset(&model, iso_preset_at(i), &(iso_preset_options){.classes = 10}, &e), ISO_OK);
}

/* An instruction set that this processor lacks is refused by name; all that it has build the same layout. */
static void every_instruction_set(void **state)
{
    (void)state;
    iso_model model = nn_model("flatten,dense 3", ISO_LOSS_MSE);
    for (int isa = ISO_ISA_SCALAR; isa <= ISO_ISA_AVX512; isa++) {
        iso_net *net;
        iso_error e;
        iso_isa parsed;
        assert_int_equal(iso_isa_parse(iso_isa_name((iso_isa)isa), &parsed), ISO_OK);
        assert_int_equal(parsed, isa);
        int code = iso_net_new(&net, &model, (iso_shape){1, 2, 2}, 3, (iso_isa)isa, NULL, &e);
        assert_int_equal(code, isa <= (int)iso_isa_best() ? ISO_OK : ISO_E_UNSUPPORTED);
        if (code)
            assert_non_null(strstr(e.text, iso_isa_name((iso_isa)isa)));
        iso_net_free(net);
    }
    iso_isa parsed;
    assert_int_equal(iso_isa_parse("sse", &parsed), ISO_E_ARGUMENT);
}

/* A flatten in front changes the shape alone: a padded convolution behind it sees what it sees of samples that come flat. */
static void a_border_behind_a_flatten(void **state)
{
    (void)state;
    static const char *const after[] = {"conv 5 3 1 1,tanh,flatten,dense 4", "conv 6 1 2 2,flatten,dense 4",
                                        "conv 3 2 1 1,max_pool 2,flatten,dense 4"};
    for (size_t i = 0; i < TEST_COUNT(after); i++) {
        char text[128];
        snprintf(text, sizeof text, "flatten,%s", after[i]);
        iso_model model[2] = {nn_model(text, ISO_LOSS_CROSS_ENTROPY), nn_model(after[i], ISO_LOSS_CROSS_ENTROPY)};
        static const iso_shape shape[2] = {{2, 3, 4}, {24, 1, 1}};
        nn_bench b[2];
        for (int flat = 0; flat < 2; flat++)
            nn_bench_open(&b[flat], &model[flat], shape[flat], 4, ISO_ISA_AUTO, 32, 21);
        size_t values = iso_net_values(b[0].net);
        assert_int_equal(values, iso_net_values(b[1].net));
        memcpy(b[1].w, b[0].w, values * sizeof(float)); /* the first weights follow the number of the layer */
        iso_unit_result r[2] = {nn_bench_gradient(&b[0]), nn_bench_gradient(&b[1])};
        assert_true(r[0].loss == r[1].loss && r[0].loss > 0);
        assert_memory_equal(b[0].sum, b[1].sum, values * sizeof(int64_t));
        nn_bench_close(&b[0]);
        nn_bench_close(&b[1]);
    }
}

/* The losses of a full unit never wrap round: up to the limit they add up exactly, from there on the layer is named. */
static void losses_end_at_a_limit(void **state)
{
    (void)state;
    static const struct { float bias; bool good; } rows[] = {{10, true},     {300, true},   {361, true},   {363, false},
                                                             {1000, false},  {2890, false}, {1e19f, false}};
    iso_model model = nn_model("dense 2", ISO_LOSS_MSE);
    for (iso_isa isa = ISO_ISA_SCALAR; isa <= iso_isa_best(); isa++) {
        for (size_t i = 0; i < TEST_COUNT(rows); i++) {
            nn_bench b;
            iso_unit_result r;
            nn_bench_open(&b, &model, (iso_shape){3, 1, 1}, 2, isa, 64, 64);
            float published[8] = {0, 0, 0, 0, 0, 0, rows[i].bias, 0};
            assert_int_equal(iso_net_parameters(b.net), 8);
            iso_net_adopt(b.net, published, b.w);
            for (uint32_t n = 0; n < b.n; n++)
                b.label[n] = 1;
            iso_pass_load_f32(b.pass, b.n, b.sample, b.scale, b.shift);
            iso_pass_evaluate(b.pass, b.w, b.label, &r);
            assert_int_equal(r.bad_layer, rows[i].good ? -1 : 0);
            if (rows[i].good) /* 1/2 bias^2 + 1/2 a sample, exact in float */
                assert_true((double)r.loss * 0x1p-40 == 64 * 0.5 * ((double)rows[i].bias * (double)rows[i].bias + 1));
            nn_bench_close(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lenet5_has_the_published_sizes),
        cmocka_unit_test(tensors_cover_the_published_layout),
        cmocka_unit_test(layouts_turn_into_each_other),
        cmocka_unit_test(errors_name_layer_and_numbers),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(memory_that_runs_out),
        cmocka_unit_test(presets_refuse_what_they_do_not_know),
        cmocka_unit_test(every_instruction_set),
        cmocka_unit_test(a_border_behind_a_flatten),
        cmocka_unit_test(losses_end_at_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
