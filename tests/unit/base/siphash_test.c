/* SipHash-2-4 against the reference implementation's vectors: key 00 01 … 0f, text 00 01 … of each length. */
#include "base/siphash.h"

#include <criterion/criterion.h>

Test(siphash, reference_vectors)
{
    static const struct {
        size_t bytes;
        uint64_t hash;
    } rows[] = {{0, 0x726fdb47dd0e0e31U},  {1, 0x74f839c593dc67fdU}, {7, 0xab0200f58b01d137U},
                {8, 0x93f5f5799a932462U},  {9, 0x9e0082df0ba9e4b0U}, {15, 0xa129ca6149be45e5U},
                {16, 0x3f2acc7f57c29bdbU}, {63, 0x958a324ceb064572U}};
    const struct siphash_key key = {0x0706050403020100U, 0x0f0e0d0c0b0a0908U};
    char text[64];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)i;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(siphash(&key, (struct span){text, rows[i].bytes}), rows[i].hash, "%zu bytes",
                     rows[i].bytes);
}

Test(siphash, another_key_is_another_hash)
{
    const struct siphash_key a = {1, 2}, b = {1, 3};
    cr_expect_neq(siphash(&a, span_of("u1")), siphash(&b, span_of("u1")));
    cr_expect_neq(siphash(&a, span_of("u1")), siphash(&a, span_of("u2")));
    cr_expect_neq(siphash(&a, (struct span){"u\0001", 3}), siphash(&a, span_of("u")));
}
