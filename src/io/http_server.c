/* Connections in, whole requests to a handler, replies out: libmicrohttpd 0.9.75 in external epoll mode.
 * A request the handler keeps suspends its connection; http_request_reply resumes it and the reply goes out
 * on the next run. Always holds: one thread, a reply at most once a request, bounded head, body and number
 * of connections. A crash here loses the requests under way and nothing else. */
#include "io/http_server.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "http_private.h"

enum {
    POOL_BYTES = 32 * 1024, /* the library's memory a connection: head, its parsed form, the reply's head */
    POOL_STEP_BYTES = 4096,
    DROPPED_BYTES_MAX = 1024 * 1024, /* of a chunked body over the limit: then the connection is cut */
    SWEEP_MS = 1000,
    GONE_MS = 250,
    CLOSE_ROUNDS = 20
};

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- connections and the time a head may take ------------------------------------------------------------
 */

static void connection_open(struct http_server *server, struct MHD_Connection *handle, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = http_connection_add(&server->connections, info->connect_fd);
    server->connection_count += *context != NULL; /* without one its requests are refused: on_target */
}

static void connection_close(struct http_server *server, struct http_connection *connection)
{
    if (connection == NULL)
        return;
    http_connection_remove(&server->connections, connection);
    server->connection_count--;
}

static void on_connection(void *context, struct MHD_Connection *handle, void **own,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        connection_open(context, handle, own);
    else
        connection_close(context, *own);
}

static void sweep(struct http_server *server)
{
    int64_t now_ms = clock_monotonic_ms(&server->clock);
    if (now_ms < server->sweep_at_ms)
        return;
    server->sweep_at_ms = now_ms + SWEEP_MS;
    http_connections_cut_late(server->connections, now_ms);
}

/* ---- requests --------------------------------------------------------------------------------------------
 */

static void request_free(struct http_request *request)
{
    if (request->response != NULL)
        MHD_destroy_response(request->response);
    http_stream_free(request->stream);
    free(request->target);
    free(request->decoded);
    free(request->parameters);
    free(request->body);
    free(request);
}

/* The request line is read; what this returns is the request's context from here on. */
static void *on_target(void *context, const char *target, struct MHD_Connection *handle)
{
    struct http_server *server = context;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return NULL;
    request->server = server;
    request->connection = info->socket_context;
    request->handle = handle;
    request->started_us = now_us();
    request->target = strdup(target);
    request->target_bytes = strlen(target);
    snprintf(request->id, sizeof request->id, "%s%08x", server->id_prefix, server->next_id++);
    if (request->target == NULL || request->connection == NULL) {
        request_free(request);
        return NULL;
    }
    return request;
}

static void waiting_add(struct http_request *request)
{
    struct http_server *server = request->server;
    request->waiting = true;
    request->next = server->waiting;
    if (server->waiting != NULL)
        server->waiting->previous = request;
    server->waiting = request;
}

static void waiting_remove(struct http_request *request)
{
    if (!request->waiting)
        return;
    if (request->next != NULL)
        request->next->previous = request->previous;
    if (request->previous != NULL)
        request->previous->next = request->next;
    else
        request->server->waiting = request->next;
    request->waiting = false;
}

static void on_completed(void *context, struct MHD_Connection *handle, void **own,
                         enum MHD_RequestTerminationCode code)
{
    (void)handle;
    struct http_server *server = context;
    struct http_request *request = *own;
    if (request == NULL)
        return;
    http_connection_await_head(request->connection);
    if (request->stream != NULL)
        request->reply_bytes = http_stream_sent(request->stream);
    if (request->status != 0 && server->handler.finished != NULL) {
        const struct http_exchange exchange = {.method = request->method,
                                               .status = request->status,
                                               .body_bytes = request->reply_bytes,
                                               .took_us = now_us() - request->started_us,
                                               .request_id = request->id,
                                               .path = request->path,
                                               .complete = code == MHD_REQUEST_TERMINATED_COMPLETED_OK,
                                               .stream = request->stream != NULL};
        server->handler.finished(server->handler.context, &exchange);
    }
    waiting_remove(request);
    request_free(request);
    *own = NULL;
}

/* ---- the head --------------------------------------------------------------------------------------------
 */

/* The library parses in place: a NUL where the colon was, and two where CRLF was. A folded line's name it
 * moves away, with the fold behind it ("Content-Length: 44", " x" becomes Content-Lengthx: no length at all),
 * and a bare LF, or a NUL in the value, leaves one NUL only. A newer library that does otherwise fails our
 * tests and refuses; it lets nothing in. value ends with a NUL and is followed by another line. */
static bool is_one_line(struct span name, struct span value)
{
    const char *at = name.at + name.bytes;
    if (value.at <= at || value.at - at > HTTP_HEAD_BYTES_MAX)
        return false;
    for (at++; at < value.at; at++) {
        if (*at != ' ' && *at != '\t')
            return false;
    }
    return value.at[value.bytes + 1] == '\0';
}

/* The library's signature. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result on_header(void *context, enum MHD_ValueKind kind, const char *name, size_t name_bytes,
                                 const char *value, size_t value_bytes)
{
    (void)kind;
    struct http_head *head = context;
    struct span name_text = {name, name_bytes}, value_text = {value, value_bytes};
    if (value == NULL || !is_one_line(name_text, value_text))
        http_head_flaw(head, "A header is not one line that ends with CRLF.");
    else
        http_head_add(head, name_text, value_text);
    return MHD_YES;
}

static void refuse(struct http_request *request, int status, const char *code, const char *detail)
{
    http_request_refuse(request,
                        &(const struct http_problem){.status = status, .code = code, .detail = detail});
}

/* Sees the whole head before a byte of the body; a refusal here ends the connection after its reply. */
static void begin(struct http_request *request, const char *method, const char *version)
{
    struct http_head head = {.request = request};
    struct http_problem problem;
    request->head_done = true;
    request->method = http_method_of(method);
    request->chunks = strncmp(version, "HTTP/1.", 7) == 0 && version[7] != '0';
    request->connection->reading_head = false;
    request->connection->reading_body = true;
    request->connection->head_end_ms = clock_monotonic_ms(&request->server->clock);
    (void)MHD_get_connection_values_n(request->handle, MHD_HEADER_KIND, on_header, &head);
    if (!http_head_check(&head, strlen(method), &problem))
        http_request_refuse(request, &problem);
}

/* False: cut the connection. */
static bool take_body(struct http_request *request, const char *bytes, size_t count)
{
    if (request->too_large || request->body_bytes + count > HTTP_BODY_BYTES_MAX) {
        request->too_large = true;
        request->body_dropped += count;
        return request->body_dropped <= DROPPED_BYTES_MAX;
    }
    if (request->body_bytes + count > request->body_capacity) {
        size_t capacity = request->body_capacity == 0 ? 1024 : request->body_capacity;
        while (capacity < request->body_bytes + count)
            capacity *= 2;
        char *grown = realloc(request->body, capacity);
        if (grown == NULL)
            return false;
        request->body = grown;
        request->body_capacity = capacity;
    }
    memcpy(request->body + request->body_bytes, bytes, count);
    request->body_bytes += count;
    return true;
}

/* ---- replies ---------------------------------------------------------------------------------------------
 */

static enum MHD_Result queue(struct http_request *request)
{
    request->connection->replying = true;
    enum MHD_Result result =
        MHD_queue_response(request->handle, (unsigned)request->status, request->response);
    MHD_destroy_response(request->response);
    request->response = NULL;
    return result;
}

void http_request_release(struct http_request *request)
{
    waiting_remove(request);
    if (!request->suspended)
        return;
    request->suspended = false;
    request->server->resumed = true;
    MHD_resume_connection(request->handle);
}

/* Without a response (no memory) on_access cuts the connection. */
void http_request_reply(struct http_request *request, const struct http_reply *reply)
{
    assert(request->status == 0 && reply->status >= 200 && reply->field_count <= HTTP_REPLY_FIELDS_MAX);
    request->status = reply->status;
    request->response = http_reply_make(request, reply);
    http_request_release(request);
}

/* A suspended connection is not watched by the library. */
static void drop_gone(struct http_server *server)
{
    int64_t now_ms = clock_monotonic_ms(&server->clock);
    if (now_ms < server->gone_at_ms)
        return;
    server->gone_at_ms = now_ms + GONE_MS;
    http_streams_drop_gone(server);
    if (server->handler.gone == NULL)
        return;
    struct http_request *next;
    for (struct http_request *request = server->waiting; request != NULL; request = next) {
        next = request->next;
        if (!request->suspended || !http_connection_is_gone(request->connection))
            continue;
        server->handler.gone(server->handler.context, request);
        request->status = HTTP_GONE; /* without a response: on_access cuts the connection */
        http_request_release(request);
    }
}

/* The library asks once with the head, then with each piece of the body, then with none left, and once more
 * when a suspended connection was resumed. Its signature. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result on_access(void *context, struct MHD_Connection *handle, const char *url,
                                 const char *method, const char *version, const char *bytes, size_t *count,
                                 void **own)
{
    (void)url;
    struct http_server *server = context;
    struct http_request *request = *own;
    if (request == NULL)
        return MHD_NO;
    if (!request->head_done) {
        begin(request, method, version);
        if (request->status == 0)
            return MHD_YES;
        return request->response == NULL ? MHD_NO : queue(request);
    }
    if (*count > 0) {
        bool taken = take_body(request, bytes, *count);
        *count = 0;
        return taken ? MHD_YES : MHD_NO;
    }
    request->connection->reading_body = false;
    if (request->status == 0 && request->too_large) {
        refuse(request, 413, "too_large", "The body is over 64 KiB.");
    } else if (request->status == 0) {
        waiting_add(request);
        server->handler.handle(server->handler.context, request);
        if (request->status == 0) {
            request->suspended = true;
            MHD_suspend_connection(handle);
            return MHD_YES;
        }
    }
    return request->response == NULL ? MHD_NO : queue(request);
}

/* ---- the server ------------------------------------------------------------------------------------------
 */

static bool start(struct http_server *server, const struct http_server_options *options, int fd)
{
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_access, server, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->connections_max, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)POOL_STEP_BYTES, MHD_OPTION_URI_LOG_CALLBACK,
        on_target, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_END);
    return server->daemon != NULL;
}

enum status http_server_open(const struct http_server_options *options, struct http_server **out,
                             struct fault *fault)
{
    unsigned char random[8];
    int fd = http_listen(&options->listen, fault);
    if (fd < 0)
        return ST_STOP;
    struct http_server *server = calloc(1, sizeof *server);
    if (server == NULL || getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        free(server);
        close(fd);
        fault_set(fault, "memory", "no memory for an HTTP server");
        return ST_STOP;
    }
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(server->id_prefix + 2 * i, 3, "%02x", random[i]);
    server->handler = options->handler;
    server->clock = options->clock;
    server->cors_origins = options->cors_origins;
    server->gzip = options->gzip;
    server->port = http_listen_port(fd);
    if (!start(server, options, fd)) {
        fault_set(fault, "listen", "libmicrohttpd cannot start: %s", strerror(errno));
        close(fd);
        free(server);
        return ST_STOP;
    }
    *out = server;
    return ST_OK;
}

void http_server_quiesce(struct http_server *server)
{
    if (server->quiesced)
        return;
    server->quiesced = true;
    int fd = MHD_quiesce_daemon(server->daemon);
    if (fd >= 0)
        close(fd);
}

void http_server_close(struct http_server *server)
{
    if (server == NULL)
        return;
    http_server_quiesce(server);
    while (server->waiting != NULL)
        refuse(server->waiting, 503, "unavailable", "The server is leaving.");
    http_streams_cut(server);
    for (int i = 0; i < CLOSE_ROUNDS; i++)
        (void)MHD_run(server->daemon);
    MHD_stop_daemon(server->daemon);
    assert(server->connections == NULL);
    free(server);
}

size_t http_server_connections(const struct http_server *server)
{
    return server->connection_count;
}

size_t http_server_streams(const struct http_server *server)
{
    return server->stream_count;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

int http_server_fd(const struct http_server *server)
{
    return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int http_server_wait_ms(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout = 0;
    if (server->resumed)
        return 0;
    int64_t wait_ms = MHD_get_timeout(server->daemon, &timeout) == MHD_YES ? (int64_t)timeout : -1;
    if (server->connections != NULL && (wait_ms < 0 || wait_ms > SWEEP_MS))
        wait_ms = SWEEP_MS;
    bool look = server->streams != NULL || (server->waiting != NULL && server->handler.gone != NULL);
    if (look && (wait_ms < 0 || wait_ms > GONE_MS))
        wait_ms = GONE_MS;
    return (int)wait_ms;
}

void http_server_run(struct http_server *server)
{
    server->resumed = false;
    (void)MHD_run(server->daemon);
    http_streams_tell(server);
    drop_gone(server);
    sweep(server);
}

/* ---- what a handler asks ---------------------------------------------------------------------------------
 */

enum http_method http_request_method(const struct http_request *request)
{
    return request->method;
}

struct span http_request_path(const struct http_request *request)
{
    return request->path;
}

const struct http_parameter *http_request_parameters(const struct http_request *request, size_t *count)
{
    *count = request->parameter_count;
    return request->parameters;
}

struct span http_request_header(const struct http_request *request, enum http_header header)
{
    return request->headers[header];
}

struct span http_request_body(const struct http_request *request)
{
    return (struct span){request->body, request->body_bytes};
}

bool http_request_preflight(struct http_request *request, const char *allow)
{
    return http_origin_preflight(request, &request->server->cors_origins, allow);
}

const char *http_request_id(const struct http_request *request)
{
    return request->id;
}
