/* What a feed is made of (contracts/reader-api.md 'Feeds', config.md [feed.NAME]): which relation, whose
 * rows, what is shown of them, by what they may be filtered, and who may read. The built-in `notifications`
 * is one such value; a declared feed becomes one when the catalog has said yes (store/source_check.h).
 * Everything that reads a feed (pages, exports) goes by it, and nothing else knows a column's name.
 *
 * Texts named `sql` are SQL: identifiers as the catalog spells them, quoted where they need it, never a
 * client's. A relation's sort key is always (created_at timestamptz NOT NULL, id NOT NULL, unique). */
#ifndef BELFRY_STORE_SOURCE_H
#define BELFRY_STORE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SOURCE_NAME_MAX = 63, /* bytes of a feed's name: [a-z0-9_-], as CURSOR_FEED_MAX */
    SOURCE_COLUMNS_MAX = 32,
    SOURCE_FILTERS_MAX = 8,
    SOURCE_ROLES_MAX = 16,
    SOURCE_TEXT_FILTER_MAX = 256 /* bytes of a text filter's value, where nothing smaller is said */
};

/* How a column comes from the database and goes to the client. */
enum source_type {
    SOURCE_TEXT,    /* text, varchar, enums; a JSON string */
    SOURCE_INTEGER, /* smallint, integer; a JSON number */
    SOURCE_BIGINT,  /* a JSON string: beyond 2^53 a number loses digits (RDR-07) */
    SOURCE_NUMERIC, /* a JSON string, digits as stored */
    SOURCE_BOOLEAN,
    SOURCE_TIME, /* timestamptz; RFC 3339, UTC, microseconds */
    SOURCE_UUID,
    SOURCE_JSON /* json, jsonb; as stored */
};

struct source_column {
    const char *name; /* of the JSON member */
    const char *sql;
    enum source_type type;
    bool object; /* NULL is shown as {}; else as null */
};

/* `name=value` in a query: entries whose column equals the value. No index is asked for: at most scan_max
 * entries are read. Types: TEXT, INTEGER, BIGINT, BOOLEAN (true or false), UUID. */
struct source_filter {
    const char *name;
    const char *sql;
    enum source_type type;
    size_t bytes_max; /* of a TEXT value */
};

/* Who may read: a member of the workspace (token and membership), anybody with a token, anybody. */
enum source_auth { SOURCE_MEMBER, SOURCE_USER, SOURCE_OPEN };

struct source {
    const char *name;
    const char *path;      /* of its own, such as "/posts"; NULL: /v1/[workspaces/{workspace}/]feeds/{name} */
    const char *relation;  /* sql, with its schema where it was declared */
    const char *workspace; /* sql of the column that holds the workspace; NULL: the feed has none */
    const char *recipient; /* sql of the column that holds the user; NULL: the feed is not one user's */
    enum source_type id_type; /* UUID, BIGINT, TEXT */
    bool id_number;           /* of BIGINT: shown as a JSON number */
    const char *items_key;    /* "items" unless said */

    struct source_column columns[SOURCE_COLUMNS_MAX]; /* as shown, in order; id and created_at among them */
    size_t column_count;
    struct source_filter filters[SOURCE_FILTERS_MAX];
    size_t filter_count;
    const char *flag, *flag_sql; /* `flag=true`: a condition over the row n that has an index; NULL: none */

    enum source_auth auth;
    const char *roles[SOURCE_ROLES_MAX]; /* who of the workspace's members; none: each */
    size_t role_count;
    const char *roles_column; /* sql of a text[]: which roles may read the row; NULL: each */

    const char *xid;     /* sql of the xid8 column that holds the inserting transaction; NULL: no boundary */
    const char *settled; /* the key of its bound in the table settled; NULL: nothing stamps its rows, and the
                          * newer walk holds back settle_max and says "gapless":false */
};

extern const struct source source_notifications;

#endif
