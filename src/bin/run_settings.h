/* [run] once read (contracts/config.md): what all three binaries have. */
#ifndef BELFRY_RUN_SETTINGS_H
#define BELFRY_RUN_SETTINGS_H

#include <stdint.h>

#include "base/log.h"

/* Bits, in the order of [run] roles' choices. */
enum run_role { ROLE_INGEST = 1, ROLE_FANOUT = 2 };

struct run_settings {
    unsigned roles; /* dispatcher only: ROLE_INGEST | ROLE_FANOUT */
    int64_t shutdown_timeout_ms;
    enum log_level log_level;
    enum log_format log_format;
};

#endif
