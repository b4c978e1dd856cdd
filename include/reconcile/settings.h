/* [reconciler] once read (contracts/config.md). */
#ifndef BELFRY_RECONCILE_SETTINGS_H
#define BELFRY_RECONCILE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reconcile_settings {
    int64_t receipt_delay_ms; /* from the send to the first look */
    int64_t poll_interval_ms;
    int64_t receipt_max_age_ms;
    size_t receipt_chunk; /* ids a request */
    int64_t lease_ms;
    int64_t token_stale_after_ms;
    int64_t notification_retention_ms, dispatch_retention_ms; /* the second is not above the first */
    bool allow_short_retention;
};

#endif
