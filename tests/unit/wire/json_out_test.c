/* What is written is JSON, whatever bytes came in. */
#include "wire/json_out.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct buffer out;

static void begin(void)
{
    buffer_init(&out, 1 << 20);
}

static void end(void)
{
    buffer_done(&out);
}

TestSuite(json_out, .init = begin, .fini = end);

Test(json_out, strings)
{
#define BAD "\xef\xbf\xbd"
    static const struct {
        const char *text;
        size_t bytes;
        const char *json;
    } rows[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\""},
        {"\b\t\n\f\r\x01\x1f\x7f", 8, "\"\\b\\t\\n\\f\\r\\u0001\\u001f\x7f\""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\x94", 11, "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\x94\""},
        {"a\0b", 3, "\"a" BAD "b\""},
        {"\\u0000", 6, "\"\\\\u0000\""},                    /* PER-01: the visible characters survive */
        {"\xff", 1, "\"" BAD "\""},                         /* never a first byte */
        {"\xc3", 1, "\"" BAD "\""},                         /* cut off */
        {"\xc0\x80", 2, "\"" BAD BAD "\""},                 /* overlong NUL */
        {"\xe0\x80\x80", 3, "\"" BAD BAD BAD "\""},         /* overlong */
        {"\xed\xa0\x80", 3, "\"" BAD BAD BAD "\""},         /* a surrogate */
        {"\xf4\x90\x80\x80", 4, "\"" BAD BAD BAD BAD "\""}, /* past U+10FFFF */
        {"\xf0\x9f\x94", 3, "\"" BAD BAD BAD "\""},         /* cut off */
        {"\xe2\x82x\xe2\x82\xac", 6, "\"" BAD BAD "x\xe2\x82\xac\""},
        {"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", 10, "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        buffer_reset(&out);
        json_out_string(&out, (struct span){rows[i].text, rows[i].bytes});
        cr_assert_str_eq(out.at, rows[i].json, "row %zu", i);
    }
}

/* Eight bytes are looked at at once: what a byte becomes must not depend on where it stands. */
Test(json_out, each_byte_at_each_place)
{
    enum { BYTES = 19, SEEN = 256 * BYTES };
    int seen = 0;
    for (int byte = 0; byte < 256; byte++) {
        char alone[16], text[BYTES], expected[BYTES + 16];
        char one = (char)byte;
        buffer_reset(&out);
        json_out_string(&out, (struct span){&one, 1});
        snprintf(alone, sizeof alone, "%.*s", (int)out.bytes - 2, out.at + 1);
        for (int place = 0; place < BYTES; place++, seen++) {
            memset(text, 'x', sizeof text);
            text[place] = one;
            snprintf(expected, sizeof expected, "\"%.*s%s%.*s\"", place, "xxxxxxxxxxxxxxxxxxx", alone,
                     BYTES - 1 - place, "xxxxxxxxxxxxxxxxxxx");
            buffer_reset(&out);
            json_out_string(&out, (struct span){text, sizeof text});
            cr_assert_str_eq(out.at, expected, "byte %d at %d", byte, place);
        }
    }
    cr_assert_eq(seen, SEEN);
}

Test(json_out, numbers_ids_instants)
{
    json_out_int(&out, INT64_MIN);
    buffer_add_byte(&out, ' ');
    json_out_int(&out, INT64_MAX);
    buffer_add_byte(&out, ' ');
    json_out_int(&out, 0);
    buffer_add_byte(&out, ' ');
    json_out_id(&out, 9007199254740993);
    buffer_add_byte(&out, ' ');
    json_out_instant(&out, 1774083600123456);
    buffer_add_byte(&out, ' ');
    json_out_instant(&out, INT64_MAX);
    buffer_add_byte(&out, ' ');
    json_out_uuid(&out, (struct uuid){{1, 0x99, 0xab}});
    buffer_add_byte(&out, ' ');
    json_out_string_or_null(&out, (struct span){NULL, 0});
    json_out_string_or_null(&out, span_of(""));
    json_out_name(&out, "x");
    cr_assert_str_eq(out.at, "-9223372036854775808 9223372036854775807 0 \"9007199254740993\" "
                             "\"2026-03-21T09:00:00.123456Z\" null "
                             "\"0199ab00-0000-0000-0000-000000000000\" null\"\"\"x\":");
}

Test(json_out, full_buffer_is_marked)
{
    struct buffer small;
    buffer_init(&small, 10);
    json_out_string(&small, span_of("12345678"));
    cr_assert_not(small.failed);
    buffer_reset(&small);
    json_out_string(&small, span_of("123456789"));
    cr_assert(small.failed);
    buffer_done(&small);
}
