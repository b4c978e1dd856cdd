/* Leases: batches in (handed over by ingest, or taken from the table), kept, finished, let go; and what a
 * dead owner risked (design.md §2, Sweeper).
 *
 * In: ids from the hand-over queue, rows of `batches` whose lease ran out or was never there. Out: held
 * batches with their unsent ranges; failed/Unconfirmed for ordinals that are neither unsent nor known to have
 * an outcome. What always holds: only the database's clock says whose a batch is; a row is deleted only when
 * every outcome of its batch is acknowledged. A crash here: the leases run out and another process does the
 * same. */
#include <assert.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"
#include "state.h"

enum { RELEASE_RANGES_MAX = 4096 };

/* ---- batches in ---------------------------------------------------------------------------------------- */

static void add_handed(struct fanout *fanout, const struct handover_batch *batch)
{
    struct held *held = NULL;
    if (held_find(fanout, batch->batch_id) == NULL &&
        held_count(fanout) < fanout->held_max - FANOUT_LEFT_EXTRA)
        held = held_add(fanout, batch->batch_id, batch->urgent);
    if (held == NULL) { /* held already, or no place: the table has it too, its lease will run out */
        handover_release(fanout->setup.handover, 1);
        return;
    }
    held->handed = true;
    held_add_range(held, (struct window_range){batch->batch_id, 0, (int32_t)batch->unsent});
    metric_add(fanout->metrics, FANOUT_M_BATCHES, FANOUT_HANDED, 1);
}

void sweep_take_handed(struct fanout *fanout, int timeout_ms)
{
    struct handover_batch batch;
    if (fanout->setup.handover == NULL)
        return;
    while (handover_take(fanout->setup.handover, timeout_ms, &batch)) {
        CRASH_POINT("sweep");
        add_handed(fanout, &batch);
        timeout_ms = 0;
    }
}

static size_t collect_ids(const struct fanout *fanout, bool with_lost, int64_t *ids)
{
    size_t count = 0;
    for (size_t i = 0; i < fanout->held_max && count < FANOUT_HELD_MAX; i++) {
        if (fanout->held[i].used && (with_lost || !fanout->held[i].lost))
            ids[count++] = fanout->held[i].batch_id;
    }
    return count;
}

/* Adds the rows of one batch_take; returns how many batches they were. left_only: only to tell what their
 * owners risked; what is unsent stays in the table. */
static size_t add_taken(struct fanout *fanout, const struct db_result *rows, bool left_only)
{
    size_t count = 0;
    struct held *held = NULL;
    for (int i = 0; i < db_result_rows(rows); i++) {
        struct batch_row batch;
        batch_take_row(rows, i, &batch);
        if (held == NULL || held->batch_id != batch.range.batch_id) {
            held = held_add(fanout, batch.range.batch_id, batch.urgent);
            assert(held != NULL); /* no more than the free places were asked for */
            held->check = batch.had_owner;
            held->check_after = dispatch_id(batch.range.batch_id, 0) - 1;
            count++;
            if (batch.had_owner)
                log_event(LOG_INFO, "FAN-TAKEOVER", "a batch with an owner before us was taken",
                          log_int("batch", batch.range.batch_id));
        }
        if (!left_only)
            held_add_range(held, batch.range);
        else if (batch.range.first < batch.range.stop)
            held->partial = true;
    }
    metric_add(fanout->metrics, FANOUT_M_BATCHES, FANOUT_TAKEN, count);
    return count;
}

/* What to take now: from the table, when it is time or the last time gave all that was asked for. False:
 * nothing. */
static bool plan_take(const struct fanout *fanout, struct batch_query *query)
{
    const int64_t now_ms = fanout_now_ms(fanout);
    const size_t held = held_count(fanout), room = fanout->held_max - FANOUT_LEFT_EXTRA;
    query->others = now_ms >= fanout->takeover_at_ms;
    if (fanout->breaker.state != BREAKER_CLOSED && fanout_has_work(fanout)) {
        /* What we hold is enough for the trials. What a dead owner risked is told all the same. */
        size_t free = fanout->held_max - held;
        query->left_only = true;
        query->count_max = free < FANOUT_LEFT_EXTRA ? free : FANOUT_LEFT_EXTRA;
        return free > 0 && query->others && (fanout->left_more || now_ms >= fanout->left_at_ms);
    }
    size_t places = held < room ? room - held : 0;
    query->urgent_only = places <= FANOUT_URGENT_EXTRA;
    query->count_max = query->urgent_only ? places : places - FANOUT_URGENT_EXTRA;
    return places > 0 && (now_ms >= fanout->sweep_at_ms || (fanout->backlog && !query->urgent_only));
}

static enum status take_from_table(struct fanout *fanout, struct fault *fault)
{
    int64_t ids[FANOUT_HELD_MAX];
    struct batch_query query = {.held = ids};
    struct db_result *rows = NULL;
    if (!plan_take(fanout, &query))
        return ST_OK;
    query.held_count = collect_ids(fanout, true, ids);
    enum status status = batch_take(&fanout->scope, &query, &rows, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault);
    if (db_result_rows(rows) > 0) {
        CRASH_POINT("sweep");
    }
    bool more = add_taken(fanout, rows, query.left_only) == query.count_max;
    int64_t next_ms = fanout_now_ms(fanout) + fanout->setup.settings->sweep_interval_ms;
    *(query.left_only ? &fanout->left_more : &fanout->backlog) = more;
    *(query.left_only ? &fanout->left_at_ms : &fanout->sweep_at_ms) = next_ms;
    db_result_free(rows);
    return ST_OK;
}

/* ---- leases -------------------------------------------------------------------------------------------- */

static enum status renew_leases(struct fanout *fanout, struct fault *fault)
{
    int64_t ids[FANOUT_HELD_MAX];
    size_t count = collect_ids(fanout, false, ids);
    struct db_result *rows = NULL;
    if (count == 0 || fanout_now_ms(fanout) < fanout->renew_at_ms)
        return ST_OK;
    enum status status = batch_renew(&fanout->scope, ids, count, &rows, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault);
    for (size_t i = 0; i < count; i++) {
        bool ours = false;
        for (int row = 0; row < db_result_rows(rows) && !ours; row++)
            ours = batch_id_row(rows, row) == ids[i];
        if (!ours)
            held_mark_lost(fanout, held_find(fanout, ids[i]));
    }
    db_result_free(rows);
    fanout->renew_at_ms = fanout_now_ms(fanout) + fanout->setup.settings->lease_ms / 3;
    return ST_OK;
}

/* ---- what a dead owner risked ---------------------------------------------------------------------------
 */

static void report_risked(struct fanout *fanout, struct held *held, const struct db_result *rows)
{
    struct verdict verdict = {.outcome = DISPATCH_FAILED,
                              .error = DISPATCH_UNCONFIRMED,
                              .ticket = "",
                              .detail = "the process that was sending it ended"};
    int count = db_result_rows(rows);
    for (int i = 0; i < count; i++) {
        struct window_row row;
        batch_risked_row(rows, i, &row);
        publish_add(fanout, &row, &verdict);
        held->check_after = row.dispatch_id;
    }
    metric_add(fanout->metrics, FANOUT_M_RISKED, 0, (uint64_t)count);
    if (count > 0)
        log_event(LOG_WARN, "FAN-RISKED", "pushes of an owner who died are reported as unconfirmed",
                  log_int("batch", held->batch_id), log_int("dispatches", count));
}

static enum status check_batch(struct fanout *fanout, struct held *held, struct fault *fault)
{
    size_t room = publish_room(fanout);
    struct risked_query query = {.batch_id = held->batch_id,
                                 .after_id = held->check_after,
                                 .count_max = room < FANOUT_CHUNK_MAX ? room : FANOUT_CHUNK_MAX};
    struct db_result *rows = NULL;
    if (query.count_max == 0)
        return ST_OK;
    enum status status = batch_risked(&fanout->scope, &query, &rows, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault);
    report_risked(fanout, held, rows);
    held->check = (size_t)db_result_rows(rows) == query.count_max;
    db_result_free(rows);
    return ST_OK;
}

enum status sweep_run(struct fanout *fanout, struct fault *fault)
{
    sweep_take_handed(fanout, 0);
    enum status status = renew_leases(fanout, fault);
    if (status == ST_OK)
        status = take_from_table(fanout, fault);
    for (size_t i = 0; status == ST_OK && i < fanout->held_max; i++) {
        if (fanout->held[i].used && fanout->held[i].check)
            status = check_batch(fanout, &fanout->held[i], fault);
    }
    return status == ST_OK ? backlog_run(fanout, fault) : status;
}

/* ---- batches out --------------------------------------------------------------------------------------- */

/* More of it is unsent than was read, or than may be sent now: let go and taken again. */
static enum status let_go(struct fanout *fanout, struct held *held, struct fault *fault)
{
    struct batch_release release = {.batch_id = held->batch_id, .settled = true};
    int64_t pause_ms = held->wait_until_ms == 0 ? 0 : held->wait_until_ms - fanout_now_ms(fanout);
    struct batch_releases releases = {
        .batches = &release, .count = 1, .pause_ms = pause_ms > 0 ? pause_ms : 0};
    enum status status = batch_release(&fanout->scope, &releases, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault);
    metric_add(fanout->metrics, FANOUT_M_BATCHES, FANOUT_RELEASED, 1);
    fanout->backlog = true;
    held_drop(fanout, held);
    return ST_OK;
}

static bool is_done(const struct held *held)
{
    return held->used && held->range_count == 0 && held_is_settled(held);
}

enum status sweep_finish(struct fanout *fanout, struct fault *fault)
{
    int64_t ids[FANOUT_HELD_MAX], finished = 0;
    size_t count = 0;
    enum status status = ST_OK;
    for (size_t i = 0; status == ST_OK && i < fanout->held_max && count < FANOUT_HELD_MAX; i++) {
        struct held *held = &fanout->held[i];
        if (!is_done(held))
            continue;
        if (held->lost)
            held_drop(fanout, held);
        else if (held->partial)
            status = let_go(fanout, held, fault);
        else
            ids[count++] = held->batch_id;
    }
    if (status != ST_OK || count == 0)
        return status;
    CRASH_POINT("published");
    status = batch_finish(&fanout->scope, ids, count, &finished, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault);
    for (size_t i = 0; i < count; i++)
        held_drop(fanout, held_find(fanout, ids[i]));
    metric_add(fanout->metrics, FANOUT_M_BATCHES, FANOUT_FINISHED, count);
    return ST_OK;
}

/* What sweep_release puts together; heap, for it is large. */
struct release_list {
    struct batch_release batches[FANOUT_HELD_MAX];
    struct window_range ranges[RELEASE_RANGES_MAX];
    size_t count, range_count;
};

static void add_release(struct release_list *list, const struct held *held)
{
    if (!held->used || held->lost || list->range_count + held->range_count > RELEASE_RANGES_MAX)
        return; /* the lease runs out by itself */
    list->batches[list->count++] = (struct batch_release){held->batch_id, held_is_settled(held)};
    for (size_t i = 0; i < held->range_count; i++)
        list->ranges[list->range_count++] = held->ranges[i];
}

enum status sweep_release(struct fanout *fanout, struct fault *fault)
{
    struct release_list *list = calloc(1, sizeof *list);
    if (list == NULL) {
        fault_set(fault, "memory", "no memory to end the leases");
        return ST_RETRY;
    }
    for (size_t i = 0; i < fanout->held_max; i++)
        add_release(list, &fanout->held[i]);
    struct batch_releases releases = {.batches = list->batches,
                                      .count = list->count,
                                      .ranges = list->ranges,
                                      .range_count = list->range_count};
    enum status status = list->count == 0 ? ST_OK : batch_release(&fanout->scope, &releases, fault);
    if (status == ST_OK)
        metric_add(fanout->metrics, FANOUT_M_BATCHES, FANOUT_RELEASED, list->count);
    free(list);
    return status;
}
