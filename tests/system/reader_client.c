/* Requests as a client makes them; what every answer must hold is checked here. */
#include "reader_client.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void client_be(struct client *c, const char *user)
{
    char token[TOKEN_MAX];
    const char *argv[] = {"token", "-F", c->ini, "--sub", user, NULL};
    cr_assert_eq(world_run(&c->w, "src/bin/belfry-reader", argv, token, sizeof token), 0);
    token[strcspn(token, "\r\n")] = '\0';
    snprintf(c->authorization, sizeof c->authorization, "Authorization: Bearer %s", token);
}

void client_open(struct client *c, const char *name)
{
    memset(c, 0, sizeof *c);
    world_open(&c->w, name);
    client_start(c);
}

void client_start(struct client *c)
{
    world_database(&c->w);
    world_exec(&c->w,
               "SELECT belfry_set_member('w', u, 'member') FROM unnest(ARRAY['u1', 'u2', 'empty']) AS u");
    c->reader = world_reader(&c->w, NULL, c->base);
    world_write_reader_ini(&c->w, NULL, c->ini);
    client_be(c, "u1");
}

void client_reload(struct client *c, const char *extra)
{
    char path[WORLD_PATH_MAX];
    world_write_reader_ini(&c->w, extra, path);
    cr_assert_eq(rename(path, c->reader->ini), 0);
    snprintf(c->ini, sizeof c->ini, "%s", c->reader->ini);
    child_signal(c->reader, SIGHUP);
}

int client_dial(const struct client *c, int receive_bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)strtoul(strrchr(c->base, ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0, "%s", strerror(errno));
    if (receive_bytes > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0, "%s", strerror(errno));
    return fd;
}

void client_get(const struct client *c, const char *path_and_query, struct world_reply *reply)
{
    char url[URL_MAX];
    const char *headers[] = {c->authorization, NULL};
    snprintf(url, sizeof url, "%s%s", c->base, path_and_query);
    world_http("GET", url, headers, NULL, reply);
}

void client_move(struct client *c, const char *base)
{
    snprintf(c->base, sizeof c->base, "%s", base);
}

void client_close(struct client *c)
{
    child_stop(c->reader);
    world_close(&c->w);
}

json_t *client_page(const struct client *c, const char *query)
{
    char path[URL_MAX - 64];
    struct world_reply reply;
    snprintf(path, sizeof path, "/v1/workspaces/w/feeds/notifications%s%s", query[0] == '\0' ? "" : "?",
             query);
    client_get(c, path, &reply);
    cr_assert_eq(reply.status, 200, "%s: %ld %s", path, reply.status, reply.body);
    json_t *page = json_loadb(reply.body, reply.body_bytes, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(page, "%s", reply.body);
    cr_assert(json_is_array(json_object_get(page, "items")));
    const char *contract = json_string_value(json_object_get(page, "contract"));
    cr_assert_not_null(contract);
    if (strstr(query, "contract=") == NULL && strstr(query, "cursor=") == NULL)
        cr_assert_str_eq(contract, "live");
    world_reply_done(&reply);
    return page;
}

size_t page_count(const json_t *page)
{
    return json_array_size(json_object_get(page, "items"));
}

const char *page_id(const json_t *page, size_t index)
{
    return json_string_value(json_object_get(json_array_get(json_object_get(page, "items"), index), "id"));
}

const char *page_cursor(const json_t *page)
{
    return json_string_value(json_object_get(page, "next_cursor"));
}

bool page_has_more(const json_t *page)
{
    return json_is_true(json_object_get(page, "has_more"));
}

void client_refused(const struct client *c, const char *path, long status, const char *code)
{
    struct world_reply reply;
    client_get(c, path, &reply);
    json_t *problem = json_loadb(reply.body, reply.body_bytes, 0, NULL);
    cr_assert_not_null(problem, "%s: %ld %s", path, reply.status, reply.body);
    const char *found = json_string_value(json_object_get(problem, "code"));
    cr_assert_eq(reply.status, status, "%s: %ld %s", path, reply.status, reply.body);
    cr_assert_str_eq(found, code, "%s: %s", path, reply.body);
    cr_assert_eq(json_integer_value(json_object_get(problem, "status")), status);
    cr_assert_not_null(json_object_get(problem, "request_id"));
    cr_assert_not_null(strstr(reply.headers, "application/problem+json"), "%s", reply.headers);
    cr_assert_not_null(strstr(reply.headers, "Cache-Control: private, no-store"), "%s", reply.headers);
    cr_assert_eq(strstr(reply.headers, "Retry-After: ") != NULL, status == 503 || status == 429, "%s",
                 reply.headers);
    cr_assert_eq(strstr(reply.headers, "WWW-Authenticate: Bearer error=") != NULL, status == 401, "%s",
                 reply.headers);
    json_decref(problem);
    world_reply_done(&reply);
}

void put_rows(struct client *c, const char *user, int count, const char *created_at)
{
    world_exec(
        &c->w,
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
        " SELECT gen_random_uuid(), 'w', '%s', 'type.' || i %% 3, 'title ' || i, timestamptz '%s'"
        " FROM generate_series(1, %d) AS i",
        user, created_at, count);
}
