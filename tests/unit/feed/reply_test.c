/* If-None-Match as clients send it. */
#include "feed/reply.h"

#include <criterion/criterion.h>

Test(reply, tags)
{
    static const struct {
        const char *header;
        bool has;
    } rows[] = {
        {"W/\"abc\"", true},       {"\"abc\"", true},     {"*", true},         {" \"x\" , W/\"abc\"", true},
        {"\"a,b\",\"abc\"", true}, {"", false},           {"abc", false},      {"W/", false},
        {"\"abc", false},          {"\"", false},         {"W/\"ab\"", false}, {"W/\"abcd\"", false},
        {"w/\"abc\"", false},      {"x, \"abc\"", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(reply_has_tag(span_of(rows[i].header), "W/\"abc\""), rows[i].has, "%s", rows[i].header);
    cr_expect_not(reply_has_tag((struct span){NULL, 0}, "W/\"abc\""));
}
