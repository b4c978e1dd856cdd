/* settled.bound: the time below which no notification can still commit (contracts/reader-api.md, *newer*).
 * On the primary, by a member of pg_read_all_stats. */
#ifndef BELFRY_STORE_SETTLE_H
#define BELFRY_STORE_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "io/db.h"

/* One look at who holds the relation for writing: *bound_us is below what any of them can still commit. With
 * prepared transactions (*prepared > 0) nothing can be said and the bound must not move. */
MUST_USE enum status settle_read(struct db *db, const char *relation, int64_t *bound_us, int64_t *prepared,
                                 struct fault *fault);

/* Moves the feed's bound forward, never back; must be a later statement than settle_read. */
MUST_USE enum status settle_move(struct db *db, const char *feed, int64_t bound_us, struct fault *fault);

#endif
