/* Seats and offsets in, the table's word out. A crash here loses nothing: offsets only move by statements
 * that are whole, and a seat taken twice only fences the one before. */
#include "store/offsets.h"

#include <assert.h>

#include "store/sql.h"

static const struct db_statement seat = {"offsets_seat", sql_offsets_seat};
static const struct db_statement start = {"offsets_start", sql_offsets_start};
static const struct db_statement read_rows = {"offsets_read", sql_offsets_read};
static const struct db_statement commit = {"offsets_commit", sql_offsets_commit};
static const struct db_statement seek = {"offsets_seek", sql_offsets_seek};

enum { PARAMS_BYTES_MAX = 1024 * 1024 };

static void add_scope(struct db_params *params, const struct offsets_scope *scope)
{
    db_params_init(params, PARAMS_BYTES_MAX);
    db_params_text(params, span_of(scope->group_id));
    db_params_text(params, span_of(scope->topic));
}

static void add_partitions(struct db_params *params, const struct offsets_seat *seats, size_t count)
{
    struct db_rows rows = {seats, count, sizeof *seats};
    db_params_column(params, DB_INT4, &rows, offsetof(struct offsets_seat, partition));
}

/* Runs an UPDATE that names generations; every row must have been ours. Ends the parameters. */
static enum status run_fenced(struct db *db, const struct db_statement *statement, struct db_params *params,
                              size_t count, struct fault *fault)
{
    struct db_result *result = NULL;
    enum status status = db_run(db, statement, params, &result, fault);
    if (status == ST_OK && db_result_affected(result) != (int64_t)count) {
        fault_set(fault, "fenced", "another process has taken a partition over");
        status = ST_RETRY;
    }
    db_result_free(result);
    db_params_done(params);
    return status;
}

/* Rows (partition, generation, next_offset) into the seats they belong to. */
static void fill_seats(const struct db_result *result, struct offsets_seat *seats, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        seats[i].generation = 0;
        seats[i].next_offset = OFFSET_UNKNOWN;
    }
    for (int row = 0; row < db_result_rows(result); row++) {
        int32_t partition = db_result_int4(result, row, 0);
        size_t i = 0;
        while (i < count && seats[i].partition != partition)
            i++;
        if (i == count)
            continue;
        seats[i].generation = db_result_int8(result, row, 1);
        if (!db_result_is_null(result, row, 2))
            seats[i].next_offset = db_result_int8(result, row, 2);
    }
}

enum status offsets_seat(struct db *db, const struct offsets_scope *scope, struct offsets_seat *seats,
                         size_t count, struct fault *fault)
{
    assert(count <= OFFSET_PARTS_MAX);
    struct db_params params;
    add_scope(&params, scope);
    db_params_int8(&params, scope->owner);
    add_partitions(&params, seats, count);
    struct db_result *result = NULL;
    enum status status = db_run(db, &seat, &params, &result, fault);
    if (status == ST_OK) {
        fill_seats(result, seats, count);
        db_result_free(result);
    }
    db_params_done(&params);
    return status;
}

enum status offsets_read(struct db *db, const struct offsets_scope *scope, struct offsets_seat *seats,
                         size_t count, struct fault *fault)
{
    assert(count <= OFFSET_PARTS_MAX);
    struct db_params params;
    add_scope(&params, scope);
    add_partitions(&params, seats, count);
    struct db_result *result = NULL;
    enum status status = db_run(db, &read_rows, &params, &result, fault);
    if (status == ST_OK) {
        fill_seats(result, seats, count);
        db_result_free(result);
    }
    db_params_done(&params);
    return status;
}

enum status offsets_start(struct db *db, const struct offsets_scope *scope, const struct offsets_seat *seats,
                          size_t count, struct fault *fault)
{
    assert(count <= OFFSET_PARTS_MAX);
    struct db_params params;
    add_scope(&params, scope);
    add_partitions(&params, seats, count);
    struct db_rows rows = {seats, count, sizeof *seats};
    db_params_column(&params, DB_INT8, &rows, offsetof(struct offsets_seat, generation));
    db_params_column(&params, DB_INT8, &rows, offsetof(struct offsets_seat, next_offset));
    return run_fenced(db, &start, &params, count, fault);
}

void offsets_params(struct db_params *params, const struct offsets_part *parts, size_t count)
{
    assert(count >= 1 && count <= OFFSET_PARTS_MAX);
    struct db_rows rows = {parts, count, sizeof *parts};
    db_params_column(params, DB_INT4, &rows, offsetof(struct offsets_part, partition));
    db_params_column(params, DB_INT8, &rows, offsetof(struct offsets_part, generation));
    db_params_column(params, DB_INT8, &rows, offsetof(struct offsets_part, start));
    db_params_column(params, DB_INT8, &rows, offsetof(struct offsets_part, end));
    db_params_column(params, DB_INT8, &rows, offsetof(struct offsets_part, records));
    db_params_column(params, DB_INT8, &rows, offsetof(struct offsets_part, tombstones));
    db_params_column(params, DB_INT8, &rows, offsetof(struct offsets_part, dead_letters));
}

enum status offsets_commit(struct db *db, const struct offsets_scope *scope, const struct offsets_part *parts,
                           size_t count, struct fault *fault)
{
    struct db_params params;
    add_scope(&params, scope);
    db_params_int4(&params, (int32_t)count);
    offsets_params(&params, parts, count);
    struct db_rows rows = {parts, count, sizeof *parts};
    db_params_column(&params, DB_INT8, &rows, offsetof(struct offsets_part, events));
    return run_fenced(db, &commit, &params, count, fault);
}

enum status offsets_seek(struct db *db, const struct offsets_scope *scope, int32_t partition,
                         int64_t next_offset, struct fault *fault)
{
    struct db_params params;
    add_scope(&params, scope);
    db_params_int4(&params, partition);
    db_params_int8(&params, next_offset);
    enum status status = db_run(db, &seek, &params, NULL, fault);
    db_params_done(&params);
    return status;
}

enum offsets_verdict offsets_judge(const struct offsets_part *part, const struct offsets_seat *row)
{
    if (row->generation != part->generation)
        return OFFSETS_LOST;
    if (row->next_offset == part->start)
        return OFFSETS_HELD;
    if (row->next_offset == part->end)
        return OFFSETS_COMMITTED;
    if (row->next_offset != OFFSET_UNKNOWN && row->next_offset < part->start)
        return OFFSETS_WENT_BACK;
    return OFFSETS_LOST; /* moved to where nobody of this generation would: start over */
}
