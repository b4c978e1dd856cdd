/* One batch of the receipts topic into guarded transitions, in one statement (design.md §3): dispatches,
 * receipt_batches, dead tokens and the offsets of the reconciler's group move together or not at all. */
#ifndef BELFRY_STORE_OUTCOME_H
#define BELFRY_STORE_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "io/db.h"
#include "model/dispatch.h"
#include "model/uuid.h"
#include "store/offsets.h"

/* Where a dispatch ends when all outcomes of the batch are folded over one starting state. */
struct outcome_end {
    bool moves; /* false: it stays where it is */
    enum dispatch_state state;
    struct span error, ticket; /* at NULL when none */
};

/* All outcomes of one dispatch in a batch. Only two starts let an outcome in: queued, and failed/Unconfirmed;
 * the row's own state, known under its lock, says which end is taken. */
struct outcome_item {
    int64_t dispatch_id;
    struct uuid notification_id; /* these two must match the row: else an orphan (an id handed out again) */
    int64_t device_id;
    int32_t outcomes; /* how many were folded, >= 1 */
    struct outcome_end queued, unconfirmed;
    int64_t sent_at_us; /* when the provider took it, by the dispatcher's clock; counts for an end `sent` */
};

struct outcome_batch {
    const struct offsets_scope *scope;
    const struct offsets_part *parts; /* at least one; their outcomes count as events */
    size_t part_count;
    const struct outcome_item *items; /* distinct (dispatch, notification, device); may be none */
    size_t item_count;
    int64_t receipt_delay_ms; /* from the send to the first look for its receipt */
    bool announce;            /* final states go to settled_outbox too */
};

struct outcome_counts {
    bool held;                        /* false: a part was not ours any more; nothing moved, no count holds */
    int64_t sent, failed, suppressed; /* dispatches that moved there */
    int64_t ignored;  /* outcomes that left no trace: replays, late ones, overtaken in the batch */
    int64_t orphans;  /* outcomes without their dispatch: retired, erased, or another's id */
    int64_t disabled; /* tokens switched off: DeviceNotRegistered */
};

enum { OUTCOME_PARAMS_BYTES_MAX = 16 << 20 };

/* Statuses are db_judge's; ST_REJECT: halve the batch. Rows are locked in id order, so two of these never
 * deadlock. */
MUST_USE enum status outcome_apply(struct db *db, struct db_params *params, const struct outcome_batch *batch,
                                   struct outcome_counts *counts, struct fault *fault);

#endif
