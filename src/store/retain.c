/* A place in a table and an age in, how far the walk got and what it removed out. Always holds: a step is one
 * statement, and what it removes is counted in it. A crash here loses the place only: the next walk begins
 * anew, and finds what is left. */
#include "store/retain.h"

#include <string.h>

#include "store/sql.h"

enum { PARAMS_BYTES_MAX = 1024 };

static enum status run(struct db *db, const struct db_statement *statement, struct db_params *params,
                       struct db_result **result, struct fault *fault)
{
    enum status status = db_run(db, statement, params, result, fault);
    db_params_done(params);
    return status;
}

/* Columns seen, removed, oldest stand together. */
static struct retain_step step_at(const struct db_result *result, int column)
{
    return (struct retain_step){.seen = db_result_int8(result, 0, column),
                                .removed = db_result_int8(result, 0, column + 1),
                                .oldest_us = db_result_int8(result, 0, column + 2)};
}

enum status retain_dispatches(struct db *db, struct retain_dispatches *walk, struct retain_step *step,
                              struct fault *fault)
{
    static const struct db_statement statement = {.name = "retain_dispatches", .sql = sql_retain_dispatches};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, walk->after);
    db_params_int4(&params, walk->rows_max);
    db_params_int8(&params, walk->retention_ms);
    db_params_int8(&params, walk->unsettled_ms);
    enum status status = run(db, &statement, &params, &result, fault);
    if (status != ST_OK)
        return status;
    if (!db_result_is_null(result, 0, 0))
        walk->after = db_result_int8(result, 0, 0);
    *step = step_at(result, 1);
    walk->held_batches = db_result_int8(result, 0, 4);
    walk->held_receipts = db_result_int8(result, 0, 5);
    walk->held_unsettled = db_result_int8(result, 0, 6);
    walk->unsettled = db_result_int8(result, 0, 7);
    db_result_free(result);
    return ST_OK;
}

enum status retain_notifications(struct db *db, struct retain_notifications *walk, struct retain_step *step,
                                 struct fault *fault)
{
    static const struct db_statement statement = {.name = "retain_notifications",
                                                  .sql = sql_retain_notifications};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_uuid(&params, walk->after.bytes);
    db_params_int4(&params, walk->rows_max);
    db_params_int8(&params, walk->retention_ms);
    enum status status = run(db, &statement, &params, &result, fault);
    if (status != ST_OK)
        return status;
    if (!db_result_is_null(result, 0, 0))
        memcpy(walk->after.bytes, db_result_uuid(result, 0, 0), sizeof walk->after.bytes);
    *step = step_at(result, 1);
    walk->held = db_result_int8(result, 0, 4);
    db_result_free(result);
    return ST_OK;
}

static enum status run_heap(struct db *db, const struct db_statement *statement, struct retain_heap *walk,
                            struct retain_step *step, struct fault *fault)
{
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, walk->block);
    db_params_int8(&params, walk->step_blocks);
    db_params_int8(&params, walk->keep_ms);
    enum status status = run(db, statement, &params, &result, fault);
    if (status != ST_OK)
        return status;
    walk->block += walk->step_blocks;
    walk->blocks = db_result_int8(result, 0, 0);
    *step = step_at(result, 1);
    db_result_free(result);
    return ST_OK;
}

enum status retain_keys(struct db *db, struct retain_heap *walk, struct retain_step *step,
                        struct fault *fault)
{
    static const struct db_statement statement = {.name = "retain_keys", .sql = sql_retain_keys};
    return run_heap(db, &statement, walk, step, fault);
}

enum status retain_replays(struct db *db, struct retain_heap *walk, struct retain_step *step,
                           struct fault *fault)
{
    static const struct db_statement statement = {.name = "retain_replays", .sql = sql_retain_replays};
    return run_heap(db, &statement, walk, step, fault);
}

enum status retain_tokens(struct db *db, struct retain_heap *walk, struct retain_step *step,
                          struct fault *fault)
{
    static const struct db_statement statement = {.name = "retain_tokens", .sql = sql_retain_tokens};
    return run_heap(db, &statement, walk, step, fault);
}

enum status retain_exports_expire(struct db *db, int32_t rows_max, int64_t *expired, struct fault *fault)
{
    static const struct db_statement statement = {.name = "retain_exports_expire",
                                                  .sql = sql_retain_exports_expire};
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int4(&params, rows_max);
    enum status status = db_run_counted(db, &statement, &params, expired, fault);
    db_params_done(&params);
    return status;
}

enum status retain_export_rows(struct db *db, int32_t rows_max, int64_t *removed, struct fault *fault)
{
    static const struct db_statement statement = {.name = "retain_export_rows",
                                                  .sql = sql_retain_export_rows};
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int4(&params, rows_max);
    enum status status = db_run_counted(db, &statement, &params, removed, fault);
    db_params_done(&params);
    return status;
}

enum status retain_exports(struct db *db, int32_t rows_max, int64_t keep_ms, struct retain_step *step,
                           struct fault *fault)
{
    static const struct db_statement statement = {.name = "retain_exports", .sql = sql_retain_exports};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int4(&params, rows_max);
    db_params_int8(&params, keep_ms);
    enum status status = run(db, &statement, &params, &result, fault);
    if (status != ST_OK)
        return status;
    *step = step_at(result, 0);
    db_result_free(result);
    return ST_OK;
}

enum status retain_batches(struct db *db, struct retain_batches *walk, struct retain_step *step,
                           struct fault *fault)
{
    static const struct db_statement statement = {.name = "retain_batches", .sql = sql_retain_batches};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, walk->after);
    db_params_int4(&params, walk->rows_max);
    db_params_int8(&params, walk->overdue_ms);
    enum status status = run(db, &statement, &params, &result, fault);
    if (status != ST_OK)
        return status;
    if (!db_result_is_null(result, 0, 0))
        walk->after = db_result_int8(result, 0, 0);
    *step = step_at(result, 1);
    db_result_free(result);
    return ST_OK;
}
