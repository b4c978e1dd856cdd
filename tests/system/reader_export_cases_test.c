/* What an export holds: one instant of the feed (EXP-01), cells that no spreadsheet runs (EXP-03), numbers to
 * the last digit (RDR-07), the same rows page by page whatever happens to the feed meanwhile. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader_export.h"
#include "reader_steps.h"

enum { ROWS = 5000, SET_BYTES = 512 * 1024 };

/* Every insert and delete with its transaction: what a snapshot saw can be told afterwards. */
static void watch(struct client *c)
{
    world_exec(
        &c->w,
        "CREATE TABLE log (op text, id uuid, title text, created_at timestamptz, owner text,"
        " xid xid8 DEFAULT pg_current_xact_id());"
        " CREATE FUNCTION log_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO log (op, id, title, created_at, owner)"
        " SELECT TG_OP, r.id, r.title, r.created_at, r.recipient_user_id"
        " FROM (SELECT (CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END).*) AS r; RETURN NULL; END $$;"
        " CREATE TRIGGER log_it AFTER INSERT OR DELETE ON notifications FOR EACH ROW"
        " EXECUTE FUNCTION log_it()");
}

static void put_named(struct client *c, const char *name, int count, const char *from)
{
    world_exec(
        &c->w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
        " SELECT gen_random_uuid(), 'w', 'u1', 't', '%s-' || i, timestamptz '%s' + i / 7 * interval '1 s'"
        " FROM generate_series(1, %d) AS i",
        name, from, count);
}

/* Titles of the lines, joined by blanks; each line one object, the last the count. */
static void titles_of(char *body, char *titles, int64_t *rows, int64_t *said)
{
    size_t at = 0;
    *rows = 0;
    *said = -1;
    for (char *line = body, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        json_t *row = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        cr_assert_not_null(row, "%s", line);
        json_t *trailer = json_object_get(row, "_end");
        cr_assert_eq(*said, -1, "nothing behind the trailer");
        if (trailer != NULL) {
            *said = json_integer_value(json_object_get(trailer, "rows"));
        } else {
            at += (size_t)snprintf(titles + at, SET_BYTES - at, "%s%s", at > 0 ? " " : "",
                                   text_of(row, "title"));
            (*rows)++;
        }
        json_decref(row);
    }
}

Test(cases, exp_01)
{
    static struct client c;
    static char expected[SET_BYTES], found[SET_BYTES];
    char id[EXPORT_ID], sql[256];
    struct world_reply reply;
    int64_t rows, said;
    client_open(&c, "exp_01");
    watch(&c);
    put_named(&c, "before", ROWS, "2026-03-21T09:00:00Z");
    put_rows(&c, "u2", 100, "2026-03-21T09:00:00Z");
    struct db *open_before = late_begin(&c, "open-before", "30");
    /* The worker waits for the table before it has a snapshot; then, in the middle, for the export's row. */
    struct db *table = late_open(&c, "LOCK TABLE export_rows IN EXCLUSIVE MODE");
    export_order(&c, "{}", id);
    world_wait_count(
        &c.w, 1, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'export_rows'::regclass");
    put_named(&c, "late", 50, "2026-03-21T10:00:00Z");
    snprintf(sql, sizeof sql, "SELECT FROM exports WHERE id = '%s' FOR UPDATE", id);
    struct db *row = late_open(&c, sql);
    late_commit(table);
    world_wait_count(
        &c.w, 1,
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')");
    put_named(&c, "middle", 200, "2026-03-21T11:00:00Z");
    put_named(&c, "backdated", 200, "2026-03-21T09:05:00Z");
    world_exec(&c.w, "DELETE FROM notifications WHERE title LIKE 'before-%%7'");
    world_exec(&c.w, "UPDATE notifications SET title = 'edited' WHERE title LIKE 'before-%%3'");
    late_commit(open_before);
    late_commit(row);
    json_decref(export_await(&c, id, "ready"));
    world_text(
        &c.w, expected, sizeof expected,
        "SELECT string_agg(i.title, ' ' ORDER BY i.created_at DESC, i.id DESC) FROM log i, exports e"
        " WHERE e.id = '%s' AND i.op = 'INSERT' AND i.owner = 'u1' AND"
        " pg_visible_in_snapshot(i.xid, e.snapshot) AND NOT EXISTS (SELECT FROM log d WHERE d.id = i.id AND"
        " d.op = 'DELETE' AND pg_visible_in_snapshot(d.xid, e.snapshot))",
        id);
    export_rows(&c, id, "", &reply);
    titles_of(reply.body, found, &rows, &said);
    world_reply_done(&reply);
    cr_expect_str_eq(found, expected);
    cr_expect(rows == ROWS + 50 && said == rows, "%lld rows, %lld said", (long long)rows, (long long)said);
    cr_expect(strstr(found, "late-50") != NULL && strstr(found, "before-7") != NULL);
    cr_expect(strstr(found, "middle") == NULL && strstr(found, "backdated") == NULL &&
              strstr(found, "open-before") == NULL && strstr(found, "edited") == NULL);
    printf("exp_01: %lld rows, the snapshot's set in its order; 400 inserted, %lld deleted, %lld edited and "
           "one late"
           " commit meanwhile are not seen\n",
           (long long)rows, (long long)world_count(&c.w, "SELECT count(*) FROM log WHERE op = 'DELETE'"),
           (long long)world_count(&c.w, "SELECT count(*) FROM notifications WHERE title = 'edited'"));
    client_close(&c);
}

/* ---- EXP-03, RDR-07 -------------------------------------------------------------------------------------
 */

static const char ledger[] =
    "CREATE TABLE ledger (id bigint PRIMARY KEY, workspace_id text NOT NULL, user_id text NOT NULL,"
    " created_at timestamptz NOT NULL DEFAULT clock_timestamp(), note text, amount numeric, delta int, data "
    "jsonb,"
    " done boolean, who uuid);"
    " CREATE INDEX ledger_feed ON ledger (user_id, workspace_id, created_at DESC, id DESC);"
    " GRANT SELECT ON ledger TO belfry_reader";
static const char ledger_ini[] =
    "[feed.ledger]\nrelation = ledger\nworkspace_column = workspace_id\nuser_column = user_id\nid_type = "
    "bigint\n"
    "columns = id note amount delta data done who created_at\nfilters = delta:integer done:boolean\n";

static void world_with_ledger(struct client *c, const char *name)
{
    world_open(&c->w, name);
    world_database(&c->w);
    world_exec(&c->w, "SELECT belfry_set_member('w', 'u1', 'member'); %s", ledger);
    c->reader = world_reader(&c->w, ledger_ini, c->base);
    world_write_reader_ini(&c->w, ledger_ini, c->ini);
    client_be(c, "u1");
}

static void order_of(struct client *c, const char *feed, const char *body, char id[EXPORT_ID])
{
    char path[256];
    snprintf(path, sizeof path, "/v1/workspaces/w/feeds/%s/exports", feed);
    json_t *export = export_expect(c, "POST", path, body, 202, NULL);
    snprintf(id, EXPORT_ID, "%s", text_of(export, "id"));
    json_decref(export);
    json_decref(export_await(c, id, "ready"));
}

static const char *const titles[] = {
    "=1+1", "+1",    "-1", "@x",  "\tx",     "\rx", "'quoted", "''twice", "say \"hi\", you",
    "a\nb", "plain", "",   " =1", "\xc3\xa9"};
enum { TITLES = sizeof titles / sizeof titles[0] };

/* The n-th cell of a record, undone: quotes, and one ' in front. at goes behind it. */
static void cell_of(const char **at, char *cell, bool *guarded)
{
    char *to = cell;
    const char *from = *at;
    bool quoted = *from == '"';
    from += quoted;
    for (; *from != '\0'; from++) {
        if (quoted && *from == '"' && *++from != '"')
            break;
        if (!quoted && (*from == ',' || *from == '\r'))
            break;
        *to++ = *from;
    }
    *to = '\0';
    *guarded = cell[0] == '\'';
    if (*guarded)
        memmove(cell, cell + 1, strlen(cell));
    *at = *from == ',' ? from + 1 : from + 2;
}

Test(cases, exp_03)
{
    static struct client c;
    char id[EXPORT_ID], cell[1024];
    struct world_reply reply;
    bool guarded;
    world_with_ledger(&c, "exp_03");
    for (size_t i = 0; i < TITLES; i++)
        world_exec(
            &c.w,
            "INSERT INTO ledger (id, workspace_id, user_id, created_at, note, amount, delta, data)"
            " VALUES (-%zu, 'w', 'u1', timestamptz '2026-03-21T09:00:00Z' - %zu * interval '1 s', $t$%s$t$,"
            " -1.50, -7, '{\"a\": \"=1\"}')",
            i + 1, i, titles[i]);
    order_of(&c, "ledger", "{\"format\":\"csv\"}", id);
    export_rows(&c, id, "", &reply);
    cr_expect_not_null(strstr(reply.headers, "text/csv; charset=utf-8; header=present"), "%s", reply.headers);
    cr_expect_not_null(strstr(reply.headers, "Content-Disposition: attachment; filename=\"ledger-"));
    const char *at = reply.body, *header = "id,note,amount,delta,data,done,who,created_at\r\n",
               *numbers = "-1.50,-7,\"{\"\"a\"\": \"\"=1\"\"}\",,,2026-03-21T";
    cr_assert_eq(strncmp(at, header, strlen(header)), 0, "%.80s", at);
    at += strlen(header);
    for (size_t i = 0; i < TITLES; i++) {
        char number[32];
        snprintf(number, sizeof number, "-%zu", i + 1);
        cell_of(&at, cell, &guarded);
        cr_expect(!guarded && strcmp(cell, number) == 0, "id %s", cell);
        cr_expect(strchr("=+-@\t\r", *at) == NULL, "a formula: %.8s", at);
        cell_of(&at, cell, &guarded);
        cr_expect_str_eq(cell, titles[i]);
        cr_expect_eq(guarded, titles[i][0] != '\0' && strchr("=+-@\t\r'", titles[i][0]) != NULL, "%s",
                     titles[i]);
        cr_expect_eq(strncmp(at, numbers, strlen(numbers)), 0, "%.60s", at);
        at = strchr(at, '\r') + 2;
    }
    cr_expect_eq(*at, '\0', "no trailer: %s", at);
    world_reply_done(&reply);
    order_of(&c, "ledger", "{\"format\":\"ndjson\",\"filters\":{\"delta\":-7}}", id);
    export_rows(&c, id, "", &reply);
    char *line = reply.body;
    for (size_t i = 0; i < TITLES; i++) {
        char *end = strchr(line, '\n');
        json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);
        cr_expect_str_eq(text_of(row, "note"), titles[i], "NDJSON leaves the text alone");
        json_decref(row);
        line = end + 1;
    }
    world_reply_done(&reply);
    printf("exp_03: %d texts come back from CSV as they were, those of = + - @ TAB CR ' behind one '; "
           "numbers as they"
           " are\n",
           (int)TITLES);
    client_close(&c);
}

static void has(const char *what, const char *body, const char *text)
{
    cr_expect_not_null(strstr(body, text), "%s: no %s in %s", what, text, body);
    printf("rdr_07: %-10s %s\n", what, text);
}

Test(cases, rdr_07)
{
    static struct client c;
    char id[EXPORT_ID], path[256];
    struct world_reply reply;
    world_with_ledger(&c, "rdr_07");
    world_exec(&c.w, "INSERT INTO ledger (id, workspace_id, user_id, note, amount)"
                     " VALUES (9007199254740993, 'w', 'u1', 'n', 9007199254740993.10)");
    world_exec(
        &c.w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at, data)"
        " VALUES (gen_random_uuid(), 'w', 'u1', 't', 'n', now(),"
        " E'{\"n\" :\\n[0.1, 9007199254740993,1.10,-0.0,\\r\\n1E+2]}')");
    client_get(&c, "/v1/workspaces/w/feeds/ledger", &reply);
    has("feed", reply.body, "\"id\":\"9007199254740993\"");
    has("feed", reply.body, "\"amount\":\"9007199254740993.10\"");
    world_reply_done(&reply);
    client_get(&c, "/v1/workspaces/w/feeds/notifications", &reply);
    has("feed", reply.body, "\"data\":{\"n\" :\n[0.1, 9007199254740993,1.10,-0.0,\r\n1E+2]}");
    world_reply_done(&reply);
    order_of(&c, "ledger", "{}", id);
    export_rows(&c, id, "", &reply);
    has("ndjson", reply.body,
        "{\"id\":\"9007199254740993\",\"note\":\"n\",\"amount\":\"9007199254740993.10\",");
    world_reply_done(&reply);
    order_of(&c, "ledger", "{\"format\":\"csv\"}", id);
    export_rows(&c, id, "", &reply);
    has("csv", reply.body, "\n9007199254740993,n,9007199254740993.10,,,,,");
    world_reply_done(&reply);
    order_of(&c, "notifications", "{}", id);
    export_rows(&c, id, "", &reply);
    has("ndjson", reply.body, "\"data\":{\"n\" : [0.1, 9007199254740993,1.10,-0.0,  1E+2]}");
    world_reply_done(&reply);
    snprintf(path, sizeof path, EXPORTS "/%s/pages", id);
    client_get(&c, path, &reply);
    has("pages", reply.body, "\"data\":{\"n\" :\n[0.1, 9007199254740993,1.10,-0.0,\r\n1E+2]}");
    world_reply_done(&reply);
    order_of(&c, "notifications", "{\"format\":\"csv\"}", id);
    export_rows(&c, id, "", &reply);
    has("csv", reply.body, "\"{\"\"n\"\" :\n[0.1, 9007199254740993,1.10,-0.0,\r\n1E+2]}\"");
    world_reply_done(&reply);
    client_close(&c);
}

/* ---- pages ----------------------------------------------------------------------------------------------
 */

/* The text of the array of items. */
static void items_of(const char *body, char *items)
{
    const char *from = strchr(body, '['), *to = strstr(body, "],\"next_cursor\"");
    cr_assert(from != NULL && to != NULL, "%s", body);
    snprintf(items, SET_BYTES, "%.*s", (int)(to - from - 1), from + 1);
}

static json_t *page_of(const struct client *c, const char *path, const char *cursor, char *items)
{
    char full[URL_MAX - 64];
    struct world_reply reply;
    snprintf(full, sizeof full, "%s?limit=7%s%s", path, cursor[0] == '\0' ? "" : "&cursor=", cursor);
    client_get(c, full, &reply);
    cr_assert_eq(reply.status, 200, "%s: %s", full, reply.body);
    items_of(reply.body, items);
    json_t *page = json_loadb(reply.body, reply.body_bytes, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_str_eq(text_of(page, "contract"), "snapshot");
    world_reply_done(&reply);
    return page;
}

static void foreign(const struct client *c, const char *path, const char *own, const char *other)
{
    char full[URL_MAX - 64];
    json_t *page = client_page(c, "limit=1");
    snprintf(full, sizeof full, "%s?cursor=%s", path, page_cursor(page));
    client_refused(c, full, 400, "cursor_mismatch");
    json_decref(page);
    snprintf(full, sizeof full, EXPORTS "/%s/pages?cursor=%s", other, own);
    client_refused(c, full, 400, "cursor_mismatch");
    snprintf(full, sizeof full, "/v1/workspaces/w/feeds/notifications?cursor=%s", own);
    client_refused(c, full, 400, "cursor_mismatch");
    snprintf(full, sizeof full, "%s?cursor=%sA", path, own);
    client_refused(c, full, 400, "invalid_cursor");
    snprintf(full, sizeof full, "%s?direction=newer", path);
    client_refused(c, full, 400, "unknown_parameter");
}

Test(reader, export_pages)
{
    static struct client c;
    static char feed[SET_BYTES], walked[SET_BYTES], items[SET_BYTES], before[SET_BYTES];
    char id[EXPORT_ID], other[EXPORT_ID], path[256], cursor[CURSOR_MAX] = "", first[CURSOR_MAX] = "";
    struct world_reply reply;
    int pages = 0;
    client_open(&c, "export_pages");
    put_rows(&c, "u1", 50, "2026-03-21T09:00:00Z");
    world_exec(&c.w,
               "UPDATE notifications SET title = E'q\"\\\\ \\x01\\t\\u00e9/\\x7f', body = 'b', occurred_at ="
               " '2026-03-21T09:00:00.5+02', read_at = now() WHERE title LIKE '%%5';"
               " ALTER ROLE belfry_reader IN DATABASE %s SET timezone = 'Asia/Kathmandu';"
               " ALTER ROLE belfry_reader IN DATABASE %s SET datestyle = 'German'",
               c.w.database, c.w.database);
    client_get(&c, "/v1/workspaces/w/feeds/notifications?limit=100", &reply);
    items_of(reply.body, feed);
    world_reply_done(&reply);
    child_kill(c.reader);
    c.reader = world_reader(&c.w, NULL, c.base); /* with the settings above */
    cr_assert_eq(export_make(&c, "{}", id), 50);
    cr_assert_eq(export_make(&c, "{}", other), 50);
    snprintf(path, sizeof path, EXPORTS "/%s/pages", id);
    for (bool more = true; more; pages++) {
        json_t *page = page_of(&c, path, cursor, items);
        snprintf(walked + strlen(walked), SET_BYTES - strlen(walked), "%s%s", pages > 0 ? "," : "", items);
        snprintf(cursor, sizeof cursor, "%s", page_cursor(page));
        if (pages == 0) {
            cr_expect_str_eq(text_of(page, "prev_cursor"), "");
            snprintf(first, sizeof first, "%s", cursor);
        }
        more = page_has_more(page);
        cr_expect_eq(more, cursor[0] != '\0');
        json_decref(page);
        world_exec(&c.w, "DELETE FROM notifications WHERE id IN (SELECT id FROM notifications LIMIT 5);"
                         " UPDATE notifications SET title = 'edited'");
        put_rows(&c, "u1", 3, "2026-03-21T09:00:00Z");
    }
    cr_expect_str_eq(walked, feed, "the pages are the feed's bytes as of the snapshot");
    json_t *second = page_of(&c, path, first, before);
    json_t *third = page_of(&c, path, page_cursor(second), items);
    json_t *back = page_of(&c, path, text_of(third, "prev_cursor"), items);
    cr_expect_str_eq(items, before, "turned round, the same page");
    json_t *head = page_of(&c, path, page_cursor(back), items);
    cr_expect(!page_has_more(head) && page_count(head) == 7 && strncmp(items, feed, strlen(items)) == 0);
    foreign(&c, path, first, other);
    printf("export_pages: 50 rows in %d pages, %zu bytes as the feed's page had them, also under timezone"
           " Asia/Kathmandu and datestyle German\n",
           pages, strlen(walked));
    json_decref(second);
    json_decref(third);
    json_decref(back);
    json_decref(head);
    client_close(&c);
}
