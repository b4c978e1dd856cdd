/* CLOCK_REALTIME and CLOCK_MONOTONIC behind the injected interface. */
#include "base/clock.h"

#include <time.h>

static int64_t system_wall_us(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t system_monotonic_us(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t system_monotonic_ms(void *context)
{
    return system_monotonic_us(context) / 1000;
}

const struct clock clock_system = {
    .wall_us = system_wall_us, .monotonic_ms = system_monotonic_ms, .monotonic_us = system_monotonic_us};
