/* What becomes of a chunk's rows: one table from the kind of answer (contracts/provider.md, Whole-request
 * answers) to outcomes, another try, or a smaller request; and what it tells of the provider as a whole.
 *
 * In: a chunk that has ended, and its answer. Out: every row is settled, on its way back, or ready again.
 * What always holds: only what was certainly not accepted is ever sent again. A crash here: the window is
 * reported by the sweeper. */
#include <assert.h>

#include "base/log.h"
#include "state.h"

enum course { SETTLE, AGAIN, HALVE, SPLIT };
enum health { THERE, AWAY, SLOW, NO_CREDENTIALS };

static const struct course_row {
    enum course course;
    enum health health;
} courses[PROVIDER_ANSWER_KINDS] = {
    [PROVIDER_ANSWER_DATA] = {SETTLE, THERE},
    [PROVIDER_ANSWER_MISMATCH] = {SETTLE, THERE},
    [PROVIDER_ANSWER_RATE] = {AGAIN, SLOW},
    [PROVIDER_ANSWER_PROJECTS] = {SPLIT, THERE},
    [PROVIDER_ANSWER_VALIDATION] = {HALVE, THERE},
    [PROVIDER_ANSWER_TOO_MANY] = {HALVE, THERE},
    [PROVIDER_ANSWER_CREDENTIALS] = {AGAIN, NO_CREDENTIALS},
    [PROVIDER_ANSWER_TRANSIENT] = {AGAIN, AWAY},
    [PROVIDER_ANSWER_REFUSED] = {SETTLE, THERE},
    /* Timeouts, and whatever else stands in the provider's place: each costs a chunk, so they count too. */
    [PROVIDER_ANSWER_MAYBE] = {SETTLE, AWAY},
    [PROVIDER_ANSWER_AWAY] = {AGAIN, AWAY},
};

/* ---- the provider as a whole ----------------------------------------------------------------------------
 */

static void tell_breaker(struct fanout *fanout, const struct provider_answer *answer)
{
    enum breaker_state state = fanout->breaker.state;
    metric_add(fanout->metrics, FANOUT_M_OPENINGS, 0, state != BREAKER_CLOSED);
    log_event(state == BREAKER_CLOSED ? LOG_INFO : LOG_WARN, "FAN-BREAKER",
              state == BREAKER_CLOSED ? "the provider answers again; pushes go on"
              : state == BREAKER_OPEN ? "the provider is away; the backlog waits in the database"
                                      : "the provider refuses our credentials; the backlog waits",
              log_text("state", breaker_state_name(state)), log_count("failures", fanout->breaker.failures),
              log_text("answer", provider_answer_names[answer->kind]),
              log_int("http_status", answer->http_status), log_text("code", answer->code));
    if (state == BREAKER_CREDENTIALS)
        readiness_not(fanout->setup.readiness, fanout->provider_slot,
                      "the push provider refuses our credentials");
    else if (state == BREAKER_OPEN) /* events still become feeds: not a reason to take this process away */
        readiness_ready_but(fanout->setup.readiness, fanout->provider_slot,
                            "breaker open: the push provider is away");
    else
        readiness_ready(fanout->setup.readiness, fanout->provider_slot);
}

static void pause_project(struct fanout *fanout, uint32_t project, const struct provider_answer *answer)
{
    int64_t pause_ms = rate_pause(&fanout->rate, project, answer->retry_after_ms, fanout_now_ms(fanout));
    again_ready_of(fanout, project);
    log_event(LOG_DEBUG, "FAN-PAUSE", "nothing is sent for a while", log_int("pause_ms", pause_ms),
              log_text("answer", provider_answer_names[answer->kind]),
              log_int("retry_after_ms", answer->retry_after_ms),
              log_int("rate", (int64_t)fanout->rate.buckets[project].limit));
}

static void note_health(struct fanout *fanout, const struct chunk *chunk,
                        const struct provider_answer *answer)
{
    struct breaker *breaker = &fanout->breaker;
    int64_t now_ms = fanout_now_ms(fanout);
    uint32_t project = chunk->rows[0].project;
    bool changed = false;
    switch (courses[answer->kind].health) {
    case THERE:
        changed = breaker_answered(breaker);
        if (answer->kind == PROVIDER_ANSWER_DATA)
            rate_good(&fanout->rate, project);
        break;
    case NO_CREDENTIALS:
        changed = breaker_refused(breaker, now_ms);
        break;
    case SLOW:
        changed = breaker_failed(breaker, chunk->trial, now_ms);
        rate_slow(&fanout->rate, project);
        pause_project(fanout, project, answer);
        break;
    case AWAY:
        changed = breaker_failed(breaker, chunk->trial, now_ms);
        if (courses[answer->kind].course == AGAIN && breaker->state == BREAKER_CLOSED)
            pause_project(fanout, project, answer);
        break;
    }
    if (changed)
        tell_breaker(fanout, answer);
}

/* ---- its rows ------------------------------------------------------------------------------------------ */

static void settle(struct fanout *fanout, const struct ready_row *row, const struct provider_verdict *from)
{
    struct verdict verdict = {.outcome = from->kind == PROVIDER_SENT ? DISPATCH_SENT : DISPATCH_FAILED,
                              .error = from->error,
                              .ticket = from->ticket,
                              .detail = from->detail,
                              .attempt = (int)memory_tries(&fanout->memory, row->dispatch_id).count + 1};
    send_settle_row(fanout, row, &verdict);
}

/* Smaller requests, until the bad message stands alone. */
static void halve(struct fanout *fanout, struct chunk *chunk, const struct provider_answer *answer)
{
    if (chunk->count == 1) {
        settle(fanout, &chunk->rows[0], &answer->verdicts[0]);
        return;
    }
    metric_add(fanout->metrics, FANOUT_M_REFINED, answer->kind == PROVIDER_ANSWER_TOO_MANY ? 2 : 1, 1);
    ready_halve(&fanout->ready, chunk->rows, chunk->count);
}

/* Projects as the provider names them; remembered for the devices. */
static void split(struct fanout *fanout, struct chunk *chunk, const struct provider_answer *answer)
{
    for (size_t i = 0; i < chunk->count; i++) {
        size_t project = memory_project_named(&fanout->memory, answer->projects[i]);
        while (fanout->rate.count < fanout->memory.project_count)
            rate_add_project(&fanout->rate);
        if (project == 0)
            continue;
        chunk->rows[i].project = (uint32_t)project;
        memory_set_project(&fanout->memory, chunk->rows[i].device_id, project);
    }
    if (ready_split(&fanout->ready, chunk->rows, answer->projects, chunk->count) < 2)
        halve(fanout, chunk, answer); /* the details say nothing */
    else
        metric_add(fanout->metrics, FANOUT_M_REFINED, 0, 1);
}

void judge_chunk(struct fanout *fanout, struct chunk *chunk, const struct provider_answer *answer)
{
    enum course course = courses[answer->kind].course;
    note_health(fanout, chunk, answer);
    if (course == SPLIT) {
        split(fanout, chunk, answer);
    } else if (course == HALVE) {
        halve(fanout, chunk, answer);
    } else {
        for (size_t i = 0; i < chunk->count; i++) {
            if (course == AGAIN)
                again_refused(fanout, &chunk->rows[i], &answer->verdicts[i], true);
            else
                settle(fanout, &chunk->rows[i], &answer->verdicts[i]);
        }
    }
}
