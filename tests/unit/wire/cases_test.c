/* Cases from the field (shared/cases.md) as far as bytes and values decide them, each by its id. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "model/timestamp.h"
#include "wire/cursor.h"
#include "wire/event.h"
#include "wire/json_out.h"

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

TestSuite(cases, .init = begin, .fini = end);

static enum status parse(const char *value)
{
    const struct wire_record record = {.value = span_of(value), .timestamp_us = -1, .bytes_max = 1 << 20};
    fault_reset(&fault);
    return event_parse(&record, &arena, &event, &fault);
}

#define HEAD(run, type, user)                                                                                \
    "{\"run_id\":\"" run "\",\"event_type\":\"" type "\",\"recipient_user_id\":\"" user                      \
    "\",\"workspace_id\":\"w\""
#define EVENT(run, type, user) HEAD(run, type, user) ",\"title\":\"t\"}"

Test(cases, ing_10)
{
    static const char *const doubled[] = {
        HEAD("r", "t", "u1") ",\"title\":\"t\",\"recipient_user_id\":\"u2\"}",
        HEAD("r", "t", "u1") ",\"title\":\"t\",\"recipient_\\u0075ser_id\":\"u2\"}",
        HEAD("r", "t", "u1") ",\"title\":\"t\",\"data\":{\"a\":1,\"b\":{\"c\":1,\"\\u0063\":2}}}",
    };
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(parse(doubled[i]), ST_REJECT, "%s", doubled[i]);
        cr_assert_str_eq(fault.code, "json");
    }
}

Test(cases, clm_04)
{
    char first[64];
    cr_assert_eq(parse(EVENT("a:b", "c", "u")), ST_OK);
    memcpy(first, event.recipients[0].key.at, event.recipients[0].key.bytes);
    struct span one = {first, event.recipients[0].key.bytes};
    cr_assert_eq(parse(EVENT("a", "b:c", "u")), ST_OK);
    cr_assert_not(span_same(one, event.recipients[0].key));
    cr_assert_eq(parse(EVENT("a:b", "c", "u")), ST_OK);
    cr_assert(span_same(one, event.recipients[0].key), "the same triple, the same key");
    cr_assert_eq(parse(EVENT("a", "b", "c:u")), ST_OK);
    cr_assert_not(span_same(one, event.recipients[0].key));
    cr_assert(span_is(event.recipients[0].user_id, "c:u"), "the person's id itself is not encoded");
    cr_assert_eq(parse(EVENT("", "c", "u")), ST_REJECT, "an empty part is refused");
    cr_assert_str_eq(fault.field, "run_id");
    cr_assert_eq(parse(EVENT("a", "", "u")), ST_REJECT);
    cr_assert_str_eq(fault.field, "event_type");
    cr_assert_eq(parse(EVENT("a", "c", "")), ST_REJECT);
    cr_assert_str_eq(fault.field, "recipient_user_id");
}

Test(cases, per_01)
{
    static const char *const poison[] = {
        HEAD("r", "t", "u") ",\"title\":\"a\\u0000b\"}",
        HEAD("r", "t", "u") ",\"title\":\"t\",\"body\":\"x\\u0000\"}",
        HEAD("r", "t", "u") ",\"title\":\"t\",\"data\":{\"x\":\"\\u0000\"}}",
        HEAD("r", "t", "u\\u0000") ",\"title\":\"t\"}",
    };
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(parse(poison[i]), ST_REJECT);
        cr_assert_str_eq(fault.code, "nul");
    }
    cr_assert_eq(parse(HEAD("r", "t", "u") ",\"title\":\"a\\\\u0000b\",\"data\":{\"x\":\"\\\\u0000\"}}"),
                 ST_OK);
    cr_assert(span_is(event.title, "a\\u0000b"), "the six visible characters are ordinary text");
    struct buffer shown;
    buffer_init(&shown, 100);
    json_out_string(&shown, event.title);
    cr_assert_str_eq(shown.at, "\"a\\\\u0000b\"");
    buffer_done(&shown);
}

Test(cases, per_05)
{
    static const char *const times[][2] = {
        {"2026-03-21T23:59:59.9999999Z", "2026-03-21T23:59:59.999999Z"},
        {"2026-03-21T09:00:00.1234565Z", "2026-03-21T09:00:00.123456Z"},
    };
    for (size_t i = 0; i < 2; i++) {
        char value[300], shown[TIMESTAMP_TEXT_BYTES + 1];
        snprintf(value, sizeof value, HEAD("r", "t", "u") ",\"title\":\"t\",\"occurred_at\":\"%s\"}",
                 times[i][0]);
        cr_assert_eq(parse(value), ST_OK);
        cr_assert(timestamp_format(event.occurred_at.us, shown));
        cr_assert_str_eq(shown, times[i][1], "cut, not rounded");
    }
}

Test(cases, cur_04)
{
    struct cursor_keys keys = {.count = 1, .keys = {{.id = "k1", .secret = {.count = CRYPTO_KEY_MIN}}}};
    struct cursor cursor = {.feed = "notifications",
                            .direction = CURSOR_OLDER,
                            .contract = CURSOR_LIVE,
                            .id_type = CURSOR_ID_UUID};
    for (int i = 0; i < 2000; i++) {
        char text[CURSOR_TEXT_MAX + 1];
        struct cursor back;
        cursor.created_at_us = 1774083600000000 + i;
        memset(cursor.id_uuid.bytes, i, sizeof cursor.id_uuid.bytes);
        cr_assert_eq(cursor_encode(&keys, &cursor, text, &fault), ST_OK);
        cr_assert_eq(text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")],
                     '\0');
        cr_assert_eq(cursor_decode(&keys, span_of(text), &back, &fault), ST_OK);
        cr_assert_eq(back.created_at_us, cursor.created_at_us);
    }
}
