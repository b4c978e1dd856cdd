/* The push provider's JSON (contracts/provider.md): messages out, tickets, error lists and receipts in.
 * jansson stays in src/wire; every text of a reply is copied out, cut to its maximum and cleaned. */
#ifndef BELFRY_WIRE_PROVIDER_H
#define BELFRY_WIRE_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "model/dispatch.h"
#include "model/event.h"
#include "model/uuid.h"

enum { PROVIDER_TOKEN_MAX = 256, PROVIDER_PROJECT_MAX = 100 };

/* ---- out ----------------------------------------------------------------------------------------------- */

/* One message to one token. Text must be valid UTF-8; data a valid JSON object or empty. Nothing is owned. */
struct provider_message {
    struct span token; /* a secret */
    struct uuid notification_id;
    struct span title, body, data;
    struct span push; /* the event's push object, as events.md has it and ingest checked it; empty: none */
    struct instant expires_at;
    bool urgent; /* priority high, when push says none */
};

/* How a message meets the payload limit (title + body + data as JSON text). */
enum provider_fit {
    PROVIDER_FIT_WHOLE,
    PROVIDER_FIT_SHORTENED, /* the body is cut on a character boundary, "…" appended */
    PROVIDER_FIT_NO_DATA,   /* data is left out but for notification_id; the body may be cut too */
    PROVIDER_FIT_TOO_BIG    /* not even that fits: not to be sent */
};

enum provider_fit provider_message_fit(const struct provider_message *message, size_t payload_max);

/* Appends the JSON array of the messages, in order. Data carries notification_id always; a member of that
 * name in the producer's data gives way. The rest of data goes as the bytes that came, and so do the values
 * of push under the provider's names; expiration is left out where there is a ttl, which wins. A message that
 * does not fit at all is a programming error (assert): ask provider_message_fit first. Past the buffer's
 * limit the buffer is failed. */
void provider_encode_messages(const struct provider_message *messages, size_t count, size_t payload_max,
                              struct buffer *out);

/* Appends {"ids":[…]}. */
void provider_encode_receipts(const struct span *tickets, size_t count, struct buffer *out);

/* ---- in ------------------------------------------------------------------------------------------------ */

enum provider_data { PROVIDER_DATA_NONE, PROVIDER_DATA_ARRAY, PROVIDER_DATA_OBJECT, PROVIDER_DATA_OTHER };

struct provider_reply; /* one parsed body */

/* What the body is as a whole. */
struct provider_body {
    bool json;                         /* an object; else nothing below counts */
    bool errors;                       /* "errors" is a list with at least one object */
    bool oauth;                        /* {"error":"invalid_token",…} without errors */
    bool transient_given, transient;   /* isTransient of the first error */
    char code[DISPATCH_ERROR_MAX + 1]; /* of the first error, or the OAuth error; cleaned; "" when none */
    enum provider_data data;           /* null counts as none */
    size_t data_count;                 /* of an array */
};

/* Parses a body; never fails for its content: what is no JSON object gives json = false. NULL when out of
 * memory. body is filled when not NULL. */
struct provider_reply *provider_reply_parse(struct span text, struct provider_body *body);
void provider_reply_free(struct provider_reply *reply); /* NULL is fine */

enum provider_item { PROVIDER_ITEM_NONE, PROVIDER_ITEM_OK, PROVIDER_ITEM_ERROR, PROVIDER_ITEM_UNREADABLE };

/* One ticket or receipt. */
struct provider_entry {
    bool present;            /* the reply names it, be it null */
    enum provider_item item; /* NONE: absent or null (receipts); UNREADABLE: not an object with a status */
    char ticket[DISPATCH_TICKET_MAX + 1]; /* "" when there was none, or one that is too long or unprintable */
    char error[DISPATCH_ERROR_MAX + 1]; /* of an error: details.error, cleaned; "ProviderError" without one */
    char token[PROVIDER_TOKEN_MAX + 1]; /* details.expoPushToken; "" none, "?" unreadable. A secret */
};

/* The ticket at index of data; of data that is one object, index 0 is that. Asserts index < count. */
void provider_reply_ticket(const struct provider_reply *reply, size_t index, struct provider_entry *entry);
/* The receipt of this ticket. */
void provider_reply_receipt(const struct provider_reply *reply, struct span ticket,
                            struct provider_entry *entry);
/* The project of this token by the details of the first error (PUSH_TOO_MANY_EXPERIENCE_IDS: {project:
 * [tokens]}); "" when they do not say, or say something unprintable. */
void provider_reply_project(const struct provider_reply *reply, struct span token,
                            char project[PROVIDER_PROJECT_MAX + 1]);
/* How many members the data map has (receipts): to see ids never asked for. */
size_t provider_reply_receipt_count(const struct provider_reply *reply);

#endif
