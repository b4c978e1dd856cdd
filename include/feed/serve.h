/* Requests of the reader from arrival to reply: one request is one statement on one of the links. One
 * thread, no waiting: a request is sent on at once, or waits in a queue that the number of HTTP connections
 * bounds, or is refused at once when no database connection is up. */
#ifndef BELFRY_FEED_SERVE_H
#define BELFRY_FEED_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "feed/document.h"
#include "feed/exporter.h"
#include "feed/feeds.h"
#include "feed/keys.h"
#include "feed/links.h"
#include "feed/settings.h"
#include "io/http_server.h"
#include "io/settings.h"

struct asked; /* one request that waits for the database (feed/calls.h) */

/* Connections to one database, and what waits for a place on them. */
struct serve_pool {
    struct links *links;
    bool fit; /* the database was found to be one this binary can use; before that nothing is sent */
    struct asked *first, *last; /* what waits, the oldest first */
    size_t waiting;
};

/* Pages may come from a replica; what writes goes to the primary. Without read_uri both are the first. */
enum { SERVE_PAGES, SERVE_PRIMARY, SERVE_POOLS, SERVE_SENT_MAX = SERVE_POOLS * LINKS_COUNT * LINKS_DEPTH };

struct serve {
    const struct feed_settings *settings;
    const struct http_settings *http;
    struct clock clock;
    struct keys *keys;                    /* replaced by a reload */
    struct feeds feeds;                   /* the built-in one first; serve_done ends them */
    struct serve_pool pools[SERVE_POOLS]; /* the second without links: the first serves both */
    struct metric_set *metrics;
    struct asked *sent[SERVE_SENT_MAX]; /* on the links; a statement's tag is the place here */
    size_t sent_count;
    struct exporter *exporter; /* told of new exports; NULL: none is made here */
    size_t downloads;          /* streams of exports under way */
    struct document document;
    struct buffer body, link; /* of the page being answered; their memory is kept */
};

/* What is pointed at must live until serve_done. metrics NULL: none. Fills the rest, but keeps pools' links.
 */
void serve_init(struct serve *serve, struct metrics *metrics);
/* Forgets what is not answered: its requests die with the HTTP server. */
void serve_done(struct serve *serve);

/* The callbacks of io/http_server.h; context is the struct serve. */
void serve_handle(void *context, struct http_request *request);
void serve_finished(void *context, const struct http_exchange *exchange);
/* What waits for a place is forgotten; what is on a link, its answer thrown away when it comes. */
void serve_gone(void *context, struct http_request *request);

/* One answer of a link; takes its result. */
void serve_answer(struct serve *serve, struct db_answer *answer);
/* A download's next statement goes out, or waits, or the download is cut. */
void serve_again(struct serve *serve, struct asked *asked);
/* Requests that wait for a place, or for the database. */
size_t serve_pending(const struct serve *serve);
/* Sends on what waits, and refuses what has waited too long, here or on a link, or cannot be served. */
void serve_waiting(struct serve *serve);

#endif
