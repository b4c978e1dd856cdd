/* What the files of src/fanout share: the state of the one fan-out thread. Private to src/fanout.
 *
 * A dispatch is, one after the other: unsent (its ordinal stands in a held batch's ranges) · ready (its
 * window left `unsent`, it waits for a request) · in flight (in a chunk) · again (certainly not accepted, on
 * its way back to unsent) or owed (its outcome is not yet acknowledged by Kafka). A batch's row goes when all
 * its dispatches are through. Ready, in flight, again and owed together never pass one window beside what is
 * suppressed, so a crash costs at most one window's pushes (design.md §5). */
#ifndef BELFRY_FANOUT_STATE_H
#define BELFRY_FANOUT_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/buffer.h"
#include "base/log.h"
#include "breaker.h"
#include "fanout/fanout.h"
#include "io/kafka.h"
#include "memory.h"
#include "rate.h"
#include "ready.h"
#include "remote/preferences.h"
#include "remote/provider.h"
#include "store/window.h"

enum {
    FANOUT_CHUNK_MAX = 100,  /* messages of a chunk: what the provider takes */
    FANOUT_SLOTS_MAX = 6,    /* requests at once */
    FANOUT_HELD_MAX = 4096,  /* batches at once, whatever batches_in_memory says */
    FANOUT_RANGES_MAX = 32,  /* of a batch held in memory; more are read again later */
    FANOUT_URGENT_EXTRA = 8, /* places for urgent batches when all others are taken */
    FANOUT_LEFT_EXTRA = 4,   /* places for what dead owners left while the provider is away */
    FANOUT_TRACEPARENT_MAX = 128,
    FANOUT_WINDOW_RANGES_MAX = FANOUT_SLOTS_MAX * FANOUT_CHUNK_MAX,
    FANOUT_LINES_MAX = 10,
    FANOUT_WINDOWS_MAX = 32,    /* whose rows are not all through */
    FANOUT_PACE_MS = 5,         /* waiting for the rate to let rows go */
    FANOUT_TICK_MS = 20,        /* waiting for answers and acknowledgements */
    FANOUT_CONSULT_TICK_MS = 2, /* the same while the account service is asked: its answer has little time */
    FANOUT_IDLE_MS = 200        /* waiting for work: how late a stop is noticed */
};

/* A batch whose lease is ours. */
struct held {
    bool used;
    int64_t batch_id;
    bool urgent;
    bool handed;  /* came through the hand-over queue: its place there is given back at the end */
    bool lost;    /* another process has it now: what is in flight is still reported, the row is not ours */
    bool partial; /* more is unsent than the ranges below: the row is let go and taken again later */
    int64_t wait_until_ms; /* not before: what is unsent beside them is of a paused project; 0: at once */
    bool check;            /* a former owner may have risked ordinals: they come before any window of ours */
    int64_t check_after;
    struct window_range ranges[FANOUT_RANGES_MAX]; /* unsent; empty ones are not kept */
    size_t range_count;
    size_t in_flight; /* ready, in a chunk, or again: whose outcome is open */
    size_t owed;
};

/* A window's rows live until the last of them is settled or on its way back. */
struct window {
    struct db_result *rows; /* NULL: free */
    size_t refs;
};

struct chunk {
    bool used;
    bool trial;   /* of the open breaker */
    bool counted; /* the rate has it in a cell */
    int64_t sent_ms;
    size_t count;
    struct ready_row rows[FANOUT_CHUNK_MAX]; /* in request order */
};

enum consult_state { CONSULT_EMPTY, CONSULT_ASKED, CONSULT_READY };

/* The next window of an urgency: ordinals still in `unsent`, and what their recipients want. */
struct consult {
    enum consult_state state;
    int64_t ready_at_ms;
    struct window_range ranges[FANOUT_WINDOW_RANGES_MAX];
    size_t range_count;
    struct preferences_batch *answers; /* good until the next question, also for a window just taken */
};

/* A dispatch on its way back to unsent. */
struct again {
    int64_t dispatch_id;
    int64_t wait_until_ms; /* 0, or others may be sent before that and it may not */
};

enum owed_state { OWED_FREE, OWED_WAITING, OWED_SENT };

/* One outcome on its way to Kafka: kept until it is acknowledged. */
struct owed {
    enum owed_state state;
    int64_t batch_id;
    int64_t retry_at_ms;
    struct buffer value;
    char traceparent[FANOUT_TRACEPARENT_MAX + 1];
};

/* At most FANOUT_LINES_MAX lines a second of a kind; how many were left out is said by the next. */
struct quiet {
    int64_t since_ms;
    int lines;
    int64_t skipped;
};

struct fanout {
    struct fanout_setup setup;
    const struct clock *clock;
    struct db *db;
    struct db_params params;
    struct window_scope scope;
    struct backoff db_backoff;
    struct log_gate db_gate;
    bool fit;     /* the database was, once */
    bool refused; /* before that: as refusal says */
    struct fault refusal;
    int64_t db_retry_at_ms;
    bool db_begun; /* a connect is under way, or failed and nobody has said so */
    struct provider *provider;
    struct kafka_producer *producer;
    struct metric_set *metrics;
    size_t readiness_slot, provider_slot;

    struct preferences *preferences;           /* NULL: everything is allowed, and nothing below is used */
    struct consult consults[2];                /* normal, urgent */
    struct consult *consulted;                 /* of the window that is being taken */
    struct preferences_state preferences_said; /* as last logged */
    struct quiet quiet_preferences;

    size_t slots, chunk_size; /* a window is slots * chunk_size */
    struct window windows[FANOUT_WINDOWS_MAX];
    struct ready ready;
    struct chunk chunks[FANOUT_SLOTS_MAX];
    size_t in_flight;    /* messages in chunks */
    struct again *again; /* on their way back to unsent; a window's worth */
    size_t again_count;
    size_t risked; /* messages ready, in flight, again */
    struct memory memory;
    struct rate rate;
    struct breaker breaker;
    uint64_t trials;       /* while it was open */
    int64_t trial_last[2]; /* the dispatches last tried: normal, urgent */

    struct held *held;
    size_t held_max;
    struct owed *owed;
    size_t owed_max, owed_used;

    int64_t renew_at_ms, sweep_at_ms, left_at_ms, backlog_at_ms;
    bool backlog;           /* the table gave as many batches as were asked for: there may be more */
    bool left_more;         /* the same of those that dead owners left */
    bool was_up;            /* the database, once */
    int64_t takeover_at_ms; /* others' batches are not taken before: their owners were cut off too */
    bool topic_stopped;
    unsigned reloads; /* SIGHUPs seen */
    struct quiet quiet_answers[PROVIDER_ANSWER_KINDS];
};

static inline int64_t fanout_now_ms(const struct fanout *fanout)
{
    return clock_monotonic_ms(fanout->clock);
}

/* Whether a line of this kind may be logged now; *skipped: how many were not since the last. */
bool fanout_may_log(struct fanout *fanout, struct quiet *quiet, int64_t *skipped);
/* A statement failed: logs it, and for ST_RETRY and ST_STOP says so in readiness. Returns the status. */
enum status fanout_db_failed(struct fanout *fanout, enum status status, const struct fault *fault);

/* Something is unsent, or to be looked at, in a batch we hold. */
bool fanout_has_work(const struct fanout *fanout);

/* ---- metrics.c ----------------------------------------------------------------------------------------- */

enum fanout_metric {
    FANOUT_M_OUTCOMES, /* by result: sent, failed, suppressed */
    FANOUT_M_BATCHES,  /* by end: handed, taken, finished, lost, released */
    FANOUT_M_WINDOWS,
    FANOUT_M_RISKED,
    FANOUT_M_HELD,
    FANOUT_M_IN_FLIGHT,
    FANOUT_M_OWED,
    FANOUT_M_READY,
    FANOUT_M_AGAIN,   /* by reason */
    FANOUT_M_REFINED, /* by why */
    FANOUT_M_BREAKER,
    FANOUT_M_OPENINGS,
    FANOUT_M_RATE,
    FANOUT_M_STAGE_SECONDS,
    FANOUT_M_STAGE_IN_FLIGHT,
    FANOUT_M_OLDEST,
    FANOUT_M_COUNT
};
enum fanout_batch_event { FANOUT_HANDED, FANOUT_TAKEN, FANOUT_FINISHED, FANOUT_LOST, FANOUT_RELEASED };

struct metric_set *fanout_metrics_add(struct metrics *metrics);
/* Certainly not accepted, and not given up: by the reason it would have failed with. */
void fanout_metrics_again(const struct fanout *fanout, const char *error);
/* The gauges. */
/* The label of a stage. */
size_t fanout_metrics_stage(const char *name);
/* Asks the table now and then how long its oldest batches have waited; part of the stage sweep. */
enum status backlog_run(struct fanout *fanout, struct fault *fault);
void fanout_metrics_show(const struct fanout *fanout);

/* ---- held.c -------------------------------------------------------------------------------------------- */

/* The first of these ranges, at most *want ordinals, which is lowered; returns how many ranges were written.
 */
size_t held_copy_prefix(const struct window_range *from, size_t from_count, size_t *want,
                        struct window_range *to);
/* NULL when we do not hold it. */
struct held *held_find(struct fanout *fanout, int64_t batch_id);
/* NULL when there is no place left. */
struct held *held_add(struct fanout *fanout, int64_t batch_id, bool urgent);
void held_add_range(struct held *held, struct window_range range);
/* Whether the range is unsent as a whole. */
bool held_has_range(const struct held *held, const struct window_range *range);
/* Takes a range out that held_has_range. */
void held_take_range(struct held *held, const struct window_range *range);
/* The same in its place, for ordinals that are unsent again. */
void held_put_back(struct held *held, struct window_range range);
/* Gives the place back, also in the hand-over queue. */
void held_drop(struct fanout *fanout, struct held *held);
size_t held_count(const struct fanout *fanout);
/* Everything of it that is ours to do is done and acknowledged. */
bool held_is_settled(const struct held *held);
void held_mark_lost(struct fanout *fanout, struct held *held);

/* ---- publish.c ----------------------------------------------------------------------------------------- */

struct verdict {
    enum dispatch_state outcome;         /* sent, failed or suppressed */
    const char *error, *ticket, *detail; /* "" when none */
    int attempt;                         /* 0: the first */
};

/* Room for more outcomes beside those that the messages at risk will bring. */
size_t publish_room(const struct fanout *fanout);
/* The outcome of a window's row; publish_room was asked before. Asserts that the batch is held. */
void publish_add(struct fanout *fanout, const struct window_row *row, const struct verdict *verdict);
/* Messages sent to the producer, deliveries served without waiting. ST_FATAL of Kafka. */
enum status publish_run(struct fanout *fanout, struct fault *fault);
/* kafka_producer_options.on_delivery */
void publish_on_delivery(void *context, int64_t opaque, enum status status, const struct fault *fault);

/* ---- consult.c ----------------------------------------------------------------------------------------- */

/* Opens the client of the account service, when there is one. */
enum status consult_open(struct fanout *fanout, struct fault *fault);
void consult_close(struct fanout *fanout);
/* The stage: asks for the next windows' recipients, and never waits. */
enum status consult_run(struct fanout *fanout, struct fault *fault);
/* An answer is awaited. */
bool consult_is_waiting(const struct fanout *fanout);
void consult_wait(struct fanout *fanout, int timeout_ms);
/* Whether consult_choose would give an urgent window. */
bool consult_is_urgent_next(struct fanout *fanout);
/* The next window: at most want ordinals whose recipients' answers are known, of one urgency, urgent first.
 * Returns how many ranges. */
size_t consult_choose(struct fanout *fanout, size_t want, struct window_range *ranges);
/* These ranges of consult_choose were taken out of `unsent`, or lost. */
void consult_taken(struct fanout *fanout, size_t range_count, const struct window_range *ranges);
/* The recipient wants no such push. Of a row of the window consult_choose gave. */
bool consult_refuses(const struct fanout *fanout, const struct window_row *row);

/* ---- fence.c, send.c, sweep.c: the stages ----------------------------------------------------------------
 */

/* Whether the next window is an urgent one if there is work of both urgencies: always, but for trials. */
bool fence_urgent_first(const struct fanout *fanout);
/* Ordinals of ready batches of this urgency, at most want; returns how many ranges. Oldest first; for a trial
 * those behind the last one, round and round. */
size_t fence_choose(struct fanout *fanout, bool urgent, size_t want, struct window_range *ranges);
/* One window into ready, when there are free requests and work, and the provider may be asked. */
enum status fence_run(struct fanout *fanout, struct fault *fault);
/* Whether a push might leave now: the breaker lets it, and not every project is paused. */
bool fence_provider_takes(const struct fanout *fanout);
/* Whether fence_run would take one, had it work. */
bool fence_may_take(const struct fanout *fanout);
/* One reference less. */
void fence_let_go(struct window *window);

/* Ready rows into requests as the rate and the breaker let them; takes answers, and waits a tick for the
 * first when something is in flight. */
enum status send_run(struct fanout *fanout, struct fault *fault);
/* The outcome of a row at risk. */
void send_settle_row(struct fanout *fanout, const struct ready_row *row, const struct verdict *verdict);
/* judge.c: what becomes of the rows of a chunk that ended. */
void judge_chunk(struct fanout *fanout, struct chunk *chunk, const struct provider_answer *answer);
/* What is in flight counts as Unconfirmed: the time to wait for it is over. */
void send_give_up(struct fanout *fanout);

/* A row at risk goes back to unsent: it was never in a request. */
void again_unsent(struct fanout *fanout, const struct ready_row *row);
/* The same for one that was certainly not accepted: it counts as a try while the breaker is closed, and after
 * send_attempts of them it has failed. by_provider: the provider, or that it could not be reached, said so.
 */
void again_refused(struct fanout *fanout, const struct ready_row *row, const struct provider_verdict *verdict,
                   bool by_provider);
/* All that is ready, or what is of one project. */
void again_all_ready(struct fanout *fanout);
void again_ready_of(struct fanout *fanout, uint32_t project);
/* The stage: into the database's unsent, and the held batches'. */
enum status again_run(struct fanout *fanout, struct fault *fault);

/* Takes what ingest handed over; waits for it at most timeout_ms. */
void sweep_take_handed(struct fanout *fanout, int timeout_ms);
/* Leases, batches from the table, ordinals that a dead owner risked. */
enum status sweep_run(struct fanout *fanout, struct fault *fault);
/* Deletes rows whose outcomes are all acknowledged. */
enum status sweep_finish(struct fanout *fanout, struct fault *fault);
/* Ends all leases, putting back what was not begun. */
enum status sweep_release(struct fanout *fanout, struct fault *fault);

/* ---- topic.c --------------------------------------------------------------------------------------------
 */

/* Waits for the receipts topic, asking once a second; says once why it waits. ST_OK: it is there, or the stop
 * was asked for · ST_FATAL. */
MUST_USE enum status topic_wait(struct fanout *fanout, struct fault *fault);

#endif
