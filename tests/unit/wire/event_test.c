/* Records as producers really send them, and as they should not. Table-driven: a value, and the reason it
 * gets. */
#include "wire/event.h"

#include "base/buffer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_MAX = 1024 * 1024, TEXT_MAX = 4 * RECORD_MAX };
static const int64_t now_us = 1774083600000000;

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

TestSuite(event, .init = begin, .fini = end);

static enum status parse_bytes(const char *value, size_t bytes)
{
    struct wire_record record = {.value = {value, bytes},
                                 .timestamp_us = now_us - 1000,
                                 .now_us = now_us,
                                 .partition = 3,
                                 .offset = 99,
                                 .bytes_max = RECORD_MAX};
    fault_reset(&fault);
    return event_parse(&record, &arena, &event, &fault);
}

static enum status parse(const char *value)
{
    return parse_bytes(value, strlen(value));
}

static void must_be(const char *value, size_t bytes, const char *code, const char *field)
{
    event.offset = -77;
    cr_assert_eq(parse_bytes(value, bytes), ST_REJECT, "%.300s", value);
    cr_assert_str_eq(fault.code, code, "%.300s: %s (%s)", value, fault.code, fault.text);
    cr_assert_str_eq(fault.field, field, "%.300s: %s", value, fault.field);
    cr_assert_neq(fault.text[0], '\0');
    cr_assert_eq(event.offset, -77, "written only on success");
}

/* The smallest good record, open at its end for more members. */
#define BASE                                                                                                 \
    "{\"run_id\":\"r1\",\"event_type\":\"meeting.assigned\",\"workspace_id\":\"w1\",\"recipient_user_id\":"  \
    "\"u1\","                                                                                                \
    "\"title\":\"Hello\""
#define WITH(members) BASE "," members "}"

Test(event, smallest_and_defaults)
{
    cr_assert_eq(parse(BASE "}"), ST_OK, "%s", fault.text);
    cr_assert(span_is(event.run_id, "r1"));
    cr_assert(span_is(event.event_type, "meeting.assigned"));
    cr_assert(span_is(event.workspace_id, "w1"));
    cr_assert(span_is(event.category, "general"));
    cr_assert(span_is(event.title, "Hello"));
    cr_assert(span_is(event.body, ""));
    cr_assert_not_null(event.body.at, "an empty text, not an absent one");
    cr_assert_null(event.data.at);
    cr_assert_eq(event.idempotency_key.bytes, 0);
    cr_assert_eq(event.push_choice, PUSH_DEFAULT);
    cr_assert_not(event.urgent);
    cr_assert_not(event.occurred_at.given || event.expires_at.given);
    cr_assert_eq(event.recipient_count, 1);
    cr_assert(span_is(event.recipients[0].user_id, "u1"));
    cr_assert(span_is(event.recipients[0].key, "notification:r1:meeting.assigned:u1"));
    cr_assert_eq(event.partition, 3);
    cr_assert_eq(event.offset, 99);
    cr_assert_eq(event.event_at_us, now_us - 1000);
}

Test(event, everything_given)
{
    cr_assert_eq(parse(" \t\r\n{ \"v\" : 1 , \"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\","
                       "\"recipients\":[\"b\",\"a\",\"b\",\"c\",\"a\"],\"category\":\"meetings\","
                       "\"title\":\"\\u00e9\\ud83d\\udd14\",\"body\":\"caf\xc3\xa9\","
                       "\"data\" : {\"n\": 0.1, \"big\":9007199254740993 } ,"
                       "\"idempotency_key\":\"k1\",\"occurred_at\":\"2026-03-21T09:00:00.1234567+01:00\","
                       "\"expires_at\":\"2026-03-22T00:00:00Z\","
                       "\"push\":{\"priority\":\"high\",\"ttl\":60 },\"unknown\":[{\"x\":null}]}\n"),
                 ST_OK, "%s", fault.text);
    cr_assert(span_is(event.title, "\xc3\xa9\xf0\x9f\x94\x94"));
    cr_assert(span_is(event.body, "caf\xc3\xa9"));
    cr_assert(span_is(event.data, "{\"n\": 0.1, \"big\":9007199254740993 }"), "the bytes that came");
    cr_assert(span_is(event.push, "{\"priority\":\"high\",\"ttl\":60 }"));
    cr_assert_eq(event.push_choice, PUSH_OPTIONS);
    cr_assert(event.urgent);
    cr_assert_eq(event.occurred_at.us, 1774080000123456);
    cr_assert_eq(event.expires_at.us, 1774137600000000);
    cr_assert_eq(event.recipient_count, 3);
    cr_assert(span_is(event.recipients[0].user_id, "b"));
    cr_assert(span_is(event.recipients[1].user_id, "a"));
    cr_assert(span_is(event.recipients[2].user_id, "c"));
    cr_assert(span_is(event.recipients[2].key,
                      "notification:~6ab9f1eb8f7d3388f4f9d586f66e99fd54080df2c446f0e58668b09c08a16dd0:t:c"));
}

/* ---- not JSON, not an object, NUL ---------------------------------------------------------------------- */

struct refused {
    const char *value, *code, *field;
};

static const struct refused not_json[] = {
    {"", "json", ""},
    {" ", "json", ""},
    {"this-is-not-json {{{", "json", ""}, /* ING-03 */
    {"{", "json", ""},
    {"{}x", "json", ""},
    {"{}{}", "json", ""},
    {"{\"a\":1,}", "json", ""},
    {"{'a':1}", "json", ""},
    {"{a:1}", "json", ""},
    {"{\"a\":01}", "json", ""},
    {"{\"a\":.5}", "json", ""},
    {"{\"a\":+1}", "json", ""},
    {"{\"a\":NaN}", "json", ""},
    {"{\"a\":Infinity}", "json", ""},
    {"{\"a\":True}", "json", ""},
    {"{\"a\":\"\t\"}", "json", ""}, /* a bare control */
    {"{\"a\":\"\\x41\"}", "json", ""},
    {"{\"a\":\"\\u12\"}", "json", ""},
    {"{\"a\":\"x}", "json", ""},
    {"{\"a\":1}//c", "json", ""},
    {"\xef\xbb\xbf" BASE "}", "json", ""},                    /* a byte-order mark */
    {"\xff\xfe{\x7d", "json", ""},                            /* UTF-16 */
    {WITH("\"x\":\"\xe9\""), "json", ""},                     /* Latin-1 */
    {WITH("\"x\":\"\xc0\x80\""), "json", ""},                 /* overlong NUL */
    {WITH("\"x\":\"\xed\xa0\xbd\xed\xb4\x94\""), "json", ""}, /* CESU-8 */
    {WITH("\"x\":\"\xf4\x90\x80\x80\""), "json", ""},         /* past U+10FFFF */
    {WITH("\"\xff\":1"), "json", ""},                         /* in a name */
    {WITH("\"x\":\"\\ud800\""), "json", ""},                  /* lone surrogates */
    {WITH("\"x\":\"\\udc00\""), "json", ""},
    {WITH("\"x\":\"\\ud83dz\""), "json", ""},
    {WITH("\"x\":\"\\udd14\\ud83d\""), "json", ""},
    {WITH("\"\\ud800\":1"), "json", ""},
    {WITH("\"data\":{\"x\":[\"\\ud800\"]}"), "json", ""},
    {WITH("\"x\":9223372036854775808"), "json", ""}, /* beyond 64 bits */
    {WITH("\"x\":-9223372036854775809"), "json", ""},
    {WITH("\"data\":{\"x\":123456789012345678901234567890}"), "json", ""},
    {WITH("\"data\":{\"x\":1e999}"), "json", ""},
    /* ING-10: doubled names, plain, escaped, nested, and of members nobody knows */
    {WITH("\"recipient_user_id\":\"u2\""), "json", ""},
    {WITH("\"recipient_\\u0075ser_id\":\"u2\""), "json", ""},
    {WITH("\"\\u0072\\u0065cipient_user_id\":\"u1\""), "json", ""},
    {WITH("\"data\":{\"a\":1,\"a\":1}"), "json", ""},
    {WITH("\"data\":{\"a\":1,\"\\u0061\":2}"), "json", ""},
    {WITH("\"data\":{\"x\":[{\"b\":1,\"b\":2}]}"), "json", ""},
    {WITH("\"data\":{},\"data\":{}"), "json", ""},
    {WITH("\"data\":{},\"d\\u0061ta\":{}"), "json", ""},
    {WITH("\"zz\":{\"q\":0,\"q\":0}"), "json", ""},
    {WITH("\"\":1,\"\":2"), "json", ""},
    {"null", "not_object", ""},
    {"true", "not_object", ""},
    {"42", "not_object", ""},
    {"\"{}\"", "not_object", ""}, /* JSON in a JSON string: a producer's doubled serializer */
    {"[]", "not_object", ""},
    {"[" BASE "}]", "not_object", ""},
    /* PER-01 */
    {WITH("\"body\":\"x\\u0000\""), "nul", ""},
    {WITH("\"x\":\"a\\u0000b\""), "nul", ""},
    {WITH("\"category\":\"\\u0000\""), "nul", ""},
    {WITH("\"data\":{\"x\":\"\\u0000\"}"), "nul", ""},
    {WITH("\"data\":{\"x\":[[\"\\u0000\"]]}"), "nul", ""},
    {WITH("\"data\":{\"a\\u0000\":1}"), "nul", ""},
    {WITH("\"a\\u0000\":1"), "nul", ""},
    {WITH("\"push\":{\"sound\":\"\\u0000\"}"), "nul", ""},
    {"{\"title\":\"a\\u0000b\"}", "nul", ""},
};

Test(event, not_json)
{
    for (size_t i = 0; i < sizeof not_json / sizeof not_json[0]; i++)
        must_be(not_json[i].value, strlen(not_json[i].value), not_json[i].code, not_json[i].field);
}

Test(event, bytes_with_nul)
{
    must_be("\0\0\0\0\x07{}", 7, "json", "");
    cr_assert_str_eq(fault.text, "schema-registry framing: use the plain JSON serializer");
    must_be("\0", 1, "json", "");
    must_be("{}\0", 3, "json", "");
    must_be("{\"a\":\"x\0y\"}", 11, "json", "");
    must_be("{\"a\0b\":1}", 9, "json", "");
}

Test(event, visible_escape_is_text)
{
    cr_assert_eq(parse(WITH("\"body\":\"\\\\u0000\",\"data\":{\"x\":\"\\\\u0000\"}")), ST_OK, "%s",
                 fault.text);
    cr_assert(span_is(event.body, "\\u0000"));
    cr_assert(span_is(event.data, "{\"x\":\"\\\\u0000\"}"));
}

Test(event, numbers_at_the_edge_are_kept)
{
    cr_assert_eq(parse(WITH("\"data\":{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":1e308,"
                            "\"d\":0.1000000000000000055511151231257827,\"e\":-0}")),
                 ST_OK, "%s", fault.text);
    cr_assert(span_is(event.data, "{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":1e308,"
                                  "\"d\":0.1000000000000000055511151231257827,\"e\":-0}"));
}

/* ---- members ------------------------------------------------------------------------------------------- */

static const struct refused bad_members[] = {
    {"{}", "field", "event_type"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\"}", "field",
     "title"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"title\":\"x\",\"recipient_user_id\":\"u\"}", "field",
     "workspace_id"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\"}", "field",
     "recipient_user_id"},
    {"{\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipient_user_id\":\"u\"}", "field",
     "run_id"},
    {"{\"run_id\":7,\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipient_user_id\":\"u\"}",
     "field", "run_id"},
    {"{\"run_id\":\"\",\"idempotency_key\":\"k\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\","
     "\"recipient_user_id\":\"u\"}",
     "field", "run_id"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipient_user_id\":"
     "\"\"}",
     "field", "recipient_user_id"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipient_user_id\":"
     "12}",
     "field", "recipient_user_id"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipients\":\"u\"}",
     "field", "recipients"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipients\":[]}",
     "field", "recipients"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipients\":[\"a\",1]"
     "}",
     "field", "recipients"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipients\":[\"a\","
     "\"\"]}",
     "field", "recipients"},
    {"{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipients\":[\"a\","
     "null]}",
     "field", "recipients"},
    {WITH("\"recipients\":[\"u1\"]"), "field", "recipients"}, /* one of the two */
    {WITH("\"v\":2"), "field", "v"},
    {WITH("\"v\":0"), "field", "v"},
    {WITH("\"v\":1.0"), "field", "v"},
    {WITH("\"v\":\"1\""), "field", "v"},
    {WITH("\"v\":true"), "field", "v"},
    {WITH("\"v\":null"), "field", "v"},
    {WITH("\"category\":\"\""), "field", "category"},
    {WITH("\"category\":null"), "field", "category"},
    {WITH("\"body\":null"), "field", "body"},
    {WITH("\"body\":5"), "field", "body"},
    {WITH("\"idempotency_key\":\"\""), "field", "idempotency_key"},
    {WITH("\"idempotency_key\":7"), "field", "idempotency_key"},
    {WITH("\"data\":[]"), "field", "data"},
    {WITH("\"data\":null"), "field", "data"},
    {WITH("\"data\":\"{}\""), "field", "data"},
    {WITH("\"occurred_at\":\"yesterday\""), "field", "occurred_at"},
    {WITH("\"occurred_at\":1774083600"), "field", "occurred_at"},
    {WITH("\"occurred_at\":\"2026-03-21T09:00:00\""), "field", "occurred_at"},
    {WITH("\"expires_at\":\"2026-02-30T09:00:00Z\""), "field", "expires_at"},
    {WITH("\"expires_at\":\"\""), "field", "expires_at"},
    {WITH("\"push\":true"), "field", "push"},
    {WITH("\"push\":null"), "field", "push"},
    {WITH("\"push\":\"off\""), "field", "push"},
    {WITH("\"push\":[]"), "field", "push"},
    {WITH("\"push\":{\"ttl\":-1}"), "field", "push.ttl"},
    {WITH("\"push\":{\"ttl\":1.5}"), "field", "push.ttl"},
    {WITH("\"push\":{\"ttl\":\"60\"}"), "field", "push.ttl"},
    {WITH("\"push\":{\"ttl\":2147483648}"), "field", "push.ttl"},
    {WITH("\"push\":{\"priority\":\"urgent\"}"), "field", "push.priority"},
    {WITH("\"push\":{\"priority\":\"High\"}"), "field", "push.priority"},
    {WITH("\"push\":{\"priority\":1}"), "field", "push.priority"},
    {WITH("\"push\":{\"priority\":null}"), "field", "push.priority"},
    {WITH("\"push\":{\"sound\":true}"), "field", "push.sound"},
    {WITH("\"push\":{\"sound\":\"\"}"), "field", "push.sound"},
    {WITH("\"push\":{\"badge\":-1}"), "field", "push.badge"},
    {WITH("\"push\":{\"badge\":\"1\"}"), "field", "push.badge"},
    {WITH("\"push\":{\"channel_id\":\"\"}"), "field", "push.channel_id"},
    {WITH("\"push\":{\"subtitle\":1}"), "field", "push.subtitle"},
    {WITH("\"push\":{\"interruption_level\":\"loud\"}"), "field", "push.interruption_level"},
    {WITH("\"push\":{\"mutable_content\":1}"), "field", "push.mutable_content"},
    {WITH("\"push\":{\"mutable_content\":\"true\"}"), "field", "push.mutable_content"},
    {WITH("\"push\":{\"collapse_id\":\"\"}"), "field", "push.collapse_id"},
    {WITH("\"push\":{\"collapse_id\":\"12345678901234567890123456789012345678901234567890123456789012345\"}"),
     "field", "push.collapse_id"},
    {WITH("\"push\":{\"tag\":{}}"), "field", "push.tag"},
};

Test(event, bad_members)
{
    for (size_t i = 0; i < sizeof bad_members / sizeof bad_members[0]; i++)
        must_be(bad_members[i].value, strlen(bad_members[i].value), bad_members[i].code,
                bad_members[i].field);
}

static const struct {
    const char *value;
    enum push_choice choice;
    bool urgent;
} good_pushes[] = {
    {WITH("\"push\":false"), PUSH_OFF, false},
    {WITH("\"push\":{}"), PUSH_OPTIONS, false},
    {WITH("\"push\":{\"priority\":\"high\"}"), PUSH_OPTIONS, true},
    {WITH("\"push\":{\"prior\\u0069ty\":\"hi\\u0067h\"}"), PUSH_OPTIONS, true},
    {WITH("\"push\":{\"priority\":\"normal\"}"), PUSH_OPTIONS, false},
    {WITH("\"push\":{\"priority\":\"default\",\"ttl\":0,\"badge\":0,\"mutable_content\":false}"),
     PUSH_OPTIONS, false},
    {WITH(
         "\"push\":{\"ttl\":2147483647,\"sound\":\"default\",\"badge\":2147483647,\"channel_id\":\"c\","
         "\"subtitle\":\"\",\"interruption_level\":\"time-sensitive\",\"mutable_content\":true,"
         "\"collapse_id\":\"1234567890123456789012345678901234567890123456789012345678901234\",\"tag\":\"t\","
         "\"unknown\":null}"),
     PUSH_OPTIONS, false},
    {WITH("\"push\":{\"interruption_level\":\"active\"}"), PUSH_OPTIONS, false},
    {WITH("\"push\":{\"interruption_level\":\"critical\"}"), PUSH_OPTIONS, false},
    {WITH("\"push\":{\"interruption_level\":\"passive\"}"), PUSH_OPTIONS, false},
};

Test(event, good_pushes)
{
    for (size_t i = 0; i < sizeof good_pushes / sizeof good_pushes[0]; i++) {
        cr_assert_eq(parse(good_pushes[i].value), ST_OK, "%s: %s", good_pushes[i].value, fault.text);
        cr_assert_eq(event.push_choice, good_pushes[i].choice);
        cr_assert_eq(event.urgent, good_pushes[i].urgent);
        cr_assert_eq(event.push.bytes > 0, event.push_choice == PUSH_OPTIONS);
    }
}

/* Each text at its least and most, one more, and with characters of several bytes across the border. */
static const struct {
    const char *name;
    size_t least, most;
} sizes[] = {
    {"run_id", 1, 200}, {"event_type", 1, 200}, {"workspace_id", 1, 200},    {"category", 1, 100},
    {"title", 1, 500},  {"body", 0, 4000},      {"idempotency_key", 1, 500}, {"recipient_user_id", 1, 200}};

static char *with_member(const char *name, const char *fill, size_t times)
{
    static const char *const base[][2] = {{"run_id", "r"},
                                          {"event_type", "t"},
                                          {"workspace_id", "w"},
                                          {"recipient_user_id", "u"},
                                          {"title", "x"}};
    struct buffer text;
    buffer_init(&text, RECORD_MAX);
    buffer_add_text(&text, "{");
    for (size_t i = 0; i < 5; i++) {
        if (strcmp(base[i][0], name) != 0)
            buffer_printf(&text, "\"%s\":\"%s\",", base[i][0], base[i][1]);
    }
    buffer_printf(&text, "\"%s\":\"", name);
    for (size_t i = 0; i < times; i++)
        buffer_add_text(&text, fill);
    buffer_add_text(&text, "\"}");
    return text.at;
}

Test(event, sizes_are_bytes_of_utf8)
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *value = with_member(sizes[i].name, "a", sizes[i].most);
        cr_assert_eq(parse(value), ST_OK, "%s: %s", sizes[i].name, fault.text);
        free(value);
        value = with_member(sizes[i].name, "a", sizes[i].most + 1);
        must_be(value, strlen(value), "field", sizes[i].name);
        free(value);
        value = with_member(sizes[i].name, "", 0);
        if (sizes[i].least == 0)
            cr_assert_eq(parse(value), ST_OK);
        else
            must_be(value, strlen(value), "field", sizes[i].name);
        free(value);
        value = with_member(sizes[i].name, "\xe2\x82\xac", sizes[i].most / 3 + 1);
        must_be(value, strlen(value), "field", sizes[i].name);
        free(value);
        /* Six bytes of JSON, one of text. */
        value = with_member(sizes[i].name, "\\u0041", sizes[i].most);
        cr_assert_eq(parse(value), ST_OK, "%s: %s", sizes[i].name, fault.text);
        free(value);
        arena_reset(&arena);
    }
}

/* ---- data ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *value, *data;
} cuts[] = {
    {WITH("\"data\":{}"), "{}"},
    {WITH("\"data\":  { }  "), "{ }"},
    {WITH("\"data\"\n:\t{\"a\":\n1}\r\n , \"z\":1"), "{\"a\":\n1}"},
    {WITH("\"d\\u0061ta\":{\"x\":1}"), "{\"x\":1}"},
    {WITH("\"\\u0064\\u0061\\u0074\\u0061\":{\"x\":1}"), "{\"x\":1}"},
    {WITH("\"x\":{\"data\":{\"no\":1}},\"data\":{\"yes\":1}"), "{\"yes\":1}"},
    {WITH("\"data\":{\"data\":{\"data\":[]}},\"x\":{\"data\":2}"), "{\"data\":{\"data\":[]}}"},
    {WITH("\"data\":{\"a\":\"}],\\\"{[:,\"}"), "{\"a\":\"}],\\\"{[:,\"}"},
    {WITH("\"data\":{\"a\\\\\":\"\\\\\"}"), "{\"a\\\\\":\"\\\\\"}"},
    {WITH("\"x\":\"\\\"data\\\":{}\",\"data\":{\"k\":[1,{\"b\":2}]}"), "{\"k\":[1,{\"b\":2}]}"},
    {WITH("\"data\\u0020\":{\"no\":1},\"Data\":{\"no\":2},\"dat\":3,\"data\":{\"y\":1}"), "{\"y\":1}"},
    {WITH("\"data\":{\"n\":1.10, \"e\":1E+2, \"u\":\"\\u00e9\xc3\xa9\"}"),
     "{\"n\":1.10, \"e\":1E+2, \"u\":\"\\u00e9\xc3\xa9\"}"},
};

Test(event, data_is_the_bytes_that_came)
{
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        cr_assert_eq(parse(cuts[i].value), ST_OK, "%s: %s", cuts[i].value, fault.text);
        cr_assert(span_is(event.data, cuts[i].data), "%s: %.*s", cuts[i].value, (int)event.data.bytes,
                  event.data.at);
    }
}

static void nested(struct buffer *text, const char *name, int depth)
{
    buffer_reset(text);
    buffer_add_text(text, BASE ",\"");
    buffer_add_text(text, name);
    buffer_add_text(text, "\":");
    for (int i = 1; i < depth; i++)
        buffer_add_text(text, i % 2 == 0 ? "[" : "{\"a\":");
    buffer_add_text(text, depth % 2 == 0 ? "[]" : "{}");
    for (int i = depth - 1; i >= 1; i--)
        buffer_add_text(text, i % 2 == 0 ? "]" : "}");
    buffer_add_text(text, "}");
}

Test(event, depth)
{
    struct buffer text;
    buffer_init(&text, TEXT_MAX);
    nested(&text, "data", EVENT_DEPTH_MAX);
    cr_assert_eq(parse(text.at), ST_OK, "%s", fault.text);
    nested(&text, "data", EVENT_DEPTH_MAX + 1);
    must_be(text.at, text.bytes, "too_big", "data");
    cr_assert_not_null(strstr(fault.text, "34 deep, at most 33"), "%s", fault.text);
    nested(&text, "d\\u0061ta", 100000);
    must_be(text.at, text.bytes, "too_big", "data");
    nested(&text, "other", EVENT_DEPTH_MAX);
    cr_assert_eq(parse(text.at), ST_OK);
    nested(&text, "other", EVENT_DEPTH_MAX + 1);
    must_be(text.at, text.bytes, "too_big", "");
    /* Nothing recurses over what is not even JSON. */
    buffer_reset(&text);
    for (int i = 0; i < RECORD_MAX; i++)
        buffer_add_text(&text, "[");
    must_be(text.at, text.bytes, "too_big", "");
    /* Brackets in strings are not depth. */
    buffer_reset(&text);
    buffer_add_text(&text, BASE ",\"body\":\"");
    for (int i = 0; i < 1000; i++)
        buffer_add_text(&text, "[{\\\"");
    buffer_add_text(&text, "\"}");
    cr_assert_eq(parse(text.at), ST_OK, "%s", fault.text);
    buffer_done(&text);
}

Test(event, too_big)
{
    struct buffer text;
    buffer_init(&text, TEXT_MAX);
    /* data: 16 KiB to the byte, and one more */
    for (int more = 0; more < 2; more++) {
        buffer_reset(&text);
        buffer_add_text(&text, BASE ",\"data\":{\"x\":\"");
        for (int i = 0; i < EVENT_DATA_MAX - 8 + more; i++)
            buffer_add_byte(&text, 'a');
        buffer_add_text(&text, "\"}}");
        if (more == 0)
            cr_assert_eq(parse(text.at), ST_OK, "%s", fault.text);
        else
            must_be(text.at, text.bytes, "too_big", "data");
    }
    cr_assert_str_eq(fault.text, "data has 16385 bytes, at most 16384 are taken");
    /* the record: record_max_bytes to the byte, and one more */
    for (int more = 0; more < 2; more++) {
        buffer_reset(&text);
        buffer_add_text(&text, BASE "}");
        while (text.bytes < RECORD_MAX + (size_t)more)
            buffer_add_byte(&text, ' ');
        if (more == 0)
            cr_assert_eq(parse(text.at), ST_OK, "%s", fault.text);
        else
            must_be(text.at, text.bytes, "too_big", "");
    }
    cr_assert_str_eq(fault.text, "the value has 1048577 bytes, at most 1048576 are taken");
    buffer_done(&text);
}

/* ---- recipients ---------------------------------------------------------------------------------------- */

static void many(struct buffer *text, int count, int distinct, size_t body_bytes)
{
    buffer_reset(text);
    buffer_add_text(
        text, "{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\",\"body\":\"");
    for (size_t i = 0; i < body_bytes; i++)
        buffer_add_byte(text, 'b');
    buffer_add_text(text, "\",\"recipients\":[");
    for (int i = 0; i < count; i++)
        buffer_printf(text, "%s\"u%d\"", i == 0 ? "" : ",", i % distinct);
    buffer_add_text(text, "]}");
}

Test(event, many_recipients)
{
    struct buffer text;
    buffer_init(&text, RECORD_MAX);
    many(&text, EVENT_RECIPIENTS_MAX, EVENT_RECIPIENTS_MAX, 0);
    cr_assert_eq(parse(text.at), ST_OK, "%s", fault.text);
    cr_assert_eq(event.recipient_count, EVENT_RECIPIENTS_MAX);
    for (uint32_t i = 0; i < event.recipient_count; i++) {
        char name[16], key[48];
        snprintf(name, sizeof name, "u%u", i);
        snprintf(key, sizeof key, "notification:r:t:u%u", i);
        cr_assert(span_is(event.recipients[i].user_id, name), "in the order given");
        cr_assert(span_is(event.recipients[i].key, key));
    }
    many(&text, EVENT_RECIPIENTS_MAX, 1, 0);
    cr_assert_eq(parse(text.at), ST_OK);
    cr_assert_eq(event.recipient_count, 1);
    many(&text, EVENT_RECIPIENTS_MAX, 777, 0);
    cr_assert_eq(parse(text.at), ST_OK);
    cr_assert_eq(event.recipient_count, 777);
    cr_assert(span_is(event.recipients[776].user_id, "u776"));
    many(&text, EVENT_RECIPIENTS_MAX + 1, 5, 0);
    must_be(text.at, text.bytes, "field", "recipients");
    /* 10,000 * (1 + 3354) is just under 32 MiB, one byte more a row just over; repeated ones do not count. */
    many(&text, EVENT_RECIPIENTS_MAX, EVENT_RECIPIENTS_MAX, 3354);
    arena_reset(&arena);
    cr_assert_eq(parse(text.at), ST_OK, "%s", fault.text);
    many(&text, EVENT_RECIPIENTS_MAX, EVENT_RECIPIENTS_MAX, 3355);
    must_be(text.at, text.bytes, "too_big", "recipients");
    many(&text, EVENT_RECIPIENTS_MAX, 100, 4000);
    cr_assert_eq(parse(text.at), ST_OK, "%s", fault.text);
    buffer_done(&text);
}

/* The dearest record there can be fits into the arena it is promised. */
Test(event, worst_case_fits_the_arena)
{
    struct buffer text;
    buffer_init(&text, TEXT_MAX);
    buffer_add_text(&text, "{\"run_id\":\"");
    for (int i = 0; i < EVENT_ID_MAX; i++)
        buffer_add_byte(&text, ':');
    buffer_add_text(&text, "\",\"event_type\":\"");
    for (int i = 0; i < EVENT_ID_MAX; i++)
        buffer_add_byte(&text, '%');
    buffer_add_text(&text, "\",\"workspace_id\":\"w\",\"title\":\"x\",\"recipients\":[");
    for (int i = 0; i < EVENT_RECIPIENTS_MAX; i++) {
        buffer_add_text(&text, i == 0 ? "\"" : ",\"");
        for (int k = 0; k < EVENT_ID_MAX - 5; k++)
            buffer_add_byte(&text, ':');
        buffer_printf(&text, "%05d\"", i);
    }
    buffer_add_text(&text, "]}");
    struct wire_record record = {.value = buffer_span(&text), .timestamp_us = 0, .bytes_max = TEXT_MAX};
    cr_assert_eq(event_parse(&record, &arena, &event, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(event.recipients[9999].key.bytes, 13 + 600 + 1 + 600 + 1 + 3 * 195 + 5);
    cr_assert_eq(event.recipients[9999].user_id.bytes, 200);
    buffer_done(&text);
}

Test(event, full_arena_is_retry_and_a_reset_helps)
{
    struct arena small;
    arena_init(&small, 1 << 16);
    struct wire_record record = {
        .value = span_of(BASE "}"), .timestamp_us = -1, .now_us = now_us, .bytes_max = 1000};
    enum status status = ST_OK;
    int parsed = 0;
    while ((status = event_parse(&record, &small, &event, &fault)) == ST_OK)
        parsed++;
    cr_assert_eq(status, ST_RETRY);
    cr_assert_str_eq(fault.code, "arena");
    cr_assert_gt(parsed, 10);
    arena_reset(&small);
    cr_assert_eq(event_parse(&record, &small, &event, &fault), ST_OK);
    cr_assert_eq(event.event_at_us, now_us, "no timestamp: now");
    arena_done(&small);
}

/* ---- keys: CLM-04 -------------------------------------------------------------------------------------- */

static const struct {
    const char *value, *key;
} keys[] = {
    {"{\"run_id\":\"a:b\",\"event_type\":\"c\"", "notification:a%3Ab:c:u"},
    {"{\"run_id\":\"a\",\"event_type\":\"b:c\"", "notification:a:b%3Ac:u"},
    {"{\"run_id\":\"a%3Ab\",\"event_type\":\"c\"", "notification:a%253Ab:c:u"},
    {"{\"run_id\":\"~a~\",\"event_type\":\"~c\"", "notification:%7Ea~:%7Ec:u"},
    {"{\"run_id\":\" A \",\"event_type\":\"\xc3\x89\"",
     "notification: A :\xc3\x89:u"}, /* no folding, no trimming */
    {"{\"idempotency_key\":\"abc\",\"event_type\":\"c\"",
     "notification:~ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad:c:u"},
    {"{\"idempotency_key\":\"abc\",\"run_id\":\"other\",\"event_type\":\"c\"",
     "notification:~ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad:c:u"},
    {"{\"run_id\":\"~ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\"event_type\":\"c\"",
     "notification:%7Eba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad:c:u"},
};

Test(event, keys)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char value[400];
        snprintf(value, sizeof value,
                 "%s,\"workspace_id\":\"w\",\"title\":\"x\",\"recipient_user_id\":\"u\"}", keys[i].value);
        cr_assert_eq(parse(value), ST_OK, "%s: %s", value, fault.text);
        cr_assert(span_is(event.recipients[0].key, keys[i].key), "%.*s", (int)event.recipients[0].key.bytes,
                  event.recipients[0].key.at);
    }
    cr_assert_eq(parse("{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"x\","
                       "\"recipients\":[\"a:b\",\"~\",\"%\",\"a%3Ab\",\"x~:\"]}"),
                 ST_OK);
    static const char *const users[][2] = {
        {"a:b", "a%3Ab"}, {"~", "%7E"}, {"%", "%25"}, {"a%3Ab", "a%253Ab"}, {"x~:", "x~%3A"}};
    for (size_t i = 0; i < 5; i++) {
        char key[64];
        snprintf(key, sizeof key, "notification:r:t:%s", users[i][1]);
        cr_assert(span_is(event.recipients[i].user_id, users[i][0]));
        cr_assert(span_is(event.recipients[i].key, key));
    }
}

/* All triples over a small hostile alphabet: no two give one key. */
Test(event, no_two_triples_share_a_key)
{
    static const char *const parts[] = {"a", ":", "%", "~", "a:", ":a", "~a", "a~", "%3A", "::", "%7E", "~:"};
    enum { N = sizeof parts / sizeof parts[0], ALL = N * N * N };
    char(*seen)[64] = calloc(ALL, sizeof *seen);
    int count = 0;
    for (size_t i = 0; i < ALL; i++) {
        char value[300];
        snprintf(value, sizeof value,
                 "{\"run_id\":\"%s\",\"event_type\":\"%s\",\"workspace_id\":\"w\",\"title\":\"x\","
                 "\"recipient_user_id\":\"%s\"}",
                 parts[i % N], parts[i / N % N], parts[i / N / N]);
        cr_assert_eq(parse(value), ST_OK, "%s", fault.text);
        snprintf(seen[count++], 64, "%.*s", (int)event.recipients[0].key.bytes, event.recipients[0].key.at);
        arena_reset(&arena);
    }
    qsort(seen, ALL, sizeof *seen, (int (*)(const void *, const void *))strcmp);
    for (int i = 1; i < ALL; i++)
        cr_assert_str_neq(seen[i], seen[i - 1]);
    free(seen);
}

/* ---- hash, times, trace -------------------------------------------------------------------------------- */

static int64_t hash_of(const char *value)
{
    cr_assert_eq(parse(value), ST_OK, "%s: %s", value, fault.text);
    return event.content_hash;
}

Test(event, content_hash)
{
    int64_t base = hash_of(WITH("\"body\":\"b\",\"data\":{\"a\":1}"));
    cr_assert_eq(base, hash_of(WITH("\"data\":{\"a\":1},\"body\":\"\\u0062\",\"z\":3")),
                 "order and spelling do not");
    cr_assert_eq(base, hash_of(WITH("\"body\":\"b\",\"data\":{\"a\":1},\"push\":false")),
                 "nor does the push");
    static const char *const others[] = {
        WITH("\"body\":\"c\",\"data\":{\"a\":1}"),
        WITH("\"body\":\"b\",\"data\":{\"a\":2}"),
        WITH("\"body\":\"b\",\"data\":{\"a\": 1}"),
        WITH("\"body\":\"b\""),
        WITH("\"body\":\"b{\\\"a\\\":1}\""),
        WITH("\"body\":\"b\",\"data\":{\"a\":1},\"category\":\"c\""),
        WITH("\"body\":\"b\",\"data\":{\"a\":1},\"occurred_at\":\"1970-01-01T00:00:00Z\""),
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_assert_neq(base, hash_of(others[i]), "%s", others[i]);
}

Test(event, event_at)
{
    static const struct {
        int64_t stamp, expected;
    } rows[] = {{-1, 0}, {INT64_MIN, 0}, {0, 1}, {1774083600000000, 1774083600000000}};
    for (size_t i = 0; i < 4; i++) {
        struct wire_record record = {
            .value = span_of(BASE "}"), .timestamp_us = rows[i].stamp, .now_us = now_us, .bytes_max = 1000};
        cr_assert_eq(event_parse(&record, &arena, &event, &fault), ST_OK);
        cr_assert_eq(event.event_at_us, rows[i].stamp < 0 ? now_us : rows[i].stamp);
    }
    struct wire_record ahead = {
        .value = span_of(BASE "}"), .timestamp_us = now_us + 1, .now_us = now_us, .bytes_max = 1000};
    cr_assert_eq(event_parse(&ahead, &arena, &event, &fault), ST_OK);
    cr_assert_eq(event.event_at_us, now_us, "the future is now");
    /* Milliseconds are whatever 64 bits a producer set: none of them may wrap round into the past. */
    static const int64_t stamps_ms[] = {INT64_MAX, INT64_MAX / 1000 + 1, INT64_MAX / 1000, INT64_MIN, -1};
    for (size_t i = 0; i < sizeof stamps_ms / sizeof stamps_ms[0]; i++) {
        ahead.timestamp_us = wire_record_time_us(stamps_ms[i]);
        cr_assert_eq(event_parse(&ahead, &arena, &event, &fault), ST_OK);
        cr_assert_eq(event.event_at_us, now_us);
    }
    cr_assert_eq(wire_record_time_us(1774083600123), 1774083600123000);
}

Test(event, traceparent)
{
    static const struct {
        const char *header;
        bool kept;
    } rows[] = {
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", true},
        {"", false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false},
        {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false},
        {"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e47\xff\xff-00f067aa0ba902b7-01", false},
        {"00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire_record record = {.value = span_of(BASE "}"),
                                     .traceparent = span_of(rows[i].header),
                                     .now_us = now_us,
                                     .bytes_max = 1000};
        cr_assert_eq(event_parse(&record, &arena, &event, &fault), ST_OK);
        cr_assert_eq(event.traceparent.bytes > 0, rows[i].kept, "%s", rows[i].header);
    }
}

/* ---- whatever comes ------------------------------------------------------------------------------------ */

/* Every cut and many changed bytes of a rich record: a status, a known reason, and no content in the fault.
 */
Test(event, mutations_never_surprise)
{
    static const char rich[] =
        WITH("\"body\":\"SECRETBODY\",\"data\":{\"a\":[1,2.5,true,null,\"SECRETDATA\"]},"
             "\"recipients_\":[],\"occurred_at\":\"2026-03-21T09:00:00Z\","
             "\"push\":{\"priority\":\"high\"},\"e\":\"\\ud83d\\udd14\\n\"");
    char value[sizeof rich];
    uint64_t state = 42;
    int ok = 0;
    for (size_t i = 0; i < 60000; i++) {
        size_t bytes = i < sizeof rich ? i : sizeof rich - 1;
        memcpy(value, rich, sizeof rich);
        for (int k = 0; i >= sizeof rich && k < 1 + (int)(i % 3); k++) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            static const char bites[] = "\"\\{}[],:\0u0\x80\xff 9";
            char random = (char)(unsigned char)(state >> 12);
            char to = bites[(state >> 20) % (sizeof bites - 1)];
            if ((state & 64) == 0)
                to = random;
            value[(state >> 33) % bytes] = to;
        }
        enum status status = parse_bytes(value, bytes);
        ok += status == ST_OK;
        if (status != ST_OK) {
            cr_assert_eq(status, ST_REJECT);
            cr_assert(strcmp(fault.code, "json") == 0 || strcmp(fault.code, "nul") == 0 ||
                      strcmp(fault.code, "field") == 0 || strcmp(fault.code, "not_object") == 0);
            cr_assert_null(strstr(fault.text, "SECRET"));
        }
        arena_reset(&arena);
    }
    cr_assert_gt(ok, 1000);
}

Test(event, check_line)
{
    cr_assert_eq(event_check_line(span_of(BASE "}"), RECORD_MAX, &arena, &fault), ST_OK);
    cr_assert_eq(event_check_line(span_of("{}"), RECORD_MAX, &arena, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, "field");
    cr_assert_str_eq(fault.field, "event_type");
    cr_assert_eq(event_check_line(span_of(BASE "}"), 10, &arena, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, "too_big");
}
