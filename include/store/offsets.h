/* Consumption offsets live in Postgres, in the same transaction as what was made of the records: table
 * partition_offsets, keyed (group, topic, partition). Seating fences out whoever had the partition before
 * (generation + 1); every later statement names the generation it was given. design.md §1 point 4. */
#ifndef BELFRY_STORE_OFFSETS_H
#define BELFRY_STORE_OFFSETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "io/db.h"

enum { OFFSET_UNKNOWN = -1, OFFSET_PARTS_MAX = 4096 };

/* Whose offsets: one consumer group on one topic, and this process (owner_make). */
struct offsets_scope {
    const char *group_id, *topic;
    int64_t owner;
};

/* A partition as this process holds it, or as the table has it. */
struct offsets_seat {
    int32_t partition;
    int64_t generation;  /* 0: no row */
    int64_t next_offset; /* OFFSET_UNKNOWN: the table has none */
};

/* What one statement moves on one partition: from start to end, and the counts that go with it. A part with
 * start equal to end only checks the fence. */
struct offsets_part {
    int32_t partition;
    int64_t generation;
    int64_t start, end; /* end is the next offset to read */
    int64_t records; /* taken from Kafka: = tombstones + dead_letters + events, or the books do not balance */
    int64_t tombstones, dead_letters;
    int64_t events; /* for offsets_commit only: what claim and devices count themselves */
};

/* On every assignment. In: partition of each seat (distinct); out: generation and next_offset. Waits for a
 * zombie's statement (up to lock_timeout: ST_RETRY) and returns what that left. */
MUST_USE enum status offsets_seat(struct db *db, const struct offsets_scope *scope,
                                  struct offsets_seat *seats, size_t count, struct fault *fault);

/* After seating: next_offset := the seat's. ST_RETRY "fenced" when another process took one over meanwhile:
 * the others did start; leave and join again. */
MUST_USE enum status offsets_start(struct db *db, const struct offsets_scope *scope,
                                   const struct offsets_seat *seats, size_t count, struct fault *fault);

/* The rows as they are now; generation 0 where there is none. */
MUST_USE enum status offsets_read(struct db *db, const struct offsets_scope *scope,
                                  struct offsets_seat *seats, size_t count, struct fault *fault);

/* Moves offsets and counts, and nothing else: all parts or none. ST_RETRY "fenced" when it moved none:
 * offsets_read and offsets_judge tell why. */
MUST_USE enum status offsets_commit(struct db *db, const struct offsets_scope *scope,
                                    const struct offsets_part *parts, size_t count, struct fault *fault);

/* An operator's --seek: sets next_offset and fences out whoever holds the partition. */
MUST_USE enum status offsets_seek(struct db *db, const struct offsets_scope *scope, int32_t partition,
                                  int64_t next_offset, struct fault *fault);

/* What a failed fence means for one part, given the row re-read by offsets_read. */
enum offsets_verdict {
    OFFSETS_HELD,      /* still at start: another part failed; run it again */
    OFFSETS_COMMITTED, /* at end: it was committed and the answer got lost; go on */
    OFFSETS_WENT_BACK, /* mine, but earlier: the database went back; seek to the row's next_offset */
    OFFSETS_LOST       /* not mine: drop the partition's records, leave the group and join again */
};
enum offsets_verdict offsets_judge(const struct offsets_part *part, const struct offsets_seat *row);

/* For claim.c and devices.c: adds partition, generation, start, end, records, tombstones, dead_letters as
 * seven array parameters. */
void offsets_params(struct db_params *params, const struct offsets_part *parts, size_t count);

#endif
