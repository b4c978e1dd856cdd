/* reader_1_declared_check: feeds as an operator writes them, held against tables as developers make them.
 * Each refusal is printed and is the one that was meant; what it says to run mends it; and an index is taken
 * for good exactly where the planner takes it for the page. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feed/declare.h"
#include "support/harness.h"

static struct world w;
static struct db *db;

static void begin(void)
{
    struct fault fault;
    world_open(&w, "source_check");
    world_database(&w);
    world_exec(&w, "SET client_min_messages = warning");
    struct db_settings settings = {.uri = world_role_uri(&w, "belfry_reader"),
                                   .application_name = "source_check_test",
                                   .role = DB_ROLE_READER,
                                   .prepared_statements = true};
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK, "%s", fault.text);
}

static void end(void)
{
    db_close(db);
    world_close(&w);
}

/* "key = value" lines as the pairs of [feed.f]. */
struct lines {
    struct config_pair pairs[16];
    char *texts[2 * 16];
    size_t count;
};

static enum status take_line(void *context, const struct config_line *line, struct fault *fault)
{
    struct lines *lines = context;
    (void)fault;
    if (line->key.at == NULL)
        return ST_OK;
    char **texts = lines->texts + 2 * lines->count;
    texts[0] = strndup(line->key.at, line->key.bytes);
    texts[1] = strndup(line->value.at, line->value.bytes);
    lines->pairs[lines->count++] = (struct config_pair){texts[0], texts[1], line->number};
    return ST_OK;
}

/* A feed that is good as far as its file goes, against the catalog as it is now. */
static enum status check(const char *text, struct source *source, struct fault *fault)
{
    static struct arena arena; /* what source points to: until the next check */
    struct lines lines = {.count = 0};
    char all[1024];
    snprintf(all, sizeof all, "[feed.f]\n%s", text);
    cr_assert_eq(config_parse(span_of(all), take_line, &lines, fault), ST_OK);
    struct config_pairs section = {.name = "f", .pairs = lines.pairs, .count = lines.count, .line = 1};
    struct config_named named = {.sections = &section, .count = 1};
    struct declared declared;
    arena_done(&arena);
    arena_init(&arena, DECLARE_ARENA_BYTES_MAX);
    enum status status = declare_feeds(&named, &arena, &declared, fault);
    cr_assert_eq(status, ST_OK, "%s: %s", text, fault->text);
    for (size_t i = 0; i < 2 * lines.count; i++)
        free(lines.texts[i]);
    return source_check(db, declared.feeds, &arena, source, fault);
}

#define GOOD_TABLE                                                                                           \
    "CREATE TABLE t (id uuid PRIMARY KEY, w text, u text, created_at timestamptz NOT NULL, body text);"      \
    "CREATE INDEX t_feed ON t (w, created_at DESC, id DESC); GRANT SELECT ON t TO belfry_reader;"
#define FEED       "relation = t\nworkspace_column = w\ncolumns = id, created_at, body\n"
#define SHOW(type) GOOD_TABLE "ALTER TABLE t ADD more " type
#define MORE       "relation = t\nworkspace_column = w\ncolumns = id, created_at, more\n"

/* Nothing of an earlier row is left. */
static void make(const char *sql)
{
    world_exec(&w, "DROP SCHEMA IF EXISTS s CASCADE; DROP TABLE IF EXISTS t CASCADE; DROP VIEW IF EXISTS v;"
                   " DROP MATERIALIZED VIEW IF EXISTS m; DROP SEQUENCE IF EXISTS q; DROP TYPE IF EXISTS mood;"
                   " DROP DOMAIN IF EXISTS label; DROP COLLATION IF EXISTS same");
    world_exec(&w, "%s", sql);
}

static const struct refusal {
    const char *sql, *feed, *field, *says;
} refusals[] = {
    {"SELECT 1", FEED, "feed.f.relation", "there is no table t in the schemas {public}"},
    {"SELECT 1", "relation = s.t\nauth = none\ncolumns = id created_at\n", "feed.f.relation",
     "there is no table t in a schema s"},
    {GOOD_TABLE "CREATE VIEW v AS SELECT * FROM t", "relation = v\nauth = none\ncolumns = id created_at\n",
     "feed.f.relation", "public.v is a view"},
    {GOOD_TABLE "CREATE MATERIALIZED VIEW m AS SELECT * FROM t",
     "relation = m\nauth = none\ncolumns = id created_at\n", "feed.f.relation",
     "public.m is a materialized view"},
    {"CREATE SEQUENCE q", "relation = q\nauth = none\ncolumns = id created_at\n", "feed.f.relation",
     "public.q is not a table"},
    {GOOD_TABLE "CREATE TABLE child () INHERITS (t)", FEED, "feed.f.relation", "tables that inherit from it"},
    {"CREATE SCHEMA s; CREATE TABLE s.t (id uuid PRIMARY KEY)",
     "relation = s.t\nauth = none\ncolumns = id created_at\n", "feed.f.relation",
     "Run: GRANT USAGE ON SCHEMA s TO belfry_reader"},
    {GOOD_TABLE "REVOKE SELECT ON t FROM belfry_reader; GRANT SELECT (id, w) ON t TO belfry_reader", FEED,
     "feed.f.columns", "the reader may not read created_at. Run: GRANT SELECT ON public.t TO belfry_reader"},
    {GOOD_TABLE, MORE, "feed.f.columns", "public.t has no column more"},
    {GOOD_TABLE, FEED "filters = level\n", "feed.f.filters", "public.t has no column level"},
    {GOOD_TABLE, FEED "id_type = bigint\n", "feed.f.id_type", "id of public.t is uuid, not bigint"},
    {GOOD_TABLE "ALTER TABLE t ALTER id TYPE int USING 1", FEED "id_type = bigint\n", "feed.f.id_type",
     "is integer, not bigint"},
    {GOOD_TABLE "ALTER TABLE t ALTER id TYPE text COLLATE \"und-x-icu\"", FEED "id_type = text\n",
     "feed.f.id_type", "Run: ALTER TABLE public.t ALTER COLUMN id TYPE text COLLATE \"C\""},
    {GOOD_TABLE "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ALTER id DROP NOT NULL", FEED,
     "feed.f.columns", "Run: ALTER TABLE public.t ALTER COLUMN id SET NOT NULL"},
    {GOOD_TABLE "ALTER TABLE t ALTER created_at DROP NOT NULL", FEED, "feed.f.columns",
     "Run: ALTER TABLE public.t ALTER COLUMN created_at SET NOT NULL"},
    {GOOD_TABLE "ALTER TABLE t ALTER created_at TYPE timestamp", FEED, "feed.f.columns",
     "created_at of public.t is timestamp without time zone; it must be timestamptz"},
    {GOOD_TABLE "ALTER TABLE t ALTER w TYPE int USING 1", FEED, "feed.f.workspace_column",
     "w is integer; workspaces and users are text or varchar"},
    {GOOD_TABLE "CREATE COLLATION same (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
                "ALTER TABLE t ALTER w TYPE text COLLATE same",
     FEED, "feed.f.workspace_column", "different texts are equal"},
    {SHOW("date"), MORE, "feed.f.columns", "more is date, which a feed cannot show"},
    {SHOW("timestamp"), MORE, "feed.f.columns", "more is timestamp without time zone, which"},
    {SHOW("float8"), MORE, "feed.f.columns", "more is double precision, which"},
    {SHOW("bytea"), MORE, "feed.f.columns", "more is bytea, which"},
    {SHOW("text[]"), MORE, "feed.f.columns", "more is text[], which"},
    {SHOW("char(3)"), MORE, "feed.f.columns", "more is character(3), which"},
    {SHOW("pair"), MORE, "feed.f.columns", "more is pair, which"},
    {SHOW("jsonb"), FEED "filters = more\n", "feed.f.filters", "more is jsonb; a filter is of text"},
    {SHOW("text"), FEED "filters = more:integer\n", "feed.f.filters", "more is text, not integer"},
    {SHOW("text"), FEED "roles_column = more\n", "feed.f.roles_column", "more is text; it must be text[]"},
    {SHOW("bigint"), FEED "xid_column = more\n", "feed.f.xid_column", "more is bigint; it must be xid8"},
    {SHOW("xid8 NOT NULL DEFAULT '3'"), FEED "xid_column = more\n", "feed.f.xid_column",
     "nothing sets more. Run: ALTER TABLE public.t ALTER COLUMN more SET DEFAULT pg_current_xact_id()"},
    {SHOW("xid8 DEFAULT pg_current_xact_id()"), FEED "xid_column = more\n", "feed.f.xid_column",
     "Run: ALTER TABLE public.t ALTER COLUMN more SET NOT NULL"},
    {GOOD_TABLE "ALTER TABLE t DROP CONSTRAINT t_pkey", FEED, "feed.f.relation",
     "no index says that id is unique. Run: CREATE UNIQUE INDEX CONCURRENTLY ON public.t (id)"},
    {GOOD_TABLE "ALTER TABLE t DROP CONSTRAINT t_pkey; CREATE INDEX i ON t (id)", FEED, "feed.f.relation",
     "no index says that id is unique. Run"},
    {GOOD_TABLE "ALTER TABLE t DROP CONSTRAINT t_pkey; CREATE UNIQUE INDEX i ON t (id, w)", FEED,
     "feed.f.relation", "no index says that id is unique. Run"},
    {GOOD_TABLE "ALTER TABLE t DROP CONSTRAINT t_pkey; CREATE UNIQUE INDEX i ON t (id) WHERE w = 'a'", FEED,
     "feed.f.relation", "no index says that id is unique (index public.i is partial"},
    {GOOD_TABLE "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_pkey'::regclass", FEED,
     "feed.f.relation", "no index says that id is unique (index public.t_pkey is not valid"},
    {"CREATE TABLE t (id uuid NOT NULL, created_at timestamptz NOT NULL) PARTITION BY RANGE (created_at);"
     "GRANT SELECT ON t TO belfry_reader",
     "relation = t\nauth = none\ncolumns = id created_at\n", "feed.f.relation",
     "Run: CREATE UNIQUE INDEX ON public.t (id, created_at)"},
};

static void each_refusal(void)
{
    world_exec(&w, "CREATE TYPE pair AS (a int)");
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *row = &refusals[i];
        struct source source;
        struct fault fault;
        make(row->sql);
        enum status status = check(row->feed, &source, &fault);
        cr_expect_eq(status, ST_FATAL, "row %zu: %s", i, row->sql);
        cr_expect_eq(fault.exit_code, EXIT_USAGE, "row %zu: %s", i, fault.text);
        cr_expect_str_eq(fault.field, row->field, "row %zu: %s: %s", i, fault.field, fault.text);
        cr_expect_not_null(strstr(fault.text, row->says), "row %zu: %s", i, fault.text);
        printf("%s\n", fault.text);
    }
}

static const struct variant {
    const char *on; /* of the index */
    const char *scope;
    bool good;
    const char *says; /* of the one refused */
    bool walks;       /* refused all the same: it reads everybody's rows */
} variants[] = {
    {"t (w, created_at DESC, id DESC)", "w", true, ""},
    {"t (w, created_at, id)", "w", true, ""},
    {"t (w, created_at ASC, id ASC) INCLUDE (body)", "w", true, ""},
    {"t (w DESC, created_at DESC, id DESC, body)", "w", true, ""},
    {"t (u, w, created_at DESC, id DESC)", "wu", true, ""},
    {"t (w, u, created_at, id)", "wu", true, ""},
    {"t (created_at DESC, id DESC)", "", true, ""},
    {"t (w, created_at DESC, id)", "w", false, "does not order created_at and id the same way"},
    {"t (w, created_at DESC NULLS LAST, id DESC NULLS LAST)", "w", false,
     "with NULLs where they usually stand"},
    {"t (w, created_at DESC)", "w", false, "has no id behind created_at"},
    {"t (w, created_at DESC, body, id DESC)", "w", false, "has no id behind created_at"},
    {"t (body, w, created_at DESC, id DESC)", "w", false, "has them in another order"},
    {"t (created_at DESC, id DESC, w)", "w", false, "has them in another order", true},
    {"t (w, id DESC, created_at DESC)", "w", false, "has them in another order"},
    {"t (created_at DESC, id DESC)", "w", false, "no index serves its pages. Run"},
    {"t (w, created_at DESC, id DESC)", "wu", false, "no index serves its pages. Run"},
    {"t (lower(w), created_at DESC, id DESC)", "w", false, "no index serves its pages. Run"},
    {"t (w COLLATE \"POSIX\", created_at DESC, id DESC)", "w", false, "another collation"},
    {"t USING brin (w, created_at, id)", "w", false, "serves its pages"},
    {"t (w, created_at DESC, id DESC) WHERE body IS NOT NULL", "w", false, "is partial"},
    {"t (w, created_at DESC, id DESC) /* invalid */", "w", false, "is not valid"},
};

/* Whether the planner reads a page's rows, and no others, in order from an index. */
static bool planner_takes_it(const char *scope)
{
    static char plan[8192];
    world_text(
        &w, plan, sizeof plan,
        "SELECT plan('SELECT id FROM t WHERE %s %s (created_at, id) < (now(), ''00000000-0000-0000-0000-"
        "000000000000'') ORDER BY created_at DESC, id DESC LIMIT 21')",
        strchr(scope, 'w') != NULL ? "w = ''a'' AND" : "", strchr(scope, 'u') != NULL ? "u = ''b'' AND" : "");
    return strstr(plan, "Index") != NULL && strstr(plan, "Sort") == NULL && strstr(plan, "Filter") == NULL;
}

static void each_index(void)
{
    world_exec(&w, "CREATE FUNCTION plan(q text) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET"
                   " enable_bitmapscan = off AS $$DECLARE r text; p text := ''; BEGIN FOR r IN EXECUTE"
                   " 'EXPLAIN (COSTS OFF) ' || q LOOP p := p || r || E'\\n'; END LOOP; RETURN p; END$$");
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        const struct variant *row = &variants[i];
        struct source source;
        struct fault fault;
        char feed[256];
        make(GOOD_TABLE "DROP INDEX t_feed");
        world_exec(&w, "CREATE INDEX i ON %s", row->on);
        if (strstr(row->on, "invalid") != NULL)
            world_exec(&w, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'i'::regclass");
        snprintf(feed, sizeof feed, "relation = t\ncolumns = id, created_at\n%s%s",
                 strchr(row->scope, 'w') != NULL ? "workspace_column = w\n" : "auth = none\n",
                 strchr(row->scope, 'u') != NULL ? "user_column = u\n" : "");
        enum status status = check(feed, &source, &fault);
        bool takes = planner_takes_it(row->scope);
        printf("%-58s scope %-2s %s; the planner %s\n", row->on, row->scope,
               status == ST_OK ? "is good" : fault.text, takes ? "walks it" : "does not");
        cr_expect_eq(status == ST_OK, row->good, "%s: %s", row->on, fault.text);
        cr_expect_eq(takes, row->good || row->walks, "%s", row->on);
        if (row->good)
            continue;
        cr_expect_not_null(strstr(fault.text, row->says), "%s: %s", row->on, fault.text);
        const char *run = strstr(fault.text, "Run: ");
        cr_assert_not_null(run);
        world_exec(&w, "%s", run + strlen("Run: "));
        cr_expect_eq(check(feed, &source, &fault), ST_OK, "%s", fault.text);
        cr_expect(planner_takes_it(row->scope), "%s", run);
    }
}

/* From a table with everything amiss to a feed, by nothing but what the refusals say. */
static void following_the_advice(void)
{
    enum { STEPS_MAX = 12 };
    static const char good[] = "relation = s.t\nworkspace_column = W\nuser_column = u\nid_type = text\n"
                               "columns = id, created_at, n, mood, l, j\nfilters = mood, n:bigint\n"
                               "xid_column = xx\nroles_column = r\nroles = a\n";
    struct source source;
    struct fault fault;
    int steps = 0;
    make("CREATE SCHEMA s; CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN label AS varchar(20);"
         " CREATE TABLE s.t (id text COLLATE \"und-x-icu\", \"W\" varchar(9), u text,"
         " created_at timestamptz, n bigint, mood mood, l label, j jsonb, r text[], xx xid8)");
    while (check(good, &source, &fault) != ST_OK) {
        const char *run = strstr(fault.text, "Run: ");
        cr_assert_not_null(run, "%s", fault.text);
        cr_assert_lt(steps++, STEPS_MAX, "%s", fault.text);
        char statement[FAULT_TEXT_MAX];
        snprintf(statement, sizeof statement, "%s", run + strlen("Run: "));
        char *aside = strstr(statement, " (it locks");
        if (aside != NULL)
            *aside = '\0';
        printf("%d. %s\n", steps, statement);
        world_exec(&w, "%s", statement);
    }
    cr_expect_eq(steps, 9);
    cr_expect_str_eq(source.relation, "s.t");
    cr_expect_str_eq(source.workspace, "\"W\"");
    cr_expect_str_eq(source.recipient, "u");
    cr_expect_eq(source.id_type, SOURCE_TEXT);
    cr_expect_eq(source.column_count, 6);
    static const enum source_type types[] = {SOURCE_TEXT, SOURCE_TIME, SOURCE_BIGINT,
                                             SOURCE_TEXT, SOURCE_TEXT, SOURCE_JSON};
    for (size_t i = 0; i < source.column_count; i++)
        cr_expect_eq(source.columns[i].type, types[i], "%s", source.columns[i].name);
    cr_expect_str_eq(source.columns[0].sql, "id");
    cr_expect_eq(source.filter_count, 2);
    cr_expect_eq(source.filters[0].type, SOURCE_TEXT);
    cr_expect_eq(source.filters[1].type, SOURCE_BIGINT);
    cr_expect_str_eq(source.xid, "xx");
    cr_expect_str_eq(source.roles_column, "r");
    cr_expect_eq(source.role_count, 1);
    cr_expect_null(source.settled, "nothing stamps it");
}

/* Gapless only with a trigger that works and a bound that follows it; xid by the trigger; partitions. */
static void stamped_or_not(void)
{
    static const char *const feed = "relation = t\nauth = none\ncolumns = id, created_at\nxid_column = x\n";
    struct source source;
    struct fault fault;
    make(
        "CREATE TABLE t (id uuid NOT NULL, created_at timestamptz NOT NULL, x xid8 NOT NULL, UNIQUE "
        "(created_at, id))"
        " PARTITION BY RANGE (created_at); CREATE INDEX ON t (created_at, id); GRANT SELECT ON t TO "
        "belfry_reader;"
        " CREATE TRIGGER zz_belfry_stamp BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION belfry_stamp('x')");
    cr_assert_eq(check(feed, &source, &fault), ST_OK, "%s", fault.text);
    cr_expect_null(source.settled, "no reconciler has looked yet");
    world_exec(&w, "INSERT INTO settled VALUES ('public.t', now())");
    cr_assert_eq(check(feed, &source, &fault), ST_OK, "%s", fault.text);
    cr_assert_not_null(source.settled);
    cr_expect_str_eq(source.settled, "public.t");
    cr_expect_str_eq(source.relation, "public.t");
    world_exec(&w, "ALTER TABLE t DISABLE TRIGGER zz_belfry_stamp; ALTER TABLE t ALTER x SET DEFAULT"
                   " pg_current_xact_id()");
    cr_assert_eq(check(feed, &source, &fault), ST_OK, "%s", fault.text);
    cr_expect_null(source.settled, "disabled");
    printf("settled: without a bound none, with one public.t, disabled none\n");
}

Test(source_check, declared)
{
    begin();
    each_refusal();
    each_index();
    following_the_advice();
    stamped_or_not();
    end();
}
