/* belfry-reconciler --audit: each thing it looks for is planted and must be named, with exit 3; a clean
 * system under load shows nothing, exit 0, whatever is in flight. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { OUTPUT_MAX = 64 * 1024, TEXT_MAX = 512 };

/* ---- a database without a fault -------------------------------------------------------------------------
 */

/* Batches 1 to 3 of 20 dispatches each, delivered, sent and queued; each with a user, a notification, a
 * device and a key of its own: dispatch (batch << 20) + n is of number 20 * (batch - 1) + n. A device more.
 */
static void fill(struct world *w)
{
    world_exec(
        w, "CREATE TABLE plan AS SELECT n, (n / 20 + 1)::bigint << 20 | n %% 20 AS id, n / 20 + 1 AS batch,"
           " lpad(to_hex(n), 32, '0')::uuid AS uuid, now() - interval '1 h' AS at"
           " FROM generate_series(0, 59) n");
    world_exec(w,
               "INSERT INTO device_tokens (id, token, user_id, platform, registered_at, last_seen, source_at)"
               " SELECT n + 1, 'ExponentPushToken[' || n || ']', 'u' || n, 'ios', x, x, x"
               " FROM generate_series(0, 60) n, (SELECT now() - interval '30 min') t (x)");
    world_exec(
        w, "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at,"
           " event_at, batch_id) SELECT uuid, 'w', 'u' || n, 'a:b', 'title', at, at, batch FROM plan");
    world_exec(w, "INSERT INTO idempotency_keys SELECT 'notification:r' || n || ':a%%3Ab:u' || n, 'w', 0, at"
                  " FROM plan");
    world_exec(w,
               "INSERT INTO dispatches (id, notification_id, device_id, state, ticket, queued_at, updated_at)"
               " SELECT id, uuid, n + 1, (ARRAY['delivered', 'sent', 'queued'])[batch], 't' || n, at, at"
               " FROM plan");
    world_exec(w, "INSERT INTO receipt_batches (batch_id, due_at) VALUES (2, now())");
    world_exec(w, "INSERT INTO batches (id, unsent, created_at) VALUES (3, '{[0,20)}', now())");
    world_exec(w, "INSERT INTO partition_offsets (group_id, topic, partition, records, events, recipients,"
                  " notifications, dispatches) VALUES ('hand', 'hand', 0, 60, 60, 60, 60, 60)");
    /* What is no fault: a key older than any retention, and a key of an erased person. */
    world_exec(
        w, "INSERT INTO idempotency_keys VALUES ('notification:old:a:u1', 'w', 0, now() - interval '400 d'),"
           " ('notification:r:a:%%7Ee%%3A%%25', 'w', 0, now() - interval '1 h')");
    world_exec(w, "INSERT INTO erased_users VALUES (sha256('~e:%%'), now() - interval '1 min')");
}

/* ---- findings -------------------------------------------------------------------------------------------
 */

static const struct planted {
    const char *line, *plant, *undo, *example; /* example "": a balance */
} faults[] = {
    {"balance  ingest", "UPDATE partition_offsets SET records = records + 1",
     "UPDATE partition_offsets SET records = records - 1", ""},
    {"balance  notifications", "UPDATE retired SET count = 1 WHERE what = 'notifications'",
     "UPDATE retired SET count = 0", ""},
    {"balance  dispatches", "UPDATE retired SET count = 1 WHERE what = 'dispatches'",
     "UPDATE retired SET count = 0", ""},
    {"check    dispatch_without_notification",
     "UPDATE dispatches SET notification_id = gen_random_uuid() WHERE id = 1048579",
     "UPDATE dispatches SET notification_id = lpad('3', 32, '0')::uuid WHERE id = 1048579", "1048579"},
    /* undone as deploy/README.md says */
    {"check    sent_without_receipt_batch", "DELETE FROM receipt_batches",
     "INSERT INTO receipt_batches (batch_id, due_at) SELECT DISTINCT id >> 20, now() FROM dispatches WHERE "
     "id IN"
     " (2097152, 2097153) ON CONFLICT DO NOTHING",
     "2097152"},
    {"check    queued_without_batch", "UPDATE batches SET id = 9", "UPDATE batches SET id = 3", "3145728"},
    {"check    device_on_with_reason",
     "UPDATE device_tokens SET disabled_reason = 'DeviceNotRegistered' WHERE id = 7",
     "UPDATE device_tokens SET disabled_reason = NULL", "7"},
    {"check    device_off_without_reason",
     "UPDATE device_tokens SET enabled = false, disabled_at = now() WHERE id = 8",
     "UPDATE device_tokens SET enabled = true, disabled_at = NULL", "8"},
    {"check    device_with_wrong_hash", "UPDATE device_tokens SET token_hash = sha256('x') WHERE id = 9",
     "UPDATE device_tokens SET token_hash = sha256(convert_to(token, 'UTF8'))", "9"},
    {"check    key_without_notification",
     "INSERT INTO idempotency_keys VALUES ('notification:lost:a%3Ab:u1', 'w', 0, now() - interval '1 h')",
     "DELETE FROM idempotency_keys WHERE key LIKE 'notification:lost%'", "w/notification:lost:a%3Ab:u1"},
    {"check    notification_without_key", "DELETE FROM idempotency_keys WHERE key LIKE 'notification:r5:%'",
     "INSERT INTO idempotency_keys SELECT 'notification:r5:a%3Ab:u5', 'w', 0, at FROM plan WHERE n = 5",
     "00000000-0000-0000-0000-000000000005"},
    {"check    notification_of_erased",
     "INSERT INTO erased_users VALUES (sha256('u6'), now() - interval '45 min')",
     "DELETE FROM erased_users WHERE user_hash = sha256('u6')", "00000000-0000-0000-0000-000000000006"},
    {"check    device_of_erased", "INSERT INTO erased_users VALUES (sha256('u60'), now())",
     "DELETE FROM erased_users WHERE user_hash = sha256('u60')", "61"},
};

/* Copies the line that begins with text. */
static void line_of(const char *output, const char *text, char *line)
{
    const char *at = strstr(output, text);
    cr_assert_not_null(at, "no line %s in\n%s", text, output);
    snprintf(line, TEXT_MAX, "%.*s", (int)strcspn(at, "\n"), at);
}

static void check_fault(struct world *w, const struct planted *fault, char *output)
{
    char line[TEXT_MAX];
    world_exec(w, "%s", fault->plant);
    int code = world_audit(w, NULL, output, OUTPUT_MAX);
    line_of(output, fault->line, line);
    printf("exit %d: %s\n", code, line);
    cr_expect_eq(code, 3, "%s", fault->line);
    cr_expect_not_null(strstr(output, "result   FOUND: 1 of the lines above\n"), "%s", output);
    cr_expect_not_null(strstr(line, fault->example[0] == '\0' ? " OFF " : fault->example), "%s", line);
    cr_expect_null(strstr(output, "ExponentPushToken"));
    world_exec(w, "%s", fault->undo);
}

Test(audit, findings, .timeout = 170)
{
    struct world w;
    char *output = malloc(OUTPUT_MAX);
    cr_assert_not_null(output);
    world_open(&w, "audit_findings");
    world_database(&w);
    world_topics(&w, 1);
    fill(&w);
    cr_assert_eq(world_audit(&w, NULL, output, OUTPUT_MAX), 0, "%s", output);
    printf("%s", output);
    cr_assert_not_null(strstr(output, "result   nothing found\n"));
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        check_fault(&w, &faults[i], output);
    cr_assert_eq(world_audit(&w, NULL, output, OUTPUT_MAX), 0, "%s", output);
    free(output);
    world_close(&w);
}

/* ---- a live system --------------------------------------------------------------------------------------
 */

enum { USERS = 40, ROUNDS = 16, EVENTS = 300 };

static void produce(struct world *w, int round, int events)
{
    char key[32], value[TEXT_MAX];
    for (int i = 0; i < events; i++) {
        int user = i % USERS;
        snprintf(key, sizeof key, "u%d", user);
        /* Each tenth twice: duplicates have a key and no notification of their own. */
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"r%d-%d\",\"event_type\":\"a:b\",\"workspace_id\":\"w\",\"recipients\":[\"u%d\","
            "\"u%d\"],\"title\":\"t\",\"push\":{\"priority\":\"%s\"}}",
            round, i - (i % 10 == 9), user, (user + 1) % USERS, i % 3 == 0 ? "high" : "normal");
        world_produce_fast(w, w->events, -1, key, value);
    }
}

static void open_live(struct world *w, const char *name)
{
    static const char *const late[] = {"--receipt-delay", "300", NULL};
    world_open(w, name);
    world_database(w);
    world_topics(w, 2);
    world_simulator(w, late);
    simulator_script(w, "[{\"when\":{\"token\":\"-3]\"},\"do\":{\"receipt_error\":\"DeviceNotRegistered\"}},"
                        "{\"when\":{\"token\":\"-4]\"},\"do\":{\"ticket_error\":\"DeviceNotRegistered\"}}]");
}

static void register_users(struct world *w, int shift)
{
    char user[32], token[64];
    for (int i = 0; i < USERS; i++) {
        snprintf(user, sizeof user, "u%d", (i + shift) % USERS);
        snprintf(token, sizeof token, "ExponentPushToken[live-%d]", i);
        world_register(w, user, token);
    }
}

/* Retention at work within the test: seconds for what are months. */
#define LIVE                                                                                                 \
    "[reconciler]\nreceipt_delay = 100ms\npoll_interval = 200ms\ndispatch_retention = 3s\n"                  \
    "notification_retention = 5s\nallow_short_retention = on\n"                                              \
    "[ingest]\nkey_retention = 4s\nallow_short_key_retention = on\n"

static void change_people(struct world *w, int round)
{
    if (round % 4 == 1)
        world_exec(w, "SELECT belfry_erase_user('u%d')", round);
    if (round % 4 == 2)
        register_users(w, round);
}

/* Events, registrations, devices that change hands or die, erasures, retention, a kill: no audit finds
 * anything. */
Test(audit, live, .timeout = 170)
{
    struct world w;
    char *output = malloc(OUTPUT_MAX);
    int64_t suspects = 0;
    cr_assert_not_null(output);
    open_live(&w, "audit_live");
    struct child *dispatcher = world_dispatcher(&w, NULL), *reconciler = world_reconciler(&w, LIVE);
    register_users(&w, 0);
    for (int round = 0; round < ROUNDS; round++) {
        produce(&w, round, EVENTS);
        change_people(&w, round);
        if (round == ROUNDS / 2) {
            child_kill(reconciler);
            reconciler = world_reconciler(&w, LIVE);
        }
        int code = world_audit(&w, LIVE, output, OUTPUT_MAX);
        cr_assert_eq(code, 0, "round %d: exit %d\n%s", round, code, output);
        suspects += strstr(output, "not judged") != NULL;
    }
    cr_assert(world_count(&w, "SELECT count(*) FROM device_tokens WHERE NOT enabled") > 0);
    world_flush(&w);
    world_wait_drained(&w, w.group, w.events, WORLD_WAIT_S);
    world_wait_count(&w, 0, "SELECT count(*) FROM dispatches WHERE state IN ('queued', 'sent')");
    cr_assert_eq(world_audit(&w, LIVE, output, OUTPUT_MAX), 0, "%s", output);
    printf(
        "%d audits under load found nothing, %lld of them could not judge what was in flight; retired %lld;"
        " the last:\n%s",
        ROUNDS, (long long)suspects, (long long)world_count(&w, "SELECT sum(count) FROM retired"), output);
    cr_assert(world_count(&w, "SELECT sum(notifications) FROM partition_offsets") >
              world_count(&w, "SELECT count(*) FROM idempotency_keys"));
    free(output);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* Outcomes that nobody has read yet are late and no fault; one whose record is gone is a fault. */
Test(audit, behind, .timeout = 170)
{
    struct world w;
    char line[TEXT_MAX], *output = malloc(OUTPUT_MAX);
    cr_assert_not_null(output);
    open_live(&w, "audit_behind");
    struct child *dispatcher = world_dispatcher(&w, NULL);
    register_users(&w, 0);
    world_flush(&w);
    world_wait_drained(&w, w.group, w.devices, WORLD_WAIT_S);
    produce(&w, 0, 100);
    world_flush(&w);
    world_wait_drained(&w, w.group, w.events, WORLD_WAIT_S);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    cr_assert_eq(world_audit(&w, NULL, output, OUTPUT_MAX), 0, "%s", output);
    line_of(output, "check    queued_without_batch", line);
    printf("no reconciler: %s\n", line);
    cr_assert_not_null(strstr(line, "not judged: the reconcilers are"), "%s", line);
    struct child *reconciler = world_reconciler(&w, NULL);
    cr_assert_eq(world_audit(&w, NULL, output, OUTPUT_MAX), 0, "%s", output);
    world_wait_count(&w, 0, "SELECT count(*) FROM dispatches WHERE state IN ('queued', 'sent')");
    world_exec(
        &w,
        "UPDATE dispatches SET state = 'queued', ticket = NULL WHERE id = (SELECT min(id) FROM dispatches)");
    cr_assert_eq(world_audit(&w, NULL, output, OUTPUT_MAX), 3, "%s", output);
    line_of(output, "check    queued_without_batch", line);
    printf("its outcome was read and it is queued: %s\n", line);
    cr_assert_not_null(strstr(line, " 1  first: "), "%s", line);
    free(output);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_close(&w);
}

/* 1,000,000 dispatches: it ends, page by page, under the role's own settings. */
Test(audit, million, .timeout = 170)
{
    struct world w;
    char *output = malloc(OUTPUT_MAX);
    cr_assert_not_null(output);
    world_open(&w, "audit_million");
    world_database(&w);
    world_exec(
        &w, "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at,"
            " event_at, batch_id) SELECT lpad(to_hex(n), 32, '0')::uuid, 'w', 'u' || n, 't', 'title', now(),"
            " now(), n / 100 + 1 FROM generate_series(0, 99999) n");
    world_exec(&w, "INSERT INTO idempotency_keys SELECT 'notification:r:t:u' || n, 'w', 0, now()"
                   " FROM generate_series(0, 99999) n");
    world_exec(&w, "UPDATE notifications SET created_at = (SELECT max(claimed_at) FROM idempotency_keys)");
    world_exec(&w, "INSERT INTO dispatches (id, notification_id, device_id, state, queued_at, updated_at)"
                   " SELECT (n / 1000 + 1)::bigint << 20 | n %% 1000, lpad(to_hex(n / 10), 32, '0')::uuid, n,"
                   " 'delivered', now(), now() FROM generate_series(0, 999999) n");
    world_exec(&w,
               "INSERT INTO partition_offsets (group_id, topic, partition, records, events, recipients,"
               " notifications, dispatches) VALUES ('h', 'h', 0, 100000, 100000, 100000, 100000, 1000000)");
    int64_t from_ms = world_now_ms();
    int code = world_audit(&w, NULL, output, OUTPUT_MAX);
    printf("%lld ms, exit %d\n%s", (long long)(world_now_ms() - from_ms), code, output);
    cr_assert_eq(code, 0);
    cr_assert_not_null(strstr(output, " 1000000  oldest queued"));
    free(output);
    world_close(&w);
}

/* ---- what else it may answer -----------------------------------------------------------------------------
 */

static int run_with(struct world *w, const char *extra, const char *more)
{
    char path[WORLD_PATH_MAX];
    world_write_reconciler_ini(w, extra, path);
    const char *argv[] = {"-F", path, "--audit", more, NULL};
    return world_run(w, "src/bin/belfry-reconciler", argv, NULL, 0);
}

Test(audit, exit_codes)
{
    struct world w;
    char path[WORLD_PATH_MAX];
    world_open(&w, "audit_codes");
    world_database(&w);
    int clean = run_with(&w, NULL, NULL);
    int away = run_with(&w, "[database]\nuri = postgresql://belfry_reconciler@127.0.0.1:1/x\n", NULL);
    int flag = run_with(&w, NULL, "--no-such-flag");
    snprintf(path, sizeof path, "%.400s/empty.ini", w.folder);
    FILE *stream = fopen(path, "w");
    cr_assert(stream != NULL && fclose(stream) == 0);
    const char *argv[] = {"-F", path, "--audit", NULL};
    int no_uri = world_run(&w, "src/bin/belfry-reconciler", argv, NULL, 0);
    world_exec(&w, "UPDATE schema_version SET oldest_ok = 1000");
    int schema = run_with(&w, NULL, NULL);
    printf("clean %d, database away %d, unknown flag %d, no uri %d, schema too new %d\n", clean, away, flag,
           no_uri, schema);
    cr_assert(clean == 0 && away == 1 && flag == 2 && no_uri == 2 && schema == 4);
    world_close(&w);
}
