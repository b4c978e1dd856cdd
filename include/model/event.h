/* One event of belfry.events, parsed and valid (contracts/events.md), and the recipients it names.
 * All text points into the batch's arena (or the record's own bytes) and lives until the batch is reset. */
#ifndef BELFRY_MODEL_EVENT_H
#define BELFRY_MODEL_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

enum {
    EVENT_ID_MAX = 200, /* run_id, event_type, workspace_id, a recipient: bytes */
    EVENT_CATEGORY_MAX = 100,
    EVENT_TITLE_MAX = 500,
    EVENT_BODY_MAX = 4000,
    EVENT_DATA_MAX = 16 * 1024,
    EVENT_DEPTH_MAX = 32,
    EVENT_KEY_MAX = 500,
    EVENT_RECIPIENTS_MAX = 10000
};

/* A point in time that may be absent. */
struct instant {
    bool given;
    int64_t us; /* microseconds since 1970-01-01 UTC */
};

enum push_choice {
    PUSH_DEFAULT, /* the member is absent: push as usual */
    PUSH_OFF,     /* push: false */
    PUSH_OPTIONS  /* an object, kept as it came in `push` */
};

struct recipient {
    struct span user_id;
    struct span key; /* the whole idempotency key: notification:{run}:{type}:{user} (design.md §1) */
};

struct event {
    struct span run_id;          /* as given; empty when only idempotency_key was */
    struct span idempotency_key; /* as given; empty when absent */
    struct span event_type, workspace_id, category, title, body;
    struct span data; /* the object's bytes as they came, cut from the record; empty when absent */
    struct span push; /* the same for push, when push_choice is PUSH_OPTIONS */
    enum push_choice push_choice;
    bool urgent; /* push.priority is "high" */
    struct instant occurred_at, expires_at;
    struct span traceparent;      /* from the record's headers; empty when absent */
    int64_t event_at_us;          /* the record's timestamp; missing or in the future: now */
    int64_t content_hash;         /* 8 bytes of SHA-256 over what a reader would see; see wire/event.h */
    struct recipient *recipients; /* distinct, in the order given */
    uint32_t recipient_count;     /* 1 … EVENT_RECIPIENTS_MAX */
    int32_t partition;            /* where it came from */
    int64_t offset;
};

/* One record of belfry.devices. */
struct device_change {
    bool enable;          /* register; else unregister */
    struct span token;    /* a secret: never logged */
    struct span user_id;  /* register only */
    struct span platform; /* ios, android, web; register only */
    struct span app_version;
    int64_t at_us; /* `at`, else the record's timestamp */
    int32_t partition;
    int64_t offset;
};

#endif
