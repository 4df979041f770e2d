/* SPDX-License-Identifier: Apache-2.0
 * The two layouts of the weights: publishing puts every value where its layer says (`place`), adopting is the way back and leaves
 * the padding 0. All instruction sets, panels that are full and not, convolutions that are partial and grouped. */
#include "nn/net.h"
#include "nn_test.h"

static void both_ways(const iso_net *net, const char *what)
{
    size_t values = iso_net_values(net), parameters = iso_net_parameters(net);
    float *w = nn_take(values * sizeof *w), *back = nn_take(values * sizeof *back), *published = nn_take(parameters * sizeof *w);
    unsigned char *seen = nn_take(values);
    for (size_t i = 0; i < parameters; i++)
        published[i] = (float)(i + 1);
    for (size_t i = 0; i < values; i++)
        w[i] = -1;
    iso_net_adopt(net, published, w);
    for (uint32_t l = 0; l < net->layer_count; l++)
        for (int part = 0; part < ISO_PARTS; part++) {
            const iso_layer *layer = &net->layer[l];
            const iso_part *p = &layer->part[part];
            for (size_t v = 0; v < p->count; v++) {
                size_t at = p->offset + (layer->kind->place ? layer->kind->place(layer, part, v) : v);
                assert_true(at < values && !seen[at]);
                seen[at] = 1;
                if (w[at] != published[p->published + v])
                    fail_msg("%s, %s: published value %zu of part %d is not at its place", what, layer->name, v, part);
            }
        }
    for (size_t i = 0; i < values; i++)
        assert_true(seen[i] || w[i] == 0);
    memset(published, 0, parameters * sizeof *published);
    iso_net_publish(net, w, published);
    for (size_t i = 0; i < parameters; i++)
        assert_true(published[i] == (float)(i + 1));
    iso_net_adopt(net, published, back);
    assert_memory_equal(w, back, values * sizeof *w);
    void *block[] = {w, back, published, seen};
    for (size_t i = 0; i < TEST_COUNT(block); i++)
        iso_free(NULL, block[i]);
}

static void every_value_has_its_place(void **state)
{
    (void)state;
    static const iso_isa sets[] = {ISO_ISA_SCALAR, ISO_ISA_AVX2, ISO_ISA_AVX512};
    static const struct { const char *preset, *form; iso_shape input; } nets[] = {
        {"lenet5", NULL, {1, 28, 28}}, {"lenet5", "1998", {1, 28, 28}}, {"mlp", NULL, {37, 1, 1}}, {"mlp", NULL, {784, 1, 1}},
    };
    for (size_t s = 0; s < TEST_COUNT(sets); s++)
        for (size_t i = 0; sets[s] <= iso_isa_best() && i < TEST_COUNT(nets); i++) {
            static iso_model model;
            iso_net *net = NULL;
            iso_error e;
            iso_preset_options options = {.classes = 10, .form = nets[i].form, .hidden = {16, 33, 1}};
            options.hidden_count = nets[i].input.h == 1 ? 3 : 0;
            if (iso_model_preset(&model, nets[i].preset, &options, &e) ||
                iso_net_new(&net, &model, nets[i].input, 10, sets[s], NULL, &e))
                fail_msg("%s", e.text);
            both_ways(net, nets[i].form ? nets[i].form : nets[i].preset);
            iso_net_free(net);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_value_has_its_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
