/* In: which page of whose feed. Out: its entries, whether there are more, and where the walk goes on or turns
 * round. Always: limit + 1 rows at most come back, so has_more is known without a count, and the next place
 * is that of the last entry returned (or read, when a filter without an index ran into scan_max), never of
 * the extra one. A crash here loses one answer; nothing is written. */
#include "store/page.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page_private.h"

/* The columns of every page statement, in order; an item's end with SCAN_END. */
enum {
    COLUMN_MEMBER,
    COLUMN_ID,
    COLUMN_EVENT_TYPE,
    COLUMN_CATEGORY,
    COLUMN_TITLE,
    COLUMN_BODY,
    COLUMN_DATA,
    COLUMN_OCCURRED_AT,
    COLUMN_CREATED_AT,
    COLUMN_READ_AT,
    COLUMN_MATCHED,
    COLUMN_SCAN_END,
    COLUMN_BOUND,
    COLUMN_CLUSTER, /* boundary's: this and the next */
    COLUMN_SEEN
};

/* A snapshot as text: two numbers and PAGE_RUNNING_MAX more, 20 digits and a separator each. */
enum { PARAMS_BYTES_MAX = 16 * 1024, SNAPSHOT_TEXT_MAX = (PAGE_RUNNING_MAX + 2) * 21 + 1 };

static enum page_reading page_reading(const struct page_query *query)
{
    if (query->boundary)
        return PAGE_BOUNDARY;
    return query->category.at != NULL || query->event_type.at != NULL ? PAGE_FILTERED : PAGE_INDEXED;
}

const struct db_statement *page_statement(const struct page_query *query)
{
    enum page_way way = !query->continues ? PAGE_HEAD : query->newer ? PAGE_NEWER : PAGE_OLDER;
    return &query->statements->texts[query->unread][page_reading(query)][way].statement;
}

/* ---- places -------------------------------------------------------------------------------------------- */

int page_position_compare(const struct page_position *a, const struct page_position *b)
{
    if (a->created_at_us != b->created_at_us)
        return a->created_at_us < b->created_at_us ? -1 : 1;
    if (a->instant || b->instant)
        return (int)b->instant - (int)a->instant;
    return memcmp(a->id.bytes, b->id.bytes, sizeof a->id.bytes);
}

struct page_position page_position_last(const struct page_position *at)
{
    struct page_position last = *at;
    if (last.instant) {
        memset(last.id.bytes, 0xff, sizeof last.id.bytes);
        last.created_at_us--;
    }
    return last;
}

/* An instant stands between its own entries and those of the microsecond before: below the lowest id there
 * is, or above the highest. */
static void page_bind_place(const struct page_query *query, struct db_params *params)
{
    struct page_position at = query->after;
    if (query->newer)
        at = page_position_last(&at);
    else if (at.instant)
        memset(at.id.bytes, 0, sizeof at.id.bytes);
    db_params_time(params, at.created_at_us);
    db_params_uuid(params, at.id.bytes);
}

static void page_bind_snapshot(const struct page_snapshot *snapshot, struct db_params *params)
{
    char text[SNAPSHOT_TEXT_MAX];
    int at = snprintf(text, sizeof text, "%llu:%llu:", (unsigned long long)snapshot->xmin,
                      (unsigned long long)snapshot->xmax);
    for (size_t i = 0; i < snapshot->count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%llu", i == 0 ? "" : ",",
                       (unsigned long long)snapshot->running[i]);
    db_params_text(params, span_of(text));
}

static void page_bind(const struct page_query *query, struct db_params *params)
{
    enum page_reading reading = page_reading(query);
    assert(query->limit >= 1 && query->limit <= PAGE_LIMIT_MAX);
    db_params_init(params, PARAMS_BYTES_MAX);
    db_params_text(params, query->workspace_id);
    db_params_text(params, query->user_id);
    db_params_int8(params, query->limit + 1);
    if (query->continues)
        page_bind_place(query, params);
    if (reading != PAGE_INDEXED) {
        assert(query->scan_max > 0);
        db_params_int8(params, query->scan_max);
        db_params_text(params, query->category);
        db_params_text(params, query->event_type);
    }
    if (reading == PAGE_BOUNDARY && query->continues)
        page_bind_snapshot(&query->snapshot, params);
}

enum status page_send(struct db *db, const struct page_query *query, uint64_t tag, struct fault *fault)
{
    struct db_params params;
    page_bind(query, &params);
    enum status status = db_send(db, page_statement(query), &params, tag, fault);
    db_params_done(&params);
    return status;
}

enum status page_read(struct db *db, const struct page_query *query, struct db_result **result,
                      struct fault *fault)
{
    struct db_params params;
    page_bind(query, &params);
    enum status status = db_run(db, page_statement(query), &params, result, fault);
    db_params_done(&params);
    return status;
}

/* ---- an answer ----------------------------------------------------------------------------------------- */

static struct page_position page_position_at(const struct db_result *result, int row)
{
    struct page_position at = {.created_at_us = db_result_time(result, row, COLUMN_CREATED_AT)};
    memcpy(at.id.bytes, db_result_uuid(result, row, COLUMN_ID), DB_UUID_BYTES);
    return at;
}

/* Where an older walk turns round: at the newest entry it showed, or above where it stood when it showed
 * none, but never above the bound. No bound (a feed that nothing settles): from the beginning. */
static void page_turn_newer(const struct page_query *query, struct page *page)
{
    struct page_position bound = {.created_at_us = db_result_time(page->result, 0, COLUMN_BOUND),
                                  .instant = true};
    page->prev = bound;
    page->has_newest = page->count > 0;
    if (page->has_newest)
        page->newest = page_position_at(page->result, 0);
    struct page_position top = {.created_at_us = query->after.created_at_us, .instant = true};
    if (page->has_newest)
        top = page->newest;
    if ((page->has_newest || query->continues) && page_position_compare(&top, &bound) < 0)
        page->prev = top;
}

/* Where a newer walk turns round: below the oldest entry it showed, or below where it stood. */
static void page_turn_older(const struct page_query *query, struct page *page)
{
    if (page->count > 0) {
        page->prev = page_position_at(page->result, 0);
        return;
    }
    page->prev = (struct page_position){
        .created_at_us = query->after.created_at_us + (query->after.instant ? 0 : 1), .instant = true};
}

static enum status page_read_number(const char **text, const char *end, uint64_t *number)
{
    const char *at = *text;
    *number = 0;
    while (at < end && *at >= '0' && *at <= '9')
        *number = *number * 10 + (uint64_t)(*at++ - '0');
    bool read = at > *text;
    *text = at < end ? at + 1 : at; /* past the ':' or ',' behind it */
    return read ? ST_OK : ST_FATAL;
}

/* "xmin:xmax:running,running", as Postgres writes it. */
static enum status page_read_snapshot(struct span text, struct page_snapshot *snapshot, struct fault *fault)
{
    const char *at = text.at, *end = text.at + text.bytes;
    enum status status = page_read_number(&at, end, &snapshot->xmin);
    if (status == ST_OK)
        status = page_read_number(&at, end, &snapshot->xmax);
    for (snapshot->count = 0; status == ST_OK && at < end && snapshot->count < PAGE_RUNNING_MAX;)
        status = page_read_number(&at, end, &snapshot->running[snapshot->count++]);
    if (status == ST_OK && at == end)
        return ST_OK;
    fault_set(fault, "internal", "the database's snapshot cannot be read");
    return ST_FATAL;
}

/* How many of the rows are shown, whether there are more, and the last one read. */
static void page_count_rows(const struct db_result *result, int limit, struct page *page, int *last)
{
    int rows = db_result_rows(result);
    /* Only the last row can be one that does not match: the entry at which a scan ended. */
    int matched = db_result_bool(result, rows - 1, COLUMN_MATCHED) ? rows : rows - 1;
    if (matched > limit) {
        page->count = limit;
        page->has_more = true;
        *last = limit - 1;
        return;
    }
    page->count = matched;
    page->has_more = db_result_bool(result, rows - 1, COLUMN_SCAN_END);
    *last = rows - 1;
}

enum status page_open(const struct page_query *query, const struct db_result *result, struct page *page,
                      struct fault *fault)
{
    int rows = db_result_rows(result), last = -1;
    assert(rows >= 1 && rows <= query->limit + 1);
    struct page opened = {.result = result,
                          .member = db_result_bool(result, 0, COLUMN_MEMBER),
                          .ascending = query->continues && query->newer};
    if (!db_result_is_null(result, 0, COLUMN_ID))
        page_count_rows(result, query->limit, &opened, &last);
    opened.has_next = opened.has_more || opened.ascending;
    opened.next = last >= 0 ? page_position_at(result, last) : query->after;
    if (opened.ascending)
        page_turn_older(query, &opened);
    else
        page_turn_newer(query, &opened);
    if (query->boundary) {
        opened.cluster = (uint32_t)(uint64_t)db_result_int8(result, 0, COLUMN_CLUSTER);
        enum status status =
            page_read_snapshot(db_result_text(result, 0, COLUMN_SEEN), &opened.snapshot, fault);
        if (status != ST_OK)
            return status;
    }
    *page = opened;
    return ST_OK;
}

void page_open_item(const struct db_result *result, struct page *page)
{
    assert(db_result_rows(result) == 1);
    *page = (struct page){.result = result,
                          .member = db_result_bool(result, 0, COLUMN_MEMBER),
                          .count = !db_result_is_null(result, 0, COLUMN_ID)};
}

struct page_entry page_entry_at(const struct page *page, int index)
{
    const struct db_result *result = page->result;
    assert(index >= 0 && index < page->count);
    int row = page->ascending ? page->count - 1 - index : index;
    struct page_position at = page_position_at(result, row);
    return (struct page_entry){
        .id = at.id,
        .event_type = db_result_text(result, row, COLUMN_EVENT_TYPE),
        .category = db_result_text(result, row, COLUMN_CATEGORY),
        .title = db_result_text(result, row, COLUMN_TITLE),
        .body = db_result_text(result, row, COLUMN_BODY),
        .data = db_result_text(result, row, COLUMN_DATA),
        .created_at_us = at.created_at_us,
        .occurred = !db_result_is_null(result, row, COLUMN_OCCURRED_AT),
        .read = !db_result_is_null(result, row, COLUMN_READ_AT),
        .occurred_at_us = db_result_time(result, row, COLUMN_OCCURRED_AT),
        .read_at_us = db_result_time(result, row, COLUMN_READ_AT),
    };
}
