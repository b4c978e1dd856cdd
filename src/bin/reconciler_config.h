/* The one table of belfry-reconciler: sections, keys, defaults, flags (contracts/config.md). */
#ifndef BELFRY_RECONCILER_CONFIG_H
#define BELFRY_RECONCILER_CONFIG_H

#include "base/config.h"
#include "base/options.h"
#include "ingest/settings.h"
#include "io/settings.h"
#include "reconcile/settings.h"
#include "remote/settings.h"
#include "run_settings.h"

struct reconciler_settings {
    struct kafka_settings kafka;
    struct topics_settings topics;
    struct database_settings database;
    struct ingest_settings
        ingest; /* key_retention, which is used to remove keys; the rest is the dispatcher's */
    struct provider_settings provider;
    struct reconcile_settings reconcile;
    struct admin_settings admin;
    struct run_settings run; /* roles: 0 */
};

extern const struct config_table reconciler_table;
extern const struct options_table reconciler_options;

/* What serving needs and one key alone cannot say. ST_REJECT: a sentence for the operator. */
MUST_USE enum status reconciler_config_check(struct config *config, const void *settings,
                                             struct fault *fault);

#endif
