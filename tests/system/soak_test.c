/* Line 5: the dispatcher and the reconciler under a steady load, with every retention scaled down so that
 * each row lives and goes many times. What must not grow is sampled; the last third of the run must look like
 * the middle third. BELFRY_TEST_MINUTES says how long (20 for the figures of the note); without it about 75
 * s. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/chaos.h"

enum {
    TICK_MS = 100,
    EVENTS_A_TICK = 20,
    REPEATED = 20, /* every 20th event is sent twice */
    SAMPLES = 18,
    TABLES = 6,
    TEXT_MAX = 1024,
    USERS = 1000,
    SHORT_S = 66
};

static const char *const tables[TABLES] = {"notifications", "dispatches",      "idempotency_keys",
                                           "export_rows",   "receipt_batches", "device_tokens"};

struct sample {
    int64_t at_s;
    int64_t dispatcher_kib, dispatcher_fds, reconciler_kib, reconciler_fds;
    int64_t rows[TABLES], dead[TABLES], table_kib[TABLES], index_kib[TABLES];
};

struct soak {
    struct chaos c;
    struct child *dispatcher;
    int seconds, keep_s; /* how long, and dispatch_retention: the others follow from it */
    int64_t events, repeated, registrations;
    struct sample samples[SAMPLES];
};

static int64_t fds_of(const struct child *child)
{
    char path[64];
    int64_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)child->pid);
    DIR *folder = opendir(path);
    cr_assert(folder != NULL, "%s has ended: see %s", child->name, child->log);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count - 2; /* "." and ".." */
}

static void take_sample(struct soak *s, struct sample *sample, int64_t at_ms)
{
    *sample = (struct sample){.at_s = at_ms / 1000,
                              .dispatcher_kib = child_rss_kib(s->dispatcher),
                              .dispatcher_fds = fds_of(s->dispatcher),
                              .reconciler_kib = child_rss_kib(s->c.reconciler),
                              .reconciler_fds = fds_of(s->c.reconciler)};
    for (int i = 0; i < TABLES; i++) {
        char text[256];
        long long figures[4];
        world_text(&s->c.w, text, sizeof text,
                   "SELECT concat_ws(' ', (SELECT count(*) FROM %s), n_dead_tup, pg_table_size(relid) / 1024,"
                   " pg_indexes_size(relid) / 1024) FROM pg_stat_user_tables WHERE relname = '%s'",
                   tables[i], tables[i]);
        cr_assert(sscanf(text, "%lld %lld %lld %lld", &figures[0], &figures[1], &figures[2], &figures[3]) ==
                  4);
        sample->rows[i] = figures[0];
        sample->dead[i] = figures[1];
        sample->table_kib[i] = figures[2];
        sample->index_kib[i] = figures[3];
    }
}

/* ---- the load --------------------------------------------------------------------------------------- */

static void send_events(struct soak *s)
{
    struct world *w = &s->c.w;
    for (int i = 0; i < EVENTS_A_TICK; i++) {
        char text[TEXT_MAX], user[16];
        int64_t n = s->events++;
        snprintf(user, sizeof user, "u%05d", (int)(n % USERS));
        snprintf(
            text, sizeof text,
            "{\"run_id\":\"soak-%lld\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":"
            "\"%s\",\"title\":\"number %lld\",\"body\":\"sixty bytes of text that say what has happened "
            "and what to do\",\"data\":{\"order\":%lld}}",
            (long long)n, user, (long long)n, (long long)n);
        bool twice = n % REPEATED == 0;
        for (int k = 0; k <= (twice ? 1 : 0); k++)
            world_produce_fast(w, w->events, -1, user, text);
        s->repeated += twice ? 1 : 0;
    }
}

/* Every device is seen again once in keep_s; those of each tenth user in 6 keep_s, and go stale in between.
 */
static void register_some(struct soak *s, int64_t tick)
{
    int64_t ticks = (int64_t)s->keep_s * 1000 / TICK_MS;
    int64_t from = USERS * (tick % ticks) / ticks, to = USERS * (tick % ticks + 1) / ticks;
    for (int64_t user = from; user < to; user++) {
        if (user % 10 == 0 && tick / ticks % 6 != 0)
            continue;
        for (int device = 0; device < ledger_devices_of((int)user); device++) {
            char name[16], token[96];
            snprintf(name, sizeof name, "u%05d", (int)user);
            ledger_token(&s->c.ledger, (int)user, device, token);
            world_register(&s->c.w, name, token);
            s->registrations++;
        }
    }
}

/* The readers' part: an export a second, ready for keep_s; and what a replay of dead letters leaves. */
static void make_exports(struct soak *s, int64_t second)
{
    world_exec(&s->c.w,
               "WITH e AS (INSERT INTO exports (feed, user_id, format, state, rows, finished_at, expires_at)"
               " VALUES ('notifications', 'u', 'ndjson', 'ready', 100, now(), now() + interval '%d s')"
               " RETURNING id) INSERT INTO export_rows (export_id, ordinal, row) SELECT e.id, i,"
               " json_build_object('title', repeat('x', 100)) FROM e, generate_series(1, 100) i",
               s->keep_s);
    world_exec(&s->c.w,
               "INSERT INTO replays SELECT 'soak', 0, %lld * 10 + i, 0 FROM generate_series(1, 10) i",
               (long long)second);
}

static void run_load(struct soak *s)
{
    int64_t began_ms = world_now_ms(), second = -1;
    int sampled = 0;
    for (int64_t tick = 0; tick * TICK_MS < (int64_t)s->seconds * 1000; tick++) {
        send_events(s);
        register_some(s, tick);
        world_flush(&s->c.w);
        int64_t now_ms = world_now_ms() - began_ms;
        if (now_ms / 1000 > second) {
            second = now_ms / 1000;
            make_exports(s, second);
        }
        if (sampled < SAMPLES && now_ms >= (int64_t)(sampled + 1) * s->seconds * 1000 / SAMPLES - TICK_MS)
            take_sample(s, &s->samples[sampled++], now_ms);
        now_ms = world_now_ms() - began_ms;
        if ((tick + 1) * TICK_MS > now_ms)
            world_sleep_ms((int)((tick + 1) * TICK_MS - now_ms));
    }
    while (sampled < SAMPLES)
        take_sample(s, &s->samples[sampled++], world_now_ms() - began_ms);
}

/* ---- what must hold --------------------------------------------------------------------------------- */

static void print_samples(const struct soak *s)
{
    printf("%5s %11s %11s", "s", "disp KiB/fd", "rec KiB/fd");
    for (int i = 0; i < TABLES; i++)
        printf(" | %s rows dead table+index KiB", tables[i]);
    printf("\n");
    for (int k = 0; k < SAMPLES; k++) {
        const struct sample *x = &s->samples[k];
        printf("%5lld %8lld/%-2lld %8lld/%-2lld", (long long)x->at_s, (long long)x->dispatcher_kib,
               (long long)x->dispatcher_fds, (long long)x->reconciler_kib, (long long)x->reconciler_fds);
        for (int i = 0; i < TABLES; i++)
            printf(" | %6lld %6lld %6lld+%-6lld", (long long)x->rows[i], (long long)x->dead[i],
                   (long long)x->table_kib[i], (long long)x->index_kib[i]);
        printf("\n");
    }
    fflush(stdout);
}

/* The mean of the last third is at most that of the middle third and a quarter, and a little for what is
 * small. column: of struct sample. */
static void expect_level(const struct soak *s, const char *what, size_t column, int64_t slack)
{
    int64_t middle = 0, last = 0;
    for (int k = 0; k < SAMPLES / 3; k++) {
        const char *at = (const char *)&s->samples[SAMPLES / 3 + k] + column;
        const char *later = (const char *)&s->samples[2 * SAMPLES / 3 + k] + column;
        middle += *(const int64_t *)(const void *)at;
        last += *(const int64_t *)(const void *)later;
    }
    middle /= SAMPLES / 3;
    last /= SAMPLES / 3;
    printf("level: %-36s middle third %8lld, last third %8lld\n", what, (long long)middle, (long long)last);
    cr_expect(last <= middle + middle / 4 + slack, "%s still grows", what);
}

static void expect_all_level(const struct soak *s)
{
    static const struct {
        const char *what;
        size_t column;
        int64_t slack;
    } figures[] = {{"rows", offsetof(struct sample, rows), 500},
                   {"dead tuples", offsetof(struct sample, dead), 5000},
                   {"table KiB", offsetof(struct sample, table_kib), 512},
                   {"index KiB", offsetof(struct sample, index_kib), 512}};
    expect_level(s, "dispatcher RSS KiB", offsetof(struct sample, dispatcher_kib), 2048);
    expect_level(s, "dispatcher descriptors", offsetof(struct sample, dispatcher_fds), 2);
    expect_level(s, "reconciler RSS KiB", offsetof(struct sample, reconciler_kib), 2048);
    expect_level(s, "reconciler descriptors", offsetof(struct sample, reconciler_fds), 2);
    for (int i = 0; i < TABLES; i++) {
        for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++) {
            char what[64];
            snprintf(what, sizeof what, "%s %s", tables[i], figures[k].what);
            expect_level(s, what, figures[k].column + (size_t)i * sizeof(int64_t), figures[k].slack);
        }
    }
}

/* The sum of all series of that name which the process shows. */
static int64_t shown(const struct child *child, const char *series)
{
    char url[128];
    struct world_reply reply;
    snprintf(url, sizeof url, "http://%s/metrics", child->admin);
    world_http("GET", url, NULL, NULL, &reply);
    cr_assert_eq(reply.status, 200);
    double sum = 0;
    size_t bytes = strlen(series);
    for (const char *line = reply.body; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, series, bytes) == 0 && strchr(" {", line[bytes]) != NULL)
            sum += strtod(strchr(line, ' '), NULL);
    }
    world_reply_done(&reply);
    return (int64_t)sum;
}

/* Until what was accepted is settled, for as long as keys are kept: then the last row may go. */
static bool all_settled(void *context)
{
    struct soak *s = context;
    return shown(s->c.reconciler, "belfry_receipts_total{result=\"delivered\"}") >=
           simulator_stat(&s->c.w, "send", "accepted");
}

static void check_nothing_lost(struct soak *s, const char *ini)
{
    struct world *w = &s->c.w;
    world_wait_drained(w, w->group, w->events, WORLD_WAIT_S);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    world_wait_drained(w, w->reconciler_group, w->receipts, WORLD_WAIT_S);
    world_wait("every accepted push delivered", WORLD_WAIT_S, all_settled, s);
    int64_t accepted = simulator_stat(w, "send", "accepted");
    int64_t delivered = shown(s->c.reconciler, "belfry_receipts_total{result=\"delivered\"}");
    printf("%lld events, %lld sent twice, %lld registrations; %lld pushes accepted, %lld delivered\n",
           (long long)s->events, (long long)s->repeated, (long long)s->registrations, (long long)accepted,
           (long long)delivered);
    static const char *const removed[] = {"notifications", "dispatches",  "idempotency_keys", "replays",
                                          "device_tokens", "export_rows", "exports"};
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        char series[96];
        snprintf(series, sizeof series, "belfry_retained_rows_total{table=\"%s\"}", removed[i]);
        int64_t rows = shown(s->c.reconciler, series);
        printf("removed of %-17s %lld\n", removed[i], (long long)rows);
        cr_expect(rows > 0, "nothing of %s was removed", removed[i]);
    }
    cr_expect_eq(accepted, delivered);
    cr_expect_eq(shown(s->c.reconciler, "belfry_retained_unsettled_total"), 0);
    cr_expect_eq(world_count(w, "SELECT sum(notifications) FROM partition_offsets"), s->events);
    cr_expect_eq(world_count(w, "SELECT sum(duplicates) FROM partition_offsets"), s->repeated);
    /* A device that went stale between the claim and the window is not pushed to. */
    int64_t suppressed = shown(s->c.reconciler, "belfry_outcomes_total{result=\"suppressed\"}");
    int64_t dispatches = world_count(w, "SELECT sum(dispatches) FROM partition_offsets");
    printf("%lld dispatches, %lld of them suppressed, %lld failed\n", (long long)dispatches,
           (long long)suppressed,
           (long long)shown(s->c.reconciler, "belfry_outcomes_total{result=\"failed\"}"));
    cr_expect_eq(dispatches, accepted + suppressed);
    world_check_books(w);
    char path[WORLD_PATH_MAX], output[4096];
    world_write_reconciler_ini(w, ini, path);
    const char *audit[] = {"-F", path, "--audit", NULL};
    int code = world_run(w, "src/bin/belfry-reconciler", audit, output, sizeof output);
    cr_expect_eq(code, 0, "the audit left with %d: %s", code, output);
}

static void open_soak(struct soak *s, char *ini, size_t size)
{
    const char *minutes = getenv("BELFRY_TEST_MINUTES");
    s->seconds = minutes == NULL ? SHORT_S : atoi(minutes) * 60;
    cr_assert(s->seconds > 0, "BELFRY_TEST_MINUTES is not a number of minutes");
    s->keep_s = s->seconds / 11 > 60 ? 60 : s->seconds / 11;
    snprintf(ini, size,
             "[reconciler]\nallow_short_retention = on\ndispatch_retention = %ds\nnotification_retention = "
             "%ds\ntoken_stale_after = %ds\nreceipt_delay = 300ms\npoll_interval = 300ms\n[ingest]\n"
             "allow_short_key_retention = on\nkey_retention = %ds\n[run]\nlog_level = info\n",
             s->keep_s, 2 * s->keep_s, 2 * s->keep_s, s->keep_s + s->keep_s / 2);
    chaos_open(&s->c, "soak", 4, CHAOS_OWN_POSTGRES);
    /* Vacuum as often as there are samples, whatever the length of the run. */
    world_exec(&s->c.w, "ALTER SYSTEM SET autovacuum_naptime = '%ds'",
               s->seconds / 60 > 20 ? 20 : s->seconds / 60);
    world_exec(&s->c.w, "SELECT pg_reload_conf()");
    child_stop(s->c.reconciler);
    s->c.reconciler = world_reconciler(&s->c.w, ini);
    s->dispatcher = world_dispatcher(&s->c.w, "[run]\nlog_level = info\n");
}

Test(reconciler, soak)
{
    char ini[TEXT_MAX];
    struct soak *s = calloc(1, sizeof *s);
    open_soak(s, ini, sizeof ini);
    printf("%d s; kept: dispatches %d s, keys %d s, notifications and silent tokens %d s\n", s->seconds,
           s->keep_s, s->keep_s + s->keep_s / 2, 2 * s->keep_s);
    fflush(stdout);
    run_load(s);
    print_samples(s);
    expect_all_level(s);
    check_nothing_lost(s, ini);
    child_stop(s->dispatcher);
    chaos_close(&s->c);
    free(s);
}
