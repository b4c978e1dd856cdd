/* The one table of belfry-reader: sections, keys, defaults, flags, sub-commands (contracts/config.md). */
#ifndef BELFRY_READER_CONFIG_H
#define BELFRY_READER_CONFIG_H

#include "base/config.h"
#include "base/options.h"
#include "feed/settings.h"
#include "io/settings.h"
#include "run_settings.h"

struct reader_settings {
    struct database_settings database;
    struct http_settings http;
    struct feed_settings feed;
    struct admin_settings admin;
    struct run_settings run; /* roles: 0 */
};

extern const struct config_table reader_table;
/* Sub-commands page and token; their flags stand in the table. */
extern const struct options_table reader_options;

/* What serving needs and one key alone cannot say. ST_REJECT: a sentence for the operator. */
MUST_USE enum status reader_config_check(struct config *config, const void *settings, struct fault *fault);

#endif
