/* An HTTP/1.1 server in one thread, over libmicrohttpd, inside a loop that the caller owns.
 *
 *     for (;;) {
 *         poll({http_server_fd(server), POLLIN}, …other fds…, http_server_wait_ms(server));
 *         http_server_run(server);
 *         …
 *     }
 *
 * The handler gets one whole request (head and body read, limits kept) and either replies at once or keeps
 * the request and replies later, from the same thread: an unanswered request waits without a thread.
 * Always holds: every request that reached the handler gets exactly one http_request_reply, or is gone, or
 * dies with http_server_close. A request is void once it was replied to.
 *
 * Limits (contracts/reader-api.md): request line and head 16 KiB and 100 lines (414, 431), body 64 KiB (413),
 * idle 30 s, the whole head within 10 s of its first byte, of a reply 32 KiB taken every 30 s,
 * max_connections (more wait in the listen queue). What two readers of the same bytes could understand
 * differently is refused with 400 and the connection closed: a second Content-Length, or one beside
 * Transfer-Encoding, a line that is folded or ends without CRLF, control characters, a doubled Host or
 * Authorization, a broken percent code or %00 in the target. Every answer carries Request-Id. What the server
 * refuses itself is problem+json too where a head was read. */
#ifndef BELFRY_IO_HTTP_SERVER_H
#define BELFRY_IO_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/span.h"
#include "base/status.h"

enum {
    HTTP_HEAD_BYTES_MAX = 16 * 1024,
    HTTP_FIELDS_MAX = 100, /* header lines: more are 431 */
    HTTP_BODY_BYTES_MAX = 64 * 1024,
    HTTP_PARAMETERS_MAX = 64, /* in a query: more are 400 invalid_parameter */
    HTTP_REPLY_FIELDS_MAX = 16,
    HTTP_IDEMPOTENCY_KEY_MAX = 255,
    HTTP_ORIGINS_MAX = 64,
    HTTP_IDLE_S = 30,
    HTTP_GONE = 499,      /* the status of an exchange whose client left before its reply; on no wire */
    HTTP_HEAD_MS = 10000, /* for a whole head, from its first byte */
    HTTP_BODY_MS = 30000, /* for a whole body, from the end of its head */
    HTTP_TAKE_BYTES = 32 * 1024, /* of a reply that a client must take in HTTP_TAKE_MS, while there are any */
    HTTP_TAKE_MS = 30000,
    HTTP_STREAM_BYTES = 128 * 1024 /* held of one stream at most, beside 64 KiB of zlib's when it packs */
};

struct http_server;
struct http_request;
struct http_stream;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER
};

/* The request headers a handler may ask for; no other is read, but for those that say where a request ends.
 * Each has a grammar of its own, judged by who reads it (SECURITY.md has the list). */
enum http_header {
    HTTP_ACCEPT_ENCODING,
    HTTP_ACCESS_CONTROL_REQUEST_METHOD,
    HTTP_AUTHORIZATION,
    HTTP_IDEMPOTENCY_KEY, /* 1 to HTTP_IDEMPOTENCY_KEY_MAX visible ASCII characters */
    HTTP_IF_NONE_MATCH,
    HTTP_ORIGIN
};

struct http_parameter {
    struct span name, value; /* percent-decoded, '+' is a blank; may hold any byte but NUL */
};

struct http_field {
    const char *name, *value; /* value: no control characters */
};

struct http_reply {
    int status;
    const char *content_type; /* NULL: none */
    struct span body;         /* copied; with status 304: what a 200 would have, only its length goes out */
    const struct http_field *fields;
    size_t field_count; /* at most HTTP_REPLY_FIELDS_MAX */
};

/* One finished exchange, for the log and metrics. */
struct http_exchange {
    enum http_method method;
    int status;
    size_t body_bytes; /* of the reply */
    int64_t took_us;
    const char *request_id;
    struct span path; /* raw; may name users and ids */
    bool complete;    /* the client took the whole reply, and it was whole */
    bool stream;      /* of http_request_stream: took_us is as long as it was to send */
};

struct http_handler {
    /* Replies or keeps the request. Called from http_server_run only. */
    void (*handle)(void *context, struct http_request *request);
    /* May be NULL. Also for what the server refused itself. */
    void (*finished)(void *context, const struct http_exchange *exchange);
    void *context;
    /* May be NULL: then it is not looked for. The client of a kept request closed its side of the connection
     * and nothing of its bytes is unread: nobody waits for the reply. Called from http_server_run, within 250
     * ms; the request is void when it returns, and must not be replied to. */
    void (*gone)(void *context, struct http_request *request);
};

struct http_server_options {
    struct config_address listen;
    size_t connections_max;
    struct http_handler handler;
    struct clock clock;
    /* Web pages of these origins may read the replies; what it points to must live as long as the server.
     * Only a header lets them in, Authorization: no cookies, so no Access-Control-Allow-Credentials. */
    struct config_list cors_origins;
    /* Bodies over 1 KiB (and up to 256 KiB) go out as gzip when Accept-Encoding has it; a HEAD tells the
     * length that the same GET would have. Every reply then says Vary: Accept-Encoding. */
    bool gzip;
};

/* ST_REJECT "config", field http.cors_origins: one that no browser would send. */
MUST_USE enum status http_origins_check(const struct config_list *origins, struct fault *fault);

/* Listens. ST_STOP: the address cannot be bound (field "listen"). */
MUST_USE enum status http_server_open(const struct http_server_options *options, struct http_server **server,
                                      struct fault *fault);
/* Requests that still wait for a reply get 503 unavailable. NULL is allowed. */
void http_server_close(struct http_server *server);
/* Takes no new connections and answers "Connection: close" from now on; requests under way go on. */
void http_server_quiesce(struct http_server *server);
/* Connections that are open; with quiesce: wait for 0, or for your deadline. */
size_t http_server_connections(const struct http_server *server);
/* Streams that still go out, ended ones too; with quiesce: wait for 0, or for your deadline. */
size_t http_server_streams(const struct http_server *server);

/* The port in force (listen's may be 0). */
uint16_t http_server_port(const struct http_server *server);
/* Readable when http_server_run has work. */
int http_server_fd(const struct http_server *server);
/* How long poll may wait before http_server_run must be called anyway; -1: for ever. */
int http_server_wait_ms(struct http_server *server);
/* Does what is ready and returns; never blocks. */
void http_server_run(struct http_server *server);

enum http_method http_request_method(const struct http_request *request);
/* As it was sent, without the query; not decoded. Begins with '/'. */
struct span http_request_path(const struct http_request *request);
/* The decoded query in order, repeats kept. */
const struct http_parameter *http_request_parameters(const struct http_request *request, size_t *count);
/* at NULL when it was not sent; of the two that are lists (Accept-Encoding, If-None-Match) the first line. */
struct span http_request_header(const struct http_request *request, enum http_header header);
struct span http_request_body(const struct http_request *request);
/* 24 lower-case hex digits, unique; also in the reply's Request-Id. */
const char *http_request_id(const struct http_request *request);

/* Answers; the request is void afterwards. The body is left out for HEAD. When the heap is empty, the
 * connection is cut. */
void http_request_reply(struct http_request *request, const struct http_reply *reply);
/* The house's error answer: RFC 9457 problem+json, "type":"about:blank", title from the status, status, code,
 * detail, request_id, and one more text member when name is not NULL; fields are added to the reply,
 * Cache-Control: private, no-store where there are none. */
struct http_problem {
    int status;
    const char *code, *detail;
    const char *name; /* NULL: none; else a further member, e.g. "parameter" */
    struct span value;
    const struct http_field *fields;
    size_t field_count;
};
void http_request_refuse(struct http_request *request, const struct http_problem *problem);

/* ---- a reply whose length is not known ------------------------------------------------------------------
 *
 *     stream = http_request_stream(request, &reply, &handler);
 *     while (more && http_stream_write(stream, piece) == piece.bytes) …     until it takes less than given;
 *     then wait for handler.room and go on; http_stream_end, or http_stream_cut when it cannot be whole.
 *
 * Chunked, packed with gzip where a body would be. Always holds: HTTP_STREAM_BYTES are held and no more,
 * however slow the client is; only http_stream_end makes the final chunk, so that what was cut, by whom and
 * wherever, is an error to every client. http_server_quiesce lets streams end; http_server_close cuts them.
 */

struct http_stream_handler {
    /* At least half of the buffer is free again. Called once after each http_stream_write that took less than
     * it was given, from http_server_run; may write, end or cut. */
    void (*room)(void *context, struct http_stream *stream);
    /* The client left, or took nothing for HTTP_IDLE_S, or the server closes. The stream is void when it
     * returns. Called from http_server_run and http_server_close, never after http_stream_end or _cut. */
    void (*gone)(void *context, struct http_stream *stream);
    void *context;
};

/* Answers with reply's status, content type and fields (its body is not looked at); the request is void
 * afterwards. NULL: nothing is to be written: the request was a HEAD; or of HTTP/1.0, which could not tell a
 * cut stream from a whole one (refused: 505 http_version); or the heap is empty (the connection is cut). */
struct http_stream *http_request_stream(struct http_request *request, const struct http_reply *reply,
                                        const struct http_stream_handler *handler);
/* Takes what there is room for; how many bytes that was. */
MUST_USE size_t http_stream_write(struct http_stream *stream, struct span piece);
/* That was all: what is held goes out, then the final chunk. The stream is void. */
void http_stream_end(struct http_stream *stream);
/* Ends the connection without a final chunk. The stream is void. */
void http_stream_cut(struct http_stream *stream);

/* Answers 204 to a CORS preflight of an origin of ours; allow is the path's methods. False: it is none, and
 * not answered. */
bool http_request_preflight(struct http_request *request, const char *allow);

/* One percent-encoded component decoded into out (component.bytes long). False: a bad escape. */
bool http_percent_decode(struct span component, bool plus_is_blank, char *out, size_t *bytes);

#endif
