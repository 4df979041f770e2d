/* SPDX-License-Identifier: Apache-2.0
 * Proves: numbers in text are read and printed correctly rounded, strictly, and the same in every locale. The oracle is
 * the C library's strtod under the C locale; random cases cover all exponents, exact midpoints and denormals. */
#include "test.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <sys/stat.h>

#include "base/text.h"

static double parsed(const char *text)
{
    double value = -12345;
    iso_parse result = iso_parse_double(text, strlen(text), &value);
    if (result != ISO_PARSE_OK)
        fail_msg("'%s': result %d", text, result);
    return value;
}

static void expect_like_strtod(const char *text)
{
    double right = strtod(text, NULL), value = 0;
    iso_parse result = iso_parse_double(text, strlen(text), &value);
    if (isinf(right)) {
        if (result != ISO_PARSE_RANGE)
            fail_msg("'%s' is out of range, but result %d", text, result);
        return;
    }
    if (result != ISO_PARSE_OK || memcmp(&value, &right, sizeof value) != 0)
        fail_msg("'%.60s...': result %d, %a, right is %a", text, result, value, right);
}

static void doubles_are_rounded_correctly(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "0.0",
        ".5",
        "5.",
        "+3",
        "1e0",
        "1E5",
        "1e+5",
        "1e-5",
        "0.1",
        "0.2",
        "0.3",
        "123456789012345678",
        "9007199254740993",
        "9007199254740992.999999999999999999999",
        "9007199254740993.00000000000000000000000001",
        "18446744073709551615",
        "18446744073709551616",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "1e308",
        "1e309",
        "-1e400",
        "1e-400",
        "4.9e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "6.8e-320",
        "1e22",
        "1e23",
        "1e19",
        "1e20",
        "1e-19",
        "1e-20",
        "8.5e-19",
        "0e999999999999999999",
        "0.000000000000000000000000000000000000000000000000000000000000000000000000000000001e81",
        "1e99999999999999999999",
        "1e-99999999999999999999",
        "100000000000000000000000000000000000000000000000000000000000000000e-65",
    };
    for (size_t i = 0; i < TEST_COUNT(texts); i++)
        expect_like_strtod(texts[i]);
    assert_true(signbit(parsed("-0")));
}

static void random_doubles_are_rounded_correctly(void **state)
{
    (void)state;
    uint64_t random = test_seed("random_doubles_are_rounded_correctly");
    char text[1500];
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = test_random(&random);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        snprintf(text, sizeof text, "%.*e", (int)test_random_below(&random, 25), value);
        expect_like_strtod(text);
        /* Numbers as people write them: this is what takes the short path. */
        snprintf(text, sizeof text, "%.*f", (int)test_random_below(&random, 18),
                 ldexp(value, -ilogb(value)) * (double)(bits % 100000));
        expect_like_strtod(text);
    }
    for (int i = 0; i < 1500; i++) {
        uint64_t bits = test_random(&random) & INT64_MAX;
        double value;
        if (i % 4 == 0)
            bits &= ((uint64_t)1 << 53) - 1; /* denormals and the first normals */
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value) || value == DBL_MAX)
            continue;
        long double middle = ((long double)value + (long double)nextafter(value, INFINITY)) / 2;
        snprintf(text, sizeof text, "%.1200Lg", middle); /* exactly between two doubles: to even */
        expect_like_strtod(text);
        strcat(text, strpbrk(text, "e") ? "" : strchr(text, '.') ? "0001" : ".0001"); /* and a trace above */
        expect_like_strtod(text);
    }
}

static void long_numbers_keep_their_tail(void **state)
{
    (void)state;
    /* 2^53 + 1 is a midpoint; a digit 2,000 places behind it decides. */
    char text[3000] = "9007199254740993.";
    size_t length = strlen(text);
    memset(text + length, '0', 2000);
    text[length + 2000] = '\0';
    assert_true(parsed(text) == 9007199254740992.0);
    strcat(text, "1");
    assert_true(parsed(text) == 9007199254740994.0);
    memset(text, '0', 2500);
    strcpy(text + 2500, "1e2");
    assert_true(parsed(text) == 100);
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        iso_parse result;
    } cases[] = {
        {"", ISO_PARSE_EMPTY},          {"-", ISO_PARSE_NOT_NUMBER},   {".", ISO_PARSE_NOT_NUMBER},
        {"e5", ISO_PARSE_NOT_NUMBER},   {"nan", ISO_PARSE_NOT_NUMBER}, {"inf", ISO_PARSE_NOT_NUMBER},
        {"-inf", ISO_PARSE_NOT_NUMBER}, {" 1", ISO_PARSE_NOT_NUMBER},  {"1 ", ISO_PARSE_TRAILING},
        {"0x10", ISO_PARSE_TRAILING},   {"1,5", ISO_PARSE_TRAILING},   {"1e", ISO_PARSE_TRAILING},
        {"1e+", ISO_PARSE_TRAILING},    {"1.2.3", ISO_PARSE_TRAILING}, {"--1", ISO_PARSE_NOT_NUMBER},
        {"1f", ISO_PARSE_TRAILING},     {"1e400", ISO_PARSE_RANGE},    {"-1e400", ISO_PARSE_RANGE},
        {"many", ISO_PARSE_NOT_NUMBER}, {"1_000", ISO_PARSE_TRAILING},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        double value = 7;
        iso_parse result = iso_parse_double(cases[i].text, strlen(cases[i].text), &value);
        if (result != cases[i].result || value != 7)
            fail_msg("'%s': %d, wanted %d", cases[i].text, result, cases[i].result);
    }
    double value;
    assert_int_equal(iso_parse_double("1\0002", 3, &value), ISO_PARSE_TRAILING);
    assert_int_equal(iso_parse_double_point("1,5", 3, ',', &value), ISO_PARSE_OK);
    assert_true(value == 1.5);
    assert_int_equal(iso_parse_double_point("1.5", 3, ',', &value), ISO_PARSE_TRAILING);
    assert_int_equal(iso_parse_double("12345", 2, &value), ISO_PARSE_OK); /* the length counts, not a NUL */
    assert_true(value == 12);
}

static void whole_numbers_know_their_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        iso_parse is_signed, is_unsigned;
    } cases[] = {
        {"0", ISO_PARSE_OK, ISO_PARSE_OK},
        {"-0", ISO_PARSE_OK, ISO_PARSE_OK},
        {"+7", ISO_PARSE_OK, ISO_PARSE_OK},
        {"-1", ISO_PARSE_OK, ISO_PARSE_RANGE},
        {"9223372036854775807", ISO_PARSE_OK, ISO_PARSE_OK},
        {"9223372036854775808", ISO_PARSE_RANGE, ISO_PARSE_OK},
        {"-9223372036854775808", ISO_PARSE_OK, ISO_PARSE_RANGE},
        {"-9223372036854775809", ISO_PARSE_RANGE, ISO_PARSE_RANGE},
        {"18446744073709551615", ISO_PARSE_RANGE, ISO_PARSE_OK},
        {"18446744073709551616", ISO_PARSE_RANGE, ISO_PARSE_RANGE},
        {"99999999999999999999999", ISO_PARSE_RANGE, ISO_PARSE_RANGE},
        {"", ISO_PARSE_EMPTY, ISO_PARSE_EMPTY},
        {"1e3", ISO_PARSE_TRAILING, ISO_PARSE_TRAILING},
        {"1.0", ISO_PARSE_TRAILING, ISO_PARSE_TRAILING},
        {"x", ISO_PARSE_NOT_NUMBER, ISO_PARSE_NOT_NUMBER},
        {"-", ISO_PARSE_NOT_NUMBER, ISO_PARSE_NOT_NUMBER},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        int64_t s = 0;
        uint64_t u = 0;
        const char *text = cases[i].text;
        if (iso_parse_i64(text, strlen(text), INT64_MIN, INT64_MAX, &s) != cases[i].is_signed)
            fail_msg("'%s' as signed", text);
        if (iso_parse_u64(text, strlen(text), 0, UINT64_MAX, &u) != cases[i].is_unsigned)
            fail_msg("'%s' as unsigned", text);
        if (cases[i].is_signed == ISO_PARSE_OK)
            assert_true(s == strtoll(text, NULL, 10));
        if (cases[i].is_unsigned == ISO_PARSE_OK)
            assert_true(u == strtoull(text, NULL, 10));
    }
    int64_t s;
    assert_int_equal(iso_parse_i64("5", 1, 6, 9, &s), ISO_PARSE_RANGE);
    assert_int_equal(iso_parse_i64("10", 2, 6, 9, &s), ISO_PARSE_RANGE);
    assert_int_equal(iso_parse_i64("9", 1, 6, 9, &s), ISO_PARSE_OK);
    uint64_t u;
    assert_int_equal(iso_parse_u64("5", 1, 6, 9, &u), ISO_PARSE_RANGE);
    assert_int_equal(iso_parse_u64("10", 2, 6, 9, &u), ISO_PARSE_RANGE);
    assert_int_equal(iso_parse_u64("6", 1, 6, 9, &u), ISO_PARSE_OK);
    assert_true(iso_parse_hex("0123456789abcdef", 16, &u) && u == UINT64_C(0x0123456789abcdef));
    assert_true(iso_parse_hex("ff01z", 4, &u) && u == 0xff01);
    for (const char *c = "/:@G`g-x \0"; *c; c++)
        assert_false(iso_parse_hex(c, 1, &u));
}

static void printing_is_short_and_exact(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-17, "-17"},
        {0.1, "0.1"},
        {0.5, "0.5"},
        {1.0 / 3, "0.3333333333333333"},
        {1e-9, "1e-09"},
        {1e15, "1000000000000000"},
        {1e16, "10000000000000000"},
        {1e17, "1e+17"},
        {1e100, "1e+100"},
        {0.00001, "0.00001"},
        {0.000001, "1e-06"},
        {123.25, "123.25"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {NAN, "nan"},
        {-INFINITY, "-inf"},
        {0.30000000000000004, "0.30000000000000004"},
        {12345678.9, "12345678.9"},
    };
    char text[ISO_NUMBER_TEXT];
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_int_equal(iso_print_double(text, cases[i].value), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
    iso_print_float(text, 0.1f);
    assert_string_equal(text, "0.1");
    iso_print_float(text, 16777216.f);
    assert_string_equal(text, "16777216");
    iso_print_float(text, FLT_MAX);
    assert_string_equal(text, "3.4028235e+38");
    assert_int_equal(iso_print_fixed(text, 3.14159, 2), 4);
    assert_string_equal(text, "3.14");
    iso_print_fixed(text, -0.5, 0);
    assert_string_equal(text, "-0");
    iso_print_fixed(text, 1e300, 3);
    assert_string_equal(text, "1e+300");
    iso_print_fixed(text, 999999999999.125, 3);
    assert_string_equal(text, "999999999999.125");
    iso_print_fixed(text, NAN, 3);
    assert_string_equal(text, "nan");
}

static void printed_numbers_read_back(void **state)
{
    (void)state;
    uint64_t random = test_seed("printed_numbers_read_back");
    char text[ISO_NUMBER_TEXT];
    for (int i = 0; i < 30000; i++) {
        uint64_t bits = test_random(&random);
        double value;
        float narrow;
        memcpy(&value, &bits, sizeof value);
        memcpy(&narrow, &bits, sizeof narrow);
        if (isfinite(value)) {
            size_t length = iso_print_double(text, value);
            assert_true(length < ISO_NUMBER_TEXT && strlen(text) == length);
            assert_true(parsed(text) == value && strtod(text, NULL) == value);
        }
        if (isfinite(narrow)) {
            iso_print_float(text, narrow);
            assert_true((float)parsed(text) == narrow);
        }
    }
}

/* A compiled LC_NUMERIC whose decimal point is a comma and whose thousands separator is a point, as de_DE has it: magic
 * number, six fields, their offsets, then the strings and wide characters. Written by the test, so that no locale need
 * be installed. */
static void use_a_comma_locale(const char *folder)
{
    static const uint32_t head[] = {0x20031114, 6, 32, 34, 36, 40, 44, 48};
    static const uint32_t wide[] = {',', '.'};
    uint8_t file[54];
    memcpy(file, head, sizeof head);
    memcpy(file + 32, ",\0.\0\3\3\0\0", 8);
    memcpy(file + 40, wide, sizeof wide);
    memcpy(file + 48, "UTF-8", 6);
    char path[512];
    snprintf(path, sizeof path, "%s/comma", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", folder);
    scratch_write(path, file, sizeof file);
    setenv("LOCPATH", folder, 1);
    assert_non_null(setlocale(LC_NUMERIC, "comma"));
    assert_string_equal(localeconv()->decimal_point, ",");
}

static void the_locale_changes_nothing(void **state)
{
    (void)state;
    char *folder = scratch_make();
    use_a_comma_locale(folder);
    char text[64];
    snprintf(text, sizeof text, "%.2f", 0.25);
    assert_string_equal(text, "0,25"); /* the locale is really on */
    assert_true(parsed("0.25") == 0.25);
    assert_true(parsed("1.5e-300") > 0 && parsed("1.00000000000000000000001") == 1);
    double value;
    assert_int_equal(iso_parse_double("0,25", 4, &value), ISO_PARSE_TRAILING);
    iso_print_double(text, 0.25);
    assert_string_equal(text, "0.25");
    iso_print_double(text, 1.5e-100);
    assert_string_equal(text, "1.5e-100");
    iso_print_float(text, 1234.5f);
    assert_string_equal(text, "1234.5");
    iso_print_fixed(text, -1234567.891, 2);
    assert_string_equal(text, "-1234567.89");
    setlocale(LC_NUMERIC, "C");
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_are_rounded_correctly),   cmocka_unit_test(random_doubles_are_rounded_correctly),
        cmocka_unit_test(long_numbers_keep_their_tail),    cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(whole_numbers_know_their_bounds), cmocka_unit_test(printing_is_short_and_exact),
        cmocka_unit_test(printed_numbers_read_back),       cmocka_unit_test(the_locale_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
