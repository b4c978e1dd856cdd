/* RFC 3339 both ways: real and unreal dates, cut fractions, offsets, leap seconds, the edges of the calendar.
 */
#include "model/timestamp.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct accepted {
    const char *text, *shown;
};

static const struct accepted accepted[] = {
    {"2026-03-21T09:00:00Z", "2026-03-21T09:00:00.000000Z"},
    {"2026-03-21t09:00:00z", "2026-03-21T09:00:00.000000Z"},
    {"2026-03-21T09:00:00.123456Z", "2026-03-21T09:00:00.123456Z"},
    {"2026-03-21T09:00:00.1Z", "2026-03-21T09:00:00.100000Z"},
    {"2026-03-21T09:00:00.000001+00:00", "2026-03-21T09:00:00.000001Z"},
    {"2026-03-21T09:00:00-00:00", "2026-03-21T09:00:00.000000Z"},
    {"2026-03-21T09:00:00+05:30", "2026-03-21T03:30:00.000000Z"},
    {"2026-03-21T23:00:00-03:45", "2026-03-22T02:45:00.000000Z"},
    {"2026-01-01T00:00:00+23:59", "2025-12-31T00:01:00.000000Z"},
    {"2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000000Z"},
    {"2000-02-29T00:00:00Z", "2000-02-29T00:00:00.000000Z"},
    {"1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"},
    {"2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000000Z"},
    {"2016-12-31T23:59:60.999Z", "2017-01-01T00:00:00.000000Z"},
    {"2016-12-31T15:59:60.5-08:00", "2017-01-01T00:00:00.000000Z"},
    {"0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"},
    {"9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"},
    /* PER-05: cut, never rounded into the next second or day. */
    {"2026-03-21T23:59:59.9999999Z", "2026-03-21T23:59:59.999999Z"},
    {"2026-03-21T09:00:00.1234565Z", "2026-03-21T09:00:00.123456Z"},
    {"2026-03-21T09:00:00.12345699999999999999999999999999999999999Z", "2026-03-21T09:00:00.123456Z"},
};

Test(timestamp, accepts_and_shows)
{
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        int64_t us = 0;
        char text[TIMESTAMP_TEXT_BYTES + 1];
        cr_assert(timestamp_parse(span_of(accepted[i].text), &us), "%s", accepted[i].text);
        cr_assert(timestamp_format(us, text));
        cr_assert_str_eq(text, accepted[i].shown);
    }
}

static const char *const refused[] = {
    "",
    "2026",
    "2026-03-21",
    "2026-03-21T09:00:00",           /* no offset */
    "2026-03-21 09:00:00Z",          /* not T */
    "2026-03-21T09:00Z",             /* no seconds */
    "2026-03-21T09:00:00.Z",         /* a point and nothing */
    "2026-03-21T09:00:00,5Z",        /* ISO 8601's comma */
    "2026-03-21T09:00:00+0530",      /* no colon */
    "2026-03-21T09:00:00+05",        /* no minutes */
    "2026-03-21T09:00:00+24:00",     /* no such offset */
    "2026-03-21T09:00:00+05:60",     /* nor this */
    "2026-03-21T24:00:00Z",          /* no such hour */
    "2026-03-21T09:60:00Z",          /* minute */
    "2026-03-21T09:00:61Z",          /* second */
    "2026-00-21T09:00:00Z",          /* month */
    "2026-13-21T09:00:00Z",          /* month */
    "2026-03-00T09:00:00Z",          /* day */
    "2026-04-31T09:00:00Z",          /* day */
    "2026-02-29T09:00:00Z",          /* not a leap year */
    "1900-02-29T09:00:00Z",          /* nor this */
    "0000-01-01T00:00:00Z",          /* year 0 */
    "0001-01-01T00:00:00+00:01",     /* year 0 in UTC */
    "9999-12-31T23:59:59-00:01",     /* year 10000 in UTC */
    "9999-12-31T23:59:60Z",          /* and this */
    "10000-01-01T00:00:00Z",         /* five digits */
    "+2026-03-21T09:00:00Z",         /* a sign */
    " 2026-03-21T09:00:00Z",         /* blanks */
    "2026-03-21T09:00:00Z ",         /* blanks */
    "2026-03-21T09:00:00Zz",         /* more */
    "2026-03-21T09:00:00ZZ",         /* more */
    "2026-3-21T09:00:00Z",           /* one digit */
    "2026-03-21T9:00:00Z",           /* one digit */
    "2026-03-2\xd9\xa1T09:00:00Z",   /* an Arabic digit */
    "2026-W12-6T09:00:00Z",          /* a week date */
    "1774083600",                    /* Unix seconds */
    "Sat, 21 Mar 2026 09:00:00 GMT", /* RFC 9110 */
};

Test(timestamp, refuses)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        int64_t us = 42;
        cr_assert_not(timestamp_parse(span_of(refused[i]), &us), "%s", refused[i]);
        cr_assert_eq(us, 42, "written only on success");
    }
}

Test(timestamp, nul_and_every_prefix)
{
    const char *whole = "2026-03-21T09:00:00.123456+01:00";
    int64_t us = 0;
    cr_assert(timestamp_parse(span_of(whole), &us));
    for (size_t bytes = 0; bytes < strlen(whole); bytes++)
        cr_assert_not(timestamp_parse((struct span){whole, bytes}, &us), "%zu", bytes);
    cr_assert_not(timestamp_parse((struct span){"2026-03-21T09:00:00\0", 20}, &us));
    cr_assert_not(timestamp_parse((struct span){NULL, 0}, &us));
}

/* Against libc's calendar, days over the whole range, and back. */
Test(timestamp, random_round_trips_agree_with_libc)
{
    uint64_t state = 0x9e3779b97f4a7c15ULL;
    int64_t first = -62135596800LL, last = 253402300799LL;
    for (int i = 0; i < 200000; i++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        int64_t seconds = first + (int64_t)((state >> 8) % (uint64_t)(last - first + 1));
        int64_t us = seconds * 1000000 + (int64_t)(state % 1000000), back = 0;
        char text[TIMESTAMP_TEXT_BYTES + 1], expected[64];
        cr_assert(timestamp_format(us, text));
        time_t at = (time_t)seconds;
        struct tm parts;
        gmtime_r(&at, &parts);
        snprintf(expected, sizeof expected, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", parts.tm_year + 1900,
                 parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                 (int)(state % 1000000));
        cr_assert_str_eq(text, expected);
        cr_assert(timestamp_parse(span_of(text), &back));
        cr_assert_eq(back, us);
    }
}

Test(timestamp, format_refuses_other_years)
{
    char text[TIMESTAMP_TEXT_BYTES + 1] = "x";
    cr_assert_not(timestamp_format(-62135596800LL * 1000000 - 1, text));
    cr_assert_str_eq(text, "");
    cr_assert_not(timestamp_format(253402300800LL * 1000000, text));
    cr_assert_not(timestamp_format(INT64_MAX, text));
    cr_assert_not(timestamp_format(INT64_MIN, text));
}
