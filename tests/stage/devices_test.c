/* The devices topic's statement and the SQL functions: one rule for both (contracts/events.md). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "store_fixture.h"

struct records {
    struct device_change changes[16];
    const struct device_change *list[16];
    size_t count;
};

enum { T0_S = 1700000000 };

static void add(struct records *records, const char *token, const char *user, int at_s)
{
    struct device_change *change = &records->changes[records->count];
    records->list[records->count++] = change;
    *change = (struct device_change){.enable = user != NULL,
                                     .token = span_of(token),
                                     .user_id = user == NULL ? span_of("") : span_of(user),
                                     .platform = span_of(user == NULL ? "" : "ios"),
                                     .app_version = span_of("1.0"),
                                     .at_us = (int64_t)(T0_S + at_s) * 1000000};
}

static struct devices_outcome apply(struct fixture *f, struct devices *devices, struct records *records)
{
    struct offsets_part *part = &f->parts[0];
    part->end += (int64_t)records->count;
    part->records = (int64_t)records->count;
    struct devices_batch batch = {
        .parts = f->parts, .part_count = 1, .changes = records->list, .change_count = records->count};
    struct devices_outcome outcome;
    struct fault fault;
    fault_reset(&fault);
    cr_assert_eq(devices_run(devices, f->db, &batch, &outcome, &fault), ST_OK, "%s %s", fault.code,
                 fault.text);
    cr_assert(outcome.moved);
    fixture_next(f);
    records->count = 0;
    return outcome;
}

static void expect_owner(struct fixture *f, const char *token, const char *user, bool enabled)
{
    cr_expect_eq(
        world_count(
            &f->world,
            "SELECT count(*) FROM device_tokens WHERE token = '%s' AND user_id = '%s' AND enabled = %s",
            token, user, enabled ? "true" : "false"),
        1, "%s is not %s's", token, user);
}

Test(devices, register_move_disable_enable)
{
    struct fixture *f = fixture_open("dev_life", 1);
    struct devices *devices = devices_new(&f->scope);
    struct records r = {.count = 0};
    add(&r, "a", "u1", 0);
    add(&r, "b", "u1", 0);
    struct devices_outcome o = apply(f, devices, &r);
    cr_assert_eq(o.registered, 2);
    add(&r, "a", "u1", 10);
    o = apply(f, devices, &r);
    cr_assert_eq(o.seen, 1);
    add(&r, "a", "u2", 20); /* one phone, one owner */
    o = apply(f, devices, &r);
    cr_assert_eq(o.moved_owner, 1);
    expect_owner(f, "a", "u2", true);
    add(&r, "a", NULL, 30);
    add(&r, "unknown", NULL, 30);
    o = apply(f, devices, &r);
    cr_assert_eq(o.disabled, 1);
    cr_assert_eq(o.ignored, 1);
    expect_owner(f, "a", "u2", false);
    add(&r, "a", "u2", 40);
    o = apply(f, devices, &r);
    cr_assert_eq(o.registered, 1);
    expect_owner(f, "a", "u2", true);
    cr_assert_eq(world_count(&f->world,
                             "SELECT count(*) FROM device_tokens WHERE token = 'a' AND disabled_at IS NULL"
                             " AND disabled_reason IS NULL AND last_seen = to_timestamp(%d)",
                             T0_S + 40),
                 1);
    char history[256];
    world_text(
        &f->world, history, sizeof history,
        "SELECT string_agg(change || ' ' || h.user_id || coalesce(' ' || reason, ''), ', ' ORDER BY at)"
        " FROM device_history h JOIN device_tokens t ON t.id = h.device_id WHERE token = 'a'");
    cr_assert_str_eq(history, "registered u1, moved u2, disabled u2 Unregistered, registered u2");
    cr_assert_eq(world_count(&f->world,
                             "SELECT count(*) FROM partition_offsets WHERE next_offset = 7 AND records = 7"
                             " AND events = 7"),
                 1);
    world_check_books(&f->world);
    devices_free(devices);
    fixture_close(f);
}

Test(devices, a_rewind_changes_nothing)
{
    struct fixture *f = fixture_open("dev_rewind", 1);
    struct devices *devices = devices_new(&f->scope);
    struct records r = {.count = 0};
    for (int pass = 0; pass < 2; pass++) {
        add(&r, "a", "u1", 0);
        apply(f, devices, &r);
        add(&r, "a", "u2", 10);
        apply(f, devices, &r);
        add(&r, "b", "u1", 0);
        apply(f, devices, &r);
        add(&r, "b", NULL, 5);
        apply(f, devices, &r);
        add(&r, "c", "u1", 0);
        apply(f, devices, &r);
        /* The provider called c dead: a replay of its registration does not revive it. */
        world_exec(&f->world,
                   "UPDATE device_tokens SET enabled = false, disabled_at = coalesce(disabled_at, now()),"
                   " disabled_reason = coalesce(disabled_reason, 'DeviceNotRegistered') WHERE token = 'c'");
        expect_owner(f, "a", "u2", true);
        expect_owner(f, "b", "u1", false);
        expect_owner(f, "c", "u1", false);
        cr_assert_eq(world_count(&f->world, "SELECT count(*) FROM device_history"), 5);
    }
    add(&r, "c", "u1", 2000000000 - T0_S); /* later than the disabling: alive again */
    cr_assert_eq(apply(f, devices, &r).registered, 1);
    expect_owner(f, "c", "u1", true);
    devices_free(devices);
    fixture_close(f);
}

Test(devices, the_last_of_a_batch_wins)
{
    struct fixture *f = fixture_open("dev_last", 1);
    struct devices *devices = devices_new(&f->scope);
    struct records r = {.count = 0};
    add(&r, "a", "u1", 0);
    add(&r, "a", NULL, 0);
    add(&r, "a", "u2", 0); /* same time: the last */
    add(&r, "b", "u9", 50);
    add(&r, "b", "u8", 40); /* older than the one before: as it would be in a batch of its own */
    add(&r, "d", "u1", 0);
    add(&r, "d", NULL, 1);
    struct devices_outcome o = apply(f, devices, &r);
    cr_assert_eq(o.registered, 2);
    cr_assert_eq(o.ignored, 5);
    expect_owner(f, "a", "u2", true);
    expect_owner(f, "b", "u9", true);
    world_check_books(&f->world);
    devices_free(devices);
    fixture_close(f);
}

Test(devices, a_stale_fence_applies_nothing)
{
    struct fixture *f = fixture_open("dev_fence", 1);
    struct devices *devices = devices_new(&f->scope);
    struct records r = {.count = 0};
    add(&r, "a", "u1", 0);
    f->parts[0].end = f->parts[0].records = 1;
    f->parts[0].generation--;
    struct devices_batch batch = {
        .parts = f->parts, .part_count = 1, .changes = r.list, .change_count = r.count};
    struct devices_outcome outcome;
    struct fault fault;
    cr_assert_eq(devices_run(devices, f->db, &batch, &outcome, &fault), ST_OK, "%s", fault.text);
    cr_assert(!outcome.moved);
    cr_assert_eq(outcome.registered + outcome.ignored, 0);
    cr_assert_eq(world_count(&f->world, "SELECT count(*) FROM device_tokens"), 0);
    devices_free(devices);
    fixture_close(f);
}

Test(devices, functions_follow_the_same_rule)
{
    struct fixture *f = fixture_open("dev_functions", 1);
    struct world *w = &f->world;
    int64_t id = world_count(w, "SELECT belfry_register_device('u1', 'ExponentPushToken[x]', 'ios', '1.0')");
    cr_assert_gt(id, 0);
    cr_assert_eq(world_count(w, "SELECT belfry_register_device('u2', 'ExponentPushToken[x]', 'android')"),
                 id);
    expect_owner(f, "ExponentPushToken[x]", "u2", true);
    cr_assert_eq(world_count(w, "SELECT belfry_unregister_device('ExponentPushToken[x]')::int"), 1);
    cr_assert_eq(world_count(w, "SELECT belfry_unregister_device('ExponentPushToken[x]')::int"), 0);
    cr_assert_eq(world_count(w, "SELECT belfry_unregister_device('never seen')::int"), 0);
    /* A person erased is not brought back by an older record. */
    world_exec(w, "SELECT belfry_erase_user('u2')");
    cr_assert_eq(world_count(w, "SELECT count(*) FROM device_tokens"), 0);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM device_history WHERE user_id <> 'u1'"), 0);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM device_history"), 1, "u1's own past is u1's");
    struct devices *devices = devices_new(&f->scope);
    struct records r = {.count = 0};
    add(&r, "ExponentPushToken[x]", "u2", 0);
    cr_assert_eq(apply(f, devices, &r).ignored, 1);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM device_tokens"), 0);
    /* Tokens are masked wherever people look. */
    world_exec(w, "SELECT belfry_register_device('u3', 'ExponentPushToken[secret]', 'ios')");
    cr_assert_eq(world_count(w, "SELECT (belfry_export_user('u3')::text LIKE '%%secret%%')::int"), 0);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM belfry_devices d WHERE d::text LIKE '%%secret%%'"), 0);
    cr_assert_eq(world_count(w, "SELECT json_array_length(belfry_export_user('u3') -> 'devices')"), 1);
    devices_free(devices);
    fixture_close(f);
}

/* An erasure while a registration is in flight, both ways: no device of the person stays. */
Test(devices, erasure_and_registration_exclude_each_other)
{
    struct fixture *f = fixture_open("dev_race", 1);
    struct devices *devices = devices_new(&f->scope);
    struct fault fault;
    for (int round = 0; round < 20; round++) {
        struct records r = {.count = 0};
        char token[64];
        snprintf(token, sizeof token, "ExponentPushToken[race%d]", round);
        add(&r, token, "gone", round);
        struct offsets_part *part = &f->parts[0];
        part->end++;
        part->records = 1;
        struct devices_batch batch = {
            .parts = f->parts, .part_count = 1, .changes = r.list, .change_count = r.count};
        /* The last insert of the statement waits; the erasure comes while it does. */
        world_exec(&f->world,
                   "CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
                   " 'BEGIN PERFORM pg_sleep(%f); RETURN NEW; END'",
                   round % 2 * 0.1);
        world_exec(&f->world, "CREATE OR REPLACE TRIGGER slow AFTER INSERT ON device_history FOR EACH ROW"
                              " EXECUTE FUNCTION slow()");
        cr_assert_eq(devices_send(devices, f->db, &batch, 1, &fault), ST_OK);
        world_sleep_ms(round);
        world_exec(&f->world, "SELECT belfry_erase_user('gone')");
        struct db_answer answer;
        struct devices_outcome outcome;
        cr_assert(db_wait(f->db, 20000) && db_take(f->db, &answer));
        cr_assert_eq(devices_finish(&answer, &outcome, &fault), ST_OK, "%s", fault.text);
        cr_assert(outcome.moved);
        cr_assert_eq(world_count(&f->world, "SELECT count(*) FROM device_tokens WHERE user_id = 'gone'"), 0);
        cr_assert_eq(world_count(&f->world, "SELECT count(*) FROM device_history WHERE user_id = 'gone'"), 0);
        world_exec(&f->world, "DELETE FROM erased_users");
        fixture_next(f);
    }
    devices_free(devices);
    fixture_close(f);
}
