/* Tables in; the same tables without what is older than its retention out. Always holds: a step is one short
 * statement that waits for nobody, and for each millisecond of work three are slept, so that ingest never
 * notices; of several reconcilers one retains at a time, by lease; a dispatch goes before its notification,
 * and not while it is owed; keys go only when they outlive the events topic's records. A crash here loses the
 * place in the walk: the next round begins at the start, and finds what is left.
 *
 * A turn is the stage table: one step of each round that is under way or due. */
#include "private.h"

#include <stdlib.h>

#include "base/signals.h"
#include "io/topic_retention.h"
#include "store/lease.h"
#include "store/retain.h"

#define LEASE "retain"

enum {
    SLEEP_SHARE = 3,    /* slept for each of work */
    STEP_LONG_MS = 100, /* then the next step is half as large */
    STEP_SHORT_MS = 25, /* then twice */
    ROUND_MIN_MS = 1000,
    ROUND_MAX_MS = 60 * 1000, /* along an index, where looking costs nothing */
    HEAP_ROUND_MAX_MS = 24 * 3600 * 1000,
    TOPIC_EVERY_MS = 3600 * 1000,
    TOPIC_AGAIN_MS = 60 * 1000, /* while the topic is missing */
    SLICE_MS = 1000
};

/* In the order of the label "table" of M_RETAINED and M_RETAIN_OLDEST. */
enum table {
    T_NOTIFICATIONS,
    T_DISPATCHES,
    T_KEYS,
    T_REPLAYS,
    T_TOKENS,
    T_EXPORTS,
    T_EXPORT_ROWS,
    T_RECEIPT_BATCHES,
    T_COUNT
};

/* In the order of the label "why" of M_RETAIN_HELD. */
enum held { HELD_BATCHES, HELD_RECEIPTS, HELD_UNSETTLED, HELD_DISPATCHES, HELD_COUNT };

enum work {
    W_DISPATCHES, /* before the notifications they belong to */
    W_NOTIFICATIONS,
    W_KEYS,
    W_REPLAYS,
    W_TOKENS,
    W_EXPIRE, /* exports, before their rows, before they themselves */
    W_EXPORT_ROWS,
    W_EXPORTS,
    W_BATCHES,
    W_COUNT
};

/* One walk through a table. */
struct round {
    bool open;
    int64_t from_ms, due_ms; /* when it began; when the next one may */
    int64_t period_ms;
    int32_t size; /* of a step: rows, or blocks of a heap */
    int64_t removed;
    double oldest_s;
    int64_t held[HELD_COUNT];
};

struct retain {
    struct session session;
    struct round rounds[W_COUNT];
    struct retain_dispatches dispatches;
    struct retain_notifications notifications;
    struct retain_heap keys, replays, tokens;
    struct retain_batches batches;
    bool leased;
    int64_t lease_due_ms;
    bool topic_judged; /* once: from then on a topic's change stops the keys, not the process */
    bool keys_may_go;
    int64_t topic_due_ms;
    int64_t work_ms; /* of this turn */
};

/* ---- steps ------------------------------------------------------------------------------------------ */

/* Does one step of the round's size; *last: the walk is through. */
typedef enum status step_function(struct retain *retain, struct retain_step *step, bool *last,
                                  struct fault *fault);

static enum status step_dispatches(struct retain *retain, struct retain_step *step, bool *last,
                                   struct fault *fault)
{
    struct round *round = &retain->rounds[W_DISPATCHES];
    struct retain_dispatches *walk = &retain->dispatches;
    walk->rows_max = round->size;
    enum status status = retain_dispatches(retain->session.db, walk, step, fault);
    if (status != ST_OK)
        return status;
    round->held[HELD_BATCHES] += walk->held_batches;
    round->held[HELD_RECEIPTS] += walk->held_receipts;
    round->held[HELD_UNSETTLED] += walk->held_unsettled;
    if (walk->unsettled > 0) {
        log_event(LOG_WARN, "RETAIN-UNSETTLED", "dispatches were removed that nobody ever settled",
                  log_int("count", walk->unsettled));
        reconcile_count(retain->session.metrics, M_RETAIN_UNSETTLED, NULL, walk->unsettled);
    }
    /* A page with nothing old: ids rise with time, so what follows is younger still. Unless all of it is of a
     * clock that stood ahead: that says nothing. */
    int64_t held = walk->held_batches + walk->held_receipts + walk->held_unsettled;
    *last = step->seen < walk->rows_max || (step->removed + held == 0 && step->oldest_us >= 0);
    return ST_OK;
}

static enum status step_notifications(struct retain *retain, struct retain_step *step, bool *last,
                                      struct fault *fault)
{
    struct round *round = &retain->rounds[W_NOTIFICATIONS];
    struct retain_notifications *walk = &retain->notifications;
    walk->rows_max = round->size;
    enum status status = retain_notifications(retain->session.db, walk, step, fault);
    if (status != ST_OK)
        return status;
    round->held[HELD_DISPATCHES] += walk->held;
    *last = step->seen < walk->rows_max;
    return ST_OK;
}

static enum status step_keys(struct retain *retain, struct retain_step *step, bool *last, struct fault *fault)
{
    retain->keys.step_blocks = retain->rounds[W_KEYS].size;
    enum status status = retain_keys(retain->session.db, &retain->keys, step, fault);
    *last = retain->keys.block >= retain->keys.blocks;
    return status;
}

static enum status step_replays(struct retain *retain, struct retain_step *step, bool *last,
                                struct fault *fault)
{
    retain->replays.step_blocks = retain->rounds[W_REPLAYS].size;
    enum status status = retain_replays(retain->session.db, &retain->replays, step, fault);
    *last = retain->replays.block >= retain->replays.blocks;
    return status;
}

static enum status step_tokens(struct retain *retain, struct retain_step *step, bool *last,
                               struct fault *fault)
{
    retain->tokens.step_blocks = retain->rounds[W_TOKENS].size;
    enum status status = retain_tokens(retain->session.db, &retain->tokens, step, fault);
    *last = retain->tokens.block >= retain->tokens.blocks;
    if (status == ST_OK)
        reconcile_count(retain->session.metrics, M_DISABLED, "stale", step->removed);
    return status;
}

static enum status step_expire(struct retain *retain, struct retain_step *step, bool *last,
                               struct fault *fault)
{
    int32_t rows_max = retain->rounds[W_EXPIRE].size;
    enum status status = retain_exports_expire(retain->session.db, rows_max, &step->seen, fault);
    *last = step->seen < rows_max;
    return status;
}

static enum status step_export_rows(struct retain *retain, struct retain_step *step, bool *last,
                                    struct fault *fault)
{
    int32_t rows_max = retain->rounds[W_EXPORT_ROWS].size;
    enum status status = retain_export_rows(retain->session.db, rows_max, &step->removed, fault);
    *last = step->removed < rows_max;
    return status;
}

static enum status step_exports(struct retain *retain, struct retain_step *step, bool *last,
                                struct fault *fault)
{
    int32_t rows_max = retain->rounds[W_EXPORTS].size;
    int64_t keep_ms = retain->session.setup->key_retention_ms;
    enum status status = retain_exports(retain->session.db, rows_max, keep_ms, step, fault);
    *last = step->removed < rows_max;
    return status;
}

static enum status step_batches(struct retain *retain, struct retain_step *step, bool *last,
                                struct fault *fault)
{
    retain->batches.rows_max = retain->rounds[W_BATCHES].size;
    enum status status = retain_batches(retain->session.db, &retain->batches, step, fault);
    *last = step->seen < retain->batches.rows_max;
    return status;
}

static const struct {
    enum table table;
    int32_t size, size_max;
    step_function *step;
} works[W_COUNT] = {
    [W_DISPATCHES] = {T_DISPATCHES, 500, 2000, step_dispatches},
    [W_NOTIFICATIONS] = {T_NOTIFICATIONS, 500, 2000, step_notifications},
    [W_KEYS] = {T_KEYS, 16, 64, step_keys},
    [W_REPLAYS] = {T_REPLAYS, 16, 64, step_replays},
    [W_TOKENS] = {T_TOKENS, 16, 64, step_tokens},
    [W_EXPIRE] = {T_EXPORTS, 100, 100, step_expire},
    [W_EXPORT_ROWS] = {T_EXPORT_ROWS, 500, 2000, step_export_rows},
    [W_EXPORTS] = {T_EXPORTS, 100, 100, step_exports},
    [W_BATCHES] = {T_RECEIPT_BATCHES, 50, 50, step_batches},
};

/* ---- rounds ----------------------------------------------------------------------------------------- */

static void begin_round(struct retain *retain, enum work work, int64_t now_ms)
{
    const struct reconcile_setup *setup = retain->session.setup;
    const struct reconcile_settings *settings = setup->settings;
    struct round *round = &retain->rounds[work];
    *round =
        (struct round){.open = true, .from_ms = now_ms, .period_ms = round->period_ms, .size = round->size};
    /* What was queued and never settled is kept as long again as a record of it can come. */
    retain->dispatches = work == W_DISPATCHES
                             ? (struct retain_dispatches){.retention_ms = settings->dispatch_retention_ms,
                                                          .unsettled_ms = setup->key_retention_ms}
                             : retain->dispatches;
    if (work == W_NOTIFICATIONS)
        retain->notifications =
            (struct retain_notifications){.retention_ms = settings->notification_retention_ms};
    if (work == W_KEYS)
        retain->keys = (struct retain_heap){.keep_ms = setup->key_retention_ms};
    if (work == W_REPLAYS)
        retain->replays = (struct retain_heap){.keep_ms = setup->key_retention_ms};
    if (work == W_TOKENS)
        retain->tokens = (struct retain_heap){.keep_ms = settings->token_stale_after_ms};
    if (work == W_BATCHES)
        retain->batches = (struct retain_batches){.overdue_ms = settings->receipt_max_age_ms};
}

static void end_round(struct retain *retain, enum work work)
{
    struct round *round = &retain->rounds[work];
    struct metric_set *metrics = retain->session.metrics;
    enum table table = works[work].table;
    round->open = false;
    round->due_ms = round->from_ms + round->period_ms;
    if (work != W_EXPIRE)
        metric_put(metrics, M_RETAIN_OLDEST, table, round->oldest_s);
    for (size_t i = 0; i < HELD_COUNT; i++) {
        if (work == (i == HELD_DISPATCHES ? W_NOTIFICATIONS : W_DISPATCHES))
            metric_put(metrics, M_RETAIN_HELD, i, (double)round->held[i]);
    }
    if (round->removed > 0)
        log_event(LOG_INFO, "RETAIN-ROUND",
                  table == T_TOKENS ? "tokens switched off as stale" : "rows removed",
                  log_text("table", reconcile_metric_rows[M_RETAINED].values[table]),
                  log_int("rows", round->removed),
                  log_int("ms", clock_monotonic_ms(retain->session.clock) - round->from_ms));
}

/* The statement took longer than the database allows: half of it, or what is left waits for the next round.
 */
static void take_refusal(struct retain *retain, enum work work, const struct fault *fault)
{
    struct round *round = &retain->rounds[work];
    bool smaller = round->size > 1;
    log_fault(smaller ? LOG_WARN : LOG_ERROR, "RETAIN-REFUSED", "the database refuses to remove rows",
              ST_REJECT, fault,
              log_text("table", reconcile_metric_rows[M_RETAINED].values[works[work].table]),
              log_int("size", round->size));
    if (smaller)
        round->size /= 2;
    else
        end_round(retain, work);
}

static void adapt(struct round *round, int32_t size_max, int64_t took_ms)
{
    if (took_ms > STEP_LONG_MS && round->size > 1)
        round->size /= 2;
    else if (took_ms < STEP_SHORT_MS && round->size < size_max)
        round->size = round->size * 2 < size_max ? round->size * 2 : size_max;
}

static enum status run_work(struct retain *retain, enum work work, struct fault *fault)
{
    struct session *session = &retain->session;
    struct round *round = &retain->rounds[work];
    struct retain_step step = {0};
    bool last = false;
    int64_t from_ms = clock_monotonic_ms(session->clock);
    if (!round->open)
        begin_round(retain, work, from_ms);
    enum status status = works[work].step(retain, &step, &last, fault);
    int64_t took_ms = clock_monotonic_ms(session->clock) - from_ms;
    retain->work_ms += took_ms;
    if (status == ST_REJECT) {
        take_refusal(retain, work, fault);
        return ST_OK;
    }
    if (status != ST_OK)
        return status;
    enum table table = works[work].table;
    double oldest_s = (double)step.oldest_us / 1e6;
    if (oldest_s > round->oldest_s)
        round->oldest_s = oldest_s;
    if (round->oldest_s > metric_get(session->metrics, M_RETAIN_OLDEST, table))
        metric_put(session->metrics, M_RETAIN_OLDEST, table, round->oldest_s);
    metric_add(session->metrics, M_RETAINED, table, (uint64_t)step.removed);
    round->removed += step.removed;
    adapt(round, works[work].size_max, took_ms);
    if (last)
        end_round(retain, work);
    return ST_OK;
}

static bool is_due(const struct retain *retain, enum work work)
{
    const struct round *round = &retain->rounds[work];
    bool now = round->open || clock_monotonic_ms(retain->session.clock) >= round->due_ms;
    return retain->leased && now && (work != W_KEYS || retain->keys_may_go);
}

/* ---- who retains ------------------------------------------------------------------------------------ */

static void forget_rounds(struct retain *retain)
{
    for (size_t i = 0; i < W_COUNT; i++) {
        retain->rounds[i].open = false;
        retain->rounds[i].due_ms = 0;
    }
    for (size_t i = 0; i < T_COUNT; i++)
        metric_put(retain->session.metrics, M_RETAIN_OLDEST, i, 0);
    for (size_t i = 0; i < HELD_COUNT; i++)
        metric_put(retain->session.metrics, M_RETAIN_HELD, i, 0);
}

static bool lease_is_due(const void *context)
{
    const struct retain *retain = context;
    return clock_monotonic_ms(retain->session.clock) >= retain->lease_due_ms;
}

static enum status stage_lease(void *context, struct fault *fault)
{
    struct retain *retain = context;
    const struct session *session = &retain->session;
    const struct lease lease = {
        .what = LEASE, .owner = session->setup->owner, .lease_ms = session->setup->settings->lease_ms};
    bool leased = false;
    enum status status = lease_take(session->db, &lease, &leased, fault);
    if (status != ST_OK)
        return status;
    if (retain->leased && !leased)
        forget_rounds(retain);
    if (retain->leased != leased)
        log_event(LOG_INFO, "RETAIN-LEASE", leased ? "this process retains" : "another process retains");
    retain->leased = leased;
    retain->lease_due_ms = clock_monotonic_ms(session->clock) + lease.lease_ms / 3;
    return ST_OK;
}

static void tell_ready(const struct retain *retain)
{
    struct readiness *readiness = retain->session.setup->readiness;
    if (retain->keys_may_go)
        readiness_ready(readiness, retain->session.slot);
    else
        readiness_ready_but(
            readiness, retain->session.slot,
            "idempotency keys are not removed: the events topic may outlive them, or is missing");
}

/* ---- keys and their topic --------------------------------------------------------------------------- */

static bool topic_is_due(const void *context)
{
    const struct retain *retain = context;
    return clock_monotonic_ms(retain->session.clock) >= retain->topic_due_ms;
}

/* At the start the same refusal as the dispatcher's; later the topic was changed under us: keys stay. */
static enum status judge_topic(struct retain *retain, const struct topic_retention *retention,
                               struct fault *fault)
{
    const struct reconcile_setup *setup = retain->session.setup;
    const struct kafka_config_value *blamed = topic_retention_blame(retention, setup->key_retention_ms);
    retain->keys_may_go = blamed == NULL || setup->allow_short_key_retention;
    if (blamed != NULL && !retain->keys_may_go) {
        enum status status = topic_retention_refuse(setup->events_topic, blamed, fault);
        if (!retain->topic_judged)
            return status;
        log_fault(LOG_ERROR, "RETAIN-KEYS", "no keys are removed until their retention is mended", status,
                  fault);
    } else if (blamed != NULL && !retain->topic_judged) {
        log_event(LOG_WARN, "RETAIN-SHORT-KEYS", "keys may be forgotten before their records are",
                  log_text("topic", setup->events_topic), log_text("setting", blamed->name),
                  log_text("value", blamed->value));
    }
    retain->topic_judged = true;
    return ST_OK;
}

static enum status stage_topic(void *context, struct fault *fault)
{
    struct retain *retain = context;
    const struct session *session = &retain->session;
    const struct reconcile_setup *setup = session->setup;
    const struct kafka_client_options options = {.properties = setup->kafka,
                                                 .client_name = "belfry-reconciler-admin"};
    struct topic_retention retention;
    tell_ready(retain);
    enum status status = topic_retention_ask(&options, setup->events_topic, &retention, fault);
    bool missing = topic_retention_is_missing(status, fault);
    retain->topic_due_ms = clock_monotonic_ms(session->clock) + (missing ? TOPIC_AGAIN_MS : TOPIC_EVERY_MS);
    if (missing) {
        retain->keys_may_go = setup->allow_short_key_retention;
        return ST_OK;
    }
    metric_put(session->metrics, M_RETENTION_UNKNOWN, 0, status == ST_OK ? 0 : 1);
    if (status == ST_OK)
        return judge_topic(retain, &retention, fault);
    if (status == ST_FATAL)
        return status;
    log_fault(LOG_WARN, "RETAIN-TOPIC-UNKNOWN",
              "the events topic's retention is not known; make sure that [ingest] key_retention outlives it",
              status, fault);
    retain->keys_may_go = true;
    return ST_OK;
}

/* ---- the loop --------------------------------------------------------------------------------------- */

#define STAGE(name, work)                                                                                    \
    static enum status stage_##name(void *context, struct fault *fault)                                      \
    {                                                                                                        \
        return run_work(context, work, fault);                                                               \
    }                                                                                                        \
    static bool has_##name(const void *context)                                                              \
    {                                                                                                        \
        return is_due(context, work);                                                                        \
    }
STAGE(dispatches, W_DISPATCHES)
STAGE(notifications, W_NOTIFICATIONS)
STAGE(keys, W_KEYS)
STAGE(replays, W_REPLAYS)
STAGE(tokens, W_TOKENS)
STAGE(expire, W_EXPIRE)
STAGE(export_rows, W_EXPORT_ROWS)
STAGE(exports, W_EXPORTS)
STAGE(batches, W_BATCHES)

static const struct stage stages[] = {
    {"retain_lease", stage_lease, lease_is_due},
    {"retain_dispatches", stage_dispatches, has_dispatches},
    {"retain_notifications", stage_notifications, has_notifications},
    {"retain_keys", stage_keys, has_keys},
    {"retain_replays", stage_replays, has_replays},
    {"retain_tokens", stage_tokens, has_tokens},
    {"retain_expire", stage_expire, has_expire},
    {"retain_export_rows", stage_export_rows, has_export_rows},
    {"retain_exports", stage_exports, has_exports},
    {"retain_batches", stage_batches, has_batches},
    {"retain_topic", stage_topic, topic_is_due}, /* last: Kafka may let it wait */
};

static int64_t within(int64_t ms, int64_t least, int64_t most)
{
    return ms < least ? least : ms > most ? most : ms;
}

/* A round begins often enough that a row outlives its retention by a hundredth of it at most. */
static int64_t period_of(const struct reconcile_setup *setup, enum work work)
{
    if (work == W_KEYS || work == W_REPLAYS)
        return within(setup->key_retention_ms / 100, ROUND_MIN_MS, HEAP_ROUND_MAX_MS);
    if (work == W_TOKENS)
        return within(setup->settings->token_stale_after_ms / 100, ROUND_MIN_MS, HEAP_ROUND_MAX_MS);
    return within(setup->settings->dispatch_retention_ms / 100, ROUND_MIN_MS, ROUND_MAX_MS);
}

enum status retain_new(const struct reconcile_setup *setup, struct metric_set *metrics,
                       struct retain **retain, struct fault *fault)
{
    struct retain *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for the retain loop");
        return ST_FATAL;
    }
    made->session =
        (struct session){.name = "retain", .metrics = metrics, .wait = session_wait, .context = made};
    for (size_t i = 0; i < W_COUNT; i++) {
        made->rounds[i].size = works[i].size;
        made->rounds[i].period_ms = period_of(setup, (enum work)i);
    }
    enum status status = session_open(&made->session, setup, fault);
    if (status != ST_OK) {
        retain_free(made);
        return status;
    }
    *retain = made;
    return ST_OK;
}

void retain_free(struct retain *retain)
{
    if (retain == NULL)
        return;
    session_done(&retain->session);
    free(retain);
}

static int64_t sleep_ms(const struct retain *retain)
{
    for (size_t i = 0; i < W_COUNT; i++) {
        if (is_due(retain, (enum work)i))
            return within(retain->work_ms * SLEEP_SHARE, 1, ROUND_MAX_MS);
    }
    int64_t least_ms = retain->work_ms * SLEEP_SHARE;
    return within(least_ms, SLICE_MS / 4, ROUND_MAX_MS);
}

enum status retain_run(struct retain *retain, struct fault *fault)
{
    struct session *session = &retain->session;
    while (!signals_stopping()) {
        retain->work_ms = 0;
        enum status status = session_run(session, stages, sizeof stages / sizeof stages[0], fault);
        if (status == ST_FATAL)
            return status;
        if (status == ST_OK)
            tell_ready(retain);
        session_sleep(sleep_ms(retain));
    }
    const struct lease over = {.what = LEASE, .owner = session->setup->owner};
    bool held = false;
    if (retain->leased && db_is_up(session->db) && lease_take(session->db, &over, &held, fault) != ST_OK)
        log_event(LOG_DEBUG, "RETAIN-LEASE", "not given back; it runs out");
    return ST_OK;
}
