/* Raw records of the forming batch -> events, device changes, tombstones, dead letters.
 *
 * Parsing also decides where the batch ends: the first record that would take it over one of its maxima
 * closes it and stays raw for the next batch. An event larger than a batch is a batch of its own. A record
 * that can never succeed becomes a dead letter and is sent at once, so that its acknowledgement is there when
 * the batch is. */
#include "base/crash.h"
#include "base/log.h"
#include "ingest_private.h"
#include "wire/device.h"
#include "wire/event.h"

enum { ROW_BYTES = 200 }; /* ids, times and key of a row, about */

static void find_headers(const struct kafka_record *record, struct wire_record *wire)
{
    const struct {
        const char *name;
        struct span *value;
    } wanted[] = {
        {"traceparent", &wire->traceparent},
        {"content-type", &wire->content_type},
        {wire_ce_headers[WIRE_CE_SPECVERSION], &wire->ce[WIRE_CE_SPECVERSION]},
        {wire_ce_headers[WIRE_CE_ID], &wire->ce[WIRE_CE_ID]},
        {wire_ce_headers[WIRE_CE_SOURCE], &wire->ce[WIRE_CE_SOURCE]},
        {wire_ce_headers[WIRE_CE_TYPE], &wire->ce[WIRE_CE_TYPE]},
    };
    struct kafka_header first;
    if (!kafka_record_header(record, 0, &first)) {
        return; /* the usual record has none */
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!kafka_record_find_header(record, wanted[i].name, wanted[i].value)) {
            *wanted[i].value = (struct span){NULL, 0};
        }
    }
}

static struct wire_record wire_record_of(const struct ingest *ingest, const struct item *item)
{
    const struct kafka_record *record = &item->record;
    struct wire_record wire = {
        .value = record->value,
        .timestamp_us = wire_record_time_us(record->timestamp_ms),
        .now_us = clock_wall_us(&ingest->clock),
        .partition = record->partition,
        .offset = record->offset,
        .bytes_max = ingest->setup.settings->record_max_bytes,
    };
    find_headers(record, &wire);
    return wire;
}

/* Whether the event still fits; an empty batch takes any. */
static bool fits(const struct ingest *ingest, const struct batch *batch, const struct event *event,
                 size_t bytes)
{
    const struct ingest_settings *settings = ingest->setup.settings;
    return batch->kept == 0 ||
           (batch->recipients + event->recipient_count <= settings->batch_max_recipients &&
            batch->row_bytes + bytes <= settings->batch_max_bytes);
}

static enum status no_room(struct fault *fault)
{
    fault_set(fault, "arena", "the batch's memory is used up");
    return ST_RETRY;
}

/* ST_RETRY: it belongs into the next batch. */
static enum status parse_event(struct ingest *ingest, struct batch *batch, struct item *item,
                               struct fault *fault)
{
    struct event *event = arena_alloc(&batch->arena, sizeof *event);
    if (event == NULL) {
        return no_room(fault);
    }
    struct wire_record wire = wire_record_of(ingest, item);
    enum status status = event_parse(&wire, &batch->arena, event, fault);
    if (status != ST_OK) {
        return status;
    }
    size_t bytes = event->recipient_count * (event->title.bytes + event->body.bytes + event->data.bytes +
                                             event->push.bytes + ROW_BYTES);
    if (!fits(ingest, batch, event, bytes)) {
        return no_room(fault);
    }
    batch->recipients += event->recipient_count;
    batch->row_bytes += bytes;
    item->event = event;
    item->kind = ITEM_EVENT;
    return ST_OK;
}

static enum status parse_change(struct ingest *ingest, struct batch *batch, struct item *item,
                                struct fault *fault)
{
    struct device_change *change = arena_alloc(&batch->arena, sizeof *change);
    if (change == NULL) {
        return no_room(fault);
    }
    struct wire_record wire = wire_record_of(ingest, item);
    enum status status = device_parse(&wire, &batch->arena, change, fault);
    if (status == ST_OK) {
        item->change = change;
        item->kind = ITEM_CHANGE;
    }
    return status;
}

static enum status parse_item(struct ingest *ingest, struct batch *batch, struct item *item,
                              struct fault *fault)
{
    if (item->record.value_null) {
        item->kind = ITEM_TOMBSTONE;
        return ST_OK;
    }
    enum status status = item->record.topic == TOPIC_EVENTS ? parse_event(ingest, batch, item, fault)
                                                            : parse_change(ingest, batch, item, fault);
    if (status == ST_REJECT && !dead_letter_mark(ingest, batch, item, fault)) {
        return no_room(fault);
    }
    return status == ST_REJECT ? ST_OK : status;
}

enum status ingest_parse(struct ingest *ingest, struct batch *batch, struct fault *fault)
{
    size_t before = batch->parsed;
    while (!batch->closed && batch->parsed < batch->count) {
        struct item *item = &batch->items[batch->parsed];
        if (item->kind != ITEM_RAW) { /* dropped before it was parsed */
            batch->parsed++;
            continue;
        }
        struct fault reason;
        enum status status = parse_item(ingest, batch, item, &reason);
        if (status == ST_OK) {
            batch->parsed++;
            batch->kept++;
            continue;
        }
        if (status != ST_RETRY || batch->kept == 0) {
            *fault = reason; /* even alone it does not fit: our own maxima contradict each other */
            return ST_FATAL;
        }
        batch->closed = true;
    }
    if (batch->parsed > before) {
        CRASH_POINT("parse");
    }
    return batch->dead_unsettled > 0 ? dead_letter_send(ingest, batch, fault) : ST_OK;
}
