/* The ranges of a held batch: taken out of, put back into. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "state.h"

static struct window_range range(int32_t first, int32_t stop)
{
    return (struct window_range){.batch_id = 7, .first = first, .stop = stop};
}

static void expect(const struct held *held, const char *want)
{
    char text[1024] = "";
    size_t bytes = 0;
    for (size_t i = 0; i < held->range_count; i++)
        bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "%s%d-%d", i == 0 ? "" : " ",
                                  held->ranges[i].first, held->ranges[i].stop);
    cr_expect_str_eq(text, want);
}

static void take(struct held *held, int32_t first, int32_t stop)
{
    struct window_range taken = range(first, stop);
    cr_assert(held_has_range(held, &taken));
    held_take_range(held, &taken);
}

Test(fanout_held, what_was_taken_comes_back_in_its_place)
{
    struct held held = {.used = true, .batch_id = 7};
    held_add_range(&held, range(0, 900));
    take(&held, 0, 600);
    expect(&held, "600-900");
    held_put_back(&held, range(300, 400));
    expect(&held, "300-400 600-900");
    held_put_back(&held, range(100, 200));
    expect(&held, "100-200 300-400 600-900");
    held_put_back(&held, range(400, 500));
    expect(&held, "100-200 300-500 600-900");
    held_put_back(&held, range(500, 600));
    expect(&held, "100-200 300-900");
    held_put_back(&held, range(200, 300));
    expect(&held, "100-900");
    held_put_back(&held, range(0, 1));
    expect(&held, "0-1 100-900");
    take(&held, 0, 1);
    take(&held, 100, 900);
    expect(&held, "");
    held_put_back(&held, range(42, 43));
    expect(&held, "42-43");
}

Test(fanout_held, more_ranges_than_fit_come_back_from_the_table)
{
    struct held held = {.used = true, .batch_id = 7};
    for (int32_t i = 0; i < FANOUT_RANGES_MAX; i++)
        held_put_back(&held, range(i * 2, i * 2 + 1));
    cr_expect_eq(held.range_count, FANOUT_RANGES_MAX);
    cr_expect_not(held.partial);
    held_put_back(&held, range(1000, 1001));
    cr_expect_eq(held.range_count, FANOUT_RANGES_MAX);
    cr_expect(held.partial);
}
