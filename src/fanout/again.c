/* What was certainly not accepted (design.md §2 point 5): back into `unsent`, at most send_attempts times.
 *
 * In: rows of chunks that were refused as a whole, rows that wait and may not go now. Out: their ordinals in
 * `unsent` again, or failed with the provider's reason. What always holds: an ordinal is in `unsent` in the
 * database before it may be taken again; tries count only while the breaker is closed, and the last one only
 * when an answer to another chunk has shown that the provider is there. A crash here: what has
 * not gone back is reported as Unconfirmed, although it was not accepted; tries of what has gone back begin
 * anew with the next owner. */
#include <assert.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"
#include "state.h"

void again_unsent(struct fanout *fanout, const struct ready_row *row)
{
    assert(fanout->again_count < fanout->slots * fanout->chunk_size);
    fanout->again[fanout->again_count++] = (struct again){
        .dispatch_id = row->dispatch_id,
        .wait_until_ms = rate_others_go_until(&fanout->rate, row->project, fanout_now_ms(fanout))};
    fence_let_go(row->window);
}

/* The tries with this one. While every chunk since the first one was refused, the provider may be away as a
 * whole and its breaker be about to open: the last try is kept until that is known, which takes at most
 * provider_failures refusals. A chunk that never became an answer says nothing of the provider. */
static struct memory_tries count_try(const struct fanout *fanout, int64_t dispatch, bool by_provider)
{
    const struct breaker *breaker = &fanout->breaker;
    const uint32_t most = (uint32_t)fanout->setup.settings->send_attempts;
    struct memory_tries tries = memory_tries(&fanout->memory, dispatch);
    if (!tries.any)
        tries = (struct memory_tries){.any = true, .answers = breaker->answers};
    if (breaker->state != BREAKER_CLOSED)
        return tries;
    bool alone = by_provider && tries.answers == breaker->answers;
    if (tries.count + 1 < most || !alone)
        tries.count++;
    return tries;
}

void again_refused(struct fanout *fanout, const struct ready_row *row, const struct provider_verdict *verdict,
                   bool by_provider)
{
    struct memory_tries tries = count_try(fanout, row->dispatch_id, by_provider);
    if (tries.count >= fanout->setup.settings->send_attempts) {
        struct verdict failed = {.outcome = DISPATCH_FAILED,
                                 .error = verdict->error,
                                 .ticket = "",
                                 .detail = verdict->detail,
                                 .attempt = (int)tries.count};
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
    int64_t left = ((const struct again *)a)->dispatch_id, right = ((const struct again *)b)->dispatch_id;
    return left < right ? -1 : left > right;
}

/* Neighbours become one range, with one time to wait for; returns how many. */
static size_t make_ranges(const struct fanout *fanout, struct window_range *ranges, int64_t *waits)
{
    size_t count = 0;
    for (size_t i = 0; i < fanout->again_count; i++) {
        int64_t batch = dispatch_batch_id(fanout->again[i].dispatch_id),
                wait_until_ms = fanout->again[i].wait_until_ms;
        int32_t ordinal = (int32_t)dispatch_ordinal(fanout->again[i].dispatch_id);
        bool joins = count > 0 && ranges[count - 1].batch_id == batch && ranges[count - 1].stop == ordinal &&
                     waits[count - 1] == wait_until_ms;
        if (joins) {
            ranges[count - 1].stop++;
            continue;
        }
        waits[count] = wait_until_ms;
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

/* In the table only: the batch is let go when the rest of it is done, and comes back when the project may be
 * sent to again. Held in memory it would stand before those of other projects. */
static void leave_in_table(struct held *held, int64_t wait_until_ms)
{
    held->partial = true;
    if (held->wait_until_ms == 0 || wait_until_ms < held->wait_until_ms)
        held->wait_until_ms = wait_until_ms;
}

static void take_back(struct fanout *fanout, const struct window_range *range, int64_t wait_until_ms,
                      bool ours)
{
    struct held *held = held_find(fanout, range->batch_id);
    size_t count = (size_t)(range->stop - range->first);
    assert(held != NULL && held->in_flight >= count);
    held->in_flight -= count;
    fanout->risked -= count;
    if (held->lost)
        return;
    if (!ours)
        held_mark_lost(fanout, held);
    else if (wait_until_ms > 0)
        leave_in_table(held, wait_until_ms);
    else
        held_put_back(held, *range);
}

enum status again_run(struct fanout *fanout, struct fault *fault)
{
    struct window_range ranges[FANOUT_WINDOW_RANGES_MAX];
    int64_t waits[FANOUT_WINDOW_RANGES_MAX];
    struct db_result *rows = NULL;
    if (fanout->again_count == 0)
        return ST_OK;
    qsort(fanout->again, fanout->again_count, sizeof fanout->again[0], by_dispatch);
    size_t count = make_ranges(fanout, ranges, waits);
    enum status status = window_put_back(&fanout->scope, ranges, count, &rows, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault); /* the same again: no window before it is done */
    CRASH_POINT("again");
    for (size_t i = 0; i < count; i++)
        take_back(fanout, &ranges[i], waits[i], is_among(rows, ranges[i].batch_id));
    log_event(LOG_DEBUG, "FAN-AGAIN", "back into unsent", log_count("dispatches", fanout->again_count),
              log_count("ranges", count));
    fanout->again_count = 0;
    db_result_free(rows);
    return ST_OK;
}
