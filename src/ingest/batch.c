/* A batch: records in the order they were taken, and what became of each. Pure memory: no Kafka but releasing
 * a record, no database. Items never move within a batch, so a delivery still finds its item after others
 * were dropped. */
#include <stdlib.h>

#include "ingest_private.h"
#include "wire/event.h"

enum {
    ARENA_BYTES_MAX = EVENT_ARENA_BYTES_MAX + 8 * 1024 * 1024
}; /* one event always fits, with its structs */

enum status batch_init(struct batch *batch, size_t items_max, struct fault *fault)
{
    arena_init(&batch->arena, ARENA_BYTES_MAX);
    arena_init(&batch->faults, FAULTS_BYTES_MAX);
    batch->items = calloc(items_max, sizeof *batch->items);
    if (batch->items == NULL) {
        fault_set(fault, "memory", "out of memory");
        return ST_FATAL;
    }
    return ST_OK;
}

void batch_done(struct batch *batch)
{
    if (batch->items != NULL) {
        batch_reset(batch, 0);
    }
    free(batch->items);
    arena_done(&batch->arena);
    arena_done(&batch->faults);
}

void batch_reset(struct batch *batch, int64_t serial)
{
    for (size_t i = 0; i < batch->count; i++) {
        kafka_record_release(&batch->items[i].record);
    }
    arena_reset(&batch->arena);
    arena_reset(&batch->faults);
    *batch = (struct batch){
        .serial = serial, .arena = batch->arena, .faults = batch->faults, .items = batch->items};
}

void batch_drop_item(struct batch *batch, struct item *item)
{
    if (item->kind == ITEM_DEAD && item->dead != DEAD_ACKNOWLEDGED) {
        batch->dead_unsettled--;
    }
    item->kind = ITEM_DROPPED;
    kafka_record_release(&item->record);
}

void batch_prune(struct ingest *ingest, struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct item *item = &batch->items[i];
        if (item->kind == ITEM_DROPPED) {
            continue;
        }
        const struct seat *seat = seat_find(ingest, item->record.topic, item->record.partition);
        if (seat == NULL || seat->epoch != item->epoch) {
            batch_drop_item(batch, item);
        }
    }
}

void batch_hand_on(struct batch *from, struct batch *to)
{
    for (size_t i = from->parsed; i < from->count; i++) {
        if (from->items[i].kind == ITEM_DROPPED) {
            continue;
        }
        to->items[to->count++] = from->items[i];
        to->raw_bytes += from->items[i].record.value.bytes + from->items[i].record.key.bytes;
    }
    from->count = from->parsed;
    from->closed = true;
}

bool batch_is_full(const struct ingest *ingest, const struct batch *batch)
{
    const struct ingest_settings *settings = ingest->setup.settings;
    return batch->closed || batch->count >= settings->batch_max_events ||
           batch->raw_bytes >= settings->batch_max_bytes;
}
