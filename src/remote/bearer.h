/* The Authorization header towards an outside service: one rule for what a token may be, and its renewal.
 * Private to src/remote. */
#ifndef BELFRY_REMOTE_BEARER_H
#define BELFRY_REMOTE_BEARER_H

#include "base/status.h"

/* ST_REJECT: the token cannot stand in a header; fault.field is "<section>.token". */
MUST_USE enum status bearer_check(const char *token, const char *section, struct fault *fault);
/* Puts "Authorization: Bearer TOKEN", or NULL for no token, in the place of *header and frees the old one. As
 * bearer_check, or ST_FATAL: no memory; the old one stays. */
MUST_USE enum status bearer_set(char **header, const char *token, const char *section, struct fault *fault);

#endif
