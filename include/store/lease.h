/* Work that one process at a time does, by a lease on the database's clock. */
#ifndef BELFRY_STORE_LEASE_H
#define BELFRY_STORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "io/db.h"

/* Takes the lease of `what`, or makes it longer; *held false: another process has it. lease_ms 0 gives it
 * back. One autocommitted statement. */
MUST_USE enum status lease_take(struct db *db, const char *what, int64_t owner, int64_t lease_ms, bool *held,
                                struct fault *fault);

#endif
