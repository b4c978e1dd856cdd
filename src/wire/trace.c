/* 00-<32 hex>-<16 hex>-<2 hex> (https://www.w3.org/TR/trace-context/ §3.2). */
#include "wire/trace.h"

#include <stdbool.h>

static const char zeros[] = "00-00000000000000000000000000000000-0000000000000000-00";
enum { TRACE_BYTES = sizeof zeros - 1, TRACE_ID = 3, PARENT_ID = 36, FLAGS = 53 };

static bool has_digit(struct span text, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (text.at[i] != '0' && text.at[i] != '-')
            return true;
    }
    return false;
}

struct span trace_parent_valid(struct span header)
{
    const struct span none = {.at = NULL, .bytes = 0};
    if (header.bytes != TRACE_BYTES || header.at[0] != '0' || header.at[1] != '0')
        return none;
    for (size_t i = 0; i < TRACE_BYTES; i++) {
        char c = header.at[i];
        bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (zeros[i] == '-' ? c != '-' : !hex)
            return none;
    }
    return has_digit(header, TRACE_ID, PARENT_ID) && has_digit(header, PARENT_ID, FLAGS) ? header : none;
}

struct span trace_id_of(struct span header)
{
    struct span valid = trace_parent_valid(header);
    if (valid.bytes == 0)
        return valid;
    return (struct span){.at = valid.at + TRACE_ID, .bytes = PARENT_ID - TRACE_ID - 1};
}
