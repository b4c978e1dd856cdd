/* Retry-After (RFC 9110 §10.2.3): whole seconds or an HTTP date. Private to src/remote. */
#ifndef BELFRY_REMOTE_RETRY_AFTER_H
#define BELFRY_REMOTE_RETRY_AFTER_H

#include <stdint.h>

#include "base/span.h"

/* Milliseconds from now, 0 for a time past, at most cap_ms; -1: not readable ("-5", "120junk", ""). */
int64_t retry_after_ms(struct span value, int64_t now_us, int64_t cap_ms);

#endif
