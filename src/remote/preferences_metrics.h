/* What is counted about the account service, and what its failures are called. Private to src/remote. */
#ifndef BELFRY_SRC_REMOTE_PREFERENCES_METRICS_H
#define BELFRY_SRC_REMOTE_PREFERENCES_METRICS_H

#include "remote/preferences.h"

/* Why there is no answer for a user. */
enum preferences_reason {
    PREFERENCES_TIMEOUT,
    PREFERENCES_CONNECTION, /* refused, reset, name not found, TLS */
    PREFERENCES_3XX,
    PREFERENCES_4XX,
    PREFERENCES_5XX,
    PREFERENCES_STATUS,     /* another status than 2xx */
    PREFERENCES_INCOMPLETE, /* a body cut off, or over 1 MiB */
    PREFERENCES_NOT_JSON,
    PREFERENCES_WRONG_TYPE, /* of the reply, or of this user's entry alone */
    PREFERENCES_MEMORY,     /* the last that a request may come to; the next two are not asked at all */
    PREFERENCES_BREAKER_OPEN,
    PREFERENCES_BUSY, /* not in time: PREFERENCES_REQUESTS_MAX were in flight */
    PREFERENCES_ANSWERED
};

/* "timeout", "4xx" …; "" for PREFERENCES_ANSWERED */
const char *preferences_reason_name(enum preferences_reason reason);

struct metric_set *preferences_metrics_add(struct metrics *metrics);
void preferences_metrics_looked_up(struct metric_set *set, bool hit);
void preferences_metrics_request(struct metric_set *set, enum preferences_reason result, int64_t took_us);
/* A user without an answer: stale, or allowed blindly. */
void preferences_metrics_unanswered(struct metric_set *set, enum preferences_reason reason, bool stale);
void preferences_metrics_show(struct metric_set *set, enum preferences_breaker breaker, size_t cached);

#endif
