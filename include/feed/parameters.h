/* The parameters of a feed request and its cursor, understood (contracts/reader-api.md 'Feeds', 'Cursor').
 * Serves HTTP's query and the flags of `belfry-reader page` alike. */
#ifndef BELFRY_FEED_PARAMETERS_H
#define BELFRY_FEED_PARAMETERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "feed/cursors.h"
#include "io/http_server.h"
#include "store/page.h"
#include "wire/cursor.h"

struct parameters_input {
    const struct http_parameter *parameters; /* decoded, in order, repeats kept */
    size_t count;
    struct span body; /* of a POST */
    struct span workspace_id, user_id;
    const struct page_statements *statements; /* of the feed */
    const struct cursor_keys *keys;
    int64_t scan_max; /* [http] scan_max */
    int64_t cursor_ttl_us;
    int64_t now_us;
};

/* What is asked for. Spans point into the input. */
struct ask {
    struct page_query query;
    struct cursors_place from; /* of query.continues: the cursor; else only contract and fingerprint count */
    int64_t now_us;            /* when it was asked: the next cursors' age counts from here */
};

/* ST_REJECT: fault.code is the code for the client (invalid_parameter, unknown_parameter, repeated_parameter,
 * invalid_cursor, cursor_unsupported, cursor_mismatch, cursor_expired, contract_not_offered), fault.field the
 * parameter's name, fault.text the detail. Nothing of a cursor is in one. */
MUST_USE enum status parameters_read(const struct parameters_input *input, struct ask *ask,
                                     struct fault *fault);

/* For a call that takes no parameters: ST_REJECT unknown_parameter where there is one. */
MUST_USE enum status parameters_none(const struct parameters_input *input, struct fault *fault);

/* For a call that takes the feed's filters, and a cursor of any walk under them in its body: nothing else.
 * The query is filled but for its walk, `from` is the cursor. Faults as above, and invalid_body. */
MUST_USE enum status parameters_up_to(const struct parameters_input *input, struct ask *ask,
                                      struct fault *fault);

/* Sorts a call's own parameters: values[i] is that of names[i], at NULL where it was not given. values come
 * zeroed. */
MUST_USE enum status parameters_named(const struct parameters_input *input, const char *const *names,
                                      size_t count, struct span *values, struct fault *fault);

/* The feed's filters alone, as the parameters of input: filters and flag of the query. */
MUST_USE enum status parameters_export(const struct parameters_input *input, struct page_query *query,
                                       struct fault *fault);

/* RDR-01: digits only, at most PAGE_LIMIT_MAX; anything else is PAGE_LIMIT_DEFAULT. */
int parameters_limit(struct span text);

struct parameters_cursors {
    char next[CURSOR_TEXT_MAX + 1]; /* "" at the end */
    char prev[CURSOR_TEXT_MAX + 1];
};

/* The cursors of a page that answers ask. ST_REJECT cursor_expired: the page was read in another cluster than
 * the cursor's; internal: a place that fits into no cursor. */
MUST_USE enum status parameters_cursors(const struct ask *ask, const struct page *page,
                                        const struct cursor_keys *keys, struct parameters_cursors *cursors,
                                        struct fault *fault);

#endif
