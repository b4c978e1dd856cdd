/* Windows, leases and risked ordinals against a real Postgres: who may send what, by the database alone. */
#include "store/window.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "model/dispatch.h"
#include "model/owner.h"
#include "store_fixture.h"

#define COUNT(f, ...)           world_count(&(f)->world, __VA_ARGS__)
#define ASSERT_COUNT(f, n, ...) cr_assert_eq(COUNT(f, __VA_ARGS__), n)

/* Two dispatchers on one connection. */
struct owners {
    struct window_scope mine, theirs;
    struct db_params params[2];
};

static struct window_scope scope_of(struct fixture *f, struct db_params *params)
{
    db_params_init(params, WINDOW_PARAMS_BYTES_MAX);
    return (struct window_scope){
        .db = f->db, .params = params, .owner = owner_make(), .lease_ms = 60000, .push_max_age_ms = 3600000};
}

static struct fixture *open_owners(const char *name, struct owners *owners)
{
    struct fixture *f = fixture_open(name, 1);
    owners->mine = scope_of(f, &owners->params[0]);
    owners->theirs = scope_of(f, &owners->params[1]);
    return f;
}

static void close_owners(struct fixture *f, struct owners *owners)
{
    db_params_done(&owners->params[0]);
    db_params_done(&owners->params[1]);
    fixture_close(f);
}

/* n users u0 … with one device each, one event for all of them: one free batch of n dispatches. */
static int64_t make_batch(struct fixture *f, const char *run, int n)
{
    char users[8000] = "";
    for (int i = 0; i < n; i++)
        snprintf(users + strlen(users), sizeof users - strlen(users), "%su%d", i == 0 ? "" : " ", i);
    fixture_event(f, 0, run, users);
    struct claim_outcome outcome = fixture_claim(f);
    fixture_next(f);
    cr_assert_eq(outcome.batch_count, 1);
    cr_assert_eq(outcome.batches[0].unsent, (uint32_t)n);
    return outcome.batches[0].batch_id;
}

static void make_devices(struct fixture *f, int n)
{
    for (int i = 0; i < n; i++) {
        char user[32], token[64];
        snprintf(user, sizeof user, "u%d", i);
        snprintf(token, sizeof token, "ExponentPushToken[%d]", i);
        fixture_device(f, user, token, 10);
    }
}

static int take(const struct window_scope *scope, size_t most, struct batch_row *rows)
{
    struct batch_query query = {.count_max = most, .others = true};
    struct db_result *result = NULL;
    struct fault fault;
    cr_assert_eq(batch_take(scope, &query, &result, &fault), ST_OK, "%s", fault.text);
    int count = db_result_rows(result);
    for (int i = 0; i < count; i++)
        batch_take_row(result, i, &rows[i]);
    db_result_free(result);
    return count;
}

static struct db_result *window(const struct window_scope *scope, int64_t batch_id, int32_t first,
                                int32_t stop)
{
    struct window_range range = {batch_id, first, stop};
    struct db_result *result = NULL;
    struct fault fault;
    cr_assert_eq(window_take(scope, &range, 1, &result, &fault), ST_OK, "%s", fault.text);
    return result;
}

Test(window, one_owner_takes_each_ordinal_once)
{
    struct owners o;
    struct fixture *f = open_owners("window_once", &o);
    make_devices(f, 30);
    int64_t id = make_batch(f, "r1", 30);
    struct batch_row rows[4];
    cr_assert_eq(take(&o.mine, 10, rows), 1);
    cr_assert_eq(rows[0].range.batch_id, id);
    cr_assert_eq(rows[0].range.first, 0);
    cr_assert_eq(rows[0].range.stop, 30);
    cr_assert_not(rows[0].had_owner);
    cr_assert_eq(take(&o.theirs, 10, rows), 0, "a leased batch is nobody else's");

    struct db_result *result = window(&o.theirs, id, 0, 10);
    cr_assert_eq(db_result_rows(result), 0, "the fence: not the owner");
    db_result_free(result);
    ASSERT_COUNT(f, 1, "SELECT count(*) FROM batches WHERE unsent = '{[0,30)}'");

    result = window(&o.mine, id, 0, 10);
    cr_assert_eq(db_result_rows(result), 10);
    for (int i = 0; i < 10; i++) {
        struct window_row row;
        window_take_row(result, i, &row);
        cr_assert(row.has_dispatch);
        cr_assert_eq(row.dispatch_id, dispatch_id(id, (uint32_t)i));
        cr_assert(row.suppressed.at == NULL);
        cr_assert(span_is(row.title, "title of r1"));
        cr_assert(span_is(row.workspace_id, "w"));
        cr_assert_eq(memcmp(row.token.at, "ExponentPushToken[", 18), 0);
    }
    db_result_free(result);
    ASSERT_COUNT(f, 1, "SELECT count(*) FROM batches WHERE unsent = '{[10,30)}'");
    close_owners(f, &o);
}

Test(window, recipients_come_once_and_nothing_moves)
{
    struct owners o;
    struct fixture *f = open_owners("window_recipients", &o);
    make_devices(f, 3);
    fixture_device(f, "u1", "ExponentPushToken[second]", 10);
    fixture_event(f, 0, "r1", "u0 u1 u2");
    struct claim_outcome outcome = fixture_claim(f);
    int64_t id = outcome.batches[0].batch_id;
    struct batch_row rows[4];
    cr_assert_eq(take(&o.mine, 10, rows), 1);
    cr_assert_eq(rows[0].range.stop, 4);
    world_exec(&f->world, "UPDATE dispatches SET state = 'sent' WHERE notification_id ="
                          " (SELECT id FROM notifications WHERE recipient_user_id = 'u2')");
    const struct window_range ranges[] = {{id, 0, 2}, {id, 2, 4}};
    struct db_result *result = NULL;
    struct fault fault;
    cr_assert_eq(window_recipients(&o.mine, ranges, 2, &result, &fault), ST_OK, "%s", fault.text);
    cr_expect_eq(db_result_rows(result), 2, "u1 has two devices; u2 has an outcome");
    cr_expect_not(span_same(window_recipient_row(result, 0), window_recipient_row(result, 1)));
    for (int i = 0; i < 2; i++)
        cr_expect(span_is(window_recipient_row(result, i), "u0") ||
                  span_is(window_recipient_row(result, i), "u1"));
    db_result_free(result);
    ASSERT_COUNT(f, 1, "SELECT count(*) FROM batches WHERE unsent = '{[0,4)}'");
    struct window_row row;
    result = window(&o.mine, id, 0, 1);
    window_take_row(result, 0, &row);
    cr_expect(span_is(row.category, "general"));
    db_result_free(result);
    close_owners(f, &o);
}

Test(window, tokens_are_as_they_are_now)
{
    struct owners o;
    struct fixture *f = open_owners("window_now", &o);
    make_devices(f, 7);
    int64_t id = make_batch(f, "r1", 7);
    struct batch_row rows[4];
    cr_assert_eq(take(&o.mine, 10, rows), 1);
    world_exec(&f->world,
               "UPDATE device_tokens SET user_id = 'someone' WHERE user_id = 'u1';"
               "UPDATE device_tokens SET enabled = false, disabled_at = now() WHERE user_id = 'u2';"
               "DELETE FROM device_tokens WHERE user_id = 'u3';"
               "UPDATE notifications SET expires_at = now() WHERE recipient_user_id = 'u4';"
               "UPDATE notifications SET event_at = now() - interval '2 hours'"
               " WHERE recipient_user_id = 'u5';"
               "UPDATE dispatches SET state = 'sent' WHERE notification_id ="
               " (SELECT id FROM notifications WHERE recipient_user_id = 'u6')");
    static const char *const want[] = {"",        "DeviceChanged", "DeviceChanged", "DeviceChanged",
                                       "Expired", "Expired"};
    struct db_result *result = window(&o.mine, id, 0, 7);
    cr_assert_eq(db_result_rows(result), 6, "what has an outcome is not sent");
    for (int i = 0; i < 6; i++) {
        struct window_row row;
        window_take_row(result, i, &row);
        char user[8];
        snprintf(user, sizeof user, "u%d", i);
        cr_assert(span_is(row.recipient_user_id, user));
        cr_assert(span_is(row.suppressed, want[i]), "%s: %.*s", user, (int)row.suppressed.bytes,
                  row.suppressed.at);
        if (i >= 1 && i <= 3)
            cr_assert(row.token.at == NULL, "another's token never leaves the database");
    }
    db_result_free(result);
    close_owners(f, &o);
}

Test(window, leases_run_out_by_the_databases_clock)
{
    struct owners o;
    struct fixture *f = open_owners("window_lease", &o);
    make_devices(f, 10);
    int64_t id = make_batch(f, "r1", 10);
    struct batch_row rows[4];
    cr_assert_eq(take(&o.mine, 10, rows), 1);
    db_result_free(window(&o.mine, id, 0, 4));
    world_exec(&f->world, "UPDATE batches SET leased_until = now() - interval '1 second'");
    struct db_result *result = NULL;
    struct fault fault;
    cr_assert_eq(batch_renew(&o.mine, &id, 1, &result, &fault), ST_OK);
    cr_assert_eq(db_result_rows(result), 1, "late, but nobody took it");
    db_result_free(result);
    cr_assert_eq(take(&o.theirs, 10, rows), 0);
    world_exec(&f->world, "UPDATE batches SET leased_until = now() - interval '1 second'");
    cr_assert_eq(take(&o.theirs, 10, rows), 1);
    cr_assert(rows[0].had_owner);
    cr_assert_eq(rows[0].range.first, 4);
    cr_assert_eq(batch_renew(&o.mine, &id, 1, &result, &fault), ST_OK);
    cr_assert_eq(db_result_rows(result), 0, "not ours any more");
    db_result_free(result);
    result = window(&o.mine, id, 4, 10);
    cr_assert_eq(db_result_rows(result), 0);
    db_result_free(result);

    /* What the first owner risked, but for the one that has an outcome already. */
    world_exec(&f->world, "UPDATE dispatches SET state = 'sent' WHERE id = %lld",
               (long long)dispatch_id(id, 2));
    struct risked_query query = {.batch_id = id, .after_id = dispatch_id(id, 0) - 1, .count_max = 2};
    static const uint32_t want[] = {0, 1, 3};
    for (size_t seen = 0; seen < 3;) {
        cr_assert_eq(batch_risked(&o.theirs, &query, &result, &fault), ST_OK);
        cr_assert_eq(db_result_rows(result), seen == 0 ? 2 : 1);
        for (int i = 0; i < db_result_rows(result); i++) {
            struct window_row row;
            batch_risked_row(result, i, &row);
            cr_assert_eq(dispatch_ordinal(row.dispatch_id), want[seen++]);
            cr_assert(span_is(row.workspace_id, "w"));
            query.after_id = row.dispatch_id;
        }
        db_result_free(result);
    }
    printf("a lease that ran out: kept while nobody took it; taken over once, and then the former owner "
           "renewed 0, "
           "took 0 of 6; 3 of its 4 risked are told by the new one, the fourth has an outcome\n");
    close_owners(f, &o);
}

Test(window, a_row_goes_only_when_nothing_is_unsent)
{
    struct owners o;
    struct fixture *f = open_owners("window_finish", &o);
    make_devices(f, 4);
    int64_t id = make_batch(f, "r1", 4), finished = -1;
    struct batch_row rows[4];
    struct fault fault;
    cr_assert_eq(take(&o.mine, 10, rows), 1);
    db_result_free(window(&o.mine, id, 0, 2));
    cr_assert_eq(batch_finish(&o.mine, &id, 1, &finished, &fault), ST_OK);
    cr_assert_eq(finished, 0, "half of it is unsent");
    db_result_free(window(&o.mine, id, 2, 4));
    cr_assert_eq(batch_finish(&o.theirs, &id, 1, &finished, &fault), ST_OK);
    cr_assert_eq(finished, 0, "not the owner");
    cr_assert_eq(batch_finish(&o.mine, &id, 1, &finished, &fault), ST_OK);
    cr_assert_eq(finished, 1);
    ASSERT_COUNT(f, 0, "SELECT count(*) FROM batches");
    close_owners(f, &o);
}

Test(window, release_puts_back_what_was_not_begun)
{
    struct owners o;
    struct fixture *f = open_owners("window_release", &o);
    make_devices(f, 10);
    int64_t one = make_batch(f, "r1", 10), two = make_batch(f, "r2", 10);
    struct batch_row rows[4];
    struct fault fault;
    cr_assert_eq(take(&o.mine, 10, rows), 2);
    db_result_free(window(&o.mine, one, 0, 6)); /* its answer was lost, say: 0-3 was sent before */
    struct batch_release release[] = {{one, false}, {two, true}};
    struct window_range ranges[] = {{one, 4, 10}, {two, 0, 10}};
    struct batch_releases releases = {release, 2, ranges, 2};
    cr_assert_eq(batch_release(&o.mine, &releases, &fault), ST_OK, "%s", fault.text);
    ASSERT_COUNT(f, 1,
                 "SELECT count(*) FROM batches WHERE id = %lld AND unsent = '{[4,10)}'"
                 " AND leased_until IS NULL AND owner = %lld",
                 (long long)one, (long long)o.mine.owner);
    ASSERT_COUNT(f, 1,
                 "SELECT count(*) FROM batches WHERE id = %lld AND unsent = '{[0,10)}'"
                 " AND leased_until IS NULL AND owner IS NULL",
                 (long long)two);
    close_owners(f, &o);
}

Test(window, urgent_first_then_oldest)
{
    struct owners o;
    struct fixture *f = open_owners("window_order", &o);
    make_devices(f, 2);
    int64_t one = make_batch(f, "r1", 2), two = make_batch(f, "r2", 2), three = make_batch(f, "r3", 2);
    world_exec(&f->world,
               "UPDATE batches SET urgent = true WHERE id = %lld;"
               "UPDATE batches SET unsent = '{[0,1),[5,7)}' WHERE id = %lld",
               (long long)three, (long long)one);
    struct batch_row rows[8];
    int64_t held[] = {two};
    struct batch_query query = {.count_max = 10, .others = true, .held = held, .held_count = 1};
    struct db_result *result = NULL;
    struct fault fault;
    cr_assert_eq(batch_take(&o.mine, &query, &result, &fault), ST_OK);
    cr_assert_eq(db_result_rows(result), 3);
    for (int i = 0; i < 3; i++)
        batch_take_row(result, i, &rows[i]);
    db_result_free(result);
    cr_assert_eq(rows[0].range.batch_id, three);
    cr_assert_eq(rows[1].range.batch_id, one);
    cr_assert_eq(rows[1].range.stop, 1);
    cr_assert_eq(rows[2].range.first, 5);
    cr_assert_eq(take(&o.mine, 10, rows), 1);
    cr_assert_eq(rows[0].range.batch_id, two);
    close_owners(f, &o);
}

/* ---- the plan --------------------------------------------------------------------------------------------
 */

/* Rows for n batches of 100 dispatches, put in by hand; 100 a user's device each. */
static void fill_tables(struct fixture *f, int batches)
{
    world_exec(&f->world,
               "INSERT INTO device_tokens (token, user_id, platform) SELECT 'ExponentPushToken[' || g || ']',"
               " 'u' || g, 'ios' FROM generate_series(0, %d) g",
               batches * 100 - 1);
    world_exec(&f->world,
               "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, event_at,"
               " created_at, batch_id) SELECT md5(g::text)::uuid, 'w', 'u' || g, 't', 'title', now(), now(),"
               " 1 + g / 100 FROM generate_series(0, %d) g",
               batches * 100 - 1);
    world_exec(&f->world,
               "INSERT INTO dispatches (id, notification_id, device_id, queued_at, updated_at)"
               " SELECT ((1 + g / 100)::bigint << 20) + g %% 100, md5(g::text)::uuid,"
               " (SELECT min(id) FROM device_tokens) + g, now(), now() FROM generate_series(0, %d) g",
               batches * 100 - 1);
    world_exec(
        &f->world,
        "INSERT INTO batches (id, unsent, created_at) SELECT g, '{[0,100)}', now() FROM generate_series(1,"
        " %d) g",
        batches);
}

/* A figure of the table's scans so far: what EXPLAIN's plan comes to. */
static int64_t figure(struct fixture *f, const char *column, const char *table)
{
    return COUNT(f, "SELECT coalesce(sum(%s), 0)::bigint FROM pg_stat_user_tables WHERE relname = '%s'",
                 column, table);
}

static void check_look_ups(struct fixture *f, struct window_scope *mine, const char *when)
{
    static const char *const tables[] = {"dispatches", "notifications", "device_tokens"};
    struct batch_row rows[8];
    int64_t before[3];
    int taken = take(mine, 6, rows);
    cr_assert_eq(taken, 6);
    world_exec(&f->world, "SELECT pg_stat_force_next_flush()");
    world_sleep_ms(1200); /* the other session's figures */
    for (size_t i = 0; i < 3; i++)
        before[i] = figure(f, "seq_tup_read", tables[i]);
    struct window_range ranges[6];
    struct db_result *result = NULL;
    struct fault fault;
    for (int i = 0; i < 6; i++)
        ranges[i] = rows[i].range;
    int64_t looked_up = figure(f, "idx_scan", "notifications");
    int64_t began = world_now_ms();
    cr_assert_eq(window_recipients(mine, ranges, 6, &result, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(db_result_rows(result), 600);
    db_result_free(result);
    cr_assert_eq(window_take(mine, ranges, 6, &result, &fault), ST_OK, "%s", fault.text);
    int64_t took = world_now_ms() - began;
    cr_assert_eq(db_result_rows(result), 600);
    db_result_free(result);
    world_sleep_ms(1200);
    db_result_free(
        window(mine, rows[0].range.batch_id, 0, 1)); /* a session tells its figures with its next end */
    world_sleep_ms(200);
    cr_expect_geq(figure(f, "idx_scan", "notifications") - looked_up, 1200, "the figures are not there yet");
    for (size_t i = 0; i < 3; i++) {
        int64_t read = figure(f, "seq_tup_read", tables[i]) - before[i];
        printf("window of 600 of 100,000 dispatches, %s: %lld rows of %s scanned, %lld ms\n", when,
               (long long)read, tables[i], (long long)took);
        cr_expect_eq(read, 0, "%s is scanned", tables[i]);
    }
}

Test(window, looks_up_by_primary_key)
{
    struct owners o;
    struct fixture *f = open_owners("window_plan", &o);
    world_exec(&f->world, "ALTER TABLE dispatches SET (autovacuum_enabled = off);"
                          "ALTER TABLE notifications SET (autovacuum_enabled = off);"
                          "ALTER TABLE device_tokens SET (autovacuum_enabled = off)");
    fill_tables(f, 1000);
    check_look_ups(f, &o.mine, "never analysed");
    world_exec(&f->world, "ANALYZE");
    check_look_ups(f, &o.mine, "analysed");
    close_owners(f, &o);
}
