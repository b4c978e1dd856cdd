/* What an operator watches: each name of issue 4's list is served by the real binaries, in Prometheus' text
 * format, with the value that the work done beforehand must give. */
#include <criterion/criterion.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { ANY = -1, SOME = -2 }; /* what a series must show: whatever, above 0, or that number */

struct wanted {
    const char *series; /* the start of a sample line, up to the blank or into its labels */
    double value;
};

static const struct wanted dispatcher_wants[] = {
    {"belfry_build_info{", 1},
    {"belfry_ready", 1},
    {"belfry_ingest_records_total{topic=\"events\"}", 42}, /* 40 good, one twice, one that is no JSON */
    {"belfry_dead_letters_total{code=\"json\"}", 1},
    {"belfry_dead_letters_total{code=\"field\"}", 0},
    {"belfry_duplicates_total", 1},
    {"belfry_duplicate_mismatch_total", 0},
    {"belfry_lost_offsets_total", 0},
    {"belfry_ingest_unknown_sqlstate_total", 0},
    {"belfry_notifications_total", 40},
    {"belfry_dispatches_total", 40},
    {"belfry_tombstones_total", 0},
    {"belfry_erased_total", 0},
    {"belfry_ingest_batch_records_count", SOME},
    {"belfry_ingest_stage_seconds_count{stage=\"claim\"}", SOME},
    {"belfry_ingest_stage_seconds_bucket{stage=\"claim\",le=\"+Inf\"}", SOME},
    {"belfry_ingest_stage_in_flight{stage=\"claim\"}", 0},
    {"belfry_ingest_lag_records{topic=\"events\"}", 0},
    {"belfry_ingest_partition_lag_records{topic=\"events\",partition=\"0\"}", 0},
    {"belfry_ingest_partition_lag_records{topic=\"events\",partition=\"1\"}", 0},
    {"belfry_ingest_partition_lag_records{topic=\"devices\",partition=\"1\"}", 0},
    {"belfry_ingest_oldest_record_seconds{topic=\"events\"}", 0},
    {"belfry_ingest_oldest_record_seconds{topic=\"devices\"}", 0},
    {"belfry_ingest_partitions", 4},
    {"belfry_fanout_stage_seconds_count{stage=\"send\"}", SOME},
    {"belfry_fanout_stage_in_flight{stage=\"send\"}", ANY},
    {"belfry_fanout_outcomes_total{result=\"sent\"}", 40},
    {"belfry_fanout_in_flight", 0},
    {"belfry_fanout_outcomes_owed", 0},
    {"belfry_batches_oldest_seconds{urgency=\"urgent\"}", 0},
    {"belfry_batches_oldest_seconds{urgency=\"normal\"}", 0},
    {"belfry_fanout_risked_total", 0},
    {"belfry_provider_breaker_state", 0},
    {"belfry_provider_credential_faults_total", 0},
    {"belfry_provider_requests_total{answer=\"data\"}", SOME},
    {"belfry_provider_requests_total{answer=\"away\"}", 0},
    {"belfry_provider_request_seconds_count", SOME},
    {"belfry_preferences_cache_hits_total", ANY},
    {"belfry_preferences_cache_misses_total", SOME},
    {"belfry_preferences_breaker{state=\"closed\"}", 1},
    {"belfry_postgres_reconnects_total", SOME},
    {"belfry_postgres_connections_lost_total", SOME},
    {"belfry_kafka_reconnects_total", 0},
    {"belfry_kafka_partitions_unseated", 0},
    {"belfry_kafka_pauses_total", 0},
    {"belfry_kafka_prefetched_bytes", ANY},
};

static const struct wanted reconciler_wants[] = {
    {"belfry_build_info{", 1},
    {"belfry_ready", 1},
    {"belfry_receipts_records_total", 40},
    {"belfry_outcomes_total{result=\"sent\"}", 40},
    {"belfry_receipts_dead_letters_total{code=\"json\"}", 0},
    {"belfry_drain_batch_records_count", SOME},
    {"belfry_reconcile_stage_seconds_count{stage=\"drain\"}", SOME},
    {"belfry_reconcile_stage_in_flight{stage=\"drain\"}", 0},
    {"belfry_receipts_lost_records_total", 0},
    {"belfry_receipt_credential_faults_total", 0},
    {"belfry_receipts_lag_records", 0},
    {"belfry_receipts_partition_lag_records{partition=\"0\"}", 0},
    {"belfry_receipts_partition_lag_records{partition=\"1\"}", 0},
    {"belfry_receipts_oldest_record_seconds", 0},
    {"belfry_receipt_batches_due_seconds", 0},
    {"belfry_settle_age_seconds", ANY},
    {"belfry_settled_published_total", 0}, /* the topic is not set here: reconciler_settled_topic_missing */
    {"belfry_settled_oldest_seconds", 0},
    {"belfry_settled_failures_total{cause=\"refused\"}", 0},
    {"belfry_settled_failures_total{cause=\"late\"}", 0},
    {"belfry_receipts_total{result=\"delivered\"}", 39},
    {"belfry_receipt_requests_total{answer=\"data\"}", SOME},
    {"belfry_tokens_disabled_total{source=\"receipt\"}", 1},
    {"belfry_tokens_disabled_total{source=\"ticket\"}", 0},
    {"belfry_tokens_disabled_total{source=\"stale\"}", 0},
    {"belfry_retained_rows_total{table=\"notifications\"}", 0},
    {"belfry_retain_oldest_seconds{table=\"dispatches\"}", ANY},
    {"belfry_retain_held_rows{why=\"batches\"}", 0},
    {"belfry_retained_unsettled_total", 0},
    {"belfry_key_retention_unverified", 0},
    {"belfry_reconcile_stage_seconds_count{stage=\"retain_notifications\"}", SOME},
    {"belfry_postgres_reconnects_total", SOME},
    {"belfry_kafka_reconnects_total", 0},
    {"belfry_kafka_partitions_unseated", 0},
    {"belfry_kafka_pauses_total", 0},
    {"belfry_kafka_prefetched_bytes", ANY},
};

static const struct wanted reader_wants[] = {
    {"belfry_build_info{", 1},
    {"belfry_ready", 1},
    {"belfry_http_requests_total{status=\"401\"}", 1},
    {"belfry_http_requests_total{status=\"403\"}", 1},
    {"belfry_http_request_seconds_count", 2},
    {"belfry_http_incomplete_total", 0},
    {"belfry_refusals_total{code=\"not_a_member\"}", 1},
    {"belfry_refusals_total{code=\"token_missing\"}", 1},
    {"belfry_read_stage_seconds_count{stage=\"wait\"}", 1},
    {"belfry_read_stage_seconds_count{stage=\"page\"}", 1},
    {"belfry_read_stage_in_flight{stage=\"wait\"}", 0},
    {"belfry_read_stage_in_flight{stage=\"page\"}", 0},
    {"belfry_read_oldest_waiting_seconds", 0},
    {"belfry_page_items_total", 0},
    {"belfry_exports_total{state=\"ready\"}", 0},
    {"belfry_export_rows_total", 0},
    {"belfry_export_stage_seconds_count{stage=\"fill\"}", 0},
    {"belfry_exports_oldest_queued_seconds", 0},
    {"belfry_postgres_reconnects_total", SOME},
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* The value of the first sample whose line starts with series; false: there is none. */
static bool sample(const char *text, const char *series, double *value)
{
    size_t bytes = strlen(series);
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, series, bytes) != 0 || (series[bytes - 1] != '{' && line[bytes] != ' '))
            continue;
        *value = strtod(strchr(line, ' '), NULL);
        return true;
    }
    return false;
}

static bool holds(const struct wanted *wanted, double shown)
{
    if (wanted->value == ANY)
        return true;
    return wanted->value == SOME ? shown > 0 : shown == wanted->value;
}

static char *metrics_of(const struct child *child)
{
    char url[128];
    struct world_reply reply;
    snprintf(url, sizeof url, "http://%s/metrics", child->admin);
    world_http("GET", url, NULL, NULL, &reply);
    cr_assert_eq(reply.status, 200);
    char *text = strdup(reply.body);
    world_reply_done(&reply);
    return text;
}

/* promtool when it is there; else every line is held against the format's grammar. */
static void check_grammar(struct world *w, const char *name, const char *text)
{
    char path[WORLD_PATH_MAX], command[WORLD_PATH_MAX + 64];
    snprintf(path, sizeof path, "%.400s/%s.prom", w->folder, name);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    if (system("command -v promtool >/dev/null") == 0) {
        snprintf(command, sizeof command, "promtool check metrics <%s", path);
        cr_expect_eq(system(command), 0, "promtool finds fault with %s", path);
        printf("%s: promtool finds no fault\n", name);
        return;
    }
    regex_t shape;
    cr_assert_eq(regcomp(&shape,
                         "^(# HELP belfry_[a-z0-9_]+ .+|# TYPE belfry_[a-z0-9_]+ (counter|gauge|histogram)|"
                         "belfry_[a-z0-9_]+(\\{[a-z_]+=\"[^\"\\]*\"(,[a-z_]+=\"[^\"\\]*\")*\\})? "
                         "([+-]?[0-9.e+-]+|[+-]Inf|NaN))$",
                         REG_EXTENDED | REG_NOSUB),
                 0);
    char *copy = strdup(text), *rest = copy;
    int lines = 0;
    for (char *line = strsep(&rest, "\n"); line != NULL && *line != '\0'; line = strsep(&rest, "\n")) {
        cr_expect_eq(regexec(&shape, line, 0, NULL, 0), 0, "%s: %s", name, line);
        lines++;
    }
    cr_expect_eq(text[strlen(text) - 1], '\n');
    printf("%s: %d lines fit the grammar (promtool is not installed)\n", name, lines);
    regfree(&shape);
    free(copy);
}

static void check_names(struct world *w, const struct child *child, const struct wanted *wants, size_t count)
{
    char *text = metrics_of(child);
    for (int tries = 0; tries < 150; tries++) { /* some are told every 5 s */
        size_t good = 0;
        double shown = 0;
        while (good < count && sample(text, wants[good].series, &shown) && holds(&wants[good], shown))
            good++;
        if (good == count)
            break;
        free(text);
        world_sleep_ms(100);
        text = metrics_of(child);
    }
    for (size_t i = 0; i < count; i++) {
        double shown = 0;
        bool there = sample(text, wants[i].series, &shown);
        cr_expect(there, "%s does not show %s", child->name, wants[i].series);
        cr_expect(!there || holds(&wants[i], shown), "%s: %s is %g", child->name, wants[i].series, shown);
        printf("  %s %g\n", wants[i].series, shown);
    }
    check_grammar(w, child->name, text);
    free(text);
}

static void check_ready(const struct child *child, const char *text, long status)
{
    char url[128];
    struct world_reply reply;
    snprintf(url, sizeof url, "http://%s/readyz", child->admin);
    for (int tries = 0; tries < 100; tries++) {
        world_http("GET", url, NULL, NULL, &reply);
        if (reply.status == status && strstr(reply.body, text) != NULL)
            break;
        world_reply_done(&reply);
        world_sleep_ms(100);
        reply = (struct world_reply){0};
    }
    cr_assert_eq(reply.status, status, "%s never answered %ld with %s", child->name, status, text);
    cr_expect_not_null(strstr(reply.headers, "application/json"));
    printf("%s %ld %s", child->name, reply.status, reply.body);
    world_reply_done(&reply);
}

/* Some work of each kind: 40 pushes of which one device is gone, a duplicate, a dead letter, a refusal. */
static void do_work(struct world *w, const struct child *reader, const char *base)
{
    char value[512], url[256], token[4096], header[4200];
    struct world_reply reply;
    simulator_script(
        w, "[{\"when\":{\"token\":\"metrics-7]\"},\"do\":{\"receipt_error\":\"DeviceNotRegistered\"}}]");
    for (int i = 0; i < 40; i++) {
        char user[32], token[64];
        snprintf(user, sizeof user, "u%d", i);
        snprintf(token, sizeof token, "ExponentPushToken[metrics-%d]", i);
        world_register(w, user, token);
    }
    world_flush(w);
    world_wait_count(w, 40, "SELECT count(*) FROM device_tokens");
    for (int i = 0; i < 41; i++) {
        snprintf(value, sizeof value,
                 "{\"run_id\":\"r%d\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"recipient_user_id\":"
                 "\"u%d\",\"title\":\"t\"}",
                 i % 40, i % 40);
        world_produce_fast(w, w->events, i % 2, NULL, value);
    }
    world_produce_fast(w, w->events, 0, NULL, "{");
    world_flush(w);
    world_wait_count(w, 39, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(w, 1, "SELECT count(*) FROM dispatches WHERE state = 'receipt_error'");
    world_wait_count(w, 0, "SELECT count(*) FROM receipt_batches");
    snprintf(url, sizeof url, "%s/v1/workspaces/w/feeds/notifications", base);
    world_http("GET", url, NULL, NULL, &reply);
    cr_assert_eq(reply.status, 401);
    world_reply_done(&reply);
    const char *argv[] = {"token", "-F", reader->ini, "--sub", "u0", NULL};
    cr_assert_eq(world_run(w, "src/bin/belfry-reader", argv, token, sizeof token), 0);
    token[strcspn(token, "\r\n")] = '\0';
    snprintf(header, sizeof header, "Authorization: Bearer %s", token);
    world_http("GET", url, (const char *const[]){header, NULL}, NULL, &reply);
    cr_assert_eq(reply.status, 403, "no member of the workspace: the database says so");
    world_reply_done(&reply);
}

/* With the database away, what was taken from Kafka gets older and that is seen. */
static void check_oldest(struct world *w, struct child *child, const char *topic, const char *series)
{
    double age = 0;
    world_produce(w, topic, 0, NULL, "{}");
    for (int tries = 0; tries < 200 && age <= 0; tries++) { /* told every 5 s */
        world_sleep_ms(100);
        age = child_metric(child, series);
    }
    printf("%s with the database away: %s %g\n", child->name, series, age);
    cr_expect_gt(age, 0);
}

static void end_sessions(struct world *w)
{
    world_exec(w, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                  " AND pid <> pg_backend_pid()");
}

Test(dispatcher, metrics, .timeout = 160)
{
    struct world w;
    char base[64], extra[256];
    world_open(&w, "metrics");
    world_database(&w);
    world_topics(&w, 2);
    world_simulator(&w, NULL);
    snprintf(extra, sizeof extra, "[preferences]\nurl = %.120s/preferences\ntimeout = 5s\n", w.provider_url);
    struct child *dispatcher = world_dispatcher(&w, extra);
    struct child *reconciler =
        world_reconciler(&w, "[reconciler]\nreceipt_delay = 0\npoll_interval = 300ms\n");
    struct child *reader = world_reader(&w, NULL, base);
    do_work(&w, reader, base);
    end_sessions(&w); /* each binary connects again */
    check_names(&w, dispatcher, dispatcher_wants, COUNT(dispatcher_wants));
    check_names(&w, reconciler, reconciler_wants, COUNT(reconciler_wants));
    check_names(&w, reader, reader_wants, COUNT(reader_wants));

    struct child *all[] = {dispatcher, reconciler, reader};
    for (size_t i = 0; i < COUNT(all); i++)
        check_ready(all[i], "{\"ready\":true,\"reasons\":[]", 200);
    world_exec(&w, "UPDATE pg_database SET datallowconn = false WHERE datname = current_database()");
    end_sessions(&w);
    check_ready(dispatcher, "{\"part\":\"ingest\",\"reason\":\"the database is not usable", 503);
    check_ready(reconciler, "{\"part\":\"settle\",\"reason\":\"", 503);
    check_ready(reader, "{\"part\":\"database\",\"reason\":\"", 503);
    check_oldest(&w, dispatcher, w.events, "belfry_ingest_oldest_record_seconds{topic=\"events\"}");
    check_oldest(&w, reconciler, w.receipts, "belfry_receipts_oldest_record_seconds");
    world_exec(&w, "UPDATE pg_database SET datallowconn = true WHERE datname = current_database()");
    for (size_t i = 0; i < COUNT(all); i++)
        child_wait_ready(all[i], 30);
    world_check_books(&w);
    for (size_t i = 0; i < COUNT(all); i++)
        child_stop(all[i]);
    world_close(&w);
}
