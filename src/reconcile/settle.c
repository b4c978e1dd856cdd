/* Every 200 ms: who writes now, notifications and what belfry_stamp stamps -> their settled.bound. Always
 * holds: a bound only rises, and stays below whatever can still commit. A crash here makes *newer* pages
 * wait, never wrong. */
#include "private.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/signals.h"
#include "store/outbox.h"
#include "store/receipt.h"
#include "store/settle.h"

enum { SETTLE_EVERY_MS = 200, DUE_EVERY_MS = 5000 };

struct settle {
    struct session session;
    struct settle_bounds seen;
    struct settle_bounds moved;      /* as last moved; bound_us 0: not yet */
    int64_t due_at_ms, outbox_at_ms; /* when to ask again for the oldest that is due, that is unpublished */
    bool prepared;                   /* prepared transactions hold a bound: said so */
    bool left_out;                   /* there are too many feeds: said so */
};

static enum status look(void *context, struct fault *fault)
{
    struct settle *settle = context;
    struct session *session = &settle->session;
    int64_t prepared = 0;
    enum status status = settle_read(session->db, &settle->seen, fault);
    if (status != ST_OK)
        return status;
    for (size_t i = 0; i < settle->seen.count; i++)
        prepared += settle->seen.of[i].prepared;
    if (prepared > 0 && !settle->prepared)
        log_event(LOG_WARN, "SETTLE-PREPARED", "prepared transactions hold the bound of a newer-walk",
                  log_int("count", prepared));
    if (settle->seen.left_out > 0 && !settle->left_out)
        log_event(LOG_WARN, "SETTLE-MANY", "more relations carry belfry_stamp than bounds are moved for",
                  log_count("left_out", settle->seen.left_out));
    settle->prepared = prepared > 0;
    settle->left_out = settle->seen.left_out > 0;
    metric_put(session->metrics, M_SETTLE_PREPARED, 0, (double)prepared);
    return ST_OK;
}

/* Where the feed's bound was moved to; 0: not by us yet. */
static int64_t moved_to(const struct settle *settle, const char *feed)
{
    for (size_t i = 0; i < settle->moved.count; i++)
        if (strcmp(settle->moved.of[i].feed, feed) == 0)
            return settle->moved.of[i].bound_us;
    return 0;
}

static enum status move(void *context, struct fault *fault)
{
    struct settle *settle = context;
    enum status status = settle_move(settle->session.db, &settle->seen, fault);
    if (status != ST_OK)
        return status;
    for (size_t i = 0; i < settle->seen.count; i++)
        if (settle->seen.of[i].prepared > 0)
            settle->seen.of[i].bound_us = moved_to(settle, settle->seen.of[i].feed);
    settle->moved = settle->seen; /* a relation that went is not waited for */
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

/* Of the feed that is furthest behind. It rises while a bound does not move, the database away included. */
static void show_age(const struct settle *settle)
{
    const struct session *session = &settle->session;
    int64_t now_us = clock_wall_us(session->clock), oldest_us = now_us;
    bool any = false;
    for (size_t i = 0; i < settle->moved.count; i++) {
        int64_t bound_us = settle->moved.of[i].bound_us;
        any = any || bound_us > 0;
        if (bound_us > 0 && bound_us < oldest_us)
            oldest_us = bound_us;
    }
    if (any)
        metric_put(session->metrics, M_SETTLE_AGE, 0, (double)(now_us - oldest_us) / 1e6);
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
