/* What the one-shots share: a feed found, a connection made, as a serving reader would. */
#ifndef BELFRY_SRC_FEED_ONCE_H
#define BELFRY_SRC_FEED_ONCE_H

#include "feed/feed.h"
#include "feed/feeds.h"
#include "feed/keys.h"

/* One answer on its way. */
struct once {
    const struct feed_setup *setup;
    struct feeds feeds;
    const struct feeds_entry *feed; /* the one asked for */
    struct keys keys;
    struct db *db;         /* NULL: not connected */
    int answer_timeout_ms; /* as in struct db_settings */
};

/* NULL: no memory, and the fault says so. setup must live until once_free. */
struct once *once_new(const struct feed_setup *setup, struct fault *fault);
void once_free(struct once *once);
/* Blocks on the database, at setup->database_uri. */
MUST_USE enum status once_connect(struct once *once, struct fault *fault);
/* The feed of this name; connects where it is a declared one, which the catalog must know. */
MUST_USE enum status once_find(struct once *once, struct span name, struct fault *fault);
/* What the feed needs of --workspace and --user, and nothing else of them. */
MUST_USE enum status once_scope(const struct source *source, const struct feed_once *asked,
                                struct fault *fault);
/* Always ST_REJECT. */
enum status once_usage(struct fault *fault, const char *field, const char *detail);

#endif
