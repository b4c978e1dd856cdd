/* Rows as CSV: what a cell holds, when it is quoted, and that a spreadsheet finds no formula (EXP-03). */
#include "wire/csv.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static bool is_number(const void *context, struct span name)
{
    return span_is(name, context);
}

static void row_is(const char *row, const char *expected)
{
    const struct csv_numbers numbers = {is_number, "big"};
    struct buffer out;
    struct fault fault;
    buffer_init(&out, 4096);
    cr_assert_eq(csv_write_row(&out, span_of(row), &numbers, &fault), ST_OK, "%s", row);
    cr_expect_str_eq(out.at, expected, "%s: %s", row, out.at);
    buffer_done(&out);
}

Test(csv, cells)
{
    row_is("{\"a\":\"x\",\"b\":1,\"c\":null,\"d\":\"\",\"e\":true}", "x,1,,\"\",true\r\n");
    row_is("{ \"a\" : \"x\" , \"b\" : [1, 2] }", "x,\"[1, 2]\"\r\n");
    row_is("{\"a\":\"a,b\",\"b\":\"say \\\"hi\\\"\",\"c\":\"l\\nm\\r\"}",
           "\"a,b\",\"say \"\"hi\"\"\",\"l\nm\r\"\r\n");
    row_is("{\"a\":\"\\u00e9\\ud83d\\ude00\\/\\\\\\t.\"}", "\xc3\xa9\xf0\x9f\x98\x80/\\\t.\r\n");
    row_is("{\"data\":{\"n\":[0.1,9007199254740993,1.10,-0.0,1E+2],\"}\":\"]\\\"\"}}",
           "\"{\"\"n\"\":[0.1,9007199254740993,1.10,-0.0,1E+2],\"\"}\"\":\"\"]\\\"\"\"\"}\"\r\n");
}

Test(csv, formulas)
{
    row_is("{\"a\":\"=1+1\",\"b\":\"+1\",\"c\":\"-1\",\"d\":\"@x\"}", "'=1+1,'+1,'-1,'@x\r\n");
    row_is("{\"a\":\"\\tx\",\"b\":\"\\rx\",\"c\":\"'x\",\"d\":\"''\"}", "'\tx,\"'\rx\",''x,'''\r\n");
    row_is("{\"big\":\"-9007199254740993\",\"n\":-1.5,\"z\":-0.0,\"a\":\" =1\"}",
           "-9007199254740993,-1.5,-0.0, =1\r\n");
    row_is("{\"a\":\"=a,\\\"b\\\"\"}", "\"'=a,\"\"b\"\"\"\r\n");
}

Test(csv, header)
{
    struct buffer out;
    struct fault fault;
    buffer_init(&out, 4096);
    cr_assert_eq(csv_write_header(&out, span_of("{\"id\":\"=1\",\"data\":{\"a,\":1},\"x\":null}"), &fault),
                 ST_OK);
    cr_expect_str_eq(out.at, "id,data,x\r\n");
    buffer_done(&out);
}

Test(csv, no_object)
{
    static const char *const bad[] = {
        "", "[]", "{", "{\"a\"}", "{\"a\":", "{\"a\":\"x", "{\"a\":\"\\q\"}", "{\"a\":1"};
    const struct csv_numbers numbers = {is_number, ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct buffer out;
        struct fault fault;
        buffer_init(&out, 4096);
        cr_expect_eq(csv_write_row(&out, span_of(bad[i]), &numbers, &fault), ST_FATAL, "%s", bad[i]);
        buffer_done(&out);
    }
}
