/* What a feed is made of (contracts/reader-api.md 'Feeds', config.md [feed.NAME]): which relation, whose
 * rows, what is shown of them, by what they may be filtered, and who may read. The built-in `notifications`
 * is one such value; a declared feed becomes one when the catalog has said yes (store/source_check.h).
 * Everything that reads a feed (pages, exports) goes by it, and nothing else knows a column's name.
 *
 * Texts named `sql` are SQL: identifiers as the catalog spells them, quoted where they need it, never a
 * client's. A relation's sort key is always (created_at timestamptz NOT NULL, id NOT NULL, unique). A text id
 * is COLLATE "C": positions are compared here too, and by their bytes. Rows whose text id is longer than
 * SOURCE_ID_TEXT_MAX are in no page, as no cursor could stand at them. */
#ifndef BELFRY_STORE_SOURCE_H
#define BELFRY_STORE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/span.h"
#include "io/db.h"
#include "model/uuid.h"

enum {
    SOURCE_NAME_MAX = 63, /* bytes of a feed's name: [a-z0-9_-], as CURSOR_FEED_MAX */
    SOURCE_COLUMNS_MAX = 32,
    SOURCE_FILTERS_MAX = 8,
    SOURCE_ROLES_MAX = 16,
    SOURCE_TEXT_FILTER_MAX = 256, /* bytes of a text filter's value, where nothing smaller is said */
    SOURCE_ID_TEXT_MAX = 256,     /* bytes, as CURSOR_ID_TEXT_MAX */
    SOURCE_VALUE_ROOM = 40        /* a number's or a uuid's text */
};

/* How a column comes from the database and goes to the client. */
enum source_type {
    SOURCE_TEXT,    /* text, varchar, enums; a JSON string */
    SOURCE_INTEGER, /* smallint, integer; a JSON number */
    SOURCE_BIGINT,  /* a JSON string: beyond 2^53 a number loses digits (RDR-07) */
    SOURCE_NUMERIC, /* a JSON string, digits as stored */
    SOURCE_BOOLEAN,
    SOURCE_TIME, /* timestamptz; RFC 3339, UTC, microseconds; null outside the years 0001-9999 */
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

/* Who may read: a member of the workspace (token and membership), anybody with a token, anybody. MEMBER has
 * a workspace, OPEN no recipient; roles and roles_column are MEMBER's only. */
enum source_auth { SOURCE_MEMBER, SOURCE_USER, SOURCE_OPEN };

struct source {
    const char *name;
    const char *path; /* of its own beside /v1/feeds/{name}, such as "/posts", of a feed without workspace */
    const char *relation;  /* sql, with its schema where it was declared */
    const char *workspace; /* sql of the text (or varchar) column of the workspace; NULL: the feed has none */
    const char *recipient; /* sql of the text (or varchar) column of the user; NULL: not one user's */
    enum source_type id_type; /* UUID, BIGINT, TEXT */
    bool id_number;           /* of BIGINT: shown as a JSON number */
    const char *items_key;    /* "items" unless said */

    struct source_column columns[SOURCE_COLUMNS_MAX]; /* as shown; names "id" and "created_at" among them */
    size_t column_count;
    struct source_filter filters[SOURCE_FILTERS_MAX];
    size_t filter_count;
    const char *flag, *flag_sql; /* `flag=true`: a condition over the row n that has an index; NULL: none */

    enum source_auth auth;
    const char *roles[SOURCE_ROLES_MAX]; /* who of the workspace's members; none: each */
    size_t role_count;
    const char *roles_column; /* sql of a text[]: which roles may read the row, nobody where it holds NULL.
                               * Read like a filter, at most scan_max entries. NULL: each row for each role */

    const char *xid;     /* sql of the xid8 column that holds the inserting transaction; NULL: no boundary */
    const char *settled; /* the key of its bound in the table settled; NULL: nothing stamps its rows, and the
                          * newer walk holds back settle_max and says "gapless":false */
};

extern const struct source source_notifications;

/* An id of the sort key, by value. */
struct source_id {
    enum source_type type; /* UUID, BIGINT, TEXT */
    struct uuid uuid;
    int64_t number;
    size_t bytes;
    char text[SOURCE_ID_TEXT_MAX];
};

/* Below zero, zero, above; both of one type. As the database orders them. */
int source_id_compare(const struct source_id *a, const struct source_id *b);
/* Below (above) every other id of its type; of TEXT: above all that are text of SOURCE_ID_TEXT_MAX bytes. */
struct source_id source_id_lowest(enum source_type type);
struct source_id source_id_highest(enum source_type type);
void source_id_bind(const struct source_id *id, struct db_params *params);

/* A filter's value, normalised: two spellings of one meaning are one value. */
struct source_value {
    bool given;
    struct span text; /* of TEXT: points to what was parsed */
    int64_t number;   /* of INTEGER, BIGINT, BOOLEAN */
    struct uuid uuid;
};

/* False: the text is no value of this filter (empty, too long, no text, no number, out of range). */
MUST_USE bool source_value_parse(const struct source_filter *filter, struct span text,
                                 struct source_value *value);
/* As it stands in a fingerprint and a link. room holds SOURCE_VALUE_ROOM bytes and the span may point there.
 */
struct span source_value_text(const struct source_filter *filter, const struct source_value *value,
                              char *room);
/* Not given: NULL of its type. */
void source_value_bind(const struct source_filter *filter, const struct source_value *value,
                       struct db_params *params);

/* A text as a literal of SQL, whatever it holds and however the server is set. */
void source_write_literal(struct buffer *sql, const char *text);

#endif
