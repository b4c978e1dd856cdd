/* Where do the partitions given to us begin and end? In: seats; out: those whose brokers answered, with the
 * group's offset and the watermarks, and the others, which wait.
 *
 * Always: one round takes a few seconds at most, so one broker that is away holds up neither the partitions
 * of the others nor the membership of the group. What waits is paused and not held; it is asked again, ever
 * more seldom, from kafka_consumer_poll. A crash here loses nothing: nothing was read yet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kafka_private.h"

/* A round may take so long; a single partition a part of it. */
enum { FIRST_ROUND_MS = 3000, ROUND_MS = 1000, ONE_MS = 1000, AGAIN_FIRST_MS = 500, AGAIN_MAX_MS = 10000 };

static const int64_t NOT_TOLD = INT64_MIN;

/* Asking again cannot mend these. */
static bool is_final(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED || kafka_judge(error) == ST_FATAL;
}

static int left_ms(int64_t until_ms, int most_ms)
{
    int64_t left = until_ms - clock_monotonic_ms(&clock_system);
    return left < 1 ? 1 : left < most_ms ? (int)left : most_ms;
}

static rd_kafka_topic_partition_list_t *list_of(const struct kafka_consumer *consumer,
                                                const struct kafka_seat *seats, size_t count)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count + 1);
    for (size_t i = 0; i < count; i++) {
        rd_kafka_topic_partition_list_add(list, consumer->topics[seats[i].topic], seats[i].partition)
            ->offset = seats[i].start;
    }
    return list;
}

/* ---- one question ---------------------------------------------------------------------------------------
 * Not rd_kafka_query_watermark_offsets: with its leader away 2.0.2 waits far beyond the timeout it is given
 * (minutes seen). The look-up by time keeps to it, and asks a leader for all its partitions at once; where a
 * partition begins and ends are two times of the protocol's own. */

rd_kafka_resp_err_t kafka_ask_edge(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list, int64_t edge,
                                   int timeout_ms)
{
    for (int i = 0; i < list->cnt; i++) {
        list->elems[i].offset = edge;
        list->elems[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(rk, list, timeout_ms);
    for (int i = 0; i < list->cnt && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        error = list->elems[i].err;
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR && list->elems[i].offset < 0) {
            error = RD_KAFKA_RESP_ERR__TIMED_OUT; /* left as it was: no answer */
        }
    }
    return error;
}

/* Fills low and high of all of them, which have one leader, or of none. */
static rd_kafka_resp_err_t ask_watermarks(struct kafka_consumer *consumer, struct kafka_seat *seats,
                                          size_t count, int timeout_ms)
{
    int64_t until_ms = clock_monotonic_ms(&clock_system) + timeout_ms;
    rd_kafka_topic_partition_list_t *low = list_of(consumer, seats, count);
    rd_kafka_topic_partition_list_t *high = list_of(consumer, seats, count);
    rd_kafka_resp_err_t error =
        kafka_ask_edge(consumer->client.rk, low, RD_KAFKA_OFFSET_BEGINNING, timeout_ms);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        error = kafka_ask_edge(consumer->client.rk, high, RD_KAFKA_OFFSET_END, left_ms(until_ms, timeout_ms));
    }
    for (size_t i = 0; i < count && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        seats[i].low = low->elems[i].offset;
        seats[i].high = high->elems[i].offset;
    }
    rd_kafka_topic_partition_list_destroy(low);
    rd_kafka_topic_partition_list_destroy(high);
    return error;
}

enum status kafka_consumer_ask_watermarks(struct kafka_consumer *consumer, struct kafka_seat *seat,
                                          struct fault *fault)
{
    rd_kafka_resp_err_t error = ask_watermarks(consumer, seat, 1, ROUND_MS);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR ? ST_OK : kafka_fault(fault, error, NULL);
}

/* Fills committed of all seats; of one that gives an error of its own, NOT_TOLD. */
static rd_kafka_resp_err_t ask_committed(struct kafka_consumer *consumer, struct kafka_seat *seats,
                                         size_t count, int timeout_ms)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count + 1);
    for (size_t i = 0; i < count; i++) {
        rd_kafka_topic_partition_list_add(list, consumer->topics[seats[i].topic], seats[i].partition);
    }
    rd_kafka_resp_err_t error =
        count == 0 ? RD_KAFKA_RESP_ERR_NO_ERROR : rd_kafka_committed(consumer->client.rk, list, timeout_ms);
    for (size_t i = 0; i < count && error == RD_KAFKA_RESP_ERR_NO_ERROR; i++) {
        rd_kafka_resp_err_t one = list->elems[i].err;
        seats[i].committed = list->elems[i].offset >= 0 ? list->elems[i].offset : -1;
        if (one != RD_KAFKA_RESP_ERR_NO_ERROR) {
            seats[i].committed = NOT_TOLD;
            consumer->waiting_why = one;
        }
        error = is_final(one) ? one : error;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return error;
}

/* ---- a round ------------------------------------------------------------------------------------------- */

enum { LEADER_UNKNOWN = -1 };

/* Fills start with the leader's id, where the group's offset is known. */
static rd_kafka_resp_err_t find_leaders(struct kafka_consumer *consumer, int topic, struct kafka_seat *seats,
                                        size_t count, int timeout_ms)
{
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_topic_t *handle = rd_kafka_topic_new(consumer->client.rk, consumer->topics[topic], NULL);
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__FAIL;
    if (handle != NULL) {
        error = rd_kafka_metadata(consumer->client.rk, 0, handle, &metadata, timeout_ms);
        rd_kafka_topic_destroy(handle);
    }
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return error;
    }
    for (size_t i = 0; i < count && metadata->topic_cnt == 1; i++) {
        const struct rd_kafka_metadata_topic *found = &metadata->topics[0];
        bool wanted = seats[i].topic == topic && seats[i].committed != NOT_TOLD;
        for (int k = 0; wanted && k < found->partition_cnt; k++) {
            if (found->partitions[k].id == seats[i].partition) {
                seats[i].start = found->partitions[k].leader;
            }
        }
    }
    rd_kafka_metadata_destroy(metadata);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static int by_leader(const void *a, const void *b)
{
    const struct kafka_seat *left = a, *right = b;
    if (left->start != right->start) {
        return left->start < right->start ? -1 : 1;
    }
    if (left->topic != right->topic) {
        return left->topic < right->topic ? -1 : 1;
    }
    return (left->partition > right->partition) - (left->partition < right->partition);
}

/* Sorts the seats by their leaders; start is the leader until the seat has one. */
static rd_kafka_resp_err_t sort_by_leader(struct kafka_consumer *consumer, struct kafka_seat *seats,
                                          size_t count, int64_t until_ms)
{
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    bool asked[KAFKA_TOPICS_MAX] = {false};
    for (size_t i = 0; i < count; i++) {
        seats[i].start = LEADER_UNKNOWN;
    }
    for (size_t i = 0; i < count && !is_final(error); i++) {
        if (!asked[seats[i].topic]) {
            rd_kafka_resp_err_t one =
                find_leaders(consumer, seats[i].topic, seats, count, left_ms(until_ms, ONE_MS));
            asked[seats[i].topic] = true;
            error = one != RD_KAFKA_RESP_ERR_NO_ERROR ? one : error;
        }
    }
    qsort(seats, count, sizeof *seats, by_leader);
    return error;
}

/* How many from the first on have its leader, and are to be asked together. */
static size_t run_of(const struct kafka_seat *seats, size_t count)
{
    size_t run = 1;
    while (run < count && seats[run].start == seats[0].start) {
        run++;
    }
    return run;
}

/* Begins with another leader each turn, so that those that are away starve none. */
static void rotate(struct kafka_seat *seats, size_t count, unsigned turn)
{
    size_t runs = 0, first = 0;
    struct kafka_seat *copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; i < count; i += run_of(seats + i, count - i)) {
        runs++;
    }
    for (unsigned i = 0; runs > 0 && i < turn % runs; i++) {
        first += run_of(seats + first, count - first);
    }
    if (copy != NULL) { /* else in the order of before: only less fair */
        memcpy(copy, seats + first, (count - first) * sizeof *seats);
        memcpy(copy + count - first, seats, first * sizeof *seats);
        memcpy(seats, copy, count * sizeof *seats);
    }
    free(copy);
}

/* Seats of one leader that answered: to the front, among those that did before. */
static void bring_forward(struct kafka_seat *seats, size_t from, size_t run, size_t *answered)
{
    for (size_t i = from; i < from + run; i++) {
        struct kafka_seat swapped = seats[*answered];
        seats[*answered] = seats[i];
        seats[i] = swapped;
        seats[*answered].start = seats[*answered].low;
        ++*answered;
    }
}

/* Asks leader after leader until the time is up. Gives the last error. */
static rd_kafka_resp_err_t ask_leaders(struct kafka_consumer *consumer, struct kafka_seat *seats,
                                       size_t count, int64_t until_ms, size_t *answered)
{
    rd_kafka_resp_err_t why = sort_by_leader(consumer, seats, count, until_ms);
    rotate(seats, count, consumer->waiting_turn++);
    for (size_t i = 0; i < count && !is_final(why) && clock_monotonic_ms(&clock_system) < until_ms;) {
        size_t run = run_of(seats + i, count - i);
        rd_kafka_resp_err_t one = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
        if (seats[i].start != LEADER_UNKNOWN) {
            one = ask_watermarks(consumer, seats + i, run, left_ms(until_ms, ONE_MS));
        }
        if (one == RD_KAFKA_RESP_ERR_NO_ERROR) {
            bring_forward(seats, i, run, answered);
        } else {
            why = one;
        }
        i += run;
    }
    return why;
}

/* One round. *answered of the seats, which stand in front now, say where they begin and end; none may have.
 * Gives only an error that is final. */
static rd_kafka_resp_err_t ask(struct kafka_consumer *consumer, struct kafka_seat *seats, size_t count,
                               int round_ms, size_t *answered)
{
    int64_t until_ms = clock_monotonic_ms(&clock_system) + round_ms;
    *answered = 0;
    if (count == 0) {
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    rd_kafka_resp_err_t error = ask_committed(consumer, seats, count, round_ms);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        error = ask_leaders(consumer, seats, count, until_ms, answered);
    }
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        consumer->waiting_why = error;
    }
    return is_final(error) ? error : RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* ---- those that wait ----------------------------------------------------------------------------------- */

/* Says it when the first begins to wait and when none is left. */
static void tell(struct kafka_consumer *consumer, size_t before)
{
    char text[128] = "all partitions say where they begin";
    size_t now = consumer->waiting_count;
    kafka_client_show_unseated(&consumer->client, now);
    if ((before == 0) == (now == 0)) {
        return;
    }
    if (now > 0) {
        (void)snprintf(text, sizeof text, "%zu partitions do not say where they begin (%s): asking again",
                       now, rd_kafka_err2name(consumer->waiting_why));
    }
    kafka_client_notice(
        &consumer->client,
        &(struct kafka_notice){.kind = now > 0 ? KAFKA_NOTICE_UNSEATED : KAFKA_NOTICE_SEATED,
                               .severity = now > 0 ? 4 : 6,
                               .code = now > 0 ? rd_kafka_err2name(consumer->waiting_why) : "",
                               .text = text,
                               .topic = ""});
}

static void wait_longer(struct kafka_consumer *consumer, bool progress)
{
    int pause_ms = progress ? AGAIN_FIRST_MS : consumer->waiting_pause_ms * 2;
    consumer->waiting_pause_ms = pause_ms > AGAIN_MAX_MS ? AGAIN_MAX_MS : pause_ms;
    consumer->waiting_ask_ms = clock_monotonic_ms(&clock_system) + consumer->waiting_pause_ms;
}

/* Those of the list that did not answer: assigned, and paused until they are seated. */
static bool keep_waiting(struct kafka_consumer *consumer, const struct kafka_seat *seats, size_t count)
{
    size_t before = consumer->waiting_count;
    if (count == 0) {
        return true;
    }
    struct kafka_seat *more = realloc(consumer->waiting, (before + count) * sizeof *more);
    if (more == NULL) {
        return false;
    }
    consumer->waiting = more;
    memcpy(more + before, seats, count * sizeof *seats);
    consumer->waiting_count = before + count;
    wait_longer(consumer, true);
    tell(consumer, before);
    return true;
}

void kafka_seating_pause(const struct kafka_consumer *consumer)
{
    if (consumer->waiting_count > 0) {
        rd_kafka_topic_partition_list_t *list = list_of(consumer, consumer->waiting, consumer->waiting_count);
        (void)rd_kafka_pause_partitions(consumer->client.rk, list);
        rd_kafka_topic_partition_list_destroy(list);
    }
}

void kafka_seating_drop(struct kafka_consumer *consumer, const struct kafka_seat *seats, size_t count)
{
    size_t before = consumer->waiting_count;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < consumer->waiting_count; k++) {
            struct kafka_seat *waits = &consumer->waiting[k];
            if (waits->topic == seats[i].topic && waits->partition == seats[i].partition) {
                *waits = consumer->waiting[--consumer->waiting_count];
                break;
            }
        }
    }
    tell(consumer, before);
}

size_t kafka_consumer_unseated(const struct kafka_consumer *consumer)
{
    return consumer->waiting_count;
}

/* on_assign says where those that answered start, and they are held. */
static enum status seat(struct kafka_consumer *consumer, struct kafka_seat *seats, size_t count,
                        struct fault *fault)
{
    enum status status = consumer->on_assign(consumer->context, seats, count, fault);
    if (status == ST_OK && !kafka_held_add(consumer, seats, count)) {
        fault_set(fault, "partitions", "more than %d partitions", KAFKA_PARTITIONS_MAX);
        status = ST_STOP;
    }
    for (size_t i = 0; status == ST_OK && i < count; i++) {
        kafka_topic_tell(consumer, seats[i].topic, false, "the topic is there");
    }
    return status;
}

enum status kafka_seating_begin(struct kafka_consumer *consumer, struct kafka_seat *seats, size_t count,
                                size_t *seated, struct fault *fault)
{
    size_t answered = 0;
    rd_kafka_resp_err_t error = ask(consumer, seats, count, FIRST_ROUND_MS, &answered);
    enum status status = error == RD_KAFKA_RESP_ERR_NO_ERROR ? ST_OK : kafka_fault(fault, error, NULL);
    if (status == ST_OK && (answered > 0 || count == 0)) {
        status = seat(consumer, seats, answered, fault);
    }
    if (status == ST_OK && !keep_waiting(consumer, seats + answered, count - answered)) {
        fault_set(fault, "memory", "out of memory");
        status = ST_RETRY;
    }
    *seated = status == ST_OK ? answered : 0;
    return status;
}

/* They were assigned and paused: now they begin where on_assign said. Resumed first, because 2.0.2 resumes
 * behind the last record it handed out, wherever a seek had put it. While everything is paused this is left
 * to kafka_consumer_resume. */
static void begin_reading(struct kafka_consumer *consumer, const struct kafka_seat *seats, size_t count)
{
    struct fault ignored;
    if (count == 0 || consumer->paused) {
        return;
    }
    rd_kafka_topic_partition_list_t *list = list_of(consumer, seats, count);
    (void)rd_kafka_resume_partitions(consumer->client.rk, list);
    if (kafka_held_seek_list(consumer, list, &ignored) != ST_OK) {
        consumer->reseat = true;
    }
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_seating_again(struct kafka_consumer *consumer)
{
    struct fault fault;
    size_t answered = 0, before = consumer->waiting_count;
    if (before == 0 || clock_monotonic_ms(&clock_system) < consumer->waiting_ask_ms) {
        return;
    }
    fault_reset(&fault);
    rd_kafka_resp_err_t error = ask(consumer, consumer->waiting, before, ROUND_MS, &answered);
    enum status status = error == RD_KAFKA_RESP_ERR_NO_ERROR ? ST_OK : kafka_fault(&fault, error, NULL);
    if (status == ST_OK && answered > 0) {
        status = seat(consumer, consumer->waiting, answered, &fault);
    }
    if (status != ST_OK) { /* the poll that asked for this leaves the group */
        consumer->seat_status = status;
        consumer->seat_fault = fault;
        return;
    }
    begin_reading(consumer, consumer->waiting, answered);
    consumer->waiting_count -= answered;
    memmove(consumer->waiting, consumer->waiting + answered,
            consumer->waiting_count * sizeof *consumer->waiting);
    wait_longer(consumer, answered > 0);
    tell(consumer, before);
}
