/* settled.bound against a real Postgres: below everything that can still commit, and never back. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>

#include "reconcile_fixture.h"
#include "store/settle.h"

static struct settle_bounds look_at_all(struct rec *r)
{
    struct settle_bounds bounds;
    struct fault fault;
    fault_reset(&fault);
    enum status status = settle_read(r->db, &bounds, &fault);
    cr_assert_eq(status, ST_OK, "%s: %s", fault.code, fault.text);
    cr_assert(bounds.count >= 1);
    cr_assert_str_eq(bounds.of[0].feed, "notifications");
    return bounds;
}

static int64_t look(struct rec *r, int64_t *prepared)
{
    struct settle_bounds bounds = look_at_all(r);
    *prepared = bounds.of[0].prepared;
    return bounds.of[0].bound_us;
}

static void move_all(struct rec *r, const struct settle_bounds *bounds)
{
    struct fault fault;
    fault_reset(&fault);
    enum status status = settle_move(r->db, bounds, &fault);
    cr_assert_eq(status, ST_OK, "%s: %s", fault.code, fault.text);
}

static void move(struct rec *r, int64_t bound_us)
{
    struct settle_bounds bounds = {.of = {{.feed = "notifications", .bound_us = bound_us}}, .count = 1};
    move_all(r, &bounds);
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

/* Who is in which transaction is read whole before who holds locks, by the plan itself. Else of a session
 * that prepares its transaction between the two and begins another, the prepared one's lock would be given
 * the other one's start, and the bound pass its rows. */
Test(settle, transactions_are_read_before_locks)
{
    struct rec *r = rec_open("set_order");
    struct world *w = &r->world;
    char path[512], text[4096];
    static char sql[8192];
    snprintf(path, sizeof path, "%s/sql/query/settle_read.sql", BELFRY_SOURCE_DIR);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    sql[fread(sql, 1, sizeof sql - 1, file)] = '\0';
    fclose(file);
    *strrchr(sql, ';') = '\0';
    world_exec(w, "CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS"
                  " 'BEGIN RETURN QUERY EXECUTE ''EXPLAIN (COSTS OFF) '' || query; END'");
    world_text(w, text, sizeof text, "SELECT string_agg(ltrim(p), ' ') FROM plan_of($q$%s$q$) AS p", sql);
    static const char first[] = "->  Nested Loop ->  Aggregate ->  Function Scan on pg_stat_get_activity s"
                                " ->  Limit ";
    const char *found = strstr(text, first), *locks = strstr(text, "Function Scan on pg_lock_status");
    printf("settle_read: %.*s\n", (int)sizeof first, found == NULL ? "" : found);
    cr_expect(found != NULL && locks != NULL && found < locks, "%s", text);
    rec_close(r);
}

/* The feed's bound as it was seen; -1: it is not among them. */
static int64_t seen(const struct settle_bounds *bounds, const char *feed)
{
    for (size_t i = 0; i < bounds->count; i++)
        if (strcmp(bounds->of[i].feed, feed) == 0)
            return bounds->of[i].bound_us;
    return -1;
}

#define STAMP(table, name, more)                                                                             \
    "CREATE TRIGGER " name " BEFORE INSERT ON " table " FOR EACH ROW " more " EXECUTE FUNCTION "             \
    "belfry_stamp()"

/* Each relation with an effective belfry_stamp has a bound of its own, which its own writers hold; through
 * partitions too. What is not stamped for certain has none. A relation that goes is no trouble. */
Test(settle, stamped_relations_have_bounds_of_their_own)
{
    struct rec *r = rec_open("set_stamped");
    struct world *w = &r->world;
    world_exec(
        w, "CREATE TABLE plain (id bigint, created_at timestamptz); CREATE TABLE \"Odd.Name\" (LIKE plain);"
           " CREATE TABLE parts (LIKE plain) PARTITION BY RANGE (id);"
           " CREATE TABLE part_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);"
           " CREATE TABLE off (LIKE plain); CREATE TABLE few (LIKE plain); CREATE TABLE undone (LIKE plain)");
    world_exec(w, "%s; %s; %s; %s; %s; %s", STAMP("plain", "zz_belfry_stamp", ""),
               STAMP("\"Odd.Name\"", "s", ""), STAMP("parts", "zz_belfry_stamp", ""),
               STAMP("off", "zz_belfry_stamp", ""), STAMP("few", "zz_belfry_stamp", "WHEN (NEW.id > 5)"),
               STAMP("undone", "belfry_stamp", ""));
    world_exec(w, "ALTER TABLE off DISABLE TRIGGER zz_belfry_stamp; CREATE FUNCTION late() RETURNS trigger"
                  " LANGUAGE plpgsql AS $$BEGIN NEW.created_at := now(); RETURN NEW; END$$;"
                  " CREATE TRIGGER late BEFORE INSERT ON undone FOR EACH ROW EXECUTE FUNCTION late()");
    struct settle_bounds before = look_at_all(r);
    printf("bounds of:");
    for (size_t i = 0; i < before.count; i++)
        printf(" %s", before.of[i].feed);
    printf("\n");
    cr_assert_eq(before.count, 4);
    move_all(r, &before);
    REC_ASSERT_COUNT(r, 4, "SELECT count(*) FROM settled WHERE bound > now() - interval '1 min'");
    REC_ASSERT_COUNT(r, 3, "SELECT count(*) FROM settled s JOIN belfry_stamped USING (feed)");

    world_exec(w, "BEGIN; INSERT INTO part_1 VALUES (1); INSERT INTO \"Odd.Name\" VALUES (2)");
    world_sleep_ms(20);
    struct settle_bounds first = look_at_all(r);
    world_sleep_ms(20);
    struct settle_bounds second = look_at_all(r);
    cr_assert_eq(seen(&second, "public.parts"), seen(&first, "public.parts"),
                 "a partition's writer holds it");
    cr_assert_eq(seen(&second, "public.\"Odd.Name\""), seen(&first, "public.\"Odd.Name\""));
    cr_assert_gt(seen(&second, "public.plain"), seen(&first, "public.plain"), "nobody writes that one");
    cr_assert_gt(seen(&second, "notifications"), seen(&first, "notifications"));
    world_exec(w, "COMMIT");

    struct settle_bounds last = look_at_all(r);
    world_exec(w, "DROP TABLE plain");
    move_all(r, &last);
    cr_assert_eq(look_at_all(r).count, 3);
    world_exec(w, "BEGIN; ALTER TABLE parts ADD COLUMN more text"); /* locked against everybody */
    cr_assert_eq(look_at_all(r).count, 3, "looked at without its lock");
    world_exec(w, "COMMIT");
    rec_close(r);
}

/* created_at, id and the xid are what the trigger said and stay so; after_restore.sql may say 3. */
Test(settle, a_stamped_row_keeps_its_sort_key)
{
    struct rec *r = rec_open("set_stamp");
    struct world *w = &r->world;
    world_exec(
        w, "CREATE TABLE t (id bigint, created_at timestamptz, body text, seen_by xid8 NOT NULL DEFAULT '9');"
           " CREATE TRIGGER zz_belfry_stamp BEFORE INSERT OR UPDATE OF created_at, id, seen_by ON t FOR EACH"
           " ROW EXECUTE FUNCTION belfry_stamp('seen_by')");
    world_exec(w, "BEGIN; INSERT INTO t VALUES (1, '2000-01-01', 'a', '7'); SELECT pg_sleep(0.01);"
                  " INSERT INTO t (id, body) VALUES (2, 'b'); COMMIT");
    REC_ASSERT_COUNT(r, 2,
                     "SELECT count(*) FROM t WHERE seen_by::xid = xmin AND created_at > now() - interval"
                     " '1 min'");
    REC_ASSERT_COUNT(r, 2, "SELECT count(DISTINCT created_at) FROM t");
    static const char *const refused[] = {"created_at = now()", "id = id + 5", "seen_by = '12'",
                                          "seen_by = NULL"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        world_exec(w,
                   "DO $$BEGIN UPDATE t SET %s; RAISE 'not refused'; EXCEPTION WHEN restrict_violation THEN"
                   " NULL; END$$",
                   refused[i]);
        printf("UPDATE t SET %s: refused\n", refused[i]);
    }
    world_exec(w, "UPDATE t SET body = 'c', created_at = created_at, id = id");
    char sql[4096];
    FILE *file = fopen(BELFRY_SOURCE_DIR "/sql/after_restore.sql", "r");
    cr_assert_not_null(file);
    sql[fread(sql, 1, sizeof sql - 1, file)] = '\0';
    fclose(file);
    world_exec(w, "%s", sql);
    REC_ASSERT_COUNT(r, 2, "SELECT count(*) FROM t WHERE body = 'c' AND seen_by = '3'");
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
        struct settle_bounds bounds;
        struct fault fault;
        if (settle_read(db, &bounds, &fault) == ST_OK && bounds.of[0].prepared == 0 &&
            settle_move(db, &bounds, &fault) == ST_OK)
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
