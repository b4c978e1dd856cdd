/* reader_1, reader_3: what an operator sets for the role belfry_reader changes not one byte of what it
 * answers; and what the feed is sorted by can be changed by nobody but the owner. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader_client.h"
#include "wire/base64url.h"

#define FEED  "/v1/workspaces/w/feeds/notifications"
#define KINDS "/v1/workspaces/w/feeds/kinds"

/* ---- settings ------------------------------------------------------------------------------------------ */

enum { ANSWERS = 24, PATH = 1200 };

struct answers {
    char paths[ANSWERS][PATH];
    struct world_reply replies[ANSWERS];
    int count;
};

/* Of a cursor all but when it was issued and its tag, the last 24 bytes. */
static void cut_cursor(const char *cursor, char kept[2 * CURSOR_MAX])
{
    unsigned char bytes[CURSOR_MAX];
    size_t length = 0;
    kept[0] = '\0';
    if (cursor == NULL || cursor[0] == '\0')
        return;
    cr_assert(base64url_decode(span_of(cursor), bytes, &length));
    cr_assert_gt(length, 24);
    for (size_t i = 0; i < length - 24; i++)
        snprintf(kept + 2 * i, 3, "%02x", bytes[i]);
}

static char *without_cursors(const struct world_reply *reply)
{
    static const char *const names[] = {"next_cursor", "prev_cursor"};
    char kept[2 * CURSOR_MAX];
    json_t *json = json_loadb(reply->body, reply->body_bytes, 0, NULL);
    for (size_t i = 0; i < 2 && json_object_get(json, names[i]) != NULL; i++) {
        cut_cursor(json_string_value(json_object_get(json, names[i])), kept);
        json_object_set_new(json, names[i], json_string(kept));
    }
    char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(json);
    return text;
}

static void check_same(const char *path, const struct world_reply *a, const struct world_reply *b)
{
    const char *end = strstr(a->body, "\"next_cursor\"");
    size_t bytes = end == NULL ? a->body_bytes : (size_t)(end - a->body);
    cr_expect_eq(b->status, 200, "%s: %ld %s", path, b->status, b->body);
    cr_expect(b->body_bytes == a->body_bytes && memcmp(a->body, b->body, bytes) == 0, "%s:\n%s\n%s", path,
              a->body, b->body);
    if (end == NULL)
        return; /* no page: all of it was compared */
    char *before = without_cursors(a), *after = without_cursors(b);
    cr_expect_str_eq(before, after, "%s", path);
    free(before);
    free(after);
}

static void ask(struct client *c, struct answers *answers, const char *path)
{
    cr_assert_lt(answers->count, ANSWERS);
    snprintf(answers->paths[answers->count], PATH, "%s", path);
    client_get(c, path, &answers->replies[answers->count]);
    cr_assert_eq(answers->replies[answers->count].status, 200, "%s: %s", path,
                 answers->replies[answers->count].body);
    answers->count++;
}

/* Asks for the page that the last answer's cursor leads to. */
static void ask_on_at(struct client *c, struct answers *answers, const char *feed, const char *name,
                      const char *query)
{
    const struct world_reply *last = &answers->replies[answers->count - 1];
    char path[PATH];
    json_t *json = json_loadb(last->body, last->body_bytes, 0, NULL);
    snprintf(path, sizeof path, "%s?%s&cursor=%s", feed, query,
             json_string_value(json_object_get(json, name)));
    json_decref(json);
    ask(c, answers, path);
}

static void ask_on(struct client *c, struct answers *answers, const char *name, const char *query)
{
    ask_on_at(c, answers, FEED, name, query);
}

/* An export, ordered and read as a stream. */
static void ask_export(struct client *c, struct answers *answers, const char *feed, const char *format)
{
    char url[URL_MAX], body[64], path[PATH] = "";
    const char *headers[] = {c->authorization, NULL};
    struct world_reply reply;
    snprintf(url, sizeof url, "%s%s/exports", c->base, feed);
    snprintf(body, sizeof body, "{\"format\":\"%s\"}", format);
    world_http("POST", url, headers, body, &reply);
    cr_assert_eq(reply.status, 202, "%ld %s", reply.status, reply.body);
    for (int tries = 0; strstr(reply.body, "\"state\":\"ready\"") == NULL; tries++) {
        json_t *json = json_loadb(reply.body, reply.body_bytes, 0, NULL);
        snprintf(path, sizeof path, "/v1/workspaces/w/exports/%s",
                 json_string_value(json_object_get(json, "id")));
        json_decref(json);
        cr_assert(tries < 400 && strstr(reply.body, "\"state\":\"failed\"") == NULL, "%s", reply.body);
        world_sleep_ms(tries == 0 ? 0 : 10);
        world_reply_done(&reply);
        client_get(c, path, &reply);
    }
    world_reply_done(&reply);
    snprintf(url, sizeof url, "%s/rows", path);
    ask(c, answers, url);
}

static void ask_all(struct client *c, struct answers *answers)
{
    char path[PATH];
    answers->count = 0;
    ask(c, answers, FEED);
    ask(c, answers, FEED "?limit=2");
    ask_on(c, answers, "next_cursor", "limit=2");
    ask_on(c, answers, "next_cursor", "limit=2");
    ask_on(c, answers, "prev_cursor", "limit=3");
    ask(c, answers, FEED "?limit=2&unread=true&event_type=t");
    ask_on(c, answers, "next_cursor", "limit=9&unread=true&event_type=t");
    /* "grün" */
    ask(c, answers, FEED "?category=gr%C3%BCn");
    ask(c, answers, "/v1/workspaces/w/feeds/notifications/unread_count");
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, "/v1/workspaces/w/notifications/0199a000-0000-7000-8000-%012d", i);
        ask(c, answers, path);
    }
    ask(c, answers, KINDS "?limit=3");
    ask_on_at(c, answers, KINDS, "next_cursor", "limit=3");
    ask_on_at(c, answers, KINDS, "prev_cursor", "limit=3");
    /* "fröhlich" */
    ask(c, answers, KINDS "?mood=fr%C3%B6hlich&yes=true&small=-3");
}

static void put_odd_rows(struct client *c)
{
    world_exec(
        &c->w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, category, title, body,"
        " data, occurred_at, created_at, read_at)"
        " SELECT ('0199a000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 'w', 'u1', 't',"
        " CASE WHEN i %% 2 = 0 THEN 'grün' ELSE 'general' END, E'Grüße, 你好 \\U0001F600 \\\\ \" ''',"
        " E'\\\\x00 tab\\tline\\n', '{\"n\": 9007199254740993, \"f\": 1.10, \"e\": 1.50e2, \"s\": "
        "\"\\u00fc\"}',"
        " timestamptz '0999-12-31 23:59:59.999999 UTC' + i * interval '400 years',"
        " timestamptz '2026-03-29 00:59:59.999999 UTC' + i * interval '1 us',"
        " CASE WHEN i %% 3 = 0 THEN timestamptz '2026-10-25 01:30:00.000001 Europe/Berlin' END"
        " FROM generate_series(1, 7) AS i");
    world_exec(&c->w, "UPDATE settled SET bound = '2026-03-29 00:59:59.999999 UTC'");
}

/* A declared feed that shows a column of each type there is. */
static const char kinds_ini[] =
    "[feed.kinds]\nrelation = kinds\nworkspace_column = workspace\nid_type = text\n"
    "columns = id, created_at, small, n, big, num, yes, u, j, jb, at, vc, mood, Order\n"
    "filters = small, yes, mood\n";

static void put_kinds(struct client *c)
{
    world_exec(&c->w, "CREATE TYPE moods AS ENUM ('so-so', 'fröhlich')");
    world_exec(&c->w,
               "CREATE TABLE kinds (workspace text COLLATE \"C\" NOT NULL, id text COLLATE \"C\" PRIMARY KEY,"
               " created_at timestamptz NOT NULL, small int2, n int4, big int8, num numeric, yes boolean,"
               " u uuid, j json, jb jsonb, at timestamptz, vc varchar(40), mood moods, \"Order\" text)");
    world_exec(&c->w, "CREATE INDEX ON kinds (workspace, created_at DESC, id DESC)");
    world_exec(&c->w, "GRANT SELECT ON kinds TO belfry_reader");
    /* Stamped, so that the walk is gapless; the rows bring their own time. */
    world_exec(&c->w, "CREATE TRIGGER zz_belfry_stamp BEFORE INSERT ON kinds FOR EACH ROW EXECUTE FUNCTION"
                      " belfry_stamp()");
    world_exec(&c->w, "INSERT INTO settled (feed, bound) SELECT feed, '2020-03-30' FROM belfry_stamped");
    world_exec(&c->w, "SET session_replication_role = replica");
    world_exec(
        &c->w,
        "INSERT INTO kinds SELECT 'w', 'ключ ' || i, timestamptz '2020-03-29 00:59:59.999999 UTC' + i / 2 *"
        " interval '1 us', -i, -2147483648 + i, 9223372036854775807 - i, 0.1::numeric / i, i %% 2 = 1,"
        " 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{\"x\" : 1.10}', '{\"x\" : 1.10, \"a\": \"ü\"}',"
        " timestamptz '1895-04-01 00:53:28.5 Europe/Berlin', E'\\\\x41 ''ü', 'fröhlich', 'o'"
        " FROM generate_series(1, 7) AS i");
}

/* The one setting that would change something, which feeds are gapless, is refused by name. */
static void check_refused(struct client *c, const char *name)
{
    char ini[WORLD_PATH_MAX];
    world_write_reader_ini(&c->w, NULL, ini);
    const char *argv[] = {"page",        "-F", ini,      "--feed", "notifications",
                          "--workspace", "w",  "--user", "u1",     NULL};
    world_exec(&c->w, "ALTER ROLE belfry_reader IN DATABASE %s SET %s = on", c->w.database, name);
    cr_expect_eq(world_run(&c->w, "src/bin/belfry-reader", argv, NULL, 0), 1);
    cr_expect(child_log_has(&c->w.children[c->w.child_count - 1], name));
    printf("role settings: %s is refused at start\n", name);
}

/* Exports are new ones each time: their rows are the same. */
static void ask_exports(struct client *c, struct answers *answers)
{
    static const char *const feeds[] = {FEED, KINDS}, *const formats[] = {"ndjson", "csv"};
    for (size_t i = 0; i < 4; i++)
        ask_export(c, answers, feeds[i / 2], formats[i % 2]);
}

static void done_with(struct answers *answers)
{
    for (int i = 0; i < answers->count; i++)
        world_reply_done(&answers->replies[i]);
    answers->count = 0;
}

static void check_all_same(const struct answers *plain, const struct answers *odd)
{
    cr_assert_geq(plain->count, odd->count);
    for (int i = 0; i < odd->count; i++)
        check_same(plain->paths[i], &plain->replies[i], &odd->replies[i]);
}

Test(reader, role_settings)
{
    static const char *const settings[] = {
        "timezone = 'Asia/Kathmandu'",
        "datestyle = 'SQL, DMY'",
        "intervalstyle = 'sql_standard'",
        "bytea_output = 'escape'",
        "extra_float_digits = -15",
        "lc_messages = 'C'",
        "lc_monetary = 'C'",
        "lc_numeric = 'C'",
        "lc_time = 'C'",
        "client_encoding = 'LATIN1'",
        "standard_conforming_strings = off",
        "backslash_quote = off",
        "array_nulls = off",
        "xmlbinary = hex",
        "default_text_search_config = 'simple'",
        "default_transaction_isolation = 'serializable'",
        "default_transaction_deferrable = on",
        "transform_null_equals = on",
        "enable_indexscan = off",
        "synchronous_commit = off",
        "row_security = off",
    };
    static struct client c;
    static struct answers plain, odd;
    char base[64];
    client_open(&c, "reader_settings");
    put_odd_rows(&c);
    put_kinds(&c);
    world_reader(&c.w, kinds_ini, base);
    client_move(&c, base);
    ask_all(&c, &plain);
    ask_exports(&c, &plain);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        world_exec(&c.w, "ALTER ROLE belfry_reader IN DATABASE %s SET %s", c.w.database, settings[i]);
    world_reader(&c.w, kinds_ini, base);
    client_move(&c, base);
    world_become(&c.w, "belfry_reader"); /* as the reader's own connections find it */
    cr_assert_eq(world_count(&c.w, "SELECT count(*) FROM pg_settings WHERE source = 'database user'"),
                 sizeof settings / sizeof settings[0]);
    world_become(&c.w, NULL);
    ask_all(&c, &odd);
    ask_exports(&c, &odd);
    check_all_same(&plain, &odd);
    printf("role settings: %zu odd ones, %d answers the same to the byte\n",
           sizeof settings / sizeof settings[0], odd.count);
    done_with(&odd);
    /* Where nothing may be written, as on a replica, everything can be read. */
    world_exec(&c.w, "ALTER ROLE belfry_reader IN DATABASE %s SET default_transaction_read_only = on",
               c.w.database);
    world_reader(&c.w, kinds_ini, base);
    client_move(&c, base);
    ask_all(&c, &odd);
    check_all_same(&plain, &odd);
    printf("role settings: read only, %d answers the same\n", odd.count);
    /* A boundary cursor holds which transactions run: it is another each time. */
    ask(&c, &odd, FEED "?limit=2&contract=boundary");
    ask_on(&c, &odd, "next_cursor", "limit=2");
    check_refused(&c, "quote_all_identifiers");
    done_with(&plain);
    done_with(&odd);
    client_close(&c);
}

/* ---- the sort key -------------------------------------------------------------------------------------- */

/* The SQLSTATE that an UPDATE of the column ends with; "00000": it was done, and undone. */
static void update_as(struct world *w, const char *role, const char *column, char state[6])
{
    char sql[160];
    PGconn *db = PQconnectdb(world_role_uri(w, role));
    cr_assert_eq(PQstatus(db), CONNECTION_OK, "%s: %s", role, PQerrorMessage(db));
    PQclear(PQexec(db, "BEGIN"));
    snprintf(sql, sizeof sql, "UPDATE notifications SET %s = %s", column, column);
    PGresult *result = PQexec(db, sql);
    const char *said = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    snprintf(state, 6, "%s", said == NULL ? "00000" : said);
    PQclear(result);
    PQfinish(db);
}

Test(reader, created_at)
{
    static struct world w;
    static const char *const columns[] = {"created_at", "id", "inserted_xid"};
    static const char *const roles[] = {"belfry_dispatcher", "belfry_reconciler", "belfry_reader", NULL,
                                        "belfry_migrator"};
    char anybody[120], state[6];
    world_open(&w, "reader_created_at");
    world_database(&w);
    world_exec(
        &w, "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
            " VALUES (gen_random_uuid(), 'w', 'u1', 't', 't', now())");
    snprintf(anybody, sizeof anybody, "%.60s_any", w.database);
    world_exec(&w, "CREATE ROLE %s LOGIN", anybody);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        const char *role = roles[i] == NULL ? anybody : roles[i];
        bool owner = strcmp(role, "belfry_migrator") == 0;
        for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++) {
            update_as(&w, role, columns[k], state);
            printf("UPDATE of %-12s as %-20s %s %s\n", columns[k],
                   roles[i] == NULL ? "(any other role)" : role, state, owner ? "done" : "refused");
            cr_expect_str_eq(state, owner ? "00000" : "42501", "%s as %s", columns[k], role);
        }
    }
    /* Every role there is: by a grant, by PUBLIC, by membership. */
    char names[512];
    world_text(&w, names, sizeof names,
               "SELECT coalesce(string_agg(DISTINCT r.rolname, ', '), '') FROM pg_roles AS r,"
               " unnest(ARRAY['created_at', 'id', 'inserted_xid']) AS c WHERE NOT r.rolsuper"
               " AND has_column_privilege(r.oid, 'notifications', c, 'UPDATE')"
               " AND NOT pg_has_role(r.oid, 'belfry_migrator', 'MEMBER')"
               " AND NOT pg_has_role(r.oid, 'pg_write_all_data', 'MEMBER')");
    int64_t roles_count = world_count(&w, "SELECT count(*) FROM pg_roles WHERE NOT rolsuper");
    printf("of %lld roles that are no superuser and do not act as the migrator these may: '%s'\n",
           (long long)roles_count, names);
    cr_expect_str_eq(names, "");
    world_exec(&w, "DROP ROLE %s", anybody);
    world_close(&w);
}
