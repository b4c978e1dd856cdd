/* The parameters of a feed request and its cursor, understood (contracts/reader-api.md 'Feeds', 'Cursor').
 * Serves HTTP's query and the flags of `belfry-reader page` alike.
 *
 * Direction newer and contract boundary are not in this version: they are refused, never ignored. */
#ifndef BELFRY_FEED_PARAMETERS_H
#define BELFRY_FEED_PARAMETERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "io/http_server.h"
#include "store/page.h"
#include "wire/cursor.h"

struct parameters_input {
    const struct http_parameter *parameters; /* decoded, in order, repeats kept */
    size_t count;
    struct span workspace_id, user_id;
    const struct cursor_keys *keys;
    int64_t scan_max; /* [http] scan_max */
    int64_t cursor_ttl_us;
    int64_t now_us;
};

/* What is asked for. Spans point into the input. */
struct ask {
    struct page_query query;
    uint64_t fingerprint; /* of the query, for the next cursor */
    int64_t now_us;       /* when it was asked: the next cursor's age counts from here */
};

/* ST_REJECT: fault.code is the code for the client (invalid_parameter, unknown_parameter, repeated_parameter,
 * contract_not_offered, invalid_cursor, cursor_unsupported, cursor_mismatch, cursor_expired), fault.field
 * the parameter's name, fault.text the detail. Nothing of a cursor is in one. */
MUST_USE enum status parameters_read(const struct parameters_input *input, struct ask *ask,
                                     struct fault *fault);

/* For a call that takes no parameters: ST_REJECT unknown_parameter where there is one. */
MUST_USE enum status parameters_none(const struct parameters_input *input, struct fault *fault);

/* RDR-01: digits only, at most PAGE_LIMIT_MAX; anything else is PAGE_LIMIT_DEFAULT. */
int parameters_limit(struct span text);

/* The cursor that goes on at `at`. text holds CURSOR_TEXT_MAX + 1 bytes. */
MUST_USE enum status parameters_next_cursor(const struct ask *ask, struct page_position at,
                                            const struct cursor_keys *keys, char *text, struct fault *fault);

#endif
