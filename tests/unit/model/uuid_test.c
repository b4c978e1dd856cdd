/* Version 7 ids rise within a maker, whatever the clock does; text both ways, canonical form only. */
#include "model/uuid.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

Test(uuid, version_variant_and_time)
{
    struct uuid_maker maker = {0};
    struct uuid id = uuid_make(&maker, 0x019912345678LL * 1000 + 999);
    char text[UUID_TEXT_BYTES + 1];
    uuid_format(id, text);
    cr_assert_eq(strncmp(text, "01991234-5678", 13), 0, "%s", text);
    cr_assert_eq(id.bytes[6] >> 4, 7);
    cr_assert_eq(id.bytes[8] >> 6, 2);
    int64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | id.bytes[i];
    cr_assert_eq(ms, 0x019912345678LL);
}

Test(uuid, rises_within_a_millisecond_and_when_the_clock_goes_back)
{
    struct uuid_maker maker = {0};
    struct uuid last = uuid_make(&maker, 1774083600000000);
    for (int i = 0; i < 300000; i++) {
        int64_t now = 1774083600000000 - (i % 3 == 0 ? 5000000 : 0) + (i % 1000 == 0 ? i : 0);
        struct uuid id = uuid_make(&maker, now);
        cr_assert_gt(memcmp(id.bytes, last.bytes, 16), 0, "%d", i);
        last = id;
    }
}

Test(uuid, counter_overflow_borrows_from_the_next_millisecond)
{
    struct uuid_maker maker = {.last_ms = 1000, .counter = (1U << 26) - 1};
    struct uuid a = uuid_make(&maker, 1000000);
    cr_assert_eq(maker.last_ms, 1001);
    cr_assert_eq(maker.counter, 0);
    struct uuid b = uuid_make(&maker, 1000000);
    cr_assert_lt(memcmp(a.bytes, b.bytes, 16), 0);
}

Test(uuid, two_makers_differ)
{
    struct uuid_maker one = {0}, two = {0};
    struct uuid a = uuid_make(&one, 1774083600000000), b = uuid_make(&two, 1774083600000000);
    cr_assert_neq(memcmp(a.bytes + 6, b.bytes + 6, 10), 0);
}

Test(uuid, text_both_ways)
{
    const char *const good = "01991234-89ab-7cde-8f01-23456789abcd";
    struct uuid id, upper;
    char text[UUID_TEXT_BYTES + 1], shouted[UUID_TEXT_BYTES + 1];
    cr_assert(uuid_parse(span_of(good), &id));
    uuid_format(id, text);
    cr_assert_str_eq(text, good);
    for (size_t i = 0; i <= UUID_TEXT_BYTES; i++)
        shouted[i] = (char)toupper(good[i]);
    cr_assert(uuid_parse(span_of(shouted), &upper));
    cr_assert_eq(memcmp(id.bytes, upper.bytes, 16), 0);
}

Test(uuid, refuses)
{
    static const char *const bad[] = {
        "",
        "0199123489ab7cde8f0123456789abcd",
        "{01991234-89ab-7cde-8f01-23456789abcd}",
        "01991234-89ab-7cde-8f01-23456789abc",
        "01991234-89ab-7cde-8f01-23456789abcd0",
        "01991234089ab-7cde-8f01-23456789abcd",
        "0199123-489ab-7cde-8f01-23456789abcd",
        "01991234-89ab-7cde-8f01-23456789abcg",
        "01991234-89ab-7cde-8f01-2345678 abcd",
        "01991234-89ab-7cde-8f01-------------",
    };
    struct uuid id = {{7}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(uuid_parse(span_of(bad[i]), &id), "%s", bad[i]);
        cr_assert_eq(id.bytes[0], 7, "written only on success");
    }
}
