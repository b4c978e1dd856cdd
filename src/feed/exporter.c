/* In: exports that wait. Out: exports that are ready, or failed and why. Always: one statement fills one, so
 * none is ever half there; whoever dies loses a lease and nothing else. A crash here delays an export by
 * its lease. */
#include "feed/exporter.h"

#include <string.h>

#include "base/log.h"
#include "feed/exports.h"
#include "io/crypto.h"

enum { ANSWER_GRACE_MS = 5000, TICK_MS = 50 };

enum { METRIC_EXPORTS, METRIC_ROWS, METRIC_SECONDS, METRIC_OLDEST, METRICS };
enum { STATE_QUEUED, STATE_READY, STATE_FAILED, STATE_RETRIED };
enum { STAGE_QUEUE, STAGE_FILL };

static const char *const metric_states[] = {"queued", "ready", "failed", "retried", NULL};
static const char *const metric_stages[] = {"queue", "fill", NULL};

static const struct metric_row metric_rows[METRICS] = {
    [METRIC_EXPORTS] = {.name = "belfry_exports_total",
                        .help = "Exports that came into a state here; retried: begun and put back.",
                        .label = "state",
                        .values = metric_states},
    [METRIC_ROWS] = {.name = "belfry_export_rows_total", .help = "Rows of the exports made ready here."},
    [METRIC_SECONDS] = {.name = "belfry_export_stage_seconds",
                        .help = "Time of an export in a stage: queue from order to taking, fill to its end.",
                        .type = METRIC_HISTOGRAM,
                        .label = "stage",
                        .values = metric_stages,
                        .buckets = metric_buckets_seconds},
    [METRIC_OLDEST] = {.name = "belfry_exports_oldest_queued_seconds",
                       .help = "Since when the oldest export waits to be taken; 0: none does.",
                       .type = METRIC_GAUGE},
};

enum status exporter_init(struct exporter *exporter, const struct db_settings *database,
                          struct metrics *metrics, struct fault *fault)
{
    struct links_setup setup = {.database = *database, .clock = exporter->clock, .count = 1};
    const struct export_settings *exports = exporter->settings;
    exporter->metrics = metrics_add(metrics, metric_rows, METRICS);
    setup.database.application_name = "belfry-reader exports";
    setup.database.prepared_statements = false; /* export_fill_send */
    setup.database.answer_timeout_ms = (int)exports->timeout_ms + ANSWER_GRACE_MS;
    exporter->lease = (struct export_lease){.lease_ms = exports->timeout_ms + EXPORTER_LEASE_MARGIN_MS,
                                            .life_ms = exports->keep_ms};
    crypto_random(&exporter->lease.owner, sizeof exporter->lease.owner);
    setup.seed = (uint64_t)exporter->lease.owner;
    return links_init(&exporter->links, &setup, fault);
}

void exporter_done(struct exporter *exporter)
{
    links_done(&exporter->links);
}

void exporter_poll(const struct exporter *exporter, struct pollfd *fds)
{
    links_poll(&exporter->links, fds);
}

int exporter_wait_ms(const struct exporter *exporter)
{
    int wait_ms = links_wait_ms(&exporter->links);
    int64_t look_ms = exporter->look_at_ms - clock_monotonic_ms(&exporter->clock);
    if (exporter->step != EXPORTER_IDLE)
        return wait_ms < TICK_MS ? wait_ms : TICK_MS;
    if (links_up(&exporter->links) == 0 || !exporter->fit || exporter->leaving || look_ms > wait_ms)
        return wait_ms;
    return look_ms < 0 ? 0 : (int)look_ms;
}

void exporter_kick(struct exporter *exporter, bool ordered)
{
    exporter->look_at_ms = 0;
    if (ordered)
        metric_add(exporter->metrics, METRIC_EXPORTS, STATE_QUEUED, 1);
}

void exporter_leave(struct exporter *exporter)
{
    exporter->leaving = true;
}

bool exporter_is_busy(const struct exporter *exporter)
{
    return exporter->step != EXPORTER_IDLE;
}

/* ---- what is sent -------------------------------------------------------------------------------------- */

/* It goes on with the step, or, when the statement could not be sent, is idle: leases end by themselves. */
static void exporter_sent(struct exporter *exporter, enum status status, enum exporter_step step)
{
    int64_t now_ms = clock_monotonic_ms(&exporter->clock);
    exporter->step = status == ST_OK ? step : EXPORTER_IDLE;
    exporter->look_at_ms = now_ms + EXPORTER_LOOK_MS;
}

static void exporter_take(struct exporter *exporter, struct db *db)
{
    struct fault fault;
    const char *names[FEEDS_MAX];
    struct export_feeds served = {.names = names};
    for (size_t i = 0; i < exporter->feeds->count; i++)
        if (exporter->feeds->entries[i].source != NULL)
            names[served.count++] = exporter->feeds->entries[i].name;
    exporter_sent(exporter, export_take_send(db, &exporter->lease, &served, &fault), EXPORTER_TAKES);
}

/* NULL: back to the queue. */
static void exporter_end(struct exporter *exporter, struct db *db, const char *error)
{
    struct fault fault;
    metric_add(exporter->metrics, METRIC_EXPORTS, error == NULL ? STATE_RETRIED : STATE_FAILED, 1);
    if (db == NULL)
        exporter->step = EXPORTER_IDLE; /* the lease ends by itself */
    else
        exporter_sent(exporter, export_end_send(db, &exporter->id, &exporter->lease, error, &fault),
                      EXPORTER_ENDS);
}

static void exporter_fill(struct exporter *exporter, struct db *db)
{
    struct fault fault;
    struct page_query query;
    if (exports_filters(exporter->feed, &exporter->filters, &query, &fault) != ST_OK) {
        exporter_end(exporter, db, "filters"); /* the feed was declared anew meanwhile */
        return;
    }
    struct export_fill fill = {
        .statement = exporter->feed->fill,
        .of = {.workspace_id = span_of(exporter->workspace),
               .user_id = span_of(exporter->user),
               .id = exporter->id},
        .lease = exporter->lease,
        .rows_max = (int64_t)exporter->settings->rows_max,
        .bytes_max = (int64_t)exporter->settings->bytes_max,
        .flag = query.flag,
    };
    memcpy(fill.filters, query.filters, sizeof fill.filters);
    db_patience(db, (int)exporter->settings->timeout_ms);
    exporter->since_ms = clock_monotonic_ms(&exporter->clock);
    exporter_sent(exporter, export_fill_send(db, &fill, &fault), EXPORTER_FILLS);
    db_patience(db, 0);
}

/* ---- what is answered ---------------------------------------------------------------------------------- */

static bool exporter_copy(struct span from, char *to)
{
    if (from.bytes > EXPORTER_NAME_MAX)
        return false;
    if (from.bytes > 0)
        memcpy(to, from.at, from.bytes);
    to[from.bytes] = '\0';
    return true;
}

static void exporter_took(struct exporter *exporter, struct db *db, const struct db_result *result)
{
    struct fault fault;
    struct export_taken taken;
    export_taken_open(result, &taken);
    metric_put(exporter->metrics, METRIC_OLDEST, 0, (double)taken.oldest_s);
    if (!taken.export.found)
        return;
    exporter->look_at_ms = 0; /* there may be another */
    exporter->id = taken.export.id;
    if (!span_is(taken.export.state, "running")) {
        log_event(LOG_ERROR, "EXPORT-GAVE-UP", "an export was tried too often, or its feed is not served",
                  log_span("feed", taken.export.feed));
        metric_add(exporter->metrics, METRIC_EXPORTS, STATE_FAILED, 1);
        return;
    }
    double waited_s = (double)(clock_wall_us(&exporter->clock) - taken.export.created_at_us) / 1e6;
    metric_observe(exporter->metrics, METRIC_SECONDS, STAGE_QUEUE, waited_s > 0 ? waited_s : 0);
    exporter->feed = feeds_find_served(exporter->feeds, taken.export.feed);
    if (exporter->leaving || exporter->feed == NULL)
        exporter_end(exporter, db, NULL);
    else if (!exporter_copy(taken.workspace_id, exporter->workspace) ||
             !exporter_copy(taken.user_id, exporter->user) ||
             export_filters_parse(taken.export.filters, &exporter->filters, &fault) != ST_OK)
        exporter_end(exporter, db, "filters");
    else
        exporter_fill(exporter, db);
}

static void exporter_filled(struct exporter *exporter, const struct db_result *result)
{
    struct export_filled filled = export_filled_open(result);
    int64_t took_ms = clock_monotonic_ms(&exporter->clock) - exporter->since_ms;
    bool ready = filled.mine && span_is(filled.state, "ready");
    exporter->look_at_ms = 0;
    metric_observe(exporter->metrics, METRIC_SECONDS, STAGE_FILL, (double)took_ms / 1e3);
    if (filled.mine)
        metric_add(exporter->metrics, METRIC_EXPORTS, ready ? STATE_READY : STATE_FAILED, 1);
    metric_add(exporter->metrics, METRIC_ROWS, 0, (uint64_t)filled.rows);
    log_event(LOG_INFO, ready ? "EXPORT-READY" : "EXPORT-NONE",
              ready ? "an export is ready" : "an export came to nothing",
              log_text("feed", exporter->feed->name), log_int("rows", filled.rows),
              log_int("bytes", filled.bytes), log_int("ms", took_ms),
              log_span("error", filled.mine ? filled.error : span_of("gone")));
}

/* What the statement said no to fails the export; what was lost may be tried again. */
static void exporter_failed(struct exporter *exporter, struct db *db, const struct db_answer *answer)
{
    bool timeout = strcmp(answer->fault.code, "57014") == 0;
    bool again = !timeout && (answer->status == ST_RETRY || answer->status == ST_STOP);
    log_fault(again ? LOG_WARN : LOG_ERROR, "EXPORT-FAILED", "an export could not be filled", answer->status,
              &answer->fault, log_text("feed", exporter->feed->name), log_bool("again", again));
    exporter_end(exporter, db, timeout ? "timeout" : again ? NULL : "internal");
}

static void exporter_answer(struct exporter *exporter, const struct db_answer *answer)
{
    enum exporter_step step = exporter->step;
    struct db *db = links_pick(&exporter->links);
    exporter->step = EXPORTER_IDLE;
    if (step == EXPORTER_FILLS && answer->status != ST_OK)
        exporter_failed(exporter, db, answer);
    else if (answer->status != ST_OK)
        log_fault(LOG_WARN, "EXPORT-FAILED", "exports could not be asked for", answer->status, &answer->fault,
                  log_bool("again", true));
    else if (step == EXPORTER_FILLS)
        exporter_filled(exporter, answer->result);
    else if (step == EXPORTER_TAKES)
        exporter_took(exporter, db, answer->result);
}

void exporter_pump(struct exporter *exporter, const struct pollfd *fds, bool fit)
{
    struct db_answer answer;
    exporter->fit = fit;
    links_pump(&exporter->links, fds);
    while (links_take(&exporter->links, &answer)) {
        exporter_answer(exporter, &answer);
        db_result_free(answer.result);
    }
    struct db *db = links_pick(&exporter->links);
    if (fit && db != NULL && exporter->step == EXPORTER_IDLE && !exporter->leaving &&
        clock_monotonic_ms(&exporter->clock) >= exporter->look_at_ms)
        exporter_take(exporter, db);
}
