/* How many messages may leave now: the provider's limit, for each project (contracts/provider.md). Pure: the
 * time is given. Private to src/fanout.
 *
 * What always holds: no second as the provider counts it sees more than the limit. A message may reach it at
 * any time between our sending and its answer, so it is counted from the sending until one second after the
 * answer (a late answer counts as come after RATE_GUARD_MS: by then the request was read). Within the second
 * messages are spread evenly, so there is no burst either. Project 0 is "not known yet": its messages may
 * belong to any project, so they are counted for all; a pause is of the project it was asked of alone. */
#ifndef BELFRY_FANOUT_RATE_H
#define BELFRY_FANOUT_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"

enum {
    RATE_PROJECTS_MAX = 16,
    RATE_CELL_MS = 10,
    RATE_CELLS = 128, /* a second, and what RATE_GUARD_MS needs */
    RATE_GUARD_MS = 100,
    RATE_PAUSE_FIRST_MS = 1000, /* after a 429 without Retry-After: 1 s, 2 s, with jitter */
    RATE_PAUSE_CAP_MS = 4000
};

struct rate_bucket {
    double limit;               /* messages a second now: less after a 429 */
    size_t in_flight;           /* sent, not yet counted in a cell */
    uint32_t cells[RATE_CELLS]; /* by RATE_CELL_MS of time, a ring */
    int64_t cell;               /* the number of the newest */
    double next_at_ms;          /* even spacing */
    int64_t paused_until_ms;
    struct backoff pause;
};

struct rate {
    double limit;
    size_t count; /* of projects, at least 1 */
    struct rate_bucket buckets[RATE_PROJECTS_MAX];
};

/* limit >= 1: messages a second for each project. */
void rate_init(struct rate *rate, double limit, uint64_t seed);
/* One more project, numbered rate->count; what left for unknown projects counts for it too. */
void rate_add_project(struct rate *rate);
/* The most messages a request of this project can have at all: the limit, at least 1. */
size_t rate_request_max(const struct rate *rate, size_t project);
/* Whether that many may be sent now; then they are counted. At most rate_request_max. */
bool rate_take(struct rate *rate, size_t project, size_t messages, int64_t now_ms);
/* The provider has seen them by this time, which is not before they were taken. Once for each rate_take. */
void rate_settle(struct rate *rate, size_t project, size_t messages, int64_t seen_ms);

/* 429, or a provider that cannot just now: nothing of the project for retry_after_ms, or for a pause of our
 * own (-1). Returns the pause. */
int64_t rate_pause(struct rate *rate, size_t project, int64_t retry_after_ms, int64_t now_ms);
bool rate_is_paused(const struct rate *rate, size_t project, int64_t now_ms);
/* When its pause ends, if others are not paused; 0: it is not, or all are. */
int64_t rate_others_go_until(const struct rate *rate, size_t project, int64_t now_ms);
/* All of them are. */
bool rate_all_paused(const struct rate *rate, int64_t now_ms);
/* 429: half as fast, not below a sixteenth. */
void rate_slow(struct rate *rate, size_t project);
/* Tickets came: a twentieth of the limit back, and the pauses begin anew. */
void rate_good(struct rate *rate, size_t project);

#endif
