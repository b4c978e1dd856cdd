#include "fanout_bench.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/signals.h"

void bench_open(struct bench *b, const char *name)
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
    b->preferences = (struct preferences_settings){.url = "",
                                                   .token = "",
                                                   .timeout_ms = 300,
                                                   .ttl_ms = 30000,
                                                   .stale_ttl_ms = 600000,
                                                   .max_users = 1000,
                                                   .breaker_failures = 5,
                                                   .breaker_open_ms = 5000};
    b->setup = (struct fanout_setup){.settings = &b->settings,
                                     .provider = &b->provider,
                                     .preferences = &b->preferences,
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

void bench_start(struct bench *b)
{
    struct fault fault;
    cr_assert_eq(fanout_new(&b->setup, &b->fanout, &fault), ST_OK, "%s", fault.text);
    pthread_create(&b->thread, NULL, run, b);
}

void bench_stop(struct bench *b)
{
    signals_stop();
    pthread_join(b->thread, NULL);
    cr_expect_eq(b->status, ST_OK);
    fanout_free(b->fanout);
}

void bench_close(struct bench *b)
{
    handover_free(b->handover);
    fixture_close(b->f);
}

int64_t bench_batch_for(struct bench *b, const char *run, const char *users, bool take)
{
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

int64_t bench_batch(struct bench *b, const char *run, int n, bool take)
{
    char users[16000] = "";
    size_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += (size_t)snprintf(users + bytes, sizeof users - bytes, "%su%d", i == 0 ? "" : " ", i);
    return bench_batch_for(b, run, users, take);
}

void bench_devices(struct bench *b, int n)
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

int bench_outcomes(struct bench *b, const char *text)
{
    struct tally tally = {.text = text};
    world_read_topic(&b->f->world, b->f->world.receipts, count_record, &tally);
    return tally.records;
}

void bench_wait_calls(struct bench *b, int64_t calls)
{
    int64_t seen = 0, until_ms = world_now_ms() + 30000;
    for (; seen < calls && world_now_ms() < until_ms; world_sleep_ms(20))
        seen = simulator_stat(&b->f->world, "send", "calls");
    cr_assert_geq(seen, calls);
}
