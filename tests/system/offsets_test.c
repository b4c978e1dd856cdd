/* Line 2 of issue "The house, and the main job", the rest: whatever happens to offsets, no event is lost and
 * none is stored twice. A topic deleted and made anew, an operator's rewind and skip, a database a minute
 * back. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdio.h>

#include "support/harness.h"

enum { PARTITIONS = 2 };

static void open_world(struct world *w, const char *name)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, PARTITIONS);
    world_simulator(w, NULL);
}

/* Events numbered from..to-1, over both partitions. */
static void produce_events(struct world *w, const char *run, int from, int to)
{
    char value[512];
    for (int i = from; i < to; i++) {
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"%s-%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u%d\","
            "\"title\":\"number %d\"}",
            run, i, i % 50, i);
        world_produce_fast(w, w->events, i % PARTITIONS, NULL, value);
    }
    world_flush(w);
}

static void expect_rows(struct world *w, const char *when, int64_t expected)
{
    world_wait_count(w, expected, "SELECT count(*) FROM notifications");
    printf("%-52s %6lld rows, expected %6lld\n", when,
           (long long)world_count(w, "SELECT count(*) FROM notifications"), (long long)expected);
}

Test(foundation, topic_anew, .timeout = 180)
{
    struct world w;
    open_world(&w, "anew");
    struct child *dispatcher = world_dispatcher(&w, NULL);
    produce_events(&w, "old", 0, 1000);
    expect_rows(&w, "first topic", 1000);
    child_stop(dispatcher);
    world_delete_topic(&w, w.events);
    world_sleep_ms(1000);
    world_create_topic(&w, w.events, PARTITIONS);
    produce_events(&w, "new", 0, 400); /* fewer: the old offset lies above the end */
    dispatcher = world_dispatcher(&w, NULL);
    expect_rows(&w, "topic deleted and made anew while stopped", 1400);

    /* And under a running dispatcher. */
    world_delete_topic(&w, w.events);
    world_sleep_ms(3000);
    world_create_topic(&w, w.events, PARTITIONS);
    produce_events(&w, "newer", 0, 300);
    expect_rows(&w, "topic deleted and made anew while running", 1700);
    produce_events(&w, "newer", 300, 500);
    expect_rows(&w, "and on", 1900);
    world_check_books(&w);
    child_stop(dispatcher);
    world_close(&w);
}

static void seek(struct world *w, const char *where)
{
    char path[WORLD_PATH_MAX], at[200], output[2048];
    world_write_dispatcher_ini(w, NULL, path);
    snprintf(at, sizeof at, "%s:%s", w->events, where);
    const char *argv[] = {"-F", path, "--seek", at, NULL};
    int code = world_run(w, "src/bin/belfry-dispatcher", argv, output, sizeof output);
    printf("--seek %s: exit %d, said: %s", where, code, output);
    cr_assert(code == 0, "--seek left with %d: see %s", code, w->children[w->child_count - 1].log);
}

Test(foundation, seek, .timeout = 180)
{
    struct world w;
    open_world(&w, "seek");
    struct child *dispatcher = world_dispatcher(&w, NULL);
    produce_events(&w, "a", 0, 1000);
    expect_rows(&w, "before", 1000);
    child_stop(dispatcher);

    seek(&w, "0=0");
    seek(&w, "1=100");
    dispatcher = world_dispatcher(&w, NULL);
    world_wait_drained(&w, w.group, w.events, 30);
    int64_t duplicates = world_count(&w, "SELECT sum(duplicates) FROM partition_offsets");
    printf("rewound by 500 and 400: %lld duplicates\n", (long long)duplicates);
    cr_expect(duplicates == 900);
    expect_rows(&w, "after an operator's rewind", 1000);
    child_stop(dispatcher);

    /* Skipped records are the operator's wish; all that come later are stored. */
    produce_events(&w, "skipped", 0, 100);
    seek(&w, "0=end");
    seek(&w, "1=end");
    dispatcher = world_dispatcher(&w, NULL);
    produce_events(&w, "after", 0, 60);
    expect_rows(&w, "after an operator's skip", 1060);
    world_check_books(&w);
    child_stop(dispatcher);
    world_close(&w);
}

/* -- the database a minute back
 * --------------------------------------------------------------------------------- */

static void on_server(struct world *w, const char *format, const char *a, const char *b)
{
    char sql[512];
    snprintf(sql, sizeof sql, format, a, b);
    PGconn *db = PQconnectdb(w->superuser_uri);
    PGresult *result = PQexec(db, sql);
    ExecStatusType status = PQresultStatus(result);
    cr_assert(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK, "%s: %s", sql, PQerrorMessage(db));
    PQclear(result);
    PQfinish(db);
}

static void shut(struct world *w)
{
    PQfinish(w->db);
    w->db = NULL;
    on_server(w, "ALTER DATABASE %s ALLOW_CONNECTIONS false", w->database, "");
    for (int i = 0; i < 100; i++) {
        on_server(w, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'%s",
                  w->database, "");
        world_sleep_ms(20);
    }
}

Test(foundation, restore, .timeout = 180)
{
    struct world w;
    char copy[128];
    open_world(&w, "restore");
    snprintf(copy, sizeof copy, "%s_copy", w.database);
    struct child *dispatcher = world_dispatcher(&w, NULL);
    produce_events(&w, "a", 0, 500);
    expect_rows(&w, "when the copy was made", 500);
    world_wait_drained(&w, w.group, w.events, 30);
    shut(&w);
    on_server(&w, "CREATE DATABASE %s TEMPLATE %s", copy, w.database);
    on_server(&w, "ALTER DATABASE %s ALLOW_CONNECTIONS true%s", w.database, "");
    world_reconnect(&w);
    produce_events(&w, "a", 500, 900);
    expect_rows(&w, "when it was lost", 900);

    shut(&w);
    on_server(&w, "DROP DATABASE %s%s", w.database, "");
    on_server(&w, "ALTER DATABASE %s RENAME TO %s", copy, w.database);
    on_server(&w, "ALTER DATABASE %s ALLOW_CONNECTIONS true%s", w.database, "");
    world_reconnect(&w);
    printf("restored: %lld rows\n", (long long)world_count(&w, "SELECT count(*) FROM notifications"));
    produce_events(&w, "a", 900, 1000);
    expect_rows(&w, "restored under a running dispatcher", 1000);
    world_wait_drained(&w, w.group, w.events, 30);
    world_check_books(&w);
    child_stop(dispatcher);
    world_close(&w);
}
