/* Folded outcomes and offsets in, counts out. Always holds: an offset moves only with the transitions of its
 * records, a row moves only along the table of model/dispatch.c. A crash here: all of it or nothing is
 * committed, and a replay moves nothing twice. */
#include "store/outcome.h"

#include "store/sql.h"

/* State, error and ticket of one of the two ends of every item. */
static void add_ends(struct db_params *params, const struct db_rows *items, size_t which)
{
    db_params_begin(params, DB_TEXT);
    for (size_t i = 0; i < items->count; i++) {
        const struct outcome_end *end = (const void *)((const char *)items->at + i * items->bytes + which);
        db_params_text(params, span_of(end->moves ? dispatch_state_name(end->state) : NULL));
    }
    db_params_end(params);
    db_params_column(params, DB_TEXT, items, which + offsetof(struct outcome_end, error));
    db_params_column(params, DB_TEXT, items, which + offsetof(struct outcome_end, ticket));
}

static void add_items(struct db_params *params, const struct outcome_batch *batch)
{
    struct db_rows items = {batch->items, batch->item_count, sizeof *batch->items};
    db_params_column(params, DB_INT8, &items, offsetof(struct outcome_item, dispatch_id));
    db_params_column(params, DB_UUID, &items, offsetof(struct outcome_item, notification_id));
    db_params_column(params, DB_INT8, &items, offsetof(struct outcome_item, device_id));
    db_params_column(params, DB_INT4, &items, offsetof(struct outcome_item, outcomes));
    add_ends(params, &items, offsetof(struct outcome_item, queued));
    add_ends(params, &items, offsetof(struct outcome_item, unconfirmed));
    db_params_column(params, DB_TIME, &items, offsetof(struct outcome_item, sent_at_us));
}

enum status outcome_apply(struct db *db, struct db_params *params, const struct outcome_batch *batch,
                          struct outcome_counts *counts, struct fault *fault)
{
    static const struct db_statement statement = {.name = "outcome_apply", .sql = sql_outcome_apply};
    struct db_result *result = NULL;
    db_params_reset(params);
    db_params_text(params, span_of(batch->scope->group_id));
    db_params_text(params, span_of(batch->scope->topic));
    offsets_params(params, batch->parts, batch->part_count);
    add_items(params, batch);
    db_params_int8(params, batch->receipt_delay_ms);
    db_params_bool(params, batch->announce);
    enum status status = db_run(db, &statement, params, &result, fault);
    if (status != ST_OK)
        return status;
    *counts = (struct outcome_counts){.held = db_result_bool(result, 0, 0),
                                      .sent = db_result_int8(result, 0, 1),
                                      .failed = db_result_int8(result, 0, 2),
                                      .suppressed = db_result_int8(result, 0, 3),
                                      .ignored = db_result_int8(result, 0, 4),
                                      .orphans = db_result_int8(result, 0, 5),
                                      .disabled = db_result_int8(result, 0, 6)};
    db_result_free(result);
    return ST_OK;
}
