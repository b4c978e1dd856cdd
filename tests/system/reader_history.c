/* The writers of a history. */
#include "reader_history.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const history_categories[4] = {"common", "some", "rare", "none"};
const char *const history_types[2] = {"t0", "t1"};
const struct history_feed history_feeds[3] = {
    {"notifications", "notifications", "notifications", "uuid", true},
    {"numbered", "numbered", "public.numbered", "bigint", false},
    {"lettered", "lettered", "public.lettered", "text", false},
};

enum { SQL_BYTES = 1 << 18, CLOSE_IDS = 1 << 14, FIRST_MAX = 260, BATCH_MAX = 4 };

int history_pick(struct history *h, int count)
{
    return (int)((unsigned)rand_r(&h->random) % (unsigned)count);
}

void history_tell(struct history *h, const char *format, ...)
{
    va_list args;
    size_t from = h->trace_bytes;
    va_start(args, format);
    int bytes = vsnprintf(h->trace + from, sizeof h->trace - from, format, args);
    va_end(args);
    h->trace_bytes += (size_t)bytes < sizeof h->trace - from ? (size_t)bytes : sizeof h->trace - from - 1;
    if (h->told)
        fputs(h->trace + from, stdout);
}

void history_fail(struct history *h, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!h->told)
        fputs(h->trace, stdout);
    printf("\nseed %u, step %d: %s\nthe same again: system_reader_model --seed %u\n", h->seed, h->steps, text,
           h->seed);
    fflush(stdout);
    cr_assert_fail("seed %u: %s", h->seed, text);
    abort();
}

/* ---- statements ---------------------------------------------------------------------------------------- */

static PGresult *run(struct history *h, PGconn *db, const char *sql)
{
    PGresult *result = PQexec(db, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        history_fail(h, "%.200s: %s", sql, PQerrorMessage(db));
    return result;
}

void history_exec(struct history *h, PGconn *db, const char *format, ...)
{
    static char sql[SQL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    PQclear(run(h, db, sql));
}

static int64_t number(struct history *h, PGconn *db, const char *sql)
{
    PGresult *result = run(h, db, sql);
    int64_t value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return value;
}

#define US_OF(at) "SELECT (extract(epoch FROM " at ") * 1000000)::int8"

static int64_t now_us(struct history *h, PGconn *db)
{
    return number(h, db, US_OF("clock_timestamp()"));
}

/* Relations of somebody else's, stamped as the contract asks. */
static size_t declare(struct history *h, const struct history_feed *feed, char *ini, size_t size)
{
    history_exec(
        h, h->free_hand,
        "CREATE TABLE %s (id %s PRIMARY KEY, workspace_id text COLLATE \"C\" NOT NULL,"
        " recipient_user_id text COLLATE \"C\" NOT NULL, event_type text, category varchar(20), title text,"
        " created_at timestamptz NOT NULL, inserted_xid xid8 NOT NULL DEFAULT pg_current_xact_id());"
        " CREATE INDEX ON %s (workspace_id, recipient_user_id, created_at DESC, id DESC);"
        " CREATE TRIGGER zz_belfry_stamp BEFORE INSERT OR UPDATE OF created_at, id, inserted_xid ON %s"
        " FOR EACH ROW EXECUTE FUNCTION belfry_stamp('inserted_xid');"
        " GRANT SELECT ON %s TO belfry_reader",
        feed->relation, strcmp(feed->id_type, "text") == 0 ? "text COLLATE \"C\"" : feed->id_type,
        feed->relation, feed->relation, feed->relation);
    return (size_t)snprintf(
        ini, size,
        "[feed.%s]\nrelation = %s\nworkspace_column = workspace_id\nuser_column ="
        " recipient_user_id\nid_type = %s\ncolumns = id, event_type, category, title, created_at\n"
        "filters = category, event_type\nxid_column = inserted_xid\n",
        feed->name, feed->relation, feed->id_type);
}

static void settle_look(struct history *h)
{
    struct fault fault;
    if (settle_read(h->settler, &h->held, &fault) != ST_OK)
        history_fail(h, "the bounds cannot be read: %s", fault.text);
    for (size_t i = 0; i < h->held.count; i++)
        if (h->held.of[i].prepared != 0)
            history_fail(h, "there are prepared transactions");
}

static void settle_go(struct history *h)
{
    struct fault fault;
    char sql[200];
    if (settle_move(h->settler, &h->held, &fault) != ST_OK)
        history_fail(h, "the bounds cannot be moved: %s", fault.text);
    h->held.count = 0;
    snprintf(sql, sizeof sql, US_OF("bound") " FROM settled WHERE feed = '%s'", h->feed->settled);
    h->model.bound_us = number(h, h->free_hand, sql);
}

void history_open(struct history *h, struct client *client, char *ini, size_t size)
{
    h->feed = &history_feeds[0];
    struct db_settings settings = {.application_name = "settler"};
    struct fault fault;
    h->client = client;
    settings.uri = world_role_uri(&client->w, "belfry_reconciler");
    cr_assert_eq(db_open(&settings, &h->settler, &fault), ST_OK, "%s", fault.text);
    for (int i = 0; i < HISTORY_SESSIONS; i++)
        h->sessions[i] = PQconnectdb(client->w.uri);
    h->free_hand = PQconnectdb(client->w.uri);
    /* The test chooses created_at: no trigger sets it. */
    for (int i = 0; i < HISTORY_SESSIONS; i++)
        history_exec(h, h->sessions[i],
                     "SET synchronous_commit = off; SET session_replication_role = replica");
    history_exec(h, h->free_hand, "SET synchronous_commit = off");
    size_t at = (size_t)snprintf(ini, size, "[http]\nscan_max = 101\n[run]\nlog_level = warn\n");
    for (size_t i = 1; i < sizeof history_feeds / sizeof history_feeds[0]; i++)
        at += declare(h, &history_feeds[i], ini + at, size - at);
    history_exec(h, h->free_hand, "SET session_replication_role = replica");
    settle_look(h); /* now they are gapless: the reader looks when it starts */
    settle_go(h);
}

void history_close(struct history *h)
{
    for (int i = 0; i < HISTORY_SESSIONS; i++)
        PQfinish(h->sessions[i]);
    PQfinish(h->free_hand);
    db_close(h->settler);
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

void history_id(const struct history *h, int row, int twin, char id[HISTORY_ID])
{
    uint64_t of_row = (uint64_t)h->model.rows[row].at.id, seed = h->seed;
    if (h->feed == &history_feeds[1])
        snprintf(id, HISTORY_ID, "%" PRId64,
                 ((int64_t)of_row - CLOSE_IDS / 2) * (1 << 13) + (int64_t)(seed << 2) +
                     twin); /* both signs */
    else if (h->feed == &history_feeds[2])
        snprintf(id, HISTORY_ID, "%dö%04x~%012" PRIx64, twin, (unsigned)seed, of_row);
    else
        snprintf(id, HISTORY_ID, "%d1990000-%04x-7000-8000-%012" PRIx64, twin, (unsigned)seed, of_row);
}

int history_row_of(const struct history *h, const char *id)
{
    char mine[HISTORY_ID];
    for (int i = 0; i < h->model.count; i++) {
        history_id(h, i, 0, mine);
        if (strcmp(mine, id) == 0)
            return i;
    }
    return -1;
}

int history_any_row(struct history *h)
{
    for (int tries = 0; h->model.count > 0 && tries < 20; tries++) {
        int row = history_pick(h, h->model.count);
        if (h->model.rows[row].state == MODEL_THERE)
            return row;
    }
    return -1;
}

/* Half of all ids stand close together: the bytes that decide are not always the first. */
static int64_t new_id(struct history *h)
{
    for (;;) {
        bool close = history_pick(h, 2) == 0;
        int64_t id = close ? history_pick(h, CLOSE_IDS)
                           : (int64_t)history_pick(h, 1 << 24) << 24 | history_pick(h, 1 << 24);
        bool taken = false;
        for (int i = 0; i < h->model.count && !taken; i++)
            taken = h->model.rows[i].at.id == id;
        if (!taken)
            return id;
    }
}

static int new_row(struct history *h, int64_t at_us, int session)
{
    int weight = history_pick(h, 100), row = h->model.count++;
    cr_assert(row < MODEL_ROWS);
    h->model.rows[row] = (struct model_row){.at = {at_us, new_id(h)},
                                            .state = MODEL_OPEN,
                                            .session = session,
                                            .category = weight < 70   ? 0
                                                        : weight < 97 ? 1
                                                                      : 2,
                                            .type = history_pick(h, 2)};
    return row;
}

/* Rows from `first` on, and twins of some that belong to another user and to another workspace. */
static void put_rows_from(struct history *h, PGconn *db, int first)
{
    char *sql = malloc(SQL_BYTES), id[HISTORY_ID];
    size_t at = (size_t)snprintf(sql, SQL_BYTES,
                                 "INSERT INTO %s (id, workspace_id, recipient_user_id, event_type,"
                                 " category, title, created_at) VALUES ",
                                 h->feed->relation);
    for (int i = first; i < h->model.count; i++) {
        const struct model_row *row = &h->model.rows[i];
        for (int twin = 0; twin < (i % 5 == 0 ? 3 : 1); twin++) {
            history_id(h, i, twin, id);
            at += (size_t)snprintf(sql + at, SQL_BYTES - at,
                                   "%s('%s', '%c%u', '%s', '%s', '%s', 'r%d v0',"
                                   " to_timestamp(0) + %" PRId64 " * interval '1 us')",
                                   i > first || twin > 0 ? ", " : "", id, twin == 2 ? 'x' : 'h', h->seed,
                                   twin == 1 ? "u2" : "u1", history_types[row->type],
                                   history_categories[row->category], i, row->at.at_us);
        }
    }
    if (h->model.count > first)
        PQclear(run(h, db, sql));
    free(sql);
}

static void tell_rows(struct history *h, int first)
{
    for (int i = first; i < h->model.count; i++) {
        const struct model_row *row = &h->model.rows[i];
        int above = 0, same = 0;
        for (int k = 0; k < h->model.count; k++) {
            above += h->model.rows[k].at.at_us > row->at.at_us;
            same += k != i && h->model.rows[k].at.at_us == row->at.at_us;
        }
        history_tell(h, " r%d(%s %s, %d later, %d of its instant)", i, history_categories[row->category],
                     history_types[row->type], above, same);
    }
    history_tell(h, "\n");
}

static void commit_rows(struct history *h, int session, enum model_state state)
{
    h->model.event++;
    for (int i = 0; i < h->model.count; i++) {
        struct model_row *row = &h->model.rows[i];
        if (row->state == MODEL_OPEN && row->session == session) {
            row->state = state;
            row->committed = h->model.event;
        }
    }
}

void history_begin(struct history *h, unsigned seed, bool told)
{
    memset(&h->model, 0, sizeof h->model);
    memset(h->since_us, 0, sizeof h->since_us);
    h->seed = seed;
    h->feed = &history_feeds[seed / 1000 % 3];
    h->random = seed * 2654435761U + 1;
    h->told = told;
    h->held.count = 0;
    h->steps = 0;
    h->trace_bytes = 0;
    h->trace[0] = '\0';
    h->model.scan_max = 101;
    h->model.event = 1;
    int64_t from_us = now_us(h, h->free_hand) - 10000000;
    int count = history_pick(h, 2) == 0 ? history_pick(h, 20) : 90 + history_pick(h, FIRST_MAX - 90);
    int spread = 1 + history_pick(h, 3) * count; /* 1: all of one instant */
    for (int i = 0; i < count; i++)
        (void)new_row(h, from_us + history_pick(h, spread), 0);
    history_exec(h, h->free_hand,
                 "SELECT belfry_set_member(w, u, 'member') FROM unnest(ARRAY['h%u', 'x%u']) AS w,"
                 " unnest(ARRAY['u1', 'u2']) AS u",
                 seed, seed);
    put_rows_from(h, h->free_hand, 0);
    commit_rows(h, 0, MODEL_THERE);
    static const char *const names[] = {"never moved", "among the first rows", "above the first rows"};
    int where = history_pick(h, 3);
    h->model.bound_us = where == 0 ? 0 : where == 1 ? from_us + spread / 2 : from_us + 5000000;
    history_exec(h, h->free_hand,
                 "UPDATE settled SET bound = to_timestamp(0) + %" PRId64 " * interval '1 us'",
                 h->model.bound_us);
    history_tell(h, "history %u of %s: %d rows at first, bound %s\n", seed, h->feed->name, count,
                 names[where]);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static void begin(struct history *h, int session)
{
    history_exec(h, h->sessions[session],
                 "BEGIN; LOCK TABLE %s IN ROW EXCLUSIVE MODE;"
                 " SELECT pg_current_xact_id()",
                 h->feed->relation);
    h->since_us[session] = now_us(h, h->sessions[session]);
    history_tell(h, "%3d s%d begins\n", h->steps, session);
}

/* Any time since the transaction began is what a writer may have taken: now, that of another row, or next to
 * it. */
static int64_t any_time(struct history *h, int session)
{
    int64_t since_us = h->since_us[session], at_us = now_us(h, h->sessions[session]);
    if (history_pick(h, 5) < 2)
        return at_us;
    for (int tries = 0; h->model.count > 0 && tries < 10; tries++) {
        int64_t other_us =
            h->model.rows[h->model.count - 1 - history_pick(h, (h->model.count + 3) / 4)].at.at_us +
            (history_pick(h, 3) == 0 ? history_pick(h, 3) - 1 : 0);
        if (other_us >= since_us && other_us <= at_us)
            return other_us;
    }
    return since_us + history_pick(h, 3);
}

static void insert(struct history *h, int session)
{
    int count = 1 + history_pick(h, BATCH_MAX), first = h->model.count;
    bool sub = history_pick(h, 6) == 0, each = history_pick(h, 2) == 0;
    if (first + count > MODEL_ROWS)
        return;
    int64_t at_us = any_time(h, session);
    for (int i = 0; i < count; i++)
        (void)new_row(h, each && i > 0 ? any_time(h, session) : at_us, session);
    if (sub)
        history_exec(h, h->sessions[session], "SAVEPOINT s");
    put_rows_from(h, h->sessions[session], first);
    if (sub)
        history_exec(h, h->sessions[session], "RELEASE s");
    history_tell(h, "%3d s%d inserts%s", h->steps, session, sub ? " in a savepoint" : "");
    tell_rows(h, first);
}

static void end(struct history *h, int session, bool commit)
{
    history_exec(h, h->sessions[session], commit ? "COMMIT" : "ROLLBACK");
    commit_rows(h, session, commit ? MODEL_THERE : MODEL_GONE);
    h->since_us[session] = 0;
    history_tell(h, "%3d s%d %s\n", h->steps, session, commit ? "commits" : "rolls back");
}

void history_write(struct history *h)
{
    int session = history_pick(h, HISTORY_SESSIONS), what = history_pick(h, 10);
    if (h->since_us[session] == 0) {
        begin(h, session);
        insert(h, session);
        if (what < 4)
            end(h, session, true);
    } else if (what < 4) {
        insert(h, session);
    } else {
        end(h, session, what < 9);
    }
}

void history_delete(struct history *h, const int *rows, int count)
{
    char id[HISTORY_ID];
    h->model.event++;
    history_tell(h, "%3d deleted", h->steps);
    for (int i = 0; i < count; i++) {
        if (rows[i] < 0 || h->model.rows[rows[i]].state != MODEL_THERE)
            continue;
        history_id(h, rows[i], 0, id);
        history_exec(h, h->free_hand, "DELETE FROM %s WHERE id = '%s'", h->feed->relation, id);
        h->model.rows[rows[i]].state = MODEL_GONE;
        history_tell(h, " r%d", rows[i]);
    }
    history_tell(h, "\n");
}

void history_edit(struct history *h)
{
    char id[HISTORY_ID];
    int row = history_any_row(h);
    if (row < 0)
        return;
    struct model_row *edited = &h->model.rows[row];
    h->model.event++;
    edited->version++;
    if (history_pick(h, 2) == 0) {
        edited->category = history_pick(h, 3);
        edited->type = history_pick(h, 2);
        edited->changed_kind = h->model.event;
    }
    history_id(h, row, 0, id);
    history_exec(h, h->free_hand,
                 "UPDATE %s SET title = 'r%d v%d', category = '%s', event_type = '%s' WHERE id = '%s'",
                 h->feed->relation, row, edited->version, history_categories[edited->category],
                 history_types[edited->type], id);
    history_tell(h, "%3d edited r%d (%s %s)\n", h->steps, row, history_categories[edited->category],
                 history_types[edited->type]);
}

void history_settle(struct history *h)
{
    int above = 0;
    bool read = h->held.count == 0, move = !read || history_pick(h, 3) > 0;
    if (read)
        settle_look(h);
    if (move)
        settle_go(h);
    for (int i = 0; i < h->model.count; i++)
        above += h->model.rows[i].state == MODEL_THERE && h->model.rows[i].at.at_us >= h->model.bound_us;
    history_tell(h, "%3d bound%s%s: %d rows stand above it\n", h->steps, read ? " read" : "",
                 move ? " moved" : "", above);
}

void history_finish(struct history *h)
{
    for (int i = 0; i < HISTORY_SESSIONS; i++)
        if (h->since_us[i] != 0)
            end(h, i, history_pick(h, 4) > 0);
    settle_look(h);
    settle_go(h);
    history_tell(h, "    no transaction is open, the bound is above every row\n");
}
