/* The queue of receipts and the receipts themselves against a real Postgres. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reconcile_fixture.h"
#include "store/sql.h"

static int64_t id_of(int ordinal)
{
    return dispatch_id(1, (uint32_t)ordinal);
}

static struct receipt_finding finding(int64_t id, const char *ticket, const char *error)
{
    struct receipt_finding made = {.dispatch_id = id, .ticket = span_of(ticket)};
    if (error == NULL) /* no receipt yet */
        return made;
    made.settled = true;
    made.state = error[0] == '\0' ? DISPATCH_DELIVERED : DISPATCH_RECEIPT_ERROR;
    made.error = span_of(error);
    return made;
}

static struct receipt_counts apply(struct rec *r, const struct receipt_finding *findings, size_t count,
                                   int64_t max_age_ms)
{
    struct receipt_counts counts;
    struct fault fault;
    enum status status =
        receipt_apply(r->db, &(struct receipt_answer){findings, count, max_age_ms}, &counts, &fault);
    cr_assert_eq(status, ST_OK, "%s: %s", fault.code, fault.text);
    return counts;
}

static int64_t finish(struct rec *r, const struct receipt_lease *lease, int64_t interval_ms)
{
    int64_t done = -1;
    struct fault fault;
    enum status status = receipt_finish(r->db, lease, interval_ms, &done, &fault);
    cr_assert_eq(status, ST_OK, "%s: %s", fault.code, fault.text);
    return done;
}

static void queue_batches(struct rec *r, int from, int to)
{
    world_exec(&r->world,
               "INSERT INTO receipt_batches (batch_id, due_at) SELECT b, now() - b * interval '1 s' FROM"
               " generate_series(%d, %d) b",
               from, to);
}

Test(receipt, a_batch_belongs_to_one_until_its_lease_ends)
{
    struct rec *r = rec_open("rcp_lease");
    queue_batches(r, 1, 100);
    world_exec(&r->world,
               "INSERT INTO receipt_batches (batch_id, due_at) VALUES (1000, now() + interval '1 h')");
    struct receipt_lease a = rec_lease(r, 11), b = rec_lease(r, 12), c = rec_lease(r, 13);
    cr_assert_eq(a.count, RECEIPT_BATCHES_MAX);
    cr_assert_eq(b.count, 100 - RECEIPT_BATCHES_MAX);
    cr_assert_eq(c.count, 0);
    bool oldest = false;
    for (size_t i = 0; i < a.count; i++)
        oldest = oldest || a.batches[i].batch_id == 100;
    cr_assert(oldest, "the oldest due goes first");
    int64_t held = 0;
    struct fault fault;
    cr_assert_eq(receipt_renew(r->db, &a, &held, &fault), ST_OK);
    cr_assert_eq(held, (int64_t)a.count);
    world_exec(&r->world,
               "UPDATE receipt_batches SET leased_until = now() - interval '1 s' WHERE owner = 11");
    c = rec_lease(r, 13);
    cr_assert_eq(c.count, RECEIPT_BATCHES_MAX);
    cr_assert_eq(receipt_renew(r->db, &a, &held, &fault), ST_OK);
    cr_assert_eq(held, 0);
    cr_assert_eq(finish(r, &a, 1000), 0); /* what another has now is left alone */
    REC_ASSERT_COUNT(r, RECEIPT_BATCHES_MAX, "SELECT count(*) FROM receipt_batches WHERE owner = 13");
    cr_assert_eq(finish(r, &c, 60000), RECEIPT_BATCHES_MAX); /* no dispatch of theirs is `sent` */
    REC_ASSERT_COUNT(r, 101 - RECEIPT_BATCHES_MAX, "SELECT count(*) FROM receipt_batches");
    rec_close(r);
}

Test(receipt, due_rows_come_by_ticket)
{
    struct rec *r = rec_open("rcp_due");
    rec_dispatches(r, 1, 5, "sent");
    rec_dispatches(r, 2, 5, "sent");
    rec_dispatches(r, 3, 5, "sent");
    world_exec(&r->world, "UPDATE dispatches SET ticket = 'same' WHERE id IN (%lld, %lld)",
               (long long)id_of(3), (long long)dispatch_id(2, 1));
    world_exec(&r->world, "UPDATE dispatches SET ticket = NULL WHERE id = %lld", (long long)id_of(0));
    world_exec(&r->world, "UPDATE dispatches SET state = 'delivered' WHERE id = %lld", (long long)id_of(1));
    world_exec(&r->world, "DELETE FROM device_tokens WHERE id = %lld", (long long)id_of(2));
    queue_batches(r, 1, 2); /* 3 is not due */
    struct receipt_lease lease = rec_lease(r, 1);
    struct receipt_rows rows = {.arena = &r->arena};
    struct fault fault;
    cr_assert_eq(receipt_due(r->db, &lease, span_of(""), &rows, &fault), ST_OK);
    cr_assert_eq(rows.count, 8);
    for (size_t i = 0; i < rows.count; i++) {
        struct receipt_due *row = &rows.rows[i];
        cr_assert(i == 0 || strcmp(rows.rows[i - 1].ticket.at, row->ticket.at) <= 0);
        cr_assert_eq(row->token.bytes == 0, row->dispatch_id == id_of(2));
    }
    cr_assert(span_is(rows.rows[0].ticket, "same") && span_is(rows.rows[1].ticket, "same"));
    cr_assert_eq(receipt_due(r->db, &lease, span_of("same"), &rows, &fault), ST_OK);
    cr_assert_eq(rows.count, 6);
    rec_close(r);
}

Test(receipt, receipts_settle_once_and_only_their_own_ticket)
{
    struct rec *r = rec_open("rcp_apply");
    rec_dispatches(r, 1, 6, "sent");
    char ticket[6][32];
    for (int i = 0; i < 6; i++)
        snprintf(ticket[i], sizeof ticket[i], "t%lld", (long long)id_of(i));
    struct receipt_finding findings[] = {
        finding(id_of(4), ticket[4], "MessageRateExceeded"),
        finding(id_of(0), ticket[0], ""),
        finding(id_of(1), "t-other", ""), /* not the ticket the row has now */
        finding(id_of(2), ticket[2], NULL),
        finding(dispatch_id(9, 9), "t", ""),
        finding(id_of(3), ticket[3], "DeviceNotRegistered")};
    struct receipt_counts counts = apply(r, findings, 6, 24LL * 3600 * 1000);
    cr_assert_eq(counts.delivered, 1);
    cr_assert_eq(counts.receipt_error, 2);
    cr_assert_eq(counts.expired, 0);
    cr_assert_eq(counts.disabled, 1);
    REC_ASSERT_COUNT(r, 3, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    REC_ASSERT_COUNT(r, id_of(3), "SELECT sum(id) FROM device_tokens WHERE NOT enabled");
    REC_ASSERT_COUNT(r, 1,
                     "SELECT count(*) FROM device_history WHERE change = 'disabled' AND reason ="
                     " 'DeviceNotRegistered'");
    counts = apply(r, findings, 6, 24LL * 3600 * 1000); /* another poller's answer, or a replay */
    cr_assert_eq(counts.delivered + counts.receipt_error + counts.expired + counts.disabled, 0);
    /* The other way round changes nothing either: final is final. */
    struct receipt_finding late[] = {finding(id_of(0), ticket[0], "DeviceNotRegistered"),
                                     finding(id_of(4), ticket[4], "")};
    counts = apply(r, late, 2, 1000);
    cr_assert_eq(counts.delivered + counts.receipt_error + counts.expired + counts.disabled, 0);
    rec_close(r);
}

Test(receipt, without_a_receipt_it_expires_by_age)
{
    struct rec *r = rec_open("rcp_age");
    rec_dispatches(r, 1, 3, "sent"); /* queued an hour ago */
    world_exec(&r->world, "UPDATE dispatches SET ticket = NULL WHERE id = %lld", (long long)id_of(2));
    char ticket[32];
    snprintf(ticket, sizeof ticket, "t%lld", (long long)id_of(0));
    struct receipt_finding none = finding(id_of(0), ticket, NULL);
    cr_assert_eq(apply(r, &none, 1, 2LL * 3600 * 1000).expired, 0);
    cr_assert_eq(apply(r, &none, 1, 1800LL * 1000).expired, 1);
    queue_batches(r, 1, 1);
    struct receipt_lease lease = rec_lease(r, 1);
    struct fault fault;
    int64_t expired = -1;
    cr_assert_eq(receipt_expire(r->db, &lease, 2LL * 3600 * 1000, &expired, &fault), ST_OK);
    cr_assert_eq(expired, 0);
    cr_assert_eq(receipt_expire(r->db, &lease, 1800LL * 1000, &expired, &fault), ST_OK);
    cr_assert_eq(expired, 1, "only the one without a ticket id");
    REC_ASSERT_COUNT(r, id_of(1), "SELECT sum(id) FROM dispatches WHERE state = 'sent'");
    rec_close(r);
}

Test(receipt, registered_again_or_moved_stays_enabled)
{
    struct rec *r = rec_open("rcp_again");
    rec_dispatches(r, 1, 3, "sent"); /* queued an hour ago */
    struct receipt_finding findings[3];
    char ticket[3][32];
    for (int i = 0; i < 3; i++) {
        snprintf(ticket[i], sizeof ticket[i], "t%lld", (long long)id_of(i));
        findings[i] = finding(id_of(i), ticket[i], "DeviceNotRegistered");
    }
    /* 0 registers again half an hour after the send, 1 goes to another user, 2 keeps silent. */
    world_exec(&r->world,
               "SELECT belfry_change_device(true, token, user_id, 'ios', '', now() - interval '30 min')"
               " FROM device_tokens WHERE id = %lld",
               (long long)id_of(0));
    world_exec(&r->world,
               "SELECT belfry_change_device(true, token, 'heir', 'ios', '', now() - interval '90 min')"
               " FROM device_tokens WHERE id = %lld",
               (long long)id_of(1));
    struct receipt_counts counts = apply(r, findings, 3, 1000);
    cr_assert_eq(counts.receipt_error, 3);
    cr_assert_eq(counts.disabled, 1);
    REC_ASSERT_COUNT(r, id_of(2), "SELECT sum(id) FROM device_tokens WHERE NOT enabled");
    /* A rewind of the devices topic does not revive it; a registration since the send does, however late. */
    static const char *const change =
        "SELECT count(*) FROM (SELECT belfry_change_device(true, token, user_id, 'ios', '',"
        " %s) AS did FROM device_tokens WHERE id = %lld) c WHERE did = '%s'";
    REC_ASSERT_COUNT(r, 1, change, "source_at", (long long)id_of(2), "ignored");
    REC_ASSERT_COUNT(r, 1, change, "source_at - interval '1 h'", (long long)id_of(2), "ignored");
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM device_tokens WHERE id = %lld AND enabled",
                     (long long)id_of(2));
    REC_ASSERT_COUNT(r, 1, change, "now() - interval '1 min'", (long long)id_of(2), "registered");
    REC_ASSERT_COUNT(r, 3, "SELECT count(*) FROM device_tokens WHERE enabled");
    rec_close(r);
}

/* ---- a late `sent` while the poller is at work (seen: orphaned for good without the version)
 * ----------------- */

Test(receipt, a_late_sent_keeps_its_batch_in_the_queue)
{
    struct rec *r = rec_open("rcp_late");
    rec_dispatches(r, 1, 2, "queued");
    struct outcome first = rec_outcome(r, id_of(0), DISPATCH_SENT, "a"),
                   late = rec_outcome(r, id_of(1), DISPATCH_SENT, "b");
    first.at_us -= 3600LL * 1000000;
    rec_apply(r, &first, 1);
    struct receipt_lease lease = rec_lease(r, 5);
    cr_assert_eq(lease.count, 1);
    struct receipt_finding ok = finding(id_of(0), "a", "");
    cr_assert_eq(apply(r, &ok, 1, 1000).delivered, 1);
    rec_apply(r, &late, 1); /* between the read and the finish */
    cr_assert_eq(finish(r, &lease, 0), 0);
    REC_ASSERT_COUNT(r, 1,
                     "SELECT count(*) FROM receipt_batches WHERE version = 2 AND owner IS NULL AND"
                     " leased_until IS NULL");
    lease = rec_lease(r, 5);
    cr_assert_eq(lease.count, 1);
    cr_assert_eq(finish(r, &lease, 1000), 0); /* something is still `sent` */
    struct receipt_finding second = finding(id_of(1), "b", "");
    world_exec(&r->world, "UPDATE receipt_batches SET due_at = now()");
    lease = rec_lease(r, 5);
    cr_assert_eq(apply(r, &second, 1, 1000).delivered, 1);
    cr_assert_eq(finish(r, &lease, 1000), 1);
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM receipt_batches");
    rec_close(r);
}

/* Waits until somebody waits for this session's transaction. */
static void wait_blocked(struct rec *r)
{
    world_wait_count(&r->world, 1,
                     "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND locktype ="
                     " 'transactionid' AND transactionid = pg_current_xact_id()::xid");
}

/* The late `sent` is not committed yet when the poller's last statement takes its snapshot. */
Test(receipt, a_sent_in_flight_is_not_orphaned_by_the_finish)
{
    struct rec *r = rec_open("rcp_flight");
    rec_dispatches(r, 1, 1, "queued");
    queue_batches(r, 1, 1);
    struct receipt_lease lease = rec_lease(r, 5);
    world_exec(&r->world,
               "BEGIN; UPDATE dispatches SET state = 'sent', ticket = 'x'; UPDATE receipt_batches SET"
               " version = version + 1");
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        r->db = rec_connect(r);
        _exit(finish(r, &lease, 1000) == 0 ? 0 : 1);
    }
    wait_blocked(r);
    world_exec(&r->world, "COMMIT");
    int ended = 0;
    cr_assert_eq(waitpid(child, &ended, 0), child);
    cr_assert_eq(ended, 0);
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM receipt_batches WHERE version = 2");
    rec_close(r);
}

/* The poller's delete is not committed yet when the late `sent` comes. */
Test(receipt, a_sent_after_an_uncommitted_finish_queues_its_batch_anew)
{
    struct rec *r = rec_open("rcp_anew");
    rec_dispatches(r, 1, 1, "queued");
    queue_batches(r, 1, 1);
    struct outcome late = rec_outcome(r, id_of(0), DISPATCH_SENT, "x");
    world_exec(&r->world, "BEGIN; DELETE FROM receipt_batches");
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        r->db = rec_connect(r);
        _exit(rec_apply(r, &late, 1).sent == 1 ? 0 : 1);
    }
    wait_blocked(r);
    world_exec(&r->world, "COMMIT");
    int ended = 0;
    cr_assert_eq(waitpid(child, &ended, 0), child);
    cr_assert_eq(ended, 0);
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM receipt_batches WHERE version = 1");
    rec_close(r);
}

enum { RACE_BATCHES = 40, RACE_EACH = 10, RACE_ALL = RACE_BATCHES * RACE_EACH };

struct racer {
    struct rec *r;
    struct db *db;
    volatile bool stop;
    int64_t delivered, failures;
};

/* A poller that settles whatever is due, again and again. */
static void *poll_always(void *argument)
{
    struct racer *racer = argument;
    struct arena arena;
    arena_init(&arena, 16 << 20);
    while (!racer->stop) {
        struct receipt_lease lease = {.owner = 77, .lease_ms = 10000};
        struct receipt_rows rows = {.arena = &arena};
        struct receipt_counts counts = {0};
        struct fault fault;
        int64_t done = 0;
        arena_reset(&arena);
        enum status status = receipt_lease(racer->db, &lease, &fault);
        if (status == ST_OK && lease.count > 0)
            status = receipt_due(racer->db, &lease, span_of(""), &rows, &fault);
        struct receipt_finding *findings = arena_array(&arena, rows.count + 1, sizeof *findings);
        for (size_t i = 0; i < rows.count; i++)
            findings[i] = (struct receipt_finding){.dispatch_id = rows.rows[i].dispatch_id,
                                                   .ticket = rows.rows[i].ticket,
                                                   .settled = true,
                                                   .state = DISPATCH_DELIVERED};
        if (status == ST_OK && rows.count > 0)
            status = receipt_apply(racer->db, &(struct receipt_answer){findings, rows.count, 1000}, &counts,
                                   &fault);
        if (status == ST_OK && lease.count > 0)
            status = receipt_finish(racer->db, &lease, 0, &done, &fault);
        racer->failures += status != ST_OK;
        racer->delivered += counts.delivered;
    }
    arena_done(&arena);
    return NULL;
}

/* Drain and poll on the same batches at full speed: no deadlock, and nothing stays `sent` outside the queue.
 */
Test(receipt, drain_and_poll_race)
{
    struct rec *r = rec_open("rcp_race");
    for (int batch = 1; batch <= RACE_BATCHES; batch++)
        rec_dispatches(r, batch, RACE_EACH, "queued");
    struct racer racer = {.r = r, .db = rec_connect(r)};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, poll_always, &racer), 0);
    for (int ordinal = 0; ordinal < RACE_EACH; ordinal++) {
        struct outcome told[RACE_BATCHES];
        for (int batch = 1; batch <= RACE_BATCHES; batch++) {
            int64_t id = dispatch_id(batch, (uint32_t)ordinal);
            told[batch - 1] = rec_outcome(r, id, DISPATCH_SENT, "t");
            told[batch - 1].at_us -= 3600LL * 1000000;
        }
        for (int at = 0; at < RACE_BATCHES; at += 8)
            rec_apply(r, &told[at], 8);
    }
    world_wait_count(&r->world, RACE_ALL, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    world_wait_count(&r->world, 0, "SELECT count(*) FROM receipt_batches");
    racer.stop = true;
    pthread_join(thread, NULL);
    db_close(racer.db);
    cr_assert_eq(racer.failures, 0);
    cr_assert_eq(racer.delivered, RACE_ALL);
    rec_close(r);
}

/* A pass reads the rows of its batches, however many others there are. */
Test(receipt, a_pass_reads_its_own_batches_only)
{
    struct rec *r = rec_open("rcp_plan");
    for (int batch = 1; batch <= 20; batch++)
        rec_dispatches(r, batch, 2000, batch == 20 ? "sent" : "queued");
    queue_batches(r, 20, 20);
    for (int analysed = 0; analysed < 2; analysed++) {
        if (analysed == 1)
            world_exec(&r->world, "ANALYZE");
        rec_check_plan(r, sql_receipts_due, "'{20}', '', 10000");
        rec_check_plan(r, sql_receipts_apply, "'{}', '{}', '{}', '{}', 0, false");
        rec_check_plan(r, sql_receipts_expire, "'{20}', 0, false");
        rec_check_plan(r, sql_receipts_finish, "1, '{20}', '{1}', 0");
    }
    rec_close(r);
}
