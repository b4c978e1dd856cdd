/* foundation_4: what the batch statement reads, from EXPLAIN (ANALYZE, FORMAT JSON) and never from time. The
 * text is the one embedded in the binaries. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "plan_cost.h"
#include "store/sql.h"

enum { DEVICES = 5000000, BATCH = 1000 };

/* Two devices a user, in index order so that the build is short. Also what gives the statement its arrays:
 * EXECUTE takes no subquery. */
static void fill_devices(struct world *w)
{
    world_exec(w, "ALTER TABLE device_tokens SET UNLOGGED");
    world_exec(w, "ALTER TABLE device_tokens SET (autovacuum_enabled = off)");
    world_exec(
        w,
        "INSERT INTO device_tokens (token, token_hash, user_id, platform)"
        " SELECT 'ExponentPushToken[' || i || ']', int8send(i) || int8send(0) || int8send(0) || int8send(0),"
        " 'user' || lpad((i / 2)::text, 8, '0'), 'ios' FROM generate_series(1::int8, %d) AS i",
        DEVICES);
    world_exec(w, "INSERT INTO partition_offsets (group_id, topic, partition, generation, next_offset)"
                  " VALUES ('g', 't', 0, 1, 0)");
    world_exec(w, "CREATE FUNCTION numbers(n int) RETURNS int4[] LANGUAGE sql AS"
                  " 'SELECT array_agg(i) FROM generate_series(1, n) AS i'");
    world_exec(w, "CREATE FUNCTION users(n int) RETURNS text[] LANGUAGE sql AS $$"
                  " SELECT array_agg('user' || lpad((i * 2477 %% 2500000)::text, 8, '0'))"
                  " FROM generate_series(1, n) AS i $$");
    world_exec(w, "CREATE FUNCTION ids(n int) RETURNS uuid[] LANGUAGE sql AS"
                  " 'SELECT array_agg(gen_random_uuid()) FROM generate_series(1, n) AS i'");
}

/* One event a recipient, as most producers send them. */
static void check_claim(struct world *w, int events, const char *state)
{
    char execute[4096];
    snprintf(
        execute, sizeof execute,
        "EXECUTE claim('g', 't', 1, ARRAY[0], ARRAY[1::int8], ARRAY[0::int8], ARRAY[%d::int8],"
        " ARRAY[%d::int8], ARRAY[0::int8], ARRAY[0::int8], ARRAY[%d::int8], ARRAY[%d::int8],"
        " %d, array_fill(1, ARRAY[%d]), array_fill('w'::text, ARRAY[%d]), array_fill('t'::text, ARRAY[%d]),"
        " array_fill('general'::text, ARRAY[%d]), array_fill('title'::text, ARRAY[%d]),"
        " array_fill('body'::text, ARRAY[%d]), array_fill(NULL::json, ARRAY[%d]),"
        " array_fill(NULL::json, ARRAY[%d]), array_fill(NULL::text, ARRAY[%d]),"
        " array_fill(NULL::timestamptz, ARRAY[%d]), array_fill(NULL::timestamptz, ARRAY[%d]),"
        " array_fill(now(), ARRAY[%d]), array_fill(1::int8, ARRAY[%d]), array_fill(false, ARRAY[%d]),"
        " array_fill(false, ARRAY[%d]), %d, numbers(%d), users(%d), ids(%d)::text[], ids(%d),"
        " 20, 3600000, NULL, 60000, array_fill(''::bytea, ARRAY[%d]), false)",
        events, events, events, events, events, events, events, events, events, events, events, events,
        events, events, events, events, events, events, events, events, events, events, events, events,
        events, events);
    world_exec(w, "BEGIN");
    struct plan_cost cost = plan_explain(w, execute, "device_tokens");
    int64_t dispatches = world_count(w, "SELECT count(*) FROM dispatches");
    world_exec(w, "ROLLBACK");
    printf("claim of %4d recipients, %-15s %s on %s: %lld of %d devices read, %lld dispatches, %lld blocks\n",
           events, state, cost.scan, cost.index, (long long)cost.rows, DEVICES, (long long)dispatches,
           (long long)cost.blocks);
    fflush(stdout);
    cr_expect_eq(dispatches, (int64_t)2 * events);
    cr_expect_str_eq(cost.index, "device_tokens_user", "%s: %s", state, cost.scan);
    cr_expect_eq(cost.rows, (int64_t)2 * events, "%lld devices read", (long long)cost.rows);
}

Test(foundation, claim_plan)
{
    static struct world w;
    world_open(&w, "claim_plan");
    world_database(&w);
    world_exec(&w, "SET jit = off"); /* as the dispatcher's role has it */
    world_exec(&w, "SET plan_cache_mode = force_generic_plan");
    int64_t began = world_now_ms();
    fill_devices(&w);
    printf("claim: %d devices built in %lld ms\n", DEVICES, (long long)(world_now_ms() - began));
    world_exec(&w, "PREPARE claim AS %s", sql_claim);
    check_claim(&w, BATCH, "never analysed");
    check_claim(&w, 10, "never analysed");
    world_exec(&w, "ANALYZE device_tokens");
    world_exec(&w, "DISCARD PLANS");
    check_claim(&w, BATCH, "analysed");
    check_claim(&w, 10, "analysed");
    world_close(&w);
}
