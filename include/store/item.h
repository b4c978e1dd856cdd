/* One notification of one user in one workspace: read, marked read, marked unread; and how many are unread
 * (contracts/reader-api.md). Each is one statement that looks at the membership too; what is not the user's
 * is not found. Nothing here blocks. */
#ifndef BELFRY_STORE_ITEM_H
#define BELFRY_STORE_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "io/db.h"
#include "model/uuid.h"
#include "store/page.h"

enum { ITEM_UNREAD_MAX = 1000 }; /* counted, not more */

struct item_query {
    struct span workspace_id, user_id; /* as in struct page_query */
    struct uuid id;
};

/* Whether it is only looked at, or first marked. Marks are written where the connection leads: the primary.
 */
enum item_mark { ITEM_LOOK, ITEM_READ, ITEM_UNREAD };

/* The answer is a page of at most one entry: page_open_item. The status is db_send's. Marking twice
 * is marking once; the first read_at stays. */
MUST_USE enum status item_send(struct db *db, const struct item_query *query, enum item_mark mark,
                               uint64_t tag, struct fault *fault);

struct item_unread {
    bool member;
    int count;   /* at most ITEM_UNREAD_MAX */
    bool capped; /* there are more */
};

/* query->id is not looked at. */
MUST_USE enum status item_unread_send(struct db *db, const struct item_query *query, uint64_t tag,
                                      struct fault *fault);
struct item_unread item_unread_open(const struct db_result *result);

enum { ITEM_MARKED_MAX = 5000 }; /* in one call */

/* Marks every entry at or below a place read, of those the page_query's scope and filters let through; its
 * walk is not looked at. Written where the connection leads: the primary. */
MUST_USE enum status item_read_up_to_send(struct db *db, const struct page_query *query,
                                          const struct page_position *up_to, uint64_t tag,
                                          struct fault *fault);

struct item_marked {
    bool member;
    int64_t marked; /* at most ITEM_MARKED_MAX */
    bool more;      /* there are more to mark */
};

struct item_marked item_marked_open(const struct db_result *result);

#endif
