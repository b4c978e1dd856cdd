/* settled.bound against a real Postgres: below everything that can still commit, and never back. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>

#include "reconcile_fixture.h"
#include "store/settle.h"

static int64_t look(struct rec *r, int64_t *prepared)
{
    int64_t bound_us = 0;
    struct fault fault;
    fault_reset(&fault);
    enum status status = settle_read(r->db, "notifications", &bound_us, prepared, &fault);
    cr_assert_eq(status, ST_OK, "%s: %s", fault.code, fault.text);
    return bound_us;
}

static void move(struct rec *r, int64_t bound_us)
{
    struct fault fault;
    fault_reset(&fault);
    enum status status = settle_move(r->db, "notifications", bound_us, &fault);
    cr_assert_eq(status, ST_OK, "%s: %s", fault.code, fault.text);
}

static int64_t bound_of(struct rec *r)
{
    return REC_COUNT(r, "SELECT (extract(epoch FROM bound) * 1000000)::int8 FROM settled WHERE feed ="
                        " 'notifications'");
}

static const char *const insert =
    "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title,"
    " created_at) VALUES (gen_random_uuid(), 'w', 'u', 't', 'x', clock_timestamp())";

Test(settle, the_bound_waits_for_writers_and_never_goes_back)
{
    struct rec *r = rec_open("set_bound");
    int64_t prepared = -1, before = look(r, &prepared);
    cr_assert_eq(prepared, 0);
    move(r, before);
    cr_assert_eq(bound_of(r), before);
    move(r, before - 5000000);
    cr_assert_eq(bound_of(r), before, "never back");
    world_exec(&r->world, "BEGIN; %s", insert);
    world_sleep_ms(50);
    int64_t held = look(r, &prepared);
    world_sleep_ms(50);
    cr_assert_eq(look(r, &prepared), held, "the writer's start holds it");
    cr_assert(held >= before);
    cr_assert_eq(REC_COUNT(r,
                           "SELECT count(*) FROM notifications WHERE created_at >= to_timestamp(%lld / 1e6)",
                           (long long)held),
                 1);
    world_exec(&r->world, "COMMIT");
    cr_assert(look(r, &prepared) > held);
    /* Another relation's writer holds nothing. */
    world_exec(&r->world, "BEGIN; INSERT INTO workspace_members (workspace_id, user_id) VALUES ('w', 'u')");
    held = look(r, &prepared);
    world_sleep_ms(20);
    cr_assert(look(r, &prepared) > held);
    world_exec(&r->world, "COMMIT");
    rec_close(r);
}

Test(settle, a_prepared_transaction_is_seen)
{
    struct rec *r = rec_open("set_prepared");
    int64_t prepared = 0;
    if (REC_COUNT(r, "SELECT current_setting('max_prepared_transactions')::int") == 0) {
        printf("max_prepared_transactions is 0 here: there can be none\n");
        rec_close(r);
        return;
    }
    world_exec(&r->world, "BEGIN; %s", insert);
    world_exec(&r->world, "PREPARE TRANSACTION '%s'", r->world.database);
    (void)look(r, &prepared);
    cr_assert_eq(prepared, 1);
    world_exec(&r->world, "ROLLBACK PREPARED '%s'", r->world.database);
    (void)look(r, &prepared);
    cr_assert_eq(prepared, 0);
    rec_close(r);
}

struct beat {
    struct rec *r;
    volatile bool stop;
    int64_t moves;
};

static void *settle_always(void *argument)
{
    struct beat *beat = argument;
    struct db *db = rec_connect(beat->r);
    while (!beat->stop) {
        int64_t bound_us = 0, prepared = 0;
        struct fault fault;
        if (settle_read(db, "notifications", &bound_us, &prepared, &fault) == ST_OK && prepared == 0 &&
            settle_move(db, "notifications", bound_us, &fault) == ST_OK)
            beat->moves++;
    }
    db_close(db);
    return NULL;
}

/* Whenever a writer is about to commit, the bound is not above its row. */
Test(settle, no_row_commits_below_the_bound)
{
    enum { ROWS = 400 };
    struct rec *r = rec_open("set_gapless");
    struct beat beat = {.r = r};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, settle_always, &beat), 0);
    for (int i = 0; i < ROWS; i++) {
        world_exec(&r->world, "BEGIN; %s", insert);
        if (i % 20 == 0)
            world_sleep_ms(10);
        cr_assert_eq(REC_COUNT(r,
                               "SELECT count(*) FROM settled s WHERE s.bound > (SELECT max(created_at) FROM"
                               " notifications)"),
                     0, "row %d", i);
        world_exec(&r->world, "COMMIT");
    }
    beat.stop = true;
    pthread_join(thread, NULL);
    printf("%d rows, %lld moves of the bound, none above a row that was still to commit\n", ROWS,
           (long long)beat.moves);
    cr_assert(beat.moves > 10);
    rec_close(r);
}
