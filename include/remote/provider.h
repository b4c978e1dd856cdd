/* The push provider: what its answers mean (contracts/provider.md). Used by one thread each; never blocks but
 * in provider_poll. Every submitted request gives exactly one answer, unless it is aborted.
 *
 * Nothing is ever sent again from here: a message comes back with a verdict, and who asked decides. */
#ifndef BELFRY_REMOTE_PROVIDER_H
#define BELFRY_REMOTE_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/span.h"
#include "base/status.h"
#include "model/dispatch.h"
#include "remote/settings.h"
#include "wire/provider.h"

/* What a provider can do; others than this one answer finally for each message (max_receipt_batch 0). */
struct provider_capabilities {
    size_t max_batch;         /* messages of one request */
    size_t max_receipt_batch; /* tickets of one receipts request; 0: there are no receipts */
    size_t rate;              /* messages a second for a project */
    size_t payload_max;       /* bytes of title + body + data as JSON */
    size_t connections_max;
};

struct provider;

struct provider_setup {
    const struct provider_settings *settings; /* [provider]; base_url, token, timeouts, token_check */
    size_t in_flight_max;                     /* requests at once; cut to connections_max */
    int wake_fd;                              /* as of io/http_client.h; -1: none */
    const struct clock *clock;                /* NULL: clock_system */
    struct metrics *metrics;                  /* NULL: none */
};

/* ST_REJECT: base_url or token cannot be used; fault.field names the key. Opens nothing. */
MUST_USE enum status provider_settings_check(const struct provider_settings *settings, struct fault *fault);
/* Copies what it needs. Nothing is connected yet. ST_FATAL: no memory; ST_REJECT: as provider_settings_check.
 */
MUST_USE enum status provider_open(const struct provider_setup *setup, struct provider **provider,
                                   struct fault *fault);
/* The token from now on, copied; requests in flight keep theirs. ST_REJECT: it cannot be used; ST_FATAL: no
 * memory; the old one stays. */
MUST_USE enum status provider_set_token(struct provider *provider, const char *token, struct fault *fault);
void provider_close(struct provider *provider); /* drops what is in flight; NULL is fine */
struct provider_capabilities provider_capabilities(const struct provider *provider);

/* ---- messages ------------------------------------------------------------------------------------------ */

/* Why this message may not be sent at all: DISPATCH_INVALID_TOKEN, DISPATCH_MESSAGE_TOO_BIG, or NULL. */
const char *provider_refuse(const struct provider *provider, const struct provider_message *message);

/* Sends 1 … max_batch messages, none of which provider_refuse refuses; copies them.
 * ST_RETRY "busy": in_flight_max requests are out. Else only ST_FATAL: no memory. */
MUST_USE enum status provider_submit_chunk(struct provider *provider, const struct provider_message *messages,
                                           size_t count, uint64_t tag, struct fault *fault);

enum provider_verdict_kind {
    PROVIDER_SENT,         /* accepted; ticket may be "" */
    PROVIDER_FAILED,       /* final: error says why */
    PROVIDER_NOT_ACCEPTED, /* certainly not accepted; may be sent again; error is for who gives up */
    PROVIDER_UNCONFIRMED   /* maybe accepted: never again; error is Unconfirmed */
};

struct provider_verdict {
    enum provider_verdict_kind kind;
    char ticket[DISPATCH_TICKET_MAX + 1];
    char error[DISPATCH_ERROR_MAX + 1]; /* "" when sent */
    char
        detail[DISPATCH_DETAIL_MAX + 1]; /* short, of our own words: "HTTP 502", "2 tickets for 3 messages" */
};

/* ---- receipts ------------------------------------------------------------------------------------------ */

struct provider_ask {
    struct span ticket; /* distinct within a request */
    struct span
        token; /* when not empty: a receipt whose details name another token loses DeviceNotRegistered */
};

/* Asks for 1 … max_receipt_batch receipts; copies them. Statuses as above. */
MUST_USE enum status provider_fetch_receipts(struct provider *provider, const struct provider_ask *asks,
                                             size_t count, uint64_t tag, struct fault *fault);

enum provider_receipt_kind {
    PROVIDER_RECEIPT_NONE, /* not there yet, null, or unreadable: stays as it is */
    PROVIDER_RECEIPT_OK,   /* the platform took it */
    PROVIDER_RECEIPT_ERROR
};

struct provider_receipt {
    enum provider_receipt_kind kind;
    char error[DISPATCH_ERROR_MAX + 1]; /* of an error; TicketMismatch: the details name another token */
};

/* ---- answers ------------------------------------------------------------------------------------------- */

/* What the request as a whole met: the rows of contracts/provider.md. */
enum provider_answer_kind {
    PROVIDER_ANSWER_DATA,        /* 200 with data: what counts stands in each entry */
    PROVIDER_ANSWER_MISMATCH,    /* 200, but data correlates nothing */
    PROVIDER_ANSWER_RATE,        /* 429 */
    PROVIDER_ANSWER_PROJECTS,    /* PUSH_TOO_MANY_EXPERIENCE_IDS: to be split by project */
    PROVIDER_ANSWER_VALIDATION,  /* VALIDATION_ERROR: one bad message fails all */
    PROVIDER_ANSWER_TOO_MANY,    /* our mistake: to be halved */
    PROVIDER_ANSWER_CREDENTIALS, /* 401, 403, UNAUTHORIZED, OAuth */
    PROVIDER_ANSWER_TRANSIENT,   /* an error list, transient or 5xx */
    PROVIDER_ANSWER_REFUSED,     /* an error list, final; a redirect */
    PROVIDER_ANSWER_MAYBE,       /* maybe accepted */
    PROVIDER_ANSWER_AWAY         /* nothing of the body left */
};
enum { PROVIDER_ANSWER_KINDS = PROVIDER_ANSWER_AWAY + 1 };

/* "data", "mismatch", … in the order of the enum, ended by NULL: label values too. */
extern const char *const provider_answer_names[PROVIDER_ANSWER_KINDS + 1];

/* The codes a ticket or a receipt may have (contracts/provider.md): label values. */
#define PROVIDER_ENTRY_CODES                                                                                 \
    DISPATCH_NOT_REGISTERED, DISPATCH_MESSAGE_TOO_BIG, "MessageRateExceeded", "MismatchSenderId",            \
        "InvalidCredentials", "DeveloperError", "ExpoError", "ProviderError", DISPATCH_TICKET_MISMATCH

enum { PROVIDER_EXCERPT_MAX = 80 };

struct provider_answer {
    uint64_t tag;
    bool is_receipts;
    enum provider_answer_kind kind;
    int http_status;                        /* 0 when none came */
    char code[DISPATCH_ERROR_MAX + 1];      /* the provider's code for the whole request; "" when none */
    char cause[DISPATCH_DETAIL_MAX + 1];    /* why there was no answer; "" when there was one */
    char excerpt[PROVIDER_EXCERPT_MAX + 1]; /* of a body that is no JSON: cleaned, for the log; else "" */
    bool timed_out;
    int64_t retry_after_ms; /* -1: none or not readable; capped at PROVIDER_RETRY_AFTER_MAX_MS */
    int64_t took_us;
    size_t count;                            /* as submitted; entries below in the same order */
    const struct provider_verdict *verdicts; /* of a chunk; else NULL */
    /* Of a chunk, when kind is PROVIDER_ANSWER_PROJECTS: whose each token is, "" when it is not said. */
    const char *const *projects;
    /* Of receipts, when kind is PROVIDER_ANSWER_DATA; else NULL: a failed or malformed answer changes
     * nothing. */
    const struct provider_receipt *receipts;
    size_t unasked; /* receipts in the answer for ids never asked for */
};

enum { PROVIDER_RETRY_AFTER_MAX_MS = 60000 };

/* The next answer; waits at most timeout_ms for it. False: none. Its pointers live until the next call. */
bool provider_poll(struct provider *provider, int timeout_ms, struct provider_answer *answer);
size_t provider_in_flight(const struct provider *provider);
/* Drops all in flight; their answers never come. */
void provider_abort(struct provider *provider);

#endif
