/* Counters of requests, answers and codes; every label is bounded, unknown codes are "other". */
#include "provider_metrics.h"

#include <string.h>

enum { M_REQUESTS, M_SECONDS, M_MESSAGES, M_CODES, M_CUT, M_CREDENTIALS, M_COUNT };

/* In the order of enum provider_verdict_kind. */
static const char *const verdicts[] = {"sent", "failed", "not_accepted", "unconfirmed", NULL};
static const char *const codes[] = {PROVIDER_ENTRY_CODES,
                                    DISPATCH_UNCONFIRMED,
                                    DISPATCH_PROVIDER_UNAVAILABLE,
                                    DISPATCH_RATE_LIMITED,
                                    DISPATCH_PROVIDER_REJECTED,
                                    "other",
                                    NULL};
static const char *const cuts[] = {"body", "data", NULL};

static const struct metric_row rows[M_COUNT] = {
    [M_REQUESTS] = {.name = "belfry_provider_requests_total",
                    .help = "Requests to the push provider, by what came of them.",
                    .label = "answer",
                    .values = provider_answer_names},
    [M_SECONDS] = {.name = "belfry_provider_request_seconds",
                   .help = "How long requests to the push provider took.",
                   .type = METRIC_HISTOGRAM,
                   .buckets = metric_buckets_seconds},
    [M_MESSAGES] = {.name = "belfry_provider_messages_total",
                    .help = "Messages handed to the push provider, by verdict.",
                    .label = "verdict",
                    .values = verdicts},
    [M_CODES] = {.name = "belfry_provider_codes_total",
                 .help = "Messages that were not sent, by code.",
                 .label = "code",
                 .values = codes},
    [M_CUT] = {.name = "belfry_provider_shortened_total",
               .help = "Messages over the payload limit: body cut, or data left out.",
               .label = "what",
               .values = cuts},
    [M_CREDENTIALS] = {.name = "belfry_provider_credential_faults_total",
                       .help = "Answers and tickets that say our credentials are wrong: a person must act."},
};

struct metric_set *provider_metrics_add(struct metrics *metrics)
{
    return metrics_add(metrics, rows, M_COUNT);
}

void provider_metrics_fit(struct metric_set *set, enum provider_fit fit)
{
    if (fit == PROVIDER_FIT_SHORTENED)
        metric_add(set, M_CUT, 0, 1);
    else if (fit == PROVIDER_FIT_NO_DATA)
        metric_add(set, M_CUT, 1, 1);
}

void provider_metrics_verdict(struct metric_set *set, const struct provider_verdict *verdict)
{
    metric_add(set, M_MESSAGES, verdict->kind, 1);
    if (verdict->kind == PROVIDER_SENT)
        return;
    metric_add(set, M_CODES, metric_value_index(&rows[M_CODES], verdict->error), 1);
    if (strcmp(verdict->error, "InvalidCredentials") == 0 || strcmp(verdict->error, "MismatchSenderId") == 0)
        metric_add(set, M_CREDENTIALS, 0, 1);
}

void provider_metrics_answer(struct metric_set *set, const struct provider_answer *answer)
{
    metric_add(set, M_REQUESTS, answer->kind, 1);
    metric_observe(set, M_SECONDS, 0, (double)answer->took_us / 1e6);
    if (answer->kind == PROVIDER_ANSWER_CREDENTIALS)
        metric_add(set, M_CREDENTIALS, 0, 1);
}
