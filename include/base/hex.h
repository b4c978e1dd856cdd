/* One hexadecimal digit, either case. */
#ifndef BELFRY_BASE_HEX_H
#define BELFRY_BASE_HEX_H

/* 0 to 15; -1 for anything else. */
static inline int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
