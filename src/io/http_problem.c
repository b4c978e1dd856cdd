/* The house's error answer (RFC 9457, contracts/reader-api.md): one bounded JSON object. What came from the
 * client (a parameter's name) is escaped, and left out as '?' where it is no UTF-8. */
#include "base/buffer.h"
#include "base/utf8.h"
#include "http_private.h"

enum { PROBLEM_BYTES_MAX = 4096, MEMBER_BYTES_MAX = 200 };

static void add_string(struct buffer *out, struct span text)
{
    bool valid = utf8_is_text(text);
    buffer_add_byte(out, '"');
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        if (byte == '"' || byte == '\\')
            buffer_printf(out, "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7f)
            buffer_printf(out, "\\u%04x", byte);
        else if (byte >= 0x80 && !valid)
            buffer_add_byte(out, '?');
        else
            buffer_add_byte(out, text.at[i]);
    }
    buffer_add_byte(out, '"');
}

static void add_member(struct buffer *out, const char *name, struct span value)
{
    buffer_printf(out, ",\"%s\":", name);
    add_string(out, value);
}

static const char *title_of(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {{400, "Bad Request"},
                  {401, "Unauthorized"},
                  {403, "Forbidden"},
                  {404, "Not Found"},
                  {405, "Method Not Allowed"},
                  {406, "Not Acceptable"},
                  {409, "Conflict"},
                  {410, "Gone"},
                  {413, "Content Too Large"},
                  {414, "URI Too Long"},
                  {415, "Unsupported Media Type"},
                  {422, "Unprocessable Content"},
                  {429, "Too Many Requests"},
                  {431, "Request Header Fields Too Large"},
                  {500, "Internal Server Error"},
                  {503, "Service Unavailable"},
                  {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        if (titles[i].status == status)
            return titles[i].title;
    }
    return "Error";
}

void http_request_refuse(struct http_request *request, const struct http_problem *problem)
{
    struct buffer out;
    struct span value = problem->value;
    buffer_init(&out, PROBLEM_BYTES_MAX);
    if (value.bytes > MEMBER_BYTES_MAX) { /* cut on a character boundary */
        value.bytes = MEMBER_BYTES_MAX;
        while (value.bytes > 0 && ((unsigned char)value.at[value.bytes] & 0xc0) == 0x80)
            value.bytes--;
    }
    buffer_printf(&out, "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d", title_of(problem->status),
                  problem->status);
    add_member(&out, "code", span_of(problem->code));
    add_member(&out, "detail", span_of(problem->detail));
    if (problem->name != NULL)
        add_member(&out, problem->name, value);
    add_member(&out, "request_id", span_of(request->id));
    buffer_add_byte(&out, '}');
    /* 404, 405, 410 and 414 are answers that a cache may keep unless it is told. */
    static const struct http_field unshared = {"Cache-Control", "private, no-store"};
    const struct http_reply reply = {.status = problem->status,
                                     .content_type = "application/problem+json",
                                     .body = buffer_span(&out),
                                     .fields = problem->fields == NULL ? &unshared : problem->fields,
                                     .field_count = problem->fields == NULL ? 1 : problem->field_count};
    http_request_reply(request, &reply);
    buffer_done(&out);
}
