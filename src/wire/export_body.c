/* In: a client's body, or what was stored of it. Out: filters as the texts a query would have. Always: what
 * is not known is refused; nothing of the body is in a fault. */
#include "wire/export_body.h"

#include <stdio.h>
#include <string.h>

#include "json_bytes.h"
#include "json_fields.h"

enum { DEPTH_MAX = 3 };

const char *export_format_name(enum export_format format)
{
    return format == EXPORT_CSV ? "csv" : "ndjson";
}

static enum status body_refuse(struct fault *fault, const char *detail)
{
    fault_set(fault, "invalid_body", "%s", detail);
    return ST_REJECT;
}

/* Into texts; false: no room. */
static bool body_keep(struct export_body *body, size_t *used, struct span text, struct span *kept)
{
    if (text.bytes > sizeof body->texts - *used)
        return false;
    if (text.bytes > 0)
        memcpy(body->texts + *used, text.at, text.bytes);
    *kept = (struct span){body->texts + *used, text.bytes};
    *used += text.bytes;
    return true;
}

static enum status body_take_filters(json_t *filters, struct export_body *body, struct fault *fault)
{
    const char *name;
    json_t *value;
    size_t used = 0;
    if (!json_is_object(filters))
        return body_refuse(fault, "filters is an object of the feed's filters.");
    if (json_object_size(filters) > EXPORT_BODY_FILTERS_MAX)
        return body_refuse(fault, "There are more filters than any feed has.");
    json_object_foreach(filters, name, value)
    {
        char number[32];
        struct span text;
        if (json_is_string(value))
            text = json_fields_span(value);
        else if (json_is_boolean(value))
            text = span_of(json_is_true(value) ? "true" : "false");
        else if (json_is_integer(value)) {
            snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
            text = span_of(number);
        } else
            return body_refuse(fault, "A filter's value is a string, a whole number, true or false.");
        struct export_filter *filter = &body->filters[body->count++];
        filter->text = json_is_string(value);
        if (!body_keep(body, &used, span_of(name), &filter->name) ||
            !body_keep(body, &used, text, &filter->value))
            return body_refuse(fault, "The filters are too long.");
    }
    return ST_OK;
}

static enum status body_take(json_t *root, struct export_body *body, struct fault *fault)
{
    json_t *filters = json_object_get(root, "filters"), *format = json_object_get(root, "format");
    size_t known = (filters != NULL ? 1U : 0U) + (format != NULL ? 1U : 0U);
    if (json_object_size(root) != known)
        return body_refuse(fault, "The body has a member beside filters and format.");
    if (format != NULL && (!json_is_string(format) || (!span_is(json_fields_span(format), "ndjson") &&
                                                       !span_is(json_fields_span(format), "csv"))))
        return body_refuse(fault, "format is ndjson or csv.");
    body->format = format != NULL && span_is(json_fields_span(format), "csv") ? EXPORT_CSV : EXPORT_NDJSON;
    return filters == NULL ? ST_OK : body_take_filters(filters, body, fault);
}

typedef enum status body_taker(json_t *root, struct export_body *body, struct fault *fault);

static enum status body_parse(struct span text, body_taker *take, struct export_body *body,
                              struct fault *fault)
{
    const struct json_bytes source = {
        .text = text, .bytes_max = EXPORT_BODY_BYTES_MAX, .depth_max = DEPTH_MAX};
    json_t *root = NULL;
    body->format = EXPORT_NDJSON;
    body->count = 0;
    enum status status = json_bytes_load(&source, &root, fault);
    if (status == ST_REJECT)
        return body_refuse(fault, "The body is not a JSON object of the known form.");
    if (status != ST_OK)
        return status;
    status = take(root, body, fault);
    json_decref(root);
    return status;
}

enum status export_body_parse(struct span text, struct export_body *body, struct fault *fault)
{
    return body_parse(text.bytes == 0 ? span_of("{}") : text, body_take, body, fault);
}

enum status export_filters_parse(struct span text, struct export_body *body, struct fault *fault)
{
    return body_parse(text, body_take_filters, body, fault);
}
