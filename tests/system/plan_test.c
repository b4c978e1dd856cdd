/* foundation_4: what the shipped statements cost, from EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) and never from
 * time. The texts are the ones embedded in the binaries. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/page.h"
#include "store/sql.h"
#include "support/harness.h"

enum { ROWS = 1000000, LIMIT = 20, BLOCKS_MAX = 40, PLAN_BYTES = 1 << 18 };

struct cost {
    int64_t rows_max; /* the most that one node read: actual rows + rows removed, over all its loops */
    int64_t blocks;   /* shared, hit + read, of the whole */
    int64_t rows;     /* what the node that reads the relation read */
    char scan[64];    /* that node */
    char index[64];   /* its index */
};

static int64_t number_of(const json_t *node, const char *name)
{
    return json_integer_value(json_object_get(node, name));
}

static void weigh(const json_t *node, const char *relation, struct cost *cost)
{
    const char *name = json_string_value(json_object_get(node, "Relation Name"));
    int64_t loops = number_of(node, "Actual Loops");
    int64_t rows = loops * (number_of(node, "Actual Rows") + number_of(node, "Rows Removed by Filter") +
                            number_of(node, "Rows Removed by Index Recheck") +
                            number_of(node, "Rows Removed by Join Filter"));
    cost->rows_max = rows > cost->rows_max ? rows : cost->rows_max;
    if (name != NULL && strcmp(name, relation) == 0) {
        const char *type = json_string_value(json_object_get(node, "Node Type"));
        /* A bitmap scan has its index below it. */
        const json_t *child = json_array_get(json_object_get(node, "Plans"), 0);
        const json_t *index = json_object_get(child == NULL ? node : child, "Index Name");
        cost->rows = rows;
        snprintf(cost->scan, sizeof cost->scan, "%s", type);
        snprintf(cost->index, sizeof cost->index, "%s", index == NULL ? "" : json_string_value(index));
    }
    size_t i;
    json_t *below;
    json_array_foreach(json_object_get(node, "Plans"), i, below) weigh(below, relation, cost);
}

/* Explains one execution of a prepared statement. */
static struct cost explain(struct world *w, const char *execute, const char *relation)
{
    char *text = malloc(PLAN_BYTES);
    world_text(w, text, PLAN_BYTES, "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) %s", execute);
    json_t *plan = json_loads(text, 0, NULL);
    cr_assert_not_null(plan, "not JSON: %.200s", text);
    const json_t *root = json_object_get(json_array_get(plan, 0), "Plan");
    struct cost cost = {.rows_max = 0};
    cost.blocks = number_of(root, "Shared Hit Blocks") + number_of(root, "Shared Read Blocks");
    weigh(root, relation, &cost);
    json_decref(plan);
    free(text);
    return cost;
}

static void fill(struct world *w)
{
    world_exec(w, "INSERT INTO workspace_members (workspace_id, user_id) VALUES ('w', 'big')");
    /* Fifty rows an instant; every sixth row is another user's, so that pages are not one block. */
    world_exec(w,
               "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, body,"
               " data, created_at)"
               " SELECT lpad(to_hex(i), 32, '0')::uuid, 'w',"
               " CASE WHEN i %% 6 = 0 THEN 'other' || i %% 1000 ELSE 'big' END, 'type.' || i %% 7,"
               " 'title ' || i, repeat('b', 60), '{\"n\":1}',"
               " timestamptz '2026-01-01' + (i / 50) * interval '1 ms'"
               " FROM generate_series(1, %d) AS i",
               ROWS / 5 * 6);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'big'"), ROWS);
}

/* The position after which a page begins, as the statement's arguments. */
static void position_at(struct world *w, int row, char *text, size_t size)
{
    world_text(w, text, size,
               "SELECT format('%%L, %%L', created_at, id) FROM notifications WHERE recipient_user_id = 'big'"
               " AND workspace_id = 'w' ORDER BY created_at DESC, id DESC OFFSET %d LIMIT 1",
               row - 1);
}

/* How the scanning forms are asked: what all match, and what none does. */
#define SCAN_ALL  ", 2000, NULL, NULL"
#define SCAN_NONE ", 2000, 'no such category', NULL"
enum { SCAN_MAX = 2000, SCAN_ALL_MAX = LIMIT + 2 /* a window function looks one row ahead */ };

static void check_page(struct world *w, const char *what, const char *execute, int most)
{
    struct cost cost = explain(w, execute, "notifications");
    int blocks = BLOCKS_MAX + (most == SCAN_MAX ? most : 0);
    printf("page %-60s %s on %s: rows %lld of %d, blocks %lld of %d\n", what, cost.scan, cost.index,
           (long long)cost.rows, most, (long long)cost.blocks, blocks);
    fflush(stdout);
    cr_expect(strncmp(cost.scan, "Index", 5) == 0, "%s: %s", what, cost.scan);
    cr_expect_str_eq(cost.index, "notifications_feed");
    cr_expect_leq(cost.rows_max, most, "%s: %lld rows", what, (long long)cost.rows_max);
    cr_expect_leq(cost.blocks, blocks, "%s: %lld blocks", what, (long long)cost.blocks);
}

/* The statements that answer these forms of the query, by their names. */
static void prepare_pages(struct world *w, const struct page_statements *statements)
{
    for (int form = 0; form < 9; form++) {
        struct page_query query = {.statements = statements, .limit = LIMIT};
        query.continues = form % 3 != 0;
        query.newer = form % 3 == 2;
        query.boundary = form / 3 == 2;
        if (form / 3 == 1)
            query.filters[0].given = true;
        const struct db_statement *statement = page_statement(&query);
        world_exec(w, "PREPARE %s AS %s", statement->name, statement->sql);
    }
}

/* One form at one depth: `extra` are the parameters behind the position. */
static void check_form(struct world *w, const char *form, int depth, const char *extra, const char *what)
{
    static const char *const ways[] = {"head", "older", "newer"};
    char at[128], execute[512], name[160];
    int most = extra[0] == '\0' ? LIMIT + 1 : strcmp(extra, SCAN_NONE) == 0 ? SCAN_MAX : SCAN_ALL_MAX;
    position_at(w, depth == 0 ? 1 : depth, at, sizeof at);
    for (int way = depth == 0 ? 0 : 1; way < (depth == 0 ? 1 : 3); way++) {
        bool snapshot = way > 0 && strcmp(form, "_boundary") == 0;
        snprintf(execute, sizeof execute, "EXECUTE page_notifications_%s%s('w', 'big', %d%s%s%s%s)",
                 ways[way], form, LIMIT + 1, way > 0 ? ", " : "", way > 0 ? at : "", extra,
                 snapshot ? ", pg_current_snapshot()::text" : "");
        snprintf(name, sizeof name, "%s%s at row %d, %s", ways[way], form, depth, what);
        check_page(w, name, execute, most);
    }
}

static void check_pages(struct world *w, const char *state)
{
    static const char *const modes[] = {"force_custom_plan", "force_generic_plan"};
    static const int depths[] = {0, 20, 900000};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        world_exec(w, "SET plan_cache_mode = %s", modes[m]);
        for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
            char what[96];
            snprintf(what, sizeof what, "%s, %s", state, modes[m]);
            check_form(w, "", depths[d], "", what);
            check_form(w, "_filtered", depths[d], SCAN_ALL, what);
            check_form(w, "_filtered", depths[d], SCAN_NONE, what);
            check_form(w, "_boundary", depths[d], SCAN_ALL, what);
        }
    }
    world_exec(w, "RESET plan_cache_mode");
}

Test(foundation, page_plan)
{
    static struct world w;
    struct page_statements *statements = page_compose(&source_notifications, 30000);
    world_open(&w, "page_plan");
    world_database(&w);
    world_exec(&w, "ALTER TABLE notifications SET (autovacuum_enabled = off)");
    world_exec(&w, "UPDATE settled SET bound = now()");
    world_exec(&w, "SET jit = off; SET enable_sort = off"); /* as the reader's role has it */
    fill(&w);
    prepare_pages(&w, statements);
    check_pages(&w, "never analysed");
    world_exec(&w, "VACUUM ANALYZE notifications");
    check_pages(&w, "analysed");
    page_statements_free(statements);
    world_close(&w);
}

/* ---- the batch statement ---------------------------------------------------------------------------------
 */

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
    struct cost cost = explain(w, execute, "device_tokens");
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
