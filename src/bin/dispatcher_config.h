/* The one table of belfry-dispatcher: sections, keys, defaults, flags (contracts/config.md). */
#ifndef BELFRY_DISPATCHER_CONFIG_H
#define BELFRY_DISPATCHER_CONFIG_H

#include "base/config.h"
#include "base/options.h"
#include "fanout/settings.h"
#include "ingest/settings.h"
#include "io/settings.h"
#include "remote/settings.h"
#include "run_settings.h"

struct dispatcher_settings {
    struct kafka_settings kafka;
    struct topics_settings topics;
    struct database_settings database;
    struct ingest_settings ingest;
    struct fanout_settings fanout;
    struct provider_settings provider;
    struct preferences_settings preferences;
    struct admin_settings admin;
    struct run_settings run;
};

extern const struct config_table dispatcher_table;
/* Flags beyond the standard ones: create-topics, check-events, seek. */
extern const struct options_table dispatcher_options;

/* What serving needs and one key alone cannot say. ST_REJECT: a sentence for the operator. */
MUST_USE enum status dispatcher_config_check(struct config *config, const void *settings,
                                             struct fault *fault);

#endif
