/* In: a raw path. Out: the resource, with its decoded parts. Always: a path that names nothing of ours, or
 * an id that cannot exist, is ROUTE_NONE; nothing undecoded and nothing that is not text goes further. */
#include "feed/routes.h"

#include "base/utf8.h"
#include "io/http_server.h"

enum { PARTS_MAX = 6, PART_BYTES_MAX = 3 * ROUTES_WORKSPACE_MAX /* every byte escaped */ };

/* How many parts, split at '/'; 0: too many. */
static size_t routes_split(struct span path, struct span *parts)
{
    size_t count = 0, from = 1;
    if (path.bytes == 0 || path.at[0] != '/')
        return 0;
    for (size_t i = 1; i <= path.bytes; i++) {
        if (i < path.bytes && path.at[i] != '/')
            continue;
        if (count == PARTS_MAX)
            return 0;
        parts[count++] = (struct span){.at = path.at + from, .bytes = i - from};
        from = i + 1;
    }
    return count;
}

/* Decodes one part into out, which holds PART_BYTES_MAX. An empty part is none. */
static bool routes_decode(struct span part, char *out, struct span *decoded)
{
    size_t bytes = 0;
    if (part.bytes == 0 || part.bytes > PART_BYTES_MAX || !http_percent_decode(part, false, out, &bytes))
        return false;
    *decoded = (struct span){.at = out, .bytes = bytes};
    return true;
}

static bool routes_part_is(struct span part, const char *text)
{
    char out[PART_BYTES_MAX];
    struct span decoded;
    return routes_decode(part, out, &decoded) && span_is(decoded, text);
}

bool routes_is_workspace(struct span id)
{
    return id.bytes >= 1 && id.bytes <= ROUTES_WORKSPACE_MAX && utf8_is_text(id);
}

void routes_find(struct span path, struct route *route)
{
    struct span parts[PARTS_MAX], workspace;
    char out[PART_BYTES_MAX];
    route->kind = ROUTE_NONE;
    if (routes_split(path, parts) != 5 || !routes_part_is(parts[0], "v1") ||
        !routes_part_is(parts[1], "workspaces") || !routes_part_is(parts[3], "feeds") ||
        !routes_part_is(parts[4], ROUTES_NOTIFICATIONS))
        return;
    if (!routes_decode(parts[2], out, &workspace) || !routes_is_workspace(workspace))
        return;
    memcpy(route->workspace, workspace.at, workspace.bytes);
    route->workspace[workspace.bytes] = '\0';
    route->kind = ROUTE_NOTIFICATIONS;
}
