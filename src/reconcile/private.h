/* What the reconciler's loops share: a stage table's row, and a database connection that is mended with
 * patience. Only files of this folder include it. */
#ifndef BELFRY_RECONCILE_PRIVATE_H
#define BELFRY_RECONCILE_PRIVATE_H

#include "base/arena.h"
#include "base/backoff.h"
#include "base/log.h"
#include "reconcile/reconcile.h"

/* One row of a loop's table: its name is the label of the metric, the field of the log line, the crash point
 * (passed before it runs), and the place to go on from when it has to be run again. */
struct stage {
    const char *name;
    enum status (*run)(void *context, struct fault *fault);
    bool (*has_work)(const void *context); /* NULL: always; false: it is passed over, crash point included */
};

/* Whether final states are published: then they go to settled_outbox in the statement that makes them. */
static inline bool reconcile_announces(const struct reconcile_setup *setup)
{
    return setup->settled_topic != NULL && setup->settled_topic[0] != '\0';
}

struct session {
    const struct reconcile_setup *setup;
    const struct clock *clock;
    struct metric_set *metrics; /* of reconcile_metric_rows; NULL: none */
    const char *name;           /* the loop's, and its readiness slot's */
    size_t slot;
    struct db *db;
    struct backoff backoff;
    bool fit;     /* the database was, once */
    bool failing; /* until the next success */
    struct log_gate gate;
    /* Waits, and keeps alive what must be kept alive meanwhile; returns early when the process stops.
     * Anything but ST_OK is ST_FATAL. */
    enum status (*wait)(void *context, int64_t wait_ms, struct fault *fault);
    void *context; /* of wait and of the stages */
};

/* ST_FATAL: no memory. Adds the readiness slot. */
MUST_USE enum status session_open(struct session *session, const struct reconcile_setup *setup,
                                  struct fault *fault);
void session_done(struct session *session);

/* Runs a table once. A stage that answers ST_RETRY or ST_STOP is run again after a wait and a reconnect,
 * until it is done; a stage never starts without a connection. ST_OK: all done · ST_RETRY: the process stops
 * · ST_FATAL; also when the first connection is refused. */
MUST_USE enum status session_run(struct session *session, const struct stage *stages, size_t count,
                                 struct fault *fault);

/* Sleeps, at most until the process stops. The wait of loops that have nothing to keep alive. */
void session_sleep(int64_t wait_ms);
enum status session_wait(void *context, int64_t wait_ms, struct fault *fault);

/* ---- metrics ---------------------------------------------------------------------------------------- */

enum { RECONCILE_LAGS_MAX = 1024 }; /* partitions whose lag is shown one by one */

enum reconcile_metric {
    M_RECORDS,
    M_BATCHES,
    M_OUTCOMES,
    M_DEAD_LETTERS,
    M_LOST,
    M_LAG,
    M_PARTITION_LAG,
    M_OLDEST_RECORD,
    M_STAGE_IN_FLIGHT,
    M_RECEIPTS_DUE,
    M_DRAIN_RECORDS,
    M_RECEIPTS,
    M_RECEIPT_ERRORS,
    M_CREDENTIAL_FAULTS,
    M_REQUESTS,
    M_UNASKED,
    M_RECEIPT_BATCHES,
    M_DISABLED,
    M_RETAINED,
    M_RETAIN_OLDEST,
    M_RETAIN_HELD,
    M_RETAIN_UNSETTLED,
    M_RETENTION_UNKNOWN,
    M_RETRIES,
    M_STAGE_SECONDS,
    M_SETTLE_AGE,
    M_SETTLE_PREPARED,
    M_SETTLED_PUBLISHED,
    M_SETTLED_OLDEST,
    M_SETTLED_FAILURES,
    M_RECONCILE_COUNT
};
extern const struct metric_row reconcile_metric_rows[M_RECONCILE_COUNT];
/* Counts under a label's value. */
void reconcile_count(struct metric_set *metrics, enum reconcile_metric row, const char *value, int64_t by);

/* ---- the loops -------------------------------------------------------------------------------------- */

struct drain;
struct poll_loop;
struct settle;
struct publish;
struct retain;

/* ST_OK: the topic is there · ST_STOP: missing, or forbidden · ST_RETRY: no broker answers. */
MUST_USE enum status topic_find(const struct reconcile_setup *setup, const char *topic, struct fault *fault);

MUST_USE enum status drain_new(const struct reconcile_setup *setup, struct metric_set *metrics,
                               struct drain **drain, struct fault *fault);
void drain_free(struct drain *drain);
/* Before anything else starts: waits for the database and looks at its schema. ST_OK · ST_RETRY: the process
 * stops · ST_FATAL. */
MUST_USE enum status drain_check(struct drain *drain, struct fault *fault);
/* Waits for the dead letters' topic first; polling and the readers' bound go on meanwhile. */
MUST_USE enum status drain_run(struct drain *drain, struct fault *fault);

MUST_USE enum status poll_new(const struct reconcile_setup *setup, struct metric_set *metrics,
                              struct poll_loop **poll, struct fault *fault);
void poll_free(struct poll_loop *poll);
MUST_USE enum status poll_run(struct poll_loop *poll, struct fault *fault);

MUST_USE enum status settle_new(const struct reconcile_setup *setup, struct metric_set *metrics,
                                struct settle **settle, struct fault *fault);
void settle_free(struct settle *settle);
MUST_USE enum status settle_run(struct settle *settle, struct fault *fault);

/* Only where reconcile_announces. */
MUST_USE enum status publish_new(const struct reconcile_setup *setup, struct metric_set *metrics,
                                 struct publish **publish, struct fault *fault);
void publish_free(struct publish *publish);
MUST_USE enum status publish_run(struct publish *publish, struct fault *fault);

MUST_USE enum status retain_new(const struct reconcile_setup *setup, struct metric_set *metrics,
                                struct retain **retain, struct fault *fault);
void retain_free(struct retain *retain);
MUST_USE enum status retain_run(struct retain *retain, struct fault *fault);

#endif
