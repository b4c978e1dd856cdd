/* The head of a request: its fields in, a refusal or none out. What is refused is what two readers of the
 * same bytes could understand differently (RFC 9112 §6), and what is too long. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http_private.h"

enum http_method http_method_of(const char *name)
{
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0)
            return (enum http_method)i;
    }
    return HTTP_OTHER;
}

/* RFC 9110 §5.6.2: a name is a token. */
static bool is_field_name(const char *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    }
    return bytes > 0;
}

void http_head_add(struct http_head *head, struct span name, struct span value)
{
    static const char *const known[HTTP_KNOWN_HEADERS] = {[HTTP_ACCEPT_ENCODING] = "Accept-Encoding",
                                                          [HTTP_ACCESS_CONTROL_REQUEST_METHOD] =
                                                              "Access-Control-Request-Method",
                                                          [HTTP_AUTHORIZATION] = "Authorization",
                                                          [HTTP_CONTENT_TYPE] = "Content-Type",
                                                          [HTTP_IDEMPOTENCY_KEY] = "Idempotency-Key",
                                                          [HTTP_IF_NONE_MATCH] = "If-None-Match",
                                                          [HTTP_ORIGIN] = "Origin",
                                                          [HTTP_TRACEPARENT] = "traceparent"};
    head->bytes += name.bytes + value.bytes + 4; /* ": " and CRLF */
    if (strcasecmp(name.at, "Content-Length") == 0) {
        head->lengths++;
        head->length = value.at == NULL ? 0 : strtoull(value.at, NULL, 10);
    }
    if (strcasecmp(name.at, "Transfer-Encoding") == 0) {
        head->encodings++;
        head->foreign_coding |= value.at == NULL || strcasecmp(value.at, "chunked") != 0;
    }
    head->bad_name |= !is_field_name(name.at, name.bytes);
    for (size_t i = 0; i < HTTP_KNOWN_HEADERS; i++) {
        if (head->request->headers[i].at == NULL && strcasecmp(name.at, known[i]) == 0)
            head->request->headers[i] = (struct span){value.at == NULL ? "" : value.at, value.bytes};
    }
}

static bool refuse(struct http_problem *problem, int status, const char *code, const char *detail)
{
    *problem = (struct http_problem){.status = status, .code = code, .detail = detail};
    return false;
}

bool http_head_check(const struct http_head *head, size_t method_bytes, struct http_problem *problem)
{
    bool memory;
    bool target_good = http_target_parse(head->request, &memory);
    size_t line_bytes = method_bytes + head->request->target_bytes + sizeof " HTTP/1.1\r\n";
    if (line_bytes > HTTP_HEAD_BYTES_MAX)
        return refuse(problem, 414, "too_large", "The request line is over 16 KiB.");
    if (line_bytes + head->bytes > HTTP_HEAD_BYTES_MAX)
        return refuse(problem, 431, "too_large", "The request's head is over 16 KiB.");
    if (head->lengths + head->encodings > 1)
        return refuse(problem, 400, "invalid_body", "The body's length is said more than once.");
    if (head->foreign_coding)
        return refuse(problem, 400, "invalid_body", "Of transfer codings only chunked is taken.");
    if (head->bad_name)
        return refuse(problem, 400, "invalid_body", "A header's name cannot be read.");
    if (head->length > HTTP_BODY_BYTES_MAX)
        return refuse(problem, 413, "too_large", "The body is over 64 KiB.");
    if (!target_good && memory)
        return refuse(problem, 503, "unavailable", "Out of memory.");
    if (!target_good)
        return refuse(problem, 400, "invalid_parameter", "The request target cannot be read.");
    return true;
}
