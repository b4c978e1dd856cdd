/* One deflate call into a buffer that is large enough from the start. */
#include "gzip.h"

#include <limits.h>
#define ZLIB_CONST
#include <zlib.h>

enum { WINDOW_BITS = 15 + 16 /* + 16: a gzip header and trailer */, MEMORY_LEVEL = 8 };

bool gzip_pack(struct span plain, enum gzip_effort effort, struct buffer *out)
{
    if (plain.bytes > UINT_MAX / 2)
        return false;
    z_stream stream = {0};
    if (deflateInit2(&stream, (int)effort, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    size_t room = deflateBound(&stream, (uLong)plain.bytes);
    char *at = buffer_reserve(out, room);
    bool packed = false;
    if (at != NULL) {
        stream.next_in = (const Bytef *)plain.at;
        stream.avail_in = (uInt)plain.bytes;
        stream.next_out = (Bytef *)at;
        stream.avail_out = (uInt)room;
        packed = deflate(&stream, Z_FINISH) == Z_STREAM_END;
        if (packed)
            out->bytes += room - stream.avail_out;
    }
    deflateEnd(&stream);
    return packed;
}
