/* Chunks -> verdicts -> outcomes (design.md §2 points 4 and 5).
 *
 * In: rows of a window, 1 … chunk_size, in dispatch order. Out: one outcome for each row. What always holds:
 * a row is handed to the provider once; what was certainly not accepted fails at once (trying again comes
 * with a later issue); positions count over the request as it was sent. A crash here: the window is reported
 * by the sweeper. */
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
                                     .expires_at = row->expires_at,
                                     .urgent = row->urgent};
}

static void count_in_flight(struct fanout *fanout, int64_t batch_id, bool begins)
{
    struct held *held = held_find(fanout, batch_id);
    assert(held != NULL && (begins || held->in_flight > 0));
    if (begins) {
        held->in_flight++;
        fanout->in_flight++;
    } else {
        held->in_flight--;
        fanout->in_flight--;
    }
}

/* The provider client took nothing: nothing of it left the house. */
static void fail_rows(struct fanout *fanout, const struct window *window, const int *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct window_row row;
        window_take_row(window->rows, rows[i], &row);
        publish_add(fanout, &row,
                    &(struct verdict){.outcome = DISPATCH_FAILED,
                                      .error = DISPATCH_PROVIDER_UNAVAILABLE,
                                      .ticket = "",
                                      .detail = "not handed to the provider"});
    }
}

void send_chunk(struct fanout *fanout, struct window *window, const int *rows, size_t count)
{
    struct provider_message messages[FANOUT_CHUNK_MAX] = {{.urgent = false}};
    struct window_row row;
    struct fault fault;
    size_t slot = 0;
    while (slot < fanout->slots && fanout->chunks[slot].used)
        slot++;
    assert(slot < fanout->slots && count <= FANOUT_CHUNK_MAX);
    for (size_t i = 0; i < count; i++) {
        window_take_row(window->rows, rows[i], &row);
        messages[i] = message_of(&row);
    }
    enum status status = provider_submit_chunk(fanout->provider, messages, count, slot, &fault);
    if (status != ST_OK) {
        log_fault(LOG_ERROR, "FAN-SUBMIT", "a chunk was not sent", status, &fault,
                  log_count("messages", count));
        fail_rows(fanout, window, rows, count);
        return;
    }
    struct chunk *chunk = &fanout->chunks[slot];
    chunk->used = true;
    chunk->window = window;
    chunk->count = count;
    window->chunks++;
    for (size_t i = 0; i < count; i++) {
        chunk->rows[i] = rows[i];
        count_in_flight(fanout, db_result_int8(window->rows, rows[i], 0), true);
    }
}

static void end_chunk(struct chunk *chunk)
{
    struct window *window = chunk->window;
    chunk->used = false;
    if (--window->chunks == 0) {
        db_result_free(window->rows);
        window->rows = NULL;
    }
}

static struct verdict verdict_of(const struct provider_verdict *from)
{
    return (struct verdict){.outcome = from->kind == PROVIDER_SENT ? DISPATCH_SENT : DISPATCH_FAILED,
                            .error = from->error,
                            .ticket = from->ticket,
                            .detail = from->detail};
}

static void log_answer(struct fanout *fanout, const struct provider_answer *answer)
{
    int64_t skipped = 0;
    if (answer->kind == PROVIDER_ANSWER_DATA && answer->code[0] == '\0') {
        log_event(LOG_DEBUG, "FAN-SENT", "chunk answered", log_count("messages", answer->count),
                  log_int("ms", answer->took_ms));
        return;
    }
    if (!fanout_may_log(fanout, &fanout->quiet_answers[answer->kind], &skipped))
        return;
    log_event(answer->kind == PROVIDER_ANSWER_TOO_MANY ? LOG_ERROR : LOG_WARN, "FAN-ANSWER",
              "the provider's answer to a chunk", log_text("answer", provider_answer_name(answer->kind)),
              log_int("http_status", answer->http_status), log_text("code", answer->code),
              log_text("cause", answer->cause), log_text("excerpt", answer->excerpt),
              log_count("messages", answer->count), log_int("ms", answer->took_ms),
              log_int("skipped", skipped));
}

static void take_answer(struct fanout *fanout, const struct provider_answer *answer)
{
    struct chunk *chunk = &fanout->chunks[answer->tag];
    assert(chunk->used && chunk->count == answer->count);
    CRASH_POINT("send");
    log_answer(fanout, answer);
    for (size_t i = 0; i < chunk->count; i++) {
        struct window_row row;
        struct verdict verdict = verdict_of(&answer->verdicts[i]);
        window_take_row(chunk->window->rows, chunk->rows[i], &row);
        count_in_flight(fanout, row.batch_id, false);
        publish_add(fanout, &row, &verdict);
    }
    end_chunk(chunk);
}

enum status send_run(struct fanout *fanout, struct fault *fault)
{
    (void)fault;
    struct provider_answer answer;
    int timeout_ms = consult_is_waiting(fanout) ? FANOUT_CONSULT_TICK_MS : FANOUT_TICK_MS;
    while (fanout->in_flight > 0 && provider_poll(fanout->provider, timeout_ms, &answer)) {
        take_answer(fanout, &answer);
        timeout_ms = 0;
    }
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
        if (!chunk->used)
            continue;
        for (size_t i = 0; i < chunk->count; i++) {
            struct window_row row;
            window_take_row(chunk->window->rows, chunk->rows[i], &row);
            count_in_flight(fanout, row.batch_id, false);
            publish_add(fanout, &row, &verdict);
        }
        end_chunk(chunk);
    }
}
