/* Partitions come and go: librdkafka's rebalance callback on one side, on_assign and on_revoke on the other.
 *
 * A partition that comes is asked for the group's offset and its watermarks, then on_assign says where it
 * starts. What on_assign refuses is never held: the caller hears of it from kafka_consumer_poll and the group
 * is left. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kafka_private.h"

enum { ASK_TIMEOUT_MS = 5000, ASK_TRIES = 15, ASK_AGAIN_NS = 200 * 1000 * 1000, FAREWELL_MS = 2000 };

static enum status ask_committed(struct kafka_consumer *consumer, const rd_kafka_topic_partition_list_t *list,
                                 struct kafka_seat *seats, struct fault *fault)
{
    rd_kafka_topic_partition_list_t *asked = rd_kafka_topic_partition_list_copy(list);
    enum status status = ST_OK;
    rd_kafka_resp_err_t error = list->cnt == 0
                                    ? RD_KAFKA_RESP_ERR_NO_ERROR
                                    : rd_kafka_committed(consumer->client.rk, asked, ASK_TIMEOUT_MS);
    for (int i = 0; i < asked->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        seats[i].committed = asked->elems[i].offset >= 0 ? asked->elems[i].offset : -1;
        error = asked->elems[i].err;
    }
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        status = kafka_fault(fault, error, NULL);
    }
    rd_kafka_topic_partition_list_destroy(asked);
    return status;
}

/* A leader may just be changing, or the topic be seconds old: asked again for a while. */
static rd_kafka_resp_err_t ask_watermarks(struct kafka_consumer *consumer, struct kafka_seat *seat)
{
    const char *topic = consumer->topics[seat->topic];
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (int i = 0; i < ASK_TRIES; i++) {
        error = rd_kafka_query_watermark_offsets(consumer->client.rk, topic, seat->partition, &seat->low,
                                                 &seat->high, ASK_TIMEOUT_MS);
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR || error == RD_KAFKA_RESP_ERR__TIMED_OUT) {
            break;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = ASK_AGAIN_NS}, NULL);
    }
    return error;
}

static enum status ask_offsets(struct kafka_consumer *consumer, const rd_kafka_topic_partition_list_t *list,
                               struct kafka_seat *seats, struct fault *fault)
{
    enum status status = ask_committed(consumer, list, seats, fault);
    for (int i = 0; i < list->cnt && status == ST_OK; i++) {
        rd_kafka_resp_err_t error = ask_watermarks(consumer, &seats[i]);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
            status = kafka_fault(fault, error, NULL);
        }
        seats[i].start = seats[i].low;
    }
    return status;
}

enum status kafka_consumer_ask_watermarks(struct kafka_consumer *consumer, struct kafka_seat *seat,
                                          struct fault *fault)
{
    rd_kafka_resp_err_t error = ask_watermarks(consumer, seat);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR ? ST_OK : kafka_fault(fault, error, NULL);
}

static struct kafka_seat *seats_make(const struct kafka_consumer *consumer,
                                     const rd_kafka_topic_partition_list_t *list)
{
    struct kafka_seat *seats = calloc((size_t)list->cnt + 1, sizeof *seats);
    for (int i = 0; seats != NULL && i < list->cnt; i++) {
        seats[i].topic = kafka_topic_find(consumer, list->elems[i].topic);
        seats[i].partition = list->elems[i].partition;
        if (seats[i].topic < 0) { /* what we never subscribed to */
            free(seats);
            return NULL;
        }
    }
    return seats;
}

static bool is_cooperative(rd_kafka_t *rk)
{
    const char *protocol = rd_kafka_rebalance_protocol(rk);
    return protocol != NULL && strcmp(protocol, "COOPERATIVE") == 0;
}

static rd_kafka_resp_err_t tell_librdkafka(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list,
                                           bool add)
{
    if (!is_cooperative(rk)) {
        return rd_kafka_assign(rk, add ? list : NULL);
    }
    rd_kafka_error_t *error =
        add ? rd_kafka_incremental_assign(rk, list) : rd_kafka_incremental_unassign(rk, list);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    if (error != NULL) {
        code = rd_kafka_error_code(error);
        rd_kafka_error_destroy(error);
    }
    return code;
}

struct farewell {
    rd_kafka_t *rk;
    rd_kafka_topic_partition_list_t *list;
    bool add;
};

static void *say_farewell(void *context)
{
    struct farewell *farewell = context;
    (void)tell_librdkafka(farewell->rk, farewell->list, farewell->add);
    rd_kafka_topic_partition_list_destroy(farewell->list);
    free(farewell);
    return NULL;
}

/* Once it is closing, librdkafka 2.0.2 may never answer these calls, which wait without a limit (seen in a
 * storm of rebalances, one stop in some hundreds). So they are made on a thread of their own, and when it
 * does not come back the client is left to the end of the process. */
static void assign_closing(struct kafka_consumer *consumer, const rd_kafka_topic_partition_list_t *list,
                           bool add)
{
    pthread_t thread;
    struct farewell *farewell = calloc(1, sizeof *farewell);
    if (farewell == NULL) {
        consumer->stuck = true;
        return;
    }
    *farewell = (struct farewell){consumer->client.rk, rd_kafka_topic_partition_list_copy(list), add};
    if (pthread_create(&thread, NULL, say_farewell, farewell) != 0) {
        (void)say_farewell(farewell);
        return;
    }
    consumer->stuck = !kafka_thread_ends(thread, FAREWELL_MS);
}

/* Tells librdkafka what we hold from now on. */
static void assign(struct kafka_consumer *consumer, const rd_kafka_topic_partition_list_t *list, bool add)
{
    if (consumer->closing) {
        assign_closing(consumer, list, add);
        return;
    }
    rd_kafka_resp_err_t code = tell_librdkafka(consumer->client.rk, list, add);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka_client_error(&consumer->client, code, "assignment refused", "");
    }
}

static void take_seats(struct kafka_consumer *consumer, rd_kafka_topic_partition_list_t *list)
{
    struct fault fault;
    fault_reset(&fault);
    struct kafka_seat *seats = seats_make(consumer, list);
    enum status status = ST_RETRY;
    if (seats != NULL && !consumer->closing) {
        status = ask_offsets(consumer, list, seats, &fault);
    }
    if (status == ST_OK) {
        status = consumer->on_assign(consumer->context, seats, (size_t)list->cnt, &fault);
    }
    if (status == ST_OK && !kafka_held_add(consumer, seats, (size_t)list->cnt)) {
        fault_set(&fault, "partitions", "more than %d partitions", KAFKA_PARTITIONS_MAX);
        status = ST_STOP;
    }
    for (int i = 0; i < list->cnt; i++) {
        list->elems[i].offset = status == ST_OK ? seats[i].start : RD_KAFKA_OFFSET_BEGINNING;
    }
    /* What could not be seated is taken all the same, because librdkafka waits for an answer with partitions
     * in it; but it is not held, so none of its records gets out before the group is left. */
    assign(consumer, list, true);
    if (status == ST_OK && consumer->paused && list->cnt > 0) {
        (void)rd_kafka_pause_partitions(consumer->client.rk, list);
    }
    for (int i = 0; status == ST_OK && i < list->cnt; i++) {
        kafka_topic_tell(consumer, seats[i].topic, false, "the topic is there");
    }
    consumer->seat_status = status;
    consumer->seat_fault = fault;
    free(seats);
}

static void give_seats(struct kafka_consumer *consumer, rd_kafka_topic_partition_list_t *list)
{
    bool lost = rd_kafka_assignment_lost(consumer->client.rk) != 0;
    struct kafka_seat *seats = seats_make(consumer, list);
    size_t count = 0;
    for (int i = 0; seats != NULL && i < list->cnt; i++) {
        const struct kafka_held *held = kafka_held_find(consumer, seats[i].topic, seats[i].partition);
        if (held != NULL) {
            seats[count] = seats[i];
            seats[count++].start = held->position;
        }
    }
    if (count > 0) {
        consumer->on_revoke(consumer->context, seats, count, lost);
        kafka_held_remove(consumer, seats, count);
    }
    if (consumer->paused && list->cnt > 0) {
        /* The mark outlives the assignment: without this the partition would come back paused. */
        (void)rd_kafka_resume_partitions(consumer->client.rk, list);
    }
    assign(consumer, list, false);
    free(seats);
}

void kafka_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t *list,
                     void *opaque)
{
    struct kafka_consumer *consumer = opaque;
    if (error == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        take_seats(consumer, list);
    } else if (error == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS) {
        give_seats(consumer, list);
    } else {
        (void)rd_kafka_assign(rk, NULL);
    }
}
