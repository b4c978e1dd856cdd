/* Text that may hold no terminating NUL: pointer and length, never owned. */
#ifndef BELFRY_BASE_SPAN_H
#define BELFRY_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct span {
    const char *at; /* may be NULL when bytes is 0: a member that was not given */
    size_t bytes;
};

static inline struct span span_of(const char *text)
{
    return (struct span){.at = text, .bytes = text == NULL ? 0 : strlen(text)};
}

static inline bool span_is(struct span span, const char *text)
{
    return span.bytes == strlen(text) &&
           (span.bytes == 0 || (span.at != NULL && memcmp(span.at, text, span.bytes) == 0));
}

static inline bool span_same(struct span a, struct span b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.at, b.at, a.bytes) == 0);
}

#endif
