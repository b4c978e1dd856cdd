/* How many events a second one core parses: a realistic record, parsed over and over as a batch does it.
 * Not a test. Usage: bench_parse [events] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "wire/event.h"

static const char value[] =
    "{\"run_id\":\"run-2026-03-21-000123\",\"event_type\":\"meeting.assigned\",\"workspace_id\":\"ws-17\","
    "\"recipient_user_id\":\"user-004217\",\"category\":\"meetings\",\"title\":\"Weekly planning was "
    "assigned\","
    "\"body\":\"Anna gave you the meeting on Monday at 10:00, room 4.\","
    "\"data\":{\"meeting_id\":\"m-88123\",\"url\":\"/meetings/88123\",\"people\":4},"
    "\"occurred_at\":\"2026-03-21T09:00:00.123Z\",\"push\":{\"priority\":\"high\",\"ttl\":3600}}";

static double seconds(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000;
    struct arena arena;
    struct event event;
    struct fault fault;
    const struct wire_record record = {
        .value = {value, sizeof value - 1}, .timestamp_us = 1, .now_us = 2, .bytes_max = 1 << 20};
    arena_init(&arena, EVENT_ARENA_BYTES_MAX);
    double start = seconds();
    for (long i = 0; i < count; i++) {
        if (i % 1000 == 0)
            arena_reset(&arena);
        if (event_parse(&record, &arena, &event, &fault) != ST_OK) {
            printf("refused: %s %s\n", fault.code, fault.text);
            return 1;
        }
    }
    double took = seconds() - start;
    printf("%ld events of %zu bytes in %.2f s of processor time: %.0f events/s, %.0f MB/s\n", count,
           sizeof value - 1, took, (double)count / took,
           (double)count * (double)(sizeof value - 1) / took / 1e6);
    arena_done(&arena);
    return 0;
}
