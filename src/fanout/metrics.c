/* What fan-out counts, and its gauges. */
#include "state.h"

static const char *const results[] = {"sent", "failed", "suppressed", NULL};
/* In the order of enum fanout_batch_event. */
static const char *const events[] = {"handed", "taken", "finished", "lost", "released", NULL};

static const char *const reasons[] = {DISPATCH_RATE_LIMITED, DISPATCH_PROVIDER_UNAVAILABLE, "other", NULL};
static const char *const refined[] = {"projects", "validation", "too_many", NULL};

static const char *const stages[] = {"schema", "sweep",   "again",     "consult", "window",
                                     "send",   "publish", "published", NULL};
static const char *const urgencies[] = {"urgent", "normal", NULL};

static const struct metric_row rows[FANOUT_M_COUNT] = {
    [FANOUT_M_OUTCOMES] = {.name = "belfry_fanout_outcomes_total",
                           .help = "Dispatches that came to an outcome.",
                           .label = "result",
                           .values = results},
    [FANOUT_M_BATCHES] =
        {.name = "belfry_fanout_batches_total",
         .help = "Batches handed over by ingest, taken from the table, finished, lost to another "
                 "process, let go.",
         .label = "event",
         .values = events},
    [FANOUT_M_WINDOWS] = {.name = "belfry_fanout_windows_total", .help = "Windows taken out of unsent."},
    [FANOUT_M_RISKED] = {.name = "belfry_fanout_risked_total",
                         .help = "Dispatches reported failed/Unconfirmed because their owner died."},
    [FANOUT_M_HELD] = {.name = "belfry_fanout_batches_held",
                       .help = "Batches whose lease this process has.",
                       .type = METRIC_GAUGE},
    [FANOUT_M_IN_FLIGHT] = {.name = "belfry_fanout_in_flight",
                            .help = "Messages with the provider, not yet answered.",
                            .type = METRIC_GAUGE},
    [FANOUT_M_OWED] = {.name = "belfry_fanout_outcomes_owed",
                       .help = "Outcomes that Kafka has not acknowledged.",
                       .type = METRIC_GAUGE},
    [FANOUT_M_READY] = {.name = "belfry_fanout_ready",
                        .help = "Messages out of unsent that wait for the rate or a request.",
                        .type = METRIC_GAUGE},
    [FANOUT_M_AGAIN] = {.name = "belfry_fanout_again_total",
                        .help = "Messages certainly not accepted that went back to be tried again.",
                        .label = "reason",
                        .values = reasons},
    [FANOUT_M_REFINED] = {.name = "belfry_fanout_refined_total",
                          .help =
                              "Requests taken apart: several projects, one bad message, too many messages.",
                          .label = "why",
                          .values = refined},
    [FANOUT_M_BREAKER] =
        {.name = "belfry_provider_breaker_state",
         .help = "The push provider's breaker: 0 closed, 1 open, 2 open because our credentials are refused.",
         .type = METRIC_GAUGE},
    [FANOUT_M_OPENINGS] = {.name = "belfry_provider_breaker_openings_total",
                           .help = "How often the push provider's breaker opened."},
    [FANOUT_M_RATE] = {.name = "belfry_fanout_rate_limit",
                       .help = "Messages a second now allowed for the slowest project.",
                       .type = METRIC_GAUGE},
    [FANOUT_M_STAGE_SECONDS] = {.name = "belfry_fanout_stage_seconds",
                                .help = "Time of a stage's turn, turns with nothing to do included.",
                                .type = METRIC_HISTOGRAM,
                                .label = "stage",
                                .values = stages,
                                .buckets = metric_buckets_seconds},
    [FANOUT_M_STAGE_IN_FLIGHT] =
        {.name = "belfry_fanout_stage_in_flight",
         .help = "1 for the stage that runs now; messages are in belfry_fanout_ready, _in_flight, _owed.",
         .type = METRIC_GAUGE,
         .label = "stage",
         .values = stages},
    [FANOUT_M_OLDEST] = {.name = "belfry_batches_oldest_seconds",
                         .help =
                             "Since when the oldest batch in the table is not finished; 0: none is there.",
                         .type = METRIC_GAUGE,
                         .label = "urgency",
                         .values = urgencies},
};

enum { BACKLOG_EVERY_MS = 5000 };

size_t fanout_metrics_stage(const char *name)
{
    return metric_value_index(&rows[FANOUT_M_STAGE_SECONDS], name);
}

enum status backlog_run(struct fanout *fanout, struct fault *fault)
{
    int64_t urgent_us = 0, normal_us = 0;
    if (fanout->metrics == NULL || fanout_now_ms(fanout) < fanout->backlog_at_ms)
        return ST_OK;
    enum status status = batches_oldest(fanout->db, &urgent_us, &normal_us, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault);
    metric_put(fanout->metrics, FANOUT_M_OLDEST, 0, (double)urgent_us / 1e6);
    metric_put(fanout->metrics, FANOUT_M_OLDEST, 1, (double)normal_us / 1e6);
    fanout->backlog_at_ms = fanout_now_ms(fanout) + BACKLOG_EVERY_MS;
    return ST_OK;
}

struct metric_set *fanout_metrics_add(struct metrics *metrics)
{
    return metrics_add(metrics, rows, FANOUT_M_COUNT);
}

void fanout_metrics_again(const struct fanout *fanout, const char *error)
{
    metric_add(fanout->metrics, FANOUT_M_AGAIN, metric_value_index(&rows[FANOUT_M_AGAIN], error), 1);
}

void fanout_metrics_show(const struct fanout *fanout)
{
    metric_put(fanout->metrics, FANOUT_M_HELD, 0, (double)held_count(fanout));
    metric_put(fanout->metrics, FANOUT_M_IN_FLIGHT, 0, (double)fanout->in_flight);
    metric_put(fanout->metrics, FANOUT_M_OWED, 0, (double)fanout->owed_used);
    metric_put(fanout->metrics, FANOUT_M_READY, 0, (double)fanout->ready.count);
    metric_put(fanout->metrics, FANOUT_M_BREAKER, 0, (double)fanout->breaker.state);
    double slowest = fanout->rate.limit;
    for (size_t i = 0; i < fanout->rate.count; i++)
        slowest = fanout->rate.buckets[i].limit < slowest ? fanout->rate.buckets[i].limit : slowest;
    metric_put(fanout->metrics, FANOUT_M_RATE, 0, slowest);
}
