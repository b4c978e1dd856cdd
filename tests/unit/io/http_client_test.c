/* io/http_client against a raw TCP server that follows a script: what came, how often, and what is known of
 * it when the server hangs up, cuts, stalls, redirects or sends too much. */
#include "io/http_client.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

enum { STEPS_MAX = 200, REQUEST_MAX = 4 * 1024 * 1024 };

/* What the server does with the n-th request it has read in full. */
struct step {
    const char *answer; /* raw bytes; NULL: none */
    bool hang_up;       /* afterwards */
    bool stall;         /* never answer */
    bool before_body;   /* answer (or hang up) as soon as the header is there */
    int bloat;          /* so many bytes of 'x' behind the answer */
    struct span packed; /* behind that */
};

struct server {
    int fd, port;
    pthread_t thread;
    const struct step *steps;
    int step_count;
    atomic_int requests, connections;
    char last[8192]; /* the last header */
    size_t last_body;
    int connection_of[STEPS_MAX]; /* by request */
};

static char *find_end(char *text)
{
    char *end = strstr(text, "\r\n\r\n");
    return end == NULL ? NULL : end + 4;
}

/* Reads one request; false at the end of the connection. */
static bool read_request(struct server *server, int fd, char *text)
{
    size_t bytes = 0;
    for (;;) {
        text[bytes] = '\0';
        char *body = find_end(text);
        if (body != NULL) {
            const char *length = strcasestr(text, "content-length:");
            size_t need = length == NULL ? 0 : strtoul(length + 15, NULL, 10);
            int n = atomic_load(&server->requests);
            bool early = n < server->step_count && server->steps[n].before_body;
            size_t have = bytes - (size_t)(body - text);
            if (early || have >= need) {
                snprintf(server->last, sizeof server->last, "%.*s", (int)(body - text), text);
                server->last_body = have;
                return true;
            }
        }
        ssize_t got = bytes < REQUEST_MAX ? read(fd, text + bytes, REQUEST_MAX - bytes) : 0;
        if (got <= 0)
            return false;
        bytes += (size_t)got;
    }
}

static void write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = send(fd, text, bytes, MSG_NOSIGNAL);
        if (put <= 0)
            return;
        text += put;
        bytes -= (size_t)put;
    }
}

/* Answers one request by the script; false: hang up. */
static bool follow_step(struct server *server, int fd)
{
    int n = atomic_fetch_add(&server->requests, 1);
    if (n >= server->step_count)
        return false;
    server->connection_of[n] = atomic_load(&server->connections);
    const struct step *step = &server->steps[n];
    if (step->stall)
        usleep(900000);
    if (step->answer != NULL)
        write_all(fd, step->answer, strlen(step->answer));
    static const char bloat[1024] = {'x', 'x', 'x'};
    for (int left = step->bloat; left > 0; left -= (int)sizeof bloat)
        write_all(fd, bloat, sizeof bloat);
    write_all(fd, step->packed.at, step->packed.bytes);
    return !step->hang_up;
}

static void *serve(void *context)
{
    struct server *server = context;
    char *text = malloc(REQUEST_MAX + 1);
    for (int fd; (fd = accept(server->fd, NULL, NULL)) >= 0; close(fd)) {
        atomic_fetch_add(&server->connections, 1);
        while (read_request(server, fd, text) && follow_step(server, fd))
            ;
    }
    free(text);
    return NULL;
}

static void server_open(struct server *server, const struct step *steps, int count)
{
    *server = (struct server){.steps = steps, .step_count = count};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    server->fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(server->fd, (struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(listen(server->fd, 8), 0);
    cr_assert_eq(getsockname(server->fd, (struct sockaddr *)&at, &bytes), 0);
    server->port = ntohs(at.sin_port);
    pthread_create(&server->thread, NULL, serve, server);
}

static void server_close(struct server *server)
{
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->fd);
}

static struct http_client *open_client(size_t response_max, int64_t timeout_ms)
{
    struct http_client_settings settings = {.in_flight_max = 3,
                                            .request_bytes_max = (size_t)2 * 1024 * 1024,
                                            .response_bytes_max = response_max,
                                            .request_timeout_ms = timeout_ms,
                                            .connect_timeout_ms = 1000,
                                            .user_agent = "belfry-test",
                                            .wake_fd = -1};
    struct http_client *client = NULL;
    struct fault fault;
    cr_assert_eq(http_client_open(&settings, &client, &fault), ST_OK);
    return client;
}

static void submit(struct http_client *client, int port, struct span body, bool gzip)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/send", port);
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    struct http_request request = {.url = url, .headers = headers, .body = body, .gzip = gzip};
    struct fault fault;
    cr_assert_eq(http_client_submit(client, &request, 7, &fault), ST_OK, "%s", fault.text);
}

static struct http_result post(struct http_client *client, int port, struct span body, bool gzip)
{
    struct http_result result;
    submit(client, port, body, gzip);
    cr_assert(http_client_poll(client, 10000, &result));
    cr_assert_eq(result.tag, 7);
    return result;
}

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

Test(http_client, never_sends_a_body_twice_on_a_dead_reused_connection)
{
    const struct step steps[] = {{.answer = OK_ANSWER}, {.hang_up = true}, {.answer = OK_ANSWER}};
    struct server server;
    server_open(&server, steps, 3);
    struct http_client *client = open_client(1 << 20, 3000);
    struct http_result first = post(client, server.port, span_of("[1]"), false);
    cr_expect_eq(first.transport, HTTP_ANSWERED);
    struct http_result second = post(client, server.port, span_of("[2]"), false);
    cr_expect_eq(second.transport, HTTP_MAYBE, "a request that was read is never certain");
    cr_expect_eq(atomic_load(&server.requests), 2, "%d requests seen", atomic_load(&server.requests));
    cr_expect_eq(server.connection_of[1], server.connection_of[0], "the connection was to be reused");
    struct http_result third = post(client, server.port, span_of("[3]"), false);
    cr_expect_eq(third.transport, HTTP_ANSWERED);
    cr_expect_eq(atomic_load(&server.requests), 3);
    printf("never twice: 3 bodies given, %d requests seen; the one whose connection died: %s\n",
           atomic_load(&server.requests), second.cause);
    http_client_close(client);
    server_close(&server);
}

Test(http_client, tells_a_refused_connection_from_a_lost_answer)
{
    const struct step steps[] = {{.hang_up = true}};
    struct server server;
    server_open(&server, steps, 1);
    struct http_client *client = open_client(1 << 20, 3000);
    struct http_result lost = post(client, server.port, span_of("[1]"), false);
    cr_expect_eq(lost.transport, HTTP_MAYBE);
    cr_expect_eq(lost.status, 0);
    cr_expect_str_neq(lost.cause, "");
    server_close(&server);
    struct http_result refused = post(client, server.port, span_of("[1]"), false);
    cr_expect_eq(refused.transport, HTTP_NOTHING_SENT);
    http_client_close(client);
}

Test(http_client, nothing_is_sent_without_a_name_or_tls)
{
    const struct step steps[] = {{.hang_up = true}};
    struct server server;
    server_open(&server, steps, 1);
    struct http_client *client = open_client(1 << 20, 3000);
    char tls[64];
    snprintf(tls, sizeof tls, "https://127.0.0.1:%d/", server.port);
    const char *const urls[] = {"http://no-such-name.invalid/", tls};
    for (size_t i = 0; i < 2; i++) {
        struct http_request request = {.url = urls[i], .body = span_of("[1]")};
        struct http_result result;
        struct fault fault;
        cr_assert_eq(http_client_submit(client, &request, 1, &fault), ST_OK);
        if (i == 1) {
            usleep(50000);
            shutdown(server.fd, SHUT_RDWR); /* the handshake never ends well: the server reads no TLS */
        }
        cr_assert(http_client_poll(client, 10000, &result));
        cr_expect_eq(result.transport, HTTP_NOTHING_SENT, "%s: %s", urls[i], result.cause);
    }
    http_client_close(client);
    server_close(&server);
}

Test(http_client, cut_and_stalled_answers_are_maybe)
{
    const struct step steps[] = {
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\":[", .hang_up = true},
        {.answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", .hang_up = true},
        {.answer = "no http at all\r\n\r\n", .hang_up = true},
        {.stall = true, .hang_up = true}};
    struct server server;
    server_open(&server, steps, 4);
    struct http_client *client = open_client(10000, 700);
    const int statuses[] = {200, 200, 0, 0};
    for (int i = 0; i < 4; i++) {
        struct http_result result = post(client, server.port, span_of("[1]"), false);
        cr_expect_eq(result.transport, HTTP_MAYBE, "step %d: %s", i, result.cause);
        cr_expect_eq(result.status, statuses[i], "step %d: %d", i, result.status);
        cr_expect_eq(result.timed_out, i == 3);
    }
    http_client_close(client);
    server_close(&server);
}

Test(http_client, gives_status_type_and_every_retry_after)
{
    const struct step steps[] = {
        {.answer =
             "HTTP/1.1 429 Slow\r\nContent-Type: text/html\r\nRetry-After: 5\r\nRetry-After: 120junk\r\n"
             "Content-Length: 4\r\n\r\nslow"},
        {.answer = OK_ANSWER}};
    struct server server;
    server_open(&server, steps, 2);
    struct http_client *client = open_client(1 << 20, 3000);
    struct http_result result = post(client, server.port, span_of("[1]"), false);
    cr_expect_eq(result.transport, HTTP_ANSWERED);
    cr_expect_eq(result.status, 429);
    cr_expect(span_is(result.content_type, "text/html"));
    cr_expect_eq(result.retry_after_count, 2);
    cr_expect(span_is(result.retry_after[0], "5"));
    cr_expect(span_is(result.retry_after[1], "120junk"));
    cr_expect(span_is(result.body, "slow"));
    result = post(client, server.port, span_of("[1]"), false);
    cr_expect_eq(result.status, 200);
    cr_expect_eq(result.retry_after_count, 0);
    http_client_close(client);
    server_close(&server);
}

Test(http_client, an_answer_before_the_body_was_read_counts)
{
    const struct step steps[] = {
        {.answer = "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n{}", .before_body = true}};
    struct server server;
    server_open(&server, steps, 1);
    struct http_client *client = open_client(1 << 20, 3000);
    struct http_result result = post(client, server.port, span_of("[1]"), false);
    cr_expect_eq(result.transport, HTTP_ANSWERED);
    cr_expect_eq(result.status, 401);
    http_client_close(client);
    server_close(&server);
}

Test(http_client, gzips_over_a_kibibyte_and_expects_nothing)
{
    const struct step steps[] = {{.answer = OK_ANSWER}, {.answer = OK_ANSWER}, {.answer = OK_ANSWER}};
    struct server server;
    server_open(&server, steps, 3);
    struct http_client *client = open_client(1 << 20, 3000);
    static char large[1500000];
    memset(large, 'a', sizeof large - 1);
    (void)post(client, server.port, (struct span){.at = large, .bytes = 1024}, true);
    cr_expect_eq(server.last_body, 1024);
    cr_expect_null(strcasestr(server.last, "content-encoding"));
    cr_expect_not_null(strcasestr(server.last, "accept-encoding: gzip\r\n"));
    cr_expect_not_null(strcasestr(server.last, "user-agent: belfry-test\r\n"));
    (void)post(client, server.port, (struct span){.at = large, .bytes = 1025}, true);
    cr_expect_lt(server.last_body, 200);
    cr_expect_not_null(strcasestr(server.last, "content-encoding: gzip\r\n"));
    (void)post(client, server.port, span_of(large), false);
    cr_expect_eq(server.last_body, sizeof large - 1);
    cr_expect_null(strcasestr(server.last, "expect:"));
    http_client_close(client);
    server_close(&server);
}

Test(http_client, follows_no_redirect)
{
    static const int statuses[] = {301, 302, 303, 307, 308};
    enum { COUNT = sizeof statuses / sizeof statuses[0] };
    struct step steps[COUNT];
    char answers[COUNT][160];
    struct server server;
    for (int i = 0; i < COUNT; i++) {
        snprintf(answers[i], sizeof answers[i],
                 "HTTP/1.1 %d Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", statuses[i]);
        steps[i] = (struct step){.answer = answers[i]};
    }
    server_open(&server, steps, COUNT);
    struct http_client *client = open_client(1 << 20, 3000);
    for (int i = 0; i < COUNT; i++) {
        struct http_result result = post(client, server.port, span_of("[1]"), false);
        cr_expect_eq(result.transport, HTTP_ANSWERED);
        cr_expect_eq(result.status, statuses[i]);
    }
    printf("redirects: %d answers 301 302 303 307 308, %d requests seen\n", COUNT,
           atomic_load(&server.requests));
    cr_expect_eq(atomic_load(&server.requests), COUNT);
    http_client_close(client);
    server_close(&server);
}

/* One mebibyte of the same letter, packed to about one KiB. */
static struct span pack_a_mebibyte(unsigned char *packed, size_t size)
{
    static unsigned char plain[1 << 20];
    memset(plain, 'x', sizeof plain);
    z_stream stream = {
        .next_in = plain, .avail_in = sizeof plain, .next_out = packed, .avail_out = (uInt)size};
    cr_assert_eq(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    cr_assert_eq(deflate(&stream, Z_FINISH), Z_STREAM_END);
    struct span made = {.at = (const char *)packed, .bytes = stream.total_out};
    deflateEnd(&stream);
    return made;
}

Test(http_client, responses_are_capped_unpacked_too)
{
    static unsigned char packed[8192];
    struct span bomb = pack_a_mebibyte(packed, sizeof packed);
    char head[160];
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n",
             bomb.bytes);
    const struct step steps[] = {
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 102400\r\n\r\n", .bloat = 102400, .hang_up = true},
        {.answer = "HTTP/1.1 200 OK\r\n\r\n", .bloat = 102400, .hang_up = true},
        {.answer = head, .packed = bomb, .hang_up = true},
        {.answer = head, .packed = bomb}};
    static const char *const names[] = {"100 KiB announced", "100 KiB not announced", "1 MiB in gzip"};
    struct server server;
    server_open(&server, steps, 4);
    struct http_client *client = open_client(10000, 3000);
    for (int i = 0; i < 3; i++) {
        struct http_result result = post(client, server.port, span_of("[1]"), false);
        printf("capped at 10,000 bytes: %s (%zu bytes on the wire): %zu kept\n", names[i],
               i == 2 ? bomb.bytes : (size_t)102400, result.body.bytes);
        cr_expect_eq(result.transport, HTTP_MAYBE, "%s", names[i]);
        cr_expect_leq(result.body.bytes, 10000);
    }
    http_client_close(client);
    client = open_client(1 << 20, 3000);
    struct http_result whole = post(client, server.port, span_of("[1]"), false);
    cr_expect_eq(whole.transport, HTTP_ANSWERED);
    cr_expect_eq(whole.body.bytes, 1 << 20, "exactly the cap is no more than the cap");
    http_client_close(client);
    server_close(&server);
}

static atomic_int signals_seen;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

/* A look-up that fails, timeouts, and a peer that hangs up under an upload: no alarm, no broken pipe, and the
 * handlers stay whose they were. */
Test(http_client, raises_no_signal)
{
    static const int numbers[] = {SIGALRM, SIGPIPE};
    static char large[1500000];
    const struct step steps[] = {{.before_body = true, .hang_up = true}, {.stall = true, .hang_up = true}};
    struct sigaction mine = {.sa_handler = count_signal}, now;
    for (int i = 0; i < 2; i++)
        sigaction(numbers[i], &mine, NULL);
    struct server server;
    server_open(&server, steps, 2);
    struct http_client *client = open_client(1 << 20, 500);
    memset(large, 'a', sizeof large);
    struct http_result cut =
        post(client, server.port, (struct span){.at = large, .bytes = sizeof large}, false);
    cr_expect_eq(cut.transport, HTTP_MAYBE);
    struct http_result late = post(client, server.port, span_of("[1]"), false);
    cr_expect(late.timed_out);
    struct http_request nowhere = {.url = "http://no-such-name.invalid/", .body = span_of("[1]")};
    struct http_result result;
    struct fault fault;
    cr_assert_eq(http_client_submit(client, &nowhere, 1, &fault), ST_OK);
    cr_assert(http_client_poll(client, 10000, &result));
    printf("signals: upload cut (%s), timeout (%s), no name (%s): %d signals\n", cut.cause, late.cause,
           result.cause, atomic_load(&signals_seen));
    cr_expect_eq(atomic_load(&signals_seen), 0);
    for (int i = 0; i < 2; i++) {
        sigaction(numbers[i], NULL, &now);
        cr_expect(now.sa_handler == count_signal);
    }
    http_client_close(client);
    server_close(&server);
}

enum { PER_THREAD = 200 };

struct user {
    pthread_t thread;
    struct server server;
    struct step steps[PER_THREAD];
    int right;
};

static void *use_client(void *context)
{
    struct user *user = context;
    struct http_client *client = open_client(1 << 20, 5000);
    for (int i = 0; i < PER_THREAD; i++) {
        char url[64], body[32];
        struct http_result result;
        struct fault fault;
        snprintf(url, sizeof url, "http://127.0.0.1:%d/send", user->server.port);
        snprintf(body, sizeof body, "[%d]", i);
        struct http_request request = {.url = url, .body = span_of(body)};
        bool sent = http_client_submit(client, &request, (uint64_t)i, &fault) == ST_OK;
        user->right += sent && http_client_poll(client, 10000, &result) && result.tag == (uint64_t)i &&
                       result.transport == HTTP_ANSWERED && span_is(result.body, "{}");
    }
    http_client_close(client);
    return NULL;
}

/* Two threads with a client each share nothing: every answer is its own thread's, over its own connection. */
Test(http_client, each_thread_has_handles_of_its_own)
{
    static struct user users[2];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < PER_THREAD; k++)
            users[i].steps[k] = (struct step){.answer = OK_ANSWER};
        server_open(&users[i].server, users[i].steps, PER_THREAD);
        pthread_create(&users[i].thread, NULL, use_client, &users[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(users[i].thread, NULL);
        printf("thread %d: %d of %d answers its own, %d requests over %d connections\n", i, users[i].right,
               PER_THREAD, atomic_load(&users[i].server.requests), atomic_load(&users[i].server.connections));
        cr_expect_eq(users[i].right, PER_THREAD);
        cr_expect_eq(atomic_load(&users[i].server.connections), 1);
        server_close(&users[i].server);
    }
}

/* The resolver of this program stands before the C library's: of one name it says nothing before it may. */
static sem_t may_answer;
static atomic_int asked, answered;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(node, "hanging.invalid") != 0)
        return real(node, service, hints, found);
    atomic_fetch_add(&asked, 1);
    sem_wait(&may_answer);
    atomic_fetch_add(&answered, 1);
    return EAI_AGAIN;
}

/* Nobody waits for a name look-up longer than for a connection: not the transfer, nor the close. */
Test(http_client, a_name_look_up_that_hangs_is_left_behind)
{
    sem_init(&may_answer, 0, 0);
    struct http_client *client = open_client(1 << 20, 60000); /* connect_timeout 1 s */
    struct http_request request = {.url = "http://hanging.invalid/", .body = span_of("[1]")};
    struct http_result result;
    struct fault fault;
    cr_assert_eq(http_client_submit(client, &request, 1, &fault), ST_OK);
    cr_assert(http_client_poll(client, 30000, &result), "bounded by connect_timeout, not request_timeout");
    cr_expect_eq(result.transport, HTTP_NOTHING_SENT);
    cr_expect(result.timed_out);
    http_client_close(client);
    printf("name look-up: asked %d times, answered %d times; %s, and closed\n", atomic_load(&asked),
           atomic_load(&answered), result.cause);
    cr_expect_eq(atomic_load(&asked), 1);
    cr_expect_eq(atomic_load(&answered), 0);
    sem_post(&may_answer); /* for the sake of leak checkers */
    for (int i = 0; i < 100 && atomic_load(&answered) == 0; i++)
        usleep(10000);
    usleep(50000);
}

Test(http_client, refuses_what_it_cannot_send_and_knows_its_bound)
{
    struct http_client *client = open_client(1 << 20, 3000);
    struct fault fault;
    const char *const bad[] = {
        "",          "ftp://127.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1/", "smb://127.0.0.1/x",
        "not a url", "http://"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct http_request request = {.url = bad[i], .body = span_of("[]")};
        cr_expect_eq(http_client_submit(client, &request, 1, &fault), ST_REJECT, "%s", bad[i]);
        printf("only http and https: \"%s\": %s\n", bad[i], fault.text);
    }
    static char large[3 * 1024 * 1024];
    struct http_request request = {.url = "http://127.0.0.1:1/",
                                   .body = {.at = large, .bytes = sizeof large}};
    cr_expect_eq(http_client_submit(client, &request, 1, &fault), ST_REJECT);
    request.body.bytes = 1;
    for (int i = 0; i < 3; i++)
        cr_expect_eq(http_client_submit(client, &request, 1, &fault), ST_OK);
    cr_expect_eq(http_client_submit(client, &request, 1, &fault), ST_RETRY);
    cr_expect_str_eq(fault.code, "busy");
    cr_expect_eq(http_client_in_flight(client), 3);
    http_client_abort(client);
    cr_expect_eq(http_client_in_flight(client), 0);
    http_client_close(client);
}
