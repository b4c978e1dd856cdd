/* The heart: one autocommitted statement that claims a batch's keys, stores its notifications, queues their
 * dispatches and batches, and moves the offsets. Everything or nothing; claims and fence make it safe to run
 * again after any failure. design.md §1 point 3; sql/query/claim.sql. */
#ifndef BELFRY_STORE_CLAIM_H
#define BELFRY_STORE_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "io/db.h"
#include "model/event.h"
#include "model/handover.h"
#include "model/uuid.h"
#include "store/offsets.h"

enum { CLAIM_BATCHES_MAX = 2, CLAIM_MISMATCHES_MAX = 16 };

struct claim_settings {
    struct offsets_scope scope; /* texts must outlive the claim */
    int devices_per_user_max;   /* the newest by last_seen */
    int64_t push_max_age_ms;    /* events whose event_at is older notify nobody's phone: suppressed/Expired */
    int64_t lease_ms;           /* of batches taken in memory */
    bool announce;              /* what is suppressed at once goes to settled_outbox too */
    size_t params_bytes_max;    /* 0: 64 MiB */
};

struct claim_batch {
    const struct offsets_part *parts; /* at least one; every event's partition is among them */
    size_t part_count;
    const struct event *const *events; /* in consumption order; may be none */
    size_t event_count;
    bool take;      /* the batches are this process's, leased; else they stay free in the table */
    int64_t now_us; /* for the ids (UUIDv7); not for created_at, which is the database's clock */
};

struct claim_outcome {
    bool moved; /* false: the fence failed, nothing happened, all the rest is 0: offsets_read and
                   offsets_judge */
    int64_t created_at_us;
    int64_t notifications, duplicates, erased;
    int64_t dispatches;                               /* all that were queued or suppressed */
    int64_t suppressed;                               /* of these: push off, expired or too old, at once */
    struct handover_batch batches[CLAIM_BATCHES_MAX]; /* urgent first; only those with something to send */
    int batch_count;
    int64_t mismatch_count; /* duplicates whose content differs from the first's; the first wins */
    struct {
        uint32_t event, recipient; /* events[event]->recipients[recipient] */
    } mismatches[CLAIM_MISMATCHES_MAX];
    int mismatches_held; /* how many of them stand here */
};

struct claim; /* settings, id maker and the parameter buffer; one thread */

struct claim *claim_new(const struct claim_settings *settings); /* NULL: out of memory */
void claim_free(struct claim *claim);

/* Sends the statement (db_send). The batch, its events and the claim stay in use until claim_finish. The
 * same batch may be sent again after any failure. ST_REJECT params_too_big: split it. */
MUST_USE enum status claim_send(struct claim *claim, struct db *db, const struct claim_batch *batch,
                                uint64_t tag, struct fault *fault);
/* Reads the answer that db_take gave, and frees its result. Its status and fault when it was not ST_OK. */
MUST_USE enum status claim_finish(struct claim *claim, struct db_answer *answer,
                                  struct claim_outcome *outcome, struct fault *fault);

/* Both in one, waiting. */
MUST_USE enum status claim_run(struct claim *claim, struct db *db, const struct claim_batch *batch,
                               struct claim_outcome *outcome, struct fault *fault);

#endif
