/* The shapes of a page's statement: page_compose.c writes them, page.c picks one and binds its parameters;
 * export_compose.c takes pieces of them. */
#ifndef BELFRY_STORE_PAGE_PRIVATE_H
#define BELFRY_STORE_PAGE_PRIVATE_H

#include "base/buffer.h"
#include "store/page.h"

enum page_way { PAGE_HEAD, PAGE_OLDER, PAGE_NEWER, PAGE_WAYS };
/* How entries are found: all that the index gives are shown; or scan_max are read and those that match are.
 */
enum page_reading { PAGE_INDEXED, PAGE_FILTERED, PAGE_BOUNDARY, PAGE_READINGS };

struct page_shape {
    bool flag;
    enum page_reading reading;
    enum page_way way;
};

enum { PAGE_NAME_MAX = 128 };

/* What stands behind the source's columns in a row, in this order, where the shape has it: a page is mostly
 * rows, and what is not needed costs in each. */
enum page_own {
    PAGE_BOUND,   /* but of the newer walk */
    PAGE_MATCHED, /* of a scan: this and the next */
    PAGE_SCAN_END,
    PAGE_ALLOWED, /* of a source with roles */
    PAGE_CLUSTER, /* of boundary: this and the next */
    PAGE_SEEN,
    PAGE_OWN
};

struct page_text {
    char name[PAGE_NAME_MAX];
    struct buffer sql;
    struct db_statement statement; /* sql NULL: a shape that the source does not offer */
};

struct page_statements {
    const struct source *source;
    int64_t settle_max_ms;
    size_t id, created_at; /* which of the source's columns they are */
    struct page_text texts[2][PAGE_READINGS][PAGE_WAYS];
};

/* Whether a row of this shape has it. */
static inline bool page_has_own(const struct source *source, const struct page_shape *shape,
                                enum page_own own)
{
    switch (own) {
    case PAGE_BOUND:
        return shape->way != PAGE_NEWER;
    case PAGE_MATCHED:
    case PAGE_SCAN_END:
        return shape->reading != PAGE_INDEXED;
    case PAGE_ALLOWED:
        return source->role_count > 0;
    case PAGE_CLUSTER:
    case PAGE_SEEN:
        return shape->reading == PAGE_BOUNDARY;
    case PAGE_OWN:
    default:
        return false;
    }
}

/* Pieces that an export's statement has too. */
/* Whether the member m, where there must be one, may read at all. */
void page_write_allowed(struct buffer *sql, const struct source *source);
/* " AND …" for each filter, its value (or NULL) in $param and following; and roles_column. */
void page_write_filters(struct buffer *sql, const struct source *source, int param);
/* Which of the source's columns is shown under this name; there must be one. */
size_t page_find_column(const struct source *source, const char *name);

#endif
