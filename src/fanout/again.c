/* What was certainly not accepted (design.md §2 point 5): back into `unsent`, at most send_attempts times.
 *
 * In: rows of chunks that were refused as a whole, rows that wait and may not go now. Out: their ordinals in
 * `unsent` again, or failed with the provider's reason. What always holds: an ordinal is in `unsent` in the
 * database before it may be taken again; tries count only while the breaker is closed. A crash here: what has
 * not gone back is reported as Unconfirmed, although it was not accepted; tries of what has gone back begin
 * anew with the next owner. */
#include <assert.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"
#include "state.h"

static void put_on_list(struct fanout *fanout, int64_t dispatch)
{
    assert(fanout->again_count < fanout->slots * fanout->chunk_size);
    fanout->again[fanout->again_count++] = dispatch;
}

void again_unsent(struct fanout *fanout, const struct ready_row *row)
{
    put_on_list(fanout, row->dispatch_id);
    fence_let_go(row->window);
}

void again_refused(struct fanout *fanout, const struct ready_row *row, const struct provider_verdict *verdict)
{
    uint32_t tries = memory_tries(&fanout->memory, row->dispatch_id);
    if (fanout->breaker.state == BREAKER_CLOSED)
        tries++;
    if (tries >= fanout->setup.settings->send_attempts) {
        struct verdict failed = {.outcome = DISPATCH_FAILED,
                                 .error = verdict->error,
                                 .ticket = "",
                                 .detail = verdict->detail,
                                 .attempt = (int)tries};
        send_settle_row(fanout, row, &failed);
        return;
    }
    memory_set_tries(&fanout->memory, row->dispatch_id, tries);
    again_unsent(fanout, row);
    fanout_metrics_again(fanout, verdict->error);
}

void again_all_ready(struct fanout *fanout)
{
    for (size_t i = 0; i < fanout->ready.count; i++)
        again_unsent(fanout, &fanout->ready.rows[i]);
    fanout->ready.count = 0;
    fanout->ready.urgent = 0;
}

void again_ready_of(struct fanout *fanout, uint32_t project)
{
    size_t kept = 0;
    for (size_t i = 0; i < fanout->ready.count; i++) {
        struct ready_row row = fanout->ready.rows[i];
        if (row.project == project) {
            again_unsent(fanout, &row);
            fanout->ready.urgent -= row.urgent;
        } else {
            fanout->ready.rows[kept++] = row;
        }
    }
    fanout->ready.count = kept;
}

static int by_dispatch(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* Neighbours become one range; returns how many. */
static size_t make_ranges(const struct fanout *fanout, struct window_range *ranges)
{
    size_t count = 0;
    for (size_t i = 0; i < fanout->again_count; i++) {
        int64_t batch = dispatch_batch_id(fanout->again[i]);
        int32_t ordinal = (int32_t)dispatch_ordinal(fanout->again[i]);
        if (count > 0 && ranges[count - 1].batch_id == batch && ranges[count - 1].stop == ordinal)
            ranges[count - 1].stop++;
        else
            ranges[count++] = (struct window_range){batch, ordinal, ordinal + 1};
    }
    return count;
}

static bool is_among(const struct db_result *rows, int64_t batch_id)
{
    for (int i = 0; i < db_result_rows(rows); i++) {
        if (batch_id_row(rows, i) == batch_id)
            return true;
    }
    return false;
}

static void take_back(struct fanout *fanout, const struct window_range *range, bool ours)
{
    struct held *held = held_find(fanout, range->batch_id);
    size_t count = (size_t)(range->stop - range->first);
    assert(held != NULL && held->in_flight >= count);
    held->in_flight -= count;
    fanout->risked -= count;
    if (held->lost)
        return;
    if (ours)
        held_put_back(held, *range);
    else
        held_mark_lost(fanout, held);
}

enum status again_run(struct fanout *fanout, struct fault *fault)
{
    struct window_range ranges[FANOUT_SLOTS_MAX * FANOUT_CHUNK_MAX];
    struct db_result *rows = NULL;
    if (fanout->again_count == 0)
        return ST_OK;
    qsort(fanout->again, fanout->again_count, sizeof fanout->again[0], by_dispatch);
    size_t count = make_ranges(fanout, ranges);
    enum status status = window_put_back(&fanout->scope, ranges, count, &rows, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault); /* the same again: no window before it is done */
    CRASH_POINT("again");
    for (size_t i = 0; i < count; i++)
        take_back(fanout, &ranges[i], is_among(rows, ranges[i].batch_id));
    log_event(LOG_DEBUG, "FAN-AGAIN", "back into unsent", log_count("dispatches", fanout->again_count),
              log_count("ranges", count));
    fanout->again_count = 0;
    db_result_free(rows);
    return ST_OK;
}
