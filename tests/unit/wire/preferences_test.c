/* The account service's replies, good and hostile (contracts/preferences.md). */
#include "wire/preferences.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum { HOSTILE_MAX = PREFERENCES_REPLY_BYTES_MAX + 1024 };

Test(preferences, request)
{
    const struct span users[] = {span_of("u1"), span_of("a\"b\\"), span_of("\xc3\xa9"), {"n\0l", 3}};
    struct buffer out;
    buffer_init(&out, 1024);
    preferences_encode(users, 4, &out);
    cr_expect_str_eq(out.at, "{\"users\":[\"u1\",\"a\\\"b\\\\\",\"\xc3\xa9\",\"n\xef\xbf\xbdl\"]}");
    buffer_reset(&out);
    preferences_encode(users, 0, &out);
    cr_expect_str_eq(out.at, "{\"users\":[]}");
    buffer_done(&out);
}

Test(preferences, the_largest_request_fits_its_maximum)
{
    static char id[200];
    struct span users[PREFERENCES_USERS_MAX];
    struct buffer out;
    memset(id, 0x1f, sizeof id);
    for (size_t i = 0; i < PREFERENCES_USERS_MAX; i++)
        users[i] = (struct span){id, sizeof id};
    buffer_init(&out, PREFERENCES_REQUEST_BYTES_MAX);
    preferences_encode(users, PREFERENCES_USERS_MAX, &out);
    cr_expect_not(out.failed);
    buffer_done(&out);
}

/* "push" or "off", then ":denied" for each category; "wrong"; "not:code" when the whole reply is refused. */
static void describe(const char *body, size_t bytes, const char *user, char *text)
{
    struct preferences_reply *reply = NULL;
    static struct preferences_entry entry;
    struct fault fault;
    enum status status = preferences_reply_parse((struct span){body, bytes}, &reply, &fault);
    if (status != ST_OK) {
        cr_expect_eq(status, ST_REJECT);
        sprintf(text, "not:%s", fault.code);
        return;
    }
    preferences_reply_user(reply, span_of(user), &entry);
    int n = sprintf(text, "%s", entry.wrong ? "wrong" : entry.push ? "push" : "off");
    for (size_t i = 0; !entry.wrong && i < entry.denied_count && i < 4; i++)
        n += sprintf(text + n, ":%.*s", (int)entry.denied[i].bytes, entry.denied[i].at);
    preferences_reply_free(reply);
}

Test(preferences, replies)
{
    static const struct {
        const char *body, *user, *means;
    } rows[] = {
        {"{\"users\":{}}", "u1", "push"},
        {"{\"users\":{\"u2\":{\"push\":false}}}", "u1", "push"},
        {"{\"users\":{\"u1\":{\"push\":false}}}", "u1", "off"},
        {"{\"users\":{\"u1\":{\"push\":true}}}", "u1", "push"},
        {"{\"users\":{\"u1\":{}}}", "u1", "push"},
        {"{\"users\":{\"u1\":{\"categories\":{\"meetings\":false,\"chat\":true}}}}", "u1", "push:meetings"},
        {"{\"users\":{\"u1\":{\"push\":true,\"categories\":{}}}}", "u1", "push"},
        {"{\"users\":{\"u1\":{\"push\":false,\"categories\":{\"meetings\":true}}}}", "u1", "off"},
        {"{\"users\":{\"u1\":{\"push\":false,\"later\":[1]}},\"later\":1}", "u1", "off"},
        {"{\"users\":{\"\\u00e9\":{\"push\":false}}}", "\xc3\xa9", "off"},
        {"{\"users\":{\"U1\":{\"push\":false}}}", "u1", "push"},
        /* one entry is wrong: that user alone */
        {"{\"users\":{\"u1\":null}}", "u1", "wrong"},
        {"{\"users\":{\"u1\":false}}", "u1", "wrong"},
        {"{\"users\":{\"u1\":[]}}", "u1", "wrong"},
        {"{\"users\":{\"u1\":{\"push\":\"false\"}}}", "u1", "wrong"},
        {"{\"users\":{\"u1\":{\"push\":0}}}", "u1", "wrong"},
        {"{\"users\":{\"u1\":{\"push\":null}}}", "u1", "wrong"},
        {"{\"users\":{\"u1\":{\"categories\":[\"meetings\"]}}}", "u1", "wrong"},
        {"{\"users\":{\"u1\":{\"categories\":{\"meetings\":\"no\"}}}}", "u1", "wrong"},
        {"{\"users\":{\"u2\":7,\"u1\":{\"push\":false}}}", "u1", "off"},
        /* the frame is wrong: everybody */
        {"", "u1", "not:json"},
        {"null", "u1", "not:not_object"},
        {"[]", "u1", "not:not_object"},
        {"{}", "u1", "not:field"},
        {"{\"users\":[]}", "u1", "not:field"},
        {"{\"users\":null}", "u1", "not:field"},
        {"{\"users\":\"u1\"}", "u1", "not:field"},
        /* not JSON */
        {"<html><body>It works!</body></html>", "u1", "not:json"},
        {"{\"users\":{\"u1\":{\"push\":fal", "u1", "not:json"},
        {"{\"users\":{}} trailing", "u1", "not:json"},
        {"{\"users\":{\"u1\":{\"push\":true},\"u1\":{\"push\":false}}}", "u1", "not:json"},
        {"\xef\xbb\xbf{\"users\":{}}", "u1", "not:json"},
        {"{\"users\":{\"\xff\":{}}}", "u1", "not:json"},
        {"{\"users\":{\"u1\\u0000\":{\"push\":false}}}", "u1", "not:nul"},
        {"{\"users\":{\"u1\":{\"categories\":[[[[[[[[1]]]]]]]]}}}", "u1", "wrong"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200];
        describe(rows[i].body, strlen(rows[i].body), rows[i].user, text);
        cr_expect_str_eq(text, rows[i].means, "%zu: %s", i, rows[i].body);
    }
}

Test(preferences, large_replies)
{
    char *body = malloc(HOSTILE_MAX), text[200];
    memset(body, '[', HOSTILE_MAX);
    describe(body, 1 << 19, "u1", text);
    cr_expect_str_eq(text, "not:too_big", "half a million brackets");
    describe(body, HOSTILE_MAX, "u1", text);
    cr_expect_str_eq(text, "not:too_big", "over 1 MiB");
    for (int count = PREFERENCES_DENIED_MAX; count <= PREFERENCES_DENIED_MAX + 1; count++) {
        size_t n = (size_t)sprintf(body, "{\"users\":{\"u1\":{\"categories\":{\"on\":true");
        for (int i = 0; i < count; i++)
            n += (size_t)sprintf(body + n, ",\"c%d\":false", i);
        n += (size_t)sprintf(body + n, "}}}}");
        describe(body, n, "u1", text);
        cr_expect_str_eq(text, count == PREFERENCES_DENIED_MAX ? "push:c0:c1:c2:c3" : "wrong", "%d", count);
    }
    free(body);
}
