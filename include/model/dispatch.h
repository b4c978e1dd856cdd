/* A dispatch's states, the outcomes that move it, and the one table of allowed moves (design.md §3). */
#ifndef BELFRY_MODEL_DISPATCH_H
#define BELFRY_MODEL_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "model/uuid.h"

enum dispatch_state {
    DISPATCH_QUEUED,
    DISPATCH_SENT,
    DISPATCH_FAILED,
    DISPATCH_SUPPRESSED,
    DISPATCH_DELIVERED,
    DISPATCH_RECEIPT_ERROR,
    DISPATCH_EXPIRED
};
enum { DISPATCH_STATES = DISPATCH_EXPIRED + 1 };

/* A dispatch id is batch_id << 20 | ordinal. */
enum { DISPATCH_ORDINAL_BITS = 20 };

static inline int64_t dispatch_id(int64_t batch_id, uint32_t ordinal)
{
    return (int64_t)((uint64_t)batch_id << DISPATCH_ORDINAL_BITS | ordinal);
}

static inline int64_t dispatch_batch_id(int64_t id)
{
    return id >> DISPATCH_ORDINAL_BITS;
}

static inline uint32_t dispatch_ordinal(int64_t id)
{
    return (uint32_t)(id & ((1 << DISPATCH_ORDINAL_BITS) - 1));
}

/* The names of schema and topics: "queued", "receipt_error" … */
const char *dispatch_state_name(enum dispatch_state state);
bool dispatch_state_parse(struct span name, enum dispatch_state *state);

/* Whether an outcome moves a dispatch that is in `from` with `from_error` (NULL or "" when none) to `to` with
 * `to_error`. Final states never move; failed/Unconfirmed gives way to later evidence. */
bool dispatch_may_move(enum dispatch_state from, const char *from_error, enum dispatch_state to,
                       const char *to_error);

/* A settled outcome's version: what comes later for the same dispatch has a higher one. 0 where the state is
 * not final; 1 for failed/Unconfirmed, the only final state that gives way; 2 for the others. */
int dispatch_version(enum dispatch_state state, const char *error);

/* The codes of ours; any other text is the provider's own. */
#define DISPATCH_INVALID_TOKEN        "InvalidToken"
#define DISPATCH_MESSAGE_TOO_BIG      "MessageTooBig"
#define DISPATCH_TICKET_MISMATCH      "TicketMismatch"
#define DISPATCH_UNCONFIRMED          "Unconfirmed"
#define DISPATCH_PROVIDER_UNAVAILABLE "ProviderUnavailable"
#define DISPATCH_RATE_LIMITED         "RateLimited"
#define DISPATCH_PROVIDER_REJECTED    "ProviderRejected"
#define DISPATCH_NOT_REGISTERED       "DeviceNotRegistered" /* the provider's; the only one that disables */
#define DISPATCH_PREFERENCE           "Preference"
#define DISPATCH_EXPIRED_UNSENT       "Expired"
#define DISPATCH_PUSH_OFF             "PushOff"
#define DISPATCH_DEVICE_CHANGED       "DeviceChanged"

enum { DISPATCH_ERROR_MAX = 64, DISPATCH_TICKET_MAX = 128, DISPATCH_DETAIL_MAX = 200 };

/* One record of belfry.receipts (contracts/events.md). Text as spans, owned by whoever made it. No token, no
 * title and no body ever stands in one. */
struct outcome {
    int64_t dispatch_id;
    struct uuid notification_id;
    struct span workspace_id, recipient_user_id;
    int64_t device_id;
    enum dispatch_state outcome; /* DISPATCH_SENT, _FAILED or _SUPPRESSED */
    int attempt;                 /* counted from 1 */
    struct span ticket;          /* empty when none */
    struct span error;           /* empty when none */
    struct span detail;          /* short, cleaned; empty when none */
    struct span traceparent;     /* travels as a record header; empty when none */
    int64_t at_us;
};

#endif
