/* Windows: ordinals of held batches -> rows with content and tokens as they are now (design.md §2 points 2
 * and 3).
 *
 * In: ordinals that consult chose, and free requests. Out: rows ready to be sent, and outcomes of what is not
 * sent. What always holds: an ordinal leaves `unsent` in the database before its push leaves the house; one
 * window is of one urgency, urgent first, oldest batch first. A crash after the fence: the sweeper reports
 * the window. */
#include <assert.h>

#include "base/crash.h"
#include "base/log.h"
#include "state.h"

static bool is_ready(const struct held *held)
{
    return held->used && !held->lost && !held->check && held->range_count > 0;
}

/* The oldest ready batch of this urgency after that id. */
static struct held *next_ready(struct fanout *fanout, bool urgent, int64_t after_id)
{
    struct held *found = NULL;
    for (size_t i = 0; i < fanout->held_max; i++) {
        struct held *held = &fanout->held[i];
        if (is_ready(held) && held->urgent == urgent && held->batch_id > after_id &&
            (found == NULL || held->batch_id < found->batch_id))
            found = held;
    }
    return found;
}

/* Ordinals behind this dispatch. */
static size_t choose_behind(struct fanout *fanout, bool urgent, int64_t dispatch, size_t want,
                            struct window_range *ranges)
{
    size_t count = 0;
    int64_t batch = dispatch_batch_id(dispatch);
    struct held *held = next_ready(fanout, urgent, batch - 1);
    for (; held != NULL && want > 0; held = next_ready(fanout, urgent, held->batch_id)) {
        struct window_range behind[FANOUT_RANGES_MAX];
        int32_t first = held->batch_id == batch ? (int32_t)dispatch_ordinal(dispatch) + 1 : 0;
        size_t kept = 0;
        for (size_t i = 0; i < held->range_count; i++) {
            struct window_range range = held->ranges[i];
            range.first = range.first < first ? first : range.first;
            if (range.first < range.stop)
                behind[kept++] = range;
        }
        count += held_copy_prefix(behind, kept, &want, ranges + count);
    }
    return count;
}

bool fence_urgent_first(const struct fanout *fanout)
{
    return fanout->breaker.state == BREAKER_CLOSED || fanout->trials % 2 == 0;
}

size_t fence_choose(struct fanout *fanout, bool urgent, size_t want, struct window_range *ranges)
{
    int64_t last = fanout->breaker.state == BREAKER_CLOSED ? 0 : fanout->trial_last[urgent];
    size_t count = choose_behind(fanout, urgent, last, want, ranges);
    return count == 0 && last > 0 ? choose_behind(fanout, urgent, 0, want, ranges) : count;
}

/* Batches without a row are somebody else's now. */
static void settle_ranges(struct fanout *fanout, const struct window_range *ranges, size_t count,
                          const struct db_result *rows)
{
    int row = 0, row_count = db_result_rows(rows);
    for (size_t i = 0; i < count; i++) {
        struct held *held = held_find(fanout, ranges[i].batch_id);
        while (row < row_count && db_result_int8(rows, row, 0) < ranges[i].batch_id)
            row++;
        if (held->lost)
            continue;
        if (row < row_count && db_result_int8(rows, row, 0) == ranges[i].batch_id)
            held_take_range(held, &ranges[i]);
        else
            held_mark_lost(fanout, held);
    }
}

/* NULL: rows of too many windows are still on their way. */
static struct window *free_window(struct fanout *fanout)
{
    for (size_t i = 0; i < FANOUT_WINDOWS_MAX; i++) {
        if (fanout->windows[i].rows == NULL)
            return &fanout->windows[i];
    }
    return NULL;
}

void fence_let_go(struct window *window)
{
    assert(window->refs > 0);
    if (--window->refs > 0)
        return;
    db_result_free(window->rows);
    window->rows = NULL;
}

/* Why the row is not to be sent, as an outcome; false: it is. */
static bool is_settled_here(const struct fanout *fanout, const struct window_row *row,
                            struct verdict *verdict)
{
    *verdict = (struct verdict){.outcome = DISPATCH_SUPPRESSED, .ticket = "", .detail = ""};
    verdict->error = row->suppressed.at == NULL                          ? NULL
                     : span_is(row->suppressed, DISPATCH_DEVICE_CHANGED) ? DISPATCH_DEVICE_CHANGED
                                                                         : DISPATCH_EXPIRED_UNSENT;
    if (verdict->error != NULL)
        return true;
    if (consult_refuses(fanout, row)) {
        verdict->error = DISPATCH_PREFERENCE;
        return true;
    }
    struct provider_message message = {.token = row->token,
                                       .notification_id = row->notification_id,
                                       .title = row->title,
                                       .body = row->body,
                                       .data = row->data};
    verdict->outcome = DISPATCH_FAILED;
    verdict->error = provider_refuse(fanout->provider, &message);
    return verdict->error != NULL;
}

/* The window's rows, in their order; what is not sent at all gets its outcome. */
static void ready_rows(struct fanout *fanout, struct window *window)
{
    int row_count = db_result_rows(window->rows);
    window->refs = 1; /* ours, until all are ready */
    for (int i = 0; i < row_count; i++) {
        struct window_row row;
        struct verdict verdict;
        window_take_row(window->rows, i, &row);
        if (!row.has_dispatch)
            continue;
        if (is_settled_here(fanout, &row, &verdict)) {
            publish_add(fanout, &row, &verdict);
            continue;
        }
        struct ready_row ready = {.window = window,
                                  .row = i,
                                  .dispatch_id = row.dispatch_id,
                                  .device_id = row.device_id,
                                  .project = (uint32_t)memory_project(&fanout->memory, row.device_id),
                                  .urgent = row.urgent};
        window->refs++;
        held_find(fanout, row.batch_id)->in_flight++;
        fanout->risked++;
        if (rate_others_go_until(&fanout->rate, ready.project, fanout_now_ms(fanout)) > 0)
            again_unsent(fanout, &ready); /* it would stand before rows of others for as long */
        else
            ready_add(&fanout->ready, &ready);
    }
    fence_let_go(window);
}

/* How many may wait for the rate: a quarter of a second's worth for each project, so that little is at risk
 * and an urgent batch finds room. */
static size_t ready_max(const struct fanout *fanout)
{
    size_t max = (size_t)(fanout->rate.limit / 4) * fanout->rate.count;
    return max < fanout->chunk_size ? fanout->chunk_size : max;
}

/* How many ordinals the next window may have. */
static size_t window_size(struct fanout *fanout)
{
    const size_t chunk = fanout->chunk_size;
    assert(chunk > 0 && fanout->slots > 0);
    size_t free = 0, whole = fanout->slots * chunk;
    for (size_t i = 0; i < fanout->slots; i++)
        free += !fanout->chunks[i].used;
    size_t risked = fanout->risked + fanout->owed_used;
    /* Urgent rows go ahead of all others, so only urgent ones are in their way. */
    size_t waiting = consult_is_urgent_next(fanout) ? fanout->ready.urgent : fanout->ready.count;
    size_t size = free * chunk, room = publish_room(fanout);
    if (fanout->breaker.state != BREAKER_CLOSED && size > chunk)
        size = chunk; /* the trial */
    if (size > ready_max(fanout))
        size = ready_max(fanout);
    size = waiting < size ? size - waiting : 0;
    if (size > room)
        size = room;
    if (risked + size > whole)
        size = risked < whole ? whole - risked : 0;
    if (size < chunk)
        return risked > 0 ? 0 : size; /* no small change while something moves */
    return size - size % chunk;
}

bool fence_provider_takes(const struct fanout *fanout)
{
    int64_t now_ms = fanout_now_ms(fanout);
    return breaker_lets(&fanout->breaker, now_ms) && !rate_all_paused(&fanout->rate, now_ms);
}

bool fence_may_take(const struct fanout *fanout)
{
    /* What goes back does so before anything is taken again, or it could be put back while it is sent. */
    return fanout->again_count == 0 && fence_provider_takes(fanout);
}

enum status fence_run(struct fanout *fanout, struct fault *fault)
{
    struct window_range ranges[FANOUT_WINDOW_RANGES_MAX];
    struct window *window = free_window(fanout);
    if (window == NULL || !fence_may_take(fanout))
        return ST_OK;
    size_t size = window_size(fanout);
    size_t count = size == 0 ? 0 : consult_choose(fanout, size, ranges);
    if (count == 0)
        return ST_OK;
    struct db_result *rows = NULL;
    enum status status = window_take(&fanout->scope, ranges, count, &rows, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault); /* the ranges stay ours: the same window again */
    CRASH_POINT("window");
    window->rows = rows;
    settle_ranges(fanout, ranges, count, rows);
    consult_taken(fanout, count, ranges);
    metric_add(fanout->metrics, FANOUT_M_WINDOWS, 0, 1);
    log_event(LOG_DEBUG, "FAN-WINDOW", "window taken", log_count("ranges", count),
              log_int("dispatches", db_result_rows(rows)));
    ready_rows(fanout, window);
    return ST_OK;
}
