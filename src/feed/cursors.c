/* In: a place in a walk, or a decoded cursor. Out: the other. Always: what is read was signed by us, and is
 * checked all the same. A crash here loses one answer. */
#include "feed/cursors.h"

#include <assert.h>
#include <string.h>

enum { NUMBER_BYTES = 8, LENGTH_BYTES = 2, LEB128_BITS = 7 };

static enum cursor_id_type cursors_id_type(enum source_type type)
{
    if (type == SOURCE_UUID)
        return CURSOR_ID_UUID;
    return type == SOURCE_BIGINT ? CURSOR_ID_BIGINT : CURSOR_ID_TEXT;
}

/* ---- out ----------------------------------------------------------------------------------------------- */

static size_t put_number(unsigned char *to, uint64_t value)
{
    for (int i = 0; i < NUMBER_BYTES; i++)
        to[i] = (unsigned char)(value >> (8 * (NUMBER_BYTES - 1 - i)));
    return NUMBER_BYTES;
}

static size_t put_entry(unsigned char *to, const struct page_position *at)
{
    size_t used = put_number(to, (uint64_t)at->created_at_us);
    if (at->id.type == SOURCE_UUID) {
        memcpy(to + used, at->id.uuid.bytes, sizeof at->id.uuid.bytes);
        return used + sizeof at->id.uuid.bytes;
    }
    if (at->id.type == SOURCE_BIGINT)
        return used + put_number(to + used, (uint64_t)at->id.number);
    to[used++] = (unsigned char)(at->id.bytes >> 8);
    to[used++] = (unsigned char)at->id.bytes;
    memcpy(to + used, at->id.text, at->id.bytes);
    return used + at->id.bytes;
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

enum status cursors_write(const char *feed, const struct cursors_place *place, const struct cursor_keys *keys,
                          char *text, struct fault *fault)
{
    bool boundary = place->contract == CURSOR_BOUNDARY;
    const struct source_id *id = &place->at.id;
    struct cursor cursor = {
        .direction = place->direction,
        .contract = place->contract,
        .cluster = boundary ? place->cluster : 0,
        .created_at_us = place->at.created_at_us,
        .id_type = place->at.instant ? CURSOR_ID_NONE : cursors_id_type(id->type),
        .id_uuid = id->uuid,
        .id_bigint = id->number,
        .id_text_bytes = id->bytes,
        .fingerprint = place->fingerprint,
        .issued_at_us = place->issued_at_us,
    };
    assert(strlen(feed) < sizeof cursor.feed && id->bytes <= sizeof cursor.id_text);
    memcpy(cursor.feed, feed, strlen(feed));
    memcpy(cursor.id_text, id->text, id->bytes);
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

static void take_bytes(struct taken *taken, void *to, size_t count)
{
    if (taken->left < count) {
        taken->failed = true;
        return;
    }
    memcpy(to, taken->at, count);
    taken->at += count;
    taken->left -= count;
}

static void take_entry(struct taken *taken, enum source_type type, struct page_position *at)
{
    *at = (struct page_position){.created_at_us = (int64_t)take_number(taken), .id = {.type = type}};
    if (type == SOURCE_UUID) {
        take_bytes(taken, at->id.uuid.bytes, sizeof at->id.uuid.bytes);
    } else if (type == SOURCE_BIGINT) {
        at->id.number = (int64_t)take_number(taken);
    } else {
        unsigned char length[LENGTH_BYTES] = {0};
        take_bytes(taken, length, sizeof length);
        at->id.bytes = (size_t)length[0] << 8 | length[1];
        if (at->id.bytes > sizeof at->id.text)
            taken->failed = true;
        else
            take_bytes(taken, at->id.text, at->id.bytes);
    }
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

enum status cursors_read(const struct cursor *cursor, enum source_type id_type, struct cursors_place *place,
                         struct fault *fault)
{
    struct taken taken = {.at = cursor->snapshot, .left = cursor->snapshot_bytes};
    struct cursors_place read = {
        .direction = cursor->direction,
        .contract = cursor->contract,
        .at = {.created_at_us = cursor->created_at_us,
               .instant = cursor->id_type == CURSOR_ID_NONE,
               .id = {.type = id_type,
                      .uuid = cursor->id_uuid,
                      .number = cursor->id_bigint,
                      .bytes = cursor->id_text_bytes}},
        .cluster = cursor->cluster,
        .fingerprint = cursor->fingerprint,
        .issued_at_us = cursor->issued_at_us,
    };
    memcpy(read.at.id.text, cursor->id_text, sizeof read.at.id.text);
    bool boundary = cursor->contract == CURSOR_BOUNDARY;
    read.has_newest = taken.left > 0;
    if (boundary && taken.left > 0) {
        read.has_newest = *taken.at++ == 1;
        taken.left--;
    }
    if (read.has_newest)
        take_entry(&taken, id_type, &read.newest);
    if (boundary)
        take_snapshot(&taken, &read.snapshot);
    if (cursor->contract == CURSOR_EXPORT_SNAPSHOT ||
        (cursor->id_type != CURSOR_ID_NONE && cursor->id_type != cursors_id_type(id_type))) {
        fault_set(fault, CURSOR_INVALID, "The cursor is not one of this feed.");
        return ST_REJECT;
    }
    if (taken.failed || taken.left > 0) {
        fault_set(fault, CURSOR_INVALID, "The cursor is not one of this service.");
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
