/* Every wait lies in [half, whole] of the doubled, capped first one, and the jitter is not always the same.
 */
#include "base/backoff.h"

#include <criterion/criterion.h>

Test(backoff, waits_double_up_to_the_cap)
{
    static const int64_t whole[] = {100, 200, 400, 800, 1600, 3000, 3000, 3000};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct backoff backoff;
        backoff_init(&backoff, 100, 3000, seed * UINT64_C(0x9e3779b97f4a7c15));
        for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
            int64_t wait = backoff_next_ms(&backoff);
            cr_assert_geq(wait, whole[i] - whole[i] / 2);
            cr_assert_leq(wait, whole[i]);
            cr_assert_eq(backoff.failures, i + 1);
        }
        backoff_reset(&backoff);
        cr_assert_leq(backoff_next_ms(&backoff), 100);
    }
}

Test(backoff, seeds_and_turns_differ)
{
    struct backoff one, two;
    int same = 0;
    backoff_init(&one, 1000, 1000, 1);
    backoff_init(&two, 1000, 1000, UINT64_C(0x123456789abcdef));
    for (int i = 0; i < 100; i++)
        same += backoff_next_ms(&one) == backoff_next_ms(&two);
    cr_assert_lt(same, 10);
}

Test(backoff, many_failures_do_not_overflow)
{
    struct backoff backoff;
    backoff_init(&backoff, 1, INT64_MAX / 4, 7);
    for (int i = 0; i < 5000; i++) {
        int64_t wait = backoff_next_ms(&backoff);
        cr_assert(wait >= 0 && wait <= INT64_MAX / 4);
    }
    backoff_init(&backoff, 1, 1, 7);
    cr_assert_leq(backoff_next_ms(&backoff), 1);
}
