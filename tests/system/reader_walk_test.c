/* reader_1: where a walk goes, both ways and under both contracts: rows of one instant, deleted rows, rows
 * that took their timestamp before a page and commit after it, marks up to a cursor, what a client need not
 * fetch again. The real belfry-reader over HTTP; the bound is moved by hand. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/db.h"
#include "reader_export.h"
#include "reader_steps.h"
#include "store/page.h"

#define FEED "/v1/workspaces/w/feeds/notifications"

/* ---- directions ---------------------------------------------------------------------------------------- */

Test(reader, directions)
{
    static struct client c;
    char next[CURSOR_MAX], prev[CURSOR_MAX], down[CURSOR_MAX];
    client_open(&c, "reader_directions");
    /* An empty feed can be followed too. */
    bound_at(&c, "2026-03-21T09:00:00Z");
    expect(&c, "limit=3", "", "", next, prev);
    cr_assert_str_eq(next, "");
    put_names(&c, "abcdefgh", 1, "1 s");
    expect(&c, "limit=3", prev, "", next, NULL);
    bound_at(&c, "2026-03-21T09:00:20Z");
    expect(&c, "limit=3&direction=newer", next, "cba", next, down);
    expect(&c, "limit=3", next, "fed", next, down);
    expect(&c, "limit=3", down, "cba", NULL, NULL);
    expect(&c, "limit=3", next, "hg", next, down);
    expect(&c, "limit=3", next, "", next, down);
    expect(&c, "limit=3", next, "", next, down); /* never the end: asked again */
    expect(&c, "limit=3", down, "hgf", NULL, NULL);
    /* Turning round in an older walk. */
    expect(&c, "limit=3", "", "hgf", next, prev);
    expect(&c, "limit=3", prev, "", NULL, NULL);
    expect(&c, "limit=3", next, "edc", next, prev);
    expect(&c, "limit=3", prev, "hgf", NULL, NULL);
    expect(&c, "limit=3", next, "ba", next, prev);
    cr_assert_str_eq(next, "", "the end");
    expect(&c, "limit=3", prev, "edc", NULL, NULL);
    /* All of a page deleted: what stands around it is still found, both ways. */
    expect(&c, "limit=3", "", "hgf", next, prev);
    world_exec(&c.w, "DELETE FROM notifications WHERE title IN ('c', 'd', 'e', 'h')");
    expect(&c, "limit=3", next, "ba", NULL, prev);
    expect(&c, "limit=3", prev, "gf", NULL, NULL);
    world_exec(&c.w, "DELETE FROM notifications WHERE title IN ('a', 'b')");
    expect(&c, "limit=3", next, "", NULL, prev);
    expect(&c, "limit=3", prev, "gf", NULL, NULL);
    /* Filters without an index go up as they go down. */
    put_names(&c, "abcdeh", 1, "1 ms");
    expect(&c, "category=low&limit=2", "", "cb", next, prev);
    expect(&c, "category=low&limit=2", next, "a", next, prev);
    expect(&c, "category=low&limit=2", prev, "cb", NULL, NULL);
    expect(&c, "unread=true&limit=2", "", "gf", NULL, prev);
    snprintf(down, sizeof down, FEED "?direction=older&cursor=%s", prev);
    client_refused(&c, down, 400, "cursor_mismatch");
    client_close(&c);
}

/* Rows of one timestamp; the bound stands among them, so that they come once more and none is missed. */
Test(reader, ties)
{
    static struct client c;
    char next[CURSOR_MAX], prev[CURSOR_MAX];
    client_open(&c, "reader_ties");
    put_names(&c, "abcdefg", 1, "0");
    bound_at(&c, "2026-03-21T09:00:01Z");
    expect(&c, "limit=3", "", "gfe", next, prev);
    expect(&c, "limit=3", next, "dcb", next, NULL);
    expect(&c, "limit=3", next, "a", NULL, NULL);
    expect(&c, "limit=3", prev, "", prev, NULL);
    bound_at(&c, "2026-03-21T09:00:01.000001Z");
    expect(&c, "limit=3", prev, "cba", prev, NULL);
    expect(&c, "limit=3", prev, "fed", prev, NULL);
    expect(&c, "limit=3", prev, "g", prev, NULL);
    expect(&c, "limit=3", "", "gfe", NULL, prev);
    expect(&c, "limit=3", prev, "", NULL, NULL);
    client_close(&c);
}

/* ---- late commits -------------------------------------------------------------------------------------- */

/* Three rows that commit after the first page: above it, on it, below it. */
static void late_walk(struct client *c, const char *contract, const char *older, const char *above,
                      const char *again)
{
    char next[CURSOR_MAX], prev[CURSOR_MAX], up[CURSOR_MAX], query[64];
    world_exec(&c->w, "DELETE FROM notifications");
    put_names(c, "abcdef", 1, "1 s");
    bound_at(c, "2026-03-21T09:00:02.5Z"); /* what the oldest late one lets it be */
    struct db *late[] = {late_begin(c, "X", "2.5"), late_begin(c, "Y", "5.5"), late_begin(c, "Z", "9.5")};
    snprintf(query, sizeof query, "limit=3&contract=%s", contract);
    expect(c, query, "", "fed", next, prev);
    for (size_t i = 0; i < 3; i++)
        late_commit(late[i]);
    expect(c, query, prev, "", prev, NULL); /* held back */
    bound_at(c, "2026-03-21T09:01:00Z");
    expect(c, query, next, older, next, up);
    expect(c, query, up, above, NULL, NULL); /* turned round, from the page's first row on */
    expect(c, query, prev, again, NULL, NULL);
}

Test(reader, late)
{
    static struct client c;
    client_open(&c, "reader_late");
    /* Going on downwards X shows, for it stands below; upwards from where the head was, all three do. */
    late_walk(&c, "live", "cXb", "Yed", "dcX");
    /* None of the three ever does. */
    late_walk(&c, "boundary", "cba", "fed", "edc");
    client_close(&c);
}

/* Runs the prepared statement cutN; its rows stay in gotN. */
static int64_t cut_rows(struct world *w, int cut)
{
    world_exec(w, "DROP TABLE IF EXISTS got%d", cut);
    world_exec(w, "CREATE TEMP TABLE got%d AS EXECUTE cut%d('w', 'u1', 11, 2000, NULL, NULL)", cut, cut);
    return world_count(w, "SELECT count(c0) FROM got%d", cut);
}

static bool cut_leaves_two(void *world)
{
    return cut_rows(world, 1) == 2;
}

/* A long list of running transactions, or a standby: the first page keeps to what had committed before the
 * oldest of them already, and its snapshot says so. The statement as composed, but for the length. */
Test(reader, snapshot_cut)
{
    static struct client c;
    static char sql[32768], seen[256], whole[256];
    struct page_statements *statements = page_compose(&source_notifications, 30000);
    struct page_query query = {.statements = statements, .boundary = true};
    client_open(&c, "reader_cut");
    put_names(&c, "ab", 1, "1 s");
    struct db *oldest = late_begin(&c, "X", "9");
    put_names(&c, "c", 3, "1 s"); /* committed, but behind the oldest that runs */
    snprintf(sql, sizeof sql, "%s", page_statement(&query)->sql);
    char *count = strstr(sql, "> 190\n");
    cr_assert_not_null(count);
    world_exec(&c.w, "PREPARE cut0 AS %s", sql);
    memcpy(count, ">   0", 5);
    world_exec(&c.w, "PREPARE cut1 AS %s", sql);
    cr_expect_eq(cut_rows(&c.w, 0), 3);
    /* Transaction numbers are the whole cluster's: another database's may be older than ours for a while. */
    world_wait("the cut leaves the two rows below the oldest", 30, cut_leaves_two, &c.w);
    world_text(&c.w, whole, sizeof whole, "SELECT DISTINCT seen FROM got0");
    world_text(&c.w, seen, sizeof seen, "SELECT DISTINCT seen FROM got1");
    printf("snapshot: whole %s: 3 rows; cut %s: 2 rows\n", whole, seen);
    cr_expect_eq(world_count(&c.w,
                             "SELECT count(*) FROM (SELECT '%s'::pg_snapshot AS s) AS x WHERE"
                             " pg_snapshot_xmin(s) = pg_snapshot_xmax(s)"
                             " AND pg_snapshot_xmin(s) <= ALL (SELECT inserted_xid FROM notifications"
                             "                                 WHERE title = 'c')",
                             seen),
                 1, "%s", seen);
    late_commit(oldest);
    page_statements_free(statements);
    client_close(&c);
}

/* Many running transactions fit into a cursor; a boundary cursor of another cluster is gone. */
Test(reader, boundary_cursor)
{
    enum { RUNNING = 20 };
    static struct client c;
    struct db *running[RUNNING];
    char next[CURSOR_MAX], prev[CURSOR_MAX];
    client_open(&c, "reader_boundary");
    put_names(&c, "abcdef", 1, "1 s");
    bound_at(&c, "2026-03-21T09:00:30Z");
    for (int i = 0; i < RUNNING; i++)
        running[i] = late_begin(&c, "X", "2.5");
    expect(&c, "limit=2&contract=boundary", "", "fe", next, prev);
    printf("boundary: a cursor with %d running transactions has %zu characters\n", RUNNING, strlen(next));
    for (int i = 0; i < RUNNING; i++)
        late_commit(running[i]);
    expect(&c, "limit=2", next, "dc", next, NULL);
    expect(&c, "limit=2", next, "ba", next, NULL);
    cr_assert_str_eq(next, "");
    put_names(&c, "g", 7, "1 s");
    expect(&c, "limit=2", prev, "", NULL, NULL);
    /* Restored into another cluster, whose transaction numbers mean something else. */
    world_exec(&c.w, "UPDATE notifications SET inserted_xid = '18446744073709551615'");
    expect(&c, "limit=2&contract=boundary", "", "", NULL, NULL);
    char script[16384], path[WORLD_PATH_MAX];
    snprintf(path, sizeof path, "%s/sql/after_restore.sql", BELFRY_SOURCE_DIR);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    script[fread(script, 1, sizeof script - 1, file)] = '\0';
    fclose(file);
    world_exec(&c.w, "%s", script);
    expect(&c, "limit=2&contract=boundary", "", "gf", NULL, NULL);
    client_close(&c);
}

static long mark(const struct client *c, const char *query, const char *body, int *marked, bool *more)
{
    char url[URL_MAX];
    struct world_reply reply;
    const char *headers[] = {c->authorization, NULL};
    snprintf(url, sizeof url, "%s" FEED "/read%s", c->base, query);
    world_http("POST", url, headers, body, &reply);
    json_t *json = json_loadb(reply.body, reply.body_bytes, 0, NULL);
    *marked = (int)json_integer_value(json_object_get(json, "marked"));
    *more = json_is_true(json_object_get(json, "more"));
    const char *code = json_string_value(json_object_get(json, "code"));
    printf("  read %s: %ld %s marked %d%s\n", query, reply.status, code == NULL ? "" : code, *marked,
           *more ? " and more" : "");
    json_decref(json);
    long status = reply.status;
    world_reply_done(&reply);
    return status;
}

static void code_of(const struct client *c, const char *method, const char *path, const char *code)
{
    char url[URL_MAX];
    struct world_reply reply;
    const char *headers[] = {c->authorization, NULL};
    snprintf(url, sizeof url, "%s%s", c->base, path);
    world_http(method, url, headers, strcmp(method, "POST") == 0 ? "" : NULL, &reply);
    cr_assert_not_null(strstr(reply.body, code), "%s %s: %ld %s, not %s", method, path, reply.status,
                       reply.body, code);
    world_reply_done(&reply);
}

/* Up and down, by every filter and under both contracts, around rows that no page can show. */
static void walk_years(const struct client *c, const char *filter, const char *contract)
{
    char next[CURSOR_MAX], prev[CURSOR_MAX], query[128];
    snprintf(query, sizeof query, "limit=2&contract=%s%s", contract, filter);
    expect(c, query, "", "ed", next, prev);
    expect(c, query, prev, "", prev, NULL);
    expect(c, query, next, "cb", next, NULL);
    expect(c, query, next, "a", next, prev);
    cr_expect_str_eq(next, "");
    expect(c, query, prev, "cb", next, NULL);
    expect(c, query, next, "ed", next, NULL);
    expect(c, query, next, "", next, prev);
    expect(c, query, prev, "ed", NULL, NULL);
}

/* Years that RFC 3339 cannot write, put in by SQL: pages go on around them, and nothing else knows them. The
 * first and the last microsecond that can be written are shown. */
Test(reader, years)
{
    static struct client c;
    static const char *const filters[] = {"", "&unread=true", "&event_type=t", "&category=x&unread=true"};
    char id[64], path[128], cursor[CURSOR_MAX], body[CURSOR_MAX + 64];
    client_open(&c, "reader_years");
    bound_at(&c, "2026-03-21T09:00:30Z");
    world_exec(&c.w, "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, category,"
                     " title, occurred_at, created_at) SELECT gen_random_uuid(), 'w', 'u1', 't', 'x', title,"
                     " at, at FROM unnest(ARRAY['infinity', '-infinity', '10000-01-01 00:00:00+00',"
                     " '0001-12-31 23:59:59.999999+00 BC', '294276-01-01',"
                     " '0001-01-01 00:00:00+00', '1969-12-31 23:59:59.999999+00', '1970-01-01 00:00:00+00',"
                     " '1999-12-31 23:59:59.999999+00', '2026-03-21T09:00:00Z']::timestamptz[],"
                     " ARRAY['y', 'y', 'y', 'y', 'y', 'a', 'b', 'c', 'd', 'e']) AS x (at, title)");
    world_exec(&c.w, "UPDATE notifications SET occurred_at = 'infinity' WHERE title = 'b'");
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        walk_years(&c, filters[i], "live");
        walk_years(&c, filters[i], "boundary");
    }
    for (int i = 0; i < 5; i++) {
        static const char *const ends[] = {"", "/read", "/unread"};
        world_text(&c.w, id, sizeof id, "SELECT id FROM notifications WHERE title = 'y' OFFSET %d", i);
        for (int end = 0; end < 3; end++) {
            snprintf(path, sizeof path, "/v1/workspaces/w/notifications/%s%s", id, ends[end]);
            code_of(&c, end == 0 ? "GET" : "POST", path, "not_found");
        }
    }
    code_of(&c, "GET", FEED "/unread_count", "{\"unread\":5,\"capped\":false}");
    cr_expect_eq(export_make(&c, "{}", id), 5, "an export holds what pages show");
    expect(&c, "limit=2", "", "ed", NULL, cursor);
    snprintf(body, sizeof body, "{\"up_to\":\"%s\"}", cursor);
    int marked;
    bool more;
    cr_expect_eq(mark(&c, "", body, &marked, &more), 200);
    cr_expect_eq(marked, 5, "all that can be shown, and no more: %d", marked);
    world_exec(&c.w, "DELETE FROM notifications WHERE title <> 'y'");
    expect(&c, "limit=2", "", "", NULL, NULL);
    world_exec(&c.w, "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title,"
                     " created_at) SELECT gen_random_uuid(), 'w', 'u1', 't', 'z',"
                     " '9999-12-31 23:59:59.999999+00'");
    char next[CURSOR_MAX];
    expect(&c, "limit=1", "", "z", next, cursor);
    expect(&c, "limit=1", cursor, "", cursor, NULL);
    client_close(&c);
}

/* ---- kept pages ---------------------------------------------------------------------------------------- */

static long conditional(const struct client *c, const char *path, const char *if_none_match, char *etag)
{
    char url[URL_MAX], header[256];
    struct world_reply reply;
    const char *headers[] = {c->authorization, if_none_match == NULL ? NULL : header, NULL};
    snprintf(header, sizeof header, "If-None-Match: %s", if_none_match);
    snprintf(url, sizeof url, "%s%s", c->base, path);
    world_http("GET", url, headers, NULL, &reply);
    const char *tag = strcasestr(reply.headers, "\nETag: ");
    etag[0] = '\0';
    if (tag != NULL)
        snprintf(etag, 64, "%.*s", (int)strcspn(tag + 7, "\r\n"), tag + 7);
    if (reply.status == 304)
        cr_assert_eq(reply.body_bytes, 0);
    bool linked = strcasestr(reply.headers, "\nLink: <?limit=2&category=low&cursor=") != NULL;
    cr_assert_eq(linked, reply.status == 200 && strstr(path, "category") != NULL, "%s", reply.headers);
    if (linked)
        cr_assert_not_null(strstr(reply.headers, ">; rel=\"prev\""), "%s", reply.headers);
    long status = reply.status;
    world_reply_done(&reply);
    return status;
}

Test(reader, etag)
{
    static struct client c;
    char first[64], etag[64], list[256], next[CURSOR_MAX], path[URL_MAX - 64];
    client_open(&c, "reader_etag");
    put_names(&c, "abc", 1, "1 s");
    static const char head[] = FEED "?limit=2&category=low";
    cr_assert_eq(conditional(&c, head, NULL, first), 200);
    cr_assert_eq(strncmp(first, "W/\"", 3), 0, "weak: %s", first);
    cr_assert_eq(conditional(&c, head, first, etag), 304);
    cr_assert_str_eq(etag, first);
    snprintf(list, sizeof list, "\"x\", W/\"y,z\" ,%s", first + 2);
    cr_assert_eq(conditional(&c, head, list, etag), 304, "a list, compared weakly");
    cr_assert_eq(conditional(&c, head, "*", etag), 304);
    cr_assert_eq(conditional(&c, head, "\"x\"", etag), 200);
    cr_assert_eq(conditional(&c, head, "nonsense", etag), 200);
    bound_at(&c, "2026-03-21T09:01:00Z");
    cr_assert_eq(conditional(&c, head, first, etag), 304, "cursors do not count");
    cr_assert_eq(conditional(&c, FEED "?limit=2&category=low&contract=boundary", first, etag), 200,
                 "the contract does");
    world_exec(&c.w, "DELETE FROM notifications WHERE title = 'a'");
    cr_assert_eq(conditional(&c, head, first, etag), 200, "has_more does");
    cr_assert_str_neq(etag, first);
    snprintf(first, sizeof first, "%s", etag);
    world_exec(&c.w, "UPDATE notifications SET read_at = now() WHERE title = 'c'");
    cr_assert_eq(conditional(&c, head, first, etag), 200, "the rows do");
    put_names(&c, "a", 1, "1 s");
    expect(&c, "limit=2&category=low", "", "cb", next, NULL);
    snprintf(path, sizeof path, FEED "?limit=2&category=low&cursor=%s", next);
    cr_assert_eq(conditional(&c, path, "*", etag), 200);
    cr_assert_str_eq(etag, "", "only the head page has one");
    printf("etag: 304 for the tag, a list and *; 200 after has_more, rows or contract changed\n");
    client_close(&c);
}

/* ---- read up to ---------------------------------------------------------------------------------------- */

static void mark_up_to(struct client *c, const char *query, const char *cursor, int expected, int unread)
{
    char body[CURSOR_MAX + 64];
    int marked;
    bool more;
    snprintf(body, sizeof body, "{\"up_to\":\"%s\"}", cursor);
    cr_assert_eq(mark(c, query, body, &marked, &more), 200);
    cr_assert_eq(marked, expected, "%s: %d", query, marked);
    cr_assert_eq(world_count(&c->w, "SELECT count(*) FROM notifications WHERE read_at IS NULL AND"
                                    " recipient_user_id = 'u1'"),
                 unread);
    cr_assert_not(more);
}

Test(reader, read_up_to)
{
    static struct client c;
    char next[CURSOR_MAX], prev[CURSOR_MAX], body[CURSOR_MAX + 64];
    int marked;
    bool more;
    client_open(&c, "reader_up_to");
    put_rows(&c, "u2", 3, "2026-03-21T09:00:01Z");
    put_names(&c, "abcdef", 1, "1 s");
    bound_at(&c, "2026-03-21T09:00:02.5Z"); /* below most of what the head page shows */
    expect(&c, "limit=2", "", "fe", next, prev);
    put_names(&c, "h", 9, "1 s");                /* after the page: not shown */
    expect(&c, "limit=2", prev, "", prev, NULL); /* what was shown goes on with the newer walk */
    expect(&c, "limit=2", next, "dc", next, NULL);
    mark_up_to(&c, "", next, 3, 4); /* at or older than c */
    mark_up_to(&c, "", next, 0, 4);
    mark_up_to(&c, "", prev, 3, 1); /* all I was shown: not h */
    expect(&c, "limit=2&unread=true", "", "h", NULL, NULL);
    expect(&c, "limit=9", "", "hfedcba", NULL, NULL);
    world_exec(&c.w, "UPDATE notifications SET read_at = NULL WHERE recipient_user_id = 'u1'");
    expect(&c, "category=low&limit=2", "", "cb", NULL, prev);
    mark_up_to(&c, "?category=low", prev, 3, 4);
    expect(&c, "contract=boundary", "", "hfedcba", NULL, prev);
    mark_up_to(&c, "", prev, 4, 0);
    cr_expect_eq(world_count(&c.w, "SELECT count(*) FROM notifications WHERE read_at IS NULL"), 3, "u2's");
    snprintf(body, sizeof body, "{\"up_to\":\"%s\"}", prev);
    cr_expect_eq(mark(&c, "?category=low", body, &marked, &more), 400, "another filter");
    cr_expect_eq(mark(&c, "?limit=3", body, &marked, &more), 400);
    cr_expect_eq(mark(&c, "", "{\"up_to\":\"x\"}", &marked, &more), 400);
    cr_expect_eq(mark(&c, "", "{\"up_to\":\"\"}", &marked, &more), 400);
    cr_expect_eq(mark(&c, "", "{\"upto\":\"x\"}", &marked, &more), 400);
    cr_expect_eq(mark(&c, "", "[]", &marked, &more), 400);
    cr_expect_eq(mark(&c, "", "", &marked, &more), 400);
    client_be(&c, "u2");
    cr_expect_eq(mark(&c, "", body, &marked, &more), 400, "another user's cursor");
    client_be(&c, "u1");
    world_exec(&c.w, "SELECT belfry_remove_member('w', 'u1')");
    cr_expect_eq(mark(&c, "", body, &marked, &more), 403);
    world_exec(&c.w, "SELECT belfry_set_member('w', 'u1', 'member')");
    /* More than one call takes. */
    put_rows(&c, "u1", 7000, "2026-03-21T08:00:00Z");
    cr_expect_eq(mark(&c, "", body, &marked, &more), 200);
    cr_expect(marked == 5000 && more, "%d", marked);
    cr_expect_eq(mark(&c, "", body, &marked, &more), 200);
    cr_expect(marked == 2000 && !more, "%d", marked);
    client_close(&c);
}
