/* Members of a parsed object -> checked values. Every refusal is reason `field` with the member's name; no
 * refusal holds a value. Shared by the parsers of this layer. */
#ifndef BELFRY_SRC_WIRE_JSON_FIELDS_H
#define BELFRY_SRC_WIRE_JSON_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/span.h"
#include "base/status.h"
#include "model/event.h"

struct json_text_rule {
    const char *name;
    size_t bytes_min, bytes_max;
    bool required, nullable; /* nullable: null is the same as absent */
    size_t offset;           /* of the struct span in the struct the table is about */
};

/* Always ST_REJECT. */
enum status json_fields_refuse(struct fault *fault, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Checks a string's length; `shown` names it in the text, `field` in fault.field. */
MUST_USE enum status json_fields_check_text(const json_t *value, const struct json_text_rule *rule,
                                            struct fault *fault);
static inline struct span json_fields_span(const json_t *string)
{
    return (struct span){.at = json_string_value(string), .bytes = json_string_length(string)};
}

/* Reads each rule's member into the span at `base + rule.offset`, copied into the arena; absent ones are left
 * as they are; required means that one of the two is there. ST_RETRY "arena" when it is full. */
MUST_USE enum status json_fields_texts(const json_t *object, const struct json_text_rule *rules,
                                       struct arena *arena, void *base, struct fault *fault);
/* RFC 3339; absent: not given. */
MUST_USE enum status json_fields_instant(const json_t *object, const char *name, struct instant *instant,
                                         struct fault *fault);
/* A 64-bit id as a string of digits, canonical, with '-' when negative; required. */
MUST_USE enum status json_fields_id(const json_t *object, const char *name, int64_t *id, struct fault *fault);
/* `v`, absent or 1. */
MUST_USE enum status json_fields_version(const json_t *object, struct fault *fault);

/* ST_RETRY "arena" */
enum status json_fields_arena_full(struct fault *fault);

#endif
