/* A person's rights and devices: what an export holds against what the tables hold, what an erasure returns
 * against what it took, and the devices' view. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

/* An id with all that a key encodes, and as it stands in a key. SQL goes through "%s": nothing is doubled. */
#define GONE  "~g%o:ne"
#define CODED "%7Eg%25o%3Ane"

enum { EXPORT_MAX = 64 * 1024 };

/* Which tables hold a row that names the person: by id, as a key's part, or as a tombstone's hash. */
static void tables_naming(struct world *w, char *names, size_t size)
{
    world_exec(
        w, "%s",
        "CREATE OR REPLACE FUNCTION naming() RETURNS text LANGUAGE plpgsql AS $$ DECLARE t name;"
        " n bigint; every text := ''; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE schemaname ="
        " current_schema() ORDER BY 1 LOOP EXECUTE format('SELECT count(*) FROM %I x WHERE"
        " strpos(row_to_json(x)::text, $1) > 0 OR strpos(row_to_json(x)::text, $2) > 0 OR"
        " strpos(row_to_json(x)::text, $3) > 0', t) INTO n USING '" GONE "', '" CODED "',"
        " encode(sha256('" GONE "'), 'hex'); IF n > 0 THEN every := every || ' ' || t; END IF;"
        " END LOOP; RETURN every; END $$");
    world_text(w, names, size, "SELECT naming()");
}

/* The person and one other in every table that can name somebody. */
static void fill(struct fixture *f)
{
    static const char *const statements[] = {
        /* The fixture does not encode its keys; the dispatcher does. */
        "UPDATE idempotency_keys SET key = replace(key, '" GONE "', '" CODED "')",
        "UPDATE notifications SET read_at = now(), traceparent = '00-1-1-01', data = '{\"a\":1}'",
        "SELECT belfry_register_device('" GONE "', 'ExponentPushToken[secret-off]', 'web', '1.0')",
        "SELECT belfry_unregister_device('ExponentPushToken[secret-off]')",
        /* One that was theirs once. */
        "SELECT belfry_register_device('" GONE "', 'ExponentPushToken[moved]', 'ios')",
        "SELECT belfry_register_device('stays', 'ExponentPushToken[moved]', 'ios')",
        "SELECT belfry_set_member('w', '" GONE "'), belfry_set_member('w', 'stays')",
        "INSERT INTO exports (feed, workspace_id, user_id, format, state, idempotency_key)"
        " SELECT 'notifications', 'w', u, 'csv', s, 'key of ' || u || s"
        " FROM unnest(ARRAY['" GONE "', 'stays']) u, unnest(ARRAY['ready', 'running']) s",
        "INSERT INTO export_rows SELECT id, n, '{\"row\":1}' FROM exports, generate_series(1, 3) n",
        "INSERT INTO settled_outbox (dispatch_id, record) SELECT d.id, belfry_settled_record(d.id, n.id, 'w',"
        " n.recipient_user_id, d.device_id, 'delivered', NULL, now()) FROM dispatches d JOIN notifications n"
        " ON n.id = d.notification_id"};
    fixture_device(f, GONE, "ExponentPushToken[secret-on]", 0);
    fixture_device(f, "stays", "ExponentPushToken[other]", 0);
    fixture_event(f, 0, "r1", GONE " stays");
    fixture_event(f, 0, "r2", GONE);
    fixture_claim(f);
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        world_exec(&f->world, "%s", statements[i]);
}

/* What is the person's in each table, and where the export has it. table NULL: theirs by reference only. */
static const struct {
    const char *table, *rows, *exported, *returned; /* returned: by erasure; NULL: it is not counted */
} parts[] = {
    {"device_history", "device_history WHERE user_id = '" GONE "'",
     "json_array_length(e -> 'device_history')", "device_history"},
    {"device_tokens", "device_tokens WHERE user_id = '" GONE "'", "json_array_length(e -> 'devices')",
     "devices"},
    {"exports", "exports WHERE user_id = '" GONE "'", "json_array_length(e -> 'exports')", NULL},
    {"idempotency_keys", "idempotency_keys WHERE split_part(key, ':', 4) = '" CODED "'",
     "json_array_length(e -> 'idempotency_keys')", NULL},
    {"notifications", "notifications WHERE recipient_user_id = '" GONE "'",
     "json_array_length(e -> 'notifications')", "notifications"},
    {"settled_outbox", "settled_outbox WHERE record ->> 'recipient_user_id' = '" GONE "'",
     "json_array_length(e -> 'settled_outbox')", "settled_outbox"},
    {"workspace_members", "workspace_members WHERE user_id = '" GONE "'",
     "json_array_length(e -> 'memberships')", "memberships"},
    {NULL,
     "dispatches d JOIN notifications n ON n.id = d.notification_id WHERE recipient_user_id = '" GONE "'",
     "(SELECT sum(json_array_length(n -> 'dispatches')) FROM json_array_elements(e -> 'notifications') n)",
     "dispatches"},
    {NULL, "export_rows r JOIN exports x ON x.id = r.export_id WHERE x.user_id = '" GONE "'",
     "(SELECT sum(json_array_length(x -> 'rows')) FROM json_array_elements(e -> 'exports') x)",
     "export_rows"},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static int64_t rows_of(struct world *w, size_t part)
{
    return world_count(w, "SELECT count(*) FROM %s", parts[part].rows);
}

/* Everybody's, in the tables that an erasure counts. */
static int64_t rows_of_all(struct world *w)
{
    return world_count(w, "SELECT (SELECT count(*) FROM notifications) + (SELECT count(*) FROM dispatches)"
                          " + (SELECT count(*) FROM device_tokens) + (SELECT count(*) FROM device_history)"
                          " + (SELECT count(*) FROM export_rows) + (SELECT count(*) FROM settled_outbox)"
                          " + (SELECT count(*) FROM workspace_members)");
}

/* Every table that names the person has its part in the export, with as many members as the table has rows;
 * tokens are masked; nothing of anybody else is in it. */
Test(person, export_holds_everything)
{
    static const char *const absent[] = {"ExponentPushToken", "secret-", "stays", "other]"};
    struct fixture *f = fixture_open("person_export", 1);
    struct world *w = &f->world;
    fill(f);
    char named[1024], wanted[1024] = "", *text = malloc(EXPORT_MAX);
    cr_assert_not_null(text);
    for (size_t i = 0; i < PARTS; i++) {
        int64_t held = rows_of(w, i);
        int64_t exported =
            world_count(w, "SELECT %s FROM belfry_export_user('%s') e", parts[i].exported, GONE);
        printf("%lld held, %lld exported: %.40s\n", (long long)held, (long long)exported, parts[i].rows);
        cr_expect(held > 0 && exported == held, "%s", parts[i].rows);
        if (parts[i].table != NULL)
            snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), " %s", parts[i].table);
    }
    tables_naming(w, named, sizeof named);
    printf("tables that name the person:%s\n", named);
    cr_assert_str_eq(named, wanted);
    world_text(w, text, EXPORT_MAX, "SELECT belfry_export_user('%s')", GONE);
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        cr_expect_null(strstr(text, absent[i]), "%s", absent[i]);
    cr_expect_not_null(strstr(text, "\"token\" : \"sha256:"));
    cr_expect_not_null(strstr(text, "title of r1"));
    free(text);
    fixture_close(f);
}

/* Counts are what the tables lost; what is left is the keys, the tombstone, and the failed export for its
 * writer to find; the other person has what they had. */
Test(person, erasure_returns_what_it_took)
{
    struct fixture *f = fixture_open("person_erase", 1);
    struct world *w = &f->world;
    fill(f);
    int64_t held[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        held[i] = rows_of(w, i);
    int64_t others = rows_of_all(w);
    world_exec(w, "CREATE TABLE answer AS SELECT belfry_erase_user('%s') AS a", GONE);
    for (size_t i = 0; i < PARTS; i++) {
        if (parts[i].returned == NULL)
            continue;
        int64_t returned = world_count(w, "SELECT a ->> '%s' FROM answer", parts[i].returned);
        printf("%s: %lld held, %lld returned, %lld left\n", parts[i].returned, (long long)held[i],
               (long long)returned, (long long)rows_of(w, i));
        cr_expect(returned == held[i] && rows_of(w, i) == 0, "%s", parts[i].returned);
        others -= held[i];
    }
    cr_expect_eq(world_count(w, "SELECT a ->> 'exports' FROM answer"), 1);
    cr_expect_eq(world_count(w, "SELECT a ->> 'exports_failed' FROM answer"), 1);
    cr_expect_eq(rows_of_all(w), others);
    cr_expect_eq(
        world_count(w,
                    "SELECT count(*) FROM exports WHERE user_id = '%s' AND state = 'failed' AND error ="
                    " 'erased' AND rows = 0 AND idempotency_key IS NULL AND expires_at <= now()",
                    GONE),
        1);
    char named[1024];
    world_exec(w, "DROP TABLE answer");
    tables_naming(w, named, sizeof named);
    cr_assert_str_eq(named, " erased_users exports idempotency_keys");
    world_check_books(w);
    fixture_close(f);
}

/* A snapshot older than the locks would leave behind what they waited for: refused, nothing done. */
Test(person, erasure_refuses_an_old_snapshot)
{
    struct fixture *f = fixture_open("person_snapshot", 1);
    struct world *w = &f->world;
    fill(f);
    world_exec(w, "BEGIN ISOLATION LEVEL REPEATABLE READ; DO $$ BEGIN PERFORM belfry_erase_user('stays');"
                  " RAISE 'it did'; EXCEPTION WHEN active_sql_transaction THEN NULL; END $$; COMMIT");
    cr_assert_eq(world_count(w, "SELECT count(*) FROM erased_users"), 0);
    cr_assert_eq(world_count(w, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'stays'"), 1);
    fixture_close(f);
}

/* A person's installs: which are on, and since when and why the others are off; by index, never by token. */
Test(person, devices_view)
{
    struct fixture *f = fixture_open("person_devices", 1);
    struct world *w = &f->world;
    char text[4096];
    fill(f);
    world_exec(w, "INSERT INTO device_tokens (token, user_id, platform) SELECT 'filler' || n, 'u' || n, 'ios'"
                  " FROM generate_series(1, 5000) n");
    world_exec(w, "UPDATE device_tokens SET enabled = false, disabled_at = now(), disabled_reason ="
                  " 'DeviceNotRegistered' WHERE token = 'ExponentPushToken[other]'");
    world_exec(w, "ANALYZE device_tokens");
    world_text(w, text, sizeof text,
               "SELECT string_agg(concat_ws(' ', platform, app_version, enabled, disabled_reason, "
               "disabled_at IS NULL),"
               " ', ' ORDER BY id) FROM belfry_devices WHERE user_id = '%s'",
               GONE);
    printf("%s: %s\n", GONE, text);
    cr_expect_str_eq(text, "ios t t, web 1.0 f Unregistered f");
    world_text(w, text, sizeof text,
               "SELECT string_agg(concat_ws(' ', platform, enabled, disabled_reason, disabled_at IS NULL),"
               " ', ' ORDER BY id) FROM belfry_devices WHERE user_id = 'stays'");
    printf("stays: %s\n", text);
    cr_expect_str_eq(text, "ios f DeviceNotRegistered f, ios t t");
    cr_expect_eq(world_count(w,
                             "SELECT count(*) FROM belfry_devices v JOIN device_tokens t USING (id)"
                             " WHERE v.token = 'sha256:' || left(encode(sha256(t.token::bytea), 'hex'), 12)"),
                 world_count(w, "SELECT count(*) FROM device_tokens"));
    world_exec(w, "CREATE FUNCTION plan() RETURNS text LANGUAGE plpgsql AS $$ DECLARE t json; BEGIN EXECUTE"
                  " 'EXPLAIN (FORMAT JSON) SELECT * FROM belfry_devices WHERE user_id = ''u7''' INTO t;"
                  " RETURN t; END $$");
    world_text(w, text, sizeof text, "SELECT plan()");
    cr_expect(strstr(text, "Seq Scan") == NULL && strstr(text, "device_tokens_user_off") != NULL, "%s", text);
    fixture_close(f);
}
