/* Account service: request and reply. In: user ids of any bytes; a reply nobody vouches for. Out: JSON text;
 * for each user push and the categories that are off. What always holds: what is mistyped is never taken for
 * a "no" nor for a "yes": it is `wrong`, and the caller decides. */
#include "wire/preferences.h"

#include <assert.h>
#include <stdlib.h>

#include "json_bytes.h"
#include "json_fields.h"
#include "wire/json_out.h"
#include "wire/record.h"

enum { DEPTH_MAX = 32 }; /* the contract needs 4; members we do not know may be deeper */

struct preferences_reply {
    json_t *root;
    const json_t *users;
};

void preferences_encode(const struct span *users, size_t count, struct buffer *out)
{
    assert(count <= PREFERENCES_USERS_MAX);
    buffer_add_text(out, "{\"users\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_add_byte(out, ',');
        json_out_string(out, users[i]);
    }
    buffer_add_text(out, "]}");
}

enum status preferences_reply_parse(struct span body, struct preferences_reply **reply, struct fault *fault)
{
    const struct json_bytes source = {
        .text = body, .bytes_max = PREFERENCES_REPLY_BYTES_MAX, .depth_max = DEPTH_MAX};
    json_t *root = NULL;
    enum status status = json_bytes_load(&source, &root, fault);
    if (status != ST_OK)
        return status;
    const json_t *users = json_object_get(root, "users");
    if (!json_is_object(users)) {
        json_decref(root);
        return json_fields_refuse(fault, "users", "users must be an object");
    }
    struct preferences_reply *made = calloc(1, sizeof *made);
    if (made == NULL) {
        json_decref(root);
        fault_set(fault, "memory", "no memory for a reply");
        return ST_RETRY;
    }
    *made = (struct preferences_reply){.root = root, .users = users};
    *reply = made;
    return ST_OK;
}

void preferences_reply_free(struct preferences_reply *reply)
{
    if (reply == NULL)
        return;
    json_decref(reply->root);
    free(reply);
}

static void add_denied(json_t *categories, struct preferences_entry *entry)
{
    for (void *at = json_object_iter(categories); at != NULL && !entry->wrong;
         at = json_object_iter_next(categories, at)) {
        const json_t *value = json_object_iter_value(at);
        if (!json_is_boolean(value)) {
            entry->wrong = true;
        } else if (json_is_false(value)) {
            entry->wrong = entry->denied_count == PREFERENCES_DENIED_MAX;
            if (!entry->wrong)
                entry->denied[entry->denied_count++] =
                    (struct span){json_object_iter_key(at), json_object_iter_key_len(at)};
        }
    }
}

void preferences_reply_user(const struct preferences_reply *reply, struct span user,
                            struct preferences_entry *entry)
{
    const json_t *given = json_object_getn(reply->users, user.at, user.bytes);
    entry->wrong = false;
    entry->push = true;
    entry->denied_count = 0;
    if (given == NULL)
        return;
    const json_t *push = json_object_get(given, "push");
    json_t *categories = json_object_get(given, "categories");
    entry->wrong = !json_is_object(given) || (push != NULL && !json_is_boolean(push)) ||
                   (categories != NULL && !json_is_object(categories));
    if (!entry->wrong && categories != NULL)
        add_denied(categories, entry);
    if (!entry->wrong && json_is_false(push)) {
        entry->push = false;
        entry->denied_count = 0;
    }
}
