/* What the stage tests of the reconciler's statements share: a migrated database, a connection as the
 * reconciler, and dispatches put in directly. Dispatch id d belongs to device d, of user "u<d>", and to the
 * notification whose id is d written as a UUID. */
#ifndef BELFRY_TESTS_RECONCILE_FIXTURE_H
#define BELFRY_TESTS_RECONCILE_FIXTURE_H

#include "base/arena.h"
#include "io/db.h"
#include "reconcile/fold.h"
#include "store/offsets.h"
#include "store/outcome.h"
#include "store/receipt.h"
#include "support/harness.h"

#define REC_COUNT(r, ...)           world_count(&(r)->world, __VA_ARGS__)
#define REC_ASSERT_COUNT(r, n, ...) cr_assert_eq(REC_COUNT(r, __VA_ARGS__), n)

struct rec {
    struct world world;
    struct db *db;
    struct db_params params;
    struct offsets_scope scope;
    struct offsets_part part; /* partition 0, where the next batch starts */
    struct arena arena;
    bool announce; /* final states go to settled_outbox too */
};

struct rec *rec_open(const char *name);
void rec_close(struct rec *r);
struct db *rec_connect(struct rec *r);
/* Seats a partition at offset 0. */
struct offsets_part rec_seat(struct rec *r, struct db *db, int32_t partition);

/* count dispatches of the batch, ordinals from 0, queued an hour ago, with their notifications and devices.
 * state "sent" has tickets "t<id>". */
void rec_dispatches(struct rec *r, int64_t batch, int count, const char *state);
/* An outcome for dispatch id; error and ticket may be "". */
struct outcome rec_outcome(struct rec *r, int64_t id, enum dispatch_state outcome, const char *text);
/* Folds and applies the outcomes as one batch of the reconciler's topic; asserts that it was held. */
struct outcome_counts rec_apply(struct rec *r, const struct outcome *outcomes, size_t count);
/* The same without asserting: what a failing fence needs. */
struct outcome_counts rec_try(struct rec *r, const struct outcome *outcomes, size_t count);
/* The statement's generic plan, with arguments given as SQL: no table that grows is read through. */
void rec_check_plan(struct rec *r, const char *statement, const char *arguments);
struct receipt_lease rec_lease(struct rec *r, int64_t owner);

#endif
