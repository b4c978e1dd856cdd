/* Records that can never succeed, one table: each with the reason code and the member that must be named.
 * Source: contracts/events.md. sqlstate is not here: it takes a database that refuses. */
#include <string.h>

#include "support/produce.h"

/* A variant is head + what grow says + tail; "$" in either stands for the members that every event needs. */
enum grow { GROW_NOTHING, GROW_TITLE, GROW_BODY, GROW_CATEGORY, GROW_DATA, GROW_DEPTH, GROW_RECIPIENTS };

#define ALL                                                                                                  \
    "\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"acme\",\"recipient_user_id\":\"user-0001\""
#define TITLED ALL ",\"title\":\"T\""

static const struct {
    const char *code, *field, *head, *tail;
    enum grow grow;
} variants[] = {
    {"json", "", "this-is-not-json {{{", "", GROW_NOTHING},
    {"json", "", "{" TITLED, "", GROW_NOTHING},                            /* cut off */
    {"json", "", "{" TITLED ",\"body\":\"\xff\xfe\"}", "", GROW_NOTHING},  /* not UTF-8 */
    {"json", "", "{" TITLED ",\"body\":\"\\ud800 x\"}", "", GROW_NOTHING}, /* a lone surrogate */
    {"json", "", "{" TITLED ",\"recipient_user_id\":\"user-0002\"}", "", GROW_NOTHING},
    {"json", "", "{" TITLED ",\"\\u0074itle\":\"again\"}", "", GROW_NOTHING}, /* doubled, spelled otherwise */
    {"json", "", "{" TITLED ",\"data\":{\"a\":1,\"a\":2}}", "", GROW_NOTHING},
    {"json", "", "{" TITLED ",\"data\":{\"n\":18446744073709551616}}", "", GROW_NOTHING},
    {"json", "", "", "{" TITLED "}", GROW_NOTHING}, /* a byte 0 first: see poison_write */
    {"not_object", "", "[{" TITLED "}]", "", GROW_NOTHING},
    {"not_object", "", "\"just text\"", "", GROW_NOTHING},
    {"not_object", "", "42", "", GROW_NOTHING},
    {"not_object", "", "null", "", GROW_NOTHING},
    {"field", "title", "{" ALL "}", "", GROW_NOTHING},
    {"field", "title", "{" ALL ",\"title\":\"\"}", "", GROW_NOTHING},
    {"field", "title", "{" ALL ",\"title\":7}", "", GROW_NOTHING},
    {"field", "title", "{" ALL ",\"title\":\"", "\"}", GROW_TITLE},
    {"field", "body", "{" TITLED ",\"body\":\"", "\"}", GROW_BODY},
    {"field", "category", "{" TITLED ",\"category\":\"", "\"}", GROW_CATEGORY},
    {"field", "run_id",
     "{\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":\"T\"}", "",
     GROW_NOTHING},
    {"field", "workspace_id",
     "{\"run_id\":\"r\",\"event_type\":\"t\",\"recipient_user_id\":\"u\",\"title\":\"T\"}", "", GROW_NOTHING},
    {"field", "recipient_user_id",
     "{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":12,\"title\":"
     "\"T\"}",
     "", GROW_NOTHING},
    {"field", "recipients",
     "{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"T\",\"recipients\":[", "]}",
     GROW_RECIPIENTS},
    {"field", "v", "{\"v\":2," TITLED "}", "", GROW_NOTHING},
    {"field", "occurred_at", "{" TITLED ",\"occurred_at\":\"yesterday\"}", "", GROW_NOTHING},
    {"field", "push", "{" TITLED ",\"push\":true}", "", GROW_NOTHING},
    {"field", "data", "{" TITLED ",\"data\":[1]}", "", GROW_NOTHING},
    {"nul", "", "{" ALL ",\"title\":\"a\\u0000b\"}", "", GROW_NOTHING},
    {"nul", "", "{" TITLED ",\"body\":\"ends in \\u0000\"}", "", GROW_NOTHING},
    {"nul", "", "{" TITLED ",\"data\":{\"deep\":[\"\\u0000\"]}}", "", GROW_NOTHING},
    {"too_big", "", "{" TITLED ",\"data\":{\"blob\":\"", "\"}}", GROW_DATA},
    {"too_big", "", "{" TITLED ",\"data\":{\"deep\":", "}}", GROW_DEPTH},
};

/* So that codes with few variants come as often as the others, turns go by code. */
static const char *const codes[] = {"json", "not_object", "field", "nul", "too_big"};

enum {
    VARIANTS = sizeof variants / sizeof *variants,
    CODES = sizeof codes / sizeof *codes,
    TITLE_BYTES = 501,
    BODY_BYTES = 4001,
    CATEGORY_BYTES = 101,
    DATA_BYTES = 16 * 1024,
    DEPTH = 40,
    RECIPIENTS = 10001
};

uint32_t poison_variants(void)
{
    return VARIANTS * CODES;
}

/* The n-th turn: code n % CODES, and of that code its next variant. */
static size_t row_of(uint32_t turn)
{
    const char *code = codes[turn % CODES];
    uint32_t of_code = 0, seen = 0;
    for (size_t i = 0; i < VARIANTS; i++)
        of_code += strcmp(variants[i].code, code) == 0;
    uint32_t wanted = turn / CODES % of_code;
    for (size_t i = 0; i < VARIANTS; i++) {
        if (strcmp(variants[i].code, code) == 0 && seen++ == wanted)
            return i;
    }
    return 0;
}

const char *poison_code(uint32_t variant)
{
    return variants[row_of(variant)].code;
}

const char *poison_field(uint32_t variant)
{
    return variants[row_of(variant)].field;
}

static void repeat(struct buffer *value, const char *text, int times)
{
    for (int i = 0; i < times; i++)
        buffer_add_text(value, text);
}

void poison_write(uint32_t variant, uint32_t slot, struct buffer *value)
{
    size_t row = row_of(variant);
    if (variants[row].head[0] == '\0')
        buffer_add(value, "\0\0\0\0\1", 5); /* a schema registry's framing */
    buffer_add_text(value, variants[row].head);
    switch (variants[row].grow) {
    case GROW_NOTHING:
        break;
    case GROW_TITLE:
        repeat(value, "x", TITLE_BYTES);
        break;
    case GROW_BODY:
        repeat(value, "x", BODY_BYTES);
        break;
    case GROW_CATEGORY:
        repeat(value, "x", CATEGORY_BYTES);
        break;
    case GROW_DATA:
        repeat(value, "x", DATA_BYTES);
        break;
    case GROW_DEPTH:
        repeat(value, "[", DEPTH);
        repeat(value, "]", DEPTH);
        break;
    case GROW_RECIPIENTS:
        for (int i = 0; i < RECIPIENTS; i++)
            buffer_printf(value, "%s\"p%u-%d\"", i == 0 ? "" : ",", slot, i);
        break;
    }
    buffer_add_text(value, variants[row].tail);
}
