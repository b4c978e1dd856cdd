/* A declared feed against the catalog: what the configuration says (struct source_declaration) becomes what
 * pages are read by (struct source), or a refusal that says what is wrong and the statement that mends it
 * (contracts/reader-api.md 'Feeds', design.md §4).
 *
 * Asked for: a table, or a partitioned one, that this role may SELECT · every column named, of a type a feed
 * can show · id of the declared type and created_at timestamptz, both NOT NULL · a unique index on id (of a
 * partitioned table also on id and created_at) · a btree index that leads with the scope's columns in any
 * order, then created_at and id, both DESC or both ASC with their usual place of NULLs: the planner takes no
 * other for the walk, NOT NULL or not · indexes valid, of the whole table, of the columns' own collations.
 * A text id is COLLATE "C": positions are compared here too. A scope column is text or varchar with a
 * collation under which only equal texts are equal: else one workspace were another. An xid_column is xid8,
 * NOT NULL, set by belfry_stamp or by the default pg_current_xact_id(). */
#ifndef BELFRY_STORE_SOURCE_CHECK_H
#define BELFRY_STORE_SOURCE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"
#include "io/db.h"
#include "store/source.h"

/* Names as the catalog spells them, unquoted; nothing here is SQL yet. NULL: not given. */
struct source_declaration {
    const char *name, *path;
    const char *schema; /* NULL: the relation is looked for on the role's search_path */
    const char *relation;
    const char *workspace_column, *user_column, *roles_column, *xid_column;
    const char *columns[SOURCE_COLUMNS_MAX]; /* id and created_at among them */
    size_t column_count;
    struct {
        const char *column;
        bool typed; /* the type was declared: the column must be of it */
        enum source_type type;
    } filters[SOURCE_FILTERS_MAX];
    size_t filter_count;
    enum source_type id_type;
    bool id_number;
    const char *items_key;
    enum source_auth auth;
    const char *roles[SOURCE_ROLES_MAX];
    size_t role_count;
};

/* Blocks for three statements on db, with nothing else in flight. source points into the arena and the
 * declaration, which must live as long. ST_FATAL with EXIT_USAGE: refused; code "feed", field
 * "feed.NAME.key", text one line for the operator. Otherwise the status of db_run. */
MUST_USE enum status source_check(struct db *db, const struct source_declaration *declaration,
                                  struct arena *arena, struct source *source, struct fault *fault);

#endif
