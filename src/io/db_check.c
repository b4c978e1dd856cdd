/* What the server says of itself at each connect in, "usable" or what to mend out. Timeouts must be set and
 * at most the role's own: the reader's hold-back and the leases rest on statements that end (design.md §1).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db_private.h"

/* name, value in base units, value as SHOW prints it */
const char db_check_sql[] =
    "SELECT name, setting, current_setting(name) FROM pg_catalog.pg_settings WHERE name IN "
    "('server_encoding',"
    " 'fsync', 'synchronous_commit', 'lock_timeout', 'statement_timeout',"
    " 'idle_in_transaction_session_timeout', 'jit', 'plan_cache_mode', 'enable_sort', "
    "'quote_all_identifiers')"
    " UNION ALL SELECT 'recovery', v, v FROM (SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN 'on'"
    " ELSE 'off' END) AS r(v)"
    /* Without it other sessions' transactions are invisible, and settled.bound would run ahead of them. */
    " UNION ALL SELECT 'pg_read_all_stats', v, v FROM (SELECT CASE WHEN"
    " pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') THEN 'on' ELSE 'off' END) AS s(v)"
    " UNION ALL SELECT 'user', current_user::text, current_user::text";

enum {
    DISPATCHER = 1 << DB_ROLE_DISPATCHER,
    RECONCILER = 1 << DB_ROLE_RECONCILER,
    READER = 1 << DB_ROLE_READER
};
enum { ANY = 1 << DB_ROLE_ANY, WRITERS = DISPATCHER | RECONCILER };

enum mend { MEND_DATABASE, MEND_SERVER, MEND_PRIMARY, MEND_ROLE, MEND_MEMBER };

struct need {
    const char *name;
    int roles;
    const char *value, *or_value; /* for most_ms 0: one of these; or_value may be NULL */
    int most_ms;                  /* set, and not more than this */
    enum mend mend;
};

static const struct need needs[] = {
    {"server_encoding", ANY | WRITERS | READER, "UTF8", NULL, 0, MEND_DATABASE},
    {"recovery", WRITERS, "off", NULL, 0, MEND_PRIMARY},
    {"fsync", WRITERS, "on", NULL, 0, MEND_SERVER},
    {"synchronous_commit", WRITERS, "on", "remote_apply", 0, MEND_ROLE},
    {"lock_timeout", WRITERS, NULL, NULL, 5000, MEND_ROLE},
    {"statement_timeout", WRITERS, NULL, NULL, 20000, MEND_ROLE},
    {"statement_timeout", READER, NULL, NULL, 2000, MEND_ROLE},
    {"idle_in_transaction_session_timeout", WRITERS, NULL, NULL, 20000, MEND_ROLE},
    {"jit", WRITERS | READER, "off", NULL, 0, MEND_ROLE},
    {"plan_cache_mode", WRITERS | READER, "force_generic_plan", NULL, 0, MEND_ROLE},
    {"enable_sort", READER, "off", NULL, 0, MEND_ROLE}, /* sql/schema/011_reader_plans.sql */
    /* A feed's key in settled is its relation's name as quote_ident writes it: both must write the same. */
    {"quote_all_identifiers", READER | RECONCILER, "off", NULL, 0, MEND_ROLE},
    {"pg_read_all_stats", RECONCILER, "on", NULL, 0, MEND_MEMBER},
};

static int find_row(const PGresult *result, const char *name)
{
    for (int row = 0; row < PQntuples(result); row++) {
        if (strcmp(PQgetvalue(result, row, 0), name) == 0)
            return row;
    }
    return -1;
}

static void refuse(const struct need *need, const char *found, const char *user, struct fault *fault)
{
    char value[32];
    if (need->most_ms > 0)
        snprintf(value, sizeof value, "%dms", need->most_ms);
    else
        snprintf(value, sizeof value, "%s", need->value);
    if (need->most_ms > 0 && need->most_ms % 1000 == 0)
        snprintf(value, sizeof value, "%ds", need->most_ms / 1000);
    const char *most = need->most_ms > 0 ? " at most" : "";
    switch (need->mend) {
    case MEND_DATABASE:
        fault_set(fault, "setting", "%s is %s, needs %s: make the database with ENCODING '%s'", need->name,
                  found, value, value);
        break;
    case MEND_PRIMARY:
        fault_set(fault, "setting", "the server is in recovery (a standby): connect to the primary");
        break;
    case MEND_SERVER:
        fault_set(fault, "setting", "%s is %s, needs %s: set it in postgresql.conf", need->name, found,
                  value);
        break;
    case MEND_MEMBER:
        fault_set(fault, "setting", "\"%s\" is not a member of %s: GRANT %s TO \"%s\"", user, need->name,
                  need->name, user);
        break;
    case MEND_ROLE:
        fault_set(
            fault, "setting",
            "%s is %s, needs%s %s: connect as one of belfry's roles, or ALTER ROLE \"%s\" SET %s = '%s'",
            need->name, found, most, value, user, need->name, value);
        break;
    }
    fault_set_field(fault, need->name);
}

static bool is_met(const struct need *need, int most_ms, const char *setting)
{
    if (most_ms > 0) {
        long found_ms = strtol(setting, NULL, 10);
        return found_ms > 0 && found_ms <= most_ms;
    }
    return strcmp(setting, need->value) == 0 ||
           (need->or_value != NULL && strcmp(setting, need->or_value) == 0);
}

enum status db_check_result(const struct db *db, const PGresult *result, struct fault *fault)
{
    int user_row = find_row(result, "user");
    const char *user = user_row < 0 ? "" : PQgetvalue(result, user_row, 1);
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        struct need need = needs[i];
        if ((need.roles & (1 << db->settings.role)) == 0)
            continue;
        if (db->settings.statement_timeout_max_ms > 0 && strcmp(need.name, "statement_timeout") == 0)
            need.most_ms = db->settings.statement_timeout_max_ms;
        int row = find_row(result, need.name);
        if (row >= 0 && is_met(&need, need.most_ms, PQgetvalue(result, row, 1)))
            continue;
        refuse(&need, row < 0 ? "unknown" : PQgetvalue(result, row, 2), user, fault);
        return ST_STOP;
    }
    return ST_OK;
}

enum status db_uri_check(const char *uri, struct fault *fault)
{
    char *why = NULL; /* not told: it quotes the part that it does not understand */
    PQconninfoOption *options = PQconninfoParse(uri, &why);
    bool fine = options != NULL;
    PQconninfoFree(options);
    PQfreemem(why);
    if (fine)
        return ST_OK;
    fault_set(fault, "config",
              "[database] uri is neither postgresql://user@host:port/database nor key=value pairs that libpq "
              "knows");
    fault_set_field(fault, "database.uri");
    return ST_REJECT;
}
