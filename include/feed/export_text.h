/* Rows of an export as the text a client gets: NDJSON or CSV, range after range (contracts/reader-api.md
 * 'Exports'). NDJSON line n is ordinal n, the last line is {"_end":{"rows":n}}; CSV has a header line where
 * it begins with the first row, and no trailer. */
#ifndef BELFRY_FEED_EXPORT_TEXT_H
#define BELFRY_FEED_EXPORT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "store/export.h"

enum {
    EXPORT_TEXT_ROWS = 500,        /* of a range, at most */
    EXPORT_TEXT_BYTES = 128 * 1024 /* of a range; one row more than fits */
};

struct export_text {
    const struct source *source;
    bool csv;
    int64_t rows;  /* of the export */
    int64_t after; /* the last ordinal that was added */
};

/* The next range, an answer of export_rows_send after `after`. ST_STOP "hole": a row is missing. */
MUST_USE enum status export_text_add(struct export_text *text, const struct db_result *result,
                                     struct buffer *out, struct fault *fault);
/* Every row was added, and the trailer. */
bool export_text_is_whole(const struct export_text *text);

#endif
