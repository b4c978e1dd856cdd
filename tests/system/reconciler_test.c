/* The real belfry-reconciler against a real Kafka, a real Postgres and the simulator. The dispatcher's part
 * is played by hand: rows put in, outcomes produced, so that each case has exactly the input it names. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { JSON_MAX = 1024 };

/* count queued dispatches in one batch, each with a device and a user of its own, and the books to match.
 * Dispatch (batch << 20) + n is of device and user of the same number. */
static void put_batch(struct world *w, int batch, int count, const char *queued_at)
{
    long long first = (long long)batch << 20, last = first + count - 1;
    world_exec(w,
               "INSERT INTO device_tokens (id, token, user_id, platform, registered_at, last_seen, source_at)"
               " SELECT d, 'ExponentPushToken[' || d || ']', 'u' || d, 'ios', x, x, x FROM"
               " generate_series(%lld, %lld) d, (SELECT timestamptz '2026-01-01') t (x)",
               first, last);
    world_exec(
        w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at,"
        " batch_id) SELECT lpad(to_hex(d), 32, '0')::uuid, 'w', 'u' || d, 't', 'title',"
        " clock_timestamp(), %d FROM generate_series(%lld, %lld) d",
        batch, first, last);
    world_exec(w,
               "INSERT INTO dispatches (id, notification_id, device_id, queued_at, updated_at) SELECT d,"
               " lpad(to_hex(d), 32, '0')::uuid, d, %s, %s FROM generate_series(%lld, %lld) d",
               queued_at, queued_at, first, last);
    world_exec(w,
               "INSERT INTO partition_offsets AS o (group_id, topic, partition, records, events, recipients,"
               " notifications, dispatches) VALUES ('hand', 'hand', %d, %d, %d, %d, %d, %d)",
               batch, count, count, count, count, count);
}

static long long id_of(int batch, int ordinal)
{
    return ((long long)batch << 20) + ordinal;
}

/* Tells the reconciler an outcome. text: the ticket of a `sent` ("" : none), else the error. */
static void tell(struct world *w, long long id, const char *outcome, const char *text)
{
    char json[JSON_MAX], key[32], member[256] = "";
    bool sent = strcmp(outcome, "sent") == 0;
    if (text[0] != '\0')
        snprintf(member, sizeof member, ",\"%s\":\"%s\"", sent ? "ticket" : "error", text);
    snprintf(
        json, sizeof json,
        "{\"v\":1,\"dispatch_id\":\"%lld\",\"notification_id\":\"00000000-0000-0000-%04llx-%012llx\","
        "\"workspace_id\":\"w\",\"recipient_user_id\":\"u%lld\",\"device_id\":\"%lld\",\"outcome\":\"%s\"%s,"
        "\"attempt\":1,\"at\":\"2026-11-30T12:00:00.000000Z\"}",
        id, (unsigned long long)id >> 48, (unsigned long long)id & 0xffffffffffffULL, id, id, outcome,
        member);
    snprintf(key, sizeof key, "%lld", id >> 20);
    world_produce_fast(w, w->receipts, -1, key, json);
}

static void open_world(struct world *w, const char *name, int partitions)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, partitions);
    world_simulator(w, NULL);
}

static void wait_drained(struct world *w)
{
    world_flush(w);
    world_wait_drained(w, w->reconciler_group, w->receipts, 60);
}

#define ASSERT_COUNT(w, n, ...) cr_assert_eq(world_count(w, __VA_ARGS__), n, "%s", #__VA_ARGS__)

/* REC-01: receipts in another order than asked, one never asked for, one ticket on two rows. */
Test(cases, rec_01)
{
    struct world w;
    open_world(&w, "rec_01", 1);
    simulator_script(
        &w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"body\":{\"data\":{"
            "\"r3\":{\"status\":\"ok\"},\"never-asked\":{\"status\":\"error\",\"message\":\"x\",\"details\":"
            "{\"error\":\"DeviceNotRegistered\"}},\"r1\":{\"status\":\"ok\"},\"r2\":{\"status\":\"error\","
            "\"message\":\"gone\",\"details\":{\"error\":\"DeviceNotRegistered\"}}}}}}");
    put_batch(&w, 1, 4, "now() - interval '1 min'");
    struct child *reconciler = world_reconciler(&w, NULL);
    tell(&w, id_of(1, 0), "sent", "r1");
    tell(&w, id_of(1, 1), "sent", "r2");
    tell(&w, id_of(1, 2), "sent", "r3");
    tell(&w, id_of(1, 3), "sent", "r1");
    world_flush(&w);
    world_wait_count(&w, 3, "SELECT count(*) FROM dispatches WHERE state = 'delivered' AND error IS NULL");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    ASSERT_COUNT(&w, 1,
                 "SELECT count(*) FROM dispatches WHERE id = %lld AND state = 'receipt_error' AND error ="
                 " 'DeviceNotRegistered'",
                 id_of(1, 1));
    ASSERT_COUNT(&w, id_of(1, 1), "SELECT sum(id) FROM device_tokens WHERE NOT enabled");
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
    int64_t deadline = world_now_ms() + 20000;
    while (simulator_stat(w, "receipts", "calls") < 2) {
        cr_assert(world_now_ms() < deadline, "no polls: %s", answer);
        world_sleep_ms(20);
    }
    world_sleep_ms(100);
    ASSERT_COUNT(w, sent, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    ASSERT_COUNT(w, 0, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    printf("still %d sent after two answers with %s\n", sent, answer);
}

/* Tickets that the provider refuses to look at hold up nobody: they are halved out, and age settles them. */
Test(reconciler, refused_tickets, .timeout = 120)
{
    struct world w;
    char ticket[16];
    open_world(&w, "refused", 1);
    simulator_script(
        &w,
        "[{\"when\":{\"path\":\"receipts\",\"token\":\"bad\"},\"do\":{\"status\":400,\"body\":{\"errors\":["
        "{\"code\":\"VALIDATION_ERROR\",\"message\":\"x\",\"isTransient\":false}]}}},"
        "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"body\":{\"data\":{"
        "\"good-6\":{\"status\":\"ok\"},\"good-7\":{\"status\":\"ok\"},\"good-8\":{\"status\":\"ok\"}}}}}]");
    put_batch(&w, 1, 9, "now() - interval '25 h'");
    for (int i = 0; i < 9; i++) {
        snprintf(ticket, sizeof ticket, "%s-%d", i < 6 ? "bad" : "good", i);
        tell(&w, id_of(1, i), "sent", ticket);
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
    open_world(&w, "rec_02", 1);
    put_batch(&w, 1, 3, "now() - interval '1 min'");
    put_batch(&w, 2, 2, "now() - interval '25 h'");
    simulator_script(&w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":500,\"body\":\"\"}}");
    struct child *reconciler =
        world_reconciler(&w, "[reconciler]\nreceipt_delay = 0\npoll_interval = 200ms\n");
    for (int i = 0; i < 3; i++) {
        char ticket[8];
        snprintf(ticket, sizeof ticket, "r%d", i + 1);
        tell(&w, id_of(1, i), "sent", ticket);
    }
    tell(&w, id_of(2, 0), "sent", "old");
    tell(&w, id_of(2, 1), "sent", ""); /* accepted without a ticket id: nothing to ask */
    wait_drained(&w);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++)
        poll_twice(&w, failures[i], 5);
    ASSERT_COUNT(&w, 2, "SELECT count(*) FROM receipt_batches");
    /* An answer with nothing in it: the two of yesterday expire, the young ones wait. */
    simulator_reset(&w);
    simulator_script(&w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":200,\"body\":{\"data\":{}}}}");
    world_wait_count(&w, 2, "SELECT count(*) FROM dispatches WHERE state = 'expired' AND id >= %lld",
                     id_of(2, 0));
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

/* Sends to the simulator what the dispatcher would, and tells the tickets. */
static void send_and_tell(struct world *w, int batch, int count)
{
    char url[256], body[16384] = "[";
    for (int i = 0; i < count; i++) {
        size_t at = strlen(body);
        snprintf(body + at, sizeof body - at, "%s{\"to\":\"ExponentPushToken[%lld]\",\"title\":\"t\"}",
                 i > 0 ? "," : "", id_of(batch, i));
    }
    snprintf(body + strlen(body), sizeof body - strlen(body), "]");
    snprintf(url, sizeof url, "%s/--/api/v2/push/send", w->provider_url);
    const char *headers[] = {"Content-Type: application/json", NULL};
    struct world_reply reply;
    world_http("POST", url, headers, body, &reply);
    cr_assert_eq(reply.status, 200, "%s", reply.body);
    const char *at = reply.body;
    for (int i = 0; i < count; i++) {
        char ticket[80];
        at = strstr(at, "\"id\":");
        cr_assert_not_null(at, "ticket %d in %s", i, reply.body);
        at = strchr(at + 5, '"') + 1;
        snprintf(ticket, sizeof ticket, "%.*s", (int)strcspn(at, "\""), at);
        tell(w, id_of(batch, i), "sent", ticket);
    }
    world_reply_done(&reply);
}

/* Every change of a dispatch's state, so that "once" can be counted. */
static void record_transitions(struct world *w)
{
    world_exec(w, "CREATE TABLE transitions (id bigint, from_state text, to_state text)");
    world_exec(
        w, "CREATE FUNCTION note() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS 'BEGIN INSERT INTO"
           " transitions VALUES (OLD.id, OLD.state, NEW.state); RETURN NULL; END'");
    world_exec(w, "CREATE TRIGGER note AFTER UPDATE ON dispatches FOR EACH ROW EXECUTE FUNCTION note()");
}

/* REC-06: two reconcilers, 1,000 sent rows, one killed half way between an answer and its transaction. */
Test(cases, rec_06)
{
    enum { BATCHES = 100, EACH = 10, ALL = BATCHES * EACH };
    struct world w;
    open_world(&w, "rec_06", 2);
    record_transitions(&w);
    for (int batch = 1; batch <= BATCHES; batch++)
        put_batch(&w, batch, EACH, "now() - interval '1 min'");
    static const char *const extra =
        "[reconciler]\nreceipt_chunk = 20\nreceipt_delay = 0\npoll_interval = 300ms\n"
        "lease = 2s\n";
    for (int batch = 1; batch <= BATCHES; batch++)
        send_and_tell(&w, batch, EACH);
    world_flush(&w);
    struct child *first = world_reconciler_crash(&w, extra, "poll:5");
    struct child *second = world_reconciler(&w, extra);
    cr_assert_eq(child_wait(first, 60), 128 + SIGKILL);
    int64_t left = world_count(&w, "SELECT count(*) FROM dispatches WHERE state <> 'delivered'");
    world_wait_count(&w, ALL, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    ASSERT_COUNT(&w, ALL, "SELECT count(*) FROM transitions WHERE to_state = 'delivered'");
    ASSERT_COUNT(&w, ALL, "SELECT count(*) FROM transitions WHERE to_state = 'sent'");
    ASSERT_COUNT(&w, ALL, "SELECT count(DISTINCT id) FROM transitions WHERE to_state = 'delivered'");
    wait_drained(&w);
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
    open_world(&w, "rec_crash", 2);
    record_transitions(&w);
    static const char *const extra = "[reconciler]\nreceipt_delay = 0\npoll_interval = 200ms\nlease = 1s\n";
    int batch = 0, all = 0;
    for (int i = 0; i < POINTS; i++) {
        for (int k = 0; k < BATCHES; k++) {
            put_batch(&w, ++batch, EACH, "now() - interval '1 min'");
            send_and_tell(&w, batch, EACH);
            all += EACH;
        }
        world_flush(&w);
        struct child *child = world_reconciler_crash(&w, extra, points[i]);
        cr_assert_eq(child_wait(child, 60), 128 + SIGKILL, "%s", points[i]);
    }
    struct child *child = world_reconciler(&w, extra);
    world_wait_count(&w, all, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    wait_drained(&w);
    ASSERT_COUNT(&w, 2 * (int64_t)all, "SELECT count(*) FROM transitions");
    int64_t read =
        world_count(&w, "SELECT sum(records) FROM partition_offsets WHERE topic = '%s'", w.receipts);
    cr_assert(read >= all); /* what was committed here and not yet in Kafka is read twice */
    printf("%d crash points, %d dispatches, %lld records read: each sent once and delivered once\n", POINTS,
           all, (long long)read);
    child_stop(child);
    world_check_books(&w);
    world_close(&w);
}

/* Records nobody can read, and one that the database refuses: to the dead letters, each once, and passed. */
Test(reconciler, dead_letters)
{
    struct world w;
    open_world(&w, "rec_dlq", 2);
    put_batch(&w, 1, 40, "now() - interval '1 min'");
    world_exec(&w, "ALTER TABLE dispatches ADD CONSTRAINT no_poison CHECK (ticket <> 'poison')");
    struct child *reconciler = world_reconciler(&w, NULL);
    for (int i = 0; i < 40; i++) {
        char ticket[16];
        snprintf(ticket, sizeof ticket, "ok-%d", i);
        tell(&w, id_of(1, i), "sent", i == 17 || i == 31 ? "poison" : ticket);
        if (i % 10 == 0)
            world_produce_fast(&w, w.receipts, -1, "1", "this-is-not-json {{{");
        if (i % 20 == 0)
            world_produce_fast(&w, w.receipts, -1, "1", NULL);
    }
    wait_drained(&w);
    ASSERT_COUNT(&w, 38, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    ASSERT_COUNT(&w, 2, "SELECT count(*) FROM dispatches WHERE state = 'queued'");
    ASSERT_COUNT(&w, 6, "SELECT sum(dead_letters) FROM partition_offsets WHERE topic = '%s'", w.receipts);
    ASSERT_COUNT(&w, 2, "SELECT sum(tombstones) FROM partition_offsets WHERE topic = '%s'", w.receipts);
    cr_assert_eq(world_topic_records(&w, w.receipts_dlq), 6);
    child_stop(reconciler);
    reconciler = world_reconciler(&w, NULL);
    wait_drained(&w);
    cr_assert_eq(world_topic_records(&w, w.receipts_dlq), 6, "not seen again after a restart");
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* SIGTERM ends a waiting poll, and drops an open request for receipts; the batch is due at once for others.
 */
Test(reconciler, leaves_at_once)
{
    struct world w;
    open_world(&w, "rec_leave", 1);
    put_batch(&w, 1, 1, "now() - interval '1 min'");
    struct child *child =
        world_reconciler(&w, "[reconciler]\npoll_interval = 60s\n[run]\nshutdown_timeout = 25s\n");
    world_sleep_ms(500);
    int64_t from_ms = world_now_ms();
    child_stop(child);
    int64_t waiting_ms = world_now_ms() - from_ms;
    simulator_script(&w, "{\"when\":{\"path\":\"receipts\"},\"do\":{\"hang_ms\":20000}}");
    child = world_reconciler(&w, "[reconciler]\nreceipt_delay = 0\npoll_interval = 100ms\nlease = 60s\n"
                                 "[provider]\nrequest_timeout = 20s\n");
    tell(&w, id_of(1, 0), "sent", "r1");
    wait_drained(&w);
    int64_t deadline = world_now_ms() + 20000;
    while (simulator_stat(&w, "receipts", "calls") < 1) {
        cr_assert(world_now_ms() < deadline);
        world_sleep_ms(20);
    }
    from_ms = world_now_ms();
    child_stop(child);
    int64_t asking_ms = world_now_ms() - from_ms;
    printf("left in %lld ms while waiting for the next poll, in %lld ms with a request open\n",
           (long long)waiting_ms, (long long)asking_ms);
    cr_assert(waiting_ms < 4000 && asking_ms < 4000);
    ASSERT_COUNT(&w, 1,
                 "SELECT count(*) FROM receipt_batches WHERE leased_until IS NULL AND due_at <= now()");
    ASSERT_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    world_check_books(&w);
    world_close(&w);
}

/* The bound follows the clock while nobody writes, and waits for who does. */
Test(reconciler, settles)
{
    struct world w;
    open_world(&w, "rec_settle", 1);
    struct child *child = world_reconciler(&w, NULL);
    world_wait_count(&w, 1, "SELECT count(*) FROM settled WHERE bound > now() - interval '2 s'");
    world_exec(&w, "BEGIN; INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title,"
                   " created_at) VALUES (gen_random_uuid(), 'w', 'u', 't', 'x', clock_timestamp())");
    world_sleep_ms(1500);
    ASSERT_COUNT(&w, 1, "SELECT count(*) FROM settled s, notifications n WHERE s.bound <= n.created_at");
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
        put_batch(&w, batch, 10, "now() - interval '1 min'");
    struct child *child = world_reconciler(&w, "[reconciler]\nreceipt_delay = 0\npoll_interval = 300ms\n");
    for (int batch = 1; batch <= 10; batch++)
        send_and_tell(&w, batch, 10);
    world_wait_count(&w, 100, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    run_postgres(&w, "stop", "immediate", NULL, 0);
    for (int batch = 11; batch <= 20; batch++)
        send_and_tell(&w, batch, 10);
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
    wait_drained(&w);
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
    open_world(&w, "rec_refuse", 1);
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
