/* A mutex and a fixed table of slots: what one part says, another thread's /readyz reads. */
#include "base/readiness.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

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

static bool slot_check(const struct slot *slot, int64_t now_ms, struct buffer *out)
{
    int64_t quiet_ms = now_ms - slot->beat_at_ms;
    bool stuck = slot->beat_max_ms > 0 && quiet_ms > slot->beat_max_ms;
    if (out == NULL)
        return slot->ready && !stuck;
    if (stuck)
        buffer_printf(out, "%s: no progress for %lld s\n", slot->name, (long long)(quiet_ms / 1000));
    else if (slot->ready && slot->reason[0] != '\0')
        buffer_printf(out, "%s: ready (%s)\n", slot->name, slot->reason);
    else
        buffer_printf(out, "%s: %s\n", slot->name, slot->ready ? "ready" : slot->reason);
    return slot->ready && !stuck;
}

bool readiness_check(struct readiness *readiness, struct buffer *out)
{
    pthread_mutex_lock(&readiness->mutex);
    int64_t now_ms = clock_monotonic_ms(&readiness->clock);
    bool ready = !readiness->leaving;
    if (readiness->leaving && out != NULL)
        buffer_add_text(out, "process: leaving\n");
    for (size_t i = 0; i < readiness->count; i++)
        ready = slot_check(&readiness->slots[i], now_ms, out) && ready;
    pthread_mutex_unlock(&readiness->mutex);
    return ready;
}
