/* What an operator does to running processes: asks them to leave, changes the log level, rotates keys; and
 * the files he was careless with. All three binaries; real Kafka and Postgres. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reader_client.h"

enum { BINARIES = 3, OUTPUT_MAX = 65536 };

static const char KEY_A[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
    cr_assert_eq(chmod(path, mode), 0);
}

static int log_count(const struct child *child, const char *text)
{
    int count = 0;
    char line[8192];
    FILE *file = fopen(child->log, "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

static void wait_log_count(const struct child *child, const char *text, int count)
{
    for (int tries = 0; log_count(child, text) < count; tries++) {
        cr_assert(tries < 500, "%s never logged %s %d times: see %s", child->name, text, count, child->log);
        world_sleep_ms(20);
    }
}

/* ---- leaving ------------------------------------------------------------------------------------------- */

/* Sends a request for u1's page and does not wait for the answer. */
static int ask_page(const struct client *c)
{
    char request[TOKEN_MAX + 256], answer[64];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)atoi(strrchr(c->base, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    int bytes = snprintf(request, sizeof request,
                         "GET /v1/workspaces/w/feeds/notifications HTTP/1.1\r\nHost: belfry\r\n%s\r\n\r\n",
                         c->authorization);
    cr_assert_eq(send(fd, request, (size_t)bytes, 0), bytes);
    cr_assert_lt(recv(fd, answer, sizeof answer, MSG_DONTWAIT), 0, "it was to wait for the lock");
    return fd;
}

static void expect_endpoint(const struct child *child, const char *path, long status, const char *text)
{
    char url[128];
    struct world_reply reply;
    snprintf(url, sizeof url, "http://%s%s", child->admin, path);
    for (int tries = 0; tries < 100; tries++) {
        world_http("GET", url, NULL, NULL, &reply);
        if (reply.status == status)
            break;
        world_reply_done(&reply);
        world_sleep_ms(20);
        reply = (struct world_reply){0};
    }
    cr_expect(reply.status == status && strstr(reply.body, text) != NULL, "%s %s: %ld %s", child->name, path,
              reply.status, reply.body);
    printf("%s %s %ld %s", child->name, path, reply.status, reply.body == NULL ? "\n" : reply.body);
    world_reply_done(&reply);
}

/* Each has a statement in hand that waits for our lock when it is told to leave: not ready from then on,
 * alive, and it leaves with 0 once its work is done. */
Test(health, leaving, .timeout = 100)
{
    static struct client c;
    char answer[16] = "";
    client_open(&c, "leaving");
    world_topics(&c.w, 1);
    world_simulator(&c.w, NULL);
    world_exec(&c.w, "ALTER ROLE belfry_reader IN DATABASE %s SET statement_timeout = '60s'", c.w.database);
    child_stop(c.reader);
    struct child *all[BINARIES] = {world_dispatcher(&c.w, "[run]\nroles = ingest\n"),
                                   world_reconciler(&c.w, NULL),
                                   world_reader(&c.w, "[http]\nstatement_timeout = 60s\n", c.base)};
    c.reader = all[2];
    world_exec(&c.w, "BEGIN; LOCK TABLE notifications, dispatches IN ACCESS EXCLUSIVE MODE");
    world_produce(
        &c.w, c.w.events, 0, NULL,
        "{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u1\","
        "\"title\":\"t\"}");
    world_produce(&c.w, c.w.receipts, 0, NULL,
                  "{\"v\":1,\"dispatch_id\":\"1048576\",\"notification_id\":"
                  "\"00000000-0000-0000-0000-000000000001\",\"device_id\":\"1\",\"state\":\"failed\","
                  "\"error\":\"Unconfirmed\"}");
    int page = ask_page(&c);
    world_wait_count(
        &c.w, BINARIES,
        "SELECT least(count(DISTINCT pid), 3) FROM pg_locks JOIN pg_database d ON d.oid = database"
        " WHERE NOT granted AND datname = current_database()");
    for (int i = 0; i < BINARIES; i++) {
        expect_endpoint(all[i], "/readyz", 200, "{\"ready\":true,\"reasons\":[]");
        child_signal(all[i], SIGTERM);
        expect_endpoint(all[i], "/readyz", 503, "{\"part\":\"process\",\"reason\":\"leaving\"}");
        expect_endpoint(all[i], "/livez", 200, "alive");
        cr_expect(child_running(all[i]));
    }
    world_exec(&c.w, "COMMIT");
    for (int i = 0; i < BINARIES; i++)
        cr_expect_eq(child_wait(all[i], 30), 0, "%s", all[i]->name);
    cr_assert_eq(recv(page, answer, 12, MSG_WAITALL), 12);
    cr_expect_str_eq(answer, "HTTP/1.1 200", "what was asked before is answered");
    close(page);
    cr_expect_eq(world_count(&c.w, "SELECT count(*) FROM notifications"), 1);
    printf("3 binaries: not ready at once, alive until their statement was done, exit 0\n");
    world_close(&c.w);
}

/* ---- reload -------------------------------------------------------------------------------------------- */

typedef void write_ini(struct world *w, const char *extra, char *path);

/* Another ini in the place of the one the child was started with, and SIGHUP. */
static void reload(struct world *w, struct child *child, write_ini *write, const char *extra)
{
    char path[WORLD_PATH_MAX];
    write(w, extra, path);
    cr_assert_eq(rename(path, child->ini), 0);
    child_signal(child, SIGHUP);
}

/* CONF-RELOAD stands at info: a process at warn says it only if the new level is in force. */
Test(health, reload, .timeout = 100)
{
    static write_ini *const write[BINARIES] = {world_write_dispatcher_ini, world_write_reconciler_ini,
                                               world_write_reader_ini};
    static const char quiet[] = "[run]\nlog_level = warn\n", loud[] = "[run]\nlog_level = debug\n";
    struct world w;
    char base[64];
    world_open(&w, "reload");
    world_database(&w);
    world_topics(&w, 1);
    struct child *all[BINARIES] = {world_dispatcher(&w, quiet), world_reconciler(&w, quiet),
                                   world_reader(&w, quiet, base)};
    for (int i = 0; i < BINARIES; i++) {
        int before = log_count(all[i], "\"level\":\"info\"");
        reload(&w, all[i], write[i], loud);
        wait_log_count(all[i], "CONF-RELOAD", 1);
        reload(&w, all[i], write[i], "[run]\nlog_level = noisy\n");
        wait_log_count(all[i], "nothing changed", 1);
        cr_expect(child_log_has(all[i], "\\\"noisy\\\" is none of debug|info|warn|error"));
        printf("%s: lines at info before %d, after log_level = debug %d; a wrong level changed nothing\n",
               all[i]->name, before, log_count(all[i], "\"level\":\"info\""));
        cr_expect_eq(before, 0);
        child_stop(all[i]);
        cr_expect(child_log_has(all[i], "RUN-END"), "the good level was kept");
    }
    world_close(&w);
}

struct rotation {
    struct client c;
    char new_key[WORLD_PATH_MAX];
    char old_cursor[CURSOR_MAX], new_cursor[CURSOR_MAX];
    char old_token[TOKEN_MAX + 32], new_token[TOKEN_MAX + 32];
    int steps;
};

/* The reader's lists from now on; $ stands for the new key's path. */
static void rotate(struct rotation *r, const char *cursor, const char *auth)
{
    char extra[WORLD_PATH_MAX * 5], list[WORLD_PATH_MAX * 5];
    snprintf(list, sizeof list, "[cursor]\n%s\n[auth]\nkeys = %s\n", cursor, auth);
    size_t used = 0;
    for (const char *at = list; *at != '\0'; at++) {
        const char *text = *at == '$' ? r->new_key : *at == '@' ? r->c.w.folder : NULL;
        used += (size_t)snprintf(extra + used, sizeof extra - used, "%.*s", text == NULL ? 1 : WORLD_PATH_MAX,
                                 text == NULL ? at : text);
    }
    reload(&r->c.w, r->c.reader, world_write_reader_ini, extra);
    snprintf(r->c.ini, sizeof r->c.ini, "%s", r->c.reader->ini);
}

static void rotate_well(struct rotation *r, const char *cursor, const char *auth)
{
    rotate(r, cursor, auth);
    wait_log_count(r->c.reader, "\"READ-KEYS\"", ++r->steps);
}

static void take_cursor(struct rotation *r, char cursor[CURSOR_MAX])
{
    json_t *page = client_page(&r->c, "limit=5");
    snprintf(cursor, CURSOR_MAX, "%s", page_cursor(page));
    json_decref(page);
}

static long ask(struct rotation *r, const char *cursor, const char *token)
{
    char path[URL_MAX];
    struct world_reply reply;
    snprintf(r->c.authorization, sizeof r->c.authorization, "%s", token);
    snprintf(path, sizeof path, "/v1/workspaces/w/feeds/notifications?limit=5&cursor=%s", cursor);
    client_get(&r->c, path, &reply);
    long status = reply.status;
    world_reply_done(&reply);
    return status;
}

/* Statuses of old cursor and old token, and of the new ones ("" : there is none yet). */
static void expect_asks(struct rotation *r, const char *step, long old_cursor, long old_token)
{
    bool fresh = r->new_token[0] != '\0';
    const char *good = fresh ? r->new_token : r->old_token;
    long cursor = ask(r, r->old_cursor, good),
         token = ask(r, fresh ? r->new_cursor : r->old_cursor, r->old_token);
    long both = fresh ? ask(r, r->new_cursor, r->new_token) : 200;
    printf("%s: old cursor %ld, old token %ld, new ones %ld\n", step, cursor, token, both);
    cr_expect_eq(cursor, old_cursor, "%s: old cursor", step);
    cr_expect_eq(token, old_token, "%s: old token", step);
    cr_expect_eq(both, 200, "%s: new cursor and token", step);
}

/* deploy/README.md "Rotate", without a restart. */
Test(health, key_rotation, .timeout = 100)
{
    static const char both_old_signs[] = "keys = 1:@/keys.hex c2:$\nsign_with = 1";
    static const char both[] = "keys = 1:@/keys.hex c2:$\nsign_with = c2";
    static const char both_auth[] = "k2:HS256:$ dev:HS256:@/keys.hex";
    static struct rotation r;
    client_open(&r.c, "rotation");
    pid_t pid = r.c.reader->pid;
    snprintf(r.new_key, sizeof r.new_key, "%.400s/new.hex", r.c.w.folder);
    write_file(r.new_key, KEY_A, 0600);
    put_rows(&r.c, "u1", 30, "2026-03-21T09:00:00Z");
    snprintf(r.old_token, sizeof r.old_token, "%s", r.c.authorization);
    take_cursor(&r, r.old_cursor);

    rotate_well(&r, both_old_signs, both_auth);
    expect_asks(&r, "new keys known", 200, 200);
    client_be(&r.c, "u1"); /* signed by k2 */
    snprintf(r.new_token, sizeof r.new_token, "%s", r.c.authorization);
    rotate_well(&r, both, both_auth);
    take_cursor(&r, r.new_cursor);
    expect_asks(&r, "new keys sign", 200, 200);

    rotate(&r, "keys = c2:/nowhere/key\nsign_with = c2", "k2:HS256:$");
    wait_log_count(r.c.reader, "nothing changed", 1);
    rotate(&r, "keys = c2:$\nsign_with = 1", "k2:HS256:$");
    wait_log_count(r.c.reader, "nothing changed", 2);
    rotate(&r, both, "k2:HS256:$ k2:HS256:$");
    wait_log_count(r.c.reader, "nothing changed", 3);
    expect_asks(&r, "three broken lists", 200, 200);

    rotate_well(&r, "keys = c2:$\nsign_with = c2", "k2:HS256:$");
    expect_asks(&r, "old keys dropped", 400, 401);
    cr_expect_eq(r.c.reader->pid, pid);
    client_close(&r.c);
}

/* ---- files that others can read ------------------------------------------------------------------------ */

static char *log_text(const struct child *child)
{
    static char text[OUTPUT_MAX];
    FILE *file = fopen(child->log, "r");
    cr_assert_not_null(file);
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    fclose(file);
    return text;
}

/* Each warning once while the files are open to others, none when they are not; the exit code is 0. */
static void check_warnings(struct world *w, const char *binary, const char *ini, const char *const *wanted)
{
    const char *argv[] = {"-F", ini, "--check-config", NULL};
    char output[1024];
    cr_expect_eq(world_run(w, binary, argv, output, sizeof output), 0);
    cr_expect_not_null(strstr(output, "the configuration is good"));
    const char *said = log_text(&w->children[w->child_count - 1]);
    int lines = 0, count = 0;
    for (const char *at = said; (at = strstr(at, ": warning: ")) != NULL; at++)
        lines++;
    for (; wanted[count] != NULL; count++)
        cr_expect_not_null(strstr(said, wanted[count]), "%s says nothing of %s: %s", binary, wanted[count],
                           said);
    cr_expect_eq(lines, count, "%s: %s", binary, said);
    printf("%s: %d warnings\n%s", binary, lines, said);
}

Test(health, loose_files, .timeout = 100)
{
    struct world w;
    char uri[WORLD_PATH_MAX], token[WORLD_PATH_MAX], key[WORLD_PATH_MAX], base[64];
    char extra[4 * WORLD_PATH_MAX], ini[BINARIES][WORLD_PATH_MAX];
    world_open(&w, "loose");
    world_database(&w);
    snprintf(uri, sizeof uri, "%.400s/uri", w.folder);
    snprintf(token, sizeof token, "%.400s/token", w.folder);
    snprintf(key, sizeof key, "%.400s/own.hex", w.folder);
    write_file(uri, world_role_uri(&w, "belfry_reader"), 0644);
    write_file(token, "secret\n", 0644);
    write_file(key, KEY_A, 0644);
    snprintf(extra, sizeof extra,
             "[provider]\ntoken_file = %s\n[preferences]\nurl = http://127.0.0.1:9/\ntoken_file = %s\n",
             token, token);
    world_write_dispatcher_ini(&w, extra, ini[0]);
    snprintf(extra, sizeof extra, "[provider]\ntoken_file = %s\n[kafka]\nssl.key.location = %s\n", token,
             key);
    world_write_reconciler_ini(&w, extra, ini[1]);
    snprintf(extra, sizeof extra,
             "[database]\nread_uri_file = %s\n[cursor]\nkeys = 1:%s\n[auth]\nkeys = a:HS256:%s\n", uri, key,
             key);
    world_write_reader_ini(&w, extra, ini[2]);
    static const char *const binaries[BINARIES] = {"src/bin/belfry-dispatcher", "src/bin/belfry-reconciler",
                                                   "src/bin/belfry-reader"};
    static const char *const wanted[BINARIES][4] = {{"/token ([provider] token_file) can be read by others",
                                                     "/token ([preferences] token_file) can be read"},
                                                    {"/token ([provider] token_file) can be read by others",
                                                     "/own.hex ([kafka] ssl.key.location) can be read"},
                                                    {"/uri ([database] read_uri_file) can be read by others",
                                                     "[cursor] keys: the file of key 1 can be read by others",
                                                     "[auth] keys: the file of key a can be read"}};
    static const char *const none[] = {NULL};
    for (int i = 0; i < BINARIES; i++)
        check_warnings(&w, binaries[i], ini[i], wanted[i]);
    struct child *reader = world_reader(&w, extra, base); /* and at the start */
    cr_expect_eq(log_count(reader, "\"CONF-WARN\""), 3);
    child_stop(reader);
    cr_assert(chmod(uri, 0640) == 0 && chmod(token, 0640) == 0 && chmod(key, 0600) == 0);
    for (int i = 0; i < BINARIES; i++)
        check_warnings(&w, binaries[i], ini[i], none);
    world_close(&w);
}

/* ---- what a first start meets -------------------------------------------------------------------------- */

struct start {
    const char *binary;
    write_ini *write;
    bool kafka; /* it has a part that works on Kafka */
};

static const struct start starts[BINARIES] = {
    {"src/bin/belfry-dispatcher", world_write_dispatcher_ini, true},
    {"src/bin/belfry-reconciler", world_write_reconciler_ini, true},
    {"src/bin/belfry-reader", world_write_reader_ini, false},
};

/* Leaves by itself with this code, and the last line of the log says what to do. */
static void expect_leaves(struct world *w, const struct start *start, const char *extra, int code,
                          const char *says)
{
    char ini[WORLD_PATH_MAX];
    start->write(w, extra, ini);
    const char *argv[] = {"-F", ini, NULL};
    cr_expect_eq(world_run(w, start->binary, argv, NULL, 0), code, "%s %s", start->binary, extra);
    char *said = log_text(&w->children[w->child_count - 1]);
    said[strlen(said) - 1] = '\0'; /* the last newline */
    const char *last = strrchr(said, '\n') == NULL ? said : strrchr(said, '\n') + 1;
    cr_expect_not_null(strstr(last, says), "%s: %s", start->binary, last);
    printf("exit %d: %s\n", code, last);
}

/* Stays, not ready, and /readyz has the reason; leaves with 0 when told to. */
static void expect_waits(struct world *w, const struct start *start, const char *extra, const char *reason)
{
    char ini[WORLD_PATH_MAX], both[512];
    int port = world_free_port();
    snprintf(both, sizeof both, "[admin]\nlisten = 127.0.0.1:%d\n%s", port, extra);
    start->write(w, both, ini);
    const char *argv[] = {"-F", ini, NULL};
    struct child *child = child_start(w, start->binary, argv, NULL);
    snprintf(child->admin, sizeof child->admin, "127.0.0.1:%d", port);
    char url[128];
    struct world_reply reply = {0};
    snprintf(url, sizeof url, "http://%s/readyz", child->admin);
    for (int tries = 0; tries < 500 && (reply.status != 503 || strstr(reply.body, reason) == NULL); tries++) {
        world_reply_done(&reply);
        world_sleep_ms(20);
        world_http("GET", url, NULL, NULL, &reply);
    }
    cr_expect(reply.status == 503 && strstr(reply.body, reason) != NULL, "%s: %ld %s", start->binary,
              reply.status, reply.body);
    printf("%s %s", start->binary, reply.body == NULL ? "\n" : reply.body);
    world_reply_done(&reply);
    child_stop(child);
}

Test(health, first_start, .timeout = 100)
{
    struct world w;
    char port_taken[128], no_database[256], no_server[] = "[database]\nuri = postgresql://u@127.0.0.1:9/d\n";
    world_open(&w, "first_start");
    world_database(&w);
    world_topics(&w, 1);
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    cr_assert(bind(taken, (struct sockaddr *)&address, bytes) == 0 && listen(taken, 1) == 0 &&
              getsockname(taken, (struct sockaddr *)&address, &bytes) == 0);
    snprintf(port_taken, sizeof port_taken, "[admin]\nlisten = 127.0.0.1:%d\n", ntohs(address.sin_port));
    snprintf(no_database, sizeof no_database, "[database]\nuri = %.200s_missing\n", w.uri);
    for (int i = 0; i < BINARIES; i++) {
        expect_leaves(&w, &starts[i], port_taken, 1, "another process has it");
        expect_leaves(&w, &starts[i], no_database, 1, "create it and run deploy/migrate");
        expect_waits(&w, &starts[i], no_server, "Connection refused");
        if (starts[i].kafka)
            expect_waits(&w, &starts[i], "[kafka]\nbootstrap.servers = 127.0.0.1:9\n",
                         "no Kafka broker answers");
    }
    close(taken);
    world_close(&w);
}
