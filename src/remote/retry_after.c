/* Digits alone are seconds; else one of the three date forms of RFC 9110 §5.6.7, all of it. */
#include "retry_after.h"

#include <time.h>

static int64_t seconds_ms(struct span value, int64_t cap_ms)
{
    int64_t seconds = 0;
    for (size_t i = 0; i < value.bytes; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return -1;
        seconds = seconds > cap_ms ? seconds : seconds * 10 + (value.at[i] - '0');
    }
    return seconds > cap_ms / 1000 ? cap_ms : seconds * 1000;
}

int64_t retry_after_ms(struct span value, int64_t now_us, int64_t cap_ms)
{
    static const char *const forms[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                        "%a %b %e %H:%M:%S %Y"};
    char text[64];
    if (value.bytes == 0)
        return -1;
    if (value.at[0] >= '0' && value.at[0] <= '9')
        return seconds_ms(value, cap_ms);
    if (value.bytes >= sizeof text)
        return -1;
    memcpy(text, value.at, value.bytes);
    text[value.bytes] = '\0';
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm when = {0};
        const char *end = strptime(text, forms[i], &when);
        if (end == NULL || *end != '\0')
            continue;
        int64_t wait_ms = (int64_t)timegm(&when) * 1000 - now_us / 1000;
        if (wait_ms < 0)
            wait_ms = 0;
        return wait_ms > cap_ms ? cap_ms : wait_ms;
    }
    return -1;
}
