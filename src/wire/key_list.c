/* Words, parts and files of a key list; what they mean is the cursor's and the token's business. */
#include "key_list.h"

#include <limits.h>
#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool key_list_word(struct span *list, struct span *word)
{
    while (list->bytes > 0 && is_blank(*list->at)) {
        list->at++;
        list->bytes--;
    }
    *word = (struct span){.at = list->at, .bytes = 0};
    while (list->bytes > 0 && !is_blank(*list->at)) {
        list->at++;
        list->bytes--;
        word->bytes++;
    }
    return word->bytes > 0;
}

bool key_list_part(struct span *word, struct span *part)
{
    const char *colon = word->bytes == 0 ? NULL : memchr(word->at, ':', word->bytes);
    if (colon == NULL || colon == word->at)
        return false;
    *part = (struct span){.at = word->at, .bytes = (size_t)(colon - word->at)};
    word->bytes -= part->bytes + 1;
    word->at = colon + 1;
    return true;
}

bool key_list_id(struct span part, size_t bytes_max, char *id)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (part.bytes == 0 || part.bytes > bytes_max)
        return false;
    for (size_t i = 0; i < part.bytes; i++) {
        if (memchr(allowed, part.at[i], sizeof allowed - 1) == NULL)
            return false;
    }
    memcpy(id, part.at, part.bytes);
    id[part.bytes] = '\0';
    return true;
}

static enum status take_path(struct span path, const char *field, char text[PATH_MAX], struct fault *fault)
{
    if (path.bytes == 0 || path.bytes >= PATH_MAX || memchr(path.at, '\0', path.bytes) != NULL)
        return key_list_refuse(fault, field, "a key has no usable path");
    memcpy(text, path.at, path.bytes);
    text[path.bytes] = '\0';
    return ST_OK;
}

enum status key_list_read(struct span path, const char *field, struct crypto_key *key, struct fault *fault)
{
    char text[PATH_MAX];
    enum status status = take_path(path, field, text, fault);
    if (status == ST_OK)
        status = crypto_key_read(text, key, fault);
    if (status != ST_OK)
        fault_set_field(fault, field);
    return status;
}

enum status key_list_read_public(struct span path, const struct key_list_public *wanted,
                                 struct crypto_public **key, struct fault *fault)
{
    char text[PATH_MAX];
    enum status status = take_path(path, wanted->field, text, fault);
    if (status == ST_OK)
        status = crypto_public_read(text, wanted->kind, key, fault);
    if (status != ST_OK)
        fault_set_field(fault, wanted->field);
    return status;
}

enum status key_list_refuse(struct fault *fault, const char *field, const char *why)
{
    fault_set(fault, "config", "%s: %s", field, why);
    fault_set_field(fault, field);
    return ST_REJECT;
}
