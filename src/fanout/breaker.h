/* The provider's breaker (contracts/provider.md): open when the provider is away as a whole; then nothing is
 * sent but one trial chunk a pause. Pure: the time is given. Private to src/fanout. */
#ifndef BELFRY_FANOUT_BREAKER_H
#define BELFRY_FANOUT_BREAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"
#include "remote/settings.h"

enum breaker_state {
    BREAKER_CLOSED,
    BREAKER_OPEN,       /* provider_failures in a row */
    BREAKER_CREDENTIALS /* refused: auth_pause at a time */
};

struct breaker {
    enum breaker_state state;
    size_t failures, failures_max; /* in a row */
    uint32_t answers;              /* so far: two refusals of one number had none between them */
    int64_t auth_pause_ms;
    struct backoff pause; /* provider_pause, doubling to provider_pause_max */
    bool trial_out;
    int64_t trial_at_ms;
};

void breaker_init(struct breaker *breaker, const struct provider_settings *settings, uint64_t seed);
/* Whether a chunk may be sent: closed, or a trial is due and none is out. */
bool breaker_lets(const struct breaker *breaker, int64_t now_ms);
/* Something changed on our side: the next trial need not wait. */
void breaker_try_now(struct breaker *breaker, int64_t now_ms);
/* The chunk being sent is the trial. */
void breaker_trial_begins(struct breaker *breaker);

/* The three ends of a chunk. trial: it was the trial. They return true when the state changed. */
bool breaker_answered(struct breaker *breaker);
bool breaker_failed(struct breaker *breaker, bool trial, int64_t now_ms);
bool breaker_refused(struct breaker *breaker, int64_t now_ms); /* credentials */

const char *breaker_state_name(enum breaker_state state); /* "closed", "open", "credentials" */

#endif
