/* In: bytes from outside. Out: whether they are UTF-8 text without U+0000. Never reads outside the span. */
#include "base/utf8.h"

#include <stdint.h>

size_t utf8_character_bytes(struct span bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.at;
    static const struct {
        unsigned char first_min, first_max, second_min, second_max;
        size_t length;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (at[0] < forms[i].first_min || at[0] > forms[i].first_max)
            continue;
        if (forms[i].length > bytes.bytes)
            return 0;
        if (forms[i].length > 1 && (at[1] < forms[i].second_min || at[1] > forms[i].second_max))
            return 0;
        for (size_t j = 2; j < forms[i].length; j++)
            if (at[j] < 0x80 || at[j] > 0xbf)
                return 0;
        return forms[i].length;
    }
    return 0;
}

bool utf8_is_text(struct span bytes)
{
    while (bytes.bytes > 0) {
        size_t length = utf8_character_bytes(bytes);
        if (length == 0)
            return false;
        bytes.at += length;
        bytes.bytes -= length;
    }
    return true;
}
