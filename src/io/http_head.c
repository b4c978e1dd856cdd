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

/* RFC 9110 5.6.2: what names and methods are made of. */
static bool is_token(struct span text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.at[i] <= ' ' || text.at[i] > '~' || strchr("\"(),/:;<=>?@[\\]{}", text.at[i]) != NULL)
            return false;
    }
    return text.bytes > 0;
}

/* RFC 9110 5.5; bytes over 127 are allowed there. */
static bool is_value(struct span text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if (((unsigned char)text.at[i] < ' ' && text.at[i] != '\t') || text.at[i] == 0x7f)
            return false;
    }
    return true;
}

static bool is_idempotency_key(struct span text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.at[i] <= ' ' || text.at[i] > '~')
            return false;
    }
    return text.bytes > 0 && text.bytes <= HTTP_IDEMPOTENCY_KEY_MAX;
}

/* Those that are read. Where fits is NULL its reader judges, and what cannot be read is as if it was not
 * there: no gzip, no tag that matches, an origin of nobody, a token that is none (401). */
static const struct known {
    const char *name;
    bool list; /* may come more than once */
    bool (*fits)(struct span value);
} known[HTTP_KNOWN_HEADERS] = {
    [HTTP_ACCEPT_ENCODING] = {"Accept-Encoding", true, NULL},
    [HTTP_ACCESS_CONTROL_REQUEST_METHOD] = {"Access-Control-Request-Method", false, is_token},
    [HTTP_AUTHORIZATION] = {"Authorization", false, NULL},
    [HTTP_IDEMPOTENCY_KEY] = {"Idempotency-Key", false, is_idempotency_key},
    [HTTP_IF_NONE_MATCH] = {"If-None-Match", true, NULL},
    [HTTP_ORIGIN] = {"Origin", false, NULL},
};

void http_head_flaw(struct http_head *head, const char *why)
{
    if (head->flaw == NULL)
        head->flaw = why;
}

static void add_known(struct http_head *head, const struct known *header, struct span *place,
                      struct span value)
{
    bool first = place->at == NULL;
    if (first)
        *place = value;
    if (head->flaw != NULL || (first ? header->fits == NULL || header->fits(value) : header->list))
        return;
    head->flaw_field = header->name;
    head->flaw_repeated = !first;
    head->flaw = first ? "A header cannot be read." : "A header was sent more than once.";
}

void http_head_add(struct http_head *head, struct span name, struct span value)
{
    head->bytes += name.bytes + value.bytes + 4; /* ": " and CRLF */
    head->lines++;
    if (strcasecmp(name.at, "Content-Length") == 0) {
        head->lengths++;
        head->length = strtoull(value.at, NULL, 10);
    }
    if (strcasecmp(name.at, "Transfer-Encoding") == 0) {
        head->encodings++;
        head->foreign_coding |= strcasecmp(value.at, "chunked") != 0;
    }
    if (strcasecmp(name.at, "Host") == 0)
        head->hosts++;
    if (!is_token(name)) /* "Content-Length : 3" is no Content-Length to the library */
        http_head_flaw(head, "A header's name cannot be read.");
    if (!is_value(value))
        http_head_flaw(head, "A header's value holds a control character.");
    for (size_t i = 0; i < HTTP_KNOWN_HEADERS; i++) {
        if (strcasecmp(name.at, known[i].name) == 0)
            add_known(head, &known[i], &head->request->headers[i], value);
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
    if (head->lines > HTTP_FIELDS_MAX)
        return refuse(problem, 431, "too_large", "There are more than 100 header lines.");
    if (head->lengths + head->encodings > 1)
        return refuse(problem, 400, "invalid_body", "The body's length is said more than once.");
    if (head->encodings > 0 && !head->request->chunks) /* RFC 9112 6.1 */
        return refuse(problem, 400, "invalid_body", "HTTP/1.0 has no transfer codings.");
    if (head->foreign_coding)
        return refuse(problem, 400, "invalid_body", "Of transfer codings only chunked is taken.");
    if (head->hosts > 1 || (head->hosts == 0 && head->request->chunks && head->flaw == NULL))
        return refuse(problem, 400, "invalid_parameter", "There must be one Host.");
    if (head->flaw != NULL) {
        (void)refuse(problem, 400, head->flaw_repeated ? "repeated_parameter" : "invalid_parameter",
                     head->flaw);
        problem->name = head->flaw_field == NULL ? NULL : "parameter";
        problem->value = head->flaw_field == NULL ? (struct span){.at = NULL} : span_of(head->flaw_field);
        return false;
    }
    if (head->length > HTTP_BODY_BYTES_MAX)
        return refuse(problem, 413, "too_large", "The body is over 64 KiB.");
    if (!target_good && memory)
        return refuse(problem, 503, "unavailable", "Out of memory.");
    if (!target_good)
        return refuse(problem, 400, "invalid_parameter", "The request target cannot be read.");
    return true;
}
