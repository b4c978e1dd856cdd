/* Partitions come, go, and are lost: each seating fences out whoever had the partition before, and only then
 * asks where to start (design.md §1 point 4). What was taken under an earlier seating is stale and never
 * moves an offset; the statement on the wire is waited for, so that a seating sees what it left. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ingest_private.h"

enum { LAND_STEP_MS = 1000, REVOKE_LAND_MS = 5000, REVOKE_COMMIT_MS = 2000 };

/* ---- the table of seats -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct seat *left = a, *right = b;
    if (left->topic != right->topic) {
        return left->topic < right->topic ? -1 : 1;
    }
    return (left->partition > right->partition) - (left->partition < right->partition);
}

struct seat *seat_find(struct ingest *ingest, int topic, int32_t partition)
{
    struct seat key = {.topic = topic, .partition = partition};
    if (ingest->seat_last < ingest->seat_count && compare(&ingest->seats[ingest->seat_last], &key) == 0) {
        return &ingest->seats[ingest->seat_last];
    }
    if (ingest->seat_count == 0) {
        return NULL;
    }
    struct seat *found = bsearch(&key, ingest->seats, ingest->seat_count, sizeof *ingest->seats, compare);
    if (found != NULL) {
        ingest->seat_last = (size_t)(found - ingest->seats);
    }
    return found;
}

void seat_forget(struct ingest *ingest, int topic, int32_t partition)
{
    struct seat *gone = seat_find(ingest, topic, partition);
    if (gone != NULL) {
        size_t after = ingest->seat_count - (size_t)(gone - ingest->seats) - 1;
        memmove(gone, gone + 1, after * sizeof *gone);
        ingest->seat_count--;
    }
}

void seat_restart(struct ingest *ingest, struct seat *seat, int64_t offset)
{
    seat->position = offset;
    seat->epoch = ++ingest->epochs;
}

/* ---- taking -------------------------------------------------------------------------------------------- */

static void tell(struct ingest *ingest, const struct kafka_seat *seat, int64_t table,
                 const struct kafka_start *start)
{
    static const char *const why[] = {"both", "kafka_has_none", "table_has_none", "earliest",
                                      "beyond_the_end"};
    const char *topic = ingest_topic(ingest, seat->topic);
    enum log_level level = start->why == KAFKA_START_BEYOND ? LOG_WARN : LOG_INFO;
    log_event(level, "ING-SEATED", "partition seated", log_text("topic", topic),
              log_int("partition", seat->partition), log_int("start", start->offset),
              log_text("why", why[start->why]), log_int("table", table), log_int("kafka", seat->committed),
              log_int("low", seat->low), log_int("high", seat->high));
    if (start->lost > 0) {
        metric_add(ingest->metrics, M_LOST_OFFSETS, 0, (uint64_t)start->lost);
        log_event(LOG_ERROR, "ING-LOST", "records were removed from Kafka before they were read",
                  log_text("topic", topic), log_int("partition", seat->partition),
                  log_int("from", start->offset - start->lost), log_int("to", start->offset));
    }
}

/* The watermarks were read before the seating: what the owner before us finished meanwhile may lie above
 * them. */
static enum status decide(struct ingest *ingest, struct kafka_seat *seat, struct offsets_seat *row,
                          struct fault *fault)
{
    if (row->next_offset > seat->high) {
        enum status status = kafka_consumer_ask_watermarks(ingest->consumer, seat, fault);
        if (status != ST_OK) {
            return status;
        }
    }
    struct kafka_start start = kafka_start_of(row->next_offset, seat);
    tell(ingest, seat, row->next_offset, &start);
    seat->start = row->next_offset = start.offset;
    return ST_OK;
}

static enum status add_seats(struct ingest *ingest, int topic, const struct offsets_seat *rows, size_t count,
                             struct fault *fault)
{
    size_t room = ingest->seat_count + count;
    struct seat *more = room <= KAFKA_PARTITIONS_MAX ? realloc(ingest->seats, room * sizeof *more) : NULL;
    if (more == NULL) {
        fault_set(fault, "partitions", "no room for %zu partitions", room);
        return ST_STOP;
    }
    ingest->seats = more;
    for (size_t i = 0; i < count; i++) {
        more[ingest->seat_count++] = (struct seat){.topic = topic,
                                                   .partition = rows[i].partition,
                                                   .generation = rows[i].generation,
                                                   .epoch = ++ingest->epochs,
                                                   .position = rows[i].next_offset};
    }
    qsort(more, ingest->seat_count, sizeof *more, compare);
    return ST_OK;
}

static enum status take_topic(struct ingest *ingest, int topic, struct kafka_seat *seats, size_t count,
                              struct fault *fault)
{
    struct offsets_seat *rows = calloc(count + 1, sizeof *rows);
    if (rows == NULL) {
        fault_set(fault, "memory", "out of memory");
        return ST_RETRY;
    }
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (seats[i].topic == topic) {
            seat_forget(ingest, topic, seats[i].partition);
            rows[found++].partition = seats[i].partition;
        }
    }
    struct offsets_scope scope = ingest_scope(ingest, topic);
    enum status status = found == 0 ? ST_OK : offsets_seat(ingest->db, &scope, rows, found, fault);
    for (size_t i = 0, row = 0; i < count && status == ST_OK; i++) {
        if (seats[i].topic == topic) {
            status = decide(ingest, &seats[i], &rows[row++], fault);
        }
    }
    if (status == ST_OK && found > 0) {
        status = offsets_start(ingest->db, &scope, rows, found, fault);
    }
    if (status == ST_OK && found > 0) {
        status = add_seats(ingest, topic, rows, found, fault);
    }
    free(rows);
    return status;
}

enum status seat_assign(void *context, struct kafka_seat *seats, size_t count, struct fault *fault)
{
    struct ingest *ingest = context;
    metric_add(ingest->metrics, M_REBALANCES, 0, 1);
    while (ingest->flight.under_way) { /* ends: a silent server counts as lost */
        (void)flight_land(ingest, LAND_STEP_MS);
    }
    enum status status = ingest_connect(ingest, fault);
    for (int topic = 0; topic < TOPICS && status == ST_OK; topic++) {
        status = take_topic(ingest, topic, seats, count, fault);
    }
    metric_put(ingest->metrics, M_PARTITIONS, 0, (double)ingest->seat_count);
    ingest->seated = status == ST_OK;
    return status;
}

/* ---- giving back --------------------------------------------------------------------------------------- */

void seat_revoke(void *context, const struct kafka_seat *seats, size_t count, bool lost)
{
    struct ingest *ingest = context;
    if (!lost) {
        /* Its offsets reach the group too then, and the next owner has nothing to repeat. */
        (void)flight_land(ingest, ingest_must_leave(ingest) ? 0 : REVOKE_LAND_MS);
        kafka_consumer_commit(ingest->consumer, REVOKE_COMMIT_MS);
    }
    for (size_t i = 0; i < count; i++) {
        seat_forget(ingest, seats[i].topic, seats[i].partition);
    }
    batch_prune(ingest, ingest->forming);
    ingest->seated = ingest->seat_count > 0;
    metric_put(ingest->metrics, M_PARTITIONS, 0, (double)ingest->seat_count);
    log_event(LOG_INFO, lost ? "ING-PARTITIONS-LOST" : "ING-REVOKED",
              lost ? "partitions lost: nothing of them is committed" : "partitions given back",
              log_count("partitions", count), log_count("left", ingest->seat_count));
}
