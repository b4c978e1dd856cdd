/* belfry-broker: an embedded broker for the demo, librdkafka's mock cluster as a program of its own.
 *
 *   belfry-broker --topic NAME:PARTITIONS [--topic …]
 *
 * Prints "bootstrap 127.0.0.1:PORT" as its first line, makes the topics, leaves with 0 on SIGTERM or SIGINT.
 * The mock cluster picks its port itself: there is no option for it. It keeps at most 5 MB or 100,000 records
 * a partition, nothing on disk, and answers no admin call: what it loses when it ends is lost. Tests and
 * benchmarks run on the real Kafka of tests/support/kafka. */
#include <getopt.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/signals.h"
#include "base/status.h"

enum { TOPICS_MAX = 64, PARTITIONS_MAX = 64, NAME_MAX_BYTES = 128 };

struct topic {
    char name[NAME_MAX_BYTES];
    int partitions;
};

struct topics {
    struct topic topic[TOPICS_MAX];
    int count;
};

static const char usage[] =
    "belfry-broker: librdkafka's mock cluster as a program, for the demo\n"
    "  --topic NAME:PARTITIONS  makes this topic (repeatable)\n"
    "  --help\n"
    "It listens on a port of 127.0.0.1 that it picks itself; the first line on stdout says which.\n";

static bool add_topic(struct topics *topics, const char *text)
{
    const char *colon = strrchr(text, ':');
    char *end;
    if (topics->count == TOPICS_MAX || colon == NULL || colon == text || colon - text >= NAME_MAX_BYTES)
        return false;
    long partitions = strtol(colon + 1, &end, 10);
    if (*end != '\0' || partitions < 1 || partitions > PARTITIONS_MAX)
        return false;
    struct topic *topic = &topics->topic[topics->count++];
    (void)snprintf(topic->name, sizeof topic->name, "%.*s", (int)(colon - text), text);
    topic->partitions = (int)partitions;
    return true;
}

/* -1: go on; else the exit code. */
static int parse_options(int argc, char **argv, struct topics *topics)
{
    static const struct option options[] = {
        {"topic", required_argument, NULL, 't'}, {"help", no_argument, NULL, 'h'}, {0}};
    int option;
    while ((option = getopt_long(argc, argv, "t:h", options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(usage, stdout);
            return EXIT_DONE;
        }
        if (option != 't')
            return EXIT_USAGE;
        if (!add_topic(topics, optarg)) {
            (void)fprintf(stderr, "belfry-broker: \"%s\" is not NAME:PARTITIONS (at most %d)\n", optarg,
                          PARTITIONS_MAX);
            return EXIT_USAGE;
        }
    }
    return optind == argc ? -1 : EXIT_USAGE;
}

static bool make_topics(rd_kafka_mock_cluster_t *cluster, const struct topics *topics)
{
    for (int i = 0; i < topics->count; i++) {
        rd_kafka_resp_err_t error =
            rd_kafka_mock_topic_create(cluster, topics->topic[i].name, topics->topic[i].partitions, 1);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
            (void)fprintf(stderr, "belfry-broker: topic %s: %s\n", topics->topic[i].name,
                          rd_kafka_err2str(error));
            return false;
        }
    }
    return true;
}

static void wait_for_stop(void)
{
    struct pollfd stop = {.fd = signals_stop_fd(), .events = POLLIN};
    while (!signals_stopping())
        (void)poll(&stop, 1, -1);
}

int main(int argc, char **argv)
{
    char text[256];
    static struct topics topics;
    int done = parse_options(argc, argv, &topics);
    if (done >= 0)
        return done;
    signals_open();
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    (void)rd_kafka_conf_set(conf, "log_level", "3", NULL, 0); /* no word about missing bootstrap servers */
    rd_kafka_t *handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    if (handle == NULL) {
        (void)fprintf(stderr, "belfry-broker: %s\n", text);
        rd_kafka_conf_destroy(conf);
        return EXIT_FAILED;
    }
    int result = EXIT_FAILED;
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(handle, 1);
    if (cluster == NULL) {
        (void)fprintf(stderr, "belfry-broker: no mock cluster can be had\n");
    } else if (make_topics(cluster, &topics)) {
        (void)printf("bootstrap %s\n", rd_kafka_mock_cluster_bootstraps(cluster));
        (void)fflush(stdout);
        wait_for_stop();
        result = EXIT_DONE;
    }
    if (cluster != NULL)
        rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(handle);
    return result;
}
