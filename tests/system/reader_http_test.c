/* The reader beyond its pages: who may read, what is refused and how, filters, the database away, the command
 * line. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader_client.h"

#define FEED "/v1/workspaces/w/feeds/notifications"

static bool header_is(const struct world_reply *reply, const char *line)
{
    return strcasestr(reply->headers, line) != NULL;
}

/* ---- who, and what ------------------------------------------------------------------------------------- */

static void as(struct client *c, const char *authorization)
{
    snprintf(c->authorization, sizeof c->authorization, "%s", authorization);
}

static void check_tokens(struct client *c)
{
    struct world_reply reply;
    char token[TOKEN_MAX], changed[TOKEN_MAX];
    snprintf(token, sizeof token, "%s", c->authorization);
    as(c, "X-Nothing: 1");
    client_refused(c, FEED, 401, "token_missing");
    client_get(c, FEED, &reply);
    cr_expect(header_is(&reply, "WWW-Authenticate: Bearer error="), "%s", reply.headers);
    world_reply_done(&reply);
    as(c, "Authorization: Bearer abc");
    client_refused(c, FEED, 401, "token_invalid");
    as(c, "Authorization: Basic dTE6cA==");
    client_refused(c, FEED, 401, "token_invalid");
    snprintf(changed, sizeof changed, "%s", token);
    changed[strlen(changed) - 3] = changed[strlen(changed) - 3] == 'A' ? 'B' : 'A';
    as(c, changed);
    client_refused(c, FEED, 401, "token_invalid");
    /* {"alg":"none"} . {"sub":"u1","exp":4102444800} . */
    as(c, "Authorization: Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1MSIsImV4cCI6NDEwMjQ0NDgwMH0.");
    client_refused(c, FEED, 401, "token_invalid");
    as(c, token);
}

Test(reader, who)
{
    static struct client c;
    struct world_reply reply;
    client_open(&c, "reader_who");
    put_rows(&c, "u1", 30, "2026-03-21T09:00:00Z");
    put_rows(&c, "u2", 3, "2026-03-21T09:00:00Z");
    check_tokens(&c);
    client_refused(&c, "/v1/workspaces/other/feeds/notifications", 403, "not_a_member");
    client_be(&c, "stranger");
    client_refused(&c, FEED, 403, "not_a_member");
    client_be(&c, "empty");
    json_t *page = client_page(&c, "");
    cr_expect(page_count(page) == 0 && !page_has_more(page) && page_cursor(page)[0] == '\0');
    json_decref(page);
    client_be(&c, "u2");
    page = client_page(&c, "limit=100");
    cr_expect_eq(page_count(page), 3, "u2 sees u2's");
    json_decref(page);
    client_be(&c, "u1");
    /* Taken out of the workspace in the middle of a walk. */
    page = client_page(&c, "");
    char path[URL_MAX - 64];
    snprintf(path, sizeof path, FEED "?cursor=%s", page_cursor(page));
    json_decref(page);
    world_exec(&c.w, "SELECT belfry_remove_member('w', 'u1')");
    client_refused(&c, path, 403, "not_a_member");
    world_exec(&c.w, "SELECT belfry_set_member('w', 'u1', 'member')");
    client_get(&c, path, &reply);
    cr_expect_eq(reply.status, 200);
    cr_expect(header_is(&reply, "Cache-Control: private, no-store"), "%s", reply.headers);
    world_reply_done(&reply);
    client_get(&c, FEED, &reply);
    cr_expect(header_is(&reply, "Cache-Control: private, no-cache"), "%s", reply.headers);
    cr_expect(header_is(&reply, "Vary: Authorization") && header_is(&reply, "Request-Id: "), "%s",
              reply.headers);
    cr_expect(header_is(&reply, "Content-Type: application/json"), "%s", reply.headers);
    world_reply_done(&reply);
    client_refused(&c, "/v1/workspaces/w/feeds/nothing", 404, "not_found");
    client_refused(&c, "/", 404, "not_found");
    char url[URL_MAX];
    snprintf(url, sizeof url, "%s" FEED, c.base);
    world_http("DELETE", url, NULL, NULL, &reply);
    cr_expect_eq(reply.status, 405);
    cr_expect(header_is(&reply, "Allow: GET"), "%s", reply.headers);
    world_reply_done(&reply);
    client_close(&c);
}

/* What a row looks like, member by member. */
Test(reader, item)
{
    static struct client c;
    client_open(&c, "reader_item");
    world_exec(&c.w,
               "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, category, title,"
               " body, data, occurred_at, created_at, read_at) VALUES"
               " ('0199a000-0000-7000-8000-000000000002', 'w', 'u1', 'meeting.assigned', 'meetings',"
               " E'Zo\\u00eb \"x\" \\\\ \\u2028', E'line\\n\\ttab',"
               " '{\"n\": 9007199254740993, \"x\":0.10}', '2026-03-21T10:00:00.5+01:00',"
               " '2026-03-21T09:00:00.123456Z', '2026-03-22T00:00:00Z'),"
               " ('0199a000-0000-7000-8000-000000000001', 'w', 'u1', 't', 'general', 't', '', NULL, NULL,"
               " '2026-03-21T09:00:00.123456Z', NULL)");
    struct world_reply reply;
    client_get(&c, FEED "?limit=1", &reply);
    const char *expected =
        "{\"items\":[{\"id\":\"0199a000-0000-7000-8000-000000000002\",\"event_type\":\"meeting.assigned\","
        "\"category\":\"meetings\",\"title\":\"Zo\xc3\xab \\\"x\\\" \\\\ \xe2\x80\xa8\","
        "\"body\":\"line\\n\\ttab\",\"data\":{\"n\": 9007199254740993, \"x\":0.10},"
        "\"occurred_at\":\"2026-03-21T09:00:00.500000Z\",\"created_at\":\"2026-03-21T09:00:00.123456Z\","
        "\"read_at\":\"2026-03-22T00:00:00.000000Z\"}],\"next_cursor\":\"";
    cr_expect_eq(strncmp(reply.body, expected, strlen(expected)), 0, "%s", reply.body);
    cr_expect_not_null(strstr(reply.body, "\",\"prev_cursor\":\""), "%s", reply.body);
    cr_expect_not_null(strstr(reply.body, "\",\"has_more\":true,\"contract\":\"live\"}"), "%s", reply.body);
    world_reply_done(&reply);
    json_t *page = client_page(&c, "");
    const json_t *bare = json_array_get(json_object_get(page, "items"), 1);
    cr_expect(json_is_null(json_object_get(bare, "occurred_at")) &&
              json_is_null(json_object_get(bare, "read_at")));
    cr_expect(json_is_object(json_object_get(bare, "data")) &&
              json_object_size(json_object_get(bare, "data")) == 0);
    json_decref(page);
    client_close(&c);
}

Test(reader, filters)
{
    static struct client c;
    char base[64], query[URL_MAX - 256], cursor[CURSOR_MAX] = "";
    client_open(&c, "reader_filters");
    world_exec(&c.w,
               "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, category, title,"
               " created_at, read_at) SELECT gen_random_uuid(), 'w', 'u1', 't' || i %% 2,"
               " CASE WHEN i %% 500 = 0 THEN 'rare & +' ELSE 'general' END, 't',"
               " timestamptz '2026-01-01' + i * interval '1 s', CASE WHEN i %% 10 > 0 THEN now() END"
               " FROM generate_series(1, 2000) AS i");
    json_t *page = client_page(&c, "unread=true&limit=100");
    cr_expect_eq(page_count(page), 100);
    json_decref(page);
    page = client_page(&c, "category=rare%20%26%20%2B&event_type=t0");
    cr_expect(page_count(page) == 4 && page_has_more(page),
              "2,000 entries read is where scan_max ends: 4 found, and a cursor at the last one read");
    snprintf(query, sizeof query, "category=rare%%20%%26%%20%%2B&event_type=t0&cursor=%s", page_cursor(page));
    json_decref(page);
    page = client_page(&c, query);
    cr_expect(page_count(page) == 0 && !page_has_more(page));
    json_decref(page);
    child_stop(c.reader);
    c.reader = world_reader(&c.w, "[http]\nscan_max = 150\n", base);
    client_move(&c, base);
    int pages = 0, empty = 0;
    size_t found = 0;
    do {
        snprintf(query, sizeof query, "category=rare+%%26+%%2B&limit=2&cursor=%s", cursor);
        page = client_page(&c, query);
        found += page_count(page);
        empty += page_count(page) == 0;
        snprintf(cursor, sizeof cursor, "%s", page_cursor(page));
        json_decref(page);
        pages++;
    } while (cursor[0] != '\0');
    cr_expect_eq(found, 4);
    printf("filters: scan_max 150: 4 of 2000 found on %d pages, %d of them empty with a cursor\n", pages,
           empty);
    client_refused(&c, FEED "?unread=false", 400, "invalid_parameter");
    client_refused(&c, FEED "?categroy=x", 400, "unknown_parameter");
    client_close(&c);
}

/* ---- the database -------------------------------------------------------------------------------------- */

/* For the reader the same as a server that is gone; ALTER DATABASE refuses to do it from inside. */
static void allow_connections(struct client *c, bool allow)
{
    world_exec(&c->w, "UPDATE pg_database SET datallowconn = %s WHERE datname = current_database()",
               allow ? "true" : "false");
}

static void close_database(struct client *c)
{
    allow_connections(c, false);
    world_exec(&c->w, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                      " WHERE datname = current_database() AND pid <> pg_backend_pid()");
}

static bool answers(void *context)
{
    struct world_reply reply;
    client_get(context, FEED, &reply);
    bool answered = reply.status == 200;
    if (!answered)
        cr_assert_eq(reply.status, 503, "%ld %s", reply.status, reply.body);
    world_reply_done(&reply);
    return answered;
}

static bool is_away(void *context)
{
    return !answers(context);
}

/* Away: 503 at once, again and again, never an empty list; back: pages again, without a restart. */
Test(reader, database_away)
{
    static struct client c;
    struct world_reply reply;
    client_open(&c, "reader_database");
    put_rows(&c, "u1", 3, "2026-03-21T09:00:00Z");
    close_database(&c);
    world_wait("the reader sees that the database is away", 10, is_away, &c);
    int64_t slowest = 0;
    for (int i = 0; i < 50; i++) {
        int64_t began = world_now_ms();
        client_get(&c, FEED, &reply);
        int64_t took = world_now_ms() - began;
        slowest = took > slowest ? took : slowest;
        cr_assert_eq(reply.status, 503, "%ld %s", reply.status, reply.body);
        cr_assert_not_null(strstr(reply.body, "\"code\":\"unavailable\""), "%s", reply.body);
        cr_assert(header_is(&reply, "Retry-After: "), "%s", reply.headers);
        world_reply_done(&reply);
        world_sleep_ms(20);
    }
    cr_expect_lt(slowest, 500, "at once: the slowest took %lld ms", (long long)slowest);
    allow_connections(&c, true);
    int64_t began = world_now_ms();
    world_wait("the reader comes back by itself", 15, answers, &c);
    printf("database away: 50 times 503 unavailable, the slowest in %lld ms; back %lld ms after it was\n",
           (long long)slowest, (long long)(world_now_ms() - began));
    /* Idle sessions ended by the server: the next request is answered all the same. */
    for (int i = 0; i < 5; i++) {
        world_exec(&c.w, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                         " WHERE datname = current_database() AND pid <> pg_backend_pid()");
        world_wait("pages after the sessions were ended", 5, answers, &c);
    }
    client_close(&c);
}

/* Many at once, more than there are connections: each is told in time, wherever it waits. */
struct caller {
    const struct client *c;
    pthread_t thread;
    int64_t slowest_ms;
    int requests, pages, timeouts, others;
};

static void *call(void *context)
{
    struct caller *caller = context;
    for (int i = 0; i < caller->requests; i++) {
        struct world_reply reply;
        int64_t began = world_now_ms();
        client_get(caller->c, FEED "?limit=5", &reply);
        int64_t took = world_now_ms() - began;
        caller->slowest_ms = took > caller->slowest_ms ? took : caller->slowest_ms;
        if (reply.status == 200)
            caller->pages++;
        else if (reply.status == 503 && strstr(reply.body, "\"code\":\"timeout\"") != NULL)
            caller->timeouts++;
        else
            caller->others++;
        world_reply_done(&reply);
    }
    return NULL;
}

static void check_queue(struct client *c)
{
    enum { CALLERS = 100 };
    static struct caller callers[CALLERS];
    int timeouts = 0;
    int64_t slowest_ms = 0;
    memset(callers, 0, sizeof callers);
    for (int i = 0; i < CALLERS; i++) {
        callers[i].c = c;
        callers[i].requests = 1;
        cr_assert_eq(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        timeouts += callers[i].timeouts;
        slowest_ms = callers[i].slowest_ms > slowest_ms ? callers[i].slowest_ms : slowest_ms;
    }
    cr_expect_eq(timeouts, CALLERS);
    cr_expect_lt(slowest_ms, 3500, "%lld ms", (long long)slowest_ms);
    printf("timeout: %d requests at once: %d times 503 timeout, the slowest after %lld ms\n", CALLERS,
           timeouts, (long long)slowest_ms);
}

/* A table that is locked: 503 timeout after statement_timeout, and pages once it is free. */
Test(reader, timeout)
{
    static struct client c;
    struct world_reply reply;
    client_open(&c, "reader_timeout");
    put_rows(&c, "u1", 3, "2026-03-21T09:00:00Z");
    json_decref(client_page(&c, ""));
    world_exec(&c.w, "BEGIN");
    world_exec(&c.w, "LOCK TABLE notifications IN ACCESS EXCLUSIVE MODE");
    int64_t began = world_now_ms();
    client_get(&c, FEED, &reply);
    cr_expect_eq(reply.status, 503);
    cr_expect_not_null(strstr(reply.body, "\"code\":\"timeout\""), "%s", reply.body);
    printf("timeout: a locked table is 503 timeout after %lld ms\n", (long long)(world_now_ms() - began));
    cr_expect_lt(world_now_ms() - began, 3500);
    world_reply_done(&reply);
    check_queue(&c);
    world_exec(&c.w, "ROLLBACK");
    world_wait("pages once the table is free", 10, answers, &c);
    client_close(&c);
}

/* Eight users at once over few connections: nobody sees another's rows. */
struct reader_user {
    struct client c; /* its own token; the world is the test's */
    char name[16];
    pthread_t thread;
    int pages, wrong;
};

static void *read_own(void *context)
{
    struct reader_user *user = context;
    char title[64];
    snprintf(title, sizeof title, "\"title\":\"of %s\"", user->name);
    for (int i = 0; i < 250; i++) {
        struct world_reply reply;
        int found = 0;
        client_get(&user->c, FEED "?limit=3", &reply);
        for (const char *at = reply.body; (at = strstr(at, title)) != NULL; at++)
            found++;
        user->pages += reply.status == 200 && found == 3;
        user->wrong += reply.status != 200 || found != 3;
        world_reply_done(&reply);
    }
    return NULL;
}

Test(reader, many)
{
    enum { USERS = 8 };
    static struct client c;
    static struct reader_user users[USERS];
    int pages = 0, wrong = 0;
    client_open(&c, "reader_many");
    for (int i = 0; i < USERS; i++) {
        snprintf(users[i].name, sizeof users[i].name, "many%d", i);
        world_exec(&c.w, "SELECT belfry_set_member('w', '%s', 'member')", users[i].name);
        world_exec(
            &c.w,
            "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
            " SELECT gen_random_uuid(), 'w', '%s', 't', 'of %s', now() FROM generate_series(1, 10)",
            users[i].name, users[i].name);
        client_be(&c, users[i].name);
        users[i].c = c;
    }
    int64_t began = world_now_ms();
    for (int i = 0; i < USERS; i++)
        cr_assert_eq(pthread_create(&users[i].thread, NULL, read_own, &users[i]), 0);
    for (int i = 0; i < USERS; i++) {
        pthread_join(users[i].thread, NULL);
        pages += users[i].pages;
        wrong += users[i].wrong;
    }
    printf("many: %d pages of %d users in %lld ms, a new connection each; %d wrong\n", pages, USERS,
           (long long)(world_now_ms() - began), wrong);
    cr_expect_eq(wrong, 0);
    client_close(&c);
}

/* ---- the command line ---------------------------------------------------------------------------------- */

static int run_page(struct client *c, const char *user, const char *flag, const char *value, char *output)
{
    const char *argv[] = {"page", "-F",     c->ini, "--feed", "notifications", "--workspace",
                          "w",    "--user", user,   flag,     value,           NULL};
    return world_run(&c->w, "src/bin/belfry-reader", argv, output, 65536);
}

Test(reader, once)
{
    static struct client c;
    static char output[65536];
    struct world_reply reply;
    client_open(&c, "reader_once");
    put_rows(&c, "u1", 5, "2026-03-21T09:00:00Z");
    cr_expect_eq(run_page(&c, "u1", NULL, NULL, output), 0);
    client_get(&c, FEED, &reply);
    json_t *told = json_loads(output, JSON_DISABLE_EOF_CHECK, NULL),
           *served = json_loads(reply.body, 0, NULL);
    /* A cursor holds when it was given. */
    cr_assert_eq(json_object_del(told, "prev_cursor"), 0);
    cr_assert_eq(json_object_del(served, "prev_cursor"), 0);
    cr_expect(json_equal(told, served), "the same JSON: %s %s", output, reply.body);
    json_decref(told);
    json_decref(served);
    world_reply_done(&reply);
    cr_expect_eq(run_page(&c, "u1", "--limit", "2", output), 0);
    json_t *page = json_loads(output, JSON_DISABLE_EOF_CHECK, NULL);
    cr_assert_eq(page_count(page), 2);
    cr_expect_eq(run_page(&c, "u1", "--cursor", page_cursor(page), output), 0);
    json_t *next = json_loads(output, JSON_DISABLE_EOF_CHECK, NULL);
    cr_expect_eq(page_count(next), 3);
    json_decref(next);
    cr_expect_eq(run_page(&c, "u2", "--cursor", page_cursor(page), output), 2, "another user's cursor");
    cr_expect_str_eq(output, "", "nothing on stdout");
    cr_expect_eq(run_page(&c, "u1", "--cursor", "nonsense", output), 2);
    cr_expect_eq(run_page(&c, "u1", "--direction", "sideways", output), 2);
    cr_expect_eq(run_page(&c, "", NULL, NULL, output), 2);
    cr_expect_eq(run_page(&c, "stranger", NULL, NULL, output), 1, "not a member");
    json_decref(page);
    client_close(&c);
}

/* ---- start and reload ---------------------------------------------------------------------------------- */

/* Serves with this text behind its ini until it leaves by itself; its exit code. */
static int start_code(struct client *c, const char *extra, char *output)
{
    char ini[WORLD_PATH_MAX];
    world_write_reader_ini(&c->w, extra, ini);
    const char *argv[] = {"-F", ini, NULL};
    return world_run(&c->w, "src/bin/belfry-reader", argv, output, 65536);
}

static bool last_log_has(struct client *c, const char *text)
{
    return child_log_has(&c->w.children[c->w.child_count - 1], text);
}

Test(reader, start)
{
    static struct client c;
    static char output[65536];
    char extra[1024];
    client_open(&c, "reader_start");
    cr_expect_eq(start_code(&c, "[cursor]\nkeys =\nsign_with =\n", output), 2, "no cursor key");
    cr_expect_eq(start_code(&c, "[cursor]\nkeys = 1:/nowhere/key\n", output), 2, "an unreadable key");
    cr_expect_eq(start_code(&c, "[cursor]\nsign_with = 2\n", output), 2, "an unknown signer");
    cr_expect_eq(start_code(&c, "[feed.posts]\nrelation = posts\n", output), 2, "a feed that shows nothing");
    snprintf(extra, sizeof extra, "[database]\nuri = %s\n", c.w.uri);
    cr_expect_eq(start_code(&c, extra, output), 1, "a role without belfry_reader's settings");
    cr_expect(last_log_has(&c, "statement_timeout"), "says which setting");
    world_exec(&c.w, "UPDATE schema_version SET oldest_ok = 1000 WHERE version = (SELECT max(version) FROM"
                     " schema_version)");
    cr_expect_eq(start_code(&c, NULL, output), 4, "a schema for newer binaries");
    cr_expect(last_log_has(&c, "upgrade"), "says what to do");
    client_close(&c);
}

/* The new key everywhere, then the switch, then the old one dropped: cursors live through it. */
Test(reader, keys)
{
    static struct client c;
    char path[WORLD_PATH_MAX + 16], extra[WORLD_PATH_MAX * 3], base[64], query[URL_MAX - 256];
    client_open(&c, "reader_keys");
    put_rows(&c, "u1", 30, "2026-03-21T09:00:00Z");
    json_t *page = client_page(&c, "limit=5");
    snprintf(query, sizeof query, "limit=5&cursor=%s", page_cursor(page));
    json_decref(page);
    snprintf(path, sizeof path, "%s/new.hex", c.w.folder);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    for (int i = 0; i < 64; i++)
        fputc('a', file);
    fclose(file);
    snprintf(extra, sizeof extra, "[cursor]\nkeys = 1:%s/keys.hex 2:%s\nsign_with = 2\n", c.w.folder, path);
    child_stop(c.reader);
    c.reader = world_reader(&c.w, extra, base);
    client_move(&c, base);
    page = client_page(&c, query);
    snprintf(query, sizeof query, "limit=5&cursor=%s", page_cursor(page));
    json_decref(page);
    snprintf(extra, sizeof extra, "[cursor]\nkeys = 2:%s\nsign_with = 2\n", path);
    child_stop(c.reader);
    c.reader = world_reader(&c.w, extra, base);
    client_move(&c, base);
    json_decref(client_page(&c, query));
    /* Another secret under the same id, by SIGHUP: the old cursors are forgeries now. */
    file = fopen(path, "w");
    cr_assert_not_null(file);
    for (int i = 0; i < 64; i++)
        fputc('b', file);
    fclose(file);
    child_signal(c.reader, SIGHUP);
    child_wait_log(c.reader, "READ-KEYS", 5);
    char refused[URL_MAX];
    snprintf(refused, sizeof refused, FEED "?%s", query);
    client_refused(&c, refused, 400, "invalid_cursor");
    client_close(&c);
}
