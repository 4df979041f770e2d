/* SPDX-License-Identifier: Apache-2.0
 * Proves: what a job names becomes the right data sets (folder, file with labels beside it, gzip, given labels); every
 * case of the manifest gets its answer from the path to the message; inspect tells what is there; every allocation
 * failure is survived. */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/file/open_data.h"

static void put_idx(const char *folder, const char *name, uint32_t n, uint32_t side, bool labels, bool gzip)
{
    const uint32_t dim[3] = {n, side, side};
    uint8_t data[4096];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(labels ? i % 4 : i);
    test_bytes file = test_idx(8, labels ? 1 : 3, dim, data, labels ? n : (size_t)n * side * side);
    if (gzip) {
        test_bytes z = test_gzip(file.bytes, file.size);
        test_bytes_free(&file);
        file = z;
    }
    scratch_write(scratch_path(folder, name), file.bytes, file.size);
    test_bytes_free(&file);
}

static void put_usual(const char *folder, uint32_t train, uint32_t test, const char *suffix)
{
    static const char *const names[4] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                         "t10k-labels-idx1-ubyte"};
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", names[i], suffix);
        put_idx(folder, name, i < 2 ? train : test, 4, i % 2, *suffix != '\0');
    }
}

static int open_path(const char *path, iso_data *d, iso_error *e)
{
    e->text[0] = '\0';
    return iso_data_open(&(iso_data_source){.path = path}, NULL, d, e);
}

static void a_folder_holds_train_and_test(void **state)
{
    (void)state;
    static const char *const suffixes[] = {"", ".gz"};
    for (int i = 0; i < 2; i++) {
        char *folder = scratch_make();
        put_usual(folder, 20, 7, suffixes[i]);
        iso_data d;
        iso_error e;
        if (open_path(folder, &d, &e) != ISO_OK)
            fail_msg("%s", e.text);
        assert_true(d.train.count == 20 && d.test.count == 7 && d.has_test && !d.has_validation);
        assert_true(d.train.classes == 4 && d.test.classes == 4 && d.train.labels[5] == 1);
        assert_int_equal(((const uint8_t *)iso_dataset_sample(&d.train, 3))[2], 50);
        test_expect_word(d.train_path, "train-images-idx3-ubyte");
        test_expect_word(d.test_path, "t10k-images-idx3-ubyte");
        iso_data_close(&d);
        iso_data_close(&d);
        scratch_remove(folder);
    }
}

static void files_find_their_labels(void **state)
{
    (void)state;
    char *folder = scratch_make();
    put_usual(folder, 20, 7, "");
    put_idx(folder, "odd-answers", 20, 4, true, false);
    put_idx(folder, "odd-pictures", 20, 4, false, false);
    iso_data d;
    iso_error e;
    char train[256], test[256], odd[256], answers[256];
    snprintf(train, sizeof train, "%s", scratch_path(folder, "train-images-idx3-ubyte"));
    snprintf(test, sizeof test, "%s", scratch_path(folder, "t10k-images-idx3-ubyte"));
    snprintf(odd, sizeof odd, "%s", scratch_path(folder, "odd-pictures"));
    snprintf(answers, sizeof answers, "%s", scratch_path(folder, "odd-answers"));
    assert_int_equal(iso_data_open(&(iso_data_source){.path = train, .test = test, .validation = test}, NULL, &d, &e),
                     ISO_OK);
    assert_true(d.train.count == 20 && d.train.labels && d.test.count == 7 && d.test.labels && d.validation.count == 7);
    iso_data_close(&d);
    assert_int_equal(open_path(odd, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "odd-pictures: has no labels");
    test_expect_word(e.text, "data.labels");
    assert_int_equal(iso_data_open(&(iso_data_source){.path = odd, .labels = answers}, NULL, &d, &e), ISO_OK);
    assert_true(d.train.labels[6] == 2 && !d.has_test);
    iso_data_close(&d);
    /* Labels given as images and the other way round are named. */
    assert_int_equal(iso_data_open(&(iso_data_source){.path = answers, .labels = odd}, NULL, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "odd-answers: samples are wanted");
    assert_int_equal(iso_data_open(&(iso_data_source){.path = odd, .labels = train}, NULL, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "labels are wanted, but there are 3 dimensions");
    assert_int_equal(iso_data_open(&(iso_data_source){.path = folder, .labels = answers}, NULL, &d, &e),
                     ISO_E_ARGUMENT);
    test_expect_word(e.text, "is a folder");
    assert_int_equal(iso_data_open(&(iso_data_source){.path = folder, .test = odd}, NULL, &d, &e), ISO_E_FORMAT);
    scratch_remove(folder);
}

static void one_set_opens_alone(void **state)
{
    (void)state;
    char *folder = scratch_make();
    put_usual(folder, 20, 7, "");
    iso_dataset d;
    iso_data_part part;
    iso_error e;
    assert_int_equal(iso_data_open_one(folder, NULL, NULL, true, NULL, &d, &part, &e), ISO_OK);
    assert_int_equal(d.count, 7);
    assert_int_equal(part, ISO_DATA_TEST);
    iso_dataset_free(&d);
    remove(scratch_path(folder, "t10k-images-idx3-ubyte"));
    remove(scratch_path(folder, "t10k-labels-idx1-ubyte"));
    assert_int_equal(iso_data_open_one(folder, NULL, NULL, true, NULL, &d, &part, &e), ISO_OK);
    assert_int_equal(d.count, 20);
    assert_int_equal(part, ISO_DATA_TRAIN);
    iso_dataset_free(&d);
    remove(scratch_path(folder, "train-labels-idx1-ubyte"));
    const char *images = scratch_path(folder, "train-images-idx3-ubyte");
    assert_int_equal(iso_data_open_one(images, NULL, "idx", false, NULL, &d, &part, &e), ISO_OK);
    assert_int_equal(part, ISO_DATA_FILE);
    assert_null(d.labels);
    iso_dataset_free(&d);
    assert_int_equal(iso_data_open_one(images, NULL, "idx", true, NULL, &d, NULL, &e), ISO_E_FORMAT);
    assert_int_equal(iso_data_open_one(folder, NULL, NULL, true, NULL, &d, NULL, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "no file of its labels");
    scratch_remove(folder);
}

/* `isochron predict RUN -`: samples, compressed or not, come through standard input. */
static void standard_input_is_a_data_file(void **state)
{
    (void)state;
    char path[512];
    static const char *const names[] = {"idx/ok-images-idx3-ubyte", "idx/ok.gz"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        int file = open(test_case_path(names[i], path), O_RDONLY), kept = dup(STDIN_FILENO);
        assert_true(file >= 0 && kept >= 0 && dup2(file, STDIN_FILENO) == STDIN_FILENO);
        iso_dataset d;
        iso_error e = {.text = ""};
        int status = iso_data_open_one("-", NULL, NULL, false, NULL, &d, NULL, &e);
        dup2(kept, STDIN_FILENO);
        close(kept);
        close(file);
        if (status != ISO_OK)
            fail_msg("%s", e.text);
        assert_string_equal(d.source, "standard input: IDX, 3 x 2 x 2, u8");
        iso_dataset_free(&d);
    }
}

static void mistakes_are_named(void **state)
{
    (void)state;
    char *folder = scratch_make();
    iso_data d;
    iso_error e;
    assert_int_equal(open_path(NULL, &d, &e), ISO_E_ARGUMENT);
    test_expect_word(e.text, "data.path");
    assert_int_equal(open_path(scratch_path(folder, "nothing"), &d, &e), ISO_E_IO);
    test_expect_word(e.text, "nothing: cannot be opened: No such file");
    assert_int_equal(open_path(folder, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "train-images-idx3-ubyte");
    test_expect_word(e.text, "there is nothing in the folder");
    put_idx(folder, "t10k-images-idx3-ubyte", 7, 4, false, false);
    put_idx(folder, "t10k-labels-idx1-ubyte", 7, 4, true, false);
    assert_int_equal(open_path(folder, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "no training set");
    put_idx(folder, "train-images-idx3-ubyte", 20, 5, false, false); /* 5 x 5, the test set is 4 x 4 */
    put_idx(folder, "train-labels-idx1-ubyte", 19, 5, true, false);
    assert_int_equal(open_path(folder, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "20 samples but 19 labels");
    put_idx(folder, "train-labels-idx1-ubyte", 20, 5, true, false);
    assert_int_equal(open_path(folder, &d, &e), ISO_E_SHAPE);
    test_expect_word(e.text, "t10k-images-idx3-ubyte");
    test_expect_word(e.text, "1 x 4 x 4 (channels, height, width), wanted 1 x 5 x 5");
    mkdir(scratch_path(folder, "sub"), 0700);
    mkdir(scratch_path(folder, "sub/train-images-idx3-ubyte"), 0700); /* a folder where a file is expected */
    put_idx(scratch_path(folder, "sub"), "train-labels-idx1-ubyte", 20, 5, true, false);
    assert_int_equal(open_path(scratch_path(folder, "sub"), &d, &e), ISO_E_IO);
    test_expect_word(e.text, "is a folder, a file is wanted");
    scratch_remove(folder);
}

static void hidden_files_are_no_data(void **state)
{
    (void)state;
    static const char *const hidden[] = {"._train-images-idx3-ubyte", "._train-labels-idx1-ubyte", ".DS_Store",
                                         "._t10k-images-idx3-ubyte.gz", ".t10k-labels-idx1-ubyte.swp"};
    char *folder = scratch_make();
    put_usual(folder, 20, 7, "");
    for (size_t i = 0; i < TEST_COUNT(hidden); i++)
        scratch_write(scratch_path(folder, hidden[i]), "\0\5\26\7", 4);
    iso_data d;
    iso_error e;
    if (open_path(folder, &d, &e) != ISO_OK)
        fail_msg("%s", e.text);
    assert_true(d.train.count == 20 && d.test.count == 7 && d.train.labels && d.test.labels);
    iso_data_close(&d);
    char images[256];
    snprintf(images, sizeof images, "%s", scratch_path(folder, "train-images-idx3-ubyte"));
    remove(scratch_path(folder, "train-labels-idx1-ubyte")); /* the hidden one beside the images is not theirs */
    assert_int_equal(open_path(images, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "has no labels");
    scratch_remove(folder);
}

/* Two spellings of each file of a set, in folder and beside a file: with the same bytes they are one, else an error. */
static void twins_hold_the_same_or_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *twin;
        uint32_t n;
        bool labels;
    } cases[] = {
        {"train-images-idx3-ubyte", "train-images.idx3-ubyte", 20, false},
        {"train-labels-idx1-ubyte", "Train-Labels.idx1-ubyte", 20, true},
        {"t10k-images-idx3-ubyte", "test-images-idx3-ubyte", 7, false},
        {"t10k-labels-idx1-ubyte", "t10k-labels", 7, true},
        {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", 20, false},
        {"train-labels-idx1-ubyte", "train-labels-idx1-ubyte.gz", 20, true},
        {"t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz", 7, false},
        {"t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte.gz", 7, true},
    };
    char *folder = scratch_make();
    put_usual(folder, 20, 7, "");
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        bool gzip = strstr(cases[i].twin, ".gz") != NULL;
        iso_data d;
        iso_error e;
        put_idx(folder, cases[i].twin, cases[i].n, 4, cases[i].labels, gzip);
        if (open_path(folder, &d, &e) != ISO_OK)
            fail_msg("%s: %s", cases[i].twin, e.text);
        iso_data_close(&d);
        put_idx(folder, cases[i].twin, cases[i].n - 1, 4, cases[i].labels, gzip); /* one sample less */
        assert_int_equal(open_path(folder, &d, &e), ISO_E_FORMAT);
        test_expect_word(e.text, cases[i].name);
        test_expect_word(e.text, cases[i].twin);
        char images[256];
        snprintf(images, sizeof images, "%s", scratch_path(folder, "train-images-idx3-ubyte"));
        bool of_train = cases[i].n == 20 && cases[i].labels;
        assert_int_equal(open_path(images, &d, &e), of_train ? ISO_E_FORMAT : ISO_OK); /* labels beside a file */
        iso_data_close(&d);
        iso_dataset one;
        bool of_test = cases[i].n == 7;
        assert_int_equal(iso_data_open_one(folder, NULL, NULL, true, NULL, &one, NULL, &e), of_test ? ISO_E_FORMAT : ISO_OK);
        iso_dataset_free(&one);
        remove(scratch_path(folder, cases[i].twin));
    }
    /* A folder that has a file's name is none of its spellings; a damaged twin is told. */
    iso_data d;
    iso_error e;
    mkdir(scratch_path(folder, "train-images.idx3-ubyte"), 0700);
    assert_int_equal(open_path(folder, &d, &e), ISO_OK);
    iso_data_close(&d);
    scratch_write(scratch_path(folder, "train-labels-idx1-ubyte.gz"), "\x1f\x8b\x08\0damaged", 12);
    assert_int_equal(open_path(folder, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "train-labels-idx1-ubyte.gz: damaged gzip data");
    scratch_remove(folder);
}

static void classes_are_the_same_in_all_sets(void **state)
{
    (void)state;
    char *folder = scratch_make();
    put_usual(folder, 2, 20, ""); /* training labels 0 and 1, test labels 0 to 3 */
    iso_data d;
    iso_error e;
    assert_int_equal(open_path(folder, &d, &e), ISO_OK);
    assert_true(d.train.classes == 4 && d.test.classes == 4);
    iso_data_close(&d);
    scratch_remove(folder);
}

/* From the path to the message, as `isochron inspect` and the acceptance checks use it. */
static void inspect_gives_the_manifests_answer(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int status;
        const char *word;
    } cases[] = {
        {"idx/ok-images-idx3-ubyte", ISO_OK, "3 x 2 x 2"},
        {"idx/ok-labels-idx1-ubyte", ISO_OK, "IDX, 3, u8"},
        {"idx/trunc-images", ISO_E_FORMAT, "12 bytes wanted"},
        {"idx/header-only", ISO_E_FORMAT, "short header"},
        {"idx/trailing", ISO_E_FORMAT, "2 bytes left over"},
        {"idx/swapped-magic", ISO_E_FORMAT, "byte order"},
        {"idx/images-as-labels", ISO_OK, "3 x 2 x 2"},
        {"idx/huge-count", ISO_E_FORMAT, "more than any file holds"},
        {"idx/label-9-of-3", ISO_OK, "IDX, 3, u8"},
        {"idx/ok.gz", ISO_OK, "3 x 2 x 2"},
        {"idx/plain-named.gz", ISO_OK, "3 x 2 x 2"},
        {"idx/gz-without-ext", ISO_OK, "3 x 2 x 2"},
        {"idx/html-instead.gz", ISO_E_FORMAT, "download"},
        {"idx/trailing-garbage.gz", ISO_E_FORMAT, "3 bytes behind the end"},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char path[512], answer[256];
        iso_inspection in;
        iso_error e = {.text = ""};
        test_case_answer(cases[i].name, answer);
        int status = iso_inspect(test_case_path(cases[i].name, path), NULL, NULL, &in, &e);
        if (status != cases[i].status)
            fail_msg("%s: status %d (%s); the manifest says %s", cases[i].name, status, e.text, answer);
        test_expect_word(status == ISO_OK ? in.set.source : e.text, cases[i].word);
        test_expect_word(status == ISO_OK ? in.set.source : e.text, strchr(cases[i].name, '/') + 1);
        iso_inspection_free(&in);
    }
}

static void inspect_measures(void **state)
{
    (void)state;
    char path[512];
    iso_inspection in;
    iso_error e;
    assert_int_equal(iso_inspect(test_case_path("idx/ok.gz", path), NULL, NULL, &in, &e), ISO_OK);
    assert_true(in.kind == ISO_INSPECT_DATA && in.gzip && in.report.minimum == 0 && in.report.maximum == 11 &&
                in.report.mean == 5.5);
    assert_null(in.report.class_counts);
    iso_inspection_free(&in);
    iso_inspection_free(&in);
    assert_int_equal(iso_inspect(test_case_path("idx/label-9-of-3", path), "auto", NULL, &in, &e), ISO_OK);
    assert_true(in.report.label_minimum == 0 && in.report.label_maximum == 9 && in.report.classes == 10 &&
                in.report.empty_classes == 7);
    assert_true(in.report.class_counts[0] == 1 && in.report.class_counts[9] == 1 && in.report.class_counts[5] == 0);
    iso_inspection_free(&in);
    assert_int_equal(iso_inspect(test_case_path("safetensors/ok.safetensors", path), NULL, NULL, &in, &e), ISO_OK);
    assert_true(in.kind == ISO_INSPECT_TENSORS && iso_tensors_count(in.tensors) == 1);
    iso_inspection_free(&in);
    assert_int_equal(iso_inspect(test_case_path("safetensors/short.safetensors", path), NULL, NULL, &in, &e),
                     ISO_E_FORMAT);
    test_expect_word(e.text, "short.safetensors: the data ends early");
    char *folder = scratch_make();
    put_usual(folder, 20, 7, ".gz");
    assert_int_equal(iso_inspect(folder, NULL, NULL, &in, &e), ISO_OK);
    assert_true(in.kind == ISO_INSPECT_FOLDER && in.has_test && in.set.count == 20 &&
                in.test_report.class_counts[0] == 2);
    iso_inspection_free(&in);
    /* Tensors are known without their suffix, even when there are none. */
    scratch_write(scratch_path(folder, "none"), "\2\0\0\0\0\0\0\0{}", 10);
    assert_int_equal(iso_inspect(scratch_path(folder, "none"), NULL, NULL, &in, &e), ISO_OK);
    assert_true(in.kind == ISO_INSPECT_TENSORS && iso_tensors_count(in.tensors) == 0);
    iso_inspection_free(&in);
    size_t size;
    uint8_t *bytes = test_case_read("safetensors/ok.safetensors", &size);
    scratch_write(scratch_path(folder, "weights"), bytes, size);
    free(bytes);
    assert_int_equal(iso_inspect(scratch_path(folder, "weights"), NULL, NULL, &in, &e), ISO_OK);
    assert_int_equal(in.kind, ISO_INSPECT_TENSORS);
    iso_inspection_free(&in);
    scratch_remove(folder);
}

static int open_for_allocations(const iso_alloc *a, void *context)
{
    iso_data d;
    iso_error e;
    int status = iso_data_open(&(iso_data_source){.path = context}, a, &d, &e);
    iso_data_close(&d);
    return status;
}

static int inspect_for_allocations(const iso_alloc *a, void *context)
{
    iso_inspection in;
    iso_error e;
    int status = iso_inspect(context, NULL, a, &in, &e);
    iso_inspection_free(&in);
    return status;
}

static void every_allocation_failure_is_survived(void **state)
{
    (void)state;
    char *folder = scratch_make();
    put_usual(folder, 20, 7, ".gz");
    put_idx(folder, "train-labels-idx1-ubyte", 20, 4, true, false); /* a twin of the compressed one */
    assert_true(test_every_allocation(open_for_allocations, folder) > 20);
    assert_true(test_every_allocation(inspect_for_allocations, folder) > 20);
    char *images = strdup(scratch_path(folder, "train-images-idx3-ubyte.gz"));
    assert_true(test_every_allocation(open_for_allocations, images) > 10);
    assert_true(test_every_allocation(inspect_for_allocations, images) > 4);
    free(images);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_holds_train_and_test),
        cmocka_unit_test(files_find_their_labels),
        cmocka_unit_test(one_set_opens_alone),
        cmocka_unit_test(standard_input_is_a_data_file),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(hidden_files_are_no_data),
        cmocka_unit_test(twins_hold_the_same_or_are_refused),
        cmocka_unit_test(classes_are_the_same_in_all_sets),
        cmocka_unit_test(inspect_gives_the_manifests_answer),
        cmocka_unit_test(inspect_measures),
        cmocka_unit_test(every_allocation_failure_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
