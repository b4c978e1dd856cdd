/* One statement on the wire: a run of a batch's items of one topic, out; counts and batch ids, back.
 *
 * Everything or nothing: either the whole run is in the database with its offsets, or nothing of it is. Whose
 * answer got lost is learnt by running it again: the fence fails, and the row says that it stands at our end.
 */
#include <assert.h>

#include "base/log.h"
#include "ingest_private.h"
#include "io/crypto.h"

enum {
    BATCH_PLACES = 2, /* an urgent and a normal batch */
    KEY_FINGERPRINT_CHARACTERS = 16
};

/* ---- picking ------------------------------------------------------------------------------------------- */

static struct offsets_part *part_of(struct flight *flight, const struct item *item)
{
    for (size_t i = flight->part_count; i > 0; i--) {
        if (flight->parts[i - 1].partition == item->record.partition) {
            return &flight->parts[i - 1];
        }
    }
    assert(flight->part_count < FLIGHT_PARTS_MAX);
    struct offsets_part *part = &flight->parts[flight->part_count++];
    *part = (struct offsets_part){
        .partition = item->record.partition, .generation = item->generation, .start = item->start};
    return part;
}

static void pick(struct ingest *ingest, const struct item *item)
{
    struct flight *flight = &ingest->flight;
    struct offsets_part *part = part_of(flight, item);
    part->end = item->record.offset + 1;
    part->records++;
    part->tombstones += item->kind == ITEM_TOMBSTONE;
    part->dead_letters += item->kind == ITEM_DEAD;
    assert(item->kind != ITEM_DEAD || item->dead == DEAD_ACKNOWLEDGED);
    if (item->kind == ITEM_EVENT) {
        ingest->picked[flight->picked_count++] = item->event;
    } else if (item->kind == ITEM_CHANGE) {
        ingest->picked[flight->picked_count++] = item->change;
    }
}

bool flight_load(struct ingest *ingest, const struct batch *batch, int topic, const struct range *range)
{
    struct flight *flight = &ingest->flight;
    assert(!flight->under_way);
    flight->topic = topic;
    flight->part_count = flight->picked_count = 0;
    flight->answered = false;
    for (size_t i = range->from; i < range->to; i++) {
        const struct item *item = &batch->items[i];
        if (item->record.topic == topic && item->kind != ITEM_DROPPED) {
            pick(ingest, item);
        }
    }
    return flight->part_count > 0;
}

/* ---- out ----------------------------------------------------------------------------------------------- */

static enum status send_events(struct ingest *ingest, struct fault *fault)
{
    struct flight *flight = &ingest->flight;
    struct claim_batch batch = {.parts = flight->parts,
                                .part_count = flight->part_count,
                                .events = (const struct event *const *)ingest->picked,
                                .event_count = flight->picked_count,
                                .take = flight->take,
                                .now_us = clock_wall_us(&ingest->clock)};
    return claim_send(ingest->claim, ingest->db, &batch, 0, fault);
}

static enum status send_changes(struct ingest *ingest, struct fault *fault)
{
    struct flight *flight = &ingest->flight;
    struct devices_batch batch = {.parts = flight->parts,
                                  .part_count = flight->part_count,
                                  .changes = (const struct device_change *const *)ingest->picked,
                                  .change_count = flight->picked_count};
    return devices_send(ingest->devices, ingest->db, &batch, 0, fault);
}

/* A batch that finds no room in memory stays free in the table, for the sweeper. */
static void reserve(struct ingest *ingest)
{
    struct handover *handover = ingest->setup.handover;
    ingest->flight.take = handover != NULL && ingest->flight.topic == TOPIC_EVENTS &&
                          ingest->flight.picked_count > 0 && handover_reserve(handover, BATCH_PLACES);
}

static void release(struct ingest *ingest, int places)
{
    if (ingest->flight.take && places > 0) {
        handover_release(ingest->setup.handover, places);
    }
}

enum status flight_start(struct ingest *ingest, struct fault *fault)
{
    struct flight *flight = &ingest->flight;
    reserve(ingest);
    enum status status =
        flight->topic == TOPIC_EVENTS ? send_events(ingest, fault) : send_changes(ingest, fault);
    if (status != ST_OK) {
        release(ingest, BATCH_PLACES);
        return status;
    }
    flight->under_way = true;
    return ST_OK;
}

/* ---- back ---------------------------------------------------------------------------------------------- */

static void hand_over(struct ingest *ingest)
{
    const struct claim_outcome *outcome = &ingest->flight.claimed;
    if (!ingest->flight.take) {
        return;
    }
    for (int i = 0; i < outcome->batch_count; i++) {
        handover_put(ingest->setup.handover, outcome->batches[i]);
    }
    release(ingest, BATCH_PLACES - outcome->batch_count);
}

static void count_claimed(struct ingest *ingest)
{
    const struct claim_outcome *outcome = &ingest->flight.claimed;
    metric_add(ingest->metrics, M_NOTIFICATIONS, 0, (uint64_t)outcome->notifications);
    metric_add(ingest->metrics, M_DUPLICATES, 0, (uint64_t)outcome->duplicates);
    metric_add(ingest->metrics, M_MISMATCHES, 0, (uint64_t)outcome->mismatch_count);
    metric_add(ingest->metrics, M_ERASED, 0, (uint64_t)outcome->erased);
    metric_add(ingest->metrics, M_DISPATCHES, 0, (uint64_t)outcome->dispatches);
    metric_add(ingest->metrics, M_SUPPRESSED, 0, (uint64_t)outcome->suppressed);
    for (int i = 0; i < outcome->mismatches_held; i++) {
        const struct event *event = ingest->picked[outcome->mismatches[i].event];
        char hex[CRYPTO_SHA256_HEX_BYTES + 1]; /* the key names a run and a person: only its fingerprint */
        crypto_sha256_hex(event->recipients[outcome->mismatches[i].recipient].key, hex);
        hex[KEY_FINGERPRINT_CHARACTERS] = '\0';
        log_event(LOG_WARN, "ING-MISMATCH", "a duplicate with other content; the first wins",
                  log_text("topic", ingest_topic(ingest, TOPIC_EVENTS)),
                  log_int("partition", event->partition), log_int("offset", event->offset),
                  log_text("key_fingerprint", hex), log_int("mismatches", outcome->mismatch_count));
    }
}

static void count_applied(struct ingest *ingest)
{
    const struct devices_outcome *outcome = &ingest->flight.applied;
    const int64_t counts[] = {outcome->registered, outcome->moved_owner, outcome->disabled, outcome->seen,
                              outcome->ignored};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        metric_add(ingest->metrics, M_DEVICE_CHANGES, i, (uint64_t)counts[i]);
    }
}

void flight_mark_done(struct ingest *ingest)
{
    const struct flight *flight = &ingest->flight;
    for (size_t i = 0; i < flight->part_count; i++) {
        const struct offsets_part *part = &flight->parts[i];
        const struct seat *seat = seat_find(ingest, flight->topic, part->partition);
        if (seat != NULL && seat->generation == part->generation) {
            kafka_consumer_done(ingest->consumer, flight->topic, part->partition, part->end);
        }
        metric_add(ingest->metrics, M_RECORDS, (size_t)flight->topic, (uint64_t)part->records);
        metric_add(ingest->metrics, M_TOMBSTONES, 0, (uint64_t)part->tombstones);
    }
}

static void read_answer(struct ingest *ingest, struct db_answer *answer)
{
    struct flight *flight = &ingest->flight;
    bool moved = false;
    if (flight->topic == TOPIC_EVENTS) {
        flight->status = claim_finish(ingest->claim, answer, &flight->claimed, &flight->fault);
        moved = flight->status == ST_OK && flight->claimed.moved;
    } else {
        flight->status = devices_finish(answer, &flight->applied, &flight->fault);
        moved = flight->status == ST_OK && flight->applied.moved;
    }
    flight->under_way = false;
    flight->answered = true;
    flight->moved = moved;
    if (!moved) {
        release(ingest, BATCH_PLACES);
    } else if (flight->topic == TOPIC_EVENTS) {
        hand_over(ingest);
        count_claimed(ingest);
    } else {
        count_applied(ingest);
    }
    if (moved) {
        flight_mark_done(ingest);
    }
}

bool flight_land(struct ingest *ingest, int timeout_ms)
{
    if (!ingest->flight.under_way) {
        return ingest->flight.answered;
    }
    struct db_answer answer;
    if (!db_take(ingest->db, &answer) &&
        (!db_wait(ingest->db, timeout_ms) || !db_take(ingest->db, &answer))) {
        return false;
    }
    read_answer(ingest, &answer);
    return true;
}
