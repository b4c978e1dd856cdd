/* The server over real sockets: requests, replies, limits and times. */
#include "io/http_server.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "http_pump.h"

static bool notice_gone; /* of the next world */

struct world {
    struct http_server *server;
    struct http_request *kept; /* the last request that was not answered at once */
    struct buffer seen;        /* what the handler saw */
    struct http_exchange last;
    int finished, handled, gone;
};

static void see(struct world *world, struct http_request *request)
{
    size_t count;
    const struct http_parameter *parameters = http_request_parameters(request, &count);
    struct span path = http_request_path(request), body = http_request_body(request);
    buffer_reset(&world->seen);
    buffer_printf(&world->seen, "%d %.*s", (int)http_request_method(request), (int)path.bytes, path.at);
    for (size_t i = 0; i < count; i++)
        buffer_printf(&world->seen, " <%.*s>=<%.*s>", (int)parameters[i].name.bytes, parameters[i].name.at,
                      (int)parameters[i].value.bytes, parameters[i].value.at);
    struct span auth = http_request_header(request, HTTP_AUTHORIZATION);
    if (auth.at != NULL)
        buffer_printf(&world->seen, " auth=%.*s", (int)auth.bytes, auth.at);
    buffer_printf(&world->seen, " body=%zu", body.bytes);
}

enum { HTTP_FIELD_BYTES = 6000 }; /* more than a page's links */

static void handle(void *context, struct http_request *request)
{
    struct world *world = context;
    world->handled++;
    see(world, request);
    struct span path = http_request_path(request);
    if (span_is(path, "/later")) {
        world->kept = request;
        return;
    }
    if (span_is(path, "/problem")) {
        http_request_refuse(request, &(const struct http_problem){.status = 400,
                                                                  .code = "invalid_parameter",
                                                                  .detail = "No \"such\" thing.",
                                                                  .name = "parameter",
                                                                  .value = {"a\"\n\xff", 4}});
        return;
    }
    static char link[HTTP_FIELD_BYTES + 1];
    static const struct http_field fields[] = {{"ETag", "W/\"x\""}, {"Link", link}};
    memset(link, 'l', HTTP_FIELD_BYTES);
    http_request_reply(request, &(const struct http_reply){.status = 200,
                                                           .content_type = "text/plain",
                                                           .body = buffer_span(&world->seen),
                                                           .fields = fields,
                                                           .field_count = span_is(path, "/full") ? 2 : 1});
}

static void finished(void *context, const struct http_exchange *exchange)
{
    struct world *world = context;
    world->last = *exchange;
    world->finished++;
}

static void gone(void *context, struct http_request *request)
{
    struct world *world = context;
    cr_assert_eq(world->kept, request);
    world->kept = NULL;
    world->gone++;
}

static void world_open(struct world *world, size_t connections_max)
{
    struct fault fault;
    memset(world, 0, sizeof *world);
    buffer_init(&world->seen, 1 << 20);
    struct clock clock = shifted_clock();
    const struct http_server_options options = {
        .listen = {.host = "127.0.0.1"},
        .connections_max = connections_max,
        .handler = {handle, finished, world, notice_gone ? gone : NULL},
        .clock = clock};
    cr_assert_eq(http_server_open(&options, &world->server, &fault), ST_OK, "%s", fault.text);
    cr_assert_gt(http_server_port(world->server), 0);
}

static void world_close(struct world *world)
{
    http_server_close(world->server);
    buffer_done(&world->seen);
}

static int dial(struct world *world)
{
    return dial_server(world->server);
}

static void pump(struct world *world, int extra_ms)
{
    pump_server(world->server, extra_ms);
}

enum { REPLY_MAX = 256 * 1024 };

/* The whole reply's bytes so far: true once it is complete by its Content-Length, or of a HEAD. */
static bool is_whole(const char *reply, bool head)
{
    const char *end = strstr(reply, "\r\n\r\n"), *length = strcasestr(reply, "content-length: ");
    return end != NULL &&
           (head || length == NULL || length > end || strlen(end + 4) >= strtoul(length + 16, NULL, 10));
}

/* Sends and reads one reply; "" when the connection was closed without one. True when it was closed. */
static bool talk(struct world *world, int fd, struct span request, char *reply)
{
    size_t sent = 0, got = 0;
    bool closed = false;
    reply[0] = '\0';
    for (int round = 0; round < 400 && !closed; round++) {
        if (sent < request.bytes) {
            ssize_t wrote = send(fd, request.at + sent, request.bytes - sent, MSG_NOSIGNAL);
            sent += wrote > 0 ? (size_t)wrote : 0;
        }
        pump(world, 5);
        ssize_t read_bytes = recv(fd, reply + got, REPLY_MAX - 1 - got, 0);
        got += read_bytes > 0 ? (size_t)read_bytes : 0;
        reply[got] = '\0';
        closed = read_bytes == 0;
        if (is_whole(reply, request.bytes > 4 && memcmp(request.at, "HEAD", 4) == 0))
            break;
    }
    return closed;
}

static bool ask(struct world *world, const char *request, size_t count, char *reply)
{
    int fd = dial(world);
    bool closed = talk(world, fd, (struct span){request, count}, reply);
    char byte;
    for (int i = 0; i < 20 && !closed; i++) { /* does it end the connection behind the reply? */
        pump(world, 2);
        closed = recv(fd, &byte, 1, 0) == 0;
    }
    close(fd);
    pump(world, 5);
    return closed;
}

#define HOST " HTTP/1.1\r\nHost: x\r\n"

Test(http_server, requests_and_replies)
{
    static const struct {
        const char *request;
        int status;
        const char *text;
        bool closes;
    } cases[] = {
        {"GET /a%2Fb?x=1&x=2&y=a+b%26&&z&w=" HOST "\r\n", 200,
         "0 /a%2Fb <x>=<1> <x>=<2> <y>=<a b&> <z>=<> <w>=<> body=0", false},
        {"GET http://h/p?q=1" HOST "\r\n", 200, "0 /p <q>=<1> body=0", false},
        {"GET /" HOST "Authorization:Bearer abc\r\n\r\n", 200, "auth=Bearer abc body=0", false},
        {"GET /" HOST "X:\r\nX: \t a b \xc3\xa9\r\nAuthorization: \t Bearer abc\r\n\r\n", 200,
         "auth=Bearer abc body=0", false},
        {"GET /" HOST "Accept-Encoding: gzip\r\nAccept-Encoding: br\r\n\r\n", 200, "body=0", false},
        {"POST /p" HOST "Content-Length: 5\r\n\r\nhello", 200, "2 /p body=5", false},
        {"POST /p" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200,
         "2 /p body=5", false},
        {"DELETE /p" HOST "\r\n", 200, "5 /p", false},
        {"BREW /p" HOST "\r\n", 200, "7 /p", false},
        {"GET /problem" HOST "\r\n", 400,
         "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\"code\":\"invalid_parameter\","
         "\"detail\":\"No \\\"such\\\" thing.\",\"parameter\":\"a\\\"\\u000a?\",\"request_id\":\"",
         false},
        {"GET /x?a=%4" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"GET /x?a=%zz" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"GET /x%" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"GET /%gg" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"GET /x%00y" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"GET /x?a=%00" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"GET /x?%00=b" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"GET /a\rb" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"GET /a\tb" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"GET /%30%0A" HOST "\r\n", 200, "0 /%30%0A body=0", false},
        {"POST /p" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400, "said more than once",
         true},
        {"POST /p" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400, "said more than once",
         true},
        {"POST /p" HOST "Content-Length: 65537\r\n\r\n", 413, "\"code\":\"too_large\"", true},
        {"GET /x HTTP/1.1\r\n\r\n", 400, "one Host", true},
        {"GET /x y" HOST "\r\n", 400, "\"code\":\"invalid_parameter\"", true},
        {"nonsense\r\n\r\n", 0, "", true},
    };
    struct world world;
    char *reply = malloc(REPLY_MAX);
    world_open(&world, 16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char status[32];
        bool closed = ask(&world, cases[i].request, strlen(cases[i].request), reply);
        snprintf(status, sizeof status, "HTTP/1.1 %d ", cases[i].status);
        if (cases[i].status == 0) /* cut without a word */
            cr_expect_str_eq(reply, "", "case %zu", i);
        else
            cr_expect_eq(strncmp(reply, status, strlen(status)), 0, "case %zu: %s", i, reply);
        cr_expect_not_null(strstr(reply, cases[i].text), "case %zu: %s", i, reply);
        cr_expect_eq(closed, cases[i].closes, "case %zu", i);
        if (cases[i].text[0] != '\0')
            cr_expect_not_null(strstr(reply, "\r\nRequest-Id: "), "case %zu", i);
    }
    cr_expect_eq(http_server_connections(world.server), 0);
    world_close(&world);
    free(reply);
}

Test(http_server, both_lengths_at_once_never_reach_the_handler)
{
    static const char request[] =
        "POST /p" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled" HOST
        "\r\n";
    struct world world;
    char *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    (void)ask(&world, request, sizeof request - 1, reply);
    cr_expect_eq(strncmp(reply, "HTTP/1.1 400 ", 13), 0, "%s", reply);
    cr_expect_eq(world.handled, 0);
    world_close(&world);
    free(reply);
}

Test(http_server, a_reply_has_an_id_and_its_fields_and_head_has_no_body)
{
    static const char request[] = "HEAD /h" HOST "\r\n";
    struct world world;
    char *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    (void)ask(&world, request, sizeof request - 1, reply);
    char *end = strstr(reply, "\r\n\r\n");
    cr_assert_not_null(end);
    cr_expect_str_eq(end, "\r\n\r\n");
    cr_expect_not_null(strstr(reply, "ETag: W/\"x\"\r\n"));
    char *id = strstr(reply, "Request-Id: ");
    cr_assert_not_null(id);
    cr_expect_eq(strspn(id + 12, "0123456789abcdef"), 24);
    cr_expect_eq(world.finished, 1);
    cr_expect_eq(world.last.status, 200);
    cr_expect_eq(world.last.method, HTTP_HEAD);
    cr_expect(world.last.complete);
    cr_expect_geq(world.last.took_us, 0);
    world_close(&world);
    free(reply);
}

/* A head of exactly bytes bytes, by its last field. */
static char *head_of(const char *line, size_t bytes)
{
    char *head = calloc(1, bytes + 1);
    size_t used = (size_t)sprintf(head, "%sX-Fill: ", line);
    memset(head + used, 'x', bytes - used - 4);
    memcpy(head + bytes - 4, "\r\n\r\n", 4);
    return head;
}

Test(http_server, the_head_is_bounded)
{
    static const struct {
        size_t bytes;
        int status;
    } cases[] = {{16 * 1024 - 200, 200}, {16 * 1024 + 200, 431}, {30 * 1024, 431}, {200 * 1024, 431}};
    struct world world;
    char *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char status[32], *head = head_of("GET /h" HOST, cases[i].bytes);
        (void)ask(&world, head, cases[i].bytes, reply);
        snprintf(status, sizeof status, "HTTP/1.1 %d ", cases[i].status);
        cr_expect_eq(strncmp(reply, status, strlen(status)), 0, "case %zu: %.200s", i, reply);
        free(head);
    }
    char *line = calloc(1, 20 * 1024);
    size_t used = (size_t)sprintf(line, "GET /");
    memset(line + used, 'y', 17 * 1024);
    strcat(line, HOST "\r\n");
    (void)ask(&world, line, strlen(line), reply);
    cr_expect_eq(strncmp(reply, "HTTP/1.1 414 ", 13), 0, "%.200s", reply);
    free(line);
    world_close(&world);
    free(reply);
}

/* All limits at once, on one connection again and again: as many header lines, bytes of head and body as are
 * allowed, and the longest reply's head. */
Test(http_server, what_the_limits_allow_is_taken)
{
    struct world world;
    char *request = malloc(128 * 1024), *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    int fd = dial(&world);
    for (int round = 0; round < 8; round++) {
        int lines = round % 2 == 0 ? HTTP_FIELDS_MAX : HTTP_FIELDS_MAX + 1;
        size_t used =
            (size_t)sprintf(request, "POST /full" HOST "Content-Length: %d\r\n", HTTP_BODY_BYTES_MAX);
        for (int i = 3; i <= lines; i++) {
            size_t left = HTTP_HEAD_BYTES_MAX - used - 2 - 20;
            used += (size_t)sprintf(request + used, "X-%03d: %0*d\r\n", i,
                                    (int)(left / (size_t)(lines - i + 1)) - 9, 0);
        }
        used += (size_t)sprintf(request + used, "\r\n");
        cr_assert(used <= HTTP_HEAD_BYTES_MAX && used > HTTP_HEAD_BYTES_MAX - 200, "%zu", used);
        memset(request + used, 'b', HTTP_BODY_BYTES_MAX);
        (void)talk(&world, fd, (struct span){request, used + HTTP_BODY_BYTES_MAX}, reply);
        cr_assert_eq(strncmp(reply, lines > HTTP_FIELDS_MAX ? "HTTP/1.1 431 " : "HTTP/1.1 200 ", 13), 0,
                     "%.200s", reply);
        if (lines > HTTP_FIELDS_MAX) {
            close(fd);
            fd = dial(&world);
        } else {
            cr_assert_not_null(strstr(reply, "body=65536"));
        }
    }
    close(fd);
    world_close(&world);
    free(request);
    free(reply);
}

/* One body of size bytes; chunked or with its length. */
static int post(struct world *world, size_t size, bool chunked, char *reply)
{
    char *request = malloc(size + 4096);
    size_t used =
        (size_t)(chunked ? sprintf(request, "POST /p" HOST "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", size)
                         : sprintf(request, "POST /p" HOST "Content-Length: %zu\r\n\r\n", size));
    int status = 0;
    memset(request + used, 'b', size);
    used += size;
    used += (size_t)sprintf(request + used, "%s", chunked ? "\r\n0\r\n\r\n" : "");
    (void)ask(world, request, used, reply);
    (void)sscanf(reply, "HTTP/1.1 %d", &status);
    free(request);
    return status;
}

Test(http_server, the_body_is_bounded)
{
    struct world world;
    char *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    cr_expect_eq(post(&world, HTTP_BODY_BYTES_MAX, false, reply), 200);
    cr_expect_not_null(strstr(reply, "body=65536"));
    cr_expect_eq(post(&world, HTTP_BODY_BYTES_MAX, true, reply), 200);
    cr_expect_eq(post(&world, HTTP_BODY_BYTES_MAX + 1, false, reply), 413);
    cr_expect_eq(post(&world, HTTP_BODY_BYTES_MAX + 1, true, reply), 413);
    cr_expect_not_null(strstr(reply, "\"code\":\"too_large\""));
    int handled = world.handled;
    cr_expect_neq(post(&world, 3 * 1024 * 1024, true, reply), 200);
    cr_expect_eq(world.handled, handled);
    world_close(&world);
    free(reply);
}

Test(http_server, a_request_may_wait_while_others_are_answered)
{
    static const char later[] = "GET /later" HOST "\r\n", now[] = "GET /now" HOST "\r\n";
    struct world world;
    char *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    int first = dial(&world), second = dial(&world);
    for (int i = 0; i < 50 && world.kept == NULL; i++) {
        if (i == 2)
            cr_assert_eq(send(first, later, sizeof later - 1, MSG_NOSIGNAL), (ssize_t)(sizeof later - 1));
        pump(&world, 5);
    }
    cr_assert_not_null(world.kept);
    (void)talk(&world, second, (struct span){now, sizeof now - 1}, reply);
    cr_expect_eq(strncmp(reply, "HTTP/1.1 200 ", 13), 0);
    http_request_reply(world.kept, &(const struct http_reply){.status = 200, .body = {"late", 4}});
    cr_expect_eq(http_server_wait_ms(world.server), 0, "a resumed request needs a run");
    (void)talk(&world, first, (struct span){0}, reply);
    cr_expect_not_null(strstr(reply, "\r\n\r\nlate"), "%s", reply);
    /* The same connection serves on. */
    (void)talk(&world, first, (struct span){now, sizeof now - 1}, reply);
    cr_expect_not_null(strstr(reply, "0 /now"), "%s", reply);
    cr_expect_eq(world.finished, 3);
    close(first);
    close(second);
    world_close(&world);
    free(reply);
}

Test(http_server, a_client_that_left_meanwhile_harms_nobody)
{
    static const char later[] = "GET /later" HOST "\r\n";
    struct world world;
    world_open(&world, 4);
    int fd = dial(&world);
    for (int i = 0; i < 50 && world.kept == NULL; i++) {
        if (i == 2)
            cr_assert_gt(send(fd, later, sizeof later - 1, MSG_NOSIGNAL), 0);
        pump(&world, 5);
    }
    cr_assert_not_null(world.kept);
    close(fd);
    pump(&world, 5);
    http_request_reply(world.kept, &(const struct http_reply){.status = 200, .body = {"late", 4}});
    for (int i = 0; i < 50 && http_server_connections(world.server) > 0; i++)
        pump(&world, 5);
    cr_expect_eq(http_server_connections(world.server), 0);
    cr_expect_eq(world.finished, 1);
    world_close(&world);
}

/* Sends and pumps until the handler keeps the request. */
static int keep(struct world *world, const char *request)
{
    int fd = dial(world);
    for (int i = 0; i < 50 && world->kept == NULL; i++) {
        if (i == 2)
            cr_assert_gt(send(fd, request, strlen(request), MSG_NOSIGNAL), 0);
        pump(world, 5);
    }
    cr_assert_not_null(world->kept);
    return fd;
}

Test(http_server, a_client_that_left_is_noticed)
{
    struct world world;
    notice_gone = true;
    world_open(&world, 4);
    int fd = keep(&world, "GET /later" HOST "\r\n"), other;
    for (int i = 0; i < 20; i++) {
        clock_shift_ms += 250;
        pump(&world, 1);
    }
    cr_expect_eq(world.gone, 0, "who waits is not gone");
    close(fd);
    for (int i = 0; i < 200 && http_server_connections(world.server) > 0; i++) {
        clock_shift_ms += 50;
        pump(&world, 5);
    }
    cr_expect_eq(http_server_connections(world.server), 0);
    cr_expect_eq(world.gone, 1);
    cr_expect_eq(world.finished, 1);
    cr_expect_eq(world.last.status, HTTP_GONE);
    cr_expect_not(world.last.complete);
    /* A reset, and of two that wait the one that left. */
    const struct linger reset = {.l_onoff = 1};
    other = keep(&world, "GET /later" HOST "\r\n");
    struct http_request *waits = world.kept;
    world.kept = NULL;
    fd = keep(&world, "GET /later" HOST "\r\n");
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(fd);
    for (int i = 0; i < 200 && http_server_connections(world.server) > 1; i++) {
        clock_shift_ms += 50;
        pump(&world, 5);
    }
    cr_expect_eq(world.gone, 2);
    http_request_reply(waits, &(const struct http_reply){.status = 200, .body = {"late", 4}});
    char reply[1024];
    (void)talk(&world, other, (struct span){"", 0}, reply);
    cr_expect_not_null(strstr(reply, "\r\n\r\nlate"), "%s", reply);
    close(other);
    world_close(&world);
}

/* Half closed behind a second request that is still unread: it wants both its replies. */
Test(http_server, a_client_with_more_to_ask_is_not_gone)
{
    static const char more[] = "GET /more" HOST "\r\n";
    struct world world;
    char *reply = malloc(REPLY_MAX);
    notice_gone = true;
    world_open(&world, 4);
    int fd = keep(&world, "GET /later" HOST "\r\n");
    cr_assert_gt(send(fd, more, sizeof more - 1, MSG_NOSIGNAL), 0);
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 20; i++) {
        clock_shift_ms += 250;
        pump(&world, 2);
    }
    cr_assert_eq(world.gone, 0);
    http_request_reply(world.kept, &(const struct http_reply){.status = 200, .body = {"late", 4}});
    size_t got = 0;
    for (int i = 0; i < 100 && (got == 0 || strstr(reply, "/more") == NULL); i++) {
        pump(&world, 5);
        ssize_t piece = recv(fd, reply + got, REPLY_MAX - 1 - got, MSG_DONTWAIT);
        got += piece > 0 ? (size_t)piece : 0;
        reply[got] = '\0';
    }
    const char *first = strstr(reply, "late"), *second = strstr(reply, "/more");
    cr_expect(first != NULL && second != NULL && first < second, "%s", reply);
    close(fd);
    world_close(&world);
    free(reply);
}

Test(http_server, close_answers_those_who_wait)
{
    static const char later[] = "GET /later" HOST "\r\n";
    struct world world;
    char reply[4096];
    world_open(&world, 4);
    int fd = dial(&world);
    for (int i = 0; i < 50 && world.kept == NULL; i++) {
        if (i == 2)
            cr_assert_gt(send(fd, later, sizeof later - 1, MSG_NOSIGNAL), 0);
        pump(&world, 5);
    }
    cr_assert_not_null(world.kept);
    world_close(&world);
    ssize_t got = recv(fd, reply, sizeof reply - 1, 0);
    cr_assert_gt(got, 0);
    reply[got] = '\0';
    cr_expect_eq(strncmp(reply, "HTTP/1.1 503 ", 13), 0, "%s", reply);
    cr_expect_not_null(strstr(reply, "Connection: close"));
    close(fd);
}

/* Runs the server for rounds of a second of the shifted clock. */
static bool cut_within(struct world *world, int fd, int seconds)
{
    char byte;
    for (int i = 0; i < seconds; i++) {
        clock_shift_ms += 1000;
        for (int j = 0; j < 4; j++)
            pump(world, 5);
        if (recv(fd, &byte, 1, 0) == 0)
            return true;
    }
    return false;
}

Test(http_server, a_head_that_drips_is_cut_after_ten_seconds)
{
    static const char part[] = "GET /slow HTTP/1.1\r\nHost: x\r\nX-A: ";
    struct world world;
    world_open(&world, 4);
    int quiet = dial(&world), slow = dial(&world);
    pump(&world, 5);
    pump(&world, 5);
    cr_assert_gt(send(slow, part, sizeof part - 1, MSG_NOSIGNAL), 0);
    cr_expect_not(cut_within(&world, slow, 9));
    (void)send(slow, "a", 1, MSG_NOSIGNAL); /* a drip does not buy time */
    cr_expect(cut_within(&world, slow, 4));
    cr_expect_eq(world.handled, 0);
    char byte;
    cr_expect_lt(recv(quiet, &byte, 1, 0), 0, "one that sent nothing is idle, not slow");
    close(quiet);
    close(slow);
    world_close(&world);
}

/* RDR-10's kind: a body that comes a byte now and then holds its connection no longer than a head does. */
Test(http_server, a_body_that_drips_is_cut_after_thirty_seconds)
{
    static const char *const heads[] = {"POST /p" HOST "Content-Length: 1000\r\n\r\n",
                                        "POST /p" HOST "Transfer-Encoding: chunked\r\n\r\n3e8\r\n"};
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        world_open(&world, 4);
        int fd = dial(&world);
        pump(&world, 5);
        cr_assert_gt(send(fd, heads[i], strlen(heads[i]), MSG_NOSIGNAL), 0);
        for (int second = 0; second < 28; second++) {
            (void)send(fd, "b", 1, MSG_NOSIGNAL);
            cr_expect_not(cut_within(&world, fd, 1), "second %d", second);
        }
        (void)send(fd, "b", 1, MSG_NOSIGNAL);
        cr_expect(cut_within(&world, fd, 4));
        cr_expect_eq(world.handled, 0);
        close(fd);
        world_close(&world);
    }
}

Test(http_server, a_request_that_waits_for_its_reply_is_not_late)
{
    static const char later[] = "POST /later" HOST "Content-Length: 1\r\n\r\nb";
    struct world world;
    world_open(&world, 4);
    int fd = dial(&world);
    pump(&world, 5);
    cr_assert_gt(send(fd, later, sizeof later - 1, MSG_NOSIGNAL), 0);
    cr_expect_not(cut_within(&world, fd, 40));
    cr_expect_eq(world.handled, 1);
    close(fd);
    world_close(&world);
}

/* What a proxy in front may read in another way than the library does. */
Test(http_server, bodies_whose_end_is_in_doubt_are_refused)
{
    static const char *const fields[] = {
        "Transfer-Encoding: identity\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n", "Content-Length : 3\r\n",
        "Transfer-Encoding : chunked\r\n", "Transfer-Encoding\t: chunked\r\n",
    };
    struct world world;
    char request[256], *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        int bytes = snprintf(request, sizeof request, "POST /p" HOST "%s\r\nabc", fields[i]);
        cr_expect(ask(&world, request, (size_t)bytes, reply), "%s: the connection goes on", fields[i]);
        cr_expect_eq(strncmp(reply, "HTTP/1.1 400 ", 13), 0, "%s: %s", fields[i], reply);
    }
    cr_expect_eq(world.handled, 0);
    world_close(&world);
    free(reply);
}

/* What the library lets through, or hides: the line that says which. */
Test(http_server, heads_that_can_be_read_in_two_ways_are_refused)
{
    static const struct {
        const char *fields, *text; /* the whole head behind the request line */
    } cases[] = {
        {"Host: x\r\nX: a\rb\r\n\r\n", "control character"},
        {"Host: x\r\nX: a\r\r\n\r\n", "control character"},
        {"Host: x\r\nX: a\x01\r\n\r\n", "control character"},
        {"Host: x\r\nX: a\x7f\r\n\r\n", "control character"},
        {"Host: x\r\nX: a\r\n b\r\n\r\n", "one line"},
        {"Host: x\r\nX: a\r\n\tb\r\nY: c\r\n\r\n", "one line"},
        {"Host: x\r\nContent-Length: 36\r\n x\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n", "one line"},
        {"Host: x\r\nTransfer-Encoding: chun\r\n ked\r\n\r\n", "one line"},
        {"Host: x\nX: a\r\n\r\n", "one line"},
        {"Host: x\r\nX: a\nY: b\r\n\r\n", "one line"},
        {"Host: x\r\nHost: x\r\n\r\n", "one Host"},
        {"Host: x\r\nX{}: a\r\n\r\n", "name cannot be read"},
        {"Host: x\r\nIdempotency-Key: a b\r\n\r\n", "\"parameter\":\"Idempotency-Key\""},
        {"Host: x\r\nIdempotency-Key:\r\n\r\n", "\"parameter\":\"Idempotency-Key\""},
        {"Host: x\r\nIdempotency-Key: \xc3\xa9\r\n\r\n", "\"parameter\":\"Idempotency-Key\""},
        {"Host: x\r\nIdempotency-Key: a\r\nIdempotency-Key: a\r\n\r\n", "\"code\":\"repeated_parameter\""},
        {"Host: x\r\nAuthorization: a\r\nAUTHORIZATION: b\r\n\r\n", "\"parameter\":\"Authorization\""},
        {"Host: x\r\nOrigin: a\r\nOrigin: b\r\n\r\n", "\"parameter\":\"Origin\""},
        {"Host: x\r\nAccess-Control-Request-Method: G/T\r\n\r\n", "\"code\":\"invalid_parameter\""},
    };
    struct world world;
    char request[512], *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int bytes = snprintf(request, sizeof request, "GET /p HTTP/1.1\r\n%s", cases[i].fields);
        cr_expect(ask(&world, request, (size_t)bytes, reply), "case %zu: the connection goes on", i);
        cr_expect_eq(strncmp(reply, "HTTP/1.1 400 ", 13), 0, "case %zu: %s", i, reply);
        cr_expect_not_null(strstr(reply, cases[i].text), "case %zu: %s", i, reply);
    }
    static const char with_nul[] = "GET /p" HOST "X: a\0b\r\n\r\n";
    cr_expect(ask(&world, with_nul, sizeof with_nul - 1, reply));
    cr_expect_not_null(strstr(reply, "one line"), "%s", reply);
    cr_expect_eq(world.handled, 0);
    world_close(&world);
    free(reply);
}

Test(http_server, a_second_head_on_a_connection_is_timed_too)
{
    static const char now[] = "GET /now" HOST "\r\n";
    struct world world;
    char *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    int fd = dial(&world);
    (void)talk(&world, fd, (struct span){now, sizeof now - 1}, reply);
    cr_expect_not(cut_within(&world, fd, 12), "waiting between requests is no slow head");
    cr_assert_gt(send(fd, "GET /x", 6, MSG_NOSIGNAL), 0);
    cr_expect(cut_within(&world, fd, 13));
    close(fd);
    world_close(&world);
    free(reply);
}

Test(http_server, more_connections_than_allowed_wait_for_room)
{
    static const char now[] = "GET /now" HOST "\r\n";
    struct world world;
    char *reply = malloc(REPLY_MAX);
    world_open(&world, 2);
    int fds[3];
    for (int i = 0; i < 2; i++) {
        fds[i] = dial(&world);
        (void)talk(&world, fds[i], (struct span){now, sizeof now - 1}, reply);
        cr_expect_eq(strncmp(reply, "HTTP/1.1 200 ", 13), 0);
    }
    fds[2] = dial(&world);
    (void)send(fds[2], now, sizeof now - 1, MSG_NOSIGNAL);
    for (int i = 0; i < 20; i++)
        pump(&world, 2);
    cr_expect_eq(http_server_connections(world.server), 2);
    cr_expect_eq(world.handled, 2);
    close(fds[0]);
    (void)talk(&world, fds[2], (struct span){0}, reply);
    cr_expect_eq(strncmp(reply, "HTTP/1.1 200 ", 13), 0, "%s", reply);
    close(fds[1]);
    close(fds[2]);
    world_close(&world);
    free(reply);
}

Test(http_server, quiesce_lets_those_inside_finish)
{
    static const char now[] = "GET /now" HOST "\r\n";
    struct world world;
    char *reply = malloc(REPLY_MAX);
    world_open(&world, 4);
    int fd = dial(&world);
    (void)talk(&world, fd, (struct span){now, sizeof now - 1}, reply);
    http_server_quiesce(world.server);
    (void)talk(&world, fd, (struct span){now, sizeof now - 1}, reply);
    cr_expect_not_null(strstr(reply, "Connection: close"), "%s", reply);
    for (int i = 0; i < 50 && http_server_connections(world.server) > 0; i++)
        pump(&world, 5);
    cr_expect_eq(http_server_connections(world.server), 0);
    int late = dial(&world);
    struct pollfd poll_fd = {late, POLLOUT, 0};
    (void)poll(&poll_fd, 1, 200);
    cr_expect(poll_fd.revents & (POLLERR | POLLHUP), "nobody listens any more");
    close(late);
    close(fd);
    world_close(&world);
    free(reply);
}

Test(http_server, a_taken_port_is_one_clear_sentence)
{
    struct world world;
    struct fault fault;
    struct http_server *second = NULL;
    world_open(&world, 4);
    const struct http_server_options options = {
        .listen = {.host = "127.0.0.1", .port = http_server_port(world.server)},
        .connections_max = 1,
        .handler = {handle, NULL, &world},
        .clock = clock_system};
    char expected[192];
    snprintf(
        expected, sizeof expected,
        "cannot listen on 127.0.0.1:%u: Address already in use; another process has it: stop that one, or "
        "give this one another listen",
        options.listen.port);
    cr_expect_eq(http_server_open(&options, &second, &fault), ST_STOP);
    cr_expect_null(second);
    cr_expect_str_eq(fault.text, expected);
    world_close(&world);
    http_server_close(NULL);
}

Test(http_server, percent_decoding)
{
    static const struct {
        const char *in, *out;
        bool plus, good;
    } cases[] = {{"a%20b+c", "a b+c", false, true},
                 {"a%20b+c", "a b c", true, true},
                 {"%e2%82%AC", "\xe2\x82\xac", false, true},
                 {"%", "", false, false},
                 {"%1", "", false, false},
                 {"%g0", "", false, false},
                 {"a%", "", false, false},
                 {"", "", false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        size_t bytes = 0;
        cr_expect_eq(http_percent_decode(span_of(cases[i].in), cases[i].plus, out, &bytes), cases[i].good,
                     "case %zu", i);
        if (cases[i].good)
            cr_expect(span_is((struct span){out, bytes}, cases[i].out), "case %zu", i);
    }
}
