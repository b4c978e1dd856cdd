/* Cases from the field (shared/cases.md): each event once, whatever dies in between. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "ingest_case.h"

static int64_t rows(struct world *w)
{
    return world_count(w, "SELECT count(*) FROM notifications");
}

static int64_t keys(struct world *w)
{
    return world_count(w, "SELECT count(*) FROM idempotency_keys");
}

/* Killed between claim and notification: a trigger holds the statement at its first row. */
static void kill_between(struct world *w)
{
    world_exec(w, "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS "
                  "'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END'");
    world_exec(w, "CREATE TRIGGER hold BEFORE INSERT ON notifications FOR EACH ROW EXECUTE FUNCTION hold()");
    PGconn *other = PQconnectdb(w->uri);
    PGresult *result = PQexec(other, "SELECT pg_advisory_lock(4711)");
    cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(other));
    PQclear(result);
    struct child *dispatcher = case_dispatcher(w, NULL);
    case_produce_good(w, "locked", "u1");
    world_wait_count(w, 1,
                     "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                     "wait_event = 'advisory'");
    child_kill(dispatcher);
    PQfinish(other);
    world_exec(w, "DROP TRIGGER hold ON notifications");
    dispatcher = case_dispatcher(w, NULL);
    world_wait_count(w, 1, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'u1'");
    case_wait_read(w);
    printf("killed between claim and row: %lld row, %lld key\n", (long long)rows(w), (long long)keys(w));
    cr_assert_eq(rows(w), 1);
    cr_assert_eq(keys(w), 1);
    child_stop(dispatcher);
}

Test(cases, clm_01, .timeout = 300)
{
    static const char *const places[] = {"consume", "parse", "dead_letter", "claim", "claimed", "commit"};
    struct world w;
    struct dead_letters dead;
    case_open(&w, "clm_01", 1);
    kill_between(&w);
    int64_t expected = 1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct child *doomed = world_dispatcher_crash(&w, INGEST_ONLY, places[i]);
        world_produce(&w, w.events, 0, "bad", "poison");
        case_produce_good(&w, places[i], "u2");
        int code = child_wait(doomed, 30);
        struct child *dispatcher = case_dispatcher(&w, NULL);
        expected++;
        world_wait_count(&w, expected, "SELECT count(*) FROM notifications");
        case_wait_read(&w);
        printf("killed at %-12s exit %d: %lld rows, %lld keys, expected %lld\n", places[i], code,
               (long long)rows(&w), (long long)keys(&w), (long long)expected);
        cr_assert_eq(code, 128 + 9, "it did not die at %s", places[i]);
        cr_assert_eq(rows(&w), expected);
        cr_assert_eq(keys(&w), expected);
        child_stop(dispatcher);
    }
    case_read_dead(&w, &dead);
    int64_t origins = 0;
    for (int i = 0; i < dead.count; i++) {
        origins += i == 0 || dead.all[i].offset != dead.all[i - 1].offset;
    }
    printf("%d dead letters of %lld records\n", dead.count, (long long)origins);
    cr_assert_eq(origins, (int64_t)(sizeof places / sizeof *places));
    case_close(&w, NULL);
}

/* Parts that hold the delimiter never make one key of two. */
Test(cases, clm_04, .timeout = 120)
{
    static const struct {
        const char *run, *type, *recipient;
    } events[] = {
        {"a:b", "c", "u"},   {"a", "b:c", "u"},   {"a", "b", "c:u"}, {"a:b:c", "d", "u"},
        {"a%3Ab", "c", "u"}, {"a", "b%3Ac", "u"}, {"~a", "c", "u"},  {"a", "~c", "u"},
        {"%", "c", "u"},     {"%25", "c", "u"},   {"a", "c", "u:"},  {"a", "c:", "u"},
    };
    enum { COUNT = sizeof events / sizeof *events };
    struct world w;
    struct dead_letters dead;
    case_open(&w, "clm_04", 1);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            char value[512];
            snprintf(value, sizeof value,
                     "{\"run_id\":\"%s\",\"event_type\":\"%s\",\"workspace_id\":\"w\",\"recipient_user_id\":"
                     "\"%s\","
                     "\"title\":\"x\"}",
                     events[i].run, events[i].type, events[i].recipient);
            world_produce(&w, w.events, 0, "k", value);
        }
    }
    world_produce(&w, w.events, 0, "k",
                  "{\"run_id\":\"\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\","
                  "\"title\":\"x\"}"); /* an empty part is refused */
    case_wait_read(&w);
    printf("%lld notifications of %d distinct triples sent twice\n", (long long)rows(&w), COUNT);
    cr_assert_eq(rows(&w), COUNT);
    cr_assert_eq(keys(&w), COUNT);
    cr_assert_eq(world_count(&w, "SELECT sum(duplicates) FROM partition_offsets"), COUNT);
    case_read_dead(&w, &dead);
    cr_assert_eq(dead.count, 1);
    cr_assert_str_eq(dead.all[0].code, "field");
    cr_assert_str_eq(dead.all[0].field, "run_id");
    case_close(&w, dispatcher);
}

/* A duplicate is the normal answer: counted, nothing at error level. */
Test(cases, clm_07, .timeout = 120)
{
    struct world w;
    struct dead_letters dead;
    case_open(&w, "clm_07", 1);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    case_produce_good(&w, "r", "u");
    case_produce_good(&w, "r", "u");
    case_wait_read(&w);
    for (int i = 0; i < 10; i++) {
        case_produce_good(&w, "r", "u");
    }
    case_wait_read(&w);
    cr_assert_not(child_log_has(dispatcher, "\"level\":\"error\""));
    child_stop(dispatcher);
    dispatcher = case_dispatcher(&w, NULL);
    case_produce_good(&w, "r", "u");
    case_wait_read(&w);
    int64_t duplicates = world_count(&w, "SELECT sum(duplicates) FROM partition_offsets");
    case_read_dead(&w, &dead);
    printf("13 deliveries: %lld row, %lld duplicates, %d dead letters\n", (long long)rows(&w),
           (long long)duplicates, dead.count);
    cr_assert_eq(rows(&w), 1);
    cr_assert_eq(duplicates, 12);
    cr_assert_eq(dead.count, 0);
    cr_assert_not(child_log_has(dispatcher, "\"level\":\"error\""));
    case_close(&w, dispatcher);
}

/* A batch over two partitions of which one was taken over moves neither, and nothing is lost or doubled. */
Test(cases, fence, .timeout = 120)
{
    struct world w;
    case_open(&w, "fence", 2);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    for (int i = 0; i < 20; i++) {
        char value[256];
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\","
            "\"title\":\"x\"}",
            i);
        world_produce_fast(&w, w.events, i % 2, "k", value);
    }
    world_flush(&w);
    world_wait_count(&w, 20, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    /* As another dispatcher's seating would leave it. */
    world_exec(&w,
               "UPDATE partition_offsets SET generation = generation + 1, owner = 1 WHERE topic = '%s' AND "
               "partition = 1",
               w.events);
    for (int i = 20; i < 60; i++) {
        char value[256];
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\","
            "\"title\":\"x\"}",
            i);
        world_produce_fast(&w, w.events, i % 2, "k", value);
    }
    world_flush(&w);
    world_wait_count(&w, 60, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    int64_t duplicates = world_count(&w, "SELECT sum(duplicates) FROM partition_offsets");
    printf("taken over once: %lld rows, %lld duplicates, noticed: %s\n", (long long)rows(&w),
           (long long)duplicates, child_log_has(dispatcher, "ING-FENCED") ? "yes" : "no");
    cr_assert(child_log_has(dispatcher, "ING-FENCED"));
    cr_assert_eq(rows(&w), 60);
    case_close(&w, dispatcher);
}
