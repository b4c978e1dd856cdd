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

enum status keys_load_auth(const struct auth_settings *settings, struct jwt_keys *keys, int *loose_files,
                           struct fault *fault)
{
    struct buffer list;
    enum status status = keys_join(&settings->keys, "auth.keys", &list, fault);
    if (status == ST_OK)
        status = jwt_keys_load(buffer_span(&list), keys, loose_files, fault);
    buffer_done(&list);
    return status;
}

static enum status keys_load_cursor(const struct cursor_settings *settings, struct cursor_keys *keys,
                                    int *loose_files, struct fault *fault)
{
    struct buffer list;
    enum status status = keys_join(&settings->keys, "cursor.keys", &list, fault);
    if (status == ST_OK)
        status = cursor_keys_load(buffer_span(&list), span_of(settings->sign_with), keys, loose_files, fault);
    buffer_done(&list);
    return status;
}

enum status keys_load(const struct feed_settings *settings, struct keys *keys, struct fault *fault)
{
    struct keys loaded = {.loose_files = 0};
    int cursor_loose = 0, auth_loose = 0;
    enum status status = keys_load_cursor(&settings->cursor, &loaded.cursor, &cursor_loose, fault);
    if (status == ST_OK)
        status = keys_load_auth(&settings->auth, &loaded.auth, &auth_loose, fault);
    if (status == ST_OK) {
        loaded.loose_files = cursor_loose + auth_loose;
        *keys = loaded;
    }
    keys_wipe(&loaded);
    return status;
}

void keys_wipe(struct keys *keys)
{
    cursor_keys_wipe(&keys->cursor);
    jwt_keys_wipe(&keys->auth);
}
