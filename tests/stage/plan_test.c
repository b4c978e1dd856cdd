/* The plan of the batch statement at 200,000 devices, analysed or not: devices by index, and no join of two
 * lists in a nested loop. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/sql.h"
#include "store_fixture.h"

/* The statement's plan as the dispatcher gets it: generic, jit off. */
static void explain(struct fixture *f, char *plan, size_t size)
{
    PGconn *db = PQconnectdb(world_role_uri(&f->world, "belfry_dispatcher"));
    cr_assert_eq(PQstatus(db), CONNECTION_OK);
    size_t bytes = strlen(sql_claim) + 32;
    char *prepare = malloc(bytes);
    snprintf(prepare, bytes, "PREPARE p AS %s", sql_claim);
    PGresult *result = PQexec(db, prepare);
    cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQerrorMessage(db));
    PQclear(result);
    free(prepare);
    result = PQexec(
        db, "EXPLAIN EXECUTE p('g', 'events', 1, '{0}', '{1}', '{0}', '{1}', '{1}', '{0}', '{0}', '{1}',"
            " '{1}', 1, '{1}', '{w}', '{t}', '{c}', '{t}', '{b}', '{null}', '{null}', '{null}', '{null}',"
            " '{null}', '{2026-01-01}', '{1}', '{f}', '{f}', 1, '{1}', '{u1}', '{k}',"
            " '{00000000-0000-7000-8000-000000000000}', 20, 3600000, null, 60000, '{\\\\x00}', false)");
    cr_assert_eq(PQresultStatus(result), PGRES_TUPLES_OK, "%s", PQerrorMessage(db));
    size_t used = 0;
    for (int i = 0; i < PQntuples(result) && used < size - 1; i++)
        used += (size_t)snprintf(plan + used, size - used, "%s\n", PQgetvalue(result, i, 0));
    cr_assert_lt(used, size);
    PQclear(result);
    PQfinish(db);
}

/* A nested loop's second child is run once a row of the first: it must not be a list. */
static void check_nested_loops(const char *plan)
{
    for (const char *at = strstr(plan, "Nested Loop"); at != NULL; at = strstr(at + 1, "Nested Loop")) {
        const char *line = at;
        while (line > plan && line[-1] != '\n')
            line--;
        int depth = (int)(at - line);
        const char *first = NULL, *second = NULL;
        for (const char *next = strchr(at, '\n'); next != NULL && next[1] != '\0';
             next = strchr(next + 1, '\n')) {
            int indent = (int)strspn(next + 1, " ");
            if (next[1 + indent] != '-')
                continue; /* a property */
            if (indent + 4 <= depth)
                break;
            if (first == NULL)
                first = next + 1;
            else if (indent == (int)strspn(first, " "))
                second = next + 1;
        }
        cr_assert(first != NULL && second != NULL);
        bool one = strncmp(first + strspn(first, " "), "->  CTE Scan on ok", 18) == 0 ||
                   strncmp(first + strspn(first, " "), "->  Result", 10) == 0;
        bool list = strncmp(second + strspn(second, " "), "->  CTE Scan", 12) == 0 ||
                    strncmp(second + strspn(second, " "), "->  Function Scan", 17) == 0;
        cr_assert(one || !list, "a join of two lists in a nested loop:\n%.400s", line);
    }
}

Test(plan, devices_by_index_and_no_quadratic_join)
{
    static char plan[65536];
    struct fixture *f = fixture_open("claim_plan", 1);
    explain(f, plan, sizeof plan); /* an empty database */
    check_nested_loops(plan);
    world_exec(&f->world, "ALTER TABLE device_tokens SET (autovacuum_enabled = off)");
    world_exec(&f->world,
               "INSERT INTO device_tokens (token, token_hash, user_id, platform)"
               " SELECT 't' || i, int8send(i), 'u' || i / 2, 'ios' FROM generate_series(1, 200000) i");
    for (int analysed = 0; analysed < 2; analysed++) {
        if (analysed)
            world_exec(&f->world, "ANALYZE");
        explain(f, plan, sizeof plan);
        cr_assert(strstr(plan, "Index Scan using device_tokens_user") != NULL ||
                      strstr(plan, "Bitmap Index Scan on device_tokens_user") != NULL,
                  "%s", plan);
        cr_assert(strstr(plan, "Seq Scan on device_tokens") == NULL, "%s", plan);
        check_nested_loops(plan);
    }
    fixture_close(f);
}
