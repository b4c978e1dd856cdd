/* An idempotent producer: messages in, one delivery for each out.
 *
 * Always: a message is owed from kafka_producer_send until its delivery was told, and kept here whole
 * meanwhile; what failed for the moment is sent again from that copy, in the order it came. After a fatal
 * sequence error (librdkafka below 2.3.0, "possibly persisted") the client is made anew and everything owed
 * goes out again, so a message may be in the topic twice; consumers tell by what is in it. A crash loses what
 * is owed: callers move their offsets and rows only after the delivery. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "kafka_private.h"

enum { RESEND_MS = 500, REBUILD_END_MS = 5000, REBUILDS_IN_A_ROW_MAX = 10 };

/* One message that is owed: this struct, then topic, key, value, headers in one piece of memory. */
struct owed {
    struct owed *next, *before;
    struct kafka_message message; /* its spans point behind this struct */
    size_t bytes;
    bool sent; /* with the client; else to be sent again */
};

struct kafka_producer {
    struct kafka_client client; /* first: librdkafka's opaque */
    rd_kafka_conf_t *conf;      /* to make the client again */
    rd_kafka_queue_t *queue;
    size_t records_max, bytes_max, records, bytes;
    struct owed *first, *last;
    size_t unsent;
    int64_t resend_at_ms;
    int rebuilds; /* without a delivery in between */
    void *context;
    void (*on_delivery)(void *context, int64_t opaque, enum status status, const struct fault *fault);
};

static const struct kafka_property producer_defaults[] = {
    {"partitioner", "murmur2_random"}, /* as the Java client: a key stays where other tools put it */
    {"message.max.bytes", "33554432"}, /* the broker's limit decides, not the client's million */
    {"message.timeout.ms", "0"},       /* what is owed stays owed; flush has the deadline */
    {"compression.codec", "lz4"},      {NULL, NULL},
};

static const struct kafka_property producer_owned[] = {
    {"enable.idempotence", "true"},
    {"acks", "all"},
    {"socket.nagle.disable", "true"},
    {NULL, NULL},
};

/* ---- what is owed -------------------------------------------------------------------------------------- */

static struct span keep(char **at, struct span from)
{
    struct span kept = {.at = *at, .bytes = from.bytes};
    if (from.bytes > 0) {
        memcpy(*at, from.at, from.bytes);
    }
    *at += from.bytes;
    return kept;
}

static size_t message_bytes(const struct kafka_message *message)
{
    size_t bytes = sizeof(struct owed) + message->header_count * sizeof(struct kafka_header) +
                   strlen(message->topic) + 1 + message->key.bytes + message->value.bytes;
    for (size_t i = 0; i < message->header_count; i++) {
        bytes += message->headers[i].name.bytes + message->headers[i].value.bytes;
    }
    return bytes;
}

static struct owed *owed_new(const struct kafka_message *message, size_t bytes)
{
    struct owed *owed = malloc(bytes);
    if (owed == NULL) {
        return NULL;
    }
    *owed = (struct owed){.message = *message, .bytes = bytes};
    struct kafka_header *headers = (struct kafka_header *)(owed + 1);
    char *at = (char *)(headers + message->header_count);
    for (size_t i = 0; i < message->header_count; i++) {
        headers[i].name = keep(&at, message->headers[i].name);
        struct span value = keep(&at, message->headers[i].value);
        headers[i].value = message->headers[i].value.at == NULL ? (struct span){NULL, 0} : value;
    }
    owed->message.headers = headers;
    owed->message.key = keep(&at, message->key);
    owed->message.value = keep(&at, message->value);
    owed->message.topic = memcpy(at, message->topic, strlen(message->topic) + 1);
    return owed;
}

static void owed_append(struct kafka_producer *producer, struct owed *owed)
{
    owed->before = producer->last;
    if (producer->last != NULL) {
        producer->last->next = owed;
    } else {
        producer->first = owed;
    }
    producer->last = owed;
    producer->records++;
    producer->bytes += owed->bytes;
}

static void owed_unlink(struct kafka_producer *producer, struct owed *owed)
{
    if (owed->before != NULL) {
        owed->before->next = owed->next;
    } else {
        producer->first = owed->next;
    }
    if (owed->next != NULL) {
        owed->next->before = owed->before;
    } else {
        producer->last = owed->before;
    }
    producer->records--;
    producer->bytes -= owed->bytes;
    free(owed);
}

static void owed_again(struct kafka_producer *producer, struct owed *owed)
{
    if (owed->sent) {
        owed->sent = false;
        producer->unsent++;
        producer->resend_at_ms = clock_monotonic_ms(&clock_system) + RESEND_MS;
    }
}

/* The last word on a message. */
static void owed_settle(struct kafka_producer *producer, struct owed *owed, enum status status,
                        const struct fault *fault)
{
    int64_t opaque = owed->message.opaque;
    if (!owed->sent) {
        producer->unsent--;
    }
    owed_unlink(producer, owed);
    producer->on_delivery(producer->context, opaque, status, fault);
}

/* ---- to librdkafka and back ---------------------------------------------------------------------------- */

static rd_kafka_headers_t *headers_make(const struct kafka_message *message)
{
    if (message->header_count == 0) {
        return NULL;
    }
    rd_kafka_headers_t *headers = rd_kafka_headers_new(message->header_count);
    for (size_t i = 0; i < message->header_count; i++) {
        const struct kafka_header *header = &message->headers[i];
        (void)rd_kafka_header_add(headers, header->name.at, (ssize_t)header->name.bytes, header->value.at,
                                  (ssize_t)header->value.bytes);
    }
    return headers;
}

/* A null key and an empty one are told apart by the pointer. */
static void *bytes_of(struct span span, bool null)
{
    union {
        const char *in;
        void *out; /* librdkafka copies, but does not say const */
    } at = {.in = span.at != NULL ? span.at : ""};
    return null ? NULL : at.out;
}

static rd_kafka_resp_err_t hand_over(struct kafka_producer *producer, struct owed *owed)
{
    const struct kafka_message *message = &owed->message;
    rd_kafka_headers_t *headers = headers_make(message);
    rd_kafka_vu_t fields[] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = message->topic},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = message->partition},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY,
         .u.mem = {.ptr = bytes_of(message->key, message->key_null), .size = message->key.bytes}},
        {.vtype = RD_KAFKA_VTYPE_VALUE,
         .u.mem = {.ptr = bytes_of(message->value, message->value_null), .size = message->value.bytes}},
        {.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = message->timestamp_ms < 0 ? 0 : message->timestamp_ms},
        {.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = owed},
        {.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers},
    };
    size_t count = sizeof fields / sizeof *fields - (headers == NULL ? 1 : 0);
    rd_kafka_error_t *error = rd_kafka_produceva(producer->client.rk, fields, count);
    if (error == NULL) {
        return RD_KAFKA_RESP_ERR_NO_ERROR; /* the headers are librdkafka's now */
    }
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    if (headers != NULL) {
        rd_kafka_headers_destroy(headers);
    }
    return code;
}

/* A sequence error is cured by a new client; being unauthorised is not. */
static bool is_curable(rd_kafka_resp_err_t error)
{
    return error != RD_KAFKA_RESP_ERR_NO_ERROR && kafka_judge(error) != ST_FATAL;
}

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct kafka_producer *producer = opaque;
    struct owed *owed = message->_private;
    (void)rk;
    struct fault fault;
    fault_reset(&fault);
    enum status status = ST_OK;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        producer->rebuilds = 0;
        kafka_client_answers(&producer->client);
    } else {
        status = kafka_fault(&fault, message->err, NULL);
    }
    if (status == ST_RETRY || status == ST_FATAL) {
        owed_again(producer, owed);
        return;
    }
    owed_settle(producer, owed, status, &fault);
}

/* What was refused before it left: judged like a delivery. */
static void send_again(struct kafka_producer *producer)
{
    for (struct owed *owed = producer->first, *next; owed != NULL && producer->unsent > 0; owed = next) {
        next = owed->next;
        if (owed->sent) {
            continue;
        }
        rd_kafka_resp_err_t error = hand_over(producer, owed);
        struct fault fault;
        enum status status = error == RD_KAFKA_RESP_ERR_NO_ERROR ? ST_OK : kafka_fault(&fault, error, NULL);
        if (status == ST_OK) {
            owed->sent = true;
            producer->unsent--;
        } else if (status == ST_REJECT || status == ST_STOP) {
            owed_settle(producer, owed, status, &fault);
        } else {
            break; /* the queue is full, or the client is dead: later, in order */
        }
    }
    producer->resend_at_ms = clock_monotonic_ms(&clock_system) + RESEND_MS;
}

/* ---- opening, closing, and making it anew -------------------------------------------------------------- */

static enum status producer_start(struct kafka_producer *producer, struct fault *fault)
{
    enum status status =
        kafka_client_open(&producer->client, RD_KAFKA_PRODUCER, rd_kafka_conf_dup(producer->conf), fault);
    if (status != ST_OK) {
        return status;
    }
    producer->queue = rd_kafka_queue_get_main(producer->client.rk);
    return kafka_client_wake_on(&producer->client, producer->queue, fault);
}

static void producer_stop(struct kafka_producer *producer, int timeout_ms)
{
    if (producer->queue != NULL) {
        rd_kafka_queue_io_event_enable(producer->queue, -1, NULL, 0);
        rd_kafka_queue_destroy(producer->queue);
        producer->queue = NULL;
    }
    rd_kafka_t *rk = producer->client.rk;
    if (rk != NULL) {
        (void)rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    }
    producer->client.rk = NULL;
    kafka_client_end(rk, timeout_ms);
}

static enum status rebuild(struct kafka_producer *producer, struct fault *fault)
{
    char cause[FAULT_CODE_MAX];
    (void)snprintf(cause, sizeof cause, "%s", producer->client.fatal.code);
    if (!is_curable(producer->client.fatal_error) || ++producer->rebuilds > REBUILDS_IN_A_ROW_MAX) {
        *fault = producer->client.fatal;
        return ST_FATAL;
    }
    producer_stop(producer,
                  REBUILD_END_MS); /* its reports are never served: all that is owed goes out again */
    for (struct owed *owed = producer->first; owed != NULL; owed = owed->next) {
        owed_again(producer, owed);
    }
    fault_reset(&producer->client.fatal);
    producer->client.fatal_error = RD_KAFKA_RESP_ERR_NO_ERROR;
    enum status status = producer_start(producer, fault);
    if (status == ST_OK) {
        send_again(producer);
        kafka_client_notice(&producer->client, &(struct kafka_notice){.kind = KAFKA_NOTICE_REBUILT,
                                                                      .severity = 4,
                                                                      .code = cause,
                                                                      .text = "producer made anew",
                                                                      .topic = ""});
    }
    return status;
}

static enum status producer_conf(const struct kafka_producer_options *options, rd_kafka_conf_t **conf,
                                 struct fault *fault)
{
    struct kafka_conf_layers layers = {.defaults = producer_defaults, .owned = producer_owned};
    enum status status = kafka_conf_make(&options->client, &layers, conf, fault);
    if (status != ST_OK) {
        return status;
    }
    char count[32];
    (void)snprintf(count, sizeof count, "%zu", options->records_max);
    status = kafka_conf_set(*conf, "queue.buffering.max.messages", count, fault);
    if (status != ST_OK) {
        rd_kafka_conf_destroy(*conf);
        return status;
    }
    rd_kafka_conf_set_dr_msg_cb(*conf, on_report);
    return ST_OK;
}

enum status kafka_producer_open(const struct kafka_producer_options *options,
                                struct kafka_producer **producer, struct fault *fault)
{
    assert(options->records_max > 0 && options->bytes_max > 0);
    rd_kafka_conf_t *conf = NULL;
    enum status status = producer_conf(options, &conf, fault);
    if (status != ST_OK) {
        return status;
    }
    struct kafka_producer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        rd_kafka_conf_destroy(conf);
        fault_set(fault, "memory", "out of memory");
        return ST_RETRY;
    }
    made->conf = conf;
    made->client.wake_fd = -1;
    made->client.on_notice = options->client.on_notice;
    kafka_client_count_in(&made->client, options->client.metrics);
    made->client.notice_context = options->client.notice_context;
    made->records_max = options->records_max;
    made->bytes_max = options->bytes_max;
    made->context = options->context;
    made->on_delivery = options->on_delivery;
    status = producer_start(made, fault);
    if (status != ST_OK) {
        kafka_producer_close(made, 0);
        return status;
    }
    *producer = made;
    return ST_OK;
}

void kafka_producer_close(struct kafka_producer *producer, int timeout_ms)
{
    if (producer == NULL) {
        return;
    }
    producer->client.on_notice = NULL;
    producer_stop(producer, timeout_ms > 100 ? timeout_ms : 100);
    for (struct owed *owed = producer->first, *next; owed != NULL; owed = next) {
        next = owed->next;
        free(owed);
    }
    if (producer->client.wake_fd >= 0) {
        (void)close(producer->client.wake_fd);
    }
    rd_kafka_conf_destroy(producer->conf);
    free(producer);
}

/* ---- the caller's side --------------------------------------------------------------------------------- */

enum status kafka_producer_send(struct kafka_producer *producer, const struct kafka_message *message,
                                struct fault *fault)
{
    assert(message->header_count <= KAFKA_HEADERS_MAX);
    size_t bytes = message_bytes(message);
    if (bytes > producer->bytes_max) {
        fault_set(fault, "MSG_SIZE_TOO_LARGE", "a message of %zu bytes; at most %zu are held", bytes,
                  producer->bytes_max);
        return ST_REJECT;
    }
    if (producer->records >= producer->records_max || producer->bytes + bytes > producer->bytes_max) {
        fault_set(fault, "full", "%zu messages of %zu bytes are not yet acknowledged", producer->records,
                  producer->bytes);
        return ST_RETRY;
    }
    struct owed *owed = owed_new(message, bytes);
    if (owed == NULL) {
        fault_set(fault, "memory", "out of memory");
        return ST_RETRY;
    }
    /* Behind others that wait to be sent again it waits too: order within a partition stays. */
    rd_kafka_resp_err_t error =
        producer->unsent > 0 ? RD_KAFKA_RESP_ERR__QUEUE_FULL : hand_over(producer, owed);
    enum status status = error == RD_KAFKA_RESP_ERR_NO_ERROR ? ST_OK : kafka_judge(error);
    if (status == ST_REJECT || status == ST_STOP) {
        free(owed);
        return kafka_fault(fault, error, NULL);
    }
    owed_append(producer, owed);
    owed->sent = status == ST_OK;
    if (!owed->sent) {
        producer->unsent++;
    }
    return ST_OK;
}

enum status kafka_producer_poll(struct kafka_producer *producer, int timeout_ms, struct fault *fault)
{
    if (rd_kafka_poll(producer->client.rk, 0) == 0) {
        kafka_client_drain(&producer->client);
        (void)rd_kafka_poll(producer->client.rk, timeout_ms);
    }
    if (producer->client.fatal.code[0] != '\0') {
        return rebuild(producer, fault);
    }
    if (producer->unsent > 0 && clock_monotonic_ms(&clock_system) >= producer->resend_at_ms) {
        send_again(producer);
    }
    return ST_OK;
}

enum status kafka_producer_flush(struct kafka_producer *producer, int timeout_ms, struct fault *fault)
{
    int64_t until_ms = clock_monotonic_ms(&clock_system) + timeout_ms;
    while (producer->records > 0) {
        int64_t left_ms = until_ms - clock_monotonic_ms(&clock_system);
        if (left_ms < 0) {
            fault_set(fault, "flush", "%zu messages are not acknowledged", producer->records);
            return ST_RETRY;
        }
        enum status status = kafka_producer_poll(producer, left_ms < 100 ? (int)left_ms : 100, fault);
        if (status != ST_OK) {
            return status;
        }
    }
    return ST_OK;
}

size_t kafka_producer_owed(const struct kafka_producer *producer)
{
    return producer->records;
}

int kafka_producer_fd(const struct kafka_producer *producer)
{
    return producer->client.wake_fd;
}
