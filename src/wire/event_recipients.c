/* Who an event is for, each once, and the idempotency key of each (design.md §1 'Key'). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "event_private.h"
#include "io/crypto.h"
#include "json_fields.h"
#include "wire/event.h"

/* "notification:" + run + ":" + type + ":", every byte of the two encoded. */
enum { PREFIX_MAX = 16 + 2 * 3 * EVENT_ID_MAX };

struct name {
    struct span user_id;
    size_t place;
};

static const struct json_text_rule one_rule = {
    .name = "recipient_user_id", .bytes_min = 1, .bytes_max = EVENT_ID_MAX};

/* How many names are given; their array's own bounds. */
static enum status count_names(const json_t *object, size_t *count, struct fault *fault)
{
    const json_t *one = json_object_get(object, one_rule.name);
    const json_t *many = json_object_get(object, "recipients");
    if (one != NULL && many != NULL)
        return json_fields_refuse(fault, "recipients",
                                  "recipient_user_id and recipients are both given: give one");
    if (one == NULL && many == NULL)
        return json_fields_refuse(fault, "recipient_user_id", "recipient_user_id (or recipients) is missing");
    if (one != NULL) {
        *count = 1;
        return json_fields_check_text(one, &one_rule, fault);
    }
    if (!json_is_array(many))
        return json_fields_refuse(fault, "recipients", "recipients must be an array of strings");
    size_t given = json_array_size(many);
    if (given == 0)
        return json_fields_refuse(fault, "recipients", "recipients is empty");
    if (given > EVENT_RECIPIENTS_MAX)
        return json_fields_refuse(fault, "recipients", "recipients has %zu elements, at most %d are taken",
                                  given, EVENT_RECIPIENTS_MAX);
    *count = given;
    return ST_OK;
}

static int by_name_then_place(const void *a, const void *b)
{
    const struct name *one = a, *other = b;
    size_t shorter = one->user_id.bytes < other->user_id.bytes ? one->user_id.bytes : other->user_id.bytes;
    int order = memcmp(one->user_id.at, other->user_id.at, shorter);
    if (order != 0)
        return order;
    if (one->user_id.bytes != other->user_id.bytes)
        return one->user_id.bytes < other->user_id.bytes ? -1 : 1;
    return one->place < other->place ? -1 : 1;
}

static int by_place(const void *a, const void *b)
{
    return ((const struct name *)a)->place < ((const struct name *)b)->place ? -1 : 1;
}

/* Sorted rather than hashed: names come from outside, and a sort has no worst case to aim at. */
static size_t drop_repeated(struct name *names, size_t count)
{
    qsort(names, count, sizeof names[0], by_name_then_place);
    size_t kept = 1;
    for (size_t i = 1; i < count; i++) {
        if (!span_same(names[i].user_id, names[kept - 1].user_id))
            names[kept++] = names[i];
    }
    if (kept > 1)
        qsort(names, kept, sizeof names[0], by_place);
    return kept;
}

static bool is_coded(struct span text, size_t i)
{
    return text.at[i] == '%' || text.at[i] == ':' || (text.at[i] == '~' && i == 0);
}

static size_t coded_bytes(struct span text)
{
    size_t bytes = text.bytes;
    for (size_t i = 0; i < text.bytes; i++)
        bytes += is_coded(text, i) ? 2 : 0;
    return bytes;
}

/* Percent-encodes what could be mistaken for a border between components, or for the hash's mark. */
static char *put_coded(char *to, struct span text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (!is_coded(text, i)) {
            *to++ = (char)c;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    return to;
}

static char *put_plain(char *to, struct span text)
{
    memcpy(to, text.at, text.bytes);
    return to + text.bytes;
}

static size_t make_prefix(const struct event *event, char *prefix)
{
    char *to = put_plain(prefix, span_of("notification:"));
    if (event->idempotency_key.bytes > 0) {
        char hex[CRYPTO_SHA256_HEX_BYTES + 1];
        crypto_sha256_hex(event->idempotency_key, hex);
        *to++ = '~';
        to = put_plain(to, span_of(hex));
    } else {
        to = put_coded(to, event->run_id);
    }
    *to++ = ':';
    to = put_coded(to, event->event_type);
    *to++ = ':';
    assert(to - prefix <= PREFIX_MAX);
    return (size_t)(to - prefix);
}

/* The key, and the user's id: the key's own tail where nothing in it had to be encoded. */
static bool make_recipient(struct arena *arena, struct span prefix, struct span user_id,
                           struct recipient *recipient)
{
    size_t tail = coded_bytes(user_id);
    char *key = arena_alloc(arena, prefix.bytes + tail);
    if (key == NULL)
        return false;
    memcpy(key, prefix.at, prefix.bytes);
    put_coded(key + prefix.bytes, user_id);
    const char *id = tail == user_id.bytes ? key + prefix.bytes : arena_copy(arena, user_id);
    if (id == NULL)
        return false;
    recipient->key = (struct span){.at = key, .bytes = prefix.bytes + tail};
    recipient->user_id = (struct span){.at = id, .bytes = user_id.bytes};
    return true;
}

static enum status read_names(const json_t *object, struct name *names, struct fault *fault)
{
    const json_t *many = json_object_get(object, "recipients");
    if (many == NULL) {
        names[0].user_id = json_fields_span(json_object_get(object, one_rule.name));
        return ST_OK;
    }
    for (size_t i = 0; i < json_array_size(many); i++) {
        const json_t *value = json_array_get(many, i);
        size_t bytes = json_string_length(value);
        if (!json_is_string(value) || bytes < 1 || bytes > EVENT_ID_MAX)
            return json_fields_refuse(fault, "recipients",
                                      "element %zu of recipients must be a string of 1-%d bytes", i,
                                      EVENT_ID_MAX);
        names[i] = (struct name){.user_id = json_fields_span(value), .place = i};
    }
    return ST_OK;
}

/* What the rows of this record come to, before anything is made for so many. */
static enum status check_expanded(const struct event *event, size_t count, struct fault *fault)
{
    size_t each = event->title.bytes + event->body.bytes + event->data.bytes + event->push.bytes;
    if (each <= EVENT_EXPANDED_BYTES_MAX / count)
        return ST_OK;
    fault_set(fault, REASON_TOO_BIG,
              "%zu recipients times %zu bytes of title, body, data and push is over %d", count, each,
              EVENT_EXPANDED_BYTES_MAX);
    fault_set_field(fault, "recipients");
    return ST_REJECT;
}

static enum status make_recipients(struct arena *arena, const struct name *names, size_t count,
                                   struct event *event, struct fault *fault)
{
    char prefix_text[PREFIX_MAX];
    struct span prefix = {.at = prefix_text, .bytes = make_prefix(event, prefix_text)};
    struct recipient *recipients = arena_array(arena, count, sizeof recipients[0]);
    if (recipients == NULL)
        return json_fields_arena_full(fault);
    for (size_t i = 0; i < count; i++) {
        if (!make_recipient(arena, prefix, names[i].user_id, &recipients[i]))
            return json_fields_arena_full(fault);
    }
    event->recipients = recipients;
    event->recipient_count = (uint32_t)count;
    return ST_OK;
}

enum status event_recipients_read(const json_t *object, struct arena *arena, struct event *event,
                                  struct fault *fault)
{
    size_t count = 0;
    enum status status = count_names(object, &count, fault);
    if (status != ST_OK)
        return status;
    struct name only = {.place = 0};
    struct name *names = count > 1 ? arena_array(arena, count, sizeof names[0]) : &only;
    if (names == NULL)
        return json_fields_arena_full(fault);
    status = read_names(object, names, fault);
    if (status != ST_OK)
        return status;
    count = drop_repeated(names, count);
    status = check_expanded(event, count, fault);
    return status == ST_OK ? make_recipients(arena, names, count, event, fault) : status;
}
