/* Views and functions of the schema: the books see an imbalance, erasure leaves nothing, feeds of others are
 * stamped. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "store_fixture.h"

static void expect_books(struct fixture *f, const char *wrong)
{
    char names[128];
    world_text(
        &f->world, names, sizeof names,
        "SELECT coalesce(string_agg(balance, ' ' ORDER BY balance), '') FROM belfry_books WHERE NOT ok");
    cr_assert_str_eq(names, wrong);
}

Test(functions, books_see_what_does_not_add_up)
{
    struct fixture *f = fixture_open("fn_books", 2);
    struct world *w = &f->world;
    fixture_device(f, "u1", "ExponentPushToken[a]", 0);
    fixture_event(f, 0, "r1", "u1 u2");
    fixture_event(f, 1, "r1", "u1");
    fixture_claim(f);
    expect_books(f, "");
    /* A record nobody accounts for; one partition's surplus does not hide another's gap. */
    world_exec(w, "UPDATE partition_offsets SET records = records + 1 WHERE partition = 0");
    expect_books(f, "ingest");
    world_exec(w, "UPDATE partition_offsets SET records = records - 1 WHERE partition = 1");
    expect_books(f, "ingest");
    world_exec(w, "UPDATE partition_offsets SET records = events + tombstones + dead_letters");
    world_exec(w, "UPDATE partition_offsets SET duplicates = duplicates + 1 WHERE partition = 1");
    expect_books(f, "ingest");
    world_exec(w, "UPDATE partition_offsets SET duplicates = duplicates - 1 WHERE partition = 1");
    expect_books(f, "");
    /* A row that went without being counted. */
    world_exec(w, "DELETE FROM notifications WHERE recipient_user_id = 'u2'");
    expect_books(f, "notifications");
    world_exec(w, "UPDATE retired SET count = count + 1 WHERE what = 'notifications'");
    expect_books(f, "");
    world_exec(w, "DELETE FROM dispatches");
    expect_books(f, "dispatches");
    cr_assert_eq(world_count(w, "SELECT right_sum FROM belfry_books WHERE balance = 'dispatches'"), 0);
    cr_assert_eq(world_count(w, "SELECT left_sum FROM belfry_books WHERE balance = 'dispatches'"), 1);
    fixture_close(f);
}

/* Each table that knows a person, and one other person beside. */
static void fill(struct fixture *f)
{
    struct world *w = &f->world;
    fixture_device(f, "gone", "ExponentPushToken[a]", 0);
    fixture_device(f, "stays", "ExponentPushToken[b]", 0);
    fixture_event(f, 0, "r1", "gone stays");
    fixture_event(f, 0, "r2", "gone");
    fixture_claim(f);
    world_exec(w, "INSERT INTO device_history SELECT id, now(), 'registered', user_id FROM device_tokens");
    world_exec(w, "SELECT belfry_set_member('w', 'gone'), belfry_set_member('w', 'stays')");
    world_exec(w, "INSERT INTO exports (feed, workspace_id, user_id, format, state) SELECT 'notifications', "
                  "'w', u, 'csv', s"
                  " FROM unnest(ARRAY['gone', 'stays']) u, unnest(ARRAY['ready', 'running']) s");
    world_exec(w, "INSERT INTO export_rows SELECT id, 1, '{}' FROM exports");
    world_exec(w,
               "INSERT INTO settled_outbox (dispatch_id, record)"
               " SELECT 1, json_build_object('recipient_user_id', u) FROM unnest(ARRAY['gone', 'stays']) u");
}

Test(functions, erasure_leaves_nothing_and_touches_nobody_else)
{
    struct fixture *f = fixture_open("fn_erase", 1);
    struct world *w = &f->world;
    fill(f);
    char report[512];
    world_text(w, report, sizeof report, "SELECT belfry_erase_user('gone')");
    printf("erased: %s\n", report);
    cr_assert(strstr(report, "\"notifications\" : 2") && strstr(report, "\"dispatches\" : 2") &&
                  strstr(report, "\"devices\" : 1"),
              "%s", report);
    static const char *const left[] = {"notifications WHERE recipient_user_id", "device_tokens WHERE user_id",
                                       "device_history WHERE user_id", "workspace_members WHERE user_id",
                                       "settled_outbox WHERE record ->> 'recipient_user_id'"};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        cr_expect_eq(world_count(w, "SELECT count(*) FROM %s = 'gone'", left[i]), 0, "%s", left[i]);
        cr_expect_eq(world_count(w, "SELECT count(*) FROM %s = 'stays'", left[i]), 1, "%s", left[i]);
    }
    cr_assert_eq(world_count(w, "SELECT count(*) FROM dispatches"), 1);
    /* A running export is failed, so that whoever writes it notices; a finished one is gone. */
    cr_assert_eq(world_count(w, "SELECT count(*) FROM exports WHERE user_id = 'gone' AND state = 'failed'"),
                 1);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM exports WHERE user_id = 'gone'"), 1);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM export_rows"), 2);
    cr_assert_eq(
        world_count(w,
                    "SELECT count(*) FROM exports WHERE user_id = 'stays' AND state IN ('ready', 'running')"),
        2);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM erased_users WHERE user_hash = sha256('gone')"), 1);
    world_check_books(w);
    /* Again changes nothing but the tombstone's time. */
    world_exec(w, "SELECT belfry_erase_user('gone')");
    world_check_books(w);
    fixture_close(f);
}

Test(functions, members_come_change_and_go)
{
    struct fixture *f = fixture_open("fn_members", 1);
    struct world *w = &f->world;
    world_exec(w, "SELECT belfry_set_member('w', 'u')");
    cr_assert_eq(world_count(w, "SELECT count(*) FROM workspace_members WHERE role = 'member'"), 1);
    world_exec(w, "SELECT belfry_set_member('w', 'u', 'admin')");
    cr_assert_eq(world_count(w, "SELECT count(*) FROM workspace_members WHERE role = 'admin'"), 1);
    cr_assert_eq(world_count(w, "SELECT belfry_remove_member('w', 'u')::int"), 1);
    cr_assert_eq(world_count(w, "SELECT belfry_remove_member('w', 'u')::int"), 0);
    fixture_close(f);
}

/* created_at after the xid and the lock, whatever the writer said. */
Test(functions, stamp_overrules_the_writer)
{
    struct fixture *f = fixture_open("fn_stamp", 1);
    struct world *w = &f->world;
    world_exec(w, "CREATE TABLE activity_events (id uuid DEFAULT gen_random_uuid(), created_at timestamptz)");
    world_exec(
        w,
        "CREATE TRIGGER stamp BEFORE INSERT ON activity_events FOR EACH ROW EXECUTE FUNCTION belfry_stamp()");
    world_exec(w,
               "BEGIN; SELECT pg_sleep(0.05); INSERT INTO activity_events (created_at) VALUES ('2000-01-01');"
               " INSERT INTO activity_events DEFAULT VALUES; COMMIT");
    cr_assert_eq(world_count(w, "SELECT count(*) FROM activity_events WHERE created_at BETWEEN now() - "
                                "interval '30 s' AND now()"),
                 2);
    cr_assert_eq(world_count(w, "SELECT count(DISTINCT created_at) FROM activity_events"), 2);
    fixture_close(f);
}
