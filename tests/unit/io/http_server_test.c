/* The server over real sockets: requests, replies, clients that wait and that leave. */
#include "io/http_server.h"

#include <criterion/criterion.h>

#include "http_world.h"

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
