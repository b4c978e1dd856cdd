/* What a fillfactor of dispatches costs ingest: the dispatcher's own statement, 1,000 events a batch with two
 * devices each, for one fillfactor after the other, again and again; medians, and ratios to the first one.
 * Not a ctest:  BELFRY_TEST_POSTGRES=… build/dev/tests/bench/bench_fillfactor */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "store_fixture.h"

enum { EVENTS = 1000, BATCHES = 40, REPEATS = 7 };
static const int fillfactors[] = {45, 30, 33, 36, 40, 50, 60, 100};
enum { COUNT = sizeof fillfactors / sizeof fillfactors[0] };

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double ingest_ms(struct fixture *f, int repeat, int fillfactor)
{
    int64_t took_us = 0;
    world_exec(&f->world,
               "TRUNCATE dispatches, notifications, idempotency_keys, batches;"
               " ALTER TABLE dispatches SET (fillfactor = %d)",
               fillfactor);
    world_exec(&f->world, "CHECKPOINT");
    for (int batch = 0; batch < BATCHES; batch++) {
        for (int e = 0; e < EVENTS; e++) {
            char run[48], user[16];
            snprintf(run, sizeof run, "%d-%d-%d-%d", repeat, fillfactor, batch, e);
            snprintf(user, sizeof user, "u%d", (e * 13 + batch * 7) % 10000);
            fixture_event(f, 0, run, user);
        }
        int64_t began_us = fixture_now_us();
        struct claim_outcome outcome = fixture_claim(f);
        took_us += fixture_now_us() - began_us;
        cr_assert_eq(outcome.dispatches, 2 * EVENTS);
    }
    return (double)took_us / 1000;
}

Test(bench, fillfactor, .timeout = 600)
{
    static double took_ms[COUNT][REPEATS];
    int64_t bytes[COUNT];
    struct fixture *f = fixture_open("bench_ff", 1);
    world_exec(&f->world,
               "INSERT INTO device_tokens (token, user_id, platform) SELECT 't' || i, 'u' || i / 2,"
               " 'ios' FROM generate_series(0, 19999) i; ANALYZE device_tokens");
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        for (int i = 0; i < COUNT; i++) {
            took_ms[i][repeat] = ingest_ms(f, repeat, fillfactors[i]);
            bytes[i] = world_count(&f->world, "SELECT pg_table_size('dispatches')");
        }
    }
    for (int i = 0; i < COUNT; i++)
        qsort(took_ms[i], REPEATS, sizeof(double), compare);
    for (int i = 0; i < COUNT; i++)
        printf("fillfactor %3d: %6.0f ms (%6.0f … %6.0f), %.3f of %d; table %4.1f MiB\n", fillfactors[i],
               took_ms[i][REPEATS / 2], took_ms[i][0], took_ms[i][REPEATS - 1],
               took_ms[i][REPEATS / 2] / took_ms[0][REPEATS / 2], fillfactors[0],
               (double)bytes[i] / (1 << 20));
    fixture_close(f);
}
