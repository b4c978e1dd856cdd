/* settled.bound of each feed: the time below which none of its rows can still commit
 * (contracts/reader-api.md, *newer*). Of notifications, and of every relation that belfry_stamp stamps (view
 * belfry_stamped), under its name with its schema. On the primary, by a member of pg_read_all_stats. */
#ifndef BELFRY_STORE_SETTLE_H
#define BELFRY_STORE_SETTLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "io/db.h"

enum {
    SETTLE_FEED_MAX = 260, /* bytes of a key: two quoted names and a dot */
    SETTLE_FEEDS_MAX = 128 /* more than these, in the order of their names, stay where they are */
};

struct settle_bound {
    char feed[SETTLE_FEED_MAX + 1];
    int64_t bound_us;
    int64_t prepared; /* above 0: prepared transactions; nothing can be said and the bound must not move */
};

struct settle_bounds {
    struct settle_bound of[SETTLE_FEEDS_MAX]; /* notifications first */
    size_t count;
    size_t left_out; /* feeds beyond SETTLE_FEEDS_MAX */
};

/* One look at who holds the relations for writing: each bound is below what any of them can still commit. */
MUST_USE enum status settle_read(struct db *db, struct settle_bounds *bounds, struct fault *fault);

/* Moves the bounds forward, never back, of those without prepared transactions; must be a later statement
 * than settle_read. */
MUST_USE enum status settle_move(struct db *db, const struct settle_bounds *bounds, struct fault *fault);

#endif
