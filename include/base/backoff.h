/* Capped, jittered waits: the n-th wait is uniform in [half, whole] of min(cap, first * 2^n). */
#ifndef BELFRY_BASE_BACKOFF_H
#define BELFRY_BASE_BACKOFF_H

#include <stdint.h>

struct backoff {
    int64_t first_ms, cap_ms; /* first_ms >= 1, cap_ms >= first_ms */
    unsigned failures;        /* in a row */
    uint64_t seed;            /* state of the jitter; any value */
};

void backoff_init(struct backoff *backoff, int64_t first_ms, int64_t cap_ms, uint64_t seed);
/* The next wait in milliseconds; counts a failure. */
int64_t backoff_next_ms(struct backoff *backoff);
/* After a success. */
void backoff_reset(struct backoff *backoff);

#endif
