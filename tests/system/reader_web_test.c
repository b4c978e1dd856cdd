/* The reader for browsers and slow networks: web pages of other origins, replies as gzip. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "reader_client.h"

#define FEED "/v1/workspaces/w/feeds/notifications"
#define ITEM "/v1/workspaces/w/notifications/0199a000-0000-7000-8000-000000000002/read"

enum { FIELDS = 4, PLAIN_MAX = 1024 * 1024 };

/* One request with these fields; the last are NULL. */
struct sent {
    const char *method, *path, *fields[FIELDS];
};

static void say(const struct client *c, const struct sent *sent, struct world_reply *reply)
{
    char url[URL_MAX];
    const char *headers[FIELDS + 2] = {c->authorization};
    for (size_t i = 0; i < FIELDS; i++)
        headers[i + 1] = sent->fields[i];
    snprintf(url, sizeof url, "%s%s", c->base, sent->path);
    world_http(sent->method, url, headers, NULL, reply);
}

static bool has(const struct world_reply *reply, const char *line)
{
    return strcasestr(reply->headers, line) != NULL;
}

static void web_open(struct client *c, const char *name, const char *extra)
{
    char base[64];
    client_open(c, name);
    put_rows(c, "u1", 100, "2026-03-21T09:00:00Z");
    child_stop(c->reader);
    c->reader = world_reader(&c->w, extra, base);
    client_move(c, base);
}

/* ---- origins --------------------------------------------------------------------------------------------
 */

#define ORIGIN  "Origin: https://app.example.com"
#define WANTS   "Access-Control-Request-Method: GET"
#define ALLOWED "Access-Control-Allow-Origin: https://app.example.com\r\n"

static void check_preflights(struct client *c)
{
    static const struct {
        struct sent sent;
        long status;
        const char *methods;
    } rows[] = {
        {{"OPTIONS", FEED, {ORIGIN, WANTS}}, 204, "GET, HEAD"},
        {{"OPTIONS", FEED "?limit=5", {ORIGIN, WANTS}}, 204, "GET, HEAD"},
        {{"OPTIONS", ITEM, {ORIGIN, "Access-Control-Request-Method: POST"}}, 204, "POST"},
        {{"OPTIONS", FEED, {"Origin: http://localhost:5173", WANTS}}, 204, "GET, HEAD"},
        {{"OPTIONS", FEED, {ORIGIN}}, 405, NULL},
        {{"OPTIONS", FEED, {WANTS}}, 405, NULL},
        {{"OPTIONS", FEED, {"Origin: https://evil.example", WANTS}}, 405, NULL},
        {{"OPTIONS", "/v1/nothing", {ORIGIN, WANTS}}, 404, NULL},
        {{"PUT", FEED, {ORIGIN, WANTS}}, 405, NULL},
    };
    char line[128];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world_reply reply;
        say(c, &rows[i].sent, &reply);
        cr_expect_eq(reply.status, rows[i].status, "%zu: %ld %s", i, reply.status, reply.body);
        cr_expect(reply.status == 404 || has(&reply, "Allow: "), "%zu: %s", i, reply.headers);
        cr_expect_eq(has(&reply, "Access-Control-Allow-Methods: "), rows[i].methods != NULL, "%zu: %s", i,
                     reply.headers);
        if (rows[i].methods != NULL) {
            snprintf(line, sizeof line, "Access-Control-Allow-Methods: %s\r\n", rows[i].methods);
            cr_expect(has(&reply, line), "%zu: %s", i, reply.headers);
            cr_expect(has(&reply, "Access-Control-Allow-Headers: Authorization,"), "%s", reply.headers);
            cr_expect_eq(reply.body_bytes, 0);
        }
        world_reply_done(&reply);
    }
    printf("cors: %zu preflights and near ones as written\n", sizeof rows / sizeof rows[0]);
}

static void check_origins(struct client *c)
{
    static const struct {
        const char *origin;
        bool allowed;
    } rows[] = {
        {ORIGIN, true},
        {"Origin: https://app.example.com.evil.example", false},
        {"Origin: https://evil.example/https://app.example.com", false},
        {"Origin: https://app.example.com:443", false},
        {"Origin: http://app.example.com", false},
        {"Origin: https://APP.example.com", false},
        {"Origin: https://app.example.co", false},
        {"Origin: https://app.example.com https://evil.example", false},
        {"Origin: null", false},
        {"Origin: *", false},
        {"Origin;", false}, /* an empty value */
        {NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world_reply reply;
        say(c, &(const struct sent){"GET", FEED, {rows[i].origin}}, &reply);
        cr_expect_eq(reply.status, 200);
        cr_expect_eq(has(&reply, "Access-Control-Allow-Origin"), rows[i].allowed, "%zu: %s", i,
                     reply.headers);
        cr_expect(!rows[i].allowed || has(&reply, ALLOWED), "%s", reply.headers);
        cr_expect(has(&reply, "Vary: Origin\r\n") && has(&reply, "Vary: Authorization\r\n"), "%s",
                  reply.headers);
        cr_expect_not(has(&reply, "Access-Control-Allow-Credentials"));
        world_reply_done(&reply);
    }
    printf("cors: %zu origins, the exact one alone is let in\n", sizeof rows / sizeof rows[0]);
}

/* A page must be able to read why it was refused. */
static void check_refusals(struct client *c)
{
    struct world_reply reply;
    say(c, &(const struct sent){"GET", FEED "?limit=1&limit=2", {ORIGIN}}, &reply);
    cr_expect(reply.status == 400 && has(&reply, ALLOWED), "%ld %s", reply.status, reply.headers);
    world_reply_done(&reply);
    snprintf(c->authorization, sizeof c->authorization, "Authorization: Bearer x");
    say(c, &(const struct sent){"GET", FEED, {ORIGIN}}, &reply);
    cr_expect(reply.status == 401 && has(&reply, ALLOWED), "%ld %s", reply.status, reply.headers);
    cr_expect(has(&reply, "Access-Control-Expose-Headers: "));
    world_reply_done(&reply);
}

static void check_lists(struct client *c)
{
    static const char *const bad[] = {"*",
                                      "null",
                                      "https://app.example.com/",
                                      "https://app.example.com/x",
                                      "https://*.example.com",
                                      "https://App.example.com",
                                      "https://app.example.com:443",
                                      "http://app.example.com:80",
                                      "https://",
                                      "app.example.com",
                                      "https://a:b",
                                      "https://a:123456",
                                      "https://user@a",
                                      "https://[::1"};
    static char output[65536];
    char extra[128], ini[WORLD_PATH_MAX];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(extra, sizeof extra, "[http]\ncors_origins = https://good.example %s\n", bad[i]);
        world_write_reader_ini(&c->w, extra, ini);
        const char *argv[] = {"-F", ini, "--check-config", NULL};
        cr_expect_eq(world_run(&c->w, "src/bin/belfry-reader", argv, output, sizeof output), 2, "%s", bad[i]);
    }
    world_write_reader_ini(
        &c->w, "[http]\ncors_origins = http://[::1]:3000, capacitor://localhost, https://a-b.example\n", ini);
    const char *argv[] = {"-F", ini, "--check-config", NULL};
    cr_expect_eq(world_run(&c->w, "src/bin/belfry-reader", argv, output, sizeof output), 0);
    printf("cors: %zu lists that no browser would meet refused\n", sizeof bad / sizeof bad[0]);
}

Test(reader, cors)
{
    static struct client c;
    struct world_reply reply;
    web_open(&c, "reader_cors", "[http]\ncors_origins = https://app.example.com, http://localhost:5173\n");
    check_preflights(&c);
    check_origins(&c);
    check_refusals(&c);
    check_lists(&c);
    child_stop(c.reader);
    c.reader = world_reader(&c.w, NULL, c.base);
    client_be(&c, "u1");
    say(&c, &(const struct sent){"GET", FEED, {ORIGIN}}, &reply);
    cr_expect(reply.status == 200 && !has(&reply, "Access-Control") && !has(&reply, "Vary: Origin"), "%s",
              reply.headers);
    world_reply_done(&reply);
    client_close(&c);
}

/* ---- gzip -----------------------------------------------------------------------------------------------
 */

#define LONG_ITEM "/v1/workspaces/w/notifications/0199a000-0000-7000-8000-000000000001"

static size_t unpack(const struct world_reply *reply, char *plain)
{
    z_stream stream = {.next_in = (unsigned char *)reply->body,
                       .avail_in = (unsigned)reply->body_bytes,
                       .next_out = (unsigned char *)plain,
                       .avail_out = PLAIN_MAX};
    cr_assert_eq(inflateInit2(&stream, 15 + 16), Z_OK);
    cr_assert_eq(inflate(&stream, Z_FINISH), Z_STREAM_END);
    inflateEnd(&stream);
    return PLAIN_MAX - stream.avail_out;
}

static void check_codings(struct client *c, const struct world_reply *plain)
{
    static const struct {
        const char *accept;
        bool gzip;
    } rows[] = {
        {"gzip", true},
        {"GZip", true},
        {"x-gzip", true},
        {"gzip, deflate, br", true},
        {"br;q=1.0, gzip;q=0.8, *;q=0.1", true},
        {"*", true},
        {"gzip;q=0.001", true},
        {"gzip ; Q=1.000", true},
        {"identity, gzip", true},
        {"*;q=0, gzip", true},
        {",gzip,,", true},
        {"gzip;q=0", false},
        {"gzip;q=0.000", false},
        {"gzip;q=0, *", false},
        {"*;q=0", false},
        {"identity", false},
        {"identity;q=1, gzip;q=0.5", false},
        {"br", false},
        {"deflate", false},
        {"gzipped", false},
        {"gzip;q=2", false},
        {"gzip;q=1.001", false},
        {"gzip;q=0.0001", false},
        {"gzip;q=", false},
        {"gzip;level=9", false},
    };
    static char unpacked[PLAIN_MAX], field[128];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world_reply reply;
        snprintf(field, sizeof field, "Accept-Encoding: %s", rows[i].accept);
        say(c, &(const struct sent){"GET", LONG_ITEM, {field}}, &reply);
        cr_expect_eq(reply.status, 200);
        cr_expect_eq(has(&reply, "Content-Encoding: gzip\r\n"), rows[i].gzip, "%s", rows[i].accept);
        cr_expect(has(&reply, "Vary: Accept-Encoding\r\n"), "%s", reply.headers);
        if (has(&reply, "Content-Encoding"))
            cr_expect(unpack(&reply, unpacked) == plain->body_bytes &&
                          memcmp(unpacked, plain->body, plain->body_bytes) == 0,
                      "the same bytes");
        else
            cr_expect_str_eq(reply.body, plain->body);
        world_reply_done(&reply);
    }
    printf("gzip: %zu Accept-Encoding values as written\n", sizeof rows / sizeof rows[0]);
}

static long length_of(const struct world_reply *reply)
{
    const char *at = strcasestr(reply->headers, "Content-Length: ");
    return at == NULL ? -1 : strtol(at + 16, NULL, 10);
}

/* HEAD says what GET would: RFC 9110 9.3.2 and 8.6. */
static void check_heads(struct client *c)
{
    static const char *const codings[] = {"Accept-Encoding: gzip", NULL};
    for (size_t i = 0; i < 2; i++) {
        struct world_reply get, head;
        say(c, &(const struct sent){"GET", LONG_ITEM, {codings[i]}}, &get);
        say(c, &(const struct sent){"HEAD", LONG_ITEM, {codings[i]}}, &head);
        cr_expect(head.status == 200 && head.body_bytes == 0);
        cr_expect_eq(length_of(&head), (long)get.body_bytes);
        cr_expect_eq(has(&head, "Content-Encoding: gzip"), i == 0);
        printf("gzip: HEAD and GET %s: %ld bytes\n", i == 0 ? "with gzip" : "plain", length_of(&head));
        world_reply_done(&get);
        world_reply_done(&head);
    }
}

Test(reader, gzip)
{
    static struct client c;
    struct world_reply plain, reply;
    web_open(&c, "reader_gzip", NULL);
    /* An item: a page's cursors hold when they were given, so that no two are the same bytes. */
    world_exec(&c.w,
               "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, body,"
               " created_at) VALUES ('0199a000-0000-7000-8000-000000000001', 'w', 'u1', 't', 'long',"
               " repeat('twenty thousand bytes ', 1000), '2026-03-20')");
    say(&c, &(const struct sent){"GET", LONG_ITEM, {NULL}}, &plain);
    cr_assert_eq(plain.status, 200);
    cr_assert_gt(plain.body_bytes, 1024);
    check_codings(&c, &plain);
    check_heads(&c);
    world_reply_done(&plain);
    say(&c, &(const struct sent){"GET", FEED "?limit=1", {"Accept-Encoding: gzip"}}, &reply);
    cr_expect(reply.status == 200 && reply.body_bytes < 1024 && !has(&reply, "Content-Encoding"), "%s",
              reply.headers);
    cr_expect(has(&reply, "Vary: Accept-Encoding\r\n"), "short ones too: a cache sees one resource");
    world_reply_done(&reply);
    /* Too long for the loop's time: plain, whole. */
    world_exec(&c.w, "UPDATE notifications SET body = repeat('x', 3000)");
    say(&c, &(const struct sent){"GET", FEED "?limit=100", {"Accept-Encoding: gzip"}}, &reply);
    cr_expect(reply.status == 200 && reply.body_bytes > 256 * 1024 && !has(&reply, "Content-Encoding"), "%zu",
              reply.body_bytes);
    printf("gzip: %zu bytes go out plain\n", reply.body_bytes);
    world_reply_done(&reply);
    client_close(&c);
}
