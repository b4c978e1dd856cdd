/* belfry-dispatcher: argv in, exit code out. Two roles, two threads: ingest on this one, fan-out on its own;
 * they meet in a bounded queue of batch ids and in the database. A role that cannot go on asks the other to
 * leave. */
#include <pthread.h>

#include "dispatcher_config.h"
#include "dispatcher_once.h"
#include "fanout/fanout.h"
#include "frame.h"
#include "ingest/ingest.h"
#include "model/handover.h"
#include "model/owner.h"

/* What run opens, in order. */
struct parts {
    struct db_settings database;
    struct handover *handover; /* NULL unless both roles are here */
    struct ingest *ingest;     /* NULL: not this process's role */
    struct fanout *fanout;     /* the same */
    pthread_t thread;
    enum status fanout_status;
    struct fault fanout_fault;
};

static enum status take_tokens(void *context, const void *settings, struct fault *fault)
{
    const struct dispatcher_settings *fresh = settings;
    return fanout_take_tokens(context, &fresh->provider, &fresh->preferences, fault);
}

static void reload_tokens(void *context, struct fanout *fanout)
{
    frame_take_again(context, take_tokens, fanout);
}

static enum status open_fanout(struct frame *frame, struct parts *parts, int64_t owner, struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    struct fanout_setup setup = {.settings = &settings->fanout,
                                 .provider = &settings->provider,
                                 .preferences = &settings->preferences,
                                 .database = &parts->database,
                                 .kafka = &settings->kafka.properties,
                                 .receipts_topic = settings->topics.receipts,
                                 .handover = parts->handover,
                                 .owner = owner,
                                 .shutdown_timeout_ms = frame->run->shutdown_timeout_ms,
                                 .clock = &frame->clock,
                                 .metrics = frame->metrics,
                                 .readiness = frame->readiness,
                                 .reload = reload_tokens,
                                 .reload_context = frame};
    return fanout_new(&setup, &parts->fanout, fault);
}

static enum status open_ingest(struct frame *frame, struct parts *parts, int64_t owner, struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    struct ingest_setup setup = {.settings = &settings->ingest,
                                 .topics = &settings->topics,
                                 .database = &parts->database,
                                 .kafka = &settings->kafka.properties,
                                 .handover = parts->handover,
                                 .owner = owner,
                                 .push_max_age_ms = settings->fanout.push_max_age_ms,
                                 .lease_ms = settings->fanout.lease_ms,
                                 .shutdown_timeout_ms = frame->run->shutdown_timeout_ms,
                                 .clock = &frame->clock,
                                 .metrics = frame->metrics,
                                 .readiness = frame->readiness};
    return ingest_new(&setup, &parts->ingest, fault);
}

static enum status open_parts(struct frame *frame, struct parts *parts, struct fault *fault)
{
    const struct dispatcher_settings *settings = frame->settings;
    int64_t owner = owner_make();
    enum status status = ST_OK;
    parts->database = (struct db_settings){.uri = settings->database.uri,
                                           .application_name = "belfry-dispatcher",
                                           .role = DB_ROLE_DISPATCHER,
                                           .prepared_statements = settings->database.prepared_statements,
                                           .clock = &frame->clock,
                                           .metrics = frame->metrics};
    if (settings->run.roles == (ROLE_INGEST | ROLE_FANOUT)) {
        status = handover_new((int)settings->fanout.batches_in_memory, &parts->handover, fault);
    }
    if (status == ST_OK && (settings->run.roles & ROLE_FANOUT) != 0) {
        status = open_fanout(frame, parts, owner, fault);
    }
    if (status == ST_OK && (settings->run.roles & ROLE_INGEST) != 0) {
        status = open_ingest(frame, parts, owner, fault);
    }
    return status;
}

static void *fanout_thread(void *context)
{
    struct parts *parts = context;
    parts->fanout_status = fanout_run(parts->fanout, &parts->fanout_fault);
    return NULL;
}

static enum status run_parts(struct parts *parts, struct fault *fault)
{
    if (parts->ingest == NULL) {
        return fanout_run(parts->fanout, fault);
    }
    if (parts->fanout == NULL) {
        return ingest_run(parts->ingest, fault);
    }
    if (pthread_create(&parts->thread, NULL, fanout_thread, parts) != 0) {
        fault_set(fault, "thread", "no thread for fan-out");
        return ST_FATAL;
    }
    enum status status = ingest_run(parts->ingest, fault);
    handover_stop(parts->handover);
    (void)pthread_join(parts->thread, NULL);
    if (status == ST_OK && parts->fanout_status != ST_OK) {
        *fault = parts->fanout_fault;
        status = parts->fanout_status;
    }
    return status;
}

static enum status run(struct frame *frame, struct fault *fault)
{
    struct parts parts = {.fanout_status = ST_OK};
    enum status status = open_parts(frame, &parts, fault);
    if (status == ST_OK) {
        status = run_parts(&parts, fault);
    }
    ingest_free(parts.ingest);
    fanout_free(parts.fanout);
    handover_free(parts.handover);
    return status;
}

int main(int argc, char **argv)
{
    const struct frame_program program = {.name = "belfry-dispatcher",
                                          .summary =
                                              "turns events from Kafka into notifications and device pushes",
                                          .options = dispatcher_options,
                                          .config = dispatcher_table,
                                          .settings_bytes = sizeof(struct dispatcher_settings),
                                          .run_offset = offsetof(struct dispatcher_settings, run),
                                          .admin_offset = offsetof(struct dispatcher_settings, admin),
                                          .check = dispatcher_config_check,
                                          .run = run,
                                          .once = dispatcher_once};
    return frame_main(&program, argc, argv);
}
