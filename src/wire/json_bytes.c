/* One pass over the bytes by us (depth, and where the members wanted as bytes begin and end), then jansson,
 * which alone decides what is valid. The pass never recurses and never reads outside the bytes, valid or not;
 * what it found in an invalid text is thrown away. jansson's own messages quote the text, so they are not
 * passed on. */
#include "json_bytes.h"

#include <stdbool.h>
#include <string.h>

#include "base/hex.h"
#include "wire/record.h"

struct scan {
    const char *at, *end;
    int depth, deepest;
    struct span name,
        deepest_name;  /* of the member of the outermost object we are in; raw, with its escapes */
    const char *value; /* where its value begins; NULL while there is none */
    bool name_next;    /* the next string at depth 1 is a name */
};

/* One character of a raw name; -1 for anything that is not ASCII. *at < end. */
static int take_character(const char **at, const char *end)
{
    char c = *(*at)++;
    if (c != '\\')
        return (unsigned char)c < 0x80 ? c : -1;
    if (*at == end)
        return -1;
    c = *(*at)++;
    if (c != 'u')
        return strchr("\"\\/", c) != NULL ? c : -1;
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = *at < end ? hex_value(*(*at)++) : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value < 0x80 ? value : -1;
}

static bool name_is(struct span raw, const char *name)
{
    if (raw.bytes == 0 || memchr(raw.at, '\\', raw.bytes) == NULL)
        return span_is(raw, name);
    const char *at = raw.at, *end = raw.at + raw.bytes;
    while (at < end && *name != '\0') {
        if (take_character(&at, end) != *name++)
            return false;
    }
    return at == end && *name == '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* From the byte behind an opening quote to the byte behind the closing one, or to the end. */
static const char *skip_string(const char *at, const char *end)
{
    while (at < end) {
        char c = *at++;
        if (c == '"')
            return at;
        if (c == '\\' && at < end)
            at++;
    }
    return end;
}

static void finish_member(const struct json_bytes *source, struct scan *scan)
{
    const char *from = scan->value, *to = scan->at;
    scan->value = NULL;
    if (from == NULL || source->cut_count == 0)
        return;
    while (from < to && is_blank(*from))
        from++;
    while (to > from && is_blank(to[-1]))
        to--;
    for (size_t i = 0; i < source->cut_count; i++) {
        if (name_is(scan->name, source->cuts[i].name))
            source->cuts[i].value = (struct span){.at = from, .bytes = (size_t)(to - from)};
    }
}

static void open_bracket(struct scan *scan, char c)
{
    scan->depth++;
    scan->name_next = scan->depth == 1 && c == '{';
    if (scan->depth > scan->deepest) {
        scan->deepest = scan->depth;
        scan->deepest_name = scan->name;
    }
}

/* scan->at stands on c, the first byte of a token. */
static void step(const struct json_bytes *source, struct scan *scan, char c)
{
    if (c == '{' || c == '[') {
        open_bracket(scan, c);
    } else if (c == '}' || c == ']') {
        if (scan->depth == 1)
            finish_member(source, scan);
        scan->depth--;
    } else if (scan->depth == 1 && c == ',') {
        finish_member(source, scan);
        scan->name_next = true;
    } else if (scan->depth == 1 && c == ':' && scan->name_next) {
        scan->value = scan->at + 1;
        scan->name_next = false;
    }
}

static void scan_all(const struct json_bytes *source, struct scan *scan)
{
    while (scan->at < scan->end) {
        if (*scan->at == '"') {
            const char *from = scan->at + 1;
            scan->at = skip_string(from, scan->end);
            if (scan->depth == 1 && scan->name_next && scan->at > from)
                scan->name = (struct span){.at = from, .bytes = (size_t)(scan->at - from - 1)};
            continue;
        }
        step(source, scan, *scan->at);
        scan->at++;
    }
}

static enum status refuse_depth(const struct json_bytes *source, const struct scan *scan, struct fault *fault)
{
    fault_set(fault, REASON_TOO_BIG, "the value is nested %d deep, at most %d are taken", scan->deepest,
              source->depth_max);
    for (size_t i = 0; i < source->cut_count && scan->deepest_name.at != NULL; i++) {
        if (name_is(scan->deepest_name, source->cuts[i].name))
            fault_set_field(fault, source->cuts[i].name);
    }
    return ST_REJECT;
}

static enum status check_frame(const struct json_bytes *source, struct fault *fault)
{
    struct span text = source->text;
    if (text.bytes > source->bytes_max) {
        fault_set(fault, REASON_TOO_BIG, "the value has %zu bytes, at most %zu are taken", text.bytes,
                  source->bytes_max);
        return ST_REJECT;
    }
    if (text.bytes == 0) {
        fault_set(fault, REASON_JSON, "the value is empty");
        return ST_REJECT;
    }
    if (text.at[0] == '\0') {
        fault_set(fault, REASON_JSON, "schema-registry framing: use the plain JSON serializer");
        return ST_REJECT;
    }
    return ST_OK;
}

static enum status explain(const json_error_t *error, struct fault *fault)
{
    const char *code = REASON_JSON, *why = "not JSON";
    switch ((int)json_error_code(error)) {
    case json_error_out_of_memory:
        fault_set(fault, "memory", "no memory to parse a value");
        return ST_RETRY;
    case json_error_null_character:
    case json_error_null_byte_in_key:
        code = REASON_NUL;
        why = "U+0000 in a string";
        break;
    case json_error_invalid_utf8:
        why = "not UTF-8";
        break;
    case json_error_duplicate_key:
        why = "a name stands twice in one object";
        break;
    case json_error_numeric_overflow:
        why = "a number does not fit in 64 bits";
        break;
    case json_error_premature_end_of_input:
        why = "not JSON: it ends too early";
        break;
    case json_error_end_of_input_expected:
        why = "not JSON: there is something behind it";
        break;
    default:
        break;
    }
    fault_set(fault, code, "%s (line %d, byte %d)", why, error->line, error->position);
    return ST_REJECT;
}

enum status json_bytes_load(const struct json_bytes *source, json_t **object, struct fault *fault)
{
    enum status status = check_frame(source, fault);
    if (status != ST_OK)
        return status;
    struct scan scan = {.at = source->text.at, .end = source->text.at + source->text.bytes};
    for (size_t i = 0; i < source->cut_count; i++)
        source->cuts[i].value = (struct span){.at = NULL, .bytes = 0};
    scan_all(source, &scan);
    if (scan.deepest > source->depth_max)
        return refuse_depth(source, &scan, fault);
    json_error_t error;
    json_t *root =
        json_loadb(source->text.at, source->text.bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (root == NULL)
        return explain(&error, fault);
    if (!json_is_object(root)) {
        json_decref(root);
        fault_set(fault, REASON_NOT_OBJECT, "the value is JSON, but not an object");
        return ST_REJECT;
    }
    *object = root;
    return ST_OK;
}
