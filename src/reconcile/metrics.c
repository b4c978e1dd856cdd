/* What the reconciler counts. One table; every label is bounded, whatever is not in it is "other". */
#include "private.h"

static const char *const outcome_values[] = {"sent", "failed", "suppressed", "ignored", "orphan", NULL};
static const char *const letter_values[] = {"json",    "not_object", "field", "nul",
                                            "too_big", "sqlstate",   "other", NULL};
static const char *const receipt_values[] = {"delivered", "receipt_error", "expired", "none", NULL};
static const char *const error_values[] = {"DeviceNotRegistered",
                                           "MessageTooBig",
                                           "MessageRateExceeded",
                                           "MismatchSenderId",
                                           "InvalidCredentials",
                                           "DeveloperError",
                                           "ExpoError",
                                           "ProviderError",
                                           "TicketMismatch",
                                           "other",
                                           NULL};
static const char *const answer_values[] = {"data",        "mismatch",  "rate",    "too_many",
                                            "credentials", "transient", "refused", "maybe",
                                            "away",        "other",     NULL};
static const char *const batch_values[] = {"leased", "done", NULL};
static const char *const disabled_values[] = {"ticket", "receipt", NULL};
static const char *const publish_values[] = {"refused", "late", NULL};
static const char *const stage_values[] = {"schema",        "topics",
                                           "take",          "parse",
                                           "drain",         "drained",
                                           "lease",         "due",
                                           "ask",           "poll",
                                           "finish",        "settle_read",
                                           "settle_move",   "settle_due",
                                           "publish_topic", "publish_lease",
                                           "publish_take",  "publish_send",
                                           "publish_done",  "publish_age",
                                           "other",         NULL};
static const double batch_buckets[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 0};

const struct metric_row reconcile_metric_rows[M_RECONCILE_COUNT] = {
    [M_RECORDS] = {.name = "belfry_receipts_records_total",
                   .help = "Records of the receipts topic whose offsets were committed."},
    [M_BATCHES] = {.name = "belfry_drain_batches_total", .help = "Statements that applied outcomes."},
    [M_OUTCOMES] = {.name = "belfry_outcomes_total",
                    .help = "What outcomes did: moved a dispatch there, moved nothing, found no dispatch.",
                    .label = "result",
                    .values = outcome_values},
    [M_DEAD_LETTERS] = {.name = "belfry_receipts_dead_letters_total",
                        .help = "Records of the receipts topic that could not be read or stored.",
                        .label = "code",
                        .values = letter_values},
    [M_LOST] = {.name = "belfry_receipts_lost_records_total",
                .help = "Records that had left the receipts topic before they were read."},
    [M_LAG] = {.name = "belfry_receipts_lag_records",
               .type = METRIC_GAUGE,
               .help = "Records of the partitions held that are still to be read."},
    [M_PARTITION_LAG] = {.name = "belfry_receipts_partition_lag_records",
                         .type = METRIC_GAUGE,
                         .help = "The same, one by one for the partitions held.",
                         .number_label = "partition",
                         .numbers_max = RECONCILE_LAGS_MAX},
    [M_DRAIN_RECORDS] = {.name = "belfry_drain_batch_records",
                         .type = METRIC_HISTOGRAM,
                         .help = "Records of a batch of the receipts topic.",
                         .buckets = batch_buckets},
    [M_STAGE_IN_FLIGHT] = {.name = "belfry_reconcile_stage_in_flight",
                           .type = METRIC_GAUGE,
                           .help = "1 while the stage runs.",
                           .label = "stage",
                           .values = stage_values},
    [M_RECEIPTS_DUE] = {.name = "belfry_receipt_batches_due_seconds",
                        .type = METRIC_GAUGE,
                        .help = "Since when the oldest batch is due for a look at its receipts; 0: none is."},
    [M_RECEIPTS] = {.name = "belfry_receipts_total",
                    .help = "What polling did to dispatches; none: no receipt yet, asked again.",
                    .label = "result",
                    .values = receipt_values},
    [M_RECEIPT_ERRORS] = {.name = "belfry_receipt_errors_total",
                          .help = "Error receipts by the provider's code.",
                          .label = "code",
                          .values = error_values},
    [M_CREDENTIAL_FAULTS] = {.name = "belfry_receipt_credential_faults_total",
                             .help = "Receipts that say the push credentials are wrong: alert on it."},
    [M_REQUESTS] = {.name = "belfry_receipt_requests_total",
                    .help = "Requests for receipts by what came of them.",
                    .label = "answer",
                    .values = answer_values},
    [M_UNASKED] = {.name = "belfry_receipts_unasked_total",
                   .help = "Receipts in answers for ids nobody asked for."},
    [M_RECEIPT_BATCHES] = {.name = "belfry_receipt_batches_total",
                           .help = "Batches leased for polling, and done with.",
                           .label = "step",
                           .values = batch_values},
    [M_DISABLED] = {.name = "belfry_tokens_disabled_total",
                    .help = "Tokens switched off on DeviceNotRegistered, by where it stood.",
                    .label = "source",
                    .values = disabled_values},
    [M_RETRIES] = {.name = "belfry_reconcile_retries_total",
                   .help = "Stages that have to be run again.",
                   .label = "stage",
                   .values = stage_values},
    [M_STAGE_SECONDS] = {.name = "belfry_reconcile_stage_seconds",
                         .type = METRIC_HISTOGRAM,
                         .help = "Time of each stage.",
                         .label = "stage",
                         .values = stage_values,
                         .buckets = metric_buckets_seconds},
    [M_SETTLE_AGE] = {.name = "belfry_settle_age_seconds",
                      .type = METRIC_GAUGE,
                      .help = "How far behind the clock the bound of the newer-walk is."},
    [M_SETTLE_PREPARED] = {.name = "belfry_settle_prepared_transactions",
                           .type = METRIC_GAUGE,
                           .help = "Prepared transactions that keep the bound from moving."},
    [M_SETTLED_PUBLISHED] = {.name = "belfry_settled_published_total",
                             .help = "Final states that the settled topic acknowledged; each at least once."},
    [M_SETTLED_OLDEST] = {.name = "belfry_settled_oldest_seconds",
                          .type = METRIC_GAUGE,
                          .help =
                              "How long the oldest final state has waited to be published; 0: none waits."},
    [M_SETTLED_FAILURES] = {.name = "belfry_settled_failures_total",
                            .help =
                                "Pages the settled topic refused, or did not acknowledge within the lease.",
                            .label = "cause",
                            .values = publish_values},
};

void reconcile_count(struct metric_set *metrics, enum reconcile_metric row, const char *value, int64_t by)
{
    if (by <= 0)
        return;
    size_t place = value == NULL ? 0 : metric_value_index(&reconcile_metric_rows[row], value);
    metric_add(metrics, row, place, (uint64_t)by);
}
