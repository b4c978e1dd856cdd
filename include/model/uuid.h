/* UUIDs as 16 bytes, and version 7 ids that rise within one maker (RFC 9562 §5.7, §6.2 method 1: rand_a and
 * the next 14 bits are a counter). */
#ifndef BELFRY_MODEL_UUID_H
#define BELFRY_MODEL_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

struct uuid {
    unsigned char bytes[16];
};

enum { UUID_TEXT_BYTES = 36 };

struct uuid_maker {
    int64_t last_ms;
    uint32_t counter;
};

/* The next id; never smaller than the one before from this maker, also when the clock goes back. Randomness
 * comes from getrandom(2). Not thread safe: one maker a thread. */
struct uuid uuid_make(struct uuid_maker *maker, int64_t now_us);

/* Lower-case text with a NUL: text holds UUID_TEXT_BYTES + 1 bytes. */
void uuid_format(struct uuid id, char *text);
/* The canonical 8-4-4-4-12 form only, either case. */
bool uuid_parse(struct span text, struct uuid *id);

#endif
