/* The outside goes away and comes back, members come and go, the stop comes at a bad moment: nothing is lost
 * or doubled, and nobody waits for ever. */
#include <criterion/criterion.h>
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
    char url[128];
    world_open(&w, "broker_away");
    world_own_server(&w, "kafka", "start", NULL);
    world_database(&w);
    world_topics(&w, 2);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    produce_numbers(&w, 0, 200, 2);
    world_wait_count(&w, 200, "SELECT count(*) FROM notifications");

    world_own_server(&w, "kafka", "stop", "kill");
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

    world_own_server(&w, "kafka", "restart", NULL);
    child_wait_ready(dispatcher, 60);
    produce_numbers(&w, 200, 400, 2);
    world_wait_count(&w, 400, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    world_check_books(&w);
    double reconnects = child_metric(dispatcher, "belfry_kafka_reconnects_total");
    printf("back again: belfry_kafka_reconnects_total %.0f\n", reconnects);
    cr_assert_gt(reconnects, 0);
    child_stop(dispatcher);

    /* And the stop with the broker away does not hang (libraries.md: close blocks 45 s). */
    dispatcher = case_dispatcher(&w, "shutdown_timeout = 5s\n");
    world_own_server(&w, "kafka", "stop", "kill");
    int64_t before_ms = world_now_ms();
    child_signal(dispatcher, SIGTERM);
    int code = child_wait(dispatcher, 20);
    int64_t took_ms = world_now_ms() - before_ms;
    printf("stopped without a broker: exit %d after %lld ms\n", code, (long long)took_ms);
    cr_assert_eq(code, 0);
    cr_assert_lt(took_ms, 10000);
    world_own_server(&w, "kafka", "restart", NULL); /* the world deletes its topics */
    world_close(&w);
    world_own_server(&w, "kafka", "stop", "kill");
}

/* A statement that does not come back. */
static void *hang(struct world *w)
{
    void *lock = case_lock(w);
    case_produce_good(w, "r", "u");
    case_wait_blocked(w, 1);
    return lock;
}

/* What was cut is found by the next start. */
static void goes_on(struct world *w, void *lock)
{
    case_unlock(lock);
    struct child *dispatcher = case_dispatcher(w, NULL);
    world_wait_count(w, 1, "SELECT count(*) FROM notifications");
    case_wait_read(w);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM notifications"), 1);
    case_close(w, dispatcher);
}

/* A second signal while it drains leaves at once, says so, and with a code of its own. */
Test(ingest, a_second_signal_is_said, .timeout = 120)
{
    struct world w;
    case_open(&w, "second_signal", 1);
    struct child *dispatcher = case_dispatcher(&w, "shutdown_timeout = 60s\n");
    void *lock = hang(&w);
    child_signal(dispatcher, SIGTERM);
    world_sleep_ms(500);
    cr_assert(child_running(dispatcher), "it drains");
    child_signal(dispatcher, SIGTERM);
    int code = child_wait(dispatcher, 5);
    printf("a second SIGTERM: exit %d, said %d\n", code, child_log_has(dispatcher, "RUN-CUT"));
    cr_assert_eq(code, 128 + SIGTERM);
    cr_assert(child_log_has(dispatcher, "\"id\":\"RUN-CUT\""));
    cr_assert(child_log_has(dispatcher, "\"exit_code\":143"));
    goes_on(&w, lock);
}

/* A statement that hangs does not hold the stop beyond shutdown_timeout; what it did is found by the next
 * start. */
Test(ingest, a_stop_in_the_middle_of_a_statement, .timeout = 120)
{
    struct world w;
    case_open(&w, "stop_middle", 1);
    struct child *dispatcher = case_dispatcher(&w, "shutdown_timeout = 3s\n");
    void *lock = hang(&w);
    int64_t before_ms = world_now_ms();
    child_signal(dispatcher, SIGTERM);
    int code = child_wait(dispatcher, 20);
    int64_t took_ms = world_now_ms() - before_ms;
    printf("stopped in the middle: exit %d after %lld ms\n", code, (long long)took_ms);
    cr_assert_eq(code, 0);
    cr_assert_lt(took_ms, 9000);
    goes_on(&w, lock);
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
