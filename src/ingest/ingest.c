/* The product's first half in one table: records in, rows out, a batch at a time. While the database works on
 * one batch, the next is consumed and parsed; the two never overtake each other, and nothing is waited for
 * but the first record of a batch.
 *
 * Always: every wait goes through ingest_idle, which keeps the group's membership alive and hears the stop. A
 * crash at any place loses nothing and doubles nothing: offsets move in the statement that stores what they
 * cover. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/signals.h"
#include "ingest_private.h"

enum {
    IDLE_MS = 500,
    LAG_EVERY_MS = 5000,
    BACKOFF_FIRST_MS = 100,
    BACKOFF_CAP_MS = 10000,
    DEAD_LETTERS_MAX = 10000,
    DEAD_LETTER_BYTES_MAX = 64 * 1024 * 1024,
    CLOSE_MS_MIN = 1000
};

struct stage {
    const char *name; /* metric label, log field, crash point */
    enum status (*run)(struct ingest *ingest, struct batch *batch, struct fault *fault);
    bool ahead; /* runs on the forming batch too, while the one before it is at work */
};

static const struct stage stages[] = {
    {"consume", ingest_consume, true},          {"parse", ingest_parse, true},
    {"dead_letter", ingest_dead_letter, false}, {"claim", ingest_claim, false},
    {"commit", ingest_commit, false},
};

enum { STAGES = sizeof stages / sizeof *stages };

/* ---- names --------------------------------------------------------------------------------------------- */

const char *ingest_topic(const struct ingest *ingest, int topic)
{
    return topic == TOPIC_EVENTS ? ingest->setup.topics->events : ingest->setup.topics->devices;
}

struct offsets_scope ingest_scope(const struct ingest *ingest, int topic)
{
    return (struct offsets_scope){
        .group_id = ingest->group, .topic = ingest_topic(ingest, topic), .owner = ingest->setup.owner};
}

/* ---- what is said outside ------------------------------------------------------------------------------ */

void ingest_say_stopped(struct ingest *ingest, const char *what, enum status status,
                        const struct fault *fault)
{
    char reason[READINESS_REASON_MAX];
    int64_t left_out = 0;
    bool alarm = false;
    (void)snprintf(reason, sizeof reason, "%.50s: %.140s", what, fault->text);
    readiness_not(ingest->setup.readiness, ingest->ready_slot, reason);
    ingest->stopped = true;
    if (status == ST_RETRY && strlen(fault->code) == 5) {
        (void)db_judge(fault->code, fault->field, &alarm);
    }
    if (log_gate_passes(&ingest->gate, fault->code, clock_monotonic_ms(&ingest->clock), &left_out)) {
        log_fault(status == ST_STOP || alarm ? LOG_ERROR : LOG_WARN,
                  status == ST_STOP ? "ING-STOPPED" : "ING-RETRY", what, status, fault,
                  log_int("left_out", left_out));
    }
}

void ingest_say_ready(struct ingest *ingest)
{
    char text[READINESS_REASON_MAX];
    size_t unseated = kafka_consumer_unseated(ingest->consumer);
    ingest->stopped = false;
    ingest->gate = (struct log_gate){.passed = false};
    if (kafka_consumer_trouble(ingest->consumer, text, sizeof text)) {
        readiness_not(ingest->setup.readiness, ingest->ready_slot, text);
    } else if (ingest->rejoin_at_ms != 0) {
        readiness_not(ingest->setup.readiness, ingest->ready_slot,
                      "out of the consumer group for the moment");
    } else if (unseated > 0) {
        (void)snprintf(text, sizeof text, "%zu partitions do not say where they begin", unseated);
        readiness_ready_but(ingest->setup.readiness, ingest->ready_slot, text);
    } else {
        readiness_ready(ingest->setup.readiness, ingest->ready_slot);
    }
}

/* How long the oldest record in hand has waited since it was written. */
static double oldest_seconds(const struct ingest *ingest, int topic)
{
    int64_t now_ms = clock_wall_us(&ingest->clock) / 1000, oldest_ms = now_ms;
    for (size_t b = 0; b < 2; b++) {
        const struct batch *batch = &ingest->batches[b];
        for (size_t i = 0; i < batch->count; i++) {
            const struct item *item = &batch->items[i];
            int64_t written_ms = item->record.timestamp_ms;
            if (item->record.topic == topic && item->kind != ITEM_DROPPED && written_ms >= 0 &&
                written_ms < oldest_ms) {
                oldest_ms = written_ms;
            }
        }
    }
    return (double)(now_ms - oldest_ms) / 1e3;
}

static void tell_lag(struct ingest *ingest)
{
    int64_t now_ms = clock_monotonic_ms(&ingest->clock);
    if (now_ms - ingest->lag_told_ms < LAG_EVERY_MS) {
        return;
    }
    ingest->lag_told_ms = now_ms;
    int64_t lag[TOPICS] = {0, 0};
    size_t shown = 0;
    struct metric_number numbers[INGEST_LAGS_MAX];
    for (size_t i = 0; i < ingest->seat_count; i++) {
        const struct seat *seat = &ingest->seats[i];
        int64_t low = -1, high = -1;
        kafka_consumer_watermarks(ingest->consumer, seat->topic, seat->partition, &low, &high);
        int64_t here = high > seat->position ? high - seat->position : 0;
        lag[seat->topic] += here;
        if (shown < INGEST_LAGS_MAX) {
            numbers[shown++] = (struct metric_number){
                .value = (size_t)seat->topic, .number = seat->partition, .shows = (double)here};
        }
    }
    metric_put_numbers(ingest->metrics, M_PARTITION_LAG, numbers, shown);
    for (size_t topic = 0; topic < TOPICS; topic++) {
        metric_put(ingest->metrics, M_LAG, topic, (double)lag[topic]);
        metric_put(ingest->metrics, M_OLDEST_RECORD, topic, oldest_seconds(ingest, (int)topic));
    }
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

enum status ingest_connect(struct ingest *ingest, struct fault *fault)
{
    return db_is_up(ingest->db) ? ST_OK : db_connect(ingest->db, fault);
}

bool ingest_must_leave(struct ingest *ingest)
{
    if (!signals_stopping()) {
        return false;
    }
    int64_t now_ms = clock_monotonic_ms(&ingest->clock);
    if (ingest->stop_deadline_ms == 0) {
        /* A part of the time is kept for leaving the group and closing. */
        ingest->stop_deadline_ms = now_ms + ingest->setup.shutdown_timeout_ms * 3 / 4;
    }
    return now_ms >= ingest->stop_deadline_ms;
}

/* The forming batch is full and the database slow: the group must not think us dead. */
static bool listens(struct ingest *ingest)
{
    if (!batch_is_full(ingest, ingest->forming)) {
        ingest->full_since_ms = 0;
        kafka_consumer_resume(ingest->consumer);
        return true;
    }
    int64_t now_ms = clock_monotonic_ms(&ingest->clock);
    if (ingest->full_since_ms == 0) {
        ingest->full_since_ms = now_ms;
    }
    if (now_ms - ingest->full_since_ms >= PAUSE_AFTER_MS) {
        kafka_consumer_pause(ingest->consumer);
    }
    return kafka_consumer_is_paused(ingest->consumer);
}

/* Waits for the database, Kafka, the dead letters or the stop. */
static void wait_for_any(struct ingest *ingest, int timeout_ms)
{
    struct pollfd fds[4];
    nfds_t count = 0;
    bool stopping = signals_stopping();
    bool consumes =
        !stopping && (!batch_is_full(ingest, ingest->forming) || kafka_consumer_is_paused(ingest->consumer));
    if (ingest->flight.under_way && db_fd(ingest->db) >= 0) {
        fds[count++] = (struct pollfd){.fd = db_fd(ingest->db), .events = db_events(ingest->db)};
    }
    if (consumes) {
        fds[count++] = (struct pollfd){.fd = kafka_consumer_fd(ingest->consumer), .events = POLLIN};
    }
    if (kafka_producer_owed(ingest->dead_letters) > 0) {
        fds[count++] = (struct pollfd){.fd = kafka_producer_fd(ingest->dead_letters), .events = POLLIN};
    }
    if (!stopping) {
        fds[count++] = (struct pollfd){.fd = signals_stop_fd(), .events = POLLIN};
    }
    (void)poll(fds, count, consumes && ingest->more ? 0 : timeout_ms);
}

static enum status serve_kafka(struct ingest *ingest, struct fault *fault)
{
    enum status status = kafka_producer_poll(ingest->dead_letters, 0, fault);
    if (status != ST_OK || signals_stopping()) {
        return status;
    }
    if (ingest->rejoin_at_ms != 0 && clock_monotonic_ms(&ingest->clock) >= ingest->rejoin_at_ms) {
        ingest->rejoin_at_ms = 0;
        status = kafka_consumer_join(ingest->consumer, fault);
    }
    if (status != ST_OK && status != ST_FATAL) {
        ingest->rejoin_at_ms = clock_monotonic_ms(&ingest->clock) + SLOW_RETRY_MS;
        status = ST_OK;
    }
    if (!listens(ingest)) {
        return status;
    }
    for (size_t i = 0; i < STAGES && status == ST_OK && stages[i].ahead; i++) {
        status = stages[i].run(ingest, ingest->forming, fault);
    }
    return status;
}

static enum status keep_house(struct ingest *ingest, struct fault *fault)
{
    tell_lag(ingest);
    const char *missing = NULL;
    if (ingest->retention_unchecked && ingest->seat_count > 0 &&
        !kafka_consumer_topic_missing(ingest->consumer, &missing)) {
        return preflight_retention(ingest, fault);
    }
    return ST_OK;
}

enum status ingest_idle(struct ingest *ingest, int timeout_ms, struct fault *fault)
{
    wait_for_any(ingest, timeout_ms);
    if (ingest->flight.under_way) {
        db_pump(ingest->db);
        (void)flight_land(ingest, 0);
    }
    enum status status = serve_kafka(ingest, fault);
    if (status == ST_OK) {
        status = keep_house(ingest, fault);
    }
    readiness_beat(ingest->setup.readiness, ingest->ready_slot);
    return status == ST_OK ? ST_OK : ST_FATAL;
}

bool ingest_rest(struct ingest *ingest, int64_t ms)
{
    int64_t until_ms = clock_monotonic_ms(&ingest->clock) + ms;
    while (!signals_stopping()) {
        int64_t left_ms = until_ms - clock_monotonic_ms(&ingest->clock);
        if (left_ms <= 0) {
            return true;
        }
        ingest->kafka_status =
            ingest_idle(ingest, left_ms < IDLE_MS ? (int)left_ms : IDLE_MS, &ingest->kafka_fault);
        if (ingest->kafka_status != ST_OK) {
            return false;
        }
    }
    return false;
}

/* ---- a batch ------------------------------------------------------------------------------------------- */

/* The forming batch goes to work; what was taken but did not fit begins the next one. */
static void promote(struct ingest *ingest)
{
    struct batch *batch = ingest->forming;
    ingest->forming = ingest->work;
    ingest->work = batch;
    batch_reset(ingest->forming, ++ingest->serials);
    batch_hand_on(batch, ingest->forming);
    ingest->full_since_ms = 0;
}

/* While there is nothing to do: a connection that is lost is noticed, said and made again. */
static bool keep_database(struct ingest *ingest)
{
    struct fault fault;
    int64_t now_ms = clock_monotonic_ms(&ingest->clock);
    db_pump(ingest->db);
    if (!db_is_up(ingest->db) && now_ms >= ingest->database_look_ms) {
        enum status status = ingest_connect(ingest, &fault);
        if (status != ST_OK) {
            ingest_say_stopped(ingest, "the database is not usable", status, &fault);
            ingest->database_look_ms = clock_monotonic_ms(&ingest->clock) + SLOW_RETRY_MS;
        }
    }
    return db_is_up(ingest->db);
}

static enum status wait_for_first(struct ingest *ingest, struct fault *fault)
{
    while (ingest->forming->parsed == 0 && !signals_stopping()) {
        enum status status = ingest_idle(ingest, IDLE_MS, fault);
        if (status != ST_OK) {
            return status;
        }
        if (keep_database(ingest) && (!ingest->stopped || ingest->seat_count > 0)) {
            ingest_say_ready(ingest);
        }
    }
    return signals_stopping() ? ST_STOP : ST_OK;
}

static enum status run_stage(struct ingest *ingest, size_t index, struct batch *batch, struct fault *fault)
{
    int64_t before_us = clock_monotonic_us(&ingest->clock);
    metric_put(ingest->metrics, M_STAGE_IN_FLIGHT, index, (double)batch->count);
    enum status status = stages[index].run(ingest, batch, fault);
    metric_put(ingest->metrics, M_STAGE_IN_FLIGHT, index, 0);
    double seconds = (double)(clock_monotonic_us(&ingest->clock) - before_us) / 1e6;
    metric_observe(ingest->metrics, M_STAGE_SECONDS, index, seconds);
    if (status != ST_OK && status != ST_STOP) {
        log_fault(LOG_ERROR, "ING-FATAL", "a stage cannot go on", status, fault,
                  log_text("stage", stages[index].name));
    }
    return status;
}

static enum status run_batch(struct ingest *ingest, struct fault *fault)
{
    enum status status = wait_for_first(ingest, fault);
    for (size_t i = 0; i < STAGES && status == ST_OK; i++) {
        if (i > 0 && stages[i - 1].ahead && !stages[i].ahead) {
            promote(ingest);
        }
        status = run_stage(ingest, i, stages[i].ahead ? ingest->forming : ingest->work, fault);
    }
    if (status == ST_OK) {
        metric_observe(ingest->metrics, M_BATCH_EVENTS, 0, (double)ingest->work->count);
        log_event(LOG_DEBUG, "ING-BATCH", "batch committed", log_count("records", ingest->work->count));
        batch_reset(ingest->work, ++ingest->serials);
    }
    if (ingest->kafka_status != ST_OK) {
        *fault = ingest->kafka_fault;
        status = ingest->kafka_status;
    }
    return status;
}

/* ---- beginning and end --------------------------------------------------------------------------------- */

static enum status open_kafka(struct ingest *ingest, struct fault *fault)
{
    static char client_name[] = "ingest";
    struct kafka_client_options client = {.properties = ingest->setup.kafka,
                                          .client_name = "belfry-dispatcher",
                                          .on_notice = kafka_notice_log,
                                          .notice_context = client_name,
                                          .metrics = ingest->setup.metrics};
    struct kafka_producer_options producer = {.client = client,
                                              .records_max = DEAD_LETTERS_MAX,
                                              .bytes_max = DEAD_LETTER_BYTES_MAX,
                                              .context = ingest,
                                              .on_delivery = dead_letter_delivered};
    enum status status = kafka_producer_open(&producer, &ingest->dead_letters, fault);
    if (status != ST_OK) {
        return status;
    }
    const char *topics[TOPICS] = {ingest_topic(ingest, TOPIC_EVENTS), ingest_topic(ingest, TOPIC_DEVICES)};
    struct kafka_consumer_options consumer = {.client = client,
                                              .group = ingest->group,
                                              .topics = topics,
                                              .topic_count = TOPICS,
                                              .context = ingest,
                                              .on_assign = seat_assign,
                                              .on_revoke = seat_revoke};
    return kafka_consumer_open(&consumer, &ingest->consumer, fault);
}

static void close_all(struct ingest *ingest)
{
    int64_t left_ms = CLOSE_MS_MIN;
    if (ingest->stop_deadline_ms != 0) {
        left_ms = ingest->stop_deadline_ms + ingest->setup.shutdown_timeout_ms / 4 -
                  clock_monotonic_ms(&ingest->clock);
    }
    int close_ms = left_ms > CLOSE_MS_MIN ? (int)left_ms : CLOSE_MS_MIN;
    batch_reset(&ingest->batches[0], 0);
    batch_reset(&ingest->batches[1], 0);
    kafka_consumer_close(ingest->consumer, close_ms);
    kafka_producer_close(ingest->dead_letters, CLOSE_MS_MIN);
    db_close(ingest->db);
    ingest->consumer = NULL;
    ingest->dead_letters = NULL;
    ingest->db = NULL;
}

enum status ingest_run(struct ingest *ingest, struct fault *fault)
{
    enum status status = preflight_run(ingest, fault);
    if (status == ST_OK) {
        status = open_kafka(ingest, fault);
    }
    while (status == ST_OK && !signals_stopping()) {
        status = run_batch(ingest, fault);
    }
    (void)ingest_must_leave(ingest); /* the time to leave runs from here at the latest */
    close_all(ingest);
    if (status == ST_OK || status == ST_STOP) {
        return ST_OK;
    }
    signals_stop();
    return ST_FATAL;
}

static enum status make_parts(struct ingest *ingest, struct fault *fault)
{
    const struct ingest_settings *settings = ingest->setup.settings;
    const char *settled_topic = ingest->setup.topics->settled_topic;
    struct claim_settings claim = {.scope = ingest_scope(ingest, TOPIC_EVENTS),
                                   .devices_per_user_max = (int)settings->devices_per_user_max,
                                   .push_max_age_ms = ingest->setup.push_max_age_ms,
                                   .announce = settled_topic != NULL && settled_topic[0] != '\0',
                                   .lease_ms = ingest->setup.lease_ms};
    struct offsets_scope devices = ingest_scope(ingest, TOPIC_DEVICES);
    ingest->claim = claim_new(&claim);
    ingest->devices = devices_new(&devices);
    ingest->db = db_new(ingest->setup.database);
    ingest->picked = calloc(settings->batch_max_events, sizeof *ingest->picked);
    if (ingest->claim == NULL || ingest->devices == NULL || ingest->db == NULL || ingest->picked == NULL) {
        fault_set(fault, "memory", "out of memory");
        return ST_FATAL;
    }
    for (size_t i = 0; i < 2; i++) {
        enum status status = batch_init(&ingest->batches[i], settings->batch_max_events, fault);
        if (status != ST_OK) {
            return status;
        }
    }
    ingest->work = &ingest->batches[0];
    ingest->forming = &ingest->batches[1];
    ingest->forming->serial = ++ingest->serials;
    return ST_OK;
}

enum status ingest_new(const struct ingest_setup *setup, struct ingest **ingest, struct fault *fault)
{
    struct ingest *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "out of memory");
        return ST_FATAL;
    }
    made->setup = *setup;
    made->clock = setup->clock == NULL ? clock_system : *setup->clock;
    const char *group = config_pairs_find(setup->kafka, "group.id");
    (void)snprintf(made->group, sizeof made->group, "%s", group == NULL ? "belfry-dispatcher" : group);
    backoff_init(&made->backoff, BACKOFF_FIRST_MS, BACKOFF_CAP_MS, (uint64_t)setup->owner);
    made->metrics = metrics_add(setup->metrics, ingest_metric_rows, INGEST_METRICS);
    if (setup->readiness != NULL) {
        made->ready_slot = readiness_add(setup->readiness, "ingest", BEAT_MAX_MS);
    }
    enum status status = make_parts(made, fault);
    if (status != ST_OK) {
        ingest_free(made);
        return status;
    }
    *ingest = made;
    return ST_OK;
}

void ingest_free(struct ingest *ingest)
{
    if (ingest == NULL) {
        return;
    }
    batch_done(&ingest->batches[0]);
    batch_done(&ingest->batches[1]);
    db_close(ingest->db);
    claim_free(ingest->claim);
    devices_free(ingest->devices);
    free(ingest->picked);
    free(ingest->seats);
    free(ingest);
}
