/* In: a record's bytes. Out: struct event, all rules of contracts/events.md checked, in the order of the
 * members there. Holds always: on success every text is valid UTF-8 without U+0000 and within its size, so
 * the database has no reason of its own to refuse it; on failure nothing is written. Pure, so a crash here
 * loses nothing. */
#include "wire/event.h"

#include <stddef.h>
#include <string.h>

#include "cloudevent.h"
#include "event_private.h"
#include "io/crypto.h"
#include "json_bytes.h"
#include "json_fields.h"
#include "wire/trace.h"

enum { CUT_DATA, CUT_PUSH, CUTS };

#define RULE(member, least, most, need)                                                                      \
    {                                                                                                        \
        .name = #member, .bytes_min = (least), .bytes_max = (most), .required = (need),                      \
        .offset = offsetof(struct event, member)                                                             \
    }

static const struct json_text_rule text_rules[] = {
    RULE(run_id, 1, EVENT_ID_MAX, false), /* required unless idempotency_key is given: below */
    RULE(event_type, 1, EVENT_ID_MAX, true),
    RULE(workspace_id, 1, EVENT_ID_MAX, true),
    RULE(category, 1, EVENT_CATEGORY_MAX, false),
    RULE(title, 1, EVENT_TITLE_MAX, true),
    RULE(body, 0, EVENT_BODY_MAX, false),
    RULE(idempotency_key, 1, EVENT_KEY_MAX, false),
    {.name = NULL},
};

static enum status read_texts(const json_t *object, struct arena *arena, struct event *event,
                              struct fault *fault)
{
    event->category = span_of("general");
    event->body = span_of("");
    enum status status = json_fields_texts(object, text_rules, arena, event, fault);
    if (status == ST_OK && event->run_id.bytes == 0 && event->idempotency_key.bytes == 0)
        return json_fields_refuse(fault, "run_id",
                                  "run_id is missing, and there is no idempotency_key either");
    return status;
}

static enum status read_data(const json_t *object, const struct json_cut *cut, struct event *event,
                             struct fault *fault)
{
    const json_t *value = json_object_get(object, "data");
    if (value == NULL)
        return ST_OK;
    if (!json_is_object(value))
        return json_fields_refuse(fault, "data", "data must be an object");
    if (cut->value.bytes > EVENT_DATA_MAX) {
        fault_set(fault, REASON_TOO_BIG, "data has %zu bytes, at most %d are taken", cut->value.bytes,
                  EVENT_DATA_MAX);
        fault_set_field(fault, "data");
        return ST_REJECT;
    }
    event->data = cut->value;
    return ST_OK;
}

static void put_u64(unsigned char *bytes, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (56 - 8 * i));
}

static int64_t content_hash(const struct event *event)
{
    unsigned char at[8], sizes[5][8], digest[CRYPTO_SHA256_BYTES];
    put_u64(at, (uint64_t)event->occurred_at.us);
    const struct span texts[] = {event->event_type, event->category, event->title, event->body, event->data};
    struct span parts[11];
    size_t count = 0;
    for (int i = 0; i < 5; i++) {
        put_u64(sizes[i], texts[i].bytes);
        parts[count++] = (struct span){.at = (const char *)sizes[i], .bytes = 8};
        parts[count++] = texts[i];
    }
    if (event->occurred_at.given)
        parts[count++] = (struct span){.at = (const char *)at, .bytes = 8};
    crypto_sha256(parts, count, digest);
    uint64_t first = 0;
    for (int i = 0; i < 8; i++)
        first = first << 8 | digest[i];
    return (int64_t)first;
}

static enum status read_event(const json_t *object, const struct json_cut *cuts, struct arena *arena,
                              struct event *event, struct fault *fault)
{
    enum status status = json_fields_version(object, fault);
    if (status == ST_OK)
        status = read_texts(object, arena, event, fault);
    if (status == ST_OK)
        status = read_data(object, &cuts[CUT_DATA], event, fault);
    if (status == ST_OK)
        status = json_fields_instant(object, "occurred_at", &event->occurred_at, fault);
    if (status == ST_OK)
        status = json_fields_instant(object, "expires_at", &event->expires_at, fault);
    if (status == ST_OK)
        status = event_push_read(object, cuts[CUT_PUSH].value, event, fault);
    if (status == ST_OK)
        status = event_recipients_read(object, arena, event, fault);
    return status;
}

/* The record's own object, and with a cloud event what that says besides. */
static enum status read_object(const struct wire_record *object_of, const struct cloudevent *cloud,
                               struct arena *arena, struct event *event, struct fault *fault)
{
    struct json_cut cuts[CUTS] = {[CUT_DATA] = {.name = "data"}, [CUT_PUSH] = {.name = "push"}};
    const struct json_bytes source = {.text = object_of->value,
                                      .bytes_max = object_of->bytes_max,
                                      .depth_max = EVENT_DEPTH_MAX + 1, /* data is one down */
                                      .cuts = cuts,
                                      .cut_count = CUTS};
    json_t *object = NULL;
    enum status status = json_bytes_load(&source, &object, fault);
    if (status != ST_OK)
        return status;
    if (cloud->mode != CLOUDEVENT_NONE)
        status = cloudevent_fill(cloud, object, arena, event, fault);
    if (status == ST_OK)
        status = read_event(object, cuts, arena, event, fault);
    json_decref(object);
    return status;
}

/* Opens a structured cloud event's envelope: its attributes, and the bytes of our object in it. */
static enum status open_envelope(const struct wire_record *record, struct arena *arena,
                                 struct cloudevent *cloud, struct span *text, struct fault *fault)
{
    struct json_cut cut = {.name = "data"};
    const struct json_bytes source = {.text = record->value,
                                      .bytes_max = record->bytes_max,
                                      .depth_max = EVENT_DEPTH_MAX + 2, /* the object's data is two down */
                                      .cuts = &cut,
                                      .cut_count = 1};
    json_t *envelope = NULL;
    enum status status = json_bytes_load(&source, &envelope, fault);
    if (status != ST_OK)
        return status;
    status = cloudevent_read(record, envelope, arena, cloud, fault);
    json_decref(envelope);
    if (status == ST_OK)
        *text = cut.value;
    return status;
}

enum status event_parse(const struct wire_record *record, struct arena *arena, struct event *event,
                        struct fault *fault)
{
    struct cloudevent cloud = {.mode = cloudevent_mode_of(record)};
    struct wire_record object_of = *record; /* with our object as its value */
    enum status status = ST_OK;
    if (cloud.mode == CLOUDEVENT_STRUCTURED)
        status = open_envelope(record, arena, &cloud, &object_of.value, fault);
    else if (cloud.mode == CLOUDEVENT_BINARY)
        status = cloudevent_read(record, NULL, arena, &cloud, fault);
    if (status != ST_OK)
        return status;
    bool stamped = record->timestamp_us >= 0 && record->timestamp_us <= record->now_us;
    struct event parsed = {.partition = record->partition,
                           .offset = record->offset,
                           .traceparent = trace_parent_valid(record->traceparent),
                           .event_at_us = stamped ? record->timestamp_us : record->now_us};
    status = read_object(&object_of, &cloud, arena, &parsed, fault);
    if (status != ST_OK)
        return status;
    parsed.content_hash = content_hash(&parsed);
    *event = parsed;
    return ST_OK;
}

/* A line of a file has no headers: one whose object has a specversion is a structured cloud event. */
static bool is_structured(struct span line, size_t bytes_max)
{
    struct json_cut cut = {.name = "specversion"};
    const struct json_bytes source = {
        .text = line, .bytes_max = bytes_max, .depth_max = EVENT_DEPTH_MAX + 2, .cuts = &cut, .cut_count = 1};
    json_t *object = NULL;
    if (json_bytes_load(&source, &object, NULL) != ST_OK)
        return false;
    json_decref(object);
    return cut.value.at != NULL;
}

enum status event_check_line(struct span line, size_t record_bytes_max, struct arena *arena,
                             struct fault *fault)
{
    struct event event;
    struct wire_record record = {.value = line, .timestamp_us = -1, .bytes_max = record_bytes_max};
    if (is_structured(line, record_bytes_max))
        record.content_type = span_of("application/cloudevents+json");
    arena_reset(arena);
    enum status status = event_parse(&record, arena, &event, fault);
    if (status == ST_RETRY) {
        fault_set(fault, "arena", "an arena of EVENT_ARENA_BYTES_MAX is needed");
        return ST_FATAL;
    }
    return status;
}
