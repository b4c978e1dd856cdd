/* The one table of whole-request answers. Rows are tried from the top; each is tested by name in
 * tests/unit/remote/provider_table_test.c. What is always true: "not accepted" only where the provider cannot
 * have taken a message; everything unknown ends at the last row, "maybe accepted", and is never sent again.
 */
#include "provider_table.h"

#include <limits.h>
#include <string.h>

enum transport_need { EVER, NOTHING_LEFT, WHOLE };
enum body_need {
    ANY_BODY,
    ERRORS_ONLY,    /* an error list and no data */
    TRANSIENT_ONLY, /* the same, and the first says isTransient */
    OAUTH,
    FITTING_DATA,
    JSON_OBJECT
};

static const struct rule {
    enum transport_need transport;
    int from, to; /* HTTP status; 0 to 999: with or without */
    enum body_need body;
    const char *code; /* of the first error; NULL: any */
    struct provider_row row;
} rules[] = {
    {NOTHING_LEFT,
     0,
     999,
     ANY_BODY,
     NULL,
     {PROVIDER_ANSWER_AWAY, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_UNAVAILABLE}},
    /* The status line came: what follows it, or not, changes nothing. */
    {EVER, 429, 429, ANY_BODY, NULL, {PROVIDER_ANSWER_RATE, PROVIDER_NOT_ACCEPTED, DISPATCH_RATE_LIMITED}},
    {EVER,
     401,
     401,
     ANY_BODY,
     NULL,
     {PROVIDER_ANSWER_CREDENTIALS, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_UNAVAILABLE}},
    {EVER,
     403,
     403,
     ANY_BODY,
     NULL,
     {PROVIDER_ANSWER_CREDENTIALS, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_UNAVAILABLE}},
    {EVER, 300, 399, ANY_BODY, NULL, {PROVIDER_ANSWER_REFUSED, PROVIDER_FAILED, DISPATCH_PROVIDER_REJECTED}},
    /* The provider's own error list: it was read and refused. */
    {WHOLE,
     200,
     599,
     ERRORS_ONLY,
     "UNAUTHORIZED",
     {PROVIDER_ANSWER_CREDENTIALS, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_UNAVAILABLE}},
    {WHOLE,
     200,
     499,
     OAUTH,
     NULL,
     {PROVIDER_ANSWER_CREDENTIALS, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_UNAVAILABLE}},
    {WHOLE,
     200,
     499,
     ERRORS_ONLY,
     "PUSH_TOO_MANY_EXPERIENCE_IDS",
     {PROVIDER_ANSWER_PROJECTS, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_REJECTED}},
    {WHOLE,
     200,
     499,
     ERRORS_ONLY,
     "VALIDATION_ERROR",
     {PROVIDER_ANSWER_VALIDATION, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_REJECTED}},
    {WHOLE,
     200,
     499,
     ERRORS_ONLY,
     "PUSH_TOO_MANY_NOTIFICATIONS",
     {PROVIDER_ANSWER_TOO_MANY, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_REJECTED}},
    {WHOLE,
     200,
     499,
     ERRORS_ONLY,
     "PUSH_TOO_MANY_RECEIPTS",
     {PROVIDER_ANSWER_TOO_MANY, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_REJECTED}},
    {WHOLE,
     500,
     599,
     ERRORS_ONLY,
     NULL,
     {PROVIDER_ANSWER_TRANSIENT, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_UNAVAILABLE}},
    {WHOLE,
     200,
     499,
     TRANSIENT_ONLY,
     NULL,
     {PROVIDER_ANSWER_TRANSIENT, PROVIDER_NOT_ACCEPTED, DISPATCH_PROVIDER_UNAVAILABLE}},
    {WHOLE,
     200,
     499,
     ERRORS_ONLY,
     NULL,
     {PROVIDER_ANSWER_REFUSED, PROVIDER_FAILED, DISPATCH_PROVIDER_REJECTED}},
    {WHOLE, 200, 299, FITTING_DATA, NULL, {PROVIDER_ANSWER_DATA, PROVIDER_SENT, ""}},
    {WHOLE,
     200,
     299,
     JSON_OBJECT,
     NULL,
     {PROVIDER_ANSWER_MISMATCH, PROVIDER_FAILED, DISPATCH_TICKET_MISMATCH}},
    {EVER, 0, INT_MAX, ANY_BODY, NULL, {PROVIDER_ANSWER_MAYBE, PROVIDER_UNCONFIRMED, DISPATCH_UNCONFIRMED}},
};

static bool transport_is(enum transport_need need, enum http_transport transport)
{
    switch (need) {
    case NOTHING_LEFT:
        return transport == HTTP_NOTHING_SENT;
    case WHOLE:
        return transport == HTTP_ANSWERED;
    case EVER:
        break;
    }
    return true;
}

static bool body_is(enum body_need need, const struct provider_facts *facts)
{
    const struct provider_body *body = &facts->body;
    switch (need) {
    case ERRORS_ONLY:
        return body->errors && body->data == PROVIDER_DATA_NONE;
    case TRANSIENT_ONLY:
        return body->errors && body->data == PROVIDER_DATA_NONE && body->transient;
    case OAUTH:
        return body->oauth && body->data == PROVIDER_DATA_NONE;
    case FITTING_DATA:
        return body->json && facts->data_fits;
    case JSON_OBJECT:
        return body->json;
    case ANY_BODY:
        break;
    }
    return true;
}

const struct provider_row *provider_judge(const struct provider_facts *facts)
{
    const struct rule *rule = rules;
    while (!(transport_is(rule->transport, facts->transport) && facts->status >= rule->from &&
             facts->status <= rule->to && body_is(rule->body, facts) &&
             (rule->code == NULL || strcmp(rule->code, facts->body.code) == 0)))
        rule++; /* the last one takes everything */
    return &rule->row;
}

const char *const provider_answer_names[PROVIDER_ANSWER_KINDS + 1] = {
    [PROVIDER_ANSWER_DATA] = "data",
    [PROVIDER_ANSWER_MISMATCH] = "mismatch",
    [PROVIDER_ANSWER_RATE] = "rate",
    [PROVIDER_ANSWER_PROJECTS] = "projects",
    [PROVIDER_ANSWER_VALIDATION] = "validation",
    [PROVIDER_ANSWER_TOO_MANY] = "too_many",
    [PROVIDER_ANSWER_CREDENTIALS] = "credentials",
    [PROVIDER_ANSWER_TRANSIENT] = "transient",
    [PROVIDER_ANSWER_REFUSED] = "refused",
    [PROVIDER_ANSWER_MAYBE] = "maybe",
    [PROVIDER_ANSWER_AWAY] = "away",
};
