/* A ring behind one mutex; the bound counts reserved, waiting and held batches together. */
#include "model/handover.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct handover {
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    int batches_max, taken; /* taken: reserved + waiting + held by fan-out */
    int count;              /* waiting */
    bool stopped;
    struct handover_batch waiting[];
};

enum status handover_new(int batches_max, struct handover **handover, struct fault *fault)
{
    assert(batches_max > 0);
    struct handover *made = calloc(1, sizeof *made + (size_t)batches_max * sizeof made->waiting[0]);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for a queue of %d batches", batches_max);
        return ST_FATAL;
    }
    made->batches_max = batches_max;
    pthread_mutex_init(&made->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&made->filled, &attributes);
    pthread_condattr_destroy(&attributes);
    *handover = made;
    return ST_OK;
}

void handover_free(struct handover *handover)
{
    if (handover == NULL)
        return;
    pthread_cond_destroy(&handover->filled);
    pthread_mutex_destroy(&handover->mutex);
    free(handover);
}

bool handover_reserve(struct handover *handover, int n)
{
    pthread_mutex_lock(&handover->mutex);
    bool room = !handover->stopped && handover->taken + n <= handover->batches_max;
    if (room)
        handover->taken += n;
    pthread_mutex_unlock(&handover->mutex);
    return room;
}

void handover_release(struct handover *handover, int n)
{
    pthread_mutex_lock(&handover->mutex);
    handover->taken -= n;
    assert(handover->taken >= handover->count);
    pthread_mutex_unlock(&handover->mutex);
}

void handover_put(struct handover *handover, struct handover_batch batch)
{
    pthread_mutex_lock(&handover->mutex);
    assert(handover->count < handover->taken);
    handover->waiting[handover->count++] = batch;
    pthread_cond_signal(&handover->filled);
    pthread_mutex_unlock(&handover->mutex);
}

static int next_index(const struct handover *handover)
{
    for (int i = 0; i < handover->count; i++) {
        if (handover->waiting[i].urgent)
            return i;
    }
    return 0;
}

static struct timespec deadline_in(int timeout_ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

bool handover_take(struct handover *handover, int timeout_ms, struct handover_batch *batch)
{
    struct timespec deadline = deadline_in(timeout_ms);
    pthread_mutex_lock(&handover->mutex);
    int waited = 0;
    while (handover->count == 0 && !handover->stopped && waited == 0)
        waited = pthread_cond_timedwait(&handover->filled, &handover->mutex, &deadline);
    bool found = handover->count > 0;
    if (found) {
        int at = next_index(handover);
        *batch = handover->waiting[at];
        for (int i = at + 1; i < handover->count; i++)
            handover->waiting[i - 1] = handover->waiting[i];
        handover->count--;
    }
    pthread_mutex_unlock(&handover->mutex);
    return found;
}

void handover_stop(struct handover *handover)
{
    pthread_mutex_lock(&handover->mutex);
    handover->stopped = true;
    pthread_cond_broadcast(&handover->filled);
    pthread_mutex_unlock(&handover->mutex);
}
