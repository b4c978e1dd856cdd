/* Preferences before pushes (design.md §2 point 1, contracts/preferences.md).
 *
 * In: ordinals of held batches. Out: the same as the next window, once the account service has said what each
 * recipient wants, or `timeout` is over. What always holds: nothing here leaves `unsent`, so a crash here
 * costs nothing (asking after the fence would make pushes Unconfirmed that nobody ever sent, and its tokens
 * would be as old as the answer is late; the price is one more read a window). One question an urgency is
 * open, so a slow answer holds no urgent push back behind a normal one; while a window is with the provider
 * the next one is being asked for. While nothing may be sent, nobody is asked for. */
#include "base/crash.h"
#include "base/log.h"
#include "state.h"

enum status consult_open(struct fanout *fanout, struct fault *fault)
{
    const struct preferences_settings *settings = fanout->setup.preferences;
    if (settings == NULL || settings->url[0] == '\0')
        return ST_OK;
    const struct preferences_setup setup = {
        .settings = settings, .clock = fanout->clock, .metrics = fanout->setup.metrics};
    enum status status = preferences_open(&setup, &fanout->preferences, fault);
    if (status != ST_OK)
        return status;
    fanout->preferences_said = preferences_state(fanout->preferences);
    for (size_t i = 0; i < 2; i++) {
        fanout->consults[i].answers =
            preferences_batch_new(fanout->preferences, fanout->slots * fanout->chunk_size);
        if (fanout->consults[i].answers == NULL) {
            fault_set(fault, "memory", "no memory for preferences");
            return ST_FATAL;
        }
    }
    return ST_OK;
}

void consult_close(struct fanout *fanout)
{
    for (size_t i = 0; i < 2; i++)
        preferences_batch_free(fanout->consults[i].answers);
    preferences_close(fanout->preferences);
}

/* ---- asking -------------------------------------------------------------------------------------------- */

/* Ranges whose batch was lost, or that are unsent no more, go. */
static void prune(struct fanout *fanout, struct consult *consult)
{
    size_t kept = 0;
    for (size_t i = 0; i < consult->range_count; i++) {
        const struct held *held = held_find(fanout, consult->ranges[i].batch_id);
        if (held != NULL && !held->lost && !held->check && held_has_range(held, &consult->ranges[i]))
            consult->ranges[kept++] = consult->ranges[i];
    }
    consult->range_count = kept;
    if (kept == 0)
        consult->state = CONSULT_EMPTY;
}

static enum status ask(struct fanout *fanout, struct consult *consult, struct fault *fault)
{
    struct span users[FANOUT_WINDOW_RANGES_MAX];
    struct db_result *rows = NULL;
    enum status status =
        window_recipients(&fanout->scope, consult->ranges, consult->range_count, &rows, fault);
    if (status != ST_OK)
        return fanout_db_failed(fanout, status, fault);
    int count = db_result_rows(rows); /* no more than ordinals */
    for (int i = 0; i < count; i++)
        users[i] = window_recipient_row(rows, i);
    preferences_ask(fanout->preferences, consult->answers, users, (size_t)count);
    db_result_free(rows);
    consult->state = CONSULT_ASKED;
    return ST_OK;
}

/* Known for longer than the TTL. An answer just awaited is good for as long as we would wait for another,
 * whatever the TTL is: with 0 a window would never be taken. */
static bool is_old(const struct fanout *fanout, const struct consult *consult)
{
    const struct preferences_settings *settings = fanout->setup.preferences;
    int64_t ttl_ms = settings->ttl_ms > settings->timeout_ms ? settings->ttl_ms : settings->timeout_ms;
    return fanout_now_ms(fanout) - consult->ready_at_ms > ttl_ms;
}

static enum status advance(struct fanout *fanout, bool urgent, struct fault *fault)
{
    struct consult *consult = &fanout->consults[urgent];
    enum status status = ST_OK;
    const bool for_trial = fanout->breaker.state != BREAKER_CLOSED;
    if (consult->state != CONSULT_EMPTY)
        prune(fanout, consult);
    if (consult->state != CONSULT_ASKED && !fence_provider_takes(fanout))
        return ST_OK;
    bool old = consult->state == CONSULT_READY && is_old(fanout, consult);
    if (old && for_trial)
        consult->state = CONSULT_EMPTY; /* a window's worth, of which the trial needs little */
    if (consult->state == CONSULT_EMPTY)
        consult->range_count =
            fence_choose(fanout, urgent, for_trial ? fanout->chunk_size : fanout->slots * fanout->chunk_size,
                         consult->ranges);
    if (consult->range_count == 0)
        return ST_OK;
    if (consult->state == CONSULT_EMPTY || old)
        status = ask(fanout, consult, fault);
    if (status == ST_OK && consult->state == CONSULT_ASKED &&
        preferences_ready(fanout->preferences, consult->answers)) {
        CRASH_POINT("consult");
        consult->state = CONSULT_READY;
        consult->ready_at_ms = fanout_now_ms(fanout);
    }
    return status;
}

/* ---- what operators are told ----------------------------------------------------------------------------
 */

static void log_breaker(enum preferences_breaker from, const struct preferences_state *state)
{
    if (state->breaker == PREFERENCES_CLOSED)
        log_event(LOG_INFO, "PREFS-CLOSED", "the account service answers again");
    else if (from == PREFERENCES_CLOSED)
        log_event(LOG_WARN, "PREFS-OPEN", "the account service is not asked for a while: pushes are allowed",
                  log_text("reason", state->reason), log_int("http_status", state->http_status),
                  log_text("cause", state->cause));
}

static void log_news(struct fanout *fanout)
{
    struct preferences_state state = preferences_state(fanout->preferences);
    int64_t skipped = 0;
    if (state.failures != fanout->preferences_said.failures &&
        fanout_may_log(fanout, &fanout->quiet_preferences, &skipped))
        log_event(LOG_WARN, "PREFS-FAILED", "the account service gave no answer: pushes are allowed",
                  log_text("reason", state.reason), log_int("http_status", state.http_status),
                  log_text("cause", state.cause), log_int("skipped", skipped));
    if (state.breaker != fanout->preferences_said.breaker)
        log_breaker(fanout->preferences_said.breaker, &state);
    fanout->preferences_said = state;
}

enum status consult_run(struct fanout *fanout, struct fault *fault)
{
    if (fanout->preferences == NULL)
        return ST_OK;
    (void)preferences_poll(fanout->preferences, 0);
    enum status status = advance(fanout, true, fault);
    if (status == ST_OK)
        status = advance(fanout, false, fault);
    if (consult_is_waiting(fanout))
        (void)preferences_poll(fanout->preferences, 0); /* what was just asked begins to leave */
    log_news(fanout);
    return status;
}

bool consult_is_waiting(const struct fanout *fanout)
{
    return fanout->consults[0].state == CONSULT_ASKED || fanout->consults[1].state == CONSULT_ASKED;
}

void consult_wait(struct fanout *fanout, int timeout_ms)
{
    (void)preferences_poll(fanout->preferences, timeout_ms);
}

/* ---- windows ------------------------------------------------------------------------------------------- */

static bool has_window(struct fanout *fanout, bool urgent)
{
    struct window_range first;
    if (fanout->preferences == NULL)
        return fence_choose(fanout, urgent, 1, &first) > 0;
    return fanout->consults[urgent].state == CONSULT_READY;
}

bool consult_is_urgent_next(struct fanout *fanout)
{
    if (!has_window(fanout, true))
        return false;
    return fence_urgent_first(fanout) || !has_window(fanout, false);
}

size_t consult_choose(struct fanout *fanout, size_t want, struct window_range *ranges)
{
    const bool urgent_first = fence_urgent_first(fanout);
    if (fanout->preferences == NULL) {
        size_t count = fence_choose(fanout, urgent_first, want, ranges);
        return count > 0 ? count : fence_choose(fanout, !urgent_first, want, ranges);
    }
    for (int i = 0; i < 2; i++) {
        struct consult *consult = &fanout->consults[(i == 0) == urgent_first];
        if (consult->state != CONSULT_READY)
            continue;
        prune(fanout, consult);
        if (consult->range_count == 0)
            continue;
        fanout->consulted = consult;
        return held_copy_prefix(consult->ranges, consult->range_count, &want, ranges);
    }
    return 0;
}

void consult_taken(struct fanout *fanout, size_t range_count, const struct window_range *ranges)
{
    struct consult *consult = fanout->consulted;
    if (fanout->preferences == NULL || range_count == 0)
        return;
    struct window_range *last = &consult->ranges[range_count - 1];
    last->first = ranges[range_count - 1].stop; /* of the last only a part may have been chosen */
    size_t gone = last->first < last->stop ? range_count - 1 : range_count;
    consult->range_count -= gone;
    for (size_t i = 0; i < consult->range_count; i++)
        consult->ranges[i] = consult->ranges[i + gone];
    if (consult->range_count == 0)
        consult->state = CONSULT_EMPTY;
}

bool consult_refuses(const struct fanout *fanout, const struct window_row *row)
{
    return fanout->preferences != NULL &&
           !preferences_allows(fanout->consulted->answers, row->recipient_user_id, row->category);
}
