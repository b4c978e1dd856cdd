/* settled_outbox in, belfry.settled out (contracts/events.md): take what waits in id order, send it, remove
 * what all in-sync replicas have. Always holds: one process at a time publishes, by a lease; a row leaves the
 * table only after its acknowledgement; what is in memory is at most one page of rows. A crash anywhere: the
 * rows are still there, and whoever has the lease next publishes them again.
 *
 * A page is held no longer than the lease: then the client is dropped with what it owes, and the outbox is
 * read anew. So a broker that comes back after hours gets no record of a user who was erased meanwhile, and
 * another process, which may reach it, has its turn. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/signals.h"
#include "io/kafka.h"
#include "private.h"
#include "store/outbox.h"

enum {
    ARENA_BYTES_MAX =
        16 << 20, /* a record has at most 4 KiB: two ids of 200 bytes, six for each when escaped */
    OWED_BYTES_MAX = 16 << 20,
    IDLE_MS = 200,
    LEASE_ASK_MS = 1000, /* while another process has it */
    RESCAN_MS = 1000,    /* pages go on where the last one ended for so long: removed rows lie before it */
    SLICE_MS = 200,
    PATIENCE_MS = 5000, /* without an acknowledgement; then it is said, and tried on */
    LAST_MS = 500       /* for what is in flight when the process stops */
};

struct publish {
    struct session session;
    struct kafka_producer *producer; /* NULL: made when there is something to send */
    bool found;                      /* the topic was there, once */
    struct arena arena;              /* of the page */
    struct outbox_rows rows;
    size_t acked;
    bool full; /* the page: more may wait */
    int64_t after, rescan_ms;
    int64_t held_until_ms, ask_ms; /* monotonic */
    enum status refused;           /* by the broker, since it was last looked at */
    struct fault refusal;
};

static int64_t now_ms(const struct publish *publish)
{
    return clock_monotonic_ms(publish->session.clock);
}

static void drop_page(struct publish *publish)
{
    publish->rows = (struct outbox_rows){.arena = &publish->arena};
    publish->acked = 0;
}

/* ---- topic, lease, take ------------------------------------------------------------------------------- */

static bool lacks_topic(const void *context)
{
    return !((const struct publish *)context)->found;
}

static enum status stage_topic(void *context, struct fault *fault)
{
    struct publish *publish = context;
    const struct reconcile_setup *setup = publish->session.setup;
    enum status status = topic_find(setup, setup->settled_topic, fault);
    publish->found = status == ST_OK;
    return status;
}

static bool lease_is_due(const void *context)
{
    const struct publish *publish = context;
    return now_ms(publish) >= publish->ask_ms;
}

static enum status stage_lease(void *context, struct fault *fault)
{
    struct publish *publish = context;
    const struct reconcile_setup *setup = publish->session.setup;
    int64_t from_ms = now_ms(publish), lease_ms = setup->settings->lease_ms;
    bool held = false;
    enum status status = outbox_lease(publish->session.db, setup->owner, lease_ms, &held, fault);
    if (status != ST_OK)
        return status;
    publish->held_until_ms = held ? from_ms + lease_ms : 0;
    publish->ask_ms = from_ms + (held || lease_ms / 3 < LEASE_ASK_MS ? lease_ms / 3 : LEASE_ASK_MS);
    return ST_OK;
}

static bool holds_lease(const void *context)
{
    const struct publish *publish = context;
    return now_ms(publish) < publish->held_until_ms && !signals_stopping();
}

static enum status stage_take(void *context, struct fault *fault)
{
    struct publish *publish = context;
    drop_page(publish);
    arena_reset(&publish->arena);
    if (now_ms(publish) >= publish->rescan_ms) {
        publish->after = 0;
        publish->rescan_ms = now_ms(publish) + RESCAN_MS;
    }
    enum status status = outbox_take(publish->session.db, publish->session.setup->owner, publish->after,
                                     &publish->rows, fault);
    if (status != ST_OK)
        return status;
    publish->full = publish->rows.count == OUTBOX_ROWS_MAX;
    publish->after = publish->full ? publish->rows.rows[publish->rows.count - 1].id : 0;
    return ST_OK;
}

/* ---- send --------------------------------------------------------------------------------------------- */

static void on_delivery(void *context, int64_t opaque, enum status status, const struct fault *fault)
{
    struct publish *publish = context;
    publish->rows.rows[opaque].fate = status == ST_OK ? OUTBOX_ACKED : OUTBOX_WAITS;
    publish->acked += status == ST_OK;
    if (status == ST_OK || publish->refused != ST_OK)
        return;
    publish->refused = status;
    publish->refusal = *fault;
}

static enum status open_producer(struct publish *publish, struct fault *fault)
{
    static char client_name[] = "publish";
    const struct reconcile_setup *setup = publish->session.setup;
    struct kafka_producer_options options = {.client = {.properties = setup->kafka,
                                                        .client_name = "belfry-reconciler-settled",
                                                        .on_notice = kafka_notice_log,
                                                        .notice_context = client_name,
                                                        .metrics = setup->metrics},
                                             .records_max = OUTBOX_ROWS_MAX,
                                             .bytes_max = OWED_BYTES_MAX,
                                             .context = publish,
                                             .on_delivery = on_delivery};
    return publish->producer != NULL ? ST_OK : kafka_producer_open(&options, &publish->producer, fault);
}

static enum status send_row(struct publish *publish, size_t index, struct fault *fault)
{
    struct outbox_row *row = &publish->rows.rows[index];
    char key[24];
    snprintf(key, sizeof key, "%" PRId64, row->dispatch_id);
    struct kafka_message message = {.topic = publish->session.setup->settled_topic,
                                    .partition = -1,
                                    .key = span_of(key),
                                    .value = row->record,
                                    .opaque = (int64_t)index,
                                    .timestamp_ms = -1};
    row->fate = OUTBOX_SENT; /* before the call: a delivery may be served inside */
    enum status status = kafka_producer_send(publish->producer, &message, fault);
    if (status != ST_OK)
        row->fate = OUTBOX_WAITS;
    return status;
}

/* What is to be sent, as far as the client takes it, then one look at what came back. */
static enum status send_round(struct publish *publish, struct fault *fault)
{
    enum status status = open_producer(publish, fault);
    for (size_t i = 0; status == ST_OK && i < publish->rows.count; i++) {
        if (publish->rows.rows[i].fate == OUTBOX_WAITS)
            status = send_row(publish, i, fault);
    }
    if (status == ST_OK || status == ST_RETRY) /* full: some have to be acknowledged first */
        status = kafka_producer_poll(publish->producer, SLICE_MS, fault);
    CRASH_POINT("publish_sent"); /* some are acknowledged by now, some are not */
    return status;
}

static enum status say_refused(struct publish *publish, enum status status, struct fault *fault)
{
    if (publish->refused != ST_OK)
        *fault = publish->refusal;
    publish->refused = ST_OK;
    reconcile_count(publish->session.metrics, M_SETTLED_FAILURES, "refused", 1);
    return status == ST_FATAL ? ST_FATAL
                              : ST_STOP; /* missing, forbidden, too small: an operator has to act */
}

/* ---- remove ------------------------------------------------------------------------------------------- */

static bool has_acked(const void *context)
{
    return ((const struct publish *)context)->acked > 0;
}

static enum status stage_done(void *context, struct fault *fault)
{
    struct publish *publish = context;
    struct outbox_counts counts;
    enum status status = outbox_done(publish->session.db, &publish->rows, &counts, fault);
    if (status != ST_OK)
        return status;
    reconcile_count(publish->session.metrics, M_SETTLED_PUBLISHED, NULL, (int64_t)publish->acked);
    log_event(LOG_DEBUG, "PUBLISH-PAGE", "settled outcomes published", log_count("records", publish->acked),
              log_int("removed", counts.gone), log_int("again", counts.again));
    drop_page(publish);
    return ST_OK;
}

/* The lease ended with records that nobody acknowledged: forgets them, and reads the outbox anew if it is
 * still this process's turn. The client goes first: what it has not sent by then it never will. */
static enum status begin_again(struct publish *publish, struct fault *fault)
{
    enum status status = ST_OK;
    if (publish->producer != NULL) {
        status = kafka_producer_poll(publish->producer, 0, fault); /* what came while we stood still */
        log_event(LOG_WARN, "PUBLISH-LATE", "the lease ended with records in hand; the outbox is read again",
                  log_count("unacknowledged", publish->rows.count - publish->acked));
        reconcile_count(publish->session.metrics, M_SETTLED_FAILURES, "late", 1);
    }
    if (status == ST_FATAL)
        return status;
    kafka_producer_close(publish->producer, 0);
    publish->producer = NULL;
    publish->after = 0;
    status = stage_done(publish, fault);
    if (status == ST_OK)
        status = stage_lease(publish, fault);
    return status == ST_OK && holds_lease(publish) ? stage_take(publish, fault) : status;
}

static bool has_rows(const void *context)
{
    return ((const struct publish *)context)->rows.count > 0;
}

static enum status stage_send(void *context, struct fault *fault)
{
    struct publish *publish = context;
    int64_t heard_ms = now_ms(publish), last_ms = INT64_MAX;
    while (publish->acked < publish->rows.count && now_ms(publish) < last_ms) {
        size_t acked = publish->acked;
        bool late = now_ms(publish) >= publish->held_until_ms;
        enum status status = late ? begin_again(publish, fault) : send_round(publish, fault);
        if (late && status != ST_OK)
            return status;
        if (status != ST_OK || publish->refused != ST_OK)
            return say_refused(publish, status, fault);
        if (publish->acked > acked)
            heard_ms = now_ms(publish);
        if (now_ms(publish) - heard_ms >= PATIENCE_MS) {
            fault_set(fault, "settled", "%zu records wait for %s to acknowledge them",
                      publish->rows.count - publish->acked, publish->session.setup->settled_topic);
            return ST_RETRY;
        }
        if (signals_stopping() && last_ms == INT64_MAX)
            last_ms = now_ms(publish) + LAST_MS;
    }
    return ST_OK;
}

/* "publish_send" is the crash point with a page in hand, "publish_done" with all of it acknowledged. */
static const struct stage stages[] = {{"publish_topic", stage_topic, lacks_topic},
                                      {"publish_lease", stage_lease, lease_is_due},
                                      {"publish_take", stage_take, holds_lease},
                                      {"publish_send", stage_send, has_rows},
                                      {"publish_done", stage_done, has_acked}};

/* ---- the loop ---------------------------------------------------------------------------------------------
 */

/* A wait between two tries: what is acknowledged meanwhile ends it. */
static enum status publish_wait(void *context, int64_t wait_ms, struct fault *fault)
{
    struct publish *publish = context;
    int64_t until_ms = now_ms(publish) + wait_ms;
    size_t acked = publish->acked;
    while (publish->producer != NULL && publish->acked == acked && !signals_stopping() &&
           now_ms(publish) < until_ms) {
        enum status status = kafka_producer_poll(publish->producer, SLICE_MS, fault);
        if (status == ST_FATAL)
            return status;
    }
    if (publish->acked == acked)
        session_sleep(until_ms - now_ms(publish));
    return ST_OK;
}

enum status publish_new(const struct reconcile_setup *setup, struct metric_set *metrics,
                        struct publish **publish, struct fault *fault)
{
    struct publish *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for the publish loop");
        return ST_FATAL;
    }
    made->session =
        (struct session){.name = "publish", .metrics = metrics, .wait = publish_wait, .context = made};
    arena_init(&made->arena, ARENA_BYTES_MAX);
    drop_page(made);
    made->refused = ST_OK;
    enum status status = session_open(&made->session, setup, fault);
    if (status != ST_OK) {
        publish_free(made);
        return status;
    }
    *publish = made;
    return ST_OK;
}

void publish_free(struct publish *publish)
{
    if (publish == NULL)
        return;
    kafka_producer_close(publish->producer, 0);
    session_done(&publish->session);
    arena_done(&publish->arena);
    free(publish);
}

/* Another process need not wait for the lease to run out. The client goes first: a first version it still had
 * could come to the topic behind the second, which the other process publishes. */
static void give_back(struct publish *publish)
{
    struct fault fault;
    bool held = false;
    kafka_producer_close(publish->producer, 0);
    publish->producer = NULL;
    if (now_ms(publish) < publish->held_until_ms && db_is_up(publish->session.db) &&
        outbox_lease(publish->session.db, publish->session.setup->owner, 0, &held, &fault) == ST_OK)
        publish->held_until_ms = 0;
}

enum status publish_run(struct publish *publish, struct fault *fault)
{
    struct session *session = &publish->session;
    while (!signals_stopping()) {
        publish->full = false;
        enum status status = session_run(session, stages, sizeof stages / sizeof stages[0], fault);
        if (status == ST_FATAL)
            return status;
        if (status == ST_OK)
            readiness_ready(session->setup->readiness, session->slot);
        if (!publish->full)
            session_sleep(IDLE_MS);
    }
    give_back(publish);
    return ST_OK;
}
