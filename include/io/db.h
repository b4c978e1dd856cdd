/* Postgres: one connection behind one wrapper. libpq's types stay in src/io.
 *
 * A struct db is used by one thread. Everything goes in binary; nothing is SET in a session and no BEGIN is
 * sent (but see db_patience), so it works through pgbouncer in transaction mode with prepared statements off.
 * One path serves three uses: db_run (send one, wait), db_send + db_take with the socket in the caller's own
 * poll(2), and several requests in flight with answers in the order sent.
 *
 * Faults: code is the SQLSTATE ("08006" whenever the connection is lost or silent), field the constraint's
 * name, text the primary message and the constraint; never DETAIL, which may print a row. */
#ifndef BELFRY_IO_DB_H
#define BELFRY_IO_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/span.h"
#include "base/status.h"

/* ---- parameters ---------------------------------------------------------------------------------------- */

enum db_type { DB_TEXT, DB_INT4, DB_INT8, DB_BOOL, DB_BYTEA, DB_TIME, DB_UUID, DB_JSON, DB_JSONB, DB_TYPES };

enum { DB_PARAMS_MAX = 40, DB_UUID_BYTES = 16, DB_IN_FLIGHT_MAX = 64, DB_JOINED_MAX = 4 };

/* Parameters in order, $1 first, built in one bounded buffer that is kept over a reset. Adders never fail one
 * by one: past the limit the whole is marked, and sending it answers ST_REJECT "params_too_big".
 * The same adders add a parameter, or, between db_params_begin and db_params_end, one element of an array. */
struct db_params {
    struct buffer bytes;
    size_t count;
    size_t starts[DB_PARAMS_MAX];
    int lengths[DB_PARAMS_MAX];    /* -1: NULL */
    unsigned types[DB_PARAMS_MAX]; /* the server's type numbers */
    bool in_array, failed;
    enum db_type array_type;
    size_t array_count;
};

void db_params_init(struct db_params *params, size_t bytes_max);
void db_params_done(struct db_params *params);
void db_params_reset(struct db_params *params);

/* An array parameter of this type; elements follow; may stay empty. Arrays do not nest. */
void db_params_begin(struct db_params *params, enum db_type type);
void db_params_end(struct db_params *params);

/* Rows of the caller's: an array of structs. */
struct db_rows {
    const void *at;
    size_t count, bytes; /* bytes of one row: its sizeof */
};

/* One member of every row, at this offset in it, as an array parameter. The member is what the adder of the
 * type takes: int32_t, int64_t (int8, time), bool, struct span, or the DB_UUID_BYTES bytes of a uuid. */
void db_params_column(struct db_params *params, enum db_type type, const struct db_rows *rows, size_t offset);

/* A span whose at is NULL is SQL NULL: a member that was not given. "" of no bytes is the empty text. */
void db_params_text(struct db_params *params, struct span text);
void db_params_bytea(struct db_params *params, struct span bytes);
void db_params_json(struct db_params *params, struct span json); /* kept as the bytes that came */
void db_params_jsonb(struct db_params *params, struct span json);
void db_params_int4(struct db_params *params, int32_t value);
void db_params_int8(struct db_params *params, int64_t value);
void db_params_bool(struct db_params *params, bool value);
void db_params_time(struct db_params *params, int64_t us); /* timestamptz: microseconds since 1970, UTC */
void db_params_uuid(struct db_params *params, const unsigned char uuid[DB_UUID_BYTES]); /* NULL: SQL NULL */
void db_params_null(struct db_params *params, enum db_type type);

/* ---- results ------------------------------------------------------------------------------------------- */

struct db_result; /* one statement's rows; owned by whoever took it */

void db_result_free(struct db_result *result); /* NULL is fine */
int db_result_rows(const struct db_result *result);
/* Rows an INSERT, UPDATE or DELETE without RETURNING touched; rows returned otherwise. */
int64_t db_result_affected(const struct db_result *result);

/* Columns count from 0. A column of another width than asked for is a programming error (assert): the
 * statement and its one C function belong together. NULL reads as 0, false or a span whose at is NULL.
 * Spans and uuids point into the result and live as long as it. */
bool db_result_is_null(const struct db_result *result, int row, int column);
int32_t db_result_int4(const struct db_result *result, int row, int column);
int64_t db_result_int8(const struct db_result *result, int row, int column); /* also xid8 */
bool db_result_bool(const struct db_result *result, int row, int column);
int64_t db_result_time(const struct db_result *result, int row, int column);     /* microseconds since 1970 */
struct span db_result_text(const struct db_result *result, int row, int column); /* text, json, bytea */
const unsigned char *db_result_uuid(const struct db_result *result, int row, int column);

/* ---- connection ---------------------------------------------------------------------------------------- */

/* Whose start-up checks apply (contracts/schema.md, role settings). All: server_encoding UTF8. Dispatcher and
 * reconciler: also fsync on, synchronous_commit on, not in recovery. */
enum db_role { DB_ROLE_ANY, DB_ROLE_DISPATCHER, DB_ROLE_RECONCILER, DB_ROLE_READER };

struct db_settings {
    const char *uri;              /* postgresql://… or key=value; never printed */
    const char *application_name; /* e.g. "belfry-dispatcher" */
    enum db_role role;
    bool prepared_statements;     /* off behind a transaction-pooling pgbouncer */
    int connect_timeout_ms;       /* for each host of the uri; 0: 5000 */
    int tcp_user_timeout_ms;      /* 0: 10000 */
    int answer_timeout_ms;        /* a server silent for longer counts as lost; 0: 30000 */
    int statement_timeout_max_ms; /* what the check allows; 0: the role's own (20 s, reader 2 s) */
    const struct clock *clock;    /* NULL: clock_system */
    struct metrics *metrics;      /* all connections of the process count together; NULL: none */
};

struct db;

enum db_state { DB_DOWN, DB_CONNECTING, DB_UP };

/* ST_REJECT: libpq cannot read it. The text never quotes it: a password may be in it. Opens nothing. */
MUST_USE enum status db_uri_check(const char *uri, struct fault *fault);
/* Copies the settings. Not connected yet; NULL when out of memory. */
struct db *db_new(const struct db_settings *settings);
/* Connects and checks; blocks up to connect_timeout_ms a host. ST_RETRY: not reachable (the db object stays
 * usable: db_connect again). ST_STOP: reached, but a setting or a credential is wrong; the text names what
 * was found, what is needed and how to mend it. Also the way to reconnect: what was in flight is answered
 * first. */
MUST_USE enum status db_connect(struct db *db, struct fault *fault);
/* db_new and db_connect in one, for start-up; nothing is left behind on failure. */
MUST_USE enum status db_open(const struct db_settings *settings, struct db **db, struct fault *fault);
void db_close(struct db *db); /* NULL is fine; does not wait for the server */

/* The same without blocking, for an event loop: begin, then db_pump whenever the socket is ready, until
 * db_state is no longer DB_CONNECTING. Why it went down is in db_why. Restarts a connection that is up. */
void db_connect_begin(struct db *db);
enum db_state db_state(const struct db *db);
/* Status and fault of the last failed connect or of the loss; ST_OK when there was none. fault may be NULL.
 */
enum status db_why(const struct db *db, struct fault *fault);
static inline bool db_is_up(const struct db *db)
{
    return db_state(db) == DB_UP;
}

/* ---- statements ---------------------------------------------------------------------------------------- */

struct db_statement {
    const char *name; /* stable and unique: the file's name; static storage */
    const char *sql;
};

/* Runs one statement and waits for its end. Nothing else may be in flight. params NULL: none. result NULL:
 * not wanted. The status is db_judge's of the SQLSTATE; ST_RETRY "08006" when the connection is down. */
MUST_USE enum status db_run(struct db *db, const struct db_statement *statement,
                            const struct db_params *params, struct db_result **result, struct fault *fault);

/* The same for statements whose answer is one number: the rows touched, or the int8 that stands first.
 * Written only after ST_OK. */
MUST_USE enum status db_run_counted(struct db *db, const struct db_statement *statement,
                                    const struct db_params *params, int64_t *touched, struct fault *fault);
MUST_USE enum status db_run_number(struct db *db, const struct db_statement *statement,
                                   const struct db_params *params, int64_t *number, struct fault *fault);

/* Sends one without waiting; params may be reset at once. ST_RETRY "08006" when down, ST_RETRY "busy" when
 * DB_IN_FLIGHT_MAX are in flight. After ST_OK exactly one answer with this tag comes, also when the
 * connection is lost. */
MUST_USE enum status db_send(struct db *db, const struct db_statement *statement,
                             const struct db_params *params, uint64_t tag, struct fault *fault);

/* The same for a statement that only reads, and little: it may be one transaction with up to DB_JOINED_MAX -
 * 1 others that are sent so before the next db_release, db_send, db_wait or db_pump, and only then goes out.
 * That spares both sides a packet, a wake-up and a commit for each. Each still has a snapshot and a timeout
 * of its own. When one of them fails, those behind it are answered ST_RETRY DB_JOINED and are to be sent
 * again, alone. */
#define DB_JOINED "joined"
MUST_USE enum status db_send_joined(struct db *db, const struct db_statement *statement,
                                    const struct db_params *params, uint64_t tag, struct fault *fault);
/* Lets go what is held back. Call it before waiting. */
void db_release(struct db *db);
/* Whether one more may join what is held back. */
bool db_joins(const struct db *db);

struct db_answer {
    uint64_t tag;
    enum status status;
    struct db_result *result; /* of ST_OK: the caller frees it; else NULL */
    struct fault fault;       /* of any other status */
};

/* The next answer, in the order sent; false: none has come yet. Does not block. */
MUST_USE bool db_take(struct db *db, struct db_answer *answer);
size_t db_in_flight(const struct db *db);
/* Waits until db_take has something, the connection (or its making) is done or lost, or timeout_ms passed.
 * True when db_take has something. */
bool db_wait(struct db *db, int timeout_ms);

/* For a poll(2) of the caller's: descriptor (-1 when down), events to ask for, and what to do when ready or
 * once a second (deadlines). db_pump reads and writes without blocking. */
int db_fd(const struct db *db);
short db_events(const struct db *db);
void db_pump(struct db *db);

/* Statements sent from now on run under this statement_timeout (0: the role's own again), as BEGIN, SET
 * LOCAL, statement, COMMIT in one round trip: for the few tries that give a heavy record more time. */
void db_patience(struct db *db, int statement_timeout_ms);

/* ---- SQLSTATE to status: the one table (design.md §1 point 5) -------------------------------------------
 */

/* constraint may be NULL or "". ST_REJECT: split the batch, dead-letter what is left alone. Unknown ones are
 * ST_RETRY and *alarm true: never dead-lettered, but a person should look. alarm may be NULL. */
enum status db_judge(const char *sqlstate, const char *constraint, bool *alarm);

#endif
