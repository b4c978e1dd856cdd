/* Who wants which pushes, asked of the account service (contracts/preferences.md): a bounded cache, requests
 * of at most 200 users, one in flight for a user, a circuit breaker, and fail open. Used by one thread; only
 * preferences_poll waits, and not longer than it is told.
 *
 *     preferences_ask(p, batch, users, count);
 *     while (!preferences_ready(p, batch))    at most `timeout` after the ask, whatever the service does
 *         preferences_poll(p, 20);
 *     preferences_allows(batch, user, category)
 *
 * A user for whom no answer came in time is allowed and counted in
 * belfry_preferences_fail_open_total{reason}; when an answer younger than `stale_ttl` is known it is used
 * instead, and counted in …_stale_total.
 *
 * Memory: the cache (users_max times about 150 bytes and the id, 2.5 KiB at the very most), a batch (its
 * users' ids and what they switched off), and PREFERENCES_REQUESTS_MAX requests of 240 KiB and replies of
 * 1 MiB at the very most. */
#ifndef BELFRY_REMOTE_PREFERENCES_H
#define BELFRY_REMOTE_PREFERENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/span.h"
#include "base/status.h"
#include "remote/settings.h"

enum {
    PREFERENCES_REQUESTS_MAX = 8, /* in flight */
    PREFERENCES_BATCHES_MAX = 4   /* open at once */
};

struct preferences;

struct preferences_setup {
    const struct preferences_settings *settings; /* url is not empty */
    const struct clock *clock;                   /* NULL: clock_system; of the cache, breaker and deadlines */
    struct metrics *metrics;                     /* NULL: none */
};

/* ST_REJECT "config": url or token cannot be used; the fault's field says which. An empty url is fine. */
MUST_USE enum status preferences_settings_check(const struct preferences_settings *settings,
                                                struct fault *fault);
/* Copies what it needs; connects to nothing yet. ST_FATAL: no memory. ST_REJECT: as
 * preferences_settings_check. */
MUST_USE enum status preferences_open(const struct preferences_setup *setup, struct preferences **preferences,
                                      struct fault *fault);
/* The token from now on, copied; requests in flight keep theirs. ST_REJECT: it cannot be used; ST_FATAL: no
 * memory; the old one stays. */
MUST_USE enum status preferences_set_token(struct preferences *preferences, const char *token,
                                           struct fault *fault);
void preferences_close(struct preferences *preferences); /* drops what is in flight; NULL is fine */

/* Moves requests on and takes finished ones; waits at most timeout_ms for the first. True: one finished. */
bool preferences_poll(struct preferences *preferences, int timeout_ms);

/* ---- a batch of users ---------------------------------------------------------------------------------- */

struct preferences_batch;

/* For at most users_max users. NULL: no memory, or PREFERENCES_BATCHES_MAX are open. */
struct preferences_batch *preferences_batch_new(struct preferences *preferences, size_t users_max);
void preferences_batch_free(struct preferences_batch *batch); /* before preferences_close; NULL is fine */

/* Begins to find out about these users (any order, repetitions are fine; copied), forgetting whom the batch
 * was about before. Those not fresh in the cache are asked for now. */
void preferences_ask(struct preferences *preferences, struct preferences_batch *batch,
                     const struct span *users, size_t count);
/* Every user has an answer, fresh or not; true for good once `timeout` is over. */
bool preferences_ready(struct preferences *preferences, struct preferences_batch *batch);
/* After preferences_ready. A user the batch is not about is allowed. */
bool preferences_allows(const struct preferences_batch *batch, struct span user, struct span category);

/* ---- how it stands, for the log ------------------------------------------------------------------------ */

enum preferences_breaker { PREFERENCES_CLOSED, PREFERENCES_BROKEN, PREFERENCES_TRIAL };

struct preferences_state {
    enum preferences_breaker breaker;
    uint64_t failures;  /* requests that failed, since the start */
    const char *reason; /* of the last one, as in the metric's label; "" when none failed yet */
    const char *cause;  /* libcurl's or the parser's fixed words about it; "" */
    int http_status;    /* 0: no status came */
};
struct preferences_state preferences_state(const struct preferences *preferences);

#endif
