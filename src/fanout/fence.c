/* Windows: ordinals of held batches -> rows with content and tokens as they are now (design.md §2 points 2
 * and 3).
 *
 * In: ordinals that consult chose, and free requests. Out: chunks on their way, and outcomes of what is not
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

size_t fence_choose(struct fanout *fanout, bool urgent, size_t want, struct window_range *ranges)
{
    size_t count = 0;
    struct held *held = next_ready(fanout, urgent, -1);
    for (; held != NULL && want > 0; held = next_ready(fanout, urgent, held->batch_id)) {
        for (size_t i = 0; i < held->range_count && want > 0; i++) {
            struct window_range range = held->ranges[i];
            size_t length = (size_t)(range.stop - range.first);
            if (length > want)
                range.stop = range.first + (int32_t)want;
            want -= length > want ? want : length;
            ranges[count++] = range;
        }
    }
    return count;
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

static struct window *free_window(struct fanout *fanout)
{
    size_t i = 0;
    while (fanout->windows[i].rows != NULL)
        i++; /* there is one more of them than requests */
    return &fanout->windows[i];
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

/* Chunks of the window's rows, in their order; what is not sent at all gets its outcome. */
static void send_rows(struct fanout *fanout, struct window *window)
{
    int chunk[FANOUT_CHUNK_MAX];
    size_t count = 0;
    int row_count = db_result_rows(window->rows);
    window->chunks = 1; /* held by us until all are submitted */
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
        chunk[count++] = i;
        if (count == fanout->chunk_size) {
            send_chunk(fanout, window, chunk, count);
            count = 0;
        }
    }
    if (count > 0)
        send_chunk(fanout, window, chunk, count);
    if (--window->chunks == 0) {
        db_result_free(window->rows);
        window->rows = NULL;
    }
}

/* How many ordinals the next window may have. */
static size_t window_size(const struct fanout *fanout)
{
    assert(fanout->chunk_size > 0 && fanout->slots > 0);
    size_t free = 0, whole = fanout->slots * fanout->chunk_size;
    for (size_t i = 0; i < fanout->slots; i++)
        free += !fanout->chunks[i].used;
    size_t risked = fanout->in_flight + fanout->owed_used;
    size_t size = free * fanout->chunk_size, room = publish_room(fanout);
    if (size > room)
        size = room;
    if (risked + size > whole)
        size = risked < whole ? whole - risked : 0;
    if (size < fanout->chunk_size)
        return risked > 0 ? 0 : size; /* no small change while something moves */
    return size - size % fanout->chunk_size;
}

enum status fence_run(struct fanout *fanout, struct fault *fault)
{
    struct window_range ranges[FANOUT_WINDOW_RANGES_MAX];
    size_t size = window_size(fanout);
    size_t count = size == 0 ? 0 : consult_choose(fanout, size, ranges);
    if (count == 0)
        return ST_OK;
    struct window *window = free_window(fanout);
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
    send_rows(fanout, window);
    return ST_OK;
}
