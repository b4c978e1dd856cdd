/* Kafka -> the forming batch: whatever is ready, never waiting; the loop waits, and only for the first
 * record.
 *
 * Each record gets the offset its partition stood at before it, so that any run of a partition's items knows
 * where it starts. A record that lies before that place means the topic was made anew, or Kafka's client lost
 * its way: the group is left and joined again, which seats everything by the rules. A crash here loses
 * nothing. */
#include "base/crash.h"
#include "base/log.h"
#include "ingest_private.h"

/* A gap is a transaction marker or a compacted record, unless the low watermark has passed us. */
static void look_at_gap(struct ingest *ingest, const struct seat *seat, int64_t offset)
{
    int64_t low = -1, high = -1;
    kafka_consumer_watermarks(ingest->consumer, seat->topic, seat->partition, &low, &high);
    int64_t end = low < offset ? low : offset;
    if (end > seat->position) {
        metric_add(ingest->metrics, M_LOST_OFFSETS, 0, (uint64_t)(end - seat->position));
        log_event(LOG_ERROR, "ING-LOST", "records were removed from Kafka before they were read",
                  log_text("topic", ingest_topic(ingest, seat->topic)), log_int("partition", seat->partition),
                  log_int("from", seat->position), log_int("to", end));
    }
}

/* False: it is not ours to take now; the record was released. */
static bool take(struct ingest *ingest, struct batch *batch, struct kafka_record *record)
{
    struct seat *seat = seat_find(ingest, record->topic, record->partition);
    if (seat == NULL) {
        kafka_record_release(record);
        return false;
    }
    if (record->offset < seat->position) {
        log_event(LOG_WARN, "ING-BACKWARDS", "a partition went back; seating it again",
                  log_text("topic", ingest_topic(ingest, record->topic)),
                  log_int("partition", record->partition), log_int("offset", record->offset),
                  log_int("expected", seat->position));
        seat_forget(ingest, record->topic, record->partition);
        batch_prune(ingest, batch);
        kafka_record_release(record);
        ingest->rejoin_at_ms = clock_monotonic_ms(&ingest->clock);
        kafka_consumer_leave(ingest->consumer);
        return false;
    }
    if (record->offset > seat->position) {
        look_at_gap(ingest, seat, record->offset);
    }
    batch->items[batch->count++] = (struct item){.record = *record,
                                                 .start = seat->position,
                                                 .epoch = seat->epoch,
                                                 .generation = seat->generation,
                                                 .kind = ITEM_RAW};
    batch->raw_bytes += record->value.bytes + record->key.bytes;
    seat->position = record->offset + 1;
    return true;
}

/* A record that came although everything is paused: back to where it was. */
static void put_back(struct ingest *ingest, struct kafka_record *record)
{
    struct fault fault;
    struct seat *seat = seat_find(ingest, record->topic, record->partition);
    if (seat != NULL && seat->position <= record->offset &&
        kafka_consumer_seek(ingest->consumer, record->topic, record->partition, seat->position, &fault) !=
            ST_OK) {
        ingest->rejoin_at_ms = clock_monotonic_ms(&ingest->clock);
        kafka_consumer_leave(ingest->consumer);
    }
    kafka_record_release(record);
}

/* The seat could not be taken, or the topic is forbidden: back into the group later. */
static enum status heard(struct ingest *ingest, enum status status, struct fault *fault)
{
    if (status == ST_OK || status == ST_FATAL) {
        return status;
    }
    log_fault(LOG_WARN, "ING-SEAT", "partitions could not be seated; joining again later", status, fault);
    ingest->rejoin_at_ms = clock_monotonic_ms(&ingest->clock) +
                           (status == ST_STOP ? SLOW_RETRY_MS : backoff_next_ms(&ingest->backoff));
    return ST_OK;
}

enum status ingest_consume(struct ingest *ingest, struct batch *batch, struct fault *fault)
{
    enum status status = ST_OK;
    size_t before = batch->count;
    bool got = true;
    while (status == ST_OK && got &&
           (kafka_consumer_is_paused(ingest->consumer) || !batch_is_full(ingest, batch))) {
        struct kafka_record record;
        status = heard(ingest, kafka_consumer_poll(ingest->consumer, 0, &record, &got, fault), fault);
        if (status == ST_OK && got && kafka_consumer_is_paused(ingest->consumer)) {
            put_back(ingest, &record);
        } else if (status == ST_OK && got) {
            (void)take(ingest, batch, &record);
        }
    }
    ingest->more = got;
    if (batch->count > before) {
        CRASH_POINT("consume");
    }
    return status;
}
