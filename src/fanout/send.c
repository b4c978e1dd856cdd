/* Ready rows -> requests -> answers (design.md §2 point 4).
 *
 * In: rows of windows that wait. Out: each row's outcome, or the row on its way back. What always holds: a
 * row is in one request at a time; urgent rows go first; no more leaves than rate and breaker let; positions
 * count over the request as it was sent. A crash here: the window is reported by the sweeper. */
#include <assert.h>

#include "base/crash.h"
#include "base/log.h"
#include "state.h"

static struct provider_message message_of(const struct window_row *row)
{
    return (struct provider_message){.token = row->token,
                                     .notification_id = row->notification_id,
                                     .title = row->title,
                                     .body = row->body,
                                     .data = row->data,
                                     .push = row->push,
                                     .expires_at = row->expires_at,
                                     .urgent = row->urgent};
}

/* ---- requests out -------------------------------------------------------------------------------------- */

static struct chunk *free_chunk(struct fanout *fanout)
{
    for (size_t i = 0; i < fanout->slots; i++) {
        if (!fanout->chunks[i].used)
            return &fanout->chunks[i];
    }
    return NULL;
}

/* The next trial is another message, and of the other urgency: one that the provider never takes must not
 * keep the breaker open for all. */
static void begin_trial(struct fanout *fanout, const struct ready_row *row)
{
    breaker_trial_begins(&fanout->breaker);
    fanout->trials++;
    fanout->trial_last[row->urgent] = row->dispatch_id;
}

static void submit(struct fanout *fanout, struct chunk *chunk)
{
    struct provider_message messages[FANOUT_CHUNK_MAX] = {{.urgent = false}};
    struct fault fault;
    for (size_t i = 0; i < chunk->count; i++) {
        struct window_row row;
        window_take_row(chunk->rows[i].window->rows, chunk->rows[i].row, &row);
        messages[i] = message_of(&row);
    }
    enum status status = provider_submit_chunk(fanout->provider, messages, chunk->count,
                                               (uint64_t)(chunk - fanout->chunks), &fault);
    if (status == ST_OK) {
        chunk->used = true;
        chunk->sent_ms = fanout_now_ms(fanout);
        fanout->in_flight += chunk->count;
        chunk->trial = fanout->breaker.state != BREAKER_CLOSED;
        if (chunk->trial)
            begin_trial(fanout, &chunk->rows[0]);
        return;
    }
    const struct provider_verdict verdict = {.kind = PROVIDER_NOT_ACCEPTED,
                                             .error = DISPATCH_PROVIDER_UNAVAILABLE,
                                             .detail = "not handed to the provider"};
    log_fault(LOG_ERROR, "FAN-SUBMIT", "a chunk was not sent", status, &fault,
              log_count("messages", chunk->count));
    rate_settle(&fanout->rate, chunk->rows[0].project, chunk->count, fanout_now_ms(fanout));
    for (size_t i = 0; i < chunk->count; i++)
        again_refused(fanout, &chunk->rows[i], &verdict, false);
}

/* Sends the ready row at `at` and those that go with it, if the rate lets them. */
static bool send_from(struct fanout *fanout, struct chunk *chunk, size_t at)
{
    size_t project = fanout->ready.rows[at].project, max = rate_request_max(&fanout->rate, project);
    if (max > fanout->chunk_size)
        max = fanout->chunk_size;
    if (fanout->breaker.state != BREAKER_CLOSED)
        max = 1; /* a trial may be lost: a provider that hangs costs one message a pause */
    size_t count = ready_together(&fanout->ready, at, max);
    if (!rate_take(&fanout->rate, project, count, fanout_now_ms(fanout)))
        return false;
    *chunk = (struct chunk){.count = count};
    ready_take(&fanout->ready, at, count, chunk->rows);
    submit(fanout, chunk);
    return true;
}

static void send_urgency(struct fanout *fanout, bool urgent)
{
    uint32_t blocked = 0; /* projects whose rate is used up */
    size_t i = 0;
    struct chunk *chunk = free_chunk(fanout);
    while (chunk != NULL && i < fanout->ready.count &&
           breaker_lets(&fanout->breaker, fanout_now_ms(fanout))) {
        const struct ready_row *row = &fanout->ready.rows[i];
        if (row->urgent != urgent || (blocked >> row->project & 1) != 0) {
            i++;
            continue;
        }
        uint32_t project = row->project;
        if (send_from(fanout, chunk, i))
            chunk = free_chunk(fanout); /* another row stands at i now */
        else
            blocked |= 1U << project;
    }
}

static void send_ready(struct fanout *fanout)
{
    if (fanout->ready.urgent > 0)
        send_urgency(fanout, true);
    if (fanout->ready.count > fanout->ready.urgent)
        send_urgency(fanout, false);
    if (!breaker_lets(&fanout->breaker, fanout_now_ms(fanout)))
        again_all_ready(fanout); /* nothing is held at risk while the provider is away */
}

/* ---- answers in ---------------------------------------------------------------------------------------- */

void send_settle_row(struct fanout *fanout, const struct ready_row *row, const struct verdict *verdict)
{
    struct window_row full;
    window_take_row(row->window->rows, row->row, &full);
    struct held *held = held_find(fanout, full.batch_id);
    assert(held != NULL && held->in_flight > 0);
    held->in_flight--;
    fanout->risked--;
    publish_add(fanout, &full, verdict);
    memory_set_tries(&fanout->memory, row->dispatch_id, (struct memory_tries){.any = false});
    fence_let_go(row->window);
}

/* What the provider surely has read by now. */
static void count_late(struct fanout *fanout)
{
    for (size_t i = 0; i < fanout->slots; i++) {
        struct chunk *chunk = &fanout->chunks[i];
        int64_t seen_ms = chunk->sent_ms + RATE_GUARD_MS;
        if (!chunk->used || chunk->counted || fanout_now_ms(fanout) < seen_ms)
            continue;
        rate_settle(&fanout->rate, chunk->rows[0].project, chunk->count, seen_ms);
        chunk->counted = true;
    }
}

static void log_answer(struct fanout *fanout, const struct provider_answer *answer)
{
    int64_t skipped = 0;
    if (answer->kind == PROVIDER_ANSWER_DATA && answer->code[0] == '\0') {
        log_event(LOG_DEBUG, "FAN-SENT", "chunk answered", log_count("messages", answer->count),
                  log_int("ms", answer->took_us / 1000));
        return;
    }
    if (!fanout_may_log(fanout, &fanout->quiet_answers[answer->kind], &skipped))
        return;
    log_event(answer->kind == PROVIDER_ANSWER_TOO_MANY ? LOG_ERROR : LOG_WARN, "FAN-ANSWER",
              "the provider's answer to a chunk", log_text("answer", provider_answer_names[answer->kind]),
              log_int("http_status", answer->http_status), log_text("code", answer->code),
              log_text("cause", answer->cause), log_text("excerpt", answer->excerpt),
              log_count("messages", answer->count), log_int("ms", answer->took_us / 1000),
              log_int("skipped", skipped));
}

static void take_answer(struct fanout *fanout, const struct provider_answer *answer)
{
    struct chunk *chunk = &fanout->chunks[answer->tag];
    assert(chunk->used && chunk->count == answer->count);
    CRASH_POINT("send");
    log_answer(fanout, answer);
    if (!chunk->counted)
        rate_settle(&fanout->rate, chunk->rows[0].project, chunk->count, fanout_now_ms(fanout));
    chunk->used = false;
    fanout->in_flight -= chunk->count;
    judge_chunk(fanout, chunk, answer);
}

enum status send_run(struct fanout *fanout, struct fault *fault)
{
    (void)fault;
    struct provider_answer answer;
    send_ready(fanout);
    int timeout_ms = consult_is_waiting(fanout) ? FANOUT_CONSULT_TICK_MS
                     : fanout->ready.count > 0  ? FANOUT_PACE_MS
                                                : FANOUT_TICK_MS;
    while (fanout->in_flight > 0 && provider_poll(fanout->provider, timeout_ms, &answer)) {
        take_answer(fanout, &answer);
        timeout_ms = 0;
    }
    count_late(fanout);
    return ST_OK;
}

void send_give_up(struct fanout *fanout)
{
    struct verdict verdict = {.outcome = DISPATCH_FAILED,
                              .error = DISPATCH_UNCONFIRMED,
                              .ticket = "",
                              .detail = "no answer before shutdown_timeout"};
    provider_abort(fanout->provider);
    for (size_t slot = 0; slot < fanout->slots; slot++) {
        struct chunk *chunk = &fanout->chunks[slot];
        for (size_t i = 0; chunk->used && i < chunk->count; i++)
            send_settle_row(fanout, &chunk->rows[i], &verdict);
        chunk->used = false;
    }
    fanout->in_flight = 0;
}
