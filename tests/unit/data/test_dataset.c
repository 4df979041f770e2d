/* SPDX-License-Identifier: Apache-2.0
 * Proves: wrapping and joining keep the data right and the counts equal; the fingerprint tells any two data sets apart;
 * the validation split is a partition that follows the seed; normalisation and augmentation compute what their
 * definitions say. */
#include "test.h"

#include <math.h>

#include "isochron/data.h"

static iso_dataset wrap(iso_shape shape, iso_dtype type, uint64_t count, const void *values, const int32_t *labels)
{
    iso_dataset d;
    iso_error e = {.text = ""};
    if (iso_dataset_wrap(&d, shape, type, count, values, labels, 0, NULL, &e) != ISO_OK)
        fail_msg("%s", e.text);
    return d;
}

static void arrays_can_be_wrapped(void **state)
{
    (void)state;
    static const uint8_t values[6] = {1, 2, 3, 4, 5, 6};
    static const int32_t labels[3] = {0, 2, 1}, bad[3] = {0, -1, 1}, huge[3] = {0, 1 << 20, 1};
    iso_dataset d = wrap((iso_shape){2, 1, 1}, ISO_U8, 3, values, labels);
    char name[16];
    iso_error e;
    assert_true(d.classes == 3 && d.count == 3 && iso_dataset_sample_bytes(&d) == 2);
    assert_string_equal(iso_dataset_class_name(&d, 2, name), "2");
    assert_int_equal(iso_dataset_check_shape(&d, (iso_shape){2, 1, 1}, &e), ISO_OK);
    assert_int_equal(iso_dataset_check_shape(&d, (iso_shape){1, 2, 1}, &e), ISO_E_SHAPE);
    assert_int_equal(iso_dataset_check_labels(&d, 3, &e), ISO_OK);
    assert_int_equal(iso_dataset_check_labels(&d, 2, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "label 2 at item 1");
    iso_dataset_free(&d);
    const iso_shape two = {2, 1, 1};
    assert_int_equal(iso_dataset_wrap(&d, two, ISO_U8, 3, values, bad, 0, NULL, &e), ISO_E_ARGUMENT);
    test_expect_word(e.text, "label -1 at item 1");
    assert_int_equal(iso_dataset_wrap(&d, two, ISO_U8, 3, values, huge, 0, NULL, &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_dataset_wrap(&d, two, ISO_U8, 0, values, NULL, 0, NULL, &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_dataset_wrap(&d, two, ISO_U8, 3, NULL, NULL, 0, NULL, &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_dataset_wrap(&d, (iso_shape){0, 1, 1}, ISO_U8, 3, values, NULL, 0, NULL, &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_dataset_wrap(&d, (iso_shape){~0u, ~0u, 1}, ISO_F32, 3, values, NULL, 0, NULL, &e),
                     ISO_E_ARGUMENT);
    assert_int_equal(iso_dataset_wrap(&d, (iso_shape){1u << 31, 1u << 31, 1}, ISO_U8, 2, values, NULL, 0, NULL, &e),
                     ISO_E_ARGUMENT);
    assert_int_equal(iso_dataset_wrap(&d, two, ISO_U8, 3, values, labels, 10, NULL, &e), ISO_OK);
    assert_int_equal(d.classes, 10);
    iso_dataset_free(&d);
    test_heap heap;
    test_heap_init(&heap, 1);
    assert_int_equal(iso_dataset_wrap(&d, two, ISO_U8, 3, values, labels, 0, &heap.alloc, &e), ISO_E_NOMEM);
    test_heap_expect_empty(&heap);
}

static void counts_must_agree(void **state)
{
    (void)state;
    test_bytes images = test_idx(8, 3, (const uint32_t[]){2, 1, 2}, "\1\2\3\4", 4);
    test_bytes three = test_idx(8, 1, (const uint32_t[]){3}, "\0\1\2", 3);
    iso_bytes a = {images.bytes, images.size, NULL, NULL}, b = {three.bytes, three.size, NULL, NULL};
    iso_dataset d, l;
    iso_error e;
    assert_int_equal(iso_data_read(&a, &(iso_read_options){.name = "pictures"}, NULL, &d, &e), ISO_OK);
    assert_int_equal(iso_data_read(&b, &(iso_read_options){.name = "answers"}, NULL, &l, &e), ISO_OK);
    assert_int_equal(iso_dataset_join(&d, &l, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "2 samples but 3 labels: pictures");
    test_expect_word(e.text, "answers");
    assert_true(d.values && !d.labels && l.labels); /* both as before */
    assert_int_equal(iso_dataset_join(&l, &d, &e), ISO_E_FORMAT);
    test_expect_word(e.text, "answers: IDX, 3, u8: these are labels");
    assert_int_equal(iso_dataset_join(&d, &d, &e), ISO_E_FORMAT);
    assert_int_equal(iso_dataset_check_labels(&d, 3, &e), ISO_E_FORMAT);
    assert_int_equal(iso_dataset_check_shape(&l, (iso_shape){1, 1, 1}, &e), ISO_E_SHAPE);
    iso_dataset_free(&d);
    iso_dataset_free(&l);
    test_bytes_free(&images);
    test_bytes_free(&three);
}

static void fingerprints_tell_data_apart(void **state)
{
    (void)state;
    enum { VARIANTS = 8 };
    uint8_t values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    float floats[12];
    for (int i = 0; i < 12; i++)
        floats[i] = (float)values[i];
    int32_t labels[3] = {0, 1, 2}, others[3] = {0, 2, 1};
    iso_dataset d[VARIANTS];
    d[0] = wrap((iso_shape){1, 2, 2}, ISO_U8, 3, values, labels);
    d[1] = wrap((iso_shape){1, 2, 2}, ISO_U8, 3, values, others);
    d[2] = wrap((iso_shape){1, 2, 2}, ISO_U8, 3, values, NULL);
    d[3] = wrap((iso_shape){4, 1, 1}, ISO_U8, 3, values, labels);
    d[4] = wrap((iso_shape){1, 2, 2}, ISO_U8, 2, values, labels);
    d[5] = wrap((iso_shape){1, 2, 2}, ISO_F32, 3, floats, labels);
    uint8_t changed[12];
    memcpy(changed, values, 12);
    changed[11] ^= 1;
    d[6] = wrap((iso_shape){1, 2, 2}, ISO_U8, 3, changed, labels);
    memcpy(changed, values, 12);
    changed[0] = values[4];
    changed[4] = values[0];
    d[7] = wrap((iso_shape){1, 2, 2}, ISO_U8, 3, changed, labels);
    for (int i = 0; i < VARIANTS; i++)
        for (int j = 0; j < i; j++)
            assert_true(d[i].fingerprint != d[j].fingerprint);
    iso_dataset again = wrap((iso_shape){1, 2, 2}, ISO_U8, 3, values, labels);
    assert_true(again.fingerprint == d[0].fingerprint);
    iso_dataset_free(&again);
    for (int i = 0; i < VARIANTS; i++)
        iso_dataset_free(&d[i]);
}

static void expect_partition(uint64_t count, double share, uint64_t held)
{
    uint8_t *values = calloc(count, 1);
    int32_t *labels = calloc(count, sizeof *labels);
    iso_dataset d = wrap((iso_shape){1, 1, 1}, ISO_U8, count, values, labels);
    iso_view training, validation;
    iso_error e;
    assert_int_equal(iso_split_make(&d, share, 7, NULL, &training, &validation, &e), ISO_OK);
    if (validation.count != held || training.count != count - held)
        fail_msg("N %llu, share %g: %llu held", (unsigned long long)count, share, (unsigned long long)validation.count);
    uint8_t *seen = calloc(count, 1);
    for (int part = 0; part < 2; part++) {
        const iso_view *v = part ? &validation : &training;
        for (uint64_t i = 0; i < v->count; i++) {
            uint64_t x = v->index ? v->index[i] : i;
            assert_true(x < count && !seen[x]++);
            assert_true(!v->index || i == 0 || v->index[i - 1] < x); /* ascending */
            assert_ptr_equal(iso_view_sample(v, i), values + x);
        }
    }
    iso_view_free(&training);
    iso_view_free(&validation);
    iso_dataset_free(&d);
    free(seen);
    free(labels);
    free(values);
}

static void a_split_is_a_partition(void **state)
{
    (void)state;
    expect_partition(100, 0.1, 10);
    expect_partition(100, 0, 0);
    expect_partition(60000, 0.1, 6000);
    expect_partition(10, 0.25, 3); /* 2.5 is rounded up */
    expect_partition(10, 0.001, 1);
    expect_partition(10, 0.999, 9);
    expect_partition(2, 0.9, 1);
    for (uint64_t n = 2; n < 60; n++)
        expect_partition(n, 0.5, (n + 1) / 2);
}

static int split_for_allocations(const iso_alloc *a, void *context)
{
    iso_view training, validation;
    iso_error e;
    int status = iso_split_make(context, 0.3, 1, a, &training, &validation, &e);
    if (status == ISO_OK) {
        iso_view_free(&training);
        iso_view_free(&validation);
    }
    return status;
}

static void a_split_follows_the_seed(void **state)
{
    (void)state;
    enum { N = 1000 };
    static uint8_t values[N];
    iso_dataset d = wrap((iso_shape){1, 1, 1}, ISO_U8, N, values, NULL),
                one = wrap((iso_shape){1, 1, 1}, ISO_U8, 1, values, NULL);
    iso_view t, v[3];
    iso_error e;
    static const uint64_t seeds[3] = {1, 1, 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(iso_split_make(&d, 0.1, seeds[i], NULL, &t, &v[i], &e), ISO_OK);
        iso_view_free(&t);
    }
    assert_memory_equal(v[0].index, v[1].index, 100 * sizeof(uint64_t));
    assert_memory_not_equal(v[0].index, v[2].index, 100 * sizeof(uint64_t));
    uint64_t middle = 0; /* spread over the whole set */
    for (int i = 0; i < 100; i++)
        middle += v[0].index[i] >= N / 2;
    assert_true(middle > 30 && middle < 70);
    for (int i = 0; i < 3; i++)
        iso_view_free(&v[i]);
    static const double bad[] = {-0.1, 1, 2, NAN};
    for (size_t i = 0; i < TEST_COUNT(bad); i++)
        assert_int_equal(iso_split_make(&d, bad[i], 1, NULL, &t, &v[0], &e), ISO_E_ARGUMENT);
    assert_int_equal(iso_split_make(&one, 0.5, 1, NULL, &t, &v[0], &e), ISO_E_ARGUMENT);
    assert_int_equal(test_every_allocation(split_for_allocations, &d), 3);
    iso_dataset_free(&d);
    iso_dataset_free(&one);
}

static void classes_are_counted(void **state)
{
    (void)state;
    static const uint8_t values[5];
    static const int32_t labels[5] = {0, 2, 2, 0, 2};
    iso_dataset d = wrap((iso_shape){1, 1, 1}, ISO_U8, 5, values, labels);
    iso_view all = iso_view_all(&d);
    uint64_t counts[4];
    iso_view_class_counts(&all, 4, counts);
    assert_true(counts[0] == 2 && counts[1] == 0 && counts[2] == 3 && counts[3] == 0);
    assert_int_equal(iso_view_label(&all, 1), 2);
    iso_data_report r;
    iso_error e;
    assert_int_equal(iso_data_report_make(&r, &d, NULL, &e), ISO_OK);
    assert_true(r.classes == 3 && r.empty_classes == 1 && r.label_maximum == 2 && r.class_counts[2] == 3 &&
                r.constant_channels == 1);
    iso_data_report_free(&r);
    iso_data_report_free(&r);
    iso_dataset_free(&d);
}

/* u8 statistics against sums in long double, over shapes that cross the blocks of the measuring loops. */
static void u8_statistics_are_exact(void **state)
{
    (void)state;
    uint64_t random = test_seed("u8_statistics_are_exact");
    static const iso_shape shapes[] = {{1, 1, 1}, {3, 5, 7}, {130, 1, 1}, {2, 70, 70}, {65, 3, 1}};
    for (size_t s = 0; s < TEST_COUNT(shapes); s++) {
        iso_shape shape = shapes[s];
        uint64_t n = 9;
        size_t plane = (size_t)shape.h * shape.w, each = plane * shape.c;
        uint8_t *values = malloc(n * each);
        for (size_t i = 0; i < n * each; i++)
            values[i] = (uint8_t)(test_random(&random) >> 60 ? test_random(&random) : 255);
        iso_dataset d = wrap(shape, ISO_U8, n, values, NULL);
        iso_view all = iso_view_all(&d);
        iso_channel *channel = malloc(shape.c * sizeof *channel);
        iso_error e;
        assert_int_equal(iso_normalize_measure(&all, ISO_NORMALIZE_STANDARD, channel, NULL, &e), ISO_OK);
        for (uint32_t c = 0; c < shape.c; c++) {
            long double sum = 0, squares = 0, count = (long double)n * (long double)plane;
            uint8_t low = 255, high = 0;
            for (uint64_t i = 0; i < n; i++)
                for (size_t k = 0; k < plane; k++) {
                    uint8_t x = values[i * each + c * plane + k];
                    sum += x;
                    squares += (long double)x * x;
                    low = x < low ? x : low;
                    high = x > high ? x : high;
                }
            double mean = (double)(sum / count), deviation = (double)sqrtl((squares - sum * sum / count) / count);
            assert_true(channel[c].mean == mean && channel[c].minimum == low && channel[c].maximum == high);
            assert_true(fabs(channel[c].deviation - deviation) <= 1e-12 * deviation + 1e-12);
            assert_int_equal(channel[c].constant, low == high);
            if (low != high) {
                assert_true(channel[c].scale == (float)(1 / channel[c].deviation));
                assert_true(channel[c].shift == (float)(-channel[c].mean / channel[c].deviation));
            }
        }
        free(channel);
        iso_dataset_free(&d);
        free(values);
    }
}

static void modes_scale_as_they_say(void **state)
{
    (void)state;
    /* Three columns: 0..4, constant 7, -1..1; five samples. */
    static const float table[15] = {0, 7, -1, 1, 7, 1, 2, 7, 0, 3, 7, 0.5f, 4, 7, -0.5f};
    iso_dataset d = wrap((iso_shape){3, 1, 1}, ISO_F32, 5, table, NULL);
    iso_view all = iso_view_all(&d);
    iso_channel c[3];
    iso_error e;
    uint32_t constant;
    assert_int_equal(iso_normalize_measure(&all, ISO_NORMALIZE_STANDARD, c, &constant, &e), ISO_OK);
    assert_int_equal(constant, 1);
    assert_true(c[0].mean == 2 && fabs(c[0].deviation - sqrt(2)) < 1e-15 && !c[0].constant);
    assert_true(c[1].constant && c[1].scale == 0 && c[1].shift == 0 && c[1].deviation == 0);
    for (int k = 0; k < 3; k += 2) {
        double sum = 0, squares = 0;
        for (int i = 0; i < 5; i++) {
            double x = (double)fmaf(table[3 * i + k], c[k].scale, c[k].shift);
            sum += x;
            squares += x * x;
        }
        assert_true(fabs(sum) < 1e-5 && fabs(squares / 5 - 1) < 1e-5);
    }
    assert_int_equal(iso_normalize_measure(&all, ISO_NORMALIZE_UNIT, c, &constant, &e), ISO_OK);
    assert_true(c[0].scale == 0.25f && c[0].shift == 0 && c[2].scale == 0.5f && c[2].shift == 0.5f && c[1].scale == 0);
    assert_int_equal(iso_normalize_measure(&all, ISO_NORMALIZE_NONE, c, NULL, &e), ISO_OK);
    assert_true(c[0].scale == 1 && c[0].shift == 0 && c[1].scale == 1 && c[1].constant);
    iso_dataset_free(&d);

    static const uint8_t pixels[2] = {0, 255};
    d = wrap((iso_shape){1, 1, 1}, ISO_U8, 2, pixels, NULL);
    all = iso_view_all(&d);
    assert_int_equal(iso_normalize_measure(&all, ISO_NORMALIZE_UNIT, c, NULL, &e), ISO_OK);
    assert_true(c[0].scale == 1.0f / 255 && c[0].shift == 0);
    iso_dataset_free(&d);
    iso_normalize mode;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(iso_normalize_parse(iso_normalize_name((iso_normalize)i), &mode), ISO_OK);
        assert_int_equal(mode, i);
    }
    assert_int_equal(iso_normalize_parse("standart", &mode), ISO_E_ARGUMENT);
}

/* Wide tables are measured in groups of columns: each column as if it stood alone. */
static void columns_are_measured_alone(void **state)
{
    (void)state;
    uint64_t random = test_seed("columns_are_measured_alone");
    static const uint32_t widths[] = {1, 63, 64, 65, 128, 130};
    enum { N = 7 };
    for (size_t w = 0; w < TEST_COUNT(widths); w++) {
        uint32_t width = widths[w];
        float *table = malloc(N * width * sizeof *table), column[N];
        for (size_t i = 0; i < N * width; i++)
            table[i] = (float)test_random_below(&random, 1000) / 7;
        iso_dataset d = wrap((iso_shape){width, 1, 1}, ISO_F32, N, table, NULL);
        iso_view all = iso_view_all(&d);
        iso_channel *channel = malloc(width * sizeof *channel), alone;
        iso_error e;
        assert_int_equal(iso_normalize_measure(&all, ISO_NORMALIZE_STANDARD, channel, NULL, &e), ISO_OK);
        double minimum = INFINITY, maximum = -INFINITY, mean = 0;
        for (uint32_t c = 0; c < width; c++) {
            for (size_t i = 0; i < N; i++)
                column[i] = table[i * width + c];
            iso_dataset one = wrap((iso_shape){1, 1, 1}, ISO_F32, N, column, NULL);
            iso_view v = iso_view_all(&one);
            assert_int_equal(iso_normalize_measure(&v, ISO_NORMALIZE_STANDARD, &alone, NULL, &e), ISO_OK);
            assert_true(alone.mean == channel[c].mean && alone.deviation == channel[c].deviation);
            assert_true(alone.minimum == channel[c].minimum && alone.maximum == channel[c].maximum);
            assert_true(alone.scale == channel[c].scale && alone.shift == channel[c].shift);
            minimum = fmin(minimum, alone.minimum);
            maximum = fmax(maximum, alone.maximum);
            mean += alone.mean / width;
            iso_dataset_free(&one);
        }
        iso_data_report r;
        assert_int_equal(iso_data_report_make(&r, &d, NULL, &e), ISO_OK);
        assert_true(r.minimum == minimum && r.maximum == maximum && fabs(r.mean - mean) < 1e-9);
        iso_data_report_free(&r);
        iso_dataset_free(&d);
        free(channel);
        free(table);
    }
}

static void only_the_training_part_is_measured(void **state)
{
    (void)state;
    enum { N = 40 };
    uint8_t values[N];
    iso_dataset d;
    iso_view training, validation;
    iso_error e;
    memset(values, 10, sizeof values);
    d = wrap((iso_shape){1, 1, 1}, ISO_U8, N, values, NULL);
    assert_int_equal(iso_split_make(&d, 0.25, 3, NULL, &training, &validation, &e), ISO_OK);
    for (uint64_t i = 0; i < validation.count; i++)
        values[validation.index[i]] = 200;
    values[training.index[0]] = 20;
    iso_channel c;
    assert_int_equal(iso_normalize_measure(&training, ISO_NORMALIZE_STANDARD, &c, NULL, &e), ISO_OK);
    assert_true(c.maximum == 20 && fabs(c.mean - (10 + 10.0 / 30)) < 1e-14);
    iso_view nothing = {.set = &d};
    assert_int_equal(iso_normalize_measure(&nothing, ISO_NORMALIZE_STANDARD, &c, NULL, &e), ISO_E_ARGUMENT);
    iso_view_free(&training);
    iso_view_free(&validation);
    iso_dataset_free(&d);
}

static void odd_floats_are_refused(void **state)
{
    (void)state;
    float table[6] = {1, 2, 3, NAN, 5, 6};
    iso_channel c[2];
    iso_error e;
    iso_dataset d = wrap((iso_shape){2, 1, 1}, ISO_F32, 3, table, NULL);
    iso_view all = iso_view_all(&d);
    assert_int_equal(iso_normalize_measure(&all, ISO_NORMALIZE_STANDARD, c, NULL, &e), ISO_E_NONFINITE);
    test_expect_word(e.text, "sample 1, channel 1");
    table[3] = 2;
    table[5] = nextafterf(2, 3);
    table[0] = table[2] = 0; /* a denormal step apart: its scale does not fit a float */
    table[4] = 1e-42f;
    assert_int_equal(iso_normalize_measure(&all, ISO_NORMALIZE_STANDARD, c, NULL, &e), ISO_E_NONFINITE);
    test_expect_word(e.text, "channel 0");
    test_expect_word(e.text, "too close");
    table[4] = 1;
    assert_int_equal(iso_normalize_measure(&all, ISO_NORMALIZE_STANDARD, c, NULL, &e), ISO_OK);
    iso_dataset_free(&d);
}

/* The definition: out(y, x) = in(y - dy, x - dx), 0 outside, of the flipped image or not; some (dy, dx, flip) must
 * explain the copy. */
static bool explained(const iso_augment *g, iso_shape s, const float *in, const float *out, int64_t *which)
{
    int64_t reach = g->shift;
    for (int64_t dy = -reach; dy <= reach; dy++)
        for (int64_t dx = -reach; dx <= reach; dx++)
            for (int flip = 0; flip <= g->flip; flip++) {
                bool same = true;
                for (uint32_t c = 0; c < s.c; c++)
                    for (int64_t y = 0; y < s.h; y++)
                        for (int64_t x = 0; x < s.w; x++) {
                            int64_t from_y = y - dy, from_x = x - dx;
                            bool inside = from_y >= 0 && from_y < s.h && from_x >= 0 && from_x < s.w;
                            from_x = flip ? s.w - 1 - from_x : from_x;
                            float right = inside ? in[((size_t)c * s.h + (size_t)from_y) * s.w + (size_t)from_x] : 0;
                            same &= out[((size_t)c * s.h + (size_t)y) * s.w + (size_t)x] == right;
                        }
                if (same) {
                    *which = ((dy + reach) * (2 * reach + 1) + dx + reach) * 2 + flip;
                    return true;
                }
            }
    return false;
}

static void augmented_copies_are_shifts_and_flips(void **state)
{
    (void)state;
    const iso_shape s = {2, 5, 4};
    static const iso_augment kinds[] = {{2, true}, {0, true}, {3, false}, {0, false}};
    float in[40], out[40];
    uint8_t bytes[40], small[40];
    for (int i = 0; i < 40; i++) {
        in[i] = (float)(i + 1);
        bytes[i] = (uint8_t)(i + 1);
    }
    for (size_t k = 0; k < TEST_COUNT(kinds); k++) {
        uint32_t hits[64 * 2] = {0}, kinds_seen = 0;
        int64_t possible = (2 * kinds[k].shift + 1) * (2 * kinds[k].shift + 1) * (kinds[k].flip ? 2 : 1);
        for (uint64_t sample = 0; sample < 4000; sample++) {
            int64_t which = -1;
            iso_augment_sample(&kinds[k], s, ISO_F32, 1, 0, sample, in, out);
            if (!explained(&kinds[k], s, in, out, &which))
                fail_msg("kind %zu, sample %llu: neither a shift nor a flip", k, (unsigned long long)sample);
            kinds_seen += hits[which]++ == 0;
            iso_augment_sample(&kinds[k], s, ISO_U8, 1, 0, sample, bytes, small); /* both types do the same */
            for (int i = 0; i < 40; i++)
                assert_true((float)small[i] == out[i]);
        }
        assert_int_equal(kinds_seen, possible); /* every one comes */
        for (size_t i = 0; i < TEST_COUNT(hits); i++)
            assert_true(hits[i] == 0 || hits[i] * (uint64_t)possible > 4000 / 3);
    }
}

static void augmentation_is_keyed(void **state)
{
    (void)state;
    const iso_shape s = {1, 28, 28};
    const iso_augment g = {2, true};
    static uint8_t in[784], first[784], again[784];
    for (int i = 0; i < 784; i++)
        in[i] = (uint8_t)(i * 31 % 251 + 1);
    uint32_t differs[3] = {0};
    for (uint64_t i = 0; i < 200; i++) {
        iso_augment_sample(&g, s, ISO_U8, 5, 3, i, in, first);
        iso_augment_sample(&g, s, ISO_U8, 5, 3, i, in, again);
        assert_memory_equal(first, again, 784);
        iso_augment_sample(&g, s, ISO_U8, 6, 3, i, in, again);
        differs[0] += memcmp(first, again, 784) != 0;
        iso_augment_sample(&g, s, ISO_U8, 5, 4, i, in, again);
        differs[1] += memcmp(first, again, 784) != 0;
        iso_augment_sample(&g, s, ISO_U8, 5, 3, i + 1, in, again);
        differs[2] += memcmp(first, again, 784) != 0;
    }
    for (int i = 0; i < 3; i++)
        assert_true(differs[i] > 180); /* 49 of 50 on average */
    iso_error e;
    assert_int_equal(iso_augment_check(&g, s, &e), ISO_OK);
    assert_int_equal(iso_augment_check(&(iso_augment){28, false}, s, &e), ISO_E_SHAPE);
    test_expect_word(e.text, "at most 27");
    assert_int_equal(iso_augment_check(&(iso_augment){5, true}, (iso_shape){3, 10, 5}, &e), ISO_E_SHAPE);
    assert_int_equal(iso_augment_check(&(iso_augment){5, true}, (iso_shape){3, 5, 10}, &e), ISO_E_SHAPE);
    assert_int_equal(iso_augment_check(&(iso_augment){4, true}, (iso_shape){3, 5, 10}, &e), ISO_OK);
    assert_int_equal(iso_augment_check(&g, (iso_shape){784, 1, 1}, &e), ISO_E_SHAPE);
    assert_int_equal(iso_augment_check(&(iso_augment){0, false}, (iso_shape){784, 1, 1}, &e), ISO_OK);
    assert_false(iso_augment_any(&(iso_augment){0, false}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_can_be_wrapped),        cmocka_unit_test(counts_must_agree),
        cmocka_unit_test(fingerprints_tell_data_apart), cmocka_unit_test(a_split_is_a_partition),
        cmocka_unit_test(a_split_follows_the_seed),     cmocka_unit_test(classes_are_counted),
        cmocka_unit_test(u8_statistics_are_exact),      cmocka_unit_test(modes_scale_as_they_say),
        cmocka_unit_test(columns_are_measured_alone),   cmocka_unit_test(only_the_training_part_is_measured),
        cmocka_unit_test(odd_floats_are_refused),       cmocka_unit_test(augmented_copies_are_shifts_and_flips),
        cmocka_unit_test(augmentation_is_keyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
