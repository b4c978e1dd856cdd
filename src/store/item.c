/* In: whose notification. Out: it, or how many are unread. Always: one statement, membership in it. A crash
 * here loses one answer; a mark is there or not, and may be set again. */
#include "store/item.h"

#include "store/sql.h"

enum { PARAMS_BYTES_MAX = 4 * 1024 };

static void item_bind_scope(struct db_params *params, struct span workspace_id, struct span user_id)
{
    db_params_init(params, PARAMS_BYTES_MAX);
    db_params_text(params, workspace_id);
    db_params_text(params, user_id);
}

enum status item_send(struct db *db, const struct item_query *query, enum item_mark mark, uint64_t tag,
                      struct fault *fault)
{
    static const struct db_statement look = {"item", sql_item}, write = {"item_mark", sql_item_mark};
    struct db_params params;
    item_bind_scope(&params, query->workspace_id, query->user_id);
    db_params_uuid(&params, query->id.bytes);
    if (mark != ITEM_LOOK)
        db_params_bool(&params, mark == ITEM_READ);
    enum status status = db_send(db, mark == ITEM_LOOK ? &look : &write, &params, tag, fault);
    db_params_done(&params);
    return status;
}

enum status item_unread_send(struct db *db, const struct item_query *query, uint64_t tag, struct fault *fault)
{
    static const struct db_statement statement = {"unread_count", sql_unread_count};
    struct db_params params;
    item_bind_scope(&params, query->workspace_id, query->user_id);
    db_params_int8(&params, ITEM_UNREAD_MAX + 1);
    enum status status = db_send(db, &statement, &params, tag, fault);
    db_params_done(&params);
    return status;
}

struct item_unread item_unread_open(const struct db_result *result)
{
    int64_t count = db_result_int8(result, 0, 1);
    bool capped = count > ITEM_UNREAD_MAX;
    return (struct item_unread){.member = db_result_bool(result, 0, 0),
                                .count = capped ? ITEM_UNREAD_MAX : (int)count,
                                .capped = capped};
}

enum status item_read_up_to_send(struct db *db, const struct page_query *query,
                                 const struct page_position *up_to, uint64_t tag, struct fault *fault)
{
    static const struct db_statement statement = {"read_up_to", sql_read_up_to};
    struct page_position at = page_position_last(up_to);
    struct db_params params;
    item_bind_scope(&params, query->workspace_id, query->user_id);
    db_params_int8(&params, ITEM_MARKED_MAX);
    db_params_time(&params, at.created_at_us);
    source_id_bind(&at.id, &params);
    for (size_t i = 0; i < source_notifications.filter_count; i++)
        source_value_bind(&source_notifications.filters[i], &query->filters[i], &params);
    enum status status = db_send(db, &statement, &params, tag, fault);
    db_params_done(&params);
    return status;
}

struct item_marked item_marked_open(const struct db_result *result)
{
    return (struct item_marked){.member = db_result_bool(result, 0, 0),
                                .marked = db_result_int8(result, 0, 1),
                                .more = db_result_bool(result, 0, 2)};
}
