/* Ours because OpenSSL's decoder is lax: it takes blanks, padding and stray bits. Either direction is one
 * loop over a bit store; a failure here means only that the text is not the canonical form of anything. */
#include "wire/base64url.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url_encode(struct span value, char *text)
{
    uint32_t bits = 0;
    int count = 0;
    for (size_t i = 0; i < value.bytes; i++) {
        bits = (bits << 8 | (unsigned char)value.at[i]) & 0xffff;
        for (count += 8; count >= 6; count -= 6)
            *text++ = alphabet[bits >> (count - 6) & 63];
    }
    if (count > 0)
        *text++ = alphabet[bits << (6 - count) & 63];
    *text = '\0';
}

/* One more than each letter's value; 0: no letter of ours. A table, because branches on random letters are
 * mispredicted. */
static const unsigned char places[256] = {
    ['A'] = 1, 2,  3,  4,  5,          6,  7,  8,  9,  10, 11,         12, 13, 14, 15,         16,
    17,        18, 19, 20, 21,         22, 23, 24, 25, 26, ['a'] = 27, 28, 29, 30, 31,         32,
    33,        34, 35, 36, 37,         38, 39, 40, 41, 42, 43,         44, 45, 46, 47,         48,
    49,        50, 51, 52, ['0'] = 53, 54, 55, 56, 57, 58, 59,         60, 61, 62, ['-'] = 63, ['_'] = 64};

bool base64url_decode(struct span text, unsigned char *value, size_t *value_bytes)
{
    uint32_t bits = 0;
    int count = 0;
    size_t made = 0;
    if (text.bytes % 4 == 1)
        return false;
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned place = places[(unsigned char)text.at[i]];
        if (place == 0)
            return false;
        bits = (bits << 6 | (place - 1)) & 0xffff;
        count += 6;
        if (count >= 8) {
            count -= 8;
            value[made++] = (unsigned char)(bits >> count);
        }
    }
    if ((bits & ((1U << count) - 1)) != 0)
        return false;
    *value_bytes = made;
    return true;
}
