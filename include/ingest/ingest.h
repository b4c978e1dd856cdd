/* Ingest: records of the events and devices topics -> rows (design.md §1). One thread of the dispatcher; it
 * owns its database connection, its consumer and its producer of dead letters. It meets fan-out only in the
 * hand-over queue and in the table `batches`. */
#ifndef BELFRY_INGEST_INGEST_H
#define BELFRY_INGEST_INGEST_H

#include <stdint.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/metrics.h"
#include "base/readiness.h"
#include "base/status.h"
#include "ingest/settings.h"
#include "io/db.h"
#include "io/settings.h"
#include "model/handover.h"

struct ingest;

/* Everything pointed at must live until ingest_free. */
struct ingest_setup {
    const struct ingest_settings *settings; /* [ingest] */
    const struct topics_settings
        *topics;                        /* [topics] events, devices, dlq; settled_topic: whether it is set */
    const struct db_settings *database; /* for ingest's own connection */
    const struct config_pairs *kafka;   /* [kafka]; group.id is among them */
    struct handover *handover;          /* NULL: batches are left in the table for others' fan-out */
    int64_t owner;                      /* of this process (owner_make) */
    int64_t push_max_age_ms,
        lease_ms;                /* [fanout]: older events notify nobody; lease of what is handed over */
    int64_t shutdown_timeout_ms; /* [run] */
    const struct clock *clock;   /* NULL: clock_system */
    struct metrics *metrics;     /* NULL: none */
    struct readiness *readiness; /* NULL: none; ingest adds its slot "ingest" */
};

/* Before the threads start; connects to nothing. ST_FATAL: out of memory. */
MUST_USE enum status ingest_new(const struct ingest_setup *setup, struct ingest **ingest,
                                struct fault *fault);
void ingest_free(struct ingest *ingest); /* NULL is fine */

/* The loop; returns ST_OK once signals_stopping() and the batch in flight is done or shutdown_timeout is
 * over. Databases, brokers and topics that are away are waited for. ST_FATAL (fault.exit_code) when this
 * process cannot go on; it has then called signals_stop(). */
MUST_USE enum status ingest_run(struct ingest *ingest, struct fault *fault);

#endif
