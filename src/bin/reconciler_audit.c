/* The audit's report on paper: one line a balance, queue and invariant, the first word saying which, and a
 * last line with the result. deploy/README.md says what each line means. */
#include "reconciler_audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "reconcile/inspect.h"
#include "reconciler_config.h"

enum { NAME_WIDTH = 30 };

static double seconds(int64_t us)
{
    return (double)us / 1e6;
}

static void print_balances(const struct audit_report *report)
{
    for (size_t i = 0; i < report->balance_count; i++) {
        const struct audit_balance *balance = &report->balances[i];
        printf("balance  %-*s %s  %" PRId64 " = %" PRId64 "  %s\n", NAME_WIDTH, balance->name,
               balance->ok ? "ok" : "OFF", balance->left, balance->right, balance->detail);
    }
}

static void print_queues(const struct audit_report *report)
{
    for (size_t i = 0; i < report->queue_count; i++) {
        const struct audit_queue *queue = &report->queues[i];
        printf("queue    %-*s %" PRId64 "  oldest %.1f s\n", NAME_WIDTH, queue->name, queue->items,
               seconds(queue->oldest_us));
    }
    printf("rows     %-*s %" PRId64 "  oldest queued %.1f s, oldest sent %.1f s\n", NAME_WIDTH, "dispatches",
           report->dispatches, seconds(report->queued_oldest_us), seconds(report->sent_oldest_us));
}

static void print_findings(const struct inspect *inspect)
{
    const struct audit_suspects *suspects = &inspect->report.suspects;
    for (size_t i = 0; i < AUDIT_KINDS; i++) {
        const struct audit_finding *finding = &inspect->report.findings[i];
        printf("check    %-*s %" PRId64 "%s%s", NAME_WIDTH, audit_finding_names[i], finding->count,
               finding->count > 0 ? "  first: " : "", finding->examples);
        if (i == AUDIT_QUEUED_WITHOUT_BATCH && inspect->unjudged[0] != '\0')
            printf("  %zu not judged: %s", suspects->count, inspect->unjudged);
        if (i == AUDIT_QUEUED_WITHOUT_BATCH && suspects->left_out > 0)
            printf("  %" PRId64 " more not looked at", suspects->left_out);
        printf("\n");
    }
}

static enum status run(const struct frame *frame, struct inspect *inspect, struct fault *fault)
{
    const struct reconciler_settings *settings = frame->settings;
    const struct inspect_setup setup = {.uri = settings->database.uri,
                                        .prepared_statements = settings->database.prepared_statements,
                                        .kafka = &settings->kafka.properties,
                                        .receipts_topic = settings->topics.receipts,
                                        .key_retention_ms = settings->ingest.key_retention_ms,
                                        .notification_retention_ms =
                                            settings->reconcile.notification_retention_ms,
                                        .clock = &frame->clock};
    enum status status = config_require(frame->config, "database", "uri", fault);
    if (status != ST_OK) {
        fault->exit_code = EXIT_USAGE;
        return ST_FATAL;
    }
    return inspect_run(&setup, inspect, fault);
}

enum status reconciler_audit(struct frame *frame, bool *handled, enum exit_code *code, struct fault *fault)
{
    *handled = options_given(frame->options, "audit");
    if (!*handled)
        return ST_OK;
    struct inspect *inspect = malloc(sizeof *inspect);
    if (inspect == NULL) {
        fault_set(fault, "memory", "no memory");
        return ST_FATAL;
    }
    enum status status = run(frame, inspect, fault);
    if (status == ST_OK) {
        int found = audit_found(&inspect->report);
        print_balances(&inspect->report);
        print_queues(&inspect->report);
        print_findings(inspect);
        if (found == 0)
            printf("result   nothing found\n");
        else
            printf("result   FOUND: %d of the lines above\n", found);
        *code = found == 0 ? EXIT_DONE : EXIT_AUDIT;
    }
    free(inspect);
    return status;
}
