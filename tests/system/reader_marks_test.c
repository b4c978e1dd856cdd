/* One notification by its id, marks and the unread count, of the real reader: also where pages come from a
 * replica (read_uri) and marks go to the primary. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "reader_client.h"

#define ITEMS "/v1/workspaces/w/notifications"
#define FEED  "/v1/workspaces/w/feeds/notifications"

/* Any method; the reply must have this status. Returns its JSON; json_decref it. */
static json_t *call(const struct client *c, const char *method, const char *path, long status)
{
    char url[URL_MAX];
    struct world_reply reply;
    const char *headers[] = {c->authorization, NULL};
    snprintf(url, sizeof url, "%s%s", c->base, path);
    world_http(method, url, headers, strcmp(method, "POST") == 0 ? "" : NULL, &reply);
    cr_assert_eq(reply.status, status, "%s %s: %ld %s", method, path, reply.status, reply.body);
    if (status == 405)
        cr_expect_not_null(strstr(reply.headers, "POST") == NULL ? strstr(reply.headers, "Allow: GET, HEAD")
                                                                 : strstr(reply.headers, "Allow: POST"),
                           "%s", reply.headers);
    json_t *json = json_loadb(reply.body, reply.body_bytes, 0, NULL);
    cr_assert_not_null(json, "%s %s: %s", method, path, reply.body);
    world_reply_done(&reply);
    return json;
}

static void expect_code(const struct client *c, const char *method, const char *path, long status,
                        const char *code)
{
    json_t *json = call(c, method, path, status);
    cr_expect_str_eq(json_string_value(json_object_get(json, "code")), code, "%s %s", method, path);
    json_decref(json);
}

static void read_at_of(const struct client *c, const char *method, const char *path, char *read_at)
{
    json_t *item = call(c, method, path, 200);
    const char *text = json_string_value(json_object_get(item, "read_at"));
    snprintf(read_at, 64, "%s", text == NULL ? "" : text);
    json_decref(item);
}

static int unread_count(const struct client *c, bool *capped)
{
    json_t *count = call(c, "GET", FEED "/unread_count", 200);
    *capped = json_is_true(json_object_get(count, "capped"));
    int unread = (int)json_integer_value(json_object_get(count, "unread"));
    json_decref(count);
    return unread;
}

static void ids_of(const struct client *c, char *ids, size_t size)
{
    json_t *page = client_page(c, "limit=100");
    ids[0] = '\0';
    for (size_t i = 0; i < page_count(page); i++)
        snprintf(ids + strlen(ids), size - strlen(ids), "%s ", page_id(page, i));
    json_decref(page);
}

static void mark_one(struct client *c, const char *id)
{
    char path[256], first[64], again[64], before[4096], after[4096];
    bool capped;
    ids_of(c, before, sizeof before);
    snprintf(path, sizeof path, ITEMS "/%s", id);
    read_at_of(c, "GET", path, first);
    cr_expect_str_eq(first, "");
    snprintf(path, sizeof path, ITEMS "/%s/read", id);
    read_at_of(c, "POST", path, first);
    cr_expect_eq(strlen(first), strlen("2026-03-21T09:00:00.123456Z"), "%s", first);
    read_at_of(c, "POST", path, again);
    cr_expect_str_eq(again, first, "the first read_at stays");
    cr_expect_eq(unread_count(c, &capped), 2);
    json_t *page = client_page(c, "unread=true");
    cr_expect_eq(page_count(page), 2);
    json_decref(page);
    ids_of(c, after, sizeof after);
    cr_expect_str_eq(before, after, "a mark moves no row");
    snprintf(path, sizeof path, ITEMS "/%s/unread", id);
    read_at_of(c, "POST", path, again);
    cr_expect_str_eq(again, "");
    read_at_of(c, "POST", path, again);
    cr_expect_str_eq(again, "");
    cr_expect_eq(unread_count(c, &capped), 3);
    expect_code(c, "GET", path, 405, "method_not_allowed");
    snprintf(path, sizeof path, ITEMS "/%s", id);
    expect_code(c, "POST", path, 405, "method_not_allowed");
    snprintf(path, sizeof path, ITEMS "/%s?limit=1", id);
    expect_code(c, "GET", path, 400, "unknown_parameter");
    printf("marks: %s read at %s and again the same; unread 3, 2, 3; order unchanged\n", id, first);
}

/* Another user's, another workspace's, one that is not there, one that cannot be: all the same 404. */
static void look_elsewhere(struct client *c, const char *mine)
{
    static const char *const ends[] = {"", "/read", "/unread"};
    char theirs[64], path[256];
    world_text(&c->w, theirs, sizeof theirs,
               "SELECT id FROM notifications WHERE recipient_user_id = 'u2' LIMIT 1");
    const char *ids[] = {theirs, "00000000-0000-0000-0000-000000000000", "1",
                         "0199a000-0000-7000-8000-00000000000g"};
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 3; j++) {
            snprintf(path, sizeof path, ITEMS "/%s%s", ids[i], ends[j]);
            expect_code(c, j == 0 ? "GET" : "POST", path, 404, "not_found");
        }
    }
    snprintf(path, sizeof path, "/v1/workspaces/other/notifications/%s", mine);
    expect_code(c, "GET", path, 403, "not_a_member");
    expect_code(c, "GET", "/v1/workspaces/other/feeds/notifications/unread_count", 403, "not_a_member");
    cr_expect_eq(world_count(&c->w, "SELECT count(*) FROM notifications WHERE read_at IS NOT NULL"), 0,
                 "nothing of others' was marked");
    client_be(c, "stranger");
    snprintf(path, sizeof path, ITEMS "/%s/read", mine);
    expect_code(c, "POST", path, 403, "not_a_member");
    client_be(c, "u1");
}

/* Many mark one at once: it has one read_at. */
static void mark_at_once(struct client *c, const char *id)
{
    char path[256], first[64], other[64];
    snprintf(path, sizeof path, ITEMS "/%s/read", id);
    world_exec(&c->w, "BEGIN");
    world_exec(&c->w, "UPDATE notifications SET read_at = '2026-01-02T03:04:05.000006Z' WHERE id = '%s'", id);
    /* Held up by the lock, the mark must see what was committed meanwhile. */
    expect_code(c, "POST", path, 503, "timeout");
    world_exec(&c->w, "COMMIT");
    read_at_of(c, "POST", path, first);
    cr_expect_str_eq(first, "2026-01-02T03:04:05.000006Z");
    read_at_of(c, "POST", path, other);
    cr_expect_str_eq(other, first);
}

Test(reader, marks)
{
    static struct client c;
    char id[64], base[64], extra[512];
    bool capped;
    client_open(&c, "reader_marks");
    put_rows(&c, "u1", 3, "2026-03-21T09:00:00Z");
    put_rows(&c, "u2", 1, "2026-03-21T09:00:00Z");
    world_text(&c.w, id, sizeof id,
               "SELECT id FROM notifications WHERE recipient_user_id = 'u1' ORDER BY id LIMIT 1");
    for (int replica = 0; replica < 2; replica++) {
        mark_one(&c, id);
        look_elsewhere(&c, id);
        child_stop(c.reader);
        snprintf(extra, sizeof extra, "[database]\nread_uri = %s\n", world_role_uri(&c.w, "belfry_reader"));
        c.reader = world_reader(&c.w, extra, base);
        client_move(&c, base);
    }
    mark_at_once(&c, id);
    put_rows(&c, "u1", 998, "2026-03-21T09:00:00Z");
    cr_expect_eq(unread_count(&c, &capped), 1000);
    cr_expect_not(capped);
    put_rows(&c, "u1", 1, "2026-03-21T09:00:00Z");
    cr_expect_eq(unread_count(&c, &capped), 1000);
    cr_expect(capped);
    client_close(&c);
}
