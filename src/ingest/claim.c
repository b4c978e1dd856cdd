/* A batch's items -> rows, as few statements as the database allows: one for the devices topic, then one for
 * the events. A statement that the database rejects is cut into halves, runs in offset order per partition,
 * until the bad record stands alone and goes to the dead letters; it never blocks its partition.
 *
 * Always: an offset moves in the statement that stores what it covers, under the fence of its seating. A
 * crash before the commit leaves nothing, one after it is seen as committed. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/crash.h"
#include "base/log.h"
#include "ingest_private.h"

enum { STATEMENT_TIMEOUT_MS = 20000, TIMEOUT_TRIES = 3 };

/* ---- the fence failed ---------------------------------------------------------------------------------- */

/* Its partition is someone else's: its records are stale from now on. */
static void lose_part(struct ingest *ingest, const struct offsets_part *part)
{
    int topic = ingest->flight.topic;
    const struct seat *seat = seat_find(ingest, topic, part->partition);
    if (seat == NULL || seat->generation != part->generation) {
        return; /* known already: revoked or seated anew while the statement ran */
    }
    log_event(LOG_WARN, "ING-FENCED", "a partition was taken over; leaving the group and joining again",
              log_text("topic", ingest_topic(ingest, topic)), log_int("partition", part->partition));
    seat_forget(ingest, topic, part->partition);
    if (ingest->rejoin_at_ms == 0) {
        ingest->rejoin_at_ms = clock_monotonic_ms(&ingest->clock);
        kafka_consumer_leave(ingest->consumer);
    }
}

static enum status go_back(struct ingest *ingest, const struct offsets_part *part, int64_t offset,
                           struct fault *fault)
{
    int topic = ingest->flight.topic;
    struct seat *seat = seat_find(ingest, topic, part->partition);
    if (seat == NULL || seat->generation != part->generation) {
        return ST_OK;
    }
    log_event(LOG_WARN, "ING-WENT-BACK", "the database stands at an earlier offset; reading again from there",
              log_text("topic", ingest_topic(ingest, topic)), log_int("partition", part->partition),
              log_int("ours", part->start), log_int("table", offset));
    enum status status = kafka_consumer_seek(ingest->consumer, topic, part->partition, offset, fault);
    if (status == ST_OK) {
        seat_restart(ingest, seat, offset);
    }
    return status;
}

/* ST_OK: the whole run was committed before, its answer got lost. ST_RETRY: run again what is still ours. */
static enum status fence_failed(struct ingest *ingest, struct fault *fault)
{
    struct flight *flight = &ingest->flight;
    struct offsets_scope scope = ingest_scope(ingest, flight->topic);
    struct offsets_seat rows[FLIGHT_PARTS_MAX];
    for (size_t i = 0; i < flight->part_count; i++) {
        rows[i] = (struct offsets_seat){.partition = flight->parts[i].partition};
    }
    enum status status = offsets_read(ingest->db, &scope, rows, flight->part_count, fault);
    bool committed = false;
    for (size_t i = 0; i < flight->part_count && status == ST_OK; i++) {
        switch (offsets_judge(&flight->parts[i], &rows[i])) {
        case OFFSETS_HELD:
            break;
        case OFFSETS_COMMITTED:
            committed = true;
            break;
        case OFFSETS_WENT_BACK:
            status = go_back(ingest, &flight->parts[i], rows[i].next_offset, fault);
            break;
        case OFFSETS_LOST:
            lose_part(ingest, &flight->parts[i]);
            break;
        }
    }
    if (status != ST_OK) {
        return status;
    }
    if (committed) {
        log_event(LOG_INFO, "ING-COMMITTED", "a batch had been committed; its answer got lost",
                  log_text("topic", ingest_topic(ingest, flight->topic)),
                  log_count("parts", flight->part_count));
        flight_mark_done(ingest);
        return ST_OK;
    }
    fault_set(fault, "fenced",
              "another seating or an earlier offset was found; what is still ours is run again");
    return ST_RETRY;
}

/* ---- one run of items ---------------------------------------------------------------------------------- */

/* Sends the loaded statement and waits, taking and parsing what comes next meanwhile. */
static enum status fly(struct ingest *ingest, struct fault *fault)
{
    struct flight *flight = &ingest->flight;
    enum status status = ingest_connect(ingest, fault);
    if (status == ST_OK) {
        CRASH_POINT("claim");
        status = flight_start(ingest, fault);
    }
    if (status != ST_OK) {
        return status;
    }
    while (!flight->answered) {
        if (ingest_must_leave(ingest)) {
            fault_set(fault, "leaving", "the time to leave is up");
            return ST_RETRY; /* committed or not: the next start finds out */
        }
        status = ingest_idle(ingest, 100, fault);
        if (status != ST_OK) {
            return status;
        }
    }
    if (flight->status != ST_OK) {
        *fault = flight->fault;
        return flight->status;
    }
    return flight->moved ? ST_OK : fence_failed(ingest, fault);
}

/* Waits as the status asks for. False: leave. */
static bool rest(struct ingest *ingest, enum status status, const struct fault *fault)
{
    bool alarm = false;
    if (ingest_must_leave(ingest)) {
        return false;
    }
    metric_add(ingest->metrics, M_RETRIES, 0, 1);
    if (status == ST_STOP) {
        ingest_say_stopped(ingest, "the database refuses", status, fault);
        return ingest_rest(ingest, SLOW_RETRY_MS);
    }
    if (strlen(fault->code) == 5 && db_judge(fault->code, fault->field, &alarm) == ST_RETRY && alarm) {
        metric_add(ingest->metrics, M_ALARMS, 0, 1);
    }
    ingest_say_stopped(ingest, "a batch failed for the moment and is run again", status, fault);
    return ingest_rest(ingest, backoff_next_ms(&ingest->backoff));
}

/* ST_OK: stored, or nothing of it is ours any more · ST_REJECT: the database will not have it · ST_STOP: the
 * process leaves · ST_FATAL. */
static enum status run_range(struct ingest *ingest, struct batch *batch, int topic, const struct range *range,
                             struct fault *fault)
{
    for (;;) {
        batch_prune(ingest, batch);
        if (!flight_load(ingest, batch, topic, range)) {
            return ST_OK;
        }
        enum status status = fly(ingest, fault);
        if (status == ST_OK) {
            CRASH_POINT("claimed");
            backoff_reset(&ingest->backoff);
            ingest_say_ready(ingest);
            return ST_OK;
        }
        if (status == ST_REJECT || status == ST_FATAL) {
            return status;
        }
        if (!rest(ingest, status, fault)) {
            return ST_STOP;
        }
    }
}

/* ---- halves -------------------------------------------------------------------------------------------- */

static bool is_live(const struct item *item, int topic)
{
    return item->record.topic == topic && (item->kind == ITEM_EVENT || item->kind == ITEM_CHANGE);
}

static size_t count_live(const struct batch *batch, int topic, const struct range *range)
{
    size_t live = 0;
    for (size_t i = range->from; i < range->to; i++) {
        live += is_live(&batch->items[i], topic);
    }
    return live;
}

/* The place behind the half-th live item. */
static size_t middle(const struct batch *batch, int topic, const struct range *range, size_t half)
{
    size_t i = range->from;
    while (half > 0) {
        half -= is_live(&batch->items[i++], topic);
    }
    return i;
}

/* The bad record stands alone. */
static enum status bury(struct ingest *ingest, struct batch *batch, int topic, const struct range *range,
                        struct fault *fault)
{
    struct fault reason;
    fault_set(&reason, "sqlstate", "SQLSTATE %s: %s", fault->code, fault->text);
    fault_set_field(&reason, fault->field);
    for (size_t i = range->from; i < range->to; i++) {
        if (is_live(&batch->items[i], topic) && !dead_letter_mark(ingest, batch, &batch->items[i], &reason)) {
            fault_set(fault, "memory", "no room for one more dead letter's reason");
            return ST_FATAL;
        }
    }
    return ingest_dead_letter(ingest, batch, fault);
}

/* A slow record gets more time, three times, before it counts as bad. */
static enum status run_patiently(struct ingest *ingest, struct batch *batch, int topic,
                                 const struct range *range, struct fault *fault)
{
    enum status status = run_range(ingest, batch, topic, range, fault);
    for (int i = 1; i <= TIMEOUT_TRIES && status == ST_REJECT && strcmp(fault->code, "57014") == 0 &&
                    count_live(batch, topic, range) == 1;
         i++) {
        db_patience(ingest->db, STATEMENT_TIMEOUT_MS << i);
        status = run_range(ingest, batch, topic, range, fault);
    }
    db_patience(ingest->db, 0);
    return status;
}

static enum status claim_topic(struct ingest *ingest, struct batch *batch, int topic, struct fault *fault)
{
    struct range todo[RANGES_MAX] = {{0, batch->parsed}};
    size_t count = 1;
    while (count > 0) {
        struct range range = todo[--count];
        enum status status = run_patiently(ingest, batch, topic, &range, fault);
        if (status == ST_OK) {
            continue;
        }
        if (status != ST_REJECT) {
            return status;
        }
        size_t live = count_live(batch, topic, &range);
        assert(count + 2 <= RANGES_MAX);
        if (live > 1) {
            size_t at = middle(batch, topic, &range, live / 2);
            todo[count++] = (struct range){at, range.to};
            todo[count++] = (struct range){range.from, at};
            continue;
        }
        if (live == 0) { /* it rejects an offset: no record is to blame */
            if (!rest(ingest, ST_STOP, fault)) {
                return ST_STOP;
            }
        } else if ((status = bury(ingest, batch, topic, &range, fault)) != ST_OK) {
            return status;
        }
        todo[count++] = range;
    }
    return ST_OK;
}

enum status ingest_claim(struct ingest *ingest, struct batch *batch, struct fault *fault)
{
    enum status status = claim_topic(ingest, batch, TOPIC_DEVICES, fault);
    return status == ST_OK ? claim_topic(ingest, batch, TOPIC_EVENTS, fault) : status;
}
