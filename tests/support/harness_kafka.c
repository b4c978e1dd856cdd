/* Topics and records for tests, straight on librdkafka. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"
#include "support/harness_private.h"

enum { CALL_MS = 15000, HEADERS_MAX = 32 };

static void on_delivery(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *context)
{
    (void)kafka;
    (void)context;
    cr_assert(message->err == RD_KAFKA_RESP_ERR_NO_ERROR, "produce: %s", rd_kafka_err2str(message->err));
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[256];
    cr_assert(rd_kafka_conf_set(conf, name, value, text, sizeof text) == RD_KAFKA_CONF_OK, "%s", text);
}

static rd_kafka_t *client(struct world *w, rd_kafka_type_t type, const char *group)
{
    char text[256];
    cr_assert(w->brokers[0] != '\0', "no Kafka for tests: ctest's fixture `services` starts one");
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", w->brokers);
    set(conf, "socket.nagle.disable", "true");
    set(conf, "log_level", "2");
    if (type == RD_KAFKA_PRODUCER) {
        set(conf, "linger.ms", "2");
        set(conf, "acks", "all");
        set(conf, "queue.buffering.max.messages", "2000000");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    } else {
        set(conf, "group.id", group);
        set(conf, "enable.auto.commit", "false");
    }
    rd_kafka_t *kafka = rd_kafka_new(type, conf, text, sizeof text);
    cr_assert(kafka != NULL, "%s", text);
    return kafka;
}

static rd_kafka_t *producer(struct world *w)
{
    if (w->producer == NULL)
        w->producer = client(w, RD_KAFKA_PRODUCER, NULL);
    return w->producer;
}

void harness_close_kafka(struct world *w)
{
    if (w->producer == NULL)
        return;
    const char *topics[] = {w->events, w->devices, w->receipts, w->dlq, w->receipts_dlq};
    rd_kafka_DeleteTopic_t *deletions[5];
    for (int i = 0; i < 5; i++)
        deletions[i] = rd_kafka_DeleteTopic_new(topics[i]);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(w->producer);
    rd_kafka_DeleteTopics(w->producer, deletions, 5, NULL, queue);
    rd_kafka_event_destroy(rd_kafka_queue_poll(queue, 5000));
    rd_kafka_DeleteTopic_destroy_array(deletions, 5);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy(w->producer);
    w->producer = NULL;
}

static bool has_partitions(struct world *w, const char *topic, int partitions)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(producer(w), topic, NULL);
    rd_kafka_resp_err_t error = rd_kafka_metadata(producer(w), 0, handle, &metadata, CALL_MS);
    bool there = error == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1 &&
                 metadata->topics[0].err == RD_KAFKA_RESP_ERR_NO_ERROR &&
                 metadata->topics[0].partition_cnt == partitions;
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(handle);
    return there;
}

void world_create_topic(struct world *w, const char *topic, int partitions)
{
    char text[256];
    rd_kafka_NewTopic_t *made = rd_kafka_NewTopic_new(topic, partitions, 1, text, sizeof text);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(producer(w));
    rd_kafka_CreateTopics(producer(w), &made, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, CALL_MS);
    cr_assert(event != NULL && rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR, "create topic %s",
              topic);
    size_t count = 0;
    const rd_kafka_topic_result_t **results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    cr_assert(count == 1 && rd_kafka_topic_result_error(results[0]) == RD_KAFKA_RESP_ERR_NO_ERROR,
              "create %s: %s", topic, rd_kafka_topic_result_error_string(results[0]));
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(made);
    for (int i = 0; i < 200 && !has_partitions(w, topic, partitions); i++)
        world_sleep_ms(25);
}

void world_delete_topic(struct world *w, const char *topic)
{
    rd_kafka_DeleteTopic_t *gone = rd_kafka_DeleteTopic_new(topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(producer(w));
    rd_kafka_DeleteTopics(producer(w), &gone, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, CALL_MS);
    cr_assert(event != NULL && rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR, "delete topic %s",
              topic);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteTopic_destroy(gone);
}

void world_topics(struct world *w, int partitions)
{
    world_create_topic(w, w->events, partitions);
    world_create_topic(w, w->devices, partitions);
    world_create_topic(w, w->receipts, partitions);
    world_create_topic(w, w->dlq, 1);
    world_create_topic(w, w->receipts_dlq, 1);
}

/* -- producing
 * ------------------------------------------------------------------------------------------------ */

static void enqueue(struct world *w, rd_kafka_vu_t *parts, size_t count)
{
    for (;;) {
        rd_kafka_error_t *error = rd_kafka_produceva(producer(w), parts, count);
        if (error == NULL)
            break;
        rd_kafka_resp_err_t code = rd_kafka_error_code(error);
        cr_assert(code == RD_KAFKA_RESP_ERR__QUEUE_FULL, "produce: %s", rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
        rd_kafka_poll(producer(w), 20);
    }
    rd_kafka_poll(producer(w), 0);
}

static void enqueue_record(struct world *w, const char *topic, int partition, const char *key,
                           const void *value, size_t bytes, rd_kafka_headers_t *headers, int64_t timestamp_ms)
{
    union {
        const void *from;
        void *to;
    } k = {.from = key}, v = {.from = value};
    rd_kafka_vu_t parts[7] = {
        {.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = partition},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {k.to, key == NULL ? 0 : strlen(key)}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {v.to, bytes}},
    };
    size_t count = 5;
    if (timestamp_ms > 0)
        parts[count++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = timestamp_ms};
    if (headers != NULL)
        parts[count++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers};
    enqueue(w, parts, count);
}

void world_produce_bytes(struct world *w, const char *topic, int partition, const char *key,
                         const void *value, size_t bytes, const struct world_header *headers,
                         int header_count, int64_t timestamp_ms)
{
    rd_kafka_headers_t *list = header_count > 0 ? rd_kafka_headers_new((size_t)header_count) : NULL;
    for (int i = 0; i < header_count; i++)
        rd_kafka_header_add(list, headers[i].name, -1, headers[i].value, -1);
    enqueue_record(w, topic, partition, key, value, bytes, list, timestamp_ms);
    world_flush(w);
}

void world_produce(struct world *w, const char *topic, int partition, const char *key, const char *value)
{
    world_produce_fast(w, topic, partition, key, value);
    world_flush(w);
}

void world_produce_fast(struct world *w, const char *topic, int partition, const char *key, const char *value)
{
    enqueue_record(w, topic, partition, key, value, value == NULL ? 0 : strlen(value), NULL, 0);
}

void world_flush(struct world *w)
{
    cr_assert(rd_kafka_flush(producer(w), 60000) == RD_KAFKA_RESP_ERR_NO_ERROR,
              "records not acknowledged in 60 s");
}

void world_register(struct world *w, const char *user, const char *token)
{
    char value[1024];
    snprintf(value, sizeof value,
             "{\"op\":\"register\",\"user_id\":\"%s\",\"token\":\"%s\",\"platform\":\"ios\",\"app_version\":"
             "\"1.0\"}",
             user, token);
    world_produce_fast(w, w->devices, -1, token, value);
}

/* -- reading
 * ---------------------------------------------------------------------------------------------------- */

static int partitions_of(struct world *w, const char *topic)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(producer(w), topic, NULL);
    rd_kafka_resp_err_t error = rd_kafka_metadata(producer(w), 0, handle, &metadata, CALL_MS);
    cr_assert(error == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1, "metadata of %s: %s", topic,
              rd_kafka_err2str(error));
    int count = metadata->topics[0].partition_cnt;
    rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(handle);
    return count;
}

static void watermarks(struct world *w, const char *topic, int partition, int64_t *low, int64_t *high)
{
    rd_kafka_resp_err_t error =
        rd_kafka_query_watermark_offsets(producer(w), topic, partition, low, high, CALL_MS);
    cr_assert(error == RD_KAFKA_RESP_ERR_NO_ERROR, "watermarks of %s: %s", topic, rd_kafka_err2str(error));
}

int64_t world_topic_records(struct world *w, const char *topic)
{
    int64_t sum = 0;
    int count = partitions_of(w, topic);
    for (int i = 0; i < count; i++) {
        int64_t low = 0, high = 0;
        watermarks(w, topic, i, &low, &high);
        sum += high - low;
    }
    return sum;
}

static int copy_headers(const rd_kafka_message_t *message, struct world_header *headers)
{
    rd_kafka_headers_t *list = NULL;
    if (rd_kafka_message_headers(message, &list) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    int count = 0;
    const char *name = NULL;
    const void *value = NULL;
    size_t bytes = 0;
    /* librdkafka keeps a NUL behind every header value. */
    while (count < HEADERS_MAX && rd_kafka_header_get_all(list, (size_t)count, &name, &value, &bytes) ==
                                      RD_KAFKA_RESP_ERR_NO_ERROR) {
        headers[count].name = name;
        headers[count].value = value;
        count++;
    }
    return count;
}

static void hand_over(const rd_kafka_message_t *message,
                      void (*each)(void *context, const struct world_record *), void *context)
{
    struct world_header headers[HEADERS_MAX];
    char *key = message->key == NULL ? NULL : strndup(message->key, message->key_len);
    char *value = NULL;
    if (message->payload != NULL) {
        value = calloc(1, message->len + 1);
        memcpy(value, message->payload, message->len);
    }
    struct world_record record = {
        .partition = message->partition,
        .offset = message->offset,
        .key = key,
        .value = value,
        .value_bytes = message->len,
        .headers = headers,
        .header_count = copy_headers(message, headers),
    };
    each(context, &record);
    free(key);
    free(value);
}

static void read_partition(rd_kafka_t *consumer, int64_t high,
                           void (*each)(void *context, const struct world_record *), void *context)
{
    int64_t deadline = world_now_ms() + 60000;
    int64_t next = 0;
    while (next < high) {
        cr_assert(world_now_ms() < deadline, "reading a topic took over a minute");
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 500);
        if (message == NULL)
            continue;
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            hand_over(message, each, context);
            next = message->offset + 1;
        }
        rd_kafka_message_destroy(message);
    }
}

void world_read_topic(struct world *w, const char *topic,
                      void (*each)(void *context, const struct world_record *), void *context)
{
    int count = partitions_of(w, topic);
    for (int i = 0; i < count; i++) {
        int64_t low = 0, high = 0;
        watermarks(w, topic, i, &low, &high);
        if (low >= high)
            continue;
        rd_kafka_t *consumer = client(w, RD_KAFKA_CONSUMER, "belfry-harness");
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = low;
        cr_assert(rd_kafka_assign(consumer, list) == RD_KAFKA_RESP_ERR_NO_ERROR);
        rd_kafka_topic_partition_list_destroy(list);
        read_partition(consumer, high, each, context);
        rd_kafka_destroy(consumer);
    }
}

void world_wait_drained(struct world *w, const char *group, const char *topic, int seconds)
{
    int64_t deadline = world_now_ms() + (int64_t)seconds * 1000;
    int count = partitions_of(w, topic);
    for (int i = 0; i < count; i++) {
        for (;;) {
            int64_t low = 0, high = 0;
            watermarks(w, topic, i, &low, &high);
            int64_t next =
                world_count(w,
                            "SELECT next_offset FROM partition_offsets WHERE group_id = '%s' AND topic = "
                            "'%s' AND partition = %d",
                            group, topic, i);
            if (next >= high)
                break;
            cr_assert(world_now_ms() < deadline, "%s[%d]: at %lld of %lld after %d s", topic, i,
                      (long long)next, (long long)high, seconds);
            world_sleep_ms(50);
        }
    }
}

static int64_t lag_now(struct world *w, rd_kafka_t *member, const char *topic)
{
    int count = partitions_of(w, topic);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(count);
    for (int i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(list, topic, i);
    rd_kafka_resp_err_t error = rd_kafka_committed(member, list, CALL_MS);
    cr_assert(error == RD_KAFKA_RESP_ERR_NO_ERROR, "committed offsets: %s", rd_kafka_err2str(error));
    int64_t lag = 0;
    for (int i = 0; i < count; i++) {
        int64_t low = 0, high = 0;
        watermarks(w, topic, list->elems[i].partition, &low, &high);
        lag += high - (list->elems[i].offset < 0 ? low : list->elems[i].offset);
    }
    rd_kafka_topic_partition_list_destroy(list);
    return lag;
}

int64_t world_lag(struct world *w, const char *group, const char *topic)
{
    rd_kafka_t *member = client(w, RD_KAFKA_CONSUMER, group); /* asks only, never joins */
    int64_t deadline = world_now_ms() + 10000, lag = lag_now(w, member, topic);
    while (lag != 0 && world_now_ms() < deadline) {
        world_sleep_ms(100);
        lag = lag_now(w, member, topic);
    }
    rd_kafka_destroy(member);
    return lag;
}
