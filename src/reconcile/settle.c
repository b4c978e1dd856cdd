/* Every 200 ms: who writes notifications now -> settled.bound. Always holds: the bound only rises, and stays
 * below whatever can still commit. A crash here makes *newer* pages wait, never wrong. */
#include "private.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/signals.h"
#include "store/settle.h"

enum { SETTLE_EVERY_MS = 200 };

/* The built-in feed and the relation it is read from: the one the dispatcher writes. */
#define FEED "notifications"

struct settle {
    struct session session;
    int64_t bound_us;
    bool prepared; /* prepared transactions hold the bound: said so */
};

static enum status look(void *context, struct fault *fault)
{
    struct settle *settle = context;
    struct session *session = &settle->session;
    int64_t bound_us = 0, prepared = 0;
    enum status status = settle_read(session->db, FEED, &bound_us, &prepared, fault);
    if (status != ST_OK)
        return status;
    if (prepared > 0 && !settle->prepared)
        log_event(LOG_WARN, "SETTLE-PREPARED", "prepared transactions hold the bound of the newer-walk",
                  log_int("count", prepared));
    settle->prepared = prepared > 0;
    settle->bound_us = prepared > 0 ? 0 : bound_us;
    metric_put(session->metrics, M_SETTLE_PREPARED, 0, (double)prepared);
    return ST_OK;
}

static enum status move(void *context, struct fault *fault)
{
    struct settle *settle = context;
    struct session *session = &settle->session;
    if (settle->bound_us == 0)
        return ST_OK;
    enum status status = settle_move(session->db, FEED, settle->bound_us, fault);
    if (status != ST_OK)
        return status;
    double age_s = (double)(clock_wall_us(session->clock) - settle->bound_us) / 1e6;
    metric_put(session->metrics, M_SETTLE_AGE, 0, age_s > 0 ? age_s : 0);
    return ST_OK;
}

static const struct stage stages[] = {{"settle_read", look, NULL}, {"settle_move", move, NULL}};

enum status settle_new(const struct reconcile_setup *setup, struct metric_set *metrics,
                       struct settle **settle, struct fault *fault)
{
    struct settle *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for the settle loop");
        return ST_FATAL;
    }
    made->session =
        (struct session){.name = "settle", .metrics = metrics, .wait = session_wait, .context = made};
    enum status status = session_open(&made->session, setup, fault);
    if (status != ST_OK) {
        settle_free(made);
        return status;
    }
    *settle = made;
    return ST_OK;
}

void settle_free(struct settle *settle)
{
    if (settle == NULL)
        return;
    session_done(&settle->session);
    free(settle);
}

enum status settle_run(struct settle *settle, struct fault *fault)
{
    struct session *session = &settle->session;
    while (!signals_stopping()) {
        int64_t from_ms = clock_monotonic_ms(session->clock);
        enum status status = session_run(session, stages, sizeof stages / sizeof stages[0], fault);
        if (status == ST_FATAL)
            return status;
        if (status == ST_OK)
            readiness_ready(session->setup->readiness, session->slot);
        session_sleep(SETTLE_EVERY_MS - (clock_monotonic_ms(session->clock) - from_ms));
    }
    return ST_OK;
}
