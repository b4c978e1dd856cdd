/* The neighbours of shared/cases.md's reconciler entries: the same kinds of fault in other clothes. The
 * entries themselves are in reconciler_test.c. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "hand.h"
#include "pushes.h"

enum { RULE_MAX = 4096 };

/* A JSON text as a JSON string: a body that is sent as it stands, whatever it is. */
static void quote(const char *text, char *quoted, size_t size)
{
    size_t at = 0;
    quoted[at++] = '"';
    for (; *text != '\0' && at + 3 < size; text++) {
        if (*text == '"' || *text == '\\')
            quoted[at++] = '\\';
        quoted[at++] = *text;
    }
    quoted[at++] = '"';
    quoted[at] = '\0';
}

static void answer_body(struct world *w, const char *body)
{
    char quoted[RULE_MAX], rule[RULE_MAX + 200];
    quote(body, quoted, sizeof quoted);
    snprintf(rule, sizeof rule,
             "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"content_type\":\"application/json\","
             "\"body\":%s}}",
             quoted);
    simulator_reset(w);
    simulator_script(w, rule);
}

/* What one answer holds, and what it makes of the row with that ticket. */
static const struct {
    const char *ticket, *entry, *end;
} entries[] = {
    {"a-ok", "{\"status\":\"ok\"}", "delivered/"},
    {"b-null", "null", "sent/"},
    {"c-text", "\"ok\"", "sent/"},
    {"d-list", "[{\"status\":\"ok\"}]", "sent/"},
    {"e-empty", "{}", "sent/"},
    {"f-pending", "{\"status\":\"pending\"}", "sent/"},
    {"g-case", "{\"status\":\"OK\"}", "sent/"},
    {"h-bare", "{\"status\":\"error\"}", "receipt_error/ProviderError"},
    {"i-number", "{\"status\":\"error\",\"details\":{\"error\":7}}", "receipt_error/ProviderError"},
    {"j-message", "{\"status\":\"error\",\"message\":\"DeviceNotRegistered\"}",
     "receipt_error/ProviderError"},
    {"k-beside", "{\"status\":\"error\",\"error\":\"DeviceNotRegistered\"}", "receipt_error/ProviderError"},
    {"l-other",
     "{\"status\":\"error\",\"details\":{\"error\":\"DeviceNotRegistered\",\"expoPushToken\":"
     "\"ExponentPushToken[another]\"}}",
     "receipt_error/TicketMismatch"},
    {"m-case", "{\"status\":\"error\",\"details\":{\"error\":\"devicenotregistered\"}}",
     "receipt_error/devicenotregistered"},
    {"n-both", "{\"status\":\"ok\",\"details\":{\"error\":\"DeviceNotRegistered\"}}", "delivered/"},
    {"o-rate", "{\"status\":\"error\",\"details\":{\"error\":\"MessageRateExceeded\",\"fcm\":{\"x\":[1]}}}",
     "receipt_error/MessageRateExceeded"},
    {"p-gone", "{\"status\":\"error\",\"details\":{\"error\":\"DeviceNotRegistered\"}}",
     "receipt_error/DeviceNotRegistered"},
    {"q-absent", NULL, "sent/"}};
enum { ENTRIES = sizeof entries / sizeof entries[0] };

/* The entries from the last to the first, between ids that nobody asked for and that look like the asked. */
static void make_answer(char *body, size_t size)
{
    size_t at =
        (size_t)snprintf(body, size,
                         "{\"data\":{\"A-OK\":{\"status\":\"error\",\"details\":{\"error\":"
                         "\"DeviceNotRegistered\"}},\"q-absent \":"
                         "{\"status\":\"ok\"},\"q-absen\":{\"status\":\"ok\"},\"\":{\"status\":\"ok\"}");
    for (size_t i = ENTRIES; i-- > 0;) {
        if (entries[i].entry != NULL)
            at += (size_t)snprintf(body + at, size - at, ",\"%s\":%s", entries[i].ticket, entries[i].entry);
    }
    /* errors beside data: the data counts */
    snprintf(body + at, size - at, "},\"errors\":[{\"code\":\"X\",\"message\":\"y\"}]}");
}

/* REC-01, on: seventeen entries of all kinds in one answer, in another order; each row by its id alone. And
 * one ticket on rows of two devices: whose token is gone is not known, so none is switched off. */
Test(cases, rec_01_neighbours)
{
    struct world w;
    char body[RULE_MAX], end[128];
    hand_open(&w, "rec_01n", 1);
    make_answer(body, sizeof body);
    answer_body(&w, body);
    hand_batch(&w, 1, ENTRIES, "now() - interval '1 min'");
    for (int i = 0; i < ENTRIES; i++)
        hand_tell(&w, hand_id(1, i), "sent", entries[i].ticket);
    world_flush(&w);
    struct child *child = world_reconciler(&w, NULL);
    world_wait_count(&w, 7,
                     "SELECT count(*) FROM dispatches WHERE state = 'sent' AND ticket IS NOT NULL AND"
                     " EXISTS (SELECT FROM dispatches WHERE state = 'delivered')");
    for (int i = 0; i < ENTRIES; i++) {
        world_text(&w, end, sizeof end,
                   "SELECT state || '/' || coalesce(error, '') FROM dispatches WHERE id = %lld",
                   hand_id(1, i));
        printf("%-9s %-40s %s\n", entries[i].ticket, entries[i].entry == NULL ? "" : entries[i].entry, end);
        cr_assert_str_eq(end, entries[i].end, "%s", entries[i].ticket);
    }
    HAND_COUNT(&w, hand_id(1, 15), "SELECT sum(id) FROM device_tokens WHERE NOT enabled");
    child_wait_log(child, "RECEIPT-UNASKED", 5);
    cr_assert_geq(child_metric(child, "belfry_receipts_unasked_total"), 4.0);

    hand_batch(&w, 2, 1, "now() - interval '1 min'");
    hand_batch(&w, 3, 1, "now() - interval '1 min'");
    answer_body(
        &w, "{\"data\":{\"shared\":{\"status\":\"error\",\"details\":{\"error\":\"DeviceNotRegistered\"}}}}");
    hand_tell(&w, hand_id(2, 0), "sent", "shared");
    hand_tell(&w, hand_id(3, 0), "sent", "shared");
    world_flush(&w);
    world_wait_count(&w, 2,
                     "SELECT count(*) FROM dispatches WHERE id >> 20 IN (2, 3) AND state = 'receipt_error'");
    int64_t off =
        world_count(&w, "SELECT count(*) FROM device_tokens WHERE id >> 20 IN (2, 3) AND NOT enabled");
    printf("one ticket on rows of two devices, DeviceNotRegistered: both receipt_error, %lld tokens off\n",
           (long long)off);
    cr_assert_eq(off, 0);
    child_stop(child);
    world_check_books(&w);
    world_close(&w);
}

/* REC-02, on: answers of other shapes that say nothing. All stays `sent`, the row of yesterday too. */
Test(cases, rec_02_neighbours)
{
    static const char *const nothing[] = {
        "{}",
        "null",
        "[]",
        "7",
        "\"ok\"",
        "{\"data\":null}",
        "{\"data\":0}",
        "{\"data\":[{\"status\":\"ok\",\"id\":\"r1\"}]}",
        "{\"data\":[null]}",
        "[{\"r1\":{\"status\":\"ok\"}}]",
        "{\"receipts\":{\"r1\":{\"status\":\"ok\"}}}",
        "{\"data\":{\"r1\":{\"status\":\"ok\"}}",                                /* cut */
        "{\"data\":{\"r1\":{\"status\":\"ok\"}}}}",                              /* one too many */
        "{\"data\":{\"r1\":{\"status\":\"ok\"},\"r1\":{\"status\":\"error\"}}}", /* one name twice */
        "{\"data\":{},\"data\":{\"r1\":{\"status\":\"ok\"}}}",
        "{\"errors\":[]}",
        "{\"error\":\"invalid_token\",\"error_description\":\"no\"}"};
    static const char *const rules[] = {
        "\"status\":204",
        "\"status\":302,\"body\":\"\",\"headers\":{\"Location\":\"http://127.0.0.1:1/\"}",
        "\"status\":404,\"body\":\"<html>\"",
        "\"status\":503,\"body\":{\"errors\":[{\"code\":\"X\"}]}",
        "\"raw\":\"nonsense\"",
        "\"close\":\"after_headers\"",
        "\"close\":\"before_reply\"",
        "\"pad_bytes\":9000000"};
    struct world w;
    char rule[512];
    hand_open(&w, "rec_02n", 1);
    hand_batch(&w, 1, 1, "now() - interval '1 min'");
    hand_batch(&w, 2, 1, "now() - interval '25 h'");
    answer_body(&w, "{}");
    struct child *child = world_reconciler(&w, "[reconciler]\nreceipt_delay = 0\npoll_interval = 100ms\n");
    hand_tell(&w, hand_id(1, 0), "sent", "r1");
    hand_tell(&w, hand_id(2, 0), "sent", "r2");
    hand_drained(&w);
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        answer_body(&w, nothing[i]);
        hand_wait_calls(&w, 3);
        HAND_COUNT(&w, 2, "SELECT count(*) FROM dispatches WHERE state = 'sent' /* %s */", nothing[i]);
    }
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        snprintf(rule, sizeof rule, "{\"when\":{\"path\":\"receipts\"},\"do\":{%s}}", rules[i]);
        simulator_reset(&w);
        simulator_script(&w, rule);
        hand_wait_calls(&w, 3);
        HAND_COUNT(&w, 2, "SELECT count(*) FROM dispatches WHERE state = 'sent' /* %s */", rules[i]);
    }
    HAND_COUNT(&w, 2, "SELECT count(*) FROM receipt_batches");
    answer_body(&w, "{\"data\":{\"r1\":{\"status\":\"ok\"}}}");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    HAND_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE state = 'delivered' AND ticket = 'r1'");
    HAND_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE state = 'expired' AND ticket = 'r2'");
    HAND_COUNT(&w, 2, "SELECT count(*) FROM device_tokens WHERE enabled");
    printf(
        "%zu answers that are none, each met at least twice: 2 of 2 stay sent; then 1 delivered, 1 expired\n",
        sizeof nothing / sizeof nothing[0] + sizeof rules / sizeof rules[0]);
    child_stop(child);
    world_check_books(&w);
    world_close(&w);
}

/* REC-06, on: three reconcilers. One freezes with an answer in hand until its leases are others', and wakes;
 * one dies before it asks, one before it gives its batches back. */
Test(cases, rec_06_neighbours)
{
    enum { BATCHES = 150, EACH = 10, ALL = BATCHES * EACH };
    static const char *const extra =
        "[reconciler]\nreceipt_chunk = 50\npoll_interval = 200ms\nlease = 1s\n[run]\nshutdown_timeout = 5s\n";
    struct world w;
    hand_open(&w, "rec_06n", 1);
    hand_record_transitions(&w);
    uint32_t run = simulator_tickets(&w, ALL);
    simulator_script(&w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"delay_ms\":20}}");
    struct child *frozen = world_reconciler_crash(&w, extra, "poll:2:stop");
    struct child *dies = world_reconciler_crash(&w, extra, "ask:3"),
                 *late = world_reconciler_crash(&w, extra, "finish");
    hand_put_sent(&w, &(struct hand_sent){1, BATCHES, EACH, run, 0, "now() - interval '1 min'"});
    cr_assert_eq(child_wait(dies, 60), 128 + SIGKILL);
    cr_assert_eq(child_wait(late, 60), 128 + SIGKILL);
    struct child *last = world_reconciler(&w, extra);
    world_wait_count(&w, ALL, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    child_signal(frozen, SIGCONT);
    world_sleep_ms(1500); /* it writes its late answer */
    HAND_COUNT(&w, ALL, "SELECT count(*) FROM transitions");
    HAND_COUNT(&w, ALL, "SELECT count(DISTINCT id) FROM transitions WHERE to_state = 'delivered'");
    HAND_COUNT(&w, 0, "SELECT count(*) FROM receipt_batches");
    printf("%d rows, one frozen with an answer, one dead before asking, one before giving back: each settled"
           " once; %lld requests, %lld receipts\n",
           ALL, (long long)simulator_stat(&w, "receipts", "calls"),
           (long long)simulator_stat(&w, "receipts", "accepted"));
    child_stop(frozen);
    child_stop(last);
    world_check_books(&w);
    world_close(&w);
}
