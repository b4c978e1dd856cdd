/* A mutex and a fixed table of slots: what one part says, another thread's /readyz reads. */
#include "base/readiness.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

struct slot {
    const char *name;
    int64_t beat_max_ms, beat_at_ms;
    bool ready;
    char reason[READINESS_REASON_MAX]; /* of a ready slot: its note, mostly "" */
};

struct readiness {
    pthread_mutex_t mutex;
    struct clock clock;
    bool leaving;
    size_t count;
    struct slot slots[READINESS_SLOTS_MAX];
};

struct readiness *readiness_new(const struct clock *clock)
{
    struct readiness *readiness = calloc(1, sizeof *readiness);
    if (readiness == NULL)
        return NULL;
    pthread_mutex_init(&readiness->mutex, NULL);
    readiness->clock = *clock;
    return readiness;
}

void readiness_free(struct readiness *readiness)
{
    if (readiness == NULL)
        return;
    pthread_mutex_destroy(&readiness->mutex);
    free(readiness);
}

size_t readiness_add(struct readiness *readiness, const char *name, int64_t beat_max_ms)
{
    if (readiness == NULL)
        return 0;
    pthread_mutex_lock(&readiness->mutex);
    assert(readiness->count < READINESS_SLOTS_MAX);
    size_t slot = readiness->count++;
    readiness->slots[slot] = (struct slot){.name = name,
                                           .beat_max_ms = beat_max_ms,
                                           .beat_at_ms = clock_monotonic_ms(&readiness->clock),
                                           .reason = "starting"};
    pthread_mutex_unlock(&readiness->mutex);
    return slot;
}

/* Takes the lock and counts a beat. */
static struct slot *slot_take(struct readiness *readiness, size_t slot)
{
    pthread_mutex_lock(&readiness->mutex);
    assert(slot < readiness->count);
    readiness->slots[slot].beat_at_ms = clock_monotonic_ms(&readiness->clock);
    return &readiness->slots[slot];
}

void readiness_ready(struct readiness *readiness, size_t slot)
{
    if (readiness == NULL)
        return;
    struct slot *taken = slot_take(readiness, slot);
    taken->ready = true;
    taken->reason[0] = '\0';
    pthread_mutex_unlock(&readiness->mutex);
}

void readiness_ready_but(struct readiness *readiness, size_t slot, const char *note)
{
    if (readiness == NULL)
        return;
    struct slot *taken = slot_take(readiness, slot);
    taken->ready = true;
    snprintf(taken->reason, sizeof taken->reason, "%s", note);
    pthread_mutex_unlock(&readiness->mutex);
}

void readiness_not(struct readiness *readiness, size_t slot, const char *reason)
{
    if (readiness == NULL)
        return;
    struct slot *taken = slot_take(readiness, slot);
    taken->ready = false;
    snprintf(taken->reason, sizeof taken->reason, "%s", reason);
    pthread_mutex_unlock(&readiness->mutex);
}

void readiness_beat(struct readiness *readiness, size_t slot)
{
    if (readiness == NULL)
        return;
    (void)slot_take(readiness, slot);
    pthread_mutex_unlock(&readiness->mutex);
}

void readiness_leave(struct readiness *readiness)
{
    if (readiness == NULL)
        return;
    pthread_mutex_lock(&readiness->mutex);
    readiness->leaving = true;
    pthread_mutex_unlock(&readiness->mutex);
}

/* What keeps a slot from being ready; "" when nothing does. text is scratch. */
static const char *slot_reason(const struct slot *slot, int64_t now_ms, char text[READINESS_REASON_MAX])
{
    int64_t quiet_ms = now_ms - slot->beat_at_ms;
    if (slot->beat_max_ms > 0 && quiet_ms > slot->beat_max_ms) {
        snprintf(text, READINESS_REASON_MAX, "no progress for %lld s", (long long)(quiet_ms / 1000));
        return text;
    }
    if (slot->ready)
        return "";
    return slot->reason[0] == '\0' ? "not ready" : slot->reason;
}

/* A string of JSON; what came cut in the middle of a character is mended here. */
static void add_string(struct buffer *out, const char *text)
{
    bool whole = utf8_is_text(span_of(text));
    buffer_add_byte(out, '"');
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            buffer_add_byte(out, '\\');
        bool shown = byte >= 0x20 && (byte < 0x80 || whole);
        bool blank = byte == '\n' || byte == '\t';
        buffer_add(out, shown ? text : blank ? " " : "?", 1);
    }
    buffer_add_byte(out, '"');
}

/* {"part":"ingest","reason":"..."}, with a comma before it when it is not the first. */
static void add_entry(struct buffer *out, const char *part, const char *name, const char *text)
{
    if (out == NULL)
        return;
    buffer_add_text(out, out->bytes > 0 && out->at[out->bytes - 1] == '[' ? "{\"part\":" : ",{\"part\":");
    add_string(out, part);
    buffer_printf(out, ",\"%s\":", name);
    add_string(out, text);
    buffer_add_byte(out, '}');
}

/* The reasons; true when there is none. */
static bool check_slots(const struct readiness *readiness, int64_t now_ms, struct buffer *out)
{
    bool ready = !readiness->leaving && readiness->count > 0;
    if (readiness->leaving)
        add_entry(out, "process", "reason", "leaving");
    else if (!ready)
        add_entry(out, "process", "reason", "starting"); /* its parts are not made yet */
    for (size_t i = 0; i < readiness->count; i++) {
        char text[READINESS_REASON_MAX];
        const char *reason = slot_reason(&readiness->slots[i], now_ms, text);
        if (reason[0] == '\0')
            continue;
        ready = false;
        add_entry(out, readiness->slots[i].name, "reason", reason);
    }
    return ready;
}

static void add_notes(const struct readiness *readiness, struct buffer *out)
{
    for (size_t i = 0; i < readiness->count; i++) {
        const struct slot *slot = &readiness->slots[i];
        if (slot->ready && slot->reason[0] != '\0')
            add_entry(out, slot->name, "note", slot->reason);
    }
}

bool readiness_check(struct readiness *readiness, struct buffer *out)
{
    pthread_mutex_lock(&readiness->mutex);
    int64_t now_ms = clock_monotonic_ms(&readiness->clock);
    bool ready = check_slots(readiness, now_ms, NULL);
    if (out != NULL) {
        buffer_printf(out, "{\"ready\":%s,\"reasons\":[", ready ? "true" : "false");
        (void)check_slots(readiness, now_ms, out);
        buffer_add_text(out, "],\"notes\":[");
        add_notes(readiness, out);
        buffer_add_text(out, "]}\n");
    }
    pthread_mutex_unlock(&readiness->mutex);
    return ready;
}
