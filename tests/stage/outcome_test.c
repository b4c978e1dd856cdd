/* The reconciler's batch statement against a real Postgres: guarded, fenced, all or nothing. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reconcile_fixture.h"
#include "store/sql.h"

static int64_t id_of(int ordinal)
{
    return dispatch_id(1, (uint32_t)ordinal);
}

Test(outcome, moves_and_offsets_go_together)
{
    struct rec *r = rec_open("out_moves");
    rec_dispatches(r, 1, 4, "queued");
    struct outcome told[] = {rec_outcome(r, id_of(0), DISPATCH_SENT, "ticket-0"),
                             rec_outcome(r, id_of(1), DISPATCH_FAILED, "MessageTooBig"),
                             rec_outcome(r, id_of(2), DISPATCH_SUPPRESSED, "DeviceChanged"),
                             rec_outcome(r, id_of(3), DISPATCH_SENT, "")};
    struct outcome_counts counts = rec_apply(r, told, 4);
    cr_assert_eq(counts.sent, 2);
    cr_assert_eq(counts.failed, 1);
    cr_assert_eq(counts.suppressed, 1);
    cr_assert_eq(counts.disabled, 0);
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM dispatches WHERE state = 'sent' AND ticket = 'ticket-0'");
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM dispatches WHERE state = 'sent' AND ticket IS NULL");
    REC_ASSERT_COUNT(r, 1,
                     "SELECT count(*) FROM dispatches WHERE state = 'failed' AND error = 'MessageTooBig'");
    REC_ASSERT_COUNT(r, 4, "SELECT count(*) FROM dispatches WHERE updated_at > queued_at");
    REC_ASSERT_COUNT(
        r, 1,
        "SELECT count(*) FROM receipt_batches WHERE batch_id = 1 AND version = 1 AND owner IS NULL"
        " AND due_at BETWEEN now() + interval '50 s' AND now() + interval '60 s'");
    REC_ASSERT_COUNT(r, 1,
                     "SELECT count(*) FROM partition_offsets WHERE group_id = 'r' AND next_offset = 4"
                     " AND records = 4 AND events = 4 AND recipients = 0 AND dispatches = 0");
    rec_close(r);
}

Test(outcome, late_ones_raise_the_version_and_keep_the_earlier_look)
{
    struct rec *r = rec_open("out_version");
    rec_dispatches(r, 1, 2, "queued");
    struct outcome first = rec_outcome(r, id_of(0), DISPATCH_SENT, "a");
    struct outcome second = rec_outcome(r, id_of(1), DISPATCH_SENT, "b");
    first.at_us -= 3600LL * 1000000;  /* the reconciler was off for an hour: due at once */
    second.at_us += 3600LL * 1000000; /* a dispatcher's clock that runs ahead cannot push the look away */
    rec_apply(r, &first, 1);
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM receipt_batches WHERE version = 1 AND due_at < now()");
    rec_apply(r, &second, 1);
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM receipt_batches WHERE version = 2 AND due_at < now()");
    world_exec(&r->world, "DELETE FROM receipt_batches; UPDATE dispatches SET state = 'queued'");
    rec_apply(r, &second, 1);
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM receipt_batches WHERE due_at <= now() + interval '61 s'");
    rec_close(r);
}

Test(outcome, replays_change_nothing)
{
    struct rec *r = rec_open("out_replay");
    char before[64], after[64];
    rec_dispatches(r, 1, 3, "queued");
    struct outcome told[] = {rec_outcome(r, id_of(0), DISPATCH_FAILED, "Unconfirmed"),
                             rec_outcome(r, id_of(0), DISPATCH_SENT, "t"),
                             rec_outcome(r, id_of(1), DISPATCH_FAILED, "DeviceNotRegistered"),
                             rec_outcome(r, id_of(2), DISPATCH_SUPPRESSED, "Preference")};
    struct outcome_counts counts = rec_apply(r, told, 4);
    cr_assert_eq(counts.sent, 1); /* two outcomes of one dispatch in one batch: the later one wins here */
    cr_assert_eq(counts.ignored, 1);
    cr_assert_eq(counts.disabled, 1);
    const char *digest = "SELECT md5(string_agg(d::text, ',' ORDER BY id)) FROM dispatches d";
    world_text(&r->world, before, sizeof before, "%s", digest);
    for (int i = 0; i < 3; i++) {
        counts = rec_apply(r, told, 4);
        cr_assert_eq(counts.ignored, 4);
        cr_assert_eq(counts.disabled, 0);
    }
    world_text(&r->world, after, sizeof after, "%s", digest);
    cr_assert_str_eq(before, after);
    REC_ASSERT_COUNT(r, 1, "SELECT version FROM receipt_batches");
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM device_history WHERE change = 'disabled'");
    rec_close(r);
}

/* Random outcomes in random batches end where the table of model/dispatch.c says they end one by one. */
Test(outcome, batches_of_any_size_agree_with_the_table)
{
    enum { DISPATCHES = 40, TOLD = 400 };
    static const char *const errors[] = {"Unconfirmed", "MessageTooBig", "Expired"};
    struct rec *r = rec_open("out_model");
    struct outcome told[TOLD];
    enum dispatch_state state[DISPATCHES] = {DISPATCH_QUEUED};
    char error[DISPATCHES][DISPATCH_ERROR_MAX + 1] = {""};
    unsigned seed = 20261130;
    rec_dispatches(r, 1, DISPATCHES, "queued");
    for (int i = 0; i < TOLD; i++) {
        int which = rand_r(&seed) % DISPATCHES, kind = rand_r(&seed) % 5;
        enum dispatch_state to = kind == 0   ? DISPATCH_SENT
                                 : kind == 1 ? DISPATCH_SUPPRESSED
                                             : DISPATCH_FAILED;
        const char *text = to == DISPATCH_SENT ? "t" : errors[kind == 1 ? 2 : kind == 2];
        told[i] = rec_outcome(r, id_of(which), to, text);
        const char *to_error = to == DISPATCH_SENT ? "" : text;
        if (dispatch_may_move(state[which], error[which], to, to_error)) {
            state[which] = to;
            snprintf(error[which], sizeof error[which], "%s", to_error);
        }
    }
    for (int at = 0; at < TOLD;) {
        int size = 1 + rand_r(&seed) % 60;
        if (size > TOLD - at)
            size = TOLD - at;
        rec_apply(r, &told[at], (size_t)size);
        at += size;
    }
    int seen[DISPATCH_STATES] = {0};
    for (int i = 0; i < DISPATCHES; i++) {
        seen[state[i]]++;
        REC_ASSERT_COUNT(r, 1,
                         "SELECT count(*) FROM dispatches WHERE id = %lld AND state = '%s' AND"
                         " coalesce(error, '') = '%s'",
                         (long long)id_of(i), dispatch_state_name(state[i]), error[i]);
    }
    printf("%d outcomes of %d dispatches: %d sent, %d failed, %d suppressed, %d still queued\n", TOLD,
           DISPATCHES, seen[DISPATCH_SENT], seen[DISPATCH_FAILED], seen[DISPATCH_SUPPRESSED],
           seen[DISPATCH_QUEUED]);
    cr_assert(seen[DISPATCH_SENT] > 0 && seen[DISPATCH_FAILED] > 0 && seen[DISPATCH_SUPPRESSED] > 0);
    rec_close(r);
}

enum { ORDER_TOLD = 4, ORDERS = 24 };

/* 0 1 2 3 in the order-th of their 24 orders. */
static void make_order(int order, int places[ORDER_TOLD])
{
    int left[ORDER_TOLD] = {0, 1, 2, 3}, from[ORDER_TOLD] = {order / 6, order % 6 / 2, order % 2, 0};
    for (int i = 0; i < ORDER_TOLD; i++) {
        places[i] = left[from[i]];
        for (int k = from[i]; k + 1 < ORDER_TOLD; k++)
            left[k] = left[k + 1];
    }
}

/* What one dispatch may be told: its one true outcome, and any number of `Unconfirmed` by sweepers who took
 * its owner for dead. In every order, with duplicates, in one batch or in one each: the same end. */
Test(outcome, any_order_ends_alike)
{
    enum { TRUTHS = 4, ALL = TRUTHS * ORDERS * 2 };
    static const struct {
        enum dispatch_state state;
        const char *text;
    } truths[TRUTHS] = {{DISPATCH_SENT, "ticket"},
                        {DISPATCH_FAILED, "MessageTooBig"},
                        {DISPATCH_FAILED, "DeviceNotRegistered"},
                        {DISPATCH_SUPPRESSED, "Preference"}};
    struct rec *r = rec_open("out_order");
    rec_dispatches(r, 1, ALL, "queued");
    for (int which = 0; which < ALL; which++) {
        int places[ORDER_TOLD], truth = which % TRUTHS;
        struct outcome told[ORDER_TOLD];
        make_order(which / TRUTHS % ORDERS, places);
        for (int i = 0; i < ORDER_TOLD; i++) {
            told[i] = rec_outcome(r, id_of(which), DISPATCH_FAILED, DISPATCH_UNCONFIRMED);
            if (places[i] < 2)
                told[i] = rec_outcome(r, id_of(which), truths[truth].state, truths[truth].text);
        }
        int each = which < ALL / 2 ? ORDER_TOLD : 1;
        for (int i = 0; i < ORDER_TOLD; i += each)
            rec_apply(r, &told[i], (size_t)each);
    }
    for (int truth = 0; truth < TRUTHS; truth++)
        REC_ASSERT_COUNT(r, ALL / TRUTHS,
                         "SELECT count(*) FROM dispatches WHERE id %% %d = %d AND state = '%s' AND"
                         " coalesce(ticket, error) = '%s'",
                         TRUTHS, (int)(id_of(truth) % TRUTHS), dispatch_state_name(truths[truth].state),
                         truths[truth].text);
    REC_ASSERT_COUNT(r, ALL / TRUTHS, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    REC_ASSERT_COUNT(r, ALL / TRUTHS, "SELECT count(*) FROM device_history");
    printf("%d orders of 4 outcomes, in one batch and in 4: each of %d dispatches ends in its true outcome\n",
           ORDERS, ALL);
    rec_close(r);
}

/* UPDATE … FROM would apply one of them, and nobody knows which. */
Test(outcome, two_outcomes_of_one_dispatch_in_one_batch)
{
    static const struct {
        enum dispatch_state first, second;
        const char *first_text, *second_text, *from, *end;
    } pairs[] = {
        {DISPATCH_FAILED, DISPATCH_SENT, "Unconfirmed", "t", "queued", "sent//t"},
        {DISPATCH_SENT, DISPATCH_FAILED, "t", "Unconfirmed", "queued", "sent//t"},
        {DISPATCH_SENT, DISPATCH_SENT, "first", "second", "queued", "sent//first"},
        {DISPATCH_FAILED, DISPATCH_FAILED, "Unconfirmed", "Unconfirmed", "queued", "failed/Unconfirmed/"},
        {DISPATCH_FAILED, DISPATCH_SENT, "MessageTooBig", "t", "queued", "failed/MessageTooBig/"},
        {DISPATCH_SUPPRESSED, DISPATCH_SENT, "Preference", "t", "queued", "suppressed/Preference/"},
        {DISPATCH_FAILED, DISPATCH_SENT, "Unconfirmed", "t", "failed", "sent//t"},
        {DISPATCH_SENT, DISPATCH_FAILED, "t", "MessageTooBig", "failed", "sent//t"},
        {DISPATCH_FAILED, DISPATCH_FAILED, "RateLimited", "Unconfirmed", "failed", "failed/RateLimited/"},
        {DISPATCH_SENT, DISPATCH_FAILED, "t", "Unconfirmed", "delivered", "delivered//"}};
    enum { PAIRS = sizeof pairs / sizeof pairs[0] };
    struct rec *r = rec_open("out_two");
    struct outcome told[2 * PAIRS];
    char end[128];
    rec_dispatches(r, 1, PAIRS, "queued");
    for (int i = 0; i < PAIRS; i++) {
        world_exec(
            &r->world,
            "UPDATE dispatches SET state = '%s', error = CASE '%s' WHEN 'failed' THEN 'Unconfirmed' END"
            " WHERE id = %lld",
            pairs[i].from, pairs[i].from, (long long)id_of(i));
        told[i] = rec_outcome(r, id_of(i), pairs[i].first, pairs[i].first_text);
        told[PAIRS + i] = rec_outcome(r, id_of(i), pairs[i].second, pairs[i].second_text);
    }
    rec_apply(r, told, 2UL * PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        world_text(&r->world, end, sizeof end,
                   "SELECT state || '/' || coalesce(error, '') || '/' || coalesce(ticket, '') FROM dispatches"
                   " WHERE id = %lld",
                   (long long)id_of(i));
        printf("from %-9s %s/%s, then %s/%s: %s\n", pairs[i].from, dispatch_state_name(pairs[i].first),
               pairs[i].first_text, dispatch_state_name(pairs[i].second), pairs[i].second_text, end);
        cr_assert_str_eq(end, pairs[i].end);
    }
    rec_close(r);
}

/* After a failover the sequence of batches gives out ids again: the dispatch has another notification, or
 * device. What is told of the old one, in one batch with what is told of the new one, touches nothing. */
Test(outcome, an_id_handed_out_again_is_not_the_old_one)
{
    struct rec *r = rec_open("out_orphans");
    rec_dispatches(r, 1, 3, "queued");
    struct outcome told[] = {
        rec_outcome(r, id_of(0), DISPATCH_SENT, "a"), rec_outcome(r, id_of(1), DISPATCH_SENT, "b"),
        rec_outcome(r, id_of(9), DISPATCH_SENT, "c"), rec_outcome(r, id_of(2), DISPATCH_SENT, "d"),
        rec_outcome(r, id_of(2), DISPATCH_FAILED, DISPATCH_NOT_REGISTERED)};
    told[0].device_id = 5;                /* the same notification, another device */
    told[1].notification_id.bytes[0] = 1; /* another notification, the same device */
    told[4].notification_id.bytes[0] = 1; /* the old life of the id that is told of before */
    struct outcome_counts counts = rec_apply(r, told, 5);
    cr_assert_eq(counts.orphans, 4);
    cr_assert_eq(counts.sent, 1);
    cr_assert_eq(counts.disabled, 0);
    REC_ASSERT_COUNT(r, 2, "SELECT count(*) FROM dispatches WHERE state = 'queued'");
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM dispatches WHERE state = 'sent' AND ticket = 'd'");
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM receipt_batches");
    REC_ASSERT_COUNT(r, 3, "SELECT count(*) FROM device_tokens WHERE enabled");
    printf("3 ids of which 2 are another's, one in both lives, 1 gone: 1 moved, 4 orphans, no token off\n");
    rec_close(r);
}

Test(outcome, nothing_moves_unless_every_part_is_held)
{
    struct rec *r = rec_open("out_fence");
    rec_dispatches(r, 1, 2, "queued");
    struct outcome told = rec_outcome(r, id_of(0), DISPATCH_FAILED, "DeviceNotRegistered");
    struct offsets_part zombie = rec_seat(r, r->db, 1), parts[2] = {r->part, zombie};
    (void)rec_seat(r, r->db, 1); /* another process takes partition 1 */
    struct fold fold;
    struct fault fault;
    struct outcome_counts counts;
    cr_assert_eq(fold_outcomes(&told, 1, &r->arena, &fold, &fault), ST_OK);
    parts[0].end = parts[0].records = 1;
    struct outcome_batch batch = {
        .scope = &r->scope, .parts = parts, .part_count = 2, .items = fold.items, .item_count = 1};
    cr_assert_eq(outcome_apply(r->db, &r->params, &batch, &counts, &fault), ST_OK, "%s", fault.text);
    cr_assert(!counts.held);
    REC_ASSERT_COUNT(r, 0, "SELECT sum(next_offset + records) FROM partition_offsets");
    REC_ASSERT_COUNT(r, 2, "SELECT count(*) FROM dispatches WHERE state = 'queued'");
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    REC_ASSERT_COUNT(r, 0, "SELECT count(*) FROM device_history");
    r->part.start = 1; /* the same with an offset that is not the table's */
    cr_assert(!rec_try(r, &told, 1).held);
    r->part.start = 0;
    rec_apply(r, &told, 1);
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    rec_close(r);
}

Test(outcome, only_a_dead_token_is_disabled)
{
    struct rec *r = rec_open("out_disable");
    rec_dispatches(r, 1, 8, "queued");
    world_exec(&r->world,
               "UPDATE device_tokens SET registered_at = now(), last_seen = now(), source_at = now()"
               " WHERE id & 1048575 = 1"); /* enabled again since */
    world_exec(&r->world,
               "UPDATE device_tokens SET last_seen = now(), source_at = now() WHERE id & 1048575 = 2");
    world_exec(&r->world, "UPDATE device_tokens SET user_id = 'other' WHERE id & 1048575 = 3"); /* moved */
    world_exec(&r->world, "UPDATE device_tokens SET enabled = false, disabled_at = now(), disabled_reason ="
                          " 'Unregistered' WHERE id & 1048575 = 4");
    struct outcome told[8];
    for (int i = 0; i < 5; i++)
        told[i] = rec_outcome(r, id_of(i), DISPATCH_FAILED, "DeviceNotRegistered");
    told[5] = rec_outcome(r, id_of(5), DISPATCH_FAILED, "InvalidCredentials");
    told[6] = rec_outcome(r, id_of(6), DISPATCH_FAILED, "MessageTooBig");
    told[7] = rec_outcome(r, id_of(7), DISPATCH_SUPPRESSED, "DeviceNotRegistered");
    struct outcome_counts counts = rec_apply(r, told, 8);
    cr_assert_eq(counts.failed, 7);
    cr_assert_eq(counts.disabled, 1);
    REC_ASSERT_COUNT(
        r, 1,
        "SELECT count(*) FROM device_tokens WHERE id = %lld AND NOT enabled AND disabled_at IS NOT"
        " NULL AND disabled_reason = 'DeviceNotRegistered'",
        (long long)id_of(0));
    REC_ASSERT_COUNT(r, 1,
                     "SELECT count(*) FROM device_history WHERE device_id = %lld AND change = 'disabled' AND"
                     " user_id = 'u%lld' AND reason = 'DeviceNotRegistered'",
                     (long long)id_of(0), (long long)id_of(0));
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM device_history");
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM device_tokens WHERE disabled_reason = 'Unregistered'");
    rec_close(r);
}

/* The statement's snapshot is older than what another session commits: the row's newest version decides. */
Test(outcome, a_row_changed_meanwhile_is_seen_as_it_is_now)
{
    struct rec *r = rec_open("out_newest");
    rec_dispatches(r, 1, 2, "queued");
    struct outcome told[] = {rec_outcome(r, id_of(0), DISPATCH_SENT, "late"),
                             rec_outcome(r, id_of(1), DISPATCH_SENT, "t1")};
    world_exec(&r->world,
               "BEGIN; UPDATE dispatches SET state = 'failed', error = 'Unconfirmed' WHERE id = %lld;"
               " UPDATE dispatches SET state = 'suppressed', error = 'PushOff' WHERE id = %lld",
               (long long)id_of(0), (long long)id_of(1));
    struct fold fold;
    struct fault fault;
    cr_assert_eq(fold_outcomes(told, 2, &r->arena, &fold, &fault), ST_OK);
    /* outcome_apply waits, so it runs in a session of its own while this one commits. */
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        struct db *db = rec_connect(r);
        struct outcome_counts counts;
        r->part.end = r->part.records = 2;
        struct outcome_batch batch = {
            .scope = &r->scope, .parts = &r->part, .part_count = 1, .items = fold.items, .item_count = 2};
        enum status status = outcome_apply(db, &r->params, &batch, &counts, &fault);
        db_close(db);
        _exit(status == ST_OK && counts.held && counts.sent == 1 && counts.ignored == 1 ? 0 : 1);
    }
    world_wait_count(&r->world, 1,
                     "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND"
                     " (database IS NULL OR database = (SELECT oid FROM pg_database WHERE datname ="
                     " current_database())) AND locktype = 'transactionid' AND transactionid ="
                     " pg_current_xact_id()::xid");
    world_exec(&r->world, "COMMIT");
    int ended = 0;
    cr_assert_eq(waitpid(child, &ended, 0), child);
    cr_assert_eq(ended, 0);
    REC_ASSERT_COUNT(
        r, 1, "SELECT count(*) FROM dispatches WHERE state = 'sent' AND ticket = 'late' AND error IS NULL");
    REC_ASSERT_COUNT(r, 1, "SELECT count(*) FROM dispatches WHERE state = 'suppressed' AND ticket IS NULL");
    rec_close(r);
}

enum { CROSS_ROWS = 200, CROSS_ROUNDS = 150, CROSS_BATCH = 60 };

struct crosser {
    struct rec *r;
    struct db *db;
    struct offsets_part part;
    unsigned seed;
    int failed;
    char why[FAULT_TEXT_MAX];
};

/* Statements whose items come unsorted, as no fold would make them: the statement must sort by itself. */
static void *cross(void *argument)
{
    struct crosser *c = argument;
    struct db_params params;
    db_params_init(&params, OUTCOME_PARAMS_BYTES_MAX);
    for (int round = 0; round < CROSS_ROUNDS && c->failed == 0; round++) {
        struct outcome_item items[CROSS_BATCH];
        for (int i = 0; i < CROSS_BATCH; i++) {
            int64_t id = id_of(rand_r(&c->seed) % CROSS_ROWS);
            items[i] = (struct outcome_item){.dispatch_id = id, .device_id = id, .outcomes = 1};
            items[i].queued = (struct outcome_end){
                .moves = true, .state = DISPATCH_FAILED, .error = span_of("DeviceNotRegistered")};
            for (int b = 0; b < 8; b++)
                items[i].notification_id.bytes[15 - b] = (unsigned char)((uint64_t)id >> (8 * b));
            for (int k = 0; k < i; k++) {
                if (items[k].dispatch_id == id)
                    items[i].dispatch_id = -1 - i; /* each once */
            }
        }
        struct fault fault;
        struct outcome_counts counts;
        c->part.end = c->part.start + 1;
        c->part.records = 1;
        struct outcome_batch batch = {.scope = &c->r->scope,
                                      .parts = &c->part,
                                      .part_count = 1,
                                      .items = items,
                                      .item_count = CROSS_BATCH};
        if (outcome_apply(c->db, &params, &batch, &counts, &fault) != ST_OK || !counts.held) {
            c->failed = 1;
            snprintf(c->why, sizeof c->why, "%s", fault.text);
        }
        c->part.start = c->part.end;
    }
    db_params_done(&params);
    return NULL;
}

Test(outcome, unsorted_batches_of_two_connections_do_not_deadlock)
{
    struct rec *r = rec_open("out_cross");
    rec_dispatches(r, 1, CROSS_ROWS, "queued");
    /* Every statement writes its rows again: a trigger keeps them queued. */
    world_exec(&r->world, "CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS"
                          " 'BEGIN NEW.state := ''queued''; RETURN NEW; END'");
    world_exec(&r->world,
               "CREATE TRIGGER stay BEFORE UPDATE ON dispatches FOR EACH ROW EXECUTE FUNCTION stay()");
    struct crosser crossers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        struct db *db = rec_connect(r);
        crossers[i] =
            (struct crosser){.r = r, .db = db, .part = rec_seat(r, db, 10 + i), .seed = 100U + (unsigned)i};
    }
    int64_t from_ms = world_now_ms();
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, cross, &crossers[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        db_close(crossers[i].db);
    }
    printf(
        "2 connections, %d statements each over the same %d rows: %lld ms, deadlocks %lld\n", CROSS_ROUNDS,
        CROSS_ROWS, (long long)(world_now_ms() - from_ms),
        (long long)REC_COUNT(r, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"));
    for (int i = 0; i < 2; i++)
        cr_assert_eq(crossers[i].failed, 0, "%s", crossers[i].why);
    rec_close(r);
}

/* The tokens a batch of dead ones disables, registered again meanwhile as the devices topic's statement does
 * it, by hash. A deadlock is nobody's fault there, and its victim is not asserted on. */
static void *register_again(void *context)
{
    struct rec *r = context;
    world_exec(&r->world,
               "DO $$ BEGIN PERFORM belfry_change_device(true, t.token, t.user_id, 'ios', '1', now()"
               " - interval '90 min') FROM (SELECT token, user_id FROM device_tokens ORDER BY"
               " token_hash OFFSET 0) t; EXCEPTION WHEN deadlock_detected THEN NULL; END $$");
    return NULL;
}

Test(outcome, dead_tokens_and_registrations_do_not_deadlock)
{
    enum { ROUNDS = 8, EACH = 800 };
    struct rec *r = rec_open("out_tokens");
    struct outcome told[EACH];
    for (int batch = 1; batch <= ROUNDS; batch++) {
        pthread_t thread;
        world_exec(&r->world, "DELETE FROM device_tokens");
        rec_dispatches(r, batch, EACH, batch % 2 == 0 ? "queued" : "sent");
        struct receipt_finding findings[EACH];
        static char tickets[EACH][32];
        for (int i = 0; i < EACH; i++) {
            int64_t id = dispatch_id(batch, (uint32_t)i);
            told[i] = rec_outcome(r, id, DISPATCH_FAILED, DISPATCH_NOT_REGISTERED);
            snprintf(tickets[i], sizeof tickets[i], "t%lld", (long long)id);
            findings[i] = (struct receipt_finding){.dispatch_id = id,
                                                   .ticket = span_of(tickets[i]),
                                                   .settled = true,
                                                   .state = DISPATCH_RECEIPT_ERROR,
                                                   .error = span_of(DISPATCH_NOT_REGISTERED)};
        }
        cr_assert_eq(pthread_create(&thread, NULL, register_again, r), 0);
        world_sleep_ms(batch);
        if (batch % 2 == 0) {
            cr_assert_eq(rec_apply(r, told, EACH).failed, EACH);
        } else {
            struct receipt_counts counts;
            struct fault fault;
            fault_reset(&fault);
            struct receipt_answer answer = {findings, EACH, (int64_t)86400 * 1000};
            cr_assert_eq(receipt_apply(r->db, &answer, &counts, &fault), ST_OK, "%s", fault.text);
            cr_assert_eq(counts.receipt_error, EACH);
        }
        pthread_join(thread, NULL);
    }
    world_exec(&r->world, "SELECT pg_stat_force_next_flush()");
    REC_ASSERT_COUNT(r, 0, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    rec_close(r);
}

/* Updates stay in place: no index but the primary key, and room in the page. On a quiet server all of them
 * here; what other sessions still look at cannot be pruned, so perhaps less beside other tests. The figures
 * of the real table are reconciler_1_million's. */
Test(outcome, updates_are_hot)
{
    enum { BATCHES = 10, EACH = 500, UPDATES = 2 * BATCHES * EACH };
    struct rec *r = rec_open("out_hot");
    struct outcome told[EACH];
    for (int batch = 1; batch <= BATCHES; batch++) {
        rec_dispatches(r, batch, EACH, "queued");
        for (int i = 0; i < EACH; i++)
            told[i] = rec_outcome(r, dispatch_id(batch, (uint32_t)i), DISPATCH_SENT,
                                  "XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX");
        cr_assert_eq(rec_apply(r, told, EACH).sent, EACH);
        struct receipt_finding findings[EACH];
        for (int i = 0; i < EACH; i++)
            findings[i] = (struct receipt_finding){.dispatch_id = told[i].dispatch_id,
                                                   .ticket = told[i].ticket,
                                                   .settled = true,
                                                   .state = DISPATCH_DELIVERED};
        struct receipt_counts counts;
        struct fault fault;
        cr_assert_eq(receipt_apply(r->db, &(struct receipt_answer){findings, EACH, 1000}, &counts, &fault),
                     ST_OK);
        cr_assert_eq(counts.delivered, EACH);
    }
    db_close(r->db); /* a session that ends reports its counts */
    r->db = NULL;
    world_wait_count(&r->world, UPDATES,
                     "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'dispatches'");
    int64_t hot = REC_COUNT(r, "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'dispatches'");
    int64_t share = hot * 100 / UPDATES;
    printf("queued -> sent -> delivered, %d dispatches: %lld %% of updates HOT\n", BATCHES * EACH,
           (long long)share);
    cr_assert(share >= 80, "%lld %%", (long long)share);
    rec_close(r);
}

/* Whatever the statistics say, a dispatch, a notification and a token are looked up by key. */
Test(outcome, every_row_is_looked_up_by_its_key)
{
    static const char *const arguments =
        "'r', 'receipts', '{0}', '{1}', '{0}', '{0}', '{0}', '{0}', '{0}', '{}',"
        " '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', 0, false";
    struct rec *r = rec_open("out_plan");
    for (int analysed = 0; analysed < 2; analysed++) {
        if (analysed == 1) {
            rec_dispatches(r, 1, 20000, "sent");
            world_exec(&r->world, "ANALYZE");
        }
        rec_check_plan(r, sql_outcome_apply, arguments);
    }
    rec_close(r);
}
