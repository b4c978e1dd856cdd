/* OPS-05 and OPS-07 of shared/cases.md: the database goes away and comes back under all three binaries; and
 * no secret stands in any log, metric or topic where it does not belong. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

/* -- OPS-05
 * ------------------------------------------------------------------------------------------------------ */

struct server {
    char folder[WORLD_PATH_MAX], script[WORLD_PATH_MAX];
};

static void call_server(struct world *w, const struct server *server, const char *what, const char *mode,
                        char *uri)
{
    char output[512];
    const char *argv[] = {what, server->folder, mode, NULL};
    int code = world_run(w, server->script, argv, output, sizeof output);
    cr_assert(code == 0, "postgres %s left with %d", what, code);
    if (uri != NULL) {
        output[strcspn(output, "\n")] = '\0';
        snprintf(uri, 256, "%s", output);
    }
}

static void open_server(struct world *w, struct server *server)
{
    char uri[256];
    snprintf(server->folder, sizeof server->folder, "%.400s/postgres", w->folder);
    snprintf(server->script, sizeof server->script, "%s/tests/support/postgres", BELFRY_SOURCE_DIR);
    call_server(w, server, "start", NULL, uri);
    world_use_server(w, uri);
}

static void produce_events(struct world *w, int from, int to)
{
    char value[512];
    for (int i = from; i < to; i++) {
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u%d\","
            "\"title\":\"number %d\"}",
            i, i % 20, i);
        world_produce_fast(w, w->events, -1, NULL, value);
    }
    world_flush(w);
}

static long feed_status(struct world *w, const char *base, struct world_reply *reply)
{
    static char header[4200];
    char url[256], token[4096], path[WORLD_PATH_MAX];
    if (header[0] == '\0') {
        world_write_reader_ini(w, NULL, path);
        const char *argv[] = {"token", "-F", path, "--sub", "u1", NULL};
        cr_assert(world_run(w, "src/bin/belfry-reader", argv, token, sizeof token) == 0,
                  "belfry-reader token");
        token[strcspn(token, "\r\n")] = '\0';
        snprintf(header, sizeof header, "Authorization: Bearer %s", token);
    }
    const char *headers[] = {header, NULL};
    snprintf(url, sizeof url, "%s/v1/workspaces/w/feeds/notifications", base);
    world_http("GET", url, headers, NULL, reply);
    return reply->status;
}

struct reading {
    struct world *w;
    const char *base;
    long wanted;
};

static bool answers(void *context)
{
    struct reading *reading = context;
    struct world_reply reply;
    long status = feed_status(reading->w, reading->base, &reply);
    world_reply_done(&reply);
    return status == reading->wanted;
}

static void end_sessions(struct world *w, const char *state)
{
    int64_t ended =
        world_count(w,
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = "
                    "current_database() AND pid <> pg_backend_pid() AND state = '%s' AND usename LIKE "
                    "'belfry_%%'",
                    state);
    printf("ended %lld sessions that were %s\n", (long long)ended, state);
}

Test(cases, ops_05, .timeout = 200)
{
    struct world w;
    struct server server;
    char base[64];
    world_open(&w, "ops05");
    open_server(&w, &server);
    world_database(&w);
    world_topics(&w, 2);
    world_simulator(&w, NULL);
    world_exec(&w, "SELECT belfry_set_member('w', 'u1', 'member')");
    struct child *dispatcher = world_dispatcher(&w, NULL);
    struct child *reconciler = world_reconciler(&w, NULL);
    struct child *reader = world_reader(&w, NULL, base);
    world_register(&w, "u1", "ExponentPushToken[ops-05-one]");
    world_flush(&w);
    world_wait_count(&w, 1, "SELECT count(*) FROM device_tokens");
    produce_events(&w, 0, 500);
    world_wait_count(&w, 500, "SELECT count(*) FROM notifications");
    struct reading reading = {.w = &w, .base = base, .wanted = 200};
    world_wait("a page", 10, answers, &reading);

    /* Sessions ended while idle, and in the middle of a statement (a lock holds it there). */
    end_sessions(&w, "idle");
    produce_events(&w, 500, 1000);
    world_wait_count(&w, 1000, "SELECT count(*) FROM notifications");
    world_exec(&w, "BEGIN; LOCK TABLE notifications IN EXCLUSIVE MODE");
    produce_events(&w, 1000, 1500);
    world_sleep_ms(700);
    end_sessions(&w, "active");
    world_exec(&w, "COMMIT");
    world_wait_count(&w, 1500, "SELECT count(*) FROM notifications");

    /* The server down under load: 503 meanwhile, never an empty list. */
    call_server(&w, &server, "stop", "immediate", NULL);
    produce_events(&w, 1500, 2000);
    struct world_reply reply;
    long status = feed_status(&w, base, &reply);
    printf("reader while the database is away: %ld %s\n", status, reply.body);
    cr_expect(status == 503 && strstr(reply.body, "\"unavailable\"") != NULL);
    world_reply_done(&reply);
    call_server(&w, &server, "start", NULL, NULL);
    world_reconnect(&w);
    world_wait_count(&w, 2000, "SELECT count(*) FROM notifications");
    world_wait("a page again", 20, answers, &reading);
    world_wait_drained(&w, w.group, w.events, 30);
    world_wait_count(&w, 0, "SELECT count(*) FROM dispatches WHERE state IN ('queued', 'sent')");
    printf("2000 events, %lld notifications, %lld delivered, accepted %lld\n",
           (long long)world_count(&w, "SELECT count(*) FROM notifications"),
           (long long)world_count(&w, "SELECT count(*) FROM dispatches WHERE state = 'delivered'"),
           (long long)simulator_accepted(&w, NULL));
    world_check_books(&w);
    child_stop(dispatcher);
    child_stop(reconciler);
    child_stop(reader);
    call_server(&w, &server, "stop", "fast", NULL);
    world_close(&w);
}

/* A link that fails in every way a link can, in front of the database of all three binaries. */
struct linked {
    struct world w;
    struct reading reading;
    char proxy[64], base[64];
    int events, unavailable, pages;
};

enum { USERS = 20, EVENTS_A_ROUND = 3 * USERS };

/* Events go on while the link is in this state; the reader answers 200 with rows, or 503. */
static void under(struct linked *t, const char *command, bool must_fail)
{
    int64_t until_ms = world_now_ms() + 15000;
    int unavailable = t->unavailable, rounds = 0;
    proxy_say(t->proxy, command);
    while (rounds < 5 || (must_fail && t->unavailable == unavailable && world_now_ms() < until_ms)) {
        struct world_reply reply;
        produce_events(&t->w, t->events, t->events + EVENTS_A_ROUND);
        t->events += EVENTS_A_ROUND;
        rounds++;
        long status = feed_status(&t->w, t->base, &reply);
        cr_expect(status == 503 || (status == 200 && strstr(reply.body, "\"items\":[]") == NULL),
                  "%s: %ld %s", command, status, reply.body);
        t->unavailable += status == 503;
        t->pages += status == 200;
        world_reply_done(&reply);
        world_sleep_ms(100);
    }
    cr_expect(!must_fail || t->unavailable > unavailable, "%s: the reader noticed nothing", command);
}

static void settle_after(struct linked *t, const char *what)
{
    proxy_say(t->proxy, "pass");
    world_wait_count(&t->w, t->events, "SELECT count(*) FROM notifications");
    world_wait("a page again", 20, answers, &t->reading);
    printf("%s: %d events, each one row; so far %d pages and %d times 503\n", what, t->events, t->pages,
           t->unavailable);
}

static void open_linked(struct linked *t, struct child **children)
{
    static const char *const roles[] = {"belfry_dispatcher", "belfry_reconciler", "belfry_reader"};
    char extra[3][256];
    world_open(&t->w, "ops05_link");
    world_database(&t->w);
    world_topics(&t->w, 2);
    world_simulator(&t->w, NULL);
    world_exec(&t->w, "SELECT belfry_set_member('w', 'u1', 'member')");
    (void)world_proxy(&t->w, atoi(strrchr(t->w.superuser_uri, ':') + 1), t->proxy);
    for (int i = 0; i < 3; i++)
        snprintf(extra[i], sizeof extra[i], "[database]\nuri = postgresql://%s@%s/%s\n", roles[i], t->proxy,
                 t->w.database);
    children[0] = world_dispatcher(&t->w, extra[0]);
    children[1] = world_reconciler(&t->w, extra[1]);
    children[2] = world_reader(&t->w, extra[2], t->base);
    t->reading = (struct reading){.w = &t->w, .base = t->base, .wanted = 200};
    world_register(&t->w, "u1", "ExponentPushToken[ops-05-link]");
    world_flush(&t->w);
    world_wait_count(&t->w, 1, "SELECT count(*) FROM device_tokens");
}

/* OPS-05, "firewall drop without a reset", and its neighbours: what was asked was done and the answer got
 * lost, the connection is reset or half closed in the middle of an answer, bytes come one by one, or late. */
Test(cases, ops_05_link, .timeout = 200)
{
    static struct linked t;
    struct child *children[3];
    open_linked(&t, children);
    under(&t, "pass", false);
    settle_after(&t, "before");
    under(&t, "drop", true);
    for (int i = 0; i < 2; i++)
        child_wait_log(children[i], "no answer within", 60);
    settle_after(&t, "dropped without a reset");
    under(&t, "lose 5", false);
    settle_after(&t, "five answers lost after the work was done");
    under(&t, "refuse", true);
    settle_after(&t, "refused");
    for (int i = 1; i <= 4; i++) {
        char command[32];
        snprintf(command, sizeof command, "%s %d", i % 2 == 1 ? "reset" : "half", 37 * i * i);
        under(&t, command, false);
    }
    settle_after(&t, "reset and half closed inside answers");
    under(&t, "slice", false);
    under(&t, "delay 40", false);
    settle_after(&t, "byte by byte, and 40 ms late");
    world_wait_drained(&t.w, t.w.group, t.w.events, 30);
    world_wait_count(&t.w, 0, "SELECT count(*) FROM dispatches WHERE state IN ('queued', 'sent')");
    int64_t dispatches = world_count(&t.w, "SELECT count(*) FROM dispatches");
    int64_t delivered = world_count(&t.w, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    int64_t accepted = simulator_accepted(&t.w, NULL);
    printf("%d events, %lld dispatches, %lld delivered, accepted %lld\n", t.events, (long long)dispatches,
           (long long)delivered, (long long)accepted);
    cr_expect_eq(delivered, accepted, "no push was accepted twice, none without its state");
    cr_expect_eq(world_count(&t.w, "SELECT count(*) FROM dispatches WHERE state = 'failed' AND"
                                   " error <> 'Unconfirmed'"),
                 0);
    cr_expect_eq(dispatches, t.events / USERS);
    world_check_books(&t.w);
    for (int i = 0; i < 3; i++)
        child_stop(children[i]);
    world_close(&t.w);
}

/* -- OPS-07
 * ------------------------------------------------------------------------------------------------------ */

static const char *const canaries[] = {
    "canary-token-",     "canary-access-9d1f", "canary-dbpass-77aa",       "canary body text",
    "canary title text", "Canary Data Value",  "c0ffee00c0ffee00c0ffee00",
};
enum { CANARIES = sizeof canaries / sizeof canaries[0] };

struct found {
    int count;
    const char *where;
};

static void look_in(struct found *found, const char *where, const char *text)
{
    for (int i = 0; text != NULL && i < CANARIES; i++) {
        if (strstr(text, canaries[i]) != NULL) {
            printf("canary \"%s\" stands in %s\n", canaries[i], where);
            found->count++;
        }
    }
}

static void look_in_record(void *context, const struct world_record *record)
{
    struct found *found = context;
    look_in(found, found->where, record->value);
    look_in(found, found->where, record->key);
    for (int i = 0; i < record->header_count; i++)
        look_in(found, found->where, record->headers[i].value);
}

static void look_in_logs(struct world *w, struct found *found)
{
    for (int i = 0; i < CANARIES; i++) {
        for (int k = 0; k < w->child_count; k++) {
            if (strstr(w->children[k].name, "simulator") == NULL &&
                child_log_has(&w->children[k], canaries[i])) {
                printf("canary \"%s\" stands in %s\n", canaries[i], w->children[k].log);
                found->count++;
            }
        }
    }
}

static void look_in_metrics(struct found *found, struct child *child)
{
    char url[128];
    struct world_reply reply;
    snprintf(url, sizeof url, "http://%s/metrics", child->admin);
    world_http("GET", url, NULL, NULL, &reply);
    cr_assert(reply.status == 200 && strstr(reply.body, "belfry_") != NULL, "no metrics: %ld", reply.status);
    look_in(found, url, reply.body);
    world_reply_done(&reply);
}

static void write_file(struct world *w, const char *name, const char *text, char *path)
{
    snprintf(path, WORLD_PATH_MAX, "%.400s/%s", w->folder, name);
    FILE *stream = fopen(path, "w");
    cr_assert(stream != NULL);
    fputs(text, stream);
    fclose(stream);
}

static void produce_canaries(struct world *w)
{
    static const char *const users[] = {"ok", "gone", "html", "cut", "count", "late"};
    char value[1024];
    for (int i = 0; i < 6; i++) {
        char token[96];
        snprintf(token, sizeof token, "ExponentPushToken[canary-token-%s]", users[i]);
        world_register(w, users[i], token);
    }
    world_flush(w);
    world_wait_count(w, 6, "SELECT count(*) FROM device_tokens");
    for (int i = 0; i < 6; i++) {
        for (int bad = 0; bad < 2; bad++) {
            snprintf(value, sizeof value,
                     "{\"run_id\":\"c%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":"
                     "\"%s\","
                     "\"title\":\"canary title text%s\",\"body\":\"canary body "
                     "text\",\"data\":{\"a\":\"Canary Data "
                     "Value\"}}",
                     i, users[i], bad ? " refused" : "");
            world_produce(w, w->events, 0, NULL, value);
        }
    }
    /* Broken in every way that quotes the input if a parser is careless. */
    world_produce(w, w->events, 0, NULL, "{\"title\":\"canary title text\",\"body\":\"canary body text\"");
    world_produce(w, w->events, 0, NULL, "{\"title\":\"canary title text\",\"title\":\"canary body text\"}");
    world_produce(w, w->devices, 0, NULL,
                  "{\"op\":\"register\",\"token\":\"ExponentPushToken[canary-token-bad]\"}");
    world_produce(w, w->receipts, 0, NULL, "{\"v\":1,\"dispatch_id\":\"canary body text\"");
}

static void script_failures(struct world *w)
{
    simulator_script(
        w,
        "[{\"when\":{\"token\":\"canary-token-gone\"},\"do\":{\"ticket_error\":\"DeviceNotRegistered\"}},"
        "{\"when\":{\"token\":\"canary-token-html\"},\"do\":{\"status\":502,\"body\":\"<html>"
        "ExponentPushToken[canary-token-html] canary body text</html>\",\"content_type\":\"text/html\"}},"
        "{\"when\":{\"token\":\"canary-token-cut\"},\"do\":{\"close\":\"mid_body\"}},"
        "{\"when\":{\"token\":\"canary-token-count\"},\"do\":{\"tickets\":[]}},"
        "{\"when\":{\"token\":\"canary-token-late\"},\"do\":{\"receipt_error\":\"MessageRateExceeded\"}}]");
}

Test(cases, ops_07, .timeout = 120)
{
    struct world w;
    struct found found = {0};
    char base[64], extra[1024], path[WORLD_PATH_MAX], key[WORLD_PATH_MAX];
    world_open(&w, "ops07");
    world_database(&w);
    world_topics(&w, 1);
    const char *arguments[] = {"--access-token", "canary-access-9d1f", NULL};
    world_simulator(&w, arguments);
    script_failures(&w);
    world_exec(&w, "ALTER TABLE notifications ADD CONSTRAINT refuses CHECK (title NOT LIKE '%%refused')");
    write_file(&w, "provider-token", "canary-access-9d1f\n", path);
    write_file(&w, "canary.hex", "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00\n", key);
    const char *server = strchr(w.superuser_uri, '@') + 1;
    int host = (int)strcspn(server, "/");
    snprintf(extra, sizeof extra,
             "[database]\nuri = "
             "postgresql://belfry_dispatcher:canary-dbpass-77aa@%.*s/%s\n[provider]\ntoken_file = "
             "%.400s\n[fanout]\nchunk_size = 1\n",
             host, server, w.database, path);
    struct child *dispatcher = world_dispatcher(&w, extra);
    snprintf(extra, sizeof extra,
             "[database]\nuri = "
             "postgresql://belfry_reconciler:canary-dbpass-77aa@%.*s/%s\n[provider]\ntoken_file = "
             "%.400s\n",
             host, server, w.database, path);
    struct child *reconciler = world_reconciler(&w, extra);
    snprintf(extra, sizeof extra,
             "[database]\nuri = postgresql://belfry_reader:canary-dbpass-77aa@%.*s/%s\n[cursor]\nkeys = "
             "1:%.380s\n",
             host, server, w.database, key);
    struct child *reader = world_reader(&w, extra, base);
    produce_canaries(&w);
    world_wait_count(&w, 6, "SELECT count(*) FROM notifications");
    world_wait_count(&w, 0, "SELECT count(*) FROM dispatches WHERE state IN ('queued', 'sent')");
    world_wait_drained(&w, w.group, w.events, 20);

    look_in_metrics(&found, dispatcher);
    look_in_metrics(&found, reconciler);
    look_in_metrics(&found, reader);
    found.where = "the receipts topic";
    world_read_topic(&w, w.receipts, look_in_record, &found);
    int in_receipts = found.count;
    char dump[WORLD_PATH_MAX], shown[16384];
    world_write_dispatcher_ini(&w, NULL, dump);
    const char *argv[] = {"-F", dump, "--dump-config", NULL};
    cr_assert(world_run(&w, "src/bin/belfry-dispatcher", argv, shown, sizeof shown) == 0);
    look_in(&found, "--dump-config", shown);
    child_stop(dispatcher);
    child_stop(reconciler);
    child_stop(reader);
    look_in_logs(&w, &found);
    printf("states: delivered %lld, failed %lld, receipt_error %lld; canaries found: %d (receipts: %d, of "
           "which one "
           "was planted there)\n",
           (long long)world_count(&w, "SELECT count(*) FROM dispatches WHERE state = 'delivered'"),
           (long long)world_count(&w, "SELECT count(*) FROM dispatches WHERE state = 'failed'"),
           (long long)world_count(&w, "SELECT count(*) FROM dispatches WHERE state = 'receipt_error'"),
           found.count, in_receipts);
    cr_expect(found.count == 1 && in_receipts == 1, "only the planted record may hold one");
    world_close(&w);
}
