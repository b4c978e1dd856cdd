/* In: messages and times. Out: yes or no. Always holds: the sum of the cells of the last second and of what
 * is in flight never passes the limit by a message we let through. A crash here loses the counts: the next
 * process begins with an empty second, so a restart within one may be seen as a burst by the provider. */
#include "rate.h"

#include <assert.h>
#include <string.h>

enum {
    SECOND_CELLS = 1000 / RATE_CELL_MS + 1, /* a cell is let go when its end is a second ago */
    CATCH_UP_MS = 50,                       /* a late tick is made good, so that the average is the limit */
    SLOWEST_PART = 16,
    RECOVER_PART = 20
};

void rate_init(struct rate *rate, double limit, uint64_t seed)
{
    assert(limit >= 1);
    *rate = (struct rate){.limit = limit, .count = 1};
    rate->buckets[0].limit = limit;
    backoff_init(&rate->buckets[0].pause, RATE_PAUSE_FIRST_MS, RATE_PAUSE_CAP_MS, seed);
}

void rate_add_project(struct rate *rate)
{
    assert(rate->count < RATE_PROJECTS_MAX);
    struct rate_bucket *bucket = &rate->buckets[rate->count++];
    *bucket = rate->buckets[0];
    bucket->limit = rate->limit;
    bucket->paused_until_ms = 0;
    bucket->pause.seed += 2 * rate->count; /* stays odd */
    backoff_reset(&bucket->pause);
}

static void advance(struct rate_bucket *bucket, int64_t now_ms)
{
    int64_t cell = now_ms / RATE_CELL_MS;
    if (cell - bucket->cell >= RATE_CELLS) {
        memset(bucket->cells, 0, sizeof bucket->cells);
        bucket->cell = cell;
    }
    while (bucket->cell < cell)
        bucket->cells[++bucket->cell % RATE_CELLS] = 0;
}

static size_t last_second(const struct rate_bucket *bucket)
{
    size_t messages = bucket->in_flight;
    for (int64_t i = 0; i < SECOND_CELLS && i <= bucket->cell; i++)
        messages += bucket->cells[(bucket->cell - i) % RATE_CELLS];
    return messages;
}

static size_t whole(double limit)
{
    return limit < 1 ? 1 : (size_t)limit;
}

size_t rate_request_max(const struct rate *rate, size_t project)
{
    size_t max = whole(rate->buckets[project].limit);
    for (size_t i = 0; project == 0 && i < rate->count; i++) {
        size_t other = whole(rate->buckets[i].limit);
        max = other < max ? other : max;
    }
    return max;
}

static bool may_take(struct rate_bucket *bucket, size_t messages, int64_t now_ms)
{
    advance(bucket, now_ms);
    return (double)now_ms >= bucket->next_at_ms && last_second(bucket) + messages <= whole(bucket->limit);
}

static void take(struct rate_bucket *bucket, size_t messages, int64_t now_ms)
{
    double from_ms = (double)(now_ms - CATCH_UP_MS);
    if (bucket->next_at_ms > from_ms)
        from_ms = bucket->next_at_ms;
    bucket->next_at_ms = from_ms + (double)messages * 1000 / bucket->limit;
    bucket->in_flight += messages;
}

/* The buckets a message of this project is counted in: first … last - 1. */
static size_t first_of(size_t project)
{
    return project;
}

static size_t last_of(const struct rate *rate, size_t project)
{
    return project == 0 ? rate->count : project + 1;
}

bool rate_take(struct rate *rate, size_t project, size_t messages, int64_t now_ms)
{
    assert(project < rate->count && messages <= rate_request_max(rate, project));
    if (rate_is_paused(rate, project, now_ms))
        return false;
    for (size_t i = first_of(project); i < last_of(rate, project); i++) {
        if (!may_take(&rate->buckets[i], messages, now_ms))
            return false;
    }
    for (size_t i = first_of(project); i < last_of(rate, project); i++)
        take(&rate->buckets[i], messages, now_ms);
    return true;
}

void rate_settle(struct rate *rate, size_t project, size_t messages, int64_t seen_ms)
{
    for (size_t i = first_of(project); i < last_of(rate, project); i++) {
        struct rate_bucket *bucket = &rate->buckets[i];
        advance(bucket, seen_ms);
        /* A project that came up since these left: they are in its in_flight as in project 0's, copied. */
        bucket->in_flight -= messages < bucket->in_flight ? messages : bucket->in_flight;
        int64_t cell = seen_ms / RATE_CELL_MS;
        if (bucket->cell - cell < RATE_CELLS)
            bucket->cells[cell % RATE_CELLS] += (uint32_t)messages;
    }
}

int64_t rate_pause(struct rate *rate, size_t project, int64_t retry_after_ms, int64_t now_ms)
{
    struct rate_bucket *bucket = &rate->buckets[project];
    int64_t pause_ms = backoff_next_ms(&bucket->pause);
    if (retry_after_ms >= 0)
        pause_ms = retry_after_ms;
    if (now_ms + pause_ms > bucket->paused_until_ms)
        bucket->paused_until_ms = now_ms + pause_ms;
    return pause_ms;
}

bool rate_is_paused(const struct rate *rate, size_t project, int64_t now_ms)
{
    return now_ms < rate->buckets[project].paused_until_ms;
}

int64_t rate_others_go_until(const struct rate *rate, size_t project, int64_t now_ms)
{
    bool waits = rate_is_paused(rate, project, now_ms) && !rate_all_paused(rate, now_ms);
    return waits ? rate->buckets[project].paused_until_ms : 0;
}

bool rate_all_paused(const struct rate *rate, int64_t now_ms)
{
    size_t paused = 0;
    for (size_t i = 0; i < rate->count; i++)
        paused += rate_is_paused(rate, i, now_ms);
    return paused == rate->count;
}

void rate_slow(struct rate *rate, size_t project)
{
    struct rate_bucket *bucket = &rate->buckets[project];
    bucket->limit /= 2;
    if (bucket->limit < rate->limit / SLOWEST_PART)
        bucket->limit = rate->limit / SLOWEST_PART;
}

void rate_good(struct rate *rate, size_t project)
{
    struct rate_bucket *bucket = &rate->buckets[project];
    backoff_reset(&bucket->pause);
    bucket->limit += rate->limit / RECOVER_PART;
    if (bucket->limit > rate->limit)
        bucket->limit = rate->limit;
}
