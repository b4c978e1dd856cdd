/* gzip of one body (RFC 1952). zlib lives behind this. Private to src/io. */
#ifndef BELFRY_IO_GZIP_H
#define BELFRY_IO_GZIP_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/span.h"

enum gzip_effort { GZIP_FAST = 1, GZIP_SMALL = 6 }; /* zlib's levels */

/* Appends the gzip of plain. False: no memory or past the buffer's limit; what was appended is then void. */
bool gzip_pack(struct span plain, enum gzip_effort effort, struct buffer *out);

#endif
