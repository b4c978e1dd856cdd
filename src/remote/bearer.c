/* In: a token as configured. Out: a header line. Always holds: the old header is whole until the new one is;
 * no token is ever in a fault. A crash here loses nothing: it is read from the configuration again. */
#include "bearer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status bearer_check(const char *token, const char *section, struct fault *fault)
{
    char field[64];
    if (strpbrk(token, "\r\n") == NULL)
        return ST_OK;
    snprintf(field, sizeof field, "%s.token", section);
    fault_set(fault, "config", "[%s] token holds a line break", section);
    fault_set_field(fault, field);
    return ST_REJECT;
}

enum status bearer_set(char **header, const char *token, const char *section, struct fault *fault)
{
    char *fresh = NULL;
    enum status status = bearer_check(token, section, fault);
    if (status != ST_OK)
        return status;
    if (token[0] != '\0' && asprintf(&fresh, "Authorization: Bearer %s", token) < 0) {
        fault_set(fault, "memory", "no memory for a token");
        return ST_FATAL;
    }
    free(*header);
    *header = fresh;
    return ST_OK;
}
