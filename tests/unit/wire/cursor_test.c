/* Cursors: what goes in comes out, only with the right key, and each fault has its own code. */
#include "wire/cursor.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "wire/base64url.h"

static struct cursor_keys keys;
static struct fault fault;

static void begin(void)
{
    keys = (struct cursor_keys){.count = 2, .signer = 1};
    strcpy(keys.keys[0].id, "old");
    strcpy(keys.keys[1].id, "k2026");
    for (int k = 0; k < 2; k++) {
        keys.keys[k].secret.count = CRYPTO_KEY_MIN;
        memset(keys.keys[k].secret.bytes, 0x11 * (k + 1), CRYPTO_KEY_MIN);
    }
}

TestSuite(cursor, .init = begin);

static struct cursor example(void)
{
    struct cursor cursor;
    memset(&cursor, 0, sizeof cursor);
    strcpy(cursor.feed, "notifications");
    cursor.direction = CURSOR_OLDER;
    cursor.contract = CURSOR_LIVE;
    cursor.cluster = 0xdeadbeef;
    cursor.created_at_us = 1774083600123456;
    cursor.id_type = CURSOR_ID_UUID;
    memset(cursor.id_uuid.bytes, 0xab, 16);
    cursor.fingerprint = 0x8123456789abcdefULL;
    cursor.issued_at_us = 1774083700000000;
    return cursor;
}

static void must_round_trip(const struct cursor *cursor)
{
    char text[CURSOR_TEXT_MAX + 1], again[CURSOR_TEXT_MAX + 1];
    struct cursor back;
    cr_assert_eq(cursor_encode(&keys, cursor, text, &fault), ST_OK, "%s", fault.text);
    cr_assert_leq(strlen(text), CURSOR_TEXT_MAX);
    /* CUR-04: nothing that needs escaping in a URL. */
    cr_assert_eq(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                 strlen(text));
    cr_assert_eq(cursor_decode(&keys, span_of(text), &back, &fault), ST_OK, "%s", fault.text);
    /* The text has every field once, so equal texts are equal cursors; and each field by its name. */
    cr_assert_eq(cursor_encode(&keys, &back, again, &fault), ST_OK);
    cr_assert_str_eq(text, again);
    cr_assert_str_eq(back.feed, cursor->feed);
    cr_assert(back.direction == cursor->direction && back.contract == cursor->contract);
    cr_assert_eq(back.snapshot_bytes, cursor->snapshot_bytes);
    cr_assert_eq(memcmp(back.snapshot, cursor->snapshot, cursor->snapshot_bytes), 0);
    cr_assert_eq(back.cluster, cursor->cluster);
    cr_assert_eq(back.created_at_us, cursor->created_at_us);
    cr_assert_eq(back.id_type, cursor->id_type);
    cr_assert_eq(memcmp(back.id_uuid.bytes, cursor->id_uuid.bytes, 16), 0);
    cr_assert_eq(back.id_bigint, cursor->id_bigint);
    cr_assert_eq(back.id_text_bytes, cursor->id_text_bytes);
    cr_assert_eq(memcmp(back.id_text, cursor->id_text, cursor->id_text_bytes), 0);
    cr_assert_eq(back.fingerprint, cursor->fingerprint);
    cr_assert_eq(back.issued_at_us, cursor->issued_at_us);
}

static void must_be(struct span text, const char *code)
{
    struct cursor cursor = {.feed = "untouched"};
    cr_assert_eq(cursor_decode(&keys, text, &cursor, &fault), ST_REJECT, "%.*s", (int)text.bytes, text.at);
    cr_assert_str_eq(fault.code, code, "%.*s: %s", (int)text.bytes, text.at, fault.text);
    cr_assert_str_eq(cursor.feed, "untouched");
}

Test(cursor, round_trips)
{
    struct cursor cursor = example();
    must_round_trip(&cursor);
    cursor.direction = CURSOR_NEWER;
    cursor.contract = CURSOR_BOUNDARY;
    cursor.snapshot_bytes = 400;
    memset(cursor.snapshot, 0xfe, 400);
    must_round_trip(&cursor);
    cursor = example();
    memset(cursor.id_uuid.bytes, 0, 16);
    cursor.id_type = CURSOR_ID_NONE;
    must_round_trip(&cursor);
    cursor.id_type = CURSOR_ID_BIGINT;
    static const int64_t ids[] = {0, 1, -1, INT64_MAX, INT64_MIN, 9007199254740993};
    for (size_t i = 0; i < 6; i++) {
        cursor.id_bigint = ids[i];
        must_round_trip(&cursor);
    }
    cursor.id_bigint = 0;
    cursor.id_type = CURSOR_ID_TEXT;
    static const char *const texts[] = {"", "a", "with:colon/\"\\", "\xc3\xa9\xff"};
    for (size_t i = 0; i < 4; i++) {
        memset(cursor.id_text, 0, sizeof cursor.id_text);
        memcpy(cursor.id_text, texts[i], strlen(texts[i]));
        cursor.id_text_bytes = strlen(texts[i]);
        must_round_trip(&cursor);
    }
    cursor.contract = CURSOR_EXPORT_SNAPSHOT;
    static const int64_t times[] = {-62135596800000000, -1, 0, 253402300799999999};
    for (size_t i = 0; i < 4; i++) {
        cursor.created_at_us = times[i];
        must_round_trip(&cursor);
    }
}

Test(cursor, two_thousand_random_ones)
{
    uint64_t state = 99;
    for (int i = 0; i < 2000; i++) {
        struct cursor cursor = example();
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        cursor.created_at_us = (int64_t)(state >> 12);
        for (int k = 0; k < 16; k++)
            cursor.id_uuid.bytes[k] = (unsigned char)(state >> (k * 3));
        cursor.fingerprint = state * 31;
        cursor.issued_at_us = (int64_t)(state >> 11);
        must_round_trip(&cursor);
    }
}

Test(cursor, format_is_fixed)
{
    /* A cursor given out today must be read by every later version of this format: do not change this text.
     */
    static const char known[] =
        "AQVrMjAyNg1ub3RpZmljYXRpb25zAQEAAN6tvu8ABk2FBsmGQAGrq6urq6urq6urq6urq6urgSNFZ4mrze8ABk2FDL2FAA";
    struct cursor cursor = example();
    char text[CURSOR_TEXT_MAX + 1];
    cr_assert_eq(cursor_encode(&keys, &cursor, text, &fault), ST_OK);
    unsigned char raw[CURSOR_RAW_MAX];
    size_t count = 0;
    cr_assert(base64url_decode(span_of(text), raw, &count));
    /* The payload alone; the tag is over it. */
    char payload[CURSOR_TEXT_MAX + 1];
    base64url_encode((struct span){(char *)raw, count - 16}, payload);
    cr_assert_str_eq(payload, known);
    unsigned char digest[CRYPTO_SHA256_BYTES];
    crypto_hmac_sha256(crypto_key_span(&keys.keys[1].secret), (struct span){(char *)raw, count - 16}, digest);
    cr_assert_eq(memcmp(digest, raw + count - 16, 16), 0);
}

Test(cursor, every_changed_bit_and_every_cut)
{
    struct cursor cursor = example(), back;
    char text[CURSOR_TEXT_MAX + 1], changed[CURSOR_TEXT_MAX + 1];
    cr_assert_eq(cursor_encode(&keys, &cursor, text, &fault), ST_OK);
    size_t bytes = strlen(text);
    for (size_t i = 0; i < bytes; i++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(changed, text, sizeof text);
            changed[i] = (char)(changed[i] ^ (1 << bit));
            cr_assert_eq(cursor_decode(&keys, (struct span){changed, bytes}, &back, &fault), ST_REJECT);
            bool head = i < 10; /* version, key id */
            cr_assert(strcmp(fault.code, CURSOR_INVALID) == 0 ||
                      (head && strcmp(fault.code, CURSOR_UNSUPPORTED) == 0));
        }
        must_be((struct span){text, i}, CURSOR_INVALID);
    }
    snprintf(changed, sizeof changed, "%sA", text);
    must_be(span_of(changed), CURSOR_INVALID);
    snprintf(changed, sizeof changed, "%sAAAA", text);
    must_be(span_of(changed), CURSOR_INVALID);
    snprintf(changed, sizeof changed, "%s=", text);
    must_be(span_of(changed), CURSOR_INVALID);
    snprintf(changed, sizeof changed, " %s", text);
    must_be(span_of(changed), CURSOR_INVALID);
}

Test(cursor, not_cursors)
{
    char big[CURSOR_TEXT_MAX + 2];
    memset(big, 'A', sizeof big);
    must_be((struct span){big, CURSOR_TEXT_MAX + 1}, CURSOR_INVALID);
    must_be((struct span){big, 200000000}, CURSOR_INVALID); /* refused by its length alone */
    static const char *const bad[] = {
        "", "A", "!!!", "page=2", "eyJpZCI6MX0=", "abc+def/ghi", "AQ", "AQVrMjAyNg", "null", "0", "-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        must_be(span_of(bad[i]), CURSOR_INVALID);
}

Test(cursor, keys_and_versions)
{
    struct cursor cursor = example(), back;
    char text[CURSOR_TEXT_MAX + 1];
    keys.signer = 0;
    cr_assert_eq(cursor_encode(&keys, &cursor, text, &fault), ST_OK);
    keys.signer = 1;
    cr_assert_eq(cursor_decode(&keys, span_of(text), &back, &fault), ST_OK, "any key of the ring checks");
    /* the key was dropped */
    struct cursor_keys fewer = {.count = 1, .keys = {keys.keys[1]}};
    cr_assert_eq(cursor_decode(&fewer, span_of(text), &back, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, CURSOR_UNSUPPORTED);
    /* another reader with another secret under the same id */
    struct cursor_keys foreign = keys;
    foreign.keys[0].secret.bytes[31] ^= 1;
    cr_assert_eq(cursor_decode(&foreign, span_of(text), &back, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, CURSOR_INVALID);
    /* versions before and after ours */
    unsigned char raw[CURSOR_RAW_MAX];
    size_t count = 0;
    cr_assert(base64url_decode(span_of(text), raw, &count));
    static const unsigned char versions[] = {0, 2, 255};
    for (size_t i = 0; i < 3; i++) {
        raw[0] = versions[i];
        base64url_encode((struct span){(char *)raw, count}, text);
        must_be(span_of(text), CURSOR_UNSUPPORTED);
    }
}

/* A payload of our own making, signed as it should be: what take_fields alone must refuse. */
static void must_be_signed(const unsigned char *payload, size_t count, const char *code)
{
    unsigned char raw[CURSOR_RAW_MAX], digest[CRYPTO_SHA256_BYTES];
    char text[CURSOR_TEXT_MAX + 1];
    memcpy(raw, payload, count);
    crypto_hmac_sha256(crypto_key_span(&keys.keys[1].secret), (struct span){(const char *)payload, count},
                       digest);
    memcpy(raw + count, digest, 16);
    base64url_encode((struct span){(char *)raw, count + 16}, text);
    must_be(span_of(text), code);
}

Test(cursor, signed_but_wrong)
{
    struct cursor cursor = example();
    char text[CURSOR_TEXT_MAX + 1];
    unsigned char raw[CURSOR_RAW_MAX], copy[CURSOR_RAW_MAX];
    size_t count = 0;
    cr_assert_eq(cursor_encode(&keys, &cursor, text, &fault), ST_OK);
    cr_assert(base64url_decode(span_of(text), raw, &count));
    count -= 16;
    enum { FEED = 7, DIRECTION = 21, CONTRACT = 22, SNAPSHOT = 23, CREATED = 29, ID_TYPE = 37 };
    static const struct {
        size_t at;
        unsigned char byte;
    } changes[] = {{FEED, 0},        {FEED, 64},        {FEED, 255},     {FEED + 1, 0},
                   {DIRECTION, 0},   {DIRECTION, 3},    {CONTRACT, 0},   {CONTRACT, 4},
                   {SNAPSHOT, 0xff}, {SNAPSHOT + 1, 1}, {CREATED, 0x7f}, {CREATED, 0x80},
                   {ID_TYPE, 4},     {ID_TYPE, 0},      {ID_TYPE, 2},    {ID_TYPE, 3}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        memcpy(copy, raw, count);
        copy[changes[i].at] = changes[i].byte;
        must_be_signed(copy, count, CURSOR_INVALID);
    }
    memcpy(copy, raw, count);
    copy[count] = 0;
    must_be_signed(copy, count + 1, CURSOR_INVALID); /* something left over */
    for (size_t cut = 8; cut < count; cut++)
        must_be_signed(raw, cut, CURSOR_INVALID);
}

Test(cursor, too_long_is_refused_when_made)
{
    struct cursor cursor = example();
    char text[CURSOR_TEXT_MAX + 1] = "untouched";
    cursor.contract = CURSOR_BOUNDARY;
    cursor.snapshot_bytes = CURSOR_SNAPSHOT_MAX;
    must_round_trip(&cursor);
    memset(cursor.id_uuid.bytes, 0, 16);
    cursor.id_type = CURSOR_ID_TEXT;
    cursor.id_text_bytes = CURSOR_ID_TEXT_MAX;
    cr_assert_eq(cursor_encode(&keys, &cursor, text, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, "cursor_too_long");
    cr_assert_str_eq(text, "untouched");
}

Test(cursor, check)
{
    struct cursor cursor = example();
    const struct cursor_expected good = {.feed = "notifications",
                                         .fingerprint = cursor.fingerprint,
                                         .cluster = 0xdeadbeef,
                                         .now_us = cursor.issued_at_us + 1000,
                                         .ttl_us = 1000};
    cr_assert_eq(cursor_check(&cursor, &good, &fault), ST_OK, "as old as may be");
    struct cursor_expected rows[9];
    for (int i = 0; i < 9; i++)
        rows[i] = good;
    rows[0].feed = "activity";
    rows[1].fingerprint++;
    rows[2].direction_given = true;
    rows[2].direction = CURSOR_NEWER;
    rows[3].contract_given = true;
    rows[3].contract = CURSOR_BOUNDARY;
    rows[4].cluster++;
    rows[5].now_us++;
    rows[6].now_us++;
    rows[6].fingerprint++; /* a mismatch is told before the age */
    rows[7].ttl_us = 0;
    rows[7].now_us = INT64_MAX;
    rows[8].direction_given = rows[8].contract_given = true;
    rows[8].direction = CURSOR_OLDER;
    rows[8].contract = CURSOR_LIVE;
    static const char *const codes[] = {CURSOR_MISMATCH,
                                        CURSOR_MISMATCH,
                                        CURSOR_MISMATCH,
                                        CURSOR_MISMATCH,
                                        CURSOR_EXPIRED,
                                        CURSOR_EXPIRED,
                                        CURSOR_MISMATCH,
                                        NULL,
                                        NULL};
    for (int i = 0; i < 9; i++) {
        fault_reset(&fault);
        enum status status = cursor_check(&cursor, &rows[i], &fault);
        cr_assert_eq(status, codes[i] == NULL ? ST_OK : ST_REJECT, "%d", i);
        if (codes[i] != NULL)
            cr_assert_str_eq(fault.code, codes[i], "%d", i);
    }
}

Test(cursor, names)
{
    cr_assert_str_eq(cursor_direction_name(CURSOR_OLDER), "older");
    cr_assert_str_eq(cursor_direction_name(CURSOR_NEWER), "newer");
    cr_assert_str_eq(cursor_contract_name(CURSOR_LIVE), "live");
    cr_assert_str_eq(cursor_contract_name(CURSOR_BOUNDARY), "boundary");
    cr_assert_str_eq(cursor_contract_name(CURSOR_EXPORT_SNAPSHOT), "snapshot");
}

/* ---- key lists ----------------------------------------------------------------------------------------- */

static char path[32];

static void make_key_file(void)
{
    strcpy(path, "/tmp/belfry_cur_XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    for (int i = 0; i < 32; i++)
        cr_assert_eq(dprintf(fd, "%02X", i), 2);
    close(fd);
}

static void drop_key_file(void)
{
    unlink(path);
}

TestSuite(cursor_keys, .init = make_key_file, .fini = drop_key_file);

/* $ in a list stands for the path of a good key file. */
static enum status load(const char *list, const char *sign_with, struct cursor_keys *loaded)
{
    struct buffer text;
    buffer_init(&text, 8192);
    for (; *list != '\0'; list++) {
        if (*list == '$')
            buffer_add_text(&text, path);
        else
            buffer_add_byte(&text, *list);
    }
    fault_reset(&fault);
    enum status status = cursor_keys_load(buffer_span(&text), span_of(sign_with), loaded, &fault);
    buffer_done(&text);
    return status;
}

Test(cursor_keys, loaded)
{
    struct cursor_keys loaded;
    cr_assert_eq(load("a:$ b:$", "b", &loaded), ST_OK, "%s", fault.text);
    cr_assert_eq(loaded.count, 2);
    cr_assert_eq(loaded.signer, 1);
    cr_assert_eq(loaded.keys[0].secret.bytes[31], 31);
    cr_assert_eq(load("only:$", "", &loaded), ST_OK);
    cr_assert_eq(loaded.signer, 0);
    cr_assert_str_eq(loaded.keys[0].id, "only");
    cursor_keys_wipe(&loaded);
    cr_assert_eq(loaded.count, 0);
    cr_assert_eq(loaded.keys[0].secret.bytes[31], 0);
}

Test(cursor_keys, refused)
{
    static const struct {
        const char *list, *sign_with, *field;
    } rows[] = {
        {"", "", "cursor.keys"},
        {"  ", "a", "cursor.keys"},
        {"$", "", "cursor.keys"},
        {"a:", "", "cursor.keys"},
        {":$", "", "cursor.keys"},
        {"a:$ a:$", "a", "cursor.keys"},
        {"a:/nonexistent", "", "cursor.keys"},
        {"12345678901234567:$", "", "cursor.keys"},
        {"a/b:$", "", "cursor.keys"},
        {"a:$ b:$", "", "cursor.sign_with"},
        {"a:$ b:$", "c", "cursor.sign_with"},
        {"a:$", "A", "cursor.sign_with"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cursor_keys loaded = {.count = 9};
        cr_assert_eq(load(rows[i].list, rows[i].sign_with, &loaded), ST_REJECT, "%s", rows[i].list);
        cr_assert_str_eq(fault.field, rows[i].field, "%s: %s", rows[i].list, fault.text);
        cr_assert_eq(loaded.count, 9);
    }
}
