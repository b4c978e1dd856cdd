/* Due batches in; what the provider's receipts say about their dispatches out. Always holds: an answer is
 * mapped by ticket id, and one that failed or cannot be read changes nothing; a ticket is asked for once in a
 * pass; nothing is held open in the database while the provider is asked. A crash here leaves leases that run
 * out: the batches are asked for again, and what was settled stays settled.
 *
 * One pass: lease, then turns of (read a page, ask for a chunk, apply its answer), then give the batches
 * back. A turn is the stage table; a stage with nothing to do in this turn does nothing. */
#include "private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/signals.h"
#include "remote/provider.h"
#include "store/receipt.h"

enum {
    ARENA_BYTES_MAX = 16 << 20,
    SLICE_MS = 1000,                           /* of a wait: the loop says that it lives */
    FAILURES_IN_A_ROW = 3,                     /* chunks; then the pass is over */
    TICKET_BYTES_MAX = 3 * DISPATCH_TICKET_MAX /* of a row: wire/outcome lets as many in */
};

struct poll_loop {
    struct session session;
    struct provider *provider;
    struct receipt_lease lease;
    struct arena arena; /* of one page */
    struct receipt_rows rows;
    size_t at; /* the first row of the chunk in hand */
    char after[TICKET_BYTES_MAX + 1];
    char start[TICKET_BYTES_MAX +
               1];        /* "": a pass begins at the first ticket; else behind what kept failing */
    bool open, last_page; /* a pass is under way; no page follows this one */
    bool give_up;         /* the provider is away, or the lease is lost: end the pass */
    bool refused;         /* it refuses our credentials: not ready, until an answer comes */
    bool silent;          /* when last asked it gave no receipts: a note in /readyz */
    bool answered;        /* every request of the pass */
    unsigned reloads;     /* SIGHUPs seen */
    size_t chunk, failures;
    int64_t renewed_ms, next_ms, pass_ms, retry_after_ms;
    struct provider_ask *asks;              /* of receipt_chunk */
    struct receipt_finding *findings;       /* of RECEIPT_ROWS_MAX */
    char (*errors)[DISPATCH_ERROR_MAX + 1]; /* of receipt_chunk: what the findings' errors point to */
    size_t ask_count, row_count;            /* of the chunk in hand */
    bool found;                             /* findings are there to be applied */
};

/* ---- a pass ----------------------------------------------------------------------------------------- */

static bool has_no_pass(const void *context)
{
    return !((const struct poll_loop *)context)->open;
}

static enum status stage_lease(void *context, struct fault *fault)
{
    struct poll_loop *poll = context;
    struct session *session = &poll->session;
    enum status status = receipt_lease(session->db, &poll->lease, fault);
    if (status != ST_OK)
        return status;
    int64_t now_ms = clock_monotonic_ms(session->clock);
    if (poll->lease.count == 0) {
        poll->next_ms = poll->pass_ms + session->setup->settings->poll_interval_ms;
        return ST_OK;
    }
    reconcile_count(session->metrics, M_RECEIPT_BATCHES, "leased", (int64_t)poll->lease.count);
    poll->open = true;
    poll->answered = poll->start[0] == '\0'; /* else not all of it is asked for */
    poll->last_page = poll->give_up = poll->found = false;
    memcpy(poll->after, poll->start, sizeof poll->after);
    poll->rows = (struct receipt_rows){.arena = &poll->arena};
    poll->at = poll->failures = 0;
    poll->chunk = session->setup->settings->receipt_chunk;
    poll->renewed_ms = now_ms;
    return ST_OK;
}

static size_t same_ticket_end(const struct receipt_rows *rows, size_t from)
{
    size_t to = from;
    while (to < rows->count && span_same(rows->rows[from].ticket, rows->rows[to].ticket))
        to++;
    return to;
}

/* A full page may have cut the rows of its last ticket: they come with the next one, unless they are all. */
static void drop_cut_ticket(struct poll_loop *poll)
{
    size_t from = poll->rows.count - 1;
    while (from > 0 && span_same(poll->rows.rows[from - 1].ticket, poll->rows.rows[from].ticket))
        from--;
    if (from > 0)
        poll->rows.count = from;
}

static void copy_ticket(char to[TICKET_BYTES_MAX + 1], struct span ticket)
{
    size_t bytes = ticket.bytes < TICKET_BYTES_MAX ? ticket.bytes : TICKET_BYTES_MAX;
    memcpy(to, ticket.at, bytes);
    to[bytes] = '\0';
}

static bool needs_page(const void *context)
{
    const struct poll_loop *poll = context;
    return poll->open && !poll->give_up && poll->at == poll->rows.count && !poll->last_page;
}

static enum status stage_due(void *context, struct fault *fault)
{
    struct poll_loop *poll = context;
    struct session *session = &poll->session;
    arena_reset(&poll->arena);
    poll->rows = (struct receipt_rows){.arena = &poll->arena};
    poll->at = 0;
    enum status status = receipt_due(session->db, &poll->lease, span_of(poll->after), &poll->rows, fault);
    if (status != ST_OK)
        return status;
    poll->last_page = poll->rows.count < RECEIPT_ROWS_MAX;
    if (!poll->last_page)
        drop_cut_ticket(poll);
    if (poll->rows.count > 0)
        copy_ticket(poll->after, poll->rows.rows[poll->rows.count - 1].ticket);
    return ST_OK;
}

/* ---- one request ------------------------------------------------------------------------------------ */

static void take_chunk(struct poll_loop *poll)
{
    poll->ask_count = poll->row_count = 0;
    size_t from = poll->at;
    while (from < poll->rows.count && poll->ask_count < poll->chunk) {
        const struct receipt_due *row = &poll->rows.rows[from];
        poll->asks[poll->ask_count++] = (struct provider_ask){.ticket = row->ticket, .token = row->token};
        from = same_ticket_end(&poll->rows, from);
    }
    poll->row_count = from - poll->at;
}

/* Whether rows [from, to), all of one ticket, are of one device too. */
static bool is_one_device(const struct receipt_rows *rows, size_t from, size_t to)
{
    for (size_t i = from + 1; i < to; i++) {
        if (!span_same(rows->rows[from].token, rows->rows[i].token))
            return false;
    }
    return true;
}

static struct receipt_finding find(struct poll_loop *poll, const struct receipt_due *row, size_t ask,
                                   const struct provider_receipt *receipt)
{
    struct receipt_finding finding = {.dispatch_id = row->dispatch_id, .ticket = row->ticket};
    if (receipt->kind == PROVIDER_RECEIPT_NONE)
        return finding;
    finding.settled = true;
    finding.state = receipt->kind == PROVIDER_RECEIPT_OK ? DISPATCH_DELIVERED : DISPATCH_RECEIPT_ERROR;
    if (receipt->kind == PROVIDER_RECEIPT_ERROR) {
        memcpy(poll->errors[ask], receipt->error, sizeof poll->errors[ask]);
        finding.error = span_of(poll->errors[ask]);
    }
    return finding;
}

static void count_receipts(struct poll_loop *poll, const struct provider_answer *answer)
{
    struct metric_set *metrics = poll->session.metrics;
    for (size_t i = 0; i < answer->count; i++) {
        const struct provider_receipt *receipt = &answer->receipts[i];
        if (receipt->kind == PROVIDER_RECEIPT_NONE)
            reconcile_count(metrics, M_RECEIPTS, "none", 1);
        if (receipt->kind != PROVIDER_RECEIPT_ERROR)
            continue;
        reconcile_count(metrics, M_RECEIPT_ERRORS, receipt->error, 1);
        if (strcmp(receipt->error, "InvalidCredentials") == 0 ||
            strcmp(receipt->error, "MismatchSenderId") == 0)
            reconcile_count(metrics, M_CREDENTIAL_FAULTS, NULL, 1);
    }
    if (answer->unasked > 0) {
        log_event(LOG_WARN, "RECEIPT-UNASKED", "the answer has receipts nobody asked for; ignored",
                  log_count("count", answer->unasked));
        reconcile_count(metrics, M_UNASKED, NULL, (int64_t)answer->unasked);
    }
}

static void take_answer(struct poll_loop *poll, const struct provider_answer *answer)
{
    count_receipts(poll, answer);
    size_t row = poll->at;
    for (size_t ask = 0; ask < poll->ask_count; ask++) {
        size_t end = same_ticket_end(&poll->rows, row);
        bool known = is_one_device(&poll->rows, row, end);
        for (; row < end; row++) {
            struct receipt_finding *finding = &poll->findings[row - poll->at];
            *finding = find(poll, &poll->rows.rows[row], ask, &answer->receipts[ask]);
            /* One ticket on rows of several devices: which of them is gone is not known, so none is off. */
            if (!known && span_is(finding->error, DISPATCH_NOT_REGISTERED))
                finding->error = span_of(DISPATCH_TICKET_MISMATCH);
        }
    }
    assert(row - poll->at == poll->row_count);
    poll->found = true;
    poll->failures = 0;
    poll->refused = poll->silent = false;
    poll->chunk *= 2; /* after a halving, back to the whole */
    if (poll->chunk > poll->session.setup->settings->receipt_chunk)
        poll->chunk = poll->session.setup->settings->receipt_chunk;
}

/* Refused for what it asked for, by our number of ids or by one of them: half of it is asked for again, from
 * the same row. A ticket that stands alone and is refused has been answered: there is no receipt for it, and
 * age settles it, so that it never holds up those behind it. */
static void take_refusal(struct poll_loop *poll)
{
    if (poll->ask_count > 1) {
        poll->chunk = (poll->ask_count + 1) / 2;
        return;
    }
    for (size_t i = 0; i < poll->row_count; i++) {
        const struct receipt_due *row = &poll->rows.rows[poll->at + i];
        poll->findings[i] = (struct receipt_finding){.dispatch_id = row->dispatch_id, .ticket = row->ticket};
    }
    poll->found = true;
}

/* An answer that settles nothing. The chunk stays `sent`; the pass goes on unless the provider is away. */
static void take_failure(struct poll_loop *poll, const struct provider_answer *answer)
{
    bool too_many = answer->kind == PROVIDER_ANSWER_TOO_MANY;
    log_event(too_many ? LOG_ERROR : LOG_WARN, "RECEIPT-FAILED", "a request for receipts gave none",
              log_text("answer", provider_answer_names[answer->kind]),
              log_int("http_status", answer->http_status), log_text("code", answer->code),
              log_text("cause", answer->cause), log_text("excerpt", answer->excerpt),
              log_count("asked", answer->count));
    if (too_many || answer->kind == PROVIDER_ANSWER_VALIDATION) {
        take_refusal(poll);
        return;
    }
    poll->answered = false;
    poll->silent = true;
    poll->failures++;
    poll->at += poll->row_count;
    poll->retry_after_ms = answer->retry_after_ms;
    bool credentials = answer->kind == PROVIDER_ANSWER_CREDENTIALS;
    bool away = credentials || answer->kind == PROVIDER_ANSWER_AWAY || answer->kind == PROVIDER_ANSWER_RATE;
    poll->give_up = away || poll->failures >= FAILURES_IN_A_ROW;
    poll->refused = poll->refused || credentials;
}

/* Waits for the one request that is out. False: the process stops; the request is dropped. */
static bool wait_answer(struct poll_loop *poll, struct provider_answer *answer)
{
    while (!provider_poll(poll->provider, SLICE_MS, answer)) {
        if (signals_stopping()) {
            provider_abort(poll->provider);
            return false;
        }
        if (provider_in_flight(poll->provider) == 0) /* cannot be; never wait for nothing */
            return false;
        readiness_beat(poll->session.setup->readiness, poll->session.slot);
    }
    return true;
}

/* Holds the lease over another request. *held false: others have the batches now. */
static enum status keep_lease(struct poll_loop *poll, bool *held, struct fault *fault)
{
    struct session *session = &poll->session;
    int64_t now_ms = clock_monotonic_ms(session->clock);
    *held = true;
    if (now_ms - poll->renewed_ms < poll->lease.lease_ms / 3)
        return ST_OK;
    int64_t mine = 0;
    enum status status = receipt_renew(session->db, &poll->lease, &mine, fault);
    if (status != ST_OK)
        return status;
    poll->renewed_ms = now_ms;
    *held = mine == (int64_t)poll->lease.count;
    return ST_OK;
}

static bool has_chunk(const void *context)
{
    const struct poll_loop *poll = context;
    return poll->open && !poll->give_up && !poll->found && poll->at < poll->rows.count && !signals_stopping();
}

static enum status stage_ask(void *context, struct fault *fault)
{
    struct poll_loop *poll = context;
    bool held = false;
    enum status status = keep_lease(poll, &held, fault);
    if (status != ST_OK)
        return status;
    if (!held) {
        log_event(LOG_WARN, "RECEIPT-LEASE", "the lease of due batches ran out; others ask for them now",
                  log_count("batches", poll->lease.count));
        poll->give_up = true;
        poll->answered = false;
        return ST_OK;
    }
    take_chunk(poll);
    status = provider_fetch_receipts(poll->provider, poll->asks, poll->ask_count, 1, fault);
    if (status != ST_OK)
        return status;
    struct provider_answer answer;
    if (!wait_answer(poll, &answer)) {
        poll->answered = false;
        return ST_OK;
    }
    reconcile_count(poll->session.metrics, M_REQUESTS, provider_answer_names[answer.kind], 1);
    if (answer.kind == PROVIDER_ANSWER_DATA && answer.receipts != NULL)
        take_answer(poll, &answer);
    else
        take_failure(poll, &answer);
    return ST_OK;
}

/* ---- what it changes -------------------------------------------------------------------------------- */

static void count_settled(struct session *session, const struct receipt_counts *counts, size_t asked)
{
    reconcile_count(session->metrics, M_RECEIPTS, "delivered", counts->delivered);
    reconcile_count(session->metrics, M_RECEIPTS, "receipt_error", counts->receipt_error);
    reconcile_count(session->metrics, M_RECEIPTS, "expired", counts->expired);
    reconcile_count(session->metrics, M_DISABLED, "receipt", counts->disabled);
    log_event(LOG_DEBUG, "RECEIPT-APPLIED", "receipts applied", log_count("asked", asked),
              log_int("delivered", counts->delivered), log_int("receipt_error", counts->receipt_error),
              log_int("expired", counts->expired), log_int("disabled", counts->disabled));
}

static bool has_answer(const void *context)
{
    return ((const struct poll_loop *)context)->found;
}

static enum status stage_apply(void *context, struct fault *fault)
{
    struct poll_loop *poll = context;
    struct session *session = &poll->session;
    struct receipt_counts counts;
    struct receipt_answer answer = {.findings = poll->findings,
                                    .count = poll->row_count,
                                    .max_age_ms = session->setup->settings->receipt_max_age_ms,
                                    .announce = reconcile_announces(session->setup)};
    enum status status = receipt_apply(session->db, &answer, &counts, fault);
    if (status == ST_REJECT) {
        /* Receipts are asked for again, so nothing is lost by leaving these for the next pass. */
        log_fault(LOG_ERROR, "RECEIPT-REFUSED", "the database refuses a chunk of receipts; left as it is",
                  status, fault, log_count("rows", poll->row_count));
        poll->answered = false;
    } else if (status != ST_OK) {
        return status;
    } else {
        count_settled(session, &counts, poll->ask_count);
    }
    poll->found = false;
    poll->at += poll->row_count;
    return ST_OK;
}

static bool is_through(const struct poll_loop *poll)
{
    return poll->last_page && poll->at == poll->rows.count;
}

static bool has_ended(const void *context)
{
    const struct poll_loop *poll = context;
    return poll->open && (is_through(poll) || poll->give_up || signals_stopping());
}

static enum status stage_finish(void *context, struct fault *fault)
{
    struct poll_loop *poll = context;
    struct session *session = &poll->session;
    const struct reconcile_settings *settings = session->setup->settings;
    bool through = is_through(poll);
    enum status status = ST_OK;
    int64_t expired = 0, done = 0;
    if (through && poll->answered)
        status = receipt_expire(session->db, &poll->lease, settings->receipt_max_age_ms, &expired, fault);
    if (status != ST_OK)
        return status;
    /* Leaving before the end: due at once, for another process. */
    int64_t again_ms = through || poll->give_up ? settings->poll_interval_ms : 0;
    status = receipt_finish(session->db, &poll->lease, again_ms, &done, fault);
    if (status != ST_OK)
        return status;
    reconcile_count(session->metrics, M_RECEIPTS, "expired", expired);
    reconcile_count(session->metrics, M_RECEIPT_BATCHES, "done", done);
    log_event(LOG_INFO, "RECEIPT-PASS", "due batches asked for", log_count("batches", poll->lease.count),
              log_int("done", done), log_bool("answered", poll->answered), log_int("expired", expired));
    poll->open = false;
    poll->start[0] = '\0';
    if (poll->failures >=
        FAILURES_IN_A_ROW) /* those behind these come first next time: nobody is crowded out */
        copy_ticket(poll->start, poll->rows.rows[poll->at - 1].ticket);
    if (poll->give_up) {
        int64_t wait_ms = settings->poll_interval_ms;
        if (poll->retry_after_ms > wait_ms)
            wait_ms = poll->retry_after_ms;
        poll->next_ms = clock_monotonic_ms(session->clock) + wait_ms;
    }
    return ST_OK;
}

/* "poll" is the crash point after an answer and before it is applied. */
static const struct stage stages[] = {{"lease", stage_lease, has_no_pass},
                                      {"due", stage_due, needs_page},
                                      {"ask", stage_ask, has_chunk},
                                      {"poll", stage_apply, has_answer},
                                      {"finish", stage_finish, has_ended}};

/* ---- the loop --------------------------------------------------------------------------------------- */

enum status poll_new(const struct reconcile_setup *setup, struct metric_set *metrics, struct poll_loop **poll,
                     struct fault *fault)
{
    struct poll_loop *made = calloc(1, sizeof *made);
    if (made == NULL)
        goto memory;
    size_t chunk = setup->settings->receipt_chunk;
    made->session =
        (struct session){.name = "poll", .metrics = metrics, .wait = session_wait, .context = made};
    made->lease.owner = setup->owner;
    made->lease.lease_ms = setup->settings->lease_ms;
    made->lease.announce = reconcile_announces(setup);
    arena_init(&made->arena, ARENA_BYTES_MAX);
    made->asks = calloc(chunk, sizeof *made->asks);
    made->errors = calloc(chunk, sizeof *made->errors);
    made->findings = calloc(RECEIPT_ROWS_MAX, sizeof *made->findings);
    enum status status = session_open(&made->session, setup, fault);
    if (status == ST_OK && (made->asks == NULL || made->errors == NULL || made->findings == NULL))
        goto memory;
    struct provider_setup provider = {.settings = setup->provider,
                                      .in_flight_max = 1,
                                      .wake_fd = signals_stop_fd(),
                                      .clock = setup->clock,
                                      .metrics = NULL};
    if (status == ST_OK)
        status = provider_open(&provider, &made->provider, fault);
    if (status != ST_OK) {
        poll_free(made);
        return status;
    }
    *poll = made;
    return ST_OK;
memory:
    poll_free(made);
    fault_set(fault, "memory", "no memory for the poll loop");
    return ST_FATAL;
}

void poll_free(struct poll_loop *poll)
{
    if (poll == NULL)
        return;
    provider_close(poll->provider);
    session_done(&poll->session);
    arena_done(&poll->arena);
    free(poll->asks);
    free(poll->errors);
    free(poll->findings);
    free(poll);
}

static void say_ready(struct poll_loop *poll)
{
    struct session *session = &poll->session;
    if (poll->refused)
        readiness_not(session->setup->readiness, session->slot, "the provider refuses our credentials");
    else if (poll->silent)
        readiness_ready_but(session->setup->readiness, session->slot,
                            "the provider gave no receipts when last asked; it is asked again");
    else
        readiness_ready(session->setup->readiness, session->slot);
}

enum status reconcile_take_token(struct poll_loop *poll, const struct provider_settings *provider,
                                 struct fault *fault)
{
    enum status status = provider_set_token(poll->provider, provider->token, fault);
    if (status != ST_OK)
        return status;
    if (poll->refused)
        poll->next_ms = clock_monotonic_ms(poll->session.clock);
    log_event(LOG_INFO, "RECEIPT-TOKEN", "the provider's token was read again");
    return ST_OK;
}

static void look_for_reload(struct poll_loop *poll)
{
    const struct reconcile_setup *setup = poll->session.setup;
    unsigned reloads = signals_reloads();
    if (reloads == poll->reloads)
        return;
    poll->reloads = reloads;
    if (setup->reload != NULL)
        setup->reload(setup->reload_context, poll);
}

static enum status turn(struct poll_loop *poll, struct fault *fault)
{
    if (!poll->open)
        poll->pass_ms = clock_monotonic_ms(poll->session.clock);
    poll->retry_after_ms = -1;
    return session_run(&poll->session, stages, sizeof stages / sizeof stages[0], fault);
}

enum status poll_run(struct poll_loop *poll, struct fault *fault)
{
    struct session *session = &poll->session;
    enum status status = ST_OK;
    while (status != ST_FATAL && !signals_stopping()) {
        look_for_reload(poll);
        int64_t left_ms = poll->next_ms - clock_monotonic_ms(session->clock);
        if (!poll->open && left_ms > 0) {
            session_sleep(left_ms < SLICE_MS ? left_ms : SLICE_MS);
            readiness_beat(session->setup->readiness, session->slot);
            continue;
        }
        status = turn(poll, fault);
        if (status == ST_OK)
            say_ready(poll);
    }
    if (status != ST_FATAL && poll->open)
        status = turn(poll, fault); /* gives the leases back */
    return status == ST_FATAL ? ST_FATAL : ST_OK;
}
