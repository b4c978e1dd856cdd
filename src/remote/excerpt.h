/* A short, harmless piece of a bad body, for the log. Private to src/remote. */
#ifndef BELFRY_REMOTE_EXCERPT_H
#define BELFRY_REMOTE_EXCERPT_H

#include <stddef.h>

#include "base/span.h"

/* Writes at most bytes - 1 printable ASCII characters and a NUL. Words of 16 and more letters and digits, and
 * what stands in square brackets behind a word, are masked: they may be tokens. A piece that repeats 12 bytes
 * of what was sent is dropped as a whole: it may be a title or a body. */
void excerpt_make(char *to, size_t bytes, struct span body, struct span sent);

#endif
