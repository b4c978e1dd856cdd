/* What producers send, and what comes of it in the table, the push, the feed and the topics behind. */
#include <criterion/criterion.h>
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

#define INGEST_ONLY "[run]\nroles = ingest\n"
#define TRACE_ID    "4bf92f3577b34da6a3ce929d0e0e4736"
#define TRACE       "00-" TRACE_ID "-00f067aa0ba902b7-01"

static void open_world(struct world *w, const char *name, int partitions)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, partitions);
}

static void produce_with(struct world *w, const char *value, const struct world_header *headers, int count)
{
    world_produce_bytes(w, w->events, 0, "k", value, strlen(value), headers, count, -1);
}

static void close_world(struct world *w, struct child *dispatcher)
{
    world_wait_drained(w, w->group, w->events, 30);
    world_check_books(w);
    if (dispatcher != NULL)
        child_stop(dispatcher);
    world_close(w);
}

/* ---- dead letters and receipts as texts ---------------------------------------------------------------- */

struct seen {
    const char *header; /* whose values are gathered */
    char values[16][160];
    int count, with, without;
};

static void look(void *context, const struct world_record *record)
{
    struct seen *seen = context;
    bool found = false;
    for (int i = 0; i < record->header_count; i++) {
        if (strcmp(record->headers[i].name, seen->header) != 0)
            continue;
        found = true;
        cr_assert(seen->count < 16);
        snprintf(seen->values[seen->count++], 160, "%s", record->headers[i].value);
    }
    seen->with += found;
    seen->without += !found;
}

static void gather(struct world *w, const char *topic, const char *header, struct seen *seen)
{
    *seen = (struct seen){.header = header};
    world_read_topic(w, topic, look, seen);
}

static bool has_value(const struct seen *seen, const char *value)
{
    for (int i = 0; i < seen->count; i++) {
        if (strcmp(seen->values[i], value) == 0)
            return true;
    }
    return false;
}

/* ---- CloudEvents --------------------------------------------------------------------------------------- */

#define OBJECT(user)                                                                                         \
    "{\"workspace_id\":\"w\",\"recipient_user_id\":\"" user "\",\"title\":\"x\",\"data\":{\"n\" : 0.10}}"

static const struct world_header structured[] = {
    {"content-type", "application/cloudevents+json; charset=utf-8"}};

static void produce_binary(struct world *w, const char *version, const char *id, const char *value)
{
    const struct world_header headers[] = {
        {"content-type", "application/json"}, {"ce_specversion", version},         {"ce_source", "/app"},
        {"ce_type", "meeting.assigned"},      {"ce_time", "2026-03-21T09:00:00Z"}, {"ce_id", id}};
    produce_with(w, value, headers, id == NULL ? 5 : 6);
}

static void check_events_knows(struct world *w)
{
    char path[WORLD_PATH_MAX], file[WORLD_PATH_MAX], output[1024];
    world_write_dispatcher_ini(w, NULL, path);
    snprintf(file, sizeof file, "%.400s/lines.ndjson", w->folder);
    FILE *stream = fopen(file, "w");
    fprintf(stream,
            "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/a\",\"type\":\"t\",\"data\":" OBJECT(
                "u") "}\n"
                     "{\"specversion\":\"1.0\",\"source\":\"/a\",\"type\":\"t\",\"data\":" OBJECT(
                         "u") "}\n"
                              "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/a\",\"type\":\"t\"}\n");
    fclose(stream);
    const char *argv[] = {"-F", path, "--check-events", file, NULL};
    int code = world_run(w, "src/bin/belfry-dispatcher", argv, output, sizeof output);
    printf("--check-events: exit %d\n%s", code, output);
    cr_expect_eq(code, 1);
    cr_expect(strstr(output, "1: ") == NULL || strncmp(output, "1: ", 3) != 0);
    cr_expect(strncmp(output, "2: field id", 11) == 0);
    cr_expect(strstr(output, "\n3: field data") != NULL);
}

Test(dispatcher, cloudevents, .timeout = 120)
{
    struct world w;
    struct seen codes, fields;
    char text[256];
    open_world(&w, "cloudevents", 1);
    struct child *dispatcher = world_dispatcher(&w, INGEST_ONLY);
    produce_with(&w,
                 "{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/app\",\"type\":\"meeting.assigned\","
                 "\"data\" : " OBJECT("u1") ",\"subject\":\"s\"}",
                 structured, 1);
    produce_binary(&w, "1.0", "8", OBJECT("u2"));
    produce_binary(&w, "1.0", "8", OBJECT("u2"));  /* the same run: a duplicate */
    produce_binary(&w, "1.0", "7", OBJECT("u1"));  /* and across the two bindings */
    produce_binary(&w, "0.3", "9", OBJECT("u3"));  /* refused */
    produce_binary(&w, "1.0", NULL, OBJECT("u3")); /* refused */
    produce_with(&w, "{\"specversion\":\"1.0\",\"id\":\"7\",\"source\":\"/app\",\"type\":\"t\"}", structured,
                 1);
    world_produce(
        &w, w.events, 0, "k", /* a plain one still is */
        "{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u4\","
        "\"title\":\"x\"}");
    world_wait_count(&w, 3, "SELECT count(*) FROM notifications");
    world_wait_drained(&w, w.group, w.events, 30);
    cr_assert_eq(world_count(&w, "SELECT sum(duplicates) FROM partition_offsets"), 2);
    world_text(&w, text, sizeof text,
               "SELECT event_type || ' ' || data::text FROM notifications WHERE "
               "recipient_user_id = 'u1'");
    printf("structured: %s\n", text);
    cr_assert_str_eq(text, "meeting.assigned {\"n\" : 0.10}");
    world_text(&w, text, sizeof text, "SELECT data::text FROM notifications WHERE recipient_user_id = 'u2'");
    cr_assert_str_eq(text, "{\"n\" : 0.10}");
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM idempotency_keys WHERE key = "
                                 "'notification:/app/8:meeting.assigned:u2'"),
                 1);
    gather(&w, w.dlq, "belfry.error.code", &codes);
    gather(&w, w.dlq, "belfry.error.field", &fields);
    cr_assert_eq(codes.count, 3);
    cr_assert(has_value(&fields, "ce_specversion") && has_value(&fields, "ce_id") &&
              has_value(&fields, "data"));
    printf("3 stored, 2 duplicates, 3 refused: %s, %s, %s\n", fields.values[0], fields.values[1],
           fields.values[2]);
    check_events_knows(&w);
    close_world(&w, dispatcher);
}

/* ---- traceparent --------------------------------------------------------------------------------------- */

static void produce_traced(struct world *w, const char *run, const char *trace)
{
    char value[300];
    const struct world_header header = {"traceparent", trace};
    snprintf(value, sizeof value,
             "{\"run_id\":\"%s\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u1\",%s",
             run, strcmp(run, "bad") == 0 ? "\"title\":7}" : "\"title\":\"x\"}");
    produce_with(w, value, &header, 1);
}

Test(dispatcher, traceparent, .timeout = 120)
{
    static const char *const broken[] = {"", "00-" TRACE_ID "-00f067aa0ba902b7", "nonsense",
                                         "00-00000000000000000000000000000000-00f067aa0ba902b7-01"};
    enum { BROKEN = sizeof broken / sizeof *broken };
    struct world w;
    struct seen seen;
    open_world(&w, "traceparent", 1);
    world_simulator(&w, NULL);
    struct child *dispatcher = world_dispatcher(&w, NULL);
    world_register(&w, "u1", "ExponentPushToken[trace]");
    world_wait_count(&w, 1, "SELECT count(*) FROM device_tokens");
    produce_traced(&w, "good", TRACE);
    for (int i = 0; i < BROKEN; i++) {
        char run[16];
        snprintf(run, sizeof run, "broken%d", i);
        produce_traced(&w, run, broken[i]);
    }
    produce_traced(&w, "bad", TRACE);
    world_wait_count(&w, 1 + BROKEN, "SELECT count(*) FROM notifications");
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    world_wait_count(&w, 1 + BROKEN, "SELECT count(*) FROM dispatches");
    printf("%lld records of receipts\n", (long long)world_topic_records(&w, w.receipts));
    gather(&w, w.receipts, "traceparent", &seen);
    printf("receipts: %d with traceparent, %d without; the first says %s\n", seen.with, seen.without,
           seen.values[0]);
    cr_assert_eq(seen.with, 1);
    cr_assert_eq(seen.without, BROKEN, "an invalid one is dropped");
    cr_assert_str_eq(seen.values[0], TRACE);
    gather(&w, w.dlq, "traceparent", &seen);
    cr_assert_eq(seen.with, 1, "a dead letter keeps its headers");
    cr_assert(child_log_has(dispatcher, "\"trace_id\":\"" TRACE_ID "\""));
    cr_assert_eq(world_count(&w, "SELECT sum(dead_letters) FROM partition_offsets"), 1);
    close_world(&w, dispatcher);
}

/* ---- many recipients ----------------------------------------------------------------------------------- */

enum { RECIPIENTS = 10000, WITH_DEVICES = 4000, SECOND_DEVICES = 1000 };

static char *event_for_many(const char *run, int recipients)
{
    size_t room = 512 + (size_t)(recipients + 1) * 24;
    char *value = malloc(room), *at = value;
    at += snprintf(at, room,
                   "{\"run_id\":\"%s\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"to all\","
                   "\"recipients\":[",
                   run);
    for (int i = 0; i < recipients; i++)
        at += snprintf(at, 24, "%s\"user-%05d\"", i == 0 ? "" : ",", i);
    snprintf(at, 3, "]}");
    return value;
}

static void register_many(struct world *w)
{
    char token[64], value[256];
    for (int i = 0; i < WITH_DEVICES + SECOND_DEVICES; i++) {
        snprintf(token, sizeof token, "ExponentPushToken[many-%d]", i);
        snprintf(value, sizeof value,
                 "{\"op\":\"register\",\"user_id\":\"user-%05d\",\"token\":\"%s\",\"platform\":\"ios\"}",
                 i % WITH_DEVICES, token);
        world_produce_fast(w, w->devices, -1, token, value);
    }
    world_flush(w);
}

/* Killed around its one statement: all of it or nothing. */
static void kill_around(struct world *w, const char *point)
{
    struct child *doomed =
        world_dispatcher_crash(w, INGEST_ONLY "[ingest]\nbatch_max_recipients = 100\n", point);
    char *value = event_for_many(point, 500);
    int64_t before = world_count(w, "SELECT count(*) FROM notifications");
    world_produce(w, w->events, 0, "k", value);
    free(value);
    cr_assert_eq(child_wait(doomed, 30), 128 + SIGKILL);
    int64_t rows = world_count(w, "SELECT count(*) FROM notifications") - before;
    printf("killed at %-8s %lld of 500 rows\n", point, (long long)rows);
    cr_assert(rows == 0 || rows == 500);
}

Test(dispatcher, recipients, .timeout = 230)
{
    struct world w;
    open_world(&w, "recipients", 1);
    world_simulator(&w, NULL);
    struct child *dispatcher =
        world_dispatcher(&w, "[ingest]\nbatch_max_recipients = 1000\nbatch_max_bytes = 65536\n"
                             "[fanout]\nrate_limit = 100000\nlease = 60s\n");
    register_many(&w);
    world_wait_count(&w, WITH_DEVICES + SECOND_DEVICES, "SELECT count(*) FROM device_tokens");
    char *value = event_for_many("all", RECIPIENTS);
    printf("one event of %zu bytes, %d recipients, batches of 1000\n", strlen(value), RECIPIENTS);
    int64_t before_ms = world_now_ms();
    world_produce(&w, w.events, 0, "k", value);
    world_wait_count(&w, RECIPIENTS, "SELECT count(*) FROM notifications");
    int64_t stored_ms = world_now_ms() - before_ms;
    int64_t dispatches = world_count(&w, "SELECT count(*) FROM dispatches");
    printf("%lld notifications, %lld dispatches, stored after %lld ms\n",
           (long long)world_count(&w, "SELECT count(*) FROM notifications"), (long long)dispatches,
           (long long)stored_ms);
    cr_assert_eq(dispatches, WITH_DEVICES + SECOND_DEVICES);
    cr_assert_eq(
        world_count(&w, "SELECT count(DISTINCT (created_at, inserted_xid::text)) FROM notifications"), 1,
        "one statement");
    world_produce(&w, w.events, 0, "k", value); /* again: nothing but duplicates */
    free(value);
    world_wait_drained(&w, w.group, w.events, 60);
    cr_assert_eq(world_count(&w, "SELECT sum(duplicates) FROM partition_offsets"), RECIPIENTS);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    int64_t accepted = simulator_stat(&w, "send", "accepted"), calls = simulator_stat(&w, "send", "calls");
    printf("%lld messages accepted in %lld requests, largest %lld\n", (long long)accepted, (long long)calls,
           (long long)simulator_stat(&w, "send", "largest"));
    cr_assert_eq(accepted, dispatches);
    child_stop(dispatcher);
    kill_around(&w, "claim");
    dispatcher = world_dispatcher(&w, NULL);
    world_wait_count(&w, RECIPIENTS + 500, "SELECT count(*) FROM notifications");
    child_stop(dispatcher);
    kill_around(&w, "claimed");
    dispatcher = world_dispatcher(&w, NULL);
    world_wait_count(&w, RECIPIENTS + 1000, "SELECT count(*) FROM notifications");
    close_world(&w, dispatcher);
}

/* ---- a duplicate with other content -------------------------------------------------------------------- */

static void produce_titled(struct world *w, const char *title)
{
    char value[300];
    snprintf(value, sizeof value,
             "{\"run_id\":\"secret-run\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":"
             "\"secret-user\",\"title\":\"%s\"}",
             title);
    world_produce(w, w->events, 0, "k", value);
}

Test(dispatcher, mismatch, .timeout = 120)
{
    struct world w;
    char title[64], hex[80], expected[128];
    open_world(&w, "mismatch", 1);
    struct child *dispatcher = world_dispatcher(&w, INGEST_ONLY);
    produce_titled(&w, "the-first");
    produce_titled(&w, "the-first"); /* the same content: no mismatch */
    produce_titled(&w, "the-second");
    world_wait_drained(&w, w.group, w.events, 30);
    cr_assert_eq(world_count(&w, "SELECT sum(duplicates) FROM partition_offsets"), 2);
    world_text(&w, title, sizeof title, "SELECT title FROM notifications");
    cr_assert_str_eq(title, "the-first", "the first wins");
    world_text(&w, hex, sizeof hex,
               "SELECT left(encode(sha256(key::bytea), 'hex'), 16) FROM idempotency_keys");
    snprintf(expected, sizeof expected, "\"key_fingerprint\":\"%s\"", hex);
    child_wait_log(dispatcher, expected, 10);
    printf("logged: %s\n", expected);
    cr_assert(child_metric(dispatcher, "belfry_duplicate_mismatch_total") == 1);
    cr_assert_not(world_logs_have(&w, "the-second"));
    cr_assert_not(world_logs_have(&w, "the-first"));
    cr_assert_not(world_logs_have(&w, "secret-"), "no key in a log either");
    close_world(&w, dispatcher);
}

/* ---- key_retention --------------------------------------------------------------------------------------
 */

static void create_topic_with(struct world *w, const char *topic, const char *name, const char *value)
{
    char text[256];
    rd_kafka_NewTopic_t *made = rd_kafka_NewTopic_new(topic, 1, 1, text, sizeof text);
    rd_kafka_NewTopic_set_config(made, name, value);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(w->producer);
    rd_kafka_CreateTopics(w->producer, &made, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 15000);
    cr_assert(event != NULL && rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(made);
    world_sleep_ms(1000);
}

/* Starts a dispatcher that must refuse: its exit code is 2, and it says why. */
static void must_refuse(struct world *w, const char *what, const char *extra)
{
    char path[WORLD_PATH_MAX], text[512];
    snprintf(text, sizeof text, INGEST_ONLY "[ingest]\nallow_short_key_retention = off\n%s", extra);
    world_write_dispatcher_ini(w, text, path);
    const char *argv[] = {"-F", path, NULL};
    struct child *child = child_start(w, "src/bin/belfry-dispatcher", argv, NULL);
    int code = child_wait(child, 30);
    printf("%-50s exit %d\n", what, code);
    cr_assert_eq(code, 2, "%s", what);
    cr_assert(child_log_has(child, "allow_short_key_retention"), "the way out is named");
}

static void must_start(struct world *w, const char *what, const char *extra, const char *log)
{
    char text[512];
    snprintf(text, sizeof text, INGEST_ONLY "%s", extra);
    struct child *child = world_dispatcher(w, text);
    bool warned = log != NULL && child_log_has(child, log);
    printf("%-50s starts%s%s\n", what, log == NULL ? "" : ", says ", log == NULL ? "" : log);
    cr_assert(log == NULL || warned, "%s", what);
    cr_assert(log != NULL || !child_log_has(child, "KEY-RETENTION"), "%s", what);
    child_stop(child);
}

/* The mock cluster never answers such a question: as a broker that forbids it. */
static void no_answer(void)
{
    struct world w;
    char line[256] = "", topic[5][160], extra[] = INGEST_ONLY "[ingest]\nallow_short_key_retention = off\n";
    world_open(&w, "key_retention_mute");
    world_database(&w);
    const char *names[] = {w.events, w.devices, w.receipts, w.dlq, w.receipts_dlq};
    const char *argv[12] = {NULL};
    for (int i = 0; i < 5; i++) {
        snprintf(topic[i], sizeof topic[i], "%s:1", names[i]);
        argv[2 * i] = "--topic";
        argv[2 * i + 1] = topic[i];
    }
    struct child *broker = child_start(&w, "tests/support/belfry-broker", argv, NULL);
    for (int i = 0; i < 100 && strchr(line, '\n') == NULL; i++) {
        world_sleep_ms(50);
        FILE *stream = fopen(broker->output, "r");
        if (stream != NULL && fgets(line, sizeof line, stream) == NULL)
            line[0] = '\0';
        if (stream != NULL)
            fclose(stream);
    }
    cr_assert(strncmp(line, "bootstrap ", 10) == 0, "%s", line);
    line[strcspn(line, "\n")] = '\0';
    world_use_brokers(&w, line + 10);
    struct child *dispatcher = world_dispatcher(&w, extra);
    child_wait_log(dispatcher, "ING-RETENTION-UNKNOWN", 20);
    cr_assert(child_metric(dispatcher, "belfry_key_retention_unverified") == 1);
    printf("%-50s starts, says ING-RETENTION-UNKNOWN\n", "no answer");
    child_stop(dispatcher);
    world_close(&w);
}

Test(dispatcher, key_retention, .timeout = 230)
{
    struct world w;
    open_world(&w, "key_retention", 1);
    must_refuse(&w, "2 days of keys, 7 days of records", "key_retention = 2d\n");
    must_start(&w, "30 days of keys, 7 days of records", "[ingest]\nallow_short_key_retention = off\n", NULL);
    must_start(&w, "2 days of keys, allowed",
               "[ingest]\nkey_retention = 2d\nallow_short_key_retention = on\n", "ING-KEY-RETENTION");
    static const struct {
        const char *name, *value;
    } rows[] = {{"retention.ms", "-1"},
                {"retention.ms", "9223372036854775807"},
                {"cleanup.policy", "compact"},
                {"cleanup.policy", "compact,delete"},
                {"segment.ms", "9223372036854775807"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char what[96];
        world_delete_topic(&w, w.events);
        world_sleep_ms(1000);
        create_topic_with(&w, w.events, rows[i].name, rows[i].value);
        snprintf(what, sizeof what, "%s=%s", rows[i].name, rows[i].value);
        must_refuse(&w, what, "key_retention = 365d\n");
    }
    must_start(&w, "the last, allowed", "[ingest]\nallow_short_key_retention = on\n", "ING-KEY-RETENTION");
    world_close(&w);
    no_answer();
}

static void allow(struct world *w, rd_kafka_ResourceType_t kind, const char *name,
                  rd_kafka_AclOperation_t what)
{
    char text[256];
    rd_kafka_AclBinding_t *acl =
        rd_kafka_AclBinding_new(kind, name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:belfry", "*", what,
                                RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, text, sizeof text);
    cr_assert(acl != NULL, "%s", text);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(w->producer);
    rd_kafka_CreateAcls(w->producer, &acl, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 15000);
    cr_assert(event != NULL && rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR);
    size_t count = 0;
    const rd_kafka_acl_result_t *const *results =
        rd_kafka_CreateAcls_result_acls(rd_kafka_event_CreateAcls_result(event), &count);
    cr_assert(count == 1 && rd_kafka_acl_result_error(results[0]) == NULL);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AclBinding_destroy(acl);
}

static void sasl_ini(struct world *w, char *ini, size_t size)
{
    char path[WORLD_PATH_MAX + 32], address[64] = "";
    snprintf(path, sizeof path, "%s/kafka/kafka.sasl", w->folder);
    FILE *stream = fopen(path, "r");
    cr_assert(stream != NULL && fgets(address, sizeof address, stream) != NULL);
    fclose(stream);
    address[strcspn(address, "\n")] = '\0';
    snprintf(ini, size,
             INGEST_ONLY "[kafka]\nbootstrap.servers = %s\nsecurity.protocol = sasl_plaintext\n"
                         "sasl.mechanisms = PLAIN\nsasl.username = belfry\nsasl.password = belfry\n"
                         "[ingest]\nallow_short_key_retention = off\n",
             address);
}

/* A broker with ACLs: who may read and write, but not ask for a topic's configuration, works all the same. */
Test(dispatcher, key_retention_forbidden, .timeout = 150)
{
    static struct world w;
    char ini[1024], path[WORLD_PATH_MAX];
    world_open(&w, "retention_acl");
    world_own_server(&w, "kafka", "start", "acl");
    world_database(&w);
    world_topics(&w, 1);
    sasl_ini(&w, ini, sizeof ini);
    allow(&w, RD_KAFKA_RESOURCE_TOPIC, "*", RD_KAFKA_ACL_OPERATION_READ);
    allow(&w, RD_KAFKA_RESOURCE_TOPIC, w.dlq, RD_KAFKA_ACL_OPERATION_WRITE);
    allow(&w, RD_KAFKA_RESOURCE_GROUP, w.group, RD_KAFKA_ACL_OPERATION_READ);
    struct child *dispatcher = world_dispatcher(&w, ini);
    produce_titled(&w, "allowed");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    double unverified = child_metric(dispatcher, "belfry_key_retention_unverified");
    printf("no DescribeConfigs: ready, %lld row, belfry_key_retention_unverified %.0f\n",
           (long long)world_count(&w, "SELECT count(*) FROM notifications"), unverified);
    cr_assert_eq(unverified, 1);
    cr_assert(child_log_has(dispatcher, "ING-RETENTION-UNKNOWN"));
    cr_assert(child_log_has(dispatcher, "TOPIC_AUTHORIZATION_FAILED"), "the reason is said");
    child_stop(dispatcher);

    /* With it, the same user is refused as anybody is: the answer is what counts. */
    allow(&w, RD_KAFKA_RESOURCE_TOPIC, w.events, RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS);
    snprintf(ini + strlen(ini), sizeof ini - strlen(ini), "key_retention = 2d\n");
    world_write_dispatcher_ini(&w, ini, path);
    const char *argv[] = {"-F", path, NULL};
    struct child *refused = child_start(&w, "src/bin/belfry-dispatcher", argv, NULL);
    int code = child_wait(refused, 30);
    printf("with DescribeConfigs, 2 days of keys, 7 days of records: exit %d\n", code);
    cr_assert_eq(code, 2);
    cr_assert_not(world_logs_have(&w, "sasl.password\":\"belfry"), "no password in a log");
    world_check_books(&w);

    static const struct {
        const char *what, *extra, *reason;
    } rows[] = {{"another group", "[kafka]\ngroup.id = not-allowed\n", "GROUP_AUTHORIZATION_FAILED"},
                {"a wrong password", "[kafka]\nsasl.password = other\n", "uthentication"}};
    for (size_t i = 0; i < 2; i++) {
        sasl_ini(&w, ini, sizeof ini);
        snprintf(ini + strlen(ini), sizeof ini - strlen(ini), "%s", rows[i].extra);
        world_write_dispatcher_ini(&w, ini, path);
        struct child *child = child_start(&w, "src/bin/belfry-dispatcher", argv, NULL);
        code = child_wait(child, 40);
        printf("%s: exit %d\n", rows[i].what, code);
        cr_assert_eq(code, 5, "see %s", child->log);
        cr_assert(child_log_has(child, rows[i].reason), "see %s", child->log);
    }
    world_close(&w);
    world_own_server(&w, "kafka", "stop", "kill");
}

/* ---- timestamps -----------------------------------------------------------------------------------------
 */

Test(dispatcher, timestamps, .timeout = 120)
{
    static const char *const refused[] = {
        "now",
        "infinity",
        "-infinity",
        "epoch",
        "today",
        "",
        "2026-03-21",
        "2026-03-21 09:00:00Z",
        "2026-03-21T09:00:00",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-10T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-03-21T24:00:00Z",
        "2026-03-21T09:60:00Z",
        "2026-03-21T09:00:61Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2026-03-21T09:00:00+25:00",
        "2026-03-21T09:00:00.Z",
        "2026-03-21T09:00:00Z ",
        "20260321T090000Z",
    };
    static const struct {
        const char *given, *stored;
    } taken[] = {
        {"2026-03-21T23:59:59.9999999Z", "2026-03-21 23:59:59.999999"},
        {"2026-03-21T00:00:00.123456999+05:30", "2026-03-20 18:30:00.123456"},
        {"2024-02-29T12:00:00z", "2024-02-29 12:00:00.000000"},
        {"0001-01-01T00:00:00Z", "0001-01-01 00:00:00.000000"},
        {"9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59.999999"},
    };
    enum { REFUSED = sizeof refused / sizeof *refused, TAKEN = sizeof taken / sizeof *taken };
    struct world w;
    char value[400], stored[64];
    open_world(&w, "timestamps", 1);
    struct child *dispatcher = world_dispatcher(&w, INGEST_ONLY);
    for (int i = 0; i < REFUSED * 2 + TAKEN; i++) {
        const char *member = i < REFUSED ? "occurred_at" : i < 2 * REFUSED ? "expires_at" : "occurred_at";
        const char *at = i < 2 * REFUSED ? refused[i % REFUSED] : taken[i - 2 * REFUSED].given;
        snprintf(
            value, sizeof value,
            "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u%d\","
            "\"title\":\"x\",\"%s\":\"%s\"}",
            i, i, member, at);
        world_produce(&w, w.events, 0, "k", value);
    }
    world_wait_drained(&w, w.group, w.events, 30);
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM notifications"), TAKEN);
    cr_assert_eq(world_count(&w, "SELECT sum(dead_letters) FROM partition_offsets"), 2 * REFUSED);
    cr_assert_eq(world_topic_records(&w, w.dlq), 2 * REFUSED);
    for (int i = 0; i < TAKEN; i++) {
        world_text(&w, stored, sizeof stored,
                   "SELECT to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') FROM "
                   "notifications WHERE recipient_user_id = 'u%d'",
                   2 * REFUSED + i);
        printf("%-40s -> %s\n", taken[i].given, stored);
        cr_assert_str_eq(stored, taken[i].stored);
    }
    printf("%d spellings refused in both members\n", REFUSED);
    close_world(&w, dispatcher);
}

/* ---- numbers --------------------------------------------------------------------------------------------
 */

#define NUMBERS                                                                                              \
    "\"a\":0.1,\"b\":9007199254740993,\"c\":-0.0,\"d\":1.10,\"e\":1E+2,\"f\":9223372036854775807,"           \
    "\"g\":0.30000000000000004,\"h\":123456789.123456789123456789"

static void numbers_in_feed(struct world *w)
{
    char path[WORLD_PATH_MAX], output[4096];
    world_exec(w, "SELECT belfry_set_member('w', 'u1', 'member')");
    world_write_reader_ini(w, NULL, path);
    const char *argv[] = {"page",        "-F", path,     "--feed", "notifications",
                          "--workspace", "w",  "--user", "u1",     NULL};
    cr_assert_eq(world_run(w, "src/bin/belfry-reader", argv, output, sizeof output), 0);
    const char *data = strstr(output, "\"data\":");
    cr_assert(data != NULL);
    printf("feed:  %.*s\n", (int)strcspn(data, "}") + 1, data);
    cr_assert(strstr(output, "\"data\":{" NUMBERS "}") != NULL, "%s", output);
}

static void numbers_in_push(struct world *w)
{
    char line[8192] = "", plain[8192], *to = plain;
    FILE *stream = fopen(w->record, "r");
    cr_assert(stream != NULL && fgets(line, sizeof line, stream) != NULL);
    fclose(stream);
    for (const char *at = line; *at != '\0'; at++) { /* the body stands there as a JSON string */
        if (*at != '\\')
            *to++ = *at;
    }
    *to = '\0';
    const char *data = strstr(plain, "\"request\":");
    cr_assert(data != NULL, "%s", plain);
    printf("push:  %.400s\n", data);
    cr_assert(strstr(data, NUMBERS) != NULL);
}

/* What is held of a person, handed out (belfry_export_user). */
static void numbers_in_export(struct world *w)
{
    char text[8192];
    world_text(w, text, sizeof text, "SELECT belfry_export_user('u1')");
    const char *data = strstr(text, "\"data\" : ");
    cr_assert(data != NULL, "%s", text);
    printf("export: %.*s\n", (int)strcspn(data, "}") + 1, data);
    cr_assert(strstr(data, "{" NUMBERS "}") != NULL);
}

Test(dispatcher, numbers, .timeout = 120)
{
    struct world w;
    char text[512];
    const char *const full[] = {"--record-full", NULL};
    open_world(&w, "numbers", 1);
    world_simulator(&w, full);
    struct child *dispatcher = world_dispatcher(&w, NULL);
    world_register(&w, "u1", "ExponentPushToken[numbers]");
    world_wait_count(&w, 1, "SELECT count(*) FROM device_tokens");
    world_produce(
        &w, w.events, 0, "k",
        "{\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u1\","
        "\"title\":\"x\",\"data\":{" NUMBERS "}}");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    world_text(&w, text, sizeof text, "SELECT data::text FROM notifications");
    printf("table: %s\n", text);
    cr_assert_str_eq(text, "{" NUMBERS "}");
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    numbers_in_push(&w);
    numbers_in_feed(&w);
    numbers_in_export(&w);
    close_world(&w, dispatcher);
}
