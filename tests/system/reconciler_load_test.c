/* A million dispatches through two real reconcilers: outcomes drained, receipts polled, one of the two killed
 * in the middle. Says what a receipt costs, and how many updates stayed in their page (HOT).
 *
 * BELFRY_TEST_RECORDS: how many dispatches · BELFRY_TEST_FILLFACTOR: of dispatches, to be measured with
 * another one than the schema's. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/harness.h"

enum { RECORDS = 1000 * 1000, PARTITIONS = 4, DEVICES = 100 * 1000, HOT_PERCENT_MIN = 80 };

static int64_t number_of(const char *name, int64_t fallback)
{
    const char *text = getenv(name);
    return text == NULL ? fallback : strtoll(text, NULL, 10);
}

/* What dispatches have seen so far; the server's sessions tell it about a second after the fact. */
struct seen {
    int64_t updates, hot, commits, table_bytes, index_bytes, calls, receipts, at_ms;
};

static struct seen look(struct world *w)
{
    struct seen seen = {.at_ms = world_now_ms()};
    static const char *const of_table = "SELECT %s FROM pg_stat_user_tables WHERE relname = 'dispatches'";
    seen.updates = world_count(w, of_table, "n_tup_upd");
    seen.hot = world_count(w, of_table, "n_tup_hot_upd");
    seen.commits =
        world_count(w, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()");
    seen.table_bytes = world_count(w, "SELECT pg_table_size('dispatches')");
    seen.index_bytes = world_count(w, "SELECT pg_indexes_size('dispatches')");
    seen.calls = simulator_stat(w, "receipts", "calls");
    seen.receipts = simulator_stat(w, "receipts", "accepted");
    return seen;
}

/* Batches as the dispatcher makes them: many of one event, some of a busy moment, a few full ones, now and
 * then an event to ten thousand. Table `plan`: batch, the number of its first dispatch, size. */
static void plan_batches(struct world *w, int64_t count)
{
    world_exec(w,
               "CREATE TABLE plan AS SELECT batch, first, least(size, %lld - first) AS size FROM"
               " (SELECT batch, size, (sum(size) OVER (ORDER BY batch) - size)::bigint AS first FROM"
               " (SELECT batch, CASE WHEN batch %% 176 = 88 THEN 10000 WHEN batch %% 11 = 5 THEN 1000"
               " WHEN batch %% 9 = 4 THEN 100 WHEN batch %% 4 = 2 THEN 10 ELSE 1 END AS size"
               " FROM generate_series(1, 8000 + %lld / 100) AS batch) s) f WHERE first < %lld",
               (long long)count, (long long)count, (long long)count);
    cr_assert_eq(world_count(w, "SELECT sum(size) FROM plan"), count);
    printf("%lld batches:", (long long)world_count(w, "SELECT count(*) FROM plan"));
    for (int size = 1; size <= 10000; size *= 10)
        printf(" %lld of %d,", (long long)world_count(w, "SELECT count(*) FROM plan WHERE size = %d", size),
               size);
    printf(" the last cut\n");
}

/* The rows as ingest leaves them, in the order of their batches. */
static void put_dispatches(struct world *w, int64_t count)
{
    int64_t fillfactor = number_of("BELFRY_TEST_FILLFACTOR", 0);
    if (fillfactor > 0)
        world_exec(w, "ALTER TABLE dispatches SET (fillfactor = %lld)", (long long)fillfactor);
    world_exec(w,
               "INSERT INTO device_tokens (id, token, user_id, platform, registered_at, last_seen, source_at)"
               " SELECT d, 'ExponentPushToken[' || d || ']', 'u' || d, 'ios', x, x, x FROM"
               " generate_series(0, %d) d, (SELECT now() - interval '30 d') t (x)",
               DEVICES - 1);
    int64_t from_ms = world_now_ms();
    world_exec(w,
               "INSERT INTO dispatches (id, notification_id, device_id, queued_at, updated_at)"
               " SELECT (batch::bigint << 20) + i, lpad(to_hex(first + i), 32, '0')::uuid, (first + i) %% %d,"
               " now(), now() FROM plan, LATERAL generate_series(0, size - 1) i",
               DEVICES);
    int64_t took_ms = world_now_ms() - from_ms;
    world_exec(w,
               "INSERT INTO partition_offsets AS o (group_id, topic, partition, records, events, dispatches)"
               " VALUES ('hand', 'hand', 0, %lld, %lld, %lld)",
               (long long)count, (long long)count, (long long)count);
    world_exec(w, "ANALYZE dispatches, device_tokens");
    printf("inserted in %lld ms with fillfactor %s\n", (long long)took_ms,
           fillfactor > 0 ? getenv("BELFRY_TEST_FILLFACTOR") : "of the schema");
}

/* Every transition, written by the statement that made it. */
static void record_transitions(struct world *w)
{
    world_exec(w, "CREATE UNLOGGED TABLE transitions (id bigint, to_state text)");
    world_exec(
        w, "CREATE FUNCTION note() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS 'BEGIN INSERT INTO"
           " transitions SELECT id, state FROM now_so; RETURN NULL; END'");
    world_exec(w, "CREATE TRIGGER note AFTER UPDATE ON dispatches REFERENCING NEW TABLE AS now_so FOR EACH"
                  " STATEMENT EXECUTE FUNCTION note()");
}

/* What the dispatcher tells, batch after batch, with the tickets of the simulator. */
static void tell_all(struct world *w, uint32_t run)
{
    char at[48], json[512], key[24];
    time_t now = time(NULL);
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    int64_t batches = world_count(w, "SELECT count(*) FROM plan"), number = 0;
    for (int64_t batch = 1; batch <= batches; batch++) {
        int64_t size = world_count(w, "SELECT size FROM plan WHERE batch = %lld", (long long)batch);
        snprintf(key, sizeof key, "%lld", (long long)batch);
        for (int64_t i = 0; i < size; i++, number++) {
            int64_t id = (batch << 20) + i;
            snprintf(
                json, sizeof json,
                "{\"v\":1,\"dispatch_id\":\"%lld\",\"notification_id\":\"00000000-0000-0000-0000-%012llx\","
                "\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"device_id\":\"%lld\",\"outcome\":"
                "\"sent\",\"ticket\":\"%08x-0000-7000-8000-%012llx\",\"attempt\":1,\"at\":\"%s\"}",
                (long long)id, (unsigned long long)number, (long long)(number % DEVICES), run,
                (unsigned long long)number, at);
            world_produce_fast(w, w->receipts, -1, key, json);
        }
    }
    world_flush(w);
}

struct wait {
    struct world *w;
    int64_t updates;
};

static bool are_counted(void *context)
{
    struct wait *wait = context;
    return world_count(wait->w, "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'dispatches'") >=
           wait->updates;
}

static bool are_half_way(void *context)
{
    struct wait *wait = context;
    return simulator_stat(wait->w, "receipts", "accepted") >= wait->updates;
}

static bool are_settled(void *context)
{
    struct wait *wait = context;
    return world_count(wait->w, "SELECT count(*) FROM receipt_batches") == 0;
}

/* Each dispatch came to this state, by one update. */
static void check_once(struct world *w, const char *state, int64_t count)
{
    static const char *const told = "SELECT count(%s) FROM transitions WHERE to_state = '%s'";
    cr_assert_eq(world_count(w, "SELECT count(*) FROM dispatches WHERE state = '%s'", state), count);
    cr_assert_eq(world_count(w, told, "*", state), count);
    cr_assert_eq(world_count(w, told, "DISTINCT id", state), count);
}

/* One transition from one look to the next. */
static void check_phase(struct world *w, const char *what, int64_t count, const struct seen *before,
                        struct seen *after)
{
    world_wait("statistics of the updates", 60, are_counted, &(struct wait){w, before->updates + count});
    struct seen now = look(w);
    now.at_ms = after->at_ms;
    *after = now;
    int64_t updates = after->updates - before->updates, hot = after->hot - before->hot;
    printf("%s: %lld updates, %.1f %% HOT, table %lld MiB (was %lld), index %lld MiB (was %lld)\n", what,
           (long long)updates, 100.0 * (double)hot / (double)updates, (long long)(after->table_bytes >> 20),
           (long long)(before->table_bytes >> 20), (long long)(after->index_bytes >> 20),
           (long long)(before->index_bytes >> 20));
    if (number_of("BELFRY_TEST_FILLFACTOR", 0) == 0)
        cr_assert_geq(hot * 100, updates * HOT_PERCENT_MIN, "%s: HOT", what);
}

static void report(const struct seen *from, const struct seen *to, int64_t count)
{
    double took_s = (double)(to->at_ms - from->at_ms) / 1000;
    int64_t calls = to->calls - from->calls, receipts = to->receipts - from->receipts;
    printf(
        "%lld receipts in %.1f s: %.0f a second with two reconcilers, one from the middle on;"
        " %.4f statements a receipt (all of the database counted); %lld requests, %.1f ids each, largest 300,"
        " %lld receipts fetched twice\n",
        (long long)count, took_s, (double)count / took_s,
        (double)(to->commits - from->commits) / (double)count, (long long)calls,
        (double)receipts / (double)calls, (long long)(receipts - count));
}

Test(reconciler, million, .timeout = 900)
{
    static const char *const extra = "[reconciler]\nreceipt_delay = 1d\npoll_interval = 200ms\nlease = 5s\n";
    struct world w;
    int64_t count = number_of("BELFRY_TEST_RECORDS", RECORDS);
    world_open(&w, "million");
    world_database(&w);
    world_topics(&w, PARTITIONS);
    world_simulator(&w, NULL);
    plan_batches(&w, count);
    put_dispatches(&w, count);
    record_transitions(&w);
    struct seen start = look(&w);
    tell_all(&w, simulator_tickets(&w, count));
    struct child *first = world_reconciler(&w, extra), *second = world_reconciler(&w, extra);
    world_wait_drained(&w, w.reconciler_group, w.receipts, 300);
    struct seen drained = {.at_ms = world_now_ms()};
    check_once(&w, "sent", count);
    check_phase(&w, "queued -> sent", count, &start, &drained);

    drained = look(&w);
    world_exec(&w, "UPDATE receipt_batches SET due_at = now() - interval '1 h' + batch_id * interval '1 ms'");
    world_wait("half of the receipts", 300, are_half_way, &(struct wait){&w, count / 2});
    child_kill(first);
    int64_t left = world_count(&w, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    printf("killed one with %lld of %lld not settled\n", (long long)left, (long long)count);
    world_wait("all receipts", 300, are_settled, &(struct wait){.w = &w});
    struct seen settled = {.at_ms = world_now_ms()};
    check_once(&w, "delivered", count);
    check_phase(&w, "sent -> delivered", count, &drained, &settled);
    report(&drained, &settled, count);
    cr_assert_eq(simulator_stat(&w, "receipts", "largest"), count < 300 ? count : 300);
    child_stop(second);
    world_check_books(&w);
    world_close(&w);
}
