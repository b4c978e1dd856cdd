/* In: the path of a key file. Out: its bytes, at most as many as there is room for. Always: nothing of the
 * file is in a fault, and what is no plain file cannot hang the start. */
#include "key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum status key_file_refuse(const char *path, const char *why, struct fault *fault)
{
    fault_set(fault, "key_file", "the key file %s %s", path, why);
    fault_set_field(fault, path);
    return ST_REJECT;
}

/* False and errno on failure. */
static bool read_all(const char *path, struct key_file *file)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang the start */
    if (fd < 0)
        return false;
    struct stat info;
    ssize_t piece = fstat(fd, &info);
    file->mode = piece == 0 ? info.st_mode : 0;
    file->bytes = 0;
    while (piece >= 0 && file->bytes < file->bytes_max) {
        piece = read(fd, file->text + file->bytes, file->bytes_max - file->bytes);
        if (piece == 0 || (piece < 0 && errno != EINTR))
            break;
        file->bytes += piece > 0 ? (size_t)piece : 0;
        piece = 0;
    }
    int why = errno;
    close(fd);
    errno = why;
    return piece >= 0;
}

enum status key_file_read(const char *path, struct key_file *file, struct fault *fault)
{
    char why[96], reason[64];
    if (read_all(path, file))
        return ST_OK;
    snprintf(why, sizeof why, "cannot be read: %s", strerror_r(errno, reason, sizeof reason));
    return key_file_refuse(path, why, fault);
}
