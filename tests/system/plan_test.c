/* foundation_4, reader_3: what the reader's shipped statements cost, from EXPLAIN (ANALYZE, BUFFERS, FORMAT
 * JSON) and never from time. The texts are the ones embedded in the binaries. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "plan_cost.h"
#include "store/page.h"
#include "store/source_check.h"
#include "store/sql.h"

enum { ROWS = 1000000, LIMIT = 20, BLOCKS_MAX = 40, ARENA_BYTES = 1 << 20 };

/* ---- pages -----------------------------------------------------------------------------------------------
 */

static void run_file(struct world *w, const char *name)
{
    char path[WORLD_PATH_MAX], text[8192];
    snprintf(path, sizeof path, "%s/%s", BELFRY_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    world_exec(w, "%s", text);
}

/* 90 % of all rows are of one workspace; one row of the million is `rare`, one of a thousand of his is
 * unread. */
static void fill(struct world *w)
{
    world_exec(w,
               "INSERT INTO workspace_members (workspace_id, user_id) VALUES ('w', 'big'), ('w2', 'other7')");
    /* Fifty rows an instant; every tenth row is another workspace's, so that pages are not one block. */
    world_exec(w,
               "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, category, title,"
               " body, data, created_at, read_at)"
               " SELECT lpad(to_hex(i), 32, '0')::uuid, CASE WHEN i %% 10 = 0 THEN 'w2' ELSE 'w' END,"
               " CASE WHEN i %% 10 = 0 THEN 'other' || i / 10 %% 1000 ELSE 'big' END, 'type.' || i %% 7,"
               " CASE WHEN i = 500007 THEN 'rare' ELSE 'general' END,"
               " 'title ' || i, repeat('b', 60), '{\"n\":1}',"
               " timestamptz '2026-01-01' + (i / 50) * interval '1 ms',"
               " CASE WHEN i %% 10 <> 0 AND i %% 1000 <> 7 THEN timestamptz '2026-02-01' END"
               " FROM generate_series(1, %d) AS i",
               ROWS / 9 * 10 + 1);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'big'"), ROWS);
}

/* One way to ask for pages. Parameters: scan_max and the filters; and what of a million entries matches. */
enum { SCAN = 500, SCAN_ALL_MAX = LIMIT + 2 /* a window function looks one row ahead */ };
static const struct set {
    const char *name;
    bool filtered, boundary;
    const char *filters; /* in the feed's order */
    const char *seen;    /* of boundary, behind a cursor: the snapshot */
    int most;
} sets_of_notifications[] =
    {
        {"no filter", false, false, "", NULL, LIMIT + 1},
        {"category, all match", true, false, "'general', NULL", NULL, SCAN_ALL_MAX},
        {"category, 1 in 1,000,000", true, false, "'rare', NULL", NULL, SCAN},
        {"event_type, 1 in 7", true, false, "NULL, 'type.3'", NULL, SCAN},
        {"category and event_type, none", true, false, "'rare', 'type.5'", NULL, SCAN},
        {"boundary", false, true, "NULL, NULL", "pg_current_snapshot()::text", SCAN_ALL_MAX},
        {"boundary, category, 1 in 1,000,000", true, true, "'rare', NULL", "pg_current_snapshot()::text",
         SCAN},
        {"boundary, all committed later", false, true, "NULL, NULL", "'4:4:'", SCAN},
},
  sets_of_activity[] =
      {
          {"no filter", false, false, "", NULL, LIMIT + 1},
          {"event_type, all match", true, false, "'common'", NULL, SCAN_ALL_MAX},
          {"event_type, one row", true, false, "'rare'", NULL, SCAN},
          {"boundary", false, true, "NULL", "pg_current_snapshot()::text", SCAN_ALL_MAX},
          {"boundary, event_type, one row", true, true, "'rare'", "pg_current_snapshot()::text", SCAN},
},
  sets_of_posts[] = {{"no filter", false, false, "", NULL, LIMIT + 1}};

enum { PLACES = 3 };

/* A feed as it ships. */
struct shipped {
    const char *name, *relation;
    const char *scope; /* workspace and user, as arguments */
    const char *mine;  /* the condition that makes them */
    const char *index, *flag_index;
    const struct set *sets;
    size_t set_count;
    int depths[PLACES];
    struct page_statements *statements; /* NULL: not looked at */
    struct source source;               /* of a declared one */
    char places[PLACES][128];
};

#define SETS(of) .sets = (of), .set_count = sizeof(of) / sizeof(of)[0]
static const struct shipped shipped_feeds[] = {
    {.name = "notifications",
     .relation = "notifications",
     .scope = "'w', 'big'",
     .mine = "recipient_user_id = 'big' AND workspace_id = 'w'",
     .index = "notifications_feed",
     .flag_index = "notifications_unread",
     SETS(sets_of_notifications),
     .depths = {20, 500000, 999000}},
    {.name = "activity",
     .relation = "activity_events",
     .scope = "'w', 'big'",
     .mine = "workspace_id = 'w'",
     .index = "activity_events_feed",
     SETS(sets_of_activity),
     .depths = {20, 45000, 89000}},
    {.name = "posts",
     .relation = "posts",
     .scope = "NULL, NULL",
     .mine = "true",
     .index = "posts_feed",
     SETS(sets_of_posts),
     .depths = {20, 50000, 99000}},
};
enum { FEEDS = sizeof shipped_feeds / sizeof shipped_feeds[0] };

/* The position after which a page begins, as the statement's arguments. */
static void position_at(struct world *w, const struct shipped *feed, int place, char text[128])
{
    world_text(w, text, 128,
               "SELECT format('%%L, %%L', created_at, id) FROM %s WHERE %s ORDER BY created_at DESC, id DESC"
               " OFFSET %d LIMIT 1",
               feed->relation, feed->mine, feed->depths[place] - 1);
}

static const struct db_statement *statement_of(const struct shipped *feed, const struct set *set, bool flag,
                                               int way)
{
    struct page_query query = {.statements = feed->statements, .limit = LIMIT};
    query.continues = way > 0;
    query.newer = way == 2;
    query.boundary = set->boundary;
    query.filters[0].given = set->filtered;
    query.flag = flag;
    return page_statement(&query);
}

static void prepare_pages(struct world *w, const struct shipped *feed)
{
    for (size_t i = 0; i < feed->set_count * 6; i++) {
        const struct db_statement *statement =
            statement_of(feed, &feed->sets[i / 6], i % 2 != 0 && feed->flag_index != NULL, (int)(i / 2 % 3));
        if (world_count(w, "SELECT count(*) FROM pg_prepared_statements WHERE name = '%s'",
                        statement->name) == 0)
            world_exec(w, "PREPARE %s AS %s", statement->name, statement->sql);
    }
}

/* The dearest of what a set asks for at each depth, both ways. */
struct worst {
    int64_t rows, blocks;
    int count;
};

static void check_cost(const char *what, const struct plan_cost *cost, const char *index, int most,
                       struct worst *worst)
{
    int blocks = BLOCKS_MAX + (most > SCAN_ALL_MAX ? most : 0);
    cr_expect(strncmp(cost->scan, "Index", 5) == 0, "%s: %s", what, cost->scan);
    cr_expect_str_eq(cost->index, index, "%s: %s", what, cost->index);
    cr_expect_leq(cost->rows_max, most, "%s: %lld rows", what, (long long)cost->rows_max);
    cr_expect_leq(cost->blocks, blocks, "%s: %lld blocks", what, (long long)cost->blocks);
    worst->rows = cost->rows_max > worst->rows ? cost->rows_max : worst->rows;
    worst->blocks = cost->blocks > worst->blocks ? cost->blocks : worst->blocks;
    worst->count++;
}

struct pages {
    struct world w;
    struct shipped feeds[FEEDS];
    struct arena arena;
    const char *state; /* of the tables */
};

/* A page of a set: head 0, older 1, newer 2, from which place. */
struct page_of {
    const struct shipped *feed;
    const struct set *set;
    bool flag;
    int way, place;
};

static struct plan_cost explain_page(struct pages *p, const struct page_of *of)
{
    char execute[512], place[160] = "", scan[96] = "", seen[64] = "";
    if (of->way > 0)
        snprintf(place, sizeof place, ", %s", of->feed->places[of->place]);
    if (of->set->filters[0] != '\0')
        snprintf(scan, sizeof scan, ", %d, %s", SCAN, of->set->filters);
    if (of->way > 0 && of->set->boundary)
        snprintf(seen, sizeof seen, ", %s", of->set->seen);
    snprintf(execute, sizeof execute, "EXECUTE %s(%s, %d%s%s%s)",
             statement_of(of->feed, of->set, of->flag, of->way)->name, of->feed->scope, LIMIT + 1, place,
             scan, seen);
    return plan_explain(&p->w, execute, of->feed->relation);
}

static void check_set(struct pages *p, const struct page_of *what, const char *mode)
{
    const struct shipped *feed = what->feed;
    const struct set *set = what->set;
    bool flag = what->flag;
    struct worst worst = {.rows = 0};
    const char *index = flag ? feed->flag_index : feed->index, *flagged = flag ? "unread" : "";
    char name[192];
    for (int i = 0; i < 1 + 2 * PLACES; i++) { /* the head, then older and newer from each place */
        struct page_of of = {feed, set, flag, .way = i == 0 ? 0 : 1 + i % 2, .place = (i - 1) / 2};
        struct plan_cost cost = explain_page(p, &of);
        snprintf(name, sizeof name, "%s, %s %s, page %d, %s, %s", feed->name, set->name, flagged, i, p->state,
                 mode);
        check_cost(name, &cost, index, set->most, &worst);
    }
    printf("%-14s %-7s %-13s %-34s %-6s %d pages by %-20s rows %3lld of %3d, blocks %3lld\n", p->state, mode,
           feed->name, set->name, flagged, worst.count, index, (long long)worst.rows, set->most,
           (long long)worst.blocks);
    fflush(stdout);
}

#define EXPORT "'w', 'big', '00000000-0000-0000-0000-000000000001'"

/* One of 200,000 rows among others', and 200 of one user. */
static void fill_exports(struct world *w)
{
    world_exec(
        w, "INSERT INTO exports (id, feed, workspace_id, user_id, format, state, rows, expires_at)"
           " SELECT lpad(to_hex(i), 32, '0')::uuid, 'notifications', 'w', CASE WHEN i <= 200 THEN 'big' ELSE"
           " 'other' || i END, 'ndjson', 'ready', 200000, now() + interval '1 day'"
           " FROM generate_series(1, 10000) AS i");
    world_exec(w, "INSERT INTO export_rows (export_id, ordinal, row)"
                  " SELECT lpad(to_hex(CASE WHEN i <= 200000 THEN 1 ELSE i - 200000 END), 32, '0')::uuid, i,"
                  " '{\"id\":\"0199a000-0000-7000-8000-000000000001\",\"title\":\"title\"}'"
                  " FROM generate_series(1, 209000) AS i WHERE i <> 200001");
}

/* What is not a page: counted, marked, looked at. They write, so each is undone. */
static void check_others(struct pages *p, const char *mode)
{
    char at[PLACES][160];
    for (int d = 0; d < PLACES; d++)
        snprintf(at[d], sizeof at[d], "read_up_to('w', 'big', 100, %s, NULL, NULL)", p->feeds[0].places[d]);
    char rare[160];
    snprintf(rare, sizeof rare, "read_up_to('w', 'big', 100, %s, 'rare', NULL)", p->feeds[0].places[0]);
    const struct {
        const char *what, *execute, *index;
        int most, blocks;
    } rows[] = {
        {"unread_count, to 200", "unread_count('w', 'big', 201)", "notifications_unread", 201, 201},
        {"unread_count, who has few", "unread_count('w2', 'other7', 1001)", "notifications_unread", 112, 112},
        {"read_up_to, 100 marked", at[0], "notifications_unread", 101, 3000},
        {"read_up_to, from the middle", at[1], "notifications_unread", 101, 3000},
        {"read_up_to, from the end", at[2], "notifications_unread", 101, 3000},
        /* Every unread entry below is read (src/README.md): never the read ones. */
        {"read_up_to, category 1 in 1,000,000", rare, "notifications_unread", ROWS / 900 + 1,
         2 * (ROWS / 900)},
        {"item", "item('w', 'big', '00000000-0000-0000-0000-00000007a127')", "notifications_pkey", 1, 0},
        {"item_mark", "item_mark('w', 'big', '00000000-0000-0000-0000-00000007a127', true)",
         "notifications_pkey", 1, 20},
        {"an export's page, the first", "export_rows(" EXPORT ", 0, 21, 1000000)", "export_rows_pkey", 21, 0},
        {"an export's page, deep", "export_rows(" EXPORT ", 190000, 21, 1000000)", "export_rows_pkey", 21, 0},
        {"an export's page, to its bytes", "export_rows(" EXPORT ", 90000, 500, 400)", "export_rows_pkey",
         500, 0},
        {"an export alone", "export_rows(" EXPORT ", 0, 0, 0)", "export_rows_pkey", 1, 0},
        /* A generic plan reads all of his, which are bounded ([exports] stored_max). */
        {"exports of a user", "export_list('w', 'big', 20)", NULL, 200, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char execute[512];
        snprintf(execute, sizeof execute, "EXECUTE %s", rows[i].execute);
        world_exec(&p->w, "BEGIN");
        const char *relation = strncmp(rows[i].execute, "export_", 7) != 0    ? "notifications"
                               : strncmp(rows[i].execute, "export_l", 8) == 0 ? "exports"
                                                                              : "export_rows";
        struct plan_cost cost = plan_explain(&p->w, execute, relation);
        world_exec(&p->w, "ROLLBACK");
        printf("%-15s %-8s %-44s by %-20s rows %4lld of %4d, blocks %4lld of %4d\n", p->state, mode,
               rows[i].what, cost.index, (long long)cost.rows_max, rows[i].most, (long long)cost.blocks,
               BLOCKS_MAX + rows[i].blocks);
        cr_expect(rows[i].index == NULL || strcmp(cost.index, rows[i].index) == 0, "%s: %s on %s",
                  rows[i].what, cost.scan, cost.index);
        cr_expect_leq(cost.rows_max, rows[i].most, "%s: %lld rows", rows[i].what, (long long)cost.rows_max);
        cr_expect_leq(cost.blocks, BLOCKS_MAX + rows[i].blocks, "%s: %lld blocks", rows[i].what,
                      (long long)cost.blocks);
    }
}

static void check_feed(struct pages *p, const struct shipped *feed, const char *mode, bool all)
{
    for (size_t i = 0; i < feed->set_count && feed->statements != NULL; i++) {
        check_set(p, &(struct page_of){.feed = feed, .set = &feed->sets[i]}, mode);
        if (all && feed->flag_index != NULL)
            check_set(p, &(struct page_of){.feed = feed, .set = &feed->sets[i], .flag = true}, mode);
    }
}

/* Every set under both kinds of plan; as the reader's role, with its settings. */
static void check_pages(struct pages *p, const char *state, bool all)
{
    static const char *const modes[] = {"custom", "generic"};
    p->state = state;
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        world_exec(&p->w, "SET plan_cache_mode = force_%s_plan", modes[m]);
        for (size_t i = 0; i < FEEDS; i++)
            check_feed(p, &p->feeds[i], modes[m], all);
        if (all)
            check_others(p, modes[m]);
    }
}

static void look_as_reader(struct pages *p)
{
    for (size_t i = 0; i < FEEDS; i++)
        for (int d = 0; d < PLACES && p->feeds[i].statements != NULL; d++)
            position_at(&p->w, &p->feeds[i], d, p->feeds[i].places[d]);
    world_become(&p->w, "belfry_reader");
    for (size_t i = 0; i < FEEDS; i++)
        if (p->feeds[i].statements != NULL)
            prepare_pages(&p->w, &p->feeds[i]);
    world_exec(&p->w, "PREPARE unread_count (text, text, int8) AS %s", sql_unread_count);
    world_exec(&p->w, "PREPARE read_up_to AS %s", sql_read_up_to);
    world_exec(&p->w, "PREPARE item AS %s", sql_item);
    world_exec(&p->w, "PREPARE item_mark AS %s", sql_item_mark);
    world_exec(&p->w, "PREPARE export_rows AS %s", sql_export_rows);
    world_exec(&p->w, "PREPARE export_list AS %s", sql_export_list);
}

static void fill_pages(struct pages *p)
{
    int64_t from_ms = world_now_ms();
    world_database(&p->w);
    world_exec(&p->w, "ALTER TABLE notifications SET (autovacuum_enabled = off)");
    world_exec(&p->w, "UPDATE settled SET bound = now()");
    fill(&p->w);
    printf("%d rows of one user, 90 %% of all, put in in %lld ms\n", ROWS,
           (long long)(world_now_ms() - from_ms));
}

static void open_pages(struct pages *p)
{
    memset(p, 0, sizeof *p);
    memcpy(p->feeds, shipped_feeds, sizeof shipped_feeds);
    p->feeds[0].statements = page_compose(&source_notifications, 30000);
    arena_init(&p->arena, ARENA_BYTES);
    world_open(&p->w, "page_plan");
}

static void close_pages(struct pages *p)
{
    for (size_t i = 0; i < FEEDS; i++)
        page_statements_free(p->feeds[i].statements);
    arena_done(&p->arena);
    world_close(&p->w);
}

/* The two examples as they ship, 100,000 rows each, declared as config/belfry-reader.ini does. */
static void fill_examples(struct pages *p)
{
    static const struct source_declaration declared[] = {
        {.name = "activity",
         .relation = "activity_events",
         .workspace_column = "workspace_id",
         .xid_column = "inserted_xid",
         .columns = {"id", "created_at", "event_type"},
         .column_count = 3,
         .filters = {{.column = "event_type"}},
         .filter_count = 1,
         .id_type = SOURCE_UUID,
         .items_key = "items"},
        {.name = "posts",
         .relation = "posts",
         .columns = {"id", "author", "body", "created_at"},
         .column_count = 4,
         .id_type = SOURCE_BIGINT,
         .id_number = true,
         .items_key = "posts",
         .path = "/posts",
         .auth = SOURCE_OPEN},
    };
    struct db_settings settings = {.uri = world_role_uri(&p->w, "belfry_reader"),
                                   .application_name = "plans"};
    struct db *db = NULL;
    struct fault fault;
    run_file(&p->w, "sql/examples/activity.sql");
    run_file(&p->w, "sql/examples/posts.sql");
    world_exec(&p->w, "ALTER TABLE activity_events SET (autovacuum_enabled = off)");
    world_exec(&p->w, "ALTER TABLE posts SET (autovacuum_enabled = off)");
    world_exec(&p->w, "SET session_replication_role = replica"); /* the rows bring their time */
    world_exec(&p->w,
               "INSERT INTO activity_events (workspace_id, created_at, event_type)"
               " SELECT CASE WHEN i %% 10 = 0 THEN 'w2' ELSE 'w' END, timestamptz '2026-01-01' + i / 50 *"
               " interval '1 ms', CASE WHEN i = 20001 THEN 'rare' ELSE 'common' END"
               " FROM generate_series(1, 100000) AS i");
    world_exec(&p->w,
               "INSERT INTO posts (author, body, created_at) SELECT 'a', repeat('b', 100),"
               " timestamptz '2026-01-01' + i / 50 * interval '1 ms' FROM generate_series(1, 100000) AS i");
    world_exec(&p->w, "INSERT INTO settled (feed, bound) SELECT feed, now() FROM belfry_stamped");
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK, "%s", fault.text);
    for (size_t i = 0; i < 2; i++) {
        struct shipped *feed = &p->feeds[1 + i];
        cr_assert_eq(source_check(db, &declared[i], &p->arena, &feed->source, &fault), ST_OK, "%s",
                     fault.text);
        feed->statements = page_compose(&feed->source, 30000);
    }
    db_close(db);
}

static void analyse(struct pages *p)
{
    world_reconnect(&p->w);
    for (size_t i = 0; i < FEEDS; i++)
        if (p->feeds[i].statements != NULL)
            world_exec(&p->w, "VACUUM ANALYZE %s", p->feeds[i].relation);
    world_exec(&p->w, "VACUUM ANALYZE exports, export_rows");
    look_as_reader(p);
}

/* As if it never had been: what the planner knows of it is what a new table has. */
static void forget(struct pages *p)
{
    world_reconnect(&p->w);
    static const char *const relations[] = {"notifications", "activity_events", "posts", "exports",
                                            "export_rows"};
    for (size_t i = 0; i < sizeof relations / sizeof relations[0]; i++) {
        const char *relation = relations[i];
        world_exec(&p->w, "DELETE FROM pg_statistic WHERE starelid = '%s'::regclass", relation);
        world_exec(
            &p->w,
            "UPDATE pg_class SET reltuples = -1, relpages = 0, relallvisible = 0 WHERE oid IN (SELECT"
            " '%s'::regclass::oid UNION SELECT indexrelid FROM pg_index WHERE indrelid = '%s'::regclass)",
            relation, relation);
    }
    look_as_reader(p);
}

/* Pages by the feed index. The table is left for reader_3_plans. */
Test(foundation, page_plan)
{
    static struct pages p;
    open_pages(&p);
    fill_pages(&p);
    look_as_reader(&p);
    check_pages(&p, "never analysed", false);
    analyse(&p);
    check_pages(&p, "analysed", false);
    world_leave_database(&p.w, "plan_table");
    close_pages(&p);
}

/* Every shipped filter set, and every other statement of the reader's. */
Test(reader, plans)
{
    static struct pages p;
    open_pages(&p);
    if (!world_take_up_database(&p.w, "plan_table"))
        fill_pages(&p);
    fill_examples(&p);
    fill_exports(&p.w);
    analyse(&p);
    check_pages(&p, "analysed", true);
    forget(&p);
    check_pages(&p, "never analysed", true);
    close_pages(&p);
}
