/* A growing byte buffer that takes its limit when it is made. An append past the limit (or out of memory)
 * changes nothing and marks the buffer failed; later appends do nothing, so a writer may check once. */
#ifndef BELFRY_BASE_BUFFER_H
#define BELFRY_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "base/status.h"

struct buffer {
    char *at; /* NUL-terminated once anything was appended; NULL before */
    size_t bytes, capacity, bytes_max;
    bool failed;
};

void buffer_init(struct buffer *buffer, size_t bytes_max);
void buffer_done(struct buffer *buffer);
/* Empty and not failed; memory is kept. */
void buffer_reset(struct buffer *buffer);

void buffer_add(struct buffer *buffer, const void *bytes, size_t count);
void buffer_add_text(struct buffer *buffer, const char *text);
void buffer_add_span(struct buffer *buffer, struct span span);
void buffer_printf(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for count more bytes and returns where they go; the caller then raises buffer->bytes.
 * NULL when past the limit. */
char *buffer_reserve(struct buffer *buffer, size_t count);

static inline void buffer_add_byte(struct buffer *buffer, char byte)
{
    if (buffer->failed || buffer->capacity - buffer->bytes < 2) {
        buffer_add(buffer, &byte, 1);
        return;
    }
    buffer->at[buffer->bytes++] = byte;
    buffer->at[buffer->bytes] = '\0';
}

static inline struct span buffer_span(const struct buffer *buffer)
{
    return (struct span){.at = buffer->at, .bytes = buffer->bytes};
}

#endif
