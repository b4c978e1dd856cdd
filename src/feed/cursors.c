/* In: a place in a walk, or a decoded cursor. Out: the other. Always: what is read was signed by us, and is
 * checked all the same. A crash here loses one answer. */
#include "feed/cursors.h"

#include <assert.h>
#include <string.h>

#include "feed/routes.h"

enum { NUMBER_BYTES = 8, ENTRY_BYTES = NUMBER_BYTES + sizeof(struct uuid), LEB128_BITS = 7 };

/* ---- out ----------------------------------------------------------------------------------------------- */

static size_t put_number(unsigned char *to, uint64_t value)
{
    for (int i = 0; i < NUMBER_BYTES; i++)
        to[i] = (unsigned char)(value >> (8 * (NUMBER_BYTES - 1 - i)));
    return NUMBER_BYTES;
}

static size_t put_entry(unsigned char *to, const struct page_position *at)
{
    put_number(to, (uint64_t)at->created_at_us);
    memcpy(to + NUMBER_BYTES, at->id.bytes, sizeof at->id.bytes);
    return ENTRY_BYTES;
}

/* Room for a number: what does not fit into `most` is counted and not written. */
static size_t put_leb128(unsigned char *to, size_t at, size_t most, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)(value & 0x7f);
        value >>= LEB128_BITS;
        if (at < most)
            to[at] = (unsigned char)(byte | (value != 0 ? 0x80 : 0));
        at++;
    } while (value != 0);
    return at;
}

static size_t put_snapshot(unsigned char *to, size_t at, size_t most, const struct page_snapshot *snapshot)
{
    uint64_t before = snapshot->xmin;
    at += put_number(to + at, snapshot->xmin);
    at = put_leb128(to, at, most, snapshot->xmax - snapshot->xmin);
    for (size_t i = 0; i < snapshot->count; i++) {
        at = put_leb128(to, at, most, snapshot->running[i] - before);
        before = snapshot->running[i];
    }
    return at;
}

enum status cursors_write(const struct cursors_place *place, const struct cursor_keys *keys, char *text,
                          struct fault *fault)
{
    bool boundary = place->contract == CURSOR_BOUNDARY;
    struct cursor cursor = {
        .feed = ROUTES_NOTIFICATIONS,
        .direction = place->direction,
        .contract = place->contract,
        .cluster = boundary ? place->cluster : 0,
        .created_at_us = place->at.created_at_us,
        .id_type = place->at.instant ? CURSOR_ID_NONE : CURSOR_ID_UUID,
        .id_uuid = place->at.id,
        .fingerprint = place->fingerprint,
        .issued_at_us = place->issued_at_us,
    };
    size_t at = 0;
    if (boundary)
        cursor.snapshot[at++] = place->has_newest;
    if (place->has_newest)
        at += put_entry(cursor.snapshot + at, &place->newest);
    if (boundary)
        at = put_snapshot(cursor.snapshot, at, sizeof cursor.snapshot, &place->snapshot);
    if (at > sizeof cursor.snapshot) {
        fault_set(fault, "internal", "The snapshot does not fit into a cursor.");
        return ST_REJECT;
    }
    cursor.snapshot_bytes = at;
    return cursor_encode(keys, &cursor, text, fault);
}

/* ---- in ------------------------------------------------------------------------------------------------ */

struct taken {
    const unsigned char *at;
    size_t left;
    bool failed;
};

static uint64_t take_number(struct taken *taken)
{
    uint64_t value = 0;
    if (taken->left < NUMBER_BYTES) {
        taken->failed = true;
        return 0;
    }
    for (int i = 0; i < NUMBER_BYTES; i++)
        value = value << 8 | taken->at[i];
    taken->at += NUMBER_BYTES;
    taken->left -= NUMBER_BYTES;
    return value;
}

static void take_entry(struct taken *taken, struct page_position *at)
{
    *at = (struct page_position){.created_at_us = (int64_t)take_number(taken)};
    if (taken->left < sizeof at->id.bytes) {
        taken->failed = true;
        return;
    }
    memcpy(at->id.bytes, taken->at, sizeof at->id.bytes);
    taken->at += sizeof at->id.bytes;
    taken->left -= sizeof at->id.bytes;
}

static uint64_t take_leb128(struct taken *taken)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += LEB128_BITS) {
        if (taken->left == 0)
            break;
        unsigned char byte = *taken->at++;
        taken->left--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return value;
    }
    taken->failed = true;
    return 0;
}

static void take_snapshot(struct taken *taken, struct page_snapshot *snapshot)
{
    snapshot->xmin = take_number(taken);
    snapshot->xmax = snapshot->xmin + take_leb128(taken);
    uint64_t before = snapshot->xmin;
    for (snapshot->count = 0; !taken->failed && taken->left > 0; snapshot->count++) {
        if (snapshot->count == PAGE_RUNNING_MAX) {
            taken->failed = true;
            return;
        }
        before += take_leb128(taken);
        snapshot->running[snapshot->count] = before;
    }
}

enum status cursors_read(const struct cursor *cursor, struct cursors_place *place, struct fault *fault)
{
    struct taken taken = {.at = cursor->snapshot, .left = cursor->snapshot_bytes};
    struct cursors_place read = {
        .direction = cursor->direction,
        .contract = cursor->contract,
        .at = {.created_at_us = cursor->created_at_us,
               .id = cursor->id_uuid,
               .instant = cursor->id_type == CURSOR_ID_NONE},
        .cluster = cursor->cluster,
        .fingerprint = cursor->fingerprint,
        .issued_at_us = cursor->issued_at_us,
    };
    bool boundary = cursor->contract == CURSOR_BOUNDARY;
    read.has_newest = taken.left > 0;
    if (boundary && taken.left > 0) {
        read.has_newest = *taken.at++ == 1;
        taken.left--;
    }
    if (read.has_newest)
        take_entry(&taken, &read.newest);
    if (boundary)
        take_snapshot(&taken, &read.snapshot);
    if (taken.failed || taken.left > 0 || cursor->contract == CURSOR_EXPORT_SNAPSHOT ||
        (cursor->id_type != CURSOR_ID_NONE && cursor->id_type != CURSOR_ID_UUID)) {
        fault_set(fault, CURSOR_UNSUPPORTED, "This version cannot go on from this cursor.");
        return ST_REJECT;
    }
    *place = read;
    return ST_OK;
}

struct page_position cursors_up_to(const struct cursors_place *place)
{
    bool beyond = place->has_newest && page_position_compare(&place->newest, &place->at) > 0;
    return beyond ? place->newest : place->at;
}
