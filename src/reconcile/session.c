/* A loop's stages over a database that may be away. In: a stage table. Out: all of it done, in order. Always
 * holds: a stage that failed is run again from its start, nothing before it is. A crash here is a crash of
 * the stage: what it had not committed is done again by whoever comes next. */
#include "private.h"

#include <assert.h>
#include <poll.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/signals.h"

enum {
    RETRY_FIRST_MS = 100,
    RETRY_CAP_MS = 10 * 1000,
    STOP_WAIT_MS = 5 * 1000, /* an operator has to act: ask again slowly */
    BEAT_MAX_MS = 120 * 1000
};

enum status session_open(struct session *session, const struct reconcile_setup *setup, struct fault *fault)
{
    session->setup = setup;
    session->clock = setup->clock == NULL ? &clock_system : setup->clock;
    session->db = db_new(setup->database);
    if (session->db == NULL) {
        fault_set(fault, "memory", "no memory for a connection");
        return ST_FATAL;
    }
    uint64_t seed = (uint64_t)clock_wall_us(session->clock) ^ (uint64_t)setup->owner;
    backoff_init(&session->backoff, RETRY_FIRST_MS, RETRY_CAP_MS, seed);
    if (setup->readiness != NULL)
        session->slot = readiness_add(setup->readiness, session->name, BEAT_MAX_MS);
    return ST_OK;
}

void session_done(struct session *session)
{
    db_close(session->db);
    session->db = NULL;
}

void session_sleep(int64_t wait_ms)
{
    struct pollfd stop = {.fd = signals_stop_fd(), .events = POLLIN};
    if (wait_ms > 0 && !signals_stopping())
        (void)poll(&stop, 1, (int)wait_ms);
}

enum status session_wait(void *context, int64_t wait_ms, struct fault *fault)
{
    (void)context;
    (void)fault;
    session_sleep(wait_ms);
    return ST_OK;
}

/* Says what failed, at once and then now and then, and how long to wait. */
static int64_t note_failure(struct session *session, const char *stage, enum status status,
                            const struct fault *fault)
{
    bool alarm = status == ST_REJECT;
    if (status == ST_RETRY)
        (void)db_judge(fault->code, fault->field, &alarm);
    enum log_level level = status == ST_STOP || alarm ? LOG_ERROR : LOG_WARN;
    int64_t left_out = 0;
    if (log_gate_passes(&session->gate, fault->code, clock_monotonic_ms(session->clock), &left_out))
        log_fault(level, status == ST_STOP ? "REC-STOP" : "REC-RETRY", "stage failed, will be run again",
                  status, fault, log_text("loop", session->name), log_text("stage", stage),
                  log_int("left_out", left_out));
    session->failing = true;
    readiness_not(session->setup->readiness, session->slot, fault->text);
    reconcile_count(session->metrics, M_RETRIES, stage, 1);
    return status == ST_STOP ? STOP_WAIT_MS : backoff_next_ms(&session->backoff);
}

static void note_success(struct session *session)
{
    if (session->failing)
        log_event(LOG_INFO, "REC-AGAIN", "works again", log_text("loop", session->name));
    session->failing = false;
    session->gate = (struct log_gate){.passed = false};
    backoff_reset(&session->backoff);
}

static enum status run_once(struct session *session, const struct stage *stage, struct fault *fault)
{
    if (!db_is_up(session->db)) {
        enum status status = db_connect(session->db, fault);
        if (status != ST_OK) /* at the start what is reached but not fit is refused, not waited for */
            return status == ST_STOP && !session->fit ? ST_FATAL : status;
        session->fit = true;
    }
    int64_t from_us = clock_monotonic_us(session->clock);
    CRASH_POINT(stage->name);
    size_t label = metric_value_index(&reconcile_metric_rows[M_STAGE_SECONDS], stage->name);
    metric_put(session->metrics, M_STAGE_IN_FLIGHT, label, 1);
    enum status status = stage->run(session->context, fault);
    metric_put(session->metrics, M_STAGE_IN_FLIGHT, label, 0);
    double took_s = (double)(clock_monotonic_us(session->clock) - from_us) / 1e6;
    metric_observe(session->metrics, M_STAGE_SECONDS, label, took_s);
    return status;
}

static enum status run_stage(struct session *session, const struct stage *stage, struct fault *fault)
{
    for (;;) {
        fault_reset(fault);
        enum status status = run_once(session, stage, fault);
        if (status == ST_OK || status == ST_FATAL)
            return status;
        if (signals_stopping())
            return ST_RETRY;
        int64_t wait_ms = note_failure(session, stage->name, status, fault);
        if (session->wait(session->context, wait_ms, fault) != ST_OK)
            return ST_FATAL;
        if (signals_stopping())
            return ST_RETRY;
    }
}

enum status session_run(struct session *session, const struct stage *stages, size_t count,
                        struct fault *fault)
{
    for (size_t i = 0; i < count; i++) {
        if (stages[i].has_work != NULL && !stages[i].has_work(session->context))
            continue;
        enum status status = run_stage(session, &stages[i], fault);
        if (status != ST_OK)
            return status;
    }
    note_success(session);
    return ST_OK;
}
