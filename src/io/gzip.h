/* gzip of one body (RFC 1952). zlib lives behind this. Private to src/io. */
#ifndef BELFRY_IO_GZIP_H
#define BELFRY_IO_GZIP_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/span.h"

enum gzip_effort { GZIP_FAST = 1, GZIP_SMALL = 6 }; /* zlib's levels */

/* Appends the gzip of plain. False: no memory or past the buffer's limit; what was appended is then void. */
bool gzip_pack(struct span plain, enum gzip_effort effort, struct buffer *out);

/* gzip of what comes piece by piece, in some 70 KiB, however much that is. */
struct gzip_stream;
enum gzip_mark {
    GZIP_MORE,  /* more comes: zlib may keep what it has */
    GZIP_FLUSH, /* all that was pushed can be unpacked from what is out */
    GZIP_END    /* nothing comes any more */
};

/* NULL: no memory. */
struct gzip_stream *gzip_stream_new(enum gzip_effort effort);
void gzip_stream_free(struct gzip_stream *stream);
/* Takes from the front of *plain what room bytes at out allow; *made is what was put there. True: all was
 * taken and mark is done; false: again with the same mark and more room. */
bool gzip_stream_push(struct gzip_stream *stream, struct span *plain, enum gzip_mark mark, char *out,
                      size_t room, size_t *made);

#endif
