/* The outside goes away and comes back, members come and go, the stop comes at a bad moment: nothing is lost
 * or doubled, and nobody waits for ever. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest_case.h"

static void produce_numbers(struct world *w, int from, int to, int partitions)
{
    for (int i = from; i < to; i++) {
        char value[512];
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u%d\","
            "\"title\":\"number %d\"}",
            i, i % 50, i);
        world_produce_fast(w, w->events, i % partitions, NULL, value);
        if (i % 10 == 0) { /* a duplicate now, and one in another partition */
            world_produce_fast(w, w->events, i % partitions, NULL, value);
            world_produce_fast(w, w->events, (i + 1) % partitions, NULL, value);
        }
    }
    world_flush(w);
}

/* Dispatchers start and stop, one dies, while events flow. */
Test(ingest, members_come_and_go, .timeout = 280)
{
    enum { ROUNDS = 6, EVENTS = 4000, PARTITIONS = 4 };
    struct world w;
    case_open(&w, "churn", PARTITIONS);
    struct child *running[2] = {case_dispatcher(&w, NULL), NULL};
    for (int round = 0; round < ROUNDS; round++) {
        produce_numbers(&w, round * EVENTS, (round + 1) * EVENTS, PARTITIONS);
        int slot = (round + 1) % 2;
        if (running[slot] != NULL && round % 3 == 2) {
            child_kill(running[slot]);
        } else if (running[slot] != NULL) {
            child_stop(running[slot]); /* checks that it leaves with 0 */
        }
        running[slot] = case_dispatcher(&w, NULL);
    }
    world_wait_count(&w, (int64_t)ROUNDS * EVENTS, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    int64_t repeated =
        world_count(&w, "SELECT sum(records) FROM partition_offsets") - (int64_t)ROUNDS * EVENTS * 12 / 10;
    printf("%lld rows of %d events; %lld records were read again\n",
           (long long)world_count(&w, "SELECT count(*) FROM notifications"), ROUNDS * EVENTS,
           (long long)repeated);
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM notifications"), (int64_t)ROUNDS * EVENTS);
    child_stop(running[0]);
    case_close(&w, running[1]);
}

/* The broker dies with SIGKILL and comes back; meanwhile the dispatcher is not ready, and says why. */
Test(ingest, the_broker_goes_and_comes_back, .timeout = 200)
{
    struct world w;
    struct world_reply reply;
    char folder[WORLD_PATH_MAX + 32], command[2 * WORLD_PATH_MAX], url[128];
    world_open(&w, "broker_away");
    snprintf(folder, sizeof folder, "%s/kafka", w.folder);
    snprintf(command, sizeof command, BELFRY_SOURCE_DIR "/tests/support/kafka start %s", folder);
    FILE *pipe = popen(command, "r");
    char brokers[128] = "";
    cr_assert(pipe != NULL && fgets(brokers, sizeof brokers, pipe) != NULL);
    cr_assert_eq(pclose(pipe), 0);
    brokers[strcspn(brokers, "\n")] = '\0';
    world_use_brokers(&w, brokers);
    world_database(&w);
    world_topics(&w, 2);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    produce_numbers(&w, 0, 200, 2);
    world_wait_count(&w, 200, "SELECT count(*) FROM notifications");

    snprintf(command, sizeof command, BELFRY_SOURCE_DIR "/tests/support/kafka stop %s kill", folder);
    cr_assert_eq(system(command), 0);
    snprintf(url, sizeof url, "http://%s/readyz", dispatcher->admin);
    bool told = false;
    for (int i = 0; i < 200 && !told; i++) {
        world_sleep_ms(100);
        world_http("GET", url, NULL, NULL, &reply);
        told = reply.status == 503 && strstr(reply.body, "no Kafka broker answers") != NULL;
        world_reply_done(&reply);
    }
    cr_assert(told, "still ready without a broker");
    cr_assert(child_running(dispatcher));
    cr_assert_not(child_log_has(dispatcher, "\"level\":\"error\""), "brokers away is informational");

    snprintf(command, sizeof command, BELFRY_SOURCE_DIR "/tests/support/kafka restart %s", folder);
    cr_assert_eq(system(command), 0);
    child_wait_ready(dispatcher, 60);
    produce_numbers(&w, 200, 400, 2);
    world_wait_count(&w, 400, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    world_check_books(&w);
    child_stop(dispatcher);

    /* And the stop with the broker away does not hang (libraries.md: close blocks 45 s). */
    dispatcher = case_dispatcher(&w, "shutdown_timeout = 5s\n");
    snprintf(command, sizeof command, BELFRY_SOURCE_DIR "/tests/support/kafka stop %s kill", folder);
    cr_assert_eq(system(command), 0);
    int64_t before_ms = world_now_ms();
    child_signal(dispatcher, SIGTERM);
    int code = child_wait(dispatcher, 20);
    int64_t took_ms = world_now_ms() - before_ms;
    printf("stopped without a broker: exit %d after %lld ms\n", code, (long long)took_ms);
    cr_assert_eq(code, 0);
    cr_assert_lt(took_ms, 10000);
    snprintf(command, sizeof command, BELFRY_SOURCE_DIR "/tests/support/kafka restart %s", folder);
    cr_assert_eq(system(command), 0); /* the world deletes its topics */
    world_close(&w);
    snprintf(command, sizeof command, BELFRY_SOURCE_DIR "/tests/support/kafka stop %s kill", folder);
    cr_assert_eq(system(command), 0);
}

/* A statement that hangs does not hold the stop beyond shutdown_timeout; what it did is found by the next
 * start. */
Test(ingest, a_stop_in_the_middle_of_a_statement, .timeout = 120)
{
    struct world w;
    case_open(&w, "stop_middle", 1);
    struct child *dispatcher = case_dispatcher(&w, "shutdown_timeout = 3s\n");
    PGconn *other = PQconnectdb(w.uri);
    PQclear(PQexec(other, "BEGIN"));
    PGresult *result = PQexec(other, "LOCK TABLE notifications IN ACCESS EXCLUSIVE MODE");
    cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQerrorMessage(other));
    PQclear(result);
    case_produce_good(&w, "r", "u");
    world_wait_count(
        &w, 1, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'notifications'::regclass");
    int64_t before_ms = world_now_ms();
    child_signal(dispatcher, SIGTERM);
    int code = child_wait(dispatcher, 20);
    int64_t took_ms = world_now_ms() - before_ms;
    printf("stopped in the middle: exit %d after %lld ms\n", code, (long long)took_ms);
    cr_assert_eq(code, 0);
    cr_assert_lt(took_ms, 9000);
    PQclear(PQexec(other, "ROLLBACK"));
    PQfinish(other);
    dispatcher = case_dispatcher(&w, NULL);
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM notifications"), 1);
    case_close(&w, dispatcher);
}

/* With no record to store, a database that goes is noticed all the same, and that it is back. */
Test(ingest, an_idle_dispatcher_notices_the_database_go, .timeout = 120)
{
    struct world w;
    struct world_reply reply = {.status = 200};
    char url[128];
    case_open(&w, "idle", 1);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    snprintf(url, sizeof url, "http://%s/readyz", dispatcher->admin);
    world_exec(&w, "UPDATE pg_database SET datallowconn = false WHERE datname = current_database()");
    world_exec(&w, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                   " AND pid <> pg_backend_pid()");
    for (int tries = 0; tries < 100 && reply.status == 200; tries++) {
        world_reply_done(&reply);
        world_sleep_ms(100);
        world_http("GET", url, NULL, NULL, &reply);
    }
    printf("away:\n%s", reply.body);
    cr_assert_eq(reply.status, 503);
    cr_assert_not_null(strstr(reply.body, "\"part\":\"ingest\",\"reason\":\"the database is not usable"));
    world_reply_done(&reply);
    world_exec(&w, "UPDATE pg_database SET datallowconn = true WHERE datname = current_database()");
    child_wait_ready(dispatcher, 30);
    case_produce_good(&w, "r", "u");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    case_close(&w, dispatcher);
}
