/* Sections that several binaries read, each written once. Defaults are contracts/config.md's; bounds keep
 * the product of all maxima within the memory config/ documents. */
#include "shared_config.h"

#include <stdio.h>
#include <string.h>

#include "remote/provider.h"

const struct config_key topics_keys[6] = {
    KEY("events", CONFIG_TEXT, topics_settings, events, "belfry.events", "producers write here"),
    KEY("devices", CONFIG_TEXT, topics_settings, devices, "belfry.devices",
        "the account service writes here"),
    KEY("receipts", CONFIG_TEXT, topics_settings, receipts, "belfry.receipts", "outcomes of every dispatch"),
    KEY("dlq", CONFIG_TEXT, topics_settings, dlq, "belfry.events.dlq", "records that can never succeed"),
    KEY("receipts_dlq", CONFIG_TEXT, topics_settings, receipts_dlq, "belfry.receipts.dlq",
        "outcomes the reconciler cannot read"),
    KEY("settled_topic", CONFIG_TEXT, topics_settings, settled_topic, "",
        "final states for others; empty: off; the same in dispatcher and reconciler"),
};

const struct config_key ingest_keys[7] = {
    KEY("batch_max_events", CONFIG_COUNT, ingest_settings, batch_max_events, "1000", "events a statement",
        .min = 1, .max = 10000),
    KEY("batch_max_recipients", CONFIG_COUNT, ingest_settings, batch_max_recipients, "10000",
        "recipients a statement, one event at least", .min = 1, .max = 50000),
    KEY("batch_max_bytes", CONFIG_SIZE, ingest_settings, batch_max_bytes, "4MiB",
        "bytes of a statement's rows, one event at least", .min = KIB(64), .max = MIB(256)),
    KEY("record_max_bytes", CONFIG_SIZE, ingest_settings, record_max_bytes, "1MiB",
        "a larger record goes to the dead letters", .min = 1024, .max = MIB(16)),
    KEY("devices_per_user_max", CONFIG_COUNT, ingest_settings, devices_per_user_max, "20",
        "devices of one user that are pushed to, the newest by last_seen", .min = 1, .max = 100),
    KEY("key_retention", CONFIG_DURATION, ingest_settings, key_retention_ms, "30d",
        "how long a duplicate is recognised", .min = SECONDS(1), .max = DAYS(3650)),
    KEY("allow_short_key_retention", CONFIG_BOOL, ingest_settings, allow_short_key_retention, "off",
        "start although the topic outlives the keys"),
};

const struct config_key provider_keys[9] = {
    KEY("base_url", CONFIG_URI, provider_settings, base_url, "", "where the push provider answers",
        .flags = CONFIG_REQUIRED),
    KEY("token", CONFIG_SECRET, provider_settings, token, "", "access token; empty: none is sent"),
    KEY("request_timeout", CONFIG_DURATION, provider_settings, request_timeout_ms, "30s",
        "for a whole request", .min = 100, .max = MINUTES(10)),
    KEY("connect_timeout", CONFIG_DURATION, provider_settings, connect_timeout_ms, "5s",
        "for the connection alone", .min = 100, .max = MINUTES(10)),
    KEY("auth_pause", CONFIG_DURATION, provider_settings, auth_pause_ms, "30s",
        "pause after refused credentials", .min = 100, .max = HOURS(1)),
    KEY("provider_failures", CONFIG_COUNT, provider_settings, provider_failures, "5",
        "failures in a row, timeouts too, that open the breaker", .min = 1, .max = 1000),
    KEY("provider_pause", CONFIG_DURATION, provider_settings, provider_pause_ms, "1s",
        "first pause of an open breaker, then a trial chunk", .min = 10, .max = HOURS(1)),
    KEY("provider_pause_max", CONFIG_DURATION, provider_settings, provider_pause_max_ms, "30s",
        "longest pause of an open breaker: it doubles up to this", .min = 10, .max = HOURS(1)),
    KEY("token_check", CONFIG_CHOICE, provider_settings, token_check, "strict",
        "which device tokens are sent at all", .choices = "strict|official"),
};

enum { TOPIC_NAME_MAX = 249 }; /* Kafka's own rule, and its alphabet below */

static bool is_topic_name(const char *name)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t bytes = strlen(name);
    return bytes > 0 && bytes <= TOPIC_NAME_MAX && strspn(name, alphabet) == bytes &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static enum status refuse_topic(const char *key, const char *why, struct fault *fault)
{
    char field[FAULT_FIELD_MAX];
    snprintf(field, sizeof field, "topics.%s", key);
    fault_set(fault, "config", "[topics] %s %s", key, why);
    fault_set_field(fault, field);
    return ST_REJECT;
}

/* A topic with two meanings would be read by the one what was written for the other: dead letters in the
 * events topic come back for ever. Only the two of dead letters may be one. */
static enum status topics_check(const struct topics_settings *topics, struct fault *fault)
{
    const struct {
        const char *key, *name;
    } rows[] = {{"events", topics->events},     {"devices", topics->devices},
                {"receipts", topics->receipts}, {"settled_topic", topics->settled_topic},
                {"dlq", topics->dlq},           {"receipts_dlq", topics->receipts_dlq}};
    enum { ROWS = sizeof rows / sizeof rows[0], SETTLED = 3, DLQ = 4 };
    for (size_t i = 0; i < ROWS; i++) {
        if (i == SETTLED && rows[i].name[0] == '\0')
            continue;
        if (!is_topic_name(rows[i].name))
            return refuse_topic(rows[i].key, "is no topic's name: 1 to 249 of A-Z a-z 0-9 . _ -", fault);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(rows[i].name, rows[k].name) == 0 && k != DLQ)
                return refuse_topic(rows[i].key, "names a topic that has another meaning already", fault);
        }
    }
    return ST_OK;
}

/* Files that librdkafka opens by itself (the passwords and keys that stand in the ini are read by us), and
 * what it takes and cannot do. */
static void warn_about_kafka(struct config *config, const struct config_pairs *properties)
{
    static const char *const names[] = {"ssl.key.location", "ssl.keystore.location"};
    for (size_t i = 0; i < KEY_COUNT(names); i++) {
        const char *path = config_pairs_find(properties, names[i]);
        if (path != NULL && config_file_open_to_others(path))
            config_warn(config, "%s ([kafka] %s) can be read by others; take that away: chmod o-r", path,
                        names[i]);
    }
    const char *warning = kafka_properties_warning(properties);
    if (warning != NULL)
        config_warn(config, "%s", warning);
}

/* A duration with the wrong unit must not forget everything. */
static enum status key_retention_check(const struct ingest_settings *ingest, struct fault *fault)
{
    if (ingest->key_retention_ms >= HOURS(1) || ingest->allow_short_key_retention)
        return ST_OK;
    fault_set(fault, "config",
              "[ingest] key_retention is below 1h: duplicates would be stored again. Raise it, or set "
              "allow_short_key_retention = on");
    fault_set_field(fault, "ingest.key_retention");
    return ST_REJECT;
}

enum status shared_config_check(struct config *config, const struct shared_settings *settings,
                                struct fault *fault)
{
    /* Misspelt ones first: else bootstrp.servers would be "must be given". */
    enum status status = kafka_properties_check(&settings->kafka->properties, fault);
    if (status == ST_OK)
        status = config_require(config, "kafka", "bootstrap.servers", fault);
    if (status == ST_OK)
        warn_about_kafka(config, &settings->kafka->properties);
    if (status == ST_OK)
        status = topics_check(settings->topics, fault);
    if (status == ST_OK)
        status = database_config_check(config, settings->database, fault);
    if (status == ST_OK)
        status = key_retention_check(settings->ingest, fault);
    if (status == ST_OK && settings->provider != NULL)
        status = config_require(config, "provider", "base_url", fault);
    if (status == ST_OK && settings->provider != NULL)
        status = provider_settings_check(settings->provider, fault);
    return status;
}
