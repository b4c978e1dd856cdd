/* The two rules of io/kafka that need no connection, row by row. */
#include <criterion/criterion.h>
#include <librdkafka/rdkafka.h>

#include "io/kafka.h"
#include "io/kafka_properties.h"

Test(kafka_judge, every_row_says_what_to_do)
{
    static const struct {
        int code;
        enum status status;
    } rows[] = {
        {RD_KAFKA_RESP_ERR_NO_ERROR, ST_OK},
        {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, ST_REJECT},
        {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, ST_REJECT},
        {RD_KAFKA_RESP_ERR_INVALID_RECORD, ST_REJECT},
        {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, ST_STOP},
        {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, ST_STOP},
        {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, ST_STOP},
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, ST_STOP},
        {RD_KAFKA_RESP_ERR_GROUP_SUBSCRIBED_TO_TOPIC, ST_STOP},
        {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, ST_FATAL},
        {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, ST_FATAL},
        {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, ST_FATAL},
        {RD_KAFKA_RESP_ERR__AUTHENTICATION, ST_FATAL},
        {RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, ST_FATAL},
        {RD_KAFKA_RESP_ERR__FATAL, ST_FATAL},
        {RD_KAFKA_RESP_ERR__TRANSPORT, ST_RETRY},
        {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, ST_RETRY},
        {RD_KAFKA_RESP_ERR__TIMED_OUT, ST_RETRY},
        {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, ST_RETRY},
        {RD_KAFKA_RESP_ERR__PURGE_QUEUE, ST_RETRY},
        {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, ST_RETRY},
        {RD_KAFKA_RESP_ERR__QUEUE_FULL, ST_RETRY},
        {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, ST_RETRY},
        {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, ST_RETRY},
        {RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS, ST_RETRY},
        {RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID, ST_RETRY},
        {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, ST_RETRY}, /* cured by a new producer */
        {-99999, ST_RETRY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(kafka_judge(rows[i].code), rows[i].status, "code %d: %s", rows[i].code,
                     status_name(kafka_judge(rows[i].code)));
    }
}

/* design.md §1 point 4, each clause. */
Test(kafka_start, each_clause_of_the_rule)
{
    static const struct {
        int64_t table, committed, low, high;
        int64_t offset, lost;
        enum kafka_start_why why;
    } rows[] = {
        {10, 10, 0, 20, 10, 0, KAFKA_START_BOTH},
        {10, 5, 0, 20, 5, 0, KAFKA_START_BOTH}, /* an operator's rewind in Kafka */
        {5, 10, 0, 20, 5, 0, KAFKA_START_BOTH}, /* the database went back */
        {5, 10, 8, 20, 8, 3, KAFKA_START_BOTH}, /* and retention was faster */
        {10, -1, 0, 20, 0, 0, KAFKA_START_KAFKA_NEW},
        {10, -1, 15, 20, 15, 5, KAFKA_START_KAFKA_NEW},
        {-1, 7, 0, 20, 7, 0, KAFKA_START_TABLE_NEW},
        {-1, 7, 9, 20, 9, 2, KAFKA_START_TABLE_NEW},
        {-1, 70, 0, 20, 0, 0, KAFKA_START_BEYOND},
        {-1, -1, 3, 20, 3, 0, KAFKA_START_EARLIEST},
        {21, 10, 0, 20, 0, 0, KAFKA_START_BEYOND}, /* the topic was made anew and is shorter */
        {21, -1, 4, 20, 4, 0, KAFKA_START_BEYOND},
        {20, 20, 0, 20, 20, 0, KAFKA_START_BOTH}, /* all read */
        {0, -1, 0, 0, 0, 0, KAFKA_START_KAFKA_NEW},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kafka_seat seat = {.committed = rows[i].committed, .low = rows[i].low, .high = rows[i].high};
        struct kafka_start start = kafka_start_of(rows[i].table, &seat);
        cr_assert_eq(start.offset, rows[i].offset, "row %zu: offset %lld", i, (long long)start.offset);
        cr_assert_eq(start.lost, rows[i].lost, "row %zu: lost %lld", i, (long long)start.lost);
        cr_assert_eq(start.why, rows[i].why, "row %zu: why %d", i, start.why);
    }
}

Test(kafka_properties, a_mechanism_that_cannot_work_is_warned_of)
{
    static const struct {
        const char *key, *value;
        bool scram;
    } rows[] = {{"sasl.mechanism", "SCRAM-SHA-512", true},
                {"sasl.mechanisms", "scram-sha-256", true},
                {"sasl.mechanism", "PLAIN", false},
                {"security.protocol", "ssl", false}};
    bool wrong = rd_kafka_version() < 0x020601ff;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct config_pair pair = {.key = rows[i].key, .value = rows[i].value};
        const struct config_pairs pairs = {.pairs = &pair, .count = 1};
        cr_expect_eq(kafka_properties_warning(&pairs) != NULL, rows[i].scram && wrong, "%s = %s", pair.key,
                     pair.value);
    }
}
