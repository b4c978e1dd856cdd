/* A body: one deflate call into a buffer that is large enough from the start. A stream: a small window, since
 * many may be open at once. */
#include "gzip.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#define ZLIB_CONST
#include <zlib.h>

enum { WINDOW_BITS = 15 + 16 /* + 16: a gzip header and trailer */, MEMORY_LEVEL = 8 };
/* 4 << 13 for the window and 512 << 6 for the rest: 64 KiB. */
enum { STREAM_WINDOW_BITS = 13 + 16, STREAM_MEMORY_LEVEL = 6 };

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

struct gzip_stream {
    z_stream z;
};

struct gzip_stream *gzip_stream_new(enum gzip_effort effort)
{
    struct gzip_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL || deflateInit2(&stream->z, (int)effort, Z_DEFLATED, STREAM_WINDOW_BITS,
                                       STREAM_MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK)
        return stream;
    free(stream);
    return NULL;
}

void gzip_stream_free(struct gzip_stream *stream)
{
    if (stream == NULL)
        return;
    deflateEnd(&stream->z);
    free(stream);
}

/* The library's shape of a step. NOLINTNEXTLINE(readability-function-size) */
bool gzip_stream_push(struct gzip_stream *stream, struct span *plain, enum gzip_mark mark, char *out,
                      size_t room, size_t *made)
{
    static const int flushes[] = {
        [GZIP_MORE] = Z_NO_FLUSH, [GZIP_FLUSH] = Z_SYNC_FLUSH, [GZIP_END] = Z_FINISH};
    z_stream *z = &stream->z;
    uInt taken = plain->bytes < UINT_MAX ? (uInt)plain->bytes : UINT_MAX;
    *made = 0;
    if (room == 0)
        return false;
    z->next_in = (const Bytef *)plain->at;
    z->avail_in = taken;
    z->next_out = (Bytef *)out;
    z->avail_out = room < UINT_MAX ? (uInt)room : UINT_MAX;
    uInt out_room = z->avail_out;
    int code = deflate(z, flushes[mark]);
    assert(code != Z_STREAM_ERROR);
    taken -= z->avail_in;
    plain->at += taken;
    plain->bytes -= taken;
    *made = out_room - z->avail_out;
    if (mark == GZIP_END)
        return code == Z_STREAM_END;
    return plain->bytes == 0 && z->avail_out > 0;
}
