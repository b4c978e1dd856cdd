/* The provider's JSON: what a message looks like, how it meets the payload limit, and what replies say. */
#include "wire/provider.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static struct provider_message message_of(const char *title, const char *body, const char *data)
{
    struct provider_message message = {.token = span_of("ExponentPushToken[a]"),
                                       .title = span_of(title),
                                       .body = span_of(body),
                                       .data = span_of(data)};
    cr_assert(uuid_parse(span_of("01890a5d-ac96-774b-bcce-b302099a8057"), &message.notification_id));
    return message;
}

static char *encode(const struct provider_message *messages, size_t count, size_t payload_max)
{
    struct buffer out;
    buffer_init(&out, 1 << 20);
    provider_encode_messages(messages, count, payload_max, &out);
    cr_assert(!out.failed);
    return out.at;
}

/* Bytes of title + body + data as JSON text, measured by another program than the encoder. */
static size_t payload_of(const char *text, size_t index)
{
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(root, "%s", text);
    size_t bytes = 0;
    static const char *const parts[] = {"title", "body", "data"};
    for (size_t i = 0; i < 3; i++)
        bytes += json_dumpb(json_object_get(json_array_get(root, index), parts[i]), NULL, 0,
                            JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(root);
    return bytes;
}

#define ID "01890a5d-ac96-774b-bcce-b302099a8057"

Test(wire_provider, messages_are_an_array_with_notification_id_always)
{
    struct provider_message messages[2] = {message_of("T\"\n", "B\xc3\xa9", NULL),
                                           message_of("t", "", "{ \"a\" : 0.1 , \"b\":{\"x\":\"}\"} }")};
    messages[1].urgent = true;
    messages[1].expires_at = (struct instant){.given = true, .us = 1700000000500000};
    char *text = encode(messages, 2, 4096);
    cr_expect_str_eq(text, "[{\"to\":\"ExponentPushToken[a]\",\"title\":\"T\\\"\\n\",\"body\":\"B\xc3\xa9\","
                           "\"data\":{\"notification_id\":\"" ID "\"}},"
                           "{\"to\":\"ExponentPushToken[a]\",\"title\":\"t\",\"body\":\"\","
                           "\"data\":{\"notification_id\":\"" ID "\",\"a\" : 0.1 ,\"b\":{\"x\":\"}\"} },"
                           "\"expiration\":1700000001,\"priority\":\"high\"}]");
    free(text);
}

Test(wire_provider, a_notification_id_of_the_producer_gives_way)
{
    static const char *const data[] = {
        "{\"notification_id\":\"x\"}",
        "{\"a\":[1,{\"notification_id\":2}],\"notification_id\":{\"k\":\"}\"},\"z\":1}",
        "{\"notification\\u005fid\":1,\"a\":[1,{\"notification_id\":2}],\"z\":1}",
        "{}",
        "{ }",
        "{\"notification_id2\":1,\"q\\\"\":\"a\\\\\"}"};
    static const char *const rest[] = {
        "", ",\"a\":[1,{\"notification_id\":2}],\"z\":1", ",\"a\":[1,{\"notification_id\":2}],\"z\":1", "",
        "", ",\"notification_id2\":1,\"q\\\"\":\"a\\\\\""};
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++) {
        struct provider_message message = message_of("t", "b", data[i]);
        char *text = encode(&message, 1, 4096), want[300];
        snprintf(want, sizeof want, "\"data\":{\"notification_id\":\"" ID "\"%s}}]", rest[i]);
        cr_expect_not_null(strstr(text, want), "%s\n%s", text, want);
        (void)payload_of(text, 0); /* no member comes twice */
        free(text);
    }
}

static void check_body_cut(const char *unit, size_t count)
{
    static char body[20000];
    size_t unit_bytes = strlen(unit);
    for (size_t i = 0; i < count; i++)
        memcpy(body + i * unit_bytes, unit, unit_bytes);
    body[count * unit_bytes] = '\0';
    struct provider_message message = message_of("title", body, "{\"k\":1}");
    cr_expect_eq(provider_message_fit(&message, 4096), PROVIDER_FIT_SHORTENED);
    char *text = encode(&message, 1, 4096);
    size_t payload = payload_of(text, 0);
    cr_expect_leq(payload, 4096);
    cr_expect_gt(payload, 4096 - 8, "no more is cut than needed: %zu", payload);
    json_t *root = json_loads(text, 0, NULL); /* fails on bytes that are not UTF-8 */
    cr_assert_not_null(root);
    const char *cut = json_string_value(json_object_get(json_array_get(root, 0), "body"));
    size_t bytes = strlen(cut);
    cr_expect_str_eq(cut + bytes - 3, "\xe2\x80\xa6");
    cr_expect_eq((bytes - 3) % unit_bytes, 0);
    cr_expect_eq(memcmp(cut, body, bytes - 3), 0);
    json_decref(root);
    free(text);
}

Test(wire_provider, a_long_body_is_cut_between_characters)
{
    check_body_cut("x", 5000);
    check_body_cut("\xc3\xa9", 3000);
    check_body_cut("\xe2\x82\xac", 2000);
    check_body_cut("\xf0\x9f\x98\x80", 1500);
    check_body_cut("\n", 4000);
    check_body_cut("\x01", 4000);
}

Test(wire_provider, the_limit_is_met_to_the_byte)
{
    static char body[4001];
    for (size_t bytes = 3990; bytes <= 4000; bytes++) {
        memset(body, 'b', bytes);
        body[bytes] = '\0';
        struct provider_message message = message_of("title", body, NULL);
        size_t whole = 7 + 2 + bytes + sizeof "{\"notification_id\":\"" ID "\"}" - 1;
        for (size_t limit = whole - 2; limit <= whole + 1; limit++) {
            enum provider_fit want = limit >= whole ? PROVIDER_FIT_WHOLE : PROVIDER_FIT_SHORTENED;
            cr_expect_eq(provider_message_fit(&message, limit), want, "%zu in %zu", whole, limit);
            char *text = encode(&message, 1, limit);
            cr_expect_leq(payload_of(text, 0), limit);
            free(text);
        }
    }
}

Test(wire_provider, data_goes_when_it_alone_is_too_big_then_the_message)
{
    static char filler[6000], data[6100];
    memset(filler, 'd', sizeof filler - 1);
    snprintf(data, sizeof data, "{\"k\":\"%s\"}", filler);
    struct provider_message message = message_of("title", "body", data);
    cr_expect_eq(provider_message_fit(&message, 4096), PROVIDER_FIT_NO_DATA);
    char *text = encode(&message, 1, 4096);
    cr_expect_null(strstr(text, "\"k\""));
    cr_expect_not_null(strstr(text, "\"body\":\"body\",\"data\":{\"notification_id\":\"" ID "\"}"));
    free(text);
    cr_expect_eq(provider_message_fit(&message, 80), PROVIDER_FIT_NO_DATA);
    text = encode(&message, 1, 80);
    cr_expect_leq(payload_of(text, 0), 80);
    free(text);
    cr_expect_eq(provider_message_fit(&message, 60), PROVIDER_FIT_TOO_BIG);
}

Test(wire_provider, receipts_are_asked_by_id)
{
    struct buffer out;
    buffer_init(&out, 1000);
    struct span tickets[2] = {span_of("r1"), span_of("r\"2")};
    provider_encode_receipts(tickets, 2, &out);
    cr_expect_str_eq(out.at, "{\"ids\":[\"r1\",\"r\\\"2\"]}");
    buffer_done(&out);
}

static struct provider_body body_of(const char *text)
{
    struct provider_body body;
    struct provider_reply *reply = provider_reply_parse(span_of(text), &body);
    cr_assert_not_null(reply);
    provider_reply_free(reply);
    return body;
}

Test(wire_provider, bodies_are_told_apart)
{
    static const char *const garbage[] = {
        "",    "<html>", "{\"data\":[",       "[]",   "\"x\"",
        "nul", "null",   "{\"a\":1,\"a\":2}", "\xff", "{\"a\":\"\\u0000\"}"};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++)
        cr_expect_not(body_of(garbage[i]).json, "%s", garbage[i]);
    struct provider_body body =
        body_of("{\"errors\":[{\"code\":\"VALIDATION_ERROR\",\"isTransient\":true}]}");
    cr_expect(body.json && body.errors && body.transient_given && body.transient);
    cr_expect_str_eq(body.code, "VALIDATION_ERROR");
    cr_expect_eq(body.data, PROVIDER_DATA_NONE);
    cr_expect_not(body_of("{\"errors\":[]}").errors);
    cr_expect_not(body_of("{\"errors\":[1]}").errors);
    cr_expect_not(body_of("{\"errors\":{}}").errors);
    body = body_of("{\"error\":\"invalid_token\",\"error_description\":\"x\"}");
    cr_expect(body.oauth && !body.errors);
    cr_expect_eq(body_of("{\"data\":null}").data, PROVIDER_DATA_NONE);
    cr_expect_eq(body_of("{\"data\":{}}").data, PROVIDER_DATA_OBJECT);
    cr_expect_eq(body_of("{\"data\":5}").data, PROVIDER_DATA_OTHER);
    body = body_of("{\"data\":[1,2]}");
    cr_expect_eq(body.data, PROVIDER_DATA_ARRAY);
    cr_expect_eq(body.data_count, 2);
    body = body_of("{\"errors\":[{\"code\":\"ExponentPushToken[secret]\"}]}");
    cr_expect_str_eq(body.code, "", "a code is a word, or nothing");
}

Test(wire_provider, tickets_by_index)
{
    struct provider_reply *reply = provider_reply_parse(
        span_of("{\"data\":[{\"status\":\"ok\",\"id\":\"t1\"},{\"status\":\"ok\"},"
                "{\"status\":\"error\",\"id\":\"t3\",\"message\":\"m\",\"details\":{\"error\":"
                "\"DeviceNotRegistered\","
                "\"expoPushToken\":\"ExponentPushToken[a b]\"}},{\"status\":\"error\",\"message\":\"m\"},"
                "\"text\",null,{\"status\":\"maybe\"},{\"status\":\"ok\",\"id\":\"line\\nbreak\"}]}"),
        NULL);
    static const struct {
        enum provider_item item;
        const char *ticket, *error, *token;
    } want[] = {{PROVIDER_ITEM_OK, "t1", "", ""},
                {PROVIDER_ITEM_OK, "", "", ""},
                {PROVIDER_ITEM_ERROR, "t3", "DeviceNotRegistered", "ExponentPushToken[a b]"},
                {PROVIDER_ITEM_ERROR, "", "ProviderError", ""},
                {PROVIDER_ITEM_UNREADABLE, "", "", ""},
                {PROVIDER_ITEM_UNREADABLE, "", "", ""},
                {PROVIDER_ITEM_UNREADABLE, "", "", ""},
                {PROVIDER_ITEM_OK, "", "", ""}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct provider_entry entry;
        provider_reply_ticket(reply, i, &entry);
        cr_expect_eq(entry.item, want[i].item, "%zu", i);
        cr_expect_str_eq(entry.ticket, want[i].ticket);
        cr_expect_str_eq(entry.error, want[i].error);
        cr_expect_str_eq(entry.token, want[i].token);
    }
    provider_reply_free(reply);
}

/* A token that is there and cannot be read names none of ours: nobody is disabled on it. */
Test(provider, an_unreadable_token_is_not_an_absent_one)
{
    static const struct {
        const char *json, *token;
    } rows[] = {
        {"null", ""}, {"\"\"", "?"}, {"7", "?"}, {"\"ExponentPushToken[\xc3\xa9]\"", "?"}, {"{}", "?"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        struct provider_entry entry;
        snprintf(text, sizeof text,
                 "{\"data\":[{\"status\":\"error\",\"details\":{\"error\":\"DeviceNotRegistered\","
                 "\"expoPushToken\":%s}}]}",
                 rows[i].json);
        struct provider_reply *reply = provider_reply_parse(span_of(text), NULL);
        provider_reply_ticket(reply, 0, &entry);
        cr_expect_str_eq(entry.token, rows[i].token, "%s", rows[i].json);
        provider_reply_free(reply);
    }
}

Test(wire_provider, receipts_by_id_never_by_order)
{
    struct provider_body body;
    struct provider_reply *reply = provider_reply_parse(
        span_of("{\"data\":{\"r3\":{\"status\":\"ok\"},\"r1\":null,\"stranger\":{\"status\":\"ok\"},"
                "\"r2\":{\"status\":\"error\",\"details\":{\"error\":\"DeviceNotRegistered\"}}}}"),
        &body);
    static const struct {
        const char *ticket;
        enum provider_item item;
        bool present;
    } want[] = {{"r1", PROVIDER_ITEM_NONE, true},
                {"r2", PROVIDER_ITEM_ERROR, true},
                {"r3", PROVIDER_ITEM_OK, true},
                {"r4", PROVIDER_ITEM_NONE, false},
                {"", PROVIDER_ITEM_NONE, false}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct provider_entry entry;
        provider_reply_receipt(reply, span_of(want[i].ticket), &entry);
        cr_expect_eq(entry.item, want[i].item, "%s", want[i].ticket);
        cr_expect_eq(entry.present, want[i].present, "%s", want[i].ticket);
    }
    cr_expect_eq(provider_reply_receipt_count(reply), 4);
    provider_reply_free(reply);
}

Test(wire_provider, push_options_go_as_the_bytes_that_came)
{
    static const struct {
        const char *push, *want;
    } cases[] = {
        {"{\"ttl\": 90 , \"priority\":\"normal\"}", ",\"ttl\":90,\"priority\":\"normal\"}]"},
        {"{\"sound\":\"a\\u0062.wav\",\"badge\":0,\"channel_id\":\"c\"}",
         ",\"sound\":\"a\\u0062.wav\",\"badge\":0,\"channelId\":\"c\",\"expiration\":1700000001,"
         "\"priority\":\"high\"}]"},
        {"{\"subtitle\":\"},\\\"{\",\"interruption_level\":\"passive\",\"mutable_content\" : false ,\n"
         "\"collapse_id\":\"x\",\"t\\u0061g\":\"y\"}",
         ",\"subtitle\":\"},\\\"{\",\"interruptionLevel\":\"passive\",\"mutableContent\":false,"
         "\"collapseId\":"
         "\"x\",\"tag\":\"y\",\"expiration\":1700000001,\"priority\":\"high\"}]"},
        {"{\"other\":{\"ttl\":1},\"to\":\"x\",\"channelId\":\"x\"}",
         ",\"expiration\":1700000001,\"priority\":\"high\"}]"},
        {"{}", ",\"expiration\":1700000001,\"priority\":\"high\"}]"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct provider_message message = message_of("t", "b", NULL);
        message.push = span_of(cases[i].push);
        message.urgent = true;
        message.expires_at = (struct instant){.given = true, .us = 1700000000500000};
        char *text = encode(&message, 1, 4096);
        cr_expect_not_null(strstr(text, cases[i].want), "%s", text);
        json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        cr_expect_not_null(root, "%s", text);
        json_decref(root);
        free(text);
    }
}

Test(wire_provider, the_project_of_a_token_by_the_details)
{
    static const char text[] =
        "{\"errors\":[{\"code\":\"PUSH_TOO_MANY_EXPERIENCE_IDS\",\"details\":{\"@a/x\":[\"T[1]\",\"T[3]\"],"
        "\"@b/y\":[\"T[2]\",7],\"bad name\":[\"T[4]\"],\"@c/z\":\"T[5]\"}}]}";
    static const struct {
        const char *token, *project;
    } cases[] = {{"T[1]", "@a/x"}, {"T[2]", "@b/y"}, {"T[3]", "@a/x"}, {"T[4]", ""}, {"T[5]", ""}, {"T", ""}};
    struct provider_reply *reply = provider_reply_parse(span_of(text), NULL);
    char project[PROVIDER_PROJECT_MAX + 1];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        provider_reply_project(reply, span_of(cases[i].token), project);
        cr_expect_str_eq(project, cases[i].project, "%s", cases[i].token);
    }
    provider_reply_free(reply);
    reply = provider_reply_parse(span_of("{\"errors\":[{\"details\":[1]}]}"), NULL);
    provider_reply_project(reply, span_of("T[1]"), project);
    cr_expect_str_eq(project, "");
    provider_reply_free(reply);
}
