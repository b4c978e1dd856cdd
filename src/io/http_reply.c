/* A handler's answer in, libmicrohttpd's response out: its fields, ours, and the body, packed where the
 * client takes that. Always: a body is copied, so that the handler's memory is free again at once. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "http_private.h"

static struct MHD_Response *make_body(struct span body)
{
    char *copy = malloc(body.bytes + 1);
    if (copy == NULL)
        return NULL;
    if (body.bytes > 0)
        memcpy(copy, body.at, body.bytes);
    struct MHD_Response *response = MHD_create_response_from_buffer(body.bytes, copy, MHD_RESPMEM_MUST_FREE);
    if (response == NULL)
        free(copy);
    return response;
}

static bool add_fields(struct MHD_Response *response, const struct http_field *fields, size_t count)
{
    bool good = true;
    for (size_t i = 0; i < count && good; i++)
        good = MHD_add_response_header(response, fields[i].name, fields[i].value) == MHD_YES;
    return good;
}

/* What the server itself says of a reply. */
static bool add_own_fields(struct MHD_Response *response, const struct http_request *request,
                           const char *content_type)
{
    struct http_field fields[HTTP_ORIGIN_FIELDS + 4];
    size_t count = http_origin_fields(request, &request->server->cors_origins, fields);
    fields[count++] = (struct http_field){"Request-Id", request->id};
    if (content_type != NULL)
        fields[count++] = (struct http_field){"Content-Type", content_type};
    if (request->server->quiesced)
        fields[count++] = (struct http_field){"Connection", "close"};
    if (request->server->gzip)
        fields[count++] = (struct http_field){"Vary", "Accept-Encoding"};
    return add_fields(response, fields, count);
}

bool http_reply_add_fields(struct MHD_Response *response, const struct http_request *request,
                           const struct http_reply *reply, bool gzip)
{
    static const struct http_field coding = {"Content-Encoding", "gzip"};
    return add_own_fields(response, request, reply->content_type) &&
           add_fields(response, reply->fields, reply->field_count) && add_fields(response, &coding, gzip);
}

struct MHD_Response *http_reply_make(struct http_request *request, const struct http_reply *reply)
{
    struct buffer packed = {.at = NULL};
    bool gzip = request->server->gzip &&
                http_coding_pack(request->headers[HTTP_ACCEPT_ENCODING], reply->body, &packed);
    struct span body = gzip ? buffer_span(&packed) : reply->body;
    struct MHD_Response *response = make_body(body);
    request->reply_bytes = body.bytes;
    buffer_done(&packed);
    /* A 304 says the length that its 200 would have (RFC 9110 8.6), but not how it would be packed. */
    if (response == NULL || http_reply_add_fields(response, request, reply, gzip && reply->status != 304))
        return response;
    MHD_destroy_response(response);
    return NULL;
}
