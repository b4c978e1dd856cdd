/* Before the first record: is the schema one we can use, is there a topic for dead letters, do keys outlive
 * the events topic. What is away is waited for; what is wrong makes us not ready, or leave with the reason.
 */
#include <poll.h>

#include "base/log.h"
#include "base/signals.h"
#include "ingest_private.h"
#include "io/topic_retention.h"
#include "store/schema.h"

enum { WAIT_STEP_MS = 200 };

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

static struct kafka_client_options admin_options(const struct ingest *ingest)
{
    return (struct kafka_client_options){.properties = ingest->setup.kafka,
                                         .client_name = "belfry-dispatcher-admin"};
}

static enum status try_dead_letters(struct ingest *ingest, struct fault *fault)
{
    const struct kafka_client_options options = admin_options(ingest);
    struct kafka_admin *admin = NULL;
    int partitions = 0;
    enum status status = kafka_admin_open(&options, &admin, fault);
    if (status == ST_OK) {
        status = kafka_admin_partitions(admin, ingest->setup.topics->dlq, &partitions, fault);
        kafka_admin_close(admin);
    }
    return status;
}

/* ---- key retention ------------------------------------------------------------------------------------- */

static enum status judge_retention(const struct ingest *ingest, const struct topic_retention *retention,
                                   struct fault *fault)
{
    const char *topic = ingest->setup.topics->events;
    const struct kafka_config_value *blamed =
        topic_retention_blame(retention, ingest->setup.settings->key_retention_ms);
    if (blamed != NULL && !ingest->setup.settings->allow_short_key_retention) {
        return topic_retention_refuse(topic, blamed, fault);
    }
    if (blamed != NULL) {
        log_event(LOG_WARN, "ING-KEY-RETENTION", "keys may be forgotten before their records are",
                  log_text("topic", topic), log_text("setting", blamed->name),
                  log_text("value", blamed->value));
    }
    return ST_OK;
}

enum status preflight_retention(struct ingest *ingest, struct fault *fault)
{
    const struct kafka_client_options options = admin_options(ingest);
    struct topic_retention retention;
    enum status status = topic_retention_ask(&options, ingest->setup.topics->events, &retention, fault);
    ingest->retention_unchecked =
        topic_retention_is_missing(status, fault); /* asked again when it is found */
    if (ingest->retention_unchecked) {
        return ST_OK;
    }
    metric_put(ingest->metrics, M_RETENTION_UNKNOWN, 0, status == ST_OK ? 0 : 1);
    if (status == ST_OK) {
        return judge_retention(ingest, &retention, fault);
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

enum status preflight_run(struct ingest *ingest, struct fault *fault)
{
    enum status status = until_done(ingest, try_database, "the database is not usable", fault);
    if (status == ST_OK) {
        status = until_done(ingest, try_dead_letters, "the dead letter topic is not usable", fault);
    }
    return status == ST_OK ? preflight_retention(ingest, fault) : status;
}
