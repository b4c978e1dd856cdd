/* CloudEvents 1.0 as Kafka carries them (contracts/events.md): what they give, and what is refused. */
#include "wire/event.h"
#include "wire/trace.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { RECORD_MAX = 1024 * 1024 };

static struct arena arena;
static struct event event;
static struct fault fault;

static void begin(void)
{
    arena_init(&arena, EVENT_ARENA_BYTES_MAX);
}

static void end(void)
{
    arena_done(&arena);
}

TestSuite(cloudevent, .init = begin, .fini = end);

#define STRUCTURED "application/cloudevents+json"
#define ATTRIBUTES "\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/app\",\"type\":\"meeting.assigned\""
#define OBJECT     "{\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":\"x\"}"

static enum status parse_structured(const char *type, const char *value)
{
    const struct wire_record record = {
        .value = span_of(value), .content_type = span_of(type), .now_us = 1000, .bytes_max = RECORD_MAX};
    fault_reset(&fault);
    return event_parse(&record, &arena, &event, &fault);
}

static void must_be(const char *what, enum status status, const char *code, const char *field)
{
    cr_assert_eq(status, ST_REJECT, "%s", what);
    cr_assert_str_eq(fault.code, code, "%s: %s (%s)", what, fault.code, fault.text);
    cr_assert_str_eq(fault.field, field, "%s: %s (%s)", what, fault.field, fault.text);
    cr_assert_neq(fault.text[0], '\0');
}

Test(cloudevent, structured_gives_type_and_run)
{
    cr_assert_eq(parse_structured(STRUCTURED, "{" ATTRIBUTES ",\"data\":" OBJECT "}"), ST_OK, "%s",
                 fault.text);
    cr_assert(span_is(event.event_type, "meeting.assigned"));
    cr_assert(span_is(event.run_id, "/app/7"));
    cr_assert(span_is(event.recipients[0].key, "notification:/app/7:meeting.assigned:u"));
    cr_assert_eq(event.data.bytes, 0);
}

Test(cloudevent, content_type_as_people_write_it)
{
    static const char *const types[] = {STRUCTURED, STRUCTURED "; charset=utf-8",
                                        STRUCTURED " ;charset=UTF-8", "Application/CloudEvents+JSON"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        cr_assert_eq(parse_structured(types[i], "{" ATTRIBUTES ",\"data\":" OBJECT "}"), ST_OK, "%s",
                     types[i]);
    /* A plain event that says what it is stays a plain event. */
    cr_assert_eq(parse_structured("application/json", "{\"run_id\":\"r\",\"event_type\":\"t\"," /**/
                                                      "\"workspace_id\":\"w\",\"recipient_user_id\":\"u\","
                                                      "\"title\":\"x\"}"),
                 ST_OK);
    static const char *const refused[] = {"application/cloudevents", "application/cloudevents-batch+json",
                                          "application/cloudevents+avro", "application/cloudevents+jsonx"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        must_be(refused[i], parse_structured(refused[i], "{" ATTRIBUTES ",\"data\":" OBJECT "}"), "field",
                "content-type");
}

/* What the object says itself wins, and its data are the bytes that came. */
Test(cloudevent, the_object_wins_and_data_is_cut)
{
    cr_assert_eq(parse_structured(STRUCTURED,
                                  "{" ATTRIBUTES
                                  ",\"time\":\"soon\",\"data\" : {\"run_id\":\"r\",\"event_type\":"
                                  "\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":\"x\","
                                  "\"data\": {\"a\" : 0.1,\"b\":9007199254740993, \"data\":{}} ,"
                                  "\"push\":{\"priority\": \"high\"}} , \"subject\":null}"),
                 ST_OK, "%s", fault.text);
    cr_assert(span_is(event.run_id, "r"));
    cr_assert(span_is(event.event_type, "t"));
    cr_assert(span_is(event.data, "{\"a\" : 0.1,\"b\":9007199254740993, \"data\":{}}"));
    cr_assert(span_is(event.push, "{\"priority\": \"high\"}"));
    cr_assert(event.urgent);
}

static char big[RECORD_MAX], named[2048];

static const char *with(const char *attribute, size_t bytes)
{
    memset(named, 'a', bytes);
    named[bytes] = '\0';
    snprintf(big, sizeof big, "{\"specversion\":\"1.0\",%s\"data\":" OBJECT ",\"%s\":\"%s\"}",
             strcmp(attribute, "id") == 0 ? "\"source\":\"s\",\"type\":\"t\","
                                          : "\"source\":\"s\",\"id\":\"1\",",
             attribute, named);
    return big;
}

Test(cloudevent, structured_refusals)
{
    static const struct {
        const char *value, *code, *field;
    } rows[] = {
        {"{\"id\":\"7\",\"source\":\"/a\",\"type\":\"t\",\"data\":" OBJECT "}", "field", "specversion"},
        {"{\"specversion\":\"0.3\",\"id\":\"7\",\"source\":\"/a\",\"type\":\"t\",\"data\":" OBJECT "}",
         "field", "specversion"},
        {"{\"specversion\":1.0,\"id\":\"7\",\"source\":\"/a\",\"type\":\"t\",\"data\":" OBJECT "}", "field",
         "specversion"},
        {"{\"specversion\":\"1.0\",\"source\":\"/a\",\"type\":\"t\",\"data\":" OBJECT "}", "field", "id"},
        {"{\"specversion\":\"1.0\",\"id\":\"\",\"source\":\"/a\",\"type\":\"t\",\"data\":" OBJECT "}",
         "field", "id"},
        {"{\"specversion\":\"1.0\",\"id\":7,\"source\":\"/a\",\"type\":\"t\",\"data\":" OBJECT "}", "field",
         "id"},
        {"{\"specversion\":\"1.0\",\"id\":\"7\",\"type\":\"t\",\"data\":" OBJECT "}", "field", "source"},
        {"{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/a\",\"data\":" OBJECT "}", "field", "type"},
        {"{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/a\",\"type\":null,\"data\":" OBJECT "}",
         "field", "type"},
        {"{" ATTRIBUTES "}", "field", "data"},
        {"{" ATTRIBUTES ",\"data\":\"text\"}", "field", "data"},
        {"{" ATTRIBUTES ",\"data_base64\":\"e30=\"}", "field", "data_base64"},
        {"{" ATTRIBUTES ",\"data\":{\"workspace_id\":\"w\",\"recipient_user_id\":\"u\"}}", "field", "title"},
        {"{" ATTRIBUTES ",\"data\":{\"a\\u0000\":1}}", "nul", ""},
        {"{" ATTRIBUTES ",\"id\":\"8\",\"data\":" OBJECT "}", "json", ""},
        {"[" OBJECT "]", "not_object", ""},
        {"", "json", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        must_be(rows[i].value, parse_structured(STRUCTURED, rows[i].value), rows[i].code, rows[i].field);
    cr_assert_eq(parse_structured(STRUCTURED, with("type", 200)), ST_OK, "%s", fault.text);
    must_be("type", parse_structured(STRUCTURED, with("type", 201)), "field", "type");
    cr_assert_eq(parse_structured(STRUCTURED, with("id", 198)), ST_OK, "%s", fault.text);
    must_be("id", parse_structured(STRUCTURED, with("id", 199)), "field", "run_id");
}

static void nest(char *to, int depth)
{
    to +=
        sprintf(to, "{" ATTRIBUTES ",\"data\":{\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":"
                    "\"x\",\"data\":");
    for (int i = 0; i < depth; i++)
        to += sprintf(to, "{\"a\":");
    to += sprintf(to, "1");
    for (int i = 0; i < depth; i++)
        to += sprintf(to, "}");
    sprintf(to, "}}");
}

/* data may be as deep in an envelope as without one. */
Test(cloudevent, depth_and_size)
{
    nest(big, EVENT_DEPTH_MAX);
    cr_assert_eq(parse_structured(STRUCTURED, big), ST_OK, "%s", fault.text);
    nest(big, EVENT_DEPTH_MAX + 1);
    must_be("deep", parse_structured(STRUCTURED, big), "too_big", "data");
    const struct wire_record record = {.value = span_of("{" ATTRIBUTES ",\"data\":" OBJECT "}"),
                                       .content_type = span_of(STRUCTURED),
                                       .bytes_max = 50};
    must_be("big", event_parse(&record, &arena, &event, &fault), "too_big", "");
}

static enum status parse_binary(const char *value, const char *const ce[WIRE_CE_HEADERS])
{
    struct wire_record record = {.value = span_of(value),
                                 .content_type = span_of("application/json"),
                                 .now_us = 1000,
                                 .bytes_max = RECORD_MAX};
    for (int i = 0; i < WIRE_CE_HEADERS; i++)
        record.ce[i] = span_of(ce[i]);
    fault_reset(&fault);
    return event_parse(&record, &arena, &event, &fault);
}

Test(cloudevent, binary)
{
    static const struct {
        const char *ce[WIRE_CE_HEADERS], *code, *field;
    } rows[] = {
        {{"1.0", "7", "/app", "meeting.assigned"}, "", ""},
        {{NULL, "7", "/app", "t"}, "field", "ce_specversion"},
        {{"2.0", "7", "/app", "t"}, "field", "ce_specversion"},
        {{"1.0", NULL, "/app", "t"}, "field", "ce_id"},
        {{"1.0", "", "/app", "t"}, "field", "ce_id"},
        {{"1.0", "7", NULL, "t"}, "field", "ce_source"},
        {{"1.0", "7", "/app", NULL}, "field", "ce_type"},
        {{"1.0", "7", "/app", "\xff"}, "field", "ce_type"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum status status = parse_binary(OBJECT, rows[i].ce);
        if (rows[i].code[0] != '\0')
            must_be(rows[i].field, status, rows[i].code, rows[i].field);
        else
            cr_assert_eq(status, ST_OK, "%s", fault.text);
    }
    struct wire_record record = {.value = span_of(OBJECT), .bytes_max = RECORD_MAX};
    const struct span ce[] = {span_of("1.0"), {"a\0b", 3}, span_of("/app"), span_of("t")};
    memcpy(record.ce, ce, sizeof ce);
    must_be("nul", event_parse(&record, &arena, &event, &fault), "nul", "ce_id");
}

/* Two events never share a run because a '/' stands in another place. */
Test(cloudevent, run_ids_are_not_mixed_up)
{
    static const struct {
        const char *source, *id, *run;
    } rows[] = {{"a", "b/c", "a/b%2Fc"}, {"a/b", "c", "a/b/c"}, {"a", "b%2Fc", "a/b%252Fc"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const ce[] = {"1.0", rows[i].id, rows[i].source, "t"};
        cr_assert_eq(parse_binary(OBJECT, ce), ST_OK);
        cr_assert(span_is(event.run_id, rows[i].run), "%.*s", (int)event.run_id.bytes, event.run_id.at);
    }
}

Test(cloudevent, check_line_knows_an_envelope)
{
    cr_assert_eq(
        event_check_line(span_of("{" ATTRIBUTES ",\"data\":" OBJECT "}"), RECORD_MAX, &arena, &fault), ST_OK);
    must_be("no id",
            event_check_line(
                span_of("{\"specversion\":\"1.0\",\"source\":\"s\",\"type\":\"t\",\"data\":" OBJECT "}"),
                RECORD_MAX, &arena, &fault),
            "field", "id");
}

Test(cloudevent, trace_id)
{
    cr_assert(span_is(trace_id_of(span_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")),
                      "4bf92f3577b34da6a3ce929d0e0e4736"));
    cr_assert_eq(trace_id_of(span_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7")).bytes, 0);
}
