/* Before the first record: is the schema one we can use, is there a topic for dead letters, do keys outlive
 * the events topic. What is away is waited for; what is wrong makes us not ready, or leave with the reason.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/signals.h"
#include "ingest_private.h"
#include "store/schema.h"

enum { WAIT_STEP_MS = 200, HOUR_MS = 3600 * 1000 };

/* Waits while there is neither consumer nor batch. */
static bool wait_ms(struct ingest *ingest, int64_t ms)
{
    int64_t until_ms = clock_monotonic_ms(&ingest->clock) + ms;
    while (!signals_stopping() && clock_monotonic_ms(&ingest->clock) < until_ms) {
        readiness_beat(ingest->setup.readiness, ingest->ready_slot);
        (void)poll(NULL, 0, WAIT_STEP_MS);
    }
    return !signals_stopping();
}

/* Repeats what the outside failed at. ST_STOP: the stop was asked for meanwhile. */
typedef enum status attempt(struct ingest *ingest, struct fault *fault);

static enum status until_done(struct ingest *ingest, attempt *try, const char *what, struct fault *fault)
{
    for (;;) {
        enum status status = try(ingest, fault);
        if (status == ST_OK || status == ST_FATAL) {
            backoff_reset(&ingest->backoff);
            return status;
        }
        ingest_say_stopped(ingest, what, status, fault);
        if (!wait_ms(ingest, status == ST_STOP ? SLOW_RETRY_MS : backoff_next_ms(&ingest->backoff))) {
            return ST_STOP;
        }
    }
}

/* At start a database that is reached but not fit is refused, not waited for. */
static enum status try_database(struct ingest *ingest, struct fault *fault)
{
    enum status status = ingest_connect(ingest, fault);
    if (status == ST_OK) {
        status = store_check_schema(ingest->db, fault);
    }
    return status == ST_STOP || status == ST_REJECT ? ST_FATAL : status;
}

static enum status with_admin(struct ingest *ingest,
                              enum status (*ask)(struct ingest *ingest, struct kafka_admin *admin,
                                                 struct fault *fault),
                              struct fault *fault)
{
    struct kafka_client_options options = {.properties = ingest->setup.kafka,
                                           .client_name = "belfry-dispatcher-admin"};
    struct kafka_admin *admin = NULL;
    enum status status = kafka_admin_open(&options, &admin, fault);
    if (status == ST_OK) {
        status = ask(ingest, admin, fault);
        kafka_admin_close(admin);
    }
    return status;
}

static enum status ask_dead_letters(struct ingest *ingest, struct kafka_admin *admin, struct fault *fault)
{
    int partitions = 0;
    return kafka_admin_partitions(admin, ingest->setup.topics->dlq, &partitions, fault);
}

static enum status try_dead_letters(struct ingest *ingest, struct fault *fault)
{
    return with_admin(ingest, ask_dead_letters, fault);
}

/* ---- key retention ------------------------------------------------------------------------------------- */

static enum status too_short(const struct ingest *ingest, struct fault *fault, const char *why,
                             const char *value)
{
    const char *topic = ingest->setup.topics->events;
    if (ingest->setup.settings->allow_short_key_retention) {
        log_event(LOG_WARN, "ING-KEY-RETENTION", "keys may be forgotten before their records are",
                  log_text("topic", topic), log_text("setting", why), log_text("value", value));
        return ST_OK;
    }
    fault_set(
        fault, "key_retention",
        "topic %s has %s=%s: a record may come again after its key is gone. Raise [ingest] key_retention "
        "above retention.ms + segment.ms + 1 h, or set allow_short_key_retention = on",
        topic, why, value);
    fault_set_field(fault, "ingest.key_retention");
    if (fault != NULL) {
        fault->exit_code = EXIT_USAGE;
    }
    return ST_FATAL;
}

static enum status judge_retention(const struct ingest *ingest, const struct kafka_config_value *values,
                                   struct fault *fault)
{
    long long retention_ms = strtoll(values[0].value, NULL, 10);
    long long segment_ms = strtoll(values[1].value, NULL, 10);
    if (strstr(values[2].value, "compact") != NULL) {
        return too_short(ingest, fault, "cleanup.policy", values[2].value);
    }
    if (retention_ms < 0) {
        return too_short(ingest, fault, "retention.ms", values[0].value);
    }
    /* Subtracted, not added: people write the greatest number there is for "for ever". */
    int64_t left_ms = ingest->setup.settings->key_retention_ms - HOUR_MS;
    if (left_ms < retention_ms || left_ms - retention_ms < segment_ms) {
        return too_short(ingest, fault, "retention.ms", values[0].value);
    }
    return ST_OK;
}

static enum status ask_retention(struct ingest *ingest, struct kafka_admin *admin, struct fault *fault)
{
    struct kafka_config_value values[] = {
        {.name = "retention.ms"}, {.name = "segment.ms"}, {.name = "cleanup.policy"}};
    int partitions = 0;
    ingest->retention_unchecked = false;
    enum status status = kafka_admin_partitions(admin, ingest->setup.topics->events, &partitions, fault);
    if (status == ST_STOP && strcmp(fault->code, "UNKNOWN_TOPIC_OR_PART") == 0) {
        ingest->retention_unchecked = true; /* asked again when it is found */
        return ST_OK;
    }
    if (status == ST_OK) {
        status = kafka_admin_topic_config(admin, ingest->setup.topics->events, values, 3, fault);
    }
    if (status == ST_OK && values[0].value[0] == '\0') {
        fault_set(fault, "no_answer", "the broker tells no retention.ms");
        status = ST_RETRY;
    }
    metric_put(ingest->metrics, M_RETENTION_UNKNOWN, 0, status == ST_OK ? 0 : 1);
    if (status == ST_OK) {
        return judge_retention(ingest, values, fault);
    }
    if (status != ST_FATAL) {
        log_fault(
            LOG_WARN, "ING-RETENTION-UNKNOWN",
            "the events topic's retention is not known; make sure that [ingest] key_retention outlives it",
            status, fault);
        return ST_OK;
    }
    return status;
}

enum status preflight_retention(struct ingest *ingest, struct fault *fault)
{
    return with_admin(ingest, ask_retention, fault);
}

enum status preflight_run(struct ingest *ingest, struct fault *fault)
{
    enum status status = until_done(ingest, try_database, "the database is not usable", fault);
    if (status == ST_OK) {
        status = until_done(ingest, try_dead_letters, "the dead letter topic is not usable", fault);
    }
    return status == ST_OK ? preflight_retention(ingest, fault) : status;
}
