/* Sections that several binaries read, each written once. Defaults are contracts/config.md's; bounds keep
 * the product of all maxima within the memory config/ documents. */
#include "shared_config.h"

#include "remote/settings.h"

const struct config_key topics_keys[6] = {
    KEY("events", CONFIG_TEXT, topics_settings, events, "belfry.events", "producers write here"),
    KEY("devices", CONFIG_TEXT, topics_settings, devices, "belfry.devices",
        "the account service writes here"),
    KEY("receipts", CONFIG_TEXT, topics_settings, receipts, "belfry.receipts", "outcomes of every dispatch"),
    KEY("dlq", CONFIG_TEXT, topics_settings, dlq, "belfry.events.dlq", "records that can never succeed"),
    KEY("receipts_dlq", CONFIG_TEXT, topics_settings, receipts_dlq, "belfry.receipts.dlq",
        "outcomes the reconciler cannot read"),
    KEY("settled_topic", CONFIG_TEXT, topics_settings, settled_topic, "",
        "final states for others; empty: off; not used yet but by --create-topics"),
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
        "pause after refused credentials; not used yet", .min = 100, .max = HOURS(1)),
    KEY("provider_failures", CONFIG_COUNT, provider_settings, provider_failures, "5",
        "failures in a row that open the breaker; not used yet", .min = 1, .max = 1000),
    KEY("provider_pause", CONFIG_DURATION, provider_settings, provider_pause_ms, "1s",
        "first pause of an open breaker; not used yet", .min = 10, .max = HOURS(1)),
    KEY("provider_pause_max", CONFIG_DURATION, provider_settings, provider_pause_max_ms, "30s",
        "longest pause of an open breaker; not used yet", .min = 10, .max = HOURS(1)),
    KEY("token_check", CONFIG_CHOICE, provider_settings, token_check, "strict",
        "which device tokens are sent at all", .choices = "strict|official"),
};
