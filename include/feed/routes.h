/* Which resource a path names (contracts/reader-api.md). Paths are taken apart before they are decoded, so
 * that an escaped slash stays inside its component. */
#ifndef BELFRY_FEED_ROUTES_H
#define BELFRY_FEED_ROUTES_H

#include <stdbool.h>

#include "base/span.h"
#include "model/uuid.h"

enum { ROUTES_WORKSPACE_MAX = 200 }; /* bytes, as in events */

/* The built-in feed and its name. */
#define ROUTES_NOTIFICATIONS "notifications"

enum route_kind {
    ROUTE_NONE,          /* 404 */
    ROUTE_NOTIFICATIONS, /* /v1/workspaces/{workspace}/feeds/notifications */
    ROUTE_UNREAD_COUNT,  /* …/feeds/notifications/unread_count */
    ROUTE_READ_UP_TO,    /* …/feeds/notifications/read */
    ROUTE_ITEM,          /* /v1/workspaces/{workspace}/notifications/{id} */
    ROUTE_ITEM_READ,     /* …/notifications/{id}/read */
    ROUTE_ITEM_UNREAD    /* …/notifications/{id}/unread */
};

struct route {
    enum route_kind kind;
    char workspace[ROUTES_WORKSPACE_MAX + 1]; /* decoded: UTF-8 text without NUL, never empty */
    struct uuid id;                           /* of an item */
};

/* path as it was sent, without the query. */
void routes_find(struct span path, struct route *route);

/* Whether this can be a workspace's id at all: 1 to ROUTES_WORKSPACE_MAX bytes of text. */
bool routes_is_workspace(struct span id);

#endif
