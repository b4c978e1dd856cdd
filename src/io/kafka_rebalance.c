/* Partitions come and go: librdkafka's rebalance callback on one side, on_assign and on_revoke on the other.
 *
 * A partition that comes is asked where it begins and ends (kafka_seating.c), then on_assign says where it
 * starts. What on_assign refuses is never held: the caller hears of it from kafka_consumer_poll and the group
 * is left. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kafka_private.h"

enum { FAREWELL_MS = 2000 };

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

/* Where librdkafka begins to read: the seats that were taken at their start, in front; the others wait. */
static void set_starts(const struct kafka_consumer *consumer, rd_kafka_topic_partition_list_t *list,
                       const struct kafka_seat *seats, size_t seated)
{
    for (int i = 0; i < list->cnt; i++) {
        list->elems[i].offset = RD_KAFKA_OFFSET_BEGINNING;
    }
    for (size_t i = 0; i < seated; i++) {
        (void)rd_kafka_topic_partition_list_set_offset(list, consumer->topics[seats[i].topic],
                                                       seats[i].partition, seats[i].start);
    }
}

static void take_seats(struct kafka_consumer *consumer, rd_kafka_topic_partition_list_t *list)
{
    struct fault fault;
    fault_reset(&fault);
    struct kafka_seat *seats = seats_make(consumer, list);
    enum status status = ST_RETRY;
    size_t count = (size_t)list->cnt, seated = 0;
    if (seats != NULL && !consumer->closing) {
        status = kafka_seating_begin(consumer, seats, count, &seated, &fault);
    }
    set_starts(consumer, list, seats, seated);
    /* What could not be seated is taken all the same, because librdkafka waits for an answer with partitions
     * in it; but it is not held, so none of its records gets out before it is, or the group is left. */
    assign(consumer, list, true);
    if (status == ST_OK && consumer->paused && list->cnt > 0) {
        (void)rd_kafka_pause_partitions(consumer->client.rk, list);
    } else if (status == ST_OK) {
        kafka_seating_pause(consumer);
    }
    consumer->seat_status = status;
    consumer->seat_fault = fault;
    free(seats);
}

static void give_seats(struct kafka_consumer *consumer, rd_kafka_topic_partition_list_t *list)
{
    bool lost = rd_kafka_assignment_lost(consumer->client.rk) != 0;
    bool marked = consumer->paused || consumer->waiting_count > 0;
    struct kafka_seat *seats = seats_make(consumer, list);
    size_t count = 0;
    if (seats != NULL) {
        kafka_seating_drop(consumer, seats, (size_t)list->cnt);
    }
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
    if (marked && list->cnt > 0) {
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
