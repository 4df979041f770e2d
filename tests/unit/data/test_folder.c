/* SPDX-License-Identifier: Apache-2.0
 * Proves: the usual names of the well-known sets are found and paired, plain before gzip, one set only, nothing hidden; the
 * rest is refused with what was looked for. */
#include "test.h"

#include "isochron/data.h"

typedef struct folder_case {
    const char *names[8];
    const char *right[4]; /* train samples, train labels, test samples, test labels; NULL: none */
} folder_case;

static size_t count_of(const char *const *names)
{
    size_t n = 0;
    while (names[n])
        n++;
    return n;
}

static void usual_names_are_found(void **state)
{
    (void)state;
    static const folder_case cases[] = {
        {{"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "train-images-idx3-ubyte.gz",
          "train-labels-idx1-ubyte.gz"},
         {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
          "t10k-labels-idx1-ubyte.gz"}},
        {{"README", "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte", "train-images.idx3-ubyte",
          "train-labels.idx1-ubyte"},
         {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"}},
        {{"emnist-letters-test-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte",
          "emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte",
          "emnist-letters-mapping.txt"},
         {"emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte",
          "emnist-letters-test-images-idx3-ubyte", "emnist-letters-test-labels-idx1-ubyte"}},
        {{"t10k-images-idx4-ubyte", "t10k-labels-idx1-ubyte", "train-images-idx4-ubyte", "train-labels-idx1-ubyte"},
         {"train-images-idx4-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx4-ubyte", "t10k-labels-idx1-ubyte"}},
        {{"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"},
         {"train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz", NULL, NULL}},
        {{"train-images-idx3-ubyte.gz", "train-images.idx3-ubyte", "train-labels-idx1-ubyte"},
         {"train-images.idx3-ubyte", "train-labels-idx1-ubyte", NULL, NULL}},
        {{"Train_Images.idx", "Train_Labels.idx", "test_images.idx", "test_labels.idx"},
         {"Train_Images.idx", "Train_Labels.idx", "test_images.idx", "test_labels.idx"}},
        {{"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
         {NULL, NULL, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}},
        {{"a.train-images-idx3-float", "a.train-labels-idx1-int"},
         {"a.train-images-idx3-float", "a.train-labels-idx1-int", NULL, NULL}},
        /* what is hidden is no data, whatever it is called; an editor's copy is none either */
        {{"._train-images-idx3-ubyte", ".DS_Store", ".train-labels-idx1-ubyte.swp", "train-images-idx3-ubyte",
          "train-images-idx3-ubyte~", "train-labels-idx1-ubyte", "train-labels-idx1-ubyte.bak"},
         {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", NULL, NULL}},
        {{"._a-train-images-idx3-ubyte", "._t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
         {NULL, NULL, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}},
        /* another set without training images does not disturb */
        {{"other-test-images-idx3-ubyte", "train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
         {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", NULL, NULL}},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        iso_folder f;
        iso_error e = {.text = ""};
        if (iso_folder_find(cases[i].names, count_of(cases[i].names), &f, &e) != ISO_OK)
            fail_msg("case %zu: %s", i, e.text);
        const int64_t at[4] = {f.train_samples, f.train_labels, f.test_samples, f.test_labels};
        for (int k = 0; k < 4; k++) {
            const char *found = at[k] < 0 ? NULL : cases[i].names[at[k]];
            if (found != cases[i].right[k] && (!found || !cases[i].right[k] || strcmp(found, cases[i].right[k]) != 0))
                fail_msg("case %zu, place %d: %s, wanted %s", i, k, found ? found : "none",
                         cases[i].right[k] ? cases[i].right[k] : "none");
        }
    }
}

static void other_folders_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *names[8], *word;
    } cases[] = {
        {{NULL}, "nothing in the folder"},
        {{"a", "b"}, "there are: a, b"},
        {{"train-images", "train.csv"}, "no file of its labels"},
        {{"train-images-idx3-ubyte"}, "train-images-idx3-ubyte, but no file of its labels"},
        {{"train-labels-idx1-ubyte", "x"}, "looked for train-images-idx3-ubyte"},
        {{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"},
         "t10k-images-idx3-ubyte, but no file of its"},
        {{"a-train-images-idx3-ubyte", "a-train-labels-idx1-ubyte", "b-train-images-idx3-ubyte",
          "b-train-labels-idx1-ubyte"},
         "several data sets: \"a\" and \"b\""},
        {{"my-images-idx3-ubyte", "my-labels-idx1-ubyte"}, "data.path"},
        {{"1", "2", "3", "4", "5", "6", "7"}, "and 1 more"},
        {{".train-images-idx3-ubyte", ".train-labels-idx1-ubyte"}, "nothing but hidden files"},
        {{".DS_Store", "a"}, "there are: a."},
        {{"train-images-idx3-ubyte", "._train-labels-idx1-ubyte"}, "no file of its labels"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        iso_folder f;
        iso_error e = {.text = ""};
        assert_int_equal(iso_folder_find(cases[i].names, count_of(cases[i].names), &f, &e), ISO_E_FORMAT);
        test_expect_word(e.text, cases[i].word);
        assert_true(f.train_samples == -1 && f.test_labels == -1);
    }
    char longer[8][300]; /* names as long as a file system allows */
    const char *names[8];
    for (int i = 0; i < 8; i++) {
        memset(longer[i], 'a' + i, 255);
        longer[i][255] = '\0';
        names[i] = longer[i];
    }
    iso_folder f;
    iso_error e;
    assert_int_equal(iso_folder_find(names, 8, &f, &e), ISO_E_FORMAT);
    for (int i = 0; i < 2; i++)
        memcpy(longer[i] + 230, "-train-images-idx3-ubyte", 25);
    assert_int_equal(iso_folder_find(names, 8, &f, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "several data sets");
}

static void samples_and_labels_pair(void **state)
{
    (void)state;
    static const struct {
        const char *samples, *labels;
        bool pair;
    } cases[] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", true},
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte", true},
        {"train-images.idx3-ubyte", "train-labels-idx1-ubyte.gz", true},
        {"train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", false},
        {"ok-images-idx3-ubyte", "ok-labels-idx1-ubyte", true},
        {"ok-images-idx3-ubyte", "train-labels-idx1-ubyte", false},
        {"a-train-images", "b-train-labels", false},
        {"train-labels-idx1-ubyte", "train-images-idx3-ubyte", false},
        {"images", "labels", true},
        {"pictures", "labels", false},
        {"train-images-idx3-ubyte", "train-images-idx3-ubyte", false},
        {"train-images-idx3-ubyte", "._train-labels-idx1-ubyte", false},
        {"", "", false},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        if (iso_folder_pairs(cases[i].samples, cases[i].labels) != cases[i].pair)
            fail_msg("%s and %s", cases[i].samples, cases[i].labels);
}

static void spellings_of_one_file_are_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *one, *other;
        bool same;
    } cases[] = {
        {"train-images-idx3-ubyte", "train-images-idx3-ubyte", true},
        {"train-images-idx3-ubyte", "train-images.idx3-ubyte", true},
        {"train-images-idx3-ubyte", "Train_Images.idx.gz", true},
        {"t10k-labels-idx1-ubyte", "test-labels", true},
        {"a-train-labels", "a.train.labels.idx1.ubyte", true},
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", false},
        {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte", false},
        {"a-train-images", "b-train-images", false},
        {"images", "train-images", false},
        {"train-images-idx3-ubyte", "._train-images-idx3-ubyte", false},
        {"README", "README", false},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++)
        if (iso_folder_same(cases[i].one, cases[i].other) != cases[i].same ||
            iso_folder_same(cases[i].other, cases[i].one) != cases[i].same)
            fail_msg("%s and %s", cases[i].one, cases[i].other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_names_are_found),
        cmocka_unit_test(other_folders_are_refused),
        cmocka_unit_test(samples_and_labels_pair),
        cmocka_unit_test(spellings_of_one_file_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
