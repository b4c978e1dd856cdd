/* belfry-proxy: a TCP link that can be made to fail, between a binary and Postgres, Kafka or the provider.
 *
 *   belfry-proxy --listen 127.0.0.1:PORT --to 127.0.0.1:PORT --control PATH
 *
 * Prints "ready" once it listens; leaves with 0 on SIGTERM, saying what it carried. Each datagram to the Unix
 * socket PATH is one command, in force for all connections until the next:
 *
 *   pass        carries everything (at the start)
 *   drop        takes no byte from either side and closes nothing: a firewall that drops
 *   refuse      resets every connection, old and new
 *   reset N     carries N bytes more of answers, then resets that connection; then pass
 *   half N      carries N bytes more of answers, then ends that connection's answers (FIN); then pass
 *   lose N      the next N answers are swallowed and their connections reset: what was asked has been done
 *   slice       every byte by itself
 *   delay MS    every byte MS later
 *
 * Answers are what flows from --to. One thread, poll; a crash here ends the test that uses it. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/signals.h"

enum { LINKS_MAX = 512, LANE_BYTES = 64 * 1024, TICK_MS = 5, IDLE_MS = 200 };

enum mode { MODE_PASS, MODE_DROP, MODE_REFUSE, MODE_RESET, MODE_HALF, MODE_LOSE, MODE_SLICE, MODE_DELAY };

static const char *const mode_names[] = {"pass", "drop", "refuse", "reset", "half", "lose", "slice", "delay"};

/* One direction of a connection. */
struct lane {
    char bytes[LANE_BYTES];
    size_t from, to;  /* what is read and not yet written */
    int64_t ready_ms; /* not written before */
    bool ended;       /* nothing more will come */
    bool shut;        /* and the other end was told */
};

struct link {
    int client, server; /* -1: not in use */
    struct lane asks, answers;
};

struct proxy {
    struct sockaddr_in listen_at, target;
    const char *control_path;
    int listener, control;
    enum mode mode;
    int64_t argument;
    struct clock clock;
    struct link links[LINKS_MAX];
    int64_t carried_bytes, resets, connections;
};

static bool parse_address(const char *text, struct sockaddr_in *address)
{
    char *end;
    if (strncmp(text, "127.0.0.1:", 10) != 0)
        return false;
    long port = strtol(text + 10, &end, 10);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address->sin_port = htons((uint16_t)port);
    return *end == '\0' && port > 0 && port < 65536;
}

static void set_flags(int fd)
{
    int on = 1;
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void link_close(struct proxy *proxy, struct link *link, bool reset)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (reset) {
        (void)setsockopt(link->client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        proxy->resets++;
    }
    close(link->client);
    close(link->server); /* FIN: the server finishes what it was asked */
    link->client = link->server = -1;
}

static void accept_link(struct proxy *proxy)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    struct link *link = proxy->links;
    while (link < proxy->links + LINKS_MAX && link->client >= 0)
        link++;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link == proxy->links + LINKS_MAX || server < 0 ||
        connect(server, (const struct sockaddr *)&proxy->target, sizeof proxy->target) != 0) {
        if (server >= 0)
            close(server);
        close(client);
        return;
    }
    set_flags(client);
    set_flags(server);
    memset(&link->asks, 0, sizeof link->asks);
    memset(&link->answers, 0, sizeof link->answers);
    link->client = client;
    link->server = server;
    proxy->connections++;
    if (proxy->mode == MODE_REFUSE)
        link_close(proxy, link, true);
}

static void obey(struct proxy *proxy)
{
    char text[64], name[16] = "";
    long long argument = 0;
    ssize_t bytes = recv(proxy->control, text, sizeof text - 1, 0);
    if (bytes <= 0)
        return;
    text[bytes] = '\0';
    if (sscanf(text, "%15s %lld", name, &argument) < 1)
        return;
    for (size_t i = 0; i < sizeof mode_names / sizeof *mode_names; i++) {
        if (strcmp(mode_names[i], name) != 0)
            continue;
        proxy->mode = (enum mode)i;
        proxy->argument = argument;
        for (size_t j = 0; proxy->mode == MODE_REFUSE && j < LINKS_MAX; j++) {
            if (proxy->links[j].client >= 0)
                link_close(proxy, &proxy->links[j], true);
        }
        return;
    }
    fprintf(stderr, "belfry-proxy: unknown command %s\n", name);
    exit(2);
}

/* How many of these bytes of an answer go on; *cut: the connection ends there as the mode says. */
static size_t allowed(struct proxy *proxy, size_t bytes, bool *cut)
{
    *cut = false;
    if (proxy->mode == MODE_LOSE) {
        *cut = true;
        proxy->argument--;
        if (proxy->argument <= 0)
            proxy->mode = MODE_PASS;
        return 0;
    }
    if ((proxy->mode == MODE_RESET || proxy->mode == MODE_HALF)) {
        size_t left = (size_t)proxy->argument;
        *cut = bytes >= left;
        bytes = bytes < left ? bytes : left;
        proxy->argument -= (int64_t)bytes;
    }
    return bytes;
}

/* False: the connection is gone. */
static bool lane_read(struct proxy *proxy, int fd, struct lane *lane)
{
    if (lane->ended || lane->from < lane->to)
        return true;
    ssize_t count = recv(fd, lane->bytes, sizeof lane->bytes, 0);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    lane->ended = count == 0;
    lane->from = 0;
    lane->to = (size_t)count;
    lane->ready_ms = clock_monotonic_ms(&proxy->clock) + (proxy->mode == MODE_DELAY ? proxy->argument : 0);
    return true;
}

static bool lane_write(struct proxy *proxy, int fd, struct lane *lane)
{
    if (lane->from == lane->to) {
        if (lane->ended && !lane->shut)
            lane->shut = shutdown(fd, SHUT_WR) == 0;
        return true;
    }
    if (clock_monotonic_ms(&proxy->clock) < lane->ready_ms)
        return true;
    size_t bytes = proxy->mode == MODE_SLICE ? 1 : lane->to - lane->from;
    ssize_t count = send(fd, lane->bytes + lane->from, bytes, MSG_NOSIGNAL);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    lane->from += (size_t)count;
    proxy->carried_bytes += count;
    return true;
}

/* Answers just read: cut as the mode says. False: the connection was reset. */
static bool judge_answers(struct proxy *proxy, struct link *link, bool fresh)
{
    struct lane *lane = &link->answers;
    bool cut;
    if (!fresh || lane->from == lane->to)
        return true;
    enum mode mode = proxy->mode;
    lane->to = lane->from + allowed(proxy, lane->to - lane->from, &cut);
    if (!cut)
        return true;
    if (mode == MODE_HALF) {
        lane->ended = true;
        proxy->mode = MODE_PASS;
        return true;
    }
    (void)lane_write(proxy, link->client, lane);
    link_close(proxy, link, true);
    if (mode == MODE_RESET)
        proxy->mode = MODE_PASS;
    return false;
}

static void carry(struct proxy *proxy, struct link *link)
{
    if (proxy->mode == MODE_DROP)
        return;
    bool fresh = link->answers.from == link->answers.to && !link->answers.ended;
    if (!lane_read(proxy, link->client, &link->asks) || !lane_read(proxy, link->server, &link->answers)) {
        link_close(proxy, link, true);
        return;
    }
    if (!judge_answers(proxy, link, fresh))
        return;
    if (!lane_write(proxy, link->server, &link->asks) || !lane_write(proxy, link->client, &link->answers)) {
        link_close(proxy, link, true);
        return;
    }
    if (link->asks.shut && link->answers.shut)
        link_close(proxy, link, false);
}

/* Waits for bytes, a connection or a command. */
static void wait_for_work(struct proxy *proxy)
{
    struct pollfd fds[2 * LINKS_MAX + 2] = {{.fd = proxy->listener, .events = POLLIN},
                                            {.fd = proxy->control, .events = POLLIN}};
    nfds_t count = 2;
    int wait_ms = IDLE_MS;
    for (struct link *link = proxy->links; link < proxy->links + LINKS_MAX; link++) {
        if (link->client < 0 || proxy->mode == MODE_DROP)
            continue;
        if (link->asks.from < link->asks.to || link->answers.from < link->answers.to)
            wait_ms = proxy->mode == MODE_SLICE ? 0 : TICK_MS;
        if (!link->asks.ended && link->asks.from == link->asks.to)
            fds[count++] = (struct pollfd){.fd = link->client, .events = POLLIN};
        if (!link->answers.ended && link->answers.from == link->answers.to)
            fds[count++] = (struct pollfd){.fd = link->server, .events = POLLIN};
    }
    if (poll(fds, count, wait_ms) <= 0)
        return;
    if ((fds[1].revents & POLLIN) != 0)
        obey(proxy);
    if ((fds[0].revents & POLLIN) != 0)
        accept_link(proxy);
}

static bool open_sockets(struct proxy *proxy)
{
    int on = 1;
    struct sockaddr_un control = {.sun_family = AF_UNIX};
    if (strlen(proxy->control_path) >= sizeof control.sun_path)
        return false;
    memcpy(control.sun_path, proxy->control_path, strlen(proxy->control_path) + 1);
    (void)unlink(proxy->control_path);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    proxy->control = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(proxy->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return proxy->listener >= 0 && proxy->control >= 0 &&
           bind(proxy->listener, (const struct sockaddr *)&proxy->listen_at, sizeof proxy->listen_at) == 0 &&
           listen(proxy->listener, 256) == 0 &&
           bind(proxy->control, (const struct sockaddr *)&control, sizeof control) == 0;
}

static bool parse_options(int argc, char **argv, struct proxy *proxy)
{
    static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
                                            {"to", required_argument, NULL, 't'},
                                            {"control", required_argument, NULL, 'c'},
                                            {0}};
    int option;
    bool good = true;
    while ((option = getopt_long(argc, argv, "l:t:c:", options, NULL)) != -1) {
        if (option == 'l')
            good = good && parse_address(optarg, &proxy->listen_at);
        else if (option == 't')
            good = good && parse_address(optarg, &proxy->target);
        else if (option == 'c')
            proxy->control_path = optarg;
        else
            good = false;
    }
    return good && optind == argc && proxy->control_path != NULL && proxy->listen_at.sin_port != 0 &&
           proxy->target.sin_port != 0;
}

static void run(struct proxy *proxy)
{
    while (!signals_stopping()) {
        wait_for_work(proxy);
        for (struct link *link = proxy->links; link < proxy->links + LINKS_MAX; link++) {
            if (link->client >= 0)
                carry(proxy, link);
        }
    }
    printf("%lld connections, %lld reset, %lld bytes\n", (long long)proxy->connections,
           (long long)proxy->resets, (long long)proxy->carried_bytes);
    (void)unlink(proxy->control_path);
}

int main(int argc, char **argv)
{
    int code = 0;
    struct proxy *proxy = calloc(1, sizeof *proxy);
    if (proxy == NULL || !parse_options(argc, argv, proxy)) {
        fputs("belfry-proxy --listen 127.0.0.1:PORT --to 127.0.0.1:PORT --control PATH\n", stderr);
        code = 2;
        goto out;
    }
    proxy->clock = clock_system;
    for (struct link *link = proxy->links; link < proxy->links + LINKS_MAX; link++)
        link->client = link->server = -1;
    signals_open();
    if (!open_sockets(proxy)) {
        perror("belfry-proxy");
        code = 1;
        goto out;
    }
    puts("ready");
    (void)fflush(stdout);
    run(proxy);
out:
    free(proxy);
    return code;
}
