/* Values in, JSON text out, piece by piece into a bounded buffer. Holds always: what is written is valid JSON
 * and valid UTF-8, whatever bytes came in. */
#include "wire/json_out.h"

#include <string.h>

#include "base/utf8.h"
#include "model/timestamp.h"

/* Of eight bytes, read as one number: whether one is a control, a quote, a backslash or beyond ASCII. Each
 * subtraction sets a byte's top bit where the byte is below what is taken from it. */
static bool needs_a_look(uint64_t eight)
{
    const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080;
    uint64_t quote = eight ^ ones * '"', backslash = eight ^ ones * '\\';
    return ((eight | (eight - ones * 0x20) | (quote - ones) | (backslash - ones)) & tops) != 0;
}

/* Bytes from the start of `text` that go out as they are. */
static size_t plain_bytes(struct span text)
{
    size_t count = 0;
    while (count < text.bytes) {
        uint64_t eight;
        struct span rest = {.at = text.at + count, .bytes = text.bytes - count};
        if (rest.bytes >= sizeof eight) {
            memcpy(&eight, rest.at, sizeof eight);
            if (!needs_a_look(eight)) {
                count += sizeof eight;
                continue;
            }
        }
        unsigned char c = (unsigned char)*rest.at;
        if (c < 0x20 || c == '"' || c == '\\')
            break;
        size_t length = c < 0x80 ? 1 : utf8_character_bytes(rest);
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
    buffer_add_byte(buffer, '"');
    while (text.bytes > 0) {
        size_t plain = plain_bytes(text);
        if (plain > 0)
            buffer_add(buffer, text.at, plain);
        text.at += plain;
        text.bytes -= plain;
        if (text.bytes > 0) {
            add_escaped(buffer, (unsigned char)*text.at++);
            text.bytes--;
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
    size_t bytes = strlen(name);
    char *at = buffer_reserve(buffer, bytes + 3);
    if (at == NULL)
        return;
    at[0] = '"';
    memcpy(at + 1, name, bytes + 1);
    memcpy(at + 1 + bytes, "\":", 3); /* and its NUL */
    buffer->bytes += bytes + 3;
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
