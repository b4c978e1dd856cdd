/* The receipts topic in, guarded transitions out: take what is ready, parse it, one statement a batch, tell
 * Kafka. Always holds: an offset moves in the statement that applies its records, never before. A crash at
 * any point: the records come again, and a replay moves nothing twice. */
#include "drain.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/signals.h"
#include "store/schema.h"
#include "wire/outcome.h"

enum {
    FIRST_MS = 200,       /* how long one turn waits for its first record */
    PAUSE_FROM_MS = 1000, /* shorter waits do not pause the consumer: that costs its prefetch */
    POLL_SLICE_MS = 500,
    COMMIT_MS = 2000, /* at the end */
    CLOSE_MS = 5000
};

/* ---- take ------------------------------------------------------------------------------------------- */

/* Out of the group since an assignment could not be seated: goes back in, once. */
static enum status join_again(struct drain *drain, struct fault *fault)
{
    if (!drain->left)
        return ST_OK;
    enum status status = kafka_consumer_join(drain->consumer, fault);
    if (status == ST_OK)
        drain->left = false;
    return status;
}

static void keep_record(struct drain *drain, struct kafka_record *record)
{
    struct drain_batch *batch = &drain->batch;
    const struct drain_seat *seat = &drain->seats[record->partition];
    if (!seat->held || record->offset < seat->position) {
        kafka_record_release(record); /* of before a seek or a revocation */
        return;
    }
    struct drain_record *place = &batch->records[batch->count++];
    *place = (struct drain_record){.record = *record, .generation = seat->generation};
    batch->bytes += record->value.bytes;
}

static enum status stage_take(void *context, struct fault *fault)
{
    struct drain *drain = context;
    struct drain_batch *batch = &drain->batch;
    enum status status = join_again(drain, fault);
    arena_reset(&batch->arena);
    while (status == ST_OK && batch->count < DRAIN_RECORDS_MAX && batch->bytes < DRAIN_BYTES_MAX) {
        struct kafka_record record;
        bool got = false;
        status = kafka_consumer_poll(drain->consumer, batch->count == 0 ? FIRST_MS : 0, &record, &got, fault);
        if (status != ST_OK || !got)
            break;
        keep_record(drain, &record);
    }
    if (status == ST_RETRY || status == ST_STOP)
        drain->left = true; /* what is in hand was revoked, or is filtered before it is applied */
    return status;
}

/* ---- parse ------------------------------------------------------------------------------------------ */

static void make_letter(struct drain *drain, struct drain_record *record, const struct fault *why)
{
    record->kind = DRAIN_LETTER;
    record->letter = LETTER_TO_SEND;
    record->why = *why;
    reconcile_count(drain->session.metrics, M_DEAD_LETTERS, why->code, 1);
    log_event(LOG_WARN, "DRAIN-UNREADABLE", "a record cannot be read; to the dead letters",
              log_text("code", why->code), log_text("field", why->field),
              log_int("partition", record->record.partition), log_int("offset", record->record.offset));
}

static enum status parse_record(struct drain *drain, struct drain_record *record, struct fault *fault)
{
    if (record->record.value_null) {
        record->kind = DRAIN_TOMBSTONE;
        return ST_OK;
    }
    const struct kafka_record *taken = &record->record;
    struct wire_record wire = {.value = taken->value,
                               .timestamp_us = wire_record_time_us(taken->timestamp_ms),
                               .now_us = clock_wall_us(drain->session.clock),
                               .partition = taken->partition,
                               .offset = taken->offset,
                               .bytes_max = DRAIN_RECORD_BYTES_MAX};
    enum status status = outcome_parse(&wire, &drain->batch.arena, &record->outcome, fault);
    if (status == ST_OK)
        record->kind = DRAIN_OUTCOME;
    if (status != ST_REJECT)
        return status;
    make_letter(drain, record, fault);
    return ST_OK;
}

static enum status stage_parse(void *context, struct fault *fault)
{
    struct drain *drain = context;
    enum status status = ST_OK;
    arena_reset(&drain->batch.arena);
    for (size_t i = 0; status == ST_OK && i < drain->batch.count; i++) {
        if (drain->batch.records[i].kind != DRAIN_LETTER) /* one that stands since a run that had to stop */
            status = parse_record(drain, &drain->batch.records[i], fault);
    }
    return status;
}

/* ---- apply, tell Kafka ------------------------------------------------------------------------------ */

static enum status stage_drain(void *context, struct fault *fault)
{
    return apply_batch(context, fault);
}

static enum status stage_drained(void *context, struct fault *fault)
{
    struct drain *drain = context;
    (void)fault;
    for (int32_t partition = 0; partition < drain->seats_end; partition++) {
        if (drain->seats[partition].held)
            kafka_consumer_done(drain->consumer, 0, partition, drain->seats[partition].position);
    }
    kafka_consumer_commit(drain->consumer, 0);
    batch_drop(drain);
    return ST_OK;
}

/* A binary on a schema it cannot use leaves with EXIT_SCHEMA, before it joins a group or asks anybody. */
static enum status stage_schema(void *context, struct fault *fault)
{
    struct drain *drain = context;
    enum status status = store_check_schema(drain->session.db, fault);
    return status == ST_STOP || status == ST_REJECT ? ST_FATAL : status;
}

/* Dead letters must have a place to go to before the first record is taken. The receipts topic itself may
 * come later: the consumer waits for it and says so. */
static enum status stage_topics(void *context, struct fault *fault)
{
    const struct drain *drain = context;
    return topic_find(drain->session.setup, drain->session.setup->dlq_topic, fault);
}

/* "drain" is the crash point before the statement, "drained" the one after it. */
static const struct stage check_stages[] = {{"schema", stage_schema, NULL}};
static const struct stage start_stages[] = {{"topics", stage_topics, NULL}};
static const struct stage take_stage[] = {{"take", stage_take, NULL}};
static const struct stage stages[] = {
    {"parse", stage_parse, NULL}, {"drain", stage_drain, NULL}, {"drained", stage_drained, NULL}};

/* ---- the loop --------------------------------------------------------------------------------------- */

/* A paused consumer gives no records; should it, the record comes again later. */
static enum status put_back(struct drain *drain, struct kafka_record *record, struct fault *fault)
{
    enum status status =
        kafka_consumer_seek(drain->consumer, record->topic, record->partition, record->offset, fault);
    kafka_record_release(record);
    return status;
}

/* A wait between two tries of a stage. The group must not miss us, so a longer one goes on polling, paused.
 */
static enum status drain_wait(void *context, int64_t wait_ms, struct fault *fault)
{
    struct drain *drain = context;
    if (drain->consumer != NULL)
        seats_measure_lag(drain); /* what cannot be applied gets older */
    if (wait_ms < PAUSE_FROM_MS || drain->left || drain->consumer == NULL) {
        session_sleep(wait_ms);
        return ST_OK;
    }
    int64_t until_ms = clock_monotonic_ms(drain->session.clock) + wait_ms;
    enum status status = ST_OK;
    kafka_consumer_pause(drain->consumer);
    while (status != ST_FATAL && !drain->left && !signals_stopping() &&
           clock_monotonic_ms(drain->session.clock) < until_ms) {
        struct kafka_record record;
        bool got = false;
        status = kafka_consumer_poll(drain->consumer, POLL_SLICE_MS, &record, &got, fault);
        drain->left = status == ST_RETRY || status == ST_STOP;
        if (got)
            status = put_back(drain, &record, fault);
    }
    kafka_consumer_resume(drain->consumer);
    return status == ST_FATAL ? ST_FATAL : ST_OK;
}

static enum status allocate(struct drain *drain, const struct reconcile_setup *setup, struct fault *fault)
{
    db_params_init(&drain->params, OUTCOME_PARAMS_BYTES_MAX);
    arena_init(&drain->batch.arena, DRAIN_ARENA_BYTES_MAX);
    arena_init(&drain->batch.scratch, DRAIN_ARENA_BYTES_MAX);
    drain->batch.records = calloc(DRAIN_RECORDS_MAX, sizeof *drain->batch.records);
    drain->seats = calloc(KAFKA_PARTITIONS_MAX, sizeof *drain->seats);
    if (drain->batch.records == NULL || drain->seats == NULL) {
        fault_set(fault, "memory", "no memory for the drain loop");
        return ST_FATAL;
    }
    for (int i = 0; i < KAFKA_PARTITIONS_MAX; i++)
        drain->seats[i].part = -1;
    const char *group = config_pairs_find(setup->kafka, "group.id");
    if (group == NULL || group[0] == '\0') {
        fault_set(fault, "group", "[kafka] group.id is not set");
        fault->exit_code = EXIT_USAGE;
        return ST_FATAL;
    }
    drain->scope =
        (struct offsets_scope){.group_id = group, .topic = setup->receipts_topic, .owner = setup->owner};
    return session_open(&drain->session, setup, fault);
}

enum status drain_new(const struct reconcile_setup *setup, struct metric_set *metrics, struct drain **drain,
                      struct fault *fault)
{
    struct drain *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for the drain loop");
        return ST_FATAL;
    }
    made->session =
        (struct session){.name = "drain", .metrics = metrics, .wait = drain_wait, .context = made};
    enum status status = allocate(made, setup, fault);
    if (status != ST_OK) {
        drain_free(made);
        return status;
    }
    *drain = made;
    return ST_OK;
}

void drain_free(struct drain *drain)
{
    if (drain == NULL)
        return;
    batch_drop(drain);
    kafka_producer_close(drain->producer, 0);
    session_done(&drain->session);
    db_params_done(&drain->params);
    arena_done(&drain->batch.arena);
    arena_done(&drain->batch.scratch);
    free(drain->batch.records);
    free(drain->seats);
    free(drain);
}

static enum status open_kafka(struct drain *drain, struct fault *fault)
{
    const struct reconcile_setup *setup = drain->session.setup;
    const char *const topics[] = {setup->receipts_topic};
    static char client_name[] = "drain";
    struct kafka_consumer_options options = {.client = {.properties = setup->kafka,
                                                        .client_name = "belfry-reconciler",
                                                        .on_notice = kafka_notice_log,
                                                        .notice_context = client_name,
                                                        .metrics = setup->metrics},
                                             .group = drain->scope.group_id,
                                             .topics = topics,
                                             .topic_count = 1,
                                             .context = drain,
                                             .on_assign = seats_assign,
                                             .on_revoke = seats_revoke};
    enum status status = letters_open(drain, fault);
    if (status == ST_OK)
        status = kafka_consumer_open(&options, &drain->consumer, fault);
    return status;
}

static void say_ready(struct drain *drain)
{
    struct readiness *readiness = drain->session.setup->readiness;
    size_t unseated = kafka_consumer_unseated(drain->consumer);
    char text[READINESS_REASON_MAX];
    if (kafka_consumer_trouble(drain->consumer, text, sizeof text)) {
        readiness_not(readiness, drain->session.slot, text);
    } else if (!drain->seated) {
        readiness_beat(readiness, drain->session.slot); /* the group has not answered yet */
    } else if (unseated > 0) {
        snprintf(text, sizeof text, "%zu partitions do not say where they begin", unseated);
        readiness_ready_but(readiness, drain->session.slot, text);
    } else {
        readiness_ready(readiness, drain->session.slot);
    }
}

/* One turn. Once records are in hand they are finished even when the process stops. */
static enum status turn(struct drain *drain, struct fault *fault)
{
    enum status status = session_run(&drain->session, take_stage, 1, fault);
    if (status == ST_OK && drain->batch.count > 0)
        metric_observe(drain->session.metrics, M_DRAIN_RECORDS, 0, (double)drain->batch.count);
    if (status == ST_OK && drain->batch.count > 0)
        status = session_run(&drain->session, stages, sizeof stages / sizeof stages[0], fault);
    if (status == ST_OK) {
        say_ready(drain);
        seats_measure_lag(drain);
    }
    return status;
}

enum status drain_check(struct drain *drain, struct fault *fault)
{
    return session_run(&drain->session, check_stages, sizeof check_stages / sizeof check_stages[0], fault);
}

enum status drain_run(struct drain *drain, struct fault *fault)
{
    enum status status =
        session_run(&drain->session, start_stages, sizeof start_stages / sizeof start_stages[0], fault);
    if (status == ST_OK)
        status = open_kafka(drain, fault);
    while (drain->consumer != NULL && status != ST_FATAL && status != ST_STOP && !signals_stopping())
        status = turn(drain, fault);
    batch_drop(drain);
    if (drain->consumer != NULL) {
        kafka_consumer_commit(drain->consumer, COMMIT_MS);
        kafka_consumer_close(drain->consumer, CLOSE_MS);
        drain->consumer = NULL;
    }
    return status == ST_FATAL || status == ST_STOP ? ST_FATAL : ST_OK;
}
