/* reader_1_nothing_learnt: what another tenant's ids, cursors, tags and workspaces answer is, byte for byte
 * but for date and request id, what those answer that do not exist; locks of their rows are not waited for;
 * and neither tokens, cursors nor titles stand in the reader's log. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "reader_export.h"
#include "reader_steps.h"

enum { ANSWER_MAX = 8192 };

/* Cuts what differs between any two answers: the value of `name` up to `end`. */
static void cut_value(char *text, const char *name, char end)
{
    for (char *at = text; (at = strcasestr(at, name)) != NULL;) {
        at += strlen(name);
        size_t bytes = strcspn(at, (const char[]){end, '\0'});
        memmove(at, at + bytes, strlen(at + bytes) + 1);
    }
}

struct ask {
    const char *method, *path, *body, *header; /* NULL: none */
};

static void answer_of(const struct client *c, const struct ask *ask, char *text)
{
    char url[URL_MAX];
    struct world_reply reply;
    const char *headers[] = {c->authorization, ask->header, NULL};
    snprintf(url, sizeof url, "%s%s", c->base, ask->path);
    world_http(ask->method, url, headers, ask->body, &reply);
    snprintf(text, ANSWER_MAX, "%s%s", reply.headers, reply.body);
    cut_value(text, "\nDate: ", '\r');
    cut_value(text, "\nRequest-Id: ", '\r');
    cut_value(text, "\"request_id\":\"", '"');
    world_reply_done(&reply);
}

/* Both answers are one and begin so. */
static void must_be_same(const struct client *c, const char *what, const struct ask *theirs,
                         const struct ask *nobodys, const char *status)
{
    static char first[ANSWER_MAX], second[ANSWER_MAX];
    answer_of(c, theirs, first);
    answer_of(c, nobodys, second);
    cr_assert_not_null(strstr(first, status), "%s: not %s: %s", what, status, first);
    cr_assert_str_eq(first, second, "%s:\n%s\nagainst\n%s", what, first, second);
    printf("  %-44s%s, the same %zu bytes\n", what, status, strlen(first));
}

/* u1, a member of w, asks for ids of u2's in w; then of v, where u2 alone is. */
static void ask_for_items(struct client *c, const char *theirs, const char *elsewhere)
{
    static const char nobodys[] = "0199a000-0000-7000-8000-00000000aaaa";
    static const char *const ends[] = {"", "/read", "/unread"};
    char path[256], other[256], what[64];
    for (int i = 0; i < 6; i++) {
        const char *method = i % 3 == 0 ? "GET" : "POST", *body = i % 3 == 0 ? NULL : "";
        const char *workspace = i < 3 ? "w" : "v";
        snprintf(path, sizeof path, "/v1/workspaces/%s/notifications/%s%s", workspace,
                 i < 3 ? theirs : elsewhere, ends[i % 3]);
        snprintf(other, sizeof other, "/v1/workspaces/%s/notifications/%s%s", workspace, nobodys,
                 ends[i % 3]);
        snprintf(what, sizeof what, "%s item%s in %s", method, ends[i % 3], workspace);
        must_be_same(c, what, &(struct ask){method, path, body, NULL},
                     &(struct ask){method, other, body, NULL}, i < 3 ? " 404 " : " 403 ");
    }
}

/* A workspace that is full of rows, and one that is not there. */
static void ask_for_workspaces(struct client *c, const char *etag)
{
    static const char *const paths[] = {"feeds/notifications", "feeds/notifications?unread=true",
                                        "feeds/notifications?event_type=t&contract=boundary",
                                        "feeds/notifications/unread_count"};
    char path[256], other[256], header[128];
    snprintf(header, sizeof header, "If-None-Match: %s", etag);
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "/v1/workspaces/v/%s", paths[i % 4]);
        snprintf(other, sizeof other, "/v1/workspaces/nowhere/%s", paths[i % 4]);
        const char *tag = i < 4 ? NULL : header;
        must_be_same(c, paths[i % 4], &(struct ask){"GET", path, NULL, tag},
                     &(struct ask){"GET", other, NULL, tag}, " 403 ");
    }
}

/* Their export, made in w; u1 is a member there, and of nothing in v. */
static void ask_for_exports(struct client *c, const char *theirs)
{
    static const char nobodys[] = "0199a000-0000-7000-8000-00000000aaaa";
    static const char *const ends[] = {"", "/rows", "/rows?after=1", "/pages", "/pages?limit=1", ""};
    char path[256], other[256], what[64];
    for (int i = 0; i < 12; i++) {
        const char *method = i % 6 == 5 ? "DELETE" : "GET", *workspace = i < 6 ? "w" : "v";
        snprintf(path, sizeof path, "/v1/workspaces/%s/exports/%s%s", workspace, theirs, ends[i % 6]);
        snprintf(other, sizeof other, "/v1/workspaces/%s/exports/%s%s", workspace, nobodys, ends[i % 6]);
        snprintf(what, sizeof what, "%s export%s in %s", method, ends[i % 6], workspace);
        must_be_same(c, what, &(struct ask){method, path, NULL, NULL},
                     &(struct ask){method, other, NULL, NULL}, i < 6 ? " 404 " : " 403 ");
    }
}

/* Their cursor, there and where nothing is, and in a mark's body. */
static void ask_with_cursor(struct client *c, const char *cursor)
{
    char path[URL_MAX], other[URL_MAX], body[CURSOR_MAX + 32];
    snprintf(path, sizeof path, "/v1/workspaces/v/feeds/notifications?cursor=%s", cursor);
    snprintf(other, sizeof other, "/v1/workspaces/nowhere/feeds/notifications?cursor=%s", cursor);
    must_be_same(c, "their cursor", &(struct ask){"GET", path, NULL, NULL},
                 &(struct ask){"GET", other, NULL, NULL}, " 400 ");
    snprintf(body, sizeof body, "{\"up_to\":\"%s\"}", cursor);
    must_be_same(c, "their cursor as a mark",
                 &(struct ask){"POST", "/v1/workspaces/v/feeds/notifications/read", body, NULL},
                 &(struct ask){"POST", "/v1/workspaces/nowhere/feeds/notifications/read", body, NULL},
                 " 400 ");
}

Test(reader, nothing_learnt)
{
    static struct client c;
    char export[EXPORT_ID], theirs[64], elsewhere[64], cursor[CURSOR_MAX], etag[64], sql[128],
        text[ANSWER_MAX];
    client_open(&c, "reader_stranger");
    world_exec(&c.w, "SELECT belfry_set_member('v', 'u2', 'member')");
    world_exec(
        &c.w, "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
              " SELECT gen_random_uuid(), x, 'u2', 't', 'a private title', '2026-03-21T09:00:00Z'"
              " FROM unnest(ARRAY['w', 'v', 'v', 'v']) AS x");
    world_text(&c.w, theirs, sizeof theirs, "SELECT id FROM notifications WHERE workspace_id = 'w'");
    world_text(&c.w, elsewhere, sizeof elsewhere, "SELECT id FROM notifications WHERE workspace_id = 'v'");
    client_be(&c, "u2");
    answer_of(&c, &(struct ask){"GET", "/v1/workspaces/v/feeds/notifications?limit=1", NULL, NULL}, text);
    const char *at = strstr(text, "\"next_cursor\":\""), *tag = strcasestr(text, "\nETag: ");
    cr_assert(at != NULL && tag != NULL, "%s", text);
    snprintf(cursor, sizeof cursor, "%.*s", (int)strcspn(at + 15, "\""), at + 15);
    snprintf(etag, sizeof etag, "%.*s", (int)strcspn(tag + 7, "\r\n"), tag + 7);
    cr_assert_eq(export_make(&c, "{}", export), 1);
    client_be(&c, "u1");
    /* Their rows are locked, as while they mark them: nobody else waits. */
    snprintf(sql, sizeof sql, "SELECT FROM notifications FOR UPDATE");
    struct db *owner = late_open(&c, sql);
    ask_for_items(&c, theirs, elsewhere);
    ask_for_workspaces(&c, etag);
    ask_with_cursor(&c, cursor);
    ask_for_exports(&c, export);
    late_commit(owner);
    cr_expect_eq(world_count(&c.w, "SELECT count(*) FROM notifications WHERE read_at IS NOT NULL"), 0);
    cr_expect_eq(world_count(&c.w, "SELECT count(*) FROM exports WHERE state = 'ready'"), 1);
    const char *secrets[] = {cursor, c.authorization + strlen("Authorization: Bearer "), "a private title"};
    for (size_t i = 0; i < 3; i++)
        cr_expect_not(child_log_has(c.reader, secrets[i]), "in the log: %.20s…", secrets[i]);
    cr_expect(child_log_has(c.reader, "READ-REFUSED"), "the log is at debug");
    printf("nothing learnt: no token, cursor or title in the log, nothing marked\n");
    client_close(&c);
}
