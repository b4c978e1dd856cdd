/* HTTP POSTs, many in flight, and an honest word about what may have left. libcurl stays in src/io.
 *
 * A struct http_client is used by one thread. Nothing is ever sent twice: libcurl 7.88 repeats a POST by
 * itself when a reused connection dies before the answer, so the body goes through a read callback that
 * cannot be rewound (design.md §2 point 5). HTTP/1.1, http and https only, no redirects, no Expect,
 * certificates checked; each transfer has a connect timeout (the name look-up counts in it) and a total one.
 */
#ifndef BELFRY_IO_HTTP_CLIENT_H
#define BELFRY_IO_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"

enum {
    HTTP_CLIENT_IN_FLIGHT_MAX = 64,
    HTTP_CLIENT_HEADERS_MAX = 16,
    HTTP_CLIENT_RETRY_AFTER_MAX =
        2,                       /* of several Retry-After headers: enough to see that there are several */
    HTTP_CLIENT_GZIP_OVER = 1024 /* bodies above this go gzipped when asked for */
};

struct http_client_settings {
    size_t in_flight_max;      /* also the connections; 1 … HTTP_CLIENT_IN_FLIGHT_MAX */
    size_t request_bytes_max;  /* of a body, before gzip */
    size_t response_bytes_max; /* of a body, unpacked: what is larger counts as cut */
    int64_t request_timeout_ms, connect_timeout_ms; /* > 0 */
    const char *user_agent;
    int wake_fd; /* http_client_poll returns when this becomes readable (signals_stop_fd()); -1: none */
};

struct http_request {
    const char *url;
    const char *const *headers; /* "Name: value", ended by NULL; NULL: none. Copied */
    struct span body;           /* copied */
    bool gzip;                  /* body over HTTP_CLIENT_GZIP_OVER: Content-Encoding: gzip */
};

/* What is known of a request that came to an end. */
enum http_transport {
    HTTP_NOTHING_SENT, /* no byte of the body left (name, connection, TLS, timeouts before it): not accepted
                        */
    HTTP_MAYBE,        /* some of it left and no whole answer came: reset, timeout, cut or too large a body */
    HTTP_ANSWERED      /* a whole answer */
};

struct http_result {
    uint64_t tag;
    enum http_transport transport;
    int status;               /* also with HTTP_MAYBE when the header came; else 0 */
    struct span content_type; /* raw; empty when none */
    struct span retry_after[HTTP_CLIENT_RETRY_AFTER_MAX]; /* raw */
    int retry_after_count;                                /* may be larger than what is kept */
    struct span body;                                     /* unpacked; with HTTP_MAYBE what came of it */
    const char *cause; /* a fixed text of libcurl's ("Couldn't connect to server"); "" when answered */
    bool timed_out;
    bool reused; /* it went over a connection that had carried others, and may have died while idle */
    int64_t took_us;
};

struct http_client;

/* ST_FATAL: no memory, or libcurl cannot be used. */
MUST_USE enum status http_client_open(const struct http_client_settings *settings,
                                      struct http_client **client, struct fault *fault);
/* Drops what is in flight. Does not wait for a name look-up that hangs. NULL is fine. */
void http_client_close(struct http_client *client);

/* Begins one request; copies everything. ST_RETRY "busy": in_flight_max are in flight. ST_REJECT "request":
 * too large, too many headers, or a URL that is none or of another scheme. Does not block. */
MUST_USE enum status http_client_submit(struct http_client *client, const struct http_request *request,
                                        uint64_t tag, struct fault *fault);
/* Whether a URL could be submitted: http or https, with a host. */
bool http_client_takes_url(const char *url);
size_t http_client_in_flight(const struct http_client *client);

/* Moves all transfers on and gives the next finished one; waits at most timeout_ms for it (0: not at all).
 * False: none. The result's spans live until the next call with this client. */
bool http_client_poll(struct http_client *client, int timeout_ms, struct http_result *result);

/* Drops everything in flight and closes its connections; their results never come. */
void http_client_abort(struct http_client *client);

#endif
