/* belfry-reconciler --audit: the database looked at as a whole, on a running system, without changing
 * anything. One connection and one snapshot; Kafka is asked only about dispatches that might be stuck. */
#ifndef BELFRY_RECONCILE_INSPECT_H
#define BELFRY_RECONCILE_INSPECT_H

#include <stdint.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "store/audit.h"

struct inspect_setup {
    const char *uri; /* of any role that may SELECT; a replica will do */
    bool prepared_statements;
    const struct config_pairs *kafka; /* [kafka]; group.id is the reconciler's */
    const char *receipts_topic;
    int64_t key_retention_ms, notification_retention_ms;
    const struct clock *clock; /* NULL: clock_system */
};

struct inspect {
    struct audit_report report; /* large: give it static or heap storage */
    /* Why the suspects could not be judged; "" when they were, or when there were none. Not a finding: the
     * reconcilers are away or behind, or Kafka is. */
    char unjudged[FAULT_TEXT_MAX];
};

/* Blocks: a statement at most INSPECT_STATEMENT_MS, the whole INSPECT_MS. ST_FATAL: schema (fault.exit_code);
 * anything else but ST_OK: it could not look, and the report is worth nothing. */
enum { INSPECT_STATEMENT_MS = 10 * 60 * 1000, INSPECT_MS = 30 * 60 * 1000, INSPECT_DRAIN_MS = 10 * 1000 };
MUST_USE enum status inspect_run(const struct inspect_setup *setup, struct inspect *inspect,
                                 struct fault *fault);

#endif
