/* Ready is: every part says so, none is stuck, and nobody leaves. */
#include "base/readiness.h"

#include <criterion/criterion.h>

static int64_t now_ms;

static int64_t fake_ms(void *context)
{
    (void)context;
    return now_ms;
}

static const struct clock clock = {.monotonic_ms = fake_ms};

#define READY "{\"ready\":true,\"reasons\":[],\"notes\":[]}\n"

static void expect(struct readiness *readiness, bool ready, const char *text)
{
    struct buffer out;
    buffer_init(&out, 4096);
    cr_expect_eq(readiness_check(readiness, &out), ready);
    cr_expect_str_eq(out.at == NULL ? "" : out.at, text);
    cr_expect_eq(readiness_check(readiness, NULL), ready);
    buffer_done(&out);
}

Test(readiness, every_part_has_a_say)
{
    struct readiness *readiness = readiness_new(&clock);
    expect(readiness, false,
           "{\"ready\":false,\"reasons\":[{\"part\":\"process\",\"reason\":\"starting\"}],\"notes\":[]}\n");
    size_t kafka = readiness_add(readiness, "kafka", 0);
    size_t database = readiness_add(readiness, "database", 0);
    expect(readiness, false,
           "{\"ready\":false,\"reasons\":[{\"part\":\"kafka\",\"reason\":\"starting\"},"
           "{\"part\":\"database\",\"reason\":\"starting\"}],\"notes\":[]}\n");
    readiness_ready(readiness, kafka);
    readiness_not(readiness, database, "connection refused");
    expect(readiness, false,
           "{\"ready\":false,\"reasons\":[{\"part\":\"database\",\"reason\":\"connection refused\"}],"
           "\"notes\":[]}\n");
    readiness_ready(readiness, database);
    expect(readiness, true, READY);
    readiness_ready_but(readiness, database, "a replica");
    expect(readiness, true,
           "{\"ready\":true,\"reasons\":[],\"notes\":[{\"part\":\"database\",\"note\":\"a replica\"}]}\n");
    readiness_ready(readiness, database);
    expect(readiness, true, READY);
    readiness_leave(readiness);
    expect(readiness, false,
           "{\"ready\":false,\"reasons\":[{\"part\":\"process\",\"reason\":\"leaving\"}],\"notes\":[]}\n");
    readiness_free(readiness);
}

Test(readiness, a_part_without_a_beat_is_stuck)
{
    now_ms = 1000;
    struct readiness *readiness = readiness_new(&clock);
    size_t loop = readiness_add(readiness, "ingest", 30000);
    readiness_ready(readiness, loop);
    now_ms += 30000;
    expect(readiness, true, READY);
    now_ms += 1;
    expect(readiness, false,
           "{\"ready\":false,\"reasons\":[{\"part\":\"ingest\",\"reason\":\"no progress for 30 s\"}],"
           "\"notes\":[]}\n");
    readiness_beat(readiness, loop);
    expect(readiness, true, READY);
    readiness_free(readiness);
}

Test(readiness, a_reason_is_always_json)
{
    struct readiness *readiness = readiness_new(&clock);
    size_t slot = readiness_add(readiness, "database", 0);
    readiness_not(readiness, slot, "role \"x\\y\"\nis \x01 missing");
    expect(readiness, false,
           "{\"ready\":false,\"reasons\":[{\"part\":\"database\",\"reason\":\"role \\\"x\\\\y\\\" is ? "
           "missing\"}],"
           "\"notes\":[]}\n");
    readiness_not(readiness, slot, "cut \xc3");
    expect(readiness, false,
           "{\"ready\":false,\"reasons\":[{\"part\":\"database\",\"reason\":\"cut ?\"}],\"notes\":[]}\n");
    readiness_free(readiness);
}

Test(readiness, null_is_allowed)
{
    readiness_ready(NULL, readiness_add(NULL, "x", 0));
    readiness_not(NULL, 0, "x");
    readiness_ready_but(NULL, 0, "x");
    readiness_beat(NULL, 0);
    readiness_leave(NULL);
    readiness_free(NULL);
}
