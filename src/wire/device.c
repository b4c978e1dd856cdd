/* In: a record's bytes. Out: struct device_change. Holds always: the token gets into no fault. */
#include "wire/device.h"

#include <stddef.h>

#include "json_bytes.h"
#include "json_fields.h"
#include "model/event.h"

enum { DEPTH_MAX = EVENT_DEPTH_MAX + 1 };

static const struct json_text_rule register_rules[] = {
    {"user_id", 1, EVENT_ID_MAX, true, false, offsetof(struct device_change, user_id)},
    {"token", 1, DEVICE_TOKEN_MAX, true, false, offsetof(struct device_change, token)},
    {"platform", 1, 16, true, false, offsetof(struct device_change, platform)},
    {"app_version", 0, DEVICE_APP_VERSION_MAX, false, false, offsetof(struct device_change, app_version)},
    {.name = NULL},
};

static const struct json_text_rule unregister_rules[] = {
    {"token", 1, DEVICE_TOKEN_MAX, true, false, offsetof(struct device_change, token)},
    {.name = NULL},
};

static enum status read_op(const json_t *object, bool *enable, struct fault *fault)
{
    const json_t *value = json_object_get(object, "op");
    if (value == NULL)
        return json_fields_refuse(fault, "op", "op is missing");
    struct span op = json_is_string(value) ? json_fields_span(value) : (struct span){.at = NULL, .bytes = 0};
    *enable = span_is(op, "register");
    if (!*enable && !span_is(op, "unregister"))
        return json_fields_refuse(fault, "op", "op must be \"register\" or \"unregister\"");
    return ST_OK;
}

static enum status check_token(struct span token, struct fault *fault)
{
    for (size_t i = 0; i < token.bytes; i++) {
        if (token.at[i] < 0x20 || token.at[i] > 0x7e)
            return json_fields_refuse(fault, "token", "token must be printable ASCII");
    }
    return ST_OK;
}

static enum status read_texts(const json_t *object, struct arena *arena, struct device_change *change,
                              struct fault *fault)
{
    const struct json_text_rule *rules = change->enable ? register_rules : unregister_rules;
    enum status status = json_fields_texts(object, rules, arena, change, fault);
    if (status == ST_OK)
        status = check_token(change->token, fault);
    if (status != ST_OK || !change->enable)
        return status;
    if (!span_is(change->platform, "ios") && !span_is(change->platform, "android") &&
        !span_is(change->platform, "web"))
        return json_fields_refuse(fault, "platform", "platform must be \"ios\", \"android\" or \"web\"");
    return ST_OK;
}

enum status device_parse(const struct wire_record *record, struct arena *arena, struct device_change *change,
                         struct fault *fault)
{
    const struct json_bytes source = {
        .text = record->value, .bytes_max = record->bytes_max, .depth_max = DEPTH_MAX};
    json_t *object = NULL;
    enum status status = json_bytes_load(&source, &object, fault);
    if (status != ST_OK)
        return status;
    struct instant at = {.given = false};
    struct device_change parsed = {.partition = record->partition, .offset = record->offset};
    status = read_op(object, &parsed.enable, fault);
    if (status == ST_OK)
        status = read_texts(object, arena, &parsed, fault);
    if (status == ST_OK)
        status = json_fields_instant(object, "at", &at, fault);
    json_decref(object);
    if (status != ST_OK)
        return status;
    int64_t us = at.given ? at.us : record->timestamp_us;
    bool missing = !at.given && us < 0;
    parsed.at_us = missing || us > record->now_us ? record->now_us : us;
    *change = parsed;
    return ST_OK;
}
