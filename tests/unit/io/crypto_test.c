/* Published vectors, and what a key file may look like. */
#include "io/crypto.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void hex_of(const unsigned char *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
}

Test(crypto, check_passes_here)
{
    struct fault fault;
    cr_assert_eq(crypto_check(&fault), ST_OK);
}

Test(crypto, sha256_vectors)
{
    static const struct {
        const char *text, *hex;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        char hex[CRYPTO_SHA256_HEX_BYTES + 1];
        crypto_sha256_hex(span_of(vectors[i].text), hex);
        cr_assert_str_eq(hex, vectors[i].hex);
    }
}

Test(crypto, parts_hash_as_one_text)
{
    struct span whole = span_of("abcdef");
    struct span parts[] = {span_of("ab"), {NULL, 0}, span_of(""), span_of("cdef")};
    unsigned char a[CRYPTO_SHA256_BYTES], b[CRYPTO_SHA256_BYTES];
    crypto_sha256(&whole, 1, a);
    crypto_sha256(parts, 4, b);
    cr_assert_eq(memcmp(a, b, sizeof a), 0);
    crypto_sha256(NULL, 0, a);
    crypto_sha256(&parts[1], 1, b);
    cr_assert_eq(memcmp(a, b, sizeof a), 0);
}

/* RFC 4231, test cases 1 to 3 and 6 (a key longer than a block). */
Test(crypto, hmac_vectors)
{
    static unsigned char k1[20], k3[20], d3[50], k6[131];
    memset(k1, 0x0b, sizeof k1);
    memset(k3, 0xaa, sizeof k3);
    memset(d3, 0xdd, sizeof d3);
    memset(k6, 0xaa, sizeof k6);
    const struct {
        struct span key, data;
        const char *hex;
    } vectors[] = {
        {{(char *)k1, sizeof k1},
         span_of("Hi There"),
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {span_of("Jefe"), span_of("what do ya want for nothing?"),
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {{(char *)k3, sizeof k3},
         {(char *)d3, sizeof d3},
         "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
        {{(char *)k6, sizeof k6},
         span_of("Test Using Larger Than Block-Size Key - Hash Key First"),
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        unsigned char digest[CRYPTO_SHA256_BYTES];
        char hex[CRYPTO_SHA256_HEX_BYTES + 1];
        crypto_hmac_sha256(vectors[i].key, vectors[i].data, digest);
        hex_of(digest, sizeof digest, hex);
        cr_assert_str_eq(hex, vectors[i].hex, "%zu", i);
    }
}

Test(crypto, same_and_random_and_wipe)
{
    unsigned char a[5000], b[5000];
    crypto_random(a, sizeof a);
    memcpy(b, a, sizeof b);
    cr_assert(crypto_same(a, b, sizeof a));
    b[sizeof b - 1] ^= 1;
    cr_assert_not(crypto_same(a, b, sizeof a));
    crypto_random(b, sizeof b);
    cr_assert_not(crypto_same(a, b, sizeof a));
    crypto_wipe(a, sizeof a);
    for (size_t i = 0; i < sizeof a; i++)
        cr_assert_eq(a[i], 0);
}

/* ---- key files ----------------------------------------------------------------------------------------- */

static char path[] = "/tmp/belfry_key_XXXXXX";

static void make_file(void)
{
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
}

static void drop_file(void)
{
    unlink(path);
}

static void fill_file(const char *text, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

#define HEX64 "00112233445566778899aAbBcCdDeEfF00112233445566778899aabbccddeeff"

TestSuite(key_file, .init = make_file, .fini = drop_file);

Test(key_file, accepted)
{
    static const struct {
        const char *text;
        size_t count;
    } files[] = {{HEX64, 32}, {HEX64 "\n", 32}, {HEX64 "\r\n", 32}, {HEX64 HEX64 HEX64 HEX64 "\n", 128}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct crypto_key key;
        struct fault fault;
        fill_file(files[i].text, strlen(files[i].text));
        cr_assert_eq(crypto_key_read(path, &key, &fault), ST_OK, "%zu: %s", i, fault.text);
        cr_assert_eq(key.count, files[i].count);
        cr_assert_eq(key.bytes[10], 0xaa);
        cr_assert_eq(key.bytes[31], 0xff);
        cr_assert_not(key.loose);
    }
}

Test(key_file, refused_and_silent)
{
    static const struct {
        const char *text;
        size_t bytes;
        const char *says;
    } files[] = {
        {"", 0, "too short"},
        {"\n", 1, "too short"},
        {HEX64, 63, "too short"},
        {HEX64 "0", 65, "odd number"},
        {HEX64 " ", 65, "hex digits"},
        {HEX64 "\n\n", 66, "hex digits"},
        {" " HEX64, 65, "hex digits"},
        {"0x" HEX64, 66, "hex digits"},
        {HEX64 "\0", 65, "hex digits"},
        {"-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAabcdef\n", 77,
         "hex digits"},
        {HEX64 HEX64 HEX64 HEX64 "00", 258, "too long"},
        {HEX64 HEX64 HEX64 HEX64 HEX64 HEX64, 384, "too long"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct crypto_key key = {.count = 7};
        struct fault fault;
        fill_file(files[i].text, files[i].bytes);
        cr_assert_eq(crypto_key_read(path, &key, &fault), ST_REJECT, "%zu", i);
        cr_assert_str_eq(fault.code, "key_file");
        cr_assert_str_eq(fault.field, path);
        cr_assert_not_null(strstr(fault.text, files[i].says), "%zu: %s", i, fault.text);
        cr_assert_null(strstr(fault.text, "0011"), "no piece of a key");
        cr_assert_eq(key.count, 7, "written only on success");
    }
}

Test(key_file, missing_directory_and_open_to_others)
{
    struct crypto_key key;
    struct fault fault;
    cr_assert_eq(crypto_key_read("/nonexistent/key", &key, &fault), ST_REJECT);
    cr_assert_not_null(strstr(fault.text, "No such file"));
    cr_assert_eq(crypto_key_read("/tmp", &key, &fault), ST_REJECT);
    cr_assert_not_null(strstr(fault.text, "directory"));
    fill_file(HEX64, 64);
    cr_assert_eq(chmod(path, 0644), 0);
    cr_assert_eq(crypto_key_read(path, &key, &fault), ST_OK);
    cr_assert(key.loose);
    cr_assert_eq(chmod(path, 0640), 0);
    cr_assert_eq(crypto_key_read(path, &key, &fault), ST_OK);
    cr_assert_not(key.loose);
}
