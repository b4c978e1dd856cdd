/* One-shots: each reads the configuration, does one thing, prints a line for each thing done, and ends. Safe
 * to run twice; none of them touches what a running dispatcher holds, but for --seek, which Kafka refuses
 * then. */
#include "dispatcher_once.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatcher_config.h"
#include "dispatcher_replay.h"
#include "io/kafka.h"
#include "store/offsets.h"
#include "wire/event.h"

enum { PARTITIONS_DEFAULT = 12, HOURS_DEFAULT = 7 * 24, NUMBER_MAX = 24, TOPIC_NAME_MAX = 249 };

/* A whole number of a flag within bounds; fallback when the flag was not given. */
static enum status number_flag(const struct options *options, const char *name, int fallback, int *number,
                               struct fault *fault)
{
    const char *text = options_value(options, name, 0);
    char *end = NULL;
    errno = 0;
    long value = text == NULL ? fallback : strtol(text, &end, 10);
    if (text != NULL && (errno != 0 || end == text || *end != '\0' || value < 1 || value > 1000000)) {
        fault_set(fault, "usage", "--%s %s: a whole number from 1", name, text);
        fault->exit_code = EXIT_USAGE;
        return ST_FATAL;
    }
    *number = (int)value;
    return ST_OK;
}

/* ---- --create-topics ----------------------------------------------------------------------------------- */

static enum status create_one(struct kafka_admin *admin, const struct kafka_topic_spec *spec,
                              struct fault *fault)
{
    bool created = false;
    enum status status = kafka_admin_create_topic(admin, spec, &created, fault);
    if (status == ST_OK && created) {
        printf("%s: created with %d partitions\n", spec->name, spec->partitions);
    } else if (status == ST_OK) {
        printf("%s: there already, left as it is\n", spec->name);
    } else {
        char reason[FAULT_TEXT_MAX];
        (void)snprintf(reason, sizeof reason, "%s", fault->text);
        (void)snprintf(fault->text, sizeof fault->text, "%.100s cannot be created: %.250s", spec->name,
                       reason);
    }
    return status;
}

static enum status create_all(struct kafka_admin *admin, const struct topics_settings *topics,
                              const int numbers[3], struct fault *fault)
{
    char retention_ms[NUMBER_MAX];
    (void)snprintf(retention_ms, sizeof retention_ms, "%lld", (long long)numbers[2] * 3600 * 1000);
    /* Segments of a day: retention removes whole segments, and keys must outlive both (key_retention). */
    const struct kafka_topic_config kept[] = {
        {"cleanup.policy", "delete"}, {"retention.ms", retention_ms}, {"segment.ms", "86400000"}};
    const struct kafka_topic_config compacted[] = {{"cleanup.policy", "compact"}};
    const char *const names[] = {topics->events, topics->devices, topics->receipts, topics->dlq,
                                 topics->receipts_dlq};
    enum status status = ST_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && status == ST_OK; i++) {
        struct kafka_topic_spec spec = {.name = names[i],
                                        .partitions = numbers[0],
                                        .replication = numbers[1],
                                        .config = kept,
                                        .config_count = 3};
        status = create_one(admin, &spec, fault);
    }
    if (status == ST_OK && topics->settled_topic[0] != '\0') {
        struct kafka_topic_spec spec = {.name = topics->settled_topic,
                                        .partitions = numbers[0],
                                        .replication = numbers[1],
                                        .config = compacted,
                                        .config_count = 1};
        status = create_one(admin, &spec, fault);
    }
    return status;
}

static enum status open_admin(const struct frame *frame, struct kafka_admin **admin, struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    enum status status = config_require(frame->config, "kafka", "bootstrap.servers", fault);
    if (status != ST_OK) {
        fault->exit_code = EXIT_USAGE;
        return ST_FATAL;
    }
    struct kafka_client_options options = {.properties = &settings->kafka.properties,
                                           .client_name = "belfry-dispatcher-admin"};
    return kafka_admin_open(&options, admin, fault);
}

static enum status create_topics(struct frame *frame, struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    int numbers[3] = {0, 0, 0};
    struct kafka_admin *admin = NULL;
    enum status status = number_flag(frame->options, "partitions", PARTITIONS_DEFAULT, &numbers[0], fault);
    if (status == ST_OK) {
        status = number_flag(frame->options, "replication", -1, &numbers[1], fault);
    }
    if (status == ST_OK) {
        status = number_flag(frame->options, "retention-hours", HOURS_DEFAULT, &numbers[2], fault);
    }
    if (status == ST_OK) {
        status = open_admin(frame, &admin, fault);
    }
    if (status == ST_OK) {
        status = create_all(admin, &settings->topics, numbers, fault);
    }
    kafka_admin_close(admin);
    return status;
}

/* ---- --check-events ------------------------------------------------------------------------------------ */

struct check {
    struct arena arena;
    size_t bytes_max, number, refused;
};

static enum status check_line(struct check *check, struct span line, struct fault *fault)
{
    struct fault found;
    check->number++;
    enum status status = event_check_line(line, check->bytes_max, &check->arena, &found);
    if (status == ST_REJECT) {
        printf("%zu: %s%s%s: %s\n", check->number, found.code, found.field[0] == '\0' ? "" : " ", found.field,
               found.text);
        check->refused++;
        return ST_OK;
    }
    if (status != ST_OK) {
        *fault = found;
    }
    return status;
}

static enum status check_stream(FILE *stream, struct check *check, struct fault *fault)
{
    arena_init(&check->arena, EVENT_ARENA_BYTES_MAX);
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    enum status status = ST_OK;
    while (status == ST_OK && (bytes = getline(&line, &room, stream)) >= 0) {
        if (bytes > 0 && line[bytes - 1] == '\n') {
            bytes--;
        }
        struct span text = {line, (size_t)bytes};
        status = check_line(check, text, fault);
    }
    if (status == ST_OK && ferror(stream) != 0) {
        fault_set(fault, "file", "%s", strerror(errno));
        status = ST_FATAL;
    }
    free(line);
    arena_done(&check->arena);
    return status;
}

static enum status check_events(struct frame *frame, enum exit_code *code, struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    const char *path = options_value(frame->options, "check-events", 0);
    bool standard = strcmp(path, "-") == 0;
    FILE *stream = standard ? stdin : fopen(path, "re");
    if (stream == NULL) {
        fault_set(fault, "file", "%s: %s", path, strerror(errno));
        return ST_FATAL;
    }
    struct check check = {.bytes_max = settings->ingest.record_max_bytes};
    enum status status = check_stream(stream, &check, fault);
    if (!standard) {
        (void)fclose(stream);
    }
    *code = check.refused > 0 ? EXIT_FAILED : EXIT_DONE;
    return status;
}

/* ---- --seek -------------------------------------------------------------------------------------------- */

struct target {
    char topic[TOPIC_NAME_MAX + 1];
    int32_t partition;
    bool end;
    int64_t offset;
};

static bool read_number(const char *text, int64_t max, int64_t *number)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *number = value;
    return errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0' && value <= max;
}

static enum status read_target(const char *text, struct target *target, struct fault *fault)
{
    char partition[NUMBER_MAX] = "";
    const char *equals = strrchr(text, '=');
    const char *colon = equals == NULL ? NULL : memrchr(text, ':', (size_t)(equals - text));
    int64_t number = 0;
    bool fine =
        colon != NULL && colon > text && colon - text <= TOPIC_NAME_MAX && equals - colon < NUMBER_MAX;
    if (fine) {
        (void)snprintf(target->topic, sizeof target->topic, "%.*s", (int)(colon - text), text);
        (void)snprintf(partition, sizeof partition, "%.*s", (int)(equals - colon - 1), colon + 1);
        target->end = strcmp(equals + 1, "end") == 0;
        fine = read_number(partition, INT32_MAX, &number) &&
               (target->end || read_number(equals + 1, INT64_MAX, &target->offset));
        target->partition = (int32_t)number;
    }
    if (!fine) {
        fault_set(fault, "usage", "--seek %s: TOPIC:PARTITION=OFFSET, or =end", text);
        fault->exit_code = EXIT_USAGE;
        return ST_FATAL;
    }
    return ST_OK;
}

/* Kafka first: it refuses while the group runs, and then nothing was changed. */
static enum status seek_one(struct kafka_admin *admin, struct db *db, const char *group,
                            struct target *target, struct fault *fault)
{
    struct kafka_watermarks marks = {0, 0};
    enum status status = kafka_admin_watermarks(admin, target->topic, target->partition, &marks, fault);
    if (status == ST_OK && target->end) {
        target->offset = marks.high;
    }
    if (status == ST_OK && (target->offset < marks.low || target->offset > marks.high)) {
        fault_set(fault, "seek", "%s:%d holds offsets from %lld to %lld", target->topic, target->partition,
                  (long long)marks.low, (long long)marks.high);
        return ST_REJECT;
    }
    struct kafka_group_offset offset = {target->topic, target->partition, target->offset};
    if (status == ST_OK) {
        status = kafka_admin_set_offset(admin, group, &offset, fault);
    }
    struct offsets_scope scope = {.group_id = group, .topic = target->topic};
    if (status == ST_OK) {
        status = offsets_seek(db, &scope, target->partition, target->offset, fault);
    }
    if (status == ST_OK) {
        printf("%s:%d: the group %s goes on at %lld\n", target->topic, target->partition, group,
               (long long)target->offset);
    }
    return status;
}

static enum status check_topic(const struct topics_settings *topics, const struct target *target,
                               struct fault *fault)
{
    if (strcmp(target->topic, topics->events) == 0 || strcmp(target->topic, topics->devices) == 0) {
        return ST_OK;
    }
    fault_set(fault, "usage", "--seek %s: this dispatcher reads %s and %s", target->topic, topics->events,
              topics->devices);
    fault->exit_code = EXIT_USAGE;
    return ST_FATAL;
}

/* All of them, before anything is opened or moved. */
static enum status check_targets(const struct frame *frame, struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    enum status status = ST_OK;
    const char *text;
    for (size_t i = 0; status == ST_OK && (text = options_value(frame->options, "seek", i)) != NULL; i++) {
        struct target target;
        status = read_target(text, &target, fault);
        if (status == ST_OK) {
            status = check_topic(&settings->topics, &target, fault);
        }
    }
    return status;
}

static enum status seek_all(struct frame *frame, struct kafka_admin *admin, struct db *db,
                            struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    const char *group = config_pairs_find(&settings->kafka.properties, "group.id");
    enum status status = ST_OK;
    const char *text;
    for (size_t i = 0; status == ST_OK && (text = options_value(frame->options, "seek", i)) != NULL; i++) {
        struct target target;
        status = read_target(text, &target, fault);
        if (status == ST_OK) {
            status = seek_one(admin, db, group == NULL ? "" : group, &target, fault);
        }
    }
    return status;
}

static enum status seek(struct frame *frame, struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    struct db_settings database = {.uri = settings->database.uri,
                                   .application_name = "belfry-dispatcher-seek",
                                   .role = DB_ROLE_DISPATCHER,
                                   .prepared_statements = settings->database.prepared_statements};
    struct kafka_admin *admin = NULL;
    struct db *db = NULL;
    enum status status = check_targets(frame, fault);
    if (status == ST_OK) {
        status = open_admin(frame, &admin, fault);
    }
    if (status == ST_OK) {
        status = config_require(frame->config, "database", "uri", fault);
    }
    if (status == ST_OK) {
        status = db_open(&database, &db, fault);
    }
    if (status == ST_OK) {
        status = seek_all(frame, admin, db, fault);
    }
    db_close(db);
    kafka_admin_close(admin);
    return status;
}

enum status dispatcher_once(struct frame *frame, bool *handled, enum exit_code *code, struct fault *fault)
{
    *handled = true;
    *code = EXIT_DONE;
    if (options_given(frame->options, "create-topics")) {
        return create_topics(frame, fault);
    }
    if (options_given(frame->options, "check-events")) {
        return check_events(frame, code, fault);
    }
    if (options_given(frame->options, "seek")) {
        return seek(frame, fault);
    }
    if (options_given(frame->options, "replay-dlq")) {
        return dispatcher_replay(frame, fault);
    }
    *handled = false;
    return ST_OK;
}
