/* The account service's bytes (contracts/preferences.md): which users want which pushes. */
#ifndef BELFRY_WIRE_PREFERENCES_H
#define BELFRY_WIRE_PREFERENCES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/span.h"
#include "base/status.h"
#include "model/event.h"

enum {
    PREFERENCES_USERS_MAX = 200,           /* of one request */
    PREFERENCES_DENIED_MAX = 256,          /* categories one user may switch off: it bounds the cache */
    PREFERENCES_REPLY_BYTES_MAX = 1 << 20, /* of a reply, unpacked */
    /* Each byte of an id as six ("\u001f"), and the frame. */
    PREFERENCES_REQUEST_BYTES_MAX = PREFERENCES_USERS_MAX * (EVENT_ID_MAX * 6 + 3) + 64
};

/* {"users":["u1","u2",…]} */
void preferences_encode(const struct span *users, size_t count, struct buffer *out);

struct preferences_reply;

/* ST_REJECT: "json", "nul" or "too_big" when it is not JSON we take, "not_object" or "field" (`users`) when
 * its frame has the wrong types. The text holds nothing of the reply. ST_RETRY "memory". */
MUST_USE enum status preferences_reply_parse(struct span body, struct preferences_reply **reply,
                                             struct fault *fault);
void preferences_reply_free(struct preferences_reply *reply); /* NULL is fine */

/* What it says about one user. Left out, or without push or categories: allowed. */
struct preferences_entry {
    bool wrong; /* mistyped, or over PREFERENCES_DENIED_MAX: as if the service had said nothing */
    bool push;
    size_t denied_count;                        /* categories that are false; 0 when push is false */
    struct span denied[PREFERENCES_DENIED_MAX]; /* into the reply */
};

/* Each user is judged alone: one mistyped entry spoils no other. */
void preferences_reply_user(const struct preferences_reply *reply, struct span user,
                            struct preferences_entry *entry);

#endif
