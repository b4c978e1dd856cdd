/* Replies of unknown length. In: pieces, as there is room. Out: chunks, as the client takes them. Always: one
 * bounded buffer a stream; a connection without bytes is suspended and costs nothing; the library is told the
 * end only by http_stream_end, anything else makes it close the connection without the final chunk. The
 * library's traps, as its source has them: a reader callback that has nothing must suspend and return 0, else
 * the loop spins; a suspended connection is watched by nobody, so its client's leaving is looked for by us;
 * MHD_stop_daemon aborts the process when a connection is still suspended; a HEAD must not be chunked. A
 * crash here loses the streams. */
#include <assert.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "gzip.h"
#include "http_private.h"

enum { BLOCK_BYTES = 1024 /* the library's own buffer, unused for chunks */ };

struct http_stream {
    struct http_request *request;
    struct http_stream *next, *previous;
    struct http_stream_handler handler;
    struct gzip_stream *gzip; /* NULL: as it is */
    size_t start, end;        /* what is held, in buffer */
    size_t sent;
    bool suspended, wants_room;
    bool over;    /* the writer has let go of it */
    bool ending;  /* it is whole: the final chunk comes behind what is held */
    bool flushed; /* nothing is left in gzip */
    bool cut;
    char buffer[HTTP_STREAM_BYTES];
};

static size_t held(const struct http_stream *stream)
{
    return stream->end - stream->start;
}

static bool has_half(const struct http_stream *stream)
{
    return held(stream) <= HTTP_STREAM_BYTES / 2;
}

/* Where bytes may be put, how many. */
static char *make_room(struct http_stream *stream, size_t *room)
{
    if (stream->start > 0) {
        memmove(stream->buffer, stream->buffer + stream->start, held(stream));
        stream->end = held(stream);
        stream->start = 0;
    }
    *room = HTTP_STREAM_BYTES - stream->end;
    return stream->buffer + stream->end;
}

/* The rest of *plain, or as much as there is room for, through zlib. True: all of it, and what mark asks. */
static bool pack(struct http_stream *stream, struct span *plain, enum gzip_mark mark)
{
    size_t room, made;
    char *out = make_room(stream, &room);
    bool done = gzip_stream_push(stream->gzip, plain, mark, out, room, &made);
    stream->end += made;
    return done;
}

static void wake(struct http_stream *stream)
{
    if (!stream->suspended)
        return;
    stream->suspended = false;
    stream->request->server->resumed = true;
    MHD_resume_connection(stream->request->handle);
}

/* ---- the library's side ----------------------------------------------------------------------------------
 */

/* What zlib still has goes out before the client waits for more, and before the end. */
static void refill(struct http_stream *stream)
{
    struct span none = {.at = NULL};
    if (stream->gzip == NULL || stream->flushed || held(stream) > 0)
        return;
    stream->flushed = pack(stream, &none, stream->ending ? GZIP_END : GZIP_FLUSH);
}

static ssize_t on_read(void *context, uint64_t position, char *out, size_t room)
{
    (void)position;
    struct http_stream *stream = context;
    if (stream->cut)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    refill(stream);
    size_t count = held(stream) < room ? held(stream) : room;
    if (count > 0) {
        memcpy(out, stream->buffer + stream->start, count);
        stream->start += count;
        stream->sent += count;
        stream->request->server->look_around |= stream->wants_room && has_half(stream);
        return (ssize_t)count;
    }
    if (stream->ending)
        return MHD_CONTENT_READER_END_OF_STREAM;
    stream->suspended = true;
    MHD_suspend_connection(stream->request->handle);
    return 0;
}

/* A HEAD is never asked for bytes; were it, this is no end. */
static ssize_t on_read_nothing(void *context, uint64_t position, char *out, size_t room)
{
    (void)context;
    (void)position;
    (void)out;
    (void)room;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* ---- making and freeing ----------------------------------------------------------------------------------
 */

static struct http_stream *stream_new(struct http_request *request, const struct http_stream_handler *handler,
                                      bool gzip)
{
    struct http_server *server = request->server;
    struct http_stream *stream = malloc(sizeof *stream);
    if (stream == NULL)
        return NULL;
    memset(stream, 0, offsetof(struct http_stream, buffer));
    stream->request = request;
    stream->handler = *handler;
    stream->flushed = true;
    stream->gzip = gzip ? gzip_stream_new(GZIP_FAST) : NULL;
    if (gzip && stream->gzip == NULL) {
        free(stream);
        return NULL;
    }
    stream->next = server->streams;
    if (server->streams != NULL)
        server->streams->previous = stream;
    server->streams = stream;
    server->stream_count++;
    return stream;
}

void http_stream_free(struct http_stream *stream)
{
    if (stream == NULL)
        return;
    struct http_server *server = stream->request->server;
    if (!stream->over)
        stream->handler.gone(stream->handler.context, stream);
    if (stream->next != NULL)
        stream->next->previous = stream->previous;
    if (stream->previous != NULL)
        stream->previous->next = stream->next;
    else
        server->streams = stream->next;
    server->stream_count--;
    gzip_stream_free(stream->gzip);
    free(stream);
}

size_t http_stream_sent(const struct http_stream *stream)
{
    return stream->sent;
}

static struct MHD_Response *make_response(const struct http_request *request, const struct http_reply *reply,
                                          struct http_stream *stream, bool gzip)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, stream != NULL ? on_read : on_read_nothing, stream, NULL);
    if (response == NULL)
        return NULL;
    /* Behind the head of a chunked HEAD it would send a final chunk; like this it closes the connection. */
    bool good = stream != NULL ||
                MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END) == MHD_YES;
    if (good && http_reply_add_fields(response, request, reply, gzip))
        return response;
    MHD_destroy_response(response);
    return NULL;
}

struct http_stream *http_request_stream(struct http_request *request, const struct http_reply *reply,
                                        const struct http_stream_handler *handler)
{
    assert(request->status == 0 && reply->status >= 200 && reply->field_count <= HTTP_REPLY_FIELDS_MAX);
    if (!request->chunks) {
        http_request_refuse(request, &(const struct http_problem){
                                         .status = 505,
                                         .code = "http_version",
                                         .detail = "This answer is a stream: it needs HTTP/1.1 (a proxy in "
                                                   "front: nginx's proxy_http_version 1.1)."});
        return NULL;
    }
    bool gzip = request->server->gzip && http_coding_takes_gzip(request->headers[HTTP_ACCEPT_ENCODING]);
    bool head = request->method == HTTP_HEAD;
    struct http_stream *stream = head ? NULL : stream_new(request, handler, gzip);
    if (head || stream != NULL)
        request->response = make_response(request, reply, stream, gzip);
    if (stream != NULL && request->response == NULL) {
        stream->over = true;
        http_stream_free(stream);
        stream = NULL;
    }
    request->stream = stream;
    request->status = reply->status;
    http_request_release(request);
    return stream;
}

/* ---- the writer's side -----------------------------------------------------------------------------------
 */

size_t http_stream_write(struct http_stream *stream, struct span piece)
{
    assert(!stream->over);
    struct span rest = piece;
    if (stream->gzip != NULL) {
        stream->flushed = false;
        (void)pack(stream, &rest, GZIP_MORE);
    } else if (piece.bytes > 0) {
        size_t room;
        char *out = make_room(stream, &room);
        size_t count = piece.bytes < room ? piece.bytes : room;
        memcpy(out, piece.at, count);
        stream->end += count;
        rest.bytes -= count;
    }
    stream->wants_room = rest.bytes > 0;
    wake(stream);
    return piece.bytes - rest.bytes;
}

void http_stream_end(struct http_stream *stream)
{
    assert(!stream->over);
    stream->over = stream->ending = true;
    stream->flushed = false;
    wake(stream);
}

/* Also where the client takes nothing just now: the library is told by its socket. */
static void cut(struct http_stream *stream)
{
    stream->cut = true;
    (void)shutdown(stream->request->connection->fd, SHUT_RDWR);
    wake(stream);
}

void http_stream_cut(struct http_stream *stream)
{
    assert(!stream->over);
    stream->over = true;
    cut(stream);
}

/* ---- all of them -----------------------------------------------------------------------------------------
 */

void http_streams_tell(struct http_server *server)
{
    if (!server->look_around)
        return;
    server->look_around = false;
    for (struct http_stream *stream = server->streams; stream != NULL; stream = stream->next) {
        if (stream->over || stream->cut || !stream->wants_room || !has_half(stream))
            continue;
        stream->wants_room = false;
        stream->handler.room(stream->handler.context, stream);
    }
}

void http_streams_drop_gone(struct http_server *server)
{
    for (struct http_stream *stream = server->streams; stream != NULL; stream = stream->next) {
        if (stream->suspended && http_connection_is_gone(stream->request->connection))
            cut(stream);
    }
}

void http_streams_cut(struct http_server *server)
{
    for (struct http_stream *stream = server->streams; stream != NULL; stream = stream->next)
        cut(stream);
}
