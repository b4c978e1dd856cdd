/* The statements of fan-out, each with its one function. In: ids and ordinals; out: rows as they are now.
 * Always holds: a row of `batches` changes only where it names us as its owner, or is free. A crash here: a
 * statement is done or not; the sweeper of another process sees which by `unsent` and the dispatches' states.
 */
#include "store/window.h"

#include "store/sql.h"

static void add_ids(struct db_params *params, const int64_t *ids, size_t count)
{
    db_params_column(params, DB_INT8, &(struct db_rows){ids, count, sizeof *ids}, 0);
}

static void add_ranges(struct db_params *params, const struct window_range *ranges, size_t count)
{
    struct db_rows rows = {ranges, count, sizeof *ranges};
    db_params_column(params, DB_INT8, &rows, offsetof(struct window_range, batch_id));
    db_params_column(params, DB_INT4, &rows, offsetof(struct window_range, first));
    db_params_column(params, DB_INT4, &rows, offsetof(struct window_range, stop));
}

/* Every statement but window_recipients begins with the owner. */
static struct db_params *begin(const struct window_scope *scope)
{
    db_params_reset(scope->params);
    db_params_int8(scope->params, scope->owner);
    return scope->params;
}

/* ---- batches ------------------------------------------------------------------------------------------- */

enum status batch_take(const struct window_scope *scope, const struct batch_query *query,
                       struct db_result **rows, struct fault *fault)
{
    static const struct db_statement statement = {.name = "batch_take", .sql = sql_batch_take};
    struct db_params *params = begin(scope);
    db_params_int8(params, scope->lease_ms);
    db_params_int8(params, (int64_t)query->count_max);
    db_params_bool(params, query->urgent_only);
    add_ids(params, query->held, query->held_count);
    db_params_bool(params, query->left_only);
    db_params_bool(params, query->others);
    return db_run(scope->db, &statement, params, rows, fault);
}

enum status batches_oldest(struct db *db, int64_t *urgent_us, int64_t *normal_us, struct fault *fault)
{
    static const struct db_statement statement = {.name = "batches_oldest", .sql = sql_batches_oldest};
    struct db_result *result = NULL;
    enum status status = db_run(db, &statement, NULL, &result, fault);
    if (status != ST_OK)
        return status;
    *urgent_us = db_result_int8(result, 0, 0);
    *normal_us = db_result_int8(result, 0, 1);
    db_result_free(result);
    return ST_OK;
}

void batch_take_row(const struct db_result *rows, int row, struct batch_row *batch)
{
    *batch = (struct batch_row){.range = {.batch_id = db_result_int8(rows, row, 0),
                                          .first = db_result_int4(rows, row, 3),
                                          .stop = db_result_int4(rows, row, 4)},
                                .urgent = db_result_bool(rows, row, 1),
                                .had_owner = db_result_bool(rows, row, 2)};
}

enum status batch_renew(const struct window_scope *scope, const int64_t *ids, size_t count,
                        struct db_result **rows, struct fault *fault)
{
    static const struct db_statement statement = {.name = "batch_lease_renew", .sql = sql_batch_lease_renew};
    struct db_params *params = begin(scope);
    db_params_int8(params, scope->lease_ms);
    add_ids(params, ids, count);
    return db_run(scope->db, &statement, params, rows, fault);
}

enum status batch_finish(const struct window_scope *scope, const int64_t *ids, size_t count,
                         int64_t *finished, struct fault *fault)
{
    static const struct db_statement statement = {.name = "batch_finish", .sql = sql_batch_finish};
    struct db_params *params = begin(scope);
    add_ids(params, ids, count);
    return db_run_counted(scope->db, &statement, params, finished, fault);
}

enum status batch_release(const struct window_scope *scope, const struct batch_releases *releases,
                          struct fault *fault)
{
    static const struct db_statement statement = {.name = "batch_release", .sql = sql_batch_release};
    struct db_params *params = begin(scope);
    struct db_rows rows = {releases->batches, releases->count, sizeof *releases->batches};
    db_params_column(params, DB_INT8, &rows, offsetof(struct batch_release, batch_id));
    db_params_column(params, DB_BOOL, &rows, offsetof(struct batch_release, settled));
    add_ranges(params, releases->ranges, releases->range_count);
    db_params_int8(params, releases->pause_ms);
    return db_run(scope->db, &statement, params, NULL, fault);
}

/* ---- windows ------------------------------------------------------------------------------------------- */

enum status window_recipients(const struct window_scope *scope, const struct window_range *ranges,
                              size_t range_count, struct db_result **rows, struct fault *fault)
{
    static const struct db_statement statement = {.name = "window_recipients", .sql = sql_window_recipients};
    db_params_reset(scope->params);
    add_ranges(scope->params, ranges, range_count);
    return db_run(scope->db, &statement, scope->params, rows, fault);
}

enum status window_take(const struct window_scope *scope, const struct window_range *ranges,
                        size_t range_count, struct db_result **rows, struct fault *fault)
{
    static const struct db_statement statement = {.name = "window_take", .sql = sql_window_take};
    struct db_params *params = begin(scope);
    add_ranges(params, ranges, range_count);
    db_params_int8(params, scope->lease_ms);
    db_params_int8(params, scope->push_max_age_ms);
    return db_run(scope->db, &statement, params, rows, fault);
}

enum status window_put_back(const struct window_scope *scope, const struct window_range *ranges,
                            size_t range_count, struct db_result **rows, struct fault *fault)
{
    static const struct db_statement statement = {.name = "window_put_back", .sql = sql_window_put_back};
    struct db_params *params = begin(scope);
    add_ranges(params, ranges, range_count);
    return db_run(scope->db, &statement, params, rows, fault);
}

static struct uuid uuid_at(const struct db_result *rows, int row, int column)
{
    struct uuid id = {{0}};
    const unsigned char *bytes = db_result_uuid(rows, row, column);
    if (bytes != NULL)
        memcpy(id.bytes, bytes, sizeof id.bytes);
    return id;
}

/* Dispatch, notification, device, workspace, recipient, traceparent: from this column on. */
static void read_identity(const struct db_result *rows, int row, int column, struct window_row *window)
{
    window->has_dispatch = !db_result_is_null(rows, row, column) && !db_result_is_null(rows, row, column + 3);
    window->dispatch_id = db_result_int8(rows, row, column);
    window->notification_id = uuid_at(rows, row, column + 1);
    window->device_id = db_result_int8(rows, row, column + 2);
    window->workspace_id = db_result_text(rows, row, column + 3);
    window->recipient_user_id = db_result_text(rows, row, column + 4);
    window->traceparent = db_result_text(rows, row, column + 5);
}

void window_take_row(const struct db_result *rows, int row, struct window_row *window)
{
    *window = (struct window_row){
        .batch_id = db_result_int8(rows, row, 0),
        .urgent = db_result_bool(rows, row, 1),
        .suppressed = db_result_text(rows, row, 8),
        .token = db_result_text(rows, row, 9),
        .title = db_result_text(rows, row, 10),
        .body = db_result_text(rows, row, 11),
        .data = db_result_text(rows, row, 12),
        .category = db_result_text(rows, row, 14),
        .push = db_result_text(rows, row, 15),
        .expires_at = {.given = !db_result_is_null(rows, row, 13), .us = db_result_time(rows, row, 13)}};
    read_identity(rows, row, 2, window);
}

enum status batch_risked(const struct window_scope *scope, const struct risked_query *query,
                         struct db_result **rows, struct fault *fault)
{
    static const struct db_statement statement = {.name = "batch_risked", .sql = sql_batch_risked};
    struct db_params *params = begin(scope);
    db_params_int8(params, query->batch_id);
    db_params_int8(params, query->after_id);
    db_params_int8(params, (int64_t)query->count_max);
    return db_run(scope->db, &statement, params, rows, fault);
}

void batch_risked_row(const struct db_result *rows, int row, struct window_row *window)
{
    *window = (struct window_row){.batch_id = db_result_int8(rows, row, 0)};
    read_identity(rows, row, 1, window);
}
