/* Connecting, checking, losing. One state machine serves the blocking and the non-blocking callers: down,
 * connecting (libpq's own steps, then the check's one statement), up. A lost connection answers everything in
 * flight; nothing is sent again from here, the caller's statement is safe to repeat or it is not its to say.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "db_private.h"

enum { CONNECT_TIMEOUT_MS = 5000, TCP_USER_TIMEOUT_MS = 10000, ANSWER_TIMEOUT_MS = 30000, TICK_MS = 1000 };

enum { M_RECONNECTS, M_FAILURES, M_LOSSES, METRICS };

static const struct metric_row metric_rows[METRICS] = {
    [M_RECONNECTS] = {.name = "belfry_postgres_reconnects_total",
                      .help = "Connections to Postgres that were lost and made again."},
    [M_FAILURES] = {.name = "belfry_postgres_connect_failures_total",
                    .help = "Tries to connect to Postgres that failed."},
    [M_LOSSES] = {.name = "belfry_postgres_connections_lost_total",
                  .help = "Connections to Postgres that were lost in use."},
};

static void ignore_notice(void *context, const PGresult *result)
{
    (void)context;
    (void)result;
}

struct db *db_new(const struct db_settings *settings)
{
    struct db *db = calloc(1, sizeof *db);
    if (db == NULL)
        return NULL;
    db->settings = *settings;
    db->clock = settings->clock == NULL ? clock_system : *settings->clock;
    db->metrics = metrics_add(settings->metrics, metric_rows, METRICS);
    db->uri = strdup(settings->uri);
    db->application_name = strdup(settings->application_name);
    if (db->uri == NULL || db->application_name == NULL) {
        db_close(db);
        return NULL;
    }
    if (db->settings.connect_timeout_ms <= 0)
        db->settings.connect_timeout_ms = CONNECT_TIMEOUT_MS;
    if (db->settings.tcp_user_timeout_ms <= 0)
        db->settings.tcp_user_timeout_ms = TCP_USER_TIMEOUT_MS;
    if (db->settings.answer_timeout_ms <= 0)
        db->settings.answer_timeout_ms = ANSWER_TIMEOUT_MS;
    return db;
}

void db_close(struct db *db)
{
    if (db == NULL)
        return;
    for (; db->count > 0; db->count--, db->first = (db->first + 1) % DB_IN_FLIGHT_MAX)
        PQclear(db->flights[db->first].rows);
    PQfinish(db->connection);
    free(db->uri);
    free(db->application_name);
    free(db);
}

enum db_state db_state(const struct db *db)
{
    return db->state;
}

enum status db_why(const struct db *db, struct fault *fault)
{
    if (fault != NULL)
        *fault = db->why_fault;
    return db->why;
}

void db_lose(struct db *db, enum status status, const struct fault *fault)
{
    if (status != ST_OK)
        metric_add(db->metrics, db->state == DB_UP ? M_LOSSES : M_FAILURES, 0, 1);
    PQfinish(db->connection);
    db->connection = NULL;
    db->state = DB_DOWN;
    db->checking = db->stale = false;
    db->prepared_count = db->joined = 0;
    db->why = status;
    db->why_fault = *fault;
    for (size_t i = 0; i < db->count; i++) {
        struct db_flight *flight = &db->flights[(db->first + i) % DB_IN_FLIGHT_MAX];
        if (flight->done)
            continue;
        PQclear(flight->rows);
        flight->rows = NULL;
        flight->done = true;
        if (flight->status == ST_OK) { /* else the server said why before it went */
            flight->status = ST_RETRY;
            flight->fault = *fault;
        }
    }
}

/* With verbose errors libpq prints "FATAL:  28P01: text"; there is no other way to a connect's SQLSTATE. */
static void sqlstate_of_message(const char *message, char sqlstate[6])
{
    memcpy(sqlstate, "08006", 6);
    for (const char *at = strstr(message, ":  "); at != NULL; at = strstr(at + 1, ":  ")) {
        const char *code = at + 3;
        if (strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && code[5] == ':') {
            memcpy(sqlstate, code, 5);
            return;
        }
    }
}

/* For the three that a first start meets. */
static const char *what_to_do(const char *sqlstate)
{
    if (strcmp(sqlstate, "3D000") == 0)
        return "; create it and run deploy/migrate, or mend [database] uri";
    if (strcmp(sqlstate, "28000") == 0)
        return "; run deploy/migrate, which makes the roles, or mend [database] uri or pg_hba.conf";
    return strcmp(sqlstate, "28P01") == 0 ? "; mend the password in [database] uri, or ALTER ROLE" : "";
}

static void lose_connecting(struct db *db, const char *message)
{
    struct fault fault;
    char sqlstate[6];
    sqlstate_of_message(message, sqlstate);
    fault_set(&fault, sqlstate, "%.*s%s", (int)strcspn(message, "\n"), message, what_to_do(sqlstate));
    db_lose(db, db_judge(sqlstate, NULL, NULL), &fault);
}

/* A part that cannot be what it stands for: the end of a password that was not percent-encoded. */
static bool is_misread(const PQconninfoOption *option)
{
    if (option->val == NULL)
        return false;
    if (strcmp(option->keyword, "port") == 0)
        return strspn(option->val, "0123456789,") != strlen(option->val);
    return (strcmp(option->keyword, "host") == 0 || strcmp(option->keyword, "dbname") == 0) &&
           strchr(option->val, '@') != NULL;
}

/* libpq's own words quote the piece of the uri they are about, and that may be a piece of the password. */
static bool is_uri_sound(const char *uri)
{
    if (strchr(uri, '=') == NULL && strstr(uri, "://") == NULL)
        return true; /* the name of a database */
    PQconninfoOption *options = PQconninfoParse(uri, NULL);
    bool sound = options != NULL;
    for (const PQconninfoOption *option = options; sound && option->keyword != NULL; option++)
        sound = !is_misread(option);
    PQconninfoFree(options);
    return sound;
}

/* Hosts of the uri, so that each gets its own connect_timeout. */
static int count_hosts(PGconn *connection)
{
    int hosts = 1;
    PQconninfoOption *options = PQconninfo(connection);
    for (PQconninfoOption *option = options; option != NULL && option->keyword != NULL; option++) {
        if (strcmp(option->keyword, "host") != 0 && strcmp(option->keyword, "hostaddr") != 0)
            continue;
        int here = 1;
        for (const char *at = option->val; at != NULL && *at != '\0'; at++)
            here += *at == ',';
        hosts = here > hosts ? here : hosts;
    }
    PQconninfoFree(options);
    return hosts;
}

void db_connect_begin(struct db *db)
{
    struct fault fault;
    fault_set(&fault, "08006", "connection is made anew");
    db_lose(db, ST_OK, &fault);
    fault_reset(&db->why_fault);
    if (!is_uri_sound(db->uri)) {
        fault_set(&fault, "uri",
                  "the connection string cannot be read (not shown, for it may hold a password):"
                  " percent-encode what is special in the password");
        db_lose(db, ST_STOP, &fault);
        return;
    }

    char tcp_user_timeout[16];
    snprintf(tcp_user_timeout, sizeof tcp_user_timeout, "%d", db->settings.tcp_user_timeout_ms);
    /* What stands before dbname the uri may override; what stands after it is ours. */
    const char *keys[] = {"tcp_user_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count",
                          "dbname",           "client_encoding", "application_name",    NULL};
    const char *values[] = {tcp_user_timeout, "10", "5", "3", db->uri, "UTF8", db->application_name, NULL};
    db->connection = PQconnectStartParams(keys, values, 1);
    if (db->connection == NULL || PQstatus(db->connection) == CONNECTION_BAD) {
        lose_connecting(db, db->connection == NULL ? "out of memory" : PQerrorMessage(db->connection));
        return;
    }
    PQsetErrorVerbosity(db->connection, PQERRORS_VERBOSE);
    PQsetNoticeReceiver(db->connection, ignore_notice, NULL);
    db->state = DB_CONNECTING;
    db->polling = PGRES_POLLING_WRITING;
    db->deadline_ms = clock_monotonic_ms(&db->clock) +
                      (int64_t)db->settings.connect_timeout_ms * count_hosts(db->connection);
}

/* The check's answer, in full. */
static void finish_check(struct db *db)
{
    struct fault fault;
    fault_reset(&fault);
    PGresult *result = PQgetResult(db->connection);
    enum status status = ST_RETRY;
    if (PQresultStatus(result) == PGRES_TUPLES_OK)
        status = db_check_result(db, result, &fault);
    else
        status = db_fault_of(result, &fault);
    PQclear(result);
    while ((result = PQgetResult(db->connection)) != NULL)
        PQclear(result);
    if (status == ST_OK && !PQenterPipelineMode(db->connection)) {
        fault_set(&fault, "08006", "pipeline mode refused");
        status = ST_RETRY;
    }
    if (status != ST_OK) {
        db_lose(db, status, &fault);
        return;
    }
    if (db->was_up)
        metric_add(db->metrics, M_RECONNECTS, 0, 1);
    db->checking = false;
    db->was_up = true;
    db->state = DB_UP;
}

static void pump_connecting(struct db *db)
{
    if (db->checking) {
        if (PQflush(db->connection) < 0 || !PQconsumeInput(db->connection))
            lose_connecting(db, PQerrorMessage(db->connection));
        else if (!PQisBusy(db->connection))
            finish_check(db);
        return;
    }
    db->polling = PQconnectPoll(db->connection);
    if (db->polling == PGRES_POLLING_FAILED) {
        lose_connecting(db, PQerrorMessage(db->connection));
    } else if (db->polling == PGRES_POLLING_OK) {
        PQsetErrorVerbosity(db->connection, PQERRORS_DEFAULT);
        db->checking = true;
        if (PQsetnonblocking(db->connection, 1) != 0 || !PQsendQuery(db->connection, db_check_sql))
            lose_connecting(db, PQerrorMessage(db->connection));
    }
}

static void lose_silent(struct db *db, int64_t timeout_ms)
{
    struct fault fault;
    fault_set(&fault, "08006", "no answer within %lld ms", (long long)timeout_ms);
    db_lose(db, ST_RETRY, &fault);
}

/* poll(2) may have said nothing: PQconnectPoll is only to be called when the socket is ready. */
static bool is_ready(const struct db *db)
{
    struct pollfd ready = {.fd = db_fd(db), .events = db_events(db)};
    return poll(&ready, 1, 0) > 0;
}

void db_pump(struct db *db)
{
    int64_t now_ms = clock_monotonic_ms(&db->clock);
    db_release(db);
    if (db->state == DB_CONNECTING) {
        if (is_ready(db))
            pump_connecting(db);
        if (db->state == DB_CONNECTING && now_ms > db->deadline_ms)
            lose_silent(db, db->settings.connect_timeout_ms);
        return;
    }
    if (db->state != DB_UP)
        return;
    if (PQflush(db->connection) < 0 || !PQconsumeInput(db->connection)) {
        /* An error the server sent before it went is still to be read. */
        if (!db_flight_ready(db) && db->state == DB_UP)
            lose_connecting(db, PQerrorMessage(db->connection));
        return;
    }
    if (!db_flight_ready(db) && db->state == DB_UP && db->count > 0 &&
        now_ms - db->progress_ms > db->settings.answer_timeout_ms + db->patience_ms)
        lose_silent(db, db->settings.answer_timeout_ms);
}

int db_fd(const struct db *db)
{
    return db->state == DB_DOWN ? -1 : PQsocket(db->connection);
}

short db_events(const struct db *db)
{
    if (db->state == DB_CONNECTING && !db->checking)
        return db->polling == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (db->state == DB_DOWN)
        return 0;
    return PQflush(db->connection) > 0 ? POLLIN | POLLOUT : POLLIN;
}

bool db_wait(struct db *db, int timeout_ms)
{
    enum db_state before = db->state;
    int64_t until_ms = clock_monotonic_ms(&db->clock) + timeout_ms;
    db_release(db);
    for (;;) {
        if (db_flight_ready(db))
            return true;
        int64_t left_ms = until_ms - clock_monotonic_ms(&db->clock);
        if (db->state != before || db->state == DB_DOWN || left_ms < 0)
            return false;
        struct pollfd ready = {.fd = db_fd(db), .events = db_events(db)};
        (void)poll(&ready, 1, (int)(left_ms < TICK_MS ? left_ms : TICK_MS));
        db_pump(db);
    }
}

enum status db_connect(struct db *db, struct fault *fault)
{
    db_connect_begin(db);
    while (db->state == DB_CONNECTING) {
        struct pollfd ready = {.fd = db_fd(db), .events = db_events(db)};
        (void)poll(&ready, 1, TICK_MS);
        db_pump(db);
    }
    if (db->state == DB_UP)
        return ST_OK;
    if (fault != NULL)
        *fault = db->why_fault;
    return db->why;
}

enum status db_open(const struct db_settings *settings, struct db **db, struct fault *fault)
{
    struct db *made = db_new(settings);
    if (made == NULL) {
        fault_set(fault, "no_memory", "out of memory");
        return ST_FATAL;
    }
    enum status status = db_connect(made, fault);
    if (status != ST_OK)
        db_close(made);
    else
        *db = made;
    return status;
}
