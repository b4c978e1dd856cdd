/* In: a client's body. Out: the cursor in it. Always: nothing of the body is in a fault. */
#include "wire/up_to.h"

#include "json_bytes.h"
#include "json_fields.h"

enum { BYTES_MAX = 8192, DEPTH_MAX = 4 };

static enum status up_to_take(const json_t *root, char *cursor, struct fault *fault)
{
    const json_t *value = json_object_get(root, "up_to");
    if (!json_is_string(value) || json_string_length(value) == 0 || json_object_size(root) != 1) {
        fault_set(fault, "invalid_body", "The body is {\"up_to\":\"<cursor>\"} and nothing else.");
        return ST_REJECT;
    }
    struct span text = json_fields_span(value);
    if (text.bytes > CURSOR_TEXT_MAX) {
        fault_set(fault, CURSOR_INVALID, "The cursor is not one of this service.");
        return ST_REJECT;
    }
    memcpy(cursor, text.at, text.bytes);
    cursor[text.bytes] = '\0';
    return ST_OK;
}

enum status up_to_parse(struct span body, char *cursor, struct fault *fault)
{
    const struct json_bytes source = {.text = body, .bytes_max = BYTES_MAX, .depth_max = DEPTH_MAX};
    json_t *root = NULL;
    enum status status = json_bytes_load(&source, &root, fault);
    if (status == ST_REJECT)
        fault_set(fault, "invalid_body", "The body is not a JSON object of the known form.");
    if (status != ST_OK)
        return status;
    status = up_to_take(root, cursor, fault);
    json_decref(root);
    return status;
}
