/* What the tests of http_server share: a handler that says what it saw, and clients. */
#ifndef BELFRY_TESTS_HTTP_WORLD_H
#define BELFRY_TESTS_HTTP_WORLD_H

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

static inline void see(struct world *world, struct http_request *request)
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

static inline void handle(void *context, struct http_request *request)
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

static inline void finished(void *context, const struct http_exchange *exchange)
{
    struct world *world = context;
    world->last = *exchange;
    world->finished++;
}

static inline void gone(void *context, struct http_request *request)
{
    struct world *world = context;
    cr_assert_eq(world->kept, request);
    world->kept = NULL;
    world->gone++;
}

static inline void world_open(struct world *world, size_t connections_max)
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

static inline void world_close(struct world *world)
{
    http_server_close(world->server);
    buffer_done(&world->seen);
}

static inline int dial(struct world *world)
{
    return dial_server(world->server);
}

static inline void pump(struct world *world, int extra_ms)
{
    pump_server(world->server, extra_ms);
}

enum { REPLY_MAX = 256 * 1024 };

/* The whole reply's bytes so far: true once it is complete by its Content-Length, or of a HEAD. */
static inline bool is_whole(const char *reply, bool head)
{
    const char *end = strstr(reply, "\r\n\r\n"), *length = strcasestr(reply, "content-length: ");
    return end != NULL &&
           (head || length == NULL || length > end || strlen(end + 4) >= strtoul(length + 16, NULL, 10));
}

/* Sends and reads one reply; "" when the connection was closed without one. True when it was closed. */
static inline bool talk(struct world *world, int fd, struct span request, char *reply)
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

static inline bool ask(struct world *world, const char *request, size_t count, char *reply)
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

#endif
