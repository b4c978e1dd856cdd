/* In: whose export. Out: it, its rows, or what became of it. Always: one statement a question, membership in
 * it; what is another's, or deleted, is not found. A crash here loses one answer. */
#include "store/export.h"

#include <stddef.h>
#include <string.h>

#include "store/sql.h"

enum { PARAMS_BYTES_MAX = 16 * 1024 };

/* Where the export stands in a row; its own columns come behind. */
enum {
    COLUMN_MEMBER,
    COLUMN_ROLE,
    COLUMN_ID,
    COLUMN_FEED,
    COLUMN_FORMAT,
    COLUMN_STATE,
    COLUMN_ROWS,
    COLUMN_BYTES,
    COLUMN_SNAPSHOT,
    COLUMN_SNAPSHOT_AT,
    COLUMN_CREATED_AT,
    COLUMN_FINISHED_AT,
    COLUMN_EXPIRES_AT,
    COLUMN_ERROR,
    COLUMN_FILTERS,
    COLUMN_FILLED_AS,
    COLUMN_OWN
};

static void export_open_alone(const struct db_result *result, int row, struct export *export)
{
    *export = (struct export){.found = !db_result_is_null(result, row, COLUMN_ID)};
    if (!export->found)
        return;
    memcpy(export->id.bytes, db_result_uuid(result, row, COLUMN_ID), sizeof export->id.bytes);
    export->feed = db_result_text(result, row, COLUMN_FEED);
    export->format = db_result_text(result, row, COLUMN_FORMAT);
    export->state = db_result_text(result, row, COLUMN_STATE);
    export->rows = db_result_int8(result, row, COLUMN_ROWS);
    export->bytes = db_result_int8(result, row, COLUMN_BYTES);
    export->snapshot = db_result_text(result, row, COLUMN_SNAPSHOT);
    export->has_snapshot_at = !db_result_is_null(result, row, COLUMN_SNAPSHOT_AT);
    export->snapshot_at_us = db_result_time(result, row, COLUMN_SNAPSHOT_AT);
    export->created_at_us = db_result_time(result, row, COLUMN_CREATED_AT);
    export->has_finished_at = !db_result_is_null(result, row, COLUMN_FINISHED_AT);
    export->finished_at_us = db_result_time(result, row, COLUMN_FINISHED_AT);
    export->has_expires_at = !db_result_is_null(result, row, COLUMN_EXPIRES_AT);
    export->expires_at_us = db_result_time(result, row, COLUMN_EXPIRES_AT);
    export->error = db_result_text(result, row, COLUMN_ERROR);
    export->filters = db_result_text(result, row, COLUMN_FILTERS);
    export->filled_as = db_result_text(result, row, COLUMN_FILLED_AS);
}

void export_open(const struct db_result *result, int row, struct export_asker *asker, struct export *export)
{
    asker->member = db_result_bool(result, row, COLUMN_MEMBER);
    asker->role = db_result_text(result, row, COLUMN_ROLE);
    export_open_alone(result, row, export);
}

static void export_bind(const struct export_query *query, struct db_params *params)
{
    db_params_init(params, PARAMS_BYTES_MAX);
    db_params_text(params, query->workspace_id.bytes == 0 ? (struct span){NULL, 0} : query->workspace_id);
    db_params_text(params, query->user_id);
}

static void export_bind_texts(const char *const *texts, size_t count, struct db_params *params)
{
    db_params_begin(params, DB_TEXT);
    for (size_t i = 0; i < count; i++)
        db_params_text(params, span_of(texts[i]));
    db_params_end(params);
}

static enum status export_send(struct db *db, const struct db_statement *statement, struct db_params *params,
                               uint64_t tag, struct fault *fault)
{
    enum status status = db_send(db, statement, params, tag, fault);
    db_params_done(params);
    return status;
}

enum status export_create_send(struct db *db, const struct export_order *order, uint64_t tag,
                               struct fault *fault)
{
    static const struct db_statement statement = {"export_create", sql_export_create};
    const struct source *source = order->source;
    struct db_params params;
    export_bind(&order->of, &params);
    db_params_text(&params, span_of(source->name));
    db_params_json(&params, order->filters);
    db_params_text(&params, order->format);
    db_params_text(&params, order->key);
    db_params_bytea(&params, order->hash);
    db_params_bool(&params, source->auth == SOURCE_MEMBER);
    export_bind_texts(source->roles, source->role_count, &params);
    db_params_int8(&params, order->open_max);
    db_params_int8(&params, order->stored_max);
    db_params_int8(&params, order->stored_bytes_max);
    if (order->fill)
        db_params_int8(&params, order->owner);
    else
        db_params_null(&params, DB_INT8);
    db_params_int8(&params, order->lease_ms);
    return export_send(db, &statement, &params, tag, fault);
}

struct export_created export_created_open(const struct db_result *result)
{
    return (struct export_created){.fresh = db_result_bool(result, 0, COLUMN_OWN),
                                   .same = db_result_bool(result, 0, COLUMN_OWN + 1),
                                   .too_many = db_result_bool(result, 0, COLUMN_OWN + 2),
                                   .room_ms = db_result_int8(result, 0, COLUMN_OWN + 3)};
}

enum status export_list_send(struct db *db, const struct export_query *query, uint64_t tag,
                             struct fault *fault)
{
    static const struct db_statement statement = {"export_list", sql_export_list};
    struct db_params params;
    export_bind(query, &params);
    db_params_int8(&params, EXPORT_LIST_MAX);
    return export_send(db, &statement, &params, tag, fault);
}

enum status export_delete_send(struct db *db, const struct export_query *query,
                               const struct export_feeds *open_feeds, uint64_t tag, struct fault *fault)
{
    static const struct db_statement statement = {"export_delete", sql_export_delete};
    struct db_params params;
    export_bind(query, &params);
    db_params_uuid(&params, query->id.bytes);
    export_bind_texts(open_feeds->names, open_feeds->count, &params);
    return export_send(db, &statement, &params, tag, fault);
}

bool export_is_deleted(const struct db_result *result)
{
    return !db_result_is_null(result, 0, COLUMN_ID);
}

enum status export_rows_send(struct db *db, const struct export_query *query,
                             const struct export_range *range, uint64_t tag, struct fault *fault)
{
    static const struct db_statement statement = {"export_rows", sql_export_rows};
    struct db_params params;
    export_bind(query, &params);
    db_params_uuid(&params, query->id.bytes);
    db_params_int8(&params, range->after);
    db_params_int8(&params, range->rows_max);
    db_params_int8(&params, range->bytes_max);
    return export_send(db, &statement, &params, tag, fault);
}

int export_row_count(const struct db_result *result)
{
    return db_result_is_null(result, 0, COLUMN_OWN) ? 0 : db_result_rows(result);
}

struct span export_row(const struct db_result *result, int row, int64_t *ordinal)
{
    *ordinal = db_result_int8(result, row, COLUMN_OWN);
    return db_result_text(result, row, COLUMN_OWN + 1);
}

enum status export_take_send(struct db *db, const struct export_lease *lease,
                             const struct export_feeds *served, struct fault *fault)
{
    static const struct db_statement statement = {"export_take", sql_export_take};
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, lease->owner);
    db_params_int8(&params, lease->lease_ms);
    export_bind_texts(served->names, served->count, &params);
    db_params_int8(&params, lease->life_ms);
    db_params_int4(&params, EXPORT_TRIES_MAX);
    return export_send(db, &statement, &params, 0, fault);
}

void export_taken_open(const struct db_result *result, struct export_taken *taken)
{
    export_open_alone(result, 0, &taken->export);
    taken->oldest_s = db_result_int8(result, 0, COLUMN_MEMBER);
    taken->workspace_id = db_result_text(result, 0, COLUMN_OWN);
    taken->user_id = db_result_text(result, 0, COLUMN_OWN + 1);
}

struct export_filled export_filled_open(const struct db_result *result)
{
    if (db_result_rows(result) == 0)
        return (struct export_filled){.mine = false};
    return (struct export_filled){.mine = true,
                                  .state = db_result_text(result, 0, 0),
                                  .error = db_result_text(result, 0, 1),
                                  .rows = db_result_int8(result, 0, 2),
                                  .bytes = db_result_int8(result, 0, 3)};
}

enum status export_end_send(struct db *db, const struct uuid *id, const struct export_lease *lease,
                            const char *error, struct fault *fault)
{
    static const struct db_statement statement = {"export_end", sql_export_end};
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_uuid(&params, id->bytes);
    db_params_int8(&params, lease->owner);
    db_params_text(&params, span_of(error));
    db_params_int8(&params, lease->life_ms);
    return export_send(db, &statement, &params, 0, fault);
}
