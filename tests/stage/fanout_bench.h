/* The fan-out thread alone, in the test's process: batches made by the real claim statement, a real Postgres
 * and Kafka, the simulator as the provider. */
#ifndef BELFRY_TESTS_FANOUT_BENCH_H
#define BELFRY_TESTS_FANOUT_BENCH_H

#include <pthread.h>

#include "fanout/fanout.h"
#include "store_fixture.h"

struct bench {
    struct fixture *f;
    struct fanout_settings settings;
    struct provider_settings provider;
    struct preferences_settings preferences; /* without an url: everything is allowed */
    struct db_settings database;
    struct config_pair kafka[4];
    struct config_pairs properties;
    struct handover *handover;
    struct fanout_setup setup;
    struct fanout *fanout;
    pthread_t thread;
    enum status status;
};

/* A lease of 3 s, no rate limit, no breaker; settings may be changed before bench_start. */
void bench_open(struct bench *b, const char *name);
void bench_start(struct bench *b);
void bench_stop(struct bench *b); /* SIGTERM's way; fan-out must end with ST_OK */
void bench_close(struct bench *b);

/* Users u0 … with a device each: ExponentPushToken[0] … */
void bench_devices(struct bench *b, int n);
/* One event for these users ("u0 u1"), who have a device each: its batch, taken in memory when take. */
int64_t bench_batch_for(struct bench *b, const char *run, const char *users, bool take);
/* The same for u0 … u(n-1). */
int64_t bench_batch(struct bench *b, const char *run, int n, bool take);
/* Outcome records that hold the text. */
int bench_outcomes(struct bench *b, const char *text);
/* Until the simulator has seen so many requests to send. */
void bench_wait_calls(struct bench *b, int64_t calls);

/* Every request is refused, for now. */
#define BENCH_AWAY                                                                                           \
    "{\"when\":{},\"do\":{\"status\":503,\"headers\":{\"Retry-After\":\"0\"},\"body\":{\"errors\":[{"        \
    "\"code\":"                                                                                              \
    "\"DOWN\",\"message\":\"m\"}]}}}"

#endif
