/* [fanout] once read (contracts/config.md). */
#ifndef BELFRY_FANOUT_SETTINGS_H
#define BELFRY_FANOUT_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

struct fanout_settings {
    size_t chunk_size; /* messages a request; a window is max_concurrent_requests * chunk_size */
    size_t max_concurrent_requests;
    size_t rate_limit; /* messages a second and project */
    double rate_share; /* of rate_limit, for this process: 0 < x <= 1 */
    size_t send_attempts;
    int64_t push_max_age_ms;
    int64_t lease_ms;
    int64_t sweep_interval_ms;
    size_t batches_in_memory;
};

#endif
