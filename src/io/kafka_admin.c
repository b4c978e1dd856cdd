/* The few questions and orders of an administrator: make a topic, read its settings, count its partitions,
 * set a group's offset. Each call waits at most KAFKA_ADMIN_TIMEOUT_MS. The handle is a consumer without a
 * group, because a producer's question about a topic makes the topic on many clusters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kafka_private.h"

enum { ANSWER_SLACK_MS = 500, ADMIN_TEXT_MAX = 512, ADMIN_END_MS = 2000 };

struct kafka_admin {
    struct kafka_client client; /* first: librdkafka's opaque */
};

static const struct kafka_property admin_owned[] = {
    {"allow.auto.create.topics", "false"},
    {"socket.nagle.disable", "true"},
    {NULL, NULL},
};

enum status kafka_admin_open(const struct kafka_client_options *options, struct kafka_admin **admin,
                             struct fault *fault)
{
    struct kafka_conf_layers layers = {.owned = admin_owned};
    rd_kafka_conf_t *conf = NULL;
    enum status status = kafka_conf_make(options, &layers, &conf, fault);
    if (status != ST_OK) {
        return status;
    }
    struct kafka_admin *made = calloc(1, sizeof *made);
    if (made == NULL) {
        rd_kafka_conf_destroy(conf);
        fault_set(fault, "memory", "out of memory");
        return ST_RETRY;
    }
    made->client.wake_fd = -1;
    made->client.on_notice = options->on_notice;
    made->client.notice_context = options->notice_context;
    status = kafka_client_open(&made->client, RD_KAFKA_CONSUMER, conf, fault);
    if (status != ST_OK) {
        free(made);
        return status;
    }
    *admin = made;
    return ST_OK;
}

void kafka_admin_close(struct kafka_admin *admin)
{
    if (admin == NULL) {
        return;
    }
    admin->client.on_notice = NULL;
    kafka_client_end(admin->client.rk, ADMIN_END_MS);
    free(admin);
}

/* One request: its options and the queue its answer comes to. */
struct request {
    rd_kafka_AdminOptions_t *options;
    rd_kafka_queue_t *queue;
    rd_kafka_event_t *answer;
};

static void request_init(struct request *request, struct kafka_admin *admin, rd_kafka_admin_op_t kind)
{
    char text[ADMIN_TEXT_MAX];
    request->options = rd_kafka_AdminOptions_new(admin->client.rk, kind);
    (void)rd_kafka_AdminOptions_set_request_timeout(request->options, KAFKA_ADMIN_TIMEOUT_MS, text,
                                                    sizeof text);
    request->queue = rd_kafka_queue_new(admin->client.rk);
    request->answer = NULL;
}

static void request_done(struct request *request)
{
    if (request->answer != NULL) {
        rd_kafka_event_destroy(request->answer);
    }
    rd_kafka_queue_destroy(request->queue);
    rd_kafka_AdminOptions_destroy(request->options);
}

static bool is_away(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__TIMED_OUT || error == RD_KAFKA_RESP_ERR__TRANSPORT ||
           error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
}

/* A certificate that is not believed looks like silence from here: the client's last error says what it was.
 */
static enum status fault_away(const struct kafka_admin *admin, rd_kafka_resp_err_t error, struct fault *fault)
{
    char text[ADMIN_TEXT_MAX];
    const char *last = admin->client.last_text;
    (void)snprintf(text, sizeof text, "no Kafka broker answers: %s",
                   last[0] == '\0' ? rd_kafka_err2str(error) : last);
    return kafka_fault(fault, error, text);
}

/* Waits for the answer as a whole; what it says of each item is the caller's to read. */
static enum status request_wait(struct request *request, struct kafka_admin *admin, struct fault *fault)
{
    request->answer = rd_kafka_queue_poll(request->queue, KAFKA_ADMIN_TIMEOUT_MS + ANSWER_SLACK_MS);
    (void)rd_kafka_poll(admin->client.rk, 0); /* log lines, and errors such as being unauthorised */
    enum status status = kafka_client_check(&admin->client, fault);
    if (status != ST_OK) {
        return status;
    }
    rd_kafka_resp_err_t error =
        request->answer == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(request->answer);
    if (is_away(error)) {
        return fault_away(admin, error, fault);
    }
    return error == RD_KAFKA_RESP_ERR_NO_ERROR
               ? ST_OK
               : kafka_fault(fault, error, rd_kafka_event_error_string(request->answer));
}

/* ---- topics -------------------------------------------------------------------------------------------- */

static enum status new_topic(const struct kafka_topic_spec *spec, rd_kafka_NewTopic_t **topic,
                             struct fault *fault)
{
    char text[ADMIN_TEXT_MAX];
    rd_kafka_NewTopic_t *made =
        rd_kafka_NewTopic_new(spec->name, spec->partitions, spec->replication, text, sizeof text);
    if (made == NULL) {
        fault_set(fault, "topic", "%s", text);
        return ST_REJECT;
    }
    for (size_t i = 0; i < spec->config_count; i++) {
        if (rd_kafka_NewTopic_set_config(made, spec->config[i].name, spec->config[i].value) !=
            RD_KAFKA_RESP_ERR_NO_ERROR) {
            fault_set(fault, "topic", "%s is no setting of a topic", spec->config[i].name);
            rd_kafka_NewTopic_destroy(made);
            return ST_REJECT;
        }
    }
    *topic = made;
    return ST_OK;
}

enum status kafka_admin_create_topic(struct kafka_admin *admin, const struct kafka_topic_spec *spec,
                                     bool *created, struct fault *fault)
{
    rd_kafka_NewTopic_t *topic = NULL;
    enum status status = new_topic(spec, &topic, fault);
    if (status != ST_OK) {
        return status;
    }
    struct request request;
    request_init(&request, admin, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    rd_kafka_CreateTopics(admin->client.rk, &topic, 1, request.options, request.queue);
    status = request_wait(&request, admin, fault);
    if (status == ST_OK) {
        size_t count = 0;
        const rd_kafka_topic_result_t **results =
            rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(request.answer), &count);
        rd_kafka_resp_err_t error =
            count == 1 ? rd_kafka_topic_result_error(results[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
        *created = error == RD_KAFKA_RESP_ERR_NO_ERROR;
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR && error != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
            status =
                kafka_fault(fault, error, count == 1 ? rd_kafka_topic_result_error_string(results[0]) : NULL);
        }
    }
    request_done(&request);
    rd_kafka_NewTopic_destroy(topic);
    return status;
}

static void read_values(const rd_kafka_ConfigResource_t *resource, struct kafka_config_value *values,
                        size_t count)
{
    size_t entries = 0;
    const rd_kafka_ConfigEntry_t **all = rd_kafka_ConfigResource_configs(resource, &entries);
    for (size_t i = 0; i < count; i++) {
        values[i].value[0] = '\0';
        for (size_t j = 0; j < entries; j++) {
            const char *value = rd_kafka_ConfigEntry_value(all[j]);
            if (value != NULL && strcmp(rd_kafka_ConfigEntry_name(all[j]), values[i].name) == 0) {
                (void)snprintf(values[i].value, sizeof values[i].value, "%s", value);
            }
        }
    }
}

enum status kafka_admin_topic_config(struct kafka_admin *admin, const char *topic,
                                     struct kafka_config_value *values, size_t count, struct fault *fault)
{
    rd_kafka_ConfigResource_t *asked = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    struct request request;
    request_init(&request, admin, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_DescribeConfigs(admin->client.rk, &asked, 1, request.options, request.queue);
    enum status status = request_wait(&request, admin, fault);
    if (status == ST_OK) {
        size_t resources = 0;
        const rd_kafka_ConfigResource_t **found = rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(request.answer), &resources);
        rd_kafka_resp_err_t error =
            resources == 1 ? rd_kafka_ConfigResource_error(found[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
            status = kafka_fault(fault, error, NULL);
        } else {
            read_values(found[0], values, count);
        }
    }
    request_done(&request);
    rd_kafka_ConfigResource_destroy(asked);
    return status;
}

enum status kafka_admin_partitions(struct kafka_admin *admin, const char *topic, int *count,
                                   struct fault *fault)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(admin->client.rk, topic, NULL);
    if (handle == NULL) {
        return kafka_fault(fault, rd_kafka_last_error(), NULL);
    }
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t error =
        rd_kafka_metadata(admin->client.rk, 0, handle, &metadata, KAFKA_ADMIN_TIMEOUT_MS);
    (void)rd_kafka_poll(admin->client.rk, 0);
    enum status status = kafka_client_check(&admin->client, fault);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        error = metadata->topic_cnt == 1 ? metadata->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    }
    if (status == ST_OK && is_away(error)) {
        status = fault_away(admin, error, fault);
    } else if (status == ST_OK && error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        char missing[FAULT_TEXT_MAX];
        (void)snprintf(missing, sizeof missing,
                       "topic %s is missing; belfry-dispatcher --create-topics makes it", topic);
        status = kafka_fault(fault, error, error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ? missing : NULL);
    }
    if (status == ST_OK) {
        *count = metadata->topics[0].partition_cnt;
    }
    if (metadata != NULL) {
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(handle);
    return status;
}

enum status kafka_admin_watermarks(struct kafka_admin *admin, const char *topic, int32_t partition,
                                   struct kafka_watermarks *marks, struct fault *fault)
{
    struct kafka_watermarks found = {0, 0};
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *one = rd_kafka_topic_partition_list_add(list, topic, partition);
    rd_kafka_resp_err_t error =
        kafka_ask_edge(admin->client.rk, list, RD_KAFKA_OFFSET_BEGINNING, KAFKA_ADMIN_TIMEOUT_MS);
    found.low = one->offset;
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        error = kafka_ask_edge(admin->client.rk, list, RD_KAFKA_OFFSET_END, KAFKA_ADMIN_TIMEOUT_MS);
    }
    found.high = one->offset;
    rd_kafka_topic_partition_list_destroy(list);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return is_away(error) ? fault_away(admin, error, fault) : kafka_fault(fault, error, NULL);
    }
    *marks = found;
    return ST_OK;
}

/* ---- a group's offsets --------------------------------------------------------------------------------- */

static rd_kafka_resp_err_t first_error(const rd_kafka_group_result_t *group)
{
    const rd_kafka_error_t *error = rd_kafka_group_result_error(group);
    if (error != NULL) {
        return rd_kafka_error_code(error);
    }
    const rd_kafka_topic_partition_list_t *partitions = rd_kafka_group_result_partitions(group);
    for (int i = 0; partitions != NULL && i < partitions->cnt; i++) {
        if (partitions->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            return partitions->elems[i].err;
        }
    }
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

enum status kafka_admin_set_offset(struct kafka_admin *admin, const char *group,
                                   const struct kafka_group_offset *offset, struct fault *fault)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, offset->topic, offset->partition)->offset = offset->offset;
    rd_kafka_AlterConsumerGroupOffsets_t *order = rd_kafka_AlterConsumerGroupOffsets_new(group, list);
    struct request request;
    request_init(&request, admin, RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS);
    rd_kafka_AlterConsumerGroupOffsets(admin->client.rk, &order, 1, request.options, request.queue);
    enum status status = request_wait(&request, admin, fault);
    if (status == ST_OK) {
        size_t count = 0;
        const rd_kafka_group_result_t **groups = rd_kafka_AlterConsumerGroupOffsets_result_groups(
            rd_kafka_event_AlterConsumerGroupOffsets_result(request.answer), &count);
        rd_kafka_resp_err_t error = count == 1 ? first_error(groups[0]) : RD_KAFKA_RESP_ERR__BAD_MSG;
        if (error ==
            RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID) { /* how Kafka refuses when the group is not empty */
            fault_set(fault, "GROUP_SUBSCRIBED_TO_TOPIC", "the group %s has members; stop them first", group);
            status = ST_STOP;
        } else if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
            status = kafka_fault(fault, error, NULL);
        }
    }
    request_done(&request);
    rd_kafka_AlterConsumerGroupOffsets_destroy(order);
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}
