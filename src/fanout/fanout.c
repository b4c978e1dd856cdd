/* The fan-out thread: the stage table and the loop around it (design.md §2).
 *
 * In: batches of `batches`, through memory or the table. Out: pushes, outcomes, and rows of `batches`
 * deleted. What always holds: stages that need the database wait while it is away, those that finish what was
 * begun go on; nothing here waits for the provider but with a time limit. A crash here costs at most one
 * window's pushes. */
#include "fanout/fanout.h"

#include <poll.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/signals.h"
#include "state.h"
#include "store/schema.h"
#include "wire/outcome.h"

enum {
    DB_PAUSE_FIRST_MS = 100,
    DB_PAUSE_CAP_MS = 5000,
    BEAT_MAX_MS = 120000, /* longer than one silent database statement */
    PRODUCER_BYTES_MAX = 16 * 1024 * 1024,
    CLOSE_MS = 2000, /* of shutdown_timeout: for the leases and the producer */
    LINES_EVERY_MS = 1000
};

/* Only a database that was found fit is worked on: role settings by io/db, the schema here. Until then what
 * an operator must mend ends the process, as in the other binaries; later it is waited for, not ready. */
static enum status check_schema(struct fanout *fanout, struct fault *fault)
{
    if (fanout->fit)
        return ST_OK;
    enum status status = store_check_schema(fanout->db, fault);
    fanout->fit = status == ST_OK;
    return status == ST_OK || status == ST_FATAL ? status : fanout_db_failed(fanout, status, fault);
}

/* The flow, in order; a stage's name is its crash point and its word in the log. */
static const struct stage {
    const char *name;
    enum status (*run)(struct fanout *fanout, struct fault *fault);
    bool needs_db;
} stages[] = {
    {"schema", check_schema, true},    /* once */
    {"sweep", sweep_run, true},        /* leases, batches in, what a dead owner risked */
    {"again", again_run, true},        /* what was certainly not accepted, back into unsent */
    {"consult", consult_run, true},    /* what the next window's recipients want */
    {"window", fence_run, true},       /* ordinals out of unsent */
    {"send", send_run, false},         /* requests out, answers in */
    {"publish", publish_run, false},   /* outcomes to Kafka */
    {"published", sweep_finish, true}, /* rows of finished batches deleted */
};

/* ---- making -------------------------------------------------------------------------------------------- */

static enum status make_lists(struct fanout *fanout, struct fault *fault)
{
    const struct fanout_settings *settings = fanout->setup.settings;
    size_t window = fanout->slots * fanout->chunk_size;
    fanout->held_max = 2 * settings->batches_in_memory + FANOUT_URGENT_EXTRA +
                       FANOUT_LEFT_EXTRA; /* handed over; the table's */
    fanout->owed_max = 2 * window;
    fanout->held = calloc(fanout->held_max, sizeof fanout->held[0]);
    fanout->owed = calloc(fanout->owed_max, sizeof fanout->owed[0]);
    fanout->again = calloc(window, sizeof fanout->again[0]);
    bool room = fanout->held != NULL && fanout->owed != NULL && fanout->again != NULL;
    for (size_t i = 0; room && i < fanout->owed_max; i++) {
        buffer_init(&fanout->owed[i].value, OUTCOME_RECORD_MAX);
        room = buffer_reserve(&fanout->owed[i].value, OUTCOME_RECORD_MAX) != NULL;
    }
    db_params_init(&fanout->params, WINDOW_PARAMS_BYTES_MAX);
    fanout->db = db_new(fanout->setup.database);
    if (!room || fanout->db == NULL) {
        fault_set(fault, "memory", "no memory for fan-out's lists");
        return ST_FATAL;
    }
    enum status status = ready_init(&fanout->ready, window, fault);
    return status == ST_OK ? memory_init(&fanout->memory, fault) : status;
}

static enum status make_provider(struct fanout *fanout, struct fault *fault)
{
    const struct fanout_settings *settings = fanout->setup.settings;
    struct provider_setup setup = {.settings = fanout->setup.provider,
                                   .in_flight_max = settings->max_concurrent_requests,
                                   .wake_fd = -1,
                                   .clock = fanout->clock,
                                   .metrics = fanout->setup.metrics};
    enum status status = provider_open(&setup, &fanout->provider, fault);
    if (status != ST_OK)
        return status;
    struct provider_capabilities can = provider_capabilities(fanout->provider);
    fanout->slots = settings->max_concurrent_requests;
    if (fanout->slots > can.connections_max)
        fanout->slots = can.connections_max;
    if (fanout->slots > FANOUT_SLOTS_MAX)
        fanout->slots = FANOUT_SLOTS_MAX;
    fanout->chunk_size = settings->chunk_size < can.max_batch ? settings->chunk_size : can.max_batch;
    if (fanout->chunk_size > FANOUT_CHUNK_MAX)
        fanout->chunk_size = FANOUT_CHUNK_MAX;
    return ST_OK;
}

enum status fanout_new(const struct fanout_setup *setup, struct fanout **fanout, struct fault *fault)
{
    struct fanout *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for fan-out");
        return ST_FATAL;
    }
    made->setup = *setup;
    made->clock = setup->clock == NULL ? &clock_system : setup->clock;
    made->metrics = fanout_metrics_add(setup->metrics);
    if (setup->readiness != NULL)
        made->readiness_slot = readiness_add(setup->readiness, "fanout", BEAT_MAX_MS);
    if (setup->readiness != NULL)
        made->provider_slot = readiness_add(setup->readiness, "provider", 0);
    readiness_ready(setup->readiness, made->provider_slot);
    backoff_init(&made->db_backoff, DB_PAUSE_FIRST_MS, DB_PAUSE_CAP_MS, (uint64_t)setup->owner);
    breaker_init(&made->breaker, setup->provider, (uint64_t)setup->owner + 1);
    double limit = (double)setup->settings->rate_limit * setup->settings->rate_share;
    rate_init(&made->rate, limit < 1 ? 1 : limit, (uint64_t)setup->owner + 2);
    enum status status = make_provider(made, fault);
    if (status == ST_OK)
        status = make_lists(made, fault);
    if (status == ST_OK)
        status = consult_open(made, fault);
    if (status != ST_OK) {
        fanout_free(made);
        return status;
    }
    made->scope = (struct window_scope){.db = made->db,
                                        .params = &made->params,
                                        .owner = setup->owner,
                                        .lease_ms = setup->settings->lease_ms,
                                        .push_max_age_ms = setup->settings->push_max_age_ms};
    made->backlog = true; /* at the start: look at once */
    *fanout = made;
    return ST_OK;
}

void fanout_free(struct fanout *fanout)
{
    if (fanout == NULL)
        return;
    provider_close(fanout->provider);
    consult_close(fanout);
    kafka_producer_close(fanout->producer, CLOSE_MS);
    db_close(fanout->db);
    db_params_done(&fanout->params);
    for (size_t i = 0; i < FANOUT_WINDOWS_MAX; i++)
        db_result_free(fanout->windows[i].rows);
    for (size_t i = 0; fanout->owed != NULL && i < fanout->owed_max; i++)
        buffer_done(&fanout->owed[i].value);
    free(fanout->owed);
    free(fanout->again);
    ready_done(&fanout->ready);
    memory_done(&fanout->memory);
    free(fanout->held);
    free(fanout);
}

/* ---- the database, which comes and goes -----------------------------------------------------------------
 */

bool fanout_may_log(struct fanout *fanout, struct quiet *quiet, int64_t *skipped)
{
    int64_t now_ms = fanout_now_ms(fanout);
    if (now_ms - quiet->since_ms >= LINES_EVERY_MS) {
        quiet->since_ms = now_ms;
        quiet->lines = 0;
    }
    if (quiet->lines++ >= FANOUT_LINES_MAX) {
        quiet->skipped++;
        return false;
    }
    *skipped = quiet->skipped;
    quiet->skipped = 0;
    return true;
}

enum status fanout_db_failed(struct fanout *fanout, enum status status, const struct fault *fault)
{
    int64_t left_out = 0;
    if (log_gate_passes(&fanout->db_gate, fault->code, fanout_now_ms(fanout), &left_out))
        log_fault(status == ST_RETRY ? LOG_WARN : LOG_ERROR, "FAN-DB",
                  "fan-out cannot use the database; trying on", status, fault, log_int("left_out", left_out));
    readiness_not(fanout->setup.readiness, fanout->readiness_slot, fault->text);
    fanout->db_retry_at_ms = fanout_now_ms(fanout) + backoff_next_ms(&fanout->db_backoff);
    if (status == ST_STOP && !fanout->fit) {
        fanout->refused = true;
        fanout->refusal = *fault;
    }
    return status;
}

/* After an outage all leases have run out, also of those who are only about to reconnect; and what such a one
 * took out of unsent without hearing of it was never sent. So each may renew before another takes over. */
static void connected(struct fanout *fanout)
{
    int64_t grace_ms = fanout->setup.settings->lease_ms;
    if (grace_ms < DB_PAUSE_CAP_MS)
        grace_ms = DB_PAUSE_CAP_MS;
    if (fanout->was_up)
        fanout->takeover_at_ms = fanout_now_ms(fanout) + grace_ms;
    fanout->was_up = true;
    log_event(LOG_INFO, "FAN-DB-UP", "fan-out is connected to the database");
}

/* True when statements may be sent. Never blocks: connecting goes on while answers come in. */
static bool keep_db(struct fanout *fanout)
{
    if (fanout_now_ms(fanout) < fanout->db_retry_at_ms)
        return false;
    if (db_state(fanout->db) == DB_CONNECTING)
        db_pump(fanout->db);
    if (db_is_up(fanout->db)) {
        if (fanout->db_begun)
            connected(fanout);
        fanout->db_begun = false;
        return true;
    }
    if (db_state(fanout->db) == DB_CONNECTING)
        return false;
    struct fault fault;
    enum status why = db_why(fanout->db, &fault);
    if (fanout->db_begun && why != ST_OK) { /* the connect failed: a pause first */
        fanout->db_begun = false;
        (void)fanout_db_failed(fanout, why, &fault);
        return false;
    }
    db_connect_begin(fanout->db);
    fanout->db_begun = true;
    return false;
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static enum status run_stage(struct fanout *fanout, size_t index, struct fault *fault)
{
    size_t label = fanout_metrics_stage(stages[index].name);
    int64_t from_us = clock_monotonic_us(fanout->clock);
    metric_put(fanout->metrics, FANOUT_M_STAGE_IN_FLIGHT, label, 1);
    enum status status = stages[index].run(fanout, fault);
    metric_put(fanout->metrics, FANOUT_M_STAGE_IN_FLIGHT, label, 0);
    double took_s = (double)(clock_monotonic_us(fanout->clock) - from_us) / 1e6;
    metric_observe(fanout->metrics, FANOUT_M_STAGE_SECONDS, label, took_s);
    return status;
}

/* ---- SIGHUP -------------------------------------------------------------------------------------------- */

enum status fanout_take_tokens(struct fanout *fanout, const struct provider_settings *provider,
                               const struct preferences_settings *preferences, struct fault *fault)
{
    enum status status = provider_set_token(fanout->provider, provider->token, fault);
    if (status == ST_OK && fanout->preferences != NULL)
        status = preferences_set_token(fanout->preferences, preferences->token, fault);
    if (status != ST_OK)
        return status;
    if (fanout->breaker.state == BREAKER_CREDENTIALS)
        breaker_try_now(&fanout->breaker, fanout_now_ms(fanout));
    log_event(LOG_INFO, "FAN-TOKENS", "the tokens of the provider and the account service were read again");
    return ST_OK;
}

static void look_for_reload(struct fanout *fanout)
{
    unsigned reloads = signals_reloads();
    if (reloads == fanout->reloads)
        return;
    fanout->reloads = reloads;
    if (fanout->setup.reload != NULL)
        fanout->setup.reload(fanout->setup.reload_context, fanout);
}

/* All stages once. A stage that failed for now is tried again in the next pass; only ST_FATAL comes back. */
static enum status pass(struct fanout *fanout, struct fault *fault)
{
    bool failed = false;
    look_for_reload(fanout);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        bool runs = !stages[i].needs_db || keep_db(fanout);
        enum status status = runs ? run_stage(fanout, i, fault) : ST_OK;
        if (fanout->refused) {
            *fault = fanout->refusal;
            return ST_FATAL;
        }
        if (status == ST_FATAL)
            return status;
        failed = failed || status != ST_OK;
    }
    if (!failed && db_is_up(fanout->db) && fanout_now_ms(fanout) >= fanout->db_retry_at_ms) {
        backoff_reset(&fanout->db_backoff);
        fanout->db_gate = (struct log_gate){.passed = false};
        if (!fanout->topic_stopped)
            readiness_ready(fanout->setup.readiness, fanout->readiness_slot);
    }
    readiness_beat(fanout->setup.readiness, fanout->readiness_slot);
    fanout_metrics_show(fanout);
    return ST_OK;
}

bool fanout_has_work(const struct fanout *fanout)
{
    for (size_t i = 0; i < fanout->held_max; i++) {
        const struct held *held = &fanout->held[i];
        if (held->used && (held->range_count > 0 || held->check))
            return true;
    }
    return false;
}

/* Waits where the next thing will come from, and not long. */
static enum status wait_a_little(struct fanout *fanout, struct fault *fault)
{
    bool up = db_is_up(fanout->db) && fanout_now_ms(fanout) >= fanout->db_retry_at_ms;
    if (fanout->in_flight > 0)
        return ST_OK; /* the send stage waits for answers */
    if (consult_is_waiting(fanout)) {
        consult_wait(fanout, fanout->ready.count > 0 ? FANOUT_PACE_MS : FANOUT_TICK_MS);
        return ST_OK;
    }
    if (fanout->owed_used > 0)
        return kafka_producer_poll(fanout->producer,
                                   fanout->ready.count > 0 ? FANOUT_PACE_MS : FANOUT_TICK_MS, fault);
    if (up && fanout->again_count > 0)
        return ST_OK;
    if (fanout->ready.count > 0) {
        (void)poll(NULL, 0, FANOUT_PACE_MS);
        return ST_OK;
    }
    bool work = fanout_has_work(fanout);
    if (up && work && fence_may_take(fanout))
        return ST_OK;
    int idle_ms = up && !work ? FANOUT_IDLE_MS : FANOUT_TICK_MS;
    if (!up && db_state(fanout->db) == DB_CONNECTING)
        (void)db_wait(fanout->db, FANOUT_TICK_MS);
    else if (fanout->setup.handover != NULL)
        sweep_take_handed(fanout, idle_ms);
    else
        (void)poll(NULL, 0, idle_ms);
    return ST_OK;
}

static enum status open_producer(struct fanout *fanout, struct fault *fault)
{
    static char client_name[] = "fanout";
    struct kafka_producer_options options = {
        .client = {.properties = fanout->setup.kafka,
                   .client_name = "belfry-fanout",
                   .on_notice = kafka_notice_log,
                   .notice_context = client_name,
                   .metrics = fanout->setup.metrics},
        .records_max = fanout->slots * fanout->chunk_size, /* what is owed beyond that waits here */
        .bytes_max = PRODUCER_BYTES_MAX,
        .context = fanout,
        .on_delivery = publish_on_delivery,
    };
    return kafka_producer_open(&options, &fanout->producer, fault);
}

/* What is in flight may finish; then what is owed goes out and the leases end. */
static enum status drain(struct fanout *fanout, struct fault *fault)
{
    int64_t timeout_ms = fanout->setup.shutdown_timeout_ms;
    int64_t reserve_ms = timeout_ms / 2 < CLOSE_MS ? timeout_ms / 2 : CLOSE_MS;
    int64_t now_ms = fanout_now_ms(fanout), answers_ms = now_ms + timeout_ms - reserve_ms;
    enum status status = ST_OK;
    log_event(LOG_INFO, "FAN-DRAIN", "fan-out is leaving", log_count("in_flight", fanout->in_flight),
              log_count("owed", fanout->owed_used), log_count("held", held_count(fanout)));
    again_all_ready(fanout); /* never begun */
    while (status == ST_OK && fanout->in_flight > 0 && fanout_now_ms(fanout) < answers_ms) {
        status = send_run(fanout, fault);
        if (status == ST_OK)
            status = publish_run(fanout, fault);
    }
    send_give_up(fanout);
    again_all_ready(fanout); /* parts of a chunk that was refused meanwhile */
    int64_t owed_ms = fanout_now_ms(fanout) + reserve_ms / 2;
    if (owed_ms < answers_ms)
        owed_ms = answers_ms; /* a broker that comes back in time saves tickets from being lost */
    while (status == ST_OK && fanout->owed_used > 0 && fanout_now_ms(fanout) < owed_ms) {
        status = publish_run(fanout, fault);
        if (status == ST_OK)
            status = kafka_producer_poll(fanout->producer, FANOUT_TICK_MS, fault);
    }
    return status;
}

static void end_leases(struct fanout *fanout)
{
    struct fault fault;
    enum status status = ST_RETRY;
    int64_t until_ms = fanout_now_ms(fanout) + CLOSE_MS / 2;
    sweep_take_handed(fanout, 0);
    fault_set(&fault, "08006", "the database is not reachable");
    if (held_count(fanout) == 0)
        status = ST_OK;
    while (status != ST_OK && !db_is_up(fanout->db) && fanout_now_ms(fanout) < until_ms) {
        if (!keep_db(fanout))
            (void)poll(NULL, 0, FANOUT_TICK_MS);
    }
    if (status != ST_OK && db_is_up(fanout->db))
        status = again_run(fanout, &fault);
    if (status == ST_OK && held_count(fanout) > 0)
        status = sweep_finish(fanout, &fault);
    if (status == ST_OK && held_count(fanout) > 0)
        status = sweep_release(fanout, &fault);
    if (status != ST_OK)
        log_fault(LOG_WARN, "FAN-RELEASE", "leases could not be ended; they run out by themselves", status,
                  &fault);
    log_event(LOG_INFO, "FAN-END", "fan-out has left", log_count("owed", fanout->owed_used));
}

enum status fanout_run(struct fanout *fanout, struct fault *fault)
{
    enum status status = topic_wait(fanout, fault);
    if (status == ST_OK)
        status = open_producer(fanout, fault);
    while (status == ST_OK && !signals_stopping()) {
        status = pass(fanout, fault);
        if (status == ST_OK && !signals_stopping())
            status = wait_a_little(fanout, fault);
    }
    if (fanout->setup.handover != NULL)
        handover_stop(fanout->setup.handover);
    if (status == ST_OK)
        status = drain(fanout, fault);
    if (status == ST_FATAL)
        signals_stop();
    end_leases(fanout);
    return status == ST_FATAL ? ST_FATAL : ST_OK;
}
