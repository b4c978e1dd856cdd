/* The partitions a consumer holds: what is done, what is committed, where each goes on.
 *
 * Always: what is done only rises between seeks, and only what is done is committed. librdkafka's own store
 * of offsets is not used (it takes a lower offset and the commit goes back). The commits serve lag tools; the
 * offsets that count are in Postgres, so a commit that fails is a notice and no more. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kafka_private.h"

enum { SEEK_TIMEOUT_MS = 10000, COMMIT_AGAIN_MS = 1000 };

/* ---- what is held -------------------------------------------------------------------------------------- */

static int held_compare(const void *a, const void *b)
{
    const struct kafka_held *left = a, *right = b;
    if (left->topic != right->topic) {
        return left->topic < right->topic ? -1 : 1;
    }
    return (left->partition > right->partition) - (left->partition < right->partition);
}

struct kafka_held *kafka_held_find(struct kafka_consumer *consumer, int topic, int32_t partition)
{
    struct kafka_held key = {.topic = topic, .partition = partition};
    if (consumer->held_last < consumer->held_count &&
        held_compare(&consumer->held[consumer->held_last], &key) == 0) {
        return &consumer->held[consumer->held_last];
    }
    if (consumer->held_count == 0) {
        return NULL;
    }
    struct kafka_held *found =
        bsearch(&key, consumer->held, consumer->held_count, sizeof *consumer->held, held_compare);
    if (found != NULL) {
        consumer->held_last = (size_t)(found - consumer->held);
    }
    return found;
}

bool kafka_held_add(struct kafka_consumer *consumer, const struct kafka_seat *seats, size_t count)
{
    if (consumer->held_count + count > KAFKA_PARTITIONS_MAX) {
        return false;
    }
    size_t room = consumer->held_count + count;
    struct kafka_held *more = realloc(consumer->held, (room > 0 ? room : 1) * sizeof *more);
    if (more == NULL) {
        return false;
    }
    consumer->held = more;
    for (size_t i = 0; i < count; i++) {
        more[consumer->held_count++] = (struct kafka_held){.topic = seats[i].topic,
                                                           .partition = seats[i].partition,
                                                           .position = seats[i].start,
                                                           .done = -1,
                                                           .committed = -1};
    }
    qsort(more, consumer->held_count, sizeof *more, held_compare);
    return true;
}

void kafka_held_remove(struct kafka_consumer *consumer, const struct kafka_seat *seats, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct kafka_held *gone = kafka_held_find(consumer, seats[i].topic, seats[i].partition);
        if (gone != NULL) {
            size_t after = consumer->held_count - (size_t)(gone - consumer->held) - 1;
            memmove(gone, gone + 1, after * sizeof *gone);
            consumer->held_count--;
        }
    }
}

static rd_kafka_topic_partition_list_t *held_list(const struct kafka_consumer *consumer)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)consumer->held_count + 1);
    for (size_t i = 0; i < consumer->held_count; i++) {
        const struct kafka_held *held = &consumer->held[i];
        rd_kafka_topic_partition_list_add(list, consumer->topics[held->topic], held->partition)->offset =
            held->position;
    }
    return list;
}

/* ---- what is done -------------------------------------------------------------------------------------- */

void kafka_consumer_done(struct kafka_consumer *consumer, int topic, int32_t partition, int64_t next_offset)
{
    struct kafka_held *held = kafka_held_find(consumer, topic, partition);
    if (held != NULL && next_offset > held->done) {
        held->done = next_offset;
    }
}

/* Takes the answer to the commit under way, if it comes in time. */
static void commit_answer(struct kafka_consumer *consumer, int timeout_ms)
{
    if (!consumer->commit_under_way) {
        return;
    }
    rd_kafka_event_t *event = rd_kafka_queue_poll(consumer->commits, timeout_ms);
    if (event == NULL) {
        return;
    }
    consumer->commit_under_way = false;
    rd_kafka_resp_err_t error = rd_kafka_event_error(event);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR && error != RD_KAFKA_RESP_ERR__NO_OFFSET) {
        kafka_client_notice(&consumer->client, &(struct kafka_notice){.kind = KAFKA_NOTICE_COMMIT_FAILED,
                                                                      .severity = 6,
                                                                      .code = rd_kafka_err2name(error),
                                                                      .text = rd_kafka_err2str(error),
                                                                      .topic = ""});
        for (size_t i = 0; i < consumer->held_count; i++) {
            consumer->held[i].committed = -1;
        }
        consumer->commit_owed = true;
        consumer->commit_again_ms = clock_monotonic_ms(&clock_system) + COMMIT_AGAIN_MS;
    }
    rd_kafka_event_destroy(event);
}

void kafka_consumer_commit(struct kafka_consumer *consumer, int timeout_ms)
{
    commit_answer(consumer, timeout_ms);
    if (consumer->commit_under_way) {
        consumer->commit_owed = true; /* perhaps the last one for a long time: see kafka_held_commit_owed */
        return;
    }
    consumer->commit_owed = false;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)consumer->held_count + 1);
    for (size_t i = 0; i < consumer->held_count; i++) {
        struct kafka_held *held = &consumer->held[i];
        if (held->done > held->committed) {
            const char *topic = consumer->topics[held->topic];
            rd_kafka_topic_partition_list_add(list, topic, held->partition)->offset = held->done;
            held->committed = held->done;
        }
    }
    if (list->cnt > 0 && rd_kafka_commit_queue(consumer->client.rk, list, consumer->commits, NULL, NULL) ==
                             RD_KAFKA_RESP_ERR_NO_ERROR) {
        consumer->commit_under_way = true;
        commit_answer(consumer, timeout_ms);
    }
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_held_commit_owed(struct kafka_consumer *consumer)
{
    commit_answer(consumer, 0);
    if (consumer->commit_owed && !consumer->commit_under_way &&
        clock_monotonic_ms(&clock_system) >= consumer->commit_again_ms) {
        kafka_consumer_commit(consumer, 0);
    }
}

/* ---- where it goes on ---------------------------------------------------------------------------------- */

enum status kafka_held_seek_list(struct kafka_consumer *consumer, rd_kafka_topic_partition_list_t *list,
                                 struct fault *fault)
{
    rd_kafka_error_t *error = rd_kafka_seek_partitions(consumer->client.rk, list, SEEK_TIMEOUT_MS);
    if (error != NULL) {
        return kafka_fault_error(fault, error);
    }
    for (int i = 0; i < list->cnt; i++) {
        if (list->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            return kafka_fault(fault, list->elems[i].err, NULL);
        }
    }
    return ST_OK;
}

enum status kafka_consumer_seek(struct kafka_consumer *consumer, int topic, int32_t partition, int64_t offset,
                                struct fault *fault)
{
    struct kafka_held *held = kafka_held_find(consumer, topic, partition);
    if (held == NULL) {
        return ST_OK; /* gone meanwhile: whoever has it seats it */
    }
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, consumer->topics[topic], partition)->offset = offset;
    enum status status = kafka_held_seek_list(consumer, list, fault);
    rd_kafka_topic_partition_list_destroy(list);
    if (status == ST_OK) {
        held->position = offset;
        held->done = held->committed = -1;
    }
    return status;
}

void kafka_consumer_pause(struct kafka_consumer *consumer)
{
    if (consumer->paused) {
        return;
    }
    consumer->paused = true;
    kafka_client_count_pause(&consumer->client);
    rd_kafka_topic_partition_list_t *list = held_list(consumer);
    if (list->cnt > 0) {
        (void)rd_kafka_pause_partitions(consumer->client.rk, list);
    }
    rd_kafka_topic_partition_list_destroy(list);
}

/* Pausing threw the prefetch away, and 2.0.2 may go on at a wrong place after it: say where. When that fails
 * the group is left and joined again, which seats every partition anew. */
void kafka_consumer_resume(struct kafka_consumer *consumer)
{
    if (!consumer->paused) {
        return;
    }
    consumer->paused = false;
    struct fault fault;
    rd_kafka_topic_partition_list_t *list = held_list(consumer);
    if (list->cnt > 0) {
        (void)rd_kafka_resume_partitions(consumer->client.rk, list);
        if (kafka_held_seek_list(consumer, list, &fault) != ST_OK) {
            consumer->reseat = true;
        }
    }
    rd_kafka_topic_partition_list_destroy(list);
}

bool kafka_consumer_is_paused(const struct kafka_consumer *consumer)
{
    return consumer->paused;
}

void kafka_consumer_watermarks(struct kafka_consumer *consumer, int topic, int32_t partition, int64_t *low,
                               int64_t *high)
{
    int64_t lowest = -1, highest = -1;
    (void)rd_kafka_get_watermark_offsets(consumer->client.rk, consumer->topics[topic], partition, &lowest,
                                         &highest);
    *low = lowest >= 0 ? lowest : -1;
    *high = highest >= 0 ? highest : -1;
}
