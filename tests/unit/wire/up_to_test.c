/* The body of `read up to`, row by row. */
#include "wire/up_to.h"

#include <criterion/criterion.h>
#include <string.h>

static void refused(struct span body, const char *code)
{
    char cursor[CURSOR_TEXT_MAX + 1];
    struct fault fault;
    cr_expect_eq(up_to_parse(body, cursor, &fault), ST_REJECT, "%.40s", body.at);
    cr_expect_str_eq(fault.code, code, "%.40s", body.at);
}

Test(up_to, bodies)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "{",
        "\"x\"",
        "{\"up_to\":1}",
        "{\"up_to\":null}",
        "{\"up_to\":\"\"}",
        "{\"up_to\":\"a\",\"x\":1}",
        "{\"Up_to\":\"a\"}",
        "{\"up_to\":\"a\",\"up_to\":\"a\"}",
        "{\"up_to\":\"a\\u0000\"}",
        "{\"up_to\":\"a\"} x",
        "{\"up_to\":\"\xff\"}",
    };
    char cursor[CURSOR_TEXT_MAX + 1], longest[CURSOR_TEXT_MAX + 32];
    struct fault fault;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(span_of(bad[i]), "invalid_body");
    refused((struct span){NULL, 0}, "invalid_body");
    cr_assert_eq(up_to_parse(span_of(" {\"up_to\": \"AQ-_\"} "), cursor, &fault), ST_OK);
    cr_expect_str_eq(cursor, "AQ-_");
    memset(longest, 'A', sizeof longest);
    memcpy(longest, "{\"up_to\":\"", 10);
    memcpy(longest + 10 + CURSOR_TEXT_MAX, "\"}", 3);
    cr_assert_eq(up_to_parse(span_of(longest), cursor, &fault), ST_OK);
    cr_expect_eq(strlen(cursor), (size_t)CURSOR_TEXT_MAX);
    memcpy(longest + 10 + CURSOR_TEXT_MAX, "A\"}", 4);
    refused(span_of(longest), CURSOR_INVALID);
}
