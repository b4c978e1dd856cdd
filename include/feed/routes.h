/* Which resource a path names (contracts/reader-api.md). Paths are taken apart before they are decoded, so
 * that an escaped slash stays inside its component. */
#ifndef BELFRY_FEED_ROUTES_H
#define BELFRY_FEED_ROUTES_H

#include <stdbool.h>

#include "base/span.h"
#include "model/uuid.h"
#include "store/source.h"

enum { ROUTES_WORKSPACE_MAX = 200 }; /* bytes, as in events */

/* The built-in feed and its name. */
#define ROUTES_NOTIFICATIONS "notifications"

enum route_kind {
    ROUTE_NONE,         /* 404 */
    ROUTE_FEED,         /* /v1/workspaces/{workspace}/feeds/{feed}, /v1/feeds/{feed} */
    ROUTE_UNREAD_COUNT, /* /v1/workspaces/{workspace}/feeds/notifications/unread_count */
    ROUTE_READ_UP_TO,   /* …/feeds/notifications/read */
    ROUTE_ITEM,         /* /v1/workspaces/{workspace}/notifications/{id} */
    ROUTE_ITEM_READ,    /* …/notifications/{id}/read */
    ROUTE_ITEM_UNREAD,  /* …/notifications/{id}/unread */
    ROUTE_OPENAPI,      /* /openapi.json */
    ROUTE_FEED_EXPORTS, /* ROUTE_FEED/exports */
    ROUTE_EXPORTS,      /* /v1/workspaces/{workspace}/exports, and of feeds without one /v1/exports */
    ROUTE_EXPORT,       /* ROUTE_EXPORTS/{id} */
    ROUTE_EXPORT_ROWS,  /* …/rows */
    ROUTE_EXPORT_PAGES  /* …/pages */
};

struct route {
    enum route_kind kind;
    /* Decoded: UTF-8 text without NUL. "": the path has none. */
    char workspace[ROUTES_WORKSPACE_MAX + 1];
    char feed[SOURCE_NAME_MAX + 1]; /* of ROUTE_FEED and its exports, decoded */
    struct uuid id;                 /* of an item, an export */
};

/* path as it was sent, without the query. */
void routes_find(struct span path, struct route *route);

/* Whether a path as it was sent is this one: escapes may stand in it, but not for a slash. */
bool routes_is_path(struct span path, const char *wanted);

/* Whether this can be a workspace's id at all: 1 to ROUTES_WORKSPACE_MAX bytes of text. */
bool routes_is_workspace(struct span id);

#endif
