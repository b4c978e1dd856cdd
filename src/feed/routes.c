/* In: a raw path. Out: the resource, with its decoded parts. Always: a path that names nothing of ours, or
 * an id that cannot exist, is ROUTE_NONE; nothing undecoded and nothing that is not text goes further. */
#include "feed/routes.h"

#include "base/utf8.h"
#include "io/http_server.h"

enum { PARTS_MAX = 7, PART_BYTES_MAX = 3 * ROUTES_WORKSPACE_MAX /* every byte escaped */ };

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

/* What stands for any workspace, feed and id in a pattern; no part that is decoded is equal to them by
 * address. */
static const char any_workspace[] = "{workspace}", any_feed[] = "{feed}", any_id[] = "{id}";

static const struct pattern {
    enum route_kind kind;
    const char *parts[PARTS_MAX]; /* ends with NULL */
} patterns[] = {
    {ROUTE_FEED, {"v1", "workspaces", any_workspace, "feeds", any_feed}},
    {ROUTE_FEED, {"v1", "feeds", any_feed}},
    {ROUTE_UNREAD_COUNT, {"v1", "workspaces", any_workspace, "feeds", ROUTES_NOTIFICATIONS, "unread_count"}},
    {ROUTE_READ_UP_TO, {"v1", "workspaces", any_workspace, "feeds", ROUTES_NOTIFICATIONS, "read"}},
    {ROUTE_ITEM, {"v1", "workspaces", any_workspace, "notifications", any_id}},
    {ROUTE_ITEM_READ, {"v1", "workspaces", any_workspace, "notifications", any_id, "read"}},
    {ROUTE_ITEM_UNREAD, {"v1", "workspaces", any_workspace, "notifications", any_id, "unread"}},
    {ROUTE_FEED_EXPORTS, {"v1", "workspaces", any_workspace, "feeds", any_feed, "exports"}},
    {ROUTE_FEED_EXPORTS, {"v1", "feeds", any_feed, "exports"}},
    {ROUTE_EXPORTS, {"v1", "workspaces", any_workspace, "exports"}},
    {ROUTE_EXPORTS, {"v1", "exports"}},
    {ROUTE_EXPORT, {"v1", "workspaces", any_workspace, "exports", any_id}},
    {ROUTE_EXPORT, {"v1", "exports", any_id}},
    {ROUTE_EXPORT_ROWS, {"v1", "workspaces", any_workspace, "exports", any_id, "rows"}},
    {ROUTE_EXPORT_ROWS, {"v1", "exports", any_id, "rows"}},
    {ROUTE_EXPORT_PAGES, {"v1", "workspaces", any_workspace, "exports", any_id, "pages"}},
    {ROUTE_EXPORT_PAGES, {"v1", "exports", any_id, "pages"}},
    {ROUTE_OPENAPI, {"openapi.json"}},
};

bool routes_is_workspace(struct span id)
{
    return id.bytes >= 1 && id.bytes <= ROUTES_WORKSPACE_MAX && utf8_is_text(id);
}

static bool routes_copy(struct span part, char *to, size_t bytes_max)
{
    if (part.bytes > bytes_max || memchr(part.at, '\0', part.bytes) != NULL)
        return false;
    memcpy(to, part.at, part.bytes);
    to[part.bytes] = '\0';
    return true;
}

static bool routes_part_fits(const char *wanted, struct span part, struct route *route)
{
    char out[PART_BYTES_MAX];
    struct span decoded;
    if (!routes_decode(part, out, &decoded))
        return false;
    if (wanted == any_id)
        return uuid_parse(decoded, &route->id);
    if (wanted == any_feed)
        return routes_copy(decoded, route->feed, SOURCE_NAME_MAX);
    if (wanted == any_workspace)
        return routes_is_workspace(decoded) && routes_copy(decoded, route->workspace, ROUTES_WORKSPACE_MAX);
    return span_is(decoded, wanted);
}

void routes_find(struct span path, struct route *route)
{
    struct span parts[PARTS_MAX];
    size_t count = routes_split(path, parts);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        const char *const *wanted = patterns[i].parts;
        size_t at = 0;
        route->workspace[0] = route->feed[0] = '\0';
        while (at < count && at < PARTS_MAX && wanted[at] != NULL &&
               routes_part_fits(wanted[at], parts[at], route))
            at++;
        if (count > 0 && at == count && (at == PARTS_MAX || wanted[at] == NULL)) {
            route->kind = patterns[i].kind;
            return;
        }
    }
    route->kind = ROUTE_NONE;
}

bool routes_is_path(struct span path, const char *wanted)
{
    size_t at = 0;
    for (; at < path.bytes && *wanted != '\0'; wanted++) {
        bool escaped = path.at[at] == '%';
        char byte = path.at[at];
        size_t bytes = 0;
        if (escaped && (path.bytes - at < 3 ||
                        !http_percent_decode((struct span){path.at + at, 3}, false, &byte, &bytes)))
            return false;
        if (byte != *wanted || (escaped && byte == '/'))
            return false;
        at += escaped ? 3 : 1;
    }
    return at == path.bytes && *wanted == '\0';
}
