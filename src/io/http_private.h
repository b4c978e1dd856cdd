/* What the files of the HTTP server share. libmicrohttpd itself is known to http_server.c alone. */
#ifndef BELFRY_HTTP_PRIVATE_H
#define BELFRY_HTTP_PRIVATE_H

#include "io/http_server.h"

enum { HTTP_REQUEST_ID_BYTES = 24, HTTP_KNOWN_HEADERS = HTTP_TRACEPARENT + 1 };

struct MHD_Connection;
struct MHD_Response;

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
    bool head_done, too_large, handling, waiting, suspended;
    int status; /* of the reply; 0: none yet */
    size_t reply_bytes;
    struct MHD_Response *response; /* made, not yet queued */
};

/* Splits the target into path and parameters. False: a bad escape, too many parameters, or a path that does
 * not begin with '/'; *memory is true when it was the heap. */
bool http_target_parse(struct http_request *request, bool *memory);

/* A listening, non-blocking socket; -1 with a fault. */
int http_listen(const struct config_address *address, struct fault *fault);
uint16_t http_listen_port(int fd);

#endif
