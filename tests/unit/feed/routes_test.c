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
        {"/v1/workspaces/w/feeds/posts", "w"},
        {"/v1/workspaces/w/notifications", NULL},
        {"/v1/feeds/notifications", ""},
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
        cr_expect_eq(route.kind, rows[i].workspace == NULL ? ROUTE_NONE : ROUTE_FEED, "%s", rows[i].path);
        if (rows[i].workspace != NULL && route.kind == ROUTE_FEED)
            cr_expect_str_eq(route.workspace, rows[i].workspace);
    }
}

Test(routes, kinds)
{
    static const struct {
        const char *path;
        enum route_kind kind;
    } rows[] = {
        {"/v1/workspaces/w/notifications/0199a000-0000-7000-8000-000000000001", ROUTE_ITEM},
        {"/v1/workspaces/w/notifications/0199A000-0000-7000-8000-000000000001", ROUTE_ITEM},
        {"/v1/workspaces/w/notifications/0199a000-0000-7000-8000-000000000001/read", ROUTE_ITEM_READ},
        {"/v1/workspaces/w/notifications/0199a000-0000-7000-8000-000000000001/unread", ROUTE_ITEM_UNREAD},
        {"/v1/workspaces/w/notifications/0199a000-0000-7000-8000-000000000001/", ROUTE_NONE},
        {"/v1/workspaces/w/notifications/0199a000-0000-7000-8000-00000000000/read", ROUTE_NONE},
        {"/v1/workspaces/w/notifications/{id}/read", ROUTE_NONE},
        {"/v1/workspaces/{workspace}/feeds/notifications", ROUTE_FEED},
        {"/v1/workspaces/w/feeds/notifications/unread_count", ROUTE_UNREAD_COUNT},
        {"/v1/workspaces/w/feeds/notifications/unread_count/x", ROUTE_NONE},
        {"/v1/workspaces/w/feeds/notifications/unread_count/x/y", ROUTE_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct route route;
        routes_find(span_of(rows[i].path), &route);
        cr_expect_eq(route.kind, rows[i].kind, "%s: %d", rows[i].path, route.kind);
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
        cr_expect_eq(route.kind, bytes > ROUTES_WORKSPACE_MAX ? ROUTE_NONE : ROUTE_FEED);
    }
}

Test(routes, own_paths)
{
    static const struct {
        const char *path;
        bool is;
    } rows[] = {
        {"/posts", true},  {"/p%6Fsts", true}, {"/%70osts", true},  {"%2Fposts", false}, {"/posts/", false},
        {"/post", false},  {"", false},        {"/posts%", false},  {"/posts%2", false}, {"/posts%00", false},
        {"/Posts", false}, {"/post%7", false}, {"/%zzosts", false}, {"//posts", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(routes_is_path(span_of(rows[i].path), "/posts"), rows[i].is, "%s", rows[i].path);
    struct route route;
    routes_find(span_of("/v1/feeds/%61ctivity"), &route);
    cr_expect_eq(route.kind, ROUTE_FEED);
    cr_expect_str_eq(route.feed, "activity");
    cr_expect_str_eq(route.workspace, "");
}
