/* Exports from order to end: states, keys, limits, whose they are, pages of one, deletion, expiry. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader_export.h"

static void refused(struct client *c, const char *method, const char *path, const char *body, long status,
                    const char *code)
{
    json_decref(export_expect(c, method, path, body, status, code));
}

/* What an order may say. */
static void bodies(struct client *c)
{
    static const char *const bad[] = {
        "[]",
        "{\"format\":\"xml\"}",
        "{\"x\":1}",
        "{\"filters\":{\"colour\":\"red\"}}",
        "{\"filters\":{\"category\":\"\"}}",
        "{\"filters\":{\"category\":7.5}}",
        "{\"filters\":{\"unread\":false}}",
        "{\"filters\":{\"limit\":\"1\"}}",
        "{\"filters\":{\"cursor\":\"\"}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(c, "POST", ORDER, bad[i], 400, "invalid_body");
    refused(c, "POST", ORDER "?format=csv", "{}", 400, "unknown_parameter");
    refused(c, "GET", ORDER, NULL, 405, "method_not_allowed");
    refused(c, "POST", "/v1/workspaces/w/feeds/nothing/exports", "{}", 404, "not_found");
    refused(c, "POST", "/v1/workspaces/other/feeds/notifications/exports", "{}", 403, "not_a_member");
    struct world_reply reply;
    char key[300];
    memset(key, 'k', sizeof key);
    key[256] = '\0';
    export_call(c, "POST", ORDER, key, "{}", &reply);
    cr_expect_eq(reply.status, 400, "%s", reply.body);
    cr_expect_not_null(strstr(reply.body, "\"Idempotency-Key\""), "%s", reply.body);
    world_reply_done(&reply);
    cr_expect_eq(world_count(&c->w, "SELECT count(*) FROM exports"), 0);
}

/* The same key: the same export, however the body is spelt; another body: 422. */
static void keys(struct client *c, char *id)
{
    struct world_reply reply;
    char location[256], again[EXPORT_ID];
    export_call(c, "POST", ORDER, "k-1", "{\"format\":\"ndjson\",\"filters\":{\"category\":\"low\"}}",
                &reply);
    cr_assert_eq(reply.status, 202, "%ld %s", reply.status, reply.body);
    json_t *export = json_loads(reply.body, 0, NULL);
    snprintf(id, EXPORT_ID, "%s", text_of(export, "id"));
    snprintf(location, sizeof location, "Location: ../../exports/%s", id);
    cr_expect_not_null(strstr(reply.headers, location), "%s", reply.headers);
    cr_expect_not_null(strstr(reply.headers, "Retry-After: 1"), "%s", reply.headers);
    json_decref(export);
    world_reply_done(&reply);
    json_decref(export_await(c, id, "ready"));
    export_call(c, "POST", ORDER, "k-1", " {\"filters\": {\"category\" : \"l\\u006fw\"}}", &reply);
    export = json_loads(reply.body, 0, NULL);
    snprintf(again, sizeof again, "%s", text_of(export, "id"));
    cr_expect(reply.status == 200 && strcmp(again, id) == 0, "%ld %s", reply.status, reply.body);
    cr_expect_null(strstr(reply.headers, "Retry-After"), "%s", reply.headers);
    json_decref(export);
    world_reply_done(&reply);
    export_call(c, "POST", ORDER, "k-1", "{\"format\":\"csv\",\"filters\":{\"category\":\"low\"}}", &reply);
    cr_expect(reply.status == 422 && strstr(reply.body, "idempotency_mismatch") != NULL, "%s", reply.body);
    world_reply_done(&reply);
    cr_expect_eq(world_count(&c->w, "SELECT count(*) FROM exports"), 1);
    printf("exports: one key, three orders: 202, 200 with the same id, 422\n");
}

/* Nobody else finds it; who is withdrawn reads nothing more. */
static void others(struct client *c, const char *id)
{
    static const char *const ends[] = {"", "/rows", "/pages"};
    char path[256];
    for (size_t i = 0; i < 3; i++) {
        client_be(c, "u2");
        snprintf(path, sizeof path, EXPORTS "/%s%s", id, ends[i]);
        refused(c, "GET", path, NULL, 404, "not_found");
        client_be(c, "u1");
        snprintf(path, sizeof path, "/v1/workspaces/w2/exports/%s%s", id, ends[i]);
        refused(c, "GET", path, NULL, 404, "not_found");
        snprintf(path, sizeof path, EXPORTS "/%s%s", "0199a000-0000-7000-8000-00000000000a", ends[i]);
        refused(c, "GET", path, NULL, 404, "not_found");
        world_exec(&c->w, "DELETE FROM workspace_members WHERE user_id = 'u1' AND workspace_id = 'w'");
        snprintf(path, sizeof path, EXPORTS "/%s%s", id, ends[i]);
        refused(c, "GET", path, NULL, 403, "not_a_member");
        refused(c, "GET", EXPORTS, NULL, 403, "not_a_member");
        refused(c, "DELETE", EXPORTS "/0199a000-0000-7000-8000-00000000000a", NULL, 403, "not_a_member");
        world_exec(&c->w, "SELECT belfry_set_member('w', 'u1', 'member')");
    }
    client_be(c, "u2");
    snprintf(path, sizeof path, EXPORTS "/%s", id);
    refused(c, "DELETE", path, NULL, 404, "not_found");
    json_t *list = export_expect(c, "GET", EXPORTS, NULL, 200, NULL);
    cr_expect_eq(page_count(list), 0);
    json_decref(list);
    client_be(c, "u1");
}

/* More open ones than allowed, more stored ones: 429 and when to come again. */
static void limits(struct client *c)
{
    struct world_reply reply;
    world_exec(&c->w, "INSERT INTO exports (feed, workspace_id, user_id, format, state, leased_until)"
                      " SELECT 'notifications', 'w', 'u1', 'csv', 'running', now() + interval '1 day'"
                      " FROM generate_series(1, 3)");
    export_call(c, "POST", ORDER, NULL, "{}", &reply);
    cr_expect(reply.status == 429 && strstr(reply.body, "too_many_exports") != NULL, "%s", reply.body);
    cr_expect_not_null(strstr(reply.headers, "Retry-After: 5"), "%s", reply.headers);
    world_reply_done(&reply);
    export_call(c, "POST", ORDER, "k-1", "{\"filters\":{\"category\":\"low\"}}", &reply);
    cr_expect_eq(reply.status, 200, "a known key is no new order: %s", reply.body);
    world_reply_done(&reply);
    world_exec(&c->w, "UPDATE exports SET state = 'ready', bytes = 200 * 1024 * 1024,"
                      " expires_at = now() + interval '90 s' WHERE state = 'running'");
    export_call(c, "POST", ORDER, NULL, "{}", &reply);
    cr_expect_eq(reply.status, 429, "600 MiB stored: %s", reply.body);
    const char *after = strstr(reply.headers, "Retry-After: ");
    cr_assert_not_null(after, "%s", reply.headers);
    long seconds = strtol(after + strlen("Retry-After: "), NULL, 10);
    cr_expect(seconds > 60 && seconds <= 91, "%ld", seconds);
    world_reply_done(&reply);
    world_exec(&c->w, "DELETE FROM exports WHERE idempotency_key IS NULL");
    printf("exports: 429 with three open and with 600 MiB stored (again in %ld s)\n", seconds);
}

static void ending(struct client *c, const char *id)
{
    char path[256], other[EXPORT_ID], rows[256];
    json_t *list;
    cr_expect_eq(export_make(c, "{\"format\":\"csv\"}", other), 7);
    list = export_expect(c, "GET", EXPORTS, NULL, 200, NULL);
    cr_assert_eq(page_count(list), 2);
    cr_expect_str_eq(page_id(list, 0), other);
    cr_expect_str_eq(page_id(list, 1), id);
    json_decref(list);
    world_exec(&c->w, "UPDATE exports SET expires_at = now() - interval '1 s' WHERE id = '%s'", other);
    snprintf(path, sizeof path, EXPORTS "/%s", other);
    json_decref(export_await(c, other, "expired"));
    snprintf(rows, sizeof rows, "%s/rows", path);
    refused(c, "GET", rows, NULL, 410, "export_expired");
    snprintf(rows, sizeof rows, "%s/pages", path);
    refused(c, "GET", rows, NULL, 410, "export_expired");
    snprintf(path, sizeof path, EXPORTS "/%s", id);
    cr_expect_null(export_expect(c, "DELETE", path, NULL, 204, NULL));
    refused(c, "GET", path, NULL, 404, "not_found");
    refused(c, "DELETE", path, NULL, 404, "not_found");
    snprintf(rows, sizeof rows, "%s/rows", path);
    refused(c, "GET", rows, NULL, 404, "not_found");
    cr_expect_eq(world_count(&c->w,
                             "SELECT count(*) FROM exports WHERE id = '%s' AND error = 'deleted' AND"
                             " state = 'failed' AND idempotency_key IS NULL",
                             id),
                 1, "left for retention, which removes its rows");
    printf("exports: expired one 410, deleted one 204 and then 404\n");
}

/* A running one that is deleted comes to nothing, also when it was about to be ready; one too large fails. */
static void stopped(struct client *c)
{
    char id[EXPORT_ID], path[256];
    world_exec(&c->w, "BEGIN; LOCK TABLE export_rows IN EXCLUSIVE MODE");
    export_order(c, "{}", id);
    world_wait_count(&c->w, 1, "SELECT count(*) FROM exports WHERE id = '%s' AND state = 'running'", id);
    snprintf(path, sizeof path, EXPORTS "/%s/rows", id);
    refused(c, "GET", path, NULL, 409, "export_not_ready");
    snprintf(path, sizeof path, EXPORTS "/%s", id);
    json_decref(export_expect(c, "DELETE", path, NULL, 204, NULL));
    world_exec(&c->w, "COMMIT");
    child_wait_log(c->reader, "EXPORT-NONE", 30);
    cr_expect_eq(world_count(&c->w, "SELECT count(*) FROM export_rows WHERE export_id = '%s'", id), 0);
    cr_expect_eq(world_count(&c->w, "SELECT count(*) FROM exports WHERE id = '%s' AND error = 'deleted'", id),
                 1);
    put_rows(c, "u1", 60, "2026-03-22T09:00:00Z");
    export_order(c, "{}", id);
    json_t *export = export_await(c, id, "failed");
    cr_expect_str_eq(text_of(export, "error"), "too_large");
    json_decref(export);
    snprintf(path, sizeof path, EXPORTS "/%s/rows", id);
    refused(c, "GET", path, NULL, 409, "export_failed");
    printf("exports: a running one deleted leaves no row, 67 rows of at most 50 fail as too_large\n");
}

Test(reader, exports)
{
    static struct client c;
    char id[EXPORT_ID];
    world_open(&c.w, "reader_exports");
    world_database(&c.w);
    world_exec(&c.w, "SELECT belfry_set_member(w, u, 'member') FROM unnest(ARRAY['u1', 'u2']) AS u,"
                     " unnest(ARRAY['w', 'w2']) AS w");
    c.reader = world_reader(&c.w, "[exports]\nrows_max = 50\n", c.base);
    world_write_reader_ini(&c.w, NULL, c.ini);
    client_be(&c, "u1");
    put_rows(&c, "u1", 7, "2026-03-21T09:00:00Z");
    put_rows(&c, "u2", 5, "2026-03-21T09:00:00Z");
    world_exec(&c.w,
               "UPDATE notifications SET category = CASE WHEN title < 'title 4' THEN 'low' ELSE 'high' END");
    bodies(&c);
    keys(&c, id);
    json_t *export = export_await(&c, id, "ready");
    cr_expect_eq(json_integer_value(json_object_get(export, "rows")), 3);
    cr_expect_str_eq(text_of(export, "feed"), "notifications");
    cr_expect_str_eq(text_of(json_object_get(export, "filters"), "category"), "low");
    cr_expect(text_of(export, "snapshot")[0] != '\0' && text_of(export, "expires_at")[0] != '\0');
    json_decref(export);
    others(&c, id);
    limits(&c);
    ending(&c, id);
    stopped(&c);
    cr_expect_eq(child_metric(c.reader, "belfry_exports_total{state=\"ready\"}"), 2);
    cr_expect_eq(child_metric(c.reader, "belfry_exports_total{state=\"queued\"}"), 4);
    client_close(&c);
}

/* ---- once ---------------------------------------------------------------------------------------------- */

static int once(struct client *c, const char *const *flags, char *output)
{
    const char *argv[16] = {"export", "-F", c->ini};
    size_t count = 3;
    while (*flags != NULL)
        argv[count++] = *flags++;
    return world_run(&c->w, "src/bin/belfry-reader", argv, output, 512);
}

static bool there(const struct client *c, const char *name, char *path)
{
    snprintf(path, WORLD_PATH_MAX, "%s/%s", c->w.folder, name);
    return access(path, F_OK) == 0;
}

static void same_as_rows(struct client *c, const char *path, const char *body)
{
    static char text[64 * 1024];
    char id[EXPORT_ID];
    struct world_reply reply;
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    export_make(c, body, id);
    export_rows(c, id, "", &reply);
    cr_expect_str_eq(text, reply.body);
    printf("export_once: %zu bytes, as /rows gives them\n", reply.body_bytes);
    world_reply_done(&reply);
}

Test(reader, export_once)
{
    static struct client c;
    char path[WORLD_PATH_MAX], part[WORLD_PATH_MAX], output[512];
    client_open(&c, "export_once");
    put_rows(&c, "u1", 30, "2026-03-21T09:00:00Z");
    (void)there(&c, "out", path);
    const char *const good[] = {"--workspace", "w", "--user", "u1", "-o", path, NULL};
    const char *const csv[] = {"--workspace", "w", "--user", "u1", "--format", "csv", "-o", path, NULL};
    const char *const stranger[] = {"--workspace", "w", "--user", "stranger", "-o", path, NULL};
    const char *const usage[][8] = {{"--workspace", "w", "--user", "u1", NULL},
                                    {"--workspace", "w", "--user", "u1", "--format", "xml", "-o", path},
                                    {"--user", "u1", "-o", path, NULL},
                                    {"--workspace", "w", "-o", path, NULL},
                                    {"--feed", "none", "--workspace", "w", "-o", path, NULL}};
    for (size_t i = 0; i < sizeof usage / sizeof usage[0]; i++) {
        const char *flags[9] = {NULL};
        memcpy(flags, usage[i], sizeof usage[i]);
        cr_expect_eq(once(&c, flags, output), 2, "%zu: %s", i, output);
    }
    cr_expect_eq(once(&c, stranger, output), 1);
    cr_expect(!there(&c, "out", path) && !there(&c, "out.part", part), "nothing is left");
    cr_assert_eq(once(&c, good, output), 0, "%s", output);
    cr_expect(there(&c, "out", path) && !there(&c, "out.part", part));
    same_as_rows(&c, path, "{}");
    cr_assert_eq(once(&c, csv, output), 0, "%s", output);
    same_as_rows(&c, path, "{\"format\":\"csv\"}");
    cr_expect_eq(world_count(&c.w, "SELECT count(*) FROM exports WHERE error = 'deleted'"), 2);
    client_close(&c);
}
