/* The bounded queue between ingest (thread 1) and fan-out (thread 2): ids of batches just committed with this
 * process as their owner. Only ids travel: content and tokens are read by the window's own statement. When it
 * is full a batch is committed without an owner and fan-out finds it in the table when there is room. */
#ifndef BELFRY_MODEL_HANDOVER_H
#define BELFRY_MODEL_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct handover;

struct handover_batch {
    int64_t batch_id;
    bool urgent;
    uint32_t unsent; /* how many dispatches are to be sent */
};

enum status handover_new(int batches_max, struct handover **handover, struct fault *fault) MUST_USE;
void handover_free(struct handover *handover);

/* Reserves room for n batches before the commit; false when there is not so much. Each reserved place is used
 * up by handover_put or given back by handover_release. */
bool handover_reserve(struct handover *handover, int n);
void handover_release(struct handover *handover, int n);
/* Uses up one reserved place. Wakes a waiting taker. */
void handover_put(struct handover *handover, struct handover_batch batch);
/* Takes the oldest urgent one, else the oldest; waits at most timeout_ms. False when there was none. The
 * place stays taken until handover_release: batches held by fan-out count against the bound too. */
bool handover_take(struct handover *handover, int timeout_ms, struct handover_batch *batch);
/* Wakes a waiting taker for ever (shutdown); nothing can be reserved any more. */
void handover_stop(struct handover *handover);

#endif
