/* What a whole request's answer means (contracts/provider.md, Whole-request answers). Private to src/remote.
 */
#ifndef BELFRY_REMOTE_PROVIDER_TABLE_H
#define BELFRY_REMOTE_PROVIDER_TABLE_H

#include "io/http_client.h"
#include "remote/provider.h"

struct provider_facts {
    enum http_transport transport;
    int status; /* 0: none came */
    struct provider_body body;
    bool data_fits; /* tickets: as many as messages; receipts: a map */
};

struct provider_row {
    enum provider_answer_kind kind;
    enum provider_verdict_kind verdict; /* of every message of a chunk; DATA: each ticket says itself */
    const char *error;                  /* of ours, for that verdict */
};

/* Status first, JSON second; the first row that fits. Never NULL. */
const struct provider_row *provider_judge(const struct provider_facts *facts);

#endif
