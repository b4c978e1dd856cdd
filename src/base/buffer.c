/* Doubling growth up to the limit; the failed mark is sticky until a reset. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buffer_init(struct buffer *buffer, size_t bytes_max)
{
    *buffer = (struct buffer){.bytes_max = bytes_max};
}

void buffer_done(struct buffer *buffer)
{
    free(buffer->at);
    buffer_init(buffer, buffer->bytes_max);
}

void buffer_reset(struct buffer *buffer)
{
    buffer->bytes = 0;
    buffer->failed = false;
    if (buffer->at != NULL)
        buffer->at[0] = '\0';
}

char *buffer_reserve(struct buffer *buffer, size_t count)
{
    if (buffer->failed || count > buffer->bytes_max || buffer->bytes > buffer->bytes_max - count) {
        buffer->failed = true;
        return NULL;
    }
    size_t need = buffer->bytes + count + 1;
    if (need > buffer->capacity) {
        size_t capacity = buffer->capacity == 0 ? 256 : buffer->capacity;
        while (capacity < need)
            capacity *= 2;
        if (capacity > buffer->bytes_max + 1)
            capacity = buffer->bytes_max + 1;
        char *at = realloc(buffer->at, capacity);
        if (at == NULL) {
            buffer->failed = true;
            return NULL;
        }
        buffer->at = at;
        buffer->capacity = capacity;
    }
    return buffer->at + buffer->bytes;
}

void buffer_add(struct buffer *buffer, const void *bytes, size_t count)
{
    char *at = buffer_reserve(buffer, count);
    if (at == NULL)
        return;
    if (count > 0)
        memcpy(at, bytes, count);
    buffer->bytes += count;
    buffer->at[buffer->bytes] = '\0';
}

void buffer_add_text(struct buffer *buffer, const char *text)
{
    buffer_add(buffer, text, strlen(text));
}

void buffer_add_span(struct buffer *buffer, struct span span)
{
    buffer_add(buffer, span.at, span.bytes);
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int count = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *at = count < 0 ? NULL : buffer_reserve(buffer, (size_t)count);
    if (at != NULL) {
        vsnprintf(at, (size_t)count + 1, format, again);
        buffer->bytes += (size_t)count;
    }
    va_end(again);
}
