/* struct outcome <-> the value of a receipts record. Holds always: what outcome_encode writes, outcome_parse
 * reads back; neither knows a token, a title or a body. */
#include "wire/outcome.h"

#include <assert.h>
#include <stddef.h>

#include "json_bytes.h"
#include "json_fields.h"
#include "model/event.h"
#include "wire/json_out.h"
#include "wire/trace.h"

enum { DEPTH_MAX = EVENT_DEPTH_MAX + 1 };

/* ---- out ----------------------------------------------------------------------------------------------- */

/* At most `most` bytes, and no piece of a character at the end: it has at most three bytes behind its first.
 */
static struct span cut(struct span text, size_t most)
{
    if (text.bytes <= most)
        return text;
    for (size_t bytes = most; bytes > most - 4; bytes--) {
        if (((unsigned char)text.at[bytes] & 0xc0) != 0x80)
            return (struct span){.at = text.at, .bytes = bytes};
    }
    return (struct span){.at = text.at, .bytes = most}; /* not UTF-8 */
}

static void add_text(struct buffer *buffer, const char *name, struct span text)
{
    buffer_add_byte(buffer, ',');
    json_out_name(buffer, name);
    if (text.bytes == 0)
        buffer_add_text(buffer, "null");
    else
        json_out_string(buffer, text);
}

void outcome_encode(struct buffer *buffer, const struct outcome *outcome)
{
    bool sent = outcome->outcome == DISPATCH_SENT;
    assert(sent || outcome->outcome == DISPATCH_FAILED || outcome->outcome == DISPATCH_SUPPRESSED);
    assert(outcome->attempt >= 1 && (sent || outcome->error.bytes > 0));
    buffer_add_text(buffer, "{\"v\":1,\"dispatch_id\":");
    json_out_id(buffer, outcome->dispatch_id);
    buffer_add_text(buffer, ",\"notification_id\":");
    json_out_uuid(buffer, outcome->notification_id);
    add_text(buffer, "workspace_id", outcome->workspace_id);
    add_text(buffer, "recipient_user_id", outcome->recipient_user_id);
    buffer_add_text(buffer, ",\"device_id\":");
    json_out_id(buffer, outcome->device_id);
    add_text(buffer, "outcome", span_of(dispatch_state_name(outcome->outcome)));
    add_text(buffer, "ticket", cut(outcome->ticket, DISPATCH_TICKET_MAX));
    add_text(buffer, "error", cut(outcome->error, DISPATCH_ERROR_MAX));
    add_text(buffer, "detail", cut(outcome->detail, DISPATCH_DETAIL_MAX));
    buffer_add_text(buffer, ",\"attempt\":");
    json_out_int(buffer, outcome->attempt);
    buffer_add_text(buffer, ",\"at\":");
    json_out_instant(buffer, outcome->at_us);
    buffer_add_byte(buffer, '}');
}

/* ---- in ------------------------------------------------------------------------------------------------ */

/* Bytes that were not UTF-8 went out as U+FFFD, three for one. */
enum {
    TICKET_PARSED_MAX = 3 * DISPATCH_TICKET_MAX,
    ERROR_PARSED_MAX = 3 * DISPATCH_ERROR_MAX,
    DETAIL_PARSED_MAX = 3 * DISPATCH_DETAIL_MAX
};

static const struct json_text_rule text_rules[] = {
    {"workspace_id", 1, EVENT_ID_MAX, true, false, offsetof(struct outcome, workspace_id)},
    {"recipient_user_id", 1, EVENT_ID_MAX, true, false, offsetof(struct outcome, recipient_user_id)},
    {"ticket", 1, TICKET_PARSED_MAX, false, true, offsetof(struct outcome, ticket)},
    {"error", 1, ERROR_PARSED_MAX, false, true, offsetof(struct outcome, error)},
    {"detail", 1, DETAIL_PARSED_MAX, false, true, offsetof(struct outcome, detail)},
    {.name = NULL},
};

static enum status read_notification_id(const json_t *object, struct uuid *id, struct fault *fault)
{
    const json_t *value = json_object_get(object, "notification_id");
    if (value == NULL)
        return json_fields_refuse(fault, "notification_id", "notification_id is missing");
    if (!json_is_string(value) || !uuid_parse(json_fields_span(value), id))
        return json_fields_refuse(fault, "notification_id", "notification_id must be a UUID");
    return ST_OK;
}

static enum status read_state(const json_t *object, enum dispatch_state *state, struct fault *fault)
{
    const json_t *value = json_object_get(object, "outcome");
    if (value == NULL)
        return json_fields_refuse(fault, "outcome", "outcome is missing");
    if (!json_is_string(value) || !dispatch_state_parse(json_fields_span(value), state) ||
        (*state != DISPATCH_SENT && *state != DISPATCH_FAILED && *state != DISPATCH_SUPPRESSED))
        return json_fields_refuse(fault, "outcome", "outcome must be sent, failed or suppressed");
    return ST_OK;
}

static enum status read_attempt(const json_t *object, int *attempt, struct fault *fault)
{
    const json_t *value = json_object_get(object, "attempt");
    if (value == NULL)
        return json_fields_refuse(fault, "attempt", "attempt is missing");
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
    if (number < 1 || number > INT32_MAX)
        return json_fields_refuse(fault, "attempt", "attempt must be a whole number from 1");
    *attempt = (int)number;
    return ST_OK;
}

static enum status read_rest(const json_t *object, struct outcome *outcome, struct fault *fault)
{
    struct instant at = {.given = false};
    enum status status = read_attempt(object, &outcome->attempt, fault);
    if (status == ST_OK)
        status = json_fields_instant(object, "at", &at, fault);
    if (status != ST_OK)
        return status;
    if (!at.given)
        return json_fields_refuse(fault, "at", "at is missing");
    if (outcome->outcome != DISPATCH_SENT && outcome->error.bytes == 0)
        return json_fields_refuse(fault, "error", "error is missing: the outcome is not sent");
    outcome->at_us = at.us;
    return ST_OK;
}

static enum status read_outcome(const json_t *object, struct arena *arena, struct outcome *outcome,
                                struct fault *fault)
{
    enum status status = json_fields_version(object, fault);
    if (status == ST_OK)
        status = json_fields_id(object, "dispatch_id", &outcome->dispatch_id, fault);
    if (status == ST_OK)
        status = read_notification_id(object, &outcome->notification_id, fault);
    if (status == ST_OK)
        status = json_fields_id(object, "device_id", &outcome->device_id, fault);
    if (status == ST_OK)
        status = read_state(object, &outcome->outcome, fault);
    if (status == ST_OK)
        status = json_fields_texts(object, text_rules, arena, outcome, fault);
    if (status == ST_OK)
        status = read_rest(object, outcome, fault);
    return status;
}

enum status outcome_parse(const struct wire_record *record, struct arena *arena, struct outcome *outcome,
                          struct fault *fault)
{
    const struct json_bytes source = {
        .text = record->value, .bytes_max = record->bytes_max, .depth_max = DEPTH_MAX};
    json_t *object = NULL;
    enum status status = json_bytes_load(&source, &object, fault);
    if (status != ST_OK)
        return status;
    struct outcome parsed = {.traceparent = trace_parent_valid(record->traceparent)};
    status = read_outcome(object, arena, &parsed, fault);
    json_decref(object);
    if (status == ST_OK)
        *outcome = parsed;
    return status;
}
