/* The real belfry-reconciler against a real Kafka, a real Postgres and the simulator. The dispatcher's part
 * is played by hand: rows put in, outcomes produced, so that each case has exactly the input it names. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hand.h"

enum { JSON_MAX = 1024 };

/* REC-01: receipts in another order than asked, one never asked for, one ticket on two rows. */
Test(cases, rec_01)
{
    struct world w;
    hand_open(&w, "rec_01", 1);
    simulator_script(
        &w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"body\":{\"data\":{"
            "\"r3\":{\"status\":\"ok\"},\"never-asked\":{\"status\":\"error\",\"message\":\"x\",\"details\":"
            "{\"error\":\"DeviceNotRegistered\"}},\"r1\":{\"status\":\"ok\"},\"r2\":{\"status\":\"error\","
            "\"message\":\"gone\",\"details\":{\"error\":\"DeviceNotRegistered\"}}}}}}");
    hand_batch(&w, 1, 4, "now() - interval '1 min'");
    struct child *reconciler = world_reconciler(&w, NULL);
    hand_tell(&w, hand_id(1, 0), "sent", "r1");
    hand_tell(&w, hand_id(1, 1), "sent", "r2");
    hand_tell(&w, hand_id(1, 2), "sent", "r3");
    hand_tell(&w, hand_id(1, 3), "sent", "r1");
    world_flush(&w);
    world_wait_count(&w, 3, "SELECT count(*) FROM dispatches WHERE state = 'delivered' AND error IS NULL");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    HAND_COUNT(&w, 1,
               "SELECT count(*) FROM dispatches WHERE id = %lld AND state = 'receipt_error' AND error ="
               " 'DeviceNotRegistered'",
               hand_id(1, 1));
    HAND_COUNT(&w, hand_id(1, 1), "SELECT sum(id) FROM device_tokens WHERE NOT enabled");
    child_wait_log(reconciler, "RECEIPT-UNASKED", 5);
    cr_assert_eq(simulator_stat(&w, "receipts", "largest"), 3, "r1 is asked once, though two rows have it");
    printf("asked %lld times for at most %lld ids; 3 delivered, 1 receipt_error, 1 device off\n",
           (long long)simulator_stat(&w, "receipts", "calls"),
           (long long)simulator_stat(&w, "receipts", "largest"));
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* Lets the poller meet an answer twice, then asserts that nothing has changed. */
static void poll_twice(struct world *w, const char *answer, int sent)
{
    char rule[JSON_MAX];
    snprintf(rule, sizeof rule, "{\"when\":{\"path\":\"receipts\"},\"do\":{%s}}", answer);
    simulator_reset(w);
    simulator_script(w, rule);
    hand_wait_calls(w, 2);
    world_sleep_ms(100);
    HAND_COUNT(w, sent, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    HAND_COUNT(w, 0, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    printf("still %d sent after two answers with %s\n", sent, answer);
}

/* Tickets that the provider refuses to look at hold up nobody: they are halved out, and age settles them. */
Test(reconciler, refused_tickets, .timeout = 120)
{
    struct world w;
    char ticket[16];
    hand_open(&w, "refused", 1);
    simulator_script(
        &w,
        "[{\"when\":{\"path\":\"receipts\",\"token\":\"bad\"},\"do\":{\"status\":400,\"body\":{\"errors\":["
        "{\"code\":\"VALIDATION_ERROR\",\"message\":\"x\",\"isTransient\":false}]}}},"
        "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"body\":{\"data\":{"
        "\"good-6\":{\"status\":\"ok\"},\"good-7\":{\"status\":\"ok\"},\"good-8\":{\"status\":\"ok\"}}}}}]");
    hand_batch(&w, 1, 9, "now() - interval '25 h'");
    for (int i = 0; i < 9; i++) {
        snprintf(ticket, sizeof ticket, "%s-%d", i < 6 ? "bad" : "good", i);
        hand_tell(&w, hand_id(1, i), "sent", ticket);
    }
    world_flush(&w);
    struct child *reconciler = world_reconciler(&w, "[reconciler]\nreceipt_chunk = 2\n");
    world_wait_count(&w, 3, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(&w, 6, "SELECT count(*) FROM dispatches WHERE state = 'expired'");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    printf("9 tickets in chunks of 2, 6 of them refused: 3 delivered, 6 expired after %lld requests\n",
           (long long)simulator_stat(&w, "receipts", "calls"));
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* REC-02: answers that say nothing change nothing; an old ticket expires only after one that was an answer.
 */
Test(cases, rec_02)
{
    static const char *const failures[] = {
        "\"status\":200,\"body\":{\"data\":[]}",
        "\"status\":200,\"body\":{\"errors\":[{\"code\":\"X\",\"message\":\"y\"}]}",
        "\"status\":200,\"body\":\"{\\\"data\\\":{\\\"r1\\\":{\\\"status\\\":\\\"ok\\\"}\"", /* cut JSON */
        "\"status\":200,\"body\":\"<html>ok</html>\",\"content_type\":\"text/html\"",
        "\"status\":200,\"body\":{\"data\":\"r1\"}",
        "\"status\":500,\"body\":\"\"",
        "\"status\":502,\"body\":\"<html>bad gateway</html>\"",
        "\"status\":401,\"body\":{\"errors\":[{\"code\":\"UNAUTHORIZED\",\"message\":\"no\"}]}",
        "\"status\":429,\"body\":{\"errors\":[{\"code\":\"TOO_MANY_REQUESTS\",\"message\":\"slow\"}]}",
        "\"close\":\"mid_body\"",
        "\"close\":\"reset\""};
    struct world w;
    hand_open(&w, "rec_02", 1);
    hand_batch(&w, 1, 3, "now() - interval '1 min'");
    hand_batch(&w, 2, 2, "now() - interval '25 h'");
    simulator_script(&w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":500,\"body\":\"\"}}");
    struct child *reconciler =
        world_reconciler(&w, "[reconciler]\nreceipt_delay = 0\npoll_interval = 200ms\n");
    for (int i = 0; i < 3; i++) {
        char ticket[8];
        snprintf(ticket, sizeof ticket, "r%d", i + 1);
        hand_tell(&w, hand_id(1, i), "sent", ticket);
    }
    hand_tell(&w, hand_id(2, 0), "sent", "old");
    hand_tell(&w, hand_id(2, 1), "sent", ""); /* accepted without a ticket id: nothing to ask */
    hand_drained(&w);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++)
        poll_twice(&w, failures[i], 5);
    HAND_COUNT(&w, 2, "SELECT count(*) FROM receipt_batches");
    /* An answer with nothing in it: the two of yesterday expire, the young ones wait. */
    simulator_reset(&w);
    simulator_script(&w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"body\":{\"data\":{}}}}");
    world_wait_count(&w, 2, "SELECT count(*) FROM dispatches WHERE state = 'expired' AND id >= %lld",
                     hand_id(2, 0));
    world_wait_count(&w, 1, "SELECT count(*) FROM receipt_batches");
    poll_twice(&w, "\"status\":200,\"body\":{\"data\":{}}", 3);
    poll_twice(&w, "\"status\":200,\"body\":{\"data\":{\"r1\":null}}", 3);
    simulator_reset(&w);
    simulator_script(
        &w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"body\":{\"data\":{\"r1\":{\"status\":"
            "\"ok\"},\"r2\":{\"status\":\"ok\"},\"r3\":{\"status\":\"ok\"}}}}}");
    world_wait_count(&w, 3, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* REC-06: two reconcilers, 1,000 sent rows, one killed half way between an answer and its transaction. */
Test(cases, rec_06)
{
    enum { BATCHES = 100, EACH = 10, ALL = BATCHES * EACH };
    struct world w;
    hand_open(&w, "rec_06", 2);
    hand_record_transitions(&w);
    for (int batch = 1; batch <= BATCHES; batch++)
        hand_batch(&w, batch, EACH, "now() - interval '1 min'");
    static const char *const extra =
        "[reconciler]\nreceipt_chunk = 20\nreceipt_delay = 0\npoll_interval = 300ms\n"
        "lease = 2s\n";
    for (int batch = 1; batch <= BATCHES; batch++)
        hand_send(&w, batch, EACH);
    world_flush(&w);
    struct child *first = world_reconciler_crash(&w, extra, "poll:5");
    struct child *second = world_reconciler(&w, extra);
    cr_assert_eq(child_wait(first, 60), 128 + SIGKILL);
    int64_t left = world_count(&w, "SELECT count(*) FROM dispatches WHERE state <> 'delivered'");
    world_wait_count(&w, ALL, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    HAND_COUNT(&w, ALL, "SELECT count(*) FROM transitions WHERE to_state = 'delivered'");
    HAND_COUNT(&w, ALL, "SELECT count(*) FROM transitions WHERE to_state = 'sent'");
    HAND_COUNT(&w, ALL, "SELECT count(DISTINCT id) FROM transitions WHERE to_state = 'delivered'");
    hand_drained(&w);
    printf("killed with %lld of %d rows not settled; all settled once, %lld requests, %lld ids asked\n",
           (long long)left, ALL, (long long)simulator_stat(&w, "receipts", "calls"),
           (long long)simulator_stat(&w, "receipts", "accepted"));
    child_stop(second);
    world_check_books(&w);
    world_close(&w);
}

/* kill -9 before the statement, after it, and between an answer and its transaction: nothing lost or doubled.
 */
Test(reconciler, crash_points)
{
    enum { BATCHES = 10, EACH = 10 };
    static const char *const points[] = {"drain", "drained", "poll", "take:3", "parse", "lease:2", "finish"};
    enum { POINTS = sizeof points / sizeof points[0] };
    struct world w;
    hand_open(&w, "rec_crash", 2);
    hand_record_transitions(&w);
    static const char *const extra = "[reconciler]\nreceipt_delay = 0\npoll_interval = 200ms\nlease = 1s\n";
    int batch = 0, all = 0;
    for (int i = 0; i < POINTS; i++) {
        for (int k = 0; k < BATCHES; k++) {
            hand_batch(&w, ++batch, EACH, "now() - interval '1 min'");
            hand_send(&w, batch, EACH);
            all += EACH;
        }
        world_flush(&w);
        struct child *child = world_reconciler_crash(&w, extra, points[i]);
        cr_assert_eq(child_wait(child, 60), 128 + SIGKILL, "%s", points[i]);
    }
    struct child *child = world_reconciler(&w, extra);
    world_wait_count(&w, all, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    hand_drained(&w);
    HAND_COUNT(&w, 2 * (int64_t)all, "SELECT count(*) FROM transitions");
    int64_t read =
        world_count(&w, "SELECT sum(records) FROM partition_offsets WHERE topic = '%s'", w.receipts);
    cr_assert(read >= all); /* what was committed here and not yet in Kafka is read twice */
    printf("%d crash points, %d dispatches, %lld records read: each sent once and delivered once\n", POINTS,
           all, (long long)read);
    child_stop(child);
    world_check_books(&w);
    world_close(&w);
}

/* Records of every reason, in partition 0 in this order; the last one is the database's to refuse. */
static const struct {
    const char *code, *value;
} letters[] = {{"json", "this-is-not-json {{{"},
               {"json", "{\"v\":1,\"v\":1}"},
               {"json", ""},
               {"not_object", "[1]"},
               {"field", "{\"v\":2}"},
               {"field", "{\"v\":1,\"dispatch_id\":1048576}"}, /* ids are strings */
               {"nul", "{\"v\":1,\"error\":\"a\\u0000b\"}"},
               {"sqlstate", NULL}};
enum { LETTERS = sizeof letters / sizeof letters[0] };

struct read_letters {
    const struct world *w;
    int seen[128]; /* by origin offset */
};

static const char *header_of(const struct world_record *record, const char *name)
{
    for (int i = 0; i < record->header_count; i++) {
        if (strcmp(record->headers[i].name, name) == 0)
            return record->headers[i].value;
    }
    return "";
}

static void check_letter(void *context, const struct world_record *record)
{
    struct read_letters *read = context;
    long offset = strtol(header_of(record, "belfry.origin.offset"), NULL, 10);
    cr_assert(offset >= 0 && offset < 128);
    read->seen[offset]++;
    if (offset % 10 != 0 || offset / 10 >= LETTERS)
        return; /* not one of the list: cr_asserts on the count see it */
    const char *code = header_of(record, "belfry.error.code");
    printf("offset %2ld: %-10s %s\n", offset, code, header_of(record, "belfry.error.message"));
    cr_assert_str_eq(code, letters[offset / 10].code);
    cr_assert_str_eq(header_of(record, "belfry.origin.topic"), read->w->receipts);
    cr_assert_str_eq(header_of(record, "belfry.origin.partition"), "0");
    if (letters[offset / 10].value == NULL)
        return;
    cr_assert_str_eq(record->key, "key");
    cr_assert_str_eq(record->value, letters[offset / 10].value);
}

/* Records nobody can read, and one that the database refuses, each between nine good ones: to the dead
 * letters with its reason, once each, and passed; not seen again after a restart. */
Test(reconciler, dead_letters)
{
    enum { GOOD = 9 * LETTERS };
    struct world w;
    char ticket[16];
    hand_open(&w, "rec_dlq", 1);
    hand_batch(&w, 1, GOOD + 1, "now() - interval '1 min'");
    world_exec(&w, "ALTER TABLE dispatches ADD CONSTRAINT no_poison CHECK (ticket <> 'poison')");
    for (int i = 0; i < LETTERS; i++) {
        if (letters[i].value != NULL)
            world_produce_fast(&w, w.receipts, 0, "key", letters[i].value);
        else
            hand_tell(&w, hand_id(1, GOOD), "sent", "poison");
        for (int k = 0; k < 9; k++) {
            snprintf(ticket, sizeof ticket, "ok-%d-%d", i, k);
            hand_tell(&w, hand_id(1, i * 9 + k), "sent", ticket);
        }
    }
    world_produce_fast(&w, w.receipts, 0, "key", NULL);
    world_flush(&w);
    struct child *reconciler =
        world_reconciler(&w, "[reconciler]\npoll_interval = 60s\nreceipt_delay = 1h\n");
    hand_drained(&w);
    HAND_COUNT(&w, GOOD, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    HAND_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE state = 'queued'");
    HAND_COUNT(&w, LETTERS, "SELECT sum(dead_letters) FROM partition_offsets WHERE topic = '%s'", w.receipts);
    HAND_COUNT(&w, 1, "SELECT sum(tombstones) FROM partition_offsets WHERE topic = '%s'", w.receipts);
    HAND_COUNT(&w, 10 * LETTERS + 1, "SELECT sum(records) FROM partition_offsets WHERE topic = '%s'",
               w.receipts);
    child_stop(reconciler);
    reconciler = world_reconciler(&w, NULL);
    hand_drained(&w);
    struct read_letters read = {.w = &w, .seen = {0}};
    world_read_topic(&w, w.receipts_dlq, check_letter, &read);
    cr_assert_eq(world_topic_records(&w, w.receipts_dlq), LETTERS, "once each, not again after a restart");
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* SIGTERM ends a waiting poll, and drops an open request for receipts; the batch is due at once for others.
 */
Test(reconciler, leaves_at_once)
{
    struct world w;
    hand_open(&w, "rec_leave", 1);
    hand_batch(&w, 1, 1, "now() - interval '1 min'");
    struct child *child =
        world_reconciler(&w, "[reconciler]\npoll_interval = 60s\n[run]\nshutdown_timeout = 25s\n");
    world_sleep_ms(500);
    int64_t from_ms = world_now_ms();
    child_stop(child);
    int64_t waiting_ms = world_now_ms() - from_ms;
    simulator_script(&w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"hang_ms\":20000}}");
    child = world_reconciler(&w, "[reconciler]\nreceipt_delay = 0\npoll_interval = 100ms\nlease = 60s\n"
                                 "[provider]\nrequest_timeout = 20s\n");
    hand_tell(&w, hand_id(1, 0), "sent", "r1");
    hand_drained(&w);
    hand_wait_calls(&w, 1);
    from_ms = world_now_ms();
    child_stop(child);
    int64_t asking_ms = world_now_ms() - from_ms;
    printf("left in %lld ms while waiting for the next poll, in %lld ms with a request open\n",
           (long long)waiting_ms, (long long)asking_ms);
    cr_assert(waiting_ms < 1000 && asking_ms < 1000, "issue 5 promises less than a second");
    HAND_COUNT(&w, 1, "SELECT count(*) FROM receipt_batches WHERE leased_until IS NULL AND due_at <= now()");
    HAND_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    world_check_books(&w);
    world_close(&w);
}

/* The bound follows the clock while nobody writes, and waits for who does. */
Test(reconciler, settles)
{
    struct world w;
    hand_open(&w, "rec_settle", 1);
    struct child *child = world_reconciler(&w, NULL);
    world_wait_count(&w, 1, "SELECT count(*) FROM settled WHERE bound > now() - interval '2 s'");
    world_exec(&w, "BEGIN; INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title,"
                   " created_at) VALUES (gen_random_uuid(), 'w', 'u', 't', 'x', clock_timestamp())");
    world_sleep_ms(1500);
    HAND_COUNT(&w, 1, "SELECT count(*) FROM settled s, notifications n WHERE s.bound <= n.created_at");
    world_exec(&w, "ROLLBACK");
    world_wait_count(&w, 1, "SELECT count(*) FROM settled WHERE bound > now() - interval '1 s'");
    child_stop(child);
    world_close(&w);
}

/* A server of the test's own, so that it can go away. */
static void run_postgres(struct world *w, const char *command, const char *mode, char *output, size_t size)
{
    char script[WORLD_PATH_MAX + 64], folder[WORLD_PATH_MAX + 16];
    snprintf(script, sizeof script, "%s/tests/support/postgres", BELFRY_SOURCE_DIR);
    snprintf(folder, sizeof folder, "%s/postgres", w->folder);
    const char *argv[] = {command, folder, mode, NULL};
    cr_assert_eq(world_run(w, script, argv, output, size), 0);
}

/* Postgres goes away at once and comes back: not ready meanwhile, and nothing is lost or told twice. */
Test(reconciler, database_away)
{
    struct world w;
    char uri[256], url[128];
    struct world_reply reply;
    world_open(&w, "rec_away");
    run_postgres(&w, "start", NULL, uri, sizeof uri);
    uri[strcspn(uri, "\r\n")] = '\0';
    world_use_server(&w, uri);
    world_database(&w);
    world_topics(&w, 2);
    world_simulator(&w, NULL);
    for (int batch = 1; batch <= 20; batch++)
        hand_batch(&w, batch, 10, "now() - interval '1 min'");
    struct child *child = world_reconciler(&w, "[reconciler]\nreceipt_delay = 0\npoll_interval = 300ms\n");
    for (int batch = 1; batch <= 10; batch++)
        hand_send(&w, batch, 10);
    world_wait_count(&w, 100, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    run_postgres(&w, "stop", "immediate", NULL, 0);
    for (int batch = 11; batch <= 20; batch++)
        hand_send(&w, batch, 10);
    world_flush(&w);
    child_wait_log(child, "REC-RETRY", 20);
    snprintf(url, sizeof url, "http://%s/readyz", child->admin);
    world_sleep_ms(3000);
    world_http("GET", url, NULL, NULL, &reply);
    cr_assert_eq(reply.status, 503, "%s", reply.body);
    printf("away:\n%s", reply.body);
    world_reply_done(&reply);
    run_postgres(&w, "start", NULL, NULL, 0);
    world_reconnect(&w);
    world_wait_count(&w, 200, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    child_wait_ready(child, 20);
    hand_drained(&w);
    run_postgres(&w, "stop", "immediate", NULL, 0);
    world_sleep_ms(500);
    int64_t from_ms = world_now_ms();
    child_stop(child); /* also leaves in good time without a database */
    printf("left in %lld ms with the database away\n", (long long)(world_now_ms() - from_ms));
    run_postgres(&w, "start", NULL, NULL, 0);
    world_reconnect(&w);
    world_check_books(&w);
    world_close(&w);
    run_postgres(&w, "stop", "immediate", NULL, 0);
}

/* What cannot work is said: the exit code of a schema that is not there, a missing dead-letter topic. */
Test(reconciler, refuses_what_it_cannot_use)
{
    struct world w;
    char path[WORLD_PATH_MAX], output[256];
    hand_open(&w, "rec_refuse", 1);
    world_write_reconciler_ini(&w, "[kafka]\nenable.auto.commit = true\n", path);
    const char *check[] = {"-F", path, "--check-config", NULL};
    cr_assert_eq(world_run(&w, "src/bin/belfry-reconciler", check, output, sizeof output), 2);
    world_exec(&w, "UPDATE schema_version SET oldest_ok = 1000 WHERE version = (SELECT max(version) FROM "
                   "schema_version)");
    world_write_reconciler_ini(&w, NULL, path);
    const char *serve[] = {"-F", path, NULL};
    cr_assert_eq(world_run(&w, "src/bin/belfry-reconciler", serve, output, sizeof output), 4);
    world_exec(&w, "UPDATE schema_version SET oldest_ok = 1");
    int port = world_free_port();
    snprintf(output, sizeof output,
             "[topics]\nreceipts_dlq = belfry.no.such.topic\n[admin]\nlisten = 127.0.0.1:%d\n", port);
    world_write_reconciler_ini(&w, output, path);
    struct child *child = child_start(&w, "src/bin/belfry-reconciler", serve, NULL);
    child_wait_log(child, "REC-STOP", 20);
    struct world_reply reply = {0};
    snprintf(output, sizeof output, "http://127.0.0.1:%d/readyz", port);
    world_http("GET", output, NULL, NULL, &reply);
    cr_assert_eq(reply.status, 503);
    cr_assert_not_null(strstr(reply.body, "topic belfry.no.such.topic is missing"), "%s", reply.body);
    world_reply_done(&reply);
    /* The readers' bound does not wait for that topic. */
    char bound[64];
    world_text(&w, bound, sizeof bound, "SELECT bound FROM settled");
    world_wait_count(&w, 1, "SELECT count(*) FROM settled WHERE bound > '%s'", bound);
    child_stop(child);
    world_close(&w);
}
