/* LRU over uthash: the table's own order is the order of use, oldest first, for a user that was used is taken
 * out and put in again. In: answers; out: the same until users_max newer ones came. A crash here loses the
 * cache and nothing else. */
#include "preferences_cache.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1 /* uthash would end the process; here a user is just not kept */
#include <uthash.h>

struct known {
    UT_hash_handle hh;
    int64_t at_ms;
    bool push;
    size_t denied_count, user_bytes;
    char *user; /* behind the hashes */
    uint64_t denied[];
};

struct preferences_cache {
    struct known *users; /* uthash's head */
    size_t users_max;
    struct siphash_key key;
};

struct preferences_cache *preferences_cache_new(size_t users_max, struct siphash_key key)
{
    struct preferences_cache *cache = calloc(1, sizeof *cache);
    if (cache != NULL) {
        cache->users_max = users_max;
        cache->key = key;
    }
    return cache;
}

static void forget(struct preferences_cache *cache, struct known *known)
{
    HASH_DEL(cache->users, known);
    free(known);
}

void preferences_cache_free(struct preferences_cache *cache)
{
    if (cache == NULL)
        return;
    for (struct known *oldest; (oldest = cache->users) != NULL;)
        forget(cache, oldest);
    free(cache);
}

static unsigned hash_of(const struct preferences_cache *cache, struct span user)
{
    return (unsigned)siphash(&cache->key, user);
}

static struct known *find(const struct preferences_cache *cache, struct span user)
{
    struct known *known = NULL;
    unsigned hash = hash_of(cache, user);
    HASH_FIND_BYHASHVALUE(hh, cache->users, user.at, user.bytes, hash, known);
    return known;
}

/* At the end of the order: the last to be put out. False: the table cannot grow, and it is freed. */
static bool add(struct preferences_cache *cache, struct known *known, unsigned hash)
{
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, cache->users, known->user, known->user_bytes, hash, known);
    if (known->hh.tbl != NULL)
        return true;
    free(known);
    return false;
}

bool preferences_cache_find(struct preferences_cache *cache, struct span user,
                            struct preferences_answer *answer, int64_t *at_ms)
{
    struct known *known = find(cache, user);
    if (known == NULL)
        return false;
    if (known->hh.next != NULL) { /* not the newest already */
        HASH_DEL(cache->users, known);
        if (!add(cache, known, known->hh.hashv))
            return false;
    }
    *answer = (struct preferences_answer){known->push, known->denied_count, known->denied};
    *at_ms = known->at_ms;
    return true;
}

void preferences_cache_put(struct preferences_cache *cache, struct span user,
                           const struct preferences_answer *answer, int64_t at_ms)
{
    struct known *known = find(cache, user);
    if (known != NULL)
        forget(cache, known);
    struct known *oldest = cache->users;
    if (oldest != NULL && preferences_cache_count(cache) >= cache->users_max)
        forget(cache, oldest);
    size_t denied_bytes = answer->denied_count * sizeof known->denied[0];
    known = calloc(1, sizeof *known + denied_bytes + user.bytes + 1);
    if (known == NULL)
        return;
    known->at_ms = at_ms;
    known->push = answer->push;
    known->denied_count = answer->denied_count;
    known->user = (char *)known->denied + denied_bytes;
    known->user_bytes = user.bytes;
    if (denied_bytes > 0)
        memcpy(known->denied, answer->denied, denied_bytes);
    memcpy(known->user, user.at, user.bytes);
    (void)add(cache, known, hash_of(cache, user));
}

size_t preferences_cache_count(const struct preferences_cache *cache)
{
    return HASH_COUNT(cache->users);
}
