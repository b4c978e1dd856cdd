/* Device records, good and bad; the token never gets into a fault. */
#include "wire/device.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const int64_t now_us = 1774083600000000;
static struct arena arena;
static struct device_change change;
static struct fault fault;

static void begin(void)
{
    arena_init(&arena, 1 << 20);
}

static void end(void)
{
    arena_done(&arena);
}

TestSuite(device, .init = begin, .fini = end);

static enum status parse(const char *value, int64_t timestamp_us)
{
    struct wire_record record = {.value = span_of(value),
                                 .timestamp_us = timestamp_us,
                                 .now_us = now_us,
                                 .partition = 2,
                                 .offset = 5,
                                 .bytes_max = 4096};
    fault_reset(&fault);
    return device_parse(&record, &arena, &change, &fault);
}

#define TOKEN    "ExponentPushToken[SECRETxxxxxxxxxxxxxxxx]"
#define REGISTER "{\"op\":\"register\",\"user_id\":\"u1\",\"token\":\"" TOKEN "\",\"platform\":\"ios\""

Test(device, registered)
{
    cr_assert_eq(parse(REGISTER ",\"app_version\":\"1.2\",\"x\":[1]}", now_us - 9), ST_OK, "%s", fault.text);
    cr_assert(change.enable);
    cr_assert(span_is(change.token, TOKEN));
    cr_assert(span_is(change.user_id, "u1"));
    cr_assert(span_is(change.platform, "ios"));
    cr_assert(span_is(change.app_version, "1.2"));
    cr_assert_eq(change.at_us, now_us - 9);
    cr_assert_eq(change.partition, 2);
    cr_assert_eq(change.offset, 5);
    cr_assert_eq(parse(REGISTER "}", now_us), ST_OK);
    cr_assert_null(change.app_version.at, "not given");
    cr_assert_eq(parse(REGISTER ",\"app_version\":\"\"}", now_us), ST_OK);
}

Test(device, unregistered)
{
    cr_assert_eq(parse("{\"op\":\"unregister\",\"token\":\"" TOKEN "\"}", -1), ST_OK, "%s", fault.text);
    cr_assert_not(change.enable);
    cr_assert(span_is(change.token, TOKEN));
    cr_assert_eq(change.user_id.bytes, 0);
    cr_assert_eq(change.at_us, now_us, "no timestamp: now");
    /* What belongs to a register is not looked at. */
    cr_assert_eq(parse("{\"op\":\"unregister\",\"token\":\"t\",\"platform\":7,\"user_id\":\"u\"}", 0), ST_OK);
    cr_assert_eq(change.user_id.bytes, 0);
}

Test(device, at)
{
    static const struct {
        const char *at;
        int64_t timestamp, expected;
    } rows[] = {
        {"2026-03-21T08:59:59.5Z", 5, 1774083599500000},
        {"2026-03-21T10:59:59.5+02:00", -1, 1774083599500000},
        {"1969-12-31T23:59:59Z", 5, -1000000},
        {"2099-01-01T00:00:00Z", 5, 1774083600000000}, /* a wrong clock does not lock the row */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char value[256];
        snprintf(value, sizeof value, REGISTER ",\"at\":\"%s\"}", rows[i].at);
        cr_assert_eq(parse(value, rows[i].timestamp), ST_OK, "%s", fault.text);
        cr_assert_eq(change.at_us, rows[i].expected, "%s", rows[i].at);
    }
    cr_assert_eq(parse(REGISTER "}", now_us + 1), ST_OK);
    cr_assert_eq(change.at_us, now_us);
}

Test(device, refused)
{
    static const struct {
        const char *value, *code, *field;
    } rows[] = {
        {"", "json", ""},
        {"x", "json", ""},
        {"[]", "not_object", ""},
        {"{\"op\":\"register\",\"op\":\"unregister\",\"token\":\"t\"}", "json", ""},
        {"{\"op\":\"unregister\",\"token\":\"a\\u0000b\"}", "nul", ""},
        {"{}", "field", "op"},
        {"{\"op\":1,\"token\":\"t\"}", "field", "op"},
        {"{\"op\":\"delete\",\"token\":\"t\"}", "field", "op"},
        {"{\"op\":\"Register\",\"token\":\"t\"}", "field", "op"},
        {"{\"op\":\"unregister\"}", "field", "token"},
        {"{\"op\":\"unregister\",\"token\":null}", "field", "token"},
        {"{\"op\":\"unregister\",\"token\":7}", "field", "token"},
        {"{\"op\":\"unregister\",\"token\":\"\"}", "field", "token"},
        {"{\"op\":\"unregister\",\"token\":\"SECRET\\n\"}", "field", "token"},
        {"{\"op\":\"unregister\",\"token\":\"SECRET\\u007f\"}", "field", "token"},
        {"{\"op\":\"unregister\",\"token\":\"SECRET\xc3\xa9\"}", "field", "token"},
        {"{\"op\":\"register\",\"token\":\"SECRET\",\"platform\":\"ios\"}", "field", "user_id"},
        {"{\"op\":\"register\",\"token\":\"SECRET\",\"platform\":\"ios\",\"user_id\":\"\"}", "field",
         "user_id"},
        {"{\"op\":\"register\",\"token\":\"SECRET\",\"platform\":\"ios\",\"user_id\":3}", "field", "user_id"},
        {"{\"op\":\"register\",\"token\":\"SECRET\",\"user_id\":\"u\"}", "field", "platform"},
        {"{\"op\":\"register\",\"token\":\"SECRET\",\"user_id\":\"u\",\"platform\":\"iOS\"}", "field",
         "platform"},
        {"{\"op\":\"register\",\"token\":\"SECRET\",\"user_id\":\"u\",\"platform\":\"windows\"}", "field",
         "platform"},
        {REGISTER ",\"app_version\":12}", "field", "app_version"},
        {REGISTER ",\"at\":1774083600}", "field", "at"},
        {REGISTER ",\"at\":\"2026-03-21 09:00:00Z\"}", "field", "at"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        change.offset = -7;
        cr_assert_eq(parse(rows[i].value, 0), ST_REJECT, "%s", rows[i].value);
        cr_assert_str_eq(fault.code, rows[i].code, "%s: %s", rows[i].value, fault.text);
        cr_assert_str_eq(fault.field, rows[i].field, "%s: %s", rows[i].value, fault.text);
        cr_assert_null(strstr(fault.text, "SECRET"), "a token is a secret");
        cr_assert_eq(change.offset, -7, "written only on success");
    }
}

Test(device, token_sizes)
{
    for (int bytes = 255; bytes <= 257; bytes++) {
        char value[400], token[300];
        memset(token, '~', sizeof token);
        token[bytes] = '\0';
        snprintf(value, sizeof value, "{\"op\":\"unregister\",\"token\":\"%s\"}", token);
        cr_assert_eq(parse(value, 0), bytes <= DEVICE_TOKEN_MAX ? ST_OK : ST_REJECT);
    }
    cr_assert_str_eq(fault.field, "token");
}

Test(device, full_arena_is_retry)
{
    struct arena none;
    arena_init(&none, 0);
    struct wire_record record = {.value = span_of(REGISTER "}"), .now_us = now_us, .bytes_max = 4096};
    cr_assert_eq(device_parse(&record, &none, &change, &fault), ST_RETRY);
    cr_assert_str_eq(fault.code, "arena");
    arena_done(&none);
}
