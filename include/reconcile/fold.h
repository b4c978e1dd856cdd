/* Several outcomes of one dispatch in a batch -> where they leave it. UPDATE … FROM would apply only one of
 * them, and not the first: so they are folded here, through the table of model/dispatch.c, in arrival order.
 */
#ifndef BELFRY_RECONCILE_FOLD_H
#define BELFRY_RECONCILE_FOLD_H

#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"
#include "model/dispatch.h"
#include "store/outcome.h"

struct fold {
    struct outcome_item *items; /* by dispatch id, then notification, then device: each once */
    size_t count;
};

/* outcomes in arrival order. Items live in the arena, their text is that of the outcomes. ST_RETRY "memory":
 * the arena is full. */
MUST_USE enum status fold_outcomes(const struct outcome *outcomes, size_t count, struct arena *arena,
                                   struct fold *fold, struct fault *fault);

#endif
