/* Counters of look-ups, requests and failures; every label is bounded. */
#include "preferences_metrics.h"

enum { M_HITS, M_MISSES, M_CACHED, M_REQUESTS, M_SECONDS, M_FAIL_OPEN, M_STALE, M_BREAKER, M_COUNT };

/* Both in the order of enum preferences_reason; a request has one place more, for PREFERENCES_ANSWERED. */
#define OF_REQUESTS                                                                                          \
    "timeout", "connection", "3xx", "4xx", "5xx", "status", "incomplete", "not_json", "wrong_type", "memory"
static const char *const reasons[] = {OF_REQUESTS, "breaker_open", "busy", NULL};
static const char *const results[] = {OF_REQUESTS, "answered", NULL};
/* In the order of enum preferences_breaker. */
static const char *const states[] = {"closed", "open", "trial", NULL};

static const struct metric_row rows[M_COUNT] = {
    [M_HITS] = {.name = "belfry_preferences_cache_hits_total",
                .help = "Users whose preferences were fresh in the cache."},
    [M_MISSES] = {.name = "belfry_preferences_cache_misses_total", .help = "Users who had to be asked for."},
    [M_CACHED] = {.name = "belfry_preferences_cache_users",
                  .help = "Users in the cache of preferences.",
                  .type = METRIC_GAUGE},
    [M_REQUESTS] = {.name = "belfry_preferences_requests_total",
                    .help = "Requests to the account service, by what came of them.",
                    .label = "result",
                    .values = results},
    [M_SECONDS] = {.name = "belfry_preferences_request_seconds",
                   .help = "How long requests to the account service took.",
                   .type = METRIC_HISTOGRAM,
                   .buckets = metric_buckets_seconds},
    [M_FAIL_OPEN] = {.name = "belfry_preferences_fail_open_total",
                     .help = "Users allowed blindly because the account service gave no answer.",
                     .label = "reason",
                     .values = reasons},
    [M_STALE] = {.name = "belfry_preferences_stale_total",
                 .help = "Users without an answer for whom an older one was used."},
    [M_BREAKER] = {.name = "belfry_preferences_breaker",
                   .help = "1 for the state the account service's breaker is in.",
                   .type = METRIC_GAUGE,
                   .label = "state",
                   .values = states},
};

const char *preferences_reason_name(enum preferences_reason reason)
{
    return reason == PREFERENCES_ANSWERED ? "" : reasons[reason];
}

struct metric_set *preferences_metrics_add(struct metrics *metrics)
{
    return metrics_add(metrics, rows, M_COUNT);
}

void preferences_metrics_looked_up(struct metric_set *set, bool hit)
{
    metric_add(set, hit ? M_HITS : M_MISSES, 0, 1);
}

void preferences_metrics_request(struct metric_set *set, enum preferences_reason result, int64_t took_us)
{
    metric_add(set, M_REQUESTS, result <= PREFERENCES_MEMORY ? result : PREFERENCES_MEMORY + 1, 1);
    metric_observe(set, M_SECONDS, 0, (double)took_us / 1e6);
}

void preferences_metrics_unanswered(struct metric_set *set, enum preferences_reason reason, bool stale)
{
    if (stale)
        metric_add(set, M_STALE, 0, 1);
    else
        metric_add(set, M_FAIL_OPEN, reason, 1);
}

void preferences_metrics_show(struct metric_set *set, enum preferences_breaker breaker, size_t cached)
{
    for (size_t i = 0; i <= PREFERENCES_TRIAL; i++)
        metric_put(set, M_BREAKER, i, i == breaker ? 1 : 0);
    metric_put(set, M_CACHED, 0, (double)cached);
}
