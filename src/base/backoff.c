/* Doubling with a cap; the jitter is a small xorshift, no global state. */
#include "base/backoff.h"

#include <assert.h>

void backoff_init(struct backoff *backoff, int64_t first_ms, int64_t cap_ms, uint64_t seed)
{
    assert(first_ms >= 1 && cap_ms >= first_ms);
    *backoff = (struct backoff){.first_ms = first_ms, .cap_ms = cap_ms, .seed = seed | 1};
}

int64_t backoff_next_ms(struct backoff *backoff)
{
    int64_t whole = backoff->first_ms;
    for (unsigned i = 0; i < backoff->failures && whole < backoff->cap_ms; i++)
        whole *= 2;
    if (whole > backoff->cap_ms)
        whole = backoff->cap_ms;
    backoff->failures++;
    backoff->seed ^= backoff->seed << 13;
    backoff->seed ^= backoff->seed >> 7;
    backoff->seed ^= backoff->seed << 17;
    int64_t half = whole / 2;
    return whole - (int64_t)(backoff->seed % (uint64_t)(half + 1));
}

void backoff_reset(struct backoff *backoff)
{
    backoff->failures = 0;
}
