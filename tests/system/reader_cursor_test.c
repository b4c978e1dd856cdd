/* reader_1: cursors that must not go on, each told by its own code and never answered with a page: another
 * user's, workspace's, filter's; of every version and key id; signed by us with fields no reader of ours
 * writes. And those that must go on: keys rolled over two readers, a membership that was withdrawn between.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "io/crypto.h"
#include "reader_export.h"
#include "reader_steps.h"
#include "wire/base64url.h"

#define FEED "/v1/workspaces/w/feeds/notifications"

enum { RAW_MAX = 1024, TAG = 16, LIST_MAX = WORLD_PATH_MAX * 4 };

/* What a page answers: "200", or the refusal's code, which must have this status. */
static const char *answer(const struct client *c, const char *path, const char *query, const char *cursor)
{
    static char text[64];
    static const struct {
        const char *code;
        long status;
    } statuses[] = {{"invalid_cursor", 400}, {"cursor_unsupported", 400}, {"cursor_mismatch", 400},
                    {"cursor_expired", 410}, {"not_a_member", 403},       {"role_required", 403},
                    {"token_missing", 401},  {"not_found", 404}};
    char url[URL_MAX + RAW_MAX];
    struct world_reply reply;
    const char *headers[] = {c->authorization, NULL};
    snprintf(url, sizeof url, "%s%s?%s&cursor=%s", c->base, path, query, cursor);
    world_http("GET", url, headers, NULL, &reply);
    json_t *json = json_loadb(reply.body, reply.body_bytes, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(json, "%s: %ld %s", url, reply.status, reply.body);
    snprintf(text, sizeof text, "%s",
             reply.status == 200 ? "200" : json_string_value(json_object_get(json, "code")));
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (strcmp(statuses[i].code, text) == 0)
            cr_assert_eq(reply.status, statuses[i].status, "%s: %ld", text, reply.status);
    if (reply.status != 200) {
        cr_assert_null(json_object_get(json, "items"));
        cr_assert(cursor[0] == '\0' || strstr(reply.body, cursor) == NULL, "nothing of a cursor is echoed");
    }
    json_decref(json);
    world_reply_done(&reply);
    return text;
}

static void must(const struct client *c, const char *what, const char *query, const char *cursor,
                 const char *expected)
{
    const char *found = answer(c, FEED, query, cursor);
    cr_assert_str_eq(found, expected, "%s: %s, not %s", what, found, expected);
}

/* The head page's cursors of a feed under this query. */
static void take_at(const struct client *c, const char *path, const char *query, char *next, char *prev)
{
    char url[URL_MAX];
    struct world_reply reply;
    snprintf(url, sizeof url, "%s?%s", path, query);
    client_get(c, url, &reply);
    cr_assert_eq(reply.status, 200, "%s: %ld %s", url, reply.status, reply.body);
    json_t *page = json_loadb(reply.body, reply.body_bytes, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(page, "%s", reply.body);
    snprintf(next, CURSOR_MAX, "%s", page_cursor(page));
    snprintf(prev, CURSOR_MAX, "%s", prev_cursor(page));
    cr_assert_neq(next[0], '\0');
    json_decref(page);
    world_reply_done(&reply);
}

static void take(const struct client *c, const char *query, char *next, char *prev)
{
    take_at(c, FEED, query, next, prev);
}

/* ---- others' ------------------------------------------------------------------------------------------- */

Test(reader, foreign_cursor)
{
    static struct client c;
    static const char *const queries[] = {"limit=2&contract=live", "limit=2&contract=boundary",
                                          "limit=2&unread=true&contract=live",
                                          "limit=2&category=low&contract=boundary"};
    static const char *const paths[] = {FEED, "/v1/workspaces/w2/feeds/notifications",
                                        "/v1/workspaces/nowhere/feeds/notifications"};
    static const char *const users[] = {"u1", "u2", "stranger"};
    char cursors[2][CURSOR_MAX];
    int refused = 0;
    client_open(&c, "reader_foreign");
    world_exec(&c.w, "SELECT belfry_set_member('w2', 'u1', 'member')");
    put_names(&c, "abcdefgh", 1, "0");
    for (size_t q = 0; q < 4; q++) {
        client_be(&c, "u1");
        take(&c, queries[q], cursors[0], cursors[1]);
        for (size_t u = 0; u < 3; u++) {
            client_be(&c, users[u]);
            for (size_t p = 0; p < 6; p++) {
                bool own = u == 0 && p % 3 == 0;
                const char *found = answer(&c, paths[p % 3], queries[q], cursors[p / 3]);
                cr_assert_str_eq(found, own ? "200" : "cursor_mismatch", "%s at %s by %s: %s", queries[q],
                                 paths[p % 3], users[u], found);
                refused += !own;
            }
        }
        printf("  %-38s own 200; another's, in another workspace, in none: cursor_mismatch\n", queries[q]);
    }
    printf("foreign cursors: %d refused, whoever brings them and wherever\n", refused);
    client_close(&c);
}

static const char feeds_ini[] =
    "[feed.activity]\nrelation = activity_events\nworkspace_column = workspace_id\n"
    "columns = id, event_type, created_at\nfilters = event_type\nxid_column = inserted_xid\n"
    "[feed.staff]\nrelation = activity_events\nworkspace_column = workspace_id\n"
    "columns = id, event_type, created_at\nfilters = event_type\nroles = admin\n"
    "[feed.diary]\nrelation = diary\nuser_column = owner\ncolumns = id, created_at\nid_type = text\n"
    "auth = user\n"
    "[feed.posts]\nrelation = posts\ncolumns = id, body, created_at\nid_type = bigint\nid_json = number\n"
    "items_key = posts\npath = /posts\nauth = none\n";

static const char feeds_sql[] =
    "CREATE TABLE activity_events (workspace_id text NOT NULL, id uuid PRIMARY KEY, event_type text,"
    " created_at timestamptz NOT NULL, inserted_xid xid8 NOT NULL DEFAULT pg_current_xact_id());"
    "CREATE INDEX ON activity_events (workspace_id, created_at DESC, id DESC);"
    "CREATE TABLE diary (id text COLLATE \"C\" PRIMARY KEY, owner text NOT NULL, created_at timestamptz NOT "
    "NULL);"
    "CREATE INDEX ON diary (owner, created_at DESC, id DESC);"
    "CREATE TABLE posts (id bigint PRIMARY KEY, body text, created_at timestamptz NOT NULL);"
    "CREATE INDEX ON posts (created_at DESC, id DESC);"
    "GRANT SELECT ON activity_events, diary, posts TO belfry_reader;"
    "INSERT INTO activity_events SELECT 'w', gen_random_uuid(), 't', '2026-03-21T09:00:00Z'"
    " FROM generate_series(1, 9);"
    "INSERT INTO diary SELECT 'd' || i, 'u1', '2026-03-21T09:00:00Z' FROM generate_series(1, 9) AS i;"
    "INSERT INTO posts SELECT i, 'b', '2026-03-21T09:00:00Z' FROM generate_series(1, 9) AS i";

/* Every feed's cursors at every other: of another kind of id, scope and key of items, of the same relation.
 */
Test(reader, foreign_feed)
{
    static struct client c;
    static const char *const paths[] = {FEED, "/v1/workspaces/w/feeds/activity",
                                        "/v1/workspaces/w/feeds/staff", "/v1/feeds/diary", "/posts"};
    enum { FEEDS = sizeof paths / sizeof paths[0] };
    static char cursors[2 * FEEDS][CURSOR_MAX];
    client_open(&c, "reader_foreign_feed");
    put_names(&c, "abcdefg", 1, "1 s");
    world_exec(&c.w, "%s", feeds_sql);
    world_exec(&c.w, "SELECT belfry_set_member('w', 'u1', 'admin')");
    child_stop(c.reader);
    c.reader = world_reader(&c.w, feeds_ini, c.base);
    for (size_t i = 0; i < FEEDS; i++)
        take_at(&c, paths[i], "limit=2&contract=live", cursors[2 * i], cursors[2 * i + 1]);
    for (size_t to = 0; to < FEEDS; to++) {
        printf("  %-34s", paths[to]);
        for (size_t from = 0; from < 2 * FEEDS; from++) {
            const char *found = answer(&c, paths[to], "limit=2", cursors[from]);
            printf(" %s", found);
            cr_assert_str_eq(found, from / 2 == to ? "200" : "cursor_mismatch", "%s at %s: %s",
                             paths[from / 2], paths[to], found);
        }
        printf("\n");
    }
    /* The role goes between two pages: staff's cursor, then the one of every member. */
    world_exec(&c.w, "SELECT belfry_set_member('w', 'u1', 'member')");
    cr_expect_str_eq(answer(&c, paths[2], "limit=2", cursors[4]), "role_required");
    cr_expect_str_eq(answer(&c, paths[2], "limit=2", ""), "role_required");
    cr_expect_str_eq(answer(&c, paths[1], "limit=2", cursors[2]), "200");
    world_exec(&c.w, "SELECT belfry_remove_member('w', 'u1')");
    cr_expect_str_eq(answer(&c, paths[1], "limit=2", cursors[2]), "not_a_member");
    cr_expect_str_eq(answer(&c, paths[2], "limit=2", cursors[4]), "not_a_member");
    cr_expect_str_eq(answer(&c, paths[3], "limit=2", cursors[6]), "200", "a diary asks for no membership");
    client_be(&c, "u2");
    cr_expect_str_eq(answer(&c, paths[3], "limit=2", cursors[6]), "cursor_mismatch", "another's diary");
    c.authorization[0] = 'X'; /* no token at all */
    cr_expect_str_eq(answer(&c, paths[4], "limit=2", cursors[8]), "200", "posts are for anybody");
    cr_expect_str_eq(answer(&c, paths[3], "limit=2", cursors[6]), "token_missing");
    cr_expect_str_eq(answer(&c, paths[1], "limit=2", cursors[2]), "token_missing");
    client_close(&c);
}

/* The first page of an export, and its cursor. */
static void take_export(const struct client *c, const char *path, char *next)
{
    json_t *page = export_expect(c, "GET", path, NULL, 200, NULL);
    cr_assert_str_eq(json_string_value(json_object_get(page, "contract")), "snapshot");
    snprintf(next, CURSOR_MAX, "%s", page_cursor(page));
    cr_assert_neq(next[0], '\0', "%s", path);
    json_decref(page);
}

/* Cursors of two exports of the same rows and of the feed they are of, each at each; the membership withdrawn
 * between two pages. */
Test(reader, foreign_export)
{
    static struct client c;
    enum { PLACES = 3 };
    char paths[PLACES][160] = {FEED}, cursors[PLACES][CURSOR_MAX], prev[CURSOR_MAX], id[EXPORT_ID];
    client_open(&c, "reader_foreign_export");
    put_names(&c, "abcdefg", 1, "1 s");
    take(&c, "limit=2", cursors[0], prev);
    for (size_t i = 1; i < PLACES; i++) {
        char first[200];
        cr_assert_eq(export_make(&c, "{}", id), 7);
        snprintf(paths[i], sizeof paths[i], "/v1/workspaces/w/exports/%s/pages", id);
        snprintf(first, sizeof first, "%s?limit=2", paths[i]);
        take_export(&c, first, cursors[i]);
    }
    for (size_t to = 0; to < PLACES; to++) {
        for (size_t from = 0; from < PLACES; from++) {
            const char *found = answer(&c, paths[to], "limit=2", cursors[from]);
            printf("  at %s the cursor of %s: %s\n",
                   to == 0   ? "the feed"
                   : to == 1 ? "an export"
                             : "the other",
                   from == 0   ? "the feed"
                   : from == 1 ? "an export"
                               : "the other",
                   found);
            cr_assert_str_eq(found, from == to ? "200" : "cursor_mismatch");
        }
    }
    client_be(&c, "u2");
    cr_expect_str_eq(answer(&c, paths[1], "limit=2", cursors[1]), "not_found", "another's export");
    client_be(&c, "u1");
    world_exec(&c.w, "SELECT belfry_remove_member('w', 'u1')");
    cr_expect_str_eq(answer(&c, paths[1], "limit=2", cursors[1]), "not_a_member");
    world_exec(&c.w, "SELECT belfry_set_member('w', 'u1', 'member')");
    cr_expect_str_eq(answer(&c, paths[1], "limit=2", cursors[1]), "200");
    client_close(&c);
}

/* Every filter set's cursors under every other; in another order or spelling it is the same filter. */
Test(reader, filter_changed)
{
    static struct client c;
    static const char *const filters[][2] = {
        {"", "&"},
        {"&category=low", "&cat%65gory=%6Cow"},
        {"&category=high", "&category=hig%68"},
        {"&event_type=t", "&event_type=%74"},
        {"&unread=true", "&unread=tru%65"},
        {"&category=low&event_type=t", "&event_type=t&category=low"},
        {"&category=low&event_type=t&unread=true", "&unread=true&event_type=t&category=l%6fw"},
    };
    enum { FILTERS = sizeof filters / sizeof filters[0] };
    char cursors[2][CURSOR_MAX], query[256];
    int refused = 0, went_on = 0;
    client_open(&c, "reader_filter_changed");
    put_names(&c, "abcdefg", 1, "1 s");
    for (int i = 0; i < 2 * FILTERS; i++) {
        const char *contract = i / FILTERS == 0 ? "live" : "boundary";
        snprintf(query, sizeof query, "limit=1&contract=%s%s", contract, filters[i % FILTERS][0]);
        take(&c, query, cursors[0], cursors[1]);
        for (int j = 0; j < 4 * FILTERS; j++) {
            bool same = j % FILTERS == i % FILTERS;
            const char *filter = filters[j % FILTERS][j / FILTERS % 2];
            /* limit may change, contract and direction may be left out or must agree */
            snprintf(query, sizeof query, "limit=%d%s%s", 1 + j % 3, filter, j % 2 == 0 ? "" : "&contract=");
            if (j % 2 != 0)
                strncat(query, contract, 16);
            must(&c, query, query, cursors[j / FILTERS / 2], same ? "200" : "cursor_mismatch");
            refused += !same;
            went_on += same;
        }
    }
    printf("filter changed: %d pairs refused; %d of the same filter in either spelling went on\n", refused,
           went_on);
    client_close(&c);
}

/* ---- forged from what is ours -------------------------------------------------------------------------- */

/* A cursor's bytes up to the tag, taken apart and signed anew. */
struct forge {
    unsigned char bytes[RAW_MAX];
    size_t count;
};

/* Offsets in a live cursor of key id "1" and feed "notifications". */
enum {
    AT_VERSION = 0,
    AT_KEY = 1,
    AT_FEED = 3,
    AT_DIRECTION = 17,
    AT_CONTRACT,
    AT_SNAPSHOT,
    AT_CLUSTER = 21,
    AT_TIME = 25,
    AT_ID = 33,
    AT_FINGERPRINT = 50,
    AT_ISSUED = 58,
    LIVE_BYTES = 66
};

static void forge_open(struct forge *forge, const char *cursor)
{
    size_t count = 0;
    cr_assert(base64url_decode(span_of(cursor), forge->bytes, &count));
    forge->count = count - TAG;
}

/* In place of `removed` bytes at `at` these. */
static void splice(struct forge *forge, size_t at, size_t removed, const void *bytes, size_t count)
{
    cr_assert(at + removed <= forge->count && forge->count + count < sizeof forge->bytes);
    memmove(forge->bytes + at + count, forge->bytes + at + removed, forge->count - at - removed);
    if (count > 0)
        memcpy(forge->bytes + at, bytes, count);
    forge->count = forge->count + count - removed;
}

static void sign(const struct forge *forge, struct span key, char *cursor)
{
    unsigned char digest[CRYPTO_SHA256_BYTES], raw[RAW_MAX + TAG];
    crypto_hmac_sha256(key, (struct span){(const char *)forge->bytes, forge->count}, digest);
    memcpy(raw, forge->bytes, forge->count);
    memcpy(raw + forge->count, digest, TAG);
    base64url_encode((struct span){(const char *)raw, forge->count + TAG}, cursor);
}

struct fault_case {
    const char *name;
    size_t at, removed;
    const char *bytes;
    size_t count;
    const char *code;
};

#define BYTES(text) text, sizeof(text) - 1
#define INVALID     "invalid_cursor"
#define UNSUPPORTED "cursor_unsupported"
#define MISMATCH    "cursor_mismatch"

static const struct fault_case faults[] = {
    {"nothing changed", AT_VERSION, 0, BYTES(""), "200"},
    {"key id 9", AT_KEY, 2,
     BYTES("\x01"
           "9"),
     UNSUPPORTED},
    {"key id 01", AT_KEY, 2,
     BYTES("\x02"
           "01"),
     UNSUPPORTED},
    {"key id 1 and a NUL", AT_KEY, 2,
     BYTES("\x02"
           "1\0"),
     UNSUPPORTED},
    {"no key id", AT_KEY, 2, BYTES("\0"), INVALID},
    {"a key id of 17", AT_KEY, 2,
     BYTES("\x11"
           "11111111111111111"),
     INVALID},
    {"a key id past the end", AT_KEY, 1, BYTES("\xff"), INVALID},
    {"key id 2, signed by 1", AT_KEY, 2,
     BYTES("\x01"
           "2"),
     INVALID},
    {"no feed", AT_FEED, 14, BYTES("\0"), INVALID},
    {"a feed with a NUL", AT_FEED + 4, 1, BYTES("\0"), INVALID},
    {"another feed", AT_FEED, 14,
     BYTES("\x08"
           "activity"),
     MISMATCH},
    {"Notifications", AT_FEED + 1, 1, BYTES("N"), MISMATCH},
    {"a feed past the end", AT_FEED, 1, BYTES("\x3f"), INVALID},
    {"direction 0", AT_DIRECTION, 1, BYTES("\0"), INVALID},
    {"direction 3", AT_DIRECTION, 1, BYTES("\x03"), INVALID},
    {"contract 0", AT_CONTRACT, 1, BYTES("\0"), INVALID},
    {"contract 4", AT_CONTRACT, 1, BYTES("\x04"), INVALID},
    {"boundary, of a live walk", AT_CONTRACT, 1, BYTES("\x02"), MISMATCH},
    {"an export's", AT_CONTRACT, 1, BYTES("\x03"), MISMATCH},
    {"a live snapshot of 5", AT_SNAPSHOT, 2,
     BYTES("\0\x05"
           "12345"),
     INVALID},
    {"a snapshot past the end", AT_SNAPSHOT, 2, BYTES("\x02\x58"), INVALID},
    {"year 0", AT_TIME, 8, BYTES("\xff\x23\x40\x01\x00\xd4\x3f\xff"), INVALID},
    {"year 1", AT_TIME, 8, BYTES("\xff\x23\x40\x01\x00\xd4\x40\x00"), "200"},
    {"the end of year 9999", AT_TIME, 8, BYTES("\x03\x84\x44\x0c\xcc\x73\x5f\xff"), "200"},
    {"year 10000", AT_TIME, 8, BYTES("\x03\x84\x44\x0c\xcc\x73\x60\x00"), INVALID},
    {"before all time", AT_TIME, 8, BYTES("\x80\0\0\0\0\0\0\0"), INVALID},
    {"after all time", AT_TIME, 8, BYTES("\x7f\xff\xff\xff\xff\xff\xff\xff"), INVALID},
    {"id type 4", AT_ID, 1, BYTES("\x04"), INVALID},
    {"a bigint id", AT_ID, 17,
     BYTES("\x02"
           "12345678"),
     INVALID},
    {"a text id", AT_ID, 17,
     BYTES("\x03\0\x03"
           "abc"),
     INVALID},
    {"a text id past the end", AT_ID, 17, BYTES("\x03\x01\0"), INVALID},
    {"half a uuid", AT_ID + 1, 8, BYTES(""), INVALID},
    {"another query", AT_FINGERPRINT, 1, BYTES("\0"), MISMATCH},
    {"issued long ago", AT_ISSUED, 8, BYTES("\0\0\0\0\0\0\0\x01"), "200"},
    {"a byte too many", LIVE_BYTES, 0, BYTES("\0"), INVALID},
    {"a byte too few", LIVE_BYTES - 1, 1, BYTES(""), INVALID},
    {"nothing behind the key id", AT_FEED, LIVE_BYTES - AT_FEED, BYTES(""), INVALID},
};

static void put_key(const struct client *c, const char *name, const char *digits)
{
    char path[WORLD_PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", c->w.folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file, "%s%s%s%s\n", digits, digits, digits, digits);
    fclose(file);
}

/* The reader's cursor keys from now on; @ stands for the world's folder. */
static void keys_are(struct client *c, const char *list, int times)
{
    char extra[LIST_MAX];
    size_t used = 0;
    for (; *list != '\0'; list++)
        used += (size_t)snprintf(extra + used, sizeof extra - used, "%.*s", *list == '@' ? WORLD_PATH_MAX : 1,
                                 *list == '@' ? c->w.folder : list);
    cr_assert_lt(used, sizeof extra);
    client_reload(c, extra);
    for (int tries = 0; tries < 250 && child_log_lines(c->reader, "READ-KEYS") < times; tries++)
        world_sleep_ms(20);
    cr_assert_eq(child_log_lines(c->reader, "READ-KEYS"), times);
}

/* Any version and each byte changed, with the old tag and with a new one. */
static void change_bytes(const struct client *c, const char *good, struct span key)
{
    struct forge forge;
    char cursor[2 * RAW_MAX];
    int versions = 0, changed = 0;
    for (int version = 0; version < 256; version++) {
        forge_open(&forge, good);
        forge.bytes[AT_VERSION] = (unsigned char)version;
        sign(&forge, key, cursor);
        must(c, "version", "limit=2", cursor, version == 1 ? "200" : UNSUPPORTED);
        versions += version != 1;
    }
    for (size_t at = AT_KEY; at < LIVE_BYTES + TAG; at++, changed++) {
        size_t count = 0;
        unsigned char raw[RAW_MAX];
        cr_assert(base64url_decode(span_of(good), raw, &count) && count == LIVE_BYTES + TAG);
        raw[at] ^= 0x20;
        base64url_encode((struct span){(const char *)raw, count}, cursor);
        must(c, "a byte", "limit=2", cursor, at == AT_KEY + 1 ? UNSUPPORTED : INVALID);
    }
    printf("cursor faults: %d other versions cursor_unsupported, %d bytes changed under the old tag\n",
           versions, changed);
}

Test(reader, cursor_faults)
{
    static struct client c;
    struct forge forge;
    unsigned char first[32], second[32];
    char next[CURSOR_MAX], prev[CURSOR_MAX], cursor[2 * RAW_MAX];
    client_open(&c, "reader_faults");
    put_names(&c, "abcdefg", 1, "1 s");
    put_key(&c, "second.hex", "00112233aabbccdd");
    keys_are(&c, "[cursor]\nkeys = 1:@/keys.hex 2:@/second.hex\nsign_with = 1\n", 1);
    for (size_t i = 0; i < 32; i++) {
        static const unsigned char digits[] = {0x00, 0x11, 0x22, 0x33, 0xaa, 0xbb, 0xcc, 0xdd};
        first[i] = (unsigned char)i; /* as the harness writes keys.hex */
        second[i] = digits[i % 8];
    }
    struct span key = {(const char *)first, sizeof first}, other = {(const char *)second, sizeof second};
    take(&c, "limit=2", next, prev);
    change_bytes(&c, next, key);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        forge_open(&forge, next);
        cr_assert_eq(forge.count, (size_t)LIVE_BYTES);
        splice(&forge, faults[i].at, faults[i].removed, faults[i].bytes, faults[i].count);
        sign(&forge, key, cursor);
        printf("  %-26s %s\n", faults[i].name, answer(&c, FEED, "limit=2", cursor));
        must(&c, faults[i].name, "limit=2", cursor, faults[i].code);
    }
    forge_open(&forge, next);
    splice(&forge, AT_KEY + 1, 1, "2", 1);
    sign(&forge, other, cursor);
    must(&c, "key id 2, signed by 2", "limit=2", cursor, "200");
    take(&c, "limit=2&contract=boundary", next, prev);
    forge_open(&forge, next);
    forge.bytes[AT_CLUSTER + forge.bytes[AT_SNAPSHOT + 1]] ^= 1;
    sign(&forge, key, cursor);
    must(&c, "another cluster", "limit=2", cursor, "cursor_expired");
    memset(cursor, 'A', 1025);
    cursor[1025] = '\0';
    must(&c, "1,025 characters", "limit=2", cursor, INVALID);
    client_close(&c);
}

/* ---- keys rolled over two readers ---------------------------------------------------------------------- */

enum { READERS = 2, PARKED = 16 };

struct rolling {
    struct client c[READERS]; /* the second's world is the first's */
    char walk[CURSOR_MAX];    /* a client's, page after page, at either reader in turn */
    char shown[NAMES_MAX];
    struct {
        char cursor[CURSOR_MAX];
        char key; /* by which it was signed */
    } parked[PARKED];
    int count, loads[READERS];
    char keys[READERS][3], signer[READERS];
};

/* One page of the walk at this reader; its cursors stay parked too. */
static void go_on(struct rolling *r, int reader)
{
    char query[URL_MAX - 256], names[NAMES_MAX];
    snprintf(query, sizeof query, "limit=1&cursor=%s", r->walk);
    json_t *page = client_page(&r->c[reader], query);
    names_of(page, names);
    strncat(r->shown, names, sizeof r->shown - strlen(r->shown) - 1);
    snprintf(r->walk, CURSOR_MAX, "%s", page_cursor(page));
    cr_assert_lt(r->count, PARKED);
    snprintf(r->parked[r->count].cursor, CURSOR_MAX, "%s", prev_cursor(page));
    r->parked[r->count++].key = r->signer[reader];
    json_decref(page);
}

/* Every cursor there is, at both readers: it goes on where its key is known. */
static void ask_all(struct rolling *r, const char *step)
{
    int good[READERS] = {0}, gone[READERS] = {0};
    for (int reader = 0; reader < READERS; reader++)
        go_on(r, reader);
    for (int i = 0; i < READERS * r->count; i++) {
        int reader = i % READERS;
        bool known = strchr(r->keys[reader], r->parked[i / READERS].key) != NULL;
        must(&r->c[reader], step, "limit=1", r->parked[i / READERS].cursor, known ? "200" : UNSUPPORTED);
        good[reader] += known;
        gone[reader] += !known;
    }
    printf("  %-24s A: keys %-2s signs with %c, %2d go on, %2d unsupported; B: %-2s %c, %2d and %d\n", step,
           r->keys[0], r->signer[0], good[0], gone[0], r->keys[1], r->signer[1], good[1], gone[1]);
}

static void roll(struct rolling *r, int reader, const char *keys, char signer)
{
    char list[256], step[64];
    size_t at = (size_t)snprintf(list, sizeof list, "[cursor]\nsign_with = %c\nkeys =", signer);
    for (const char *key = keys; *key != '\0'; key++)
        at += (size_t)snprintf(list + at, sizeof list - at, " %c:@/%s.hex", *key,
                               *key == '1' ? "keys" : "second");
    snprintf(list + at, sizeof list - at, "\n");
    keys_are(&r->c[reader], list, ++r->loads[reader]);
    snprintf(r->keys[reader], sizeof r->keys[reader], "%s", keys);
    r->signer[reader] = signer;
    snprintf(step, sizeof step, "%c: keys %s, sign with %c", 'A' + reader, keys, signer);
    ask_all(r, step);
}

Test(reader, keys_rolled)
{
    static struct rolling r;
    client_open(&r.c[0], "reader_rolled");
    put_names(&r.c[0], "abcdefghijklmnop", 1, "1 s");
    put_key(&r.c[0], "second.hex", "00112233aabbccdd");
    r.c[1] = r.c[0];
    r.c[1].reader = world_reader(&r.c[0].w, NULL, r.c[1].base);
    for (int reader = 0; reader < READERS; reader++) {
        snprintf(r.keys[reader], sizeof r.keys[reader], "1");
        r.signer[reader] = '1';
    }
    ask_all(&r, "before");
    roll(&r, 0, "12", '1'); /* the new key everywhere */
    roll(&r, 1, "12", '1');
    roll(&r, 0, "12", '2'); /* then it signs */
    roll(&r, 1, "12", '2');
    roll(&r, 0, "2", '2'); /* then the old one goes */
    roll(&r, 1, "2", '2');
    cr_assert_str_eq(r.shown, "ponmlkjihgfedc", "the walk went on at either reader: %s", r.shown);
    printf("keys rolled: one walk over both readers and all steps showed %s; no cursor failed before its key "
           "was dropped\n",
           r.shown);
    child_stop(r.c[1].reader);
    client_close(&r.c[0]);
}

/* ---- membership withdrawn ------------------------------------------------------------------------------ */

static long conditional(const struct client *c, const char *etag, char *found)
{
    char url[URL_MAX], header[128];
    struct world_reply reply;
    const char *headers[] = {c->authorization, etag == NULL ? NULL : header, NULL};
    snprintf(header, sizeof header, "If-None-Match: %s", etag);
    snprintf(url, sizeof url, "%s" FEED "?limit=2", c->base);
    world_http("GET", url, headers, NULL, &reply);
    const char *tag = strcasestr(reply.headers, "\nETag: ");
    snprintf(found, 64, "%.*s", tag == NULL ? 0 : (int)strcspn(tag + 7, "\r\n"), tag == NULL ? "" : tag + 7);
    long status = reply.status;
    world_reply_done(&reply);
    return status;
}

Test(reader, member_withdrawn)
{
    static struct client c;
    static const char *const queries[] = {"limit=2", "limit=2&contract=boundary", "limit=2&unread=true",
                                          "limit=2&event_type=t"};
    char cursors[4][2][CURSOR_MAX], etag[64], none[64], id[64], path[128];
    client_open(&c, "reader_withdrawn");
    put_names(&c, "abcdefg", 1, "1 s");
    world_text(&c.w, id, sizeof id, "SELECT id FROM notifications WHERE title = 'a'");
    for (size_t i = 0; i < 4; i++)
        take(&c, queries[i], cursors[i][0], cursors[i][1]);
    cr_assert_eq(conditional(&c, NULL, etag), 200);
    for (int step = 0; step < 3; step++) {
        const char *expected = step == 1 ? "not_a_member" : "200";
        if (step > 0)
            world_exec(&c.w, step == 1 ? "SELECT belfry_remove_member('w', 'u1')"
                                       : "SELECT belfry_set_member('w', 'u1', 'member')");
        for (size_t i = 0; i < 8; i++)
            must(&c, queries[i / 2], queries[i / 2], cursors[i / 2][i % 2], expected);
        cr_expect_eq(conditional(&c, etag, none), step == 1 ? 403 : 304, "never 304 for who is no member");
        cr_expect_eq(conditional(&c, "*", none), step == 1 ? 403 : 304);
        cr_expect(step != 1 || none[0] == '\0');
        printf("withdrawn: %s: 8 cursors and the head %s\n",
               step == 0   ? "member"
               : step == 1 ? "removed"
                           : "member again",
               expected);
        if (step != 1)
            continue;
        client_refused(&c, FEED, 403, "not_a_member");
        client_refused(&c, FEED "/unread_count", 403, "not_a_member");
        snprintf(path, sizeof path, "/v1/workspaces/w/notifications/%s", id);
        client_refused(&c, path, 403, "not_a_member");
    }
    client_close(&c);
}
