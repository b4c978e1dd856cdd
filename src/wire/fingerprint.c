/* Texts with their lengths, filters sorted by name, then SHA-256. The order of the parts is part of every
 * cursor ever given out: it may only be changed together with the cursor's version. */
#include "wire/fingerprint.h"

#include <assert.h>
#include <string.h>

#include "io/crypto.h"

enum { FIXED = 6, PARTS_MAX = FIXED + 2 * FINGERPRINT_FILTERS_MAX };

struct parts {
    struct span all[2 * PARTS_MAX];
    unsigned char sizes[PARTS_MAX][8];
    size_t count;
};

static void add(struct parts *parts, struct span text)
{
    unsigned char *size = parts->sizes[parts->count];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)text.bytes >> (56 - 8 * i));
    parts->all[2 * parts->count] = (struct span){.at = (const char *)size, .bytes = 8};
    parts->all[2 * parts->count + 1] = text;
    parts->count++;
}

static bool is_before(struct span a, struct span b)
{
    size_t shorter = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = shorter == 0 ? 0 : memcmp(a.at, b.at, shorter);
    return order != 0 ? order < 0 : a.bytes < b.bytes;
}

uint64_t fingerprint_of(const struct fingerprint_query *query)
{
    assert(query->filter_count <= FINGERPRINT_FILTERS_MAX);
    struct parts parts = {.count = 0};
    const struct span fixed[FIXED] = {query->feed, query->workspace, query->recipient,
                                      query->sort, query->contract,  query->export_id};
    for (int i = 0; i < FIXED; i++)
        add(&parts, fixed[i]);
    const struct fingerprint_filter *sorted[FINGERPRINT_FILTERS_MAX];
    for (size_t i = 0; i < query->filter_count; i++) {
        size_t place = i;
        for (; place > 0 && is_before(query->filters[i].name, sorted[place - 1]->name); place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = &query->filters[i];
    }
    for (size_t i = 0; i < query->filter_count; i++) {
        add(&parts, sorted[i]->name);
        add(&parts, sorted[i]->value);
    }
    unsigned char digest[CRYPTO_SHA256_BYTES];
    crypto_sha256(parts.all, 2 * parts.count, digest);
    uint64_t first = 0;
    for (int i = 0; i < 8; i++)
        first = first << 8 | digest[i];
    return first;
}
