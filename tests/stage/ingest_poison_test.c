/* Cases from the field (shared/cases.md): records that can never succeed, and records that are nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest_case.h"
#include "io/kafka.h"

/* A tombstone is skipped and counted, and is not malformed. */
Test(cases, ing_01, .timeout = 120)
{
    struct world w;
    struct dead_letters dead;
    case_open(&w, "ing_01", 1);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    world_produce(&w, w.events, 0, "u1", NULL);
    world_produce(&w, w.devices, 0, "token", NULL);
    case_produce_good(&w, "r1", "u1");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    world_wait_drained(&w, w.group, w.devices, 30);
    int64_t tombstones = world_count(&w, "SELECT sum(tombstones) FROM partition_offsets");
    int64_t keys = world_count(&w, "SELECT count(*) FROM idempotency_keys");
    case_read_dead(&w, &dead);
    printf("tombstones %lld, keys %lld, dead letters %d\n", (long long)tombstones, (long long)keys,
           dead.count);
    cr_assert_eq(tombstones, 2);
    cr_assert_eq(keys, 1, "only the good event claims a key");
    cr_assert_eq(dead.count, 0);
    cr_assert(child_running(dispatcher));
    case_close(&w, dispatcher);
}

/* A malformed record is passed once, blocks nothing, and is not seen again after a restart. */
Test(cases, ing_03, .timeout = 120)
{
    struct world w;
    struct dead_letters dead;
    case_open(&w, "ing_03", 1);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    world_produce(&w, w.events, 0, "k", "this-is-not-json {{{");
    int64_t before_ms = world_now_ms();
    case_produce_good(&w, "r1", "u1");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    int64_t took_ms = world_now_ms() - before_ms;
    case_wait_read(&w);
    child_stop(dispatcher);
    dispatcher = case_dispatcher(&w, NULL);
    case_produce_good(&w, "r2", "u1");
    world_wait_count(&w, 2, "SELECT count(*) FROM notifications");
    case_read_dead(&w, &dead);
    int64_t records = world_count(&w, "SELECT records FROM partition_offsets WHERE topic = '%s'", w.events);
    printf("the good event took %lld ms; after the restart %lld records were read in all, %d dead letter\n",
           (long long)took_ms, (long long)records, dead.count);
    cr_assert_eq(dead.count, 1);
    cr_assert_str_eq(dead.all[0].code, "json");
    cr_assert_str_eq(dead.all[0].value, "this-is-not-json {{{");
    cr_assert_str_eq(dead.all[0].key, "k");
    cr_assert_str_eq(dead.all[0].topic, w.events);
    cr_assert_eq(dead.all[0].partition, 0);
    cr_assert_eq(dead.all[0].offset, 0);
    cr_assert_eq(records, 3, "each record was read once");
    cr_assert_lt(took_ms, 5000);
    case_close(&w, dispatcher);
}

/* The same member twice is ambiguous, however its name is spelled and wherever it stands. */
Test(cases, ing_10, .timeout = 120)
{
    static const char *const poison[] = {
        "{\"recipient_user_id\":\"u1\",\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\","
        "\"title\":\"x\","
        "\"recipient_user_id\":\"u2\"}",
        "{\"recipient_user_id\":\"u1\",\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\","
        "\"title\":\"x\","
        "\"recip\\u0069ent_user_id\":\"u2\"}",
        "{\"recipient_user_id\":\"u1\",\"run_id\":\"r\",\"event_type\":\"t\",\"workspace_id\":\"w\","
        "\"title\":\"x\","
        "\"data\":{\"a\":1,\"a\":2}}",
    };
    enum { COUNT = sizeof poison / sizeof *poison };
    struct world w;
    struct dead_letters dead;
    case_open(&w, "ing_10", 1);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    for (int i = 0; i < COUNT; i++) {
        world_produce(&w, w.events, 0, "u1", poison[i]);
    }
    case_produce_good(&w, "r9", "u9");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'u9'");
    case_wait_read(&w);
    case_read_dead(&w, &dead);
    cr_assert_eq(dead.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        cr_assert_str_eq(dead.all[i].code, "json", "%d: %s", i, dead.all[i].code);
        cr_assert_eq(dead.all[i].offset, i);
    }
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM notifications"), 1);
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM idempotency_keys"), 1);
    case_close(&w, dispatcher);
}

/* U+0000 is refused in every text and in data; the six visible characters are ordinary text. */
Test(cases, per_01, .timeout = 120)
{
    static const char *const poison[] = {
        "{\"run_id\":\"1\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":"
        "\"a\\u0000b\"}",
        "{\"run_id\":\"2\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":"
        "\"x\","
        "\"body\":\"end\\u0000\"}",
        "{\"run_id\":\"3\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\",\"title\":"
        "\"x\","
        "\"data\":{\"deep\":[{\"k\":\"v\\u0000\"}]}}",
        "{\"run_id\":\"4\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\\u0000\","
        "\"title\":"
        "\"x\"}",
    };
    enum { COUNT = sizeof poison / sizeof *poison };
    struct world w;
    struct dead_letters dead;
    char title[128], data[128];
    case_open(&w, "per_01", 1);
    struct child *dispatcher = case_dispatcher(&w, NULL);
    for (int i = 0; i < COUNT; i++) {
        world_produce(&w, w.events, 0, "u", poison[i]);
    }
    world_produce(&w, w.events, 0, "u",
                  "{\"run_id\":\"5\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":\"u\","
                  "\"title\":\"a\\\\u0000b\",\"data\":{\"k\":\"\\\\u0000\"}}");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    world_text(&w, title, sizeof title, "SELECT title FROM notifications");
    world_text(&w, data, sizeof data, "SELECT data::text FROM notifications");
    case_read_dead(&w, &dead);
    printf("stored title: %s, data: %s\n", title, data);
    cr_assert_eq(dead.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        cr_assert_str_eq(dead.all[i].code, "nul", "%d: %s", i, dead.all[i].code);
    }
    cr_assert_str_eq(title, "a\\u0000b");
    cr_assert_str_eq(data, "{\"k\":\"\\\\u0000\"}");
    case_close(&w, dispatcher);
}

/* A dead letter topic that takes less than the events topic does. */
static void make_narrow_topic(struct world *w)
{
    struct config_pair pairs[] = {{.key = "bootstrap.servers", .value = w->brokers}};
    struct config_pairs properties = {.pairs = pairs, .count = 1};
    struct kafka_client_options options = {.properties = &properties, .client_name = "test"};
    struct kafka_topic_config config[] = {{"max.message.bytes", "100000"}};
    struct kafka_topic_spec spec = {
        .name = w->dlq, .partitions = 1, .replication = 1, .config = config, .config_count = 1};
    struct kafka_admin *admin = NULL;
    struct fault fault;
    bool created = false;
    world_delete_topic(w, w->dlq);
    cr_assert_eq(kafka_admin_open(&options, &admin, &fault), ST_OK, "%s", fault.text);
    for (int i = 0; i < 100 && !created; i++) { /* the old one takes a while to go */
        enum status status = kafka_admin_create_topic(admin, &spec, &created, &fault);
        cr_assert_neq(status, ST_FATAL, "%s", fault.text);
        world_sleep_ms(created ? 0 : 100);
    }
    cr_assert(created, "%s", fault.text);
    kafka_admin_close(admin);
}

/* A dead letter that does not fit goes with its value cut and says so. */
Test(ingest, a_dead_letter_too_large_is_cut, .timeout = 120)
{
    enum { BYTES = 500000 };
    struct world w;
    struct dead_letters dead;
    case_open(&w, "dead_cut", 1);
    make_narrow_topic(&w);
    char *large = malloc(BYTES);
    unsigned seed = 7;
    for (int i = 0; i < BYTES; i++) {
        seed = seed * 1103515245 + 12345;
        large[i] = (char)(128 + (seed >> 16) % 128); /* noise, and no UTF-8 */
    }
    struct child *dispatcher = case_dispatcher(&w, NULL);
    world_produce_bytes(&w, w.events, 0, "k", large, BYTES, NULL, 0, -1);
    case_produce_good(&w, "r1", "u1");
    world_wait_count(&w, 1, "SELECT count(*) FROM notifications");
    case_wait_read(&w);
    case_read_dead(&w, &dead);
    cr_assert_eq(dead.count, 1);
    printf("value of %d bytes, in the dead letters %zu, header says %lld\n", BYTES, dead.all[0].value_bytes,
           (long long)dead.all[0].cut);
    cr_assert_str_eq(dead.all[0].code, "json");
    cr_assert_eq(dead.all[0].cut, BYTES);
    cr_assert_eq(dead.all[0].value_bytes, 64 * 1024);
    free(large);
    case_close(&w, dispatcher);
}
