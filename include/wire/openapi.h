/* The OpenAPI 3.1 document a reader serves: config/contracts/openapi.json, as it was at build time, with the
 * reader's own declared feeds in the place of the document's example ones (x-belfry-feed). */
#ifndef BELFRY_WIRE_OPENAPI_H
#define BELFRY_WIRE_OPENAPI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/status.h"

extern const char contract_openapi[]; /* the document in the repository */

/* A member of an entry, or a filter, with its JSON Schema as text. */
struct openapi_value {
    const char *name, *schema;
};

struct openapi_feed {
    const char *name;      /* [a-z0-9_-] */
    const char *path;      /* of its own; NULL: none */
    const char *items_key; /* of a page */
    const struct openapi_value *columns, *filters;
    size_t column_count, filter_count;
    bool scoped;   /* stands below a workspace */
    bool open;     /* takes no token */
    bool roles;    /* is for some of the workspace's members only */
    bool boundary; /* offers that contract */
    bool gapless;
};

/* ST_FATAL "memory"; "openapi": the embedded document, or a schema, is not what is expected here. */
MUST_USE enum status openapi_write(const struct openapi_feed *feeds, size_t count, struct buffer *out,
                                   struct fault *fault);

#endif
