/* belfry.events: bytes -> struct event (contracts/events.md). Pure: no I/O, no clock, no log.
 *
 * Faults name members and sizes, never a value. Where a record breaks several rules the first one met counts,
 * in this order: size, framing, depth, JSON and U+0000, object, then the members in the table's order. */
#ifndef BELFRY_WIRE_EVENT_H
#define BELFRY_WIRE_EVENT_H

#include "base/arena.h"
#include "base/status.h"
#include "model/event.h"
#include "wire/record.h"

enum {
    /* What one event can take from the arena at most: 10,000 keys of 1,815 bytes, and their recipients. */
    EVENT_ARENA_BYTES_MAX = 32 * 1024 * 1024,
    /* recipients * (title + body + data + push) above this is too_big: the rows one record may become. */
    EVENT_EXPANDED_BYTES_MAX = 32 * 1024 * 1024
};

/* Parses and validates one record, plain or a CloudEvent (contracts/events.md): then the object stands under
 * `data` or is the value, and the required attributes are checked first (`field` with the attribute's name).
 * *event points into the arena and, for data and push, into record->value.
 * ST_OK · ST_REJECT, with a reason code of wire/record.h: dead-letter it · ST_RETRY "arena": the arena is
 * full; close the batch, reset the arena and parse this record again (with an empty arena of
 * EVENT_ARENA_BYTES_MAX it always fits). What a failed parse took from the arena stays taken until the reset.
 *
 * Both recipient_user_id and recipients given is `field` "recipients": the contract says one of the two. null
 * is a type of its own: a member that is given as null is mistyped.
 *
 * content_hash: the first 8 bytes (big-endian) of SHA-256 over event_type, category, title, body, data as the
 * bytes that came, and occurred_at, each with its length. */
MUST_USE enum status event_parse(const struct wire_record *record, struct arena *arena, struct event *event,
                                 struct fault *fault);

/* --check-events: one line of a file as the value of a record that is just arriving, without headers; an
 * object with a specversion is taken as a structured CloudEvent. The arena is reset.
 * ST_OK or ST_REJECT; ST_FATAL when the arena is smaller than EVENT_ARENA_BYTES_MAX and full. */
MUST_USE enum status event_check_line(struct span line, size_t record_bytes_max, struct arena *arena,
                                      struct fault *fault);

#endif
