/* Partitions of the receipts topic: who holds them, and where the table stands (design.md §1 point 4, for the
 * reconciler's own group). Always holds: a seat's position is the table's next_offset under its generation. A
 * crash here leaves a higher generation: whoever comes next takes the seat anew. */
#include "drain.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"

enum { COMMIT_MS = 1000 };

static void note_start(struct drain *drain, const struct kafka_seat *seat, const struct kafka_start *start)
{
    if (start->why == KAFKA_START_BEYOND)
        log_event(LOG_WARN, "DRAIN-BEYOND", "the table is ahead of the topic; reading from its beginning",
                  log_int("partition", seat->partition), log_int("high", seat->high));
    if (start->lost > 0) {
        log_event(LOG_ERROR, "DRAIN-LOSS", "records left the topic before they were read",
                  log_int("partition", seat->partition), log_int("records", start->lost));
        reconcile_count(drain->session.metrics, M_LOST, NULL, start->lost);
    }
}

/* Takes the rows' generations, works out where each partition begins, and says so in the table. */
static enum status take_seats(struct drain *drain, struct kafka_seat *seats, struct offsets_seat *rows,
                              size_t count, struct fault *fault)
{
    struct db *db = drain->session.db;
    for (size_t i = 0; i < count; i++)
        rows[i].partition = seats[i].partition;
    enum status status = offsets_seat(db, &drain->scope, rows, count, fault);
    if (status != ST_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        /* The watermarks were read before the seating: what the owner before us finished meanwhile may lie
         * above them, and would look like a topic made anew. */
        if (rows[i].next_offset > seats[i].high)
            status = kafka_consumer_ask_watermarks(drain->consumer, &seats[i], fault);
        if (status != ST_OK)
            return status;
        struct kafka_start start = kafka_start_of(rows[i].next_offset, &seats[i]);
        note_start(drain, &seats[i], &start);
        rows[i].next_offset = seats[i].start = start.offset;
    }
    return offsets_start(db, &drain->scope, rows, count, fault);
}

enum status seats_assign(void *context, struct kafka_seat *seats, size_t count, struct fault *fault)
{
    struct drain *drain = context;
    enum status status = ST_OK;
    if (count == 0) {
        drain->seated = true;
        return ST_OK;
    }
    struct offsets_seat *rows = calloc(count, sizeof *rows);
    if (rows == NULL) {
        fault_set(fault, "memory", "no memory to seat %zu partitions", count);
        return ST_RETRY;
    }
    if (!db_is_up(drain->session.db))
        status = db_connect(drain->session.db, fault);
    if (status == ST_OK)
        status = take_seats(drain, seats, rows, count, fault);
    for (size_t i = 0; status == ST_OK && i < count; i++) {
        assert(rows[i].partition >= 0 && rows[i].partition < KAFKA_PARTITIONS_MAX);
        drain->seats[rows[i].partition] = (struct drain_seat){
            .held = true, .part = -1, .generation = rows[i].generation, .position = rows[i].next_offset};
        if (rows[i].partition >= drain->seats_end)
            drain->seats_end = rows[i].partition + 1;
        log_event(LOG_INFO, "DRAIN-SEAT", "partition taken", log_int("partition", rows[i].partition),
                  log_int("generation", rows[i].generation), log_int("offset", rows[i].next_offset));
    }
    if (status == ST_OK)
        drain->seated = true;
    free(rows);
    return status;
}

void seats_revoke(void *context, const struct kafka_seat *seats, size_t count, bool lost)
{
    struct drain *drain = context;
    if (!lost)
        kafka_consumer_commit(drain->consumer, COMMIT_MS); /* so that the next one begins where we ended */
    for (size_t i = 0; i < count; i++) {
        drain->seats[seats[i].partition].held = false;
        log_event(LOG_INFO, "DRAIN-LEFT", "partition given up", log_int("partition", seats[i].partition),
                  log_bool("lost", lost));
    }
}

/* The distinct partitions of what is left of the batch. */
static size_t batch_partitions(struct drain *drain, struct offsets_seat *rows)
{
    struct drain_batch *batch = &drain->batch;
    size_t count = 0;
    for (size_t i = batch->applied; i < batch->count; i++) {
        struct drain_seat *seat = &drain->seats[batch->records[i].record.partition];
        if (seat->part >= 0)
            continue;
        seat->part = (int32_t)count;
        rows[count++].partition = batch->records[i].record.partition;
    }
    for (size_t i = 0; i < count; i++)
        drain->seats[rows[i].partition].part = -1;
    return count;
}

/* One partition after a failed fence. *ours false: it was taken over. */
static enum status resume_at(struct drain *drain, const struct offsets_seat *row, bool *ours,
                             struct fault *fault)
{
    struct drain_seat *seat = &drain->seats[row->partition];
    if (row->generation != seat->generation || row->next_offset == OFFSET_UNKNOWN) {
        *ours = false;
        return ST_OK;
    }
    if (row->next_offset < seat->position)
        log_event(LOG_WARN, "DRAIN-BACK", "the database went back; reading again from there",
                  log_int("partition", row->partition), log_int("from", seat->position),
                  log_int("to", row->next_offset));
    seat->position = row->next_offset;
    return kafka_consumer_seek(drain->consumer, 0, row->partition, row->next_offset, fault);
}

enum status seats_reread(struct drain *drain, struct fault *fault)
{
    struct offsets_seat *rows = calloc(drain->batch.count, sizeof *rows);
    bool ours = true;
    if (rows == NULL) {
        fault_set(fault, "memory", "no memory to read offsets again");
        return ST_RETRY;
    }
    size_t count = batch_partitions(drain, rows);
    enum status status = offsets_read(drain->session.db, &drain->scope, rows, count, fault);
    for (size_t i = 0; status == ST_OK && ours && i < count; i++)
        status = resume_at(drain, &rows[i], &ours, fault);
    free(rows);
    if (status != ST_OK)
        return status;
    batch_drop(drain);
    if (ours)
        return ST_OK;
    log_event(LOG_WARN, "DRAIN-FENCED", "another process has a partition of ours; joining the group again");
    return kafka_consumer_rejoin(drain->consumer, fault);
}

/* How long the oldest record in hand has waited since it was written. */
static double oldest_seconds(const struct drain *drain)
{
    int64_t now_ms = clock_wall_us(drain->session.clock) / 1000, oldest_ms = now_ms;
    for (size_t i = drain->batch.applied; i < drain->batch.count; i++) {
        int64_t written_ms = drain->batch.records[i].record.timestamp_ms;
        if (written_ms >= 0 && written_ms < oldest_ms)
            oldest_ms = written_ms;
    }
    return (double)(now_ms - oldest_ms) / 1e3;
}

void seats_measure_lag(struct drain *drain)
{
    enum { EVERY_MS = 1000 };
    int64_t now_ms = clock_monotonic_ms(drain->session.clock), lag = 0;
    size_t shown = 0;
    struct metric_number numbers[RECONCILE_LAGS_MAX];
    if (now_ms - drain->lag_ms < EVERY_MS)
        return;
    drain->lag_ms = now_ms;
    for (int32_t partition = 0; partition < drain->seats_end; partition++) {
        const struct drain_seat *seat = &drain->seats[partition];
        int64_t low = -1, high = -1;
        if (!seat->held)
            continue;
        kafka_consumer_watermarks(drain->consumer, 0, partition, &low, &high);
        int64_t here = high > seat->position ? high - seat->position : 0;
        lag += here;
        if (shown < RECONCILE_LAGS_MAX)
            numbers[shown++] = (struct metric_number){.number = partition, .shows = (double)here};
    }
    metric_put_numbers(drain->session.metrics, M_PARTITION_LAG, numbers, shown);
    metric_put(drain->session.metrics, M_LAG, 0, (double)lag);
    metric_put(drain->session.metrics, M_OLDEST_RECORD, 0, oldest_seconds(drain));
}
