/* RFC 3629's edges. */
#include "base/utf8.h"

#include <criterion/criterion.h>

Test(utf8, text)
{
    static const struct {
        char bytes[8];
        size_t count;
        bool text;
    } rows[] = {
        {"", 0, true},
        {"a~", 2, true},
        {"\xc3\xa9", 2, true},
        {"\xe2\x82\xac", 3, true},
        {"\xf0\x9f\x98\x80", 4, true},
        {"\xed\x9f\xbf", 3, true},
        {"\xef\xbf\xbf", 3, true},
        {"\xf4\x8f\xbf\xbf", 4, true},
        {"\x01\x7f", 2, true},
        {"a\0b", 3, false},
        {"\x80", 1, false},
        {"\xc0\xaf", 2, false},
        {"\xc1\x81", 2, false},
        {"\xc3", 1, false},
        {"\xc3"
         "a",
         2, false},
        {"\xe0\x9f\xbf", 3, false},
        {"\xe2\x82", 2, false},
        {"\xed\xa0\x80", 3, false},
        {"\xf0\x8f\xbf\xbf", 4, false},
        {"\xf4\x90\x80\x80", 4, false},
        {"\xf5\x80\x80\x80", 4, false},
        {"\xff", 1, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(utf8_is_text((struct span){rows[i].bytes, rows[i].count}), rows[i].text, "row %zu", i);
}
