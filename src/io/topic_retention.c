/* A topic's configuration in, whether keys outlive its records out. Knows the rule, and nothing of who asks.
 */
#include "io/topic_retention.h"

#include <stdlib.h>
#include <string.h>

enum { HOUR_MS = 3600 * 1000 };

enum status topic_retention_ask(const struct kafka_client_options *options, const char *topic,
                                struct topic_retention *retention, struct fault *fault)
{
    struct kafka_config_value values[] = {
        {.name = "retention.ms"}, {.name = "segment.ms"}, {.name = "cleanup.policy"}};
    struct kafka_admin *admin = NULL;
    int partitions = 0;
    enum status status = kafka_admin_open(options, &admin, fault);
    if (status != ST_OK)
        return status;
    status = kafka_admin_partitions(admin, topic, &partitions, fault);
    if (status == ST_OK)
        status = kafka_admin_topic_config(admin, topic, values, 3, fault);
    kafka_admin_close(admin);
    if (status == ST_OK && values[0].value[0] == '\0') {
        fault_set(fault, "no_answer", "the broker tells no retention.ms");
        return ST_RETRY;
    }
    if (status == ST_OK)
        *retention = (struct topic_retention){values[0], values[1], values[2]};
    return status;
}

bool topic_retention_is_missing(enum status status, const struct fault *fault)
{
    return status == ST_STOP && strcmp(fault->code, "UNKNOWN_TOPIC_OR_PART") == 0;
}

const struct kafka_config_value *topic_retention_blame(const struct topic_retention *retention,
                                                       int64_t keep_ms)
{
    long long retention_ms = strtoll(retention->retention_ms.value, NULL, 10);
    long long segment_ms = strtoll(retention->segment_ms.value, NULL, 10);
    if (strstr(retention->cleanup_policy.value, "compact") != NULL)
        return &retention->cleanup_policy;
    if (retention_ms < 0)
        return &retention->retention_ms;
    /* Subtracted, not added: people write the greatest number there is for "for ever". */
    int64_t left_ms = keep_ms - HOUR_MS;
    if (left_ms < retention_ms || left_ms - retention_ms < segment_ms)
        return &retention->retention_ms;
    return NULL;
}

enum status topic_retention_refuse(const char *topic, const struct kafka_config_value *blamed,
                                   struct fault *fault)
{
    fault_set(
        fault, "key_retention",
        "topic %s has %s=%s: a record may come again after its key is gone. Raise [ingest] key_retention "
        "above retention.ms + segment.ms + 1 h, or set allow_short_key_retention = on",
        topic, blamed->name, blamed->value);
    fault_set_field(fault, "ingest.key_retention");
    if (fault != NULL)
        fault->exit_code = EXIT_USAGE;
    return ST_FATAL;
}
