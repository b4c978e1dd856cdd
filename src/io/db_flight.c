/* Statements in, answers out, always in libpq's pipeline mode: the connection never blocks, a statement is
 * prepared and run in one round trip, and several may be in flight. Each request ends with its own Sync, so
 * each is its own transaction; but small reads may share one. Crash or loss here: the commit's fate is
 * unknown, and the answer says 08006. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "db_private.h"

size_t db_in_flight(const struct db *db)
{
    return db->count;
}

void db_patience(struct db *db, int statement_timeout_ms)
{
    db->patience_ms = statement_timeout_ms;
}

enum status db_fault_of(const PGresult *result, struct fault *fault)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *constraint = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    if (sqlstate == NULL) {
        const char *text = PQresultErrorMessage(result);
        fault_set(fault, "08006", "%.*s", (int)strcspn(text, "\n"), text);
        return ST_RETRY;
    }
    const char *hint = "";
    if (strcmp(sqlstate, "26000") == 0 || strcmp(sqlstate, "42P05") == 0)
        hint = " (behind a transaction-pooling pgbouncer set [database] prepared_statements = off)";
    fault_set(fault, sqlstate, "%s%s%s%s", message == NULL ? "" : message, constraint == NULL ? "" : ": ",
              constraint == NULL ? "" : constraint, hint);
    fault_set_field(fault, constraint == NULL ? "" : constraint);
    return db_judge(sqlstate, constraint, NULL);
}

/* ---- sending ------------------------------------------------------------------------------------------- */

struct wire_params {
    int count;
    const char *values[DB_PARAMS_MAX];
    int lengths[DB_PARAMS_MAX], formats[DB_PARAMS_MAX];
    Oid types[DB_PARAMS_MAX];
};

static void to_wire(const struct db_params *params, struct wire_params *wire)
{
    wire->count = params == NULL ? 0 : (int)params->count;
    for (int i = 0; i < wire->count; i++) {
        wire->values[i] = params->lengths[i] < 0 ? NULL : params->bytes.at + params->starts[i];
        wire->lengths[i] = params->lengths[i] < 0 ? 0 : params->lengths[i];
        wire->formats[i] = 1;
        wire->types[i] = params->types[i];
    }
}

static bool is_prepared(const struct db *db, const char *name)
{
    for (size_t i = 0; i < db->prepared_count; i++) {
        if (db->prepared[i] == name || strcmp(db->prepared[i], name) == 0)
            return true;
    }
    return false;
}

static void forget_prepared(struct db *db, const char *name)
{
    for (size_t i = 0; i < db->prepared_count; i++) {
        if (strcmp(db->prepared[i], name) == 0) {
            db->prepared[i] = db->prepared[--db->prepared_count];
            return;
        }
    }
}

static bool send_command(struct db *db, const char *sql)
{
    return PQsendQueryParams(db->connection, sql, 0, NULL, NULL, NULL, NULL, 1) != 0;
}

static bool send_statement(struct db *db, struct db_flight *flight, const struct wire_params *wire)
{
    const struct db_statement *statement = flight->statement;
    PGconn *connection = db->connection;
    bool prepare = db->settings.prepared_statements;
    if (prepare && !is_prepared(db, statement->name)) {
        assert(db->prepared_count < DB_STATEMENTS_MAX);
        if (!PQsendPrepare(connection, statement->name, statement->sql, wire->count, wire->types))
            return false;
        db->prepared[db->prepared_count++] = statement->name;
        flight->prepare_step = flight->statement_step++;
    }
    if (db->patience_ms > 0) {
        char set[64];
        snprintf(set, sizeof set, "SET LOCAL statement_timeout = %d", db->patience_ms);
        if (!send_command(db, "BEGIN") || !send_command(db, set))
            return false;
        flight->statement_step += 2;
    }
    if (prepare)
        return PQsendQueryPrepared(connection, statement->name, wire->count, wire->values, wire->lengths,
                                   wire->formats, 1) != 0;
    return PQsendQueryParams(connection, statement->sql, wire->count, wire->types, wire->values,
                             wire->lengths, wire->formats, 1) != 0;
}

static bool send_ends(struct db *db, struct db_flight *flight)
{
    flight->syncs = 1;
    if (db->patience_ms <= 0)
        return PQpipelineSync(db->connection) != 0;
    flight->syncs = 2;
    return send_command(db, "COMMIT") && PQpipelineSync(db->connection) && send_command(db, "ROLLBACK") &&
           PQpipelineSync(db->connection);
}

static enum status lose_sending(struct db *db, struct fault *fault)
{
    const char *text = PQerrorMessage(db->connection);
    fault_set(fault, "08006", "%.*s", (int)strcspn(text, "\n"), text);
    struct fault lost = *fault;
    db_lose(db, ST_RETRY, &lost);
    return ST_RETRY;
}

void db_release(struct db *db)
{
    struct fault fault;
    if (db->joined == 0)
        return;
    db->flights[(db->first + db->count - 1) % DB_IN_FLIGHT_MAX].syncs = 1;
    db->joined = 0;
    if (!PQpipelineSync(db->connection))
        (void)lose_sending(db, &fault);
}

bool db_joins(const struct db *db)
{
    return db->joined > 0 && db->count < DB_IN_FLIGHT_MAX;
}

/* Whether one more can be sent at all. */
static enum status may_send(struct db *db, const struct db_statement *statement,
                            const struct db_params *params, struct fault *fault)
{
    if (params != NULL && (params->failed || params->bytes.failed)) {
        fault_set(fault, "params_too_big", "%s: parameters over %zu bytes", statement->name,
                  params->bytes.bytes_max);
        return ST_REJECT;
    }
    assert(params == NULL || !params->in_array);
    if (db->stale && db->count == 0) {
        struct fault stale;
        fault_set(&stale, "08006", "the connection is to be made anew");
        db_lose(db, ST_RETRY, &stale);
    }
    if (db->state != DB_UP) {
        fault_set(fault, "08006", "not connected");
        return ST_RETRY;
    }
    if (db->count == DB_IN_FLIGHT_MAX) {
        fault_set(fault, "busy", "%d statements are in flight", DB_IN_FLIGHT_MAX);
        return ST_RETRY;
    }
    return ST_OK;
}

/* Its statement is written, and nothing that ends it. */
static enum status begin_flight(struct db *db, const struct db_statement *statement,
                                const struct db_params *params, uint64_t tag, struct fault *fault)
{
    enum status status = may_send(db, statement, params, fault);
    if (status != ST_OK)
        return status;
    struct db_flight *flight = &db->flights[(db->first + db->count) % DB_IN_FLIGHT_MAX];
    *flight = (struct db_flight){.tag = tag, .statement = statement, .prepare_step = -1};
    struct wire_params wire;
    to_wire(params, &wire);
    if (db->count == 0)
        db->progress_ms = clock_monotonic_ms(&db->clock);
    if (!send_statement(db, flight, &wire))
        return lose_sending(db, fault);
    return ST_OK;
}

enum status db_send(struct db *db, const struct db_statement *statement, const struct db_params *params,
                    uint64_t tag, struct fault *fault)
{
    db_release(db);
    enum status status = begin_flight(db, statement, params, tag, fault);
    if (status != ST_OK)
        return status;
    struct db_flight *flight = &db->flights[(db->first + db->count) % DB_IN_FLIGHT_MAX];
    if (!send_ends(db, flight) || PQflush(db->connection) < 0)
        return lose_sending(db, fault);
    db->count++;
    return ST_OK;
}

enum status db_send_joined(struct db *db, const struct db_statement *statement,
                           const struct db_params *params, uint64_t tag, struct fault *fault)
{
    /* What is to be prepared stays out of it: a failure before it would leave it unprepared. */
    bool prepare = db->settings.prepared_statements && !is_prepared(db, statement->name);
    if (prepare || db->patience_ms > 0)
        return db_send(db, statement, params, tag, fault);
    enum status status = begin_flight(db, statement, params, tag, fault);
    if (status != ST_OK)
        return status;
    db->count++;
    if (++db->joined == DB_JOINED_MAX)
        db_release(db);
    return ST_OK;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

static void note_error(struct db *db, struct db_flight *flight, const PGresult *result)
{
    if (flight->status != ST_OK)
        return; /* the first error is the cause */
    flight->status = db_fault_of(result, &flight->fault);
    if (flight->step == flight->prepare_step)
        forget_prepared(db, flight->statement->name);
    /* A plan that changed, a statement the pooler lost, a primary that became a standby: a new connection. */
    const char *code = flight->fault.code;
    if (strcmp(code, "0A000") == 0 || strcmp(code, "26000") == 0 || strcmp(code, "25006") == 0)
        db->stale = true;
}

/* What failed before it in its transaction took this one with it. */
static void note_aborted(struct db_flight *flight)
{
    if (flight->status != ST_OK)
        return;
    flight->status = ST_RETRY;
    fault_set(&flight->fault, DB_JOINED, "another statement of the transaction failed");
}

/* One result of the first flight. Takes ownership. */
static void note_result(struct db *db, struct db_flight *flight, PGresult *result)
{
    ExecStatusType kind = PQresultStatus(result);
    if (kind == PGRES_PIPELINE_SYNC) {
        flight->done = --flight->syncs == 0;
    } else {
        if (kind == PGRES_FATAL_ERROR || kind == PGRES_BAD_RESPONSE)
            note_error(db, flight, result);
        if (kind == PGRES_PIPELINE_ABORTED)
            note_aborted(flight);
        if ((kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK) && flight->step == flight->statement_step) {
            flight->rows = result;
            result = NULL;
        }
        flight->done = flight->syncs == 0 && flight->step == flight->statement_step;
        flight->step++;
    }
    PQclear(result);
    db->progress_ms = clock_monotonic_ms(&db->clock);
}

bool db_flight_ready(struct db *db)
{
    if (db->count == 0)
        return false;
    struct db_flight *flight = &db->flights[db->first];
    int nothing = 0;
    while (!flight->done && !PQisBusy(db->connection)) {
        PGresult *result = PQgetResult(db->connection);
        if (result != NULL)
            note_result(db, flight, result);
        nothing = result == NULL ? nothing + 1 : 0;
        if (nothing > 2 || PQstatus(db->connection) == CONNECTION_BAD) {
            const char *text = PQerrorMessage(db->connection);
            struct fault lost;
            fault_set(&lost, "08006", "%.*s", (int)strcspn(text, "\n"), text);
            if (!flight->done || PQstatus(db->connection) == CONNECTION_BAD)
                db_lose(db, ST_RETRY, &lost);
            break;
        }
    }
    return flight->done;
}

bool db_take(struct db *db, struct db_answer *answer)
{
    if (!db_flight_ready(db))
        return false;
    struct db_flight *flight = &db->flights[db->first];
    *answer = (struct db_answer){.tag = flight->tag, .status = flight->status, .fault = flight->fault};
    if (flight->status == ST_OK)
        answer->result = (struct db_result *)(void *)flight->rows;
    else
        PQclear(flight->rows);
    flight->rows = NULL;
    db->first = (db->first + 1) % DB_IN_FLIGHT_MAX;
    db->count--;
    return true;
}

enum status db_run(struct db *db, const struct db_statement *statement, const struct db_params *params,
                   struct db_result **result, struct fault *fault)
{
    assert(db->count == 0);
    enum status status = db_send(db, statement, params, 0, fault);
    if (status != ST_OK)
        return status;
    struct db_answer answer;
    while (!db_take(db, &answer))
        (void)db_wait(db, 1000); /* ends: answer_timeout_ms turns silence into a loss */
    if (answer.status != ST_OK) {
        if (fault != NULL)
            *fault = answer.fault;
    } else if (result != NULL) {
        *result = answer.result;
    } else {
        db_result_free(answer.result);
    }
    return answer.status;
}

enum status db_run_counted(struct db *db, const struct db_statement *statement,
                           const struct db_params *params, int64_t *touched, struct fault *fault)
{
    struct db_result *result = NULL;
    enum status status = db_run(db, statement, params, &result, fault);
    if (status == ST_OK)
        *touched = db_result_affected(result);
    db_result_free(result);
    return status;
}

enum status db_run_number(struct db *db, const struct db_statement *statement, const struct db_params *params,
                          int64_t *number, struct fault *fault)
{
    struct db_result *result = NULL;
    enum status status = db_run(db, statement, params, &result, fault);
    if (status == ST_OK)
        *number = db_result_int8(result, 0, 0);
    db_result_free(result);
    return status;
}
