/* Development tokens, and the keys of `[auth] keys`. */
#include <assert.h>
#include <string.h>

#include "key_list.h"
#include "wire/base64url.h"
#include "wire/json_out.h"
#include "wire/jwt.h"

/* ---- keys ---------------------------------------------------------------------------------------------- */

static const char keys_field[] = "auth.keys";

static bool is_known(const struct jwt_keys *keys, const char *kid)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (strcmp(keys->keys[i].kid, kid) == 0)
            return true;
    }
    return false;
}

static bool find_alg(struct span name, enum jwt_alg *alg)
{
    for (enum jwt_alg each = JWT_HS256; each <= JWT_EDDSA; each++) {
        if (!span_is(name, jwt_alg_name(each)))
            continue;
        *alg = each;
        return true;
    }
    return false;
}

static enum status read_key(struct span path, struct jwt_key *key, struct fault *fault)
{
    struct key_list_public wanted = {.field = keys_field};
    switch (key->alg) {
    case JWT_HS256:
        return key_list_read(path, keys_field, &key->secret, fault);
    case JWT_RS256:
        wanted.kind = CRYPTO_RSA_SHA256;
        break;
    case JWT_ES256:
        wanted.kind = CRYPTO_P256_SHA256;
        break;
    case JWT_EDDSA:
        wanted.kind = CRYPTO_ED25519;
        break;
    }
    return key_list_read_public(path, &wanted, &key->public, fault);
}

static enum status add_key(struct span word, struct jwt_keys *keys, struct fault *fault)
{
    struct span kid, alg;
    if (keys->count == JWT_KEYS_MAX)
        return key_list_refuse(fault, keys_field, "at most 16 keys are taken");
    struct jwt_key *key = &keys->keys[keys->count];
    if (!key_list_part(&word, &kid) || !key_list_id(kid, JWT_KID_MAX, key->kid) ||
        !key_list_part(&word, &alg))
        return key_list_refuse(fault, keys_field,
                               "each key is kid:alg:path, the kid 1-64 of A-Z a-z 0-9 . _ -");
    if (is_known(keys, key->kid))
        return key_list_refuse(fault, keys_field, "a kid stands twice");
    if (!find_alg(alg, &key->alg))
        return key_list_refuse(fault, keys_field, "the algorithms are HS256, RS256, ES256 and EdDSA");
    enum status status = read_key(word, key, fault);
    keys->count += status == ST_OK;
    return status;
}

enum status jwt_keys_load(struct span list, struct jwt_keys *keys, struct fault *fault)
{
    struct jwt_keys made = {.count = 0};
    struct span word;
    enum status status = ST_OK;
    while (status == ST_OK && key_list_word(&list, &word))
        status = add_key(word, &made, fault);
    if (status != ST_OK) {
        jwt_keys_wipe(&made);
        return status;
    }
    *keys = made;
    crypto_wipe(&made, sizeof made);
    return ST_OK;
}

void jwt_keys_wipe(struct jwt_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++)
        crypto_public_free(keys->keys[i].public);
    crypto_wipe(keys, sizeof *keys);
}

/* ---- tokens -------------------------------------------------------------------------------------------- */

static void add_part(struct buffer *token, struct span part)
{
    char *at = buffer_reserve(token, base64url_text_bytes(part.bytes));
    if (at == NULL)
        return;
    base64url_encode(part, at);
    token->bytes += base64url_text_bytes(part.bytes);
}

static void add_claim(struct buffer *claims, const char *name, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    json_out_name(claims, name);
    json_out_string(claims, span_of(text));
    buffer_add_byte(claims, ',');
}

static void write_claims(struct buffer *claims, const struct jwt_grant *grant)
{
    buffer_add_byte(claims, '{');
    json_out_name(claims, "sub");
    json_out_string(claims, grant->sub);
    buffer_add_byte(claims, ',');
    add_claim(claims, "iss", grant->issuer);
    add_claim(claims, "aud", grant->audience);
    json_out_name(claims, "iat");
    json_out_int(claims, grant->issued_at_s);
    buffer_add_byte(claims, ',');
    json_out_name(claims, "exp");
    json_out_int(claims, grant->expires_at_s);
    buffer_add_byte(claims, '}');
}

void jwt_mint(const struct jwt_key *key, const struct jwt_grant *grant, struct buffer *token)
{
    assert(key->alg == JWT_HS256);
    struct buffer json;
    size_t start = token->bytes;
    buffer_init(&json, JWT_TOKEN_MAX);
    buffer_add_text(&json, "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":");
    json_out_string(&json, span_of(key->kid));
    buffer_add_byte(&json, '}');
    add_part(token, buffer_span(&json));
    buffer_add_byte(token, '.');
    buffer_reset(&json);
    write_claims(&json, grant);
    token->failed = token->failed || json.failed;
    add_part(token, buffer_span(&json));
    buffer_done(&json);
    if (token->failed)
        return;
    unsigned char signature[CRYPTO_SHA256_BYTES];
    struct span signed_text = {.at = token->at + start, .bytes = token->bytes - start};
    crypto_hmac_sha256(crypto_key_span(&key->secret), signed_text, signature);
    buffer_add_byte(token, '.');
    add_part(token, (struct span){.at = (const char *)signature, .bytes = sizeof signature});
}
