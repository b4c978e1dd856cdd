/* Do idempotency keys outlive the records of a topic? A record that is still there when its key is gone is
 * stored a second time. Asked by the dispatcher before it takes records, and by the reconciler before it
 * removes keys: one rule, design.md §1. Blocks up to KAFKA_ADMIN_TIMEOUT_MS for each of two questions. */
#ifndef BELFRY_IO_TOPIC_RETENTION_H
#define BELFRY_IO_TOPIC_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "io/kafka.h"

struct topic_retention {
    struct kafka_config_value retention_ms, segment_ms, cleanup_policy; /* as the broker tells them */
};

/* ST_STOP "UNKNOWN_TOPIC_OR_PART": the topic is missing; ST_STOP otherwise: forbidden · ST_RETRY: no answer,
 * which a mock cluster never gives · ST_FATAL: the client cannot go on. */
MUST_USE enum status topic_retention_ask(const struct kafka_client_options *options, const char *topic,
                                         struct topic_retention *retention, struct fault *fault);
/* True of such a fault: the topic is not there (yet). */
bool topic_retention_is_missing(enum status status, const struct fault *fault);

/* NULL: keys kept for keep_ms outlive the topic's records by an hour at least. Else the setting to blame, one
 * of the three. */
const struct kafka_config_value *topic_retention_blame(const struct topic_retention *retention,
                                                       int64_t keep_ms);
/* The sentence for the operator, with field and EXIT_USAGE. Always ST_FATAL. */
enum status topic_retention_refuse(const char *topic, const struct kafka_config_value *blamed,
                                   struct fault *fault);

#endif
