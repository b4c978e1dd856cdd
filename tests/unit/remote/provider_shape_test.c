/* Small parts of src/remote: token shapes, Retry-After, excerpts. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "excerpt.h"
#include "remote/token.h"
#include "retry_after.h"

Test(remote, token_shapes)
{
    static const struct {
        const char *token;
        bool strict, official;
    } rows[] = {
        {"ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]", true, true},
        {"ExpoPushToken[abc-_.:]", true, true},
        {"F5741A13-BCDA-434B-A316-5DC0E6FFA94F", true, true},
        {"zzzzzzzz-zzzz-zzzz-zzzz-zzzzzzzzzzzz", true, true},
        {"ExponentPushToken[]", false, true},
        {"ExponentPushToken[a b]", false, true},
        {"ExponentPushToken[a\"b]", false, true},
        {"ExponentPushToken[a'b]", false, true},
        {"ExponentPushToken[a\nb]", false, true},
        {"ExponentPushToken[\xc3\xa9]", false, true},
        {"ExponentPushToken[a] ", false, false},
        {" ExponentPushToken[a]", false, false},
        {"ExponentPushToken[a", false, false},
        {"ExponentPushToken", false, false},
        {"exponentpushtoken[a]", false, false},
        {"F5741A13-BCDA-434B-A316-5DC0E6FFA94", false, false},
        {"F5741A13-BCDA-434B-A316-5DC0E6FFA94F0", false, false},
        {"F5741A13_BCDA-434B-A316-5DC0E6FFA94F", false, false},
        {"", false, false},
        {"dead", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(token_shape_ok(span_of(rows[i].token), TOKEN_CHECK_STRICT), rows[i].strict, "%s",
                     rows[i].token);
        cr_expect_eq(token_shape_ok(span_of(rows[i].token), TOKEN_CHECK_OFFICIAL), rows[i].official, "%s",
                     rows[i].token);
    }
    static char longest[300] = "ExponentPushToken[";
    memset(longest + 18, 'a', 237);
    longest[255] = ']';
    cr_expect(token_shape_ok(span_of(longest), TOKEN_CHECK_STRICT));
    longest[255] = 'a';
    longest[256] = ']';
    cr_expect_not(token_shape_ok(span_of(longest), TOKEN_CHECK_STRICT));
}

Test(remote, retry_after)
{
    const int64_t now_us = 1445412477LL * 1000000; /* Wed, 21 Oct 2015 07:27:57 GMT */
    static const struct {
        const char *value;
        int64_t ms;
    } rows[] = {{"5", 5000},
                {"0", 0},
                {"-5", -1},
                {"120junk", -1},
                {"5.5", -1},
                {" 5", -1},
                {"", -1},
                {"99999999999", 60000},
                {"99999999999999999999999999", 60000},
                {"60", 60000},
                {"61", 60000},
                {"Wed, 21 Oct 2015 07:28:00 GMT", 3000},
                {"Wednesday, 21-Oct-15 07:28:00 GMT", 3000},
                {"Wed Oct 21 07:28:00 2015", 3000},
                {"Wed, 21 Oct 2015 07:27:00 GMT", 0},
                {"Wed, 21 Oct 2035 07:28:00 GMT", 60000},
                {"Wed, 21 Oct 2015 07:28:00 GMT junk", -1},
                {"tomorrow", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(retry_after_ms(span_of(rows[i].value), now_us, 60000), rows[i].ms, "%s", rows[i].value);
}

Test(remote, excerpts_give_no_secret_away)
{
    static const struct {
        const char *body, *sent, *excerpt;
    } rows[] = {
        {"<html>\n<b>502 Bad\x01Gateway</b>", "", "<html> <b>502 Bad Gateway</b>"},
        {"no ExponentPushToken[abc] here", "", "no *] here"},
        {"cut ExponentPushToken[abc", "", "cut *"},
        {"{\"data\":[{\"to\":\"F5741A13-BCDA-434B-A316-5DC0E6FFA94F\"", "", "{\"data\":[{\"to\":\"*\""},
        {"you wrote: Your lab result", "[{\"title\":\"Your lab result\"}]", ""},
        {"", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char excerpt[81];
        excerpt_make(excerpt, sizeof excerpt, span_of(rows[i].body), span_of(rows[i].sent));
        cr_expect_str_eq(excerpt, rows[i].excerpt, "%zu: %s", i, excerpt);
    }
    static char large[5000];
    memset(large, '.', sizeof large - 1);
    char excerpt[81];
    excerpt_make(excerpt, sizeof excerpt, span_of(large), span_of(""));
    cr_expect_leq(strlen(excerpt), 80);
}
