/* The push member: false, or an object whose options are checked here and travel as the bytes that came. What
 * the contract does not bound is bounded as the provider's platforms do: whole numbers within 31 bits,
 * collapse_id 64 bytes (APNs). */
#include <stdint.h>
#include <string.h>

#include "event_private.h"
#include "json_fields.h"

enum option_type { OPTION_TEXT, OPTION_COUNT, OPTION_BOOLEAN, OPTION_WORD };

struct option {
    const char *name, *field;
    enum option_type type;
    size_t bytes_min, bytes_max; /* OPTION_TEXT */
    const char *words[5];        /* OPTION_WORD */
};

static const struct option options[] = {
    {"ttl", "push.ttl", OPTION_COUNT, 0, 0, {NULL}},
    {"priority", "push.priority", OPTION_WORD, 0, 0, {"default", "normal", "high"}},
    {"sound", "push.sound", OPTION_TEXT, 1, 200, {NULL}},
    {"badge", "push.badge", OPTION_COUNT, 0, 0, {NULL}},
    {"channel_id", "push.channel_id", OPTION_TEXT, 1, 200, {NULL}},
    {"subtitle", "push.subtitle", OPTION_TEXT, 0, 500, {NULL}},
    {"interruption_level",
     "push.interruption_level",
     OPTION_WORD,
     0,
     0,
     {"active", "critical", "passive", "time-sensitive"}},
    {"mutable_content", "push.mutable_content", OPTION_BOOLEAN, 0, 0, {NULL}},
    {"collapse_id", "push.collapse_id", OPTION_TEXT, 1, 64, {NULL}},
    {"tag", "push.tag", OPTION_TEXT, 1, 200, {NULL}},
};

static enum status check_word(const struct option *option, const json_t *value, struct fault *fault)
{
    for (size_t i = 0; json_is_string(value) && option->words[i] != NULL; i++) {
        if (span_is(json_fields_span(value), option->words[i]))
            return ST_OK;
    }
    return json_fields_refuse(fault, option->field, "%s must be one of %s, %s, %s%s%s", option->field,
                              option->words[0], option->words[1], option->words[2],
                              option->words[3] == NULL ? "" : ", ",
                              option->words[3] == NULL ? "" : option->words[3]);
}

static enum status check_option(const struct option *option, const json_t *value, struct fault *fault)
{
    const struct json_text_rule rule = {
        .name = option->field, .bytes_min = option->bytes_min, .bytes_max = option->bytes_max};
    switch (option->type) {
    case OPTION_TEXT:
        return json_fields_check_text(value, &rule, fault);
    case OPTION_COUNT:
        if (json_is_integer(value) && json_integer_value(value) >= 0 &&
            json_integer_value(value) <= INT32_MAX)
            return ST_OK;
        return json_fields_refuse(fault, option->field, "%s must be a whole number from 0 to %d",
                                  option->field, INT32_MAX);
    case OPTION_BOOLEAN:
        if (json_is_boolean(value))
            return ST_OK;
        return json_fields_refuse(fault, option->field, "%s must be true or false", option->field);
    case OPTION_WORD:
        break;
    }
    return check_word(option, value, fault);
}

enum status event_push_read(const json_t *object, struct span bytes, struct event *event, struct fault *fault)
{
    const json_t *push = json_object_get(object, "push");
    if (push == NULL)
        return ST_OK;
    if (json_is_false(push)) {
        event->push_choice = PUSH_OFF;
        return ST_OK;
    }
    if (!json_is_object(push))
        return json_fields_refuse(fault, "push", "push must be false or an object");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const json_t *value = json_object_get(push, options[i].name);
        enum status status = value == NULL ? ST_OK : check_option(&options[i], value, fault);
        if (status != ST_OK)
            return status;
    }
    const char *priority = json_string_value(json_object_get(push, "priority"));
    event->urgent = priority != NULL && strcmp(priority, "high") == 0;
    event->push_choice = PUSH_OPTIONS;
    event->push = bytes;
    return ST_OK;
}
