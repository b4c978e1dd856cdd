/* Requests in, answers out, over libmicrohttpd driven by the caller's thread: no locks anywhere.
 * A request comes in whole and unpacked before anything looks at it; an answer may wait (suspended) until its
 * time; it may also be no answer at all: the connection is closed, reset, or closed in the middle.
 * Always holds: what a message's acceptance wrote is on disk before the first byte of the answer leaves. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support/simulator.h"

struct sim_server {
    struct sim *sim;
    struct MHD_Daemon *daemon;
};

enum { CONNECTIONS_MAX = 1000, BACKLOG = 511, WRITE_WAIT_MS = 5000 };

static const struct {
    const char *url, *method;
    enum sim_path path;
} routes[] = {
    {"/--/api/v2/push/send", "POST", SIM_SEND},
    {"/--/api/v2/push/getReceipts", "POST", SIM_RECEIPTS},
    {"/preferences", "POST", SIM_PREFERENCES},
};

static void route(struct sim_request *request, const char *url, const char *method)
{
    request->path = SIM_NOWHERE;
    request->get = strcmp(method, "GET") == 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(url, routes[i].url) == 0 && strcmp(method, routes[i].method) == 0)
            request->path = routes[i].path;
    }
    static const char prefix[] = "/control/";
    if (strncmp(url, prefix, sizeof prefix - 1) == 0) {
        request->path = SIM_CONTROL;
        (void)snprintf(request->control, sizeof request->control, "%s", url + sizeof prefix - 1);
    }
}

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static struct sim_request *request_new(struct sim *sim, struct MHD_Connection *connection)
{
    struct sim_request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return NULL;
    request->sim = sim;
    request->connection = connection;
    buffer_init(&request->body, SIM_BODY_MAX);
    buffer_init(&request->reply.body, SIM_REPLY_MAX);
    const char *value = header_of(connection, MHD_HTTP_HEADER_CONTENT_ENCODING);
    request->in_gzip = value != NULL && strcasecmp(value, "gzip") == 0;
    value = header_of(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    request->out_gzip = value != NULL && strstr(value, "gzip") != NULL;
    value = header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    request->authorization = value == NULL ? NULL : strdup(value);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info != NULL && info->socket_context != NULL) {
        unsigned long *carried = info->socket_context;
        request->reused = *carried > 0;
        *carried += 1;
    }
    return request;
}

static void count_arrival(struct sim_request *request)
{
    if (request->path >= SIM_COUNTED_PATHS)
        return;
    struct sim_counters *counters = &request->sim->counters[request->path];
    request->call = ++counters->calls;
    if (++counters->concurrent > counters->concurrent_max)
        counters->concurrent_max = counters->concurrent;
}

static void unpack(struct sim_request *request)
{
    if (!request->in_gzip)
        return;
    if (request->path < SIM_COUNTED_PATHS)
        request->sim->counters[request->path].gzip++;
    if (!sim_gunzip(&request->body))
        request->too_big = true;
}

static void answer(struct sim_request *request)
{
    struct sim *sim = request->sim;
    unpack(request);
    if (request->path < SIM_COUNTED_PATHS) {
        struct sim_counters *counters = &sim->counters[request->path];
        if ((long)request->body.bytes > counters->largest_bytes)
            counters->largest_bytes = (long)request->body.bytes;
        request->reply.delay_ms = sim->options.delay_ms;
    }
    if (request->too_big)
        sim_reply_error(request, 413, "PAYLOAD_TOO_LARGE",
                        "the body is too large or not what its encoding says", NULL);
    else if (request->path == SIM_SEND)
        sim_push_send(request);
    else if (request->path == SIM_RECEIPTS)
        sim_push_receipts(request);
    else if (request->path == SIM_PREFERENCES)
        sim_accounts(request);
    else if (request->path == SIM_CONTROL)
        sim_control(request);
    else
        sim_reply_text(request, 404, "text/plain", "no such path");
    request->answered = true;
}

/* Writes to the socket past libmicrohttpd: only for answers after which the connection is closed. */
static void write_raw(struct sim_request *request, const char *bytes, size_t count)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info == NULL)
        return;
    struct pollfd ready = {.fd = info->connect_fd, .events = POLLOUT};
    while (count > 0) {
        ssize_t sent = send(info->connect_fd, bytes, count, MSG_NOSIGNAL);
        if (sent > 0) {
            bytes += sent;
            count -= (size_t)sent;
        } else if (errno != EAGAIN || poll(&ready, 1, WRITE_WAIT_MS) <= 0) {
            return;
        }
    }
}

static void write_part(struct sim_request *request, bool with_half)
{
    char head[256];
    int bytes =
        snprintf(head, sizeof head, "HTTP/1.1 %u Scripted\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                 request->reply.status, request->reply.content_type, request->reply.body.bytes);
    write_raw(request, head, (size_t)bytes);
    if (with_half)
        write_raw(request, request->reply.body.at, request->reply.body.bytes / 2);
}

/* MHD_NO makes libmicrohttpd close the connection without a word. */
static enum MHD_Result end_early(struct sim_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    switch (request->reply.end) {
    case END_RESET:
        if (info != NULL)
            (void)setsockopt(info->connect_fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        break;
    case END_AFTER_HEADERS:
        write_part(request, false);
        break;
    case END_MID_BODY:
        write_part(request, true);
        break;
    case END_RAW:
        write_raw(request, request->reply.body.at, request->reply.body.bytes);
        break;
    case END_CLOSE:
    case END_REPLY:
        break;
    }
    return MHD_NO;
}

static enum MHD_Result send_reply(struct sim_request *request)
{
    struct sim_reply *reply = &request->reply;
    if (reply->end != END_REPLY)
        return end_early(request);
    bool encoded = json_object_get(reply->headers, "Content-Encoding") != NULL;
    bool packed =
        request->out_gzip && !encoded && reply->body.bytes > SIM_GZIP_FROM && sim_gzip(&reply->body);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(reply->body.bytes, reply->body.at, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    if (reply->content_type[0] != '\0')
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->content_type);
    if (packed)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    const char *name;
    json_t *value;
    json_object_foreach(reply->headers, name, value)
    {
        (void)MHD_add_response_header(response, name, json_string_value(value));
    }
    enum MHD_Result result = MHD_queue_response(request->connection, reply->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result finish(struct sim_request *request)
{
    struct sim *sim = request->sim;
    if (!request->answered) {
        answer(request);
        if (request->reply.delay_ms > 0) {
            request->due_ms = sim_now_ms(sim) + request->reply.delay_ms;
            request->next_waiting = sim->waiting;
            sim->waiting = request;
            MHD_suspend_connection(request->connection);
            return MHD_YES;
        }
    }
    return send_reply(request);
}

/* libmicrohttpd's signature. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **slot)
{
    struct sim_server *server = context;
    struct sim_request *request = *slot;
    (void)version;
    if (request == NULL) {
        request = request_new(server->sim, connection);
        if (request == NULL)
            return MHD_NO;
        *slot = request;
        route(request, url, method);
        count_arrival(request);
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        buffer_add(&request->body, upload, *upload_bytes);
        request->too_big = request->body.failed;
        *upload_bytes = 0;
        return MHD_YES;
    }
    return finish(request);
}

static void completed(void *context, struct MHD_Connection *connection, void **slot,
                      enum MHD_RequestTerminationCode code)
{
    struct sim_server *server = context;
    struct sim_request *request = *slot;
    (void)connection;
    (void)code;
    if (request == NULL)
        return;
    if (request->path < SIM_COUNTED_PATHS)
        server->sim->counters[request->path].concurrent--;
    json_decref(request->reply.headers);
    buffer_done(&request->body);
    buffer_done(&request->reply.body);
    free(request->authorization);
    free(request);
    *slot = NULL;
}

static void connection_changed(void *context, struct MHD_Connection *connection, void **socket_context,
                               enum MHD_ConnectionNotificationCode code)
{
    struct sim *sim = ((struct sim_server *)context)->sim;
    (void)connection;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = calloc(1, sizeof(unsigned long));
        if (++sim->connections > sim->connections_max)
            sim->connections_max = sim->connections;
    } else {
        free(*socket_context);
        *socket_context = NULL;
        sim->connections--;
    }
}

/* "ADDRESS:PORT" of IPv4. */
static bool parse_listen(const char *listen, struct sockaddr_in *address)
{
    char host[64];
    unsigned port;
    char end;
    if (sscanf(listen, "%63[0-9.]:%5u%c", host, &port, &end) != 2 || port > 65535) // NOLINT(cert-err34-c)
        return false;
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &address->sin_addr) == 1;
}

struct sim_server *sim_server_open(struct sim *sim, int *port)
{
    struct sockaddr_in address = {0};
    if (!parse_listen(sim->options.listen, &address))
        return NULL;
    struct sim_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return NULL;
    server->sim = sim;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO, 0, NULL, NULL, handle, server,
        MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned)BACKLOG, MHD_OPTION_NOTIFY_COMPLETED, completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, connection_changed, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)(128 << 10), MHD_OPTION_END);
    if (server->daemon == NULL) {
        free(server);
        return NULL;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    *port = info == NULL ? 0 : info->port;
    return server;
}

/* Wakes what is due; returns when the next one is, at most wait_ms from now. */
static int64_t wake_due(struct sim *sim, bool all, int64_t wait_ms)
{
    int64_t now_ms = sim_now_ms(sim);
    struct sim_request **at = &sim->waiting;
    while (*at != NULL) {
        struct sim_request *request = *at;
        int64_t left_ms = request->due_ms - now_ms;
        if (all || left_ms <= 0) {
            *at = request->next_waiting;
            MHD_resume_connection(request->connection);
            wait_ms = 0;
        } else {
            wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
            at = &request->next_waiting;
        }
    }
    return wait_ms;
}

void sim_server_run(struct sim_server *server, int64_t wait_ms)
{
    (void)MHD_run_wait(server->daemon, (int32_t)wake_due(server->sim, false, wait_ms));
}

void sim_server_close(struct sim_server *server)
{
    (void)wake_due(server->sim, true, 0);
    MHD_stop_daemon(server->daemon);
    free(server);
}
