/* Places in a walk <-> the cursors a client holds (contracts/reader-api.md 'Cursor'; the bytes:
 * wire/cursor.h).
 *
 * What the contract's "snapshot" field of a cursor carries: under live nothing, or, where the place stands
 * below an entry that was shown already (the head page's prev_cursor, held back by the bound), that entry's
 * created_at i64 and id (uuid: 16 bytes, bigint: 8, text: u16 length + bytes): `read up to here` means it.
 * Under boundary: u8 whether that entry follows · it · xmin u64 · xmax - xmin, then each running
 * transaction's distance from the one before (the first: from xmin), as LEB128. */
#ifndef BELFRY_FEED_CURSORS_H
#define BELFRY_FEED_CURSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "store/page.h"
#include "wire/cursor.h"

/* A cursor understood: which walk, where, and what it has seen. */
struct cursors_place {
    enum cursor_direction direction;
    enum cursor_contract contract; /* live or boundary */
    struct page_position at;
    bool has_newest; /* `newest` stands above `at` and was shown */
    struct page_position newest;
    uint32_t cluster; /* of boundary: this and the next */
    struct page_snapshot snapshot;
    uint64_t fingerprint;
    int64_t issued_at_us;
};

/* A cursor of the feed of this name. text holds CURSOR_TEXT_MAX + 1 bytes. ST_REJECT: it does not fit, which
 * a snapshot of store/page.h's maxima always does. */
MUST_USE enum status cursors_write(const char *feed, const struct cursors_place *place,
                                   const struct cursor_keys *keys, char *text, struct fault *fault);
/* A cursor that was decoded, of a feed with ids of this type. ST_REJECT cursor_unsupported: of an export, or
 * of another kind of id. */
MUST_USE enum status cursors_read(const struct cursor *cursor, enum source_type id_type,
                                  struct cursors_place *place, struct fault *fault);

/* Up to where `everything I was shown` goes: the newest of the place's two positions. */
struct page_position cursors_up_to(const struct cursors_place *place);

#endif
