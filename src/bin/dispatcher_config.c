/* Rows in, nothing else: what belfry-dispatcher can be told. */
#include "dispatcher_config.h"

#include "remote/preferences.h"
#include "shared_config.h"

static const struct config_pair kafka_defaults[] = {{.key = "group.id", .value = "belfry-dispatcher"},
                                                    {.key = NULL}};

static const struct config_key fanout_keys[] = {
    KEY("chunk_size", CONFIG_COUNT, fanout_settings, chunk_size, "100", "messages a request", .min = 1,
        .max = 100),
    KEY("max_concurrent_requests", CONFIG_COUNT, fanout_settings, max_concurrent_requests, "6",
        "requests at once; the provider takes 6", .min = 1, .max = 6),
    KEY("rate_limit", CONFIG_COUNT, fanout_settings, rate_limit, "600",
        "messages a second and project, of this process; never more in any second", .min = 1, .max = 100000),
    KEY("rate_share", CONFIG_SHARE, fanout_settings, rate_share, "1",
        "of rate_limit for this process: 0.5 for each of two"),
    KEY("send_attempts", CONFIG_COUNT, fanout_settings, send_attempts, "3",
        "for what was certainly not accepted, counted while the breaker is closed", .min = 1, .max = 100),
    KEY("push_max_age", CONFIG_DURATION, fanout_settings, push_max_age_ms, "1h",
        "older pushes are not sent; the feed keeps them", .min = SECONDS(1), .max = DAYS(30)),
    KEY("lease", CONFIG_DURATION, fanout_settings, lease_ms, "60s", "how long a batch belongs to its taker",
        .min = SECONDS(1), .max = DAYS(1)),
    KEY("sweep_interval", CONFIG_DURATION, fanout_settings, sweep_interval_ms, "5s",
        "between looks for batches whose lease ran out", .min = 50, .max = HOURS(1)),
    KEY("batches_in_memory", CONFIG_COUNT, fanout_settings, batches_in_memory, "64",
        "handed over by ingest without going by the table", .min = 1, .max = 1024),
};

static const struct config_key preferences_keys[] = {
    KEY("url", CONFIG_URI, preferences_settings, url, "",
        "the account service; empty: everything is allowed"),
    KEY("token", CONFIG_SECRET, preferences_settings, token, "", "access token; empty: none is sent"),
    KEY("timeout", CONFIG_DURATION, preferences_settings, timeout_ms, "300ms",
        "how long a batch waits for it; then its pushes go out", .min = 1, .max = MINUTES(1)),
    KEY("ttl", CONFIG_DURATION, preferences_settings, ttl_ms, "30s", "how long an answer holds", .min = 0,
        .max = DAYS(1)),
    KEY("stale_ttl", CONFIG_DURATION, preferences_settings, stale_ttl_ms, "10min",
        "how long it is used when there is no newer one", .min = 0, .max = DAYS(30)),
    KEY("max_users", CONFIG_COUNT, preferences_settings, max_users, "100000",
        "in the cache, about 200 bytes each", .min = 1, .max = 10000000),
    KEY("breaker_failures", CONFIG_COUNT, preferences_settings, breaker_failures, "5",
        "in a row that open the breaker", .min = 1, .max = 1000),
    KEY("breaker_open", CONFIG_DURATION, preferences_settings, breaker_open_ms, "5s",
        "without calls; then one trial call", .min = 10, .max = HOURS(1)),
};

static const struct config_key admin_keys[] = {
    KEY("listen", CONFIG_ADDRESS, admin_settings, listen, "127.0.0.1:9401", "/livez /readyz /metrics"),
};

static const struct config_key database_keys[] = {DATABASE_URI_ROW, DATABASE_PREPARED_ROW};

static const struct config_key run_keys[] = {
    KEY("roles", CONFIG_CHOICES, run_settings, roles, "ingest, fanout", "what this process does",
        .choices = "ingest|fanout"),
    RUN_ROWS,
};

#define AT(member) offsetof(struct dispatcher_settings, member)

static const struct config_section sections[] = {
    KAFKA_SECTION(AT(kafka.properties), kafka_defaults),
    SECTION("topics", AT(topics), topics_keys, "names"),
    SECTION("database", AT(database), database_keys, "Postgres"),
    SECTION("ingest", AT(ingest), ingest_keys, "events to rows"),
    SECTION("fanout", AT(fanout), fanout_keys, "rows to pushes"),
    SECTION("provider", AT(provider), provider_keys, "the push provider"),
    SECTION("preferences", AT(preferences), preferences_keys, "the account service"),
    SECTION("admin", AT(admin), admin_keys, "for operators"),
    SECTION("run", AT(run), run_keys, "the process"),
};

const struct config_table dispatcher_table = {.sections = sections, .section_count = KEY_COUNT(sections)};

static const struct option_row rows[] = {
    {.name = "create-topics", .help = "create the topics that are missing, and exit"},
    {.name = "partitions",
     .argument = "N",
     .with = "create-topics",
     .help = "with --create-topics: partitions of each (12)"},
    {.name = "replication",
     .argument = "N",
     .with = "create-topics",
     .help = "with --create-topics: copies (the broker's default)"},
    {.name = "retention-hours",
     .argument = "N",
     .with = "create-topics",
     .help = "with --create-topics: how long records stay (168)"},
    {.name = "check-events",
     .argument = "FILE",
     .help = "say what is wrong with each line of a file, and exit"},
    {.name = "seek",
     .argument = "TOPIC:PARTITION=OFFSET|end",
     .help = "move the group there, in the database and in Kafka, and exit; may be repeated",
     .repeatable = true},
    {.name = "replay-dlq",
     .help = "put dead letters back on their topic, each once and at most 3 times, and exit"},
    {.name = "code",
     .argument = "CODE",
     .with = "replay-dlq",
     .help = "with --replay-dlq: only those of this reason code"},
    {.name = "since",
     .argument = "TIME",
     .with = "replay-dlq",
     .help = "with --replay-dlq: only those dead-lettered since then (2026-03-21T09:00:00Z)"},
    {.name = "dry-run", .with = "replay-dlq", .help = "with --replay-dlq: show them, and put nothing back"},
};

const struct options_table dispatcher_options = {
    .standard = OPTIONS_KAFKA, .topic_key = "events", .rows = rows, .row_count = KEY_COUNT(rows)};

enum status dispatcher_config_check(struct config *config, const void *settings, struct fault *fault)
{
    const struct dispatcher_settings *own = settings;
    const struct shared_settings shared = {.kafka = &own->kafka,
                                           .topics = &own->topics,
                                           .database = &own->database,
                                           .ingest = &own->ingest,
                                           .provider =
                                               (own->run.roles & ROLE_FANOUT) != 0 ? &own->provider : NULL};
    enum status status = shared_config_check(config, &shared, fault);
    if (status == ST_OK && (own->run.roles & ROLE_FANOUT) != 0)
        status = preferences_settings_check(&own->preferences, fault);
    return status;
}
