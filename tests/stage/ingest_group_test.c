/* The consumer group: which protocol shares the partitions, what a member that comes, goes, is replaced or is
 * declared dead does to the others, and how much is fetched ahead. */
#include <criterion/criterion.h>
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest_case.h"

enum { PARTITIONS = 4, CALL_MS = 10000 };

static void produce_numbers(struct world *w, int from, int to)
{
    for (int i = from; i < to; i++) {
        char value[256];
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u%d\","
            "\"title\":\"number %d\"}",
            i, i % 50, i);
        world_produce_fast(w, w->events, i % PARTITIONS, NULL, value);
    }
    world_flush(w);
}

static int64_t rows(struct world *w)
{
    return world_count(w, "SELECT count(*) FROM notifications");
}

/* Each record once: what was read twice would be counted, and be a duplicate. */
static void check_once(struct world *w, const char *what, int64_t events)
{
    world_wait_count(w, events, "SELECT count(*) FROM notifications");
    case_wait_read(w);
    int64_t records = world_count(w, "SELECT sum(records) FROM partition_offsets");
    int64_t duplicates = world_count(w, "SELECT sum(duplicates) FROM partition_offsets");
    printf("%s: %lld events, %lld rows, %lld records counted, %lld duplicates\n", what, (long long)events,
           (long long)rows(w), (long long)records, (long long)duplicates);
    cr_assert_eq(rows(w), events);
    cr_assert_eq(records, events);
    cr_assert_eq(duplicates, 0);
}

static int partitions_of(struct child *child)
{
    return (int)child_metric(child, "belfry_ingest_partitions");
}

/* Partitions of both topics. */
static void wait_partitions(struct child *child, int partitions)
{
    int64_t deadline = world_now_ms() + 60000;
    while (partitions_of(child) != partitions) {
        cr_assert(world_now_ms() < deadline, "%s holds %d partitions, not %d", child->name,
                  partitions_of(child), partitions);
        world_sleep_ms(50);
    }
}

/* The group's protocol and members, as the broker tells them. */
static void group_of(struct world *w, char *protocol, size_t size, int *members)
{
    const struct rd_kafka_group_list *list = NULL;
    rd_kafka_resp_err_t error = rd_kafka_list_groups(w->producer, w->group, &list, CALL_MS);
    cr_assert(error == RD_KAFKA_RESP_ERR_NO_ERROR && list->group_cnt == 1, "%s", rd_kafka_err2str(error));
    snprintf(protocol, size, "%s", list->groups[0].protocol);
    *members = list->groups[0].member_cnt;
    rd_kafka_group_list_destroy(list);
}

/* Σ of the offsets the group has committed in Kafka. */
static int64_t committed(struct world *w)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(PARTITIONS);
    for (int i = 0; i < PARTITIONS; i++)
        rd_kafka_topic_partition_list_add(list, w->events, i);
    rd_kafka_ListConsumerGroupOffsets_t *ask = rd_kafka_ListConsumerGroupOffsets_new(w->group, list);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(w->producer);
    rd_kafka_ListConsumerGroupOffsets(w->producer, &ask, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, CALL_MS);
    const rd_kafka_ListConsumerGroupOffsets_result_t *result =
        event == NULL ? NULL : rd_kafka_event_ListConsumerGroupOffsets_result(event);
    cr_assert(result != NULL);
    size_t groups = 0;
    const rd_kafka_group_result_t *const *group =
        rd_kafka_ListConsumerGroupOffsets_result_groups(result, &groups);
    cr_assert(groups == 1 && rd_kafka_group_result_error(group[0]) == NULL);
    const rd_kafka_topic_partition_list_t *found = rd_kafka_group_result_partitions(group[0]);
    int64_t sum = 0;
    for (int i = 0; i < found->cnt; i++)
        sum += found->elems[i].offset > 0 ? found->elems[i].offset : 0;
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ListConsumerGroupOffsets_destroy(ask);
    rd_kafka_topic_partition_list_destroy(list);
    return sum;
}

/* ---- how partitions are shared ------------------------------------------------------------------------- */

/* A second member comes and goes while events flow. */
static void share(const char *name, const char *extra, const char *protocol, int gives_back)
{
    struct world w;
    char seen[64], gone[64];
    int members = 0;
    case_open(&w, name, PARTITIONS);
    struct child *first = case_dispatcher(&w, extra);
    produce_numbers(&w, 0, 200);
    wait_partitions(first, 2 * PARTITIONS);
    produce_numbers(&w, 200, 400);
    struct child *second = case_dispatcher(&w, extra);
    wait_partitions(second, PARTITIONS);
    wait_partitions(first, PARTITIONS);
    group_of(&w, seen, sizeof seen, &members);
    snprintf(gone, sizeof gone, "\"partitions\":%d,", gives_back);
    printf("%s: protocol \"%s\", %d members, %d and %d partitions of both topics; the first gave back %d: "
           "%s\n",
           name, seen, members, partitions_of(first), partitions_of(second), gives_back,
           child_log_has(first, gone) ? "yes" : "no");
    cr_assert_str_eq(seen, protocol);
    cr_assert_eq(members, 2);
    cr_assert(child_log_has(first, gone));
    produce_numbers(&w, 400, 600);
    child_stop(second);
    wait_partitions(first, 2 * PARTITIONS);
    produce_numbers(&w, 600, 800);
    check_once(&w, name, 800);
    case_close(&w, first);
}

/* librdkafka before 2.6 loops under the cooperative protocol when client ids or subscriptions collide. */
Test(group, range_by_default, .timeout = 120)
{
    printf("librdkafka %s\n", rd_kafka_version_str());
    share("range", NULL, "range", 2 * PARTITIONS);
}

Test(group, another_by_configuration, .timeout = 200)
{
    share("sticky", "[kafka]\npartition.assignment.strategy = cooperative-sticky\n", "cooperative-sticky",
          PARTITIONS);
    share("robin", "[kafka]\npartition.assignment.strategy = roundrobin\n", "roundrobin", 2 * PARTITIONS);
}

/* ---- static members ------------------------------------------------------------------------------------ */

/* Restarted within its session, a static member finds its partitions again, and nobody else notices. */
Test(group, a_static_member_comes_back_unnoticed, .timeout = 120)
{
    struct world w;
    case_open(&w, "static", PARTITIONS);
    const char *one = "[kafka]\ngroup.instance.id = one\nsession.timeout.ms = 30000\n";
    struct child *stays =
        case_dispatcher(&w, "[kafka]\ngroup.instance.id = two\nsession.timeout.ms = 30000\n");
    struct child *leaves = case_dispatcher(&w, one);
    wait_partitions(stays, PARTITIONS);
    wait_partitions(leaves, PARTITIONS);
    int revoked = child_log_lines(stays, "ING-REVOKED");
    double rebalances = child_metric(stays, "belfry_ingest_rebalances_total");
    produce_numbers(&w, 0, 400);
    check_once(&w, "both there", 400);
    child_stop(leaves);
    produce_numbers(&w, 400, 800);
    world_wait_count(&w, 600, "SELECT count(*) FROM notifications");
    world_sleep_ms(2000);
    printf("one is away: %lld of 800 rows, its partitions wait for it\n", (long long)rows(&w));
    cr_assert_eq(rows(&w), 600);
    leaves = case_dispatcher(&w, one);
    check_once(&w, "it is back", 800);
    printf("the other one: %d revocations before, %d after; %.0f rebalances before, %.0f after\n", revoked,
           child_log_lines(stays, "ING-REVOKED"), rebalances,
           child_metric(stays, "belfry_ingest_rebalances_total"));
    cr_assert_eq(child_log_lines(stays, "ING-REVOKED"), revoked);
    cr_assert_eq(child_metric(stays, "belfry_ingest_rebalances_total"), rebalances);
    cr_assert_eq(partitions_of(leaves), PARTITIONS);
    child_stop(leaves);
    case_close(&w, stays);
}

/* ---- a batch in hand when its partitions go ------------------------------------------------------------ */

/* Another member comes while a batch is with the database: what is given back is dropped, the statement on
 * the wire moves nothing, and the new owner reads it again from where the table stands. */
Test(group, a_revoked_batch_is_dropped, .timeout = 120)
{
    struct world w;
    case_open(&w, "revoked", PARTITIONS);
    struct child *first = case_dispatcher(&w, NULL);
    produce_numbers(&w, 0, 200);
    check_once(&w, "before", 200);
    void *lock = case_lock(&w);
    produce_numbers(&w, 200, 400);
    case_wait_blocked(&w, 1);
    struct child *second = case_dispatcher(&w, NULL);
    child_wait_log(first, "ING-REVOKED", 30);
    wait_partitions(second, PARTITIONS);
    int64_t open =
        world_count(&w, "SELECT sum(next_offset) FROM partition_offsets WHERE topic = '%s'", w.events);
    printf("given back with a batch at the database: offsets stand at %lld of 400\n", (long long)open);
    cr_assert_eq(open, 200);
    case_unlock(lock);
    check_once(&w, "after", 400);
    child_stop(second);
    case_close(&w, first);
}

/* Frozen past its session with a batch at the database: whoever has the partitions now stores it, and the one
 * that wakes commits nothing, neither in the database nor in Kafka. */
Test(group, a_lost_partition_commits_nothing, .timeout = 120)
{
    struct world w;
    const char *brief = "[kafka]\nsession.timeout.ms = 2000\nheartbeat.interval.ms = 250\n";
    case_open(&w, "lost", PARTITIONS);
    struct child *first = case_dispatcher(&w, brief);
    produce_numbers(&w, 0, 200);
    check_once(&w, "before", 200);
    cr_assert_eq(world_lag(&w, w.group, w.events), 0);
    void *lock = case_lock(&w);
    produce_numbers(&w, 200, 400);
    case_wait_blocked(&w, 1);
    child_signal(first, SIGSTOP);
    struct child *second = case_dispatcher(&w, brief);
    wait_partitions(second, 2 * PARTITIONS);
    case_wait_blocked(&w, 2);
    case_unlock(lock); /* the frozen one's statement is first in the queue */
    check_once(&w, "stored by the other", 400);
    cr_assert_eq(world_lag(&w, w.group, w.events), 0);
    int64_t before = committed(&w);
    child_signal(first, SIGCONT);
    int64_t deadline = world_now_ms() + 30000;
    while (!child_log_has(first, "ING-PARTITIONS-LOST") && !child_log_has(first, "ING-FENCED")) {
        cr_assert(world_now_ms() < deadline, "it does not find out: see %s", first->log);
        world_sleep_ms(50);
    }
    wait_partitions(first, PARTITIONS);
    int64_t after = committed(&w);
    printf("it woke and found out: lost %d, fenced %d; committed in Kafka %lld before, %lld after\n",
           child_log_lines(first, "ING-PARTITIONS-LOST"), child_log_lines(first, "ING-FENCED"),
           (long long)before, (long long)after);
    cr_assert_eq(before, 400);
    cr_assert_eq(after, 400);
    produce_numbers(&w, 400, 600);
    check_once(&w, "both go on", 600);
    child_stop(second);
    case_close(&w, first);
}

/* ---- how much is fetched ahead ------------------------------------------------------------------------- */

struct ahead {
    int64_t rss_kib_max, fetched_max;
    int full; /* samples with at least half the bound in librdkafka's queue */
};

static void sample(struct child *dispatcher, struct ahead *ahead)
{
    int64_t rss = child_rss_kib(dispatcher);
    int64_t fetched = (int64_t)child_metric(dispatcher, "belfry_kafka_prefetched_bytes");
    ahead->rss_kib_max = rss > ahead->rss_kib_max ? rss : ahead->rss_kib_max;
    ahead->fetched_max = fetched > ahead->fetched_max ? fetched : ahead->fetched_max;
    ahead->full += fetched >= 16 * 1024 * 1024;
}

/* 20 KiB each; what is not in the contract is ignored, so the database gets little. */
static void produce_large(struct world *w, int count)
{
    enum { PAD = 20 * 1024 };
    char *value = malloc(PAD + 512);
    for (int i = 0; i < count; i++) {
        int at = sprintf(value,
                         "{\"run_id\":\"big%d\",\"event_type\":\"t\",\"workspace_id\":\"w\","
                         "\"recipient_user_id\":\"u\",\"title\":\"x\",\"pad\":\"",
                         i);
        memset(value + at, 'a' + i % 26, PAD);
        snprintf(value + at + PAD, 8, "\"}");
        world_produce_fast(w, w->events, i % PARTITIONS, NULL, value);
        if (i % 2000 == 1999)
            world_flush(w);
    }
    world_flush(w);
    free(value);
}

/* A topic of 200 MiB, and a database that takes 4 MiB in a third of a second, then nothing for a while. */
Test(group, prefetch_is_bounded, .timeout = 280)
{
    enum { EVENTS = 10240, BOUND = (32 + 4) * 1024 * 1024, OVER_KIB = 80 * 1024 };
    struct world w;
    struct ahead slow = {0, 0, 0}, stopped = {0, 0, 0};
    case_open(&w, "prefetch", PARTITIONS);
    world_exec(&w, "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
                   "'BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END'");
    world_exec(&w, "CREATE TRIGGER slow AFTER INSERT ON notifications FOR EACH STATEMENT "
                   "EXECUTE FUNCTION slow()");
    struct child *dispatcher = case_dispatcher(&w, NULL);
    int64_t idle_kib = child_rss_kib(dispatcher);
    produce_large(&w, EVENTS);
    while (rows(&w) < EVENTS * 7 / 10) {
        sample(dispatcher, &slow);
        world_sleep_ms(100);
    }
    double pauses = child_metric(dispatcher, "belfry_kafka_pauses_total");
    printf("slow database: %lld MiB in the topic, RSS %lld KiB idle, at most %lld KiB; fetched ahead at most "
           "%lld bytes of %d, %d samples at half of it or more; %.0f pauses\n",
           EVENTS * 20LL / 1024, (long long)idle_kib, (long long)slow.rss_kib_max,
           (long long)slow.fetched_max, BOUND, slow.full, pauses);
    cr_assert_eq(pauses, 0, "pausing is the exception");
    cr_assert_gt(slow.full, 0, "it was filled");
    cr_assert_leq(slow.fetched_max, BOUND);

    void *lock = case_lock(&w);
    int64_t until = world_now_ms() + 8000; /* librdkafka tells its figures every 5 s */
    while (world_now_ms() < until) {
        sample(dispatcher, &stopped);
        world_sleep_ms(100);
    }
    int64_t left = (int64_t)child_metric(dispatcher, "belfry_kafka_prefetched_bytes");
    pauses = child_metric(dispatcher, "belfry_kafka_pauses_total");
    printf(
        "stopped database: RSS at most %lld KiB; fetched ahead at most %lld bytes, then %lld; %.0f pause\n",
        (long long)stopped.rss_kib_max, (long long)stopped.fetched_max, (long long)left, pauses);
    cr_assert_eq(pauses, 1);
    cr_assert_leq(stopped.fetched_max, BOUND);
    cr_assert_eq(left, 0);
#ifndef __SANITIZE_ADDRESS__ /* it keeps freed memory for a while, on purpose */
    cr_assert_lt(slow.rss_kib_max, idle_kib + OVER_KIB);
    cr_assert_lt(stopped.rss_kib_max, idle_kib + OVER_KIB);
#endif
    case_unlock(lock);
    world_exec(&w, "DROP TRIGGER slow ON notifications");
    check_once(&w, "in the end", EVENTS);
    case_close(&w, dispatcher);
}
