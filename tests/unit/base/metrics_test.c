/* The registry, and the grammar of what it writes (Prometheus text format 0.0.4, promtool's rules). */
#include "base/metrics.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { M_PLAIN, M_CODES, M_AGE, M_TOOK, M_COUNT };
static const char *const codes[] = {"json", "q\"\\\nx", "other", NULL};
static const double buckets[] = {0.1, 1, 2.5, 0};
static const struct metric_row rows[M_COUNT] = {
    [M_PLAIN] = {.name = "belfry_records_total", .help = "Records\\taken\nfrom Kafka."},
    [M_CODES] = {.name = "belfry_dead_letters_total", .help = "By code.", .label = "code", .values = codes},
    [M_AGE] = {.name = "belfry_settle_age_seconds", .help = "Age.", .type = METRIC_GAUGE},
    [M_TOOK] = {.name = "belfry_batch_seconds",
                .help = "Time.",
                .type = METRIC_HISTOGRAM,
                .label = "stage",
                .values = codes,
                .buckets = buckets},
};

static const char expected[] = "# HELP belfry_records_total Records\\\\taken\\nfrom Kafka.\n"
                               "# TYPE belfry_records_total counter\n"
                               "belfry_records_total 17\n"
                               "# HELP belfry_dead_letters_total By code.\n"
                               "# TYPE belfry_dead_letters_total counter\n"
                               "belfry_dead_letters_total{code=\"json\"} 2\n"
                               "belfry_dead_letters_total{code=\"q\\\"\\\\\\nx\"} 0\n"
                               "belfry_dead_letters_total{code=\"other\"} 3\n"
                               "# HELP belfry_settle_age_seconds Age.\n"
                               "# TYPE belfry_settle_age_seconds gauge\n"
                               "belfry_settle_age_seconds -0.25\n"
                               "# HELP belfry_batch_seconds Time.\n"
                               "# TYPE belfry_batch_seconds histogram\n"
                               "belfry_batch_seconds_bucket{stage=\"json\",le=\"0.1\"} 1\n"
                               "belfry_batch_seconds_bucket{stage=\"json\",le=\"1\"} 2\n"
                               "belfry_batch_seconds_bucket{stage=\"json\",le=\"2.5\"} 2\n"
                               "belfry_batch_seconds_bucket{stage=\"json\",le=\"+Inf\"} 3\n"
                               "belfry_batch_seconds_sum{stage=\"json\"} 8.5\n"
                               "belfry_batch_seconds_count{stage=\"json\"} 3\n";

Test(metrics, writes_the_text_format)
{
    struct metrics *metrics = metrics_new();
    struct metric_set *set = metrics_add(metrics, rows, M_COUNT);
    struct buffer out;
    buffer_init(&out, 65536);
    metric_add(set, M_PLAIN, 0, 17);
    metric_add(set, M_CODES, metric_value_index(&rows[M_CODES], "json"), 2);
    metric_add(set, M_CODES, metric_value_index(&rows[M_CODES], "never heard of"), 2);
    metric_add(set, M_CODES, 99, 1);
    metric_put(set, M_AGE, 0, 4);
    metric_put(set, M_AGE, 0, -0.25);
    metric_observe(set, M_TOOK, 0, 0.1); /* a bound belongs to its bucket */
    metric_observe(set, M_TOOK, 0, 0.4);
    metric_observe(set, M_TOOK, 0, 8);
    metrics_write(metrics, &out);
    cr_assert_eq(strncmp(out.at, expected, sizeof expected - 1), 0, "%s", out.at);
    cr_expect_eq(metric_get(set, M_PLAIN, 0), 17);
    cr_expect_eq(metric_get(set, M_AGE, 0), -0.25);
    metric_put(set, M_AGE, 0, INFINITY);
    buffer_reset(&out);
    metrics_write(metrics, &out);
    cr_expect_not_null(strstr(out.at, "\nbelfry_settle_age_seconds +Inf\n"));
    buffer_done(&out);
    metrics_free(metrics);
}

/* Every line is a HELP, a TYPE or a sample; HELP and TYPE come once, before their samples. */
Test(metrics, every_line_fits_the_grammar)
{
    struct metrics *metrics = metrics_new();
    struct buffer out;
    regex_t line_shape;
    cr_assert_eq(regcomp(&line_shape,
                         "^(# HELP [a-z_0-9]+ .+|# TYPE [a-z_0-9]+ (counter|gauge|histogram)|"
                         "[a-z_0-9]+(\\{[a-z_]+=\"([^\"\\]|\\\\[n\"\\])*\"(,[a-z_]+=\"[^\"]*\")?\\})? "
                         "([+-]?[0-9.e+-]+|[+-]Inf|NaN))$",
                         REG_EXTENDED | REG_NOSUB),
                 0);
    buffer_init(&out, 65536);
    (void)metrics_add(metrics, rows, M_COUNT);
    metrics_write(metrics, &out);
    int lines = 0;
    char *rest = out.at;
    for (char *line = strsep(&rest, "\n"); line != NULL && *line != '\0'; line = strsep(&rest, "\n")) {
        cr_expect_eq(regexec(&line_shape, line, 0, NULL, 0), 0, "%s", line);
        lines++;
    }
    cr_expect_eq(lines, 4 * 2 + 1 + 3 + 1 + 3 * 6);
    regfree(&line_shape);
    buffer_done(&out);
    metrics_free(metrics);
}

static const char *const lag_topics[] = {"events", "devices", NULL};
static const struct metric_row lag_rows[] = {{.name = "belfry_lag_records",
                                              .help = "Lag.",
                                              .type = METRIC_GAUGE,
                                              .label = "topic",
                                              .values = lag_topics,
                                              .number_label = "partition",
                                              .numbers_max = 2},
                                             {.name = "belfry_one_records",
                                              .help = "Lag of one topic.",
                                              .type = METRIC_GAUGE,
                                              .number_label = "partition",
                                              .numbers_max = 2}};

Test(metrics, numbers_known_only_at_run_time_are_bounded)
{
    struct metrics *metrics = metrics_new();
    struct metric_set *set = metrics_add(metrics, lag_rows, 2);
    struct buffer out;
    buffer_init(&out, 65536);
    const struct metric_number lags[] = {{0, 3, 5}, {1, 11, 0}, {1, 12, 9}};
    metric_put_numbers(set, 0, lags, 3);
    metric_put_numbers(set, 1, lags, 1);
    metrics_write(metrics, &out);
    cr_expect_str_eq(out.at, "# HELP belfry_lag_records Lag.\n# TYPE belfry_lag_records gauge\n"
                             "belfry_lag_records{topic=\"events\",partition=\"3\"} 5\n"
                             "belfry_lag_records{topic=\"devices\",partition=\"11\"} 0\n"
                             "# HELP belfry_one_records Lag of one topic.\n"
                             "# TYPE belfry_one_records gauge\nbelfry_one_records{partition=\"3\"} 5\n");
    metric_put_numbers(set, 0, NULL, 0); /* all partitions went away */
    buffer_reset(&out);
    metrics_write(metrics, &out);
    cr_expect_null(strstr(out.at, "topic="));
    metric_put_numbers(NULL, 0, lags, 1);
    buffer_done(&out);
    metrics_free(metrics);
}

Test(metrics, the_same_table_is_one_set)
{
    struct metrics *metrics = metrics_new();
    struct metric_set *set = metrics_add(metrics, rows, M_COUNT);
    cr_expect_eq(metrics_add(metrics, rows, M_COUNT), set);
    metrics_free(metrics);
}

Test(metrics, a_null_set_counts_nothing)
{
    metric_add(NULL, 0, 0, 1);
    metric_put(NULL, 0, 0, 1);
    metric_observe(NULL, 0, 0, 1);
    cr_assert_eq(metric_get(NULL, 0, 0), 0);
    cr_assert_null(metrics_add(NULL, rows, M_COUNT));
    metrics_free(NULL);
}

static const struct metric_row not_total[] = {
    {.name = "belfry_records", .help = "A counter without _total."}};
static const struct metric_row camel[] = {{.name = "belfry_Records_total", .help = "Upper case."}};
static const struct metric_row alien[] = {{.name = "records_total", .help = "No prefix."}};
static const struct metric_row millis[] = {
    {.name = "belfry_wait_ms", .help = "No base unit.", .type = METRIC_GAUGE}};
static const struct metric_row mute[] = {{.name = "belfry_mute_total", .help = ""}};

Test(metrics, refuses_a_counter_without_total, .signal = SIGABRT)
{
    (void)metrics_add(metrics_new(), not_total, 1);
}
Test(metrics, refuses_upper_case, .signal = SIGABRT)
{
    (void)metrics_add(metrics_new(), camel, 1);
}
Test(metrics, refuses_a_foreign_prefix, .signal = SIGABRT)
{
    (void)metrics_add(metrics_new(), alien, 1);
}
Test(metrics, refuses_milliseconds, .signal = SIGABRT)
{
    (void)metrics_add(metrics_new(), millis, 1);
}
Test(metrics, refuses_an_empty_help, .signal = SIGABRT)
{
    (void)metrics_add(metrics_new(), mute, 1);
}
Test(metrics, refuses_a_name_twice, .signal = SIGABRT)
{
    struct metrics *metrics = metrics_new();
    (void)metrics_add(metrics, rows, M_COUNT);
    (void)metrics_add(metrics, &rows[M_AGE], 1);
}

enum { THREADS = 4, TIMES = 20000 };

static void *count(void *context)
{
    for (int i = 0; i < TIMES; i++) {
        metric_add(context, M_PLAIN, 0, 1);
        metric_observe(context, M_TOOK, 2, 0.5);
    }
    return NULL;
}

Test(metrics, threads_lose_no_update)
{
    struct metrics *metrics = metrics_new();
    struct metric_set *set = metrics_add(metrics, rows, M_COUNT);
    pthread_t threads[THREADS];
    struct buffer out;
    char sum[96];
    buffer_init(&out, 65536);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, count, set);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    metrics_write(metrics, &out);
    cr_expect_eq(metric_get(set, M_PLAIN, 0), THREADS * TIMES);
    snprintf(sum, sizeof sum, "belfry_batch_seconds_sum{stage=\"other\"} %d\n", THREADS * TIMES / 2);
    cr_expect_not_null(strstr(out.at, sum));
    buffer_done(&out);
    metrics_free(metrics);
}

static const struct metric_row shared_rows[] = {
    {.name = "belfry_shared_total", .type = METRIC_COUNTER, .help = "Brought by two threads at once."}};

struct bringing {
    struct metrics *metrics;
    pthread_barrier_t *barrier;
    struct metric_set *set;
};

static void *bring(void *context)
{
    struct bringing *bringing = context;
    pthread_barrier_wait(bringing->barrier);
    bringing->set = metrics_add(bringing->metrics, shared_rows, 1);
    return NULL;
}

Test(metrics, two_threads_may_bring_one_table_at_once)
{
    for (int i = 0; i < 2000; i++) {
        struct metrics *metrics = metrics_new();
        pthread_barrier_t barrier;
        pthread_t threads[2];
        struct bringing bringing[2];
        pthread_barrier_init(&barrier, NULL, 2);
        for (int n = 0; n < 2; n++) {
            bringing[n] = (struct bringing){.metrics = metrics, .barrier = &barrier};
            cr_assert_eq(pthread_create(&threads[n], NULL, bring, &bringing[n]), 0);
        }
        for (int n = 0; n < 2; n++)
            pthread_join(threads[n], NULL);
        cr_assert_not_null(bringing[0].set);
        cr_assert_eq(bringing[0].set, bringing[1].set);
        pthread_barrier_destroy(&barrier);
        metrics_free(metrics);
    }
}
