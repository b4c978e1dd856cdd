/* Which librdkafka properties are ours and why; each reason stands in libraries.md or design.md.
 * A property that is not here is the user's, and librdkafka itself says whether it is one. */
#include "io/kafka_properties.h"

#include <string.h>

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
