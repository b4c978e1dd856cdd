/* In: a row's JSON object, made by us and valid. Out: its CSV record. Always: what a cell holds can be had
 * back from it, byte for byte; values that are no strings keep the bytes they have. A crash here loses one
 * answer. */
#include "wire/csv.h"

#include <string.h>

/* What is left to be read. */
struct csv_scan {
    const char *at, *end;
};

static void csv_skip_blanks(struct csv_scan *scan)
{
    while (scan->at < scan->end && strchr(" \t\r\n", *scan->at) != NULL && *scan->at != '\0')
        scan->at++;
}

static bool csv_take_byte(struct csv_scan *scan, char byte)
{
    csv_skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != byte)
        return false;
    scan->at++;
    return true;
}

/* From a quote to behind its partner; inside gets what stands between. */
static bool csv_take_string(struct csv_scan *scan, struct span *inside)
{
    const char *from = scan->at + 1, *at = from;
    while (at < scan->end && *at != '"')
        at += *at == '\\' ? 2 : 1;
    if (at >= scan->end)
        return false;
    *inside = (struct span){from, (size_t)(at - from)};
    scan->at = at + 1;
    return true;
}

/* Any other value: up to the comma or bracket that ends it, whatever is nested in it. */
static bool csv_take_value(struct csv_scan *scan, struct span *value)
{
    const char *from = scan->at;
    size_t depth = 0;
    while (scan->at < scan->end) {
        char byte = *scan->at;
        struct span inside;
        if (byte == '"') {
            if (!csv_take_string(scan, &inside))
                return false;
            continue;
        }
        if (depth == 0 && (byte == ',' || byte == '}'))
            break;
        depth += byte == '{' || byte == '[';
        depth -= (byte == '}' || byte == ']') && depth > 0;
        scan->at++;
    }
    const char *end = scan->at;
    while (end > from && strchr(" \t\r\n", end[-1]) != NULL)
        end--;
    *value = (struct span){from, (size_t)(end - from)};
    return value->bytes > 0;
}

static int csv_hex(const char *at)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c - 'A' + 10;
        value = value * 16 + digit;
    }
    return value;
}

static void csv_add_code_point(struct buffer *out, int code)
{
    if (code < 0x80) {
        buffer_add_byte(out, (char)code);
    } else if (code < 0x800) {
        buffer_add_byte(out, (char)(0xc0 | code >> 6));
        buffer_add_byte(out, (char)(0x80 | (code & 0x3f)));
    } else if (code < 0x10000) {
        buffer_add_byte(out, (char)(0xe0 | code >> 12));
        buffer_add_byte(out, (char)(0x80 | (code >> 6 & 0x3f)));
        buffer_add_byte(out, (char)(0x80 | (code & 0x3f)));
    } else {
        buffer_add_byte(out, (char)(0xf0 | code >> 18));
        buffer_add_byte(out, (char)(0x80 | (code >> 12 & 0x3f)));
        buffer_add_byte(out, (char)(0x80 | (code >> 6 & 0x3f)));
        buffer_add_byte(out, (char)(0x80 | (code & 0x3f)));
    }
}

/* One escape, at its backslash; how many bytes it is long, 0: it is none. */
static size_t csv_unescape(struct buffer *out, struct span rest)
{
    static const char letters[] = "bfnrt\"\\/", bytes[] = "\b\f\n\r\t\"\\/";
    if (rest.bytes < 2)
        return 0;
    const char *letter = rest.at[1] == '\0' ? NULL : strchr(letters, rest.at[1]);
    if (letter != NULL) {
        buffer_add_byte(out, bytes[letter - letters]);
        return 2;
    }
    if (rest.at[1] != 'u' || rest.bytes < 6)
        return 0;
    int code = csv_hex(rest.at + 2);
    bool pair =
        code >= 0xd800 && code < 0xdc00 && rest.bytes >= 12 && rest.at[6] == '\\' && rest.at[7] == 'u';
    if (pair)
        code = 0x10000 + ((code - 0xd800) << 10) + (csv_hex(rest.at + 8) - 0xdc00);
    csv_add_code_point(out, code);
    return pair ? 12 : 6;
}

static bool csv_decode(struct buffer *out, struct span text)
{
    for (size_t at = 0; at < text.bytes;) {
        const char *from = text.at + at, *escape = memchr(from, '\\', text.bytes - at);
        size_t plain = escape == NULL ? text.bytes - at : (size_t)(escape - from);
        buffer_add(out, from, plain);
        at += plain;
        if (escape == NULL)
            break;
        size_t used = csv_unescape(out, (struct span){escape, text.bytes - at});
        if (used == 0)
            return false;
        at += used;
    }
    return true;
}

/* ---- cells --------------------------------------------------------------------------------------------- */

static void csv_write_cell(struct buffer *out, struct span text, bool guarded)
{
    bool quoted = text.bytes == 0;
    for (size_t i = 0; !quoted && i < text.bytes; i++)
        quoted = text.at[i] == '"' || text.at[i] == ',' || text.at[i] == '\r' || text.at[i] == '\n';
    if (quoted)
        buffer_add_byte(out, '"');
    if (guarded)
        buffer_add_byte(out, '\'');
    for (size_t at = 0; at < text.bytes;) {
        const char *from = text.at + at, *quote = memchr(from, '"', text.bytes - at);
        size_t bytes = quote == NULL ? text.bytes - at : (size_t)(quote - from) + 1;
        buffer_add(out, from, bytes);
        if (quote != NULL)
            buffer_add_byte(out, '"');
        at += bytes;
    }
    if (quoted)
        buffer_add_byte(out, '"');
}

void csv_write_plain(struct buffer *out, struct span text)
{
    csv_write_cell(out, text, false);
}

void csv_write_text(struct buffer *out, struct span text)
{
    static const char guarded[] = {'=', '+', '-', '@', '\t', '\r', '\''};
    csv_write_cell(out, text, text.bytes > 0 && memchr(guarded, text.at[0], sizeof guarded) != NULL);
}

/* A value, taken from its first byte on. */
static bool csv_write_value(struct buffer *out, struct csv_scan *scan, bool number, struct buffer *decoded)
{
    struct span value;
    if (*scan->at == '"') {
        buffer_reset(decoded);
        if (!csv_take_string(scan, &value) || !csv_decode(decoded, value) || decoded->failed)
            return false;
        if (number)
            csv_write_plain(out, buffer_span(decoded));
        else
            csv_write_text(out, buffer_span(decoded));
        return true;
    }
    if (!csv_take_value(scan, &value))
        return false;
    bool digits = value.at[0] == '-' || (value.at[0] >= '0' && value.at[0] <= '9');
    if (!span_is(value, "null") && digits)
        csv_write_plain(out, value);
    else if (!span_is(value, "null"))
        csv_write_text(out, value);
    return true;
}

static enum status csv_fail(struct fault *fault)
{
    fault_set(fault, "csv", "a row is no JSON object");
    return ST_FATAL;
}

/* numbers NULL: the header. */
static bool csv_write_members(struct buffer *out, struct csv_scan *scan, const struct csv_numbers *numbers,
                              struct buffer *decoded)
{
    if (!csv_take_byte(scan, '{'))
        return false;
    for (bool first = true; !csv_take_byte(scan, '}'); first = false) {
        struct span name, value;
        if (!first && !csv_take_byte(scan, ','))
            return false;
        csv_skip_blanks(scan);
        if (scan->at == scan->end || *scan->at != '"' || !csv_take_string(scan, &name) ||
            !csv_take_byte(scan, ':'))
            return false;
        csv_skip_blanks(scan);
        if (!first)
            buffer_add_byte(out, ',');
        if (scan->at == scan->end)
            return false;
        if (numbers != NULL &&
            !csv_write_value(out, scan, numbers->is_number(numbers->context, name), decoded))
            return false;
        if (numbers == NULL) {
            csv_write_text(out, name);
            if (*scan->at == '"' ? !csv_take_string(scan, &value) : !csv_take_value(scan, &value))
                return false;
        }
    }
    buffer_add_text(out, "\r\n");
    return true;
}

static enum status csv_write(struct buffer *out, struct span row, const struct csv_numbers *numbers,
                             struct fault *fault)
{
    struct csv_scan scan = {row.at, row.at + row.bytes};
    struct buffer decoded;
    buffer_init(&decoded, row.bytes + 1);
    bool written = csv_write_members(out, &scan, numbers, &decoded);
    buffer_done(&decoded);
    return written ? ST_OK : csv_fail(fault);
}

enum status csv_write_header(struct buffer *out, struct span row, struct fault *fault)
{
    return csv_write(out, row, NULL, fault);
}

enum status csv_write_row(struct buffer *out, struct span row, const struct csv_numbers *numbers,
                          struct fault *fault)
{
    return csv_write(out, row, numbers, fault);
}
