/* What is counted about the provider. Private to src/remote. */
#ifndef BELFRY_REMOTE_PROVIDER_METRICS_H
#define BELFRY_REMOTE_PROVIDER_METRICS_H

#include "remote/provider.h"

struct metric_set *provider_metrics_add(struct metrics *metrics);
void provider_metrics_fit(struct metric_set *set, enum provider_fit fit);
void provider_metrics_verdict(struct metric_set *set, const struct provider_verdict *verdict);
void provider_metrics_answer(struct metric_set *set, const struct provider_answer *answer);

#endif
