/* In: which page of whose feed. Out: its entries, whether there are more, and where the next page begins.
 * Always: limit + 1 rows at most come back, so has_more is known without a count, and the position is that
 * of the last entry returned (or read, when a filter without an index ran into scan_max), never of the extra
 * one. A crash here loses one answer; nothing is written. */
#include "store/page.h"

#include <assert.h>

#include "store/sql.h"

/* The columns of every page statement, in order. */
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
    COLUMN_SCAN_END
};

enum { PARAMS_BYTES_MAX = 16 * 1024 };

static bool page_scans(const struct page_query *query)
{
    return query->category.at != NULL || query->event_type.at != NULL;
}

const struct db_statement *page_statement(const struct page_query *query)
{
    static const struct db_statement statements[2][2][2] = {
        {{{"page_head", sql_page_head}, {"page_older", sql_page_older}},
         {{"page_scan_head", sql_page_scan_head}, {"page_scan_older", sql_page_scan_older}}},
        {{{"page_unread_head", sql_page_unread_head}, {"page_unread_older", sql_page_unread_older}},
         {{"page_unread_scan_head", sql_page_unread_scan_head},
          {"page_unread_scan_older", sql_page_unread_scan_older}}}};
    return &statements[query->unread][page_scans(query)][query->continues];
}

static void page_bind(const struct page_query *query, struct db_params *params)
{
    assert(query->limit >= 1 && query->limit <= PAGE_LIMIT_MAX);
    db_params_init(params, PARAMS_BYTES_MAX);
    db_params_text(params, query->workspace_id);
    db_params_text(params, query->user_id);
    db_params_int8(params, query->limit + 1);
    if (query->continues) {
        db_params_time(params, query->after.created_at_us);
        db_params_uuid(params, query->after.id.bytes);
    }
    if (page_scans(query)) {
        assert(query->scan_max > 0);
        db_params_int8(params, query->scan_max);
        db_params_text(params, query->category);
        db_params_text(params, query->event_type);
    }
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

static struct page_position page_position_at(const struct db_result *result, int row)
{
    struct page_position at = {.created_at_us = db_result_time(result, row, COLUMN_CREATED_AT)};
    memcpy(at.id.bytes, db_result_uuid(result, row, COLUMN_ID), DB_UUID_BYTES);
    return at;
}

void page_open(const struct db_result *result, int limit, struct page *page)
{
    int rows = db_result_rows(result);
    assert(rows >= 1 && rows <= limit + 1);
    *page = (struct page){.result = result, .member = db_result_bool(result, 0, COLUMN_MEMBER)};
    if (db_result_is_null(result, 0, COLUMN_ID))
        return;
    /* Only the last row can be one that does not match: the entry at which a scan ended. */
    int last = rows - 1;
    int matched = db_result_bool(result, last, COLUMN_MATCHED) ? rows : last;
    if (matched > limit) {
        page->count = limit;
        page->has_more = true;
        page->next = page_position_at(result, limit - 1);
        return;
    }
    page->count = matched;
    page->has_more = db_result_bool(result, last, COLUMN_SCAN_END);
    if (page->has_more)
        page->next = page_position_at(result, last);
}

struct page_entry page_entry_at(const struct page *page, int index)
{
    const struct db_result *result = page->result;
    assert(index >= 0 && index < page->count);
    struct page_position at = page_position_at(result, index);
    return (struct page_entry){
        .id = at.id,
        .event_type = db_result_text(result, index, COLUMN_EVENT_TYPE),
        .category = db_result_text(result, index, COLUMN_CATEGORY),
        .title = db_result_text(result, index, COLUMN_TITLE),
        .body = db_result_text(result, index, COLUMN_BODY),
        .data = db_result_text(result, index, COLUMN_DATA),
        .created_at_us = at.created_at_us,
        .occurred = !db_result_is_null(result, index, COLUMN_OCCURRED_AT),
        .read = !db_result_is_null(result, index, COLUMN_READ_AT),
        .occurred_at_us = db_result_time(result, index, COLUMN_OCCURRED_AT),
        .read_at_us = db_result_time(result, index, COLUMN_READ_AT),
    };
}
