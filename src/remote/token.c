/* Token shapes, byte by byte: the provider's client accepts any text between the brackets; strict does not.
 */
#include "remote/token.h"

#include "wire/provider.h"

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_uuid_like(struct span token)
{
    static const char pattern[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (token.bytes != sizeof pattern - 1)
        return false;
    for (size_t i = 0; i < token.bytes; i++) {
        if (pattern[i] == 'x' ? !is_word(token.at[i]) : token.at[i] != '-')
            return false;
    }
    return true;
}

/* Bytes up to and with the opening bracket; 0: neither of the two forms. */
static size_t head_bytes(struct span token)
{
    static const char *const heads[] = {"ExponentPushToken[", "ExpoPushToken["};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        size_t bytes = strlen(heads[i]);
        if (token.bytes > bytes && memcmp(token.at, heads[i], bytes) == 0 && token.at[token.bytes - 1] == ']')
            return bytes;
    }
    return 0;
}

bool token_shape_ok(struct span token, enum provider_token_check check)
{
    if (token.bytes == 0 || token.bytes > PROVIDER_TOKEN_MAX)
        return false;
    if (is_uuid_like(token))
        return true;
    size_t head = head_bytes(token);
    if (head == 0 || check == TOKEN_CHECK_OFFICIAL)
        return head > 0;
    for (size_t i = head; i < token.bytes - 1; i++) {
        char c = token.at[i];
        if (c <= ' ' || c > '~' || c == '"' || c == '\'' || c == '`')
            return false;
    }
    return token.bytes > head + 1;
}
