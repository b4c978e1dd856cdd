/* What the stage tests of the store share: a migrated database of their own, a connection as the dispatcher,
 * and events and records made in a line. */
#ifndef BELFRY_TESTS_STORE_FIXTURE_H
#define BELFRY_TESTS_STORE_FIXTURE_H

#include "base/arena.h"
#include "io/db.h"
#include "store/claim.h"
#include "store/devices.h"
#include "store/offsets.h"
#include "support/harness.h"

enum { FIXTURE_EVENTS_MAX = 4096, FIXTURE_PARTS_MAX = 8 };

struct fixture {
    struct world world;
    struct db *db;
    struct offsets_scope scope;
    struct claim_settings settings;
    struct claim *claim;
    struct arena arena;
    struct event events[FIXTURE_EVENTS_MAX];
    const struct event *list[FIXTURE_EVENTS_MAX];
    size_t event_count;
    struct offsets_part parts[FIXTURE_PARTS_MAX];
    size_t part_count;
};

/* Database, connection, claim, and partitions 0 … parts - 1 of topic "events" seated at offset 0. */
struct fixture *fixture_open(const char *name, size_t parts);
void fixture_close(struct fixture *f);
/* Another connection as the dispatcher. */
struct db *fixture_connect(struct fixture *f);

/* The next event of the batch: on this partition, workspace "w", type "t", run_id run, for the users (blank
 * between them). The part's end and records move with it. */
struct event *fixture_event(struct fixture *f, int32_t partition, const char *run, const char *users);
/* Text into the arena. */
struct span fixture_text(struct fixture *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct claim_batch fixture_batch(struct fixture *f);
/* Runs the batch, asserting that it moved; then an empty batch that starts where it ended. */
struct claim_outcome fixture_claim(struct fixture *f);
void fixture_next(struct fixture *f);

/* A device row put in directly; age_s is how long ago it was seen. */
void fixture_device(struct fixture *f, const char *user, const char *token, int age_s);
int64_t fixture_now_us(void);

#endif
