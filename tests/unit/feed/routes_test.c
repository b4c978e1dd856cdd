/* Which paths name a feed. */
#include "feed/routes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(routes, paths)
{
    static const struct {
        const char *path, *workspace; /* NULL: none */
    } rows[] = {
        {"/v1/workspaces/w/feeds/notifications", "w"},
        {"/v1/workspaces/a%20b/feeds/notifications", "a b"},
        {"/v1/workspaces/a+b/feeds/notifications", "a+b"},
        {"/v1/workspaces/a%2Fb/feeds/notifications", "a/b"},
        {"/v1/workspaces/%C3%A9/feeds/notifications", "é"},
        {"/v1/workspaces/w/feeds/%6eotifications", "w"},
        {"/v1/workspaces/w/feeds/notifications/", NULL},
        {"/v1/workspaces//feeds/notifications", NULL},
        {"//v1/workspaces/w/feeds/notifications", NULL},
        {"/v1/workspaces/w/feeds/posts", NULL},
        {"/v1/workspaces/w/notifications", NULL},
        {"/v1/feeds/notifications", NULL},
        {"/v2/workspaces/w/feeds/notifications", NULL},
        {"/v1/workspaces/a%00b/feeds/notifications", NULL},
        {"/v1/workspaces/%FF/feeds/notifications", NULL},
        {"/v1/workspaces/%ED%A0%80/feeds/notifications", NULL},
        {"/v1/workspaces/%zz/feeds/notifications", NULL},
        {"/v1/workspaces/%4/feeds/notifications", NULL},
        {"/v1/a/b/c/d/e/f/g/h", NULL},
        {"/", NULL},
        {"", NULL},
        {"*", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct route route;
        routes_find(span_of(rows[i].path), &route);
        cr_expect_eq(route.kind, rows[i].workspace == NULL ? ROUTE_NONE : ROUTE_NOTIFICATIONS, "%s",
                     rows[i].path);
        if (rows[i].workspace != NULL && route.kind == ROUTE_NOTIFICATIONS)
            cr_expect_str_eq(route.workspace, rows[i].workspace);
    }
}

Test(routes, long_ids)
{
    char id[ROUTES_WORKSPACE_MAX + 2], path[1024];
    struct route route;
    memset(id, 'w', sizeof id);
    for (int bytes = ROUTES_WORKSPACE_MAX; bytes <= ROUTES_WORKSPACE_MAX + 1; bytes++) {
        snprintf(path, sizeof path, "/v1/workspaces/%.*s/feeds/notifications", bytes, id);
        routes_find(span_of(path), &route);
        cr_expect_eq(route.kind, bytes > ROUTES_WORKSPACE_MAX ? ROUTE_NONE : ROUTE_NOTIFICATIONS);
    }
}
