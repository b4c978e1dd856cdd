/* Settled outcomes on their way to belfry.settled (contracts/events.md). The statements that make a dispatch
 * final put its record into settled_outbox; here records are taken in order, and removed once Kafka has them.
 * One process at a time takes them, by a lease on the database's clock; nothing is held open meanwhile. Each
 * function is one autocommitted statement; statuses are db_judge's. */
#ifndef BELFRY_STORE_OUTBOX_H
#define BELFRY_STORE_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/span.h"
#include "base/status.h"
#include "io/db.h"

enum { OUTBOX_ROWS_MAX = 1000 };

/* Takes the lease, or makes it longer. *held false: another process has it. lease_ms 0 gives it back. */
MUST_USE enum status outbox_lease(struct db *db, int64_t owner, int64_t lease_ms, bool *held,
                                  struct fault *fault);

enum outbox_fate { OUTBOX_WAITS, OUTBOX_SENT, OUTBOX_ACKED }; /* sent: it may be in the topic, or not */

struct outbox_row {
    int64_t id, dispatch_id;
    struct span record;    /* the JSON as it goes out; at most 4 KiB */
    bool first;            /* version 1: a second may come (dispatch_version) */
    enum outbox_fate fate; /* the caller's to change */
};

struct outbox_rows {
    struct arena *arena; /* in: given by the caller; the text lives there */
    struct outbox_row *rows;
    size_t count;
};

/* Up to OUTBOX_ROWS_MAX rows after the id `after` (0: from the first), in id order: of one dispatch a lower
 * version never comes after a higher one. None when the lease is not the owner's. ST_REJECT "memory": the
 * arena is full. */
MUST_USE enum status outbox_take(struct db *db, int64_t owner, int64_t after, struct outbox_rows *rows,
                                 struct fault *fault);

struct outbox_counts {
    int64_t gone;  /* rows removed */
    int64_t again; /* second versions queued again */
};

/* Removes the rows that are ACKED. Where one that is SENT or ACKED was a first version and its dispatch has a
 * second by now, the second is queued again: the first may have come to the topic behind it, from a process
 * that was held up. A row that is gone, because another published it or its user was erased, stays gone. */
MUST_USE enum status outbox_done(struct db *db, const struct outbox_rows *rows, struct outbox_counts *counts,
                                 struct fault *fault);

/* How long the oldest row has waited, by the database's clock; 0: none waits. */
MUST_USE enum status outbox_oldest(struct db *db, int64_t *age_us, struct fault *fault);

#endif
