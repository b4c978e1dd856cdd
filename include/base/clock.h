/* Time is injected, so that tests of due work do not sleep. */
#ifndef BELFRY_BASE_CLOCK_H
#define BELFRY_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

struct clock {
    int64_t (*wall_us)(void *context);      /* microseconds since 1970-01-01 UTC; may step */
    int64_t (*monotonic_ms)(void *context); /* for intervals and deadlines; never goes back */
    void *context;
    int64_t (*monotonic_us)(void *context); /* the same clock for durations; NULL: in whole milliseconds */
};

/* The system's clocks. */
extern const struct clock clock_system;

static inline int64_t clock_wall_us(const struct clock *clock)
{
    return clock->wall_us(clock->context);
}

static inline int64_t clock_monotonic_ms(const struct clock *clock)
{
    return clock->monotonic_ms(clock->context);
}

static inline int64_t clock_monotonic_us(const struct clock *clock)
{
    return clock->monotonic_us != NULL ? clock->monotonic_us(clock->context)
                                       : clock_monotonic_ms(clock) * 1000;
}

#endif
