/* Values in, JSON text out, piece by piece into a bounded buffer. Holds always: what is written is valid JSON
 * and valid UTF-8, whatever bytes came in. */
#include "wire/json_out.h"

#include <assert.h>

#include "model/timestamp.h"

/* How many bytes the UTF-8 character at `at` has; 0: it is not one (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char first, last, second_low, second_high, length;
    } forms[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                 {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
                 {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (at[0] < forms[i].first || at[0] > forms[i].last)
            continue;
        if (forms[i].length > left || at[1] < forms[i].second_low || at[1] > forms[i].second_high)
            return 0;
        for (size_t k = 2; k < forms[i].length; k++) {
            if ((at[k] & 0xc0) != 0x80)
                return 0;
        }
        return forms[i].length;
    }
    return 0;
}

/* Bytes from `at` that go out as they are. */
static size_t plain_length(const unsigned char *at, size_t left)
{
    size_t count = 0;
    while (count < left) {
        unsigned char c = at[count];
        if (c < 0x20 || c == '"' || c == '\\')
            break;
        size_t length = c < 0x80 ? 1 : utf8_length(at + count, left - count);
        if (length == 0)
            break;
        count += length;
    }
    return count;
}

static void add_escaped(struct buffer *buffer, unsigned char c)
{
    static const char letters[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r', ['"'] = '"', ['\\'] = '\\'};
    if (c == '\0' || c >= 0x80)
        buffer_add_text(buffer, "\xef\xbf\xbd");
    else if (c < sizeof letters && letters[c] != '\0')
        buffer_add(buffer, (const char[]){'\\', letters[c]}, 2);
    else
        buffer_printf(buffer, "\\u%04x", c);
}

void json_out_string(struct buffer *buffer, struct span text)
{
    const unsigned char *at = (const unsigned char *)text.at;
    size_t left = text.bytes;
    buffer_add_byte(buffer, '"');
    while (left > 0) {
        size_t plain = plain_length(at, left);
        if (plain > 0)
            buffer_add(buffer, at, plain);
        at += plain;
        left -= plain;
        if (left > 0) {
            add_escaped(buffer, *at++);
            left--;
        }
    }
    buffer_add_byte(buffer, '"');
}

void json_out_string_or_null(struct buffer *buffer, struct span text)
{
    if (text.at == NULL)
        buffer_add_text(buffer, "null");
    else
        json_out_string(buffer, text);
}

void json_out_name(struct buffer *buffer, const char *name)
{
    buffer_add_byte(buffer, '"');
    buffer_add_text(buffer, name);
    buffer_add(buffer, "\":", 2);
}

void json_out_int(struct buffer *buffer, int64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        digits[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        digits[--at] = '-';
    buffer_add(buffer, digits + at, sizeof digits - at);
}

void json_out_id(struct buffer *buffer, int64_t id)
{
    buffer_add_byte(buffer, '"');
    json_out_int(buffer, id);
    buffer_add_byte(buffer, '"');
}

void json_out_uuid(struct buffer *buffer, struct uuid id)
{
    char text[UUID_TEXT_BYTES + 3] = "\"";
    uuid_format(id, text + 1);
    text[UUID_TEXT_BYTES + 1] = '"';
    buffer_add(buffer, text, UUID_TEXT_BYTES + 2);
}

void json_out_instant(struct buffer *buffer, int64_t us)
{
    char text[TIMESTAMP_TEXT_BYTES + 3] = "\"";
    if (!timestamp_format(us, text + 1)) {
        buffer_add_text(buffer, "null");
        return;
    }
    text[TIMESTAMP_TEXT_BYTES + 1] = '"';
    buffer_add(buffer, text, TIMESTAMP_TEXT_BYTES + 2);
}

const char *json_out_status_title(int status)
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
                  {503, "Service Unavailable"}};
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) {
        if (titles[i].status == status)
            return titles[i].title;
    }
    return "Error";
}

void json_out_problem(struct buffer *buffer, const struct problem *problem)
{
    assert(problem->code != NULL && problem->detail != NULL);
    buffer_add_text(buffer, "{\"type\":\"about:blank\",\"title\":");
    json_out_string(buffer, span_of(json_out_status_title(problem->status)));
    buffer_add_text(buffer, ",\"status\":");
    json_out_int(buffer, problem->status);
    buffer_add_text(buffer, ",\"code\":");
    json_out_string(buffer, span_of(problem->code));
    buffer_add_text(buffer, ",\"detail\":");
    json_out_string(buffer, span_of(problem->detail));
    if (problem->parameter != NULL) {
        buffer_add_text(buffer, ",\"parameter\":");
        json_out_string(buffer, span_of(problem->parameter));
    }
    buffer_add_text(buffer, ",\"request_id\":");
    json_out_string(buffer, problem->request_id);
    buffer_add_byte(buffer, '}');
}
