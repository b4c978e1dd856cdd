/* Whether bytes are text that Postgres takes: UTF-8 (RFC 3629: shortest forms, no surrogates, at most
 * U+10FFFF) without U+0000. */
#ifndef BELFRY_BASE_UTF8_H
#define BELFRY_BASE_UTF8_H

#include <stdbool.h>

#include "base/span.h"

bool utf8_is_text(struct span bytes);

/* How many bytes the character at the start of `bytes` has, 1-4; 0: there is none, or it is not one (U+0000
 * is not one here). bytes.bytes >= 1. */
size_t utf8_character_bytes(struct span bytes);

#endif
