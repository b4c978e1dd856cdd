/* What goes back to a client: a page as JSON, or a refusal by its code (contracts/reader-api.md). */
#ifndef BELFRY_FEED_REPLY_H
#define BELFRY_FEED_REPLY_H

#include "base/buffer.h"
#include "base/status.h"
#include "feed/parameters.h"
#include "feed/rows.h"
#include "io/http_server.h"
#include "store/page.h"

/* A page at its largest: PAGE_LIMIT_MAX entries of the longest texts, every byte escaped, is below this. */
enum { REPLY_BYTES_MAX = 8 * 1024 * 1024, REPLY_RETRY_AFTER_S = 1 };

enum { REPLY_ETAG_MAX = 32, REPLY_LINK_BYTES_MAX = 8 * 1024 };

enum { REPLY_LOCATION_MAX = 64 };

/* What a call answers, of zeroes but for the buffers. The buffers are the caller's and empty before. */
struct answer {
    struct buffer *body;
    struct buffer *link;         /* the Link header; empty: none */
    const struct row_form *form; /* of the feed's entries */
    char etag[REPLY_ETAG_MAX];   /* of what may be kept and asked for again: a feed's first page; "": none */
    int status;                  /* 0: 200; 204 has no body */
    int retry_after_s;           /* 0: none */
    char location[REPLY_LOCATION_MAX]; /* "": none */
    bool shared;                       /* the same for everybody: caches may keep it for a minute */
};

/* {"items":[…],"next_cursor":"…","prev_cursor":"…","has_more":true,"contract":"live"}, items
 * under the feed's own key, "gapless":false where it is so; its Link and, on the
 * head page, its weak ETag: over rows, has_more and contract, not over cursors, which differ each time. */
void reply_write_page(struct answer *answer, const struct ask *ask, const struct page *page,
                      const struct parameters_cursors *cursors);

/* The weak tag of these parts, into etag[REPLY_ETAG_MAX]. */
void reply_make_etag(const struct span *parts, size_t count, char *etag);

/* What follows a page's items: "next_cursor":"…","prev_cursor":"…","has_more":true,"contract":"live". */
void reply_write_walk(struct buffer *out, const char *next, const char *prev, bool has_more,
                      enum cursor_contract contract);

/* Answers the request; with 304 where it says that it has the page with this ETag already. */
void reply_json(struct http_request *request, const struct answer *answer);

/* Whether a value of If-None-Match names the tag (RFC 9110 §13.1.2: weak comparison, a list, or *). */
bool reply_has_tag(struct span if_none_match, const char *etag);

/* The table of codes, for who compares it; NULL: past the end. */
const char *reply_code_at(size_t index, int *status);

/* Answers with problem+json: fault.code is the code, fault.text the detail, fault.field the parameter of a
 * parameter's fault. 401 carries WWW-Authenticate, 405 Allow (the fault's field), 503, 429 and what may yet
 * become ready Retry-After (the fault's field where that is a number of seconds). Returns the status. */
int reply_refuse(struct http_request *request, const struct fault *fault);

#endif
