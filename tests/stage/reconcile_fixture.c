/* Dispatches by hand, outcomes in a line. */
#include "reconcile_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct db *rec_connect(struct rec *r)
{
    struct db_settings settings = {.uri = world_role_uri(&r->world, "belfry_reconciler"),
                                   .application_name = "stage",
                                   .role = DB_ROLE_RECONCILER,
                                   .prepared_statements = true};
    struct db *db = NULL;
    struct fault fault;
    fault_reset(&fault);
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK, "%s: %s", fault.code, fault.text);
    return db;
}

struct offsets_part rec_seat(struct rec *r, struct db *db, int32_t partition)
{
    struct offsets_seat seat = {.partition = partition};
    struct fault fault;
    cr_assert_eq(offsets_seat(db, &r->scope, &seat, 1, &fault), ST_OK, "%s", fault.text);
    seat.next_offset = 0;
    cr_assert_eq(offsets_start(db, &r->scope, &seat, 1, &fault), ST_OK, "%s", fault.text);
    return (struct offsets_part){.partition = partition, .generation = seat.generation};
}

struct rec *rec_open(const char *name)
{
    struct rec *r = calloc(1, sizeof *r);
    cr_assert_not_null(r);
    world_open(&r->world, name);
    world_database(&r->world);
    r->db = rec_connect(r);
    db_params_init(&r->params, OUTCOME_PARAMS_BYTES_MAX);
    arena_init(&r->arena, 64 << 20);
    r->scope = (struct offsets_scope){.group_id = "r", .topic = "receipts", .owner = 7};
    r->part = rec_seat(r, r->db, 0);
    return r;
}

void rec_close(struct rec *r)
{
    db_close(r->db);
    db_params_done(&r->params);
    arena_done(&r->arena);
    world_close(&r->world);
    free(r);
}

void rec_dispatches(struct rec *r, int64_t batch, int count, const char *state)
{
    long long first = (long long)dispatch_id(batch, 0);
    world_exec(&r->world,
               "INSERT INTO device_tokens (id, token, user_id, platform, registered_at, last_seen, source_at)"
               " SELECT d, 'ExponentPushToken[' || d || ']', 'u' || d, 'ios', x, x, x"
               " FROM generate_series(%lld, %lld) d, (SELECT now() - interval '2 h') t (x)",
               first, first + count - 1);
    world_exec(
        &r->world,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at,"
        " batch_id) SELECT lpad(to_hex(d), 32, '0')::uuid, 'w', 'u' || d, 't', 'title',"
        " clock_timestamp(), %lld FROM generate_series(%lld, %lld) d",
        (long long)batch, first, first + count - 1);
    world_exec(
        &r->world,
        "INSERT INTO dispatches (id, notification_id, device_id, state, ticket, queued_at, updated_at)"
        " SELECT d, lpad(to_hex(d), 32, '0')::uuid, d, '%s', CASE '%s' WHEN 'sent' THEN 't' || d END, x, x"
        " FROM generate_series(%lld, %lld) d, (SELECT now() - interval '1 h') t (x)",
        state, state, first, first + count - 1);
}

struct outcome rec_outcome(struct rec *r, int64_t id, enum dispatch_state outcome, const char *text)
{
    struct span copy = {arena_copy(&r->arena, span_of(text)), strlen(text)};
    struct outcome made = {.dispatch_id = id,
                           .device_id = id,
                           .outcome = outcome,
                           .attempt = 1,
                           .at_us = clock_wall_us(&clock_system)};
    for (int i = 0; i < 8; i++)
        made.notification_id.bytes[15 - i] = (unsigned char)((uint64_t)id >> (8 * i));
    if (outcome == DISPATCH_SENT)
        made.ticket = copy;
    else
        made.error = copy;
    return made;
}

struct outcome_counts rec_try(struct rec *r, const struct outcome *outcomes, size_t count)
{
    struct fold fold;
    struct fault fault;
    struct outcome_counts counts;
    fault_reset(&fault);
    cr_assert_eq(fold_outcomes(outcomes, count, &r->arena, &fold, &fault), ST_OK);
    r->part.end = r->part.start + (int64_t)count;
    r->part.records = (int64_t)count;
    struct outcome_batch batch = {.scope = &r->scope,
                                  .parts = &r->part,
                                  .part_count = 1,
                                  .items = fold.items,
                                  .item_count = fold.count,
                                  .receipt_delay_ms = 60000,
                                  .announce = r->announce};
    enum status status = outcome_apply(r->db, &r->params, &batch, &counts, &fault);
    cr_assert_eq(status, ST_OK, "%s: %s", fault.code, fault.text);
    return counts;
}

struct outcome_counts rec_apply(struct rec *r, const struct outcome *outcomes, size_t count)
{
    struct outcome_counts counts = rec_try(r, outcomes, count);
    cr_assert(counts.held, "the fence failed");
    int64_t sum = counts.sent + counts.failed + counts.suppressed + counts.ignored + counts.orphans;
    cr_assert_eq(sum, (int64_t)count, "every outcome is counted once");
    r->part.start = r->part.end;
    return counts;
}

struct receipt_lease rec_lease(struct rec *r, int64_t owner)
{
    struct receipt_lease lease = {.owner = owner, .lease_ms = 60000};
    struct fault fault;
    fault_reset(&fault);
    cr_assert_eq(receipt_lease(r->db, &lease, &fault), ST_OK, "%s: %s", fault.code, fault.text);
    return lease;
}

void rec_check_plan(struct rec *r, const char *statement, const char *arguments)
{
    static const char *const read_through[] = {"Seq Scan on dispatches", "Seq Scan on notifications",
                                               "Seq Scan on device_tokens"};
    static char plan[1 << 14];
    world_exec(&r->world,
               "DEALLOCATE ALL; SET plan_cache_mode = force_generic_plan; SET jit = off;"
               "CREATE OR REPLACE FUNCTION plan_of(q text) RETURNS text LANGUAGE plpgsql AS 'DECLARE"
               " l text; a text := ''''; BEGIN FOR l IN EXECUTE ''EXPLAIN '' || q LOOP a := a || l ||"
               " chr(10); END LOOP; RETURN a; END'");
    world_exec(&r->world, "PREPARE s AS %s", statement);
    world_text(&r->world, plan, sizeof plan, "SELECT plan_of($$EXECUTE s(%s)$$)", arguments);
    cr_assert(strstr(plan, "dispatches_pkey") != NULL, "%s", plan);
    for (size_t i = 0; i < sizeof read_through / sizeof read_through[0]; i++)
        cr_assert(strstr(plan, read_through[i]) == NULL, "%s", plan);
}
