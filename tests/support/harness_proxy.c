/* belfry-proxy as a child of the world, and its commands. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/harness.h"

/* Below /tmp: the world's folder may be longer than a socket's path can be. */
static void control_path(const char *address, char *path, size_t size)
{
    snprintf(path, size, "/tmp/belfry-proxy-%s.sock", strrchr(address, ':') + 1);
}

struct child *world_proxy(struct world *w, int to_port, char *address)
{
    char to[64], control[108];
    snprintf(address, 64, "127.0.0.1:%d", world_free_port());
    snprintf(to, sizeof to, "127.0.0.1:%d", to_port);
    control_path(address, control, sizeof control);
    const char *argv[] = {"--listen", address, "--to", to, "--control", control, NULL};
    struct child *child = child_start(w, "tests/support/belfry-proxy", argv, NULL);
    int64_t deadline_ms = world_now_ms() + 5000;
    for (;;) {
        FILE *output = fopen(child->output, "r");
        char line[16] = "";
        if (output != NULL) {
            (void)fgets(line, sizeof line, output);
            fclose(output);
        }
        if (strcmp(line, "ready\n") == 0)
            return child;
        cr_assert(child_running(child) && world_now_ms() < deadline_ms, "the proxy did not start: see %s",
                  child->log);
        world_sleep_ms(10);
    }
}

void proxy_say(const char *address, const char *command)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    control_path(address, to.sun_path, sizeof to.sun_path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ssize_t sent =
        sendto(fd, command, strlen(command), 0, (const struct sockaddr *)&to, (socklen_t)sizeof to);
    cr_assert_eq(sent, (ssize_t)strlen(command), "the proxy on %s takes no command", address);
    close(fd);
}
