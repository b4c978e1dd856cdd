/* In: dead letters, a batch at a time. Out: the same records on their origin partitions, and rows of
 * `replays`. Holds always: nothing is remembered before it is acknowledged, and nothing of a batch is taken
 * up again once its partition went to another run. No offset is committed: the table alone remembers. A crash
 * between acknowledgement and row puts one batch back once more (see ingest/replay.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crash.h"
#include "replay_letter.h"
#include "store/schema.h"

enum {
    BATCH_RECORDS = 500,
    BATCH_BYTES = 8 * 1024 * 1024,
    PRODUCER_BYTES = 64 * 1024 * 1024,
    SEATED_WITHIN_MS = 60000,
    SILENCE_MS = 15000, /* the last offsets may be transaction markers, which nobody hands out */
    FLUSH_MS = 30000,
    CLOSE_MS = 5000
};

struct place {
    int32_t partition;
    int64_t next, end;
};

struct replay {
    const struct replay_setup *setup;
    struct replay_counts *counts;
    struct db *db;
    struct kafka_consumer *consumer;
    struct kafka_producer *producer;
    struct place places[KAFKA_PARTITIONS_MAX];
    size_t place_count;
    bool seated;
    struct letter letters[BATCH_RECORDS];
    size_t count, bytes;
    enum status refused; /* ST_STOP of a delivery: the origin topic is missing or forbidden */
    struct fault refused_fault;
};

/* ---- partitions come and go ---------------------------------------------------------------------------- */

static void drop_batch(struct replay *replay)
{
    for (size_t i = 0; i < replay->count; i++) {
        kafka_record_release(&replay->letters[i].record);
    }
    replay->count = replay->bytes = 0;
}

static enum status on_assign(void *context, struct kafka_seat *seats, size_t count, struct fault *fault)
{
    struct replay *replay = context;
    if (replay->place_count + count > KAFKA_PARTITIONS_MAX) {
        fault_set(fault, "partitions", "no room for %zu partitions", count);
        return ST_STOP;
    }
    for (size_t i = 0; i < count; i++) {
        seats[i].start = seats[i].low;
        replay->places[replay->place_count++] =
            (struct place){.partition = seats[i].partition, .next = seats[i].low, .end = seats[i].high};
    }
    replay->seated = true;
    return ST_OK;
}

static void drop_partition(struct replay *replay, int32_t partition)
{
    size_t kept = 0;
    for (size_t i = 0; i < replay->count; i++) {
        if (replay->letters[i].record.partition == partition) {
            kafka_record_release(&replay->letters[i].record);
        } else {
            replay->letters[kept++] = replay->letters[i];
        }
    }
    replay->count = kept;
}

/* What is in hand goes too: whoever has the partition now begins it anew, and the table tells what is done.
 * Called while polling only, when no letter of the batch is judged yet. */
static void on_revoke(void *context, const struct kafka_seat *seats, size_t count, bool lost)
{
    struct replay *replay = context;
    (void)lost;
    for (size_t i = 0; i < count; i++) {
        drop_partition(replay, seats[i].partition);
        for (size_t k = 0; k < replay->place_count; k++) {
            if (replay->places[k].partition == seats[i].partition) {
                replay->places[k] = replay->places[--replay->place_count];
                break;
            }
        }
    }
}

static bool is_at_end(const struct replay *replay)
{
    if (kafka_consumer_unseated(replay->consumer) > 0) {
        return false;
    }
    for (size_t i = 0; i < replay->place_count; i++) {
        if (replay->places[i].next < replay->places[i].end) {
            return false;
        }
    }
    return replay->seated;
}

/* ---- what becomes of them --------------------------------------------------------------------------------
 */

/* The origins of those that are (still) to be put back, or of those that were. */
static size_t gather(const struct replay *replay, bool acknowledged, struct replay_origin *origins)
{
    size_t count = 0;
    for (size_t i = 0; i < replay->count; i++) {
        const struct letter *letter = &replay->letters[i];
        if (acknowledged ? letter->acknowledged : letter->verdict == REPLAY_PUT_BACK) {
            origins[count++] = letter->origin;
        }
    }
    return count;
}

static enum status judge_batch(struct replay *replay, struct fault *fault)
{
    struct replay_origin origins[BATCH_RECORDS];
    bool done[BATCH_RECORDS];
    for (size_t i = 0; i < replay->count; i++) {
        replay->letters[i].verdict = letter_judge(&replay->letters[i], replay->setup);
    }
    size_t count = gather(replay, false, origins);
    enum status status = count == 0 ? ST_OK : replays_find(replay->db, origins, count, done, fault);
    for (size_t i = 0, k = 0; i < replay->count && status == ST_OK; i++) {
        if (replay->letters[i].verdict == REPLAY_PUT_BACK && done[k++]) {
            replay->letters[i].verdict = REPLAY_DONE_BEFORE;
        }
    }
    letter_drop_copies(replay->letters, replay->count);
    return status;
}

/* ---- back on its topic --------------------------------------------------------------------------------- */

/* This record alone: too large by now, or of a partition that is gone. Else its topic is at fault. */
static bool is_refused(enum status status, const struct fault *fault)
{
    return status == ST_REJECT || (status == ST_STOP && strcmp(fault->code, "_UNKNOWN_PARTITION") == 0);
}

static void on_delivery(void *context, int64_t opaque, enum status status, const struct fault *fault)
{
    struct replay *replay = context;
    struct letter *letter = &replay->letters[opaque];
    letter->acknowledged = status == ST_OK;
    if (is_refused(status, fault)) {
        letter->verdict = REPLAY_REFUSED;
    } else if (status != ST_OK) {
        replay->refused = status;
        replay->refused_fault = *fault;
    }
}

static enum status send_one(struct replay *replay, size_t index, struct fault *fault)
{
    const struct letter *letter = &replay->letters[index];
    struct kafka_header headers[KAFKA_HEADERS_MAX];
    char times[LETTER_NUMBER_MAX];
    size_t count = letter_headers(letter, headers, times);
    struct kafka_message message = {.topic = letter->topic,
                                    .partition = letter->origin.partition,
                                    .key_null = letter->record.key_null,
                                    .value_null = letter->record.value_null,
                                    .key = letter->record.key,
                                    .value = letter->record.value,
                                    .headers = headers,
                                    .header_count = count,
                                    .opaque = (int64_t)index,
                                    .timestamp_ms = letter->origin.timestamp_ms};
    enum status status = kafka_producer_send(replay->producer, &message, fault);
    while (status == ST_RETRY) { /* full, or out of memory: what is acknowledged makes room */
        enum status polled = kafka_producer_poll(replay->producer, 100, fault);
        if (polled != ST_OK) {
            return polled;
        }
        status = kafka_producer_send(replay->producer, &message, fault);
    }
    return status;
}

static enum status send_batch(struct replay *replay, struct fault *fault)
{
    enum status status = ST_OK;
    for (size_t i = 0; i < replay->count && status == ST_OK; i++) {
        if (replay->letters[i].verdict != REPLAY_PUT_BACK) {
            continue;
        }
        status = send_one(replay, i, fault);
        if (is_refused(status, fault)) {
            replay->letters[i].verdict = REPLAY_REFUSED;
            status = ST_OK;
        }
    }
    /* Whatever came of it: what is under way is waited for, so that what was done is remembered. */
    struct fault late;
    enum status flushed = kafka_producer_flush(replay->producer, FLUSH_MS, &late);
    if (status == ST_OK && replay->refused != ST_OK) {
        *fault = replay->refused_fault;
        return replay->refused;
    }
    if (status == ST_OK && flushed != ST_OK) {
        *fault = late;
    }
    return status == ST_OK ? flushed : status;
}

static enum status remember(struct replay *replay, struct fault *fault)
{
    struct replay_origin origins[BATCH_RECORDS];
    size_t count = gather(replay, true, origins);
    if (count == 0) {
        return ST_OK;
    }
    CRASH_POINT("replay");
    return replays_add(replay->db, origins, count, fault);
}

/* ---- telling ------------------------------------------------------------------------------------------- */

static void count_code(struct replay_counts *counts, const char *code)
{
    size_t i = 0;
    while (i < counts->code_count && strcmp(counts->codes[i].code, code) != 0) {
        i++;
    }
    if (i == counts->code_count && counts->code_count < REPLAY_CODES_MAX) {
        counts->code_count++;
        (void)snprintf(counts->codes[i].code, sizeof counts->codes[i].code, "%s", code);
    }
    counts->codes[i < REPLAY_CODES_MAX ? i : REPLAY_CODES_MAX - 1].count++;
}

static void tell(struct replay *replay)
{
    for (size_t i = 0; i < replay->count; i++) {
        const struct letter *letter = &replay->letters[i];
        if (letter->verdict == REPLAY_PUT_BACK && !letter->acknowledged && !replay->setup->dry_run) {
            continue; /* not acknowledged: the run ends here, and the next one takes it up */
        }
        replay->counts->by_verdict[letter->verdict]++;
        if (letter->verdict == REPLAY_PUT_BACK) {
            count_code(replay->counts, letter->code);
        }
        if (replay->setup->show != NULL) {
            replay->setup->show(replay->setup->context,
                                &(struct replay_shown){.verdict = letter->verdict,
                                                       .dlq_partition = letter->record.partition,
                                                       .dlq_offset = letter->record.offset,
                                                       .topic = letter->topic,
                                                       .partition = letter->origin.partition,
                                                       .offset = letter->origin.offset,
                                                       .code = letter->code,
                                                       .field = letter->field,
                                                       .message = letter->message});
        }
    }
}

static enum status handle_batch(struct replay *replay, struct fault *fault)
{
    enum status status = judge_batch(replay, fault);
    if (status == ST_OK && !replay->setup->dry_run) {
        struct fault why;
        status = send_batch(replay, fault);
        enum status remembered = remember(replay, &why);
        if (status == ST_OK && remembered != ST_OK) {
            *fault = why;
            status = remembered;
        }
    } else if (status != ST_OK) {
        drop_batch(replay);
        return status;
    }
    tell(replay);
    drop_batch(replay);
    return status;
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static void take(struct replay *replay, struct kafka_record *record)
{
    for (size_t i = 0; i < replay->place_count; i++) {
        struct place *place = &replay->places[i];
        if (place->partition != record->partition) {
            continue;
        }
        place->next = record->offset + 1;
        if (record->offset < place->end) { /* later ones came after the start: of the next run */
            replay->letters[replay->count] = (struct letter){.record = *record};
            replay->count++;
            replay->bytes += record->value.bytes + record->key.bytes;
            return;
        }
    }
    kafka_record_release(record);
}

static enum status wait_over(const struct replay *replay, int64_t silent_ms, bool *over, struct fault *fault)
{
    const char *topic = NULL;
    size_t unseated = kafka_consumer_unseated(replay->consumer);
    *over = is_at_end(replay) || (replay->seated && unseated == 0 && silent_ms >= SILENCE_MS);
    if (kafka_consumer_topic_missing(replay->consumer, &topic)) {
        fault_set(fault, "topic_missing", "the topic %s is missing", topic);
        return ST_STOP;
    }
    if (unseated > 0 && silent_ms >= SEATED_WITHIN_MS) {
        fault_set(fault, "not_seated", "%zu partitions do not say where they begin: is a broker away?",
                  unseated);
        return ST_RETRY;
    }
    if (!replay->seated && silent_ms >= SEATED_WITHIN_MS) {
        fault_set(fault, "not_seated", "no partition was given to us within %d s: is Kafka there?",
                  SEATED_WITHIN_MS / 1000);
        return ST_RETRY;
    }
    return ST_OK;
}

static enum status read_all(struct replay *replay, struct fault *fault)
{
    int64_t heard_ms = clock_monotonic_ms(&clock_system);
    bool over = false;
    enum status status = ST_OK;
    while (status == ST_OK && !over) {
        struct kafka_record record;
        bool got = false;
        status = kafka_consumer_poll(replay->consumer, 200, &record, &got, fault);
        if (status == ST_OK && got) {
            heard_ms = clock_monotonic_ms(&clock_system);
            take(replay, &record);
        }
        if (status == ST_OK) {
            status = wait_over(replay, clock_monotonic_ms(&clock_system) - heard_ms, &over, fault);
        }
        bool full = replay->count == BATCH_RECORDS || replay->bytes >= BATCH_BYTES;
        if (status == ST_OK && replay->count > 0 && (full || over)) {
            status = handle_batch(replay, fault);
        }
    }
    return status;
}

static enum status open_all(struct replay *replay, struct fault *fault)
{
    const struct replay_setup *setup = replay->setup;
    const char *group = config_pairs_find(setup->kafka, "group.id");
    const char *topics[] = {setup->topics->dlq};
    char own_group[REPLAY_TEXT_MAX];
    (void)snprintf(own_group, sizeof own_group, "%.240s-replay", group == NULL ? "belfry-dispatcher" : group);
    struct kafka_client_options client = {.properties = setup->kafka,
                                          .client_name = "belfry-dispatcher-replay"};
    struct kafka_producer_options producer = {.client = client,
                                              .records_max = BATCH_RECORDS,
                                              .bytes_max = PRODUCER_BYTES,
                                              .context = replay,
                                              .on_delivery = on_delivery};
    struct kafka_consumer_options consumer = {.client = client,
                                              .group = own_group,
                                              .topics = topics,
                                              .topic_count = 1,
                                              .context = replay,
                                              .on_assign = on_assign,
                                              .on_revoke = on_revoke};
    enum status status = db_open(setup->database, &replay->db, fault);
    if (status == ST_OK) {
        status = store_check_schema(replay->db, fault);
    }
    if (status == ST_OK && !setup->dry_run) {
        status = kafka_producer_open(&producer, &replay->producer, fault);
    }
    return status == ST_OK ? kafka_consumer_open(&consumer, &replay->consumer, fault) : status;
}

enum status replay_run(const struct replay_setup *setup, struct replay_counts *counts, struct fault *fault)
{
    *counts = (struct replay_counts){.code_count = 0};
    struct replay *replay = calloc(1, sizeof *replay);
    if (replay == NULL) {
        fault_set(fault, "memory", "out of memory");
        return ST_FATAL;
    }
    replay->setup = setup;
    replay->counts = counts;
    replay->refused = ST_OK;
    enum status status = open_all(replay, fault);
    if (status == ST_OK) {
        status = read_all(replay, fault);
    }
    drop_batch(replay);
    kafka_consumer_close(replay->consumer, CLOSE_MS);
    kafka_producer_close(replay->producer, CLOSE_MS);
    db_close(replay->db);
    free(replay);
    return status;
}
