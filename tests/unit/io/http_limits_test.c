/* The server over real sockets: what is too long, too late, or could be read in two ways. */
#include "io/http_server.h"

#include <criterion/criterion.h>

#include "http_world.h"

Test(http_limits, both_lengths_at_once_never_reach_the_handler)
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

/* A head of exactly bytes bytes, by its last field. */
static char *head_of(const char *line, size_t bytes)
{
    char *head = calloc(1, bytes + 1);
    size_t used = (size_t)sprintf(head, "%sX-Fill: ", line);
    memset(head + used, 'x', bytes - used - 4);
    memcpy(head + bytes - 4, "\r\n\r\n", 4);
    return head;
}

Test(http_limits, the_head_is_bounded)
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
Test(http_limits, what_the_limits_allow_is_taken)
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

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

/* The i-th of many requests: from 3 to 60 header lines, some with a body. */
static size_t write_request(char *out, int i, uint32_t *random)
{
    unsigned lines = next_random(random) % 58,
             body = next_random(random) % 3 == 0 ? next_random(random) % 900 : 0;
    size_t used =
        (size_t)sprintf(out, "%s /r%d" HOST "Authorization: Bearer t%d\r\n", body > 0 ? "POST" : "GET", i, i);
    for (unsigned j = 0; j < lines; j++)
        used += (size_t)sprintf(out + used, "X-%u:%*s%0*u\r\n", j, (int)(next_random(random) % 4), "",
                                (int)(next_random(random) % 200), j);
    if (body > 0)
        used += (size_t)sprintf(out + used, "Content-Length: %u\r\n", body);
    used += (size_t)sprintf(out + used, "\r\n");
    memset(out + used, 'b', body);
    return used + body;
}

/* However the bytes are cut into packets, a good head is never taken for a bad one. */
Test(http_limits, pieces_of_any_size_are_the_same_requests)
{
    enum { REQUESTS = 40 };
    struct world world;
    uint32_t random = 7;
    char *bytes = malloc(REQUESTS * 16384), *reply = malloc(4 * REPLY_MAX);
    size_t total = 0, sent = 0, got = 0;
    for (int i = 0; i < REQUESTS; i++)
        total += write_request(bytes + total, i, &random);
    world_open(&world, 4);
    int fd = dial(&world), pieces = 0, quiet = 0;
    for (; world.finished < REQUESTS && quiet < 400; pieces++) {
        size_t piece = 1 + next_random(&random) % (pieces % 3 == 0 ? 500 : 40);
        piece = piece < total - sent ? piece : total - sent;
        ssize_t wrote = piece > 0 ? send(fd, bytes + sent, piece, MSG_NOSIGNAL) : 0;
        sent += wrote > 0 ? (size_t)wrote : 0;
        pump(&world, 1);
        ssize_t count = recv(fd, reply + got, 4 * REPLY_MAX - 1 - got, 0);
        got += count > 0 ? (size_t)count : 0;
        quiet = count > 0 || wrote > 0 ? 0 : quiet + 1;
    }
    reply[got] = '\0';
    const char *at = reply;
    for (int i = 0; i < REQUESTS; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, " /r%d auth=Bearer t%d body=", i, i);
        at = strstr(at, expected);
        cr_assert_not_null(at, "no answer to request %d of %d; %zu of %zu bytes sent: %.300s", i,
                           world.finished, sent, total, reply + (got > 600 ? got - 600 : 0));
    }
    cr_expect_null(strstr(reply, "HTTP/1.1 400"));
    printf("http_limits: %d requests of %zu bytes in %d pieces: all answered, in order\n", REQUESTS, total,
           pieces);
    close(fd);
    world_close(&world);
    free(bytes);
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

Test(http_limits, the_body_is_bounded)
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

Test(http_limits, a_head_that_drips_is_cut_after_ten_seconds)
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
Test(http_limits, a_body_that_drips_is_cut_after_thirty_seconds)
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

Test(http_limits, a_request_that_waits_for_its_reply_is_not_late)
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
Test(http_limits, bodies_whose_end_is_in_doubt_are_refused)
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
Test(http_limits, heads_that_can_be_read_in_two_ways_are_refused)
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

Test(http_limits, a_second_head_on_a_connection_is_timed_too)
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
