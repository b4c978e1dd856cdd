/* The one table of whole-request answers, row by row (contracts/provider.md). */
#include "provider_table.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct line {
    const char *name;
    enum http_transport transport;
    int status;
    const char *body;
    bool fits; /* data correlates with what was asked */
    enum provider_answer_kind kind;
    enum provider_verdict_kind verdict;
    const char *error;
} lines[] = {
#define ERRORS(code)    "{\"errors\":[{\"code\":\"" code "\",\"message\":\"m\"}]}"
#define TRANSIENT(code) "{\"errors\":[{\"code\":\"" code "\",\"message\":\"m\",\"isTransient\":true}]}"
#define DATA            "{\"data\":[{\"status\":\"ok\",\"id\":\"1\"}]}"
#define LATER           PROVIDER_NOT_ACCEPTED
#define FINAL           PROVIDER_FAILED
#define MAYBE           PROVIDER_ANSWER_MAYBE, PROVIDER_UNCONFIRMED, "Unconfirmed"
#define AWAY            PROVIDER_ANSWER_AWAY, LATER, "ProviderUnavailable"
#define RATE            PROVIDER_ANSWER_RATE, LATER, "RateLimited"
#define CREDENTIALS     PROVIDER_ANSWER_CREDENTIALS, LATER, "ProviderUnavailable"
#define TRY_AGAIN       PROVIDER_ANSWER_TRANSIENT, LATER, "ProviderUnavailable"
#define REFUSED         PROVIDER_ANSWER_REFUSED, FINAL, "ProviderRejected"
#define MISMATCH        PROVIDER_ANSWER_MISMATCH, FINAL, "TicketMismatch"
#define TICKETS         PROVIDER_ANSWER_DATA, PROVIDER_SENT, ""
    {"refused connection", HTTP_NOTHING_SENT, 0, "", false, AWAY},
    {"429 with an error list", HTTP_ANSWERED, 429, ERRORS("TOO_MANY_REQUESTS"), false, RATE},
    {"429 with HTML", HTTP_ANSWERED, 429, "<html>", false, RATE},
    {"429, body cut", HTTP_MAYBE, 429, "", false, RATE},
    {"429 with data: status first", HTTP_ANSWERED, 429, DATA, true, RATE},
    {"400 many projects", HTTP_ANSWERED, 400, ERRORS("PUSH_TOO_MANY_EXPERIENCE_IDS"), false,
     PROVIDER_ANSWER_PROJECTS, LATER, "ProviderRejected"},
    {"400 validation", HTTP_ANSWERED, 400, ERRORS("VALIDATION_ERROR"), false, PROVIDER_ANSWER_VALIDATION,
     LATER, "ProviderRejected"},
    {"400 too many messages", HTTP_ANSWERED, 400, ERRORS("PUSH_TOO_MANY_NOTIFICATIONS"), false,
     PROVIDER_ANSWER_TOO_MANY, LATER, "ProviderRejected"},
    {"400 too many receipts", HTTP_ANSWERED, 400, ERRORS("PUSH_TOO_MANY_RECEIPTS"), false,
     PROVIDER_ANSWER_TOO_MANY, LATER, "ProviderRejected"},
    {"401", HTTP_ANSWERED, 401, "", false, CREDENTIALS},
    {"401, cut", HTTP_MAYBE, 401, "", false, CREDENTIALS},
    {"403 with HTML", HTTP_ANSWERED, 403, "<html>", false, CREDENTIALS},
    {"400 UNAUTHORIZED", HTTP_ANSWERED, 400, ERRORS("UNAUTHORIZED"), false, CREDENTIALS},
    {"200 UNAUTHORIZED", HTTP_ANSWERED, 200, ERRORS("UNAUTHORIZED"), false, CREDENTIALS},
    {"400 OAuth shape", HTTP_ANSWERED, 400, "{\"error\":\"invalid_token\"}", false, CREDENTIALS},
    {"500 with something like OAuth", HTTP_ANSWERED, 500, "{\"error\":\"internal\"}", false, MAYBE},
    {"400 other", HTTP_ANSWERED, 400, ERRORS("SOMETHING"), false, REFUSED},
    {"400 other, transient", HTTP_ANSWERED, 400, TRANSIENT("SOMETHING"), false, TRY_AGAIN},
    {"404 with an error list", HTTP_ANSWERED, 404, ERRORS("NOT_FOUND"), false, REFUSED},
    {"404 with HTML", HTTP_ANSWERED, 404, "<html>", false, MAYBE},
    {"500 with an error list", HTTP_ANSWERED, 500, ERRORS("INTERNAL_SERVER_ERROR"), false, TRY_AGAIN},
    {"503 VALIDATION_ERROR is not ours to halve", HTTP_ANSWERED, 503, ERRORS("VALIDATION_ERROR"), false,
     TRY_AGAIN},
    {"500 with errors and data", HTTP_ANSWERED, 500,
     "{\"errors\":[{\"code\":\"X\"}],\"data\":[{\"status\":\"ok\"}]}", true, MAYBE},
    {"200 with errors and no data", HTTP_ANSWERED, 200, ERRORS("SOMETHING"), false, REFUSED},
    {"200 with errors and null data", HTTP_ANSWERED, 200, "{\"data\":null,\"errors\":[{\"code\":\"X\"}]}",
     false, REFUSED},
    {"200 with transient errors", HTTP_ANSWERED, 200, TRANSIENT("SOMETHING"), false, TRY_AGAIN},
    {"200 with errors and data", HTTP_ANSWERED, 200,
     "{\"errors\":[{\"code\":\"X\"}],\"data\":[{\"status\":\"ok\"}]}", true, TICKETS},
    {"200 with errors and too little data", HTTP_ANSWERED, 200, "{\"errors\":[{\"code\":\"X\"}],\"data\":[]}",
     false, MISMATCH},
    {"200", HTTP_ANSWERED, 200, DATA, true, TICKETS},
    {"200, another number of tickets", HTTP_ANSWERED, 200, DATA, false, MISMATCH},
    {"200, null data", HTTP_ANSWERED, 200, "{\"data\":null}", false, MISMATCH},
    {"200, no data", HTTP_ANSWERED, 200, "{}", false, MISMATCH},
    {"200, data is text", HTTP_ANSWERED, 200, "{\"data\":\"x\"}", false, MISMATCH},
    {"500, empty", HTTP_ANSWERED, 500, "", false, MAYBE},
    {"502 with HTML", HTTP_ANSWERED, 502, "<html><body>Bad Gateway</body></html>", false, MAYBE},
    {"503 text", HTTP_ANSWERED, 503, "Service Unavailable", false, MAYBE},
    {"500 with JSON without errors", HTTP_ANSWERED, 500, "{\"message\":\"x\"}", false, MAYBE},
    {"500 with tickets", HTTP_ANSWERED, 500, DATA, true, MAYBE},
    {"200 with HTML", HTTP_ANSWERED, 200, "<html>", false, MAYBE},
    {"200, empty", HTTP_ANSWERED, 200, "", false, MAYBE},
    {"204", HTTP_ANSWERED, 204, "", false, MAYBE},
    {"200, garbage", HTTP_ANSWERED, 200, "{\"data\":[", false, MAYBE},
    {"200, cut", HTTP_MAYBE, 200, "", false, MAYBE},
    {"503, cut", HTTP_MAYBE, 503, "", false, MAYBE},
    {"reset or timeout after the first byte", HTTP_MAYBE, 0, "", false, MAYBE},
    {"301", HTTP_ANSWERED, 301, "", false, REFUSED},
    {"307 with data", HTTP_ANSWERED, 307, DATA, true, REFUSED},
    {"a status nobody knows", HTTP_ANSWERED, 999, DATA, true, MAYBE},
};

Test(provider_table, row_by_row)
{
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const struct line *line = &lines[i];
        struct provider_facts facts = {
            .transport = line->transport, .status = line->status, .data_fits = line->fits};
        provider_reply_free(provider_reply_parse(span_of(line->body), &facts.body));
        const struct provider_row *row = provider_judge(&facts);
        cr_expect_eq(row->kind, line->kind, "%s: %s", line->name, provider_answer_names[row->kind]);
        cr_expect_eq(row->verdict, line->verdict, "%s: verdict %d", line->name, row->verdict);
        cr_expect_str_eq(row->error, line->error, "%s: %s", line->name, row->error);
    }
    printf("the whole-request table: %zu answers judged\n", sizeof lines / sizeof lines[0]);
}
