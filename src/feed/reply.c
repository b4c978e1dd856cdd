/* In: a page's rows, or a fault. Out: the bytes a client gets and the headers beside them. Always: one code
 * has one status, in one table; nothing of the database's or the token's is in an answer. */
#include "feed/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/crypto.h"
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
    {"invalid_body", 400, false, NULL},
    {CURSOR_INVALID, 400, false, NULL},
    {CURSOR_UNSUPPORTED, 400, false, NULL},
    {CURSOR_MISMATCH, 400, false, NULL},
    {CURSOR_EXPIRED, 410, false, NULL},
    {JWT_MISSING, 401, false, "Bearer error=\"invalid_request\", error_description=\"no token was sent\""},
    {JWT_INVALID, 401, false, "Bearer error=\"invalid_token\""},
    {JWT_EXPIRED, 401, false, "Bearer error=\"invalid_token\", error_description=\"the token expired\""},
    {"contract_not_offered", 400, false, NULL},
    {"not_a_member", 403, false, NULL},
    {"role_required", 403, false, NULL},
    {"not_found", 404, false, NULL},
    {"method_not_allowed", 405, false, NULL},
    {"export_not_ready", 409, false, NULL},
    {"export_failed", 409, false, NULL},
    {"export_expired", 410, false, NULL},
    {"idempotency_mismatch", 422, false, NULL},
    {"too_many_exports", 429, false, NULL},
    {"timeout", 503, false, NULL},
    {"unavailable", 503, false, NULL},
    {"internal", 500, false, NULL},
};

const char *reply_code_at(size_t index, int *status)
{
    if (index >= sizeof codes / sizeof codes[0])
        return NULL;
    *status = codes[index].status;
    return codes[index].code;
}

static const struct reply_code *reply_find(const char *code)
{
    size_t last = sizeof codes / sizeof codes[0] - 1, i = 0;
    while (i < last && strcmp(codes[i].code, code) != 0)
        i++;
    return &codes[i];
}

/* name=value for a query, the value percent-encoded. */
static void reply_add_parameter(struct buffer *out, const char *name, struct span value)
{
    buffer_printf(out, "&%s=", name);
    for (size_t i = 0; i < value.bytes; i++) {
        unsigned char byte = (unsigned char)value.at[i];
        if ((byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
            (byte != 0 && strchr("-._~", byte) != NULL))
            buffer_add_byte(out, (char)byte);
        else
            buffer_printf(out, "%%%02X", byte);
    }
}

/* Relative to what was asked for: the same path, whatever stands before the reader. */
static void reply_add_link(struct buffer *out, const struct page_query *query, struct span cursor,
                           const char *rel)
{
    if (cursor.bytes == 0)
        return;
    buffer_printf(out, "%s<?limit=%d", out->bytes > 0 ? ", " : "", query->limit);
    const struct source *source = page_source(query->statements);
    for (size_t i = 0; i < source->filter_count; i++) {
        char room[SOURCE_VALUE_ROOM];
        if (query->filters[i].given)
            reply_add_parameter(out, source->filters[i].name,
                                source_value_text(&source->filters[i], &query->filters[i], room));
    }
    if (query->flag)
        reply_add_parameter(out, source->flag, span_of("true"));
    buffer_printf(out, "&cursor=%.*s>; rel=\"%s\"", (int)cursor.bytes, cursor.at, rel);
}

void reply_make_etag(const struct span *parts, size_t count, char *etag)
{
    char hex[CRYPTO_SHA256_HEX_BYTES + 1];
    unsigned char digest[CRYPTO_SHA256_BYTES];
    crypto_sha256(parts, count, digest);
    crypto_sha256_hex((struct span){(const char *)digest, sizeof digest}, hex);
    snprintf(etag, REPLY_ETAG_MAX, "W/\"%.20s\"", hex);
}

void reply_write_walk(struct buffer *out, const char *next, const char *prev, bool has_more,
                      enum cursor_contract contract)
{
    json_out_name(out, "next_cursor");
    json_out_string(out, span_of(next));
    buffer_add_byte(out, ',');
    json_out_name(out, "prev_cursor");
    json_out_string(out, span_of(prev));
    buffer_add_byte(out, ',');
    json_out_name(out, "has_more");
    buffer_add_text(out, has_more ? "true," : "false,");
    json_out_name(out, "contract");
    json_out_string(out, span_of(cursor_contract_name(contract)));
}

void reply_write_page(struct answer *answer, const struct ask *ask, const struct page *page,
                      const struct parameters_cursors *cursors)
{
    struct buffer *out = answer->body;
    const struct source *source = page_source(ask->query.statements);
    const char *contract = cursor_contract_name(ask->from.contract);
    buffer_add_byte(out, '{');
    json_out_name(out, source->items_key);
    buffer_add_byte(out, '[');
    for (int i = 0; i < page->count; i++) {
        if (i > 0)
            buffer_add_byte(out, ',');
        row_write(out, answer->form, page->result, page_row(page, i), PAGE_COLUMN_FIRST);
    }
    buffer_add_text(out, "],");
    if (!ask->query.continues) {
        const struct span parts[] = {buffer_span(out), span_of(page->has_more ? "+" : "."),
                                     span_of(contract)};
        reply_make_etag(parts, sizeof parts / sizeof parts[0], answer->etag);
    }
    reply_write_walk(out, cursors->next, cursors->prev, page->has_more, ask->from.contract);
    if (source->settled == NULL)
        buffer_add_text(out, ",\"gapless\":false");
    buffer_add_byte(out, '}');
    reply_add_link(answer->link, &ask->query, span_of(cursors->next), "next");
    reply_add_link(answer->link, &ask->query, span_of(cursors->prev), "prev");
}

bool reply_has_tag(struct span if_none_match, const char *etag)
{
    struct span opaque = span_of(strchr(etag, '"')); /* without W/ */
    size_t at = 0;
    while (at < if_none_match.bytes) {
        const char *from = if_none_match.at + at;
        size_t left = if_none_match.bytes - at;
        if (*from == ' ' || *from == '\t' || *from == ',') {
            at++;
            continue;
        }
        if (*from == '*')
            return true;
        size_t prefix = left >= 2 && memcmp(from, "W/", 2) == 0 ? 2 : 0;
        if (left <= prefix || from[prefix] != '"')
            return false; /* not a list of tags */
        const char *end = memchr(from + prefix + 1, '"', left - prefix - 1);
        if (end == NULL)
            return false;
        size_t bytes = (size_t)(end + 1 - (from + prefix));
        if (bytes == opaque.bytes && memcmp(from + prefix, opaque.at, bytes) == 0)
            return true;
        at += prefix + bytes;
    }
    return false;
}

void reply_json(struct http_request *request, const struct answer *answer)
{
    bool head = answer->etag[0] != '\0';
    char retry_after[16];
    struct http_field fields[6] = {
        {"Cache-Control", head ? "private, no-cache" : "private, no-store"},
        {"Vary", "Authorization"},
    };
    size_t count = 2;
    if (answer->shared) {
        fields[0].value = "public, max-age=60";
        count = 1;
    }
    if (head)
        fields[count++] = (struct http_field){"ETag", answer->etag};
    struct http_reply reply = {.status = 304, .body = buffer_span(answer->body), .fields = fields};
    if (!head || !reply_has_tag(http_request_header(request, HTTP_IF_NONE_MATCH), answer->etag)) {
        reply.status = answer->status == 0 ? 200 : answer->status;
        reply.content_type = reply.status == 204 ? NULL : "application/json";
        if (answer->link->bytes > 0)
            fields[count++] = (struct http_field){"Link", answer->link->at};
    }
    if (answer->location[0] != '\0')
        fields[count++] = (struct http_field){"Location", answer->location};
    if (answer->retry_after_s > 0) {
        snprintf(retry_after, sizeof retry_after, "%d", answer->retry_after_s);
        fields[count++] = (struct http_field){"Retry-After", retry_after};
    }
    reply.field_count = count;
    http_request_reply(request, &reply);
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
    if (code->status == 503 || code->status == 429 || strcmp(code->code, "export_not_ready") == 0) {
        bool said = fault->field[0] >= '1' && fault->field[0] <= '9' && strlen(fault->field) < 8;
        snprintf(retry_after, sizeof retry_after, "%d",
                 said ? (int)strtol(fault->field, NULL, 10) : REPLY_RETRY_AFTER_S);
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
