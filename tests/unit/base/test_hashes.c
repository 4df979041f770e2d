/* SPDX-License-Identifier: Apache-2.0
 * Proves: CRC-32C, SHA-256 and XXH64 give the published values, the same however the input is cut and aligned, and the
 * processor's CRC instruction gives what the tables give. */
#include "test.h"

#include "base/crc32c.h"
#include "base/hash64.h"
#include "base/sha256.h"

static void crc32c_gives_the_published_values(void **state)
{
    (void)state;
    uint8_t bytes[32];
    assert_int_equal(iso_crc32c(0, "", 0), 0);
    assert_int_equal(iso_crc32c(0, "123456789", 9), 0xE3069283);
    memset(bytes, 0, sizeof bytes); /* RFC 3720, B.4 */
    assert_int_equal(iso_crc32c(0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof bytes);
    assert_int_equal(iso_crc32c(0, bytes, 32), 0x62A8AB43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    assert_int_equal(iso_crc32c(0, bytes, 32), 0x46DD794E);
}

static uint32_t bit_by_bit(uint32_t crc, const uint8_t *p, size_t n)
{
    crc = ~crc;
    for (; n; n--, p++) {
        crc ^= *p;
        for (int i = 0; i < 8; i++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

static void all_crcs_agree(void **state)
{
    (void)state;
    uint64_t random = test_seed("all_crcs_agree");
    for (int i = 0; i < 2000; i++) {
        size_t n = test_random_below(&random, 300), cut = test_random_below(&random, n + 1);
        uint32_t start = (uint32_t)test_random(&random);
        test_bytes b = {NULL, 0};
        test_put_u8(&b, 0);
        for (size_t k = 0; k < n; k++)
            test_put_u8(&b, (uint8_t)test_random(&random));
        const uint8_t *p = b.bytes + 1; /* unaligned on purpose */
        uint32_t right = bit_by_bit(start, p, n);
        assert_int_equal(iso_crc32c(start, p, n), right);
        assert_int_equal(iso_crc32c_portable(start, p, n), right);
        assert_int_equal(iso_crc32c(iso_crc32c(start, p, cut), p + cut, n - cut), right);
        test_bytes_free(&b);
    }
    for (int byte = 0; byte < 256; byte++) /* every entry of every table */
        for (size_t zeros = 0; zeros < 8; zeros++) {
            uint8_t bytes[16] = {0};
            bytes[0] = (uint8_t)byte;
            assert_int_equal(iso_crc32c_portable(0, bytes, 8 + zeros), bit_by_bit(0, bytes, 8 + zeros));
            bytes[zeros] = (uint8_t)byte;
            assert_int_equal(iso_crc32c_portable(~0u, bytes, 8), bit_by_bit(~0u, bytes, 8));
        }
}

static void expect_sha256(const char *text, size_t times, const char *right)
{
    iso_sha256 s;
    uint8_t digest[32];
    char hex[65];
    iso_sha256_init(&s);
    for (size_t i = 0; i < times; i++)
        iso_sha256_add(&s, text, strlen(text));
    iso_sha256_end(&s, digest);
    iso_sha256_hex(digest, hex);
    assert_string_equal(hex, right);
}

static void sha256_gives_the_published_values(void **state)
{
    (void)state;
    expect_sha256("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_sha256("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect_sha256("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    expect_sha256("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void sha256_does_not_care_for_cuts(void **state)
{
    (void)state;
    uint64_t random = test_seed("sha256_does_not_care_for_cuts");
    uint8_t bytes[400], whole[32], parts[32];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)test_random(&random);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        iso_sha256 s;
        iso_sha256_init(&s);
        iso_sha256_add(&s, bytes, n);
        iso_sha256_end(&s, whole);
        iso_sha256_init(&s);
        for (size_t at = 0; at < n;) {
            size_t part = 1 + test_random_below(&random, n - at);
            iso_sha256_add(&s, bytes + at, part);
            at += part;
        }
        iso_sha256_end(&s, parts);
        assert_memory_equal(whole, parts, 32);
    }
    float values[300];
    uint8_t stored[1200];
    for (int i = 0; i < 300; i++) {
        values[i] = (float)i - 0.5f;
        memcpy(stored + 4 * i, &values[i], 4); /* the test runs on little-endian hosts */
    }
    iso_sha256 s;
    iso_sha256_init(&s);
    iso_sha256_add_f32(&s, values, 300);
    iso_sha256_end(&s, whole);
    iso_sha256_init(&s);
    iso_sha256_add(&s, stored, sizeof stored);
    iso_sha256_end(&s, parts);
    assert_memory_equal(whole, parts, 32);
}

static uint64_t hash64(const void *bytes, size_t n)
{
    iso_hash64 h;
    iso_hash64_init(&h);
    iso_hash64_add(&h, bytes, n);
    return iso_hash64_value(&h);
}

static void hash64_gives_the_published_values(void **state)
{
    (void)state;
    assert_true(hash64("", 0) == 0xef46db3751d8e999);
    assert_true(hash64("a", 1) == 0xd24ec4f1a98c6e5b);
    assert_true(hash64("abc", 3) == 0x44bc2cf5ad770999);
    const char *text = "Nobody inspects the spammish repetition";
    assert_true(hash64(text, strlen(text)) == 0xfbcea83c8a378bf1);
    /* Values of the reference implementation for every kind of tail: bytes i * 37 + 11. */
    static const struct {
        size_t size;
        uint64_t hash;
    } tails[] = {
        {1, 0xf592c0c7639c4cb6},  {4, 0xfb1e5cf2f1ae4d95},   {5, 0x9d213eca1f68f273},  {7, 0x5613ac510496c04e},
        {8, 0x57cb2b7521f3e21a},  {12, 0x2f53b00266039e64},  {13, 0xaed0293a7bb13c7a}, {31, 0xe4a0e629e519a4ae},
        {32, 0xcc6b8aaada790b2d}, {33, 0x35ec49850475a832},  {36, 0xbebb6d8c24fb3cfa}, {40, 0x3b21ed23eea85c2d},
        {44, 0xa9a8f93ce6f588d3}, {47, 0x16fdd9ca22942dda},  {63, 0xbf9f0ba3cf95b28a}, {64, 0x155ccce4bf32befc},
        {72, 0x657fc372b173aae2}, {101, 0x30383413a6f6646a},
    };
    uint8_t ramp[101];
    for (size_t i = 0; i < sizeof ramp; i++)
        ramp[i] = (uint8_t)(i * 37 + 11);
    for (size_t i = 0; i < TEST_COUNT(tails); i++)
        assert_true(hash64(ramp, tails[i].size) == tails[i].hash);
    uint64_t random = test_seed("hash64_gives_the_published_values");
    uint8_t bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)test_random(&random);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        iso_hash64 h;
        iso_hash64_init(&h);
        for (size_t at = 0; at < n;) {
            size_t part = 1 + test_random_below(&random, n - at);
            iso_hash64_add(&h, bytes + at, part);
            at += part;
            if (at == n)
                assert_true(iso_hash64_value(&h) == hash64(bytes, n));
        }
        if (n > 0) {
            uint64_t before = hash64(bytes, n);
            bytes[n - 1] ^= 1;
            assert_true(hash64(bytes, n) != before);
            bytes[n - 1] ^= 1;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_published_values), cmocka_unit_test(all_crcs_agree),
        cmocka_unit_test(sha256_gives_the_published_values), cmocka_unit_test(sha256_does_not_care_for_cuts),
        cmocka_unit_test(hash64_gives_the_published_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
