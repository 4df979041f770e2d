/* SPDX-License-Identifier: Apache-2.0
 * Every layer's gradient against central differences of the loss, through a whole network with the layer in it. */
#include "nn_test.h"

typedef struct gradient_case {
    const char *model;
    iso_shape input;
    uint32_t classes;
    iso_loss loss;
    double step, tolerance;       /* of the weight; of the difference, relative to the tensor's largest gradient */
} gradient_case;

static const gradient_case cases[] = {
    {"flatten,dense 7", {1, 3, 4}, 7, ISO_LOSS_CROSS_ENTROPY, 1e-2, 2e-3},
    {"flatten,dense 7", {1, 3, 4}, 7, ISO_LOSS_MSE, 1e-2, 2e-3},
    {"dense 33,sigmoid,dense 18,tanh,dense 5", {19, 1, 1}, 5, ISO_LOSS_CROSS_ENTROPY, 1e-2, 5e-3},
    {"dense 17,lecun_tanh,dense 3,sigmoid", {6, 1, 1}, 3, ISO_LOSS_MSE, 1e-2, 5e-3},
    {"dense 40,relu,dense 16", {8, 1, 1}, 16, ISO_LOSS_CROSS_ENTROPY, 2e-3, 2e-2},
    {"dense 40,leaky_relu 0.1,dense 16", {8, 1, 1}, 16, ISO_LOSS_CROSS_ENTROPY, 2e-3, 2e-2},
    {"conv 5 3,flatten,dense 4", {2, 6, 7}, 4, ISO_LOSS_CROSS_ENTROPY, 1e-2, 5e-3},
    {"conv 5 3 2 1,tanh,flatten,dense 4", {3, 9, 8}, 4, ISO_LOSS_CROSS_ENTROPY, 1e-2, 5e-3},
    {"conv 3 3,tanh,conv 5 3 1 1,tanh,conv 2 2 2,flatten,dense 4", {2, 8, 8}, 4, ISO_LOSS_CROSS_ENTROPY, 1e-2, 1e-2},
    {"conv 4 3 1 1,relu,conv 5 3,relu,flatten,dense 4", {2, 6, 6}, 4, ISO_LOSS_CROSS_ENTROPY, 1e-3, 3e-2},
    {"conv 4 3 1 1,relu,max_pool 2,conv 5 3,relu,max_pool 2,flatten,dense 4", {2, 10, 11}, 4, ISO_LOSS_CROSS_ENTROPY, 1e-3, 3e-2},
    {"conv 4 3,tanh,max_pool 3 2,conv 3 2,tanh,avg_pool 2,flatten,dense 4", {2, 12, 11}, 4, ISO_LOSS_CROSS_ENTROPY, 5e-4, 3e-2},
    {"conv 4 3,avg_pool 3 2,lecun_tanh,subsample 2,tanh,flatten,dense 4", {1, 13, 12}, 4, ISO_LOSS_CROSS_ENTROPY, 1e-2, 1e-2},
    {"conv 6 3,tanh,conv 16 3 1 0 1,lecun_tanh,subsample 2,flatten,dense 4", {1, 8, 8}, 4, ISO_LOSS_CROSS_ENTROPY, 1e-2, 1e-2},
    {"dense 12,tanh,conv 5 1,tanh,flatten,dense 4", {9, 1, 1}, 4, ISO_LOSS_CROSS_ENTROPY, 1e-2, 5e-3},
    {"tanh,conv 4 3 1 1,sigmoid,flatten,dense 4", {2, 5, 5}, 4, ISO_LOSS_CROSS_ENTROPY, 1e-2, 5e-3},
    {"conv 4 3 1 1,tanh,flatten,dense 10,relu,dense 3", {2, 5, 5}, 3, ISO_LOSS_CROSS_ENTROPY, 1e-3, 2e-2},
};

/* Central difference of the loss in published weight i. */
static double difference(nn_bench *b, float *published, size_t i, double step)
{
    float keep = published[i], up = (float)((double)keep + step), down = (float)((double)keep - step);
    published[i] = up;
    iso_net_adopt(b->net, published, b->w);
    double high = nn_bench_loss(b);
    published[i] = down;
    iso_net_adopt(b->net, published, b->w);
    double low = nn_bench_loss(b);
    published[i] = keep;
    iso_net_adopt(b->net, published, b->w);
    return (high - low) / ((double)up - (double)down);
}

static void check_tensor(nn_bench *b, const gradient_case *c, const iso_tensor *t, const double *gradient, float *published)
{
    double largest = 1e-3;
    size_t bad = 0, seen = 0, stride = t->count > 60 ? t->count / 47 : 1;
    for (size_t i = 0; i < t->count; i++)
        largest = fmax(largest, fabs(gradient[t->offset + i]));
    for (size_t i = 0; i < t->count; i += stride, seen++) {
        double wanted = difference(b, published, t->offset + i, c->step), got = gradient[t->offset + i];
        if (fabs(wanted - got) > c->tolerance * largest) {
            if (!bad++)
                print_message("%s: %s[%zu]: gradient %g, difference %g\n", c->model, t->name, i, got, wanted);
        }
    }
    /* a kink of relu or of a maximum inside the step spoils single values, never many */
    bool kinks = strstr(c->model, "relu") || strstr(c->model, "max_pool");
    if (bad > (kinks ? seen / 10 : 0))
        fail_msg("%s: %s: %zu of %zu gradients differ", c->model, t->name, bad, seen);
}

static void gradients_equal_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t n = 5; n <= 32; n += 27) {
            const gradient_case *c = &cases[i];
            iso_model model = nn_model(c->model, c->loss);
            nn_bench b;
            nn_bench_open(&b, &model, c->input, c->classes, ISO_ISA_AUTO, 32, n);
            size_t p = iso_net_parameters(b.net);
            double *gradient = nn_take(p * sizeof *gradient);
            float *published = nn_take(p * sizeof *published);
            iso_net_publish(b.net, b.w, published);
            assert_int_equal(nn_bench_gradient(&b).bad_layer, -1);
            nn_bench_published(&b, gradient);
            for (uint32_t t = 0; t < iso_net_tensor_count(b.net); t++)
                check_tensor(&b, c, iso_net_tensor(b.net, t), gradient, published);
            iso_free(NULL, gradient);
            iso_free(NULL, published);
            nn_bench_close(&b);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_equal_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
