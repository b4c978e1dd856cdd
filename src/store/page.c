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

/* A snapshot as text: two numbers and PAGE_RUNNING_MAX more, 20 digits and a separator each. */
enum { PARAMS_BYTES_MAX = 16 * 1024, SNAPSHOT_TEXT_MAX = (PAGE_RUNNING_MAX + 2) * 21 + 1 };

static enum page_reading page_reading(const struct page_query *query)
{
    const struct source *source = query->statements->source;
    bool scans = source->roles_column != NULL;
    if (query->boundary)
        return PAGE_BOUNDARY;
    for (size_t i = 0; !scans && i < source->filter_count; i++)
        scans = query->filters[i].given;
    return scans ? PAGE_FILTERED : PAGE_INDEXED;
}

static struct page_shape page_shape(const struct page_query *query)
{
    return (struct page_shape){.flag = query->flag,
                               .reading = page_reading(query),
                               .way = !query->continues ? PAGE_HEAD
                                      : query->newer    ? PAGE_NEWER
                                                        : PAGE_OLDER};
}

bool page_is_small(const struct page_query *query)
{
    return page_reading(query) == PAGE_INDEXED;
}

const struct db_statement *page_statement(const struct page_query *query)
{
    struct page_shape shape = page_shape(query);
    const struct db_statement *statement =
        &query->statements->texts[shape.flag][shape.reading][shape.way].statement;
    assert(statement->sql != NULL);
    return statement;
}

/* ---- places -------------------------------------------------------------------------------------------- */

int page_position_compare(const struct page_position *a, const struct page_position *b)
{
    if (a->created_at_us != b->created_at_us)
        return a->created_at_us < b->created_at_us ? -1 : 1;
    if (a->instant || b->instant)
        return (int)b->instant - (int)a->instant;
    return source_id_compare(&a->id, &b->id);
}

struct page_position page_position_last(const struct page_position *at)
{
    struct page_position last = *at;
    if (last.instant) {
        last.id = source_id_highest(at->id.type);
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
        at.id = source_id_lowest(at.id.type);
    assert(at.id.type == query->statements->source->id_type);
    db_params_time(params, at.created_at_us);
    source_id_bind(&at.id, params);
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
    const struct source *source = query->statements->source;
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
        for (size_t i = 0; i < source->filter_count; i++)
            source_value_bind(&source->filters[i], &query->filters[i], params);
    }
    if (reading == PAGE_BOUNDARY && query->continues)
        page_bind_snapshot(&query->snapshot, params);
}

enum status page_send(struct db *db, const struct page_query *query, uint64_t tag, struct fault *fault)
{
    struct db_params params;
    page_bind(query, &params);
    const struct db_statement *statement = page_statement(query);
    enum status status = page_is_small(query) ? db_send_joined(db, statement, &params, tag, fault)
                                              : db_send(db, statement, &params, tag, fault);
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

/* Which column of the result holds one of the source's, or one of ours behind them. */
static int page_column(size_t column)
{
    return PAGE_COLUMN_FIRST + (int)column;
}

static int page_own_column(const struct page_query *query, enum page_own own)
{
    const struct source *source = query->statements->source;
    struct page_shape shape = page_shape(query);
    int column = PAGE_COLUMN_FIRST + (int)source->column_count;
    assert(page_has_own(source, &shape, own));
    for (enum page_own before = PAGE_BOUND; before < own; before++)
        column += page_has_own(source, &shape, before);
    return column;
}

static struct source_id page_read_id(enum source_type type, const struct db_result *result, int row,
                                     int column)
{
    struct source_id id = {.type = type};
    if (type == SOURCE_UUID) {
        memcpy(id.uuid.bytes, db_result_uuid(result, row, column), sizeof id.uuid.bytes);
    } else if (type == SOURCE_BIGINT) {
        id.number = db_result_int8(result, row, column);
    } else {
        struct span text = db_result_text(result, row, column);
        assert(text.bytes <= sizeof id.text); /* the statement leaves out longer ones */
        id.bytes = text.bytes;
        memcpy(id.text, text.at, text.bytes);
    }
    return id;
}

static struct page_position page_position_at(const struct page_query *query, const struct db_result *result,
                                             int row)
{
    const struct page_statements *statements = query->statements;
    return (struct page_position){
        .created_at_us = db_result_time(result, row, page_column(statements->created_at)),
        .id = page_read_id(statements->source->id_type, result, row, page_column(statements->id)),
    };
}

static struct page_position page_instant(const struct page_query *query, int64_t created_at_us)
{
    return (struct page_position){
        .created_at_us = created_at_us, .instant = true, .id = {.type = query->statements->source->id_type}};
}

/* Where an older walk turns round: at the newest entry it showed, or above where it stood when it showed
 * none, but never above the bound. No bound (a feed that nothing settled yet): from the beginning. */
static void page_turn_newer(const struct page_query *query, struct page *page)
{
    struct page_position bound =
        page_instant(query, db_result_time(page->result, 0, page_own_column(query, PAGE_BOUND)));
    page->prev = bound;
    page->has_newest = page->count > 0;
    if (page->has_newest)
        page->newest = page_position_at(query, page->result, 0);
    struct page_position top =
        page->has_newest ? page->newest : page_instant(query, query->after.created_at_us);
    if ((page->has_newest || query->continues) && page_position_compare(&top, &bound) < 0)
        page->prev = top;
}

/* Where a newer walk turns round: below the oldest entry it showed, or below where it stood. */
static void page_turn_older(const struct page_query *query, struct page *page)
{
    if (page->count > 0) {
        page->prev = page_position_at(query, page->result, 0);
        return;
    }
    page->prev = page_instant(query, query->after.created_at_us + (query->after.instant ? 0 : 1));
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
static void page_count_rows(const struct page_query *query, const struct db_result *result, struct page *page,
                            int *last)
{
    int rows = db_result_rows(result), limit = query->limit, matched = rows;
    bool scans = page_reading(query) != PAGE_INDEXED;
    /* Only the last row can be one that does not match: the entry at which a scan ended. */
    if (scans && !db_result_bool(result, rows - 1, page_own_column(query, PAGE_MATCHED)))
        matched--;
    if (matched > limit) {
        page->count = limit;
        page->has_more = true;
        *last = limit - 1;
        return;
    }
    page->count = matched;
    page->has_more = scans && db_result_bool(result, rows - 1, page_own_column(query, PAGE_SCAN_END));
    *last = rows - 1;
}

static enum page_access page_read_access(const struct page_query *query, const struct db_result *result)
{
    if (!db_result_bool(result, 0, 0))
        return PAGE_NO_MEMBER;
    bool granted = query->statements->source->role_count == 0 ||
                   db_result_bool(result, 0, page_own_column(query, PAGE_ALLOWED));
    return granted ? PAGE_GRANTED : PAGE_NO_ROLE;
}

/* Rows stand as the walk goes; the statement's order is the index's (page_compose.c). */
static bool page_is_in_order(const struct page_query *query, const struct page *page)
{
    int column = page_column(query->statements->created_at);
    int64_t before = page->ascending ? INT64_MIN : INT64_MAX;
    for (int row = 0; row < page->count; row++) {
        int64_t here = db_result_time(page->result, row, column);
        if (page->ascending ? here < before : here > before)
            return false;
        before = here;
    }
    return true;
}

enum status page_open(const struct page_query *query, const struct db_result *result, struct page *page,
                      struct fault *fault)
{
    const struct page_statements *statements = query->statements;
    int rows = db_result_rows(result), last = -1;
    assert(rows >= 1 && rows <= query->limit + 1);
    struct page opened = {.result = result,
                          .access = page_read_access(query, result),
                          .ascending = query->continues && query->newer};
    if (!db_result_is_null(result, 0, page_column(statements->id)))
        page_count_rows(query, result, &opened, &last);
    if (!page_is_in_order(query, &opened)) {
        fault_set(fault, "internal", "the page's rows are not in order");
        return ST_FATAL;
    }
    opened.has_next = opened.has_more || opened.ascending;
    opened.next = last >= 0 ? page_position_at(query, result, last) : query->after;
    if (opened.ascending)
        page_turn_older(query, &opened);
    else
        page_turn_newer(query, &opened);
    if (query->boundary) {
        opened.cluster = (uint32_t)(uint64_t)db_result_int8(result, 0, page_own_column(query, PAGE_CLUSTER));
        struct span seen = db_result_text(result, 0, page_own_column(query, PAGE_SEEN));
        enum status status = page_read_snapshot(seen, &opened.snapshot, fault);
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
                          .access = db_result_bool(result, 0, 0) ? PAGE_GRANTED : PAGE_NO_MEMBER,
                          .count = !db_result_is_null(result, 0, PAGE_COLUMN_FIRST)};
}

int page_row(const struct page *page, int index)
{
    assert(index >= 0 && index < page->count);
    return page->ascending ? page->count - 1 - index : index;
}
