/* A bump allocator that a batch owns: everything the batch holds lives until arena_reset, and stages
 * free nothing. Bounded: past bytes_max an allocation returns NULL, and the caller answers with a status. */
#ifndef BELFRY_BASE_ARENA_H
#define BELFRY_BASE_ARENA_H

#include <stddef.h>

#include "base/span.h"

struct arena_block;

struct arena {
    struct arena_block *first, *current;
    size_t bytes_max;  /* of all blocks together */
    size_t bytes_held; /* from the heap now; stays over a reset */
};

/* Takes no memory yet. */
void arena_init(struct arena *arena, size_t bytes_max);
void arena_done(struct arena *arena);

/* Everything handed out is void; memory is kept for the next batch, as far as it fits what that asks for. */
void arena_reset(struct arena *arena);

/* Aligned for any type, zeroed. NULL when the maximum is reached or the heap is empty. */
void *arena_alloc(struct arena *arena, size_t bytes);
/* The same for an array; NULL also when count * bytes overflows. */
void *arena_array(struct arena *arena, size_t count, size_t bytes);
/* A copy with a NUL behind it (not counted). NULL as above; an empty span gives "". */
char *arena_copy(struct arena *arena, struct span text);

#endif
