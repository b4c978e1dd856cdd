/* /livez, /readyz and /metrics on a port of their own, from a thread of their own, so that they answer
 * whatever the loops do. /livez: 200 while the process runs. /readyz: 200 or 503, and the reasons as JSON
 * (base/readiness.h). /metrics: Prometheus text; belfry_ready is what /readyz would say. Anything else 404;
 * other methods than GET and HEAD 405. */
#ifndef BELFRY_IO_ADMIN_H
#define BELFRY_IO_ADMIN_H

#include <stdint.h>

#include "base/metrics.h"
#include "base/readiness.h"
#include "base/status.h"
#include "io/settings.h"

struct admin;

struct admin_options {
    struct config_address listen;
    struct metrics *metrics;
    struct readiness *readiness;
    struct clock clock;
};

/* Listens and starts the thread. ST_STOP: the address cannot be bound. */
MUST_USE enum status admin_open(const struct admin_options *options, struct admin **admin,
                                struct fault *fault);
/* Ends the thread; waits for it. NULL is allowed. */
void admin_close(struct admin *admin);
uint16_t admin_port(const struct admin *admin);

#endif
