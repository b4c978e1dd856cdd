/* The rate with a clock of the test's own: what the provider sees in any second. */
#include "rate.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { ARRIVALS_MAX = 20000 };

struct arrival {
    int64_t at_ms;
    size_t messages;
};

/* The most messages in any window of a second, both ends of it counted in. */
static size_t busiest_second(const struct arrival *arrivals, size_t count)
{
    size_t most = 0, sum = 0, from = 0;
    for (size_t i = 0; i < count; i++) {
        sum += arrivals[i].messages;
        while (arrivals[from].at_ms < arrivals[i].at_ms - 999)
            sum -= arrivals[from++].messages;
        most = sum > most ? sum : most;
    }
    return most;
}

struct flight {
    int64_t sent_ms, seen_ms, answer_ms;
    size_t messages;
    bool out;
};

/* Sends chunks as fast as the rate lets, each seen and answered after a time of its own; how many messages.
 */
static size_t drive(double limit, size_t chunk, int64_t for_ms, int64_t answer_max_ms, size_t *busiest)
{
    static struct arrival arrivals[ARRIVALS_MAX];
    static struct rate rate;
    struct flight flights[64] = {{0}};
    size_t count = 0, messages = 0;
    uint32_t random = 12345;
    rate_init(&rate, limit, 1);
    for (int64_t now_ms = 1000000; now_ms < 1000000 + for_ms; now_ms++) {
        for (size_t i = 0; i < 64; i++) {
            struct flight *flight = &flights[i];
            if (flight->out && flight->answer_ms <= now_ms) {
                rate_settle(&rate, 0, flight->messages, now_ms);
                flight->out = false;
            }
            if (flight->out || !rate_take(&rate, 0, chunk, now_ms))
                continue;
            random = random * 1664525 + 1013904223;
            int64_t seen_ms = (int64_t)(random >> 8) % (answer_max_ms + 1);
            *flight = (struct flight){now_ms, now_ms + seen_ms, now_ms + answer_max_ms, chunk, true};
            cr_assert_lt(count, ARRIVALS_MAX);
            size_t at = count++; /* in the order they are seen */
            while (at > 0 && arrivals[at - 1].at_ms > flight->seen_ms) {
                arrivals[at] = arrivals[at - 1];
                at--;
            }
            arrivals[at] = (struct arrival){flight->seen_ms, chunk};
            messages += chunk;
        }
    }
    *busiest = busiest_second(arrivals, count);
    return messages;
}

Test(fanout_rate, no_second_sees_more_than_the_limit)
{
    static const struct {
        double limit;
        size_t chunk;
        int64_t answer_ms;
    } runs[] = {{600, 100, 0},   {600, 100, 20}, {600, 100, 90}, {600, 37, 20}, {600, 1, 5},
                {3000, 100, 15}, {50, 50, 30},   {1, 1, 10},     {300, 100, 50}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        size_t busiest = 0;
        size_t sent = drive(runs[i].limit, runs[i].chunk, 20000, runs[i].answer_ms, &busiest);
        printf("limit %g, chunks of %zu, answers up to %lld ms: %zu in 20 s, busiest second %zu\n",
               runs[i].limit, runs[i].chunk, (long long)runs[i].answer_ms, sent, busiest);
        cr_expect_leq(busiest, (size_t)runs[i].limit);
        cr_expect_geq((double)sent, runs[i].limit * 20 * 0.85, "the limit is used");
    }
}

Test(fanout_rate, no_burst_after_a_rest)
{
    struct rate rate;
    rate_init(&rate, 600, 1);
    int64_t now_ms = 5000000; /* after a long rest */
    size_t at_once = 0;
    while (rate_take(&rate, 0, 100, now_ms))
        at_once += 100;
    printf("after a rest at a limit of 600/s: %zu messages at once\n", at_once);
    cr_expect_eq(at_once, 100, "one chunk, not a second's worth");
    cr_expect_not(rate_take(&rate, 0, 100, now_ms + 110));
    cr_expect(rate_take(&rate, 0, 100, now_ms + 120), "half a tick is made good");
}

Test(fanout_rate, projects_have_a_rate_each_and_the_unknown_counts_for_all)
{
    struct rate rate;
    rate_init(&rate, 100, 1);
    cr_expect(rate_take(&rate, 0, 100, 1000));
    rate_add_project(&rate);
    rate_add_project(&rate);
    cr_expect_not(rate_take(&rate, 1, 1, 1900), "what left before may have been its");
    rate_settle(&rate, 0, 100, 1010);
    cr_expect(rate_take(&rate, 1, 100, 3000));
    cr_expect(rate_take(&rate, 2, 100, 3000), "its neighbour's messages are not its");
    cr_expect_not(rate_take(&rate, 0, 1, 3500), "the unknown may be of either");
    rate_settle(&rate, 1, 100, 3010);
    rate_settle(&rate, 2, 100, 3010);
    cr_expect(rate_take(&rate, 0, 1, 5000));
    printf("limit 100/s: projects 1 and 2 had 100 each in one second, the unknown had to wait for both\n");
}

Test(fanout_rate, retry_after_or_a_pause_of_our_own)
{
    struct rate rate;
    rate_init(&rate, 600, 7);
    cr_expect_eq(rate_pause(&rate, 0, 5000, 10000), 5000);
    cr_expect(rate_is_paused(&rate, 0, 14999));
    cr_expect(rate_all_paused(&rate, 14999));
    cr_expect_not(rate_take(&rate, 0, 1, 14999));
    cr_expect_not(rate_is_paused(&rate, 0, 15000));
    cr_expect_eq(rate_pause(&rate, 0, 0, 20000), 0, "past: at once");
    cr_expect_not(rate_is_paused(&rate, 0, 20000));
    rate_good(&rate, 0);
    int64_t first_ms = rate_pause(&rate, 0, -1, 30000), second_ms = rate_pause(&rate, 0, -1, 40000);
    cr_expect(first_ms >= 500 && first_ms <= 1000, "%lld", (long long)first_ms);
    cr_expect(second_ms >= 1000 && second_ms <= 2000, "%lld", (long long)second_ms);
    rate_good(&rate, 0);
    cr_expect_leq(rate_pause(&rate, 0, -1, 50000), 1000, "tickets begin it anew");
}

Test(fanout_rate, a_429_slows_and_tickets_bring_it_back)
{
    struct rate rate;
    rate_init(&rate, 600, 1);
    rate_slow(&rate, 0);
    cr_expect_eq(rate_request_max(&rate, 0), 300);
    for (int i = 0; i < 10; i++)
        rate_slow(&rate, 0);
    cr_expect_eq(rate_request_max(&rate, 0), 37, "a sixteenth at least");
    for (int i = 0; i < 19; i++)
        rate_good(&rate, 0);
    cr_expect_eq(rate_request_max(&rate, 0), 600);
    rate_init(&rate, 1, 1);
    rate_slow(&rate, 0);
    cr_expect_eq(rate_request_max(&rate, 0), 1, "never none");
}
