/* The body that orders an export: {"filters":{"category":"meetings","unread":true},"format":"ndjson"}, both
 * optional (contracts/reader-api.md 'Exports'). A filter's value is a JSON string, a whole number or a
 * boolean; here each is the text that the same filter has in a query. */
#ifndef BELFRY_WIRE_EXPORT_BODY_H
#define BELFRY_WIRE_EXPORT_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "base/status.h"

enum { EXPORT_BODY_BYTES_MAX = 4096, EXPORT_BODY_FILTERS_MAX = 16 };

enum export_format { EXPORT_NDJSON, EXPORT_CSV };

/* "ndjson", "csv" */
const char *export_format_name(enum export_format format);

struct export_filter {
    struct span name, value;
    bool text; /* it was a JSON string */
};

/* Spans point into texts. */
struct export_body {
    enum export_format format;
    struct export_filter filters[EXPORT_BODY_FILTERS_MAX];
    size_t count;
    char texts[EXPORT_BODY_BYTES_MAX];
};

/* An empty body is {}. ST_REJECT invalid_body. ST_RETRY "memory". Nothing of the body is in a fault. */
MUST_USE enum status export_body_parse(struct span text, struct export_body *body, struct fault *fault);
/* The filters alone, as an order was stored: {"category":"meetings"}. */
MUST_USE enum status export_filters_parse(struct span text, struct export_body *body, struct fault *fault);

#endif
