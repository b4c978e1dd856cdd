/* Declared feeds through the real reader: by their paths, with and without a token, by role, and once from
 * the command line. What the statements give is tests/stage/source_test.c's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "reader_client.h"

#define FEEDS                                                                                                \
    "[feed.posts]\nrelation = posts\ncolumns = id author body created_at\nfilters = author likes\n"          \
    "id_type = bigint\nitems_key = posts\npath = /posts\nauth = none\n"                                      \
    "[feed.news]\nrelation = news\ncolumns = id title created_at\nid_type = text\nauth = user\n"             \
    "[feed.staff]\nrelation = staff\nworkspace_column = workspace_id\ncolumns = id created_at\n"             \
    "roles = admin owner\nxid_column = xid\n"

static void make_feeds(struct client *c)
{
    world_exec(&c->w, "CREATE TABLE posts (id bigint PRIMARY KEY, author text, body text, likes integer,"
                      " created_at timestamptz NOT NULL)");
    world_exec(&c->w, "CREATE INDEX posts_feed ON posts (created_at DESC, id DESC)");
    world_exec(&c->w, "CREATE TABLE news (id text COLLATE \"C\" PRIMARY KEY, title text,"
                      " created_at timestamptz NOT NULL)");
    world_exec(&c->w, "CREATE INDEX news_feed ON news (created_at DESC, id DESC)");
    world_exec(&c->w, "CREATE TABLE staff (id uuid PRIMARY KEY, workspace_id text NOT NULL,"
                      " created_at timestamptz NOT NULL, xid xid8 NOT NULL DEFAULT pg_current_xact_id())");
    world_exec(&c->w, "CREATE INDEX staff_feed ON staff (workspace_id, created_at DESC, id DESC)");
    world_exec(&c->w, "GRANT SELECT ON posts, news, staff TO belfry_reader");
    world_exec(&c->w, "INSERT INTO posts SELECT i, 'a' || i %% 2, 'b', 0, '2026-03-21T09:00:00Z'"
                      " FROM generate_series(9007199254740993, 9007199254741002) AS i");
    world_exec(&c->w,
               "INSERT INTO news SELECT 'n' || i, 'é', '2026-03-21T09:00:00Z' FROM generate_series(1, 9) i");
    world_exec(&c->w, "INSERT INTO staff SELECT gen_random_uuid(), 'w', '2026-03-21T09:00:00Z'"
                      " FROM generate_series(1, 5)");
}

static void expect_page(const struct client *c, const char *path, const char *key, size_t count)
{
    struct world_reply reply;
    client_get(c, path, &reply);
    cr_assert_eq(reply.status, 200, "%s: %ld %s", path, reply.status, reply.body);
    json_t *page = json_loadb(reply.body, reply.body_bytes, JSON_REJECT_DUPLICATES, NULL);
    cr_expect_eq(json_array_size(json_object_get(page, key)), count, "%s: %s", path, reply.body);
    json_decref(page);
    world_reply_done(&reply);
}

/* The head page of /posts: its tag, its link, and that 64-bit ids are strings. */
static void check_posts(struct client *c)
{
    struct world_reply reply;
    char url[URL_MAX], tag[64], cursor[URL_MAX];
    snprintf(url, sizeof url, "%s/posts?limit=2&author=a1", c->base);
    world_http("GET", url, NULL, NULL, &reply);
    cr_assert_eq(reply.status, 200, "%s", reply.body);
    const char *first = "{\"posts\":[{\"id\":\"9007199254741001\",\"author\":\"a1\",\"body\":\"b\","
                        "\"created_at\":\"2026-03-21T09:00:00.000000Z\"},{";
    cr_expect_eq(strncmp(reply.body, first, strlen(first)), 0, "%s", reply.body);
    cr_expect_not_null(strstr(reply.body, "\"contract\":\"live\",\"gapless\":false}"), "%s", reply.body);
    const char *link = strstr(reply.headers, "Link: <?limit=2&author=a1&cursor=");
    cr_assert_not_null(link, "%s", reply.headers);
    snprintf(cursor, sizeof cursor, "%s/posts%.*s", c->base, (int)strcspn(link + 7, ">"), link + 7);
    const char *etag = strstr(reply.headers, "ETag: ");
    cr_assert_not_null(etag);
    snprintf(tag, sizeof tag, "If-None-Match: %.*s", (int)strcspn(etag + 6, "\r\n"), etag + 6);
    world_reply_done(&reply);
    const char *headers[] = {tag, "Authorization: Bearer rubbish", NULL};
    world_http("GET", url, headers, NULL, &reply);
    cr_expect_eq(reply.status, 304, "the tag is known, and no token is looked at: %ld", reply.status);
    world_reply_done(&reply);
    world_http("GET", cursor, NULL, NULL, &reply);
    cr_expect_eq(reply.status, 200, "%s", reply.body);
    cr_expect_not_null(strstr(reply.body, "{\"posts\":[{\"id\":\"9007199254740997\","), "%s", reply.body);
    world_reply_done(&reply);
    world_http("POST", url, NULL, "", &reply);
    cr_expect_eq(reply.status, 405);
    world_reply_done(&reply);
}

static void check_once(struct client *c, const char *ini)
{
    static const struct {
        const char *feed, *user, *workspace, *output;
        int code;
    } rows[] = {
        {"posts", NULL, NULL, "{\"posts\":[{\"id\":\"9007199254741002\"", 0},
        {"posts", NULL, "w", "", 2},
        {"news", "u1", NULL, "{\"items\":[{\"id\":\"n9\",\"title\":\"é\"", 0},
        {"news", NULL, NULL, "", 2},
        {"staff", "u1", "w", "", 1},
        {"staff", "u2", "w", "{\"items\":[{\"id\":\"", 0},
        {"poosts", NULL, NULL, "", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static char output[32768];
        const char *argv[16] = {"page", "-F", ini, "--feed", rows[i].feed};
        size_t count = 5;
        if (rows[i].user != NULL) {
            argv[count++] = "--user";
            argv[count++] = rows[i].user;
        }
        if (rows[i].workspace != NULL) {
            argv[count++] = "--workspace";
            argv[count++] = rows[i].workspace;
        }
        int code = world_run(&c->w, "src/bin/belfry-reader", argv, output, sizeof output);
        cr_expect_eq(code, rows[i].code, "row %zu: %d", i, code);
        cr_expect_eq(strncmp(output, rows[i].output, strlen(rows[i].output)), 0, "row %zu: %s", i, output);
    }
}

Test(reader, feeds)
{
    static struct client c;
    static char base[64], ini[WORLD_PATH_MAX];
    client_open(&c, "reader_feeds");
    make_feeds(&c);
    struct child *reader = world_reader(&c.w, FEEDS, base);
    world_write_reader_ini(&c.w, FEEDS, ini);
    client_move(&c, base);
    check_posts(&c);
    expect_page(&c, "/posts", "posts", 10);
    expect_page(&c, "/v1/feeds/posts?likes=1&limit=1", "posts", 0);
    expect_page(&c, "/v1/feeds/news", "items", 9);
    expect_page(&c, "/v1/workspaces/w/feeds/notifications", "items", 0);
    client_refused(&c, "/v1/workspaces/w/feeds/staff", 403, "role_required");
    client_refused(&c, "/v1/workspaces/x/feeds/staff", 403, "not_a_member");
    world_exec(&c.w, "SELECT belfry_set_member('w', 'u2', 'owner')");
    client_be(&c, "u2");
    expect_page(&c, "/v1/workspaces/w/feeds/staff?contract=boundary", "items", 5);
    client_refused(&c, "/posts?contract=boundary", 400, "contract_not_offered");
    client_refused(&c, "/posts?likes=9007199254740993", 400, "invalid_parameter");
    client_refused(&c, "/posts?unread=true", 400, "unknown_parameter");
    client_refused(&c, "/v1/feeds/staff", 404, "not_found");
    client_refused(&c, "/v1/workspaces/w/feeds/posts", 404, "not_found");
    client_refused(&c, "/v1/workspaces/w/feeds/staff/unread_count", 404, "not_found");
    client_refused(&c, "/v1/feeds/none", 404, "not_found");
    snprintf(c.authorization, sizeof c.authorization, "X-Nothing: 1");
    client_refused(&c, "/v1/feeds/news", 401, "token_missing");
    client_refused(&c, "/v1/workspaces/w/feeds/staff", 401, "token_missing");
    check_once(&c, ini);
    child_stop(reader);
    client_close(&c);
}
