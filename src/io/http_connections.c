/* The TCP connections of an HTTP server, and the time each may take for a head, a body or a reply. In:
 * descriptors and what the kernel knows of them; out: those that are late, cut. The library knows idleness
 * only, and a byte now and then is not idle. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "http_private.h"

static struct tcp_info ask_kernel(int fd)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        info = (struct tcp_info){0};
    return info;
}

static uint64_t bytes_received(int fd)
{
    return ask_kernel(fd).tcpi_bytes_received;
}

struct http_connection *http_connection_add(struct http_connection **list, int fd)
{
    struct http_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return NULL;
    connection->fd = fd;
    connection->reading_head = true;
    connection->next = *list;
    if (*list != NULL)
        (*list)->previous = connection;
    *list = connection;
    return connection;
}

void http_connection_remove(struct http_connection **list, struct http_connection *connection)
{
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        *list = connection->next;
    free(connection);
}

void http_connection_await_head(struct http_connection *connection)
{
    connection->reading_head = true;
    connection->reading_body = false;
    connection->replying = false;
    connection->first_byte_ms = 0;
    connection->taking_ms = 0;
    connection->bytes_before = bytes_received(connection->fd);
}

/* Bytes lie ready for the client, and it took too few. Where it has taken all, we are the slow ones. */
static bool takes_too_slowly(struct http_connection *connection, int64_t now_ms)
{
    struct tcp_info info = ask_kernel(connection->fd);
    bool all_taken = info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0;
    if (!all_taken && connection->taking_ms != 0 && now_ms - connection->taking_ms < HTTP_TAKE_MS)
        return false;
    bool slow = !all_taken && connection->taking_ms != 0 &&
                info.tcpi_bytes_acked - connection->taken_before < HTTP_TAKE_BYTES;
    connection->taking_ms = all_taken ? 0 : now_ms;
    connection->taken_before = info.tcpi_bytes_acked;
    return slow;
}

/* Whether a head that began, or a body, did not end in time, or a reply is hardly taken. */
static bool is_late(struct http_connection *connection, int64_t now_ms)
{
    if (connection->replying)
        return takes_too_slowly(connection, now_ms);
    if (connection->reading_body)
        return now_ms - connection->head_end_ms >= HTTP_BODY_MS;
    if (!connection->reading_head)
        return false;
    if (connection->first_byte_ms == 0 && bytes_received(connection->fd) > connection->bytes_before)
        connection->first_byte_ms = now_ms;
    return connection->first_byte_ms != 0 && now_ms - connection->first_byte_ms >= HTTP_HEAD_MS;
}

void http_connections_cut_late(struct http_connection *list, int64_t now_ms)
{
    for (struct http_connection *each = list; each != NULL; each = each->next) {
        if (is_late(each, now_ms))
            (void)shutdown(each->fd, SHUT_RDWR);
    }
}

bool http_connection_is_gone(const struct http_connection *connection)
{
    struct pollfd fd = {.fd = connection->fd, .events = POLLRDHUP};
    char byte;
    if (poll(&fd, 1, 0) <= 0)
        return false;
    return (fd.revents & (POLLERR | POLLHUP)) != 0 ||
           recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}
