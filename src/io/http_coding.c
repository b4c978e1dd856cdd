/* Content codings of replies (RFC 9110 12.5.3). In: an Accept-Encoding and a body. Out: the body as gzip,
 * where the client takes that at least as gladly as the plain one and it is shorter. Always: bounded work,
 * since all clients wait meanwhile. */
#include <string.h>
#include <strings.h>

#include "gzip.h"
#include "http_private.h"

enum {
    OVER_BYTES = 1024,              /* shorter bodies fit into a packet anyway */
    UPTO_BYTES = 256 * 1024,        /* some 3 ms of this loop's time at the fast level */
    ROOM_BYTES = UPTO_BYTES + 4096, /* zlib's bound for what cannot be packed */
    WEIGHT_ONE = 1000
};

static struct span trim(struct span text)
{
    while (text.bytes > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.bytes--;
    }
    while (text.bytes > 0 && (text.at[text.bytes - 1] == ' ' || text.at[text.bytes - 1] == '\t'))
        text.bytes--;
    return text;
}

/* Takes what stands before the next mark out of rest. */
static struct span take(struct span *rest, char mark)
{
    const char *end = memchr(rest->at, mark, rest->bytes);
    struct span part = {rest->at, end == NULL ? rest->bytes : (size_t)(end - rest->at)};
    size_t used = part.bytes + (end != NULL);
    rest->at += used;
    rest->bytes -= used;
    return trim(part);
}

/* q=0 … q=1 with at most three decimals, in thousandths; no parameter is 1; anything else is -1. */
static int weight_of(struct span text)
{
    if (text.bytes == 0)
        return WEIGHT_ONE;
    if (text.bytes < 3 || text.bytes > 7 || (text.at[0] | 32) != 'q' || text.at[1] != '=' ||
        (text.at[2] != '0' && text.at[2] != '1') || (text.bytes > 3 && text.at[3] != '.'))
        return -1;
    int weight = (text.at[2] - '0') * WEIGHT_ONE, unit = WEIGHT_ONE / 10;
    for (size_t i = 4; i < text.bytes; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return -1;
        weight += (text.at[i] - '0') * unit;
        unit /= 10;
    }
    return weight <= WEIGHT_ONE ? weight : -1;
}

static bool is_named(struct span name, const char *text)
{
    return name.bytes == strlen(text) && strncasecmp(name.at, text, name.bytes) == 0;
}

bool http_coding_takes_gzip(struct span accept)
{
    int gzip = -1, any = -1, identity = 0;
    while (accept.bytes > 0) {
        struct span each = take(&accept, ',');
        if (each.bytes == 0)
            continue;
        struct span name = take(&each, ';');
        int weight = weight_of(trim(each));
        if (weight < 0)
            return false; /* not understood: the plain body is right for everybody */
        if (is_named(name, "gzip") || is_named(name, "x-gzip"))
            gzip = weight;
        else if (is_named(name, "*"))
            any = weight;
        else if (is_named(name, "identity"))
            identity = weight;
    }
    gzip = gzip < 0 ? any : gzip;
    return gzip > 0 && gzip >= identity;
}

bool http_coding_pack(struct span accept, struct span body, struct buffer *packed)
{
    buffer_init(packed, ROOM_BYTES);
    return body.bytes > OVER_BYTES && body.bytes <= UPTO_BYTES && http_coding_takes_gzip(accept) &&
           gzip_pack(body, GZIP_FAST, packed) && packed->bytes < body.bytes;
}
