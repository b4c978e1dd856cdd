/* Downloads under stress: clients that are slow, a database that goes away, a membership withdrawn, a reader
 * that is killed while it fills and while it streams. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader_export.h"
#include "reader_steps.h"

enum { ROWS = 5000, ROW_BYTES = 2000, SLOW = 8, SOME_BYTES = 300 * 1024, LINE_MAX_BYTES = 4096 };

/* Lines that came whole. */
static int64_t lines_of(const char *body)
{
    int64_t lines = 0;
    for (const char *end; (end = strchr(body, '\n')) != NULL; body = end + 1)
        lines++;
    return lines;
}

static int64_t whole_lines(struct download *d)
{
    char *last = strrchr(d->body, '\n');
    if (last != NULL)
        last[1] = '\0';
    return lines_of(d->body);
}

static void cut_by_a_lost_database(struct client *c, const char *id)
{
    struct download d;
    download_open(&d, c, id, "");
    cr_assert(!download_take(&d, SOME_BYTES));
    world_exec(&c->w,
               "ALTER DATABASE %s CONNECTION LIMIT 0; SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
               " WHERE datname = current_database() AND usename = 'belfry_reader'",
               c->w.database);
    download_finish(&d);
    int64_t lines = whole_lines(&d);
    cr_expect(!d.whole && lines < ROWS, "%lld lines, whole %d", (long long)lines, d.whole);
    cr_expect_null(strstr(d.body, "_end"));
    world_exec(&c->w, "ALTER DATABASE %s CONNECTION LIMIT -1", c->w.database);
    child_wait_ready(c->reader, 30);
    printf("export_stream: the database gone: %lld lines, no final chunk, no trailer\n", (long long)lines);
    download_close(&d);
}

static void cut_by_a_membership(struct client *c, const char *id)
{
    struct download d;
    download_open(&d, c, id, "");
    cr_assert(!download_take(&d, SOME_BYTES));
    world_exec(&c->w, "DELETE FROM workspace_members WHERE user_id = 'u1'");
    download_finish(&d);
    int64_t lines = whole_lines(&d);
    cr_expect(!d.whole && lines < ROWS, "%lld lines, whole %d", (long long)lines, d.whole);
    world_exec(&c->w, "SELECT belfry_set_member('w', 'u1', 'member')");
    child_wait_log(c->reader, "READ-EXPORT-CUT", 10);
    printf("export_stream: membership withdrawn: %lld lines, no final chunk\n", (long long)lines);
    download_close(&d);
}

/* In turns: one that takes nothing for half a minute is cut. */
static void finish_all(struct download *slow)
{
    bool ended[SLOW] = {false};
    for (size_t left = SLOW; left > 0;)
        for (size_t i = 0; i < SLOW; i++) {
            if (ended[i] || !download_take(&slow[i], slow[i].raw_bytes + SOME_BYTES))
                continue;
            ended[i] = true;
            left--;
        }
    for (size_t i = 0; i < SLOW; i++)
        download_finish(&slow[i]);
}

Test(reader, export_stream)
{
    static struct client c;
    static struct download slow[SLOW];
    char id[EXPORT_ID];
    client_open(&c, "export_stream");
    export_put(&c, ROWS, ROW_BYTES);
    cr_assert_eq(export_make(&c, "{}", id), ROWS);
    int64_t before_kib = child_rss_kib(c.reader), most_kib = 0;
    for (size_t i = 0; i < SLOW; i++)
        download_open(&slow[i], &c, id, "");
    for (size_t step = 1; step <= 20; step++) {
        for (size_t i = 0; i < SLOW; i++)
            cr_assert(!download_take(&slow[i], step * 64 * 1024));
        int64_t kib = child_rss_kib(c.reader);
        most_kib = kib > most_kib ? kib : most_kib;
    }
    json_decref(client_page(&c, "limit=1"));
    finish_all(slow);
    for (size_t i = 0; i < SLOW; i++) {
        cr_expect(slow[i].whole && lines_of(slow[i].body) == ROWS + 1, "%lld lines",
                  (long long)lines_of(slow[i].body));
        cr_expect_gt(slow[i].bytes, (size_t)ROWS * ROW_BYTES);
    }
    int64_t after_kib = child_rss_kib(c.reader);
    printf("export_stream: %d slow clients of %zu KiB each: resident %lld KiB before, %lld at most, %lld "
           "after\n",
           SLOW, slow[0].bytes / 1024, (long long)before_kib, (long long)most_kib, (long long)after_kib);
#ifndef __SANITIZE_ADDRESS__ /* it keeps freed memory for a while, on purpose */
    cr_expect_lt(most_kib - before_kib, SLOW * 1024, "a megabyte each at most");
#endif
    for (size_t i = 0; i < SLOW; i++)
        download_close(&slow[i]);
    cut_by_a_membership(&c, id);
    cut_by_a_lost_database(&c, id);
    client_close(&c);
}

/* ---- kill -9 --------------------------------------------------------------------------------------------
 */

static const char short_timeout[] = "[exports]\ntimeout = 1s\n";

static void killed_while_filling(struct client *c, char id[EXPORT_ID])
{
    struct db *table = late_open(c, "LOCK TABLE export_rows IN EXCLUSIVE MODE");
    export_order(c, "{}", id);
    world_wait_count(&c->w, 1, "SELECT count(*) FROM exports WHERE state = 'running'");
    child_kill(c->reader);
    c->reader = world_reader(&c->w, short_timeout, c->base);
    json_t *export = export_expect(c, "GET", EXPORTS, NULL, 200, NULL);
    cr_expect_str_eq(text_of(json_array_get(json_object_get(export, "items"), 0), "state"), "running");
    json_decref(export);
    world_wait_count(&c->w, 0,
                     "SELECT count(*) FROM pg_locks WHERE NOT granted"); /* the dead one's statement */
    late_commit(table);
    json_decref(export_await(c, id, "ready"));
    cr_expect_eq(world_count(&c->w, "SELECT tries FROM exports"), 2);
    cr_expect_eq(world_count(&c->w, "SELECT count(*) FROM export_rows"), ROWS);
    printf("export_kill: killed while filling; another took it when the lease ended: %d rows, second try\n",
           ROWS);
}

static void killed_while_streaming(struct client *c, const char *id)
{
    struct download whole, part, rest;
    char query[64];
    download_open(&whole, c, id, "");
    download_finish(&whole);
    cr_assert(whole.whole);
    download_open(&part, c, id, "");
    cr_assert(!download_take(&part, SOME_BYTES));
    child_kill(c->reader);
    download_finish(&part);
    int64_t lines = whole_lines(&part);
    cr_assert(!part.whole && lines > 0 && lines < ROWS, "%lld lines", (long long)lines);
    c->reader = world_reader(&c->w, short_timeout, c->base);
    snprintf(query, sizeof query, "?after=%lld", (long long)lines);
    download_open(&rest, c, id, query);
    download_finish(&rest);
    size_t bytes = strlen(part.body);
    cr_expect(rest.whole && bytes + rest.bytes == whole.bytes && memcmp(whole.body, part.body, bytes) == 0 &&
                  memcmp(whole.body + bytes, rest.body, rest.bytes) == 0,
              "%zu + %zu is not %zu", bytes, rest.bytes, whole.bytes);
    printf("export_kill: killed while streaming at line %lld; with ?after the two parts are the whole %zu "
           "bytes\n",
           (long long)lines, whole.bytes);
    download_close(&whole);
    download_close(&part);
    download_close(&rest);
}

Test(reader, export_kill)
{
    static struct client c;
    char id[EXPORT_ID];
    world_open(&c.w, "export_kill");
    world_database(&c.w);
    world_exec(&c.w, "SELECT belfry_set_member('w', 'u1', 'member')");
    c.reader = world_reader(&c.w, short_timeout, c.base);
    world_write_reader_ini(&c.w, NULL, c.ini);
    client_be(&c, "u1");
    export_put(&c, ROWS, ROW_BYTES);
    killed_while_filling(&c, id);
    killed_while_streaming(&c, id);
    client_close(&c);
}
