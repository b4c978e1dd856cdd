/* The reader: HTTP requests -> pages (contracts/reader-api.md). One event loop over the HTTP server and a
 * few pipelined database connections; and the same page once, for the command line. */
#ifndef BELFRY_FEED_FEED_H
#define BELFRY_FEED_FEED_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/readiness.h"
#include "base/status.h"
#include "feed/settings.h"
#include "io/db.h"
#include "io/http_server.h"
#include "io/settings.h"

struct feed;

struct feed_setup {
    const struct feed_settings *settings; /* [auth] [cursor] [feed.NAME] */
    const struct http_settings *http;     /* [http] */
    const char *database_uri;             /* [database] read_uri, or uri: where pages come from */
    const char *primary_uri;              /* [database] uri, where it is another; else NULL */
    bool prepared_statements;             /* [database] */
    int64_t shutdown_timeout_ms;          /* [run] */
    struct clock clock;
    struct metrics *metrics;     /* NULL: none */
    struct readiness *readiness; /* NULL: none; adds its slots "database" and, with a
                                  primary_uri, "primary" */
    /* Called in feed_run's thread after a SIGHUP: reads the settings again and hands them to feed_take_keys.
     * NULL: there is nothing to read again. */
    void (*reload)(void *context, struct feed *feed);
    void *reload_context;
};

/* What the settings say that a table of keys cannot check, and the keys: for --check-config too. Blocking
 * file reads. ST_REJECT "config" with the field at fault. What is allowed and unwise becomes a warning of
 * config. */
MUST_USE enum status feed_check(const struct feed_settings *settings, struct config *config,
                                struct fault *fault);

/* Loads the keys, listens, begins to connect. ST_REJECT: the settings (exit 2). ST_STOP: the address cannot
 * be bound. What setup points to must live until feed_close. */
MUST_USE enum status feed_open(const struct feed_setup *setup, struct feed **feed, struct fault *fault);
/* Serves until signals_stopping(), then lets what is under way end, at most shutdown_timeout. A database
 * that is away is waited for, with 503 meanwhile; one that can never serve (a role without the settings of
 * contracts/schema.md, a schema too old) ends the loop with ST_FATAL and its exit code, at start only. */
MUST_USE enum status feed_run(struct feed *feed, struct fault *fault);
void feed_close(struct feed *feed);
/* The keys of these settings from now on, and nothing else of them; they are copied. ST_REJECT: they cannot
 * be read, the old ones stay. For setup.reload; blocking file reads. */
MUST_USE enum status feed_take_keys(struct feed *feed, const struct feed_settings *settings,
                                    struct fault *fault);

/* One page, or an export, for the command line. */
struct feed_once {
    struct span feed, workspace, user;
    const struct http_parameter *parameters; /* as in a query */
    size_t count;
    bool csv; /* of an export: not ndjson */
};

/* Appends the JSON. ST_REJECT: usage or cursor (exit 2), fault.code as over HTTP; anything else: exit 1.
 * Blocks on the database. */
MUST_USE enum status feed_page(const struct feed_setup *setup, const struct feed_once *once,
                               struct buffer *out, struct fault *fault);

/* Where an export goes, piece by piece; a status that is not ST_OK ends it. */
struct feed_sink {
    enum status (*write)(void *context, struct span piece, struct fault *fault);
    void *context;
};

/* A whole export, as /rows gives it out; it is gone when this returns. Statuses as of feed_page; ST_STOP
 * too_many_exports, export_failed too. Blocks on the database, the primary. */
MUST_USE enum status feed_export(const struct feed_setup *setup, const struct feed_once *asked,
                                 const struct feed_sink *sink, struct fault *fault);

struct feed_grant {
    struct span sub; /* the user */
    int64_t ttl_ms;  /* from now_us on */
    int64_t now_us;
};

/* Appends a development token. ST_REJECT: usage or configuration. Blocking file reads. */
MUST_USE enum status feed_token(const struct auth_settings *settings, const struct feed_grant *asked,
                                struct buffer *out, struct fault *fault);

#endif
