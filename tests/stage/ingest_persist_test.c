/* Cases from the field (shared/cases.md): what the database refuses or would change, and what it is told at
 * start. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ingest_case.h"

/* One record breaks a constraint: it alone goes, and the connection is as good as before. */
Test(cases, per_03, .timeout = 120)
{
    struct world w;
    struct dead_letters dead;
    case_open(&w, "per_03", 1);
    world_exec(&w, "ALTER TABLE notifications ADD CONSTRAINT no_bad CHECK (title <> 'bad')");
    const char *titles[] = {"good", "bad", "fine", "well"};
    for (int i = 0; i < 4; i++) {
        char value[256];
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\","
            "\"title\":\"%s\"}",
            i, titles[i]);
        world_produce_fast(&w, w.events, 0, "k", value);
    }
    world_flush(&w);
    struct child *dispatcher = case_dispatcher(&w, NULL); /* all four in one batch */
    world_wait_count(&w, 3, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    case_read_dead(&w, &dead);
    cr_assert_eq(dead.count, 1);
    cr_assert_str_eq(dead.all[0].code, "sqlstate");
    cr_assert(strstr(dead.all[0].message, "23514") != NULL, "%s", dead.all[0].message);
    cr_assert_str_eq(dead.all[0].field, "no_bad");
    cr_assert_eq(dead.all[0].offset, 1);
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM idempotency_keys"), 3, "nothing is claimed for it");
    cr_assert_eq(world_count(&w, "SELECT sum(duplicates) FROM partition_offsets"), 0);
    case_produce_good(&w, "after", "u2");
    world_wait_count(&w, 4, "SELECT count(*) FROM notifications");
    case_close(&w, dispatcher);
}

/* Digits beyond microseconds are cut, never rounded into the next day. */
Test(cases, per_05, .timeout = 120)
{
    static const struct {
        const char *given, *stored;
    } times[] = {
        {"2026-03-21T23:59:59.9999999Z", "2026-03-21 23:59:59.999999"},
        {"2026-03-21T12:00:00.1234565Z", "2026-03-21 12:00:00.123456"},
        {"2026-03-21T12:00:00.123456Z", "2026-03-21 12:00:00.123456"},
        {"2026-03-21T23:59:59.99999999999+00:00", "2026-03-21 23:59:59.999999"},
    };
    enum { COUNT = sizeof times / sizeof *times };
    struct world w;
    case_open(&w, "per_05", 1);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    for (int i = 0; i < COUNT; i++) {
        char value[400];
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u%d\","
            "\"title\":\"x\",\"occurred_at\":\"%s\",\"expires_at\":\"%s\"}",
            i, i, times[i].given, times[i].given);
        world_produce(&w, w.events, 0, "k", value);
    }
    world_wait_count(&w, COUNT, "SELECT count(*) FROM notifications");
    for (int i = 0; i < COUNT; i++) {
        char occurred[64], expires[64];
        world_text(
            &w, occurred, sizeof occurred,
            "SELECT to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') FROM notifications "
            "WHERE recipient_user_id = 'u%d'",
            i);
        world_text(
            &w, expires, sizeof expires,
            "SELECT to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') FROM notifications "
            "WHERE recipient_user_id = 'u%d'",
            i);
        printf("%-40s -> %s\n", times[i].given, occurred);
        cr_assert_str_eq(occurred, times[i].stored);
        cr_assert_str_eq(expires, times[i].stored);
    }
    case_close(&w, dispatcher);
}

static bool is_not_ready(struct child *child, const char *why)
{
    char url[128];
    struct world_reply reply;
    snprintf(url, sizeof url, "http://%s/readyz", child->admin);
    world_http("GET", url, NULL, NULL, &reply);
    bool told = reply.status == 503 && strstr(reply.body, why) != NULL;
    if (!told)
        printf("/readyz: %ld %s\n", reply.status, reply.body);
    world_reply_done(&reply);
    return told;
}

/* A topic that is missing is waited for: said once, not ready, then read from its beginning. */
Test(ingest, missing_topics_are_waited_for, .timeout = 120)
{
    struct world w;
    case_open(&w, "missing", 1);
    world_delete_topic(&w, w.events);
    world_delete_topic(&w, w.dlq);
    world_sleep_ms(1000);
    char path[WORLD_PATH_MAX], extra[128];
    int port = world_free_port();
    snprintf(extra, sizeof extra, INGEST_ONLY "[admin]\nlisten = 127.0.0.1:%d\n", port);
    world_write_dispatcher_ini(&w, extra, path);
    const char *argv[] = {"-F", path, NULL};
    struct child *dispatcher = child_start(&w, "src/bin/belfry-dispatcher", argv, NULL);
    snprintf(dispatcher->admin, sizeof dispatcher->admin, "127.0.0.1:%d", port);
    child_wait_log(dispatcher, "the dead letter topic is not usable", 30);
    cr_assert(is_not_ready(dispatcher, "dead letter topic"));
    world_create_topic(&w, w.dlq, 1);
    child_wait_log(dispatcher, "KAFKA-TOPIC-MISSING", 30);
    world_sleep_ms(8000); /* asked for several times meanwhile */
    cr_assert(is_not_ready(dispatcher, "is missing"));
    cr_assert(child_running(dispatcher));
    int said = child_log_lines(dispatcher, "KAFKA-TOPIC-MISSING");
    printf("missing for 8 s: said %d time, not ready\n", said);
    cr_assert_eq(said, 1, "said once");
    world_create_topic(&w, w.events, 2);
    world_produce(&w, w.events, 1, "k", "poison");
    case_produce_good(&w, "r", "u");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    cr_assert_eq(world_topic_records(&w, w.dlq), 1);
    child_wait_ready(dispatcher, 30);
    case_close(&w, dispatcher);
}

/* A record that is only slow gets more time before it counts as bad; the rest of its batch does not wait for
 * it. */
Test(ingest, a_slow_record_gets_more_time, .timeout = 200)
{
    struct world w;
    struct dead_letters dead;
    case_open(&w, "slow", 1);
    world_exec(&w, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
                   "'BEGIN IF NEW.title = ''slow'' THEN PERFORM pg_sleep(22); END IF; RETURN NEW; END'");
    world_exec(&w, "CREATE TRIGGER slow BEFORE INSERT ON notifications FOR EACH ROW EXECUTE FUNCTION slow()");
    case_produce_good(&w, "r1", "u1");
    world_produce(
        &w, w.events, 0, "k",
        "{\"run_id\":\"s\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u2\","
        "\"title\":\"slow\"}");
    struct child *dispatcher = case_dispatcher(&w, NULL);
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications"); /* u1, once the batch was cut */
    int64_t before_ms = world_now_ms();
    world_wait_count(&w, 2, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    case_read_dead(&w, &dead);
    printf("stored %lld s after the rest; %d dead letters\n", (long long)(world_now_ms() - before_ms) / 1000,
           dead.count);
    cr_assert_eq(dead.count, 0);
    case_close(&w, dispatcher);
}

/* Two members with one group.instance.id: the older is fenced for good and leaves, saying so. */
Test(ingest, a_fenced_member_leaves_with_5, .timeout = 120)
{
    struct world w;
    case_open(&w, "fenced", 2);
    struct child *older = case_dispatcher(&w, "[kafka]\ngroup.instance.id = one\n");
    char path[WORLD_PATH_MAX];
    world_write_dispatcher_ini(&w, INGEST_ONLY "[kafka]\ngroup.instance.id = one\n", path);
    const char *argv[] = {"-F", path, NULL};
    struct child *newer = child_start(&w, "src/bin/belfry-dispatcher", argv, NULL);
    int code = child_wait(older, 60);
    printf("the older one left with %d\n", code);
    cr_assert_eq(code, 5);
    cr_assert(child_log_has(older, "FENCED_INSTANCE_ID"), "the reason is said");
    case_produce_good(&w, "r", "u");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    cr_assert(child_running(newer));
    case_close(&w, newer);
}
