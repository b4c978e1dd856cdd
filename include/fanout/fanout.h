/* Fan-out: queued batches -> pushes -> outcomes on the receipts topic (design.md §2). One thread of the
 * dispatcher; it owns its database connection, its producer and its clients of the provider and the account
 * service. It meets ingest only in the hand-over queue and in the table `batches`, and never makes ingest
 * wait. */
#ifndef BELFRY_FANOUT_FANOUT_H
#define BELFRY_FANOUT_FANOUT_H

#include <stdint.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/metrics.h"
#include "base/readiness.h"
#include "base/status.h"
#include "fanout/settings.h"
#include "io/db.h"
#include "model/handover.h"
#include "remote/settings.h"

struct fanout;

struct fanout_setup {
    const struct fanout_settings *settings;         /* [fanout] */
    const struct provider_settings *provider;       /* [provider] */
    const struct preferences_settings *preferences; /* [preferences]; NULL or no url: everything is allowed */
    const struct db_settings *database;             /* for fan-out's own connection */
    const struct config_pairs *kafka;               /* [kafka], for its own producer */
    const char *receipts_topic;                     /* [topics] receipts */
    struct handover *handover;                      /* of settings->batches_in_memory; NULL: the table only */
    int64_t owner;               /* of this process: the one ingest writes into batches.owner */
    int64_t shutdown_timeout_ms; /* [run] shutdown_timeout */
    const struct clock *clock;   /* NULL: clock_system */
    struct metrics *metrics;     /* NULL: none */
    struct readiness *readiness; /* NULL: none; fan-out adds its slot "fanout" */
    /* Called in fanout_run's thread after a SIGHUP: reads the settings again and hands them to
     * fanout_take_tokens. NULL: there is nothing to read again. */
    void (*reload)(void *context, struct fanout *fanout);
    void *reload_context;
};

/* Before the threads start. Everything pointed at must live until fanout_free; connects to nothing yet.
 * ST_FATAL or ST_STOP (an unusable base_url) with the reason. */
MUST_USE enum status fanout_new(const struct fanout_setup *setup, struct fanout **fanout,
                                struct fault *fault);
void fanout_free(struct fanout *fanout); /* NULL is fine */

/* The loop; returns once signals_stopping() and what was in flight is done or shutdown_timeout is over:
 * ST_OK. Unreachable databases and brokers are waited for. ST_FATAL (fault.exit_code) when this process
 * cannot go on; it has then called signals_stop() itself. */
MUST_USE enum status fanout_run(struct fanout *fanout, struct fault *fault);

/* These tokens from now on, copied. Not ST_OK: an old one stays. For setup.reload. */
MUST_USE enum status fanout_take_tokens(struct fanout *fanout, const struct provider_settings *provider,
                                        const struct preferences_settings *preferences, struct fault *fault);

#endif
