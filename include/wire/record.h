/* One Kafka record as the parsers of this layer take it: bytes in, and what the broker knows about them. */
#ifndef BELFRY_WIRE_RECORD_H
#define BELFRY_WIRE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* The headers of a binary CloudEvent that mean something here. */
enum { WIRE_CE_SPECVERSION, WIRE_CE_ID, WIRE_CE_SOURCE, WIRE_CE_TYPE, WIRE_CE_HEADERS };
static const char *const wire_ce_headers[WIRE_CE_HEADERS] = {
    [WIRE_CE_SPECVERSION] = "ce_specversion",
    [WIRE_CE_ID] = "ce_id",
    [WIRE_CE_SOURCE] = "ce_source",
    [WIRE_CE_TYPE] = "ce_type",
};

struct wire_record {
    struct span value;               /* the record's value; a null one (tombstone) is never handed in */
    struct span traceparent;         /* the value of the header of this name; empty when there is none */
    struct span content_type;        /* the header "content-type"; empty when there is none */
    struct span ce[WIRE_CE_HEADERS]; /* their values; at NULL where there is none */
    int64_t timestamp_us;            /* the broker's; negative: it has none */
    int64_t now_us;                  /* the wall clock when it was taken */
    int32_t partition;
    int64_t offset;
    size_t bytes_max; /* record_max_bytes: a longer value is too_big */
};

/* The broker's milliseconds as wire_record.timestamp_us. The producer may have set any 64 bits: what does not
 * fit is as far in the future as can be, and so counts as now. */
static inline int64_t wire_record_time_us(int64_t timestamp_ms)
{
    if (timestamp_ms < 0)
        return -1;
    return timestamp_ms > INT64_MAX / 1000 ? INT64_MAX : timestamp_ms * 1000;
}

/* The reason codes of contracts/events.md, in fault.code of an ST_REJECT. */
#define REASON_JSON       "json" /* not UTF-8, not JSON, a lone surrogate, a doubled name, a number too big */
#define REASON_NOT_OBJECT "not_object" /* JSON, but not an object */
#define REASON_FIELD      "field"      /* a missing, mistyped, empty or too long member: fault.field */
#define REASON_NUL        "nul"        /* U+0000 in a string or a member's name */
#define REASON_TOO_BIG    "too_big"    /* too long or too deep; the text has both sizes */

/* All of them, and what came of a database's refusal: the label values of dead letters. */
#define REASON_VALUES                                                                                        \
    REASON_JSON, REASON_NOT_OBJECT, REASON_FIELD, REASON_NUL, REASON_TOO_BIG, "sqlstate", "other"

#endif
