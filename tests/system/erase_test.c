/* belfry_erase_user against the real binaries: what is in flight on either side leaves nothing behind, what
 * comes late is ignored and counted, redeliveries bring nothing back, and the books balance after each. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pushes.h"
#include "support/harness.h"

enum { TEXT_MAX = 1024, AUDIT_MAX = 64 * 1024, BIG = 100 * 1000 };

#define ASSERT_COUNT(w, n, ...) cr_assert_eq(world_count(w, __VA_ARGS__), n, "%s", #__VA_ARGS__)

static void open_world(struct world *w, const char *name)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, 1);
    world_simulator(w, NULL);
}

/* One event of the run for "gone" and "stays", recorded so many seconds ago; below 0: now, and not a part of
 * a second ago (the future counts as now). */
static void produce(struct world *w, const char *run, int age_s)
{
    char value[TEXT_MAX];
    int bytes = snprintf(value, sizeof value,
                         "{\"run_id\":\"%s\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"%s\","
                         "\"recipients\":[\"gone\",\"stays\"]}",
                         run, run);
    world_produce_bytes(w, w->events, 0, "k", value, (size_t)bytes, NULL, 0,
                        ((int64_t)time(NULL) - age_s) * 1000);
}

static void change_device(struct world *w, const char *user, const char *token, int age_s)
{
    char value[TEXT_MAX];
    int bytes = snprintf(value, sizeof value,
                         "{\"op\":\"register\",\"user_id\":\"%s\",\"token\":\"ExponentPushToken[%s]\","
                         "\"platform\":\"ios\"}",
                         user, token);
    world_produce_bytes(w, w->devices, 0, token, value, (size_t)bytes, NULL, 0,
                        ((int64_t)time(NULL) - age_s) * 1000);
}

static void wait_ingested(struct world *w)
{
    world_wait_drained(w, w->group, w->events, WORLD_WAIT_S);
    world_wait_drained(w, w->group, w->devices, WORLD_WAIT_S);
}

/* SELECT belfry_erase_user('gone') in a session of its own. */
static struct child *erase(struct world *w)
{
    const char *argv[] = {w->uri, "-XqAtc", "SELECT belfry_erase_user('gone')", NULL};
    return child_start(w, "/usr/bin/psql", argv, NULL);
}

/* A session of this database waits for a lock: of this kind, in this mode. Of pg_locks, which unlike
 * pg_stat_activity is read anew within a transaction. */
static void wait_blocked(struct world *w, const char *kind, const char *mode)
{
    world_wait_count(
        w, 1,
        "SELECT count(DISTINCT l.pid) FROM pg_locks l WHERE NOT l.granted AND l.locktype = '%s' AND"
        " l.mode = '%s' AND l.pid IN (SELECT m.pid FROM pg_locks m JOIN pg_database d ON"
        " d.oid = m.database WHERE d.datname = current_database())",
        kind, mode);
}

/* Nothing of "gone" is anywhere but keys and tombstone, and an audit agrees. */
static void check_nothing_left(struct world *w, int keys)
{
    static const char *const left[] = {"notifications WHERE recipient_user_id",
                                       "device_tokens WHERE user_id",
                                       "device_history WHERE user_id",
                                       "workspace_members WHERE user_id",
                                       "exports WHERE user_id",
                                       "settled_outbox WHERE record ->> 'recipient_user_id'"};
    char *output = malloc(AUDIT_MAX);
    cr_assert_not_null(output);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        cr_expect_eq(world_count(w, "SELECT count(*) FROM %s = 'gone'", left[i]), 0, "%s", left[i]);
    ASSERT_COUNT(w, keys, "SELECT count(*) FROM idempotency_keys WHERE key LIKE '%%:gone'");
    ASSERT_COUNT(w, 0,
                 "SELECT count(*) FROM dispatches d WHERE NOT EXISTS (SELECT FROM notifications n WHERE"
                 " n.id = d.notification_id)");
    cr_expect_eq(world_audit(w, NULL, output, AUDIT_MAX), 0, "%s", output);
    free(output);
    world_check_books(w);
}

/* ---- ingest in flight ------------------------------------------------------------------------------------
 */

/* The dispatcher's statement is frozen between its claim and its commit; the erasure comes, and waits for it.
 */
static void ingest_first(struct world *w)
{
    world_exec(w, "BEGIN; INSERT INTO idempotency_keys VALUES ('notification:first:t:gone', 'w', 0)");
    produce(w, "first", 0);
    wait_blocked(w, "transactionid", "ShareLock");
    struct child *child = erase(w);
    wait_blocked(w, "relation", "ShareRowExclusiveLock");
    world_exec(w, "ROLLBACK");
    cr_assert_eq(child_wait(child, 30), 0, "%s", child->log);
    wait_ingested(w);
    ASSERT_COUNT(w, 1, "SELECT count FROM retired WHERE what = 'notifications'");
    ASSERT_COUNT(w, 1, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'stays'");
    check_nothing_left(w, 1);
}

/* The erasure is under way; the dispatcher's statement waits for it, and meets the tombstone. */
static void erasure_first(struct world *w)
{
    world_exec(w, "BEGIN; SELECT belfry_erase_user('gone')");
    produce(w, "second", 60);
    wait_blocked(w, "relation", "RowExclusiveLock");
    world_exec(w, "COMMIT");
    wait_ingested(w);
    ASSERT_COUNT(w, 1, "SELECT sum(erased) FROM partition_offsets");
    ASSERT_COUNT(w, 2, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'stays'");
    check_nothing_left(w, 1);
}

/* The record comes again; a producer's retry makes it anew; then something that happened after the erasure.
 */
static void again(struct world *w)
{
    produce(w, "first", 60);
    produce(w, "first", -1);
    wait_ingested(w);
    ASSERT_COUNT(w, 2, "SELECT sum(erased) FROM partition_offsets");
    ASSERT_COUNT(w, 3, "SELECT sum(duplicates) FROM partition_offsets"); /* twice "stays", once the key */
    check_nothing_left(w, 1);
    produce(w, "third", -1);
    wait_ingested(w);
    ASSERT_COUNT(w, 1, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'gone'");
    world_check_books(w);
}

Test(erase, ingest_in_flight, .timeout = 110)
{
    struct world w;
    open_world(&w, "erase_ingest");
    struct child *dispatcher = world_dispatcher(&w, NULL);
    struct child *reconciler = world_reconciler(&w, NULL);
    change_device(&w, "gone", "a", 5);
    change_device(&w, "stays", "b", 5);
    wait_ingested(&w);
    ingest_first(&w);
    erasure_first(&w);
    again(&w);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    child_stop(dispatcher);
    child_stop(reconciler);
    world_close(&w);
}

/* ---- registrations in flight -----------------------------------------------------------------------------
 */

Test(erase, registration_in_flight, .timeout = 110)
{
    struct world w;
    open_world(&w, "erase_device");
    struct child *dispatcher = world_dispatcher(&w, NULL);
    change_device(&w, "stays", "moves", 60);
    wait_ingested(&w);
    /* Frozen as it moves a device to "gone"; the erasure comes, and waits for it. */
    world_exec(&w, "BEGIN; SELECT FROM device_tokens FOR UPDATE");
    change_device(&w, "gone", "moves", 30);
    wait_blocked(&w, "transactionid", "ShareLock");
    struct child *child = erase(&w);
    wait_blocked(&w, "relation", "ShareRowExclusiveLock");
    world_exec(&w, "ROLLBACK");
    cr_assert_eq(child_wait(child, 30), 0, "%s", child->log);
    wait_ingested(&w);
    check_nothing_left(&w, 0);
    ASSERT_COUNT(&w, 0, "SELECT count(*) FROM device_tokens");
    ASSERT_COUNT(&w, 1, "SELECT count(*) FROM device_history WHERE user_id = 'stays'");
    /* A membership in flight likewise. */
    world_exec(&w, "BEGIN; SELECT belfry_set_member('w', 'gone')");
    child = erase(&w);
    wait_blocked(&w, "relation", "ShareRowExclusiveLock");
    world_exec(&w, "COMMIT");
    cr_assert_eq(child_wait(child, 30), 0, "%s", child->log);
    check_nothing_left(&w, 0);
    /* The erasure under way; the registration waits: one from before it is ignored, one from after it counts.
     */
    world_exec(&w, "BEGIN; SELECT belfry_erase_user('gone')");
    change_device(&w, "gone", "old", 30);
    wait_blocked(&w, "relation", "RowExclusiveLock");
    world_exec(&w, "COMMIT");
    wait_ingested(&w);
    check_nothing_left(&w, 0);
    change_device(&w, "gone", "new", -1);
    wait_ingested(&w);
    ASSERT_COUNT(&w, 1, "SELECT count(*) FROM device_tokens WHERE user_id = 'gone' AND enabled");
    child_stop(dispatcher);
    world_close(&w);
}

/* ---- late outcomes ---------------------------------------------------------------------------------------
 */

/* Erased after ingest and before fan-out, between a send and its outcome, between an outcome and its receipt.
 */
Test(erase, late_outcomes, .timeout = 160)
{
    struct world w;
    static const char *const ini = "[reconciler]\nreceipt_delay = 100ms\npoll_interval = 200ms\n";
    open_world(&w, "erase_late");
    struct child *dispatcher = world_dispatcher(&w, "[run]\nroles = ingest\n");
    change_device(&w, "gone", "gone-1", 5);
    change_device(&w, "stays", "stays", 5);
    wait_ingested(&w);
    produce(&w, "one", 0);
    wait_ingested(&w);
    world_exec(&w, "SELECT belfry_erase_user('gone')");
    child_stop(dispatcher);
    dispatcher = world_dispatcher(&w, NULL);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    printf("erased before fan-out: pushes to gone %lld, to others %lld\n",
           (long long)simulator_accepted(&w, "gone-1"), (long long)simulator_accepted(&w, "stays"));
    cr_assert(simulator_accepted(&w, "gone-1") == 0 && simulator_accepted(&w, "stays") == 1);
    /* A new device, a new event, sent; its outcome waits on the topic. */
    change_device(&w, "gone", "gone-2", -1);
    wait_ingested(&w);
    produce(&w, "two", -1);
    wait_ingested(&w);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    cr_assert_eq(simulator_accepted(&w, "gone-2"), 1);
    world_exec(&w, "SELECT belfry_erase_user('gone')");
    simulator_script(&w,
                     "[{\"when\":{\"token\":\"gone-3\"},\"do\":{\"receipt_error\":\"DeviceNotRegistered\"}},"
                     "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":500,\"body\":\"\"}}]");
    struct child *reconciler = world_reconciler(&w, ini);
    world_wait_drained(&w, w.reconciler_group, w.receipts, WORLD_WAIT_S);
    printf("erased after the send: orphans %.0f\n",
           child_metric(reconciler, "belfry_outcomes_total{result=\"orphan\"}"));
    cr_assert_eq(child_metric(reconciler, "belfry_outcomes_total{result=\"orphan\"}"), 1);
    check_nothing_left(&w, 2);
    /* Sent and told; the receipt is late, and says that the device is gone. */
    change_device(&w, "gone", "gone-3", -2);
    wait_ingested(&w);
    produce(&w, "three", -2);
    wait_ingested(&w);
    world_wait_count(&w, 4, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    world_exec(&w, "SELECT belfry_erase_user('gone')");
    simulator_reset(&w);
    world_wait_count(&w, 0, "SELECT count(*) FROM receipt_batches");
    ASSERT_COUNT(&w, 3, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    ASSERT_COUNT(&w, 0, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    printf("erased before the receipt: %lld delivered of others\n",
           (long long)world_count(&w, "SELECT count(*) FROM dispatches WHERE state = 'delivered'"));
    check_nothing_left(&w, 3);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_close(&w);
}

/* ---- much of one person ----------------------------------------------------------------------------------
 */

/* 100,000 notifications of one person in 10,000 batches, between as many of others, under the limits of the
 * roles (20 s a statement), with ingest going on beside it. */
Test(erase, big, .timeout = 160)
{
    struct world w;
    char text[TEXT_MAX];
    open_world(&w, "erase_big");
    world_exec(
        &w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at,"
        " event_at, batch_id) SELECT lpad(to_hex(n), 32, '0')::uuid, 'w', CASE n %% 2 WHEN 0 THEN 'gone'"
        " ELSE 'u' || n END, 't', 'title', x, x, n / 20 + 1 FROM generate_series(0, %d) n,"
        " (SELECT now() - interval '2 h') t (x)",
        2 * BIG - 1);
    world_exec(
        &w,
        "INSERT INTO dispatches (id, notification_id, device_id, state, queued_at, updated_at)"
        " SELECT (n / 20 + 1)::bigint << 20 | n %% 20, lpad(to_hex(n), 32, '0')::uuid, n, 'delivered', now(),"
        " now() FROM generate_series(0, %d) n",
        2 * BIG - 1);
    world_exec(&w, "SELECT setval('batch_ids', 1000000)");
    world_exec(&w,
               "INSERT INTO partition_offsets (group_id, topic, partition, records, events, recipients,"
               " notifications, dispatches) VALUES ('h', 'h', 0, %d, %d, %d, %d, %d)",
               2 * BIG, 2 * BIG, 2 * BIG, 2 * BIG, 2 * BIG);
    struct child *dispatcher = world_dispatcher(&w, NULL);
    for (int i = 0; i < 200; i++)
        world_produce_fast(&w, w.events, 0, "k",
                           "{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\","
                           "\"recipient_user_id\":\"stays\",\"title\":\"t\"}");
    world_exec(&w, "SET statement_timeout = '20s'");
    int64_t from_ms = world_now_ms();
    world_text(&w, text, sizeof text, "SELECT belfry_erase_user('gone')");
    printf("%lld ms: %s\n", (long long)(world_now_ms() - from_ms), text);
    cr_assert(strstr(text, "\"notifications\" : 100000,") && strstr(text, "\"dispatches\" : 100000,"), "%s",
              text);
    world_flush(&w);
    wait_ingested(&w);
    ASSERT_COUNT(&w, BIG + 1, "SELECT count(*) FROM notifications");
    ASSERT_COUNT(&w, BIG, "SELECT count(*) FROM dispatches");
    ASSERT_COUNT(&w, 0, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'gone'");
    world_check_books(&w);
    child_stop(dispatcher);
    world_close(&w);
}
