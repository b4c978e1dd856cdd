/* Between the files of the account service's client: what is asked for, and who waits. */
#ifndef BELFRY_REMOTE_PREFERENCES_PRIVATE_H
#define BELFRY_REMOTE_PREFERENCES_PRIVATE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "io/http_client.h"
#include "preferences_cache.h"
#include "preferences_metrics.h"
#include "remote/preferences.h"
#include "wire/preferences.h"

enum {
    HEADER_AUTHORIZATION = 2, /* the last: NULL when there is no token */
    HEADERS = 4,
    TEXTS_BYTES_MAX = 128 * 1024, /* at least two blocks of an arena; the ids of a request need 42 KiB */
    PERSON_BYTES_MAX = EVENT_ID_MAX + 8 * PREFERENCES_DENIED_MAX + 64
};

struct request {
    bool used, trial;
    bool again; /* sent a second time */
    size_t count;
    struct span users[PREFERENCES_USERS_MAX]; /* into texts; sorted, as those of a batch are */
    struct arena texts;
    struct buffer sent;
};

struct preferences {
    struct http_client *client;
    const struct clock *clock;
    struct metric_set *metrics;
    struct preferences_settings settings; /* its texts are the config's */
    char *url, *authorization;            /* authorization NULL: none */
    const char *headers[HEADERS];
    struct siphash_key key;
    struct preferences_cache *cache;
    struct preferences_batch *batches[PREFERENCES_BATCHES_MAX];
    struct request requests[PREFERENCES_REQUESTS_MAX];

    bool open; /* the breaker */
    size_t failures_in_row;
    int64_t open_until_ms;
    bool trial_out;

    uint64_t failures;
    enum preferences_reason last_reason;
    const char *last_cause; /* fixed words */
    int last_status;
};

struct person {
    struct span user; /* into the batch's texts */
    bool waiting;
    struct preferences_answer answer; /* into the batch's texts; once not waiting */
};

struct preferences_batch {
    struct preferences *owner;
    int64_t deadline_ms;
    struct arena texts;
    size_t users_max, count, waiting;
    struct person people[]; /* sorted by user */
};

static inline int64_t preferences_now_ms(const struct preferences *preferences)
{
    return clock_monotonic_ms(preferences->clock);
}

/* For bsearch and qsort, of persons and of spans: both begin with the user. */
int preferences_compare_users(const void *a, const void *b);

/* Whoever waits for this user gets the answer; NULL: the reason. */
void preferences_tell(struct preferences *preferences, struct span user,
                      const struct preferences_answer *answer, enum preferences_reason reason);
/* No answer for this one: an older one while it is good enough, else a blind yes. */
void preferences_unanswered(struct preferences_batch *batch, struct person *person,
                            enum preferences_reason reason);

/* Asks for everybody of the batch who waits and is in no request, as far as breaker and places allow. */
void preferences_send(struct preferences *preferences, struct preferences_batch *batch);
/* Those of the batch who wait and are in no request get no answer, for this reason. */
void preferences_refuse_waiting(struct preferences_batch *batch, enum preferences_reason reason);

#endif
