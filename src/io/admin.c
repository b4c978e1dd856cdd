/* A thread with an HTTP server of its own: it answers whatever the loops do, and takes nothing from them but
 * the metrics' atomics and the readiness' mutex. A stop signal turns readiness false at the next look. */
#include "io/admin.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/signals.h"
#include "io/http_server.h"

#define TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define TYPE_JSON "application/json"

enum { CONNECTIONS_MAX = 64, TEXT_BYTES_MAX = 4 * 1024 * 1024 };

static const struct metric_row metric_rows[] = {
    {.name = "belfry_ready", .help = "1 when /readyz answers 200, else 0.", .type = METRIC_GAUGE}};

struct admin {
    struct http_server *server;
    struct metrics *metrics;
    struct metric_set *own;
    struct readiness *readiness;
    pthread_t thread;
    int end_fd;
};

static void reply_text(struct http_request *request, int status, const char *type, struct buffer *text)
{
    static const struct http_field fields[] = {{"Cache-Control", "no-store"}};
    const struct http_reply reply = {.status = text->failed ? 500 : status,
                                     .content_type = type,
                                     .body = text->failed ? (struct span){0} : buffer_span(text),
                                     .fields = fields,
                                     .field_count = 1};
    http_request_reply(request, &reply);
    buffer_done(text);
}

static bool is_ready(struct admin *admin, struct buffer *reasons)
{
    if (signals_stopping())
        readiness_leave(admin->readiness);
    return readiness_check(admin->readiness, reasons);
}

static void handle(void *context, struct http_request *request)
{
    static const struct http_field allow[] = {{"Allow", "GET, HEAD"}};
    struct admin *admin = context;
    struct span path = http_request_path(request);
    enum http_method method = http_request_method(request);
    bool live = span_is(path, "/livez"), ready = span_is(path, "/readyz"),
         metrics = span_is(path, "/metrics");
    struct buffer text;
    buffer_init(&text, TEXT_BYTES_MAX);
    if (!live && !ready && !metrics) {
        http_request_refuse(request,
                            &(const struct http_problem){.status = 404,
                                                         .code = "not_found",
                                                         .detail = "There are /livez, /readyz, /metrics."});
    } else if (method != HTTP_GET && method != HTTP_HEAD) {
        http_request_refuse(request, &(const struct http_problem){.status = 405,
                                                                  .code = "method_not_allowed",
                                                                  .detail = "Only GET and HEAD.",
                                                                  .fields = allow,
                                                                  .field_count = 1});
    } else if (live) {
        buffer_add_text(&text, "alive\n");
        reply_text(request, 200, TYPE_TEXT, &text);
    } else if (metrics) {
        metric_put(admin->own, 0, 0, is_ready(admin, NULL) ? 1 : 0);
        metrics_write(admin->metrics, &text);
        reply_text(request, 200, TYPE_TEXT, &text);
    } else {
        bool good = is_ready(admin, &text);
        reply_text(request, good ? 200 : 503, TYPE_JSON, &text);
    }
}

static void *serve(void *context)
{
    struct admin *admin = context;
    for (;;) {
        struct pollfd fds[2] = {{.fd = http_server_fd(admin->server), .events = POLLIN},
                                {.fd = admin->end_fd, .events = POLLIN}};
        if (poll(fds, 2, http_server_wait_ms(admin->server)) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents != 0)
            return NULL;
        http_server_run(admin->server);
    }
}

enum status admin_open(const struct admin_options *options, struct admin **out, struct fault *fault)
{
    struct admin *admin = calloc(1, sizeof *admin);
    if (admin == NULL) {
        fault_set(fault, "memory", "no memory for the admin port");
        return ST_STOP;
    }
    admin->metrics = options->metrics;
    admin->own = metrics_add(options->metrics, metric_rows, sizeof metric_rows / sizeof *metric_rows);
    admin->readiness = options->readiness;
    admin->end_fd = eventfd(0, EFD_CLOEXEC);
    const struct http_server_options server = {.listen = options->listen,
                                               .connections_max = CONNECTIONS_MAX,
                                               .handler = {.handle = handle, .context = admin},
                                               .clock = options->clock};
    enum status status = http_server_open(&server, &admin->server, fault);
    if (status == ST_OK && (admin->end_fd < 0 || pthread_create(&admin->thread, NULL, serve, admin) != 0)) {
        fault_set(fault, "thread", "cannot start the admin thread");
        http_server_close(admin->server);
        status = ST_STOP;
    }
    if (status == ST_OK) {
        *out = admin;
        return ST_OK;
    }
    if (admin->end_fd >= 0)
        close(admin->end_fd);
    free(admin);
    return status;
}

void admin_close(struct admin *admin)
{
    if (admin == NULL)
        return;
    ssize_t written = write(admin->end_fd, &(const uint64_t){1}, sizeof(uint64_t));
    (void)written;
    pthread_join(admin->thread, NULL);
    http_server_close(admin->server);
    close(admin->end_fd);
    free(admin);
}

uint16_t admin_port(const struct admin *admin)
{
    return http_server_port(admin->server);
}
