/* A server pumped by the test itself over real sockets on 127.0.0.1: one thread, so that every order of
 * events is the test's to choose, and a clock that the test moves on. */
#ifndef BELFRY_TESTS_HTTP_PUMP_H
#define BELFRY_TESTS_HTTP_PUMP_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/http_server.h"

static int64_t clock_shift_ms;

static int64_t shifted_ms(void *context)
{
    (void)context;
    return clock_monotonic_ms(&clock_system) + clock_shift_ms;
}

static inline struct clock shifted_clock(void)
{
    struct clock clock = clock_system;
    clock_shift_ms = 0;
    clock.monotonic_ms = shifted_ms;
    return clock;
}

/* A small receive buffer (0: the system's) makes a client that does not read felt at once. */
static inline int dial_server_with(const struct http_server *server, int receive_bytes)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(http_server_port(server)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    if (receive_bytes > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    (void)connect(fd, (const struct sockaddr *)&address, sizeof address);
    return fd;
}

static inline int dial_server(const struct http_server *server)
{
    return dial_server_with(server, 0);
}

static inline void pump_server(struct http_server *server, int extra_ms)
{
    struct pollfd fd = {http_server_fd(server), POLLIN, 0};
    int wait_ms = http_server_wait_ms(server);
    (void)poll(&fd, 1, wait_ms >= 0 && wait_ms < extra_ms ? wait_ms : extra_ms);
    http_server_run(server);
}

#endif
