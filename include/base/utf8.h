/* Whether bytes are text that Postgres takes: UTF-8 (RFC 3629: shortest forms, no surrogates, at most
 * U+10FFFF) without U+0000. */
#ifndef BELFRY_BASE_UTF8_H
#define BELFRY_BASE_UTF8_H

#include <stdbool.h>

#include "base/span.h"

bool utf8_is_text(struct span bytes);

#endif
