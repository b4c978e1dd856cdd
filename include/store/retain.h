/* What is too old, removed in small steps (design.md: rows are deleted only here and by belfry_erase_user).
 * Each function is one short autocommitted statement; what it removes of notifications and dispatches it
 * counts in `retired`, so that belfry_books balances at every moment. None waits for a row that another has
 * locked, but a key's. Ages are measured by the database's clock. Statuses are db_judge's; ST_REJECT (the
 * statement took too long): try a smaller step. */
#ifndef BELFRY_STORE_RETAIN_H
#define BELFRY_STORE_RETAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "io/db.h"
#include "model/uuid.h"

/* What a step did. */
struct retain_step {
    int64_t seen;      /* rows looked at */
    int64_t removed;   /* of them */
    int64_t oldest_us; /* age of the oldest one seen, those removed included; 0: none seen, below: all of a
                          clock that stood ahead */
};

/* A walk along the primary key of dispatches. Start with after = 0; it is over when step.seen < rows_max. */
struct retain_dispatches {
    int64_t after; /* in and out: the last id seen */
    int32_t rows_max;
    int64_t retention_ms;
    int64_t unsettled_ms; /* how much longer `queued` and `sent` without any work are kept */
    /* out: old, and held back because fan-out has work of the batch, or polling, or its outcome may still
     * come */
    int64_t held_batches, held_receipts, held_unsettled;
    int64_t unsettled; /* out: removed without ever having been settled */
};
MUST_USE enum status retain_dispatches(struct db *db, struct retain_dispatches *walk,
                                       struct retain_step *step, struct fault *fault);

/* A walk along the primary key of notifications, up to the id of the oldest moment kept. Start with all zero;
 * it is over when step.seen < rows_max. One that still has a dispatch stays (held). */
struct retain_notifications {
    struct uuid after; /* in and out */
    int32_t rows_max;
    int64_t retention_ms;
    int64_t held; /* out */
};
MUST_USE enum status retain_notifications(struct db *db, struct retain_notifications *walk,
                                          struct retain_step *step, struct fault *fault);

/* A walk over a heap, block by block. Start with block = 0; it is over when block >= blocks. */
struct retain_heap {
    int64_t block; /* in: the first one; out: the next one */
    int64_t step_blocks;
    int64_t keep_ms;
    int64_t blocks; /* out: of the table */
};
MUST_USE enum status retain_keys(struct db *db, struct retain_heap *walk, struct retain_step *step,
                                 struct fault *fault);
MUST_USE enum status retain_replays(struct db *db, struct retain_heap *walk, struct retain_step *step,
                                    struct fault *fault);
/* Enabled devices without a registration for keep_ms are switched off as Stale, with a row of device_history.
 */
MUST_USE enum status retain_tokens(struct db *db, struct retain_heap *walk, struct retain_step *step,
                                   struct fault *fault);

/* `ready` past expires_at becomes `expired`; *expired rows. Then their rows go, those of failed ones too;
 * *removed. Then, keep_ms after they ended, they themselves. Each is through when it did less than rows_max.
 */
MUST_USE enum status retain_exports_expire(struct db *db, int32_t rows_max, int64_t *expired,
                                           struct fault *fault);
MUST_USE enum status retain_export_rows(struct db *db, int32_t rows_max, int64_t *removed,
                                        struct fault *fault);
MUST_USE enum status retain_exports(struct db *db, int32_t rows_max, int64_t keep_ms,
                                    struct retain_step *step, struct fault *fault);

/* receipt_batches with nothing `sent` whose look has been overdue for so long. Start with after = 0; over
 * when step.seen < rows_max. */
struct retain_batches {
    int64_t after; /* in and out */
    int32_t rows_max;
    int64_t overdue_ms;
};
MUST_USE enum status retain_batches(struct db *db, struct retain_batches *walk, struct retain_step *step,
                                    struct fault *fault);

#endif
