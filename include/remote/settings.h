/* [provider] and [preferences] once read (contracts/config.md, provider.md, preferences.md).
 * Texts are never NULL ("" when not given). Tokens are secrets: never logged. */
#ifndef BELFRY_REMOTE_SETTINGS_H
#define BELFRY_REMOTE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

/* In the order of [provider] token_check's choices. */
enum provider_token_check { TOKEN_CHECK_STRICT, TOKEN_CHECK_OFFICIAL };

struct provider_settings {
    const char *base_url;
    const char *token; /* "": no Authorization header */
    int64_t request_timeout_ms;
    int64_t connect_timeout_ms;
    int64_t auth_pause_ms;
    size_t provider_failures; /* in a row, then the breaker opens */
    int64_t provider_pause_ms, provider_pause_max_ms;
    enum provider_token_check token_check;
};

struct preferences_settings {
    const char *url; /* "": everything is allowed */
    const char *token;
    int64_t timeout_ms;
    int64_t ttl_ms, stale_ttl_ms;
    size_t max_users;
    size_t breaker_failures;
    int64_t breaker_open_ms;
};

#endif
