/* The provider's breaker, with a clock of the test's own. */
#include "breaker.h"

#include <criterion/criterion.h>

static struct breaker make(void)
{
    const struct provider_settings settings = {.auth_pause_ms = 30000,
                                               .provider_failures = 5,
                                               .provider_pause_ms = 1000,
                                               .provider_pause_max_ms = 8000};
    struct breaker breaker;
    breaker_init(&breaker, &settings, 3);
    return breaker;
}

static void open_it(struct breaker *breaker, int64_t now_ms)
{
    for (int i = 0; i < 4; i++)
        cr_assert_not(breaker_failed(breaker, false, now_ms));
    cr_assert(breaker_lets(breaker, now_ms));
    cr_assert(breaker_failed(breaker, false, now_ms), "the fifth in a row opens it");
    cr_assert_eq(breaker->state, BREAKER_OPEN);
}

Test(fanout_breaker, an_answer_between_failures_keeps_it_closed)
{
    struct breaker breaker = make();
    for (int i = 0; i < 20; i++) {
        cr_expect_not(breaker_failed(&breaker, false, i));
        if (i % 4 == 3)
            cr_expect_not(breaker_answered(&breaker));
    }
    cr_expect_eq(breaker.state, BREAKER_CLOSED);
}

Test(fanout_breaker, one_trial_a_pause_that_doubles_to_its_maximum)
{
    static const int64_t whole_ms[] = {1000, 2000, 4000, 8000, 8000, 8000};
    struct breaker breaker = make();
    int64_t now_ms = 100;
    open_it(&breaker, now_ms);
    for (size_t i = 0; i < sizeof whole_ms / sizeof whole_ms[0]; i++) {
        int64_t pause_ms = breaker.trial_at_ms - now_ms;
        cr_expect(pause_ms >= whole_ms[i] / 2 && pause_ms <= whole_ms[i], "pause %zu: %lld", i,
                  (long long)pause_ms);
        cr_expect_not(breaker_lets(&breaker, breaker.trial_at_ms - 1));
        now_ms = breaker.trial_at_ms;
        cr_expect(breaker_lets(&breaker, now_ms));
        breaker_trial_begins(&breaker);
        cr_expect_not(breaker_lets(&breaker, now_ms + 100000), "one at a time");
        cr_expect_not(breaker_failed(&breaker, false, now_ms), "a late one from before says nothing");
        cr_expect_not(breaker_lets(&breaker, now_ms + 100000));
        cr_expect_not(breaker_failed(&breaker, true, now_ms), "open still");
    }
    breaker_trial_begins(&breaker);
    cr_expect(breaker_answered(&breaker));
    cr_expect_eq(breaker.state, BREAKER_CLOSED);
    cr_expect(breaker_lets(&breaker, now_ms));
    open_it(&breaker, now_ms);
    cr_expect_leq(breaker.trial_at_ms - now_ms, 1000, "the pauses begin anew");
}

Test(fanout_breaker, credentials_open_it_at_once_for_auth_pause_at_a_time)
{
    struct breaker breaker = make();
    cr_expect(breaker_refused(&breaker, 1000));
    cr_expect_eq(breaker.state, BREAKER_CREDENTIALS);
    for (int64_t now_ms = 1000; now_ms < 200000; now_ms += 30000) {
        cr_expect_not(breaker_lets(&breaker, now_ms + 29999));
        cr_expect(breaker_lets(&breaker, now_ms + 30000));
        breaker_trial_begins(&breaker);
        cr_expect_not(breaker_refused(&breaker, now_ms + 30000));
    }
    breaker_trial_begins(&breaker);
    cr_expect(breaker_failed(&breaker, true, 300000), "away now: another reason, another pause");
    cr_expect_eq(breaker.state, BREAKER_OPEN);
    cr_expect(breaker_answered(&breaker));
}
