/* In: a record's headers and, when structured, its envelope. Out: event_type and run_id where the object has
 * none. Holds always: what comes out obeys the rules of the members it stands for. Unknown attributes and
 * extensions are ignored, as unknown members are. */
#include "cloudevent.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "json_fields.h"

static const char prefix[] = "application/cloudevents";
static const char json_format[] = "application/cloudevents+json";

static bool begins_with(struct span text, const char *word)
{
    size_t bytes = strlen(word);
    return text.bytes >= bytes && strncasecmp(text.at, word, bytes) == 0;
}

enum cloudevent_mode cloudevent_mode_of(const struct wire_record *record)
{
    if (begins_with(record->content_type, prefix))
        return CLOUDEVENT_STRUCTURED;
    for (size_t i = 0; i < WIRE_CE_HEADERS; i++) {
        if (record->ce[i].at != NULL)
            return CLOUDEVENT_BINARY;
    }
    return CLOUDEVENT_NONE;
}

/* The batch and the other formats (avro, protobuf) are not taken. */
static bool is_json_format(struct span type)
{
    size_t bytes = sizeof json_format - 1;
    return begins_with(type, json_format) &&
           (type.bytes == bytes || type.at[bytes] == ';' || type.at[bytes] == ' ' || type.at[bytes] == '\t');
}

static enum status read_structured(const struct wire_record *record, const json_t *envelope,
                                   struct span attributes[WIRE_CE_HEADERS], struct arena *arena,
                                   struct fault *fault)
{
    if (!is_json_format(record->content_type))
        return json_fields_refuse(fault, "content-type", "of CloudEvents' formats only %s is taken",
                                  json_format);
    for (size_t i = 0; i < WIRE_CE_HEADERS; i++) {
        const char *name = wire_ce_headers[i] + 3;
        const json_t *value = json_object_get(envelope, name);
        if (value == NULL)
            continue;
        if (!json_is_string(value))
            return json_fields_refuse(fault, name, "%s must be a string", name);
        attributes[i] = (struct span){arena_copy(arena, json_fields_span(value)), json_string_length(value)};
        if (attributes[i].at == NULL)
            return json_fields_arena_full(fault);
    }
    if (json_object_get(envelope, "data_base64") != NULL)
        return json_fields_refuse(fault, "data_base64",
                                  "data_base64 is not taken: give the event as JSON under data");
    if (!json_is_object(json_object_get(envelope, "data")))
        return json_fields_refuse(fault, "data", "data, which holds the event, must be an object");
    return ST_OK;
}

static enum status check_header(struct span value, const char *name, struct fault *fault)
{
    if (value.bytes == 0 || utf8_is_text(value))
        return ST_OK;
    if (memchr(value.at, '\0', value.bytes) == NULL)
        return json_fields_refuse(fault, name, "%s is not UTF-8", name);
    fault_set(fault, REASON_NUL, "U+0000 in the header %s", name);
    fault_set_field(fault, name);
    return ST_REJECT;
}

enum status cloudevent_read(const struct wire_record *record, const json_t *envelope, struct arena *arena,
                            struct cloudevent *cloud, struct fault *fault)
{
    struct span found[WIRE_CE_HEADERS] = {{.at = NULL}};
    struct cloudevent read = {.mode = cloudevent_mode_of(record)};
    bool structured = read.mode == CLOUDEVENT_STRUCTURED;
    if (structured) {
        enum status status = read_structured(record, envelope, found, arena, fault);
        if (status != ST_OK)
            return status;
    } else {
        memcpy(found, record->ce, sizeof found);
    }
    for (size_t i = 0; i < WIRE_CE_HEADERS; i++) {
        const char *name = structured ? wire_ce_headers[i] + 3 : wire_ce_headers[i];
        if (found[i].at == NULL)
            return json_fields_refuse(fault, name, "%s is missing: CloudEvents require it", name);
        if (found[i].bytes == 0)
            return json_fields_refuse(fault, name, "%s is empty", name);
        enum status status = check_header(found[i], name, fault);
        if (status != ST_OK)
            return status;
        if (i == WIRE_CE_SPECVERSION && !span_is(found[i], "1.0"))
            return json_fields_refuse(fault, name, "%s must be 1.0", name);
    }
    read.id = found[WIRE_CE_ID];
    read.source = found[WIRE_CE_SOURCE];
    read.type = found[WIRE_CE_TYPE];
    *cloud = read;
    return ST_OK;
}

static bool is_coded(char c)
{
    return c == '%' || c == '/';
}

static enum status make_run_id(const struct cloudevent *cloud, struct arena *arena, struct event *event,
                               struct fault *fault)
{
    size_t bytes = cloud->source.bytes + 1 + cloud->id.bytes;
    for (size_t i = 0; i < cloud->id.bytes; i++)
        bytes += is_coded(cloud->id.at[i]) ? 2 : 0;
    if (bytes > EVENT_ID_MAX)
        return json_fields_refuse(fault, "run_id",
                                  "source/id, taken as run_id, has %zu bytes, at most %d are taken", bytes,
                                  EVENT_ID_MAX);
    char *text = arena_alloc(arena, bytes + 1);
    if (text == NULL)
        return json_fields_arena_full(fault);
    memcpy(text, cloud->source.at, cloud->source.bytes);
    char *to = text + cloud->source.bytes;
    *to++ = '/';
    for (size_t i = 0; i < cloud->id.bytes; i++) {
        char c = cloud->id.at[i];
        if (is_coded(c)) {
            *to++ = '%';
            *to++ = '2';
            *to++ = c == '%' ? '5' : 'F';
        } else {
            *to++ = c;
        }
    }
    assert(to == text + bytes);
    event->run_id = (struct span){text, bytes};
    return ST_OK;
}

enum status cloudevent_fill(const struct cloudevent *cloud, const json_t *object, struct arena *arena,
                            struct event *event, struct fault *fault)
{
    if (json_object_get(object, "event_type") == NULL) {
        const char *name = cloud->mode == CLOUDEVENT_BINARY ? "ce_type" : "type";
        if (cloud->type.bytes > EVENT_ID_MAX)
            return json_fields_refuse(fault, name, "%s has %zu bytes, at most %d are taken as event_type",
                                      name, cloud->type.bytes, EVENT_ID_MAX);
        event->event_type = cloud->type;
    }
    return json_object_get(object, "run_id") == NULL ? make_run_id(cloud, arena, event, fault) : ST_OK;
}
