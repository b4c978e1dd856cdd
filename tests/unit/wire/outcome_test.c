/* Outcomes to bytes and back; hostile provider text; hostile records. */
#include "wire/outcome.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct arena arena;
static struct buffer out;
static struct fault fault;

static void begin(void)
{
    arena_init(&arena, 1 << 20);
    buffer_init(&out, OUTCOME_RECORD_MAX);
}

static void end(void)
{
    arena_done(&arena);
    buffer_done(&out);
}

TestSuite(outcome, .init = begin, .fini = end);

static struct outcome example(void)
{
    struct outcome outcome = {.dispatch_id = dispatch_id(9000000001, 993),
                              .workspace_id = span_of("w1"),
                              .recipient_user_id = span_of("u1"),
                              .device_id = 42,
                              .outcome = DISPATCH_SENT,
                              .ticket = span_of("XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX"),
                              .attempt = 1,
                              .at_us = 1774083600123456};
    cr_assert(uuid_parse(span_of("01991234-89ab-7cde-8f01-23456789abcd"), &outcome.notification_id));
    return outcome;
}

static enum status parse(struct span value, struct outcome *outcome)
{
    struct wire_record record = {.value = value, .bytes_max = OUTCOME_RECORD_MAX};
    fault_reset(&fault);
    return outcome_parse(&record, &arena, outcome, &fault);
}

static void must_round_trip(const struct outcome *outcome)
{
    struct outcome back;
    buffer_reset(&out);
    outcome_encode(&out, outcome);
    cr_assert_not(out.failed);
    cr_assert_eq(parse(buffer_span(&out), &back), ST_OK, "%s: %s", out.at, fault.text);
    cr_assert_eq(back.dispatch_id, outcome->dispatch_id);
    cr_assert_eq(memcmp(back.notification_id.bytes, outcome->notification_id.bytes, 16), 0);
    cr_assert(span_same(back.workspace_id, outcome->workspace_id));
    cr_assert(span_same(back.recipient_user_id, outcome->recipient_user_id));
    cr_assert_eq(back.device_id, outcome->device_id);
    cr_assert_eq(back.outcome, outcome->outcome);
    cr_assert(span_same(back.ticket, outcome->ticket));
    cr_assert(span_same(back.error, outcome->error));
    cr_assert(span_same(back.detail, outcome->detail));
    cr_assert_eq(back.attempt, outcome->attempt);
    cr_assert_eq(back.at_us, outcome->at_us);
}

Test(outcome, looks_as_documented)
{
    struct outcome outcome = example();
    outcome_encode(&out, &outcome);
    cr_assert_str_eq(out.at,
                     "{\"v\":1,\"dispatch_id\":\"9437184001049569\","
                     "\"notification_id\":\"01991234-89ab-7cde-8f01-23456789abcd\","
                     "\"workspace_id\":\"w1\",\"recipient_user_id\":\"u1\",\"device_id\":\"42\","
                     "\"outcome\":\"sent\",\"ticket\":\"XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX\","
                     "\"error\":null,\"detail\":null,\"attempt\":1,\"at\":\"2026-03-21T09:00:00.123456Z\"}");
}

Test(outcome, round_trips)
{
    struct outcome outcome = example();
    outcome.dispatch_id = 1;
    must_round_trip(&outcome);
    outcome.ticket = (struct span){NULL, 0}; /* an ok ticket without an id */
    must_round_trip(&outcome);
    outcome.outcome = DISPATCH_FAILED;
    outcome.error = span_of(DISPATCH_NOT_REGISTERED);
    outcome.detail = span_of("\"Unregistered\"\n\ttab \xf0\x9f\x94\x94 \\ {}");
    outcome.attempt = 3;
    must_round_trip(&outcome);
    outcome.outcome = DISPATCH_SUPPRESSED;
    outcome.error = span_of(DISPATCH_PUSH_OFF);
    outcome.dispatch_id = INT64_MAX;
    outcome.device_id = INT64_MIN;
    outcome.workspace_id = span_of("\x01\x02 w:\"");
    must_round_trip(&outcome);
}

/* Whatever a provider says, what we publish can be read. */
Test(outcome, hostile_text_is_cut_and_cleaned)
{
    char text[1000];
    struct outcome outcome = example(), back;
    outcome.outcome = DISPATCH_FAILED;
    static const char fills[] = {'a', '"', '\\', '\x01', '\xff', '\0', '\xe2', '\x80'};
    for (size_t i = 0; i < sizeof fills; i++) {
        memset(text, fills[i], sizeof text);
        outcome.ticket = outcome.error = outcome.detail = (struct span){text, sizeof text};
        buffer_reset(&out);
        outcome_encode(&out, &outcome);
        cr_assert_not(out.failed, "%zu bytes", out.bytes);
        cr_assert_eq(parse(buffer_span(&out), &back), ST_OK, "%zu: %s %s", i, fault.field, fault.text);
        cr_assert_leq(back.detail.bytes, (size_t)3 * DISPATCH_DETAIL_MAX);
    }
    /* On a character's border: 199 bytes, then the euro sign's three. */
    memset(text, 'a', sizeof text);
    snprintf(text + DISPATCH_DETAIL_MAX - 1, 4, "\xe2\x82\xac");
    text[DISPATCH_DETAIL_MAX + 2] = 'a';
    outcome.ticket = outcome.error = span_of("x");
    outcome.detail = (struct span){text, sizeof text};
    buffer_reset(&out);
    outcome_encode(&out, &outcome);
    cr_assert_eq(parse(buffer_span(&out), &back), ST_OK);
    cr_assert_eq(back.detail.bytes, DISPATCH_DETAIL_MAX - 1);
}

Test(outcome, longest_fits_its_bound)
{
    char text[1000];
    struct outcome outcome = example();
    memset(text, 1, sizeof text);
    outcome.outcome = DISPATCH_SUPPRESSED;
    outcome.workspace_id = outcome.recipient_user_id = (struct span){text, 200};
    outcome.ticket = outcome.error = outcome.detail = (struct span){text, sizeof text};
    outcome.dispatch_id = outcome.device_id = INT64_MIN;
    outcome.attempt = INT32_MAX;
    outcome_encode(&out, &outcome);
    cr_assert_not(out.failed);
}

#define GOOD_HEAD                                                                                            \
    "{\"v\":1,\"dispatch_id\":\"1\",\"notification_id\":\"01991234-89ab-7cde-8f01-23456789abcd\","
#define GOOD_WHO  "\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"device_id\":\"2\","
#define GOOD_TAIL "\"ticket\":null,\"detail\":null,\"attempt\":1,\"at\":\"2026-03-21T09:00:00Z\"}"
#define ID(value)                                                                                            \
    "{\"dispatch_id\":" value ",\"notification_id\":\"01991234-89ab-7cde-8f01-23456789abcd\"," GOOD_WHO      \
    "\"outcome\":\"sent\"," GOOD_TAIL

Test(outcome, refused)
{
    static const struct {
        const char *value, *code, *field;
    } rows[] = {
        {"", "json", ""},
        {"{", "json", ""},
        {"\"x\"", "not_object", ""},
        {"{\"v\":1,\"v\":1}", "json", ""},
        {"{\"x\":\"\\u0000\"}", "nul", ""},
        {"{\"v\":2}", "field", "v"},
        {"{\"v\":1}", "field", "dispatch_id"},
        {ID("1"), "field", "dispatch_id"}, /* a number is not coerced */
        {ID("\"\""), "field", "dispatch_id"},
        {ID("\"-\""), "field", "dispatch_id"},
        {ID("\"+1\""), "field", "dispatch_id"},
        {ID("\"01\""), "field", "dispatch_id"},
        {ID("\"-0\""), "field", "dispatch_id"},
        {ID("\" 1\""), "field", "dispatch_id"},
        {ID("\"1 \""), "field", "dispatch_id"},
        {ID("\"1.0\""), "field", "dispatch_id"},
        {ID("\"0x1\""), "field", "dispatch_id"},
        {ID("\"9223372036854775808\""), "field", "dispatch_id"},
        {ID("\"-9223372036854775809\""), "field", "dispatch_id"},
        {ID("\"99999999999999999999999999\""), "field", "dispatch_id"},
        {ID("null"), "field", "dispatch_id"},
        {"{\"dispatch_id\":\"1\",\"notification_id\":\"0199\"," GOOD_WHO "\"outcome\":\"sent\"," GOOD_TAIL,
         "field", "notification_id"},
        {"{\"dispatch_id\":\"1\"," GOOD_WHO "\"outcome\":\"sent\"," GOOD_TAIL, "field", "notification_id"},
        {GOOD_HEAD GOOD_WHO GOOD_TAIL, "field", "outcome"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"delivered\"," GOOD_TAIL, "field", "outcome"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"queued\"," GOOD_TAIL, "field", "outcome"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"SENT\"," GOOD_TAIL, "field", "outcome"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":null," GOOD_TAIL, "field", "outcome"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"failed\"," GOOD_TAIL, "field", "error"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"suppressed\",\"error\":null," GOOD_TAIL, "field", "error"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"failed\",\"error\":7," GOOD_TAIL, "field", "error"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"failed\",\"error\":\"\"," GOOD_TAIL, "field", "error"},
        {GOOD_HEAD "\"recipient_user_id\":\"u\",\"device_id\":\"2\",\"outcome\":\"sent\"," GOOD_TAIL, "field",
         "workspace_id"},
        {GOOD_HEAD "\"workspace_id\":\"w\",\"device_id\":\"2\",\"outcome\":\"sent\"," GOOD_TAIL, "field",
         "recipient_user_id"},
        {GOOD_HEAD "\"workspace_id\":null,\"recipient_user_id\":\"u\",\"device_id\":\"2\",\"outcome\":"
                   "\"sent\"," GOOD_TAIL,
         "field", "workspace_id"},
        {GOOD_HEAD "\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"outcome\":\"sent\"," GOOD_TAIL,
         "field", "device_id"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\",\"at\":\"2026-03-21T09:00:00Z\"}", "field", "attempt"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\",\"attempt\":0,\"at\":\"2026-03-21T09:00:00Z\"}", "field",
         "attempt"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\",\"attempt\":\"1\",\"at\":\"2026-03-21T09:00:00Z\"}",
         "field", "attempt"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\",\"attempt\":2147483648,\"at\":\"2026-03-21T09:00:00Z\"}",
         "field", "attempt"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\",\"attempt\":1}", "field", "at"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\",\"attempt\":1,\"at\":null}", "field", "at"},
        {GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\",\"attempt\":1,\"at\":\"now\"}", "field", "at"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct outcome outcome = {.attempt = -7};
        cr_assert_eq(parse(span_of(rows[i].value), &outcome), ST_REJECT, "%s", rows[i].value);
        cr_assert_str_eq(fault.code, rows[i].code, "%s: %s", rows[i].value, fault.text);
        cr_assert_str_eq(fault.field, rows[i].field, "%s: %s", rows[i].value, fault.text);
        cr_assert_eq(outcome.attempt, -7, "written only on success");
    }
}

Test(outcome, readable_variants)
{
    static const char *const good[] = {
        GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\"," GOOD_TAIL,
        GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\",\"new_member\":{\"a\":[1,2]}," GOOD_TAIL,
        GOOD_HEAD GOOD_WHO "\"outcome\":\"failed\",\"error\":\"SomeNewProviderCode\"," GOOD_TAIL,
        GOOD_HEAD GOOD_WHO "\"outcome\":\"suppressed\",\"error\":\"LaterReason\"," GOOD_TAIL,
        GOOD_HEAD GOOD_WHO "\"outcome\":\"sent\",\"attempt\":2,\"at\":\"2026-03-21T10:00:00+01:00\"}",
        ID("\"-9223372036854775808\""),
        ID("\"9223372036854775807\""),
        ID("\"0\""),
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct outcome outcome;
        cr_assert_eq(parse(span_of(good[i]), &outcome), ST_OK, "%s: %s", good[i], fault.text);
        cr_assert_eq(outcome.at_us, 1774083600000000);
    }
}

Test(outcome, random_round_trips)
{
    uint64_t state = 7;
    for (int i = 0; i < 5000; i++) {
        static const char *const pool[] = {"a", "\xc3\xa9", "\"", "\\", "\n", "\xf0\x9f\x94\x94",
                                           " ", "\x1f",     "/",  "0"};
        char texts[4][64];
        for (int t = 0; t < 4; t++) {
            size_t bytes = 0;
            for (int k = 0; k <= (int)((state >> 30) % 14); k++) {
                state = state * 6364136223846793005ULL + 1442695040888963407ULL;
                bytes += (size_t)snprintf(texts[t] + bytes, sizeof texts[t] - bytes, "%s",
                                          pool[(state >> 40) % 10]);
            }
        }
        struct outcome outcome = example();
        outcome.dispatch_id = (int64_t)state;
        outcome.device_id = (int64_t)(state >> 7);
        outcome.outcome = (enum dispatch_state)(DISPATCH_SENT + i % 3);
        outcome.workspace_id = span_of(texts[0]);
        outcome.recipient_user_id = span_of(texts[1]);
        outcome.error = span_of(texts[2]);
        outcome.detail = span_of(texts[3]);
        must_round_trip(&outcome);
        arena_reset(&arena);
    }
}
