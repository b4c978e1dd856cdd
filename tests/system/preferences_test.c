/* The account service beside the real dispatcher: who is not pushed to, how often it is asked, and what
 * happens when it is away, slow or wrong (contracts/preferences.md, cases PRF-01 and PRF-08). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { TEXT_MAX = 64 * 1024 };

#define EXPECT_COUNT(w, n, ...) cr_expect_eq(world_count(w, __VA_ARGS__), n, "%s", #__VA_ARGS__)

static void open_world(struct world *w, const char *name)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, 2);
    world_simulator(w, NULL);
}

/* Devices of the users <run>-0 … <run>-<count - 1>, one each. */
static void register_devices(struct world *w, const char *run, int count)
{
    for (int i = 0; i < count; i++) {
        char user[64], token[80];
        snprintf(user, sizeof user, "%s-%d", run, i);
        snprintf(token, sizeof token, "ExponentPushToken[%s-%d]", run, i);
        world_register(w, user, token);
    }
}

static void wait_registered(struct world *w)
{
    world_flush(w);
    world_wait_drained(w, w->group, w->devices, WORLD_WAIT_S);
}

/* One event for the users <run>-0 … ; `times` tells several of them apart. */
static void produce_event(struct world *w, const char *run, int count, int times)
{
    static char value[TEXT_MAX];
    size_t bytes = (size_t)snprintf(value, sizeof value,
                                    "{\"run_id\":\"%s/%d\",\"event_type\":\"t\",\"workspace_id\":\"w\","
                                    "\"category\":\"meetings\",\"title\":\"T\",\"recipients\":[",
                                    run, times);
    for (int i = 0; i < count; i++)
        bytes +=
            (size_t)snprintf(value + bytes, sizeof value - bytes, "%s\"%s-%d\"", i == 0 ? "" : ",", run, i);
    snprintf(value + bytes, sizeof value - bytes, "]}");
    world_produce(w, w->events, 0, run, value);
}

static void wait_outcomes(struct world *w, const char *run, int notifications)
{
    world_wait_count(w, notifications,
                     "SELECT count(*) FROM notifications WHERE recipient_user_id LIKE '%s-%%'", run);
    world_wait_count(w, 0,
                     "SELECT count(*) FROM dispatches d JOIN notifications n ON n.id = d.notification_id"
                     " WHERE n.recipient_user_id LIKE '%s-%%' AND d.state = 'queued'",
                     run);
}

static int64_t count_state(struct world *w, const char *run, const char *condition)
{
    return world_count(w,
                       "SELECT count(*) FROM dispatches d JOIN notifications n ON n.id = d.notification_id"
                       " WHERE n.recipient_user_id LIKE '%s-%%' AND %s",
                       run, condition);
}

static void set_preferences(struct world *w, const char *json)
{
    char url[200];
    struct world_reply reply;
    snprintf(url, sizeof url, "%.150s/control/preferences", w->provider_url);
    world_http("POST", url, NULL, json, &reply);
    cr_assert_eq(reply.status, 200, "%s", reply.body);
    world_reply_done(&reply);
}

static struct child *start(struct world *w, const char *more)
{
    char extra[600];
    snprintf(extra, sizeof extra, "[preferences]\nurl = %.150s/preferences\n%s", w->provider_url, more);
    return world_dispatcher(w, extra);
}

#define PREFERENCE "d.state = 'suppressed' AND d.error = 'Preference'"
#define SENT       "d.state IN ('sent', 'delivered')"

/* ---- PRF-01: what is switched off is not pushed ----------------------------------------------------------
 */

Test(cases, prf_01)
{
    struct world w;
    open_world(&w, "prf_01");
    struct child *dispatcher = start(&w, ""), *reconciler = world_reconciler(&w, NULL);
    const char *users[] = {"off", "category", "other", "silent"};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 2; k++) {
            char user[32], token[64];
            snprintf(user, sizeof user, "%s-0", users[i]);
            snprintf(token, sizeof token, "ExponentPushToken[%s-%d]", users[i], k);
            world_register(&w, user, token);
        }
    }
    wait_registered(&w);
    set_preferences(&w, "{\"users\":{\"off-0\":{\"push\":false},"
                        "\"category-0\":{\"push\":true,\"categories\":{\"meetings\":false}},"
                        "\"other-0\":{\"categories\":{\"chat\":false}}}}");
    for (int i = 0; i < 2; i++) {
        produce_event(&w, users[i], 1, 1);
        wait_outcomes(&w, users[i], 1);
        printf("prf_01: %s: %lld suppressed/Preference, %lld requests to the provider, feed row exists\n",
               users[i], (long long)count_state(&w, users[i], PREFERENCE),
               (long long)simulator_stat(&w, "send", "calls"));
        cr_expect_eq(count_state(&w, users[i], PREFERENCE), 2);
        cr_expect_eq(simulator_stat(&w, "send", "calls"), 0, "the provider sees nothing");
    }
    for (int i = 2; i < 4; i++) {
        produce_event(&w, users[i], 1, 1);
        wait_outcomes(&w, users[i], 1);
        printf("prf_01: %s: %lld sent\n", users[i], (long long)count_state(&w, users[i], SENT));
        cr_expect_eq(count_state(&w, users[i], SENT), 2);
    }
    cr_expect_eq(simulator_accepted(&w, "[off-"), 0);
    cr_expect_eq(simulator_accepted(&w, "[category-"), 0);
    cr_expect_eq((int64_t)child_metric(dispatcher, "belfry_fanout_outcomes_total{result=\"suppressed\"}"), 4);
    EXPECT_COUNT(&w, 0, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* ---- PRF-08: when the look-up fails, the push goes out ---------------------------------------------------
 */

enum { PRF_USERS = 40, PRF_BOUND_MS = 2900 };

struct fault_row {
    const char *name, *act, *reason;
};

/* Users counted for this reason, or, a slow machine being slow, because the answer came too late to be
 * judged. */
static int64_t fail_open(struct child *dispatcher, const char *reason)
{
    char series[128];
    snprintf(series, sizeof series, "belfry_preferences_fail_open_total{reason=\"%s\"}", reason);
    int64_t count = (int64_t)child_metric(dispatcher, series);
    if (strcmp(reason, "timeout") != 0)
        count += (int64_t)child_metric(dispatcher, "belfry_preferences_fail_open_total{reason=\"timeout\"}");
    return count;
}

/* An event for PRF_USERS users: everything is sent, once. */
static void check_fault(struct world *w, struct child *dispatcher, const struct fault_row *row)
{
    char rule[256], mark[64];
    snprintf(rule, sizeof rule, "{\"when\":{\"path\":\"preferences\"},\"do\":%.200s}", row->act);
    snprintf(mark, sizeof mark, "[%s-", row->name);
    simulator_reset(w);
    if (row->act[0] != '\0')
        simulator_script(w, rule);
    int64_t before = fail_open(dispatcher, row->reason), from_ms = world_now_ms();
    produce_event(w, row->name, PRF_USERS, 1);
    world_wait_count(w, PRF_USERS, "SELECT count(*) FROM notifications WHERE recipient_user_id LIKE '%s-%%'",
                     row->name);
    int64_t stored_ms = world_now_ms() - from_ms;
    while (simulator_accepted(w, mark) < PRF_USERS && world_now_ms() - from_ms < 30000)
        world_sleep_ms(10);
    int64_t took_ms = world_now_ms() - from_ms, counted = fail_open(dispatcher, row->reason) - before;
    wait_outcomes(w, row->name, PRF_USERS);
    printf("prf_08: %-9s stored after %4lld ms, all %lld sent after %4lld ms, %lld counted as %s,"
           " %lld requests to the account service\n",
           row->name, (long long)stored_ms, (long long)simulator_accepted(w, mark), (long long)took_ms,
           (long long)counted, row->reason, (long long)simulator_stat(w, "preferences", "calls"));
    cr_expect_eq(simulator_accepted(w, mark), PRF_USERS, "%s: nothing lost, nothing doubled", row->name);
    cr_expect_eq(count_state(w, row->name, SENT), PRF_USERS, "%s", row->name);
    cr_expect_eq(counted, PRF_USERS, "%s: counted", row->name);
    cr_expect_lt(took_ms, PRF_BOUND_MS, "%s: bounded", row->name);
    for (int i = 0; i < PRF_USERS; i++) {
        snprintf(mark, sizeof mark, "[%s-%d]", row->name, i);
        cr_expect_eq(simulator_accepted(w, mark), 1, "%s", mark);
    }
}

Test(cases, prf_08)
{
    static const struct fault_row rows[] = {
        {"silent", "{\"hang_ms\":3000}", "timeout"},
        {"error500", "{\"status\":500,\"body\":\"oops\"}", "5xx"},
        {"error404", "{\"status\":404,\"body\":{\"error\":\"unknown user\"}}", "4xx"},
        {"html", "{\"status\":200,\"body\":\"<html>It works!</html>\",\"content_type\":\"text/html\"}",
         "not_json"},
        {"cut", "{\"status\":200,\"body\":\"{\\\"users\\\":{\\\"cut-1\\\":{\\\"push\\\":fal\"}", "not_json"},
        {"large", "{\"pad_bytes\":10485760}", "incomplete"},
    };
    static const struct fault_row refused = {"refused", "", "connection"};
    struct world w;
    open_world(&w, "prf_08");
    struct child *reconciler = world_reconciler(&w, NULL);
    struct child *dispatcher = world_dispatcher(
        &w, "[preferences]\nurl = http://127.0.0.1:9/preferences\nbreaker_failures = 1000\n");
    register_devices(&w, refused.name, PRF_USERS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        register_devices(&w, rows[i].name, PRF_USERS);
    wait_registered(&w);
    check_fault(&w, dispatcher, &refused);
    child_stop(dispatcher);
    dispatcher = start(&w, "breaker_failures = 1000\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_fault(&w, dispatcher, &rows[i]);
    cr_expect_eq(world_lag(&w, w.group, w.events), 0, "the worker keeps polling");
    EXPECT_COUNT(&w, 0, "SELECT count(*) FROM batches");
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* ---- how often it is asked -------------------------------------------------------------------------------
 */

static void print_calls(struct world *w, const char *when)
{
    printf("preferences_batching: %s: %lld requests, %lld users asked for, at most %lld a request\n", when,
           (long long)simulator_stat(w, "preferences", "calls"),
           (long long)simulator_stat(w, "preferences", "accepted"),
           (long long)simulator_stat(w, "preferences", "largest"));
}

Test(preferences, batching)
{
    enum { USERS = 1000 };
    struct world w;
    open_world(&w, "prf_batching");
    struct child *dispatcher = start(&w, "ttl = 8s\ntimeout = 2s\n"),
                 *reconciler = world_reconciler(&w, NULL);
    register_devices(&w, "b", USERS);
    wait_registered(&w);
    produce_event(&w, "b", USERS, 1);
    wait_outcomes(&w, "b", USERS);
    print_calls(&w, "1,000 users");
    cr_expect_eq(simulator_stat(&w, "preferences", "accepted"), USERS, "each user once");
    cr_expect_eq(simulator_stat(&w, "preferences", "largest"), 200);
    cr_expect_eq(simulator_stat(&w, "preferences", "calls"), 5, "3 for a window of 600, 2 for the rest");
    for (int i = 2; i <= 4; i++)
        produce_event(&w, "b", USERS, i);
    wait_outcomes(&w, "b", 4 * USERS);
    print_calls(&w, "three more events within the TTL");
    cr_expect_eq(simulator_stat(&w, "preferences", "accepted"), USERS, "no user twice within the TTL");
    cr_expect_eq((int64_t)child_metric(dispatcher, "belfry_preferences_cache_users"), USERS);
    cr_expect_eq((int64_t)child_metric(dispatcher, "belfry_preferences_cache_misses_total"), USERS);
    cr_expect_eq((int64_t)child_metric(dispatcher, "belfry_preferences_cache_hits_total"), 3 * USERS);
    world_sleep_ms(8100);
    produce_event(&w, "b", USERS, 5);
    wait_outcomes(&w, "b", 5 * USERS);
    print_calls(&w, "after the TTL");
    cr_expect_eq(simulator_stat(&w, "preferences", "accepted"), 2 * USERS);
    cr_expect_eq(simulator_stat(&w, "preferences", "largest"), 200);
    cr_expect_eq(simulator_accepted(&w, NULL), 5 * USERS);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* ---- the breaker and stale answers ------------------------------------------------------------------------
 */

Test(preferences, breaker)
{
    enum { USERS = 50 };
    struct world w;
    open_world(&w, "prf_breaker");
    struct child *dispatcher = start(&w, "ttl = 0\nbreaker_open = 3s\n"),
                 *reconciler = world_reconciler(&w, NULL);
    register_devices(&w, "k", USERS);
    wait_registered(&w);
    set_preferences(&w, "{\"users\":{\"k-7\":{\"push\":false}}}");
    produce_event(&w, "k", USERS, 1); /* everybody known from now on; with a TTL of 0 only as stale */
    wait_outcomes(&w, "k", USERS);
    cr_expect_eq(count_state(&w, "k", PREFERENCE), 1);
    int64_t good = simulator_stat(&w, "preferences", "calls");
    simulator_script(&w, "{\"when\":{\"path\":\"preferences\"},\"do\":{\"status\":503,\"body\":\"\"}}");
    for (int i = 2; i <= 11; i++) {
        produce_event(&w, "k", USERS, i);
        wait_outcomes(&w, "k", i * USERS);
    }
    int64_t bad = simulator_stat(&w, "preferences", "calls") - good;
    printf("preferences_breaker: 10 events while it answers 503: %lld requests, %lld stale answers used,"
           " %lld blind, %lld suppressed\n",
           (long long)bad, (long long)child_metric(dispatcher, "belfry_preferences_stale_total"),
           (long long)child_metric(dispatcher, "belfry_preferences_fail_open_total{reason=\"5xx\"}"),
           (long long)count_state(&w, "k", PREFERENCE));
    cr_expect_geq(bad, 5);
    cr_expect_leq(bad, 9, "5 open it; a trial every 3 s");
    cr_expect_eq(count_state(&w, "k", PREFERENCE), 11, "a stale no is a no");
    cr_expect_eq((int64_t)child_metric(dispatcher, "belfry_preferences_breaker{state=\"closed\"}"), 0);
    cr_expect(child_log_has(dispatcher, "PREFS-OPEN"));
    simulator_reset(&w);
    world_sleep_ms(3100);
    produce_event(&w, "k", USERS, 12);
    wait_outcomes(&w, "k", 12 * USERS);
    child_wait_log(dispatcher, "PREFS-CLOSED", 10);
    cr_expect_eq((int64_t)child_metric(dispatcher, "belfry_preferences_breaker{state=\"closed\"}"), 1);
    cr_expect_eq(count_state(&w, "k", PREFERENCE), 11, "the reset took the no away");
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* ---- a window that waited for the provider ----------------------------------------------------------------
 */

Test(preferences, reread)
{
    enum { USERS = 60 };
    struct world w;
    char users[4096] = "{\"users\":{";
    open_world(&w, "prf_reread");
    struct child *reconciler = world_reconciler(&w, NULL);
    struct child *dispatcher =
        start(&w, "ttl = 1s\n[fanout]\nchunk_size = 20\nmax_concurrent_requests = 1\n");
    register_devices(&w, "r", USERS);
    wait_registered(&w);
    simulator_script(&w, "{\"when\":{\"call\":1},\"do\":{\"delay_ms\":3500}}");
    produce_event(&w, "r", USERS, 1);
    /* The first window is with the provider; the second one's answers are there, and wait. */
    world_wait_count(&w, 1, "SELECT count(*) FROM batches WHERE unsent <> '{[0,60)}'");
    world_sleep_ms(500);
    cr_expect_geq(simulator_stat(&w, "preferences", "accepted"), 40);
    for (int i = 0; i < USERS; i++)
        snprintf(users + strlen(users), sizeof users - strlen(users), "%s\"r-%d\":{\"push\":false}",
                 i == 0 ? "" : ",", i);
    strcat(users, "}}");
    set_preferences(&w, users);
    wait_outcomes(&w, "r", USERS);
    printf("preferences_reread: %lld sent before, %lld suppressed after their users changed their minds"
           " while the window waited 3 s (TTL 1 s)\n",
           (long long)count_state(&w, "r", SENT), (long long)count_state(&w, "r", PREFERENCE));
    cr_expect_eq(count_state(&w, "r", SENT), 20);
    cr_expect_eq(count_state(&w, "r", PREFERENCE), 40);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* ---- killed while asking
 * ----------------------------------------------------------------------------------- */

Test(preferences, crash_consult)
{
    enum { USERS = 700 };
    struct world w;
    char extra[300];
    open_world(&w, "prf_crash");
    struct child *dispatcher = start(&w, ""), *reconciler = world_reconciler(&w, NULL);
    register_devices(&w, "c", USERS);
    wait_registered(&w);
    child_stop(dispatcher);
    snprintf(extra, sizeof extra, "[preferences]\nurl = %.150s/preferences\n", w.provider_url);
    dispatcher = world_dispatcher_crash(&w, extra, "consult");
    produce_event(&w, "c", USERS, 1);
    cr_expect_eq(child_wait(dispatcher, 60), 128 + 9);
    cr_expect_eq(simulator_accepted(&w, NULL), 0);
    dispatcher = start(&w, "");
    wait_outcomes(&w, "c", USERS);
    printf("preferences_crash_consult: %lld sent, %lld unconfirmed, %lld accepted\n",
           (long long)count_state(&w, "c", SENT), (long long)count_state(&w, "c", "d.error = 'Unconfirmed'"),
           (long long)simulator_accepted(&w, NULL));
    cr_expect_eq(count_state(&w, "c", SENT), USERS, "nothing was at risk");
    cr_expect_eq(simulator_accepted(&w, NULL), USERS);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}
