/* reader_1_newer_misses_nothing: writers that commit late, roll back, prepare their transactions, stand
 * frozen inside them; the real reconciler moving the bound on the primary; clients that walk newer at a
 * reader of the primary and at one of a hot standby. Each gets every row once. A walk that does not keep to
 * the bound goes beside them and shows what it misses. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/db.h"
#include "reader_pair.h"
#include "reader_steps.h"

enum { WRITERS = 6, WRITES = 30, CLIENTS = 4, ID_BYTES = 36, IDS_MAX = WRITERS * WRITES * 2 };

struct writer {
    pthread_t thread;
    struct db *db;
    pid_t backend;
    unsigned seed;
    int number;
    atomic_int *done;
};

static void writer_run(struct writer *writer, const char *sql)
{
    struct db_statement statement = {"writer", sql};
    struct fault fault;
    cr_assert_eq(db_run(writer->db, &statement, NULL, NULL, &fault), ST_OK, "%s: %s", sql, fault.text);
}

/* Commits in one of the ways there are. */
static void writer_end(struct writer *writer, int write)
{
    char sql[64];
    int way = rand_r(&writer->seed) % 10;
    if (way >= 3) {
        writer_run(writer, way == 9 ? "ROLLBACK" : "COMMIT");
        return;
    }
    snprintf(sql, sizeof sql, "PREPARE TRANSACTION 'p%d-%d'", writer->number, write);
    writer_run(writer, sql);
    world_sleep_ms(rand_r(&writer->seed) % 100); /* in no session, so in no pg_stat_activity */
    snprintf(sql, sizeof sql, "%s PREPARED 'p%d-%d'", way == 2 ? "ROLLBACK" : "COMMIT", writer->number,
             write);
    writer_run(writer, sql);
}

/* As the dispatcher does it: the table lock and the transaction's number come before the timestamp; then it
 * takes its time to commit. */
static void *write_late(void *context)
{
    struct writer *writer = context;
    for (int i = 0; i < WRITES; i++) {
        writer_run(writer, "BEGIN");
        writer_run(writer,
                   "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title,"
                   " created_at) SELECT gen_random_uuid(), 'w', 'u1', 't', pg_current_xact_id()::text,"
                   " clock_timestamp()");
        world_sleep_ms(rand_r(&writer->seed) % 3 == 0 ? rand_r(&writer->seed) % 300 : 5);
        writer_end(writer, i);
    }
    atomic_fetch_add(writer->done, 1);
    return NULL;
}

/* Freezes one server process after another, wherever in its transaction it is. */
static void *freeze(void *context)
{
    struct writer *writers = context;
    unsigned seed = 7;
    for (int i = 0; atomic_load(writers->done) < WRITERS; i++) {
        pid_t pid = writers[i % WRITERS].backend;
        cr_assert_eq(kill(pid, SIGSTOP), 0);
        world_sleep_ms(20 + rand_r(&seed) % 100);
        cr_assert_eq(kill(pid, SIGCONT), 0);
        world_sleep_ms(rand_r(&seed) % 30);
    }
    return NULL;
}

struct walker {
    const struct client *at;
    const char *name, *query;
    char cursor[CURSOR_MAX];
    int count, pages;
    char *ids; /* "{id,id" */
    size_t used;
};

/* Goes on until nothing new comes. */
static void walk_on(struct walker *walker)
{
    char query[URL_MAX - 256];
    bool more = true;
    while (more) {
        snprintf(query, sizeof query, "%s&cursor=%s", walker->query, walker->cursor);
        json_t *page = client_page(walker->at, query);
        for (size_t i = 0; i < page_count(page); i++) {
            cr_assert_lt(walker->count, IDS_MAX, "rows come again and again");
            walker->used += (size_t)sprintf(walker->ids + walker->used, "%c%s",
                                            walker->count++ == 0 ? '{' : ',', page_id(page, i));
        }
        more = page_has_more(page);
        snprintf(walker->cursor, CURSOR_MAX, "%s", page_cursor(page));
        cr_assert_neq(walker->cursor[0], '\0');
        json_decref(page);
        walker->pages++;
    }
}

/* Keeps to the newest it has seen and to no bound. */
static void walk_naively(struct client *c)
{
    world_exec(&c->w, "INSERT INTO naive SELECT id, created_at FROM notifications WHERE (created_at, id) >"
                      " (SELECT created_at, id FROM naive ORDER BY created_at DESC, id DESC LIMIT 1)");
}

static void check_walker(struct client *c, const struct walker *walker, int64_t rows)
{
    int64_t found = world_count(
        &c->w, "SELECT count(*) FROM notifications WHERE id IN (SELECT unnest('%s}'::uuid[]))", walker->ids);
    printf("newer, %-32s %d rows shown on %d pages, %lld of %lld: %lld missed\n", walker->name, walker->count,
           walker->pages, (long long)found, (long long)rows, (long long)(rows - found));
    cr_expect_eq(found, rows, "%s: %lld missed", walker->name, (long long)(rows - found));
    cr_expect_eq(walker->count, rows, "%s: each once", walker->name);
}

static void start_writers(struct client *c, struct writer *writers, atomic_int *done)
{
    for (int i = 0; i < WRITERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "writer-%d", i);
        struct db_settings settings = {.uri = c->w.uri, .application_name = name};
        struct fault fault;
        writers[i] = (struct writer){.number = i, .seed = (unsigned)i + 1, .done = done};
        cr_assert_eq(db_open(&settings, &writers[i].db, &fault), ST_OK, "%s", fault.text);
        writers[i].backend =
            (pid_t)world_count(&c->w, "SELECT pid FROM pg_stat_activity WHERE application_name = '%s'", name);
        cr_assert_gt(writers[i].backend, 1);
    }
    for (int i = 0; i < WRITERS; i++)
        cr_assert_eq(pthread_create(&writers[i].thread, NULL, write_late, &writers[i]), 0);
}

Test(reader, newer_misses_nothing)
{
    static struct pair p;
    static struct writer writers[WRITERS];
    struct walker walkers[CLIENTS] = {{&p.primary, "primary, 7 a page", "limit=7"},
                                      {&p.primary, "primary, unread, 2 a page", "limit=2&unread=true"},
                                      {&p.standby, "standby, 7 a page", "limit=7"},
                                      {&p.standby, "standby, of a type, 20 a page", "event_type=t"}};
    atomic_int done = 0;
    pthread_t freezer;
    pair_open(&p, "reader_newer");
    struct client *c = &p.primary;
    world_topics(&c->w, 1);
    world_simulator(&c->w, NULL);
    world_reconciler(&c->w, NULL);
    world_exec(&c->w, "CREATE TEMP TABLE naive AS SELECT gen_random_uuid() AS id, now() AS created_at");
    for (int i = 0; i < CLIENTS; i++) {
        walkers[i].ids = calloc(IDS_MAX, ID_BYTES + 1);
        expect(walkers[i].at, walkers[i].query, "", "", NULL, walkers[i].cursor);
    }
    start_writers(c, writers, &done);
    cr_assert_eq(pthread_create(&freezer, NULL, freeze, writers), 0);
    while (atomic_load(&done) < WRITERS) {
        for (int i = 0; i < CLIENTS; i++)
            walk_on(&walkers[i]);
        walk_naively(c);
        world_sleep_ms(10);
    }
    pthread_join(freezer, NULL);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        db_close(writers[i].db);
    }
    world_wait_count(&p.far, 1,
                     "SELECT count(*) FROM settled WHERE feed = 'notifications' AND bound >"
                     " (SELECT max(created_at) FROM notifications)");
    int64_t rows = world_count(&c->w, "SELECT count(*) FROM notifications");
    for (int i = 0; i < CLIENTS; i++) {
        walk_on(&walkers[i]);
        check_walker(c, &walkers[i], rows);
        free(walkers[i].ids);
    }
    walk_naively(c);
    int64_t naive = world_count(&c->w, "SELECT count(*) FROM naive") - 1;
    printf("newer, %-32s %lld of %lld: %lld missed\n", "by SQL and no bound", (long long)naive,
           (long long)rows, (long long)(rows - naive));
    cr_expect_lt(naive, rows, "nothing committed late: the test shows nothing");
    cr_expect_gt(rows, WRITERS * WRITES / 2);
    pair_close(&p);
}
