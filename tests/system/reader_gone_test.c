/* Clients that ask and leave: what they asked for is dropped, on the queue and on the connections alike. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reader_client.h"

enum { CLIENTS = 300 };

static const char statuses[] = "belfry_http_requests_total{status=\"%s\"}";
static const char stages[] = "belfry_read_stage_in_flight{stage=\"%s\"}";

static double figure(struct client *c, const char *format, const char *label)
{
    char name[96];
    snprintf(name, sizeof name, format, label);
    return child_metric(c->reader, name);
}

/* Sends a request and does not wait for the answer. */
static int ask(const struct client *c)
{
    char request[TOKEN_MAX + 256];
    int fd = client_dial(c, 0);
    int bytes = snprintf(request, sizeof request,
                         "GET /v1/workspaces/w/feeds/notifications HTTP/1.1\r\nHost: belfry\r\n%s\r\n\r\n",
                         c->authorization);
    cr_assert_eq(send(fd, request, (size_t)bytes, 0), bytes);
    return fd;
}

static bool all_wait(void *context)
{
    struct client *c = context;
    return figure(c, stages, "wait") + figure(c, stages, "page") == CLIENTS + 1;
}

static bool all_left(void *context)
{
    return figure(context, statuses, "499") == CLIENTS;
}

static bool none_in_flight(void *context)
{
    struct client *c = context;
    return figure(c, stages, "wait") == 0 && figure(c, stages, "page") == 0;
}

Test(reader, gone)
{
    static struct client c;
    static int fds[CLIENTS];
    char answer[16] = "";
    client_open(&c, "reader_gone");
    put_rows(&c, "u1", 3, "2026-03-21T09:00:00Z");
    world_exec(&c.w, "ALTER ROLE belfry_reader IN DATABASE %s SET statement_timeout = '60s'", c.w.database);
    child_stop(c.reader);
    c.reader = world_reader(&c.w, "[http]\nstatement_timeout = 60s\n", c.base);
    world_exec(&c.w, "BEGIN; LOCK TABLE notifications IN ACCESS EXCLUSIVE MODE");
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = ask(&c);
    int stays = ask(&c);
    world_wait("all of them wait", 30, all_wait, &c);
    double queued = figure(&c, stages, "wait"), sent = figure(&c, stages, "page");
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    world_wait("the reader sees that they left", 30, all_left, &c);
    cr_expect_eq(figure(&c, stages, "wait"), 1, "the one that stays, behind what was sent before");
    printf("gone: %.0f queued and %.0f sent; %.0f noticed while the table was locked, queue of %.0f\n",
           queued, sent, figure(&c, statuses, "499"), figure(&c, stages, "wait"));
    world_exec(&c.w, "COMMIT");
    cr_assert_eq(recv(stays, answer, 12, MSG_WAITALL), 12);
    cr_expect_str_eq(answer, "HTTP/1.1 200", "who stayed is answered");
    world_wait("nothing is left over", 10, none_in_flight, &c);
    cr_expect_eq(figure(&c, statuses, "200"), 1);
    json_decref(client_page(&c, ""));
    cr_expect_eq(figure(&c, statuses, "200"), 2);
    close(stays);
    client_close(&c);
}
