/* A batch of device records (contracts/events.md, belfry.devices) together with its offsets, in one fenced
 * statement: all or nothing. Of several records for one token the newest wins (by `at`, then the last); one
 * older than the row's last change is ignored; every change stands in device_history. */
#ifndef BELFRY_STORE_DEVICES_H
#define BELFRY_STORE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "io/db.h"
#include "model/event.h"
#include "store/offsets.h"

struct devices_batch {
    const struct offsets_part *parts; /* at least one; every change's partition is among them */
    size_t part_count;
    const struct device_change *const *changes; /* in consumption order; may be none */
    size_t change_count;
};

struct devices_outcome {
    bool moved; /* false: the fence failed and nothing happened */
    int64_t registered, moved_owner, disabled, seen, ignored;
};

struct devices; /* scope and parameter buffer; one thread */

/* scope's texts must outlive it. NULL: out of memory. */
struct devices *devices_new(const struct offsets_scope *scope);
void devices_free(struct devices *devices);

/* As claim_send, claim_finish and claim_run. */
MUST_USE enum status devices_send(struct devices *devices, struct db *db, const struct devices_batch *batch,
                                  uint64_t tag, struct fault *fault);
MUST_USE enum status devices_finish(struct db_answer *answer, struct devices_outcome *outcome,
                                    struct fault *fault);
MUST_USE enum status devices_run(struct devices *devices, struct db *db, const struct devices_batch *batch,
                                 struct devices_outcome *outcome, struct fault *fault);

#endif
