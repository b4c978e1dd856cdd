/* In: a page's rows, or a fault. Out: the bytes a client gets and the headers beside them. Always: one code
 * has one status, in one table; nothing of the database's or the token's is in an answer. */
#include "feed/reply.h"

#include <stdio.h>

#include "wire/cursor.h"
#include "wire/json_out.h"
#include "wire/jwt.h"

static const struct reply_code {
    const char *code;
    int status;
    bool parameter; /* fault.field names the client's parameter */
    const char *challenge;
} codes[] = {
    {"invalid_parameter", 400, true, NULL},
    {"unknown_parameter", 400, true, NULL},
    {"repeated_parameter", 400, true, NULL},
    {"contract_not_offered", 400, true, NULL},
    {CURSOR_INVALID, 400, false, NULL},
    {CURSOR_UNSUPPORTED, 400, false, NULL},
    {CURSOR_MISMATCH, 400, false, NULL},
    {CURSOR_EXPIRED, 410, false, NULL},
    {JWT_MISSING, 401, false, "Bearer error=\"invalid_request\", error_description=\"no token was sent\""},
    {JWT_INVALID, 401, false, "Bearer error=\"invalid_token\""},
    {JWT_EXPIRED, 401, false, "Bearer error=\"invalid_token\", error_description=\"the token expired\""},
    {"not_a_member", 403, false, NULL},
    {"not_found", 404, false, NULL},
    {"method_not_allowed", 405, false, NULL},
    {"timeout", 503, false, NULL},
    {"unavailable", 503, false, NULL},
    {"internal", 500, false, NULL},
};

static const struct reply_code *reply_find(const char *code)
{
    size_t last = sizeof codes / sizeof codes[0] - 1, i = 0;
    while (i < last && strcmp(codes[i].code, code) != 0)
        i++;
    return &codes[i];
}

static void reply_write_instant(struct buffer *out, bool there, int64_t us)
{
    if (there)
        json_out_instant(out, us);
    else
        buffer_add_text(out, "null");
}

void reply_write_entry(struct buffer *out, const struct page_entry *entry)
{
    buffer_add_byte(out, '{');
    json_out_name(out, "id");
    json_out_uuid(out, entry->id);
    const struct {
        const char *name;
        struct span value;
    } texts[] = {
        {"event_type", entry->event_type},
        {"category", entry->category},
        {"title", entry->title},
        {"body", entry->body},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        buffer_add_byte(out, ',');
        json_out_name(out, texts[i].name);
        json_out_string_or_null(out, texts[i].value);
    }
    buffer_add_byte(out, ',');
    json_out_name(out, "data");
    if (entry->data.at == NULL)
        buffer_add_text(out, "{}");
    else
        buffer_add_span(out, entry->data);
    buffer_add_byte(out, ',');
    json_out_name(out, "occurred_at");
    reply_write_instant(out, entry->occurred, entry->occurred_at_us);
    buffer_add_byte(out, ',');
    json_out_name(out, "created_at");
    json_out_instant(out, entry->created_at_us);
    buffer_add_byte(out, ',');
    json_out_name(out, "read_at");
    reply_write_instant(out, entry->read, entry->read_at_us);
    buffer_add_byte(out, '}');
}

void reply_write_page(struct buffer *out, const struct page *page, const char *next_cursor)
{
    buffer_add_byte(out, '{');
    json_out_name(out, "items");
    buffer_add_byte(out, '[');
    for (int i = 0; i < page->count; i++) {
        struct page_entry entry = page_entry_at(page, i);
        if (i > 0)
            buffer_add_byte(out, ',');
        reply_write_entry(out, &entry);
    }
    buffer_add_text(out, "],");
    json_out_name(out, "next_cursor");
    json_out_string(out, span_of(next_cursor));
    buffer_add_byte(out, ',');
    json_out_name(out, "has_more");
    buffer_add_text(out, page->has_more ? "true," : "false,");
    json_out_name(out, "contract");
    json_out_string(out, span_of(cursor_contract_name(CURSOR_LIVE)));
    buffer_add_byte(out, '}');
}

void reply_json(struct http_request *request, struct span body, bool head)
{
    const struct http_field fields[] = {
        {"Cache-Control", head ? "private, no-cache" : "private, no-store"},
        {"Vary", "Authorization"},
    };
    http_request_reply(request, &(struct http_reply){
                                    .status = 200,
                                    .content_type = "application/json",
                                    .body = body,
                                    .fields = fields,
                                    .field_count = sizeof fields / sizeof fields[0],
                                });
}

int reply_refuse(struct http_request *request, const struct fault *fault)
{
    const struct reply_code *code = reply_find(fault->code);
    char retry_after[16];
    struct http_field fields[3] = {{"Cache-Control", "private, no-store"}};
    size_t count = 1;
    if (code->challenge != NULL)
        fields[count++] = (struct http_field){"WWW-Authenticate", code->challenge};
    if (code->status == 405)
        fields[count++] = (struct http_field){"Allow", fault->field};
    if (code->status == 503) {
        snprintf(retry_after, sizeof retry_after, "%d", REPLY_RETRY_AFTER_S);
        fields[count++] = (struct http_field){"Retry-After", retry_after};
    }
    http_request_refuse(request, &(struct http_problem){
                                     .status = code->status,
                                     .code = code->code,
                                     .detail = fault->text,
                                     .name = code->parameter ? "parameter" : NULL,
                                     .value = span_of(fault->field),
                                     .fields = fields,
                                     .field_count = count,
                                 });
    return code->status;
}
