/* Which librdkafka properties are ours and why; each reason stands in libraries.md or design.md.
 * A property that is not here is the user's, and librdkafka itself says whether it is one. */
#include "io/kafka_properties.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kafka_private.h"

struct owned {
    const char *property, *reason;
};

static const struct owned owned[] = {
    {"enable.auto.commit", "the database holds the offsets; belfry commits to Kafka after it did"},
    {"auto.commit.enable", "the database holds the offsets; belfry commits to Kafka after it did"},
    {"auto.commit.interval.ms", "belfry commits after the database did, not by time"},
    {"enable.auto.offset.store", "belfry stores an offset only once its record is in the database"},
    {"auto.offset.reset", "a new group starts at the earliest record; to skip, use --seek"},
    {"enable.partition.eof", "belfry does not use end-of-partition events"},
    {"allow.auto.create.topics", "a missing topic is waited for, or made by --create-topics"},
    {"statistics.interval.ms", "belfry reads librdkafka's statistics every 5 s"},
    {"socket.nagle.disable", "belfry always disables it: small requests must not wait"},
    {"enable.idempotence", "outcomes and dead letters are produced idempotently, always"},
    {"acks", "outcomes and dead letters need every in-sync replica"},
    {"request.required.acks", "outcomes and dead letters need every in-sync replica"},
    {"transactional.id", "belfry does not use transactions: the database's commit decides"},
    {"metadata.broker.list", "use bootstrap.servers"},
};

const char *kafka_property_refusal(const char *property)
{
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        if (strcmp(property, owned[i].property) == 0)
            return owned[i].reason;
    }
    return NULL;
}

/* librdkafka pull request 4895: before 2.6.1 the client's nonce goes out twice, and Kafka 4 looks closely.
 * Seen with 2.0.2 against Kafka 4.3.1. */
const char *kafka_properties_warning(const struct config_pairs *properties)
{
    enum { SCRAM_RIGHT_SINCE = 0x020601ff };
    const char *mechanism = config_pairs_find(properties, "sasl.mechanism");
    if (mechanism == NULL)
        mechanism = config_pairs_find(properties, "sasl.mechanisms");
    if (mechanism == NULL || strncasecmp(mechanism, "SCRAM-", 6) != 0 ||
        rd_kafka_version() >= SCRAM_RIGHT_SINCE)
        return NULL;
    return "[kafka] sasl.mechanism: librdkafka before 2.6.1 fails to log in by SCRAM at Kafka 4 and newer, "
           "which"
           " answers \"invalid credentials\"; there take PLAIN over TLS, a client certificate, or a newer"
           " librdkafka";
}

enum status kafka_properties_check(const struct config_pairs *properties, struct fault *fault)
{
    char text[FAULT_TEXT_MAX], field[FAULT_FIELD_MAX];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    enum status status = ST_OK;
    for (size_t i = 0; i < properties->count && status == ST_OK; i++) {
        const struct config_pair *pair = &properties->pairs[i];
        rd_kafka_conf_res_t result = rd_kafka_conf_set(conf, pair->key, pair->value, text, sizeof text);
        if (result == RD_KAFKA_CONF_OK)
            continue;
        status = ST_REJECT;
        /* librdkafka quotes the value it refuses. */
        fault_set(fault, "config", "[kafka] %s: %s", pair->key,
                  result == RD_KAFKA_CONF_UNKNOWN    ? "librdkafka has no such property"
                  : config_pair_is_secret(pair->key) ? "librdkafka refuses the value"
                                                     : text);
        snprintf(field, sizeof field, "kafka.%s", pair->key);
        fault_set_field(fault, field);
    }
    rd_kafka_conf_destroy(conf);
    return status;
}
