/* 10,000 random sequences of outcomes, receipts, replays, re-registrations, moved devices and crashes through
 * the reconciler's fold and statements, against the model of model.c.
 *
 *   stage_model [--sequences N] [--seed N]    --seed: that sequence, told step by step
 *
 * Sequences run side by side, a few hundred in one database, a step each in a round: so a batch of the
 * receipts topic, a lease and an answer hold many of them, as in life, and none may feel the others. Every
 * round ends with a look at every row. A sequence is made from its seed and its group's place alone, so
 * --seed runs the whole group that the sequence belongs to. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "model.h"
#include "reconcile_fixture.h"

enum {
    GROUP = 500,
    ROUNDS = 24,
    SEQUENCES = 10000,
    STEP_OUTCOMES = 4,
    HISTORY = 48,
    ASKS = MODEL_DISPATCHES,
    DAY_MS = 24 * 60 * 60 * 1000,
    TEXT_BYTES = 1 << 18
};

enum step {
    STEP_REST,
    STEP_TELL,       /* outcomes, also of others' dispatches */
    STEP_REPLAY,     /* some that were told before, in another order */
    STEP_DEVICE,     /* a registration, a move, an unregistration, or a rewind to an older one */
    STEP_LEASE,      /* a poller takes the batch */
    STEP_READ,       /* … reads what is to be asked for */
    STEP_APPLY,      /* … writes what the provider said */
    STEP_FINISH,     /* … gives the batch back */
    STEP_CRASH,      /* … dies: its lease runs out */
    STEP_LATE_APPLY, /* the dead one was only frozen: it writes its answer */
    STEP_LATE_FINISH /* … and gives back what it thinks is its own */
};
static const char *const step_names[] = {"rest",  "tell",   "replay", "device",     "lease",      "read",
                                         "apply", "finish", "crash",  "late apply", "late finish"};

struct finding {
    int dispatch;
    char ticket[MODEL_TEXT], error[MODEL_TEXT];
    bool answered; /* false: the provider had no receipt */
};

struct pass {
    struct model_lease lease;
    struct finding findings[ASKS];
    int finding_count;
    bool read;
};

struct change {
    int device;
    bool enable, heir;
    int at_min;
};

struct sequence {
    unsigned seed, random;
    int64_t batch;
    struct model model;
    struct pass pass, frozen;
    struct model_outcome history[HISTORY];
    int history_count;
    int clock_min;
    enum step step;
    struct model_outcome told[STEP_OUTCOMES];
    int told_count;
    struct change change;
    bool answered; /* the pass that is finished: ages count */
};

struct figures {
    int64_t steps[STEP_LATE_FINISH + 1], refused, again, statements;
    struct model_counts counts;
};

struct driver {
    struct rec *r;
    struct sequence *sequences; /* of GROUP */
    int count, round;
    long traced; /* the seed of --seed; -1: none */
    unsigned random;
    struct figures figures;
};

static int pick(unsigned *random, int count)
{
    cr_assert(count > 0);
    return rand_r(random) % count;
}

/* ---- making a sequence --------------------------------------------------------------------------------- */

static void make_sequence(struct sequence *s, unsigned seed, int64_t batch)
{
    static const int queued[] = {-60, -50, -40, -26 * 60};
    *s = (struct sequence){.seed = seed, .random = seed * 2654435761U + 1, .batch = batch, .clock_min = -35};
    s->model.dispatch_count = 1 + pick(&s->random, MODEL_DISPATCHES);
    s->model.device_count = 1 + pick(&s->random, MODEL_DEVICES);
    for (int i = 0; i < s->model.device_count; i++)
        s->model.devices[i] = (struct model_device){
            .enabled = true, .registered_min = -3000, .seen_min = -3000, .source_min = -3000};
    for (int i = 0; i < s->model.dispatch_count; i++)
        s->model.dispatches[i] = (struct model_dispatch){.device = pick(&s->random, s->model.device_count),
                                                         .queued_min = queued[pick(&s->random, 4)]};
}

static struct model_outcome make_outcome(struct sequence *s)
{
    static const char *const failures[] = {"Unconfirmed", "Unconfirmed", "DeviceNotRegistered",
                                           "DeviceNotRegistered", "MessageTooBig"};
    static const char *const suppressions[] = {"DeviceChanged", "Preference", "DeviceNotRegistered"};
    struct model_outcome made = {.dispatch = pick(&s->random, s->model.dispatch_count),
                                 .orphan = pick(&s->random, 8) == 0};
    int kind = pick(&s->random, 10), ticket = pick(&s->random, 4);
    made.outcome = kind < 5 ? MODEL_SENT : kind < 9 ? MODEL_FAILED : MODEL_SUPPRESSED;
    if (made.outcome == MODEL_FAILED)
        snprintf(made.text, sizeof made.text, "%s", failures[pick(&s->random, 5)]);
    else if (made.outcome == MODEL_SUPPRESSED)
        snprintf(made.text, sizeof made.text, "%s", suppressions[pick(&s->random, 3)]);
    else if (ticket > 0) /* three tickets for all of a sequence: two rows may have one */
        snprintf(made.text, sizeof made.text, "t-%lld-%d", (long long)s->batch, ticket);
    return made;
}

static void make_tell(struct sequence *s)
{
    s->told_count = 1 + pick(&s->random, STEP_OUTCOMES);
    for (int i = 0; i < s->told_count; i++) {
        bool replay = s->step == STEP_REPLAY && s->history_count > 0;
        s->told[i] = replay ? s->history[pick(&s->random, s->history_count)] : make_outcome(s);
    }
    for (int i = 0; i < s->told_count && s->history_count < HISTORY; i++)
        s->history[s->history_count++] = s->told[i];
}

/* A time of: now; between the dispatches' queueing; long before everything (a rewind). What comes late for a
 * token that is dead already, and is newer than its last word, is left out: the documents do not say. */
static void make_change(struct sequence *s)
{
    int kind = pick(&s->random, 6), device = pick(&s->random, s->model.device_count);
    bool dead = !s->model.devices[device].enabled;
    s->change = (struct change){.device = device, .enable = true, .heir = s->model.devices[device].heir};
    s->change.at_min = kind == 0           ? -4000
                       : kind == 1 && dead ? s->model.devices[device].source_min
                       : kind == 1         ? -55 + 10 * pick(&s->random, 2)
                                           : ++s->clock_min;
    if (kind >= 1 && kind <= 3 && !(kind == 1 && dead))
        s->change.heir = pick(&s->random, 2) == 0;
    if (kind == 4)
        s->change.enable = false;
}

static enum step choose_poll_step(struct sequence *s)
{
    if (s->pass.lease.owner == 0)
        return s->model.queue.there ? STEP_LEASE : pick(&s->random, 2) == 0 ? STEP_TELL : STEP_REST;
    if (pick(&s->random, 8) == 0)
        return STEP_CRASH;
    if (!s->pass.read)
        return pick(&s->random, 6) == 0 ? STEP_FINISH : STEP_READ; /* without an answer: it changes nothing */
    return s->pass.finding_count > 0 ? STEP_APPLY : STEP_FINISH;
}

static void choose_step(struct sequence *s)
{
    int kind = pick(&s->random, 10);
    bool frozen = s->frozen.lease.owner != 0;
    s->step = kind < 2                               ? STEP_TELL
              : kind < 3                             ? STEP_REPLAY
              : kind < 4                             ? STEP_DEVICE
              : kind < 5 && frozen && s->frozen.read ? STEP_LATE_APPLY
              : kind < 5 && frozen                   ? STEP_LATE_FINISH
                                                     : choose_poll_step(s);
    if (s->step == STEP_TELL || s->step == STEP_REPLAY)
        make_tell(s);
    if (s->step == STEP_DEVICE)
        make_change(s);
    s->answered = s->pass.read && pick(&s->random, 2) == 0;
}

/* ---- the database -------------------------------------------------------------------------------------- */

static void put_rows(struct driver *d)
{
    struct buffer sql;
    buffer_init(&sql, 8 << 20);
    buffer_add_text(&sql,
                    "TRUNCATE dispatches, notifications, device_tokens, device_history, receipt_batches,"
                    " settled_outbox;"
                    "SET client_min_messages = warning; DROP TABLE IF EXISTS at, d, v; CREATE TEMP TABLE at "
                    "AS SELECT now() AS t0;"
                    "CREATE TEMP TABLE d (id bigint, device bigint, usr text, min int);"
                    "CREATE TEMP TABLE v (id bigint, usr text);"
                    "INSERT INTO d VALUES ");
    for (int i = 0; i < d->count; i++) {
        const struct sequence *s = &d->sequences[i];
        for (int k = 0; k < s->model.dispatch_count; k++) {
            const struct model_dispatch *m = &s->model.dispatches[k];
            buffer_printf(&sql, "%s(%lld,%lld,'u%lld',%d)", i + k > 0 ? "," : "",
                          (long long)dispatch_id(s->batch, (uint32_t)k),
                          (long long)s->batch * MODEL_DEVICES + m->device, (long long)s->batch,
                          m->queued_min);
        }
    }
    buffer_add_text(&sql, "; INSERT INTO v VALUES ");
    for (int i = 0; i < d->count; i++) {
        const struct sequence *s = &d->sequences[i];
        for (int k = 0; k < s->model.device_count; k++)
            buffer_printf(&sql, "%s(%lld,'u%lld')", i + k > 0 ? "," : "",
                          (long long)s->batch * MODEL_DEVICES + k, (long long)s->batch);
    }
    buffer_add_text(
        &sql,
        "; INSERT INTO device_tokens (id, token, user_id, platform, registered_at, last_seen, source_at)"
        " SELECT id, 'ExponentPushToken[' || id || ']', usr, 'ios', x, x, x FROM v, (SELECT t0 -"
        " interval '3000 min' FROM at) a (x);"
        "INSERT INTO notifications (id, workspace_id, recipient_user_id, event_type, title, created_at)"
        " SELECT lpad(to_hex(id), 32, '0')::uuid, 'w', usr, 't', 'x', now() FROM d;"
        "INSERT INTO dispatches (id, notification_id, device_id, queued_at, updated_at)"
        " SELECT id, lpad(to_hex(id), 32, '0')::uuid, device, x, x FROM d, at,"
        " LATERAL (SELECT t0 + min * interval '1 min') q (x)");
    cr_assert(!sql.failed);
    world_exec(&d->r->world, "%s", sql.at);
    buffer_done(&sql);
}

/* ---- the look at every row ----------------------------------------------------------------------------- */

static void expect_lines(const struct sequence *s, char *text, size_t size)
{
    int at = snprintf(text, size, "%lld", (long long)s->batch);
    for (int i = 0; i < s->model.dispatch_count; i++) {
        const struct model_dispatch *m = &s->model.dispatches[i];
        at += snprintf(text + at, size - (size_t)at, " %s,%s,%s", model_state_names[m->state], m->error,
                       m->ticket);
    }
    for (int i = 0; i < s->model.device_count; i++) {
        const struct model_device *m = &s->model.devices[i];
        at += snprintf(text + at, size - (size_t)at, " %s,%s,%s,%d", m->heir ? "heir" : "u",
                       m->enabled ? "on" : "off", m->reason, m->killed);
    }
    at += snprintf(text + at, size - (size_t)at, " announced %d", s->model.announced);
    if (s->model.queue.there)
        snprintf(text + at, size - (size_t)at, " version %lld", (long long)s->model.queue.version);
}

static void look(struct driver *d)
{
    static char text[TEXT_BYTES];
    char want[1024];
    world_text(
        &d->r->world, text, sizeof text,
        "SELECT string_agg(d.batch || ' ' || d.said || ' ' || v.said || ' announced ' || coalesce(o.count, "
        "0) || coalesce(' version ' ||"
        " r.version, ''), chr(10) ORDER BY d.batch) FROM"
        " (SELECT id >> 20 AS batch, string_agg(concat_ws(',', state, coalesce(error, ''),"
        " coalesce(ticket, '')), ' ' ORDER BY id) AS said FROM dispatches GROUP BY 1) d"
        " JOIN (SELECT id / %d AS batch, string_agg(concat_ws(',', rtrim(user_id, '0123456789'),"
        " CASE WHEN enabled THEN 'on' ELSE 'off' END, coalesce(disabled_reason, ''),"
        " (SELECT count(*) FROM device_history h WHERE h.device_id = t.id AND h.reason ="
        " 'DeviceNotRegistered')), ' ' ORDER BY id) AS said FROM device_tokens t GROUP BY 1) v"
        " USING (batch) LEFT JOIN receipt_batches r ON r.batch_id = batch"
        " LEFT JOIN (SELECT dispatch_id >> 20 AS batch, count(*) AS count FROM settled_outbox GROUP BY 1) o"
        " USING (batch)",
        MODEL_DEVICES);
    char *line = text;
    for (int i = 0; i < d->count; i++) {
        const struct sequence *s = &d->sequences[i];
        size_t bytes = strcspn(line, "\n");
        bool more = line[bytes] != '\0';
        line[bytes] = '\0';
        expect_lines(s, want, sizeof want);
        if (d->traced == (long)s->seed)
            printf("%2d %-11s %s\n", d->round, step_names[s->step], line);
        cr_assert_str_eq(line, want,
                         "seed %u ends otherwise than the model after round %d (%s)\n  is:       %s\n"
                         "  should be: %s\n  again:    stage_model --seed %u",
                         s->seed, d->round, step_names[s->step], line, want, s->seed);
        line += bytes + more;
    }
}

/* Something counted differs: the look names the sequence. */
static void blame(struct driver *d, const char *what)
{
    look(d);
    cr_assert_fail("%s differ, every row is right; group of seed %u, round %d", what, d->sequences[0].seed,
                   d->round);
}

/* ---- steps: the receipts topic ------------------------------------------------------------------------- */

static struct outcome outcome_of(struct driver *d, const struct sequence *s, const struct model_outcome *told)
{
    static const enum dispatch_state states[] = {[MODEL_SENT] = DISPATCH_SENT,
                                                 [MODEL_FAILED] = DISPATCH_FAILED,
                                                 [MODEL_SUPPRESSED] = DISPATCH_SUPPRESSED};
    int64_t id = dispatch_id(s->batch, (uint32_t)told->dispatch);
    struct outcome made = rec_outcome(d->r, id, states[told->outcome], told->text);
    made.device_id = s->batch * MODEL_DEVICES + s->model.dispatches[told->dispatch].device;
    if (told->orphan && told->dispatch == 0)
        made.device_id++;
    else if (told->orphan && told->dispatch == 1)
        made.notification_id.bytes[0] = 1;
    else if (told->orphan)
        made.dispatch_id = dispatch_id(s->batch, 1000);
    return made;
}

static struct outcome_counts apply_batch(struct driver *d, const struct outcome *told, int count)
{
    d->figures.statements++;
    return rec_try(d->r, told, (size_t)count);
}

/* One batch of all sequences that tell something, interleaved. Now and then its answer gets lost and it is
 * done again, or a process that lost its seat tries it first. */
static void run_tells(struct driver *d)
{
    static struct outcome told[GROUP * STEP_OUTCOMES];
    struct model_counts want = {0};
    int count = 0;
    for (int k = 0; k < STEP_OUTCOMES; k++) {
        for (int i = 0; i < d->count; i++) {
            struct sequence *s = &d->sequences[i];
            if (k < s->told_count)
                told[count++] = outcome_of(d, s, &s->told[k]);
        }
    }
    if (count == 0)
        return;
    for (int i = 0; i < d->count; i++)
        model_tell(&d->sequences[i].model, d->sequences[i].told, d->sequences[i].told_count, &want);
    if (pick(&d->random, 4) == 0) {
        struct offsets_seat seat = {.partition = d->r->part.partition};
        struct fault fault;
        cr_assert_eq(offsets_seat(d->r->db, &d->r->scope, &seat, 1, &fault), ST_OK, "%s", fault.text);
        cr_assert_eq(seat.next_offset, d->r->part.start);
        cr_assert_not(apply_batch(d, told, count).held, "a seat that was taken over moves nothing");
        d->figures.refused++;
        d->r->part.generation = seat.generation;
    }
    struct outcome_counts got = apply_batch(d, told, count);
    cr_assert(got.held);
    if (pick(&d->random, 3) == 0) {
        cr_assert_not(apply_batch(d, told, count).held, "the same offsets twice");
        d->figures.again++;
    }
    d->r->part.start = d->r->part.end;
    bool same = got.sent == want.sent && got.failed == want.failed && got.suppressed == want.suppressed &&
                got.ignored == want.ignored && got.orphans == want.orphans && got.disabled == want.disabled;
    if (!same)
        blame(d, "the counts of a batch");
    d->figures.counts.sent += want.sent;
    d->figures.counts.failed += want.failed;
    d->figures.counts.suppressed += want.suppressed;
    d->figures.counts.ignored += want.ignored;
    d->figures.counts.orphans += want.orphans;
    d->figures.counts.disabled += want.disabled;
}

/* ---- steps: devices ------------------------------------------------------------------------------------ */

static void run_changes(struct driver *d)
{
    struct buffer sql;
    int count = 0;
    buffer_init(&sql, 1 << 20);
    buffer_add_text(&sql,
                    "SELECT count(belfry_change_device(e, 'ExponentPushToken[' || v || ']', u, 'ios', '1',"
                    " t0 + m * interval '1 min')) FROM at, (VALUES ");
    for (int i = 0; i < d->count; i++) {
        struct sequence *s = &d->sequences[i];
        const struct change *c = &s->change;
        if (s->step != STEP_DEVICE)
            continue;
        buffer_printf(&sql, "%s(%s,%lld,'%s%lld',%d)", count++ > 0 ? "," : "", c->enable ? "true" : "false",
                      (long long)s->batch * MODEL_DEVICES + c->device, c->heir ? "heir" : "u",
                      (long long)s->batch, c->at_min);
        if (c->enable)
            model_register(&s->model.devices[c->device], c->heir, c->at_min);
        else
            model_unregister(&s->model.devices[c->device], c->at_min);
    }
    buffer_add_text(&sql, ") c (e, v, u, m)");
    cr_assert(!sql.failed);
    if (count > 0)
        cr_assert_eq(world_count(&d->r->world, "%s", sql.at), count);
    buffer_done(&sql);
}

/* ---- steps: pollers ------------------------------------------------------------------------------------ */

/* "1,2,3": the batches of the sequences at this step. */
static int list_batches(struct driver *d, enum step step, char *text, size_t size)
{
    int count = 0;
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < d->count; i++) {
        if (d->sequences[i].step == step)
            at += (size_t)snprintf(text + at, size - at, "%s%lld", count++ > 0 ? "," : "",
                                   (long long)d->sequences[i].batch);
    }
    return count;
}

static struct sequence *sequence_of(struct driver *d, int64_t batch)
{
    int64_t at = batch - d->sequences[0].batch;
    cr_assert(at >= 0 && at < d->count, "batch %lld is nobody's", (long long)batch);
    return &d->sequences[at];
}

static void run_leases(struct driver *d)
{
    char batches[GROUP * 12];
    int want = list_batches(d, STEP_LEASE, batches, sizeof batches), got = 0;
    if (want == 0)
        return;
    int64_t owner = 1000 + d->round;
    world_exec(&d->r->world, "UPDATE receipt_batches SET due_at = now() WHERE batch_id IN (%s)", batches);
    for (;;) {
        struct receipt_lease lease = rec_lease(d->r, owner);
        d->figures.statements++;
        if (lease.count == 0)
            break;
        for (size_t i = 0; i < lease.count; i++) {
            struct sequence *s = sequence_of(d, lease.batches[i].batch_id);
            cr_assert_eq(s->step, STEP_LEASE, "batch of seed %u is leased and should not be", s->seed);
            s->model.queue.owner = owner;
            s->pass = (struct pass){.lease = {.owner = owner, .version = lease.batches[i].version}};
            cr_assert_eq(s->pass.lease.version, s->model.queue.version, "seed %u", s->seed);
        }
        got += (int)lease.count;
    }
    cr_assert_eq(got, want, "each due batch is leased once");
}

static void run_crashes(struct driver *d)
{
    char batches[GROUP * 12];
    if (list_batches(d, STEP_CRASH, batches, sizeof batches) == 0)
        return;
    world_exec(&d->r->world,
               "UPDATE receipt_batches SET leased_until = now() - interval '1 s', due_at = now() + interval"
               " '1 day' WHERE batch_id IN (%s)",
               batches);
    for (int i = 0; i < d->count; i++) {
        struct sequence *s = &d->sequences[i];
        if (s->step != STEP_CRASH)
            continue;
        s->frozen = s->pass;
        for (int k = 0; pick(&s->random, 4) == 0 && k < s->frozen.finding_count; k++)
            s->frozen.findings[k].ticket[0] = 'x'; /* asked for in the id's earlier life, before a failover */
        s->pass = (struct pass){.read = false};
    }
}

/* The next lease's worth of the sequences at `step` that have one owner; from is moved past them. False: no
 * more. */
static bool next_lease(struct driver *d, enum step step, int64_t owner, int *from,
                       struct receipt_lease *lease)
{
    *lease = (struct receipt_lease){.owner = owner, .lease_ms = 60000};
    for (; *from < d->count && lease->count < RECEIPT_BATCHES_MAX; ++*from) {
        struct sequence *s = &d->sequences[*from];
        const struct model_lease *held = step == STEP_LATE_FINISH ? &s->frozen.lease : &s->pass.lease;
        if (s->step == step && held->owner == owner)
            lease->batches[lease->count++] =
                (struct receipt_batch){.batch_id = s->batch, .version = held->version};
    }
    return lease->count > 0;
}

static void make_findings(struct sequence *s)
{
    static const char *const errors[] = {"DeviceNotRegistered", "MessageRateExceeded", "InvalidCredentials"};
    struct finding fates[4];
    for (int i = 0; i < 4; i++) { /* two rows of one ticket get one receipt */
        int kind = pick(&s->random, 10);
        fates[i] = (struct finding){.answered = kind >= 3};
        if (kind >= 7)
            snprintf(fates[i].error, sizeof fates[i].error, "%s", errors[kind - 7]);
    }
    s->pass.read = true;
    s->pass.finding_count = 0;
    for (int i = 0; i < s->model.dispatch_count; i++) {
        const struct model_dispatch *dispatch = &s->model.dispatches[i];
        if (dispatch->state != MODEL_SENT || dispatch->ticket[0] == '\0')
            continue;
        struct finding *finding = &s->pass.findings[s->pass.finding_count++];
        *finding = fates[dispatch->ticket[strlen(dispatch->ticket) - 1] - '0'];
        finding->dispatch = i;
        snprintf(finding->ticket, sizeof finding->ticket, "%s", dispatch->ticket);
    }
}

static bool is_found(const struct sequence *s, const struct receipt_due *row)
{
    for (int i = 0; i < s->pass.finding_count; i++) {
        const struct finding *finding = &s->pass.findings[i];
        if (dispatch_ordinal(row->dispatch_id) == (uint32_t)finding->dispatch)
            return span_is(row->ticket, finding->ticket);
    }
    return false;
}

/* What the statement reads is what the model has as `sent` with a ticket, no more and no less. */
static void run_reads(struct driver *d)
{
    for (int64_t owner = 1000; owner <= 1000 + d->round; owner++) {
        struct receipt_lease lease;
        for (int from = 0, first = 0; next_lease(d, STEP_READ, owner, &from, &lease); first = from) {
            struct receipt_rows rows = {.arena = &d->r->arena};
            struct fault fault;
            size_t want = 0;
            for (int i = first; i < from; i++) {
                struct sequence *s = &d->sequences[i];
                if (s->step != STEP_READ || s->pass.lease.owner != owner)
                    continue;
                make_findings(s);
                want += (size_t)s->pass.finding_count;
            }
            cr_assert_eq(receipt_due(d->r->db, &lease, span_of(""), &rows, &fault), ST_OK);
            d->figures.statements++;
            cr_assert_eq(rows.count, want);
            for (size_t i = 0; i < rows.count; i++) {
                struct sequence *s = sequence_of(d, dispatch_batch_id(rows.rows[i].dispatch_id));
                cr_assert(is_found(s, &rows.rows[i]), "seed %u: a row that is not to be asked for", s->seed);
            }
        }
    }
}

static void apply_findings(struct driver *d, const struct receipt_finding *findings, size_t count,
                           struct model_counts want)
{
    for (int again = 0; again < 2; again++) { /* the answer of the statement gets lost: it is done twice */
        struct receipt_counts got;
        struct fault fault;
        struct receipt_answer answer = {findings, count, (int64_t)MODEL_MAX_AGE_MIN * 60000, true};
        fault_reset(&fault);
        cr_assert_eq(receipt_apply(d->r->db, &answer, &got, &fault), ST_OK, "%s", fault.text);
        d->figures.statements++;
        bool same = got.delivered == want.delivered && got.receipt_error == want.receipt_error &&
                    got.expired == want.expired && got.disabled == want.disabled;
        if (!same)
            blame(d, again ? "receipts done again" : "the counts of receipts");
        want = (struct model_counts){0};
    }
}

static void run_applies(struct driver *d, enum step step)
{
    static struct receipt_finding findings[GROUP * ASKS];
    struct model_counts want = {0};
    size_t count = 0;
    for (int i = 0; i < d->count; i++) {
        struct sequence *s = &d->sequences[i];
        struct pass *pass = step == STEP_APPLY ? &s->pass : &s->frozen;
        if (s->step != step)
            continue;
        for (int k = 0; k < pass->finding_count; k++) {
            struct finding *f = &pass->findings[k];
            bool ok = f->error[0] == '\0';
            findings[count++] =
                (struct receipt_finding){.dispatch_id = dispatch_id(s->batch, (uint32_t)f->dispatch),
                                         .ticket = span_of(f->ticket),
                                         .settled = f->answered,
                                         .state = ok ? DISPATCH_DELIVERED : DISPATCH_RECEIPT_ERROR,
                                         .error = span_of(f->error)};
            model_receipt(&s->model, f->dispatch, f->ticket, f->answered ? f->error : NULL, &want);
        }
    }
    if (count > 0)
        apply_findings(d, findings, count, want);
    for (int i = 0; i < d->count; i++) { /* only now: the findings' text stood in them */
        struct sequence *s = &d->sequences[i];
        struct pass *pass = step == STEP_APPLY ? &s->pass : &s->frozen;
        if (s->step != step)
            continue;
        pass->finding_count = 0;
        pass->read = step == STEP_APPLY; /* a late one goes on to its late finish */
    }
    d->figures.counts.delivered += want.delivered;
    d->figures.counts.receipt_error += want.receipt_error;
    d->figures.counts.expired += want.expired;
    d->figures.counts.disabled += want.disabled;
}

static void finish_lease(struct driver *d, const struct receipt_lease *lease)
{
    struct receipt_lease aged = {.owner = lease->owner, .announce = true};
    struct model_counts want = {0};
    struct fault fault;
    int64_t expired = 0, done = 0;
    fault_reset(&fault);
    for (size_t i = 0; i < lease->count; i++) {
        struct sequence *s = sequence_of(d, lease->batches[i].batch_id);
        struct pass *pass = s->step == STEP_FINISH ? &s->pass : &s->frozen;
        if (s->answered) {
            aged.batches[aged.count++] = lease->batches[i];
            model_expire(&s->model, &want);
        }
        model_finish(&s->model, &pass->lease);
        *pass = (struct pass){.read = false};
    }
    cr_assert_eq(receipt_expire(d->r->db, &aged, (int64_t)MODEL_MAX_AGE_MIN * 60000, &expired, &fault), ST_OK,
                 "%s", fault.text);
    if (expired != want.expired)
        blame(d, "how many expired");
    cr_assert_eq(receipt_finish(d->r->db, lease, DAY_MS, &done, &fault), ST_OK, "%s", fault.text);
    d->figures.statements += 2;
    d->figures.counts.expired += expired;
}

static void run_finishes(struct driver *d, enum step step)
{
    for (int64_t owner = 1000; owner <= 1000 + d->round; owner++) {
        struct receipt_lease lease;
        for (int from = 0; next_lease(d, step, owner, &from, &lease);)
            finish_lease(d, &lease);
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static void run_group(struct driver *d, unsigned first_seed, int count)
{
    d->count = count;
    d->random = first_seed + 77;
    for (int i = 0; i < count; i++)
        make_sequence(&d->sequences[i], first_seed + (unsigned)i, 1000 + i);
    put_rows(d);
    for (d->round = 0; d->round < ROUNDS; d->round++) {
        arena_reset(&d->r->arena);
        for (int i = 0; i < count; i++) {
            d->sequences[i].told_count = 0;
            choose_step(&d->sequences[i]);
            d->figures.steps[d->sequences[i].step]++;
        }
        run_changes(d);
        run_tells(d);
        run_leases(d);
        run_reads(d);
        run_applies(d, STEP_APPLY);
        run_applies(d, STEP_LATE_APPLY);
        run_finishes(d, STEP_FINISH);
        run_finishes(d, STEP_LATE_FINISH);
        run_crashes(d);
        look(d);
    }
}

static void report(const struct driver *d, int sequences, int64_t took_ms)
{
    const struct model_counts *c = &d->figures.counts;
    printf("%d sequences agree with the model in %lld ms: %lld statements, steps", sequences,
           (long long)took_ms, (long long)d->figures.statements);
    for (int i = 0; i <= STEP_LATE_FINISH; i++)
        printf("%s %s %lld", i > 0 ? "," : "", step_names[i], (long long)d->figures.steps[i]);
    printf(
        "\noutcomes: sent %lld, failed %lld, suppressed %lld, ignored %lld, orphans %lld; receipts: delivered"
        " %lld, receipt_error %lld, expired %lld; tokens off %lld; refused batches %lld, done again %lld\n",
        (long long)c->sent, (long long)c->failed, (long long)c->suppressed, (long long)c->ignored,
        (long long)c->orphans, (long long)c->delivered, (long long)c->receipt_error, (long long)c->expired,
        (long long)c->disabled, (long long)d->figures.refused, (long long)d->figures.again);
}

Test(model, sequences_end_where_the_model_says, .timeout = 600)
{
    struct driver d = {.r = rec_open("model"), .traced = world_asked_for("BELFRY_MODEL_SEED", -1)};
    long sequences = d.traced >= 0 ? GROUP : world_asked_for("BELFRY_MODEL_SEQUENCES", SEQUENCES);
    long first = d.traced >= 0 ? d.traced / GROUP * GROUP : 0, from_ms = (long)world_now_ms();
    d.r->announce = true;
    d.sequences = calloc(GROUP, sizeof *d.sequences);
    cr_assert_not_null(d.sequences);
    for (long at = 0; at < sequences; at += GROUP)
        run_group(&d, (unsigned)(first + at), (int)(sequences - at < GROUP ? sequences - at : GROUP));
    report(&d, (int)sequences, world_now_ms() - from_ms);
    free(d.sequences);
    rec_close(d.r);
}

int main(int argc, char **argv)
{
    static const struct world_option options[] = {{"--seed", "BELFRY_MODEL_SEED"},
                                                  {"--sequences", "BELFRY_MODEL_SEQUENCES"}};
    return world_main(argc, argv, options, sizeof options / sizeof options[0]);
}
