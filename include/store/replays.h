/* Which dead letters were put back on their topic (table replays): the memory of --replay-dlq. */
#ifndef BELFRY_STORE_REPLAYS_H
#define BELFRY_STORE_REPLAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "io/db.h"

enum { REPLAYS_MAX = 1000 }; /* of one call */

/* Where a dead letter came from: what tells two of them apart. */
struct replay_origin {
    struct span topic;
    int32_t partition;
    int64_t offset, timestamp_ms; /* -1: the record had no timestamp */
};

/* done[i]: the i-th was put back before. Statuses are db_judge's. */
MUST_USE enum status replays_find(struct db *db, const struct replay_origin *origins, size_t count,
                                  bool *done, struct fault *fault);
/* Remembers them; those that are known already stay. */
MUST_USE enum status replays_add(struct db *db, const struct replay_origin *origins, size_t count,
                                 struct fault *fault);

#endif
