/* What goes back to a client: a page as JSON, or a refusal by its code (contracts/reader-api.md). */
#ifndef BELFRY_FEED_REPLY_H
#define BELFRY_FEED_REPLY_H

#include "base/buffer.h"
#include "base/status.h"
#include "io/http_server.h"
#include "store/page.h"

/* A page at its largest: PAGE_LIMIT_MAX entries of the longest texts, every byte escaped, is below this. */
enum { REPLY_BYTES_MAX = 8 * 1024 * 1024, REPLY_RETRY_AFTER_S = 1 };

/* {"items":[…],"next_cursor":"…","has_more":true,"contract":"live"}. next_cursor "" at the end. */
void reply_write_page(struct buffer *out, const struct page *page, const char *next_cursor);

/* One entry as a page shows it. */
void reply_write_entry(struct buffer *out, const struct page_entry *entry);

/* Answers the request with the JSON in body; head: the feed's first page, which may be kept and asked for
 * again, else not. */
void reply_json(struct http_request *request, struct span body, bool head);

/* Answers with problem+json: fault.code is the code, fault.text the detail, fault.field the parameter of a
 * parameter's fault. 401 carries WWW-Authenticate, 405 Allow (the fault's
 * field), 503 Retry-After. Returns the status. */
int reply_refuse(struct http_request *request, const struct fault *fault);

#endif
