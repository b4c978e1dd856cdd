/* RFC 3339 text <-> microseconds since 1970-01-01 UTC. */
#ifndef BELFRY_MODEL_TIMESTAMP_H
#define BELFRY_MODEL_TIMESTAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

enum { TIMESTAMP_TEXT_BYTES = 27 }; /* 2026-03-21T09:00:00.123456Z */

/* RFC 3339 §5.6 date-time with an offset (Z or ±hh:mm), years 0001–9999, real dates; digits beyond
 * microseconds are cut, not rounded; a leap second (:60) is taken as the first instant of the next minute.
 * False: not one. */
bool timestamp_parse(struct span text, int64_t *us);

/* Always UTC with six digits and Z, and a NUL: text holds TIMESTAMP_TEXT_BYTES + 1 bytes. False when the year
 * is outside 0001–9999; then text is "". */
bool timestamp_format(int64_t us, char *text);

#endif
