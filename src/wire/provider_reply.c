/* The provider's answers: one JSON tree, asked for tickets by index and receipts by id.
 *
 * In: bytes from outside, anything. Out: enums and short cleaned copies. What always holds: nothing is
 * guessed; an entry that is not an object with a status "ok" or "error" is unreadable, and who asked decides.
 */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>

#include "wire/provider.h"

struct provider_reply {
    json_t *root; /* NULL: no JSON object */
    json_t *data; /* of it; NULL when absent or null */
};

static const char code_unnamed[] = "ProviderError";

/* Copies text that is short and plain; "" for anything else. */
static void copy_plain(char *to, size_t bytes, const json_t *from, bool blanks)
{
    const char *text = json_string_value(from);
    size_t length = text == NULL ? 0 : json_string_length(from);
    to[0] = '\0';
    if (length == 0 || length >= bytes)
        return;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < (blanks ? 0x20 : 0x21) || text[i] > 0x7e)
            return;
    }
    memcpy(to, text, length);
    to[length] = '\0';
}

/* A code is a word: letters, digits, '_', '.', '-'. Anything else might be text that must not be logged. */
static void copy_code(char *to, size_t bytes, const json_t *from)
{
    copy_plain(to, bytes, from, false);
    for (const char *c = to; *c != '\0'; c++) {
        bool word = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                    *c == '_' || *c == '.' || *c == '-';
        if (!word) {
            to[0] = '\0';
            return;
        }
    }
}

static void fill_errors(const json_t *root, struct provider_body *body)
{
    const json_t *error = json_array_get(json_object_get(root, "errors"), 0);
    if (json_is_object(error)) {
        body->errors = true;
        copy_code(body->code, sizeof body->code, json_object_get(error, "code"));
        const json_t *transient = json_object_get(error, "isTransient");
        body->transient_given = json_is_boolean(transient);
        body->transient = json_is_true(transient);
        return;
    }
    const json_t *oauth = json_object_get(root, "error");
    if (json_is_string(oauth)) {
        body->oauth = true;
        copy_code(body->code, sizeof body->code, oauth);
    }
}

static void fill_body(const struct provider_reply *reply, struct provider_body *body)
{
    *body = (struct provider_body){.json = reply->root != NULL};
    if (reply->root == NULL)
        return;
    fill_errors(reply->root, body);
    if (reply->data == NULL)
        body->data = PROVIDER_DATA_NONE;
    else if (json_is_array(reply->data))
        body->data = PROVIDER_DATA_ARRAY;
    else
        body->data = json_is_object(reply->data) ? PROVIDER_DATA_OBJECT : PROVIDER_DATA_OTHER;
    body->data_count = json_array_size(reply->data);
}

struct provider_reply *provider_reply_parse(struct span text, struct provider_body *body)
{
    struct provider_reply *reply = calloc(1, sizeof *reply);
    if (reply == NULL)
        return NULL;
    json_t *root = text.bytes == 0 ? NULL : json_loadb(text.at, text.bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(root))
        reply->root = root;
    else
        json_decref(root);
    reply->data = json_object_get(reply->root, "data");
    if (json_is_null(reply->data))
        reply->data = NULL;
    if (body != NULL)
        fill_body(reply, body);
    return reply;
}

void provider_reply_free(struct provider_reply *reply)
{
    if (reply == NULL)
        return;
    json_decref(reply->root);
    free(reply);
}

static void fill_entry(const json_t *from, struct provider_entry *entry)
{
    *entry = (struct provider_entry){.present = from != NULL, .item = PROVIDER_ITEM_NONE};
    if (from == NULL || json_is_null(from))
        return;
    const char *status = json_string_value(json_object_get(from, "status"));
    entry->item = PROVIDER_ITEM_UNREADABLE;
    if (status == NULL)
        return;
    copy_plain(entry->ticket, sizeof entry->ticket, json_object_get(from, "id"), false);
    if (strcmp(status, "ok") == 0) {
        entry->item = PROVIDER_ITEM_OK;
    } else if (strcmp(status, "error") == 0) {
        const json_t *details = json_object_get(from, "details");
        entry->item = PROVIDER_ITEM_ERROR;
        copy_code(entry->error, sizeof entry->error, json_object_get(details, "error"));
        if (entry->error[0] == '\0')
            memcpy(entry->error, code_unnamed, sizeof code_unnamed);
        const json_t *token = json_object_get(details, "expoPushToken");
        copy_plain(entry->token, sizeof entry->token, token, true);
        if (entry->token[0] == '\0' && token != NULL && !json_is_null(token))
            entry->token[0] = '?'; /* too long, or no plain text: at any rate none of ours */
    }
}

void provider_reply_ticket(const struct provider_reply *reply, size_t index, struct provider_entry *entry)
{
    if (json_is_object(reply->data)) {
        assert(index == 0);
        fill_entry(reply->data, entry);
        return;
    }
    assert(index < json_array_size(reply->data));
    fill_entry(json_array_get(reply->data, index), entry);
    if (entry->item == PROVIDER_ITEM_NONE)
        entry->item = PROVIDER_ITEM_UNREADABLE; /* a ticket is never null */
}

void provider_reply_receipt(const struct provider_reply *reply, struct span ticket,
                            struct provider_entry *entry)
{
    char key[DISPATCH_TICKET_MAX + 1];
    *entry = (struct provider_entry){.item = PROVIDER_ITEM_NONE};
    if (ticket.bytes == 0 || ticket.bytes >= sizeof key || memchr(ticket.at, '\0', ticket.bytes) != NULL)
        return;
    memcpy(key, ticket.at, ticket.bytes);
    key[ticket.bytes] = '\0';
    fill_entry(json_object_get(reply->data, key), entry);
}

static bool names_token(const json_t *tokens, struct span token)
{
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *one = json_array_get(tokens, i);
        if (json_is_string(one) && json_string_length(one) == token.bytes &&
            memcmp(json_string_value(one), token.at, token.bytes) == 0)
            return true;
    }
    return false;
}

void provider_reply_project(const struct provider_reply *reply, struct span token,
                            char project[PROVIDER_PROJECT_MAX + 1])
{
    json_t *error = json_array_get(json_object_get(reply->root, "errors"), 0);
    json_t *details = json_object_get(error, "details"), *tokens = NULL;
    const char *name = NULL;
    project[0] = '\0';
    json_object_foreach(details, name, tokens)
    {
        if (!names_token(tokens, token))
            continue;
        size_t bytes = strlen(name);
        bool plain = bytes > 0 && bytes <= PROVIDER_PROJECT_MAX;
        for (size_t i = 0; plain && i < bytes; i++)
            plain = name[i] > ' ' && name[i] <= '~';
        if (plain)
            memcpy(project, name, bytes + 1);
        return;
    }
}

size_t provider_reply_receipt_count(const struct provider_reply *reply)
{
    return json_object_size(reply->data);
}
