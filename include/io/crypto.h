/* SHA-256, HMAC-SHA-256, constant-time comparison, random bytes and key files. OpenSSL 3 stays in
 * src/io/crypto.c.
 *
 * Digests are over a list of spans, as if they were one: nothing has to be copied together first, and there
 * is no state between calls. All functions are thread safe. That SHA-256 and HMAC work at all is asked once,
 * at start, by crypto_check; later they can only fail for want of memory, and then the process aborts: going
 * on with a wrong digest would store wrong keys. */
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

/* Known answers of SHA-256 and HMAC-SHA-256. ST_FATAL "crypto": this OpenSSL is configured so that it cannot.
 */
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

#endif
