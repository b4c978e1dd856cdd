/* Leased batches in, their `sent` dispatches out, findings back. Always holds: a dispatch moves only from
 * `sent` with the ticket that was asked for; a batch leaves the queue only at the version it was leased at
 * with nothing `sent` in it. A crash here leaves a lease that runs out: the next pass asks again. */
#include "store/receipt.h"

#include <assert.h>

#include "store/sql.h"

enum { PARAMS_BYTES_MAX = 8 << 20 };

static void add_batches(struct db_params *params, const struct receipt_lease *lease, size_t member)
{
    db_params_column(params, DB_INT8, &(struct db_rows){lease->batches, lease->count, sizeof *lease->batches},
                     member);
}

static void add_batch_ids(struct db_params *params, const struct receipt_lease *lease)
{
    add_batches(params, lease, offsetof(struct receipt_batch, batch_id));
}

enum status receipt_lease(struct db *db, struct receipt_lease *lease, struct fault *fault)
{
    static const struct db_statement statement = {.name = "receipts_lease", .sql = sql_receipts_lease};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, lease->owner);
    db_params_int8(&params, lease->lease_ms);
    db_params_int4(&params, RECEIPT_BATCHES_MAX);
    enum status status = db_run(db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    lease->count = (size_t)db_result_rows(result);
    assert(lease->count <= RECEIPT_BATCHES_MAX);
    for (size_t i = 0; i < lease->count; i++) {
        lease->batches[i].batch_id = db_result_int8(result, (int)i, 0);
        lease->batches[i].version = db_result_int8(result, (int)i, 1);
    }
    db_result_free(result);
    return ST_OK;
}

enum status receipt_renew(struct db *db, const struct receipt_lease *lease, int64_t *held,
                          struct fault *fault)
{
    static const struct db_statement statement = {.name = "receipts_renew", .sql = sql_receipts_renew};
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, lease->owner);
    db_params_int8(&params, lease->lease_ms);
    add_batch_ids(&params, lease);
    enum status status = db_run_counted(db, &statement, &params, held, fault);
    db_params_done(&params);
    return status;
}

static bool copy_text(struct arena *arena, struct span from, struct span *to)
{
    to->at = arena_copy(arena, from);
    to->bytes = from.bytes;
    return to->at != NULL;
}

enum status receipt_due(struct db *db, const struct receipt_lease *lease, struct span after,
                        struct receipt_rows *rows, struct fault *fault)
{
    static const struct db_statement statement = {.name = "receipts_due", .sql = sql_receipts_due};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    add_batch_ids(&params, lease);
    db_params_text(&params, after);
    db_params_int4(&params, RECEIPT_ROWS_MAX);
    enum status status = db_run(db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    size_t count = (size_t)db_result_rows(result);
    struct receipt_due *made = arena_array(rows->arena, count, sizeof *made);
    bool fits = made != NULL || count == 0;
    for (size_t i = 0; fits && i < count; i++) {
        made[i].dispatch_id = db_result_int8(result, (int)i, 0);
        fits = copy_text(rows->arena, db_result_text(result, (int)i, 1), &made[i].ticket) &&
               copy_text(rows->arena, db_result_text(result, (int)i, 2), &made[i].token);
    }
    db_result_free(result);
    if (!fits) {
        fault_set(fault, "memory", "no room for %zu due receipts", count);
        return ST_REJECT;
    }
    rows->rows = made;
    rows->count = count;
    return ST_OK;
}

static void add_findings(struct db_params *params, const struct receipt_finding *findings, size_t count)
{
    struct db_rows rows = {findings, count, sizeof *findings};
    db_params_column(params, DB_INT8, &rows, offsetof(struct receipt_finding, dispatch_id));
    db_params_column(params, DB_TEXT, &rows, offsetof(struct receipt_finding, ticket));
    db_params_begin(params, DB_TEXT);
    for (size_t i = 0; i < count; i++) {
        const char *state = findings[i].settled ? dispatch_state_name(findings[i].state) : NULL;
        assert(!findings[i].settled || dispatch_may_move(DISPATCH_SENT, NULL, findings[i].state, NULL));
        db_params_text(params, span_of(state));
    }
    db_params_end(params);
    db_params_begin(params, DB_TEXT);
    for (size_t i = 0; i < count; i++) {
        bool named = findings[i].settled && findings[i].error.bytes > 0;
        db_params_text(params, named ? findings[i].error : (struct span){NULL, 0});
    }
    db_params_end(params);
}

enum status receipt_apply(struct db *db, const struct receipt_answer *answer, struct receipt_counts *counts,
                          struct fault *fault)
{
    static const struct db_statement statement = {.name = "receipts_apply", .sql = sql_receipts_apply};
    struct db_result *result = NULL;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    add_findings(&params, answer->findings, answer->count);
    db_params_int8(&params, answer->max_age_ms);
    db_params_bool(&params, answer->announce);
    enum status status = db_run(db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    *counts = (struct receipt_counts){.delivered = db_result_int8(result, 0, 0),
                                      .receipt_error = db_result_int8(result, 0, 1),
                                      .expired = db_result_int8(result, 0, 2),
                                      .disabled = db_result_int8(result, 0, 3)};
    db_result_free(result);
    return ST_OK;
}

enum status receipt_expire(struct db *db, const struct receipt_lease *lease, int64_t max_age_ms,
                           int64_t *expired, struct fault *fault)
{
    static const struct db_statement statement = {.name = "receipts_expire", .sql = sql_receipts_expire};
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    add_batch_ids(&params, lease);
    db_params_int8(&params, max_age_ms);
    db_params_bool(&params, lease->announce);
    enum status status = db_run_number(db, &statement, &params, expired, fault);
    db_params_done(&params);
    return status;
}

enum status receipt_finish(struct db *db, const struct receipt_lease *lease, int64_t interval_ms,
                           int64_t *done, struct fault *fault)
{
    static const struct db_statement statement = {.name = "receipts_finish", .sql = sql_receipts_finish};
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_int8(&params, lease->owner);
    add_batch_ids(&params, lease);
    add_batches(&params, lease, offsetof(struct receipt_batch, version));
    db_params_int8(&params, interval_ms);
    enum status status = db_run_number(db, &statement, &params, done, fault);
    db_params_done(&params);
    return status;
}

enum status receipts_oldest(struct db *db, int64_t *due_us, struct fault *fault)
{
    static const struct db_statement statement = {.name = "receipts_oldest", .sql = sql_receipts_oldest};
    return db_run_number(db, &statement, NULL, due_us, fault);
}
