/* Blocks in a list, filled in order; a reset rewinds to the first and keeps them all. At the maximum, blocks
 * that hold nothing are given up for one of the size that is needed: an arena that was reset has room like a
 * new one. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024 };

struct arena_block {
    struct arena_block *next;
    size_t size, used;
    alignas(max_align_t) unsigned char bytes[];
};

void arena_init(struct arena *arena, size_t bytes_max)
{
    *arena = (struct arena){.bytes_max = bytes_max};
}

void arena_done(struct arena *arena)
{
    struct arena_block *block = arena->first;
    while (block != NULL) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    arena_init(arena, arena->bytes_max);
}

void arena_reset(struct arena *arena)
{
    for (struct arena_block *block = arena->first; block != NULL; block = block->next)
        block->used = 0;
    arena->current = arena->first;
}

static struct arena_block *add_block(struct arena *arena, size_t bytes)
{
    size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    if (size > arena->bytes_max || arena->bytes_held > arena->bytes_max - size)
        return NULL;
    struct arena_block *block = malloc(sizeof *block + size);
    if (block == NULL)
        return NULL;
    block->next = NULL;
    block->size = size;
    block->used = 0;
    struct arena_block **link = &arena->first;
    while (*link != NULL)
        link = &(*link)->next;
    *link = block;
    arena->bytes_held += size;
    return block;
}

/* Blocks that hold nothing give their memory back, for one of another size. */
static void drop_unused(struct arena *arena)
{
    struct arena_block **link = &arena->first;
    while (*link != NULL) {
        struct arena_block *block = *link;
        if (block->used > 0) {
            link = &block->next;
            continue;
        }
        *link = block->next;
        arena->bytes_held -= block->size;
        free(block);
    }
    arena->current = arena->first;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    const size_t align = alignof(max_align_t);
    if (bytes > SIZE_MAX - align)
        return NULL;
    bytes = bytes == 0 ? align : (bytes + align - 1) / align * align;
    struct arena_block *block = arena->current;
    while (block != NULL && block->size - block->used < bytes)
        block = block->next;
    if (block == NULL)
        block = add_block(arena, bytes);
    if (block == NULL) {
        drop_unused(arena);
        block = add_block(arena, bytes);
    }
    if (block == NULL)
        return NULL;
    if (bytes < BLOCK_BYTES)
        arena->current = block;
    void *at = block->bytes + block->used;
    block->used += bytes;
    return memset(at, 0, bytes);
}

void *arena_array(struct arena *arena, size_t count, size_t bytes)
{
    if (bytes != 0 && count > SIZE_MAX / bytes)
        return NULL;
    return arena_alloc(arena, count * bytes);
}

char *arena_copy(struct arena *arena, struct span text)
{
    char *copy = text.bytes == SIZE_MAX ? NULL : arena_alloc(arena, text.bytes + 1);
    if (copy != NULL && text.bytes > 0)
        memcpy(copy, text.at, text.bytes);
    return copy;
}
