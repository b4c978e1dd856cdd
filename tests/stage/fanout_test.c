/* The fan-out thread alone, in this process: batches made by the real claim statement, a real Postgres and
 * Kafka, the simulator as the provider. */
#include "fanout/fanout.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/signals.h"
#include "store_fixture.h"

struct bench {
    struct fixture *f;
    struct fanout_settings settings;
    struct provider_settings provider;
    struct db_settings database;
    struct config_pair kafka[3];
    struct config_pairs properties;
    struct handover *handover;
    struct fanout_setup setup;
    struct fanout *fanout;
    pthread_t thread;
    enum status status;
};

static void open_bench(struct bench *b, const char *name)
{
    *b = (struct bench){.f = fixture_open(name, 1)};
    struct world *w = &b->f->world;
    static char uri[256];
    world_topics(w, 3);
    world_simulator(w, NULL);
    snprintf(uri, sizeof uri, "%s", world_role_uri(w, "belfry_dispatcher"));
    b->settings = (struct fanout_settings){.chunk_size = 100,
                                           .max_concurrent_requests = 6,
                                           .rate_limit = 100000,
                                           .rate_share = 1,
                                           .send_attempts = 3,
                                           .push_max_age_ms = 3600000,
                                           .lease_ms = 3000,
                                           .sweep_interval_ms = 200,
                                           .batches_in_memory = 4};
    b->provider = (struct provider_settings){.base_url = w->provider_url,
                                             .token = "",
                                             .request_timeout_ms = 3000,
                                             .connect_timeout_ms = 1000,
                                             .auth_pause_ms = 1000,
                                             .provider_failures = 1000,
                                             .provider_pause_ms = 200,
                                             .provider_pause_max_ms = 1000};
    b->database = (struct db_settings){.uri = uri,
                                       .application_name = "stage-fanout",
                                       .role = DB_ROLE_DISPATCHER,
                                       .prepared_statements = true};
    b->kafka[0] = (struct config_pair){.key = "bootstrap.servers", .value = w->brokers};
    b->kafka[1] = (struct config_pair){.key = "topic.metadata.refresh.interval.ms", .value = "1000"};
    b->kafka[2] = (struct config_pair){.key = "topic.metadata.propagation.max.ms", .value = "500"};
    b->properties = (struct config_pairs){.pairs = b->kafka, .count = 3};
    struct fault fault;
    cr_assert_eq(handover_new(4, &b->handover, &fault), ST_OK);
    b->setup = (struct fanout_setup){.settings = &b->settings,
                                     .provider = &b->provider,
                                     .database = &b->database,
                                     .kafka = &b->properties,
                                     .receipts_topic = w->receipts,
                                     .handover = b->handover,
                                     .owner = b->f->scope.owner,
                                     .shutdown_timeout_ms = 4000};
    signals_open();
    log_open(LOG_DEBUG, LOG_JSON, "stage-fanout");
}

static void *run(void *context)
{
    struct bench *b = context;
    struct fault fault;
    b->status = fanout_run(b->fanout, &fault);
    return NULL;
}

static void start(struct bench *b)
{
    struct fault fault;
    cr_assert_eq(fanout_new(&b->setup, &b->fanout, &fault), ST_OK, "%s", fault.text);
    pthread_create(&b->thread, NULL, run, b);
}

static void stop(struct bench *b)
{
    signals_stop();
    pthread_join(b->thread, NULL);
    cr_expect_eq(b->status, ST_OK);
    fanout_free(b->fanout);
}

static void close_bench(struct bench *b)
{
    handover_free(b->handover);
    fixture_close(b->f);
}

/* n users with a device each, and one event for them all; the batch is taken in memory when take. */
static int64_t make_batch(struct bench *b, const char *run, int n, bool take)
{
    char users[16000] = "";
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += (size_t)snprintf(users + bytes, sizeof users - bytes, "%su%d", i == 0 ? "" : " ", i);
    fixture_event(b->f, 0, run, users);
    struct claim_batch batch = fixture_batch(b->f);
    batch.take = take;
    cr_assert(!take || handover_reserve(b->handover, 1));
    struct claim_outcome outcome;
    struct fault fault;
    cr_assert_eq(claim_run(b->f->claim, b->f->db, &batch, &outcome, &fault), ST_OK, "%s", fault.text);
    fixture_next(b->f);
    cr_assert_eq(outcome.batch_count, 1);
    if (take)
        handover_put(b->handover, outcome.batches[0]);
    return outcome.batches[0].batch_id;
}

static void make_devices(struct bench *b, int n)
{
    for (int i = 0; i < n; i++) {
        char user[32], token[64];
        snprintf(user, sizeof user, "u%d", i);
        snprintf(token, sizeof token, "ExponentPushToken[%d]", i);
        fixture_device(b->f, user, token, 10);
    }
}

struct tally {
    const char *text;
    int records, keyed;
    const char *key;
};

static void count_record(void *context, const struct world_record *record)
{
    struct tally *tally = context;
    tally->records += strstr(record->value, tally->text) != NULL;
    tally->keyed += tally->key != NULL && strcmp(record->key, tally->key) == 0;
    cr_assert(strstr(record->value, "PushToken") == NULL);
    cr_assert(strstr(record->value, "title of") == NULL);
}

static int outcomes(struct bench *b, const char *text)
{
    struct tally tally = {.text = text};
    world_read_topic(&b->f->world, b->f->world.receipts, count_record, &tally);
    return tally.records;
}

Test(fanout, sends_reports_and_deletes_the_batch)
{
    struct bench b;
    open_bench(&b, "fanout_sends");
    struct world *w = &b.f->world;
    make_devices(&b, 250);
    world_exec(w, "UPDATE device_tokens SET token = 'malformed' WHERE user_id = 'u7'");
    start(&b);
    (void)make_batch(&b, "r1", 250, false);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(simulator_stat(w, "send", "calls"), 3);
    cr_expect_eq(simulator_stat(w, "send", "largest"), 100);
    cr_expect_eq(simulator_accepted(w, NULL), 249);
    cr_expect_eq(outcomes(&b, "\"outcome\":\"sent\""), 249);
    cr_expect_eq(outcomes(&b, "\"error\":\"InvalidToken\""), 1);
    (void)make_batch(&b, "r2", 10, true);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(outcomes(&b, "\"outcome\":\"sent\""), 249 + 9);
    cr_expect_eq(world_count(w, "SELECT count(*) FROM dispatches WHERE state <> 'queued'"), 0,
                 "the dispatcher never updates a dispatch");
    cr_expect(handover_reserve(b.handover, 4), "every place is given back");
    stop(&b);
    close_bench(&b);
}

Test(fanout, a_dead_owners_window_is_unconfirmed_and_the_rest_is_sent)
{
    struct bench b;
    open_bench(&b, "fanout_dead");
    struct world *w = &b.f->world;
    make_devices(&b, 200);
    (void)make_batch(&b, "r1", 200, false);
    world_exec(w,
               "UPDATE batches SET owner = 5, unsent = '{[120,200)}', leased_until = now() + interval '1 s';"
               "UPDATE dispatches SET state = 'sent' WHERE id & 1048575 < 20");
    start(&b);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(outcomes(&b, "\"error\":\"Unconfirmed\""), 100);
    cr_expect_eq(outcomes(&b, "\"outcome\":\"sent\""), 80);
    cr_expect_eq(simulator_accepted(w, NULL), 80);
    stop(&b);
    close_bench(&b);
}

Test(fanout, stop_leaves_the_rest_unsent_and_ends_the_leases)
{
    struct bench b;
    open_bench(&b, "fanout_stop");
    struct world *w = &b.f->world;
    make_devices(&b, 900);
    simulator_script(w, "{\"when\":{},\"do\":{\"delay_ms\":1500}}");
    (void)make_batch(&b, "r1", 900, true);
    start(&b);
    world_wait_count(w, 1, "SELECT count(*) FROM batches WHERE unsent <> '{[0,900)}'");
    stop(&b);
    cr_expect_eq(world_count(w, "SELECT count(*) FROM batches WHERE unsent = '{[600,900)}'"
                                " AND owner IS NULL AND leased_until IS NULL"),
                 1);
    cr_expect_eq(outcomes(&b, "\"outcome\":\"sent\""), 600);
    cr_expect_eq(simulator_accepted(w, NULL), 600);
    close_bench(&b);
}

Test(fanout, what_is_not_answered_by_shutdown_is_unconfirmed)
{
    struct bench b;
    open_bench(&b, "fanout_hang");
    struct world *w = &b.f->world;
    make_devices(&b, 50);
    b.provider.request_timeout_ms = 60000;
    simulator_script(w, "{\"when\":{},\"do\":{\"hang_ms\":20000}}");
    (void)make_batch(&b, "r1", 50, true);
    start(&b);
    world_wait_count(w, 1, "SELECT count(*) FROM batches WHERE isempty(unsent)");
    int64_t began = world_now_ms();
    stop(&b);
    cr_expect_lt(world_now_ms() - began, 6000);
    cr_expect_eq(outcomes(&b, "\"error\":\"Unconfirmed\""), 50);
    cr_expect_eq(world_count(w, "SELECT count(*) FROM batches"), 0, "all outcomes are acknowledged");
    close_bench(&b);
}

static const char *provider_away(struct bench *b)
{
    b->provider.base_url = "http://127.0.0.1:9";
    return "\"error\":\"ProviderUnavailable\"";
}

Test(fanout, not_accepted_fails_after_its_attempts)
{
    struct bench b;
    open_bench(&b, "fanout_away");
    struct world *w = &b.f->world;
    make_devices(&b, 120);
    const char *want = provider_away(&b);
    start(&b);
    (void)make_batch(&b, "r1", 120, false);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(outcomes(&b, want), 120);
    cr_expect_eq(outcomes(&b, "\"attempt\":3"), 120);
    cr_expect_eq(simulator_accepted(w, NULL), 0);
    stop(&b);
    close_bench(&b);
}

Test(fanout, the_database_goes_and_comes_back)
{
    struct bench b;
    open_bench(&b, "fanout_db");
    struct world *w = &b.f->world;
    make_devices(&b, 900);
    simulator_script(w, "{\"when\":{},\"do\":{\"delay_ms\":200}}");
    start(&b);
    for (int i = 0; i < 5; i++) {
        char run[16];
        snprintf(run, sizeof run, "r%d", i);
        (void)make_batch(&b, run, 900, false);
        world_exec(w, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                      " WHERE application_name = 'stage-fanout' AND datname = current_database()");
        world_sleep_ms(150);
    }
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(outcomes(&b, "\"outcome\":\"sent\""), 4500);
    cr_expect_eq(simulator_accepted(w, NULL), 4500);
    stop(&b);
    close_bench(&b);
}

/* Nothing is taken, and so nothing is pushed, before there is a place for the outcomes. */
Test(fanout, waits_for_its_topic_before_it_takes_anything)
{
    struct bench b;
    open_bench(&b, "fanout_start");
    struct world *w = &b.f->world;
    make_devices(&b, 150);
    world_delete_topic(w, w->receipts);
    world_sleep_ms(500);
    start(&b);
    (void)make_batch(&b, "r1", 150, false);
    world_sleep_ms(2500);
    int64_t early = simulator_accepted(w, NULL);
    cr_expect_eq(early, 0);
    cr_expect_eq(world_count(w, "SELECT upper(unsent) FROM batches"), 150);
    world_create_topic(w, w->receipts, 3);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    printf("pushed without the topic: %lld, with it: %lld\n", (long long)early,
           (long long)simulator_accepted(w, NULL));
    cr_expect_eq(simulator_accepted(w, NULL), 150);
    stop(&b);
    close_bench(&b);
}

Test(fanout, outcomes_wait_for_their_topic)
{
    struct bench b;
    open_bench(&b, "fanout_topic");
    struct world *w = &b.f->world;
    make_devices(&b, 150);
    start(&b);
    world_sleep_ms(1000);
    world_delete_topic(w, w->receipts);
    world_sleep_ms(500);
    (void)make_batch(&b, "r1", 150, false);
    world_wait_count(w, 1, "SELECT count(*) FROM batches WHERE isempty(unsent)");
    world_sleep_ms(3500); /* longer than the lease: it is renewed while the outcomes wait */
    cr_expect_eq(world_count(w, "SELECT count(*) FROM batches WHERE leased_until > now()"), 1);
    world_create_topic(w, w->receipts, 3);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(outcomes(&b, "\"outcome\":\"sent\""), 150);
    cr_expect_eq(simulator_accepted(w, NULL), 150);
    stop(&b);
    close_bench(&b);
}
