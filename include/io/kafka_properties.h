/* The librdkafka properties that belfry owns, and why: refused in [kafka] and -X (libraries.md). */
#ifndef BELFRY_IO_KAFKA_PROPERTIES_H
#define BELFRY_IO_KAFKA_PROPERTIES_H

#include "base/config.h"
#include "base/status.h"

/* A sentence for the user, or NULL when the property is theirs to set. */
const char *kafka_property_refusal(const char *property);
/* Asks librdkafka whether it knows every property and takes every value; opens nothing.
 * ST_REJECT: fault.field is "kafka.<property>". The value itself is never in the text when it is a secret. */
MUST_USE enum status kafka_properties_check(const struct config_pairs *properties, struct fault *fault);

/* What the librdkafka we run on cannot do although it takes the property: a sentence for the user, static;
 * NULL when nothing is known. */
const char *kafka_properties_warning(const struct config_pairs *properties);

#endif
