/* One page of a feed: its entries, newest first by (created_at, id), read together with the right to read
 * them (contracts/reader-api.md). What a feed is made of is a struct source; its statements are composed from
 * it once (page_compose), so that every feed goes the same way.
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
#include "store/source.h"

enum {
    PAGE_LIMIT_DEFAULT = 20,
    PAGE_LIMIT_MAX = 100,
    /* Of a snapshot: more running transactions, or further apart, do not fit into a cursor. A text id leaves
     * less room. */
    PAGE_RUNNING_MAX = 190,
    PAGE_RUNNING_SPREAD_MAX = 1 << 21,
    PAGE_RUNNING_TEXT_MAX = 48,
    PAGE_RUNNING_SPREAD_TEXT_MAX = 1 << 14,
    PAGE_COLUMN_FIRST = 1 /* of a result: the first of the source's columns */
};

struct page_statements;

/* Composes the statements of a feed. What source points to must live as long. settle_max_ms: held back by the
 * newer walk where nothing stamps the rows ([http] settle_max). NULL: out of memory. */
struct page_statements *page_compose(const struct source *source, int64_t settle_max_ms);
void page_statements_free(struct page_statements *statements); /* NULL is fine */
const struct source *page_source(const struct page_statements *statements);

/* Where a walk stands: at an entry that was returned, or read; it need not exist any more. */
struct page_position {
    int64_t created_at_us;
    bool instant;        /* no id: the place before every entry of created_at_us */
    struct source_id id; /* of an instant: only its type */
};

/* Below zero, zero, above: a is older than b, the same place, newer. Of one feed. */
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
    /* UTF-8 without NUL: the server would refuse anything else. At NULL where the feed has none, or asks for
     * nobody. */
    struct span workspace_id, user_id;
    int limit;      /* 1 … PAGE_LIMIT_MAX */
    bool continues; /* only entries beyond `after`; else from the newest on */
    bool newer;     /* of continues: entries above `after` that are older than the feed's bound, the lowest */
    struct page_position after;
    bool flag;                                       /* the source's, which has one */
    struct source_value filters[SOURCE_FILTERS_MAX]; /* in the source's order */
    int64_t scan_max; /* entries read at most with boundary, filters or a roles_column; > 0 */
    bool boundary;    /* only entries whose insertion `snapshot` saw; the first page takes it. Only where the
                       * source has an xid */
    struct page_snapshot snapshot; /* of boundary and continues */
};

/* The statement that answers this query: for tests that look at its plan. */
const struct db_statement *page_statement(const struct page_query *query);

/* It reads limit + 1 entries and nothing else: its time does not depend on the feed. */
bool page_is_small(const struct page_query *query);
/* Sends it, a small one by db_send_joined: see db_release. The answer comes with this tag. The status is
 * db_send's. */
MUST_USE enum status page_send(struct db *db, const struct page_query *query, uint64_t tag,
                               struct fault *fault);
/* Sends it and waits. The caller frees the result. */
MUST_USE enum status page_read(struct db *db, const struct page_query *query, struct db_result **result,
                               struct fault *fault);

/* Whether who asks may read at all. */
enum page_access { PAGE_GRANTED, PAGE_NO_MEMBER, PAGE_NO_ROLE };

/* A result understood. It points into the result, which must outlive it. */
struct page {
    const struct db_result *result;
    enum page_access access;   /* but for PAGE_GRANTED nothing was read */
    int count;                 /* entries to show, at most limit */
    bool ascending;            /* as they stand in the result; page_row turns them round */
    bool has_more;             /* with an index: exact; else also true when scan_max ended it */
    bool has_next;             /* has_more; walking newer always */
    struct page_position next; /* of has_next: where the same walk goes on */
    /* Where the walk turns round: newer from an older page, older from a newer one. To newer it stands at the
     * feed's bound at most, as rows may still come above. */
    struct page_position prev;
    bool has_newest;               /* there is an entry above prev, or at it, that was shown */
    struct page_position newest;   /* that one */
    uint32_t cluster;              /* of boundary: 4 bytes of the database's system identifier */
    struct page_snapshot snapshot; /* of boundary: what this walk sees */
};

/* ST_FATAL: the snapshot is not one, or the rows are not in order (a programming error here or in the
 * database). */
MUST_USE enum status page_open(const struct page_query *query, const struct db_result *result,
                               struct page *page, struct fault *fault);
/* The answer of one item's statement (store/item.h): a page of at most one entry, no walk. */
void page_open_item(const struct db_result *result, struct page *page);
/* The row of the result that holds an entry, its columns from PAGE_COLUMN_FIRST on, as the source lists them.
 * 0 <= index < page->count, 0 the newest. Types as enum source_type says: TEXT, NUMERIC and JSON are text,
 * INTEGER is int4, BIGINT int8. */
int page_row(const struct page *page, int index);

#endif
