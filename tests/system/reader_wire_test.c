/* The reader's HTTP byte by byte, by raw sockets: what two readers of the same bytes could understand
 * differently, the bounds, and many requests in one write. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/span.h"
#include "reader_client.h"

#define FEED "/v1/workspaces/w/feeds/notifications"
#define READ FEED "/read"
#define HOST " HTTP/1.1\r\nHost: x\r\n"

enum { REPLY_MAX = 1024 * 1024, PATIENCE_S = 5 };

static int dial(const struct client *c)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = client_dial(c, 0);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return fd;
}

static void say(int fd, struct span bytes)
{
    cr_assert_eq(send(fd, bytes.at, bytes.bytes, MSG_NOSIGNAL), (ssize_t)bytes.bytes);
}

/* All that comes before the reader closes. True: it did, within the patience. */
static bool read_to_end(int fd, char *reply)
{
    size_t used = 0;
    for (;;) {
        ssize_t count = recv(fd, reply + used, REPLY_MAX - 1 - used, 0);
        used += count > 0 ? (size_t)count : 0;
        reply[used] = '\0';
        if (count <= 0)
            return count == 0 || used > 0; /* a reset too: it left what we sent behind unread */
    }
}

/* How many answers lie in these bytes. */
static int answers(const char *reply)
{
    int count = 0;
    for (const char *at = reply; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++)
        count++;
    return count;
}

/* ---- what is refused -------------------------------------------------------------------------------------
 */

static const char smuggled[] = "GET " FEED "?smuggled=1" HOST "\r\n";

static const struct doubt {
    const char *name, *request;
    int status;
    bool twice; /* libmicrohttpd 0.9.75 answers what it calls no length itself, and writes its head twice */
} doubts[] = {
    {"two lengths", "POST " READ HOST "Content-Length: 0\r\nContent-Length: 40\r\n\r\n", 400},
    {"two equal lengths", "POST " READ HOST "Content-Length: 0\r\nContent-Length: 0\r\n\r\n", 400},
    {"a list of lengths", "POST " READ HOST "Content-Length: 0, 0\r\n\r\n", 400, true},
    {"a signed length", "POST " READ HOST "Content-Length: +0\r\n\r\n", 400, true},
    {"a negative length", "POST " READ HOST "Content-Length: -1\r\n\r\n", 400, true},
    {"a hexadecimal length", "POST " READ HOST "Content-Length: 0x0\r\n\r\n", 400, true},
    {"no length", "POST " READ HOST "Content-Length:\r\n\r\n", 400, true},
    {"a blank in a length", "POST " READ HOST "Content-Length: 0 0\r\n\r\n", 400, true},
    {"a length over 64 bits", "POST " READ HOST "Content-Length: 99999999999999999999\r\n\r\n", 413, true},
    {"a length over the limit", "POST " READ HOST "Content-Length: 65537\r\n\r\n", 413},
    {"length and coding",
     "POST " READ HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"coding and length",
     "POST " READ HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
    {"two codings",
     "POST " READ HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"a coding in HTTP/1.0",
     "POST " READ " HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"a foreign coding", "POST " READ HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
    {"a blank before the colon", "POST " READ HOST "Content-Length : 0\r\n\r\n", 400},
    {"a folded length", "POST " READ HOST "Content-Length: 40\r\n x\r\n\r\n", 400},
    {"a folded line", "GET " FEED HOST "X: a\r\n b\r\n\r\n", 400},
    {"a bare LF", "GET " FEED HOST "X: a\nY: b\r\n\r\n", 400},
    {"CR in a value", "GET " FEED HOST "X: a\rb\r\n\r\n", 400},
    {"CR in the target", "GET " FEED "?a=\r" HOST "\r\n", 400},
    {"%00 in the query", "GET " FEED "?limit=5%00" HOST "\r\n", 400},
    {"%00 in the path", "GET /v1/workspaces/w%00/feeds/notifications" HOST "\r\n", 400},
    {"a broken code", "GET " FEED "?category=%zz" HOST "\r\n", 400},
    {"half a code", "GET " FEED "?category=%4" HOST "\r\n", 400},
    {"a broken code in the path", "GET /v1/workspaces/%w/feeds/notifications" HOST "\r\n", 400},
    {"two hosts", "GET " FEED HOST "Host: y\r\n\r\n", 400},
    {"no host", "GET " FEED " HTTP/1.1\r\n\r\n", 400},
    {"a blank in the target", "GET " FEED "?a= b" HOST "\r\n", 400},
    {"two tokens", "GET " FEED HOST "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400},
    {"an odd key", "GET " FEED HOST "Idempotency-Key: a b\r\n\r\n", 400},
    {"HTTP/2.0", "GET " FEED " HTTP/2.0\r\nHost: x\r\n\r\n", 505},
};

/* Each with a request behind it, which nobody may answer. */
static void check_doubts(struct client *c)
{
    static char reply[REPLY_MAX];
    for (size_t i = 0; i < sizeof doubts / sizeof doubts[0]; i++) {
        char request[1024], status[32];
        int fd = dial(c);
        int bytes = snprintf(request, sizeof request, "%s%s", doubts[i].request, smuggled);
        say(fd, (struct span){request, (size_t)bytes});
        cr_expect(read_to_end(fd, reply), "%s: the connection goes on", doubts[i].name);
        snprintf(status, sizeof status, "HTTP/1.1 %d ", doubts[i].status);
        cr_expect_eq(strncmp(reply, status, strlen(status)), 0, "%s: %s", doubts[i].name, reply);
        cr_expect_eq(answers(reply), doubts[i].twice ? 2 : 1, "%s: %s", doubts[i].name, reply);
        cr_expect_null(strstr(reply, "\"items\""));
        close(fd);
    }
    cr_expect_not(child_log_has(c->reader, "smuggled"));
    printf("wire: %zu heads in doubt: each one answer, then closed; nothing behind them was read\n",
           sizeof doubts / sizeof doubts[0]);
}

static void check_nul(struct client *c)
{
    static const char line[] = "GET " FEED HOST "X: a\0b\r\n\r\n",
                      target[] = "GET /livez\0" FEED HOST "Connection: close\r\n\r\n";
    static char reply[REPLY_MAX];
    int fd = dial(c);
    say(fd, (struct span){line, sizeof line - 1});
    cr_expect(read_to_end(fd, reply));
    cr_expect_eq(strncmp(reply, "HTTP/1.1 400 ", 13), 0, "%s", reply);
    close(fd);
    fd = dial(c);
    say(fd, (struct span){target, sizeof target - 1});
    cr_expect(read_to_end(fd, reply));
    cr_expect_eq(strncmp(reply, "HTTP/1.1 404 ", 13), 0, "%s", reply);
    cr_expect_null(strstr(reply, "\"items\""), "%s", reply);
    close(fd);
}

/* ---- methods --------------------------------------------------------------------------------------------
 */

static void check_methods(struct client *c)
{
    static const struct {
        const char *method, *path, *allow;
    } rows[] = {
        {"DELETE", FEED, "Allow: GET, HEAD\r\n"},
        {"POST", FEED, "Allow: GET, HEAD\r\n"},
        {"BREW", FEED, "Allow: GET, HEAD\r\n"},
        {"OPTIONS", FEED, "Allow: GET, HEAD\r\n"},
        {"GET", READ, "Allow: POST\r\n"},
        {"PUT", FEED "/unread_count", "Allow: GET, HEAD\r\n"},
        {"PATCH", "/v1/workspaces/w/notifications/0199a000-0000-7000-8000-000000000001",
         "Allow: GET, HEAD\r\n"},
        {"HEAD", "/v1/workspaces/w/notifications/0199a000-0000-7000-8000-000000000001/read",
         "Allow: POST\r\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world_reply reply;
        char url[URL_MAX];
        const char *headers[] = {c->authorization, NULL};
        snprintf(url, sizeof url, "%s%s", c->base, rows[i].path);
        world_http(rows[i].method, url, headers, NULL, &reply);
        cr_expect_eq(reply.status, 405, "%s %s: %ld", rows[i].method, rows[i].path, reply.status);
        cr_expect_not_null(strstr(reply.headers, rows[i].allow), "%s %s: %s", rows[i].method, rows[i].path,
                           reply.headers);
        world_reply_done(&reply);
    }
    printf("wire: %zu methods that are not of the path: 405 with Allow\n", sizeof rows / sizeof rows[0]);
}

/* A 304 and a HEAD have no body, so that what follows on the connection is the next answer. */
static void check_no_bodies(struct client *c)
{
    static char reply[REPLY_MAX];
    char request[3 * (TOKEN_MAX + 256)];
    struct world_reply page;
    client_get(c, FEED "?limit=5", &page);
    const char *tag = strcasestr(page.headers, "ETag: ");
    cr_assert_not_null(tag);
    int tag_bytes = (int)strcspn(tag + 6, "\r\n"), fd = dial(c);
    int bytes = snprintf(request, sizeof request,
                         "GET " FEED "?limit=5" HOST "If-None-Match: \"a\", %.*s\r\n%s\r\n\r\n"
                         "HEAD " FEED "?limit=5" HOST "%s\r\n\r\n"
                         "GET /nothing" HOST "Connection: close\r\n\r\n",
                         tag_bytes, tag + 6, c->authorization, c->authorization);
    say(fd, (struct span){request, (size_t)bytes});
    cr_expect(read_to_end(fd, reply));
    const char *second = strstr(reply, "\r\n\r\n"),
               *third = second == NULL ? NULL : strstr(second + 4, "\r\n\r\n");
    cr_assert(second != NULL && third != NULL);
    cr_expect_eq(strncmp(reply, "HTTP/1.1 304 ", 13), 0, "%s", reply);
    cr_expect_eq(strncmp(second + 4, "HTTP/1.1 200 ", 13), 0, "%s", reply);
    cr_expect_eq(strncmp(third + 4, "HTTP/1.1 404 ", 13), 0, "%s", reply);
    char length[64];
    snprintf(length, sizeof length, "Content-Length: %zu\r\n", page.body_bytes);
    cr_expect_not_null(strstr(second, length), "HEAD says GET's length: %s", reply);
    const char *kept = strstr(reply, length);
    cr_expect(kept != NULL && kept < second, "and so does 304 (RFC 9110 8.6): %s", reply);
    printf("wire: 304, HEAD and the next answer on one connection; both say the %zu bytes of GET\n",
           page.body_bytes);
    world_reply_done(&page);
    close(fd);
}

Test(reader, wire)
{
    static struct client c;
    client_open(&c, "reader_wire");
    put_rows(&c, "u1", 30, "2026-03-21T09:00:00Z");
    check_doubts(&c);
    check_nul(&c);
    check_methods(&c);
    check_no_bodies(&c);
    client_close(&c);
}

/* ---- many requests in one write --------------------------------------------------------------------------
 */

enum { ROUNDS = 12, KINDS = 4, REQUESTS = ROUNDS * KINDS };

static size_t write_requests(const struct client *c, char *out, size_t room)
{
    size_t used = 0;
    for (int i = 0; i < ROUNDS; i++) {
        used +=
            (size_t)snprintf(out + used, room - used,
                             "GET " FEED "?limit=%d" HOST "%s\r\n\r\n"
                             "GET /nothing?i=%d" HOST "\r\n"
                             "HEAD " FEED "?limit=%d" HOST "%s\r\n\r\n"
                             "POST " READ HOST "%s\r\nContent-Length: 1\r\n\r\n%d",
                             i + 1, c->authorization, i, i + 1, c->authorization, c->authorization, i % 10);
    }
    cr_assert_lt(used, room);
    return used;
}

/* One answer at *at: its status, items and Request-Id; moves behind it. */
static int take_answer(const char **at, bool head, int *items, char id[25])
{
    int status = 0;
    const char *end = strstr(*at, "\r\n\r\n"), *length = strstr(*at, "Content-Length: "),
               *request_id = strstr(*at, "Request-Id: ");
    cr_assert(end != NULL && length != NULL && length < end && request_id != NULL && request_id < end,
              "%.300s", *at);
    cr_assert_eq(sscanf(*at, "HTTP/1.1 %d ", &status), 1);
    snprintf(id, 25, "%.24s", request_id + 12);
    size_t bytes = head ? 0 : strtoul(length + 16, NULL, 10);
    *at = end + 4 + bytes;
    *items = 0;
    for (const char *item = end; (item = strstr(item, "{\"id\":")) != NULL && item < *at; item++)
        ++*items;
    return status;
}

static void check_order(struct client *c, const char *reply)
{
    static const int statuses[KINDS] = {200, 404, 200, 400};
    char ids[REQUESTS][25];
    const char *at = reply;
    for (int i = 0; i < REQUESTS; i++) {
        int items, kind = i % KINDS;
        int status = take_answer(&at, kind == 2, &items, ids[i]);
        cr_assert_eq(status, statuses[kind], "answer %d: %d", i, status);
        cr_assert_eq(items, kind == 0 ? i / KINDS + 1 : 0, "answer %d: %d items", i, items);
        for (int j = 0; j < i; j++)
            cr_assert_str_neq(ids[i], ids[j]);
        cr_assert(child_log_has(c->reader, ids[i]), "answer %d: the log has %s", i, ids[i]);
    }
    cr_expect_eq(*at, '\0', "nothing behind the last: %s", at);
}

/* Slow ones (a table that is locked) among fast ones: the fast are not answered before the slow. */
Test(reader, pipelining)
{
    static struct client c;
    static char requests[REQUESTS * (TOKEN_MAX + 256)], reply[REPLY_MAX];
    client_open(&c, "reader_pipelining");
    put_rows(&c, "u1", 30, "2026-03-21T09:00:00Z");
    json_decref(client_page(&c, ""));
    size_t bytes = write_requests(&c, requests, sizeof requests), used = 0;
    world_exec(&c.w, "BEGIN; LOCK TABLE notifications IN ACCESS EXCLUSIVE MODE");
    int fd = dial(&c), seen = 0;
    say(fd, (struct span){requests, bytes});
    world_sleep_ms(300);
    cr_expect_lt(recv(fd, reply, 1, MSG_DONTWAIT | MSG_PEEK), 0, "the first is slow: nothing overtakes it");
    world_exec(&c.w, "COMMIT");
    shutdown(fd, SHUT_WR);
    while ((seen = answers(reply)) <= REQUESTS) {
        ssize_t count = recv(fd, reply + used, sizeof reply - 1 - used, 0);
        if (count <= 0)
            break;
        used += (size_t)count;
        reply[used] = '\0';
    }
    cr_assert_eq(seen, REQUESTS, "%d answers", seen);
    check_order(&c, reply);
    printf(
        "pipelining: %d requests in one write of %zu bytes, the first held for 300 ms: %d answers in order,"
        " each with a Request-Id of its own that the log has\n",
        REQUESTS, bytes, seen);
    close(fd);
    client_close(&c);
}
