/* Rows of an export as CSV (RFC 4180): JSON objects in, one record each out, their members in order.
 *
 * A JSON string is a text cell, null an empty one, anything else stands as it is (`data` as its JSON).
 * Quoted are cells with a quote, comma, CR or LF, and the empty text, so that it differs from null.
 * Spreadsheets run a text that begins with = + - @ TAB or CR as a formula: a text or JSON cell that begins
 * with one of them, or with ', has one ' put before it. Reversible: of a cell that begins with ' take that
 * one away. Numbers are not touched: JSON numbers, and what the caller says is one although JSON holds it as
 * a string (64-bit ids, numeric). Records end with CRLF. */
#ifndef BELFRY_WIRE_CSV_H
#define BELFRY_WIRE_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/span.h"
#include "base/status.h"

/* Whether the member of this name is a number that JSON holds as a string. */
struct csv_numbers {
    bool (*is_number)(const void *context, struct span name);
    const void *context;
};

/* The header line: the names of an object's members. ST_FATAL "csv": no JSON object. */
MUST_USE enum status csv_write_header(struct buffer *out, struct span row, struct fault *fault);
MUST_USE enum status csv_write_row(struct buffer *out, struct span row, const struct csv_numbers *numbers,
                                   struct fault *fault);
/* One text cell: neutralised and quoted where it must be. */
void csv_write_text(struct buffer *out, struct span text);
/* One cell that is quoted where it must be, and never neutralised. */
void csv_write_plain(struct buffer *out, struct span text);

#endif
