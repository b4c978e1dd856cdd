/* In: the lists of [cursor] and [auth]. Out: the keys themselves. Always: all of them or a fault, never a
 * part. A secret is in no fault and is wiped when it is let go. */
#include "feed/keys.h"

#include "base/buffer.h"

enum { LIST_BYTES_MAX = 64 * 1024 };

/* The list as it stood in the file. */
static void keys_join(const struct config_list *list, struct buffer *text)
{
    buffer_init(text, LIST_BYTES_MAX);
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            buffer_add_byte(text, ' ');
        buffer_add_text(text, list->items[i]);
    }
}

enum status keys_load(const struct feed_settings *settings, struct keys *keys, struct fault *fault)
{
    struct keys loaded = {.loose_files = 0};
    struct buffer cursor_list, auth_list;
    keys_join(&settings->cursor.keys, &cursor_list);
    keys_join(&settings->auth.keys, &auth_list);
    enum status status = ST_REJECT;
    int cursor_loose = 0, auth_loose = 0;
    if (cursor_list.failed || auth_list.failed) {
        fault_set(fault, "config", "a list of keys is longer than %d bytes", LIST_BYTES_MAX);
        fault_set_field(fault, cursor_list.failed ? "cursor.keys" : "auth.keys");
        goto out;
    }
    status = cursor_keys_load(buffer_span(&cursor_list), span_of(settings->cursor.sign_with), &loaded.cursor,
                              &cursor_loose, fault);
    if (status == ST_OK)
        status = jwt_keys_load(buffer_span(&auth_list), &loaded.auth, &auth_loose, fault);
    if (status == ST_OK) {
        loaded.loose_files = cursor_loose + auth_loose;
        *keys = loaded;
    }
out:
    keys_wipe(&loaded);
    buffer_done(&cursor_list);
    buffer_done(&auth_list);
    return status;
}

void keys_wipe(struct keys *keys)
{
    cursor_keys_wipe(&keys->cursor);
    jwt_keys_wipe(&keys->auth);
}
