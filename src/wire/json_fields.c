/* Tables of rules over a jansson object. Holds always: nothing of a value gets into a fault, only the
 * member's name and sizes. */
#include "json_fields.h"

#include <stdarg.h>
#include <stdio.h>

#include "model/timestamp.h"
#include "wire/record.h"

enum status json_fields_refuse(struct fault *fault, const char *field, const char *format, ...)
{
    char text[FAULT_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fault_set(fault, REASON_FIELD, "%s", text);
    fault_set_field(fault, field);
    return ST_REJECT;
}

enum status json_fields_arena_full(struct fault *fault)
{
    fault_set(fault, "arena", "the batch's memory is full");
    return ST_RETRY;
}

enum status json_fields_check_text(const json_t *value, const struct json_text_rule *rule,
                                   struct fault *fault)
{
    if (!json_is_string(value))
        return json_fields_refuse(fault, rule->name, "%s must be a string", rule->name);
    size_t bytes = json_string_length(value);
    if (bytes < rule->bytes_min)
        return json_fields_refuse(fault, rule->name, "%s is empty", rule->name);
    if (bytes > rule->bytes_max)
        return json_fields_refuse(fault, rule->name, "%s has %zu bytes, at most %zu are taken", rule->name,
                                  bytes, rule->bytes_max);
    return ST_OK;
}

enum status json_fields_texts(const json_t *object, const struct json_text_rule *rules, struct arena *arena,
                              void *base, struct fault *fault)
{
    for (const struct json_text_rule *rule = rules; rule->name != NULL; rule++) {
        const json_t *value = json_object_get(object, rule->name);
        struct span *text = (struct span *)(void *)((char *)base + rule->offset);
        if (value == NULL || (rule->nullable && json_is_null(value))) {
            if (rule->required && text->bytes == 0)
                return json_fields_refuse(fault, rule->name, "%s is missing", rule->name);
            continue;
        }
        enum status status = json_fields_check_text(value, rule, fault);
        if (status != ST_OK)
            return status;
        const char *copy = arena_copy(arena, json_fields_span(value));
        if (copy == NULL)
            return json_fields_arena_full(fault);
        *text = (struct span){.at = copy, .bytes = json_string_length(value)};
    }
    return ST_OK;
}

enum status json_fields_instant(const json_t *object, const char *name, struct instant *instant,
                                struct fault *fault)
{
    const json_t *value = json_object_get(object, name);
    *instant = (struct instant){.given = value != NULL};
    if (value == NULL)
        return ST_OK;
    if (!json_is_string(value))
        return json_fields_refuse(fault, name, "%s must be a string", name);
    if (!timestamp_parse(json_fields_span(value), &instant->us))
        return json_fields_refuse(
            fault, name, "%s must be an RFC 3339 time with an offset, as 2026-03-21T09:00:00Z", name);
    return ST_OK;
}

/* "-?[1-9][0-9]*" or "0", within 64 bits. */
static bool parse_id(struct span text, int64_t *id)
{
    uint64_t value = 0;
    bool negative = text.bytes > 0 && text.at[0] == '-';
    uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    size_t at = negative ? 1 : 0;
    if (at == text.bytes || (text.at[at] == '0' && text.bytes > 1))
        return false;
    for (; at < text.bytes; at++) {
        if (text.at[at] < '0' || text.at[at] > '9')
            return false;
        uint64_t digit = (uint64_t)(text.at[at] - '0');
        if (value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *id = (int64_t)(negative ? 0 - value : value);
    return true;
}

enum status json_fields_id(const json_t *object, const char *name, int64_t *id, struct fault *fault)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL)
        return json_fields_refuse(fault, name, "%s is missing", name);
    if (!json_is_string(value) || !parse_id(json_fields_span(value), id))
        return json_fields_refuse(fault, name, "%s must be a whole number of 64 bits as a string", name);
    return ST_OK;
}

enum status json_fields_version(const json_t *object, struct fault *fault)
{
    const json_t *value = json_object_get(object, "v");
    if (value != NULL && (!json_is_integer(value) || json_integer_value(value) != 1))
        return json_fields_refuse(fault, "v", "v must be the number 1");
    return ST_OK;
}
