/* Tables in, text out. A set holds one array of atomic 64-bit cells: a counter's or gauge's series is one
 * cell (a gauge keeps a double's bits), a histogram's is one cell a bucket, one for +Inf and one for the sum.
 * A scrape is not a snapshot: series may be a moment apart, but a bucket never counts less than one below. */
#include "base/metrics.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The series of one row with a number_label. */
struct numbers {
    struct metric_number *at;
    size_t count;
};

struct metric_set {
    struct metric_set *next;
    pthread_mutex_t *mutex;  /* the registry's */
    struct numbers *numbers; /* one a row; guarded by mutex */
    const struct metric_row *rows;
    size_t count;
    size_t *first; /* a row's first cell */
    _Atomic uint64_t *cells;
};

struct metrics {
    pthread_mutex_t mutex; /* guards the list and the numbers; cells are atomic */
    struct metric_set *sets, **last;
};

const double metric_buckets_seconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                         0.5,   1,      2.5,   5,    10,    30,   0};
const double metric_buckets_counts[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 0};

struct metrics *metrics_new(void)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL)
        return NULL;
    pthread_mutex_init(&metrics->mutex, NULL);
    metrics->last = &metrics->sets;
    return metrics;
}

static void set_free(struct metric_set *set)
{
    for (size_t i = 0; set->numbers != NULL && i < set->count; i++)
        free(set->numbers[i].at);
    free(set->numbers);
    free(set->first);
    free(set->cells);
    free(set);
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    while (metrics->sets != NULL) {
        struct metric_set *set = metrics->sets;
        metrics->sets = set->next;
        set_free(set);
    }
    pthread_mutex_destroy(&metrics->mutex);
    free(metrics);
}

static size_t bucket_count(const struct metric_row *row)
{
    size_t count = 0;
    while (row->buckets[count] != 0)
        count++;
    return count;
}

static size_t value_count(const struct metric_row *row)
{
    size_t count = 0;
    if (row->label == NULL)
        return 1;
    while (row->values[count] != NULL)
        count++;
    return count;
}

static size_t cells_of_series(const struct metric_row *row)
{
    return row->type == METRIC_HISTOGRAM ? bucket_count(row) + 2 : 1;
}

static bool ends_with(const char *text, const char *end)
{
    size_t bytes = strlen(text), tail = strlen(end);
    return bytes >= tail && strcmp(text + bytes - tail, end) == 0;
}

/* promtool's rules, as far as a table can break them; a row that breaks one is a programming error. */
static bool row_is_sound(const struct metric_row *row)
{
    if (row->name == NULL || strncmp(row->name, "belfry_", 7) != 0 || row->help == NULL ||
        row->help[0] == '\0')
        return false;
    for (const char *at = row->name; *at != '\0'; at++) {
        if (!islower((unsigned char)*at) && !isdigit((unsigned char)*at) && *at != '_')
            return false;
    }
    if (ends_with(row->name, "_total") != (row->type == METRIC_COUNTER) || ends_with(row->name, "_ms"))
        return false;
    if (row->label != NULL &&
        (strcmp(row->label, "le") == 0 || row->values == NULL || row->values[0] == NULL))
        return false;
    if (row->number_label != NULL &&
        (row->type != METRIC_GAUGE || row->numbers_max == 0 || row->numbers_max > METRIC_NUMBERS_MAX))
        return false;
    return value_count(row) <= METRIC_VALUES_MAX &&
           (row->type != METRIC_HISTOGRAM ||
            (row->buckets != NULL && bucket_count(row) <= METRIC_BUCKETS_MAX));
}

static bool name_is_new(const struct metrics *metrics, const struct metric_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(rows[i].name, rows[j].name) == 0)
                return false;
        }
        for (const struct metric_set *set = metrics->sets; set != NULL; set = set->next) {
            for (size_t j = 0; j < set->count; j++) {
                if (strcmp(rows[i].name, set->rows[j].name) == 0)
                    return false;
            }
        }
    }
    return true;
}

/* With the mutex held. */
static struct metric_set *set_find(struct metrics *metrics, const struct metric_row *rows, size_t count)
{
    struct metric_set *set = metrics->sets;
    while (set != NULL && (set->rows != rows || set->count != count))
        set = set->next;
    return set;
}

/* False: no memory. */
static bool numbers_make(struct metric_set *set)
{
    set->numbers = calloc(set->count + 1, sizeof *set->numbers);
    bool made = set->numbers != NULL;
    for (size_t i = 0; made && i < set->count; i++) {
        if (set->rows[i].number_label == NULL)
            continue;
        set->numbers[i].at = calloc(set->rows[i].numbers_max, sizeof *set->numbers[i].at);
        made = set->numbers[i].at != NULL;
    }
    return made;
}

/* NULL: no memory. */
static struct metric_set *set_new(struct metrics *metrics, const struct metric_row *rows, size_t count)
{
    struct metric_set *set = calloc(1, sizeof *set);
    if (set == NULL)
        return NULL;
    size_t cells = 0;
    set->rows = rows;
    set->count = count;
    set->first = calloc(count + 1, sizeof *set->first);
    for (size_t i = 0; i < count && set->first != NULL; i++) {
        assert(row_is_sound(&rows[i]));
        set->first[i] = cells;
        cells += value_count(&rows[i]) * cells_of_series(&rows[i]);
    }
    set->cells = calloc(cells + 1, sizeof *set->cells);
    set->mutex = &metrics->mutex;
    if (set->first == NULL || set->cells == NULL || !numbers_make(set)) {
        set_free(set);
        return NULL;
    }
    return set;
}

/* Looking and adding under one lock: two threads may bring the same table at the same moment. */
struct metric_set *metrics_add(struct metrics *metrics, const struct metric_row *rows, size_t count)
{
    if (metrics == NULL)
        return NULL;
    pthread_mutex_lock(&metrics->mutex);
    struct metric_set *set = set_find(metrics, rows, count);
    if (set == NULL && (set = set_new(metrics, rows, count)) != NULL) {
        assert(name_is_new(metrics, rows, count));
        *metrics->last = set;
        metrics->last = &set->next;
    }
    pthread_mutex_unlock(&metrics->mutex);
    return set;
}

/* The first cell of a series. */
static _Atomic uint64_t *series_cells(const struct metric_set *set, size_t row, size_t value)
{
    assert(row < set->count);
    size_t values = value_count(&set->rows[row]);
    if (value >= values)
        value = values - 1;
    return set->cells + set->first[row] + value * cells_of_series(&set->rows[row]);
}

static double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t as_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void metric_add(struct metric_set *set, size_t row, size_t value, uint64_t by)
{
    if (set == NULL)
        return;
    assert(set->rows[row].type == METRIC_COUNTER);
    atomic_fetch_add_explicit(series_cells(set, row, value), by, memory_order_relaxed);
}

void metric_put(struct metric_set *set, size_t row, size_t value, double to)
{
    if (set == NULL)
        return;
    assert(set->rows[row].type == METRIC_GAUGE);
    atomic_store_explicit(series_cells(set, row, value), as_bits(to), memory_order_relaxed);
}

void metric_put_numbers(struct metric_set *set, size_t row, const struct metric_number *numbers, size_t count)
{
    if (set == NULL)
        return;
    assert(row < set->count && set->rows[row].number_label != NULL);
    if (count > set->rows[row].numbers_max)
        count = set->rows[row].numbers_max;
    pthread_mutex_lock(set->mutex);
    if (count > 0)
        memcpy(set->numbers[row].at, numbers, count * sizeof *numbers);
    set->numbers[row].count = count;
    pthread_mutex_unlock(set->mutex);
}

void metric_observe(struct metric_set *set, size_t row, size_t value, double seen)
{
    if (set == NULL)
        return;
    assert(set->rows[row].type == METRIC_HISTOGRAM);
    const double *buckets = set->rows[row].buckets;
    size_t count = bucket_count(&set->rows[row]), bucket = 0;
    _Atomic uint64_t *cells = series_cells(set, row, value);
    while (bucket < count && !(seen <= buckets[bucket]))
        bucket++;
    atomic_fetch_add_explicit(&cells[bucket], 1, memory_order_relaxed);
    uint64_t before = atomic_load_explicit(&cells[count + 1], memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&cells[count + 1], &before,
                                                  as_bits(as_double(before) + seen), memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

double metric_get(const struct metric_set *set, size_t row, size_t value)
{
    if (set == NULL)
        return 0;
    uint64_t cell = atomic_load(series_cells(set, row, value));
    return set->rows[row].type == METRIC_GAUGE ? as_double(cell) : (double)cell;
}

size_t metric_value_index(const struct metric_row *row, const char *value)
{
    size_t count = value_count(row);
    for (size_t i = 0; i + 1 < count; i++) {
        if (strcmp(row->values[i], value) == 0)
            return i;
    }
    return count - 1;
}

/* Backslash and newline, and in a label's value the quote (exposition format 0.0.4). */
static void add_escaped(struct buffer *out, const char *text, bool quote)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || (quote && *text == '"'))
            buffer_add_byte(out, '\\');
        if (*text == '\n')
            buffer_add_text(out, "\\n");
        else
            buffer_add_byte(out, *text);
    }
}

/* A label beside the row's own; name NULL: none. */
struct extra {
    const char *name, *value;
};

/* name_suffix{label="value",le="…"} and a blank. */
static void add_name(struct buffer *out, const struct metric_row *row, size_t value, const char *suffix,
                     struct extra extra)
{
    buffer_add_text(out, row->name);
    buffer_add_text(out, suffix);
    if (row->label != NULL || extra.name != NULL) {
        buffer_add_byte(out, '{');
        if (row->label != NULL) {
            buffer_printf(out, "%s=\"", row->label);
            add_escaped(out, row->values[value], true);
            buffer_add_text(out, extra.name == NULL ? "\"" : "\",");
        }
        if (extra.name != NULL)
            buffer_printf(out, "%s=\"%s\"", extra.name, extra.value);
        buffer_add_byte(out, '}');
    }
    buffer_add_byte(out, ' ');
}

static void add_double(struct buffer *out, double value)
{
    if (value != value)
        buffer_add_text(out, "NaN\n");
    else if (value > 1.7976931348623157e308 || value < -1.7976931348623157e308)
        buffer_add_text(out, value > 0 ? "+Inf\n" : "-Inf\n");
    else
        buffer_printf(out, "%.17g\n", value);
}

static void add_histogram(struct buffer *out, const struct metric_set *set, size_t row, size_t value)
{
    const struct metric_row *metric = &set->rows[row];
    size_t count = bucket_count(metric);
    _Atomic uint64_t *cells = series_cells(set, row, value);
    uint64_t sum = 0;
    for (size_t i = 0; i <= count; i++) {
        char bound[32] = "+Inf";
        if (i < count)
            snprintf(bound, sizeof bound, "%g", metric->buckets[i]);
        sum += atomic_load_explicit(&cells[i], memory_order_relaxed);
        add_name(out, metric, value, "_bucket", (struct extra){"le", bound});
        buffer_printf(out, "%llu\n", (unsigned long long)sum);
    }
    add_name(out, metric, value, "_sum", (struct extra){NULL, NULL});
    add_double(out, as_double(atomic_load_explicit(&cells[count + 1], memory_order_relaxed)));
    add_name(out, metric, value, "_count", (struct extra){NULL, NULL});
    buffer_printf(out, "%llu\n", (unsigned long long)sum);
}

/* The caller holds the mutex. */
static void add_numbers(struct buffer *out, const struct metric_row *row, const struct numbers *numbers)
{
    for (size_t i = 0; i < numbers->count; i++) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)numbers->at[i].number);
        size_t value = row->label == NULL ? 0 : numbers->at[i].value;
        add_name(out, row, value, "", (struct extra){row->number_label, number});
        add_double(out, numbers->at[i].shows);
    }
}

static void add_row(struct buffer *out, const struct metric_set *set, size_t row)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    const struct metric_row *metric = &set->rows[row];
    buffer_printf(out, "# HELP %s ", metric->name);
    add_escaped(out, metric->help, false);
    buffer_printf(out, "\n# TYPE %s %s\n", metric->name, types[metric->type]);
    if (metric->number_label != NULL) {
        add_numbers(out, metric, &set->numbers[row]);
        return;
    }
    for (size_t value = 0; value < value_count(metric); value++) {
        if (metric->type == METRIC_HISTOGRAM) {
            add_histogram(out, set, row, value);
            continue;
        }
        uint64_t cell = atomic_load_explicit(series_cells(set, row, value), memory_order_relaxed);
        add_name(out, metric, value, "", (struct extra){NULL, NULL});
        if (metric->type == METRIC_GAUGE)
            add_double(out, as_double(cell));
        else
            buffer_printf(out, "%llu\n", (unsigned long long)cell);
    }
}

void metrics_write(struct metrics *metrics, struct buffer *out)
{
    pthread_mutex_lock(&metrics->mutex);
    for (const struct metric_set *set = metrics->sets; set != NULL; set = set->next) {
        for (size_t row = 0; row < set->count; row++)
            add_row(out, set, row);
    }
    pthread_mutex_unlock(&metrics->mutex);
}
