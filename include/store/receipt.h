/* The queue of batches whose receipts are to be asked for, and what their receipts do to dispatches
 * (design.md §3). Each function is one autocommitted statement; none is held open while the provider is
 * asked. Leases and ages are measured by the database's clock. Statuses are db_judge's. */
#ifndef BELFRY_STORE_RECEIPT_H
#define BELFRY_STORE_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/span.h"
#include "base/status.h"
#include "io/db.h"
#include "model/dispatch.h"

enum {
    RECEIPT_BATCHES_MAX = 64,    /* leased at once */
    RECEIPT_ROWS_MAX = 10 * 1000 /* dispatches read at once */
};

/* A batch as it was leased. A version that has risen since says: more became `sent` meanwhile. */
struct receipt_batch {
    int64_t batch_id, version;
};

/* Batches leased together by one owner. */
struct receipt_lease {
    int64_t owner; /* random per process start */
    int64_t lease_ms;
    struct receipt_batch batches[RECEIPT_BATCHES_MAX];
    size_t count;
    bool announce; /* what expires for want of a ticket goes to settled_outbox too */
};

/* Takes up to RECEIPT_BATCHES_MAX due batches that nobody has leased, oldest first; lease->owner and lease_ms
 * are given. count 0: none is due. */
MUST_USE enum status receipt_lease(struct db *db, struct receipt_lease *lease, struct fault *fault);

/* Before the lease runs out. *held: how many of its batches are still its own. */
MUST_USE enum status receipt_renew(struct db *db, const struct receipt_lease *lease, int64_t *held,
                                   struct fault *fault);

/* A dispatch that waits for its receipt. */
struct receipt_due {
    int64_t dispatch_id;
    struct span ticket;
    struct span token; /* a secret; empty when the device is gone */
};

/* The `sent` dispatches of the leased batches that have a ticket after `after` ("" at first), in byte order
 * of the tickets, so that rows with one ticket stand together; at most RECEIPT_ROWS_MAX. Text lives in the
 * arena. ST_REJECT "memory": the arena is full. */
struct receipt_rows {
    struct arena *arena; /* in: given by the caller */
    struct receipt_due *rows;
    size_t count;
};
MUST_USE enum status receipt_due(struct db *db, const struct receipt_lease *lease, struct span after,
                                 struct receipt_rows *rows, struct fault *fault);

/* What an answered request says about one dispatch. */
struct receipt_finding {
    int64_t dispatch_id;
    struct span ticket;        /* as asked: the guard */
    bool settled;              /* false: no receipt yet */
    enum dispatch_state state; /* DISPATCH_DELIVERED or DISPATCH_RECEIPT_ERROR, when settled */
    struct span error;         /* of an error */
};

/* An answered request. */
struct receipt_answer {
    const struct receipt_finding *findings;
    size_t count;
    int64_t max_age_ms; /* receipt_max_age */
    bool announce;      /* final states go to settled_outbox too */
};

struct receipt_counts {
    int64_t delivered, receipt_error, expired, disabled;
};

/* Moves what is still `sent` with that ticket; anything else changes nothing. Without a receipt a dispatch
 * queued longer ago than max_age_ms expires. DeviceNotRegistered soft-disables the token, unless the device
 * registered again or changed hands after the dispatch was queued. */
MUST_USE enum status receipt_apply(struct db *db, const struct receipt_answer *answer,
                                   struct receipt_counts *counts, struct fault *fault);

/* Of the leased batches: `sent` without a ticket id, queued longer ago than max_age_ms, expires. */
MUST_USE enum status receipt_expire(struct db *db, const struct receipt_lease *lease, int64_t max_age_ms,
                                    int64_t *expired, struct fault *fault);

/* How long the batch due first has been due for a look; 0: none is. */
MUST_USE enum status receipts_oldest(struct db *db, int64_t *due_us, struct fault *fault);

/* Gives the batches back: those at the leased version with nothing `sent` left go (*done), the others are due
 * again in interval_ms. What another owner has taken meanwhile is left alone. */
MUST_USE enum status receipt_finish(struct db *db, const struct receipt_lease *lease, int64_t interval_ms,
                                    int64_t *done, struct fault *fault);

#endif
