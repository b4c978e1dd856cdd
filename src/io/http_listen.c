/* host:port in, a listening socket out: bound before libmicrohttpd sees it, so that a name, an IPv6 address
 * or "every address" is one matter, and a taken port one clear sentence. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_private.h"

enum { BACKLOG = 1024 };

static int listen_on(const struct addrinfo *info)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol);
    int on = 1, off = 0;
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (info->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static const char *what_to_do(int error)
{
    switch (error) {
    case EADDRINUSE:
        return "; another process has it: stop that one, or give this one another listen";
    case EADDRNOTAVAIL:
        return "; this machine has no such address: give another listen";
    case EACCES:
        return "; a port below 1024 needs a privilege: give another listen";
    default:
        return "";
    }
}

int http_listen(const struct config_address *address, struct fault *fault)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", (unsigned)address->port);
    int error = getaddrinfo(address->host[0] == '\0' ? NULL : address->host, port, &hints, &found);
    if (error != 0) {
        fault_set(fault, "listen", "cannot listen on %s:%s: %s", address->host, port, gai_strerror(error));
        fault_set_field(fault, "listen");
        return -1;
    }
    int fd = -1;
    /* "Every address" is IPv6 with IPv4 in it where the machine has both. */
    for (int family = 0; family < 2 && fd < 0; family++) {
        for (const struct addrinfo *info = found; info != NULL && fd < 0; info = info->ai_next) {
            if ((info->ai_family == AF_INET6) == (family == 0))
                fd = listen_on(info);
        }
    }
    if (fd < 0) {
        error = errno;
        fault_set(fault, "listen", "cannot listen on %s:%s: %s%s", address->host, port, strerror(error),
                  what_to_do(error));
        fault_set_field(fault, "listen");
    }
    freeaddrinfo(found);
    return fd;
}

uint16_t http_listen_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    char port[8];
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&address, bytes, NULL, 0, port, sizeof port, NI_NUMERICSERV) != 0)
        return 0;
    return (uint16_t)strtoul(port, NULL, 10);
}
