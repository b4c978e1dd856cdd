/* Feeds made by hand, read as the role belfry_reader through the whole of feed/ but HTTP: parameters in, JSON
 * and cursors out. bigint ids without a scope, text ids, a workspace with roles. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feed/calls.h"
#include "feed/feeds.h"
#include "feed/parameters.h"
#include "feed/reply.h"
#include "support/harness.h"

static struct world w;
static struct db *db;
static struct feeds feeds;
static struct cursor_keys keys;

/* What one request answered. */
struct got {
    char code[64]; /* "": a page */
    char body[128 * 1024];
    char next[CURSOR_TEXT_MAX + 1], prev[CURSOR_TEXT_MAX + 1];
    bool has_more;
    int count;
};

static void begin(const char *name)
{
    struct fault fault;
    world_open(&w, name);
    world_database(&w);
    struct db_settings settings = {
        .uri = world_role_uri(&w, "belfry_reader"),
        .application_name = "source_test",
        .role = DB_ROLE_READER,
        .prepared_statements = true,
    };
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK, "%s", fault.text);
    memset(&keys, 0, sizeof keys);
    keys.keys[0].id[0] = '1';
    keys.keys[0].secret.count = CRYPTO_KEY_MIN;
    memset(keys.keys[0].secret.bytes, 7, CRYPTO_KEY_MIN);
    keys.count = 1;
}

static void end(void)
{
    db_close(db);
    feeds_done(&feeds);
    world_close(&w);
}

static void serve(const struct source *source, int64_t settle_max_ms)
{
    struct fault fault;
    cr_assert_eq(feeds_serve(&feeds, source, settle_max_ms, &fault), ST_OK, "%s", fault.text);
}

static size_t split(char *text, struct http_parameter *parameters)
{
    size_t count = 0;
    char *save = NULL;
    for (char *pair = strtok_r(text, "&", &save); pair != NULL; pair = strtok_r(NULL, "&", &save)) {
        char *equals = strchr(pair, '=');
        cr_assert_not_null(equals);
        *equals = '\0';
        parameters[count++] = (struct http_parameter){span_of(pair), span_of(equals + 1)};
    }
    return count;
}

static enum status answer_page(const struct feeds_entry *feed, const struct ask *ask, struct got *got,
                               struct fault *fault)
{
    struct buffer body, link;
    struct answer answer = {.body = &body, .link = &link, .form = &feed->form};
    struct parameters_cursors cursors;
    struct db_result *result = NULL;
    struct page page;
    cr_assert_eq(page_read(db, &ask->query, &result, fault), ST_OK, "%s", fault->text);
    cr_assert_eq(page_open(&ask->query, result, &page, fault), ST_OK);
    enum status status = page.access == PAGE_GRANTED ? ST_OK : calls_refuse_access(page.access, fault);
    if (status == ST_OK)
        status = parameters_cursors(ask, &page, &keys, &cursors, fault);
    if (status == ST_OK) {
        buffer_init(&body, REPLY_BYTES_MAX);
        buffer_init(&link, REPLY_LINK_BYTES_MAX);
        reply_write_page(&answer, ask, &page, &cursors);
        cr_assert(!body.failed && !link.failed && body.bytes < sizeof got->body);
        memcpy(got->body, body.at, body.bytes + 1);
        snprintf(got->next, sizeof got->next, "%s", cursors.next);
        snprintf(got->prev, sizeof got->prev, "%s", cursors.prev);
        got->has_more = page.has_more;
        got->count = page.count;
        buffer_done(&body);
        buffer_done(&link);
    }
    db_result_free(result);
    return status;
}

/* Asks a feed as a user in a workspace (NULL: none) with "name=value&…" (nothing escaped) and a cursor. */
static struct got *ask_page(const char *feed, const char *who, const char *query, const char *cursor)
{
    static struct got gots[4];
    static int turn;
    struct got *got = &gots[turn++ % 4];
    char text[2048];
    struct http_parameter parameters[16];
    struct feeds_entry *entry = feeds_find(&feeds, span_of(feed));
    cr_assert_not_null(entry);
    snprintf(text, sizeof text, "%s%s%s", query,
             cursor[0] == '\0'  ? ""
             : query[0] == '\0' ? "cursor="
                                : "&cursor=",
             cursor);
    const char *slash = strchr(who, '/');
    struct parameters_input input = {
        .parameters = parameters,
        .count = split(text, parameters),
        .statements = entry->statements,
        .keys = &keys,
        .scan_max = 150,
        .now_us = 1790000000 * (int64_t)1000000,
    };
    if (slash != NULL) {
        input.workspace_id = (struct span){who, (size_t)(slash - who)};
        input.user_id = span_of(slash + 1);
    }
    struct ask ask;
    struct fault fault;
    fault_reset(&fault);
    *got = (struct got){.count = 0};
    enum status status = parameters_read(&input, &ask, &fault);
    if (status == ST_OK)
        status = answer_page(entry, &ask, got, &fault);
    cr_assert(status == ST_OK || status == ST_REJECT);
    snprintf(got->code, sizeof got->code, "%s", status == ST_OK ? "" : fault.code);
    return got;
}

/* The ids of the last walk, one behind the other, each page's in order. */
static char ids[32768];

/* Walks from `cursor` on to the end. */
static int walk(const char *feed, const char *who, const char *query, const char *cursor)
{
    char place[CURSOR_TEXT_MAX + 1];
    size_t used = 0;
    int count = 0, pages = 0;
    bool more = true;
    ids[0] = '\0';
    snprintf(place, sizeof place, "%s", cursor);
    while (more) {
        struct got *got = ask_page(feed, who, query, place);
        cr_assert_str_eq(got->code, "", "%s %s: %s", feed, query, got->code);
        for (const char *at = strstr(got->body, "\"id\":"); at != NULL; at = strstr(at, "\"id\":")) {
            at += strlen("\"id\":");
            used += (size_t)snprintf(ids + used, sizeof ids - used, "%.*s ", (int)strcspn(at, ",}"), at);
            cr_assert_lt(used, sizeof ids);
            count++;
        }
        more = got->has_more;
        snprintf(place, sizeof place, "%s", got->next);
        cr_assert_lt(++pages, 2000);
    }
    printf("%.12s %-6s %-55s: %3d entries, %3d pages\n", feed, who, query, count, pages);
    return count;
}

static const struct source posts = {
    .name = "posts",
    .path = "/posts",
    .relation = "posts",
    .id_type = SOURCE_BIGINT,
    .id_number = true,
    .items_key = "posts",
    .columns = {{"id", "id", SOURCE_BIGINT, false},
                {"author", "author", SOURCE_TEXT, false},
                {"n", "n", SOURCE_NUMERIC, false},
                {"big", "big", SOURCE_BIGINT, false},
                {"small", "small", SOURCE_INTEGER, false},
                {"yes", "yes", SOURCE_BOOLEAN, false},
                {"doc", "matched", SOURCE_JSON, true}, /* a column of a name of ours */
                {"created_at", "created_at", SOURCE_TIME, false},
                {"a \"b\"", "\"a \"\"b\"\"\"", SOURCE_TEXT, false}},
    .column_count = 9,
    .filters = {{"author", "author", SOURCE_TEXT, 20},
                {"big", "big", SOURCE_BIGINT, 0},
                {"small", "small", SOURCE_INTEGER, 0},
                {"yes", "yes", SOURCE_BOOLEAN, 0},
                {"u", "u", SOURCE_UUID, 0}},
    .filter_count = 5,
    .auth = SOURCE_OPEN,
};

static void make_posts(void)
{
    world_exec(&w, "CREATE TABLE posts (id bigint PRIMARY KEY, author varchar(50), n numeric, big bigint,"
                   " small smallint, yes boolean, matched jsonb, created_at timestamptz NOT NULL,"
                   " \"a \"\"b\"\"\" text, u uuid)");
    world_exec(&w, "CREATE INDEX ON posts (created_at DESC, id DESC)");
    world_exec(&w, "GRANT SELECT ON posts TO belfry_reader");
    world_exec(&w,
               "INSERT INTO posts SELECT i, 'a' || i %% 3, 1.10 * i, 9007199254740993 + i, i, i %% 2 = 0,"
               " '{\"k\": 1.0}', timestamptz '2026-03-21T09:00:00.123456Z' + i / 40 * interval '1 us', 'x',"
               " lpad(to_hex(i %% 5), 32, '0')::uuid FROM generate_series(-20, 229) AS i");
    world_exec(&w, "UPDATE posts SET author = NULL, n = 'NaN', big = NULL, matched = NULL WHERE id = 229");
}

/* Ids of a walk: from, from - 1 … to. */
static void expect_falling(int from, int to)
{
    static char wanted[8192];
    size_t used = 0;
    for (int i = from; i >= to; i--)
        used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%d ", i);
    cr_expect_str_eq(ids, wanted);
}

static void check_bigint_without_scope(void)
{
    static const int limits[] = {1, 7, 40, 100};
    const char *first = "{\"posts\":[{\"id\":229,\"author\":null,\"n\":\"NaN\",\"big\":null,\"small\":229,"
                        "\"yes\":false,\"doc\":{},\"created_at\":\"2026-03-21T09:00:00.123461Z\","
                        "\"a \\\"b\\\"\":\"x\"},{\"id\":228,\"author\":\"a0\",\"n\":\"250.80\","
                        "\"big\":\"9007199254741221\",\"small\":228,\"yes\":true,\"doc\":{\"k\": 1.0},";
    struct got *head = ask_page("posts", "", "", "");
    cr_expect_eq(strncmp(head->body, first, strlen(first)), 0, "%.600s", head->body);
    cr_expect_not_null(strstr(head->body, "\"contract\":\"live\",\"gapless\":false}"));
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        char query[32];
        snprintf(query, sizeof query, "limit=%d", limits[i]);
        cr_expect_eq(walk("posts", "", query, ""), 250);
        expect_falling(229, -20);
    }
    /* Up again from the middle: a page is newest first, and the next stands above it. */
    struct got *middle = ask_page("posts", "", "limit=100", ask_page("posts", "", "limit=100", "")->next);
    char prev[CURSOR_TEXT_MAX + 1];
    snprintf(prev, sizeof prev, "%s", middle->prev);
    struct got *up = ask_page("posts", "", "limit=100", prev);
    cr_expect_eq(strncmp(up->body, "{\"posts\":[{\"id\":229,", 20), 0, "%.100s", up->body);
    cr_expect_eq(up->count, 100);
    cr_expect_str_eq(ask_page("posts", "", "contract=boundary", "")->code, "contract_not_offered");
    cr_expect_str_eq(ask_page("posts", "", "unread=true", "")->code, "unknown_parameter");
}

/* Each type of filter; scan_max ends a page that found too little. Two spellings of one value are one. */
static void check_filters(void)
{
    cr_expect_eq(walk("posts", "", "limit=7&author=a1", ""), 76);
    cr_expect_eq(walk("posts", "", "limit=7&yes=true", ""), 125);
    cr_expect_eq(walk("posts", "", "small=-20", ""), 1);
    cr_expect_eq(walk("posts", "", "big=9007199254740993", ""), 1);
    cr_expect_str_eq(ids, "0 ");
    cr_expect_eq(walk("posts", "", "u=00000000-0000-0000-0000-000000000003&yes=false&limit=1", ""), 23,
                 "3 and its like, odd");
    struct got *got = ask_page("posts", "", "small=-007", "");
    cr_expect_eq(got->count, 0);
    cr_expect(got->has_more, "150 read, more to read");
    cr_expect_str_eq(ask_page("posts", "", "small=-7", got->next)->code, "");
    cr_expect_str_eq(ask_page("posts", "", "small=-8", got->next)->code, "cursor_mismatch");
    static const char *const refused[] = {"yes=1",
                                          "yes=",
                                          "small=2147483648",
                                          "small=",
                                          "small=-",
                                          "small=1.0",
                                          "big=x",
                                          "u=3",
                                          "author=",
                                          "author=123456789012345678901",
                                          "big=9223372036854775808"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        cr_expect_str_eq(ask_page("posts", "", refused[i], "")->code, "invalid_parameter", "%s", refused[i]);
    cr_expect_str_eq(ask_page("posts", "", "big=9223372036854775807", "")->code, "");
}

/* Without belfry_stamp the newer walk keeps settle_max away from now. */
static void check_held_back(void)
{
    static struct source fast, slow;
    world_exec(&w, "INSERT INTO posts (id, created_at) VALUES (1000, now())");
    fast = slow = posts;
    fast.name = "fast";
    slow.name = "slow";
    serve(&fast, 0);
    serve(&slow, 3600000);
    cr_expect_eq(walk("fast", "", "limit=100", ask_page("fast", "", "", "")->prev), 0);
    cr_expect_eq(walk("slow", "", "limit=100", ask_page("slow", "", "", "")->prev), 0);
    world_exec(&w, "INSERT INTO posts (id, created_at) VALUES (1001, now() - interval '30 min')");
    char fast_prev[CURSOR_TEXT_MAX + 1];
    struct got *below = ask_page("fast", "", "limit=2", "");
    snprintf(fast_prev, sizeof fast_prev, "%s", ask_page("fast", "", "limit=2", below->next)->prev);
    cr_expect_eq(walk("fast", "", "limit=2", fast_prev), 2);
    cr_expect_str_eq(ids, "1000 1001 ");
    struct got *slow_below = ask_page("slow", "", "limit=2", "");
    cr_expect_eq(walk("slow", "", "limit=2", ask_page("slow", "", "limit=2", slow_below->next)->prev), 0,
                 "younger than an hour: %s", ids);
}

static const struct source docs = {
    .name = "a-feed-whose-name-is-as-long-as-the-name-of-a-feed-can-be-x-63b",
    .relation = "docs",
    .recipient = "owner",
    .id_type = SOURCE_TEXT,
    .items_key = "items",
    .columns = {{"created_at", "created_at", SOURCE_TIME, false}, {"id", "id", SOURCE_TEXT, false}},
    .column_count = 2,
    .filters = {{"kind", "kind", SOURCE_TEXT, 20}},
    .filter_count = 1,
    .flag = "open",
    .flag_sql = "n.open",
    .auth = SOURCE_USER,
    .xid = "xid",
};

static void check_text_ids(void)
{
    world_exec(&w, "CREATE TYPE kinds AS ENUM ('k0', 'k1')");
    world_exec(
        &w, "CREATE TABLE docs (id varchar COLLATE \"C\" PRIMARY KEY, owner text, kind kinds, open boolean,"
            " created_at timestamptz NOT NULL, xid xid8 DEFAULT pg_current_xact_id())");
    world_exec(&w, "CREATE INDEX ON docs (owner, created_at DESC, id DESC)");
    world_exec(&w, "GRANT SELECT ON docs TO belfry_reader");
    world_exec(&w,
               "INSERT INTO docs SELECT x.id, o, ('k' || length(x.id) %% 2)::kinds, length(x.id) %% 3 = 0,"
               " timestamptz '2026-03-21T09:00:00Z' FROM unnest(ARRAY['u1', 'u2']) AS o,"
               " LATERAL (SELECT o || s FROM unnest(ARRAY['', 'a', 'A', 'aa', 'Z', 'é', 'ä', '€', '𝄞', 'z'])"
               " AS s) AS x (id)");
    world_exec(&w, "UPDATE docs SET id = '' WHERE id = 'u1'");
    world_exec(&w, "INSERT INTO docs SELECT repeat('z', n), 'u1', 'k0', true, '2026-03-21T09:00:00Z'"
                   " FROM unnest(ARRAY[255, 256, 257, 300]) AS n");
    serve(&docs, 1000);
    const char *feed = docs.name;
    for (int limit = 1; limit <= 4; limit++) {
        static const char *const queries[] = {"limit=%d", "limit=%d&contract=boundary", "limit=%d&kind=k0",
                                              "limit=%d&open=true"};
        static const int counts[] = {12, 12, 4, 10};
        for (int q = 0; q < 4; q++) {
            char query[64];
            snprintf(query, sizeof query, queries[q], limit); // NOLINT: rows of a table
            int count = walk(feed, "/u1", query, "");
            cr_expect_eq(count, counts[q], "%s: %d", query, count);
        }
    }
    walk(feed, "/u1", "limit=3", "");
    cr_expect_eq(strncmp(ids, "\"zzzz", 5), 0);
    cr_expect_not_null(
        strstr(ids, "\"u1𝄞\" \"u1€\" \"u1é\" \"u1ä\" \"u1z\" \"u1aa\" \"u1a\" \"u1Z\" \"u1A\" \"\" "), "%s",
        ids);
    /* From below all up again, every one: the empty id too. */
    struct got *last = ask_page(feed, "/u1", "limit=100", "");
    for (struct got *got = ask_page(feed, "/u1", "limit=5", ""); got->has_more;)
        last = got = ask_page(feed, "/u1", "limit=5", got->next);
    struct got *up = ask_page(feed, "/u1", "limit=100", last->prev);
    cr_expect_eq(up->count, 10, "above the first of the last page: %d", up->count);
    cr_expect_eq(walk(feed, "/u2", "", ""), 10, "another's are another's");
    cr_expect_str_eq(ask_page(feed, "/u2", "limit=5", last->prev)->code, "cursor_mismatch");
}

static const struct source activity = {
    .name = "activity",
    .relation = "activity_events",
    .workspace = "workspace_id",
    .id_type = SOURCE_UUID,
    .items_key = "items",
    .columns = {{"id", "id", SOURCE_UUID, false},
                {"event_type", "event_type", SOURCE_TEXT, false},
                {"created_at", "created_at", SOURCE_TIME, false}},
    .column_count = 3,
    .auth = SOURCE_MEMBER,
    .roles = {"admin", "it's \\ me", "guest"},
    .role_count = 3,
    .roles_column = "readers",
    .xid = "xid",
    .settled = "activity",
};

static void check_roles(void)
{
    static struct source plain;
    world_exec(&w,
               "CREATE TABLE activity_events (workspace_id text, id uuid PRIMARY KEY, event_type text,"
               " created_at timestamptz NOT NULL, readers text[], xid xid8 DEFAULT pg_current_xact_id())");
    world_exec(&w, "CREATE INDEX ON activity_events (workspace_id, created_at DESC, id DESC)");
    world_exec(&w, "GRANT SELECT ON activity_events TO belfry_reader");
    world_exec(&w, "INSERT INTO settled VALUES ('activity', '2026-04-01T00:00:00Z')");
    world_exec(&w,
               "INSERT INTO activity_events SELECT 'w', lpad(to_hex(i), 32, '0')::uuid, 't',"
               " timestamptz '2026-03-21T09:00:00Z' + i / 10 * interval '1 s', CASE WHEN i %% 4 = 0 THEN NULL"
               " WHEN i %% 2 = 0 THEN ARRAY['admin', E'it''s \\\\ me'] ELSE ARRAY['admin'] END"
               " FROM generate_series(1, 400) AS i");
    world_exec(&w,
               "SELECT belfry_set_member('w', u, r) FROM (VALUES ('ann', 'admin'), ('me', E'it''s \\\\ me'),"
               " ('gus', 'guest'), ('max', 'member')) AS m (u, r)");
    serve(&activity, 1000);
    plain = activity;
    plain.name = "plain";
    plain.roles_column = NULL;
    serve(&plain, 1000);
    static const struct {
        const char *who, *code;
        int rows, plain_rows;
    } rows[] = {
        {"w/ann", "", 300, 400},          {"w/me", "", 100, 400},          {"w/gus", "", 0, 400},
        {"w/max", "role_required", 0, 0}, {"w/eve", "not_a_member", 0, 0}, {"x/ann", "not_a_member", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static const char *const queries[] = {"limit=30", "limit=30&contract=boundary"};
        for (size_t q = 0; q < 2; q++) {
            struct got *got = ask_page("activity", rows[i].who, queries[q], "");
            cr_assert_str_eq(got->code, rows[i].code, "%s: %s", rows[i].who, got->code);
            cr_expect_null(strstr(got->body, "gapless"));
            cr_expect_str_eq(ask_page("plain", rows[i].who, queries[q], "")->code, rows[i].code);
            if (rows[i].code[0] != '\0')
                continue;
            cr_expect_eq(walk("activity", rows[i].who, queries[q], ""), rows[i].rows, "%s", rows[i].who);
            cr_expect_eq(walk("plain", rows[i].who, queries[q], ""), rows[i].plain_rows);
        }
    }
    /* The role is taken away between two pages. */
    char next[CURSOR_TEXT_MAX + 1];
    snprintf(next, sizeof next, "%s", ask_page("activity", "w/ann", "", "")->next);
    world_exec(&w, "SELECT belfry_set_member('w', 'ann', 'member')");
    cr_expect_str_eq(ask_page("activity", "w/ann", "", next)->code, "role_required");
    world_exec(&w, "SELECT belfry_set_member('w', 'ann', 'guest')");
    cr_expect_eq(ask_page("activity", "w/ann", "", next)->count, 0);
    world_exec(&w, "SELECT belfry_remove_member('w', 'ann')");
    cr_expect_str_eq(ask_page("activity", "w/ann", "", next)->code, "not_a_member");
    /* Not a user's own feed: another member goes on with the cursor. */
    cr_expect_str_eq(ask_page("activity", "w/me", "", next)->code, "");
}

/* One database for all: making one takes longer than all of this. */
Test(source, feeds)
{
    begin("source_feeds");
    make_posts();
    serve(&posts, 1000);
    check_bigint_without_scope();
    check_filters();
    check_held_back();
    check_text_ids();
    check_roles();
    end();
}
