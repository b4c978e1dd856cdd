/* SHA-256, HMAC-SHA-256, constant-time comparison, random bytes, key files, signatures by public keys.
 * OpenSSL 3 stays in src/io/crypto*.c.
 *
 * Digests are over a list of spans, as if they were one: nothing has to be copied together first, and there
 * is no state between calls. All functions are thread safe. That SHA-256 and HMAC are right is asked once, at
 * start, by crypto_check; they allocate nothing and cannot fail. */
#ifndef BELFRY_IO_CRYPTO_H
#define BELFRY_IO_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "base/status.h"

enum {
    CRYPTO_SHA256_BYTES = 32,
    CRYPTO_SHA256_HEX_BYTES = 64,
    CRYPTO_KEY_MIN = 32, /* bytes: 64 hex digits */
    CRYPTO_KEY_MAX = 128
};

/* Known answers of SHA-256 and HMAC-SHA-256. ST_FATAL "crypto": this OpenSSL gets them wrong. */
MUST_USE enum status crypto_check(struct fault *fault);

void crypto_sha256(const struct span *parts, size_t count, unsigned char digest[CRYPTO_SHA256_BYTES]);
/* Of one span, as lower-case hex and a NUL. */
void crypto_sha256_hex(struct span bytes, char text[CRYPTO_SHA256_HEX_BYTES + 1]);
/* key: at least one byte. */
void crypto_hmac_sha256(struct span key, struct span data, unsigned char digest[CRYPTO_SHA256_BYTES]);

/* The time it takes depends on count only. */
bool crypto_same(const void *a, const void *b, size_t count);

/* For secrets. Aborts when the system has no randomness. */
void crypto_random(void *bytes, size_t count);

/* Overwrites a secret; not optimised away. */
void crypto_wipe(void *bytes, size_t count);

struct crypto_key {
    unsigned char bytes[CRYPTO_KEY_MAX];
    size_t count; /* CRYPTO_KEY_MIN … CRYPTO_KEY_MAX */
    bool loose;   /* others than its file's owner and group can read it: worth a warning */
};

static inline struct span crypto_key_span(const struct crypto_key *key)
{
    return (struct span){.at = (const char *)key->bytes, .bytes = key->count};
}

/* A key file (contracts/config.md 'Key files'): 64 or more hex digits, an even number, either case, a newline
 * at the end is fine; the key is the bytes they stand for. ST_REJECT "key_file", field = path: unreadable,
 * too short, too long, not hex. */
MUST_USE enum status crypto_key_read(const char *path, struct crypto_key *key, struct fault *fault);

/* ---- public keys (src/io/crypto_public.c) ----------------------------------------------------------------
 * A key has one kind for life, and the kind says how a signature is checked: nothing that comes with a
 * message can change it. Reading blocks on a file; checking is pure and takes below a millisecond; several
 * threads may check with one key at once. */

enum {
    CRYPTO_RSA_BITS_MIN = 2048,
    CRYPTO_RSA_BITS_MAX = 8192,
    CRYPTO_SIGNATURE_MAX = CRYPTO_RSA_BITS_MAX / 8, /* bytes */
    CRYPTO_P256_SIGNATURE_BYTES = 64,
    CRYPTO_ED25519_SIGNATURE_BYTES = 64,
    CRYPTO_PEM_BYTES_MAX = 16 * 1024
};

enum crypto_kind {
    CRYPTO_RSA_SHA256,  /* RSASSA-PKCS1-v1_5, as long as the modulus */
    CRYPTO_P256_SHA256, /* ECDSA, raw r ‖ s of 32 bytes each, not DER */
    CRYPTO_ED25519
};

struct crypto_public;

/* One key in a "BEGIN PUBLIC KEY" block (SubjectPublicKeyInfo). ST_REJECT "key_file", field = path, nothing
 * of the file in the text: unreadable, no such block or several, a private key or a certificate, another kind
 * of key, an RSA key of fewer bits than CRYPTO_RSA_BITS_MIN, a key that is not sound. crypto_public_free. */
MUST_USE enum status crypto_public_read(const char *path, enum crypto_kind kind, struct crypto_public **key,
                                        struct fault *fault);
/* NULL is allowed. */
void crypto_public_free(struct crypto_public *key);

/* False also when the signature has another length than the kind has, or memory is out. */
bool crypto_public_holds(const struct crypto_public *key, struct span text, struct span signature);

#endif
