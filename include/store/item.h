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

enum { ITEM_UNREAD_MAX = 1000 }; /* counted, not more */

struct item_query {
    struct span workspace_id, user_id; /* as in struct page_query */
    struct uuid id;
};

/* Whether it is only looked at, or first marked. Marks are written where the connection leads: the primary.
 */
enum item_mark { ITEM_LOOK, ITEM_READ, ITEM_UNREAD };

/* The answer is a page of at most one entry: page_open with limit 1. The status is db_send's. Marking twice
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

#endif
