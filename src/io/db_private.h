/* The one place that includes libpq. Shared by the db*.c files and by nobody else. */
#ifndef BELFRY_SRC_IO_DB_PRIVATE_H
#define BELFRY_SRC_IO_DB_PRIVATE_H

#include <libpq-fe.h>

#include "io/db.h"

enum { DB_STATEMENTS_MAX = 1536 }; /* a declared feed has up to 18, and there may be 64 */

/* One request on the wire. Its commands, in order: [PREPARE] [BEGIN, SET LOCAL] statement [COMMIT] Sync, and
 * with patience ROLLBACK Sync (a failed BEGIN block would stay open otherwise). Of joined ones only the last
 * has a Sync. */
struct db_flight {
    uint64_t tag;
    const struct db_statement *statement;
    int step, prepare_step, statement_step; /* commands answered so far; which are which (-1: none) */
    int syncs;                              /* still to come; 0: done with the statement's own result */
    bool done;
    enum status status;
    PGresult *rows; /* the statement's own result, once it came */
    struct fault fault;
};

struct db {
    struct db_settings settings;
    struct clock clock;
    struct metric_set *metrics;
    bool was_up;
    char *uri, *application_name;
    PGconn *connection;
    enum db_state state;
    PostgresPollingStatusType polling; /* while connecting */
    bool checking;                     /* connected; the check's answer is awaited */
    bool stale;                        /* plans or the server's part changed: reconnect before the next use */
    int64_t deadline_ms, progress_ms;
    struct db_flight flights[DB_IN_FLIGHT_MAX];
    size_t first, count;
    const char *prepared[DB_STATEMENTS_MAX];
    size_t prepared_count;
    int patience_ms;
    size_t joined; /* the last so many flights have no Sync yet */
    enum status why;
    struct fault why_fault;
};

/* Drops the connection; what is in flight is answered with this fault. */
void db_lose(struct db *db, enum status status, const struct fault *fault);
/* Fills the fault from a failed result; the status of its SQLSTATE. */
enum status db_fault_of(const PGresult *result, struct fault *fault);
/* Reads what has come; true when the first flight is done. */
bool db_flight_ready(struct db *db);

/* db_check.c: the start-up checks of one role. */
extern const char db_check_sql[];
MUST_USE enum status db_check_result(const struct db *db, const PGresult *result, struct fault *fault);

#endif
