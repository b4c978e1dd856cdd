/* reader_1: what a walk meets on servers: a live hot standby behind read_uri, more writers at once than a
 * cursor can name, another cluster after a logical restore. Each test has a Postgres of its own. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "reader_export.h"
#include "reader_pair.h"
#include "reader_steps.h"

#define FEED "/v1/workspaces/w/feeds/notifications"

/* Of user u1: one row a letter, created at the letter's second; committed at once. */
static void put(struct client *c, const char *letters)
{
    world_exec(
        &c->w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
        " SELECT gen_random_uuid(), 'w', 'u1', 't', n,"
        " timestamptz '2026-03-21T09:00:00Z' + (ascii(n) - 96) * interval '1 s'"
        " FROM unnest(string_to_array('%s', NULL)) AS n",
        letters);
}

/* Goes on until nothing comes; the titles are put to shown. Returns the pages read. */
static int walk(const struct client *c, const char *query, char *cursor, char *shown)
{
    char text[URL_MAX - 256], names[NAMES_MAX];
    int pages = 0;
    do {
        snprintf(text, sizeof text, "%s&cursor=%s", query, cursor);
        json_t *page = client_page(c, text);
        names_of(page, names);
        strncat(shown, names, NAMES_MAX - strlen(shown) - 1);
        snprintf(cursor, CURSOR_MAX, "%s", page_cursor(page));
        json_decref(page);
        cr_assert_lt(++pages, 100);
    } while (cursor[0] != '\0');
    return pages;
}

/* ---- a hot standby ------------------------------------------------------------------------------------- */

/* The head page while a writer runs, then the rest with commits between: only what the oldest writer's number
 * stands above. */
static void walk_standby(struct pair *p)
{
    struct client *c = &p->primary;
    char cursor[CURSOR_MAX] = "", shown[NAMES_MAX] = "", page[NAMES_MAX], expected[64], xmin[32];
    put(c, "bdfhjlnp");
    struct db *late = late_begin(c, "g", "6.5");
    put(c, "krt"); /* committed, but their transaction began behind one that runs */
    pair_wait_replayed(p);
    world_text(&p->far, xmin, sizeof xmin, "SELECT pg_snapshot_xmin(pg_current_snapshot())");
    expect(&p->standby, "limit=4&contract=live", "", "trpn", NULL, NULL);
    expect(&p->standby, "limit=4&contract=boundary", "", "pnlj", cursor, NULL);
    expect(c, "limit=4&contract=boundary", "", "trpn", NULL, NULL); /* the primary knows what runs */
    late_commit(late);
    put(c, "aceuw");
    pair_wait_replayed(p);
    snprintf(shown, sizeof shown, "pnlj");
    char other[CURSOR_MAX], again[NAMES_MAX] = "pnlj";
    memcpy(other, cursor, CURSOR_MAX);
    walk(&p->standby, "limit=2", cursor, shown);
    walk(c, "limit=2", other, again); /* the same cursor at the primary's reader */
    world_text(&c->w, expected, sizeof expected,
               "SELECT string_agg(title, '' ORDER BY created_at DESC, id DESC) FROM notifications"
               " WHERE inserted_xid < '%s'",
               xmin);
    world_text(&c->w, page, sizeof page,
               "SELECT string_agg(title, '' ORDER BY title DESC) FROM notifications");
    printf("standby: xmin %s; boundary showed %s of %s\n", xmin, shown, page);
    cr_expect_str_eq(shown, "pnljhfdb");
    cr_expect_str_eq(shown, expected, "by ids: %s, not %s", shown, expected);
    cr_expect_str_eq(again, expected, "at the primary: %s, not %s", again, expected);
    shown[0] = cursor[0] = '\0';
    walk(&p->standby, "limit=3", cursor, shown);
    cr_expect_str_eq(shown, page, "a new walk shows all: %s", shown);
}

/* Marks by the standby's reader go to the primary; the page shows them when they have come back. */
static void mark_by_standby(struct pair *p)
{
    char id[64], url[URL_MAX];
    struct world_reply reply;
    struct client *c = &p->primary;
    const char *headers[] = {p->standby.authorization, NULL};
    world_text(&c->w, id, sizeof id, "SELECT id FROM notifications WHERE title = 'b'");
    snprintf(url, sizeof url, "%s/v1/workspaces/w/notifications/%s/read", p->standby.base, id);
    world_http("POST", url, headers, "", &reply);
    cr_assert_eq(reply.status, 200, "%ld %s", reply.status, reply.body);
    world_reply_done(&reply);
    cr_expect_eq(world_count(&c->w, "SELECT count(*) FROM notifications WHERE read_at IS NOT NULL"), 1);
    pair_wait_replayed(p);
    char cursor[CURSOR_MAX] = "", shown[NAMES_MAX] = "";
    walk(&p->standby, "limit=5&unread=true", cursor, shown);
    cr_expect_null(strchr(shown, 'b'), "%s", shown);
    printf("standby: a mark went to the primary and came back: unread %s\n", shown);
}

/* A standby that stands still: its reader's page is as old, its export is the primary's. */
static void export_by_standby(struct pair *p)
{
    char id[EXPORT_ID], cursor[CURSOR_MAX] = "", shown[NAMES_MAX] = "";
    world_exec(&p->far, "SELECT pg_wal_replay_pause()");
    world_wait_count(&p->far, 1, "SELECT (pg_get_wal_replay_pause_state() = 'paused')::int");
    put(&p->primary, "z");
    int64_t rows = world_count(&p->primary.w, "SELECT count(*) FROM notifications");
    cr_expect_eq(export_make(&p->standby, "{}", id), rows);
    walk(&p->standby, "limit=9", cursor, shown);
    cr_expect_eq((int64_t)strlen(shown), rows - 1, "%s", shown);
    printf("standby: stopped, its page shows %zu rows, its export holds %lld\n", strlen(shown),
           (long long)rows);
    world_exec(&p->far, "SELECT pg_wal_replay_resume()");
    pair_wait_replayed(p);
}

/* -- recovery conflicts: a page that holds the table while the primary locks it -- */

struct slow {
    const struct client *c;
    struct world_reply reply;
    pthread_t thread;
};

static void *ask_slowly(void *context)
{
    struct slow *slow = context;
    client_get(slow->c, FEED "?limit=5", &slow->reply);
    return NULL;
}

struct conflicts {
    struct pair *p;
    int met;
};

static bool was_cancelled(void *context)
{
    struct conflicts *seen = context;
    return child_log_lines(&seen->p->log, "due to conflict with recovery") == seen->met;
}

/* The page is reading; the lock comes to the standby, whose replay cancels who is in its way. */
static void conflict(struct conflicts *seen)
{
    struct pair *p = seen->p;
    world_wait_count(&p->far, 1,
                     "SELECT count(*) FROM pg_stat_activity WHERE usename = 'belfry_reader'"
                     " AND wait_event = 'PgSleep'");
    world_exec(&p->primary.w, "BEGIN; LOCK TABLE notifications IN ACCESS EXCLUSIVE MODE; COMMIT");
    seen->met++;
    world_wait("a recovery conflict", 20, was_cancelled, seen);
}

static void meet_conflicts(struct pair *p)
{
    struct client *c = &p->primary;
    struct slow slow = {.c = &p->standby};
    struct conflicts seen = {.p = p};
    /* Every row takes its time, so that a page can be met while it reads. */
    world_exec(&c->w, "DELETE FROM notifications WHERE title <> 'b'");
    world_exec(&c->w, "CREATE FUNCTION slowly() RETURNS boolean LANGUAGE plpgsql AS"
                      " 'BEGIN PERFORM pg_sleep(0.8); RETURN true; END'");
    world_exec(&c->w, "ALTER TABLE notifications ENABLE ROW LEVEL SECURITY");
    world_exec(&c->w, "CREATE POLICY slow ON notifications USING (slowly())");
    pair_wait_replayed(p);
    for (int conflicts = 1; conflicts <= 2; conflicts++) {
        cr_assert_eq(pthread_create(&slow.thread, NULL, ask_slowly, &slow), 0);
        for (int i = 0; i < conflicts; i++)
            conflict(&seen);
        pthread_join(slow.thread, NULL);
        const char *retry = strcasestr(slow.reply.headers, "\nRetry-After: ");
        printf("standby: %d recovery conflicts: %ld %.60s%s\n", conflicts, slow.reply.status, slow.reply.body,
               retry != NULL ? ", with Retry-After" : "");
        cr_expect_eq(slow.reply.status, conflicts == 1 ? 200 : 503);
        cr_expect_eq(retry != NULL, conflicts == 2);
        if (conflicts == 2)
            cr_expect_not_null(strstr(slow.reply.body, "\"code\":\"unavailable\""));
        world_reply_done(&slow.reply);
    }
}

Test(reader, standby)
{
    static struct pair p;
    pair_open(&p, "reader_standby");
    world_exec(&p.far, "ALTER SYSTEM SET max_standby_streaming_delay = 0");
    world_exec(&p.far, "SELECT pg_reload_conf()");
    walk_standby(&p);
    mark_by_standby(&p);
    export_by_standby(&p);
    meet_conflicts(&p);
    pair_close(&p);
}

/* ---- many running transactions ------------------------------------------------------------------------- */

enum { RUNNING_MAX = 190 /* that a cursor names */ };

static void boundary_head(struct client *c, int running, const char *names, char *cursor)
{
    expect(c, "limit=4&contract=boundary", "", names, cursor, NULL);
    printf("many running: %d at page one, a cursor of %zu characters\n", running, strlen(cursor));
    cr_expect_leq(strlen(cursor), 1024u);
}

Test(reader, many_running)
{
    static struct client c;
    static struct db *running[RUNNING_MAX + 1];
    char exact[CURSOR_MAX], cut[CURSOR_MAX], shown[NAMES_MAX] = "tsrq", kept[NAMES_MAX] = "fedc";
    world_open(&c.w, "reader_running");
    world_own_server(&c.w, "postgres", "start", NULL);
    client_start(&c);
    put(&c, "abcdef");
    running[0] = late_begin(&c, "x", "3.5");
    put(&c, "pqrst"); /* behind the oldest that runs, committed */
    for (int i = 1; i < RUNNING_MAX; i++) {
        running[i] = late_open(&c, "SELECT pg_current_xact_id()");
        world_exec(&c.w, "SELECT pg_current_xact_id()"); /* a gap */
    }
    boundary_head(&c, RUNNING_MAX, "tsrq", exact);
    running[RUNNING_MAX] = late_begin(&c, "y", "4.5");
    world_exec(&c.w, "SELECT pg_current_xact_id()"); /* only what is below one that ended is listed */
    boundary_head(&c, RUNNING_MAX + 1, "fedc", cut);
    for (int i = 0; i <= RUNNING_MAX; i++)
        late_commit(running[i]);
    put(&c, "uvw");
    walk(&c, "limit=2", exact, shown);
    walk(&c, "limit=2", cut, kept);
    printf("many running: all committed; exact walk %s, cut walk %s\n", shown, kept);
    cr_expect_str_eq(shown, "tsrqpfedcba", "what had committed, and nothing late: %s", shown);
    cr_expect_str_eq(kept, "fedcba", "what had committed before the oldest: %s", kept);
    client_close(&c);
}

/* ---- another cluster ----------------------------------------------------------------------------------- */

static void run_shell(struct world *w, const char *format, const char *a, const char *b)
{
    char command[2048];
    snprintf(command, sizeof command, format, a, b);
    const char *argv[] = {"-ec", command, NULL};
    int code = world_run(w, "/bin/bash", argv, NULL, 0);
    cr_assert_eq(code, 0, "%s left with %d: see %s", command, code, w->children[w->child_count - 1].log);
}

/* pg_dump | psql into another cluster, as deploy/README.md says. */
Test(reader, after_restore)
{
    static struct client c;
    char old_uri[256], live[CURSOR_MAX], newer[CURSOR_MAX], boundary[CURSOR_MAX], path[WORLD_PATH_MAX];
    char shown[NAMES_MAX] = "hg";
    client_open(&c, "reader_restore");
    put(&c, "abcdefgh");
    bound_at(&c, "2026-03-21T09:00:30Z");
    expect(&c, "limit=2&contract=live", "", "hg", live, newer);
    expect(&c, "limit=2&contract=boundary", "", "hg", boundary, NULL);
    snprintf(old_uri, sizeof old_uri, "%s", c.w.uri);
    int64_t xid = world_count(&c.w, "SELECT max(inserted_xid::text::int8) FROM notifications");
    child_stop(c.reader);
    struct world old = c.w;
    world_own_server(&c.w, "postgres", "start", NULL);
    c.w.db = NULL;
    run_shell(&c.w, "pg_dumpall -d '%s' --roles-only | grep belfry_ | psql -q -v ON_ERROR_STOP=1 -d '%s'",
              old_uri, c.w.superuser_uri);
    run_shell(&c.w, "psql -q -d '%s' -c 'CREATE DATABASE %s'", c.w.superuser_uri, c.w.database);
    snprintf(c.w.uri, sizeof c.w.uri, "%.*s/%s", (int)(strrchr(c.w.superuser_uri, '/') - c.w.superuser_uri),
             c.w.superuser_uri, c.w.database);
    run_shell(&c.w, "pg_dump -d '%s' | psql -q -v ON_ERROR_STOP=1 -d '%s'", old_uri, c.w.uri);
    world_reconnect(&c.w);
    c.reader = world_reader(&c.w, NULL, c.base);
    int64_t here = world_count(&c.w, "SELECT pg_current_xact_id()::text::int8");
    printf("restore: rows of transaction %lld, the cluster is at %lld\n", (long long)xid, (long long)here);
    cr_assert_lt(here, xid, "rows must bring numbers from the future, or the test shows nothing");
    /* Live cursors go on; boundary's are of a cluster that is gone, and until the script has run its pages
     * leave the restored rows out. */
    walk(&c, "limit=3", live, shown);
    cr_expect_str_eq(shown, "hgfedcba");
    snprintf(path, sizeof path, FEED "?cursor=%s", boundary);
    client_refused(&c, path, 410, "cursor_expired");
    expect(&c, "limit=9&contract=boundary", "", "", NULL, NULL);
    snprintf(path, sizeof path, "%s/sql/after_restore.sql", BELFRY_SOURCE_DIR);
    run_shell(&c.w, "psql -q -v ON_ERROR_STOP=1 -d '%s' -f '%s'", c.w.uri, path);
    struct db *late = late_begin(&c, "x", "2.5");
    expect(&c, "limit=3&contract=boundary", "", "hgf", boundary, NULL);
    late_commit(late);
    put(&c, "jk");
    snprintf(shown, sizeof shown, "hgf");
    walk(&c, "limit=2", boundary, shown);
    printf("restore: live goes on, boundary 410; after sql/after_restore.sql boundary shows %s\n", shown);
    cr_expect_str_eq(shown, "hgfedcba", "restored rows and nothing late: %s", shown);
    expect(&c, "limit=9", newer, "kj", NULL, NULL);
    world_close(&old);
    client_close(&c);
}
