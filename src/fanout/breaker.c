/* In: how chunks ended. Out: whether another may leave. Always holds: while open at most one chunk is out
 * that left after the opening; only an answer closes it. A crash here: the next process begins closed and
 * meets provider_failures failures anew. */
#include "breaker.h"

void breaker_init(struct breaker *breaker, const struct provider_settings *settings, uint64_t seed)
{
    *breaker = (struct breaker){.failures_max = settings->provider_failures,
                                .auth_pause_ms = settings->auth_pause_ms};
    int64_t cap_ms = settings->provider_pause_max_ms;
    if (cap_ms < settings->provider_pause_ms)
        cap_ms = settings->provider_pause_ms;
    backoff_init(&breaker->pause, settings->provider_pause_ms, cap_ms, seed);
}

bool breaker_lets(const struct breaker *breaker, int64_t now_ms)
{
    return breaker->state == BREAKER_CLOSED || (!breaker->trial_out && now_ms >= breaker->trial_at_ms);
}

void breaker_try_now(struct breaker *breaker, int64_t now_ms)
{
    if (breaker->trial_at_ms > now_ms)
        breaker->trial_at_ms = now_ms;
}

void breaker_trial_begins(struct breaker *breaker)
{
    breaker->trial_out = true;
}

bool breaker_answered(struct breaker *breaker)
{
    bool changed = breaker->state != BREAKER_CLOSED;
    breaker->state = BREAKER_CLOSED;
    breaker->failures = 0;
    breaker->answers++;
    breaker->trial_out = false;
    backoff_reset(&breaker->pause);
    return changed;
}

bool breaker_failed(struct breaker *breaker, bool trial, int64_t now_ms)
{
    breaker->failures++;
    if (trial)
        breaker->trial_out = false;
    bool opens = breaker->state == BREAKER_CLOSED && breaker->failures >= breaker->failures_max;
    if (!opens && !trial)
        return false; /* closed still; or it left before the opening and says nothing new */
    bool changed = breaker->state != BREAKER_OPEN;
    breaker->state = BREAKER_OPEN;
    breaker->trial_at_ms = now_ms + backoff_next_ms(&breaker->pause);
    return changed;
}

bool breaker_refused(struct breaker *breaker, int64_t now_ms)
{
    bool changed = breaker->state != BREAKER_CREDENTIALS;
    breaker->state = BREAKER_CREDENTIALS;
    breaker->trial_out = false;
    breaker->trial_at_ms = now_ms + breaker->auth_pause_ms;
    return changed;
}

const char *breaker_state_name(enum breaker_state state)
{
    static const char *const names[] = {
        [BREAKER_CLOSED] = "closed", [BREAKER_OPEN] = "open", [BREAKER_CREDENTIALS] = "credentials"};
    return names[state];
}
