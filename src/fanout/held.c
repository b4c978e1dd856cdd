/* The bounded list of batches we hold. A place stays where it is until nothing of its batch is in flight or
 * owed, so that late answers find it. */
#include <assert.h>

#include "base/log.h"
#include "state.h"

struct held *held_find(struct fanout *fanout, int64_t batch_id)
{
    for (size_t i = 0; i < fanout->held_max; i++) {
        if (fanout->held[i].used && fanout->held[i].batch_id == batch_id)
            return &fanout->held[i];
    }
    return NULL;
}

struct held *held_add(struct fanout *fanout, int64_t batch_id, bool urgent)
{
    for (size_t i = 0; i < fanout->held_max; i++) {
        struct held *held = &fanout->held[i];
        if (held->used)
            continue;
        *held = (struct held){.used = true, .batch_id = batch_id, .urgent = urgent};
        return held;
    }
    return NULL;
}

void held_add_range(struct held *held, struct window_range range)
{
    if (range.first >= range.stop)
        return;
    if (held->range_count == FANOUT_RANGES_MAX)
        held->partial = true;
    else
        held->ranges[held->range_count++] = range;
}

/* Where the range lies; the count when nowhere. */
static size_t place_of(const struct held *held, const struct window_range *range)
{
    size_t i = 0;
    while (i < held->range_count &&
           (range->first < held->ranges[i].first || range->stop > held->ranges[i].stop))
        i++;
    return i;
}

bool held_has_range(const struct held *held, const struct window_range *range)
{
    return range->first < range->stop && place_of(held, range) < held->range_count;
}

static void insert_range(struct held *held, size_t at, struct window_range range)
{
    if (held->range_count == FANOUT_RANGES_MAX) {
        held->partial = true; /* still unsent in the table: it comes back from there */
        return;
    }
    for (size_t i = held->range_count++; i > at; i--)
        held->ranges[i] = held->ranges[i - 1];
    held->ranges[at] = range;
}

void held_take_range(struct held *held, const struct window_range *range)
{
    size_t at = place_of(held, range);
    assert(at < held->range_count);
    struct window_range before = held->ranges[at], behind = held->ranges[at];
    before.stop = range->first;
    behind.first = range->stop;
    held->range_count--;
    for (size_t i = at; i < held->range_count; i++)
        held->ranges[i] = held->ranges[i + 1];
    if (behind.first < behind.stop)
        insert_range(held, at, behind);
    if (before.first < before.stop)
        insert_range(held, at, before);
}

static void remove_range(struct held *held, size_t at)
{
    held->range_count--;
    for (size_t i = at; i < held->range_count; i++)
        held->ranges[i] = held->ranges[i + 1];
}

void held_put_back(struct held *held, struct window_range range)
{
    size_t at = 0;
    while (at < held->range_count && held->ranges[at].first < range.first)
        at++;
    bool joins_before = at > 0 && held->ranges[at - 1].stop == range.first;
    bool joins_behind = at < held->range_count && held->ranges[at].first == range.stop;
    if (joins_before) {
        held->ranges[at - 1].stop = joins_behind ? held->ranges[at].stop : range.stop;
        if (joins_behind)
            remove_range(held, at);
    } else if (joins_behind) {
        held->ranges[at].first = range.first;
    } else {
        insert_range(held, at, range);
    }
}

void held_drop(struct fanout *fanout, struct held *held)
{
    assert(held->in_flight == 0 && held->owed == 0);
    if (held->handed)
        handover_release(fanout->setup.handover, 1);
    held->used = false;
}

size_t held_count(const struct fanout *fanout)
{
    size_t count = 0;
    for (size_t i = 0; i < fanout->held_max; i++)
        count += fanout->held[i].used;
    return count;
}

bool held_is_settled(const struct held *held)
{
    return held->in_flight == 0 && held->owed == 0 && !held->check;
}

void held_mark_lost(struct fanout *fanout, struct held *held)
{
    if (held->lost)
        return;
    held->lost = true;
    held->check = false;
    held->range_count = 0;
    metric_add(fanout->metrics, FANOUT_M_BATCHES, FANOUT_LOST, 1);
    log_event(LOG_WARN, "FAN-LOST", "another process took the batch over", log_int("batch", held->batch_id),
              log_count("in_flight", held->in_flight));
}

size_t held_copy_prefix(const struct window_range *from, size_t from_count, size_t *want,
                        struct window_range *to)
{
    size_t count = 0;
    while (count<from_count && * want> 0) {
        struct window_range range = from[count];
        size_t length = (size_t)(range.stop - range.first);
        if (length > *want)
            range.stop = range.first + (int32_t)*want;
        *want -= length > *want ? *want : length;
        to[count++] = range;
    }
    return count;
}
