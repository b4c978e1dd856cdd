/* The shape of a push token (contracts/provider.md, Tokens). */
#ifndef BELFRY_REMOTE_TOKEN_H
#define BELFRY_REMOTE_TOKEN_H

#include <stdbool.h>

#include "base/span.h"
#include "remote/settings.h"

/* ExponentPushToken[…], ExpoPushToken[…], or 8-4-4-4-12 letters and digits (a-z, not only hex, any case); at
 * most 256 bytes. Strict also wants printable ASCII, and inside the brackets something without quote or
 * blank. What is not of this shape is never sent: failed/InvalidToken. */
bool token_shape_ok(struct span token, enum provider_token_check check);

#endif
