/* The body that orders an export, row by row. */
#include "wire/export_body.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(export_body, refused)
{
    static const char *const bad[] = {
        "[]",
        "{",
        "{} x",
        "{\"format\":\"xml\"}",
        "{\"format\":null}",
        "{\"format\":\"csv\",\"format\":\"csv\"}",
        "{\"filters\":[]}",
        "{\"filters\":null}",
        "{\"filters\":{\"a\":null}}",
        "{\"filters\":{\"a\":1.5}}",
        "{\"filters\":{\"a\":[]}}",
        "{\"filters\":{\"a\":{\"b\":{}}}}",
        "{\"filters\":{\"a\":99999999999999999999}}",
        "{\"filters\":{\"a\":\"\\u0000\"}}",
        "{\"filters\":{\"a\":\"x\",\"\\u0061\":\"y\"}}",
        "{\"filter\":{}}",
        "{\"filters\":{},\"format\":\"csv\",\"limit\":1}",
        "{\"filters\":{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"a\":1,"
        "\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1}}",
        "\xff",
    };
    static struct export_body body;
    static char longest[EXPORT_BODY_BYTES_MAX + 64];
    struct fault fault;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect_eq(export_body_parse(span_of(bad[i]), &body, &fault), ST_REJECT, "%s", bad[i]);
        cr_expect_str_eq(fault.code, "invalid_body", "%s", bad[i]);
    }
    memset(longest, ' ', sizeof longest);
    cr_expect_eq(export_body_parse((struct span){longest, sizeof longest}, &body, &fault), ST_REJECT);
}

Test(export_body, taken)
{
    static struct export_body body;
    struct fault fault;
    cr_assert_eq(export_body_parse((struct span){NULL, 0}, &body, &fault), ST_OK);
    cr_expect(body.format == EXPORT_NDJSON && body.count == 0);
    cr_assert_eq(
        export_body_parse(span_of(" {\"format\":\"csv\",\"filters\":{\"a\":\"\\u00e9\",\"b\":-7,\"c\":true,"
                                  "\"d\":\"\"}} "),
                          &body, &fault),
        ST_OK);
    cr_expect_eq(body.format, EXPORT_CSV);
    cr_assert_eq(body.count, 4);
    cr_expect(span_is(body.filters[0].name, "a") && span_is(body.filters[0].value, "\xc3\xa9"));
    cr_expect(span_is(body.filters[1].name, "b") && span_is(body.filters[1].value, "-7"));
    cr_expect(span_is(body.filters[2].value, "true") && span_is(body.filters[3].value, ""));
    cr_assert_eq(export_filters_parse(span_of("{\"a\":\"x\"}"), &body, &fault), ST_OK);
    cr_expect(body.count == 1 && span_is(body.filters[0].value, "x"));
}
