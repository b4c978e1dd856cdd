/* gzip, both ways, in place: a body comes in, the same buffer holds it packed or unpacked.
 * Always bounded by the buffer's own maximum; false leaves the buffer as it was. */
#include <zlib.h>

#include "support/simulator.h"

enum { GZIP_WINDOW = 15 + 16, STEP_BYTES = 16384 };

static bool run(struct buffer *out, z_stream *stream, int (*step)(z_stream *, int), int flush)
{
    int result = Z_OK;
    while (result == Z_OK) {
        char *at = buffer_reserve(out, STEP_BYTES);
        if (at == NULL)
            return false;
        stream->next_out = (Bytef *)at;
        stream->avail_out = STEP_BYTES;
        result = step(stream, flush);
        out->bytes += STEP_BYTES - stream->avail_out;
    }
    return result == Z_STREAM_END;
}

static void take(struct buffer *body, struct buffer *out)
{
    buffer_done(body);
    *body = *out;
}

bool sim_gunzip(struct buffer *body)
{
    struct buffer out;
    z_stream stream = {.next_in = (Bytef *)body->at, .avail_in = (uInt)body->bytes};
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
        return false;
    buffer_init(&out, SIM_BODY_MAX + STEP_BYTES);
    bool good = run(&out, &stream, inflate, Z_NO_FLUSH);
    (void)inflateEnd(&stream);
    if (good)
        take(body, &out);
    else
        buffer_done(&out);
    return good;
}

bool sim_gzip(struct buffer *body)
{
    struct buffer out;
    z_stream stream = {.next_in = (Bytef *)body->at, .avail_in = (uInt)body->bytes};
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    buffer_init(&out, SIM_BODY_MAX + STEP_BYTES);
    bool good = run(&out, &stream, deflate, Z_FINISH);
    (void)deflateEnd(&stream);
    if (good)
        take(body, &out);
    else
        buffer_done(&out);
    return good;
}
