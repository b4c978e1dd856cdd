/* `[cursor] keys` and `sign_with` -> the keys a reader signs and checks cursors with. */
#include <string.h>

#include "key_list.h"
#include "wire/cursor.h"

static const char keys_field[] = "cursor.keys", signer_field[] = "cursor.sign_with";

static bool find_key(const struct cursor_keys *keys, const char *id, size_t *place)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (strcmp(keys->keys[i].id, id) == 0) {
            *place = i;
            return true;
        }
    }
    return false;
}

static enum status add_key(struct span word, struct cursor_keys *keys, struct fault *fault)
{
    struct span id;
    size_t place = 0;
    if (keys->count == CURSOR_KEYS_MAX)
        return key_list_refuse(fault, keys_field, "at most 16 keys are taken");
    struct cursor_key *key = &keys->keys[keys->count];
    if (!key_list_part(&word, &id) || !key_list_id(id, CURSOR_KEY_ID_MAX, key->id))
        return key_list_refuse(fault, keys_field, "each key is id:path, the id 1-16 of A-Z a-z 0-9 . _ -");
    if (find_key(keys, key->id, &place))
        return key_list_refuse(fault, keys_field, "an id stands twice");
    enum status status = key_list_read(word, keys_field, &key->secret, fault);
    keys->count += status == ST_OK;
    return status;
}

static enum status choose_signer(struct span sign_with, struct cursor_keys *keys, struct fault *fault)
{
    char id[CURSOR_KEY_ID_MAX + 1];
    if (keys->count == 0)
        return key_list_refuse(fault, keys_field, "no key is given; make one with openssl rand -hex 32");
    if (sign_with.bytes == 0 && keys->count == 1)
        return ST_OK;
    if (!key_list_id(sign_with, CURSOR_KEY_ID_MAX, id) || !find_key(keys, id, &keys->signer))
        return key_list_refuse(fault, signer_field, "must name one of the keys");
    return ST_OK;
}

enum status cursor_keys_load(struct span list, struct span sign_with, struct cursor_keys *keys,
                             struct fault *fault)
{
    struct cursor_keys made = {.count = 0};
    struct span word;
    enum status status = ST_OK;
    while (status == ST_OK && key_list_word(&list, &word))
        status = add_key(word, &made, fault);
    if (status == ST_OK)
        status = choose_signer(sign_with, &made, fault);
    if (status == ST_OK)
        *keys = made;
    cursor_keys_wipe(&made);
    return status;
}

void cursor_keys_wipe(struct cursor_keys *keys)
{
    crypto_wipe(keys, sizeof *keys);
}
