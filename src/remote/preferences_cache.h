/* What the account service said about users, the least recently used out first. Private to src/remote.
 *
 * Bounded: at most users_max users, each with at most PREFERENCES_DENIED_MAX categories of 8 bytes, so a user
 * costs about 150 bytes and its id, and never over 2.5 KiB whatever the service answers. The table is keyed
 * by a hash under a random key: user ids come from outside. */
#ifndef BELFRY_SRC_REMOTE_PREFERENCES_CACHE_H
#define BELFRY_SRC_REMOTE_PREFERENCES_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"

/* Categories are kept as hashes under the owner's key: 64 bits, so two names never meet in practice. */
struct preferences_answer {
    bool push;
    size_t denied_count;
    const uint64_t *denied; /* not owned */
};

struct preferences_cache;

/* NULL when the heap is empty. */
struct preferences_cache *preferences_cache_new(size_t users_max, struct siphash_key key);
void preferences_cache_free(struct preferences_cache *cache); /* NULL is fine */

/* The answer as it was put and when; it counts as used now. It lives until the next call that is not a find.
 */
bool preferences_cache_find(struct preferences_cache *cache, struct span user,
                            struct preferences_answer *answer, int64_t *at_ms);
/* Copies; takes the place of an older answer. Without memory nothing is kept, not even the older one. */
void preferences_cache_put(struct preferences_cache *cache, struct span user,
                           const struct preferences_answer *answer, int64_t at_ms);
size_t preferences_cache_count(const struct preferences_cache *cache);

#endif
