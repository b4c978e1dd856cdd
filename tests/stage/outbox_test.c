/* Settled outcomes between the statement that makes a dispatch final and the topic: what is written, in what
 * order it is taken, and that nothing that was erased comes back. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "reconcile_fixture.h"
#include "store/outbox.h"

enum { LEASE_MS = 60 * 1000, AGE_MS = 60 * 1000 };

static int64_t id_of(int ordinal)
{
    return dispatch_id(1, (uint32_t)ordinal);
}

static bool lease(struct rec *r, int64_t owner, int64_t lease_ms)
{
    bool held = false;
    struct fault fault;
    cr_assert_eq(outbox_lease(r->db, owner, lease_ms, &held, &fault), ST_OK, "%s", fault.text);
    return held;
}

static struct outbox_rows take(struct rec *r, int64_t owner, int64_t after)
{
    struct outbox_rows rows = {.arena = &r->arena};
    struct fault fault;
    cr_assert_eq(outbox_take(r->db, owner, after, &rows, &fault), ST_OK, "%s", fault.text);
    return rows;
}

/* As published: how many first versions had their second queued again. */
static int64_t done(struct rec *r, struct outbox_rows *rows, enum outbox_fate fate)
{
    struct outbox_counts counts;
    struct fault fault;
    for (size_t i = 0; i < rows->count; i++)
        rows->rows[i].fate = fate;
    cr_assert_eq(outbox_done(r->db, rows, &counts, &fault), ST_OK, "%s", fault.text);
    return counts.again;
}

static void settle(struct rec *r, int ordinal, enum dispatch_state outcome, const char *error)
{
    struct outcome told = rec_outcome(r, id_of(ordinal), outcome, error);
    r->announce = true;
    rec_apply(r, &told, 1);
}

/* Both polls' ways to an end. */
static void poll_all(struct rec *r, struct receipt_finding *findings, size_t count, bool announce)
{
    struct receipt_counts counts;
    struct fault fault;
    int64_t expired = 0;
    struct receipt_answer answer = {findings, count, AGE_MS, announce};
    cr_assert_eq(receipt_apply(r->db, &answer, &counts, &fault), ST_OK, "%s", fault.text);
    struct receipt_lease leased = {.batches = {{1, 1}}, .count = 1, .announce = announce};
    cr_assert_eq(receipt_expire(r->db, &leased, AGE_MS, &expired, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(expired, 1);
}

/* Each way to a final state, once with the topic set and once without. */
Test(outbox, every_final_state_is_written_with_its_transition)
{
    enum { EACH = 8, FINAL = 7 };
    struct rec *r = rec_open("box_written");
    for (int batch = 1; batch <= 2; batch++) {
        int64_t at = dispatch_id(batch, 0);
        rec_dispatches(r, batch, EACH, "queued");
        r->announce = batch == 1;
        struct outcome told[EACH];
        for (int i = 0; i < EACH; i++)
            told[i] = rec_outcome(r, at + i, DISPATCH_SENT, "t");
        told[0] = rec_outcome(r, at, DISPATCH_FAILED, "Unconfirmed");
        told[1] = rec_outcome(r, at + 1, DISPATCH_FAILED, "MessageTooBig");
        told[2] = rec_outcome(r, at + 2, DISPATCH_SUPPRESSED, "Preference");
        told[6] = rec_outcome(r, at + 6, DISPATCH_SENT, ""); /* without a ticket id */
        rec_apply(r, told, EACH);
        rec_apply(r, told, EACH); /* a replay settles nothing anew */
        struct receipt_finding findings[] = {
            {.dispatch_id = at + 3, .ticket = span_of("t"), .settled = true, .state = DISPATCH_DELIVERED},
            {at + 4, span_of("t"), true, DISPATCH_RECEIPT_ERROR, span_of("DeviceNotRegistered")},
            {.dispatch_id = at + 5, .ticket = span_of("t")}};
        if (batch == 1)
            poll_all(r, findings, 3, true);
        else
            cr_assert_eq(
                REC_COUNT(r, "SELECT count(*) FROM settled_outbox WHERE dispatch_id >= %" PRId64, at), 0);
    }
    REC_ASSERT_COUNT(r, FINAL, "SELECT count(*) FROM settled_outbox");
    REC_ASSERT_COUNT(r, FINAL,
                     "SELECT count(*) FROM settled_outbox o JOIN dispatches d ON d.id = o.dispatch_id AND "
                     "d.state <> 'sent'"
                     " JOIN notifications n ON n.id = d.notification_id"
                     " WHERE record::jsonb = jsonb_build_object('v', 1, 'dispatch_id', d.id::text, "
                     "'notification_id', n.id,"
                     " 'workspace_id', n.workspace_id, 'recipient_user_id', n.recipient_user_id, 'device_id',"
                     " d.device_id::text, 'state', d.state, 'error', d.error, 'version',"
                     " CASE WHEN d.error = 'Unconfirmed' THEN 1 ELSE 2 END, 'at', o.record ->> 'at')"
                     " AND record ->> 'at' ~ '^20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z$'"
                     " AND (record ->> 'at')::timestamptz = d.updated_at");
    char states[256];
    world_text(&r->world, states, sizeof states,
               "SELECT string_agg(DISTINCT record ->> 'state', ' ') FROM settled_outbox");
    cr_assert_str_eq(states, "delivered expired failed receipt_error suppressed");
    printf("7 ways to a final state, 7 records; with the topic not set none\n");
    rec_close(r);
}

/* The rule of dispatch_version, asked of the database for every state with every error. */
Test(outbox, the_version_is_the_one_of_the_code)
{
    static const char *const errors[] = {"", "Unconfirmed", "Expired", "unconfirmed", "DeviceNotRegistered"};
    enum { ERRORS = sizeof errors / sizeof errors[0] };
    struct rec *r = rec_open("box_version");
    int compared = 0;
    for (int i = 0; i < DISPATCH_STATES * ERRORS; i++) {
        enum dispatch_state state = (enum dispatch_state)(i / ERRORS);
        int version = dispatch_version(state, errors[i % ERRORS]);
        if (version == 0)
            continue;
        compared++;
        REC_ASSERT_COUNT(r, version,
                         "SELECT (belfry_settled_record(1, gen_random_uuid(), 'w', 'u', 1, '%s',"
                         " nullif('%s', ''), now()) ->> 'version')::int",
                         dispatch_state_name(state), errors[i % ERRORS]);
    }
    printf("%d final states with their errors: SQL and C agree\n", compared);
    cr_assert_eq(compared, 5 * ERRORS);
    rec_close(r);
}

/* Text of others' making stays what it was, inside JSON that can be read. */
Test(outbox, text_is_escaped)
{
    struct rec *r = rec_open("box_escape");
    world_exec(&r->world, "CREATE TABLE nasty (t text)");
    world_exec(
        &r->world,
        "INSERT INTO nasty VALUES ('\"'), ('\\'), ('a\",\"v\":2,\"x\":\"'), (E'\\b\\f\\n\\r\\t\\x01\\x1f'),"
        " (E'\\x7f'), ('Zoë 日本 😀'), (E'\\u2028'), ('</script>'), ('{}'), ('null'), (' ')");
    REC_ASSERT_COUNT(r, 11,
                     "SELECT count(*) FROM nasty, LATERAL (SELECT belfry_settled_record(9223372036854775807,"
                     " gen_random_uuid(), t, t, -1, 'failed', t, 'epoch') AS j) x"
                     " WHERE j ->> 'workspace_id' = t AND j ->> 'recipient_user_id' = t AND j ->> 'error' = t"
                     " AND j ->> 'dispatch_id' = '9223372036854775807' AND j ->> 'v' = '1'"
                     " AND j ->> 'at' = '1970-01-01T00:00:00.000000Z'"
                     " AND (SELECT count(*) FROM json_object_keys(j)) = 10 AND j::text !~ '[\\x01-\\x1f]'");
    rec_close(r);
}

Test(outbox, one_process_takes_in_order_until_its_lease_ends)
{
    struct rec *r = rec_open("box_lease");
    rec_dispatches(r, 1, 4, "queued");
    for (int i = 0; i < 4; i++)
        settle(r, i, DISPATCH_FAILED, "Unconfirmed");
    cr_assert_eq(take(r, 1, 0).count, 0, "nothing without the lease");
    cr_assert(lease(r, 1, LEASE_MS));
    cr_assert(lease(r, 1, LEASE_MS), "the owner renews");
    cr_assert_not(lease(r, 2, LEASE_MS));
    struct outbox_rows mine = take(r, 1, 0);
    cr_assert_eq(mine.count, 4);
    for (size_t i = 0; i < mine.count; i++) {
        cr_assert(mine.rows[i].first);
        cr_assert_eq(mine.rows[i].dispatch_id, id_of((int)i));
        cr_assert(i == 0 || mine.rows[i].id > mine.rows[i - 1].id);
    }
    cr_assert_eq(take(r, 1, mine.rows[1].id).count, 2);
    cr_assert_eq(take(r, 2, 0).count, 0);
    world_exec(&r->world, "UPDATE leases SET leased_until = now()");
    cr_assert_eq(take(r, 1, 0).count, 0, "the lease ran out");
    cr_assert(lease(r, 2, LEASE_MS));
    cr_assert_eq(take(r, 2, 0).count, 4);
    cr_assert(lease(r, 2, 0), "given back");
    cr_assert(lease(r, 1, LEASE_MS));
    cr_assert_eq(done(r, &mine, OUTBOX_ACKED), 0);
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM settled_outbox");
    rec_close(r);
}

/* A publisher that was held up with a first version in hand, while another published both. */
Test(outbox, a_late_first_version_brings_the_second_again)
{
    struct rec *r = rec_open("box_late");
    rec_dispatches(r, 1, 2, "queued");
    settle(r, 0, DISPATCH_FAILED, "Unconfirmed");
    settle(r, 1, DISPATCH_FAILED, "Unconfirmed");
    cr_assert(lease(r, 1, LEASE_MS));
    struct outbox_rows held_up = take(r, 1, 0);
    cr_assert_eq(held_up.count, 2);
    world_exec(&r->world, "UPDATE leases SET leased_until = now()");
    cr_assert(lease(r, 2, LEASE_MS));
    struct outbox_rows other = take(r, 2, 0);
    cr_assert_eq(done(r, &other, OUTBOX_ACKED), 0, "no second yet");
    settle(r, 0, DISPATCH_FAILED, "ProviderRejected");
    other = take(r, 2, 0);
    cr_assert_eq(other.count, 1);
    cr_assert_not(other.rows[0].first);
    cr_assert_eq(done(r, &other, OUTBOX_ACKED), 0);
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM settled_outbox");
    cr_assert_eq(done(r, &held_up, OUTBOX_ACKED),
                 1); /* wakes, and its first versions are acknowledged only now */
    REC_ASSERT_COUNT(r, 1,
                     "SELECT count(*) FROM settled_outbox WHERE dispatch_id = %" PRId64
                     " AND record ->> 'version' = '2' AND record ->> 'error' = 'ProviderRejected'",
                     id_of(0));
    cr_assert_eq(done(r, &held_up, OUTBOX_WAITS), 0, "what was never sent came behind nothing");
    cr_assert_eq(done(r, &held_up, OUTBOX_SENT), 1, "what was sent may have, acknowledged or not");
    REC_ASSERT_COUNT(r, 2, "SELECT count(*) FROM settled_outbox");
    rec_close(r);
}

/* Erased with its records in the outbox, and with one in the publisher's hands. */
Test(outbox, what_was_erased_does_not_come_back)
{
    struct rec *r = rec_open("box_erase");
    char user[64];
    rec_dispatches(r, 1, 3, "queued");
    settle(r, 0, DISPATCH_FAILED, "Unconfirmed");
    settle(r, 1, DISPATCH_FAILED, "Unconfirmed");
    cr_assert(lease(r, 1, LEASE_MS));
    struct outbox_rows in_hand = take(r, 1, 0);
    settle(r, 0, DISPATCH_FAILED, "ProviderRejected"); /* the second version waits in the outbox */
    settle(r, 1, DISPATCH_FAILED, "ProviderRejected");
    snprintf(user, sizeof user, "u%" PRId64, id_of(0));
    world_exec(&r->world, "SELECT belfry_erase_user('%s')", user);
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM settled_outbox WHERE record::text LIKE '%%\"%s\"%%'", user);
    cr_assert_eq(done(r, &in_hand, OUTBOX_ACKED), 1, "only the other's second version is queued again");
    struct outcome late = rec_outcome(r, id_of(0), DISPATCH_SENT, "t");
    cr_assert_eq(rec_apply(r, &late, 1).orphans, 1);
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM settled_outbox WHERE record::text LIKE '%%\"%s\"%%'", user);
    REC_ASSERT_COUNT(r, 2, "SELECT count(*) FROM settled_outbox"); /* the other user's */
    rec_close(r);
}

/* ---- what it costs ---------------------------------------------------------------------------------------
 */

enum { ROUNDS = 15, DRAINED = 1000, FAILING = 100, CHUNK = 300, CHUNKS = 3, KINDS = 3 };
static const char *const kinds[KINDS] = {"drain, 1,000 outcomes of which 100 failed", "drain, 1,000 failed",
                                         "poll, 300 receipts"};

struct cost {
    struct rec *r;
    double ms[KINDS][ROUNDS];
};

static double since(int64_t from_us)
{
    return (double)(clock_wall_us(&clock_system) - from_us) / 1000;
}

/* One round of all three on batches of its own. */
static void run_round(struct cost *cost, int round)
{
    struct rec *r = cost->r;
    static struct outcome told[DRAINED];
    static struct receipt_finding findings[CHUNK];
    struct receipt_counts counts;
    struct fault fault;
    for (int kind = 0; kind < 2; kind++) {
        int batch = 2 * round + kind + 1;
        rec_dispatches(r, batch, DRAINED, "queued");
        for (int i = 0; i < DRAINED; i++) {
            bool fails = kind == 1 || i < FAILING;
            told[i] = rec_outcome(r, dispatch_id(batch, (uint32_t)i), fails ? DISPATCH_FAILED : DISPATCH_SENT,
                                  fails ? "MessageTooBig" : "XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX");
        }
        int64_t from_us = clock_wall_us(&clock_system);
        rec_apply(r, told, DRAINED);
        cost->ms[kind][round] = since(from_us);
    }
    cost->ms[2][round] = 0;
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        for (int i = 0; i < CHUNK; i++)
            findings[i] = (struct receipt_finding){
                .dispatch_id = dispatch_id(2 * round + 1, (uint32_t)(FAILING + chunk * CHUNK + i)),
                .ticket = span_of("XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX"),
                .settled = true,
                .state = DISPATCH_DELIVERED};
        struct receipt_answer answer = {findings, CHUNK, AGE_MS, r->announce};
        int64_t from_us = clock_wall_us(&clock_system);
        cr_assert_eq(receipt_apply(r->db, &answer, &counts, &fault), ST_OK);
        cost->ms[2][round] += since(from_us) / CHUNKS;
        cr_assert_eq(counts.delivered, CHUNK);
    }
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(const double *values)
{
    double sorted[ROUNDS];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, ROUNDS, sizeof *sorted, by_size);
    return sorted[ROUNDS / 2];
}

static double hot_share(struct rec *r)
{
    enum { UPDATES = ROUNDS * (2 * DRAINED + CHUNK * CHUNKS) };
    db_close(r->db); /* a session that ends reports its counts */
    r->db = NULL;
    world_wait_count(&r->world, UPDATES,
                     "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'dispatches'");
    return 100.0 / UPDATES *
           (double)REC_COUNT(r, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'dispatches'");
}

/* Off and on in turns, each in a database of its own; the first of a pair changes. */
Test(outbox, what_it_costs)
{
    static struct cost costs[2];
    for (int on = 0; on < 2; on++) {
        costs[on].r = rec_open(on == 1 ? "box_cost_on" : "box_cost_off");
        costs[on].r->announce = on == 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < 2; k++)
            run_round(&costs[(round + k) % 2], round);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        double ratios[ROUNDS];
        for (int i = 0; i < ROUNDS; i++)
            ratios[i] = costs[1].ms[kind][i] / costs[0].ms[kind][i];
        printf("%-42s off %6.1f ms, on %6.1f ms, ratio %.2f (medians of %d)\n", kinds[kind],
               median(costs[0].ms[kind]), median(costs[1].ms[kind]), median(ratios), ROUNDS);
    }
    REC_ASSERT_COUNT(costs[0].r, 0, "SELECT count(*) FROM settled_outbox");
    REC_ASSERT_COUNT(costs[1].r, ROUNDS * (FAILING + DRAINED + CHUNK * CHUNKS),
                     "SELECT count(*) FROM settled_outbox");
    double off = hot_share(costs[0].r), on = hot_share(costs[1].r);
    printf("updates of dispatches HOT: off %.1f %%, on %.1f %%\n", off, on);
    cr_assert(on > off - 3, "the outbox costs HOT updates");
    for (int i = 0; i < 2; i++)
        rec_close(costs[i].r);
}
