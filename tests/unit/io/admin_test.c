/* The admin port as an orchestrator and a scraper see it: over a socket, from the admin's own thread. */
#include "io/admin.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct metric_row rows[] = {{.name = "belfry_test_total", .help = "A test."}};

struct fixture {
    struct metrics *metrics;
    struct metric_set *set;
    struct readiness *readiness;
    struct admin *admin;
};

static void open_admin(struct fixture *fixture)
{
    struct fault fault;
    fixture->metrics = metrics_new();
    fixture->set = metrics_add(fixture->metrics, rows, 1);
    fixture->readiness = readiness_new(&clock_system);
    const struct admin_options options = {.listen = {.host = "127.0.0.1"},
                                          .metrics = fixture->metrics,
                                          .readiness = fixture->readiness,
                                          .clock = clock_system};
    cr_assert_eq(admin_open(&options, &fixture->admin, &fault), ST_OK, "%s", fault.text);
}

static void close_admin(struct fixture *fixture)
{
    admin_close(fixture->admin);
    readiness_free(fixture->readiness);
    metrics_free(fixture->metrics);
}

static void get(const struct fixture *fixture, const char *method, const char *path, char reply[8192])
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(admin_port(fixture->admin)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[256];
    size_t got = 0;
    ssize_t count;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    int bytes = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                         method, path);
    cr_assert_eq(send(fd, request, (size_t)bytes, MSG_NOSIGNAL), bytes);
    while ((count = recv(fd, reply + got, 8191 - got, 0)) > 0)
        got += (size_t)count;
    reply[got] = '\0';
    close(fd);
}

static void expect(const struct fixture *fixture, const char *method, const char *path, const char *status,
                   const char *text)
{
    char reply[8192];
    get(fixture, method, path, reply);
    cr_expect_eq(strncmp(reply, status, strlen(status)), 0, "%s %s: %s", method, path, reply);
    cr_expect_not_null(strstr(reply, text), "%s %s: %s", method, path, reply);
}

Test(admin, says_alive_ready_and_counts)
{
    struct fixture fixture;
    open_admin(&fixture);
    size_t slot = readiness_add(fixture.readiness, "database", 0);
    metric_add(fixture.set, 0, 0, 3);
    expect(&fixture, "GET", "/livez", "HTTP/1.1 200 ", "alive\n");
    expect(&fixture, "GET", "/readyz", "HTTP/1.1 503 ",
           "\r\n\r\n{\"ready\":false,\"reasons\":[{\"part\":\"database\",\"reason\":\"starting\"}]");
    expect(&fixture, "GET", "/metrics", "HTTP/1.1 200 ", "\nbelfry_ready 0\n");
    readiness_ready(fixture.readiness, slot);
    expect(&fixture, "GET", "/metrics", "HTTP/1.1 200 ", "\nbelfry_ready 1\n");
    expect(&fixture, "GET", "/readyz", "HTTP/1.1 200 ", "\r\n\r\n{\"ready\":true,\"reasons\":[],");
    expect(&fixture, "GET", "/metrics", "HTTP/1.1 200 ", "\nbelfry_test_total 3\n");
    expect(&fixture, "GET", "/metrics", "HTTP/1.1 200 ", "text/plain; version=0.0.4; charset=utf-8");
    readiness_leave(fixture.readiness);
    expect(&fixture, "GET", "/readyz", "HTTP/1.1 503 ", "{\"part\":\"process\",\"reason\":\"leaving\"}");
    expect(&fixture, "GET", "/readyz", "HTTP/1.1 503 ", "Content-Type: application/json");
    expect(&fixture, "GET", "/livez", "HTTP/1.1 200 ", "alive\n");
    close_admin(&fixture);
}

Test(admin, refuses_what_it_does_not_have)
{
    struct fixture fixture;
    open_admin(&fixture);
    expect(&fixture, "GET", "/", "HTTP/1.1 404 ", "\"code\":\"not_found\"");
    expect(&fixture, "POST", "/metrics", "HTTP/1.1 405 ", "Allow: GET, HEAD");
    expect(&fixture, "HEAD", "/livez", "HTTP/1.1 200 ", "\r\n\r\n");
    close_admin(&fixture);
    admin_close(NULL);
}
