/* Work that one process at a time does, by a lease on the database's clock. */
#ifndef BELFRY_STORE_LEASE_H
#define BELFRY_STORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "io/db.h"

struct lease {
    const char *what;
    int64_t owner;    /* random per process start */
    int64_t lease_ms; /* 0: gives it back */
};

/* Takes the lease, or makes it longer; *held false: another process has it. One autocommitted statement. */
MUST_USE enum status lease_take(struct db *db, const struct lease *lease, bool *held, struct fault *fault);

#endif
