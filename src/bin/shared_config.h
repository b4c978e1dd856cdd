/* The rows of sections that more than one binary has. Offsets are in the section's own struct. */
#ifndef BELFRY_SHARED_CONFIG_H
#define BELFRY_SHARED_CONFIG_H

#include "base/config.h"

#include <stddef.h>
#include <stdint.h>

#include "ingest/settings.h"
#include "io/kafka_properties.h"
#include "io/settings.h"
#include "remote/settings.h"
#include "run_settings.h"

extern const struct config_key topics_keys[6];
extern const struct config_key ingest_keys[7];
extern const struct config_key provider_keys[9];

/* What the two binaries between Kafka and the provider check alike, after the load. */
struct shared_settings {
    const struct kafka_settings *kafka;
    const struct topics_settings *topics;
    const struct database_settings *database;
    const struct ingest_settings *ingest;
    const struct provider_settings *provider; /* NULL: the process does not need it */
};
MUST_USE enum status shared_config_check(struct config *config, const struct shared_settings *settings,
                                         struct fault *fault);
/* [database] uri is given, and libpq can read it. */
MUST_USE enum status database_config_check(const struct config *config,
                                           const struct database_settings *settings, struct fault *fault);

/* Bounds: durations in milliseconds, sizes in bytes. */
#define SECONDS(count) (INT64_C(1000) * (count))
#define MINUTES(count) (INT64_C(60000) * (count))
#define HOURS(count)   (INT64_C(3600000) * (count))
#define DAYS(count)    (INT64_C(86400000) * (count))
#define KIB(count)     (INT64_C(1024) * (count))
#define MIB(count)     (INT64_C(1048576) * (count))

#define KEY_COUNT(keys) (sizeof(keys) / sizeof *(keys))

/* A row: the key's name, type, field, default, help; then .min .max .choices .flags as needed. */
#define KEY(name, kind, owner, field, value, ...)                                                            \
    {                                                                                                        \
        .key = (name), .type = (kind), .offset = offsetof(struct owner, field), .fallback = (value),         \
        .help = __VA_ARGS__                                                                                  \
    }

#define SECTION(title, at, rows, text)                                                                       \
    {                                                                                                        \
        .name = (title), .offset = (at), .keys = (rows), .key_count = KEY_COUNT(rows), .help = (text)        \
    }

#define KAFKA_SECTION(at, pairs)                                                                             \
    {                                                                                                        \
        .name = "kafka", .kind = CONFIG_PAIRS, .offset = (at), .defaults = (pairs),                          \
        .help = "any librdkafka property; bootstrap.servers (required)", .refuse = kafka_property_refusal    \
    }

/* clang-format off: rows that a binary puts among its own */
#define DATABASE_URI_ROW                                                                                     \
    KEY("uri", CONFIG_URI, database_settings, uri, "", "libpq connection string", .flags = CONFIG_REQUIRED)
#define DATABASE_PREPARED_ROW                                                                                \
    KEY("prepared_statements", CONFIG_BOOL, database_settings, prepared_statements, "on",                    \
        "off behind a pooler that cannot keep them")
#define RUN_ROWS                                                                                             \
    KEY("shutdown_timeout", CONFIG_DURATION, run_settings, shutdown_timeout_ms, "25s",                       \
        "to drain and leave after SIGTERM", .min = SECONDS(1), .max = HOURS(1)),                             \
        KEY("log_level", CONFIG_CHOICE, run_settings, log_level, "info", "what is logged",                   \
            .choices = "debug|info|warn|error"),                                                             \
        KEY("log_format", CONFIG_CHOICE, run_settings, log_format, "json", "text is for people",             \
            .choices = "json|text")
/* clang-format on */

#endif
