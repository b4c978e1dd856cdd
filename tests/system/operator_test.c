/* What an operator gets wrong, and what each binary then says and leaves with. Real binaries, Kafka and
 * Postgres. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/harness.h"

enum { OUTPUT_MAX = 8192 };

typedef void write_ini(struct world *w, const char *extra, char *path);

struct program {
    const char *binary;
    write_ini *write;
    const char *extra; /* "": all roles */
};

static const struct program programs[] = {
    {"src/bin/belfry-dispatcher", world_write_dispatcher_ini, ""},
    {"src/bin/belfry-dispatcher", world_write_dispatcher_ini, "[run]\nroles = fanout\n"},
    {"src/bin/belfry-dispatcher", world_write_dispatcher_ini, "[run]\nroles = ingest\n"},
    {"src/bin/belfry-reconciler", world_write_reconciler_ini, ""},
    {"src/bin/belfry-reader", world_write_reader_ini, ""},
};
enum { PROGRAMS = sizeof programs / sizeof programs[0] };

/* Runs each binary with this in its ini: the exit code must be this one. */
static void expect_exit(struct world *w, const char *extra, int code)
{
    for (size_t i = 0; i < PROGRAMS; i++) {
        char path[WORLD_PATH_MAX], both[512], output[OUTPUT_MAX] = "";
        snprintf(both, sizeof both, "%s%s", programs[i].extra, extra);
        programs[i].write(w, both, path);
        const char *argv[] = {"-F", path, NULL};
        cr_expect_eq(world_run(w, programs[i].binary, argv, output, sizeof output), code, "%s %s: %s",
                     programs[i].binary, both, output);
    }
}

/* A database that answers but is not fit is refused at the start, by every binary in every role. */
Test(operator, refuses_an_unfit_database)
{
    struct world w;
    char extra[300];
    world_open(&w, "op_unfit");
    world_database(&w);
    world_topics(&w, 1);
    world_simulator(&w, NULL);
    world_exec(&w, "CREATE TABLE kept AS TABLE schema_version");
    world_exec(&w, "TRUNCATE schema_version");
    expect_exit(&w, "", 4);
    world_exec(&w,
               "INSERT INTO schema_version SELECT version + 1000, oldest_ok + 1000, applied_at FROM kept");
    expect_exit(&w, "", 4);
    world_exec(&w, "TRUNCATE schema_version");
    world_exec(&w, "INSERT INTO schema_version TABLE kept");
    snprintf(extra, sizeof extra, "[database]\nuri = %.200s\n", w.uri); /* a role without belfry's settings */
    expect_exit(&w, extra, 1);
    world_close(&w);
}
