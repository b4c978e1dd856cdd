/* What fan-out counts, and its gauges. */
#include "state.h"

static const char *const results[] = {"sent", "failed", "suppressed", NULL};
/* In the order of enum fanout_batch_event. */
static const char *const events[] = {"handed", "taken", "finished", "lost", "released", NULL};

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
};

struct metric_set *fanout_metrics_add(struct metrics *metrics)
{
    return metrics_add(metrics, rows, FANOUT_M_COUNT);
}

void fanout_metrics_show(const struct fanout *fanout)
{
    metric_put(fanout->metrics, FANOUT_M_HELD, 0, (double)held_count(fanout));
    metric_put(fanout->metrics, FANOUT_M_IN_FLIGHT, 0, (double)fanout->in_flight);
    metric_put(fanout->metrics, FANOUT_M_OWED, 0, (double)fanout->owed_used);
}
