/* Paths in, bytes out: the configuration's own file and the small ones that hold a secret each. What is read
 * is bounded; a file is read whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config_private.h"

bool config_file_open_to_others(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && (status.st_mode & S_IROTH) != 0;
}

ssize_t config_read_whole(const char *path, char *bytes, size_t bytes_max)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t used = 0;
    ssize_t got;
    do {
        got = read(fd, bytes + used, bytes_max + 1 - used);
        used += got > 0 ? (size_t)got : 0;
    } while ((got > 0 && used <= bytes_max) || (got < 0 && errno == EINTR));
    int error = errno;
    close(fd);
    errno = error;
    return got < 0 ? -1 : (ssize_t)used;
}

enum status config_read_file(struct arena *arena, const char *path, size_t bytes_max, struct span *text,
                             struct fault *fault)
{
    char *bytes = arena_alloc(arena, bytes_max + 2);
    if (bytes == NULL)
        return config_refuse_size(fault);
    ssize_t got = config_read_whole(path, bytes, bytes_max);
    if (got < 0) {
        fault_set(fault, "config", "cannot read %s: %s", path, strerror(errno));
        return ST_REJECT;
    }
    size_t used = (size_t)got;
    if (used > bytes_max || memchr(bytes, '\0', used) != NULL) {
        fault_set(fault, "config", "%s %s", path, used > bytes_max ? "is too large" : "holds a NUL byte");
        return ST_REJECT;
    }
    if (used > 0 && bytes[used - 1] == '\n')
        used--;
    if (used > 0 && bytes[used - 1] == '\r')
        used--;
    bytes[used] = '\0';
    if (used == 0) {
        fault_set(fault, "config", "%s is empty", path);
        return ST_REJECT;
    }
    *text = (struct span){bytes, used};
    return ST_OK;
}
