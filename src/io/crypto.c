/* OpenSSL 3 behind our interface. In: bytes and the paths of key files. Out: digests, randomness, keys.
 * Holds always: no key and no content of a key file stands in a fault. SHA-256 is asked for directly: through
 * EVP each digest looks the algorithm up and allocates, five times the work of a cursor's tag. An abort here
 * means that the kernel had no randomness. */
#define OPENSSL_API_COMPAT 10100 /* SHA256_Init and its kin, which EVP's friends call deprecated */
#include "io/crypto.h"
#include "base/hex.h"

#include <assert.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "key_file.h"

enum { KEY_FILE_MAX = 2 * CRYPTO_KEY_MAX + 2 };

static void digest_parts(const struct span *parts, size_t count, unsigned char *digest)
{
    SHA256_CTX context;
    SHA256_Init(&context);
    for (size_t i = 0; i < count; i++)
        SHA256_Update(&context, parts[i].at, parts[i].bytes);
    SHA256_Final(digest, &context);
    OPENSSL_cleanse(&context, sizeof context);
}

/* RFC 2104. */
static void hmac_of(struct span key, struct span data, unsigned char *digest)
{
    enum { INNER = 0x36, OUTER = 0x5c };
    unsigned char pad[SHA256_CBLOCK] = {0};
    const struct span inner[] = {{(const char *)pad, sizeof pad}, data};
    const struct span outer[] = {inner[0], {(const char *)digest, CRYPTO_SHA256_BYTES}};
    if (key.bytes > sizeof pad)
        digest_parts(&key, 1, pad);
    else
        memcpy(pad, key.at, key.bytes);
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= INNER;
    digest_parts(inner, 2, digest);
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= INNER ^ OUTER;
    digest_parts(outer, 2, digest);
    OPENSSL_cleanse(pad, sizeof pad);
}

enum status crypto_check(struct fault *fault)
{
    /* FIPS 180-2 "abc", and RFC 4231 test case 2. */
    static const char sha[] = "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23"
                              "\xb0\x03\x61\xa3\x96\x17\x7a\x9c\xb4\x10\xff\x61\xf2\x00\x15\xad";
    static const char mac[] = "\x5b\xdc\xc1\x46\xbf\x60\x75\x4e\x6a\x04\x24\x26\x08\x95\x75\xc7"
                              "\x5a\x00\x3f\x08\x9d\x27\x39\x83\x9d\xec\x58\xb9\x64\xec\x38\x43";
    unsigned char digest[CRYPTO_SHA256_BYTES];
    struct span abc = span_of("abc"), data = span_of("what do ya want for nothing?");
    digest_parts(&abc, 1, digest);
    bool good = memcmp(digest, sha, sizeof digest) == 0;
    hmac_of(span_of("Jefe"), data, digest);
    if (good && memcmp(digest, mac, sizeof digest) == 0)
        return ST_OK;
    fault_set(fault, "crypto", "this OpenSSL computes SHA-256 wrongly: install another");
    return ST_FATAL;
}

void crypto_sha256(const struct span *parts, size_t count, unsigned char digest[CRYPTO_SHA256_BYTES])
{
    digest_parts(parts, count, digest);
}

void crypto_sha256_hex(struct span bytes, char text[CRYPTO_SHA256_HEX_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[CRYPTO_SHA256_BYTES];
    crypto_sha256(&bytes, 1, digest);
    for (int i = 0; i < CRYPTO_SHA256_BYTES; i++) {
        *text++ = digits[digest[i] >> 4];
        *text++ = digits[digest[i] & 15];
    }
    *text = '\0';
}

void crypto_hmac_sha256(struct span key, struct span data, unsigned char digest[CRYPTO_SHA256_BYTES])
{
    assert(key.bytes > 0 && key.bytes <= INT_MAX);
    hmac_of(key, data, digest);
}

bool crypto_same(const void *a, const void *b, size_t count)
{
    return CRYPTO_memcmp(a, b, count) == 0;
}

void crypto_random(void *bytes, size_t count)
{
    unsigned char *at = bytes;
    while (count > 0) {
        int piece = count > 4096 ? 4096 : (int)count;
        if (RAND_bytes(at, piece) != 1)
            abort();
        at += piece;
        count -= (size_t)piece;
    }
}

void crypto_wipe(void *bytes, size_t count)
{
    OPENSSL_cleanse(bytes, count);
}

static enum status key_of_text(const char *path, struct span text, struct crypto_key *key,
                               struct fault *fault)
{
    if (text.bytes > 0 && text.at[text.bytes - 1] == '\n')
        text.bytes--;
    if (text.bytes > 0 && text.at[text.bytes - 1] == '\r')
        text.bytes--;
    for (size_t i = 0; i < text.bytes; i++) {
        if (hex_value(text.at[i]) < 0)
            return key_file_refuse(path, "must hold nothing but hex digits", fault);
    }
    if (text.bytes < (size_t)2 * CRYPTO_KEY_MIN)
        return key_file_refuse(path, "is too short: a key is 64 or more hex digits (openssl rand -hex 32)",
                               fault);
    if (text.bytes > (size_t)2 * CRYPTO_KEY_MAX)
        return key_file_refuse(path, "is too long: a key is at most 256 hex digits", fault);
    if (text.bytes % 2 != 0)
        return key_file_refuse(path, "has an odd number of hex digits", fault);
    for (size_t i = 0; i < text.bytes / 2; i++)
        key->bytes[i] = (unsigned char)(hex_value(text.at[2 * i]) << 4 | hex_value(text.at[2 * i + 1]));
    key->count = text.bytes / 2;
    return ST_OK;
}

enum status crypto_key_read(const char *path, struct crypto_key *key, struct fault *fault)
{
    char text[KEY_FILE_MAX + 1];
    struct key_file file = {.text = text, .bytes_max = sizeof text};
    enum status status = key_file_read(path, &file, fault);
    if (status != ST_OK)
        return status;
    status = key_of_text(path, (struct span){.at = text, .bytes = file.bytes}, key, fault);
    if (status == ST_OK)
        key->loose = (file.mode & S_IROTH) != 0;
    OPENSSL_cleanse(text, sizeof text);
    return status;
}
