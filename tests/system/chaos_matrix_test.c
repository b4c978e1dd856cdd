/* Line 2 of issue "The dispatcher at full strength": kill -9 at every crash point of both stage tables.
 *
 * Each cell (a point's first, second or seventh hit) has 20,000 events of its own, half of them there when
 * the victim comes. Two dispatchers run: the victim with its crash point, and one that stays. All cells share
 * one database, so that a cell is also checked against all that came before it. After each kill the one left
 * behind has to bring everything to rest before the next cell begins.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/chaos.h"

enum { STAGES = 13, HITS = 3, SLICE = 200, FOLLOW_MAX = 40000 };

/* In the order of src/ingest/ingest.c and src/fanout/fanout.c; "claim" is before the statement, "claimed"
 * after its answer. House test crash_points compares this list with the sources. */
static const char *const stages[STAGES] = {"consume", "parse",   "dead_letter", "claim",   "claimed",
                                           "commit",  "sweep",   "again",       "consult", "window",
                                           "send",    "publish", "published"};
static const int hits[HITS] = {1, 2, 7};

struct cell {
    int exit_code, events;
    struct chaos_figures figures; /* Unconfirmed: of this cell alone */
    double seconds;
    bool settled, refuses;
};

/* With the simulator's account service, so that "consult" waits for an answer. */
static const char *ini_of(struct chaos *c)
{
    static char ini[1024];
    snprintf(ini, sizeof ini,
             "%ssend_attempts = 100\n[provider]\nprovider_pause = 100ms\nprovider_pause_max = "
             "500ms\n[preferences]\nurl = "
             "%.100s/preferences\n",
             CHAOS_INI, c->w.provider_url);
    return ini;
}

static int events_of_cell(void)
{
    const char *given = getenv("BELFRY_TEST_RECORDS");
    return given == NULL ? 20000 : (int)strtol(given, NULL, 10);
}

/* "again" is passed only when the provider refused something: two requests of either dispatcher a slice. */
static void refuse_one(struct chaos *c)
{
    simulator_script(&c->w, "{\"when\":{\"next\":2},\"do\":{\"status\":503,\"body\":{\"errors\":[{\"code\":"
                            "\"SERVICE_UNAVAILABLE\",\"message\":\"later\",\"isTransient\":true}]}}}");
}

/* Part of the events lies there when the victim comes; then a slice at a time until it dies, at least the
 * cell's share. */
static void feed_victim(struct chaos *c, struct child *victim, int share, struct cell *cell)
{

    int before = c->made;
    int64_t deadline = world_now_ms() + 60000;
    chaos_produce(c, share / 2);
    while (child_running(victim) && world_now_ms() < deadline) {
        if (cell->refuses)
            refuse_one(c);
        if (c->made - before < FOLLOW_MAX)
            chaos_produce(c, SLICE);
        world_sleep_ms(50);
    }
    if (cell->refuses)
        simulator_reset(&c->w); /* what is left of the refusals */
    cr_assert(!child_running(victim), "it was to be killed, but lives: see %s", victim->log);
    cell->exit_code = victim->exit_code;
    if (c->made - before < share)
        chaos_produce(c, share - (c->made - before));
    cell->events = c->made - before;
}

/* before: the figures when the cell begins, then when it ends. */
static void run_cell(struct chaos *c, const char *at, int share, struct chaos_figures *before,
                     struct cell *cell)
{
    int64_t begun = world_now_ms();
    struct child *victim = world_dispatcher_crash(&c->w, ini_of(c), at);
    feed_victim(c, victim, share, cell);
    cell->settled = chaos_settled(c, CHAOS_SETTLE_S);
    chaos_count(c, &cell->figures);
    struct chaos_figures now = cell->figures;
    cell->figures.unconfirmed -= before->unconfirmed;
    cell->figures.failed -= before->failed;
    *before = now;
    cell->seconds = (double)(world_now_ms() - begun) / 1e3;
}

static void print_cell(const char *stage, int hit, const struct cell *cell)
{
    const struct chaos_figures *figures = &cell->figures;
    printf("%-12s %4d %6s %8d %6lld %8lld %12lld %7lld  %-10s %6.1f\n", stage, hit,
           cell->exit_code == 128 + 9 ? "kill" : "?", cell->events, (long long)figures->lost,
           (long long)figures->doubled, (long long)figures->unconfirmed, (long long)figures->failed,
           figures->unbalanced == 0 ? "balance" : "DO NOT", cell->seconds);
    fflush(stdout);
    cr_expect(cell->exit_code == 128 + 9, "%s:%d left with %d", stage, hit, cell->exit_code);
    cr_expect(cell->settled, "%s:%d did not come to rest", stage, hit);
    cr_expect(figures->lost == 0, "%s:%d lost", stage, hit);
    cr_expect(figures->doubled == 0, "%s:%d doubled", stage, hit);
    cr_expect(figures->unconfirmed <= CHAOS_WINDOW, "%s:%d: more than a window", stage, hit);
    cr_expect(figures->failed == 0, "%s:%d failed otherwise", stage, hit);
    cr_expect(figures->unbalanced == 0, "%s:%d: the books", stage, hit);
}

Test(dispatcher, crash_matrix, .timeout = 580)
{
    static struct chaos c;
    struct chaos_figures figures = {0};
    int64_t begun = world_now_ms();
    chaos_open(&c, "matrix", 4, CHAOS_SHARED);
    struct child *stays = world_dispatcher(&c.w, ini_of(&c));
    printf("%-12s %4s %6s %8s %6s %8s %12s %7s  %-10s %6s\n", "stage", "hit", "end", "events", "lost",
           "doubled", "Unconfirmed", "failed", "books", "s");
    for (int i = 0; i < STAGES; i++) {
        for (int k = 0; k < HITS; k++) {
            struct cell cell = {.refuses = strcmp(stages[i], "again") == 0};
            char at[64];
            snprintf(at, sizeof at, "%s:%d", stages[i], hits[k]);
            run_cell(&c, at, events_of_cell(), &figures, &cell);
            print_cell(stages[i], hits[k], &cell);
        }
    }
    chaos_check(&c, "all cells", (int64_t)STAGES * HITS * CHAOS_WINDOW, &figures);
    printf("%d cells in %.0f s\n", STAGES * HITS, (double)(world_now_ms() - begun) / 1e3);
    child_stop(stays);
    chaos_close(&c);
}
