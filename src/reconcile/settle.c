/* Every 200 ms: who writes notifications now -> settled.bound. Always holds: the bound only rises, and stays
 * below whatever can still commit. A crash here makes *newer* pages wait, never wrong. */
#include "private.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/signals.h"
#include "store/outbox.h"
#include "store/receipt.h"
#include "store/settle.h"

enum { SETTLE_EVERY_MS = 200, DUE_EVERY_MS = 5000 };

/* The built-in feed and the relation it is read from: the one the dispatcher writes. */
#define FEED "notifications"

struct settle {
    struct session session;
    int64_t bound_us;
    int64_t moved_us;                /* the bound as last moved; 0: not yet */
    int64_t due_at_ms, outbox_at_ms; /* when to ask again for the oldest that is due, that is unpublished */
    bool prepared;                   /* prepared transactions hold the bound: said so */
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
    settle->moved_us = settle->bound_us;
    return ST_OK;
}

/* Of the poll loop's queue: told here, because that loop waits for the provider. */
static enum status tell_due(void *context, struct fault *fault)
{
    struct settle *settle = context;
    struct session *session = &settle->session;
    int64_t due_us = 0;
    enum status status = receipts_oldest(session->db, &due_us, fault);
    if (status != ST_OK)
        return status;
    metric_put(session->metrics, M_RECEIPTS_DUE, 0, (double)due_us / 1e6);
    settle->due_at_ms = clock_monotonic_ms(session->clock) + DUE_EVERY_MS;
    return ST_OK;
}

static bool due_is_old(const void *context)
{
    const struct settle *settle = context;
    return clock_monotonic_ms(settle->session.clock) >= settle->due_at_ms;
}

/* Of the publish loop's queue: told here, because that loop waits for the topic, and then it matters most. */
static enum status tell_outbox(void *context, struct fault *fault)
{
    struct settle *settle = context;
    struct session *session = &settle->session;
    int64_t age_us = 0;
    enum status status = outbox_oldest(session->db, &age_us, fault);
    if (status != ST_OK)
        return status;
    metric_put(session->metrics, M_SETTLED_OLDEST, 0, (double)age_us / 1e6);
    settle->outbox_at_ms = clock_monotonic_ms(session->clock) + DUE_EVERY_MS;
    return ST_OK;
}

static bool outbox_is_old(const void *context)
{
    const struct settle *settle = context;
    return reconcile_announces(settle->session.setup) &&
           clock_monotonic_ms(settle->session.clock) >= settle->outbox_at_ms;
}

static const struct stage stages[] = {{"settle_read", look, NULL},
                                      {"settle_move", move, NULL},
                                      {"settle_due", tell_due, due_is_old},
                                      {"settle_outbox", tell_outbox, outbox_is_old}};

/* The age rises while the bound does not move, the database away included. */
static void show_age(const struct settle *settle)
{
    const struct session *session = &settle->session;
    double age_s = (double)(clock_wall_us(session->clock) - settle->moved_us) / 1e6;
    if (settle->moved_us > 0)
        metric_put(session->metrics, M_SETTLE_AGE, 0, age_s > 0 ? age_s : 0);
}

static enum status settle_wait(void *context, int64_t wait_ms, struct fault *fault)
{
    show_age(context);
    return session_wait(context, wait_ms, fault);
}

enum status settle_new(const struct reconcile_setup *setup, struct metric_set *metrics,
                       struct settle **settle, struct fault *fault)
{
    struct settle *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for the settle loop");
        return ST_FATAL;
    }
    made->session =
        (struct session){.name = "settle", .metrics = metrics, .wait = settle_wait, .context = made};
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
        show_age(settle);
        if (status == ST_OK)
            readiness_ready(session->setup->readiness, session->slot);
        session_sleep(SETTLE_EVERY_MS - (clock_monotonic_ms(session->clock) - from_ms));
    }
    return ST_OK;
}
