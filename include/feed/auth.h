/* Who asks: the bearer token of a request, checked (contracts/reader-api.md 'Who may read'). */
#ifndef BELFRY_FEED_AUTH_H
#define BELFRY_FEED_AUTH_H

#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "feed/settings.h"
#include "wire/jwt.h"

/* What [auth] asks of a token; points into both. */
struct jwt_rules auth_rules(const struct auth_settings *settings, const struct jwt_keys *keys);

/* authorization: the header's value, at NULL when there was none. ST_REJECT: token_missing, token_invalid or
 * token_expired; also token_invalid when the user's id is no text a database takes. */
MUST_USE enum status auth_check(const struct jwt_rules *rules, struct span authorization, int64_t now_us,
                                struct jwt_claims *claims, struct fault *fault);

/* A development token for this user (`[auth] dev_tokens`), appended to token. ST_REJECT: dev_tokens is off,
 * there is no HS256 key, or sub cannot be a user's id; the text says which. */
MUST_USE enum status auth_mint(const struct auth_settings *settings, const struct jwt_keys *keys,
                               const struct jwt_grant *grant, struct buffer *token, struct fault *fault);

#endif
