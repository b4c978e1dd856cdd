/* The body of `read up to`: {"up_to":"<cursor>"} (contracts/reader-api.md). */
#ifndef BELFRY_WIRE_UP_TO_H
#define BELFRY_WIRE_UP_TO_H

#include "base/span.h"
#include "base/status.h"
#include "wire/cursor.h"

/* cursor holds CURSOR_TEXT_MAX + 1 bytes. ST_REJECT invalid_body: not that object, or more in it;
 * invalid_cursor: a text that no cursor has. ST_RETRY "memory". */
MUST_USE enum status up_to_parse(struct span body, char *cursor, struct fault *fault);

#endif
