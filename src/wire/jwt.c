/* In: the compact form of a token, keys, the time. Out: whose token it is. Holds always: the signature is
 * checked with the key's algorithm, before a claim is read; nothing in a token chooses how it is checked, or
 * where from; nothing of it gets into a fault. */
#include "wire/jwt.h"

#include <string.h>
#include <strings.h>

#include "json_bytes.h"
#include "json_fields.h"
#include "wire/base64url.h"

enum { PART_MAX = JWT_TOKEN_MAX / 4 * 3, DEPTH_MAX = 16 };

static enum status refuse(const char *code, const char *why, struct fault *fault)
{
    fault_set(fault, code, "%s", why);
    return ST_REJECT;
}

static enum status invalid(const char *why, struct fault *fault)
{
    return refuse(JWT_INVALID, why, fault);
}

/* ---- the Authorization header -------------------------------------------------------------------------- */

static bool is_token_byte(char c)
{
    static const char others[] = "-._~+/=";
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           memchr(others, c, sizeof others - 1) != NULL;
}

enum status jwt_bearer(struct span authorization, struct span *token, struct fault *fault)
{
    static const char scheme[] = "bearer ";
    struct span text = authorization;
    while (text.bytes > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.bytes--;
    }
    while (text.bytes > 0 && (text.at[text.bytes - 1] == ' ' || text.at[text.bytes - 1] == '\t'))
        text.bytes--;
    if (text.bytes == 0)
        return refuse(JWT_MISSING, "A bearer token is needed.", fault);
    if (text.bytes < sizeof scheme || strncasecmp(text.at, scheme, sizeof scheme - 1) != 0)
        return invalid("The Authorization header is not of the form: Bearer token.", fault);
    text.at += sizeof scheme - 1;
    text.bytes -= sizeof scheme - 1;
    while (text.bytes > 0 && text.at[0] == ' ') {
        text.at++;
        text.bytes--;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        if (!is_token_byte(text.at[i]))
            return invalid("The Authorization header is not of the form: Bearer token.", fault);
    }
    *token = text;
    return ST_OK;
}

/* ---- header and signature ------------------------------------------------------------------------------ */

struct parts {
    struct span header, payload, signature, signed_text;
};

static bool split(struct span token, struct parts *parts)
{
    const char *first = token.bytes == 0 ? NULL : memchr(token.at, '.', token.bytes);
    if (first == NULL)
        return false;
    const char *end = token.at + token.bytes, *payload = first + 1;
    const char *second = memchr(payload, '.', (size_t)(end - payload));
    if (second == NULL || memchr(second + 1, '.', (size_t)(end - second - 1)) != NULL)
        return false;
    parts->header = (struct span){.at = token.at, .bytes = (size_t)(first - token.at)};
    parts->payload = (struct span){.at = payload, .bytes = (size_t)(second - payload)};
    parts->signature = (struct span){.at = second + 1, .bytes = (size_t)(end - second - 1)};
    parts->signed_text = (struct span){.at = token.at, .bytes = (size_t)(second - token.at)};
    return true;
}

/* One base64url part as a JSON object; the caller's to drop. */
static enum status load_part(struct span part, json_t **object, struct fault *fault)
{
    unsigned char raw[PART_MAX];
    size_t count = 0;
    if (!base64url_decode(part, raw, &count))
        return invalid("The token is not a JWT.", fault);
    const struct json_bytes source = {
        .text = {.at = (const char *)raw, .bytes = count}, .bytes_max = sizeof raw, .depth_max = DEPTH_MAX};
    enum status status = json_bytes_load(&source, object, fault);
    return status == ST_REJECT ? invalid("The token is not a JWT.", fault) : status;
}

const char *jwt_alg_name(enum jwt_alg alg)
{
    switch (alg) {
    case JWT_HS256:
        return "HS256";
    case JWT_RS256:
        return "RS256";
    case JWT_ES256:
        return "ES256";
    case JWT_EDDSA:
        return "EdDSA";
    }
    return "";
}

/* typ may be left out, or be that of a token for us. A token of another use that the same issuer signs with
 * the same key (a logout token, a security event) names its own typ: RFC 8725 3.11. */
static bool is_access_token(const json_t *typ)
{
    static const char *const accepted[] = {"JWT", "at+jwt", "application/jwt", "application/at+jwt"};
    bool fits = typ == NULL;
    for (size_t i = 0; json_is_string(typ) && !fits && i < sizeof accepted / sizeof accepted[0]; i++)
        fits = strcasecmp(json_string_value(typ), accepted[i]) == 0;
    return fits;
}

/* The key that the header names, if the header also agrees with that key's algorithm. */
static enum status choose_key(const json_t *header, const struct jwt_keys *keys, const struct jwt_key **key,
                              struct fault *fault)
{
    static const char *const refused[] = {"crit", "jku", "jwk", "x5u", "x5c", "b64", "zip", "enc"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (json_object_get(header, refused[i]) != NULL)
            return invalid("The token brings its own rules or keys.", fault);
    }
    if (!is_access_token(json_object_get(header, "typ")))
        return invalid("The token is of another typ.", fault);
    const json_t *kid = json_object_get(header, "kid"), *alg = json_object_get(header, "alg");
    const struct jwt_key *found = kid == NULL && keys->count == 1 ? &keys->keys[0] : NULL;
    for (size_t i = 0; json_is_string(kid) && i < keys->count; i++) {
        if (span_is(json_fields_span(kid), keys->keys[i].kid))
            found = &keys->keys[i];
    }
    if (found == NULL)
        return invalid("The token's key is not known here.", fault);
    if (!json_is_string(alg) || !span_is(json_fields_span(alg), jwt_alg_name(found->alg)))
        return invalid("The token's algorithm is not the one of its key.", fault);
    *key = found;
    return ST_OK;
}

static bool signature_holds(const struct jwt_key *key, const struct parts *parts)
{
    unsigned char expected[CRYPTO_SHA256_BYTES], given[CRYPTO_SIGNATURE_MAX];
    size_t count = 0;
    /* Asked first, so that `given` is wide enough. */
    if (parts->signature.bytes > base64url_text_bytes(sizeof given) ||
        !base64url_decode(parts->signature, given, &count))
        return false;
    if (key->alg != JWT_HS256)
        return crypto_public_holds(key->public, parts->signed_text,
                                   (struct span){.at = (const char *)given, .bytes = count});
    crypto_hmac_sha256(crypto_key_span(&key->secret), parts->signed_text, expected);
    return count == sizeof expected && crypto_same(expected, given, sizeof expected);
}

/* ---- claims -------------------------------------------------------------------------------------------- */

/* NumericDate: whole or with a fraction, which is cut; far away ones stay far away. */
static bool read_date(const json_t *value, int64_t *seconds)
{
    if (!json_is_number(value))
        return false;
    const double far = 1e15;
    double number = json_number_value(value);
    *seconds = (int64_t)(number > far ? far : number < -far ? -far : number);
    return true;
}

static enum status check_times(const json_t *claims, int64_t now_s, int64_t *expires_at_s,
                               struct fault *fault)
{
    const json_t *nbf = json_object_get(claims, "nbf");
    int64_t not_before_s = 0, end_s = 0;
    if (!read_date(json_object_get(claims, "exp"), &end_s))
        return invalid("The token has no exp.", fault);
    if (nbf != NULL && !read_date(nbf, &not_before_s))
        return invalid("The token's nbf is not a number.", fault);
    if (now_s >= end_s + JWT_LEEWAY_S)
        return refuse(JWT_EXPIRED, "The token has expired.", fault);
    if (nbf != NULL && not_before_s > now_s + JWT_LEEWAY_S)
        return invalid("The token is not valid yet.", fault);
    *expires_at_s = end_s;
    return ST_OK;
}

static bool names(const json_t *value, const char *expected)
{
    return json_is_string(value) && span_is(json_fields_span(value), expected);
}

/* aud is one string or an array of them. */
static bool is_for(const json_t *aud, const char *audience)
{
    bool found = names(aud, audience);
    for (size_t i = 0; !found && i < json_array_size(aud); i++)
        found = names(json_array_get(aud, i), audience);
    return found;
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static enum status check_claims(const json_t *object, const struct jwt_rules *rules, int64_t now_us,
                                struct jwt_claims *claims, struct fault *fault)
{
    struct jwt_claims read = {.expires_at_s = 0};
    enum status status = check_times(object, now_us / 1000000, &read.expires_at_s, fault);
    if (status != ST_OK)
        return status;
    if (is_set(rules->issuer) && !names(json_object_get(object, "iss"), rules->issuer))
        return invalid("The token is from another issuer.", fault);
    if (is_set(rules->audience) && !is_for(json_object_get(object, "aud"), rules->audience))
        return invalid("The token is for another audience.", fault);
    const json_t *sub = json_object_get(object, "sub");
    size_t bytes = json_string_length(sub);
    if (!json_is_string(sub) || bytes < 1 || bytes > JWT_SUB_MAX)
        return invalid("The token's sub is missing or too long.", fault);
    memcpy(read.sub, json_string_value(sub), bytes);
    *claims = read;
    return ST_OK;
}

enum status jwt_verify(const struct jwt_rules *rules, struct span token, int64_t now_us,
                       struct jwt_claims *claims, struct fault *fault)
{
    struct parts parts;
    if (token.bytes > JWT_TOKEN_MAX || !split(token, &parts))
        return invalid("The token is not a JWT.", fault);
    json_t *object = NULL;
    const struct jwt_key *key = NULL;
    enum status status = load_part(parts.header, &object, fault);
    if (status != ST_OK)
        return status;
    status = choose_key(object, rules->keys, &key, fault);
    json_decref(object);
    if (status != ST_OK)
        return status;
    if (!signature_holds(key, &parts))
        return invalid("The token's signature is wrong.", fault);
    status = load_part(parts.payload, &object, fault);
    if (status != ST_OK)
        return status;
    status = check_claims(object, rules, now_us, claims, fault);
    json_decref(object);
    return status;
}
