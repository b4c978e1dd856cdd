/* Rows of a feed as JSON objects, straight from a binary result: no tree, no allocation a row. */
#ifndef BELFRY_FEED_ROWS_H
#define BELFRY_FEED_ROWS_H

#include "base/buffer.h"
#include "base/status.h"
#include "io/db.h"
#include "store/source.h"

/* The members' names as they are written, made once a feed. */
struct row_form {
    const struct source *source;
    struct buffer names;
    struct {
        size_t from, bytes; /* in names: ,"title": */
    } members[SOURCE_COLUMNS_MAX];
};

/* ST_FATAL: no memory. row_form_done in any case. source must live as long. */
MUST_USE enum status row_form_init(struct row_form *form, const struct source *source, struct fault *fault);
void row_form_done(struct row_form *form); /* of zeroes is fine */

/* One object. The source's columns stand in the row from `first` on, in order, of the types store/page.h
 * says. The same row gives the same bytes, whatever the role's settings are. */
void row_write(struct buffer *out, const struct row_form *form, const struct db_result *result, int row,
               int first);

#endif
