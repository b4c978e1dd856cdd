/* One page of the built-in feed `notifications`: one user's entries in one workspace, newest first by
 * (created_at, id), read together with the user's membership (contracts/reader-api.md).
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

enum { PAGE_LIMIT_DEFAULT = 20, PAGE_LIMIT_MAX = 100 };

/* Where a walk stands: at an entry that was returned, or read. The entry need not exist any more. */
struct page_position {
    int64_t created_at_us;
    struct uuid id;
};

struct page_query {
    struct span workspace_id, user_id; /* UTF-8 without NUL: the server would refuse anything else */
    int limit;                         /* 1 … PAGE_LIMIT_MAX */
    bool continues;                    /* only entries below `after`; else from the newest on */
    struct page_position after;
    bool unread;
    struct span category, event_type; /* at NULL: any */
    int64_t scan_max;                 /* entries read at most when category or event_type is given; > 0 */
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
    bool has_more;             /* with unread or no filter: exact; else also true when scan_max ended it */
    struct page_position next; /* of has_more: where the next page goes on */
};

struct page_entry {
    struct uuid id;
    struct span event_type, category, title, body;
    struct span data; /* the JSON object's bytes; at NULL when there is none */
    int64_t created_at_us;
    bool occurred, read; /* whether the two times below are there */
    int64_t occurred_at_us, read_at_us;
};

void page_open(const struct db_result *result, int limit, struct page *page);
/* 0 <= index < page->count. The spans live as long as the result. */
struct page_entry page_entry_at(const struct page *page, int index);

#endif
