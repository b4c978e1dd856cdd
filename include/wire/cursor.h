/* The reader's cursors (contracts/reader-api.md 'Cursor'): a place in a traversal, signed, not encrypted.
 *
 * Text: base64url(payload ‖ tag). Payload, big-endian, nothing left over:
 *   version u8 = 1 · key id u8 length + bytes · feed u8 length + bytes · direction u8 · contract u8 ·
 *   snapshot u16 length + bytes · cluster u32 · created_at i64 µs · id type u8 + (none: nothing, uuid: 16
 * bytes, bigint: 8 bytes, text: u16 length + bytes) · fingerprint u64 · issued at i64 µs Tag: HMAC-SHA-256
 * over the payload, cut to 16 bytes. Only version and key id are read before it is checked.
 *
 * Faults carry the code for the client (invalid_cursor, cursor_unsupported, cursor_mismatch, cursor_expired)
 * and never a piece of the cursor. */
#ifndef BELFRY_WIRE_CURSOR_H
#define BELFRY_WIRE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "io/crypto.h"
#include "model/uuid.h"

enum {
    CURSOR_TEXT_MAX = 1024, /* encoded; a longer one is refused before it is decoded */
    CURSOR_RAW_MAX = 768,
    CURSOR_KEYS_MAX = 16,
    CURSOR_KEY_ID_MAX = 16, /* of [A-Za-z0-9._-] */
    CURSOR_FEED_MAX = 63,
    CURSOR_ID_TEXT_MAX = 256,
    CURSOR_SNAPSHOT_MAX = 600
};

#define CURSOR_INVALID     "invalid_cursor"
#define CURSOR_UNSUPPORTED "cursor_unsupported"
#define CURSOR_MISMATCH    "cursor_mismatch"
#define CURSOR_EXPIRED     "cursor_expired" /* HTTP 410; the others 400 */

enum cursor_direction { CURSOR_OLDER = 1, CURSOR_NEWER = 2 };
enum cursor_contract { CURSOR_LIVE = 1, CURSOR_BOUNDARY = 2, CURSOR_EXPORT_SNAPSHOT = 3 };

/* none: the instant alone; it stands before every row of that instant (an empty feed's prev_cursor). */
enum cursor_id_type { CURSOR_ID_NONE = 0, CURSOR_ID_UUID = 1, CURSOR_ID_BIGINT = 2, CURSOR_ID_TEXT = 3 };

/* Holds its own bytes, so that it may be copied. */
struct cursor {
    char feed[CURSOR_FEED_MAX + 1];
    enum cursor_direction direction;
    enum cursor_contract contract;
    size_t snapshot_bytes; /* live: 0, or an entry (feed/cursors.h) */
    unsigned char snapshot[CURSOR_SNAPSHOT_MAX];
    uint32_t cluster; /* 4 bytes of the database's system identifier */
    int64_t created_at_us;
    enum cursor_id_type id_type;
    struct uuid id_uuid;
    int64_t id_bigint;
    size_t id_text_bytes;
    char id_text[CURSOR_ID_TEXT_MAX];
    uint64_t fingerprint; /* wire/fingerprint.h */
    int64_t issued_at_us;
};

struct cursor_key {
    char id[CURSOR_KEY_ID_MAX + 1];
    struct crypto_key secret;
};

/* All keys of `[cursor] keys`; `signer` is the one of `sign_with`. A plain value: a reload makes a new one.
 */
struct cursor_keys {
    struct cursor_key keys[CURSOR_KEYS_MAX];
    size_t count, signer;
};

/* Reads `id:path id:path …` and `sign_with` (empty: the only key) and the key files. ST_REJECT "config",
 * field "cursor.keys" or "cursor.sign_with": bad list, doubled id, unknown signer, unreadable or short key,
 * no key. */
MUST_USE enum status cursor_keys_load(struct span list, struct span sign_with, struct cursor_keys *keys,
                                      struct fault *fault);
void cursor_keys_wipe(struct cursor_keys *keys);

/* Writes the text and a NUL: text holds CURSOR_TEXT_MAX + 1 bytes. ST_REJECT "cursor_too_long" when a text id
 * or a snapshot does not fit; wrong enum values and lengths past their maxima are programming errors. */
MUST_USE enum status cursor_encode(const struct cursor_keys *keys, const struct cursor *cursor, char *text,
                                   struct fault *fault);

/* ST_REJECT invalid_cursor or cursor_unsupported. The empty text is the caller's: it means the head. */
MUST_USE enum status cursor_decode(const struct cursor_keys *keys, struct span text, struct cursor *cursor,
                                   struct fault *fault);

/* What the request says; the parts that may be left out with a cursor have a `_given`. */
struct cursor_expected {
    const char *feed;
    uint64_t fingerprint; /* computed with the cursor's own contract */
    bool direction_given, contract_given;
    enum cursor_direction direction;
    enum cursor_contract contract;
    uint32_t cluster;
    int64_t now_us, ttl_us; /* ttl 0: never too old */
};

/* ST_REJECT cursor_mismatch, then cursor_expired (too old, or of another cluster). */
MUST_USE enum status cursor_check(const struct cursor *cursor, const struct cursor_expected *expected,
                                  struct fault *fault);

/* "older", "newer" · "live", "boundary", "snapshot" */
const char *cursor_direction_name(enum cursor_direction direction);
const char *cursor_contract_name(enum cursor_contract contract);

#endif
