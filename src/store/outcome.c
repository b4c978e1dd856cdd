/* Folded outcomes and offsets in, counts out. Always holds: an offset moves only with the transitions of its
 * records, a row moves only along the table of model/dispatch.c. A crash here: all of it or nothing is
 * committed, and a replay moves nothing twice. */
#include "store/outcome.h"

#include "store/sql.h"

static void add_identities(struct db_params *params, const struct outcome_batch *batch)
{
    db_params_begin(params, DB_INT8);
    for (size_t i = 0; i < batch->item_count; i++)
        db_params_int8(params, batch->items[i].dispatch_id);
    db_params_end(params);
    db_params_begin(params, DB_UUID);
    for (size_t i = 0; i < batch->item_count; i++)
        db_params_uuid(params, batch->items[i].notification_id.bytes);
    db_params_end(params);
    db_params_begin(params, DB_INT8);
    for (size_t i = 0; i < batch->item_count; i++)
        db_params_int8(params, batch->items[i].device_id);
    db_params_end(params);
    db_params_begin(params, DB_INT4);
    for (size_t i = 0; i < batch->item_count; i++)
        db_params_int4(params, batch->items[i].outcomes);
    db_params_end(params);
}

/* State, error and ticket of one of the two ends of every item. */
static void add_ends(struct db_params *params, const struct outcome_batch *batch, size_t which)
{
    db_params_begin(params, DB_TEXT);
    for (size_t i = 0; i < batch->item_count; i++) {
        const struct outcome_end *end = (const void *)((const char *)&batch->items[i] + which);
        db_params_text(params, span_of(end->moves ? dispatch_state_name(end->state) : NULL));
    }
    db_params_end(params);
    db_params_begin(params, DB_TEXT);
    for (size_t i = 0; i < batch->item_count; i++) {
        const struct outcome_end *end = (const void *)((const char *)&batch->items[i] + which);
        db_params_text(params, end->error);
    }
    db_params_end(params);
    db_params_begin(params, DB_TEXT);
    for (size_t i = 0; i < batch->item_count; i++) {
        const struct outcome_end *end = (const void *)((const char *)&batch->items[i] + which);
        db_params_text(params, end->ticket);
    }
    db_params_end(params);
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
    add_identities(params, batch);
    add_ends(params, batch, offsetof(struct outcome_item, queued));
    add_ends(params, batch, offsetof(struct outcome_item, unconfirmed));
    db_params_begin(params, DB_TIME);
    for (size_t i = 0; i < batch->item_count; i++)
        db_params_time(params, batch->items[i].sent_at_us);
    db_params_end(params);
    db_params_int8(params, batch->receipt_delay_ms);
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
