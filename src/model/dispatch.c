/* The transition table of design.md §3, in the code's own form; the documentation's is tested against it. */
#include "model/dispatch.h"

#include <assert.h>
#include <string.h>

static const char *const names[DISPATCH_STATES] = {
    [DISPATCH_QUEUED] = "queued",       [DISPATCH_SENT] = "sent",
    [DISPATCH_FAILED] = "failed",       [DISPATCH_SUPPRESSED] = "suppressed",
    [DISPATCH_DELIVERED] = "delivered", [DISPATCH_RECEIPT_ERROR] = "receipt_error",
    [DISPATCH_EXPIRED] = "expired",
};

static const bool moves[DISPATCH_STATES][DISPATCH_STATES] = {
    [DISPATCH_QUEUED] = {[DISPATCH_SENT] = true, [DISPATCH_FAILED] = true, [DISPATCH_SUPPRESSED] = true},
    [DISPATCH_SENT] =
        {[DISPATCH_DELIVERED] = true, [DISPATCH_RECEIPT_ERROR] = true, [DISPATCH_EXPIRED] = true},
};

const char *dispatch_state_name(enum dispatch_state state)
{
    assert((int)state >= 0 && (int)state < DISPATCH_STATES);
    return names[state];
}

bool dispatch_state_parse(struct span name, enum dispatch_state *state)
{
    for (int i = 0; i < DISPATCH_STATES; i++) {
        if (span_is(name, names[i])) {
            *state = (enum dispatch_state)i;
            return true;
        }
    }
    return false;
}

static bool is_unconfirmed(enum dispatch_state state, const char *error)
{
    return state == DISPATCH_FAILED && error != NULL && strcmp(error, DISPATCH_UNCONFIRMED) == 0;
}

bool dispatch_may_move(enum dispatch_state from, const char *from_error, enum dispatch_state to,
                       const char *to_error)
{
    if (is_unconfirmed(from, from_error))
        return moves[DISPATCH_QUEUED][to] && !is_unconfirmed(to, to_error);
    return moves[from][to];
}

int dispatch_version(enum dispatch_state state, const char *error)
{
    if (state == DISPATCH_QUEUED || state == DISPATCH_SENT)
        return 0;
    return is_unconfirmed(state, error) ? 1 : 2;
}
