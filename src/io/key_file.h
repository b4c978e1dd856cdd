/* Key files as bytes: what secrets and public keys have in common. */
#ifndef BELFRY_SRC_IO_KEY_FILE_H
#define BELFRY_SRC_IO_KEY_FILE_H

#include <stddef.h>
#include <sys/stat.h>

#include "base/status.h"

struct key_file {
    char *text;       /* the caller's room */
    size_t bytes_max; /* of it: one more than is allowed tells a file that is too long */
    size_t bytes;     /* read */
    mode_t mode;
};

/* ST_REJECT "key_file": it cannot be read. */
MUST_USE enum status key_file_read(const char *path, struct key_file *file, struct fault *fault);
/* Always ST_REJECT "key_file", field = path: "the key file PATH why". */
enum status key_file_refuse(const char *path, const char *why, struct fault *fault);

#endif
