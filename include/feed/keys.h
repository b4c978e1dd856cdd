/* The reader's secrets: cursor keys and token keys, from the files that [cursor] keys and [auth] keys name.
 * A reload makes a new one and moves it in when all of it could be read; wiped once, as jwt_keys is. */
#ifndef BELFRY_FEED_KEYS_H
#define BELFRY_FEED_KEYS_H

#include "base/status.h"
#include "feed/settings.h"
#include "wire/cursor.h"
#include "wire/jwt.h"

struct keys {
    struct cursor_keys cursor;
    struct jwt_keys auth; /* may be empty: then every token is refused */
};

/* Blocking file reads. ST_REJECT "config": fault.field is cursor.keys, cursor.sign_with or auth.keys, the
 * text says what is wrong with which file. No cursor key is such a fault: nothing could be signed. */
MUST_USE enum status keys_load(const struct feed_settings *settings, struct keys *keys, struct fault *fault);
void keys_wipe(struct keys *keys);
/* What an operator should hear of them: files that others can read, no key for tokens. */
void keys_warn(const struct keys *keys, struct config *config);

/* The keys of tokens alone: for minting one. Faults as above; jwt_keys_wipe. */
MUST_USE enum status keys_load_auth(const struct auth_settings *settings, struct jwt_keys *keys,
                                    struct fault *fault);

#endif
