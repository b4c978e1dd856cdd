/* Rows in, nothing else: what belfry-reconciler can be told. */
#include "reconciler_config.h"

#include "shared_config.h"

static const struct config_pair kafka_defaults[] = {{.key = "group.id", .value = "belfry-reconciler"},
                                                    {.key = NULL}};

static const struct config_key reconcile_keys[] = {
    KEY("receipt_delay", CONFIG_DURATION, reconcile_settings, receipt_delay_ms, "15min",
        "from the send to the first look", .min = 0, .max = DAYS(1)),
    KEY("poll_interval", CONFIG_DURATION, reconcile_settings, poll_interval_ms, "60s", "between looks",
        .min = 50, .max = DAYS(1)),
    KEY("receipt_max_age", CONFIG_DURATION, reconcile_settings, receipt_max_age_ms, "24h",
        "then an answered look without a receipt is the last", .min = SECONDS(1), .max = DAYS(30)),
    KEY("receipt_chunk", CONFIG_COUNT, reconcile_settings, receipt_chunk, "300", "ids a request", .min = 1,
        .max = 1000),
    KEY("lease", CONFIG_DURATION, reconcile_settings, lease_ms, "60s",
        "how long due batches belong to their taker", .min = SECONDS(1), .max = DAYS(1)),
    KEY("token_stale_after", CONFIG_DURATION, reconcile_settings, token_stale_after_ms, "270d",
        "then a silent device is not pushed to; not used yet", .min = DAYS(1), .max = DAYS(3650)),
    KEY("key_retention", CONFIG_DURATION, reconcile_settings, key_retention_ms, "30d",
        "as the dispatchers' [ingest] key_retention", .min = HOURS(1), .max = DAYS(3650)),
    KEY("notification_retention", CONFIG_DURATION, reconcile_settings, notification_retention_ms, "365d",
        "then removed; not used yet", .min = DAYS(1), .max = DAYS(36500)),
    KEY("dispatch_retention", CONFIG_DURATION, reconcile_settings, dispatch_retention_ms, "90d",
        "then removed; not used yet", .min = DAYS(1), .max = DAYS(36500)),
};

static const struct config_key admin_keys[] = {
    KEY("listen", CONFIG_ADDRESS, admin_settings, listen, "127.0.0.1:9402", "/livez /readyz /metrics"),
};

static const struct config_key database_keys[] = {DATABASE_URI_ROW, DATABASE_PREPARED_ROW};
static const struct config_key run_keys[] = {RUN_ROWS};

#define AT(member) offsetof(struct reconciler_settings, member)

static const struct config_section sections[] = {
    KAFKA_SECTION(AT(kafka.properties), kafka_defaults),
    SECTION("topics", AT(topics), topics_keys, "names"),
    SECTION("database", AT(database), database_keys, "Postgres"),
    SECTION("provider", AT(provider), provider_keys, "the push provider"),
    SECTION("reconciler", AT(reconcile), reconcile_keys, "outcomes and receipts to final states"),
    SECTION("admin", AT(admin), admin_keys, "for operators"),
    SECTION("run", AT(run), run_keys, "the process"),
};

const struct config_table reconciler_table = {.sections = sections, .section_count = KEY_COUNT(sections)};

static const struct option_row rows[] = {
    {.name = "audit",
     .help = "look at the whole database, change nothing, and exit: 3 when something is wrong"},
};

const struct options_table reconciler_options = {
    .standard = OPTIONS_KAFKA, .topic_key = "receipts", .rows = rows, .row_count = KEY_COUNT(rows)};

enum status reconciler_config_check(struct config *config, const void *settings, struct fault *fault)
{
    const struct reconciler_settings *own = settings;
    const struct shared_settings shared = {
        .kafka = &own->kafka, .topics = &own->topics, .database = &own->database, .provider = &own->provider};
    return shared_config_check(config, &shared, fault);
}
