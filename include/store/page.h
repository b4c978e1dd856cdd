/* One page of a feed: entries of one user in one workspace, newest first by (created_at, id), read together
 * with the user's membership (contracts/reader-api.md). What a feed is made of is names; its statements are
 * composed from them once (page_compose), so that every feed goes the same way. In this version there is one
 * feed, the built-in `notifications`, whose columns struct page_entry holds.
 *
 * One request is one statement: page_send, or page_read for the one-shot; its rows are then told apart by
 * page_open. Nothing here blocks but page_read. */
#ifndef BELFRY_STORE_PAGE_H
#define BELFRY_STORE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "io/db.h"
#include "model/uuid.h"

enum {
    PAGE_LIMIT_DEFAULT = 20,
    PAGE_LIMIT_MAX = 100,
    PAGE_COLUMNS_MAX = 24,
    PAGE_FILTERS_MAX = 8,
    /* Of a snapshot: more running transactions, or further apart, do not fit into a cursor. */
    PAGE_RUNNING_MAX = 190,
    PAGE_RUNNING_SPREAD_MAX = 1 << 21
};

/* What a feed is made of. Texts are SQL, identifiers quoted where they need it, and static. */
struct page_names {
    const char *feed;      /* its key in settled; part of the statements' names */
    const char *relation;  /* has id and created_at: the sort key */
    const char *workspace; /* the scope's columns */
    const char *recipient;
    const char *columns[PAGE_COLUMNS_MAX]; /* beside id, in the order they come; ends with NULL */
    const char *unread;                    /* the condition of the flag that has an index; n is the row */
    const char *filters[PAGE_FILTERS_MAX]; /* text columns compared for equality, without an index */
    const char *xid;                       /* the column that holds the inserting transaction */
};

extern const struct page_names page_notifications;

struct page_statements;

/* Composes the statements of a feed. What names points to must live as long. NULL: out of memory. */
struct page_statements *page_compose(const struct page_names *names);
void page_statements_free(struct page_statements *statements); /* NULL is fine */

/* Where a walk stands: at an entry that was returned, or read; it need not exist any more. */
struct page_position {
    int64_t created_at_us;
    struct uuid id;
    bool instant; /* no id: the place before every entry of created_at_us */
};

/* Below zero, zero, above: a is older than b, the same place, newer. */
int page_position_compare(const struct page_position *a, const struct page_position *b);

/* The last place there can be at or below this one: itself, or for an instant the highest id of the
 * microsecond before it. */
struct page_position page_position_last(const struct page_position *at);

/* Which transactions had committed: those below xmin, and those below xmax that are not running. */
struct page_snapshot {
    uint64_t xmin, xmax;
    size_t count;
    uint64_t running[PAGE_RUNNING_MAX]; /* rising, from xmin on and below xmax */
};

struct page_query {
    const struct page_statements *statements;
    struct span workspace_id, user_id; /* UTF-8 without NUL: the server would refuse anything else */
    int limit;                         /* 1 … PAGE_LIMIT_MAX */
    bool continues;                    /* only entries beyond `after`; else from the newest on */
    bool newer; /* of continues: entries above `after` that are older than the feed's bound, the lowest */
    struct page_position after;
    bool unread;
    struct span category, event_type; /* at NULL: any */
    int64_t scan_max;                 /* entries read at most with boundary, category or event_type; > 0 */
    bool boundary;                 /* only entries whose insertion `snapshot` saw; the first page takes it */
    struct page_snapshot snapshot; /* of boundary and continues */
};

/* The statement that answers this query: for tests that look at its plan. */
const struct db_statement *page_statement(const struct page_query *query);

/* Sends it; the answer comes with this tag. The status is db_send's. */
MUST_USE enum status page_send(struct db *db, const struct page_query *query, uint64_t tag,
                               struct fault *fault);
/* Sends it and waits. The caller frees the result. */
MUST_USE enum status page_read(struct db *db, const struct page_query *query, struct db_result **result,
                               struct fault *fault);

/* A result understood. It points into the result, which must outlive it. */
struct page {
    const struct db_result *result;
    bool member;               /* false: not a member, and nothing was read */
    int count;                 /* entries to show, at most limit */
    bool ascending;            /* as they stand in the result; page_entry_at turns them round */
    bool has_more;             /* with unread or no filter: exact; else also true when scan_max ended it */
    bool has_next;             /* has_more; walking newer always */
    struct page_position next; /* of has_next: where the same walk goes on */
    struct page_position
        prev;        /* where the walk turns round: newer from an older page, older from a newer one.
                      * To newer it stands at the feed's bound at most, as rows may still come above */
    bool has_newest; /* there is an entry above prev, or at it, that was shown */
    struct page_position newest;   /* that one */
    uint32_t cluster;              /* of boundary: 4 bytes of the database's system identifier */
    struct page_snapshot snapshot; /* of boundary: what this walk sees */
};

struct page_entry {
    struct uuid id;
    struct span event_type, category, title, body;
    struct span data; /* the JSON object's bytes; at NULL when there is none */
    int64_t created_at_us;
    bool occurred, read; /* whether the two times below are there */
    int64_t occurred_at_us, read_at_us;
};

/* ST_FATAL: the snapshot is not one (a programming error here or in the database). */
MUST_USE enum status page_open(const struct page_query *query, const struct db_result *result,
                               struct page *page, struct fault *fault);
/* The answer of one item's statement (store/item.h): a page of at most one entry, no walk. */
void page_open_item(const struct db_result *result, struct page *page);
/* 0 <= index < page->count, 0 the newest. The spans live as long as the result. */
struct page_entry page_entry_at(const struct page *page, int index);

#endif
