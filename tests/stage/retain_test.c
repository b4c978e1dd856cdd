/* Retention's statements against a real Postgres: what goes, what stays, who waits for whom, and that the
 * books balance whenever one looks. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "reconcile_fixture.h"
#include "store/lease.h"
#include "store/retain.h"
#include "store_fixture.h"

enum { HOUR_MS = 3600 * 1000, STEPS_MAX = 10000 };

#define OK(...)                                                                                              \
    do {                                                                                                     \
        struct fault fault_;                                                                                 \
        fault_reset(&fault_);                                                                                \
        enum status status_ = __VA_ARGS__;                                                                   \
        cr_assert_eq(status_, ST_OK, "%s: %s: %s", #__VA_ARGS__, fault_.code, fault_.text);                  \
    } while (0)

/* Counts on the dispatcher's side what stands in the tables now. */
static void open_books(struct world *w)
{
    world_exec(w, "INSERT INTO partition_offsets (group_id, topic, partition, records, events, recipients,"
                  " notifications, dispatches) SELECT 'hand', 'hand', 0, n, n, n, n, d FROM"
                  " (SELECT count(*) FROM notifications) a (n), (SELECT count(*) FROM dispatches) b (d)");
}

/* A batch of dispatches in that state, queued so many hours ago, with notifications as old. */
static void put(struct rec *r, int64_t batch, int count, const char *state, int hours)
{
    rec_dispatches(r, batch, count, state);
    world_exec(&r->world, "UPDATE dispatches SET queued_at = now() - interval '%d h' WHERE id >> 20 = %lld",
               hours, (long long)batch);
    world_exec(&r->world,
               "UPDATE notifications SET created_at = now() - interval '%d h' WHERE batch_id = %lld", hours,
               (long long)batch);
}

struct totals {
    int64_t steps, removed, held_batches, held_receipts, held_unsettled, unsettled, held;
};

static void walk_dispatches(struct db *db, int32_t rows_max, int hours, struct totals *t)
{
    struct retain_dispatches walk = {.rows_max = rows_max,
                                     .retention_ms = (int64_t)hours * HOUR_MS,
                                     .unsettled_ms = 10 * (int64_t)HOUR_MS};
    struct retain_step step = {.seen = rows_max};
    for (int i = 0; step.seen == rows_max; i++) {
        cr_assert(i < STEPS_MAX);
        OK(retain_dispatches(db, &walk, &step, &fault_));
        t->steps++;
        t->removed += step.removed;
        t->held_batches += walk.held_batches;
        t->held_receipts += walk.held_receipts;
        t->held_unsettled += walk.held_unsettled;
        t->unsettled += walk.unsettled;
    }
}

static void walk_notifications(struct db *db, int32_t rows_max, int hours, struct totals *t)
{
    struct retain_notifications walk = {.rows_max = rows_max, .retention_ms = (int64_t)hours * HOUR_MS};
    struct retain_step step = {.seen = rows_max};
    for (int i = 0; step.seen == rows_max; i++) {
        cr_assert(i < STEPS_MAX);
        OK(retain_notifications(db, &walk, &step, &fault_));
        t->steps++;
        t->removed += step.removed;
        t->held += walk.held;
    }
}

typedef enum status heap_function(struct db *db, struct retain_heap *walk, struct retain_step *step,
                                  struct fault *fault);

static void walk_heap(struct db *db, heap_function *remove, int64_t blocks, int hours, struct totals *t)
{
    struct retain_heap walk = {.step_blocks = blocks, .keep_ms = (int64_t)hours * HOUR_MS, .blocks = 1};
    while (walk.block < walk.blocks) {
        struct retain_step step;
        OK(remove(db, &walk, &step, &fault_));
        t->steps++;
        t->removed += step.removed;
        cr_assert(t->steps < STEPS_MAX);
    }
}

/* ---- dispatches and notifications ------------------------------------------------------------------- */

Test(retain, dispatches_go_by_age_unless_owed)
{
    struct rec *r = rec_open("ret_dispatches");
    struct totals t = {0};
    put(r, 1, 7, "delivered", 100);
    put(r, 2, 5, "failed", 100); /* its batch is still being sent */
    put(r, 3, 4, "sent", 100);   /* waits for its receipts */
    put(r, 4, 3, "sent", 25);    /* nobody has work of it; a record of it may still come */
    put(r, 5, 2, "queued", 100); /* the same, and none will come */
    put(r, 6, 6, "delivered", 23);
    world_exec(&r->world, "INSERT INTO batches (id, unsent, created_at) VALUES (2, '{[0,1)}', now())");
    world_exec(&r->world, "INSERT INTO receipt_batches (batch_id, due_at) VALUES (3, now())");
    open_books(&r->world);
    walk_dispatches(r->db, 4, 24, &t);
    printf("27 dispatches in %lld steps: removed %lld; held by batches %lld, receipts %lld, unsettled %lld; "
           "removed"
           " unsettled %lld\n",
           (long long)t.steps, (long long)t.removed, (long long)t.held_batches, (long long)t.held_receipts,
           (long long)t.held_unsettled, (long long)t.unsettled);
    cr_assert(t.removed == 9 && t.unsettled == 2);
    cr_assert(t.held_batches == 5 && t.held_receipts == 4 && t.held_unsettled == 3);
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM dispatches WHERE id >> 20 IN (1, 5)");
    REC_ASSERT_COUNT(r, 18, "SELECT count(*) FROM dispatches");
    REC_ASSERT_COUNT(r, 9, "SELECT count FROM retired WHERE what = 'dispatches'");
    world_check_books(&r->world);
    world_exec(&r->world, "DELETE FROM batches; DELETE FROM receipt_batches WHERE batch_id = 3;"
                          " UPDATE dispatches SET state = 'delivered' WHERE state = 'sent'");
    walk_dispatches(r->db, 100, 24, &t);
    REC_ASSERT_COUNT(r, 6, "SELECT count(*) FROM dispatches"); /* the young ones */
    world_check_books(&r->world);
    rec_close(r);
}

Test(retain, notifications_stay_as_long_as_their_dispatches)
{
    struct rec *r = rec_open("ret_notifications");
    struct totals t = {0};
    put(r, 1, 10, "delivered", 100);
    put(r, 2, 10, "delivered", 23);
    world_exec(&r->world, "DELETE FROM dispatches WHERE id >> 20 = 1 AND id & 1 = 0");
    world_exec(
        &r->world, /* young by its id, old by the database's clock: the id bounds the walk */
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
        " VALUES ('ffffffff-ffff-7fff-bfff-ffffffffffff', 'w', 'u', 't', 'x', now() - interval '9 d'),"
        " ('00000000-0001-7000-8000-000000000000', 'w', 'u', 't', 'x', now() - interval '25 h')");
    open_books(&r->world);
    walk_notifications(r->db, 3, 100 * 365 * 24, &t); /* kept for ever: nothing is to be looked at */
    printf("a retention of 100 years: %lld step(s)\n", (long long)t.steps);
    cr_assert(t.steps == 1 && t.removed + t.held == 0);
    t = (struct totals){0};
    walk_notifications(r->db, 3, 24, &t);
    printf("22 notifications in %lld steps: removed %lld, held %lld\n", (long long)t.steps,
           (long long)t.removed, (long long)t.held);
    cr_assert(t.removed == 6 && t.held == 5);
    REC_ASSERT_COUNT(r, 0,
                     "SELECT count(*) FROM dispatches d LEFT JOIN notifications n ON n.id ="
                     " d.notification_id WHERE n.id IS NULL");
    world_check_books(&r->world);
    t = (struct totals){0};
    walk_dispatches(r->db, 100, 24, &t);
    walk_notifications(r->db, 100, 24, &t);
    REC_ASSERT_COUNT(r, 11, "SELECT count(*) FROM notifications");
    REC_ASSERT_COUNT(r, 10, "SELECT count(*) FROM dispatches");
    REC_ASSERT_COUNT(r, 11, "SELECT count FROM retired WHERE what = 'notifications'");
    world_check_books(&r->world);
    rec_close(r);
}

/* A reader marks as read, in another order than ours: neither waits for the other. */
Test(retain, a_locked_row_is_passed_over)
{
    struct rec *r = rec_open("ret_locked");
    struct totals t = {0};
    put(r, 1, 10, "delivered", 100);
    open_books(&r->world);
    world_exec(&r->world,
               "BEGIN; UPDATE notifications SET read_at = now() WHERE recipient_user_id = 'u1048579';"
               " UPDATE dispatches SET updated_at = now() WHERE id = 1048580");
    walk_dispatches(r->db, 100, 24, &t);
    cr_assert_eq(t.removed, 9);
    walk_notifications(r->db, 100, 24, &t);
    cr_assert(t.removed == 9 + 8 &&
              t.held == 1); /* without the locked one, and that of the locked dispatch */
    world_exec(&r->world, "COMMIT");
    walk_dispatches(r->db, 100, 24, &t);
    walk_notifications(r->db, 100, 24, &t);
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM notifications");
    printf("8 of 10 removed beside an open transaction on two of them, the rest once it had ended\n");
    world_check_books(&r->world);
    rec_close(r);
}

struct racer {
    struct rec *r;
    atomic_bool *stop; /* NULL: until nothing is left */
    struct totals t;
    pthread_t thread;
};

static void *race(void *argument)
{
    struct racer *racer = argument;
    struct db *db = rec_connect(racer->r);
    do {
        walk_dispatches(db, 20, 24, &racer->t);
        walk_notifications(db, 20, 24, &racer->t);
    } while (racer->stop != NULL && !atomic_load(racer->stop));
    db_close(db);
    return NULL;
}

/* As after a lease that ran out under a frozen process. */
Test(retain, two_at_once_remove_each_row_once)
{
    enum { BATCHES = 40, EACH = 50 };
    struct rec *r = rec_open("ret_two");
    for (int batch = 1; batch <= BATCHES; batch++)
        put(r, batch, EACH, "delivered", 100);
    open_books(&r->world);
    struct racer racers[2] = {{.r = r}, {.r = r}};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    while (REC_COUNT(r, "SELECT count(*) FROM dispatches") > 0)
        REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM belfry_books WHERE NOT ok");
    for (int i = 0; i < 2; i++)
        pthread_join(racers[i].thread, NULL);
    struct totals rest = {0};
    walk_notifications(r->db, 100, 24, &rest); /* those whose dispatch the other one had not removed yet */
    int64_t removed = racers[0].t.removed + racers[1].t.removed + rest.removed;
    printf("two at once: %lld and %lld rows, %lld at the end, of %d\n", (long long)racers[0].t.removed,
           (long long)racers[1].t.removed, (long long)rest.removed, 2 * BATCHES * EACH);
    cr_assert_eq(removed, 2 * BATCHES * EACH);
    world_check_books(&r->world);
    rec_close(r);
}

Test(retain, an_erasure_meanwhile_keeps_the_books)
{
    enum { BATCHES = 60, EACH = 10 };
    struct rec *r = rec_open("ret_erase");
    for (int batch = 1; batch <= BATCHES; batch++)
        put(r, batch, EACH, "delivered", batch % 2 == 0 ? 100 : 1);
    world_exec(&r->world, "UPDATE notifications SET recipient_user_id = 'p' || (batch_id %% 20)");
    open_books(&r->world);
    atomic_bool stop = false;
    struct racer racers[2] = {{.r = r, .stop = &stop}, {.r = r, .stop = &stop}};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    for (int user = 0; user < 10; user++) {
        world_exec(&r->world, "SELECT belfry_erase_user('p%d')", user);
        REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM belfry_books WHERE NOT ok");
        REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'p%d'", user);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(racers[i].thread, NULL);
    int64_t retired = REC_COUNT(r, "SELECT sum(count) FROM retired");
    printf("10 people erased while two retain: %lld rows retired by both\n", (long long)retired);
    REC_ASSERT_COUNT(r, 0,
                     "SELECT count(*) FROM dispatches d LEFT JOIN notifications n ON n.id ="
                     " d.notification_id WHERE n.id IS NULL");
    world_check_books(&r->world);
    rec_close(r);
}

/* ---- heaps ------------------------------------------------------------------------------------------ */

Test(retain, keys_go_round_the_heap)
{
    enum { KEYS = 20000 };
    struct rec *r = rec_open("ret_keys");
    struct totals t = {0};
    world_exec(&r->world,
               "INSERT INTO idempotency_keys SELECT 'notification:r:t:' || i, 'w', 0,"
               " now() - CASE WHEN i %% 3 = 0 THEN interval '25 h' ELSE interval '23 h' END FROM"
               " generate_series(1, %d) i",
               KEYS);
    world_exec(&r->world, "INSERT INTO replays SELECT 't', 0, i, 0, now() - interval '1 h' * (i %% 50) FROM"
                          " generate_series(1, 1000) i");
    int64_t blocks = REC_COUNT(r, "SELECT pg_relation_size('idempotency_keys') / 8192");
    walk_heap(r->db, retain_keys, 16, 24, &t);
    printf("%d keys in %lld blocks, %lld steps: removed %lld\n", KEYS, (long long)blocks, (long long)t.steps,
           (long long)t.removed);
    cr_assert_eq(t.removed, KEYS / 3);
    cr_assert_eq(t.steps, (blocks + 15) / 16);
    REC_ASSERT_COUNT(r, 0,
                     "SELECT count(*) FROM idempotency_keys WHERE claimed_at < now() - interval '24 h'");
    REC_ASSERT_COUNT(r, KEYS - KEYS / 3, "SELECT count(*) FROM idempotency_keys");
    walk_heap(r->db, retain_replays, 1, 24, &t);
    REC_ASSERT_COUNT(r, 480, "SELECT count(*) FROM replays"); /* those of 0 to 23 hours */
    rec_close(r);
}

Test(retain, silent_tokens_go_stale_and_registering_wins)
{
    struct rec *r = rec_open("ret_tokens");
    struct totals t = {0};
    world_exec(&r->world,
               "INSERT INTO device_tokens (token, user_id, platform, registered_at, last_seen, source_at)"
               " SELECT 'ExponentPushToken[' || i || ']', 'u' || i, 'ios', x, x, x FROM"
               " generate_series(1, 40) i, LATERAL (SELECT now() - CASE WHEN i <= 30 THEN interval '25 h'"
               " ELSE interval '23 h' END) t (x)");
    world_exec(&r->world, "UPDATE device_tokens SET enabled = false, disabled_at = now(), disabled_reason ="
                          " 'Unregistered' WHERE user_id = 'u1'");
    world_exec(&r->world, "BEGIN; SELECT belfry_register_device('u2', 'ExponentPushToken[2]', 'ios')");
    walk_heap(r->db, retain_tokens, 1, 24, &t);
    cr_assert_eq(t.removed, 28, "%lld", (long long)t.removed); /* neither u1 nor u2 */
    world_exec(&r->world, "COMMIT");
    walk_heap(r->db, retain_tokens, 1, 24, &t);
    cr_assert_eq(t.removed, 28);
    REC_ASSERT_COUNT(r, 28,
                     "SELECT count(*) FROM device_history h JOIN device_tokens d ON d.id = h.device_id WHERE"
                     " h.reason = 'Stale' AND h.change = 'disabled' AND h.at = d.disabled_at");
    REC_ASSERT_COUNT(r, 11, "SELECT count(*) FROM device_tokens WHERE enabled");
    world_exec(&r->world, "SELECT belfry_register_device('u3', 'ExponentPushToken[3]', 'ios')");
    REC_ASSERT_COUNT(r, 1,
                     "SELECT count(*) FROM belfry_devices WHERE user_id = 'u3' AND enabled AND"
                     " disabled_reason IS NULL");
    printf("40 devices, 30 silent: 1 off before, 1 registering meanwhile, %lld off as Stale\n",
           (long long)t.removed);
    rec_close(r);
}

/* ---- exports and receipt_batches -------------------------------------------------------------------- */

Test(retain, exports_expire_are_emptied_and_go)
{
    struct rec *r = rec_open("ret_exports");
    int64_t expired = 0, removed = 0, rows = 0;
    struct retain_step step;
    world_exec(&r->world,
               "INSERT INTO exports (id, feed, user_id, format, state, created_at, expires_at) SELECT"
               " lpad(i::text, 32, '0')::uuid, 'f', 'u', 'csv', s, now() - interval '9 d', now() + x FROM"
               " (VALUES (1, 'ready', interval '-1 h'), (2, 'ready', '1 h'), (3, 'failed', '1 h'),"
               " (4, 'running', NULL), (5, 'expired', '-25 h')) v (i, s, x)");
    world_exec(&r->world,
               "INSERT INTO export_rows SELECT id, i, '{}' FROM exports, generate_series(1, 25) i");
    OK(retain_exports(r->db, 100, 24 * (int64_t)HOUR_MS, &step, &fault_));
    cr_assert(step.seen == 5 && step.removed == 0, "an export with rows stays");
    OK(retain_exports_expire(r->db, 100, &expired, &fault_));
    cr_assert_eq(expired, 1);
    for (int i = 0; i < 8 && (i == 0 || removed > 0); i++, rows += removed)
        OK(retain_export_rows(r->db, 10, &removed, &fault_));
    cr_assert_eq(rows, 75);
    REC_ASSERT_COUNT(r, 25,
                     "SELECT count(*) FROM export_rows JOIN exports ON id = export_id WHERE state = 'ready'");
    OK(retain_exports(r->db, 100, 24 * (int64_t)HOUR_MS, &step, &fault_));
    cr_assert_eq(step.removed, 1); /* 5; 1 is told as expired for another day, 3 as failed */
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM exports WHERE state = 'expired'");
    REC_ASSERT_COUNT(r, 4, "SELECT count(*) FROM exports");
    printf("5 exports: 1 expired, %lld rows removed, 1 removed\n", (long long)rows);
    rec_close(r);
}

Test(retain, batches_that_polling_left_behind_go)
{
    struct rec *r = rec_open("ret_batches");
    struct retain_batches walk = {.rows_max = 2, .overdue_ms = HOUR_MS};
    struct retain_step step = {.seen = 2};
    int64_t removed = 0;
    put(r, 2, 3, "sent", 5);
    for (int batch = 1; batch <= 6; batch++)
        world_exec(&r->world,
                   "INSERT INTO receipt_batches (batch_id, due_at) VALUES (%d, now() - interval '2 h')",
                   batch);
    world_exec(&r->world,
               "UPDATE receipt_batches SET leased_until = now() + interval '1 min' WHERE batch_id = 3");
    world_exec(&r->world, "UPDATE receipt_batches SET due_at = now() - interval '50 min' WHERE batch_id = 4");
    world_exec(&r->world, "BEGIN; UPDATE receipt_batches SET version = version + 1 WHERE batch_id = 5");
    while (step.seen == 2) {
        OK(retain_batches(r->db, &walk, &step, &fault_));
        removed += step.removed;
    }
    world_exec(&r->world, "COMMIT");
    cr_assert_eq(removed, 2);
    REC_ASSERT_COUNT(r, 2 + 3 + 4 + 5, "SELECT sum(batch_id) FROM receipt_batches");
    printf("6 overdue batches: 1 with sent, 1 leased, 1 not so late, 1 being raised; 2 removed\n");
    rec_close(r);
}

/* ---- who waits -------------------------------------------------------------------------------------- */

static void run(struct db *db, const char *sql)
{
    const struct db_statement statement = {.name = sql, .sql = sql};
    OK(db_run(db, &statement, NULL, NULL, &fault_));
}

/* Everything of one turn, held open: a claim, and devices, go on beside it. */
Test(retain, ingest_waits_for_nothing)
{
    struct fixture *f = fixture_open("ret_ingest", 1);
    struct world *w = &f->world;
    struct db_settings settings = {.uri = world_role_uri(w, "belfry_reconciler"),
                                   .application_name = "retain",
                                   .role = DB_ROLE_RECONCILER,
                                   .prepared_statements = true};
    struct db *db = NULL;
    struct totals t = {0};
    OK(db_open(&settings, &db, &fault_));
    fixture_device(f, "u1", "ExponentPushToken[1]", 10);
    fixture_device(f, "u2", "ExponentPushToken[2]", 3 * 24 * 3600);
    world_exec(w, "UPDATE device_tokens SET registered_at = last_seen, source_at = last_seen");
    for (int i = 0; i < 200; i++)
        (void)fixture_event(f, 0, fixture_text(f, "old-%d", i).at, "u1");
    cr_assert_eq(fixture_claim(f).notifications, 200);
    world_exec(w, "UPDATE notifications SET created_at = now() - interval '2 d', id = ('00000000' ||"
                  " substr(id::text, 9))::uuid");
    world_exec(w, "UPDATE dispatches d SET queued_at = now() - interval '2 d', state = 'delivered',"
                  " notification_id = ('00000000' || substr(notification_id::text, 9))::uuid");
    world_exec(w,
               "UPDATE idempotency_keys SET claimed_at = now() - interval '2 d' WHERE key LIKE '%%old-1%%'");
    world_exec(w, "DELETE FROM batches");
    run(db, "BEGIN");
    walk_dispatches(db, 500, 24, &t);
    walk_notifications(db, 500, 24, &t);
    walk_heap(db, retain_keys, 16, 24, &t);
    walk_heap(db, retain_tokens, 16, 24, &t);
    printf("%lld held\n", (long long)t.held);
    cr_assert_eq(t.removed, 200 + 200 + 111 + 1, "%lld", (long long)t.removed);
    fixture_next(f);
    for (int i = 0; i < 100; i++)
        (void)fixture_event(f, 0, fixture_text(f, "new-%d", i).at, "u1");
    (void)fixture_event(f, 0, "old-2", "u1"); /* its key stays: a duplicate, without a wait */
    struct claim_outcome outcome = fixture_claim(f);
    cr_assert(outcome.notifications == 100 && outcome.duplicates == 1);
    world_exec(w, "SELECT belfry_register_device('u3', 'ExponentPushToken[3]', 'ios')");
    cr_assert_eq(world_count(w,
                             "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM"
                             " pg_database WHERE datname = current_database())"),
                 0);
    printf("a turn held open with %lld rows removed; 101 events claimed and a device registered beside it\n",
           (long long)t.removed);
    run(db, "COMMIT");
    world_check_books(w);
    db_close(db);
    fixture_close(f);
}

static void *claim_later(void *argument)
{
    struct fixture *f = argument;
    struct claim_outcome *outcome = malloc(sizeof *outcome);
    *outcome = fixture_claim(f);
    return outcome;
}

/* A claim of a key that is being removed waits for that one statement, and then stores. */
Test(retain, a_claim_waits_for_its_key_alone)
{
    struct fixture *f = fixture_open("ret_claim", 1);
    struct world *w = &f->world;
    struct db_settings settings = {.uri = world_role_uri(w, "belfry_reconciler"),
                                   .application_name = "retain",
                                   .role = DB_ROLE_RECONCILER,
                                   .prepared_statements = true};
    struct db *db = NULL;
    struct totals t = {0};
    OK(db_open(&settings, &db, &fault_));
    (void)fixture_event(f, 0, "again", "u1");
    cr_assert_eq(fixture_claim(f).notifications, 1);
    world_exec(w, "UPDATE idempotency_keys SET claimed_at = now() - interval '2 d'");
    run(db, "BEGIN");
    walk_heap(db, retain_keys, 16, 24, &t);
    cr_assert_eq(t.removed, 1);
    fixture_next(f);
    (void)fixture_event(f, 0, "again", "u1");
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, claim_later, f), 0);
    world_wait_count(w, 1,
                     "SELECT count(*) FROM pg_stat_activity a, unnest(pg_blocking_pids(a.pid)) b JOIN"
                     " pg_stat_activity h ON h.pid = b WHERE h.application_name = 'retain' AND a.datname ="
                     " current_database()");
    run(db, "COMMIT");
    void *outcome = NULL;
    pthread_join(thread, &outcome);
    printf("the claim waited for the purge; then stored %lld\n",
           (long long)((struct claim_outcome *)outcome)->notifications);
    cr_assert_eq(((struct claim_outcome *)outcome)->notifications, 1);
    free(outcome);
    db_close(db);
    fixture_close(f);
}

Test(retain, one_at_a_time_by_lease)
{
    struct rec *r = rec_open("ret_lease");
    bool first = false, second = false;
    OK(lease_take(r->db, &(struct lease){"retain", 1, 60000}, &first, &fault_));
    OK(lease_take(r->db, &(struct lease){"retain", 2, 60000}, &second, &fault_));
    cr_assert(first && !second);
    OK(lease_take(r->db, &(struct lease){"retain", 1, 60000}, &first, &fault_));
    cr_assert(first, "its holder makes it longer");
    OK(lease_take(r->db, &(struct lease){"retain", 1, 0}, &first, &fault_));
    OK(lease_take(r->db, &(struct lease){"retain", 2, 60000}, &second, &fault_));
    cr_assert(second, "given back");
    world_exec(&r->world, "UPDATE leases SET leased_until = now() - interval '1 s' WHERE what = 'retain'");
    OK(lease_take(r->db, &(struct lease){"retain", 1, 60000}, &first, &fault_));
    cr_assert(first, "run out");
    printf("refused while held, taken when given back and when run out\n");
    rec_close(r);
}
