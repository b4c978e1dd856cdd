/* The bound, the order, the wake-ups. */
#include "model/handover.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>

static struct handover *made(int batches_max)
{
    struct handover *handover = NULL;
    struct fault fault;
    cr_assert_eq(handover_new(batches_max, &handover, &fault), ST_OK);
    return handover;
}

static void put(struct handover *handover, int64_t id, bool urgent)
{
    cr_assert(handover_reserve(handover, 1));
    handover_put(handover, (struct handover_batch){.batch_id = id, .urgent = urgent, .unsent = 5});
}

static int64_t take(struct handover *handover)
{
    struct handover_batch batch;
    return handover_take(handover, 0, &batch) ? batch.batch_id : -1;
}

Test(handover, bound_counts_reserved_waiting_and_held)
{
    struct handover *handover = made(3);
    cr_assert_not(handover_reserve(handover, 4));
    cr_assert(handover_reserve(handover, 2)); /* reserved */
    put(handover, 1, false);                  /* waiting */
    cr_assert_not(handover_reserve(handover, 1));
    cr_assert_eq(take(handover), 1); /* held */
    cr_assert_not(handover_reserve(handover, 1));
    handover_release(handover, 1);
    cr_assert(handover_reserve(handover, 1));
    handover_release(handover, 3);
    cr_assert(handover_reserve(handover, 3));
    handover_release(handover, 3);
    handover_free(handover);
}

Test(handover, urgent_first_then_oldest)
{
    struct handover *handover = made(8);
    put(handover, 1, false);
    put(handover, 2, false);
    put(handover, 3, true);
    put(handover, 4, true);
    static const int64_t order[] = {3, 4, 1, 2, -1};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        cr_assert_eq(take(handover), order[i]);
    handover_free(handover);
}

Test(handover, stop_refuses_room_and_gives_what_waits)
{
    struct handover *handover = made(2);
    put(handover, 9, false);
    handover_stop(handover);
    cr_assert_not(handover_reserve(handover, 1));
    cr_assert_eq(take(handover), 9);
    struct handover_batch batch;
    cr_assert_not(handover_take(handover, 60000, &batch), "does not wait once stopped");
    handover_free(handover);
    handover_free(NULL);
}

static void *taker(void *argument)
{
    struct handover_batch batch;
    return handover_take(argument, 20000, &batch) && batch.batch_id == 7 ? argument : NULL;
}

static int64_t now_ms(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

Test(handover, put_wakes_a_waiting_taker)
{
    struct handover *handover = made(1);
    pthread_t thread;
    void *result = NULL;
    int64_t start = now_ms();
    cr_assert_eq(pthread_create(&thread, NULL, taker, handover), 0);
    put(handover, 7, false);
    pthread_join(thread, &result);
    cr_assert_eq(result, handover);
    cr_assert_lt(now_ms() - start, 10000);
    handover_free(handover);
}

Test(handover, stop_wakes_a_waiting_taker)
{
    struct handover *handover = made(1);
    pthread_t thread;
    void *result = handover;
    int64_t start = now_ms();
    cr_assert_eq(pthread_create(&thread, NULL, taker, handover), 0);
    handover_stop(handover);
    pthread_join(thread, &result);
    cr_assert_null(result);
    cr_assert_lt(now_ms() - start, 10000);
    handover_free(handover);
}

Test(handover, take_gives_up_after_its_time)
{
    struct handover *handover = made(1);
    struct handover_batch batch;
    int64_t start = now_ms();
    cr_assert_not(handover_take(handover, 30, &batch));
    cr_assert_geq(now_ms() - start, 29);
    handover_free(handover);
}
