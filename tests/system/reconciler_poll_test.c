/* How receipts are asked for: when, how often, how many at a time, by whom (design.md §3, Poll). The real
 * belfry-reconciler, rows and outcomes by hand, the provider scripted. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hand.h"
#include "pushes.h"

static void answer_receipts(struct world *w, const char *does)
{
    char rule[512];
    simulator_reset(w);
    snprintf(rule, sizeof rule, "{\"when\":{\"path\":\"receipts\"},\"do\":{%s}}", does);
    simulator_script(w, rule);
}

/* A reconciler that asks once, at its start, and not again for a minute. */
static struct child *ask_once(struct world *w, int chunk)
{
    char extra[128];
    snprintf(extra, sizeof extra, "[reconciler]\npoll_interval = 60s\nreceipt_chunk = %d\n", chunk);
    return world_reconciler(w, extra);
}

/* The first look is receipt_delay after the send; what was sent long ago, by a dispatcher whose reconciler
 * was off, is looked at at once. */
Test(poll, delay)
{
    struct world w;
    char due[64];
    hand_open(&w, "poll_delay", 1);
    answer_receipts(
        &w, "\"status\":200,\"body\":{\"data\":{\"new\":{\"status\":\"ok\"},\"old\":{\"status\":\"ok\"}}}");
    hand_batch(&w, 1, 1, "now()");
    hand_batch(&w, 2, 1, "now()");
    struct child *child = world_reconciler(&w, "[reconciler]\nreceipt_delay = 4s\npoll_interval = 200ms\n");
    hand_tell_at(&w, hand_id(1, 0), "sent", "new", 0);
    hand_tell_at(&w, hand_id(2, 0), "sent", "old", -3600);
    hand_drained(&w);
    world_text(&w, due, sizeof due, "SELECT due_at FROM receipt_batches WHERE batch_id = 1");
    world_wait_count(&w, 1, "SELECT count(*) FROM dispatches WHERE id >> 20 = 2 AND state = 'delivered'");
    HAND_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE id >> 20 = 1 AND state = 'sent'");
    world_wait_count(&w, 2, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    int64_t late_ms = world_count(&w,
                                  "SELECT (extract(epoch FROM updated_at - '%s'::timestamptz) * 1000)::bigint"
                                  " FROM dispatches WHERE id >> 20 = 1",
                                  due);
    printf("asked %lld ms after it was due, four seconds after the send; the old one at once\n",
           (long long)late_ms);
    cr_assert_geq(late_ms, 0, "not before it is due");
    child_stop(child);
    world_check_books(&w);
    world_close(&w);
}

/* Milliseconds until `calls` requests have come while the provider does this. */
static int64_t time_calls(struct world *w, const char *does, int64_t calls)
{
    answer_receipts(w, does);
    hand_wait_calls(w, 1);
    int64_t from_ms = world_now_ms(), from = simulator_stat(w, "receipts", "calls");
    hand_wait_calls(w, from + calls);
    return (world_now_ms() - from_ms) / calls;
}

/* A fixed interval, whatever is answered; one request at a time, however slow. */
Test(poll, interval)
{
    struct world w;
    hand_open(&w, "poll_interval", 1);
    hand_put_sent(&w, &(struct hand_sent){.batch = 1, .batches = 1, .each = 1, .queued_at = "now()"});
    struct child *child = world_reconciler(&w, "[reconciler]\npoll_interval = 300ms\n");
    int64_t answered_ms = time_calls(&w, "\"status\":200,\"body\":{\"data\":{}}", 8);
    int64_t failing_ms = time_calls(&w, "\"status\":500,\"body\":\"\"", 8);
    int64_t slow_ms = time_calls(&w, "\"delay_ms\":600", 4);
    int64_t together = simulator_stat(&w, "receipts", "concurrent_max");
    printf("poll_interval 300 ms: every %lld ms while it answers, every %lld ms while it fails, every %lld ms"
           " while an answer takes 600 ms; at most %lld request at once\n",
           (long long)answered_ms, (long long)failing_ms, (long long)slow_ms, (long long)together);
    cr_assert_geq(answered_ms, 290, "no sooner than the interval");
    cr_assert_geq(failing_ms, 290);
    cr_assert_lt(failing_ms, 3 * answered_ms, "no backoff: eight doublings would be 30 times as long");
    cr_assert_eq(together, 1);
    HAND_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    child_stop(child);
    world_close(&w);
}

/* 700 tickets in chunks of 300, one of them on two rows of two batches: asked for once, both rows settled.
 * The chunk is at most what the provider takes. */
Test(poll, chunks)
{
    enum { TICKETS = 700, MANY = 2300 };
    struct world w;
    char path[WORLD_PATH_MAX], output[256];
    hand_open(&w, "poll_chunks", 1);
    uint32_t run = simulator_tickets(&w, TICKETS + MANY);
    hand_put_sent(&w, &(struct hand_sent){1, 7, 100, run, 0, "now()"});
    hand_put_sent(&w, &(struct hand_sent){50, 1, 1, run, 350, "now()"}); /* a ticket of batch 4 again */
    struct child *child = ask_once(&w, 300);
    world_wait_count(&w, TICKETS + 1, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    printf("701 rows of 700 tickets: %lld requests, the largest of %lld ids, %lld receipts\n",
           (long long)simulator_stat(&w, "receipts", "calls"),
           (long long)simulator_stat(&w, "receipts", "largest"),
           (long long)simulator_stat(&w, "receipts", "accepted"));
    cr_assert_eq(simulator_stat(&w, "receipts", "calls"), 3);
    cr_assert_eq(simulator_stat(&w, "receipts", "largest"), 300);
    cr_assert_eq(simulator_stat(&w, "receipts", "accepted"), TICKETS, "each ticket once");
    child_stop(child);
    simulator_reset(&w);
    hand_put_sent(&w, &(struct hand_sent){100, 1, MANY, run, TICKETS, "now()"});
    child = ask_once(&w, 1000);
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    printf("%d tickets in chunks of 1000: %lld requests, the largest of %lld ids\n", MANY,
           (long long)simulator_stat(&w, "receipts", "calls"),
           (long long)simulator_stat(&w, "receipts", "largest"));
    cr_assert_eq(simulator_stat(&w, "receipts", "calls"), 3);
    cr_assert_eq(simulator_stat(&w, "receipts", "largest"), 1000);
    cr_assert_eq(simulator_stat(&w, "receipts", "refused"), 0);
    child_stop(child);
    world_write_reconciler_ini(&w, "[reconciler]\nreceipt_chunk = 1001\n", path);
    const char *check[] = {"-F", path, "--check-config", NULL};
    cr_assert_eq(world_run(&w, "src/bin/belfry-reconciler", check, output, sizeof output), 2,
                 "1001 is refused");
    world_check_books(&w);
    world_close(&w);
}

/* Ready in either case; the note comes and goes with the provider's answers. */
static void wait_note(struct child *child, bool there)
{
    char text[512] = "";
    bool found = !there;
    for (int tries = 0; tries < 250 && found != there; tries++) {
        cr_assert_eq(pushes_readyz(child, text, sizeof text), 200, "%s", text);
        found = strstr(text, "gave no receipts") != NULL;
        if (found != there)
            world_sleep_ms(20);
    }
    cr_assert_eq(found, there, "%s", text);
}

/* Older than a day, its receipt is gone; but that is decided by an answer, never by the clock alone. */
Test(poll, max_age)
{
    static const char *const failing[] = {"\"status\":500,\"body\":\"\"",
                                          "\"status\":200,\"body\":{\"data\":[]}", "\"close\":\"reset\"",
                                          "\"status\":429,\"body\":{\"errors\":[]}"};
    struct world w;
    hand_open(&w, "poll_age", 1);
    uint32_t run = simulator_tickets(&w, 2);
    hand_put_sent(&w, &(struct hand_sent){1, 1, 1, run, 0, "now() - interval '25 h'"}); /* still there */
    hand_put_sent(&w, &(struct hand_sent){2, 1, 1, 0, 0, "now() - interval '25 h'"});   /* forgotten */
    hand_put_sent(&w, &(struct hand_sent){3, 1, 1, 0, 7, "now() - interval '25 h'"});
    hand_put_sent(&w, &(struct hand_sent){4, 1, 1, 0, 9, "now() - interval '23 h'"}); /* not yet a day */
    world_exec(&w, "UPDATE dispatches SET ticket = NULL WHERE id >> 20 = 3");         /* nothing to ask for */
    answer_receipts(&w, failing[0]);
    struct child *child = world_reconciler(&w, "[reconciler]\npoll_interval = 200ms\n");
    for (size_t i = 0; i < sizeof failing / sizeof failing[0]; i++) {
        answer_receipts(&w, failing[i]);
        hand_wait_calls(&w, 3);
        HAND_COUNT(&w, 4, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
        wait_note(child, true);
    }
    simulator_reset(&w); /* it answers */
    world_wait_count(&w, 2, "SELECT count(*) FROM dispatches WHERE state = 'expired'");
    world_wait_count(&w, 1, "SELECT count(*) FROM receipt_batches");
    HAND_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE id >> 20 = 1 AND state = 'delivered'");
    HAND_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE id >> 20 = 4 AND state = 'sent'");
    HAND_COUNT(&w, 4, "SELECT count(*) FROM device_tokens WHERE enabled");
    wait_note(child, false);
    printf("4 of 4 stay sent over 12 answers that were none; then 1 delivered, 2 expired, 1 waits\n");
    child_stop(child);
    world_check_books(&w);
    world_close(&w);
}

enum { STALE = 2000, FRESH = 10, LEASED = 64, ROUND = (STALE + LEASED - 1) / LEASED };

/* 2,000 batches whose receipts never come, asked for so slowly that they are due again before the round is
 * over: fresh ones wait for what was due before them, and no longer. */
Test(poll, stale, .timeout = 150)
{
    struct world w;
    char more[64];
    hand_open(&w, "poll_stale", 1);
    uint32_t run = simulator_tickets(&w, 3 * FRESH);
    hand_put_sent(&w, &(struct hand_sent){1, STALE, 1, 0, 0, "now()"});
    answer_receipts(&w, "\"delay_ms\":40");
    struct child *child = world_reconciler(&w, "[reconciler]\npoll_interval = 200ms\nlease = 60s\n");
    for (int i = 0; i < 3; i++) {
        hand_wait_calls(&w, simulator_stat(&w, "receipts", "calls") + ROUND / 2 + 7 * i);
        hand_put_sent(&w, &(struct hand_sent){10000 + 100 * i, FRESH, 1, run, FRESH * i, "now()"});
        int64_t from = simulator_stat(&w, "receipts", "calls");
        snprintf(more, sizeof more, "id >> 20 >= %d", 10000 + 100 * i);
        world_wait_count(&w, FRESH, "SELECT count(*) FROM dispatches WHERE state = 'delivered' AND %s", more);
        int64_t calls = simulator_stat(&w, "receipts", "calls") - from;
        printf("%d fresh among %d stale: settled after %lld requests; a round of the stale has %d\n", FRESH,
               STALE, (long long)calls, ROUND);
        cr_assert_leq(calls, ROUND + 4, "more than one round");
    }
    HAND_COUNT(&w, STALE, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    child_stop(child);
    world_check_books(&w);
    world_close(&w);
}

/* Tickets for which the provider always fails end a pass after three chunks; the next one goes on behind
 * them. */
Test(poll, failing)
{
    enum { BAD = 20, GOOD = 2 };
    struct world w;
    hand_open(&w, "poll_failing", 1);
    hand_put_sent(&w, &(struct hand_sent){1, 1, BAD + GOOD, 0, 0, "now()"});
    world_exec(&w,
               "UPDATE dispatches SET ticket = CASE WHEN id & 1048575 < %d THEN 'bad' ELSE 'good' END ||"
               " '-' || lpad((id & 1048575)::text, 2, '0')",
               BAD);
    simulator_script(&w,
                     "[{\"when\":{\"path\":\"receipts\",\"token\":\"bad\"},\"do\":{\"status\":500,\"body\":"
                     "\"\"}},{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"body\":{\"data\":{"
                     "\"good-20\":{\"status\":\"ok\"},\"good-21\":{\"status\":\"ok\"}}}}}]");
    struct child *child = world_reconciler(&w, "[reconciler]\npoll_interval = 200ms\nreceipt_chunk = 2\n");
    world_wait_count(&w, GOOD, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    printf("%d rows in 11 chunks, of which the first 10 fail: the last is settled after %lld requests\n",
           BAD + GOOD, (long long)simulator_stat(&w, "receipts", "calls"));
    HAND_COUNT(&w, BAD, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    simulator_reset(&w);
    simulator_script(&w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"body\":{\"data\":{"
                         "\"bad-00\":{\"status\":\"ok\"},\"bad-19\":{\"status\":\"ok\"}}}}}");
    world_wait_count(&w, GOOD + 2, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    child_stop(child);
    world_check_books(&w);
    world_close(&w);
}

/* Two reconcilers, one look each at 2,000 rows: they share them, and nobody is asked for twice. */
Test(poll, lease)
{
    enum { BATCHES = 200, EACH = 10 };
    struct world w;
    hand_open(&w, "poll_lease", 1);
    uint32_t run = simulator_tickets(&w, BATCHES * EACH);
    hand_record_transitions(&w);
    answer_receipts(&w, "\"delay_ms\":150");
    static const char *const extra =
        "[reconciler]\npoll_interval = 500ms\nreceipt_chunk = 100\nlease = 60s\n";
    struct child *first = world_reconciler(&w, extra), *second = world_reconciler(&w, extra);
    hand_put_sent(&w, &(struct hand_sent){1, BATCHES, EACH, run, 0, "now()"});
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    static const char *const leased = "belfry_receipt_batches_total{step=\"leased\"}";
    double a = child_metric(first, leased), b = child_metric(second, leased);
    int64_t together = simulator_stat(&w, "receipts", "concurrent_max");
    printf("%d batches: %.0f leased by one, %.0f by the other; %lld requests, %lld at once, %lld receipts\n",
           BATCHES, a, b, (long long)simulator_stat(&w, "receipts", "calls"), (long long)together,
           (long long)simulator_stat(&w, "receipts", "accepted"));
    cr_assert(a > 0 && b > 0, "both work");
    cr_assert_eq((int)(a + b), BATCHES);
    cr_assert_eq(together, 2, "one request each");
    cr_assert_eq(simulator_stat(&w, "receipts", "accepted"), BATCHES * EACH, "nobody is asked for twice");
    HAND_COUNT(&w, BATCHES * EACH, "SELECT count(*) FROM transitions");
    child_stop(first);
    child_stop(second);
    world_check_books(&w);
    world_close(&w);
}
