/* The one-shots of belfry-dispatcher: --create-topics, --check-events FILE, --seek
 * TOPIC:PARTITION=OFFSET|end. */
#ifndef BELFRY_DISPATCHER_ONCE_H
#define BELFRY_DISPATCHER_ONCE_H

#include <stdbool.h>

#include "frame.h"

/* As frame_program.once. Exit codes: 0 done · 1 it failed, or a line of the file is no event · 2 usage. */
MUST_USE enum status dispatcher_once(struct frame *frame, bool *handled, enum exit_code *code,
                                     struct fault *fault);

#endif
