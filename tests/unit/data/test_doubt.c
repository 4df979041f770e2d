/* SPDX-License-Identifier: Apache-2.0
 * Proves: what is told of a data set names its classes by their names, fits its sentence however many and long they are,
 * and every allocation failure is survived. The facts themselves are in tests/program/test_data.py. */
#include "test.h"

#include "isochron/data.h"

#define SAMPLES 60u

typedef struct told {
    uint32_t count;
    char text[8][1000];
} told;

static void keep(void *context, const char *sentence)
{
    told *t = context;
    assert_true(t->count < 8);
    snprintf(t->text[t->count++], sizeof t->text[0], "%s", sentence);
}

static iso_dataset set_of(const uint8_t *pixels, const int32_t *labels, uint32_t count)
{
    iso_dataset d;
    iso_error e;
    assert_int_equal(iso_dataset_wrap(&d, (iso_shape){1, 1, 1}, ISO_U8, count, pixels, labels, 0, NULL, &e), ISO_OK);
    return d;
}

static int doubts_of(const iso_alloc *a, void *context)
{
    told ignored = {0};
    return iso_data_doubts(context, a, keep, &ignored, NULL);
}

static void names_fit_however_long(void **state)
{
    (void)state;
    static char name[SAMPLES][301];
    const char *names[SAMPLES];
    uint8_t pixels[SAMPLES];
    int32_t odd[SAMPLES], even[SAMPLES];
    for (uint32_t i = 0; i < SAMPLES; i++) {
        memset(name[i], 'a', 300);
        names[i] = name[i];
        pixels[i] = (uint8_t)i;
        odd[i] = (int32_t)(i | 1);
        even[i] = (int32_t)(i & ~1u);
    }
    memcpy(name[0], "cat", 4);
    iso_dataset train = set_of(pixels, odd, SAMPLES), test = set_of(pixels, even, SAMPLES);
    train.class_names = names;
    iso_data_parts parts = {.training = iso_view_all(&train), .test = iso_view_all(&test), .classes = SAMPLES};
    told t = {0};
    iso_error e;
    assert_int_equal(iso_data_doubts(&parts, NULL, keep, &t, &e), ISO_OK);
    assert_int_equal(t.count, 3);
    test_expect_word(t.text[0], "30 of 60 classes have no training sample: cat, aaa");
    test_expect_word(t.text[0], "aaa and 22 more");
    test_expect_word(t.text[1], "60 of 60 test samples are of classes without a training sample: cat, ");
    test_expect_word(t.text[2], "30 of 30 trained classes have no test sample: ");
    assert_true(test_every_allocation(doubts_of, &parts) >= 2);
    iso_dataset_free(&train);
    iso_dataset_free(&test);
}

static void data_without_labels_or_doubts_says_nothing(void **state)
{
    (void)state;
    const uint8_t pixels[4] = {1, 2, 3, 4};
    const int32_t labels[4] = {0, 1, 0, 1};
    iso_dataset bare = set_of(pixels, NULL, 4), good = set_of(pixels, labels, 4);
    told t = {0};
    iso_error e;
    assert_int_equal(iso_data_doubts(&(iso_data_parts){.training = iso_view_all(&bare)}, NULL, keep, &t, &e), ISO_OK);
    const iso_data_parts parts = {.training = iso_view_all(&good), .test = iso_view_all(&bare), .classes = 2};
    assert_int_equal(iso_data_doubts(&parts, NULL, keep, &t, &e), ISO_OK);
    assert_int_equal(t.count, 0);
    iso_dataset_free(&bare);
    iso_dataset_free(&good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_fit_however_long),
        cmocka_unit_test(data_without_labels_or_doubts_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
