/* 48 bits of milliseconds, version, a 26-bit counter that starts at a random place each millisecond, variant,
 * and 48 random bits. */
#include "model/uuid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hex.h"

enum { COUNTER_BITS = 26 };

static void random_bytes(unsigned char *bytes, size_t count)
{
    /* Up to 256 bytes getrandom never returns less, once the pool is ready. */
    if (getrandom(bytes, count, 0) != (ssize_t)count)
        abort();
}

struct uuid uuid_make(struct uuid_maker *maker, int64_t now_us)
{
    unsigned char noise[10];
    random_bytes(noise, sizeof noise);
    int64_t ms = now_us / 1000;
    if (ms > maker->last_ms) {
        uint32_t start = 0;
        memcpy(&start, noise + 6, sizeof start);
        maker->last_ms = ms;
        maker->counter = start >> (32 - COUNTER_BITS + 1); /* the top bit stays free for counting up */
    } else if (++maker->counter >> COUNTER_BITS != 0) {
        maker->last_ms++;
        maker->counter = 0;
    }
    struct uuid id;
    for (int i = 0; i < 6; i++)
        id.bytes[i] = (unsigned char)(maker->last_ms >> (40 - 8 * i));
    uint32_t high = maker->counter >> 14, low = maker->counter & 0x3fff;
    id.bytes[6] = (unsigned char)(0x70 | high >> 8);
    id.bytes[7] = (unsigned char)high;
    id.bytes[8] = (unsigned char)(0x80 | low >> 8);
    id.bytes[9] = (unsigned char)low;
    memcpy(id.bytes + 10, noise, 6);
    return id;
}

void uuid_format(struct uuid id, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *text++ = '-';
        *text++ = digits[id.bytes[i] >> 4];
        *text++ = digits[id.bytes[i] & 15];
    }
    *text = '\0';
}

bool uuid_parse(struct span text, struct uuid *id)
{
    struct uuid parsed;
    if (text.bytes != UUID_TEXT_BYTES)
        return false;
    int at = 0;
    for (size_t i = 0; i < text.bytes;) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (text.at[i++] != '-')
                return false;
            continue;
        }
        int high = hex_value(text.at[i]), low = hex_value(text.at[i + 1]);
        if (high < 0 || low < 0)
            return false;
        parsed.bytes[at++] = (unsigned char)(high << 4 | low);
        i += 2;
    }
    *id = parsed;
    return true;
}
