/* Leases and ids in, rows of settled_outbox out. Always holds: a row leaves only after its record was
 * acknowledged, or by erasure; nothing here puts a row back that is gone. A crash here: the lease runs out,
 * and the next one publishes again what was not removed. */
#include "store/outbox.h"

#include <assert.h>
#include <stdlib.h>

#include "store/lease.h"
#include "store/sql.h"

enum { PARAMS_BYTES_MAX = 64 << 10 };

enum status outbox_lease(struct db *db, int64_t owner, int64_t lease_ms, bool *held, struct fault *fault)
{
    const struct lease lease = {.what = "settled", .owner = owner, .lease_ms = lease_ms};
    return lease_take(db, &lease, held, fault);
}

static bool read_rows(const struct db_result *result, struct outbox_rows *rows)
{
    size_t count = (size_t)db_result_rows(result);
    struct outbox_row *made = arena_array(rows->arena, count, sizeof *made);
    if (made == NULL && count > 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct span record = db_result_text(result, (int)i, 2);
        made[i].id = db_result_int8(result, (int)i, 0);
        made[i].dispatch_id = db_result_int8(result, (int)i, 1);
        made[i].record = (struct span){.at = arena_copy(rows->arena, record), .bytes = record.bytes};
        made[i].first = db_result_bool(result, (int)i, 3);
        if (made[i].record.at == NULL)
            return false;
    }
    rows->rows = made;
    rows->count = count;
    return true;
}

enum status outbox_take(struct db *db, int64_t owner, int64_t after, struct outbox_rows *rows,
                        struct fault *fault)
{
    static const struct db_statement statement = {.name = "outbox_take", .sql = sql_outbox_take};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, owner);
    db_params_int8(&params, after);
    db_params_int4(&params, OUTBOX_ROWS_MAX);
    enum status status = db_run(db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    bool fits = read_rows(result, rows);
    db_result_free(result);
    if (fits)
        return ST_OK;
    fault_set(fault, "memory", "no room for %d settled outcomes", OUTBOX_ROWS_MAX);
    return ST_REJECT;
}

static int ascending(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* In the order in which everybody locks them. */
static void add_ids(struct db_params *params, int64_t *ids, size_t count)
{
    qsort(ids, count, sizeof *ids, ascending);
    db_params_column(params, DB_INT8, &(struct db_rows){ids, count, sizeof *ids}, 0);
}

static void add_fates(struct db_params *params, const struct outbox_rows *rows)
{
    int64_t acked[OUTBOX_ROWS_MAX], firsts[OUTBOX_ROWS_MAX];
    size_t acked_count = 0, first_count = 0;
    assert(rows->count <= OUTBOX_ROWS_MAX);
    for (size_t i = 0; i < rows->count; i++) {
        const struct outbox_row *row = &rows->rows[i];
        if (row->fate == OUTBOX_ACKED)
            acked[acked_count++] = row->id;
        if (row->fate != OUTBOX_WAITS && row->first)
            firsts[first_count++] = row->dispatch_id;
    }
    add_ids(params, acked, acked_count);
    add_ids(params, firsts, first_count);
}

enum status outbox_done(struct db *db, const struct outbox_rows *rows, struct outbox_counts *counts,
                        struct fault *fault)
{
    static const struct db_statement statement = {.name = "outbox_done", .sql = sql_outbox_done};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    add_fates(&params, rows);
    enum status status = db_run(db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    *counts =
        (struct outbox_counts){.gone = db_result_int8(result, 0, 0), .again = db_result_int8(result, 0, 1)};
    db_result_free(result);
    return ST_OK;
}

enum status outbox_oldest(struct db *db, int64_t *age_us, struct fault *fault)
{
    static const struct db_statement statement = {.name = "outbox_oldest", .sql = sql_outbox_oldest};
    return db_run_number(db, &statement, NULL, age_us, fault);
}
