/* Why this process should get no work: what /readyz answers. Each part of the program (a loop, a client)
 * has a slot and says "ready" or a reason; the process is ready when it has slots, every one is, and it is
 * not leaving. A slot with a beat is also not ready when it made no progress for beat_max_ms. Thread safe. */
#ifndef BELFRY_BASE_READINESS_H
#define BELFRY_BASE_READINESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"

enum { READINESS_SLOTS_MAX = 16, READINESS_REASON_MAX = 200 };

struct readiness;

/* NULL when the heap is empty. The clock is copied. */
struct readiness *readiness_new(const struct clock *clock);
void readiness_free(struct readiness *readiness);

/* A new slot, not ready yet ("starting"). name must live on; asserts that there is room. beat_max_ms 0: no
 * beat. */
size_t readiness_add(struct readiness *readiness, const char *name, int64_t beat_max_ms);
/* A NULL readiness is allowed and does nothing (tests). */
void readiness_ready(struct readiness *readiness, size_t slot); /* counts as a beat */
/* Ready, and yet something an operator should see (among the notes), cut like a reason. */
void readiness_ready_but(struct readiness *readiness, size_t slot, const char *note);
/* No secrets; cut at READINESS_REASON_MAX. Counts as a beat. */
void readiness_not(struct readiness *readiness, size_t slot, const char *reason);
void readiness_beat(struct readiness *readiness, size_t slot);
/* The process leaves: never ready again. */
void readiness_leave(struct readiness *readiness);

/* True when ready; out gets one line of JSON and may be NULL:
 *     {"ready":false,"reasons":[{"part":"ingest","reason":"..."}],"notes":[{"part":"provider","note":"..."}]}
 * reasons is empty when ready; a slot that is ready and has nothing to note is not named. Bytes that are not
 * printable ASCII or UTF-8 come out as '?'. */
bool readiness_check(struct readiness *readiness, struct buffer *out);

#endif
