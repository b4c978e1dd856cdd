/* Exports of declared feeds of each kind: without a workspace, of nobody, for some roles, rows for some
 * roles. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "reader_export.h"

#define FEEDS                                                                                                \
    "[feed.open]\nrelation = news\ncolumns = id title created_at\nid_type = text\nauth = none\n"             \
    "[feed.news]\nrelation = news\ncolumns = id title created_at\nid_type = text\nauth = user\n"             \
    "[feed.staff]\nrelation = staff\nworkspace_column = workspace_id\ncolumns = id created_at\n"             \
    "roles = admin owner\n"                                                                                  \
    "[feed.shown]\nrelation = staff\nworkspace_column = workspace_id\ncolumns = id created_at\n"             \
    "roles_column = seen_by\n"

static void make_feeds(struct client *c)
{
    world_exec(
        &c->w,
        "CREATE TABLE news (id text COLLATE \"C\" PRIMARY KEY, title text, created_at timestamptz NOT NULL);"
        " CREATE INDEX news_feed ON news (created_at DESC, id DESC);"
        " CREATE TABLE staff (id uuid PRIMARY KEY, workspace_id text NOT NULL, seen_by text[],"
        " created_at timestamptz NOT NULL);"
        " CREATE INDEX staff_feed ON staff (workspace_id, created_at DESC, id DESC);"
        " GRANT SELECT ON news, staff TO belfry_reader;"
        " INSERT INTO news SELECT 'n' || i, 'é', '2026-03-21T09:00:00Z' FROM generate_series(1, 9) i;"
        " INSERT INTO staff SELECT gen_random_uuid(), 'w', CASE WHEN i > 2 THEN '{admin,member}'::text[]"
        " ELSE '{admin}' END, '2026-03-21T09:00:00Z' FROM generate_series(1, 5) i");
}

static void refused(struct client *c, const char *method, const char *path, long status, const char *code)
{
    json_decref(export_expect(c, method, path, strcmp(method, "POST") == 0 ? "{}" : NULL, status, code));
}

/* Orders one of this scope's feed and waits; where it stands goes to path. */
static int64_t make(struct client *c, const char *scope, const char *feed, char path[256])
{
    char order[256];
    snprintf(order, sizeof order, "%s/feeds/%s/exports", scope, feed);
    json_t *export = export_expect(c, "POST", order, "{}", 202, NULL);
    snprintf(path, 256, "%s/exports/%s", scope, text_of(export, "id"));
    while (strcmp(text_of(export, "state"), "queued") == 0 ||
           strcmp(text_of(export, "state"), "running") == 0) {
        json_decref(export);
        world_sleep_ms(20);
        export = export_expect(c, "GET", path, NULL, 200, NULL);
    }
    cr_assert_str_eq(text_of(export, "state"), "ready");
    int64_t rows = json_integer_value(json_object_get(export, "rows"));
    json_decref(export);
    return rows;
}

static void rows_are(struct client *c, const char *path, const char *trailer)
{
    char rows[300];
    struct world_reply reply;
    snprintf(rows, sizeof rows, "%s/rows", path);
    export_call(c, "GET", rows, NULL, NULL, &reply);
    cr_expect(reply.status == 200 && strstr(reply.body, trailer) != NULL, "%ld %s", reply.status, reply.body);
    world_reply_done(&reply);
}

static void without_workspace(struct client *c)
{
    char path[256];
    client_be(c, "anybody");
    cr_expect_eq(make(c, "/v1", "news", path), 9);
    rows_are(c, path,
             "{\"id\":\"n1\",\"title\":\"\xc3\xa9\",\"created_at\":\"2026-03-21T09:00:00.000000Z\"}\n{\"_"
             "end\":{\"rows\":9}}\n");
    json_t *list = export_expect(c, "GET", "/v1/exports", NULL, 200, NULL);
    cr_expect_eq(page_count(list), 1);
    json_decref(list);
    client_be(c, "somebody");
    refused(c, "GET", path, 404, "not_found");
    refused(c, "DELETE", path, 404, "not_found");
    refused(c, "POST", "/v1/feeds/open/exports", 404, "not_found");
    refused(c, "POST", "/v1/feeds/staff/exports", 404, "not_found");
    refused(c, "POST", "/v1/workspaces/w/feeds/news/exports", 404, "not_found");
    client_be(c, "anybody");
    cr_expect_null(export_expect(c, "DELETE", path, NULL, 204, NULL));
    printf("export_feeds: no workspace: 9 rows; of nobody, or at another's path: 404\n");
}

static void by_roles(struct client *c)
{
    char path[256], rows[300];
    client_be(c, "u1");
    refused(c, "POST", "/v1/workspaces/w/feeds/staff/exports", 403, "role_required");
    world_exec(&c->w, "SELECT belfry_set_member('w', 'u1', 'owner')");
    cr_expect_eq(make(c, "/v1/workspaces/w", "staff", path), 5);
    rows_are(c, path, "{\"_end\":{\"rows\":5}}\n");
    world_exec(&c->w, "SELECT belfry_set_member('w', 'u1', 'member')");
    snprintf(rows, sizeof rows, "%s/rows", path);
    refused(c, "GET", rows, 403, "role_required");
    refused(c, "GET", path, 403, "role_required");
    cr_expect_eq(make(c, "/v1/workspaces/w", "shown", path), 3);
    rows_are(c, path, "{\"_end\":{\"rows\":3}}\n");
    world_exec(&c->w, "SELECT belfry_set_member('w', 'u1', 'admin')");
    snprintf(rows, sizeof rows, "%s/rows", path);
    refused(c, "GET", rows, 403, "role_required");
    cr_expect_eq(make(c, "/v1/workspaces/w", "shown", path), 5);
    rows_are(c, path, "{\"_end\":{\"rows\":5}}\n");
    printf("export_feeds: roles: 5 rows for an owner, none once a member; by rows' roles 3 for a member, 5 "
           "for an"
           " admin, and what one made the other may not read\n");
}

Test(reader, export_feeds)
{
    static struct client c;
    world_open(&c.w, "export_feeds");
    world_database(&c.w);
    world_exec(&c.w, "SELECT belfry_set_member('w', 'u1', 'member')");
    make_feeds(&c);
    c.reader = world_reader(&c.w, FEEDS, c.base);
    world_write_reader_ini(&c.w, NULL, c.ini);
    without_workspace(&c);
    by_roles(&c);
    client_close(&c);
}
