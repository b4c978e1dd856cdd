/* Bytes of unknown origin -> a jansson object, safely; and members cut out of the bytes as they came. */
#ifndef BELFRY_SRC_WIRE_JSON_BYTES_H
#define BELFRY_SRC_WIRE_JSON_BYTES_H

#include <jansson.h>
#include <stddef.h>

#include "base/span.h"
#include "base/status.h"

/* A member of the outermost object that is wanted as its own bytes. */
struct json_cut {
    const char *name;  /* plain ASCII */
    struct span value; /* out: at NULL when it is not there; without the blanks around it */
};

struct json_bytes {
    struct span text;
    size_t bytes_max;
    int depth_max; /* the outermost object is 1 */
    struct json_cut *cuts;
    size_t cut_count;
};

/* ST_OK: *object is the caller's (json_decref) and the cuts are filled. ST_REJECT with a reason code of
 * wire/record.h; the text never holds a piece of the value. ST_RETRY "memory". Strict: UTF-8 without a
 * byte-order mark, no name twice in one object (also when spelled with escapes), no U+0000, no lone
 * surrogate, whole numbers within 64 bits, others within a double, nothing behind the value. Depth is counted
 * before anything recurses. */
MUST_USE enum status json_bytes_load(const struct json_bytes *source, json_t **object, struct fault *fault);

#endif
