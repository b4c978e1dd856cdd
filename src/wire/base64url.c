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

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '-')
        return 62;
    return c == '_' ? 63 : -1;
}

bool base64url_decode(struct span text, unsigned char *value, size_t *value_bytes)
{
    uint32_t bits = 0;
    int count = 0;
    size_t made = 0;
    if (text.bytes % 4 == 1)
        return false;
    for (size_t i = 0; i < text.bytes; i++) {
        int six = value_of(text.at[i]);
        if (six < 0)
            return false;
        bits = (bits << 6 | (uint32_t)six) & 0xffff;
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
