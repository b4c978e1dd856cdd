/* Messages and receipt requests as JSON text, written straight into a buffer.
 *
 * In: valid UTF-8, and a JSON object (or nothing) as data. Out: an array the provider takes, each message
 * within the payload limit. What always holds: data of the message has exactly one member "notification_id",
 * ours. */
#include <assert.h>

#include "base/hex.h"
#include "wire/json_out.h"
#include "wire/provider.h"

/* Where a message meets the limit: how much of the body stays, and whether data does. */
struct cut {
    enum provider_fit fit;
    size_t body_bytes;
};

static const char ellipsis[] = "\xe2\x80\xa6";
enum {
    ELLIPSIS_BYTES = sizeof ellipsis - 1,
    /* {"notification_id":"…"} around UUID_TEXT_BYTES */
    DATA_FRAME_BYTES = sizeof "{\"notification_id\":\"\"}" - 1
};

/* ---- the producer's data ------------------------------------------------------------------------------- */

static const char *skip_blank(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* Behind the string that begins at the quote `at`. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++) {
        if (*at == '\\')
            at++;
    }
    return at < end ? at + 1 : end;
}

/* To the ',' or '}' that ends the member's value, or to the end. */
static const char *skip_value(const char *at, const char *end)
{
    int depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if (depth == 0 && (*at == '}' || *at == ']' || *at == ','))
            break;
        else if (*at == '}' || *at == ']')
            depth--;
        at++;
    }
    return at;
}

/* Whether the raw member name (without quotes) reads like this; \u escapes included. */
static bool name_is(struct span raw, const char *wanted)
{
    size_t n = 0, wanted_bytes = strlen(wanted);
    for (size_t i = 0; i < raw.bytes; n++) {
        int c = (unsigned char)raw.at[i++];
        if (c == '\\' && raw.bytes - i >= 5 && raw.at[i] == 'u') {
            c = 0;
            for (size_t k = 1; k <= 4; k++)
                c = c * 16 + hex_value(raw.at[i + k]);
            i += 5;
        }
        if (n >= wanted_bytes || c != wanted[n])
            return false;
    }
    return n == wanted_bytes;
}

/* The next member of the object as it stands, name and value; at moves on. False: no more. */
static bool next_member(const char **at, const char *end, struct span *member, struct span *name)
{
    const char *from = skip_blank(*at, end);
    if (from < end && (*from == '{' || *from == ','))
        from = skip_blank(from + 1, end);
    if (from >= end || *from != '"')
        return false;
    const char *name_end = skip_string(from, end);
    const char *to = skip_value(name_end, end);
    *name = (struct span){.at = from + 1, .bytes = (size_t)(name_end - from) - 2};
    *member = (struct span){.at = from, .bytes = (size_t)(to - from)};
    *at = to;
    return true;
}

/* Adds ",member" for each member but notification_id; returns the bytes. out NULL: only counts. */
static size_t add_members(struct span data, struct buffer *out)
{
    size_t bytes = 0;
    struct span member, name;
    const char *at = data.at, *end = data.at == NULL ? NULL : data.at + data.bytes;
    while (at != NULL && next_member(&at, end, &member, &name)) {
        if (name_is(name, "notification_id"))
            continue;
        bytes += 1 + member.bytes;
        if (out != NULL) {
            buffer_add_byte(out, ',');
            buffer_add_span(out, member);
        }
    }
    return bytes;
}

/* ---- the payload limit --------------------------------------------------------------------------------- */

/* Bytes of the character at `at` as json_out_string writes it. */
static size_t written_bytes(unsigned char c)
{
    if (c == '"' || c == '\\' || c == '\b' || c == '\t' || c == '\n' || c == '\f' || c == '\r')
        return 2;
    return c < 0x20 ? 6 : 1; /* of UTF-8 each byte counts for itself */
}

static size_t string_bytes(struct span text)
{
    size_t bytes = 2;
    for (size_t i = 0; i < text.bytes; i++)
        bytes += written_bytes((unsigned char)text.at[i]);
    return bytes;
}

/* How much of the text fits into room bytes of a JSON string's inside, cut between characters. */
static size_t fitting_prefix(struct span text, size_t room)
{
    size_t written = 0, fitting = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        if (((unsigned char)text.at[i] & 0xc0) != 0x80)
            fitting = i; /* a character begins here, and all before it fits */
        written += written_bytes((unsigned char)text.at[i]);
        if (written > room)
            return fitting;
    }
    return text.bytes;
}

static bool cut_body(const struct provider_message *message, size_t other_bytes, size_t payload_max,
                     struct cut *cut)
{
    cut->body_bytes = message->body.bytes;
    if (other_bytes + string_bytes(message->body) <= payload_max)
        return true;
    if (other_bytes + 2 + ELLIPSIS_BYTES > payload_max)
        return false;
    cut->body_bytes = fitting_prefix(message->body, payload_max - other_bytes - 2 - ELLIPSIS_BYTES);
    return true;
}

static struct cut cut_message(const struct provider_message *message, size_t payload_max)
{
    struct cut cut = {.fit = PROVIDER_FIT_WHOLE};
    size_t frame = string_bytes(message->title) + DATA_FRAME_BYTES + UUID_TEXT_BYTES;
    if (cut_body(message, frame + add_members(message->data, NULL), payload_max, &cut)) {
        if (cut.body_bytes < message->body.bytes)
            cut.fit = PROVIDER_FIT_SHORTENED;
        return cut;
    }
    cut.fit = cut_body(message, frame, payload_max, &cut) ? PROVIDER_FIT_NO_DATA : PROVIDER_FIT_TOO_BIG;
    return cut;
}

enum provider_fit provider_message_fit(const struct provider_message *message, size_t payload_max)
{
    return cut_message(message, payload_max).fit;
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static void add_body(struct buffer *out, struct span body, size_t body_bytes)
{
    json_out_name(out, "body");
    json_out_string(out, (struct span){.at = body.at, .bytes = body_bytes});
    if (body_bytes == body.bytes || out->failed)
        return;
    out->bytes--; /* before the closing quote */
    buffer_add_text(out, ellipsis);
    buffer_add_byte(out, '"');
}

/* ---- push options -------------------------------------------------------------------------------------- */

enum { OPTION_TTL, OPTION_PRIORITY };

/* Ours and the provider's names; the first two stand where the enum says. */
static const struct {
    const char *ours, *theirs;
} push_options[] = {
    {"ttl", "ttl"},
    {"priority", "priority"},
    {"sound", "sound"},
    {"badge", "badge"},
    {"channel_id", "channelId"},
    {"subtitle", "subtitle"},
    {"interruption_level", "interruptionLevel"},
    {"mutable_content", "mutableContent"},
    {"collapse_id", "collapseId"},
    {"tag", "tag"},
};
enum { OPTIONS = sizeof push_options / sizeof push_options[0] };

/* The value of `"name" : value`, without the blanks around it. */
static struct span value_of(struct span member, struct span name)
{
    const char *end = member.at + member.bytes;
    const char *from = skip_blank(name.at + name.bytes + 1, end);
    if (from < end && *from == ':')
        from = skip_blank(from + 1, end);
    while (end > from && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n' || end[-1] == '\r'))
        end--;
    return (struct span){.at = from, .bytes = (size_t)(end - from)};
}

static void read_options(struct span push, struct span values[OPTIONS])
{
    struct span member, name;
    const char *at = push.at, *end = push.at == NULL ? NULL : push.at + push.bytes;
    while (at != NULL && next_member(&at, end, &member, &name)) {
        for (size_t i = 0; i < OPTIONS; i++) {
            if (name_is(name, push_options[i].ours))
                values[i] = value_of(member, name);
        }
    }
}

static void add_options(struct buffer *out, const struct provider_message *message)
{
    struct span values[OPTIONS] = {{0}};
    read_options(message->push, values);
    for (size_t i = 0; i < OPTIONS; i++) {
        if (values[i].bytes == 0)
            continue;
        buffer_add_byte(out, ',');
        json_out_name(out, push_options[i].theirs);
        buffer_add_span(out, values[i]);
    }
    if (message->expires_at.given && values[OPTION_TTL].bytes == 0)
        buffer_printf(out, ",\"expiration\":%lld", (long long)((message->expires_at.us + 999999) / 1000000));
    if (message->urgent && values[OPTION_PRIORITY].bytes == 0)
        buffer_add_text(out, ",\"priority\":\"high\"");
}

static void add_message(struct buffer *out, const struct provider_message *message, size_t payload_max)
{
    struct cut cut = cut_message(message, payload_max);
    assert(cut.fit != PROVIDER_FIT_TOO_BIG);
    buffer_add_byte(out, '{');
    json_out_name(out, "to");
    json_out_string(out, message->token);
    buffer_add_byte(out, ',');
    json_out_name(out, "title");
    json_out_string(out, message->title);
    buffer_add_byte(out, ',');
    add_body(out, message->body, cut.body_bytes);
    buffer_add_byte(out, ',');
    json_out_name(out, "data");
    buffer_add_byte(out, '{');
    json_out_name(out, "notification_id");
    json_out_uuid(out, message->notification_id);
    if (cut.fit != PROVIDER_FIT_NO_DATA)
        (void)add_members(message->data, out);
    buffer_add_byte(out, '}');
    add_options(out, message);
    buffer_add_byte(out, '}');
}

void provider_encode_messages(const struct provider_message *messages, size_t count, size_t payload_max,
                              struct buffer *out)
{
    for (size_t i = 0; i < count; i++) {
        buffer_add_byte(out, i == 0 ? '[' : ',');
        add_message(out, &messages[i], payload_max);
    }
    buffer_add_text(out, count == 0 ? "[]" : "]");
}

void provider_encode_receipts(const struct span *tickets, size_t count, struct buffer *out)
{
    buffer_add_text(out, "{\"ids\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_add_byte(out, ',');
        json_out_string(out, tickets[i]);
    }
    buffer_add_text(out, "]}");
}
