/* io/kafka against a real broker: what the main job rests on, trap by trap (libraries.md). */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "kafka_private.h"
#include "support/harness.h"
/* after librdkafka's own header, which kafka_private.h brings */
#include <librdkafka/rdkafka_mock.h>

enum { RECORDS_SEEN_MAX = 4096, PATIENCE_MS = 30000 };

/* ---- a small world ------------------------------------------------------------------------------------- */

static char brokers[128];
static char topic_name[128], group_name[128];

static const char *strategy = "range";

static const struct config_pair *pairs(void)
{
    static struct config_pair all[] = {{.key = "bootstrap.servers", .value = brokers},
                                       {.key = "heartbeat.interval.ms", .value = "500"},
                                       {.key = "session.timeout.ms", .value = "6000"},
                                       {.key = "topic.metadata.refresh.interval.ms", .value = "1000"},
                                       {.key = "partition.assignment.strategy"}};
    all[4].value = strategy;
    return all;
}

static const struct config_pairs properties = {.count = 5};

static const struct config_pairs *kafka_properties(void)
{
    static struct config_pairs filled;
    filled = properties;
    filled.pairs = pairs();
    return &filled;
}

struct notices {
    int missing, found, unseated, seated, commit_failed, rebuilt;
};

static void on_notice(void *context, const struct kafka_notice *notice)
{
    struct notices *notices = context;
    notices->missing += notice->kind == KAFKA_NOTICE_TOPIC_MISSING;
    notices->found += notice->kind == KAFKA_NOTICE_TOPIC_FOUND;
    notices->unseated += notice->kind == KAFKA_NOTICE_UNSEATED;
    notices->seated += notice->kind == KAFKA_NOTICE_SEATED;
    notices->rebuilt += notice->kind == KAFKA_NOTICE_REBUILT;
    notices->commit_failed += notice->kind == KAFKA_NOTICE_COMMIT_FAILED;
}

static struct kafka_admin *admin;

static void open_world(void)
{
    FILE *file = fopen(BELFRY_SERVICES_DIR "/kafka.bootstrap", "r");
    cr_assert_not_null(file, "the services fixture is not up");
    cr_assert_not_null(fgets(brokers, sizeof brokers, file));
    brokers[strcspn(brokers, "\n")] = '\0';
    (void)fclose(file);
    (void)snprintf(topic_name, sizeof topic_name, "iokafka-%d-%lld", getpid(),
                   (long long)clock_wall_us(&clock_system));
    (void)snprintf(group_name, sizeof group_name, "%s-group", topic_name);
    struct fault fault;
    struct kafka_client_options options = {.properties = kafka_properties(), .client_name = "test"};
    cr_assert_eq(kafka_admin_open(&options, &admin, &fault), ST_OK, "%s", fault.text);
}

static void close_world(void)
{
    kafka_admin_close(admin);
}

static void make_topic(int partitions)
{
    struct fault fault;
    bool created = false;
    struct kafka_topic_config config[] = {{"retention.ms", "3600000"}, {"segment.ms", "600000"}};
    struct kafka_topic_spec spec = {
        .name = topic_name, .partitions = partitions, .replication = 1, .config = config, .config_count = 2};
    cr_assert_eq(kafka_admin_create_topic(admin, &spec, &created, &fault), ST_OK, "%s", fault.text);
    cr_assert(created);
}

struct deliveries {
    int ok, rejected, stopped;
    char code[FAULT_CODE_MAX];
};

static void on_delivery(void *context, int64_t opaque, enum status status, const struct fault *fault)
{
    struct deliveries *deliveries = context;
    deliveries->ok += status == ST_OK;
    deliveries->rejected += status == ST_REJECT;
    deliveries->stopped += status == ST_STOP;
    cr_assert(opaque >= 0);
    if (status != ST_OK) {
        (void)snprintf(deliveries->code, sizeof deliveries->code, "%s", fault->code);
    }
}

static struct kafka_producer *open_producer(struct deliveries *deliveries)
{
    struct fault fault;
    struct kafka_producer *producer = NULL;
    struct kafka_producer_options options = {
        .client = {.properties = kafka_properties(), .client_name = "test"},
        .records_max = 1000,
        .bytes_max = 64 * 1024 * 1024,
        .context = deliveries,
        .on_delivery = on_delivery};
    cr_assert_eq(kafka_producer_open(&options, &producer, &fault), ST_OK, "%s", fault.text);
    return producer;
}

static void produce(struct kafka_producer *producer, int32_t partition, const char *value, int64_t opaque)
{
    struct fault fault;
    struct kafka_header headers[] = {{span_of("a"), span_of("1")}, {span_of("n"), {NULL, 0}}};
    struct kafka_message message = {.topic = topic_name,
                                    .partition = partition,
                                    .key = span_of("k"),
                                    .value = span_of(value == NULL ? "" : value),
                                    .value_null = value == NULL,
                                    .headers = headers,
                                    .header_count = 2,
                                    .opaque = opaque,
                                    .timestamp_ms = 1700000000000 + opaque};
    cr_assert_eq(kafka_producer_send(producer, &message, &fault), ST_OK, "%s", fault.text);
}

static void produce_numbers(int32_t partition, int first, int count)
{
    struct deliveries deliveries = {0};
    struct kafka_producer *producer = open_producer(&deliveries);
    struct fault fault;
    for (int i = first; i < first + count; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        produce(producer, partition, text, i);
    }
    cr_assert_eq(kafka_producer_flush(producer, PATIENCE_MS, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(deliveries.ok, count);
    kafka_producer_close(producer, 5000);
}

/* A member that seats by the rule, with a table of offsets in memory standing in for Postgres. */
struct member {
    struct kafka_consumer *consumer;
    struct notices notices;
    int64_t table[16];
    struct kafka_seat last_seat;
    int assigned, revoked, lost;
    enum status refuse; /* on_assign answers this */
    int numbers[RECORDS_SEEN_MAX];
    int count;
};

static enum status on_assign(void *context, struct kafka_seat *seats, size_t count, struct fault *fault)
{
    struct member *member = context;
    if (member->refuse != ST_OK) {
        fault_set(fault, "refused", "the test refuses");
        return member->refuse;
    }
    for (size_t i = 0; i < count; i++) {
        seats[i].start = kafka_start_of(member->table[seats[i].partition], &seats[i]).offset;
        member->last_seat = seats[i];
    }
    member->assigned += (int)count;
    return ST_OK;
}

static void on_revoke(void *context, const struct kafka_seat *seats, size_t count, bool lost)
{
    struct member *member = context;
    (void)seats;
    member->revoked += (int)count;
    member->lost += lost;
    if (!lost) {
        kafka_consumer_commit(member->consumer, 2000);
    }
}

static void join_with(struct member *member, struct metrics *metrics)
{
    struct fault fault;
    const char *topics[] = {topic_name};
    for (int i = 0; i < 16; i++) {
        member->table[i] = -1;
    }
    struct kafka_consumer_options options = {.client = {.properties = kafka_properties(),
                                                        .client_name = "test",
                                                        .on_notice = on_notice,
                                                        .notice_context = &member->notices,
                                                        .metrics = metrics},
                                             .group = group_name,
                                             .topics = topics,
                                             .topic_count = 1,
                                             .context = member,
                                             .on_assign = on_assign,
                                             .on_revoke = on_revoke};
    cr_assert_eq(kafka_consumer_open(&options, &member->consumer, &fault), ST_OK, "%s", fault.text);
}

static void join(struct member *member)
{
    join_with(member, NULL);
}

/* Polls for at most ms; keeps the number of each record. True when one came. */
static bool take_one(struct member *member, int ms)
{
    struct fault fault;
    struct kafka_record record;
    bool got = false;
    enum status status = kafka_consumer_poll(member->consumer, ms, &record, &got, &fault);
    if (status == ST_RETRY) /* a topic just made may not have its leader yet: the caller asks again */
        return false;
    cr_assert_eq(status, ST_OK, "%s %s", fault.code, fault.text);
    if (got) {
        char text[16] = "";
        (void)snprintf(text, sizeof text, "%.*s", (int)record.value.bytes, record.value.at);
        cr_assert_lt(member->count, RECORDS_SEEN_MAX);
        member->numbers[member->count++] = record.value_null ? -1 : atoi(text);
        member->table[record.partition] = record.offset + 1;
        kafka_consumer_done(member->consumer, record.topic, record.partition, record.offset + 1);
        kafka_record_release(&record);
    }
    return got;
}

static void take_until(struct member *member, int count)
{
    int64_t until_ms = clock_monotonic_ms(&clock_system) + PATIENCE_MS;
    while (member->count < count && clock_monotonic_ms(&clock_system) < until_ms) {
        (void)take_one(member, 100);
    }
    cr_assert_eq(member->count, count, "%d records", member->count);
}

TestSuite(kafka, .init = open_world, .fini = close_world, .timeout = 120);

/* ---- tests --------------------------------------------------------------------------------------------- */

/* A broker that speaks no TLS looks like silence: the request times out, and the fault must say more. */
Test(kafka, a_request_that_times_out_says_what_the_connection_said)
{
    const struct config_pair tls[] = {{.key = "bootstrap.servers", .value = brokers},
                                      {.key = "security.protocol", .value = "ssl"}};
    const struct config_pairs with_tls = {.pairs = tls, .count = 2};
    const struct kafka_client_options options = {.properties = &with_tls, .client_name = "tls"};
    const struct kafka_topic_spec spec = {.name = "never", .partitions = 1, .replication = 1};
    struct kafka_admin *other = NULL;
    struct fault fault;
    bool created = true;
    cr_assert_eq(kafka_admin_open(&options, &other, &fault), ST_OK, "%s", fault.text);
    cr_expect_eq(kafka_admin_create_topic(other, &spec, &created, &fault), ST_RETRY);
    cr_log_info("%s", fault.text);
    cr_expect_not_null(strstr(fault.text, "no Kafka broker answers: "), "%s", fault.text);
    cr_expect_not_null(strstr(fault.text, brokers), "%s", fault.text);
    kafka_admin_close(other);
}

Test(kafka, admin_makes_a_topic_twice_and_reads_its_settings)
{
    struct fault fault;
    int count = 0;
    cr_assert_eq(kafka_admin_partitions(admin, topic_name, &count, &fault), ST_STOP, "it is not there yet");
    cr_assert_str_eq(fault.code, "UNKNOWN_TOPIC_OR_PART");
    make_topic(3);
    bool created = true;
    struct kafka_topic_spec spec = {.name = topic_name, .partitions = 5, .replication = 1};
    cr_assert_eq(kafka_admin_create_topic(admin, &spec, &created, &fault), ST_OK);
    cr_assert_not(created, "the second time it was there");
    cr_assert_eq(kafka_admin_partitions(admin, topic_name, &count, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(count, 3);
    struct kafka_config_value values[] = {
        {.name = "retention.ms"}, {.name = "segment.ms"}, {.name = "cleanup.policy"}, {.name = "no.such"}};
    cr_assert_eq(kafka_admin_topic_config(admin, topic_name, values, 4, &fault), ST_OK, "%s", fault.text);
    cr_assert_str_eq(values[0].value, "3600000");
    cr_assert_str_eq(values[1].value, "600000");
    cr_assert_str_eq(values[2].value, "delete");
    cr_assert_str_eq(values[3].value, "");
}

Test(kafka, a_record_arrives_whole)
{
    struct deliveries deliveries = {0};
    make_topic(1);
    struct kafka_producer *producer = open_producer(&deliveries);
    produce(producer, 0, "7", 7);
    produce(producer, 0, NULL, 8);
    struct fault fault;
    cr_assert_eq(kafka_producer_flush(producer, PATIENCE_MS, &fault), ST_OK, "%s", fault.text);
    struct member member = {0};
    join(&member);
    struct kafka_record record;
    bool got = false;
    while (!got) {
        cr_assert_eq(kafka_consumer_poll(member.consumer, 100, &record, &got, &fault), ST_OK);
    }
    cr_assert(span_is(record.key, "k") && span_is(record.value, "7") && !record.value_null);
    cr_assert_eq(record.timestamp_ms, 1700000000007);
    struct kafka_header header;
    cr_assert(kafka_record_header(&record, 0, &header) && span_is(header.name, "a"));
    cr_assert(kafka_record_header(&record, 1, &header) && header.value.at == NULL);
    cr_assert_not(kafka_record_header(&record, 2, &header));
    struct span value;
    cr_assert(kafka_record_find_header(&record, "a", &value) && span_is(value, "1"));
    kafka_record_release(&record);
    cr_assert_eq(kafka_consumer_poll(member.consumer, 5000, &record, &got, &fault), ST_OK);
    cr_assert(got && record.value_null, "a null value is a null value");
    kafka_record_release(&record);
    kafka_consumer_close(member.consumer, 5000);
    kafka_producer_close(producer, 5000);
}

Test(kafka, too_large_is_rejected_and_a_missing_topic_stops)
{
    struct deliveries deliveries = {0};
    make_topic(1);
    struct kafka_producer *producer = open_producer(&deliveries);
    struct fault fault;
    char *large = malloc(3 * 1024 * 1024);
    unsigned seed = 1; /* noise: what compresses well is not too large */
    for (size_t i = 0; i < 3 * 1024 * 1024 - 1; i++) {
        seed = seed * 1103515245 + 12345;
        large[i] = (char)(1 + (seed >> 16) % 255);
    }
    large[3 * 1024 * 1024 - 1] = '\0';
    produce(producer, 0, large, 1);
    produce(producer, 0, "2", 2);
    cr_assert_eq(kafka_producer_flush(producer, PATIENCE_MS, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(deliveries.rejected, 1, "%d rejected, %s", deliveries.rejected, deliveries.code);
    cr_assert_str_eq(deliveries.code, "MSG_SIZE_TOO_LARGE");
    cr_assert_eq(deliveries.ok, 1);
    free(large);
    /* A partition the topic does not have: told, not kept for ever. */
    struct kafka_message message = {
        .topic = topic_name, .partition = 9, .value = span_of("x"), .key_null = true, .timestamp_ms = -1};
    enum status status = kafka_producer_send(producer, &message, &fault);
    if (status == ST_OK) {
        cr_assert_eq(kafka_producer_flush(producer, PATIENCE_MS, &fault), ST_OK);
        cr_assert_eq(deliveries.stopped, 1);
    } else {
        cr_assert_eq(status, ST_STOP);
    }
    cr_assert_eq(kafka_producer_owed(producer), 0);
    kafka_producer_close(producer, 5000);
}

Test(kafka, a_full_producer_says_so_and_a_missing_broker_is_owed)
{
    struct deliveries deliveries = {0};
    (void)snprintf(brokers, sizeof brokers, "127.0.0.1:9"); /* discard: nobody listens */
    struct kafka_producer *producer = open_producer(&deliveries);
    for (int i = 0; i < 1000; i++) {
        produce(producer, 0, "x", i);
    }
    struct fault fault;
    struct kafka_message message = {.topic = topic_name, .value = span_of("x"), .key_null = true};
    cr_assert_eq(kafka_producer_send(producer, &message, &fault), ST_RETRY);
    cr_assert_str_eq(fault.code, "full");
    int64_t before_ms = clock_monotonic_ms(&clock_system);
    cr_assert_eq(kafka_producer_flush(producer, 300, &fault), ST_RETRY);
    kafka_producer_close(producer, 2000);
    int64_t took_ms = clock_monotonic_ms(&clock_system) - before_ms;
    cr_assert_lt(took_ms, 4000, "took %lld ms", (long long)took_ms);
    cr_assert_eq(deliveries.ok + deliveries.rejected + deliveries.stopped, 0);
}

/* librdkafka below 2.3.0 may call an idempotent producer dead for good: made anew, and nothing owed is lost.
 */
Test(kafka, a_producer_called_dead_is_made_anew)
{
    struct deliveries deliveries = {0};
    struct notices notices = {0};
    struct fault fault;
    make_topic(1);
    struct kafka_producer *producer = open_producer(&deliveries);
    struct kafka_client *client = (struct kafka_client *)producer; /* its first member */
    client->on_notice = on_notice;
    client->notice_context = &notices;
    for (int i = 0; i < 100; i++) {
        produce(producer, 0, "x", i);
        if (i == 50) {
            (void)rd_kafka_test_fatal_error(client->rk, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                                            "test");
        }
    }
    cr_assert_eq(kafka_producer_flush(producer, PATIENCE_MS, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(deliveries.ok, 100, "%d", deliveries.ok);
    cr_assert_eq(notices.rebuilt, 1);
    /* Unauthorised is no sequence error: nothing cures it. */
    produce(producer, 0, "x", 100);
    (void)rd_kafka_test_fatal_error(client->rk, RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, "test");
    enum status status = ST_OK;
    for (int i = 0; i < 50 && status == ST_OK; i++) {
        status = kafka_producer_poll(producer, 100, &fault);
    }
    cr_assert_eq(status, ST_FATAL);
    cr_assert_eq(fault.exit_code, EXIT_KAFKA);
    kafka_producer_close(producer, 5000);
}

Test(kafka, commits_only_rise_and_a_second_member_goes_on)
{
    make_topic(1);
    produce_numbers(0, 0, 20);
    struct member first = {0};
    join(&first);
    take_until(&first, 10);
    kafka_consumer_done(first.consumer, 0, 0, 3); /* lower than what is done: ignored */
    kafka_consumer_close(first.consumer, 10000);
    cr_assert_eq(first.revoked, 1, "close tells of what goes");
    struct member second = {0};
    join(&second);
    take_until(&second, 10);
    cr_assert_eq(second.last_seat.committed, 10, "%lld", (long long)second.last_seat.committed);
    cr_assert_eq(second.last_seat.high, 20);
    cr_assert_eq(second.numbers[0], 10);
    int64_t low = 0, high = 0;
    kafka_consumer_watermarks(second.consumer, 0, 0, &low, &high);
    cr_assert_eq(high, 20);
    kafka_consumer_close(second.consumer, 10000);
}

/* The lag that is left when nothing more comes is 0, also when the last commit met one under way. */
Test(kafka, what_is_done_last_is_committed_too)
{
    make_topic(1);
    produce_numbers(0, 0, 50);
    struct member member = {0};
    join(&member);
    for (int count = 1; count <= 50; count++) {
        take_until(&member, count); /* which says that they are done */
        kafka_consumer_commit(member.consumer, 0);
    }
    for (int i = 0; i < 20; i++)
        cr_assert_not(take_one(&member, 50), "nothing more comes");
    struct world w;
    world_open(&w, "kafka_lag");
    int64_t lag = world_lag(&w, group_name, topic_name);
    cr_assert_eq(lag, 0, "%lld", (long long)lag);
    world_close(&w);
    kafka_consumer_close(member.consumer, 10000);
}

Test(kafka, pause_seek_and_resume_give_each_record_once)
{
    make_topic(2);
    produce_numbers(0, 0, 500);
    produce_numbers(1, 500, 500);
    struct member member = {0};
    join(&member);
    take_until(&member, 300);
    for (int round = 0; round < 3; round++) {
        kafka_consumer_pause(member.consumer);
        int before = member.count;
        int64_t until_ms = clock_monotonic_ms(&clock_system) + 500;
        while (clock_monotonic_ms(&clock_system) < until_ms) {
            (void)take_one(&member, 50);
        }
        cr_assert_eq(member.count, before, "nothing comes while paused");
        kafka_consumer_resume(member.consumer);
        take_until(&member, before + 200);
    }
    take_until(&member, 1000);
    bool seen[1000] = {false};
    for (int i = 0; i < 1000; i++) {
        cr_assert_not(seen[member.numbers[i]], "%d came twice", member.numbers[i]);
        seen[member.numbers[i]] = true;
    }
    struct fault fault;
    cr_assert_eq(kafka_consumer_seek(member.consumer, 0, 1, 490, &fault), ST_OK, "%s", fault.text);
    take_until(&member, 1010);
    cr_assert_eq(member.numbers[1000], 990);
    kafka_consumer_close(member.consumer, 10000);
}

Test(kafka, what_cannot_be_seated_is_left_and_joined_again)
{
    make_topic(1);
    produce_numbers(0, 0, 5);
    struct member member = {.refuse = ST_RETRY};
    join(&member);
    struct fault fault;
    struct kafka_record record;
    enum status status = ST_OK;
    int64_t until_ms = clock_monotonic_ms(&clock_system) + PATIENCE_MS;
    while (status == ST_OK && clock_monotonic_ms(&clock_system) < until_ms) {
        bool got = false;
        status = kafka_consumer_poll(member.consumer, 100, &record, &got, &fault);
        cr_assert_not(got, "no record before the seat");
    }
    cr_assert_eq(status, ST_RETRY);
    cr_assert_str_eq(fault.code, "refused");
    member.refuse = ST_OK;
    cr_assert_eq(kafka_consumer_join(member.consumer, &fault), ST_OK);
    take_until(&member, 5);
    cr_assert_eq(member.numbers[0], 0);
    kafka_consumer_close(member.consumer, 10000);
}

Test(kafka, a_missing_topic_is_told_once_and_read_from_its_beginning)
{
    struct member member = {0};
    join(&member);
    int64_t until_ms = clock_monotonic_ms(&clock_system) + PATIENCE_MS;
    while (member.notices.missing == 0 && clock_monotonic_ms(&clock_system) < until_ms) {
        (void)take_one(&member, 100);
    }
    const char *name = NULL;
    cr_assert(kafka_consumer_topic_missing(member.consumer, &name));
    cr_assert_str_eq(name, topic_name);
    for (int i = 0; i < 20; i++) {
        (void)take_one(&member, 100);
    }
    cr_assert_eq(member.notices.missing, 1);
    make_topic(2);
    produce_numbers(0, 0, 5);
    produce_numbers(1, 5, 5);
    take_until(&member, 10);
    cr_assert_eq(member.notices.found, 1);
    cr_assert_not(kafka_consumer_topic_missing(member.consumer, &name));
    kafka_consumer_close(member.consumer, 10000);
}

Test(kafka, two_members_share_and_every_record_comes)
{
    make_topic(4);
    struct member first = {0}, second = {0};
    join(&first);
    for (int i = 0; i < 100 && first.assigned == 0; i++) {
        (void)take_one(&first, 100);
    }
    cr_assert_eq(first.assigned, 4);
    join(&second);
    for (int i = 0; i < 200 && second.assigned == 0; i++) {
        (void)take_one(&first, 50);
        (void)take_one(&second, 50);
    }
    cr_assert_eq(second.assigned, 2);
    cr_assert_eq(first.revoked, 4, "range takes all and gives two back");
    for (int p = 0; p < 4; p++) {
        produce_numbers(p, p * 100, 100);
    }
    int64_t until_ms = clock_monotonic_ms(&clock_system) + PATIENCE_MS;
    while (first.count + second.count < 400 && clock_monotonic_ms(&clock_system) < until_ms) {
        (void)take_one(&first, 10);
        (void)take_one(&second, 10);
    }
    cr_assert_eq(first.count, 200, "%d", first.count);
    cr_assert_eq(second.count, 200, "%d", second.count);
    kafka_consumer_close(first.consumer, 10000);
    kafka_consumer_close(second.consumer, 10000);
}

Test(kafka, cooperative_members_share_too)
{
    strategy = "cooperative-sticky";
    make_topic(4);
    struct member first = {0}, second = {0};
    join(&first);
    for (int i = 0; i < 100 && first.assigned == 0; i++) {
        (void)take_one(&first, 100);
    }
    cr_assert_eq(first.assigned, 4);
    join(&second);
    for (int i = 0; i < 300 && second.assigned < 2; i++) {
        (void)take_one(&first, 50);
        (void)take_one(&second, 50);
    }
    cr_assert_eq(second.assigned, 2, "%d", second.assigned);
    cr_assert_eq(first.revoked, 2, "only what goes is taken away");
    for (int p = 0; p < 4; p++) {
        produce_numbers(p, p * 100, 100);
    }
    int64_t until_ms = clock_monotonic_ms(&clock_system) + PATIENCE_MS;
    while (first.count + second.count < 400 && clock_monotonic_ms(&clock_system) < until_ms) {
        (void)take_one(&first, 10);
        (void)take_one(&second, 10);
    }
    cr_assert_eq(first.count, 200, "%d", first.count);
    cr_assert_eq(second.count, 200, "%d", second.count);
    kafka_consumer_close(first.consumer, 10000);
    kafka_consumer_close(second.consumer, 10000);
}

Test(kafka, the_descriptor_wakes_a_waiting_loop)
{
    make_topic(1);
    struct member member = {0};
    join(&member);
    for (int i = 0; i < 100 && member.assigned == 0; i++) {
        (void)take_one(&member, 100);
    }
    for (int i = 0; i < 10; i++) {
        (void)take_one(&member, 100);
    }
    while (take_one(&member, 0)) {
    }
    produce_numbers(0, 0, 1);
    struct pollfd wait = {.fd = kafka_consumer_fd(member.consumer), .events = POLLIN};
    cr_assert_eq(poll(&wait, 1, 5000), 1, "nothing woke us");
    take_until(&member, 1);
    kafka_consumer_close(member.consumer, 10000);
}

Test(kafka, an_operator_sets_the_groups_offset)
{
    make_topic(1);
    produce_numbers(0, 0, 10);
    struct kafka_group_offset offset = {.topic = topic_name, .partition = 0, .offset = 8};
    struct fault fault;
    cr_assert_eq(kafka_admin_set_offset(admin, group_name, &offset, &fault), ST_OK, "%s", fault.text);
    struct member member = {0};
    join(&member);
    take_until(&member, 2);
    cr_assert_eq(member.last_seat.committed, 8);
    cr_assert_eq(kafka_admin_set_offset(admin, group_name, &offset, &fault), ST_STOP, "%s %s", fault.code,
                 fault.text);
    kafka_consumer_close(member.consumer, 10000);
}

/* ---- a broker of two is away ---------------------------------------------------------------------------
 */

/* librdkafka's mock cluster of two: the group's coordinator and partition 0 are at broker 1. */
static rd_kafka_mock_cluster_t *two_brokers(rd_kafka_t **owner)
{
    char text[256], group[] = "the-group";
    *owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof text);
    cr_assert_not_null(*owner, "%s", text);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(*owner, 2);
    cr_assert_not_null(cluster);
    (void)snprintf(brokers, sizeof brokers, "%s", rd_kafka_mock_cluster_bootstraps(cluster));
    (void)snprintf(group_name, sizeof group_name, "%s", group);
    cr_assert_eq(rd_kafka_mock_topic_create(cluster, topic_name, 4, 2), RD_KAFKA_RESP_ERR_NO_ERROR);
    for (int partition = 0; partition < 4; partition++) {
        (void)rd_kafka_mock_partition_set_leader(cluster, topic_name, partition, partition < 2 ? 1 : 2);
    }
    (void)rd_kafka_mock_coordinator_set(cluster, "group", group, 1);
    return cluster;
}

/* Polls until count records are there; gives the longest that a single call took. */
static int64_t longest_poll(struct member *member, int count, int ms)
{
    int64_t longest_ms = 0, until_ms = clock_monotonic_ms(&clock_system) + ms;
    while (member->count < count && clock_monotonic_ms(&clock_system) < until_ms) {
        int64_t before_ms = clock_monotonic_ms(&clock_system);
        (void)take_one(member, 50);
        int64_t took_ms = clock_monotonic_ms(&clock_system) - before_ms;
        longest_ms = took_ms > longest_ms ? took_ms : longest_ms;
    }
    return longest_ms;
}

/* Each record came once; the end. */
static void end_two_brokers(struct member *member, int records, rd_kafka_mock_cluster_t *cluster,
                            rd_kafka_t *owner)
{
    bool seen[RECORDS_SEEN_MAX] = {false};
    for (int i = 0; i < records; i++) {
        cr_assert_not(seen[member->numbers[i]], "%d came twice", member->numbers[i]);
        seen[member->numbers[i]] = true;
    }
    kafka_consumer_close(member->consumer, 10000);
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(owner);
}

/* A leader that does not say where its partitions begin holds up neither the others nor the thread: they are
 * read, it is asked again, and what it has is read from the beginning once it answers. */
static void one_leader_away(void (*away)(rd_kafka_mock_cluster_t *cluster, bool is_away), const char *how)
{
    enum {
        PATIENCE_AWAY_MS = 80000 /* the mock lets a group form late now and then */,
        MORE_MS = 3000,
        LONGEST_MS = 6000
    };
    rd_kafka_t *owner = NULL;
    rd_kafka_mock_cluster_t *cluster = two_brokers(&owner);
    for (int partition = 0; partition < 4; partition++) {
        produce_numbers(partition, partition * 100, 100);
    }
    away(cluster, true);
    struct member member = {0};
    struct metrics *metrics = metrics_new();
    join_with(&member, metrics);
    int64_t first_ms = longest_poll(&member, 200, PATIENCE_AWAY_MS);
    int64_t second_ms = longest_poll(&member, 201, MORE_MS);
    struct buffer text;
    buffer_init(&text, 1024 * 1024);
    metrics_write(metrics, &text);
    printf("%s: %d of 200 records of the others, %zu partitions wait, %d revoked, longest poll %lld ms, "
           "then %lld ms\n",
           how, member.count, kafka_consumer_unseated(member.consumer), member.revoked, (long long)first_ms,
           (long long)second_ms);
    cr_assert_eq(member.count, 200);
    cr_assert_eq(member.assigned, 2);
    cr_assert_eq(kafka_consumer_unseated(member.consumer), 2);
    cr_assert_eq(member.notices.unseated, 1, "said once: %d", member.notices.unseated);
    cr_assert_eq(member.revoked, 0, "the group is not left");
    cr_assert_lt(first_ms, LONGEST_MS);
    cr_assert_lt(second_ms, LONGEST_MS);
    cr_assert_not_null(memmem(text.at, text.bytes, "belfry_kafka_partitions_unseated 2\n", 35));
    away(cluster, false);
    (void)longest_poll(&member, 400, PATIENCE_AWAY_MS + PATIENCE_MS);
    printf("%s: back, %d of 400 records, %d partitions seated in all, %d revoked\n", how, member.count,
           member.assigned, member.revoked);
    cr_assert_eq(member.count, 400, "%d", member.count);
    cr_assert_eq(member.assigned, 4);
    cr_assert_eq(member.revoked, 0);
    cr_assert_eq(member.notices.seated, 1);
    cr_assert_eq(kafka_consumer_unseated(member.consumer), 0);
    buffer_done(&text);
    end_two_brokers(&member, 400, cluster, owner);
    metrics_free(metrics);
}

/* Nobody answers at first, while records could be fetched already: none is passed over. */
static void nobody_answers_at_first(int refusals)
{
    enum { LIST_OFFSETS = 2, PATIENCE_AWAY_MS = 40000 };
    rd_kafka_t *owner = NULL;
    rd_kafka_mock_cluster_t *cluster = two_brokers(&owner);
    for (int partition = 0; partition < 4; partition++) {
        produce_numbers(partition, partition * 100, 100);
    }
    for (int i = 0; i < refusals; i++) {
        rd_kafka_mock_push_request_errors(cluster, LIST_OFFSETS, 1,
                                          RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
    }
    struct member member = {0};
    join(&member);
    (void)longest_poll(&member, 400, PATIENCE_AWAY_MS);
    printf("%d refusals: waited %d, %d of 400 records, %d partitions seated, %d revoked\n", refusals,
           member.notices.unseated, member.count, member.assigned, member.revoked);
    cr_assert_eq(member.count, 400);
    cr_assert_eq(member.assigned, 4);
    cr_assert_eq(member.revoked, 0);
    end_two_brokers(&member, 400, cluster, owner);
}

static void broker_down(rd_kafka_mock_cluster_t *cluster, bool is_away)
{
    (void)(is_away ? rd_kafka_mock_broker_set_down(cluster, 2) : rd_kafka_mock_broker_set_up(cluster, 2));
}

static void broker_mute(rd_kafka_mock_cluster_t *cluster, bool is_away)
{
    (void)rd_kafka_mock_broker_set_rtt(cluster, 2, is_away ? 60000 : 0);
}

static void no_leader(rd_kafka_mock_cluster_t *cluster, bool is_away)
{
    for (int partition = 2; partition < 4; partition++) {
        (void)rd_kafka_mock_partition_set_leader(cluster, topic_name, partition, is_away ? -1 : 2);
    }
}

TestSuite(seating, .init = open_world, .fini = close_world, .timeout = 200);

Test(seating, a_broker_that_is_down_holds_up_only_its_partitions)
{
    one_leader_away(broker_down, "down");
}

Test(seating, a_broker_that_is_mute_holds_up_only_its_partitions)
{
    one_leader_away(broker_mute, "mute");
}

Test(seating, partitions_without_a_leader_hold_up_no_others)
{
    one_leader_away(no_leader, "no leader");
}

Test(seating, nobody_answers_at_first)
{
    nobody_answers_at_first(2);
    nobody_answers_at_first(6);
}
