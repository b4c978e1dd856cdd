/* Exports as a client meets them. */
#include "reader_export.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

void export_call(const struct client *c, const char *method, const char *path, const char *key,
                 const char *body, struct world_reply *reply)
{
    char url[URL_MAX], idempotency[512];
    const char *headers[4] = {c->authorization};
    snprintf(url, sizeof url, "%s%s", c->base, path);
    if (key != NULL) {
        snprintf(idempotency, sizeof idempotency, "Idempotency-Key: %s", key);
        headers[1] = idempotency;
    }
    world_http(method, url, headers, strcmp(method, "POST") == 0 && body == NULL ? "" : body, reply);
}

const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text == NULL ? "" : text;
}

json_t *export_expect(const struct client *c, const char *method, const char *path, const char *body,
                      long status, const char *code)
{
    struct world_reply reply;
    export_call(c, method, path, NULL, body, &reply);
    cr_assert_eq(reply.status, status, "%s %s: %ld %s", method, path, reply.status, reply.body);
    json_t *json = status == 204 ? NULL : json_loadb(reply.body, reply.body_bytes, 0, NULL);
    cr_assert(status == 204 ? reply.body_bytes == 0 : json != NULL, "%s %s: %s", method, path, reply.body);
    if (code != NULL)
        cr_assert_str_eq(text_of(json, "code"), code, "%s %s: %s", method, path, reply.body);
    world_reply_done(&reply);
    return json;
}

void export_order(const struct client *c, const char *body, char id[EXPORT_ID])
{
    json_t *export = export_expect(c, "POST", ORDER, body, 202, NULL);
    snprintf(id, EXPORT_ID, "%s", text_of(export, "id"));
    json_decref(export);
}

json_t *export_await(const struct client *c, const char *id, const char *state)
{
    char path[256];
    snprintf(path, sizeof path, EXPORTS "/%s", id);
    for (int64_t until_ms = world_now_ms() + 30000;;) {
        json_t *export = export_expect(c, "GET", path, NULL, 200, NULL);
        const char *now = text_of(export, "state");
        if (strcmp(now, "queued") != 0 && strcmp(now, "running") != 0) {
            cr_assert_str_eq(now, state, "%s", json_dumps(export, 0));
            return export;
        }
        json_decref(export);
        cr_assert_lt(world_now_ms(), until_ms, "still %s", now);
        world_sleep_ms(20);
    }
}

int64_t export_make(const struct client *c, const char *body, char id[EXPORT_ID])
{
    export_order(c, body, id);
    json_t *export = export_await(c, id, "ready");
    int64_t rows = json_integer_value(json_object_get(export, "rows"));
    json_decref(export);
    return rows;
}

void export_rows(const struct client *c, const char *id, const char *query, struct world_reply *reply)
{
    char path[256];
    snprintf(path, sizeof path, EXPORTS "/%s/rows%s", id, query);
    export_call(c, "GET", path, NULL, NULL, reply);
    cr_assert_eq(reply->status, 200, "%s: %ld %s", path, reply->status, reply->body);
}
