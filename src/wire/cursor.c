/* struct cursor <-> signed text. Holds always: before the tag is found right, nothing but version and key id
 * is read; a decoded cursor encodes to the same payload again; no fault holds a piece of a cursor. */
#include "wire/cursor.h"

#include <assert.h>
#include <string.h>

#include "wire/base64url.h"

enum { VERSION = 1, TAG_BYTES = 16, CLUSTER_BYTES = 4, ENTRY_BYTES_MAX = 8 + 2 + CURSOR_ID_TEXT_MAX };

/* Years 1 to 9999: what a page can show. */
static const int64_t created_at_min_us = -62135596800000000, created_at_max_us = 253402300799999999;

const char *cursor_direction_name(enum cursor_direction direction)
{
    return direction == CURSOR_NEWER ? "newer" : "older";
}

const char *cursor_contract_name(enum cursor_contract contract)
{
    if (contract == CURSOR_BOUNDARY)
        return "boundary";
    return contract == CURSOR_EXPORT_SNAPSHOT ? "snapshot" : "live";
}

/* ---- out ----------------------------------------------------------------------------------------------- */

struct writer {
    unsigned char bytes[CURSOR_RAW_MAX];
    size_t count;
    bool full;
};

static void put(struct writer *writer, const void *bytes, size_t count)
{
    if (writer->full || count > sizeof writer->bytes - TAG_BYTES - writer->count) {
        writer->full = true;
        return;
    }
    if (count > 0)
        memcpy(writer->bytes + writer->count, bytes, count);
    writer->count += count;
}

static void put_number(struct writer *writer, uint64_t value, int width)
{
    unsigned char bytes[8];
    for (int i = 0; i < width; i++)
        bytes[i] = (unsigned char)(value >> (8 * (width - 1 - i)));
    put(writer, bytes, (size_t)width);
}

static void put_sized(struct writer *writer, const void *bytes, size_t count, int width)
{
    put_number(writer, count, width);
    put(writer, bytes, count);
}

static void put_id(struct writer *writer, const struct cursor *cursor)
{
    put_number(writer, cursor->id_type, 1);
    switch (cursor->id_type) {
    case CURSOR_ID_NONE:
        break;
    case CURSOR_ID_UUID:
        put(writer, cursor->id_uuid.bytes, sizeof cursor->id_uuid.bytes);
        break;
    case CURSOR_ID_BIGINT:
        put_number(writer, (uint64_t)cursor->id_bigint, 8);
        break;
    case CURSOR_ID_TEXT:
        put_sized(writer, cursor->id_text, cursor->id_text_bytes, 2);
        break;
    default:
        assert(!"an id of a known type");
    }
}

/* The payload up to, but not with, the tag. */
static void put_payload(struct writer *writer, const char *key_id, const struct cursor *cursor)
{
    put_number(writer, VERSION, 1);
    put_sized(writer, key_id, strlen(key_id), 1);
    put_sized(writer, cursor->feed, strlen(cursor->feed), 1);
    put_number(writer, cursor->direction, 1);
    put_number(writer, cursor->contract, 1);
    put_sized(writer, cursor->snapshot, cursor->snapshot_bytes, 2);
    put_number(writer, cursor->cluster, CLUSTER_BYTES);
    put_number(writer, (uint64_t)cursor->created_at_us, 8);
    put_id(writer, cursor);
    put_number(writer, cursor->fingerprint, 8);
    put_number(writer, (uint64_t)cursor->issued_at_us, 8);
}

static void make_tag(const struct cursor_key *key, struct span payload, unsigned char tag[TAG_BYTES])
{
    unsigned char digest[CRYPTO_SHA256_BYTES];
    crypto_hmac_sha256(crypto_key_span(&key->secret), payload, digest);
    memcpy(tag, digest, TAG_BYTES);
}

enum status cursor_encode(const struct cursor_keys *keys, const struct cursor *cursor, char *text,
                          struct fault *fault)
{
    assert(keys->signer < keys->count);
    assert(cursor->feed[0] != '\0' && memchr(cursor->feed, '\0', sizeof cursor->feed) != NULL);
    assert(cursor->direction == CURSOR_OLDER || cursor->direction == CURSOR_NEWER);
    assert(cursor->contract >= CURSOR_LIVE && cursor->contract <= CURSOR_EXPORT_SNAPSHOT);
    assert(cursor->snapshot_bytes <= CURSOR_SNAPSHOT_MAX && cursor->id_text_bytes <= CURSOR_ID_TEXT_MAX);
    const struct cursor_key *key = &keys->keys[keys->signer];
    struct writer writer = {.count = 0};
    put_payload(&writer, key->id, cursor);
    if (writer.full) {
        fault_set(fault, "cursor_too_long", "the position does not fit into a cursor");
        return ST_REJECT;
    }
    struct span payload = {.at = (const char *)writer.bytes, .bytes = writer.count};
    make_tag(key, payload, writer.bytes + writer.count);
    payload.bytes += TAG_BYTES;
    base64url_encode(payload, text);
    return ST_OK;
}

/* ---- in ------------------------------------------------------------------------------------------------ */

struct reader {
    const unsigned char *at;
    size_t left;
    bool failed;
};

/* NULL, and failed, when there are not so many bytes. */
static const unsigned char *take(struct reader *reader, size_t count)
{
    if (reader->failed || count > reader->left) {
        reader->failed = true;
        return NULL;
    }
    const unsigned char *bytes = reader->at;
    reader->at += count;
    reader->left -= count;
    return bytes;
}

static uint64_t take_number(struct reader *reader, int width)
{
    const unsigned char *bytes = take(reader, (size_t)width);
    uint64_t value = 0;
    for (int i = 0; bytes != NULL && i < width; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* Copies at most `most` bytes; more is a failure. */
static size_t take_sized(struct reader *reader, void *to, size_t most, int width)
{
    size_t count = (size_t)take_number(reader, width);
    if (count > most)
        reader->failed = true;
    const unsigned char *bytes = take(reader, count);
    if (bytes == NULL)
        return 0;
    memcpy(to, bytes, count);
    return count;
}

static void take_id(struct reader *reader, struct cursor *cursor)
{
    uint64_t type = take_number(reader, 1);
    if (type > CURSOR_ID_TEXT) {
        reader->failed = true;
        return;
    }
    cursor->id_type = (enum cursor_id_type)type;
    if (cursor->id_type == CURSOR_ID_UUID) {
        const unsigned char *bytes = take(reader, sizeof cursor->id_uuid.bytes);
        if (bytes != NULL)
            memcpy(cursor->id_uuid.bytes, bytes, sizeof cursor->id_uuid.bytes);
    } else if (cursor->id_type == CURSOR_ID_BIGINT) {
        cursor->id_bigint = (int64_t)take_number(reader, 8);
    } else if (cursor->id_type == CURSOR_ID_TEXT) {
        cursor->id_text_bytes = take_sized(reader, cursor->id_text, CURSOR_ID_TEXT_MAX, 2);
    }
}

/* What stands between the key id and the tag; false: not what we would write. */
static bool take_fields(struct reader *reader, struct cursor *cursor)
{
    size_t feed_bytes = take_sized(reader, cursor->feed, CURSOR_FEED_MAX, 1);
    uint64_t direction = take_number(reader, 1), contract = take_number(reader, 1);
    cursor->snapshot_bytes = take_sized(reader, cursor->snapshot, CURSOR_SNAPSHOT_MAX, 2);
    cursor->cluster = (uint32_t)take_number(reader, CLUSTER_BYTES);
    cursor->created_at_us = (int64_t)take_number(reader, 8);
    take_id(reader, cursor);
    cursor->fingerprint = take_number(reader, 8);
    cursor->issued_at_us = (int64_t)take_number(reader, 8);
    if (reader->failed || reader->left != 0)
        return false;
    if (feed_bytes == 0 || memchr(cursor->feed, '\0', feed_bytes) != NULL)
        return false;
    if (direction < CURSOR_OLDER || direction > CURSOR_NEWER || contract < CURSOR_LIVE ||
        contract > CURSOR_EXPORT_SNAPSHOT)
        return false;
    cursor->direction = (enum cursor_direction)direction;
    cursor->contract = (enum cursor_contract)contract;
    return cursor->created_at_us >= created_at_min_us && cursor->created_at_us <= created_at_max_us &&
           (cursor->contract != CURSOR_LIVE || cursor->snapshot_bytes <= ENTRY_BYTES_MAX);
}

static enum status refuse(const char *code, const char *why, struct fault *fault)
{
    fault_set(fault, code, "%s", why);
    return ST_REJECT;
}

/* Version and key id: all that is read before the tag. *key is NULL when the ring has no such key. */
static bool take_head(struct reader *reader, const struct cursor_keys *keys, uint64_t *version,
                      const struct cursor_key **key)
{
    char id[CURSOR_KEY_ID_MAX + 1] = "";
    *version = take_number(reader, 1);
    *key = NULL;
    if (*version != VERSION)
        return !reader->failed;
    size_t bytes = take_sized(reader, id, CURSOR_KEY_ID_MAX, 1);
    for (size_t i = 0; !reader->failed && i < keys->count; i++) {
        if (bytes == strlen(keys->keys[i].id) && memcmp(id, keys->keys[i].id, bytes) == 0)
            *key = &keys->keys[i];
    }
    return !reader->failed && bytes > 0;
}

enum status cursor_decode(const struct cursor_keys *keys, struct span text, struct cursor *cursor,
                          struct fault *fault)
{
    static const char invalid[] = "The cursor is not one of this service.";
    unsigned char raw[CURSOR_RAW_MAX], tag[TAG_BYTES];
    size_t count = 0;
    if (text.bytes > CURSOR_TEXT_MAX || !base64url_decode(text, raw, &count) || count <= TAG_BYTES)
        return refuse(CURSOR_INVALID, invalid, fault);
    struct reader reader = {.at = raw, .left = count - TAG_BYTES};
    uint64_t version = 0;
    const struct cursor_key *key = NULL;
    if (!take_head(&reader, keys, &version, &key))
        return refuse(CURSOR_INVALID, invalid, fault);
    if (version != VERSION)
        return refuse(CURSOR_UNSUPPORTED, "The cursor is of a version that is not supported.", fault);
    if (key == NULL)
        return refuse(CURSOR_UNSUPPORTED, "The cursor was signed with a key that is no longer in use.",
                      fault);
    make_tag(key, (struct span){.at = (const char *)raw, .bytes = count - TAG_BYTES}, tag);
    if (!crypto_same(tag, raw + count - TAG_BYTES, TAG_BYTES))
        return refuse(CURSOR_INVALID, invalid, fault);
    struct cursor decoded;
    memset(&decoded, 0, sizeof decoded);
    if (!take_fields(&reader, &decoded))
        return refuse(CURSOR_INVALID, invalid, fault);
    *cursor = decoded;
    return ST_OK;
}

enum status cursor_check(const struct cursor *cursor, const struct cursor_expected *expected,
                         struct fault *fault)
{
    if (strcmp(cursor->feed, expected->feed) != 0)
        return refuse(CURSOR_MISMATCH, "The cursor belongs to another feed.", fault);
    if (expected->direction_given && cursor->direction != expected->direction)
        return refuse(CURSOR_MISMATCH, "The cursor belongs to the other direction.", fault);
    if (expected->contract_given && cursor->contract != expected->contract)
        return refuse(CURSOR_MISMATCH, "The cursor belongs to another contract.", fault);
    if (cursor->fingerprint != expected->fingerprint)
        return refuse(CURSOR_MISMATCH, "The cursor belongs to another workspace, user or filter.", fault);
    if (cursor->cluster != expected->cluster)
        return refuse(CURSOR_EXPIRED, "The cursor is of a database that is no longer in use.", fault);
    if (expected->ttl_us > 0 && cursor->issued_at_us < expected->now_us - expected->ttl_us)
        return refuse(CURSOR_EXPIRED, "The cursor is too old.", fault);
    return ST_OK;
}
