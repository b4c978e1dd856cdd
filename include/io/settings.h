/* What the sections [kafka] [topics] [database] [http] [admin] hold once read (contracts/config.md).
 * Texts are never NULL ("" when not given) and live as long as the struct config they came from. */
#ifndef BELFRY_IO_SETTINGS_H
#define BELFRY_IO_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"

/* Any librdkafka property but those we own; bootstrap.servers and group.id are always among them after
 * the frame has run. Later pairs of one key do not exist: flags and environment have replaced the file's. */
struct kafka_settings {
    struct config_pairs properties;
};

struct topics_settings {
    const char *events, *devices, *receipts, *dlq, *receipts_dlq;
    const char *settled_topic; /* "": off */
};

struct database_settings {
    const char *uri;
    const char *read_uri; /* reader: pages from a replica; "": uri */
    bool prepared_statements;
};

struct http_settings {
    struct config_address listen;
    size_t max_connections;
    int64_t statement_timeout_ms;
    size_t scan_max;
    int64_t settle_max_ms;
    struct config_list cors_origins;
};

struct admin_settings {
    struct config_address listen;
};

#endif
