/* RFC 4648's vectors, every value of short lengths both ways, and every text that is not canonical. */
#include "wire/base64url.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

Test(base64url, vectors)
{
    static const struct {
        const char *value, *text;
    } vectors[] = {
        {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
        {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xfb\xff\xfe", "-__-"}};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        char text[32];
        unsigned char value[32];
        size_t bytes = 99;
        base64url_encode(span_of(vectors[i].value), text);
        cr_assert_str_eq(text, vectors[i].text);
        cr_assert_eq(strlen(text), base64url_text_bytes(strlen(vectors[i].value)));
        cr_assert(base64url_decode(span_of(text), value, &bytes));
        cr_assert_eq(bytes, strlen(vectors[i].value));
        cr_assert_eq(memcmp(value, vectors[i].value, bytes), 0);
    }
}

Test(base64url, refused)
{
    static const char *const bad[] = {
        "A",    "AAAAA",           /* no such length */
        "Zg==", "Zm8=",  "=",      /* padding */
        "Zh",   "Zm9",   "Zm9vYh", /* unused bits set */
        "Zm+v", "Zm/v",            /* the other alphabet: CUR-04 */
        "Zm v", " Zm9v", "Zm9v ",  "Zm\n9", "Zm9v\n", "Zm.v", "Zm9\xc3", "%5A%6D",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        unsigned char value[32];
        size_t bytes = 99;
        cr_assert_not(base64url_decode(span_of(bad[i]), value, &bytes), "%s", bad[i]);
        cr_assert_eq(bytes, 99);
    }
    unsigned char value[8];
    size_t bytes = 0;
    cr_assert_not(base64url_decode((struct span){"Zm9\0", 4}, value, &bytes));
}

/* Of all texts of 2 and 3 characters over all bytes exactly the canonical ones are taken, each once. */
Test(base64url, canonical_only)
{
    int taken = 0;
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            char in[2] = {(char)a, (char)b}, out[3];
            unsigned char value[2];
            size_t bytes = 0;
            if (!base64url_decode((struct span){in, 2}, value, &bytes))
                continue;
            cr_assert_eq(bytes, 1);
            base64url_encode((struct span){(char *)value, 1}, out);
            cr_assert_eq(memcmp(in, out, 2), 0);
            taken++;
        }
    }
    cr_assert_eq(taken, 256);
}

Test(base64url, random_round_trips)
{
    uint64_t state = 12345;
    for (int i = 0; i < 20000; i++) {
        char value[300], text[401];
        unsigned char back[300];
        size_t count = 0, bytes = 0;
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        for (count = 0; count < (state >> 40) % 300; count++)
            value[count] = (char)((state >> (count % 50)) ^ count);
        base64url_encode((struct span){value, count}, text);
        cr_assert_eq(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                     strlen(text));
        cr_assert(base64url_decode(span_of(text), back, &bytes));
        cr_assert_eq(bytes, count);
        cr_assert_eq(memcmp(value, back, count), 0);
        cr_assert_geq(base64url_value_bytes(strlen(text)), count);
    }
}
