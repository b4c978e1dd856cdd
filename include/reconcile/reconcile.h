/* The reconciler: outcomes on the receipts topic, and the provider's receipts -> final states (design.md §3).
 *
 * Each loop has a thread and a database connection of its own, because none may wait for another: `drain`
 * works in the caller's thread, `poll` waits up to a request_timeout for the provider, `settle` has a beat of
 * 200 ms that readers depend on, `publish` waits for the settled topic, `retain`
 * removes what is too old at a pace of its own. They share nothing but metrics and
 * readiness. */
#ifndef BELFRY_RECONCILE_RECONCILE_H
#define BELFRY_RECONCILE_RECONCILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/metrics.h"
#include "base/readiness.h"
#include "base/status.h"
#include "io/db.h"
#include "reconcile/settings.h"
#include "remote/settings.h"

struct reconcile;
struct poll_loop; /* the part of it that asks the provider */

struct reconcile_setup {
    const struct reconcile_settings *settings; /* [reconciler] */
    const struct provider_settings *provider;  /* [provider] */
    const struct db_settings *database;        /* for each connection */
    const struct config_pairs *kafka;          /* [kafka]; group.id among them */
    const char *receipts_topic, *dlq_topic;    /* [topics] receipts, receipts_dlq */
    const char *settled_topic;                 /* [topics] settled_topic; "" or NULL: off */
    const char *events_topic;                  /* [topics] events: keys must outlive its records */
    int64_t key_retention_ms;                  /* [ingest] key_retention */
    bool allow_short_key_retention;            /* [ingest] likewise */
    int64_t owner;                             /* random per process start: owner_make() */
    int64_t shutdown_timeout_ms;               /* [run] shutdown_timeout */
    const struct clock *clock;                 /* NULL: clock_system */
    struct metrics *metrics;                   /* NULL: none */
    struct readiness *readiness; /* NULL: none; adds slots "drain", "poll", "settle", "retain", and with a
                                    settled_topic "publish" */
    /* Called in a thread of reconcile_run after a SIGHUP: reads the settings again and hands them to
     * reconcile_take_token. NULL: there is nothing to read again. */
    void (*reload)(void *context, struct poll_loop *poll);
    void *reload_context;
};

/* Everything pointed at must live until reconcile_free; connects to nothing yet. ST_FATAL: no memory;
 * ST_STOP: an unusable base_url. */
MUST_USE enum status reconcile_new(const struct reconcile_setup *setup, struct reconcile **reconcile,
                                   struct fault *fault);
void reconcile_free(struct reconcile *reconcile); /* NULL is fine */

/* The loops; returns once signals_stopping(): the batch in hand is finished, a waiting poll ends at once and
 * an open receipts request is dropped. ST_OK. Unreachable databases and brokers are waited for. ST_FATAL
 * (fault.exit_code) when this process cannot go on; it has then called signals_stop() itself. */
MUST_USE enum status reconcile_run(struct reconcile *reconcile, struct fault *fault);

/* The provider's token from now on, copied. Not ST_OK: the old one stays. For setup.reload. */
MUST_USE enum status reconcile_take_token(struct poll_loop *poll, const struct provider_settings *provider,
                                          struct fault *fault);

#endif
