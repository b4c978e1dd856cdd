/* [auth], [cursor] and [feed.NAME] once read (contracts/config.md, reader-api.md), as they stand in the
 * file: the meaning of keys and feeds is feed/'s to check. [http] is in io/settings.h.
 * Texts are never NULL ("" when not given). */
#ifndef BELFRY_FEED_SETTINGS_H
#define BELFRY_FEED_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"

struct auth_settings {
    struct config_list keys; /* "kid:alg:path" */
    const char *issuer, *audience;
    bool dev_tokens;
};

struct cursor_settings {
    struct config_list keys; /* "id:path"; never empty in a serving reader */
    const char *sign_with;   /* an id of keys; "" when there is only one key */
    int64_t cursor_ttl_ms;   /* 0: never */
};

/* [exports] */
struct export_settings {
    int64_t timeout_ms;                            /* for filling one */
    int64_t keep_ms;                               /* from then on it may be read */
    size_t rows_max, bytes_max;                    /* of one */
    size_t open_max, stored_max, stored_bytes_max; /* of one user */
};

struct feed_settings {
    struct auth_settings auth;
    struct export_settings exports;
    struct cursor_settings cursor;
    struct config_named feeds; /* each [feed.NAME] as raw pairs */
};

#endif
