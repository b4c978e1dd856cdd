/* Outcomes -> the receipts topic (design.md §2 point 6).
 *
 * In: a window's row and its verdict. Out: one record keyed by the batch id, and, once all in-sync replicas
 * have it, one less owed by its batch. What always holds: an outcome stays here until it is acknowledged,
 * whatever the topic does; a batch's row outlives its owed outcomes. A crash here: the sweeper reports what
 * was risked as Unconfirmed, and the reconciler keeps whatever came first. */
#include <assert.h>
#include <stdio.h>

#include "base/crash.h"
#include "base/log.h"
#include "state.h"
#include "wire/outcome.h"

enum { RETRY_MS = 1000 }; /* a topic that is missing, forbidden or too small for a record */

size_t publish_room(const struct fanout *fanout)
{
    size_t taken = fanout->owed_used + fanout->risked;
    return taken < fanout->owed_max ? fanout->owed_max - taken : 0;
}

static struct owed *take_place(struct fanout *fanout)
{
    for (size_t i = 0; i < fanout->owed_max; i++) {
        if (fanout->owed[i].state == OWED_FREE)
            return &fanout->owed[i];
    }
    return NULL;
}

void publish_add(struct fanout *fanout, const struct window_row *row, const struct verdict *verdict)
{
    struct held *held = held_find(fanout, row->batch_id);
    struct owed *owed = take_place(fanout);
    assert(held != NULL && owed != NULL);
    struct outcome outcome = {.dispatch_id = row->dispatch_id,
                              .notification_id = row->notification_id,
                              .workspace_id = row->workspace_id,
                              .recipient_user_id = row->recipient_user_id,
                              .device_id = row->device_id,
                              .outcome = verdict->outcome,
                              .ticket = span_of(verdict->ticket),
                              .error = span_of(verdict->error),
                              .detail = span_of(verdict->detail),
                              .attempt = verdict->attempt > 0 ? verdict->attempt : 1,
                              .at_us = clock_wall_us(fanout->clock)};
    buffer_reset(&owed->value);
    outcome_encode(&owed->value, &outcome);
    assert(!owed->value.failed); /* OUTCOME_RECORD_MAX was taken at the start */
    owed->state = OWED_WAITING;
    owed->batch_id = row->batch_id;
    owed->retry_at_ms = 0;
    bool traced = row->traceparent.at != NULL && row->traceparent.bytes <= FANOUT_TRACEPARENT_MAX;
    snprintf(owed->traceparent, sizeof owed->traceparent, "%.*s", traced ? (int)row->traceparent.bytes : 0,
             traced ? row->traceparent.at : "");
    held->owed++;
    fanout->owed_used++;
    size_t result = verdict->outcome == DISPATCH_SENT ? 0 : verdict->outcome == DISPATCH_FAILED ? 1 : 2;
    metric_add(fanout->metrics, FANOUT_M_OUTCOMES, result, 1);
}

static enum status send_one(struct fanout *fanout, size_t index, struct fault *fault)
{
    struct owed *owed = &fanout->owed[index];
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)owed->batch_id);
    struct kafka_header header = {.name = span_of("traceparent"), .value = span_of(owed->traceparent)};
    struct kafka_message message = {.topic = fanout->setup.receipts_topic,
                                    .partition = -1,
                                    .key = span_of(key),
                                    .value = buffer_span(&owed->value),
                                    .headers = &header,
                                    .header_count = owed->traceparent[0] == '\0' ? 0 : 1,
                                    .opaque = (int64_t)index,
                                    .timestamp_ms = -1};
    owed->state = OWED_SENT; /* before the call: a delivery may be served inside */
    enum status status = kafka_producer_send(fanout->producer, &message, fault);
    if (status != ST_OK)
        owed->state = OWED_WAITING;
    return status;
}

static void put_off(struct fanout *fanout, struct owed *owed, enum status status, const struct fault *fault)
{
    owed->state = OWED_WAITING;
    owed->retry_at_ms = fanout_now_ms(fanout) + RETRY_MS;
    readiness_not(fanout->setup.readiness, fanout->readiness_slot, "the receipts topic takes no outcomes");
    if (!fanout->topic_stopped) /* said once, until it takes them again */
        log_fault(LOG_ERROR, "FAN-TOPIC", "the receipts topic takes no outcomes; trying on", status, fault,
                  log_text("topic", fanout->setup.receipts_topic));
    fanout->topic_stopped = true;
}

enum status publish_run(struct fanout *fanout, struct fault *fault)
{
    int64_t now_ms = fanout_now_ms(fanout);
    bool any = false;
    for (size_t i = 0; i < fanout->owed_max; i++) {
        struct owed *owed = &fanout->owed[i];
        if (owed->state != OWED_WAITING || owed->retry_at_ms > now_ms)
            continue;
        enum status status = send_one(fanout, i, fault);
        if (status == ST_FATAL)
            return status;
        if (status == ST_RETRY)
            break; /* the producer is full: serve deliveries first */
        if (status != ST_OK)
            put_off(fanout, owed, status, fault);
        any = any || status == ST_OK;
    }
    if (any) {
        CRASH_POINT("publish");
    }
    return kafka_producer_poll(fanout->producer, 0, fault);
}

void publish_on_delivery(void *context, int64_t opaque, enum status status, const struct fault *fault)
{
    struct fanout *fanout = context;
    struct owed *owed = &fanout->owed[opaque];
    if (status != ST_OK) {
        put_off(fanout, owed, status, fault);
        return;
    }
    struct held *held = held_find(fanout, owed->batch_id);
    assert(owed->state == OWED_SENT && held != NULL && held->owed > 0);
    held->owed--;
    fanout->owed_used--;
    owed->state = OWED_FREE;
    if (fanout->topic_stopped) {
        fanout->topic_stopped = false;
        log_event(LOG_INFO, "FAN-TOPIC-BACK", "the receipts topic takes outcomes again",
                  log_text("topic", fanout->setup.receipts_topic));
    }
}
