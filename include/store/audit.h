/* What an audit asks the database. Read only, and all of one snapshot between audit_begin and audit_end: what
 * commits meanwhile cannot look half done, so a clean system shows nothing whatever its load. Needs SELECT
 * and no more; works on a replica. Nothing here is a token or a text: ids and keys only. Statuses are
 * db_judge's. */
#ifndef BELFRY_STORE_AUDIT_H
#define BELFRY_STORE_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "io/db.h"

enum {
    AUDIT_NAME_MAX = 48,
    AUDIT_DETAIL_MAX = 1024,
    AUDIT_EXAMPLES_MAX = 10, /* of one finding */
    AUDIT_EXAMPLES_BYTES = 8 * 1024,
    AUDIT_BALANCES_MAX = 8,
    AUDIT_QUEUES_MAX = 8,
    AUDIT_SUSPECTS_MAX = 10 * 1000
};

/* Every invariant that is looked at; audit_finding_names has the same order. */
enum audit_kind {
    AUDIT_DISPATCH_WITHOUT_NOTIFICATION,
    AUDIT_SENT_WITHOUT_RECEIPT_BATCH,
    AUDIT_QUEUED_WITHOUT_BATCH, /* only by audit_still_queued: see struct audit_suspects */
    AUDIT_DEVICE_ON_WITH_REASON,
    AUDIT_DEVICE_OFF_WITHOUT_REASON,
    AUDIT_DEVICE_WITH_WRONG_HASH,
    AUDIT_KEY_WITHOUT_NOTIFICATION,
    AUDIT_NOTIFICATION_WITHOUT_KEY,
    AUDIT_NOTIFICATION_OF_ERASED,
    AUDIT_DEVICE_OF_ERASED,
    AUDIT_KINDS
};
extern const char *const audit_finding_names[AUDIT_KINDS];

struct audit_finding {
    int64_t count;
    size_t named;                        /* private: additions to examples */
    char examples[AUDIT_EXAMPLES_BYTES]; /* the first ids, a blank between them; NUL-terminated */
};

struct audit_balance {
    char name[AUDIT_NAME_MAX], detail[AUDIT_DETAIL_MAX]; /* detail: JSON, whole or "" */
    int64_t left, right;
    bool ok;
};

struct audit_queue {
    char name[AUDIT_NAME_MAX];
    int64_t items, oldest_us; /* how long the oldest waits; 0: none does */
};

/* `queued` without a row in `batches` is no fault yet: the row goes once Kafka has the outcomes, and the
 * reconciler may not have read them. It is one when the topic was read to where it ended after this look. */
struct audit_suspects {
    int64_t ids[AUDIT_SUSPECTS_MAX];
    size_t count;
    int64_t left_out; /* beyond AUDIT_SUSPECTS_MAX */
};

struct audit_report {
    struct audit_balance balances[AUDIT_BALANCES_MAX];
    size_t balance_count;
    struct audit_queue queues[AUDIT_QUEUES_MAX];
    size_t queue_count;
    struct audit_finding findings[AUDIT_KINDS];
    struct audit_suspects suspects;
    int64_t dispatches;                       /* looked at */
    int64_t queued_oldest_us, sent_oldest_us; /* dispatches that wait */
};

/* Opens the snapshot; a statement may take statement_max_ms, whatever the role's own limit. */
MUST_USE enum status audit_begin(struct db *db, int statement_max_ms, struct fault *fault);
MUST_USE enum status audit_end(struct db *db, struct fault *fault);

/* Each adds to the report. */
MUST_USE enum status audit_books(struct db *db, struct audit_report *report, struct fault *fault);
MUST_USE enum status audit_queues(struct db *db, struct audit_report *report, struct fault *fault);
/* The next page of dispatches after *after (0 at first), which moves on; *more false: there was none. */
MUST_USE enum status audit_dispatches(struct db *db, int64_t *after, bool *more, struct audit_report *report,
                                      struct fault *fault);
MUST_USE enum status audit_devices(struct db *db, struct audit_report *report, struct fault *fault);
MUST_USE enum status audit_erased(struct db *db, struct audit_report *report, struct fault *fault);
/* retention_ms: the shorter of key_retention and notification_retention. One pass over both tables. */
MUST_USE enum status audit_keys(struct db *db, int64_t retention_ms, struct audit_report *report,
                                struct fault *fault);

/* After audit_end, when the receipts topic has been read past the look: the suspects that are what they were
 * are found to be AUDIT_QUEUED_WITHOUT_BATCH. */
MUST_USE enum status audit_still_queued(struct db *db, struct audit_report *report, struct fault *fault);

/* How many balances and invariants are not as they must be. */
int audit_found(const struct audit_report *report);

#endif
