/* What the parsers say of records, for the test that compares them with the schemas of config/contracts.
 *
 *   contracts_parse < lines      each line: KIND, a tab, the value in hex; KIND is event, cloudevent (a
 *                                structured one), device or receipt
 *
 * One line back for each: "ok", or the reason code and the field. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/device.h"
#include "wire/event.h"
#include "wire/outcome.h"

enum { RECORD_MAX = 1024 * 1024 };

static enum status parse(const char *kind, struct wire_record *record, struct arena *arena,
                         struct fault *fault)
{
    struct event event;
    struct device_change change;
    struct outcome outcome;
    if (strcmp(kind, "device") == 0)
        return device_parse(record, arena, &change, fault);
    if (strcmp(kind, "receipt") == 0)
        return outcome_parse(record, arena, &outcome, fault);
    if (strcmp(kind, "cloudevent") == 0)
        record->content_type = span_of("application/cloudevents+json");
    return event_parse(record, arena, &event, fault);
}

/* In place; how many bytes. */
static size_t unhex(char *text)
{
    size_t bytes = 0;
    unsigned value = 0;
    while (sscanf(text + 2 * bytes, "%2x", &value) == 1)
        text[bytes++] = (char)value;
    return bytes;
}

int main(void)
{
    struct arena arena;
    char *line = NULL;
    size_t room = 0;
    arena_init(&arena, EVENT_ARENA_BYTES_MAX);
    while (getline(&line, &room, stdin) > 0) {
        struct fault fault;
        char *value = strchr(line, '\t');
        if (value == NULL)
            return 2;
        *value++ = '\0';
        value[strcspn(value, "\n")] = '\0';
        size_t bytes = unhex(value);
        struct wire_record record = {.value = {value, bytes}, .timestamp_us = -1, .bytes_max = RECORD_MAX};
        fault_reset(&fault);
        arena_reset(&arena);
        enum status status = parse(line, &record, &arena, &fault);
        printf("%s %s\n", status == ST_OK ? "ok" : fault.code, fault.field);
    }
    free(line);
    arena_done(&arena);
    return 0;
}
