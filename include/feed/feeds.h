/* The feeds a reader serves: the built-in one, and those that were declared. A declared one is known by name
 * and path from the start (feed_open: feeds_declare), answered with 503 meanwhile, and served once the
 * catalog has said yes (feed_watch_database, where the schema is checked, and once_find: source_check,
 * feeds_serve). */
#ifndef BELFRY_FEED_FEEDS_H
#define BELFRY_FEED_FEEDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/config.h"
#include "base/span.h"
#include "base/status.h"
#include "feed/declare.h"
#include "feed/rows.h"
#include "store/export.h"
#include "store/page.h"
#include "store/source.h"
#include "store/source_check.h"

enum { FEEDS_MAX = 1 + CONFIG_NAMED_MAX };

struct feeds_entry {
    const char *name, *path;                      /* path NULL: none of its own */
    const struct source_declaration *declaration; /* NULL: the built-in one */
    struct arena arena;                           /* what the catalog said of it */
    const struct source *source; /* NULL: declared, and not checked yet; then the rest is not there either */
    struct page_statements *statements;
    struct export_statement *fill;
    struct row_form form;
};

struct feeds {
    struct arena arena; /* the declarations */
    struct feeds_entry entries[FEEDS_MAX];
    size_t count;
};

/* The built-in feed, served, and those of the settings, declared. settle_max_ms is [http] settle_max.
 * ST_REJECT "config": declare_feeds' refusal. ST_FATAL: no memory. feeds_done in any case. */
MUST_USE enum status feeds_init(struct feeds *feeds, const struct config_named *declared,
                                int64_t settle_max_ms, struct fault *fault);
void feeds_done(struct feeds *feeds); /* of zeroes is fine */
/* What is allowed and seldom meant becomes a warning of config. */
void feeds_warn(const struct feeds *feeds, struct config *config);

/* Serves source from now on, under its name: declared before, or new. It must live until feeds_done.
 * ST_FATAL: no memory. */
MUST_USE enum status feeds_serve(struct feeds *feeds, const struct source *source, int64_t settle_max_ms,
                                 struct fault *fault);
/* Asks the catalog for a feed that is not served yet, and serves it. Blocks on db, which has nothing in
 * flight. The status is source_check's. */
MUST_USE enum status feeds_check(struct feeds *feeds, struct feeds_entry *entry, struct db *db,
                                 int64_t settle_max_ms, struct fault *fault);

/* NULL: there is none that is served. */
const struct feeds_entry *feeds_find_served(const struct feeds *feeds, struct span name);
/* NULL: there is none. */
struct feeds_entry *feeds_find(struct feeds *feeds, struct span name);
/* By a path of its own, compared as routes_is_path does. */
struct feeds_entry *feeds_find_path(struct feeds *feeds, struct span path);

#endif
