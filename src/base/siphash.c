/* SipHash-2-4 as its paper writes it: two rounds a word of eight bytes, four at the end. In: key and bytes;
 * out: 64 bits, the same on every machine. Reads nothing outside the span. */
#include "base/siphash.h"

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void rounds(struct state *s, int count)
{
    for (int i = 0; i < count; i++) {
        s->v0 += s->v1;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v2 = rotate(s->v2, 32);
    }
}

/* Little-endian, whatever the machine is. */
static uint64_t word(const char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)(unsigned char)at[i] << (8 * i);
    return value;
}

static void mix(struct state *s, uint64_t value)
{
    s->v3 ^= value;
    rounds(s, 2);
    s->v0 ^= value;
}

uint64_t siphash(const struct siphash_key *key, struct span text)
{
    struct state s = {key->k0 ^ 0x736f6d6570736575U, key->k1 ^ 0x646f72616e646f6dU,
                      key->k0 ^ 0x6c7967656e657261U, key->k1 ^ 0x7465646279746573U};
    size_t whole = text.bytes & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8)
        mix(&s, word(text.at + i, 8));
    uint64_t last = (uint64_t)text.bytes << 56;
    if (text.bytes > whole)
        last |= word(text.at + whole, text.bytes - whole);
    mix(&s, last);
    s.v2 ^= 0xff;
    rounds(&s, 4);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
