/* JSON text straight into a bounded buffer, without a tree. Every function appends; a full buffer marks
 * itself failed (base/buffer.h), so a writer may check once at the end. Commas and brackets are the caller's.
 */
#ifndef BELFRY_WIRE_JSON_OUT_H
#define BELFRY_WIRE_JSON_OUT_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/span.h"
#include "model/uuid.h"

/* A JSON string with its quotes. Controls are escaped; bytes that are not UTF-8, and U+0000, become U+FFFD:
 * the output is JSON whatever came in, and text no part of belfry refuses. */
void json_out_string(struct buffer *buffer, struct span text);
/* The same, but null for a span whose at is NULL. */
void json_out_string_or_null(struct buffer *buffer, struct span text);
/* "name": with the colon. name is ours: plain ASCII, nothing to escape. */
void json_out_name(struct buffer *buffer, const char *name);
void json_out_int(struct buffer *buffer, int64_t value);
/* A 64-bit id as a string. */
void json_out_id(struct buffer *buffer, int64_t id);
void json_out_uuid(struct buffer *buffer, struct uuid id);
/* A quoted RFC 3339 instant, UTC, microseconds; null outside the years 0001-9999. */
void json_out_instant(struct buffer *buffer, int64_t us);

#endif
