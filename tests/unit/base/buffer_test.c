/* Buffers grow to their limit and not a byte further; a failed one stays failed until a reset. */
#include "base/buffer.h"

#include <criterion/criterion.h>
#include <stdint.h>

Test(buffer, appends_of_every_kind)
{
    struct buffer buffer;
    buffer_init(&buffer, 1000);
    cr_expect_null(buffer.at);
    buffer_add(&buffer, "ab", 2);
    buffer_add_text(&buffer, "cd");
    buffer_add_span(&buffer, (struct span){"efg", 2});
    buffer_add_span(&buffer, (struct span){NULL, 0});
    buffer_add_byte(&buffer, 'g');
    buffer_printf(&buffer, "-%d-%s", 7, "x");
    cr_expect_str_eq(buffer.at, "abcdefg-7-x");
    cr_expect_eq(buffer.bytes, 11);
    cr_expect(span_is(buffer_span(&buffer), "abcdefg-7-x"));
    char *room = buffer_reserve(&buffer, 3);
    memcpy(room, "xyz", 3);
    buffer.bytes += 3;
    buffer_add_text(&buffer, "!");
    cr_expect_str_eq(buffer.at, "abcdefg-7-xxyz!");
    buffer_done(&buffer);
    cr_expect_null(buffer.at);
    cr_expect_eq(buffer.bytes_max, 1000);
}

Test(buffer, the_limit_is_exact)
{
    struct buffer buffer;
    buffer_init(&buffer, 10);
    buffer_add_text(&buffer, "0123456789");
    cr_expect_not(buffer.failed);
    buffer_add(&buffer, "", 0);
    cr_expect_not(buffer.failed);
    buffer_add_byte(&buffer, 'x');
    cr_expect(buffer.failed);
    cr_expect_str_eq(buffer.at, "0123456789", "an append that fails changes nothing");
    buffer_reset(&buffer);
    buffer_add_text(&buffer, "012345678");
    buffer_printf(&buffer, "%d", 12);
    cr_expect(buffer.failed);
    buffer_add_byte(&buffer, 'x');
    cr_expect_str_eq(buffer.at, "012345678", "a failed buffer takes nothing more, even what would fit");
    cr_expect_null(buffer_reserve(&buffer, 0));
    buffer_reset(&buffer);
    cr_expect_not(buffer.failed);
    cr_expect_str_eq(buffer.at, "");
    cr_expect_null(buffer_reserve(&buffer, SIZE_MAX));
    buffer_done(&buffer);
}

Test(buffer, growth_keeps_what_was_there)
{
    struct buffer buffer;
    buffer_init(&buffer, 100000);
    for (int i = 0; i < 25000; i++)
        buffer_printf(&buffer, "%04d", i % 10000);
    cr_assert_not(buffer.failed);
    cr_assert_eq(buffer.bytes, 100000);
    cr_expect_leq(buffer.capacity, 100001);
    cr_expect_eq(memcmp(buffer.at, "00000001", 8), 0);
    cr_expect_eq(memcmp(buffer.at + 99996, "4999", 4), 0);
    buffer_done(&buffer);
}
