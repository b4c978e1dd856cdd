/* belfry.receipts: struct outcome <-> bytes (contracts/events.md). */
#ifndef BELFRY_WIRE_OUTCOME_H
#define BELFRY_WIRE_OUTCOME_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"
#include "model/dispatch.h"
#include "wire/record.h"

enum { OUTCOME_RECORD_MAX = 8 * 1024 }; /* no encoded outcome is longer */

/* Appends one record's value. Bytes that are not UTF-8 and U+0000 become U+FFFD; detail is cut to
 * DISPATCH_DETAIL_MAX on a character boundary, ticket and error to their maxima likewise. An outcome is
 * always readable by outcome_parse. The buffer fails as buffers do when it is full: check buffer->failed.
 * Asserts what the caller must know: outcome is sent, failed or suppressed, attempt >= 1, failed and
 * suppressed have an error. traceparent is not in the value: it travels as a header. */
void outcome_encode(struct buffer *buffer, const struct outcome *outcome);

/* Strict: types as written by outcome_encode, 64-bit ids as strings, v absent or 1; unknown members are
 * ignored. Text points into the arena; traceparent is record->traceparent. Reason codes and ST_RETRY as
 * event_parse. */
MUST_USE enum status outcome_parse(const struct wire_record *record, struct arena *arena,
                                   struct outcome *outcome, struct fault *fault);

#endif
