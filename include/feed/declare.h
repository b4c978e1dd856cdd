/* [feed.NAME] (contracts/config.md): the pairs as they stand in the file -> declarations, every key checked
 * as far as that goes without a database; store/source_check.h asks the catalog the rest.
 *
 *   relation          table, or schema.table; names as the catalog spells them, case and all
 *   columns           what an entry shows, in order; id and created_at must be among them
 *   workspace_column, user_column, roles_column, xid_column
 *   filters           columns, each perhaps as column:type (text integer bigint boolean uuid)
 *   id_type           uuid (default) bigint text        id_json  string (default) number, of bigint only
 *   items_key         items unless given                path     of a feed without workspace, such as /posts
 *   auth              member (default) user none        roles    of member only
 *
 * Lists by commas or blanks. */
#ifndef BELFRY_FEED_DECLARE_H
#define BELFRY_FEED_DECLARE_H

#include <stddef.h>

#include "base/arena.h"
#include "base/config.h"
#include "base/status.h"
#include "store/source_check.h"

enum { DECLARE_PATH_MAX = 200, DECLARE_ARENA_BYTES_MAX = 1024 * 1024 };

/* In the order of the file. */
struct declared {
    const struct source_declaration *feeds;
    size_t count;
};

/* Everything is copied into the arena (of DECLARE_ARENA_BYTES_MAX). ST_REJECT "config", field
 * "feed.NAME.key"; config_blame knows its line. ST_FATAL: no memory. */
MUST_USE enum status declare_feeds(const struct config_named *sections, struct arena *arena,
                                   struct declared *declared, struct fault *fault);

#endif
