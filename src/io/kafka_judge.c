/* Two rules without a connection: which status a Kafka error means, and where a partition starts. */
#include <stddef.h>

#include "kafka_private.h"

struct judgement {
    int code;
    enum status status;
};

/* What is not here is ST_RETRY: the cluster or the way to it is at fault and the client tries on. */
static const struct judgement judgements[] = {
    {RD_KAFKA_RESP_ERR_NO_ERROR, ST_OK},
    /* this record never fits */
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, ST_REJECT},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, ST_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, ST_REJECT},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, ST_REJECT},
    {RD_KAFKA_RESP_ERR__INVALID_ARG, ST_REJECT},
    /* the topic: an operator must act */
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, ST_STOP},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, ST_STOP},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, ST_STOP},
    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, ST_STOP},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, ST_STOP},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, ST_STOP},
    {RD_KAFKA_RESP_ERR_INVALID_CONFIG, ST_STOP},
    {RD_KAFKA_RESP_ERR_INVALID_PARTITIONS, ST_STOP},
    {RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR, ST_STOP},
    {RD_KAFKA_RESP_ERR_GROUP_SUBSCRIBED_TO_TOPIC, ST_STOP},
    {RD_KAFKA_RESP_ERR_NON_EMPTY_GROUP, ST_STOP},
    /* fenced, unauthorised: this process cannot go on */
    {RD_KAFKA_RESP_ERR__FATAL, ST_FATAL},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, ST_FATAL},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, ST_FATAL},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM, ST_FATAL},
    {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, ST_FATAL},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, ST_FATAL},
    {RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, ST_FATAL},
    {RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL, ST_FATAL},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION, ST_FATAL},
};

enum status kafka_judge(int code)
{
    for (size_t i = 0; i < sizeof judgements / sizeof *judgements; i++) {
        if (judgements[i].code == code) {
            return judgements[i].status;
        }
    }
    return ST_RETRY;
}

static struct kafka_start start_make(enum kafka_start_why why, int64_t wanted, const struct kafka_seat *seat)
{
    struct kafka_start start = {.offset = wanted, .lost = 0, .why = why};
    if (wanted < seat->low) {
        start.lost = seat->low - wanted;
        start.offset = seat->low;
    }
    return start;
}

struct kafka_start kafka_start_of(int64_t table, const struct kafka_seat *seat)
{
    if (table < 0 && seat->committed < 0) {
        return start_make(KAFKA_START_EARLIEST, seat->low, seat);
    }
    if (table < 0 && seat->committed <= seat->high) {
        return start_make(KAFKA_START_TABLE_NEW, seat->committed, seat);
    }
    if (table < 0 || table > seat->high) {
        return start_make(KAFKA_START_BEYOND, seat->low, seat);
    }
    /* No committed offset beside one of ours: the topic was made anew, or the group is. What was below the
     * low watermark of the old topic says nothing about the new one, so nothing counts as lost but a real
     * gap. */
    if (seat->committed < 0) {
        struct kafka_start start = start_make(KAFKA_START_KAFKA_NEW, seat->low, seat);
        start.lost = table < seat->low ? seat->low - table : 0;
        return start;
    }
    return start_make(KAFKA_START_BOTH, table < seat->committed ? table : seat->committed, seat);
}
