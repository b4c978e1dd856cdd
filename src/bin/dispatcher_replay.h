/* --replay-dlq [--code CODE] [--since TIME] [--dry-run]: ingest/replay.h, with words for an operator. */
#ifndef BELFRY_DISPATCHER_REPLAY_H
#define BELFRY_DISPATCHER_REPLAY_H

#include "frame.h"

/* Prints a line for each record of a dry run, then how many were put back and how many were left and why,
 * also when it ends early. */
MUST_USE enum status dispatcher_replay(struct frame *frame, struct fault *fault);

#endif
