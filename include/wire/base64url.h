/* base64url without padding (RFC 4648 §5), strict and canonical: one text for one value, and only that one is
 * taken back (no padding, no blanks, unused bits are 0). */
#ifndef BELFRY_WIRE_BASE64URL_H
#define BELFRY_WIRE_BASE64URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

/* How long the text of so many bytes is, and how many bytes a text of this length can give at most. */
static inline size_t base64url_text_bytes(size_t bytes)
{
    return bytes / 3 * 4 + (bytes % 3 == 0 ? 0 : bytes % 3 + 1);
}

static inline size_t base64url_value_bytes(size_t text_bytes)
{
    return text_bytes / 4 * 3 + text_bytes % 4 * 3 / 4;
}

/* Writes base64url_text_bytes(value.bytes) characters and a NUL. */
void base64url_encode(struct span value, char *text);

/* Decodes into `value` (room for base64url_value_bytes(text.bytes)). False: not canonical base64url; then
 * *value_bytes is untouched. */
bool base64url_decode(struct span text, unsigned char *value, size_t *value_bytes);

#endif
