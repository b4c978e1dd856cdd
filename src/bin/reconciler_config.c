/* Rows in, nothing else: what belfry-reconciler can be told. */
#include "reconciler_config.h"

#include <stdio.h>

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
        "then a silent device is switched off as Stale", .min = SECONDS(1), .max = DAYS(3650)),
    KEY("notification_retention", CONFIG_DURATION, reconcile_settings, notification_retention_ms, "365d",
        "then removed, once its dispatches are", .min = SECONDS(1), .max = DAYS(36500)),
    KEY("dispatch_retention", CONFIG_DURATION, reconcile_settings, dispatch_retention_ms, "90d",
        "then removed, unless still owed; at most notification_retention", .min = SECONDS(1),
        .max = DAYS(36500)),
    KEY("allow_short_retention", CONFIG_BOOL, reconcile_settings, allow_short_retention, "off",
        "start although one of the three is under a day"),
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
    SECTION("ingest", AT(ingest), ingest_keys, "key_retention; the rest is the dispatcher's"),
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

static enum status refuse(const char *key, const char *why, struct fault *fault)
{
    char field[FAULT_FIELD_MAX];
    snprintf(field, sizeof field, "reconciler.%s", key);
    fault_set(fault, "config", "[reconciler] %s %s", key, why);
    fault_set_field(fault, field);
    return ST_REJECT;
}

/* A duration with the wrong unit must not remove everything there is. */
static enum status retention_check(const struct reconcile_settings *settings, struct fault *fault)
{
    const struct {
        const char *key;
        int64_t ms;
    } limits[] = {{"notification_retention", settings->notification_retention_ms},
                  {"dispatch_retention", settings->dispatch_retention_ms},
                  {"token_stale_after", settings->token_stale_after_ms}};
    for (size_t i = 0; i < KEY_COUNT(limits); i++) {
        if (limits[i].ms < DAYS(1) && !settings->allow_short_retention)
            return refuse(limits[i].key, "is under a day; set allow_short_retention = on if that is meant",
                          fault);
    }
    if (settings->dispatch_retention_ms > settings->notification_retention_ms)
        return refuse("dispatch_retention",
                      "is above notification_retention: a notification stays as long as its dispatches do",
                      fault);
    return ST_OK;
}

enum status reconciler_config_check(struct config *config, const void *settings, struct fault *fault)
{
    const struct reconciler_settings *own = settings;
    const struct shared_settings shared = {.kafka = &own->kafka,
                                           .topics = &own->topics,
                                           .database = &own->database,
                                           .ingest = &own->ingest,
                                           .provider = &own->provider};
    enum status status = shared_config_check(config, &shared, fault);
    return status == ST_OK ? retention_check(&own->reconcile, fault) : status;
}
