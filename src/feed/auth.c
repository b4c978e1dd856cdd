/* In: an Authorization header. Out: the user it speaks for. Always: no user without a valid signature, and
 * nothing of the token in a fault. */
#include "feed/auth.h"

#include "base/utf8.h"

struct jwt_rules auth_rules(const struct auth_settings *settings, const struct jwt_keys *keys)
{
    return (struct jwt_rules){.keys = keys, .issuer = settings->issuer, .audience = settings->audience};
}

enum status auth_check(const struct jwt_rules *rules, struct span authorization, int64_t now_us,
                       struct jwt_claims *claims, struct fault *fault)
{
    struct jwt_claims found;
    struct span token;
    enum status status = jwt_bearer(authorization, &token, fault);
    if (status == ST_OK)
        status = jwt_verify(rules, token, now_us, &found, fault);
    if (status == ST_OK && !utf8_is_text(span_of(found.sub))) {
        fault_set(fault, JWT_INVALID, "The token names no usable user.");
        status = ST_REJECT;
    }
    if (status == ST_OK)
        *claims = found;
    return status;
}

enum status auth_mint(const struct auth_settings *settings, const struct jwt_keys *keys,
                      const struct jwt_grant *grant, struct buffer *token, struct fault *fault)
{
    const struct jwt_key *key = NULL;
    for (size_t i = 0; i < keys->count && key == NULL; i++)
        if (keys->keys[i].alg == JWT_HS256)
            key = &keys->keys[i];
    if (!settings->dev_tokens) {
        fault_set(fault, "config", "[auth] dev_tokens is off: set it on to mint tokens for development");
    } else if (key == NULL) {
        fault_set(fault, "config", "[auth] keys has no HS256 key to sign with: add dev:HS256:PATH");
    } else if (grant->sub.bytes == 0 || grant->sub.bytes > JWT_SUB_MAX || !utf8_is_text(grant->sub)) {
        fault_set(fault, "usage", "--sub takes 1 to %d bytes of UTF-8 text", JWT_SUB_MAX);
    } else {
        jwt_mint(key, grant, token);
        return ST_OK;
    }
    return ST_REJECT;
}
