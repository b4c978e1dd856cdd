/* RDR-10: clients that drip, that say nothing and that do not read, all at once, while a normal one is
 * served. The deadline of a head counts from its first byte; a byte now and then buys no time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reader_client.h"

#define FEED "/v1/workspaces/w/feeds/notifications"

enum {
    DRIPPING = 500,
    DRIP_MS = 5000,
    HEAD_MS = 10000,
    WATCH_MS = 45000, /* at most: it ends when all of them are closed */
    READS_PER_SECOND = 10,
    UNREAD_PAGE_BYTES = 7000000
};

static int dial(const struct client *c, int receive_bytes)
{
    int fd = client_dial(c, receive_bytes);
    cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static bool is_closed(int fd)
{
    char bytes[512];
    ssize_t count = recv(fd, bytes, sizeof bytes, 0);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

struct slow {
    int dripping[DRIPPING]; /* -1: the reader closed it */
    int silent, unread;
    int64_t began_ms, next_drip_ms;
    int open;
    int64_t first_closed_ms, last_closed_ms, silent_closed_ms;
};

static void slow_open(struct slow *slow, const struct client *c)
{
    char request[TOKEN_MAX + 256];
    memset(slow, 0, sizeof *slow);
    slow->silent = dial(c, 0);
    slow->unread = dial(c, 4096);
    int bytes = snprintf(request, sizeof request, "GET %s?limit=100 HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", FEED,
                         c->authorization);
    cr_assert_eq(send(slow->unread, request, (size_t)bytes, MSG_NOSIGNAL), bytes);
    for (int i = 0; i < DRIPPING; i++)
        slow->dripping[i] = dial(c, 0);
    slow->open = DRIPPING;
    slow->began_ms = world_now_ms();
}

/* One more byte of the head on each that is due; notes which the reader has closed. */
static void slow_step(struct slow *slow)
{
    static const char head[] = "GET / HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaa";
    int64_t now_ms = world_now_ms(), at_ms = now_ms - slow->began_ms;
    bool due = now_ms >= slow->next_drip_ms;
    size_t at = (size_t)(at_ms / DRIP_MS) % (sizeof head - 1);
    if (due)
        slow->next_drip_ms = now_ms + DRIP_MS;
    for (int i = 0; i < DRIPPING; i++) {
        int fd = slow->dripping[i];
        if (fd < 0)
            continue;
        if (is_closed(fd)) {
            close(fd);
            slow->dripping[i] = -1;
            slow->open--;
            slow->last_closed_ms = at_ms;
            slow->first_closed_ms = slow->first_closed_ms == 0 ? at_ms : slow->first_closed_ms;
        } else if (due) {
            (void)send(fd, &head[at], 1, MSG_NOSIGNAL);
        }
    }
    if (slow->silent_closed_ms == 0 && is_closed(slow->silent))
        slow->silent_closed_ms = at_ms;
}

/* What arrives at one that did not read in time: less than its page (what the two kernels held), then the
 * end. */
static size_t unread_bytes(int fd)
{
    static char bytes[65536];
    size_t total = 0;
    int silent = 0, more = 1024 * 1024;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &more, sizeof more);
    while (silent < 100) {
        ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
            return total;
        if (count > 0) {
            total += (size_t)count;
            silent = 0;
        } else {
            silent++;
            world_sleep_ms(20);
        }
    }
    cr_assert_fail("a client that read nothing for %d ms still has its connection; %zu bytes came", WATCH_MS,
                   total);
    return 0;
}

static int64_t read_normally(const struct client *c)
{
    struct world_reply reply;
    int64_t began_ms = world_now_ms();
    client_get(c, FEED "?limit=5", &reply);
    cr_assert_eq(reply.status, 200, "%ld %s", reply.status, reply.body);
    world_reply_done(&reply);
    return world_now_ms() - began_ms;
}

static void check_bounds(struct client *c)
{
    static char long_target[20 * 1024], long_field[20 * 1024], many[20 * 1024];
    struct world_reply reply;
    char url[64 + sizeof long_target];
    memset(long_target, 'a', sizeof long_target - 1);
    snprintf(url, sizeof url, "%s/%s", c->base, long_target);
    world_http("GET", url, NULL, NULL, &reply);
    cr_expect_eq(reply.status, 414, "%ld", reply.status);
    cr_expect_not_null(strstr(reply.headers, "Cache-Control: private, no-store"), "%s", reply.headers);
    world_reply_done(&reply);
    memset(long_field, 'a', sizeof long_field - 1);
    memcpy(long_field, "X-Long: ", 8);
    snprintf(url, sizeof url, "%s" FEED, c->base);
    world_http("GET", url, (const char *[]){long_field, NULL}, NULL, &reply);
    cr_expect_eq(reply.status, 431, "%ld", reply.status);
    world_reply_done(&reply);
    const char *fields[2001];
    for (size_t i = 0; i < 2000; i++) {
        snprintf(&many[i * 10], 10, "X-%04zu: a", i);
        fields[i] = &many[i * 10];
    }
    fields[2000] = NULL;
    world_http("GET", url, fields, NULL, &reply);
    cr_expect_eq(reply.status, 431, "2,000 header lines: %ld", reply.status);
    world_reply_done(&reply);
    printf("rdr_10: a request line of 20 KiB: 414; a field of 20 KiB, and 2,000 fields: 431\n");
}

/* Of the one that does not read nothing is seen on its own side, where its page lies unread. */
static bool all_closed(const struct slow *slow, struct client *c)
{
    return slow->open == 0 && slow->silent_closed_ms != 0 && child_log_has(c->reader, "\"complete\":false");
}

/* The bounds of a head alone. */
Test(cases, rdr_10_bounds)
{
    static struct client c;
    client_open(&c, "rdr_10_bounds");
    check_bounds(&c);
    client_close(&c);
}

Test(cases, rdr_10)
{
    static struct client c;
    static struct slow slow;
    int64_t quiet_ms = 0, slowest_ms = 0;
    int pages = 0;
    client_open(&c, "rdr_10");
    world_exec(&c.w,
               "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, body,"
               " created_at) SELECT gen_random_uuid(), 'w', 'u1', 't', 't', repeat('b', 70000), now()"
               " FROM generate_series(1, 100)");
    for (int i = 0; i < 20; i++) {
        int64_t took_ms = read_normally(&c);
        quiet_ms = took_ms > quiet_ms ? took_ms : quiet_ms;
    }
    slow_open(&slow, &c);
    while (world_now_ms() - slow.began_ms < WATCH_MS && !all_closed(&slow, &c)) {
        slow_step(&slow);
        int64_t took_ms = read_normally(&c);
        slowest_ms = took_ms > slowest_ms ? took_ms : slowest_ms;
        pages++;
        world_sleep_ms(1000 / READS_PER_SECOND);
    }
    size_t arrived = unread_bytes(slow.unread);
    printf(
        "rdr_10: %d dripping clients: closed %d, the first after %lld ms, the last after %lld ms; one silent:"
        " closed after %lld ms; one that does not read: cut after %zu of 7,000,000 bytes; meanwhile %d pages"
        " of a normal client, the slowest in %lld ms (alone: %lld ms)\n",
        DRIPPING, DRIPPING - slow.open, (long long)slow.first_closed_ms, (long long)slow.last_closed_ms,
        (long long)slow.silent_closed_ms, arrived, pages, (long long)slowest_ms, (long long)quiet_ms);
    cr_expect_eq(slow.open, 0, "%d drip on", slow.open);
    cr_expect_geq(slow.first_closed_ms, HEAD_MS, "nobody is cut before the head's time is over");
    cr_expect_neq(slow.silent_closed_ms, 0, "the silent one still has its connection");
    cr_expect(arrived > 100000 && arrived < UNREAD_PAGE_BYTES, "%zu bytes", arrived);
    cr_expect_gt(pages, 0);
    close(slow.silent);
    close(slow.unread);
    client_close(&c);
}
