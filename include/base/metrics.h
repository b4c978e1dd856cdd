/* Counters, gauges and histograms, written as text for Prometheus.
 *
 * Each module declares its metrics in one static table and registers it once, before its threads start:
 *
 *     enum { M_RECORDS, M_REFUSED, M_COUNT };
 *     static const char *const codes[] = {"json", "field", "other", NULL};
 *     static const struct metric_row rows[M_COUNT] = {
 *         [M_RECORDS] = {.name = "belfry_ingest_records_total", .help = "Records taken from Kafka."},
 *         [M_REFUSED] = {.name = "belfry_dead_letters_total", .help = "…", .label = "code", .values =
 * codes}}; struct metric_set *set = metrics_add(metrics, rows, M_COUNT); metric_add(set, M_RECORDS, 0, 17);
 *     metric_add(set, M_REFUSED, metric_value_index(&rows[M_REFUSED], fault.code), 1);
 *
 * Updates are atomic and may come from any thread; a NULL set is allowed and does nothing (tests).
 * Labels are bounded: their values stand in the table; anything else is counted under the last one. A gauge
 * may have a second label whose values are numbers known only at run time (partitions held): numbers_max of
 * them at most, put all at once. Every other series exists from the start at 0. Names: prefix belfry_, base
 * units, _total for counters. */
#ifndef BELFRY_BASE_METRICS_H
#define BELFRY_BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum { METRIC_BUCKETS_MAX = 24, METRIC_VALUES_MAX = 64, METRIC_NUMBERS_MAX = 4096 };

struct metric_row {
    const char *name, *help;
    enum metric_type type;
    const char *label;         /* NULL: one series */
    const char *const *values; /* of the label, ended by NULL, at most METRIC_VALUES_MAX; the last one is
                                  also the place of everything unknown: call it "other" where that can be */
    const double *buckets;     /* a histogram's upper bounds, ascending, ended by 0; +Inf is added */
    const char *number_label;  /* of a gauge: a second label, filled by metric_put_numbers; NULL: none */
    size_t numbers_max;        /* with number_label: 1 ... METRIC_NUMBERS_MAX */
};

struct metrics;
struct metric_set;

/* NULL when the heap is empty. */
struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics); /* frees the sets too; NULL is allowed */

/* The rows must outlive the registry. Asserts the naming rules and that no name comes twice; the same table
 * again gives the same set (what several parts count together). NULL when the heap is empty or metrics is
 * NULL. */
struct metric_set *metrics_add(struct metrics *metrics, const struct metric_row *rows, size_t count);

/* value is the index into the row's values, 0 when it has no label; past the end is the last. */
void metric_add(struct metric_set *set, size_t row, size_t value, uint64_t by);     /* counter */
void metric_put(struct metric_set *set, size_t row, size_t value, double to);       /* gauge */
void metric_observe(struct metric_set *set, size_t row, size_t value, double seen); /* histogram */
/* One series of a row with number_label. */
struct metric_number {
    size_t value; /* index into the row's values, 0 when it has no label */
    int64_t number;
    double shows;
};
/* All series of that row from now on; what was there before is gone, what is past numbers_max is left out. */
void metric_put_numbers(struct metric_set *set, size_t row, const struct metric_number *numbers,
                        size_t count);
/* What a counter or a gauge shows now: for tests and summaries. */
double metric_get(const struct metric_set *set, size_t row, size_t value);

/* The index of a label's value; the last one when it is not in the table. */
size_t metric_value_index(const struct metric_row *row, const char *value);

/* The whole registry in Prometheus' text format 0.0.4. */
void metrics_write(struct metrics *metrics, struct buffer *out);

/* Seconds from 1 ms to 30 s, for latencies. */
extern const double metric_buckets_seconds[];
/* 1 to 10,000, for how much a batch holds. */
extern const double metric_buckets_counts[];

#endif
