/* In: any bytes. Out: text that may stand in a log line (never a token, a title or a body). */
#include "excerpt.h"

#include <stdbool.h>

enum { WORD_MAX = 15, REPEAT_BYTES = 12 };

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t word_bytes(struct span text, size_t from)
{
    size_t bytes = 0;
    while (from + bytes < text.bytes && is_word(text.at[from + bytes]))
        bytes++;
    return bytes;
}

/* Where the bracket at `from` closes, or the end of the text. */
static size_t bracket_end(struct span text, size_t from)
{
    const char *close = memchr(text.at + from, ']', text.bytes - from);
    return close == NULL ? text.bytes : (size_t)(close - text.at);
}

static void mask(char *to, size_t bytes, struct span body)
{
    size_t put = 0;
    for (size_t i = 0; i < body.bytes && put + WORD_MAX + 1 < bytes;) {
        size_t word = word_bytes(body, i);
        bool bracket = word > 0 && i + word < body.bytes && body.at[i + word] == '[';
        if (word > WORD_MAX || bracket) {
            to[put++] = '*';
            i = bracket ? bracket_end(body, i + word) : i + word;
        } else if (word > 0) {
            memcpy(to + put, body.at + i, word);
            put += word;
            i += word;
        } else {
            char c = body.at[i++];
            if (c < ' ' || c > '~')
                c = ' ';
            if (c != ' ' || (put > 0 && to[put - 1] != ' '))
                to[put++] = c;
        }
    }
    to[put] = '\0';
}

void excerpt_make(char *to, size_t bytes, struct span body, struct span sent)
{
    to[0] = '\0';
    if (body.bytes == 0)
        return;
    mask(to, bytes, body);
    size_t length = strlen(to);
    for (size_t i = 0; i + REPEAT_BYTES <= length && sent.bytes > 0; i++) {
        if (memmem(sent.at, sent.bytes, to + i, REPEAT_BYTES) != NULL) {
            to[0] = '\0';
            return;
        }
    }
}
