/* Bearer tokens: JWT (RFC 7519) in JWS compact form, checked against keys that each have one algorithm.
 *
 * What a token says about its own algorithm is only compared with the key's, never followed. Tokens with
 * crit, jku, x5u, jwk, x5c, b64, zip or enc in the header, or of another typ than JWT or at+jwt, are refused
 * (contracts/reader-api.md 'Who may read'; RFC 8725). Faults: code is token_missing, token_invalid or
 * token_expired (all HTTP 401); nothing of the token is in one. */
#ifndef BELFRY_WIRE_JWT_H
#define BELFRY_WIRE_JWT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "io/crypto.h"

enum {
    JWT_TOKEN_MAX = 4096, /* bytes of the compact form */
    JWT_SUB_MAX = 200,    /* as a recipient */
    JWT_KEYS_MAX = 16,
    JWT_KID_MAX = 64,
    JWT_LEEWAY_S = 30
};

#define JWT_MISSING "token_missing"
#define JWT_INVALID "token_invalid"
#define JWT_EXPIRED "token_expired"

enum jwt_alg { JWT_HS256, JWT_RS256, JWT_ES256, JWT_EDDSA };

/* The name in the list of keys and in a token's header: HS256 RS256 ES256 EdDSA. */
const char *jwt_alg_name(enum jwt_alg alg);

struct jwt_key {
    char kid[JWT_KID_MAX + 1];
    enum jwt_alg alg;
    struct crypto_key secret;     /* HS256 */
    struct crypto_public *public; /* the others; owned */
};

/* All keys of `[auth] keys`. A reload makes a new one. It owns what its keys point to: it may be moved
 * (copied and the original forgotten), and is wiped once. */
struct jwt_keys {
    struct jwt_key keys[JWT_KEYS_MAX];
    size_t count;
};

/* Reads `kid:alg:path kid:alg:path …` and the key files: hex digits for HS256, the PEM of a public key for
 * the others. ST_REJECT "config" or "key_file", field "auth.keys": bad list, doubled kid, an unknown
 * algorithm, an unreadable, short or unfit key. An empty list gives no keys (then every token is refused). */
MUST_USE enum status jwt_keys_load(struct span list, struct jwt_keys *keys, struct fault *fault);
void jwt_keys_wipe(struct jwt_keys *keys);

struct jwt_rules {
    const struct jwt_keys *keys;
    const char *issuer, *audience; /* NULL or "": not checked */
};

struct jwt_claims {
    char sub[JWT_SUB_MAX + 1]; /* the user; 1-200 bytes, no U+0000 */
    int64_t expires_at_s;
};

/* Takes the token out of an Authorization header's value ("Bearer …", the scheme in any case). at NULL or
 * only blanks: token_missing; another scheme or form: token_invalid. */
MUST_USE enum status jwt_bearer(struct span authorization, struct span *token, struct fault *fault);

/* Signature first, claims after. exp is required; nbf, and iss and aud when set, are checked; leeway 30 s. A
 * token without kid uses the only key. */
MUST_USE enum status jwt_verify(const struct jwt_rules *rules, struct span token, int64_t now_us,
                                struct jwt_claims *claims, struct fault *fault);

struct jwt_grant {
    struct span sub;
    const char *issuer, *audience; /* NULL or "": left out */
    int64_t issued_at_s, expires_at_s;
};

/* Appends a development token, signed with an HS256 key. The buffer is marked failed when it has no room. */
void jwt_mint(const struct jwt_key *key, const struct jwt_grant *grant, struct buffer *token);

#endif
