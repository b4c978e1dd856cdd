/* foundation_3 and the reader's cases from the field: the real belfry-reader over real HTTP, rows put in by
 * SQL. Every page is read as a client would: cursors go into the URL as they came. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader_client.h"

static void cursor_refused(const struct client *c, const char *cursor, long status, const char *code)
{
    char path[URL_MAX - 64];
    snprintf(path, sizeof path, "/v1/workspaces/w/feeds/notifications?cursor=%s", cursor);
    client_refused(c, path, status, code);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* What SQL says the feed is, in order: ids joined by ','; free it. */
static char *expected_ids(struct client *c, const char *user)
{
    enum { BYTES = 1 << 20 };
    char *ids = malloc(BYTES);
    world_text(&c->w, ids, BYTES,
               "SELECT string_agg(id::text, ',' ORDER BY created_at DESC, id DESC) FROM notifications"
               " WHERE recipient_user_id = '%s' AND workspace_id = 'w'",
               user);
    return ids;
}

/* Walks the whole feed by pages of limit, the ids joined by ','; free it. */
static char *walk_ids(const struct client *c, int limit, const char *filter, int *pages)
{
    enum { BYTES = 1 << 20 };
    char *ids = calloc(1, BYTES), query[URL_MAX - 256], cursor[CURSOR_MAX] = "";
    size_t at = 0;
    *pages = 0;
    do {
        snprintf(query, sizeof query, "limit=%d%s&cursor=%s", limit, filter, cursor);
        json_t *page = client_page(c, query);
        cr_assert_leq(page_count(page), (size_t)limit);
        for (size_t i = 0; i < page_count(page); i++)
            at += (size_t)snprintf(ids + at, BYTES - at, "%s%s", at == 0 ? "" : ",", page_id(page, i));
        snprintf(cursor, sizeof cursor, "%s", page_cursor(page));
        cr_assert_eq(page_has_more(page), cursor[0] != '\0');
        json_decref(page);
        ++*pages;
        cr_assert_lt(*pages, 5000, "the walk does not end");
    } while (cursor[0] != '\0');
    return ids;
}

static void check_walk(struct client *c, const char *user, int limit, int rows)
{
    int pages;
    int64_t began = world_now_ms();
    char *expected = expected_ids(c, user), *walked = walk_ids(c, limit, "", &pages);
    cr_assert_str_eq(walked, expected, "limit %d: not each row once and in order", limit);
    cr_assert_eq(pages, rows == 0 ? 1 : (rows + limit - 1) / limit, "limit %d: %d pages", limit, pages);
    printf("walk: %d rows at limit %d: %d pages, each row once, in order (%lld ms)\n", rows, limit, pages,
           (long long)(world_now_ms() - began));
    fflush(stdout);
    free(expected);
    free(walked);
}

/* ---- foundation_3 -------------------------------------------------------------------------------------- */

/* The last row of a page goes; the next page begins right below its place. */
static void check_deleted(struct client *c)
{
    enum { LIMIT = 7 };
    char query[URL_MAX - 256], last[64];
    json_t *page = client_page(c, "limit=7");
    snprintf(last, sizeof last, "%s", page_id(page, LIMIT - 1));
    snprintf(query, sizeof query, "limit=7&cursor=%s", page_cursor(page));
    json_t *before = client_page(c, query);
    world_exec(&c->w, "DELETE FROM notifications WHERE id = '%s'", last);
    json_t *after = client_page(c, query);
    cr_assert(json_equal(json_object_get(before, "items"), json_object_get(after, "items")));
    printf("walk: the last row of a page deleted: the next page is the same %zu rows\n", page_count(after));
    json_decref(page);
    json_decref(before);
    json_decref(after);
}

/* Changes one character at a place of the cursor for another of the alphabet. */
static void forge(const char *cursor, size_t place, char *forged)
{
    snprintf(forged, CURSOR_MAX, "%s", cursor);
    forged[place] = forged[place] == 'A' ? 'B' : 'A';
}

static void check_bad_cursors(struct client *c)
{
    char good[CURSOR_MAX], bad[CURSOR_MAX + 1024];
    json_t *page = client_page(c, "limit=5");
    snprintf(good, sizeof good, "%s", page_cursor(page));
    json_decref(page);
    size_t bytes = strlen(good), forged = 0;
    for (size_t place = 8; place + 1 < bytes; place += 3, forged++) {
        forge(good, place, bad);
        cursor_refused(c, bad, 400, "invalid_cursor");
    }
    for (size_t cut = 1; cut < bytes - 8; cut += 5) {
        snprintf(bad, sizeof bad, "%.*s", (int)(bytes - cut), good);
        cursor_refused(c, bad, 400, "invalid_cursor");
    }
    snprintf(bad, sizeof bad, "%sA", good);
    cursor_refused(c, bad, 400, "invalid_cursor");
    snprintf(bad, sizeof bad, "%s==", good);
    cursor_refused(c, bad, 400, "invalid_cursor");
    memset(bad, 'A', 1025);
    bad[1025] = '\0';
    cursor_refused(c, bad, 400, "invalid_cursor");
    /* The first byte is the version: AQ… is 1, Ag… would be 2, AA… 0. */
    cr_assert_eq(strncmp(good, "AQ", 2) == 0 || strncmp(good, "AR", 2) == 0, true, "%.4s", good);
    snprintf(bad, sizeof bad, "AA%s", good + 2);
    cursor_refused(c, bad, 400, "cursor_unsupported");
    snprintf(bad, sizeof bad, "Ag%s", good + 2);
    cursor_refused(c, bad, 400, "cursor_unsupported");
    snprintf(bad, sizeof bad, "%s&unread=true", good);
    cursor_refused(c, bad, 400, "cursor_mismatch");
    snprintf(bad, sizeof bad, "%s&category=general", good);
    cursor_refused(c, bad, 400, "cursor_mismatch");
    snprintf(bad, sizeof bad, "%s&direction=newer", good);
    cursor_refused(c, bad, 400, "cursor_mismatch");
    snprintf(bad, sizeof bad, "%s&contract=boundary", good);
    cursor_refused(c, bad, 400, "cursor_mismatch");
    snprintf(bad, sizeof bad, "/v1/workspaces/w2/feeds/notifications?cursor=%s", good);
    client_refused(c, bad, 400, "cursor_mismatch");
    client_be(c, "u2");
    cursor_refused(c, good, 400, "cursor_mismatch");
    client_be(c, "u1");
    printf("cursors: %zu forgeries invalid_cursor, old and new version cursor_unsupported, "
           "foreign user, workspace, filter, direction, contract cursor_mismatch\n",
           forged);
}

/* The same cursor, before and after: a restart, a second reader, one with another key, one with a ttl. */
static void check_readers(struct client *c)
{
    char query[URL_MAX - 256], cursor[CURSOR_MAX], base[64];
    json_t *page = client_page(c, "limit=5");
    snprintf(cursor, sizeof cursor, "%s", page_cursor(page));
    json_decref(page);
    snprintf(query, sizeof query, "limit=5&cursor=%s", cursor);
    json_t *first = client_page(c, query);
    struct child *second = world_reader(&c->w, NULL, base);
    client_move(c, base);
    json_t *other = client_page(c, query);
    cr_assert(json_equal(json_object_get(first, "items"), json_object_get(other, "items")), "second reader");
    child_stop(c->reader);
    c->reader = world_reader(&c->w, NULL, base);
    client_move(c, base);
    json_t *again = client_page(c, query);
    cr_assert(json_equal(json_object_get(first, "items"), json_object_get(again, "items")), "restart");
    printf("cursors: one goes on at a second reader with the same keys and after a restart\n");
    struct child *hasty = world_reader(&c->w, "[cursor]\ncursor_ttl = 1s\n", base);
    client_move(c, base);
    json_decref(client_page(c, query));
    world_sleep_ms(2100);
    cursor_refused(c, cursor, 410, "cursor_expired");
    printf("cursors: past cursor_ttl 410 cursor_expired\n");
    child_stop(hasty);
    child_stop(second);
    json_decref(first);
    json_decref(other);
    json_decref(again);
}

Test(foundation, walk)
{
    static struct client c;
    static const int limits[] = {1, 7, 20, 100};
    client_open(&c, "walk");
    put_rows(&c, "u1", 1000, "2026-03-21T09:00:00.123456Z");
    put_rows(&c, "u2", 50, "2026-03-21T09:00:00.123456Z");
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        check_walk(&c, "u1", limits[i], 1000);
    check_deleted(&c);
    check_bad_cursors(&c);
    check_readers(&c);
    client_close(&c);
}

/* ---- cases --------------------------------------------------------------------------------------------- */

Test(cases, rdr_01)
{
    static struct client c;
    /* As a client may write them into a URL; each is the default, and a big one the maximum. */
    static const struct {
        char query[64];
        size_t items;
    } limits[] = {
        {"", 20},
        {"limit=-1", 20},
        {"limit=-9223372036854775808", 20},
        {"limit=", 20},
        {"limit", 20},
        {"limit=abc", 20},
        {"limit=1.5", 20},
        {"limit=+5", 20},
        {"limit=%2B5", 20},
        {"limit=%205", 20},
        {"limit=5%20", 20},
        {"limit=0x10", 20},
        {"limit=%D9%A3", 20},
        {"limit=0", 20},
        {"limit=1e1", 20},
        {"limit=1", 1},
        {"limit=007", 7},
        {"limit=100", 100},
        {"limit=101", 100},
        {"limit=99999999999999999999999999", 100},
    };
    client_open(&c, "rdr_01");
    put_rows(&c, "u1", 150, "2026-03-21T09:00:00Z");
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
            json_t *page = client_page(&c, limits[i].query);
            cr_assert_eq(page_count(page), limits[i].items, "%s: %zu", limits[i].query, page_count(page));
            json_decref(page);
        }
    }
    client_refused(&c, "/v1/workspaces/w/feeds/notifications?limit=5&limit=6", 400, "repeated_parameter");
    client_refused(&c, "/v1/workspaces/w/feeds/notifications?limmit=5", 400, "unknown_parameter");
    client_refused(&c, "/v1/workspaces/w/feeds/notifications?direction=newer", 400, "invalid_parameter");
    client_refused(&c, "/v1/workspaces/w/feeds/notifications?contract=snapshot", 400, "invalid_parameter");
    printf("limits: %zu spellings, each the default, itself or the maximum, twice the same\n",
           sizeof limits / sizeof limits[0]);
    client_close(&c);
}

Test(cases, cur_01)
{
    static struct client c;
    client_open(&c, "cur_01");
    put_rows(&c, "u1", 5, "2026-03-21T09:00:00.123456Z");
    put_rows(&c, "u1", 1, "2026-03-21T09:00:00.029058Z");
    put_rows(&c, "u1", 1, "2026-03-21T09:00:00.029958Z");
    put_rows(&c, "u1", 1, "2026-03-21T09:00:00.029999Z");
    for (int limit = 1; limit <= 9; limit++)
        check_walk(&c, "u1", limit, 8);
    json_t *page = client_page(&c, "limit=1");
    const json_t *item = json_array_get(json_object_get(page, "items"), 0);
    cr_assert_str_eq(json_string_value(json_object_get(item, "created_at")), "2026-03-21T09:00:00.123456Z");
    json_decref(page);
    client_close(&c);
}

Test(cases, cur_04)
{
    static struct client c;
    char query[URL_MAX - 256], cursor[CURSOR_MAX] = "";
    int pages = 0;
    client_open(&c, "cur_04");
    world_exec(
        &c.w, "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
              " SELECT gen_random_uuid(), 'w', 'u1', 't', 't', timestamptz '2026-01-01' + i * interval '7 us'"
              " FROM generate_series(1, 2000) AS i");
    do {
        json_t *page = NULL;
        snprintf(query, sizeof query, "limit=1&cursor=%s", cursor);
        page = client_page(&c, query);
        cr_assert_eq(page_count(page), 1);
        snprintf(cursor, sizeof cursor, "%s", page_cursor(page));
        cr_assert_eq(strspn(cursor, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                     strlen(cursor), "%s", cursor);
        json_decref(page);
        pages++;
    } while (cursor[0] != '\0');
    cr_assert_eq(pages, 2000);
    printf("cursors: 2000 pages, each cursor put into the URL as it is\n");
    client_close(&c);
}

Test(cases, cur_15)
{
    static struct client c;
    static const int counts[] = {0, 1, 19, 20, 21, 40};
    client_open(&c, "cur_15");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        world_exec(&c.w, "DELETE FROM notifications");
        if (counts[i] > 0)
            put_rows(&c, "u1", counts[i], "2026-03-21T09:00:00Z");
        check_walk(&c, "u1", 20, counts[i]);
    }
    client_close(&c);
}
