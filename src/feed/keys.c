/* In: the lists of [cursor] and [auth]. Out: the keys themselves. Always: all of them or a fault, never a
 * part. A secret is in no fault and is wiped when it is let go. */
#include "feed/keys.h"

#include "base/buffer.h"

enum { LIST_BYTES_MAX = 64 * 1024 };

/* The list as it stood in the file. */
static enum status keys_join(const struct config_list *list, const char *field, struct buffer *text,
                             struct fault *fault)
{
    buffer_init(text, LIST_BYTES_MAX);
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            buffer_add_byte(text, ' ');
        buffer_add_text(text, list->items[i]);
    }
    if (!text->failed)
        return ST_OK;
    fault_set(fault, "config", "the list of keys is longer than %d bytes", LIST_BYTES_MAX);
    fault_set_field(fault, field);
    return ST_REJECT;
}

enum status keys_load_auth(const struct auth_settings *settings, struct jwt_keys *keys, struct fault *fault)
{
    struct buffer list;
    enum status status = keys_join(&settings->keys, "auth.keys", &list, fault);
    if (status == ST_OK)
        status = jwt_keys_load(buffer_span(&list), keys, fault);
    buffer_done(&list);
    return status;
}

static enum status keys_load_cursor(const struct cursor_settings *settings, struct cursor_keys *keys,
                                    struct fault *fault)
{
    struct buffer list;
    enum status status = keys_join(&settings->keys, "cursor.keys", &list, fault);
    if (status == ST_OK)
        status = cursor_keys_load(buffer_span(&list), span_of(settings->sign_with), keys, fault);
    buffer_done(&list);
    return status;
}

enum status keys_load(const struct feed_settings *settings, struct keys *keys, struct fault *fault)
{
    struct keys loaded = {.auth.count = 0};
    enum status status = keys_load_cursor(&settings->cursor, &loaded.cursor, fault);
    if (status == ST_OK)
        status = keys_load_auth(&settings->auth, &loaded.auth, fault);
    if (status == ST_OK)
        *keys = loaded;
    crypto_wipe(&loaded, sizeof loaded); /* moved, or none of [auth] came to be */
    return status;
}

static void warn_loose(struct config *config, const char *list, const char *id, const struct crypto_key *key)
{
    if (key->loose)
        config_warn(config, "%s: the file of key %s can be read by others; take that away: chmod o-r", list,
                    id);
}

void keys_warn(const struct keys *keys, struct config *config)
{
    for (size_t i = 0; i < keys->cursor.count; i++)
        warn_loose(config, "[cursor] keys", keys->cursor.keys[i].id, &keys->cursor.keys[i].secret);
    for (size_t i = 0; i < keys->auth.count; i++)
        warn_loose(config, "[auth] keys", keys->auth.keys[i].kid, &keys->auth.keys[i].secret);
    if (keys->auth.count == 0)
        config_warn(config, "[auth] keys is empty: every token will be refused");
}

void keys_wipe(struct keys *keys)
{
    cursor_keys_wipe(&keys->cursor);
    jwt_keys_wipe(&keys->auth);
}
