/* A request target in, path and decoded parameters out (RFC 3986, RFC 9112 §3.2). The path stays raw: only
 * the router knows where its components end. Parameters keep their order and their repeats. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hex.h"
#include "http_private.h"

bool http_percent_decode(struct span component, bool plus_is_blank, char *out, size_t *bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < component.bytes; i++) {
        char byte = component.at[i];
        if (byte == '%') {
            if (component.bytes - i < 3)
                return false;
            int first = hex_value(component.at[i + 1]), second = hex_value(component.at[i + 2]);
            if (first < 0 || second < 0)
                return false;
            byte = (char)(first * 16 + second);
            i += 2;
        } else if (byte == '+' && plus_is_blank) {
            byte = ' ';
        }
        out[used++] = byte;
    }
    *bytes = used;
    return true;
}

/* What no client needs and proxies differ in: control characters and blanks, a broken percent code, %00. */
static bool is_readable(struct span target)
{
    for (size_t i = 0; i < target.bytes; i++) {
        if ((unsigned char)target.at[i] <= ' ' || target.at[i] == 0x7f)
            return false;
        if (target.at[i] != '%')
            continue;
        if (target.bytes - i < 3 || hex_value(target.at[i + 1]) < 0 || hex_value(target.at[i + 2]) < 0 ||
            memcmp(target.at + i + 1, "00", 2) == 0)
            return false;
    }
    return true;
}

/* http://host/path as a client may send to any server: what stands behind the authority. */
static struct span skip_authority(struct span target)
{
    if (target.bytes < 7 || strncasecmp(target.at, "http://", 7) != 0)
        return target;
    const char *slash = memchr(target.at + 7, '/', target.bytes - 7);
    if (slash == NULL)
        return target;
    return (struct span){slash, target.bytes - (size_t)(slash - target.at)};
}

static bool decode_piece(struct span piece, char **out, struct span *decoded)
{
    size_t bytes;
    if (!http_percent_decode(piece, true, *out, &bytes))
        return false;
    *decoded = (struct span){*out, bytes};
    *out += bytes;
    return true;
}

static bool parse_query(struct http_request *request, struct span query)
{
    char *out = request->decoded;
    while (query.bytes > 0) {
        const char *end = memchr(query.at, '&', query.bytes);
        struct span pair = {query.at, end == NULL ? query.bytes : (size_t)(end - query.at)};
        query.at += pair.bytes + (end != NULL);
        query.bytes -= pair.bytes + (end != NULL);
        if (pair.bytes == 0)
            continue;
        if (request->parameter_count == HTTP_PARAMETERS_MAX)
            return false;
        const char *equals = memchr(pair.at, '=', pair.bytes);
        struct span name = {pair.at, equals == NULL ? pair.bytes : (size_t)(equals - pair.at)};
        struct span value = {equals == NULL ? pair.at + pair.bytes : equals + 1,
                             equals == NULL ? 0 : pair.bytes - name.bytes - 1};
        struct http_parameter *parameter = &request->parameters[request->parameter_count];
        if (!decode_piece(name, &out, &parameter->name) || !decode_piece(value, &out, &parameter->value))
            return false;
        request->parameter_count++;
    }
    return true;
}

bool http_target_parse(struct http_request *request, bool *memory)
{
    struct span target = skip_authority((struct span){request->target, request->target_bytes});
    *memory = false;
    if (target.bytes == 0 || target.at[0] != '/' || !is_readable(target))
        return false;
    const char *mark = memchr(target.at, '?', target.bytes);
    request->path = (struct span){target.at, mark == NULL ? target.bytes : (size_t)(mark - target.at)};
    if (mark == NULL)
        return true;
    struct span query = {mark + 1, target.bytes - request->path.bytes - 1};
    request->decoded = malloc(query.bytes + 1);
    request->parameters = calloc(HTTP_PARAMETERS_MAX, sizeof *request->parameters);
    *memory = request->decoded == NULL || request->parameters == NULL;
    return !*memory && parse_query(request, query);
}
