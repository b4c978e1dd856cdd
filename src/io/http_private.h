/* What the files of the HTTP server share. libmicrohttpd itself is known to http_server.c, http_reply.c and
 * http_stream.c. */
#ifndef BELFRY_HTTP_PRIVATE_H
#define BELFRY_HTTP_PRIVATE_H

#include "base/buffer.h"
#include "io/http_server.h"

enum { HTTP_REQUEST_ID_BYTES = 24, HTTP_KNOWN_HEADERS = HTTP_ORIGIN + 1 };

struct MHD_Connection;
struct MHD_Daemon;
struct MHD_Response;

struct http_server {
    struct MHD_Daemon *daemon;
    struct http_handler handler;
    struct clock clock;
    struct http_connection *connections;
    size_t connection_count;
    struct http_request *waiting;
    struct http_stream *streams;
    size_t stream_count;
    bool quiesced;
    bool resumed;     /* a connection: run again before waiting */
    bool look_around; /* a stream that waited for room may have it */
    uint16_t port;
    struct config_list cors_origins;
    bool gzip;
    int64_t sweep_at_ms, gone_at_ms;
    char id_prefix[17];
    uint32_t next_id;
};

/* Lives from the request line to the end of the reply. */
struct http_request {
    struct http_server *server;
    struct http_connection *connection;
    struct MHD_Connection *handle;
    struct http_request *next, *previous; /* among those that wait for a reply */
    char id[HTTP_REQUEST_ID_BYTES + 1];
    enum http_method method;
    char *target; /* as sent, ours */
    size_t target_bytes;
    struct span path;
    char *decoded; /* the query's decoded bytes */
    struct http_parameter *parameters;
    size_t parameter_count;
    struct span headers[HTTP_KNOWN_HEADERS]; /* in the connection's memory */
    char *body;
    size_t body_bytes, body_capacity, body_dropped;
    int64_t started_us;
    bool chunks; /* it is of HTTP/1.1 */
    bool head_done, too_large, waiting, suspended;
    int status; /* of the reply; 0: none yet */
    size_t reply_bytes;
    struct MHD_Response *response; /* made, not yet queued */
    struct http_stream *stream;    /* NULL: the reply is none */
};

/* The library goes on with the request, if it waited: its reply is there, or it has none and is cut. */
void http_request_release(struct http_request *request);

/* Splits the target into path and parameters. False: a bad escape, too many parameters, or a path that does
 * not begin with '/'; *memory is true when it was the heap. */
bool http_target_parse(struct http_request *request, bool *memory);

/* ---- http_reply.c ---------------------------------------------------------------------------------------
 */

/* A reply's body, which is copied, with the fields the server itself adds. NULL: no memory. */
struct MHD_Response *http_reply_make(struct http_request *request, const struct http_reply *reply);
/* False: no memory. */
bool http_reply_add_fields(struct MHD_Response *response, const struct http_request *request,
                           const struct http_reply *reply, bool gzip);

/* ---- http_stream.c --------------------------------------------------------------------------------------
 */

/* Tells those that waited for room. */
void http_streams_tell(struct http_server *server);
/* Cuts those of which the client left while they had nothing for it. */
void http_streams_drop_gone(struct http_server *server);
void http_streams_cut(struct http_server *server);
/* Bytes that went out. */
size_t http_stream_sent(const struct http_stream *stream);
/* The library is done with it; who wrote it is told, unless it was ended or cut. */
void http_stream_free(struct http_stream *stream);

/* ---- http_head.c ----------------------------------------------------------------------------------------
 */

struct http_head {
    struct http_request *request; /* known headers are put into it */
    size_t bytes, lines;
    unsigned lengths, encodings, hosts; /* Content-Length, Transfer-Encoding and Host fields */
    bool foreign_coding; /* one that is not chunked: the library would read to the end of time */
    uint64_t length;
    const char *flaw;       /* the first line that cannot be taken, why; NULL: none */
    const char *flaw_field; /* the known header it was; or NULL */
    bool flaw_repeated;
};

enum http_method http_method_of(const char *name);
/* One field, its texts with a NUL behind them. The spans must live as long as the request. */
void http_head_add(struct http_head *head, struct span name, struct span value);
/* Something is wrong with the head; the first one counts. */
void http_head_flaw(struct http_head *head, const char *why);
/* Parses the target too. False: to be refused with this. */
bool http_head_check(const struct http_head *head, size_t method_bytes, struct http_problem *problem);

/* ---- http_connections.c ---------------------------------------------------------------------------------
 */

/* One TCP connection. While it reads a head or a body, or sends a reply, it is watched how long that takes.
 */
struct http_connection {
    struct http_connection *next, *previous;
    int fd;
    bool reading_head, reading_body, replying;
    int64_t head_end_ms;
    uint64_t bytes_before; /* received before this head */
    int64_t first_byte_ms; /* 0: none of this head seen yet */
    int64_t taking_ms;     /* since when what the client takes is counted; 0: nothing is there for it */
    uint64_t taken_before; /* acknowledged at that time */
};

/* NULL: no memory. */
struct http_connection *http_connection_add(struct http_connection **list, int fd);
void http_connection_remove(struct http_connection **list,
                            struct http_connection *connection); /* and frees */
/* A request is done: the next head may come. */
void http_connection_await_head(struct http_connection *connection);
/* Shuts down those whose head began, or whose body, and did not end within HTTP_HEAD_MS, HTTP_BODY_MS, and
 * those that take a reply more slowly than HTTP_TAKE_BYTES in HTTP_TAKE_MS. */
void http_connections_cut_late(struct http_connection *list, int64_t now_ms);

/* The other side closed, or reset, and left no byte unread. */
bool http_connection_is_gone(const struct http_connection *connection);

/* ---- http_origin.c, http_coding.c -----------------------------------------------------------------------
 */

enum { HTTP_ORIGIN_FIELDS = 3 };

/* What a reply to this request carries for browsers; how many. */
size_t http_origin_fields(const struct http_request *request, const struct config_list *origins,
                          struct http_field fields[HTTP_ORIGIN_FIELDS]);
/* http_request_preflight, with the server's list. */
bool http_origin_preflight(struct http_request *request, const struct config_list *origins,
                           const char *allow);

/* accept: an Accept-Encoding's value, at NULL when there is none. */
bool http_coding_takes_gzip(struct span accept);
/* Makes packed, which is the caller's to buffer_done in any case. True: it is what goes out. */
bool http_coding_pack(struct span accept, struct span body, struct buffer *packed);

/* ---- http_listen.c --------------------------------------------------------------------------------------
 */

/* A listening, non-blocking socket; -1 with a fault. */
int http_listen(const struct config_address *address, struct fault *fault);
uint16_t http_listen_port(int fd);

#endif
