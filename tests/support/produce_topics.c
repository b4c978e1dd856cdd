/* Takes topics away again, for whoever made them for a while: the demo on somebody's own Kafka. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>

#include "support/produce.h"

enum { DELETE_MS = 15000 };

bool topics_delete(rd_kafka_t *kafka, const char *const *names, size_t count)
{
    rd_kafka_DeleteTopic_t *topics[UNWANTED_MAX];
    for (size_t i = 0; i < count; i++)
        topics[i] = rd_kafka_DeleteTopic_new(names[i]);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka);
    rd_kafka_DeleteTopics(kafka, topics, count, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, DELETE_MS);
    const rd_kafka_DeleteTopics_result_t *result =
        event == NULL ? NULL : rd_kafka_event_DeleteTopics_result(event);
    size_t answers = 0;
    const rd_kafka_topic_result_t **each =
        result == NULL ? NULL : rd_kafka_DeleteTopics_result_topics(result, &answers);
    bool good = answers == count;
    for (size_t i = 0; i < answers; i++) {
        rd_kafka_resp_err_t error = rd_kafka_topic_result_error(each[i]);
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR || error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
            continue;
        (void)fprintf(stderr, "belfry-produce: topic %s: %s\n", rd_kafka_topic_result_name(each[i]),
                      rd_kafka_err2str(error));
        good = false;
    }
    if (event != NULL)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteTopic_destroy_array(topics, count);
    return good;
}
