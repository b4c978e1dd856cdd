/* A batch of parsed outcomes -> one statement, or several halves of it where the database refuses one record.
 * Always holds: parts are runs in offset order for each partition, each beginning where the table stands; a
 * record that is refused alone becomes a dead letter, and is acknowledged before its offset moves.
 * A crash here: what was committed is passed, the rest comes again. */
#include "drain.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "reconcile/fold.h"

enum { STATEMENT_TIMEOUT_MS = 20 * 1000, PATIENCE_TRIES = 3 };

void batch_drop(struct drain *drain)
{
    for (size_t i = 0; i < drain->batch.count; i++)
        kafka_record_release(&drain->batch.records[i].record);
    drain->batch.count = drain->batch.applied = drain->batch.bytes = 0;
    drain->batch.width = 0;
    drain->batch.patience = 0;
}

void batch_drop_lost(struct drain *drain)
{
    struct drain_batch *batch = &drain->batch;
    size_t kept = batch->applied;
    for (size_t i = batch->applied; i < batch->count; i++) {
        struct drain_record *record = &batch->records[i];
        const struct drain_seat *seat = &drain->seats[record->record.partition];
        if (!seat->held || seat->generation != record->generation) {
            kafka_record_release(&record->record);
            continue;
        }
        if (kept != i)
            batch->records[kept] = *record;
        kept++;
    }
    if (kept != batch->count)
        log_event(LOG_INFO, "DRAIN-LOST",
                  "partitions went while their records were in hand; others read them",
                  log_count("records", batch->count - kept));
    batch->count = kept;
}

/* ---- building the statement's input ----------------------------------------------------------------- */

static void count_record(struct offsets_part *part, const struct drain_record *record)
{
    part->records++;
    part->tombstones += record->kind == DRAIN_TOMBSTONE;
    part->dead_letters += record->kind == DRAIN_LETTER;
    part->end = record->record.offset + 1;
}

static bool build_parts(struct drain *drain, size_t end, struct outcome_batch *input)
{
    struct drain_batch *batch = &drain->batch;
    struct offsets_part *parts = arena_array(&batch->scratch, end - batch->applied, sizeof *parts);
    if (parts == NULL)
        return false;
    size_t count = 0;
    for (size_t i = batch->applied; i < end; i++) {
        int32_t partition = batch->records[i].record.partition;
        struct drain_seat *seat = &drain->seats[partition];
        if (seat->part < 0) {
            seat->part = (int32_t)count;
            parts[count++] = (struct offsets_part){
                .partition = partition, .start = seat->position, .generation = seat->generation};
        }
        count_record(&parts[seat->part], &batch->records[i]);
    }
    for (size_t i = 0; i < count; i++)
        drain->seats[parts[i].partition].part = -1;
    input->parts = parts;
    input->part_count = count;
    return true;
}

static enum status build(struct drain *drain, size_t end, struct outcome_batch *input, struct fault *fault)
{
    struct drain_batch *batch = &drain->batch;
    arena_reset(&batch->scratch);
    struct outcome *outcomes = arena_array(&batch->scratch, end - batch->applied, sizeof *outcomes);
    size_t count = 0;
    if (outcomes == NULL || !build_parts(drain, end, input)) {
        fault_set(fault, "memory", "no room for a statement of %zu outcomes", end - batch->applied);
        return ST_RETRY;
    }
    for (size_t i = batch->applied; i < end; i++) {
        if (batch->records[i].kind == DRAIN_OUTCOME)
            outcomes[count++] = batch->records[i].outcome;
    }
    struct fold fold;
    enum status status = fold_outcomes(outcomes, count, &batch->scratch, &fold, fault);
    if (status != ST_OK)
        return status;
    input->scope = &drain->scope;
    input->items = fold.items;
    input->item_count = fold.count;
    input->receipt_delay_ms = drain->session.setup->settings->receipt_delay_ms;
    input->announce = reconcile_announces(drain->session.setup);
    return ST_OK;
}

/* ---- after the statement ---------------------------------------------------------------------------- */

static void note_applied(struct drain *drain, const struct outcome_batch *input,
                         const struct outcome_counts *counts)
{
    struct metric_set *metrics = drain->session.metrics;
    int64_t records = 0;
    for (size_t i = 0; i < input->part_count; i++) {
        drain->seats[input->parts[i].partition].position = input->parts[i].end;
        records += input->parts[i].records;
    }
    reconcile_count(metrics, M_RECORDS, NULL, records);
    reconcile_count(metrics, M_BATCHES, NULL, 1);
    reconcile_count(metrics, M_OUTCOMES, "sent", counts->sent);
    reconcile_count(metrics, M_OUTCOMES, "failed", counts->failed);
    reconcile_count(metrics, M_OUTCOMES, "suppressed", counts->suppressed);
    reconcile_count(metrics, M_OUTCOMES, "ignored", counts->ignored);
    reconcile_count(metrics, M_OUTCOMES, "orphan", counts->orphans);
    reconcile_count(metrics, M_DISABLED, "ticket", counts->disabled);
    log_event(LOG_DEBUG, "DRAIN-BATCH", "outcomes applied", log_int("records", records),
              log_int("sent", counts->sent), log_int("failed", counts->failed),
              log_int("suppressed", counts->suppressed), log_int("ignored", counts->ignored),
              log_int("orphans", counts->orphans), log_int("disabled", counts->disabled));
}

static bool timed_out(const struct fault *fault)
{
    return strcmp(fault->code, "57014") == 0;
}

/* The database refuses [applied, end). Halves it; what stands alone becomes a dead letter, after more time
 * was given to a statement that only ran out of it. */
static enum status refused(struct drain *drain, size_t end, struct fault *fault)
{
    struct drain_batch *batch = &drain->batch;
    size_t count = end - batch->applied;
    if (count > 1) {
        batch->width = count / 2;
        return ST_OK;
    }
    struct drain_record *record = &batch->records[batch->applied];
    if (timed_out(fault) && batch->patience < PATIENCE_TRIES) {
        db_patience(drain->session.db, STATEMENT_TIMEOUT_MS << ++batch->patience);
        return ST_OK;
    }
    db_patience(drain->session.db, 0);
    batch->patience = 0;
    if (record->kind != DRAIN_OUTCOME)
        return ST_RETRY; /* nothing in it but its offset: not the record's fault */
    record->kind = DRAIN_LETTER;
    record->letter = LETTER_TO_SEND;
    record->why = *fault;
    fault_set(&record->why, "sqlstate", "%s: %s", fault->code, fault->text);
    fault_set_field(&record->why, fault->code);
    log_fault(LOG_ERROR, "DRAIN-REFUSED", "the database refuses a record; to the dead letters", ST_REJECT,
              fault, log_int("partition", record->record.partition),
              log_int("offset", record->record.offset));
    reconcile_count(drain->session.metrics, M_DEAD_LETTERS, "sqlstate", 1);
    return letters_flush(drain, fault);
}

enum status apply_batch(struct drain *drain, struct fault *fault)
{
    struct drain_batch *batch = &drain->batch;
    batch_drop_lost(drain);
    enum status status = letters_flush(drain, fault);
    while (status == ST_OK && batch->applied < batch->count) {
        size_t left = batch->count - batch->applied;
        size_t width = batch->width == 0 || batch->width > left ? left : batch->width;
        size_t end = batch->applied + width;
        struct outcome_batch input;
        struct outcome_counts counts;
        status = build(drain, end, &input, fault);
        if (status != ST_OK)
            return status;
        status = outcome_apply(drain->session.db, &drain->params, &input, &counts, fault);
        if (status == ST_REJECT) {
            status = refused(drain, end, fault);
        } else if (status == ST_OK && !counts.held) {
            return seats_reread(drain, fault);
        } else if (status == ST_OK) {
            note_applied(drain, &input, &counts);
            batch->applied = end;
            batch->width = width < left ? width * 2 : 0;
            if (batch->patience > 0)
                db_patience(drain->session.db, 0);
            batch->patience = 0;
        }
    }
    return status;
}
