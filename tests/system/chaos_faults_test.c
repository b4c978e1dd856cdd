/* Line 3 of issue "The dispatcher at full strength": frozen workers, a rebalance storm, Postgres restarted,
 * its sessions terminated, the broker killed, the provider hanging, resetting, answering garbage. Nothing is
 * lost, nothing is doubled, and Unconfirmed is at most a window for each kill, or what the script made so. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/chaos.h"

enum { EVENTS = 20000, SLICE = 500, PARTITIONS = 4 };

static bool reached(struct chaos *c, int64_t records)
{
    return chaos_stored(c) >= records;
}

static void wait_stored(struct chaos *c, int64_t records, int seconds)
{
    int64_t deadline = world_now_ms() + (int64_t)seconds * 1000;
    while (!reached(c, records)) {
        cr_assert(world_now_ms() < deadline, "%lld of %lld records stored after %d s: see %s",
                  (long long)chaos_stored(c), (long long)records, seconds, c->w.folder);
        world_sleep_ms(20);
    }
}

static int64_t count_unconfirmed(struct chaos *c)
{
    return world_count(&c->w, "SELECT count(*) FROM dispatches WHERE state = 'failed' AND error = "
                              "'Unconfirmed'");
}

/* -- frozen workers ----------------------------------------------------------------------------------------
 */

/* Frozen at a crash point while it holds a batch or a window; another one brings all to rest without it;
 * then it wakes, finds its fences gone, and works on. */
static void freeze_at(struct chaos *c, const char *at, int share)
{
    struct child *victim = world_dispatcher_crash(&c->w, CHAOS_INI, at);
    int64_t deadline = world_now_ms() + 90000;
    chaos_produce(c, share / 2);
    for (int made = share / 2; !chaos_is_frozen(victim); made += SLICE) {
        cr_assert(world_now_ms() < deadline && made < EVENTS, "never came to %s: see %s", at, victim->log);
        chaos_produce(c, SLICE);
        world_sleep_ms(100);
    }
    chaos_settle(c, CHAOS_SETTLE_S);
    world_sleep_ms(3000); /* past the session and the lease in any case */
    int64_t asleep = count_unconfirmed(c);
    child_signal(victim, SIGCONT);
    chaos_produce(c, share / 2);
    child_wait_ready(victim, 60);
    chaos_settle(c, CHAOS_SETTLE_S);
    printf("frozen at %-14s Unconfirmed while it slept %lld, after it woke %lld; found its %s%s\n", at,
           (long long)asleep, (long long)count_unconfirmed(c),
           child_log_has(victim, "ING-FENCED") || child_log_has(victim, "ING-PARTITIONS-LOST")
               ? "partitions gone "
               : "",
           child_log_has(victim, "FAN-LOST") ? "batches gone" : "batches still its own");
    fflush(stdout);
    child_stop(victim);
}

Test(dispatcher, frozen, .timeout = 380)
{
    static const char *const points[] = {"claim:3:stop", "claimed:3:stop", "window:3:stop", "send:3:stop",
                                         "publish:3:stop"};
    enum { POINTS = sizeof points / sizeof points[0] };
    static struct chaos c;
    struct chaos_figures figures;
    chaos_open(&c, "frozen", PARTITIONS, CHAOS_SHARED);
    struct child *stays = world_dispatcher(&c.w, CHAOS_INI);
    for (int i = 0; i < POINTS; i++)
        freeze_at(&c, points[i], EVENTS / POINTS);
    chaos_check(&c, "frozen", (int64_t)POINTS * CHAOS_WINDOW, &figures);
    child_stop(stays);
    chaos_close(&c);
}

/* -- rebalance storm ---------------------------------------------------------------------------------------
 */

enum { WORKERS = 6, TICKS = 20, TICK_MS = 2000 };

struct worker {
    struct child *child; /* NULL: not running */
    bool stopping;
};

/* A start does not wait for ready ("none" is no crash point): the next stop may hit it while it joins. */
static void toggle_worker(struct chaos *c, struct worker *worker, int *starts, int *stops)
{
    if (worker->child == NULL) {
        worker->child = world_dispatcher_crash(&c->w, CHAOS_INI, "none");
        ++*starts;
    } else if (!worker->stopping) {
        child_signal(worker->child, SIGTERM);
        worker->stopping = true;
        ++*stops;
    }
}

/* Those that were told to stop and have ended make room for a new start. */
static void collect_worker(struct worker *worker)
{
    if (worker->child == NULL || child_running(worker->child))
        return;
    int code = worker->child->exit_code;
    /* 128 + SIGTERM: it had not come as far as to listen to the signal. */
    cr_assert(worker->stopping && (code == 0 || code == 128 + SIGTERM), "%s left with %d: see %s",
              worker->child->name, code, worker->child->log);
    *worker = (struct worker){NULL, false};
}

static void run_tick(struct chaos *c, struct worker *workers, int64_t until)
{
    chaos_produce(c, EVENTS / TICKS);
    while (world_now_ms() < until) {
        for (int i = 0; i < WORKERS; i++)
            collect_worker(&workers[i]);
        world_sleep_ms(20);
    }
}

Test(dispatcher, rebalance_storm, .timeout = 380)
{
    static struct chaos c;
    struct worker workers[WORKERS] = {{NULL, false}};
    struct chaos_figures figures;
    int starts = 0, stops = 0;
    chaos_open(&c, "storm", 12, CHAOS_SHARED);
    for (int tick = 0; tick < TICKS; tick++) {
        int64_t until = world_now_ms() + TICK_MS;
        /* All six change at every tick, so that three start while three stop. */
        for (int i = 0; i < WORKERS; i += tick == 0 ? 2 : 1)
            toggle_worker(&c, &workers[i], &starts, &stops);
        run_tick(&c, workers, until);
    }
    printf("storm: %d starts, %d stops in %d s; %lld of %d records stored meanwhile\n", starts, stops,
           TICKS * TICK_MS / 1000, (long long)chaos_stored(&c), c.made);
    struct child *last = world_dispatcher(&c.w, CHAOS_INI);
    chaos_settle(&c, CHAOS_SETTLE_S);
    chaos_check(&c, "rebalance storm", 0, &figures); /* nobody was killed */
    child_stop(last);
    chaos_close(&c);
}

/* -- Postgres and Kafka away -------------------------------------------------------------------------------
 */

/* A lease longer than the outage, as in production: who comes back finds its batches its own, and a window
 * whose answer got lost is taken again. With a shorter one somebody else reports it as Unconfirmed. */
#define PATIENT CHAOS_INI "lease = 30s\n"

/* Events flow while something is done to a server each time a share of them is stored. */
struct outage {
    const char *name;
    enum chaos_own own;
    void (*act)(struct chaos *c, int n);
    int acts;
    const char *counted_as; /* the metric that shows it, in all of them */
};

static void run_outage(const struct outage *outage)
{
    static struct chaos c;
    struct chaos_figures figures;
    chaos_open(&c, outage->name, PARTITIONS, outage->own);
    struct child *dispatchers[2] = {world_dispatcher(&c.w, PATIENT), world_dispatcher(&c.w, PATIENT)};
    int share = EVENTS / (outage->acts + 1);
    for (int i = 0; i < outage->acts; i++) {
        int64_t before = c.made;
        chaos_produce(&c, share);
        wait_stored(&c, before + share / 4, CHAOS_SETTLE_S);
        int64_t stored = chaos_stored(&c);
        int64_t open = world_count(&c.w, "SELECT count(*) FROM batches");
        outage->act(&c, i);
        printf("%s %d: at %lld of %d records, %lld batches open\n", outage->name, i + 1, (long long)stored,
               c.made, (long long)open);
        fflush(stdout);
    }
    chaos_produce(&c, EVENTS - c.made);
    chaos_settle(&c, CHAOS_SETTLE_S);
    for (int i = 0; i < 2; i++)
        child_wait_ready(dispatchers[i], 60);
    chaos_check(&c, outage->name, 0, &figures); /* no dispatcher was killed */
    struct child *all[] = {dispatchers[0], dispatchers[1], c.reconciler};
    for (int i = 0; i < 3; i++) {
        double reconnects = child_metric(all[i], outage->counted_as);
        printf("%s: %s %g\n", all[i]->name, outage->counted_as, reconnects);
        cr_expect_gt(reconnects, 0);
    }
    for (int i = 0; i < 2; i++)
        child_stop(dispatchers[i]);
    chaos_close(&c);
}

static void restart_postgres(struct chaos *c, int n)
{
    chaos_postgres(c, "restart", n % 2 == 0 ? "fast" : "immediate");
    world_reconnect(&c->w);
}

Test(dispatcher, postgres_restart, .timeout = 380)
{
    run_outage(&(struct outage){"pg_restart", CHAOS_OWN_POSTGRES, restart_postgres, 4,
                                "belfry_postgres_reconnects_total"});
}

/* First whoever is idle, then, some thirty times, whoever is in the middle of a statement. */
static void terminate_sessions(struct chaos *c, int n)
{
    int64_t killed = 0;
    int rounds = n % 2 == 0 ? 5 : 40;
    for (int i = 0; i < rounds; i++) {
        killed += world_count(
            &c->w,
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND usename IN ('belfry_dispatcher', 'belfry_reconciler')"
            " AND %s",
            n % 2 == 0 ? "state LIKE 'idle%'" : "state = 'active'");
        world_sleep_ms(n % 2 == 0 ? 200 : 50);
    }
    printf("sessions terminated, %s: %lld\n", n % 2 == 0 ? "idle" : "in mid-transaction", (long long)killed);
}

Test(dispatcher, sessions_terminated, .timeout = 380)
{
    run_outage(&(struct outage){"sessions", CHAOS_SHARED, terminate_sessions, 4,
                                "belfry_postgres_reconnects_total"});
}

static void kill_broker(struct chaos *c, int n)
{
    chaos_kafka(c, "stop", "kill");
    world_sleep_ms(n * 4000); /* the second time past the session */
    chaos_kafka(c, "start", NULL);
}

Test(dispatcher, broker_restart, .timeout = 380)
{
    run_outage(&(struct outage){"broker", CHAOS_OWN_KAFKA, kill_broker, 2, "belfry_kafka_reconnects_total"});
}

/* -- a provider that misbehaves ----------------------------------------------------------------------------
 */

enum { BAD_ANSWERS = 10, CHUNK = 100 };

#define IMPATIENT CHAOS_INI "[provider]\nrequest_timeout = 1s\nprovider_pause = 200ms\n"

/* The next requests are answered so, twice with the messages taken and twice without. Where they were taken,
 * the record says so; whoever's answer was lost is Unconfirmed and never sent again. */
static void run_provider(const char *name, const char *const *answers, int count)
{
    static struct chaos c;
    struct chaos_figures figures;
    char rule[512];
    chaos_open(&c, name, PARTITIONS, CHAOS_SHARED);
    struct child *dispatchers[2] = {world_dispatcher(&c.w, IMPATIENT), world_dispatcher(&c.w, IMPATIENT)};
    int64_t bad = 0;
    int share = EVENTS / (count + 1);
    for (int i = 0; i < count; i++) {
        snprintf(rule, sizeof rule, "{\"when\":{\"next\":%d},\"do\":{%s,\"accept\":%s}}", BAD_ANSWERS,
                 answers[i], i % 2 == 0 ? "true" : "false");
        simulator_script(&c.w, rule);
        bad += BAD_ANSWERS;
        chaos_produce(&c, share);
        chaos_settle(&c, CHAOS_SETTLE_S);
        printf("%s: %s: Unconfirmed so far %lld of at most %lld\n", name, rule,
               (long long)count_unconfirmed(&c), (long long)bad * CHUNK);
        fflush(stdout);
    }
    chaos_produce(&c, EVENTS - c.made);
    chaos_settle(&c, CHAOS_SETTLE_S);
    chaos_check(&c, name, bad * CHUNK, &figures);
    cr_expect(figures.unconfirmed > 0, "bad answers, yet nothing is Unconfirmed");
    cr_expect(figures.failed == 0 && figures.expired == 0);
    for (int i = 0; i < 2; i++)
        child_stop(dispatchers[i]);
    chaos_close(&c);
}

Test(dispatcher, provider_hanging, .timeout = 380)
{
    static const char *const answers[] = {"\"hang_ms\":3000", "\"hang_ms\":3000"};
    run_provider("hanging", answers, 2);
}

Test(dispatcher, provider_reset, .timeout = 380)
{
    static const char *const answers[] = {"\"close\":\"reset\"", "\"close\":\"reset\"",
                                          "\"close\":\"before_reply\"", "\"close\":\"before_reply\"",
                                          "\"close\":\"mid_body\""};
    run_provider("reset", answers, 5);
}

Test(dispatcher, provider_garbage, .timeout = 380)
{
    static const char *const answers[] = {
        "\"status\":200,\"body\":\"{\\\"data\\\":[{\\\"status\\\":\"",
        "\"status\":502,\"body\":\"<html>Bad Gateway</html>\",\"content_type\":\"text/html\"",
        "\"raw\":\"\\u0001\\u0002garbage\\r\\n\\r\\n\"",
        "\"status\":200,\"body\":\"\"",
    };
    run_provider("garbage", answers, 4);
}
