/* 5,000 connections that ask nothing: what each costs the reader's memory, before and after it asked once,
 * and that a normal client is served beside them. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reader_client.h"

enum { IDLE = 5000, BATCH = 250, KIB_MAX = 64 };

static void raise_limit(void)
{
    struct rlimit files;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    cr_assert_geq(files.rlim_cur, IDLE + 1000, "this machine allows %llu files",
                  (unsigned long long)files.rlim_cur);
}

/* One request on each, answered. */
static void ask_once(const struct client *c, const int *fds)
{
    char request[TOKEN_MAX + 256], reply[4096];
    int bytes =
        snprintf(request, sizeof request, "GET /nothing HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", c->authorization);
    for (int from = 0; from < IDLE; from += BATCH) {
        for (int i = from; i < from + BATCH; i++)
            cr_assert_eq(send(fds[i], request, (size_t)bytes, MSG_NOSIGNAL), bytes);
        for (int i = from; i < from + BATCH; i++) {
            cr_assert_gt(recv(fds[i], reply, sizeof reply, 0), 12);
            cr_assert_eq(strncmp(reply, "HTTP/1.1 404", 12), 0);
        }
    }
}

static int closed_of(const int *fds)
{
    static struct pollfd polls[IDLE];
    for (int i = 0; i < IDLE; i++)
        polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN | POLLRDHUP};
    int closed = poll(polls, IDLE, 0);
    cr_assert_geq(closed, 0);
    return closed;
}

static double page_ms(const struct client *c)
{
    int64_t began_ms = world_now_ms();
    for (int i = 0; i < 20; i++)
        json_decref(client_page(c, "limit=20"));
    return (double)(world_now_ms() - began_ms) / 20;
}

Test(reader, idle)
{
    static struct client c;
    static int fds[IDLE];
    raise_limit();
    client_open(&c, "reader_idle");
    put_rows(&c, "u1", 100, "2026-03-21T09:00:00Z");
    child_stop(c.reader);
    c.reader = world_reader(&c.w, "[http]\nmax_connections = 6000\n", c.base);
    double alone_ms = page_ms(&c);
    int64_t before_kib = child_rss_kib(c.reader);
    for (int i = 0; i < IDLE; i++) {
        fds[i] = client_dial(&c, 0);
        if (i % BATCH == 0)
            json_decref(client_page(&c, "")); /* it is accepted in time */
    }
    double beside_ms = page_ms(&c);
    int64_t silent_kib = child_rss_kib(c.reader) - before_kib;
    ask_once(&c, fds);
    int64_t asked_kib = child_rss_kib(c.reader) - before_kib;
    double after_ms = page_ms(&c);
    cr_expect_eq(closed_of(fds), 0, "all of them are still open");
    printf("idle: %d connections: %lld KiB before; %.1f KiB each that asked nothing, %.1f KiB each after a"
           " request; a page in %.2f ms alone, %.2f and %.2f ms beside them\n",
           IDLE, (long long)before_kib, (double)silent_kib / IDLE, (double)asked_kib / IDLE, alone_ms,
           beside_ms, after_ms);
    cr_expect_gt(silent_kib, 0);
    cr_expect_lt(asked_kib / IDLE, KIB_MAX);
    for (int i = 0; i < IDLE; i++)
        close(fds[i]);
    client_close(&c);
}
