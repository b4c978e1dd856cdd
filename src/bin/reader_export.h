/* `belfry-reader export --feed F --workspace W --user U [--format csv] -o FILE`: a whole export into a file.
 */
#ifndef BELFRY_BIN_READER_EXPORT_H
#define BELFRY_BIN_READER_EXPORT_H

#include "feed/feed.h"
#include "frame.h"

/* FILE is there only when all of it is: it is written as FILE.part and renamed at the end. Prints a line with
 * the bytes. ST_REJECT: usage (exit 2). */
MUST_USE enum status reader_export(const struct frame *frame, const struct feed_setup *setup,
                                   struct fault *fault);

#endif
