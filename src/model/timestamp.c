/* The grammar of RFC 3339 by hand: fixed columns, then the fraction, then the offset. Days are counted with
 * the civil-from-days arithmetic on years that begin in March, so no time zone data and no libc time is
 * asked. */
#include "model/timestamp.h"

#include <stddef.h>
#include <string.h>

enum { SECONDS_A_DAY = 86400, DAYS_TO_1970 = 719468, DAYS_AN_ERA = 146097 };
static const int64_t us_a_second = 1000000;

struct civil {
    int year, month, day;
};

static int64_t days_from_civil(struct civil date)
{
    int64_t y = date.month <= 2 ? date.year - 1 : date.year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_AN_ERA + day_of_era - DAYS_TO_1970;
}

static struct civil civil_from_days(int64_t days)
{
    days += DAYS_TO_1970;
    int64_t era = (days >= 0 ? days : days - (DAYS_AN_ERA - 1)) / DAYS_AN_ERA;
    int64_t day_of_era = days - era * DAYS_AN_ERA;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153; /* March is 0 */
    struct civil date = {.day = (int)(day_of_year - (153 * shifted + 2) / 5 + 1),
                         .month = (int)(shifted < 10 ? shifted + 3 : shifted - 9)};
    date.year = (int)(year_of_era + era * 400 + (date.month <= 2 ? 1 : 0));
    return date;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

/* The first and last instant that can be written with four digits of year. */
static int64_t first_us(void)
{
    return days_from_civil((struct civil){1, 1, 1}) * SECONDS_A_DAY * us_a_second;
}

static int64_t end_us(void)
{
    return days_from_civil((struct civil){10000, 1, 1}) * SECONDS_A_DAY * us_a_second;
}

/* Takes `digits` decimal digits at *at; -1 when there are not so many. */
static int take_number(struct span text, size_t *at, int digits)
{
    int value = 0;
    if (text.bytes - *at < (size_t)digits)
        return -1;
    for (int i = 0; i < digits; i++) {
        char c = text.at[*at + (size_t)i];
        if (c < '0' || c > '9')
            return -1;
        value = value * 10 + (c - '0');
    }
    *at += (size_t)digits;
    return value;
}

static bool take_byte(struct span text, size_t *at, const char *any_of)
{
    if (*at >= text.bytes || text.at[*at] == '\0' || strchr(any_of, text.at[*at]) == NULL)
        return false;
    ++*at;
    return true;
}

static bool take_date(struct span text, size_t *at, int64_t *days)
{
    struct civil date;
    date.year = take_number(text, at, 4);
    if (date.year < 1 || !take_byte(text, at, "-"))
        return false;
    date.month = take_number(text, at, 2);
    if (date.month < 1 || date.month > 12 || !take_byte(text, at, "-"))
        return false;
    date.day = take_number(text, at, 2);
    if (date.day < 1 || date.day > days_in(date.year, date.month))
        return false;
    *days = days_from_civil(date);
    return true;
}

static bool take_time(struct span text, size_t *at, int64_t *seconds)
{
    int hour = take_number(text, at, 2);
    if (hour < 0 || hour > 23 || !take_byte(text, at, ":"))
        return false;
    int minute = take_number(text, at, 2);
    if (minute < 0 || minute > 59 || !take_byte(text, at, ":"))
        return false;
    int second = take_number(text, at, 2);
    if (second < 0 || second > 60)
        return false;
    *seconds = hour * 3600 + minute * 60 + second;
    return true;
}

/* "." and at least one digit, or nothing. What a leap second has behind its point is dropped by the caller.
 */
static bool take_fraction(struct span text, size_t *at, int64_t *us)
{
    *us = 0;
    if (!take_byte(text, at, "."))
        return true;
    int64_t weight = us_a_second / 10;
    size_t first = *at;
    while (*at < text.bytes && text.at[*at] >= '0' && text.at[*at] <= '9') {
        *us += weight * (text.at[*at] - '0');
        weight /= 10;
        ++*at;
    }
    return *at > first;
}

static bool take_offset(struct span text, size_t *at, int64_t *seconds)
{
    *seconds = 0;
    if (take_byte(text, at, "Zz"))
        return true;
    int sign = *at < text.bytes && text.at[*at] == '-' ? -1 : 1;
    if (!take_byte(text, at, "+-"))
        return false;
    int hour = take_number(text, at, 2);
    if (hour < 0 || hour > 23 || !take_byte(text, at, ":"))
        return false;
    int minute = take_number(text, at, 2);
    if (minute < 0 || minute > 59)
        return false;
    *seconds = (int64_t)sign * (hour * 3600 + minute * 60);
    return true;
}

bool timestamp_parse(struct span text, int64_t *us)
{
    size_t at = 0;
    int64_t days = 0, seconds = 0, fraction = 0, offset = 0;
    if (!take_date(text, &at, &days) || !take_byte(text, &at, "Tt") || !take_time(text, &at, &seconds))
        return false;
    bool leap_second = seconds % 60 == 0 && text.at[at - 2] == '6';
    if (!take_fraction(text, &at, &fraction) || !take_offset(text, &at, &offset) || at != text.bytes)
        return false;
    int64_t whole = days * SECONDS_A_DAY + seconds - offset;
    int64_t instant = whole * us_a_second + (leap_second ? 0 : fraction);
    if (instant < first_us() || instant >= end_us())
        return false;
    *us = instant;
    return true;
}

bool timestamp_format(int64_t us, char *text)
{
    text[0] = '\0';
    if (us < first_us() || us >= end_us())
        return false;
    int64_t from_first = us - first_us();
    int64_t day_us = SECONDS_A_DAY * us_a_second;
    struct civil date = civil_from_days(from_first / day_us + days_from_civil((struct civil){1, 1, 1}));
    int64_t in_day = from_first % day_us;
    int second = (int)(in_day / us_a_second), fraction = (int)(in_day % us_a_second);
    int numbers[] = {date.year, date.month, date.day, second / 3600, second / 60 % 60, second % 60, fraction};
    static const int widths[] = {4, 2, 2, 2, 2, 2, 6};
    static const char ends[] = "--T::.Z";
    for (int i = 0; i < 7; i++) {
        for (int digit = widths[i] - 1; digit >= 0; digit--) {
            text[digit] = (char)('0' + numbers[i] % 10);
            numbers[i] /= 10;
        }
        text += widths[i];
        *text++ = ends[i];
    }
    *text = '\0';
    return true;
}
