/* belfry-reconciler --audit. */
#ifndef BELFRY_RECONCILER_AUDIT_H
#define BELFRY_RECONCILER_AUDIT_H

#include <stdbool.h>

#include "frame.h"

/* As frame_program.once. Prints the report to stdout. Exit codes: 0 balanced and nothing found · 3 something
 * was found · 1 it could not look · 2 usage or configuration · 4 schema. */
MUST_USE enum status reconciler_audit(struct frame *frame, bool *handled, enum exit_code *code,
                                      struct fault *fault);

#endif
