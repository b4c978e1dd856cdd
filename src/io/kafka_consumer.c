/* A member of a consumer group: records one by one, in; seats, revocations and notices, out.
 *
 * Always: a record of a partition that is not held is dropped, and nothing blocks longer than it was given
 * time for (rd_kafka_consumer_close and rd_kafka_destroy do). One by one, because the batch call of 2.0.2
 * loses or mixes records around pause, seek and rebalance. A crash loses nothing: offsets that count are in
 * Postgres. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "kafka_private.h"

enum { MISSING_ASK_MS = 3000, MISSING_ASK_TIMEOUT_MS = 1000, SILENT_MAX = 2 };
enum { PREFETCH_KBYTES_MIN = 16384 }; /* below 16 MB librdkafka pauses a second whenever it is over */

static const struct kafka_property consumer_defaults[] = {
    {"group.id", "belfry"},
    {"partition.assignment.strategy", "range"},
    {"topic.metadata.refresh.interval.ms",
     "10000"}, /* a topic made later is found in ten seconds, not five minutes */
    {"queued.max.messages.kbytes", "32768"},
    /* What one answer may add to a queue that was just below its bound; 50 MB by librdkafka's own default. */
    {"fetch.max.bytes", "4194304"},
    {NULL, NULL},
};

static const struct kafka_property consumer_owned[] = {
    {"auto.offset.reset", "earliest"},
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"enable.partition.eof", "false"},
    {"allow.auto.create.topics", "false"},
    {"socket.nagle.disable", "true"},
    {"statistics.interval.ms", "5000"}, /* keeps the low watermark fresh, tells what is fetched ahead */
    {NULL, NULL},
};

/* ---- topics ------------------------------------------------------------------------------------------ */

int kafka_topic_find(const struct kafka_consumer *consumer, const char *name)
{
    for (size_t i = 0; i < consumer->topic_count; i++) {
        if (strcmp(consumer->topics[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

void kafka_topic_tell(struct kafka_consumer *consumer, int topic, bool missing, const char *text)
{
    if (topic < 0 || consumer->missing[topic] == missing) {
        return;
    }
    consumer->missing[topic] = missing;
    kafka_client_notice(
        &consumer->client,
        &(struct kafka_notice){.kind = missing ? KAFKA_NOTICE_TOPIC_MISSING : KAFKA_NOTICE_TOPIC_FOUND,
                               .severity = missing ? 4 : 6,
                               .code = missing ? "UNKNOWN_TOPIC_OR_PART" : "",
                               .text = text,
                               .topic = consumer->topics[topic]});
}

/* Does the topic exist by now? Another member may hold all its partitions, so an assignment may never tell.
 */
static bool topic_exists(struct kafka_consumer *consumer, int topic)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(consumer->client.rk, consumer->topics[topic], NULL);
    const struct rd_kafka_metadata *metadata = NULL;
    bool exists = handle != NULL &&
                  rd_kafka_metadata(consumer->client.rk, 0, handle, &metadata, MISSING_ASK_TIMEOUT_MS) ==
                      RD_KAFKA_RESP_ERR_NO_ERROR &&
                  metadata->topic_cnt == 1 && metadata->topics[0].err == RD_KAFKA_RESP_ERR_NO_ERROR &&
                  metadata->topics[0].partition_cnt > 0;
    if (metadata != NULL) {
        rd_kafka_metadata_destroy(metadata);
    }
    if (handle != NULL) {
        rd_kafka_topic_destroy(handle);
    }
    return exists;
}

static bool any_broker_answers(struct kafka_consumer *consumer)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(consumer->client.rk, 0, NULL, &metadata, MISSING_ASK_TIMEOUT_MS);
    if (metadata != NULL) {
        rd_kafka_metadata_destroy(metadata);
    }
    return error == RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* While something is missing, asks for it now and then. */
static void ask_for_missing(struct kafka_consumer *consumer)
{
    int64_t now_ms = clock_monotonic_ms(&clock_system);
    if (now_ms - consumer->missing_asked_ms < MISSING_ASK_MS) {
        return;
    }
    consumer->missing_asked_ms = now_ms;
    if (consumer->client.away) {
        if (any_broker_answers(consumer)) {
            kafka_client_answers(&consumer->client);
        }
        return;
    }
    for (int i = 0; i < (int)consumer->topic_count; i++) {
        if (!consumer->missing[i] || !topic_exists(consumer, i)) {
            continue;
        }
        kafka_topic_tell(consumer, i, false, "the topic is there");
        /* Deleted and made anew under our feet, or made while librdkafka was not looking: seat it again. */
        consumer->reseat = true;
    }
}

/* ---- statistics ---------------------------------------------------------------------------------------- */

/* librdkafka may miss to say that all brokers are down, where one that just went is being connected again as
 * the last other one goes (2.0.2: seen). Twice in a row no connection that is up says the same. */
static void look_for_brokers(struct kafka_consumer *consumer, const char *json)
{
    consumer->silent = strstr(json, "\"state\":\"UP\"") == NULL ? consumer->silent + 1 : 0;
    if (consumer->silent >= SILENT_MAX && !consumer->client.away) {
        kafka_client_error(&consumer->client, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN,
                           "no connection to a broker is up", "");
    }
}

/* All partitions' queues are forwarded into the consumer's one, and each says that one's size. */
static int on_statistics(rd_kafka_t *rk, char *json, size_t bytes, void *opaque)
{
    static const char name[] = "\"fetchq_size\":";
    struct kafka_consumer *consumer = opaque;
    double most = 0;
    (void)rk;
    (void)bytes;
    for (const char *at = strstr(json, name); at != NULL; at = strstr(at + 1, name)) {
        double size = strtod(at + sizeof name - 1, NULL);
        most = size > most ? size : most;
    }
    kafka_client_show_fetched(&consumer->client, most);
    look_for_brokers(consumer, json);
    return 0;
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

static long conf_number(const rd_kafka_conf_t *conf, const char *name)
{
    char text[32] = "";
    size_t bytes = sizeof text;
    return rd_kafka_conf_get(conf, name, text, &bytes) == RD_KAFKA_CONF_OK ? strtol(text, NULL, 10) : 0;
}

static enum status conf_at_least(rd_kafka_conf_t *conf, const char *name, long least, struct fault *fault)
{
    char text[32];
    if (conf_number(conf, name) >= least) {
        return ST_OK;
    }
    (void)snprintf(text, sizeof text, "%ld", least);
    return kafka_conf_set(conf, name, text, fault);
}

static enum status consumer_conf(const struct kafka_consumer_options *options, rd_kafka_conf_t **conf,
                                 struct fault *fault)
{
    struct kafka_conf_layers layers = {.defaults = consumer_defaults, .owned = consumer_owned};
    enum status status = kafka_conf_make(&options->client, &layers, conf, fault);
    if (status != ST_OK) {
        return status;
    }
    if (options->group != NULL && options->group[0] != '\0') {
        status = kafka_conf_set(*conf, "group.id", options->group, fault);
    }
    if (status == ST_OK) {
        status = conf_at_least(*conf, "queued.max.messages.kbytes", PREFETCH_KBYTES_MIN, fault);
    }
    if (status == ST_OK) { /* librdkafka refuses less */
        status = conf_at_least(*conf, "fetch.max.bytes", conf_number(*conf, "message.max.bytes"), fault);
    }
    if (status != ST_OK) {
        rd_kafka_conf_destroy(*conf);
        *conf = NULL;
        return status;
    }
    rd_kafka_conf_set_rebalance_cb(*conf, kafka_rebalance);
    rd_kafka_conf_set_stats_cb(*conf, on_statistics);
    return ST_OK;
}

static void consumer_free(struct kafka_consumer *consumer)
{
    for (size_t i = 0; i < consumer->topic_count; i++) {
        free(consumer->topics[i]);
    }
    if (consumer->client.wake_fd >= 0) {
        (void)close(consumer->client.wake_fd);
    }
    free(consumer->held);
    free(consumer->waiting);
    free(consumer);
}

static enum status consumer_start(struct kafka_consumer *consumer, rd_kafka_conf_t *conf, struct fault *fault)
{
    enum status status = kafka_client_open(&consumer->client, RD_KAFKA_CONSUMER, conf, fault);
    if (status != ST_OK) {
        return status;
    }
    (void)rd_kafka_poll_set_consumer(consumer->client.rk);
    consumer->queue = rd_kafka_queue_get_consumer(consumer->client.rk);
    consumer->commits = rd_kafka_queue_new(consumer->client.rk);
    status = kafka_client_wake_on(&consumer->client, consumer->queue, fault);
    return status == ST_OK ? kafka_consumer_join(consumer, fault) : status;
}

enum status kafka_consumer_open(const struct kafka_consumer_options *options,
                                struct kafka_consumer **consumer, struct fault *fault)
{
    assert(options->topic_count >= 1 && options->topic_count <= KAFKA_TOPICS_MAX);
    rd_kafka_conf_t *conf = NULL;
    enum status status = consumer_conf(options, &conf, fault);
    if (status != ST_OK) {
        return status;
    }
    struct kafka_consumer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        rd_kafka_conf_destroy(conf);
        fault_set(fault, "memory", "out of memory");
        return ST_RETRY;
    }
    made->client.wake_fd = -1;
    made->client.on_notice = options->client.on_notice;
    kafka_client_count_in(&made->client, options->client.metrics);
    made->client.notice_context = options->client.notice_context;
    made->context = options->context;
    made->on_assign = options->on_assign;
    made->on_revoke = options->on_revoke;
    for (size_t i = 0; i < options->topic_count; i++) {
        made->topics[made->topic_count++] = strdup(options->topics[i]);
    }
    status = consumer_start(made, conf, fault);
    if (status != ST_OK) {
        kafka_consumer_close(made, 0);
        return status;
    }
    *consumer = made;
    return ST_OK;
}

/* Serves the closing client until it has left the group or the time is up. */
static bool close_politely(struct kafka_consumer *consumer, int64_t until_ms)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer->client.rk);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(consumer->client.rk, queue);
    if (error != NULL) {
        rd_kafka_error_destroy(error);
        rd_kafka_queue_destroy(queue);
        return false;
    }
    while (rd_kafka_consumer_closed(consumer->client.rk) == 0 && !consumer->stuck &&
           clock_monotonic_ms(&clock_system) < until_ms) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 50);
        if (event != NULL && rd_kafka_event_type(event) == RD_KAFKA_EVENT_REBALANCE) {
            kafka_rebalance(consumer->client.rk, rd_kafka_event_error(event),
                            rd_kafka_event_topic_partition_list(event), consumer);
        }
        if (event != NULL) {
            rd_kafka_event_destroy(event);
        }
    }
    bool closed = rd_kafka_consumer_closed(consumer->client.rk) != 0 && !consumer->stuck;
    rd_kafka_queue_destroy(queue);
    return closed;
}

void kafka_consumer_close(struct kafka_consumer *consumer, int timeout_ms)
{
    if (consumer == NULL) {
        return;
    }
    int64_t until_ms = clock_monotonic_ms(&clock_system) + timeout_ms;
    consumer->closing = true;
    bool closed = true;
    if (consumer->client.rk != NULL) {
        closed = close_politely(consumer, until_ms);
    }
    if (consumer->queue != NULL) {
        rd_kafka_queue_io_event_enable(consumer->queue, -1, NULL, 0);
        rd_kafka_queue_destroy(consumer->queue);
        rd_kafka_queue_destroy(consumer->commits);
    }
    consumer->client.on_notice = NULL;
    int64_t left_ms = until_ms - clock_monotonic_ms(&clock_system);
    if (closed) {
        kafka_client_end(consumer->client.rk, left_ms > 100 ? (int)left_ms : 100);
        consumer->client.rk = NULL;
    }
    /* A client that would not close lives on to the end of the process and may still call back with its
     * opaque: that one struct is left to it on purpose. */
    if (closed) {
        consumer_free(consumer);
    }
}

/* ---- the group ----------------------------------------------------------------------------------------- */

enum status kafka_consumer_join(struct kafka_consumer *consumer, struct fault *fault)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)consumer->topic_count);
    for (size_t i = 0; i < consumer->topic_count; i++) {
        rd_kafka_topic_partition_list_add(list, consumer->topics[i], RD_KAFKA_PARTITION_UA);
    }
    rd_kafka_resp_err_t error = rd_kafka_subscribe(consumer->client.rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR ? ST_OK : kafka_fault(fault, error, NULL);
}

void kafka_consumer_leave(struct kafka_consumer *consumer)
{
    (void)rd_kafka_unsubscribe(consumer->client.rk);
}

enum status kafka_consumer_rejoin(struct kafka_consumer *consumer, struct fault *fault)
{
    kafka_consumer_leave(consumer);
    return kafka_consumer_join(consumer, fault);
}

/* ---- records ------------------------------------------------------------------------------------------- */

static void handle_error(struct kafka_consumer *consumer, const rd_kafka_message_t *message)
{
    const char *topic = message->rkt != NULL ? rd_kafka_topic_name(message->rkt) : "";
    const char *text = rd_kafka_message_errstr(message);
    switch ((int)message->err) {
    case RD_KAFKA_RESP_ERR__PARTITION_EOF:
        break;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        kafka_topic_tell(consumer, kafka_topic_find(consumer, topic), true, text);
        break;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        /* Not ours to read: nothing here will mend that (contracts/config.md, exit code 5). */
        kafka_client_error(&consumer->client, RD_KAFKA_RESP_ERR__AUTHENTICATION, text, topic);
        break;
    default:
        kafka_client_error(&consumer->client, message->err, text, topic);
        break;
    }
}

static bool take_record(struct kafka_consumer *consumer, rd_kafka_message_t *message,
                        struct kafka_record *record)
{
    int topic = kafka_topic_find(consumer, rd_kafka_topic_name(message->rkt));
    struct kafka_held *held = topic < 0 ? NULL : kafka_held_find(consumer, topic, message->partition);
    if (held == NULL) {
        return false;
    }
    rd_kafka_timestamp_type_t kind;
    int64_t timestamp_ms = rd_kafka_message_timestamp(message, &kind);
    held->position = message->offset + 1;
    if (consumer->client.away) {
        ask_for_missing(consumer); /* it may have been fetched before they went: a record is no answer */
    }
    *record = (struct kafka_record){
        .topic = topic,
        .partition = message->partition,
        .offset = message->offset,
        .timestamp_ms = kind == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE ? -1 : timestamp_ms,
        .key_null = message->key == NULL,
        .value_null = message->payload == NULL,
        .key = {.at = message->key, .bytes = message->key_len},
        .value = {.at = message->payload, .bytes = message->len},
        .handle = message,
    };
    return true;
}

/* What a callback left behind for us: a seating that failed, a topic that came back. */
static enum status after_callbacks(struct kafka_consumer *consumer, struct fault *fault)
{
    if (consumer->seat_status != ST_OK) {
        enum status status = consumer->seat_status;
        consumer->seat_status = ST_OK;
        *fault = consumer->seat_fault;
        kafka_consumer_leave(consumer);
        return status;
    }
    if (consumer->reseat) {
        consumer->reseat = false;
        enum status status = kafka_consumer_rejoin(consumer, fault);
        if (status != ST_OK) {
            return status;
        }
    }
    return kafka_client_check(&consumer->client, fault);
}

/* Takes what is queued until a record comes out. *got false: the queue is empty, or was for timeout_ms. */
static enum status look(struct kafka_consumer *consumer, int timeout_ms, struct kafka_record *record,
                        bool *got, struct fault *fault)
{
    enum status status = ST_OK;
    bool more = true;
    while (more && !*got && status == ST_OK) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer->client.rk, timeout_ms);
        more = message != NULL;
        status = after_callbacks(consumer, fault);
        if (more && message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            handle_error(consumer, message);
        } else if (more && status == ST_OK) {
            *got = take_record(consumer, message, record);
        }
        if (more && !*got) {
            rd_kafka_message_destroy(message);
        }
    }
    return status;
}

enum status kafka_consumer_poll(struct kafka_consumer *consumer, int timeout_ms, struct kafka_record *record,
                                bool *got, struct fault *fault)
{
    bool found = false;
    kafka_seating_again(consumer);
    enum status status = look(consumer, 0, record, &found, fault);
    if (status == ST_OK && !found) {
        /* The descriptor is emptied before the last look, so that what comes after it makes it readable. */
        kafka_client_drain(&consumer->client);
        status = look(consumer, timeout_ms, record, &found, fault);
    }
    if (status == ST_OK && !found) {
        ask_for_missing(consumer);
        kafka_held_commit_owed(consumer);
    }
    *got = found;
    return status;
}

void kafka_record_release(struct kafka_record *record)
{
    if (record->handle != NULL) {
        rd_kafka_message_destroy(record->handle);
        record->handle = NULL;
    }
}

bool kafka_record_header(const struct kafka_record *record, size_t index, struct kafka_header *header)
{
    rd_kafka_headers_t *headers = NULL;
    const char *name = NULL;
    const void *value = NULL;
    size_t bytes = 0;
    if (record->handle == NULL ||
        rd_kafka_message_headers(record->handle, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        rd_kafka_header_get_all(headers, index, &name, &value, &bytes) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return false;
    }
    *header = (struct kafka_header){.name = span_of(name), .value = {.at = value, .bytes = bytes}};
    return true;
}

bool kafka_record_find_header(const struct kafka_record *record, const char *name, struct span *value)
{
    rd_kafka_headers_t *headers = NULL;
    const void *at = NULL;
    size_t bytes = 0;
    if (record->handle == NULL ||
        rd_kafka_message_headers(record->handle, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        rd_kafka_header_get_last(headers, name, &at, &bytes) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return false;
    }
    *value = (struct span){.at = at, .bytes = bytes};
    return true;
}

int kafka_consumer_fd(const struct kafka_consumer *consumer)
{
    return consumer->client.wake_fd;
}

bool kafka_consumer_topic_missing(const struct kafka_consumer *consumer, const char **topic)
{
    for (size_t i = 0; i < consumer->topic_count; i++) {
        if (consumer->missing[i]) {
            *topic = consumer->topics[i];
            return true;
        }
    }
    return false;
}

bool kafka_consumer_trouble(const struct kafka_consumer *consumer, char *text, size_t size)
{
    const char *topic = NULL;
    if (consumer->client.away) {
        (void)snprintf(text, size, "no Kafka broker answers");
    } else if (kafka_consumer_topic_missing(consumer, &topic)) {
        (void)snprintf(text, size, "topic %s is missing", topic);
    } else if (consumer->waiting_count > 0 && consumer->held_count == 0) {
        (void)snprintf(text, size, "no partition says where it begins");
    } else {
        return false;
    }
    return true;
}
