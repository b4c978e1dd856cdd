/* The test's own database: created, migrated by deploy/migrate, asked, dropped. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness.h"
#include "support/harness_private.h"

/* The server URI with another database name (and another user when given). */
static void make_uri(const struct world *w, const char *user, const char *database, char *uri, size_t size)
{
    const char *at = strchr(w->superuser_uri, '@');
    const char *slash = at == NULL ? NULL : strchr(at, '/');
    cr_assert(slash != NULL, "no Postgres for tests: ctest's fixture `services` starts one ('%s')",
              w->superuser_uri);
    const char *query = strchr(slash, '?');
    if (user == NULL)
        snprintf(uri, size, "%.*s/%s%s", (int)(slash - w->superuser_uri), w->superuser_uri, database,
                 query == NULL ? "" : query);
    else
        snprintf(uri, size, "postgresql://%s%.*s/%s%s", user, (int)(slash - at), at, database,
                 query == NULL ? "" : query);
}

const char *world_role_uri(struct world *w, const char *role)
{
    static char uri[256];
    make_uri(w, role, w->database, uri, sizeof uri);
    return uri;
}

static void run_on(const char *uri, const char *sql, bool must)
{
    PGconn *db = PQconnectdb(uri);
    PGresult *result = PQstatus(db) == CONNECTION_OK ? PQexec(db, sql) : NULL;
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK;
    if (must)
        cr_assert(ok, "%s: %s", sql, PQerrorMessage(db));
    PQclear(result);
    PQfinish(db);
}

void world_database(struct world *w)
{
    char sql[256], migrate[WORLD_PATH_MAX], output[4096];
    make_uri(w, NULL, w->database, w->uri, sizeof w->uri); /* says so when there is no server */
    snprintf(sql, sizeof sql, "CREATE DATABASE %s", w->database);
    run_on(w->superuser_uri, sql, true);
    snprintf(migrate, sizeof migrate, "%s/deploy/migrate", BELFRY_SOURCE_DIR);
    const char *argv[] = {w->uri, NULL};
    int code = world_run(w, migrate, argv, output, sizeof output);
    cr_assert(code == 0, "deploy/migrate left with %d: see %s", code, w->children[w->child_count - 1].log);
    world_reconnect(w);
}

void world_reconnect(struct world *w)
{
    world_become(w, NULL);
}

void world_become(struct world *w, const char *role)
{
    PQfinish(w->db);
    w->db = NULL;
    for (int i = 0; i < 200; i++) {
        PGconn *db = PQconnectdb(role == NULL ? w->uri : world_role_uri(w, role));
        if (PQstatus(db) == CONNECTION_OK) {
            w->db = db;
            return;
        }
        PQfinish(db);
        world_sleep_ms(50);
    }
    cr_assert_fail("cannot connect to the test's database");
}

static void left_path(const char *as, char *path, size_t size)
{
    snprintf(path, size, "%s/worlds/%s.database", BELFRY_BUILD_DIR, as);
}

void world_leave_database(struct world *w, const char *as)
{
    char path[WORLD_PATH_MAX], old[sizeof w->database];
    snprintf(old, sizeof old, "%s", w->database);
    if (world_take_up_database(w, as)) /* one that nobody took up */
        harness_close_database(w);
    left_path(as, path, sizeof path);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    fprintf(file, "%s\n", old);
    fclose(file);
    PQfinish(w->db);
    w->db = NULL;
}

bool world_take_up_database(struct world *w, const char *as)
{
    char path[WORLD_PATH_MAX], name[sizeof w->database] = "", uri[sizeof w->uri];
    left_path(as, path, sizeof path);
    FILE *file = fopen(path, "r");
    bool found = file != NULL && fgets(name, sizeof name, file) != NULL;
    if (file != NULL)
        fclose(file);
    (void)unlink(path);
    name[strcspn(name, "\n")] = '\0';
    make_uri(w, NULL, name, uri, sizeof uri);
    PGconn *db = found ? PQconnectdb(uri) : NULL;
    if (PQstatus(db) != CONNECTION_OK) {
        PQfinish(db);
        return false;
    }
    PQfinish(w->db);
    w->db = db;
    snprintf(w->database, sizeof w->database, "%s", name);
    snprintf(w->uri, sizeof w->uri, "%s", uri);
    return true;
}

void harness_close_database(struct world *w)
{
    if (w->db == NULL)
        return;
    PQfinish(w->db);
    w->db = NULL;
    char sql[256];
    snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s WITH (FORCE)", w->database);
    run_on(w->superuser_uri, sql, false);
}

static PGresult *ask(struct world *w, const char *format, va_list args)
{
    char *sql = NULL;
    cr_assert(vasprintf(&sql, format, args) > 0);
    cr_assert(w->db != NULL, "no database: call world_database");
    PGresult *result = PQexec(w->db, sql);
    ExecStatusType status = PQresultStatus(result);
    cr_assert(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK, "%s: %s", sql, PQerrorMessage(w->db));
    free(sql);
    return result;
}

void world_exec(struct world *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PQclear(ask(w, format, args));
    va_end(args);
}

static int64_t count_of(struct world *w, const char *format, va_list args)
{
    PGresult *result = ask(w, format, args);
    int64_t count = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return count;
}

int64_t world_count(struct world *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int64_t count = count_of(w, format, args);
    va_end(args);
    return count;
}

void world_text(struct world *w, char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PGresult *result = ask(w, format, args);
    va_end(args);
    snprintf(text, size, "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
}

void world_wait_count(struct world *w, int64_t expected, const char *format, ...)
{
    int64_t deadline = world_now_ms() + WORLD_WAIT_S * 1000;
    for (;;) {
        va_list args;
        va_start(args, format);
        int64_t count = count_of(w, format, args);
        va_end(args);
        if (count == expected)
            return;
        cr_assert(world_now_ms() < deadline, "%s: %lld after %d s, expected %lld", format, (long long)count,
                  WORLD_WAIT_S, (long long)expected);
        world_sleep_ms(30);
    }
}

void world_check_books(struct world *w)
{
    PGresult *result = PQexec(w->db, "SELECT balance, left_sum, right_sum, ok, detail FROM belfry_books");
    cr_assert(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQerrorMessage(w->db));
    int rows = PQntuples(result);
    cr_assert(rows >= 3, "belfry_books has %d rows", rows);
    bool ok = true;
    for (int i = 0; i < rows; i++) {
        printf("books: %-14s %12s = %-12s %s\n", PQgetvalue(result, i, 0), PQgetvalue(result, i, 1),
               PQgetvalue(result, i, 2),
               PQgetvalue(result, i, 3)[0] == 't' ? "ok" : PQgetvalue(result, i, 4));
        ok = ok && PQgetvalue(result, i, 3)[0] == 't';
    }
    PQclear(result);
    cr_assert(ok, "the books do not balance");
}
