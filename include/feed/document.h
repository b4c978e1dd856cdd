/* What GET /openapi.json answers: the document of the repository with this reader's own declared feeds. Made
 * when it is first asked for, for the feeds do not change once the catalog has said yes. */
#ifndef BELFRY_FEED_DOCUMENT_H
#define BELFRY_FEED_DOCUMENT_H

#include "base/buffer.h"
#include "base/status.h"
#include "feed/feeds.h"
#include "feed/reply.h"

struct document {
    struct buffer text; /* empty: not made yet */
    char etag[REPLY_ETAG_MAX];
};

void document_init(struct document *document);
void document_done(struct document *document);

/* ST_REJECT: unavailable, a declared feed is not checked yet, so what it shows is not known; internal. */
MUST_USE enum status document_make(struct document *document, const struct feeds *feeds, struct fault *fault);

/* The document for these declared feeds. ST_FATAL: no memory. */
MUST_USE enum status document_write(const struct source *const *sources, size_t count, struct buffer *out,
                                    struct fault *fault);

#endif
