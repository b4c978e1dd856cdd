/* belfry-produce: options in; devices and events out to Kafka, a ledger line for each acknowledged record, a
 * progress line on stderr, a summary on stdout. produce.h says what the records are.
 * Leaves with 0 only when every planned record was acknowledged. */
#include "support/produce.h"

#include <errno.h>
#include <getopt.h>
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/status.h"

enum {
    DELETE_MS = 15000,
    FLUSH_MS = 60000,
    VALUE_MAX = 1 << 20,
    METADATA_MS = 10000,
    PROGRESS_MS = 250,
    CODES_MAX = 8
};

struct counts {
    long planned, acknowledged, failed;
    long originals, recipients, notifications, duplicate_recipients, tombstones, devices;
    long duplicates[DUP_KINDS];
    struct {
        const char *code;
        long count;
    } poison[CODES_MAX];
    size_t codes;
};

struct producer {
    struct produce_options options;
    struct counts counts;
    rd_kafka_t *kafka;
    rd_kafka_conf_t *conf; /* until kafka has it */
    FILE *ledger;
    struct buffer value;
    int64_t started_ms, shown_ms;
};

/* What the delivery report needs, one for each record on its way. */
struct sent {
    struct planned planned;
    char token[96]; /* devices */
};

static int64_t now_ms(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void write_keys(struct producer *p, const struct planned *planned)
{
    char key[KEY_MAX_BYTES], workspace[32];
    struct contents contents;
    contents_of(&p->options, planned->of, &contents);
    workspace_name(contents.users[0], workspace);
    (void)fprintf(p->ledger, ",\"workspace\":\"%s\",\"keys\":[", workspace);
    for (uint32_t i = 0; i < contents.user_count; i++) {
        contents_key(&p->options, planned, &contents, i, key);
        (void)fprintf(p->ledger, "%s\"%s\"", i == 0 ? "" : ",", key);
    }
    (void)fputc(']', p->ledger);
}

static void write_ledger(struct producer *p, const struct sent *sent, const rd_kafka_message_t *message)
{
    const struct planned *planned = &sent->planned;
    char user[32];
    (void)fprintf(p->ledger, "{\"slot\":%u,\"partition\":%d,\"offset\":%lld,", planned->slot,
                  message->partition, (long long)message->offset);
    switch (planned->kind) {
    case KIND_EVENT:
        (void)fputs("\"kind\":\"event\"", p->ledger);
        write_keys(p, planned);
        break;
    case KIND_DUPLICATE:
        (void)fprintf(p->ledger, "\"kind\":\"duplicate\",\"duplicate\":\"%s\",\"of\":%u",
                      duplicate_name(planned->duplicate), planned->of);
        write_keys(p, planned);
        break;
    case KIND_POISON:
        (void)fprintf(p->ledger, "\"kind\":\"poison\",\"code\":\"%s\",\"field\":\"%s\"",
                      poison_code(planned->poison), poison_field(planned->poison));
        break;
    case KIND_TOMBSTONE:
        (void)fputs("\"kind\":\"tombstone\"", p->ledger);
        break;
    case KIND_DEVICE:
        user_name(planned->slot % (uint32_t)p->options.users, user);
        (void)fprintf(p->ledger, "\"kind\":\"device\",\"user\":\"%s\",\"token\":\"%s\"", user, sent->token);
        break;
    }
    (void)fputs("}\n", p->ledger);
}

static void delivered(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *context)
{
    struct producer *p = context;
    struct sent *sent = message->_private;
    (void)kafka;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (p->counts.failed++ == 0)
            (void)fprintf(stderr, "\nbelfry-produce: %s\n", rd_kafka_err2str(message->err));
    } else {
        p->counts.acknowledged++;
        if (p->ledger != NULL)
            write_ledger(p, sent, message);
    }
    free(sent);
}

static void show_progress(struct producer *p, bool last)
{
    int64_t now = now_ms(CLOCK_MONOTONIC);
    bool terminal = isatty(STDERR_FILENO) == 1;
    if (!last && now - p->shown_ms < (terminal ? PROGRESS_MS : 8 * PROGRESS_MS))
        return;
    p->shown_ms = now;
    (void)fprintf(stderr, "%spublished %ld of %ld%s", terminal ? "\r" : "", p->counts.acknowledged,
                  p->options.devices + p->options.count, terminal && !last ? "" : "\n");
}

/* key NULL: none; value NULL: a tombstone. False: it could not be queued, and said why. */
static bool publish(struct producer *p, const char *topic, const char *key, bool tombstone,
                    const struct sent *record)
{
    struct sent *sent = malloc(sizeof *sent);
    if (sent == NULL)
        return false;
    *sent = *record;
    for (;;) {
        rd_kafka_resp_err_t error = rd_kafka_producev(
            p->kafka, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(record->planned.partition),
            RD_KAFKA_V_KEY(key, strlen(key)), RD_KAFKA_V_TIMESTAMP(record->planned.timestamp_ms),
            RD_KAFKA_V_VALUE(tombstone ? NULL : p->value.at, tombstone ? 0 : p->value.bytes),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(sent), RD_KAFKA_V_END);
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
            break;
        if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL || signals_stopping()) {
            (void)fprintf(stderr, "\nbelfry-produce: %s\n", rd_kafka_err2str(error));
            free(sent);
            return false;
        }
        (void)rd_kafka_poll(p->kafka, 50);
        show_progress(p, false);
    }
    p->counts.planned++; // NOLINT(clang-analyzer-unix.Malloc): sent is librdkafka's until its report
    (void)rd_kafka_poll(p->kafka, 0);
    show_progress(p, false);
    return true;
}

static bool publish_devices(struct producer *p)
{
    for (long i = 0; i < p->options.devices && !signals_stopping(); i++) {
        struct sent sent = {.planned = {.slot = (uint32_t)i,
                                        .kind = KIND_DEVICE,
                                        .partition = RD_KAFKA_PARTITION_UA,
                                        .timestamp_ms = p->options.base_ms}};
        buffer_reset(&p->value);
        device_write(&p->options, (uint32_t)i, &p->value, sent.token);
        if (!publish(p, p->options.topic_devices, sent.token, false, &sent))
            return false;
        p->counts.devices++;
    }
    return true;
}

static void count_poison(struct counts *counts, const char *code)
{
    size_t at = 0;
    while (at < counts->codes && strcmp(counts->poison[at].code, code) != 0)
        at++;
    if (at == CODES_MAX)
        return;
    if (at == counts->codes)
        counts->poison[counts->codes++].code = code;
    counts->poison[at].count++;
}

static void count(struct counts *counts, const struct planned *planned, const struct contents *contents)
{
    switch (planned->kind) {
    case KIND_EVENT:
        counts->originals++;
        counts->notifications += contents->user_count;
        counts->recipients += contents->user_count;
        break;
    case KIND_DUPLICATE:
        counts->duplicates[planned->duplicate]++;
        counts->duplicate_recipients += contents->user_count;
        counts->recipients += contents->user_count;
        break;
    case KIND_POISON:
        count_poison(counts, poison_code(planned->poison));
        break;
    case KIND_TOMBSTONE:
        counts->tombstones++;
        break;
    case KIND_DEVICE:
        break;
    }
}

/* Holds back to --rate records a second. */
static void pace(struct producer *p, long done)
{
    if (p->options.rate == 0)
        return;
    while (now_ms(CLOCK_MONOTONIC) - p->started_ms < done * 1000 / p->options.rate && !signals_stopping())
        (void)rd_kafka_poll(p->kafka, 5);
}

static bool publish_events(struct producer *p)
{
    struct plan plan;
    struct contents contents;
    char user[32];
    bool good = plan_init(&plan, &p->options);
    for (long i = 0; good && i < p->options.count && !signals_stopping(); i++) {
        struct sent sent = {0};
        plan_next(&plan, &sent.planned);
        contents_of(&p->options, sent.planned.of, &contents);
        user_name(contents.users[0], user);
        buffer_reset(&p->value);
        if (sent.planned.kind == KIND_POISON)
            poison_write(sent.planned.poison, sent.planned.slot, &p->value);
        else
            contents_write(&p->options, &sent.planned, &contents, &p->value);
        good = publish(p, p->options.topic_events, user, sent.planned.kind == KIND_TOMBSTONE, &sent);
        if (good)
            count(&p->counts, &sent.planned, &contents);
        pace(p, i);
    }
    plan_done(&plan);
    return good;
}

static bool topic_partitions(struct producer *p)
{
    const struct rd_kafka_metadata *metadata = NULL;
    if (p->options.partitions > 0 || p->options.count == 0)
        return true;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(p->kafka, p->options.topic_events, NULL);
    rd_kafka_resp_err_t error = rd_kafka_metadata(p->kafka, 0, topic, &metadata, METADATA_MS);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1 &&
        metadata->topics[0].partition_cnt > 0)
        p->options.partitions = metadata->topics[0].partition_cnt;
    else
        (void)fprintf(stderr, "belfry-produce: topic %s: %s\n", p->options.topic_events,
                      error != RD_KAFKA_RESP_ERR_NO_ERROR ? rd_kafka_err2str(error) : "there is none");
    if (metadata != NULL)
        rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(topic);
    return p->options.partitions > 0;
}

static void print_summary(const struct producer *p)
{
    const struct counts *c = &p->counts;
    long duplicates = 0, poison = 0;
    (void)printf(
        "{\"records\":%ld,\"acknowledged\":%ld,\"events\":%ld,\"notifications\":%ld,\"recipients\":%ld,"
        "\"duplicate_recipients\":%ld,\"duplicates\":{",
        c->planned - c->devices, c->acknowledged, c->originals, c->notifications, c->recipients,
        c->duplicate_recipients);
    for (int i = 0; i < DUP_KINDS; i++) {
        (void)printf("\"%s\":%ld,", duplicate_name((enum duplicate_kind)i), c->duplicates[i]);
        duplicates += c->duplicates[i];
    }
    (void)printf("\"total\":%ld},\"poison\":{", duplicates);
    for (size_t i = 0; i < c->codes; i++) {
        (void)printf("\"%s\":%ld,", c->poison[i].code, c->poison[i].count);
        poison += c->poison[i].count;
    }
    double seconds = (double)(now_ms(CLOCK_MONOTONIC) - p->started_ms) / 1000;
    (void)printf("\"total\":%ld},\"tombstones\":%ld,\"devices\":%ld,\"seconds\":%.2f}\n", poison,
                 c->tombstones, c->devices, seconds);
}

enum option_id {
    BROKERS = 'b',
    PROPERTY = 'X',
    HELP = 'h',
    FIRST = 256,
    TOPIC_EVENTS,
    TOPIC_DEVICES,
    LEDGER,
    DELETE_TOPIC,
    NUMBERS, /* from here on: one of numbers[] */
};

/* Options that are numbers, by their place in the options. */
static const struct {
    const char *name;
    size_t at;
    bool percent;
} numbers[] = {
    {"count", offsetof(struct produce_options, count), false},
    {"devices", offsetof(struct produce_options, devices), false},
    {"users", offsetof(struct produce_options, users), false},
    {"tombstones", offsetof(struct produce_options, tombstones), false},
    {"partitions", offsetof(struct produce_options, partitions), false},
    {"rate", offsetof(struct produce_options, rate), false},
    {"seed", offsetof(struct produce_options, seed), false},
    {"duplicates", offsetof(struct produce_options, duplicates), true},
    {"poison", offsetof(struct produce_options, poison), true},
    {"same-timestamp", offsetof(struct produce_options, same_timestamp), true},
    {"feed-only", offsetof(struct produce_options, feed_only), true},
};
enum { NUMBER_COUNT = sizeof numbers / sizeof *numbers };

static const char usage[] =
    "belfry-produce: realistic events and devices, the same for the same seed\n"
    "  -b, --brokers HOST:PORT    where Kafka is\n"
    "  -X property=value          any property of librdkafka (repeatable)\n"
    "  --count N                  records for the events topic: everything below is within them (0)\n"
    "  --devices N                registrations for the devices topic, round the users (0)\n"
    "  --users U                  user-0000 and on (100)\n"
    "  --duplicates PERCENT       same_batch, later_batch, other_run, other_partition, in turns (0)\n"
    "  --poison PERCENT           every reason code in turns (0)\n"
    "  --tombstones N             records with a null value (0)\n"
    "  --same-timestamp PERCENT   records that share one timestamp (0)\n"
    "  --feed-only PERCENT        events with \"push\":false (0)\n"
    "  --seed S                   (1)\n"
    "  --topic-events NAME        (belfry.events)     --topic-devices NAME  (belfry.devices)\n"
    "  --partitions P             of the events topic (asked of the broker)\n"
    "  --rate N                   records a second (0: as fast as it goes)\n"
    "  --ledger FILE              one JSON line a record: what must come of it\n"
    "  --delete-topic NAME        deletes this topic and does nothing else (repeatable)\n"
    "A progress line goes to stderr, a JSON summary to stdout.\n";

static bool set_number(struct produce_options *options, size_t number, const char *text)
{
    char *end;
    char *at = (char *)options + numbers[number].at;
    errno = 0;
    if (numbers[number].percent) {
        double value = strtod(text, &end);
        memcpy(at, &value, sizeof value);
        return errno == 0 && end != text && *end == '\0' && value >= 0 && value <= 100;
    }
    long value = strtol(text, &end, 10);
    memcpy(at, &value, sizeof value);
    return errno == 0 && end != text && *end == '\0' && value >= 0 && value <= INT32_MAX;
}

static bool set_property(struct producer *p, const char *text)
{
    char name[128], fault[256];
    const char *equals = strchr(text, '=');
    if (equals == NULL || (size_t)(equals - text) >= sizeof name)
        return false;
    (void)snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    return rd_kafka_conf_set(p->conf, name, equals + 1, fault, sizeof fault) == RD_KAFKA_CONF_OK;
}

static bool set_option(struct producer *p, int option, const char *value)
{
    switch (option) {
    case BROKERS:
        p->options.brokers = value;
        return true;
    case PROPERTY:
        return set_property(p, value);
    case TOPIC_EVENTS:
        p->options.topic_events = value;
        return true;
    case TOPIC_DEVICES:
        p->options.topic_devices = value;
        return true;
    case LEDGER:
        p->options.ledger = value;
        return true;
    case DELETE_TOPIC:
        if (p->options.unwanted_count == UNWANTED_MAX)
            return false;
        p->options.unwanted[p->options.unwanted_count++] = value;
        return true;
    default:
        return option >= NUMBERS && set_number(&p->options, (size_t)(option - NUMBERS), value);
    }
}

/* -1: go on; else the exit code. */
static int parse_options(struct producer *p, int argc, char **argv)
{
    struct option options[NUMBER_COUNT + 7] = {{"brokers", required_argument, NULL, BROKERS},
                                               {"topic-events", required_argument, NULL, TOPIC_EVENTS},
                                               {"topic-devices", required_argument, NULL, TOPIC_DEVICES},
                                               {"ledger", required_argument, NULL, LEDGER},
                                               {"delete-topic", required_argument, NULL, DELETE_TOPIC},
                                               {"help", no_argument, NULL, HELP}};
    for (int i = 0; i < NUMBER_COUNT; i++)
        options[6 + i] = (struct option){numbers[i].name, required_argument, NULL, NUMBERS + i};
    p->options = (struct produce_options){
        .users = 100, .seed = 1, .topic_events = "belfry.events", .topic_devices = "belfry.devices"};
    int option;
    while ((option = getopt_long(argc, argv, "b:X:h", options, NULL)) != -1) {
        if (option == HELP) {
            (void)fputs(usage, stdout);
            return EXIT_DONE;
        }
        if (option == '?')
            return EXIT_USAGE;
        if (!set_option(p, option, optarg)) {
            (void)fprintf(stderr, "belfry-produce: \"%s\" cannot be used here\n", optarg);
            return EXIT_USAGE;
        }
    }
    if (optind != argc || p->options.brokers == NULL || p->options.users == 0) {
        (void)fprintf(stderr,
                      "belfry-produce: --brokers is needed, and at least one user; --help says more\n");
        return EXIT_USAGE;
    }
    return -1;
}

static bool open_producer(struct producer *p)
{
    char fault[256];
    static const char *const properties[][2] = {
        {"enable.idempotence", "true"}, {"linger.ms", "5"}, {"socket.nagle.disable", "true"}};
    bool good = rd_kafka_conf_set(p->conf, "bootstrap.servers", p->options.brokers, fault, sizeof fault) ==
                RD_KAFKA_CONF_OK;
    for (size_t i = 0; good && i < sizeof properties / sizeof *properties; i++)
        good = rd_kafka_conf_set(p->conf, properties[i][0], properties[i][1], fault, sizeof fault) ==
               RD_KAFKA_CONF_OK;
    rd_kafka_conf_set_dr_msg_cb(p->conf, delivered);
    rd_kafka_conf_set_opaque(p->conf, p);
    p->kafka = good ? rd_kafka_new(RD_KAFKA_PRODUCER, p->conf, fault, sizeof fault) : NULL;
    if (p->kafka == NULL) {
        (void)fprintf(stderr, "belfry-produce: %s\n", fault);
        return false;
    }
    p->conf = NULL;
    if (p->options.ledger != NULL && (p->ledger = fopen(p->options.ledger, "we")) == NULL) {
        (void)fprintf(stderr, "belfry-produce: %s: %s\n", p->options.ledger, strerror(errno));
        return false;
    }
    return true;
}

static int run(struct producer *p)
{
    buffer_init(&p->value, VALUE_MAX);
    p->options.base_ms = now_ms(CLOCK_REALTIME);
    p->started_ms = p->shown_ms = now_ms(CLOCK_MONOTONIC);
    if (!open_producer(p))
        return EXIT_FAILED;
    if (p->options.unwanted_count > 0)
        return topics_delete(p->kafka, p->options.unwanted, p->options.unwanted_count) ? EXIT_DONE
                                                                                       : EXIT_FAILED;
    bool good = topic_partitions(p) && publish_devices(p) && publish_events(p);
    (void)rd_kafka_flush(p->kafka, good ? FLUSH_MS : 0);
    good = good && !signals_stopping() && p->counts.acknowledged == p->options.devices + p->options.count;
    if (p->counts.planned > 0) {
        show_progress(p, true);
        print_summary(p);
    }
    if (p->ledger != NULL && fclose(p->ledger) != 0)
        good = false;
    return good ? EXIT_DONE : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    static struct producer producer;
    signals_open();
    producer.conf = rd_kafka_conf_new();
    int result = parse_options(&producer, argc, argv);
    if (result < 0)
        result = run(&producer);
    if (producer.kafka != NULL) {
        (void)rd_kafka_purge(producer.kafka, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        (void)rd_kafka_flush(producer.kafka, 1000);
        rd_kafka_destroy(producer.kafka);
    }
    if (producer.conf != NULL)
        rd_kafka_conf_destroy(producer.conf);
    buffer_done(&producer.value);
    return result;
}
