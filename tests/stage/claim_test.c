/* The batch statement against a real Postgres: everything or nothing, once and only once, and no table walk.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "store_fixture.h"

#define COUNT(f, ...)           world_count(&(f)->world, __VA_ARGS__)
#define ASSERT_COUNT(f, n, ...) cr_assert_eq(COUNT(f, __VA_ARGS__), n)

Test(claim, stores_queues_and_moves)
{
    struct fixture *f = fixture_open("claim_stores", 2);
    fixture_device(f, "u1", "ExponentPushToken[a]", 10);
    fixture_device(f, "u1", "ExponentPushToken[b]", 5);
    struct event *event = fixture_event(f, 0, "r1", "u1 u2");
    event->data = span_of("{ \"a\": 0.1,  \"big\": 9007199254740993 }");
    event->push_choice = PUSH_OPTIONS;
    event->push = span_of("{\"priority\":\"high\"}");
    event->urgent = true;
    event->occurred_at = (struct instant){true, 1774137599999999};
    event->traceparent = span_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    fixture_event(f, 1, "r2", "u1");
    f->parts[1].tombstones = 2; /* two more records that were no events */
    f->parts[1].dead_letters = 1;
    f->parts[1].records += 3;
    f->parts[1].end += 3;

    struct claim_outcome outcome = fixture_claim(f);
    cr_assert_eq(outcome.notifications, 3);
    cr_assert_eq(outcome.duplicates, 0);
    cr_assert_eq(outcome.dispatches, 4);
    cr_assert_eq(outcome.suppressed, 0);
    cr_assert_eq(outcome.batch_count, 2);
    cr_assert(outcome.batches[0].urgent && !outcome.batches[1].urgent);
    cr_assert_eq(outcome.batches[0].unsent, 2);

    ASSERT_COUNT(f, 3, "SELECT count(*) FROM idempotency_keys");
    ASSERT_COUNT(f, 1, "SELECT count(DISTINCT created_at) FROM notifications");
    ASSERT_COUNT(f, outcome.created_at_us,
                 "SELECT max(extract(epoch FROM created_at) * 1000000)::int8 FROM notifications");
    ASSERT_COUNT(
        f, 2,
        "SELECT count(*) FROM notifications WHERE data::text = '{ \"a\": 0.1,  \"big\": 9007199254740993 }'");
    ASSERT_COUNT(f, 1,
                 "SELECT count(*) FROM notifications WHERE recipient_user_id = 'u2' AND occurred_at ="
                 " '2026-03-21T23:59:59.999999Z' AND push::text = '{\"priority\":\"high\"}'"
                 " AND traceparent LIKE '00-4bf9%%' AND read_at IS NULL AND batch_id = %lld",
                 (long long)outcome.batches[0].batch_id);
    /* The newest device first, ordinals from 0, ids that carry the batch. */
    ASSERT_COUNT(f, 2,
                 "SELECT count(*) FROM dispatches d JOIN device_tokens t ON t.id = d.device_id"
                 " WHERE d.id >> 20 = %lld AND d.state = 'queued' AND d.id & 1048575 ="
                 " CASE t.token WHEN 'ExponentPushToken[b]' THEN 0 ELSE 1 END",
                 (long long)outcome.batches[0].batch_id);
    ASSERT_COUNT(
        f, 2,
        "SELECT count(*) FROM batches WHERE unsent = '{[0,2)}' AND owner IS NULL AND leased_until IS NULL");
    ASSERT_COUNT(
        f, 1,
        "SELECT count(*) FROM partition_offsets WHERE partition = 1 AND next_offset = 4 AND records = 4"
        " AND events = 1 AND tombstones = 2 AND dead_letters = 1 AND recipients = 1 AND dispatches = 2");
    world_check_books(&f->world);
    fixture_close(f);
}

Test(claim, everything_or_nothing)
{
    struct fixture *f = fixture_open("claim_nothing", 1);
    world_exec(&f->world,
               "ALTER TABLE notifications ADD CONSTRAINT no_poison CHECK (title <> 'title of poison')");
    fixture_device(f, "u1", "ExponentPushToken[a]", 0);
    fixture_event(f, 0, "good", "u1");
    fixture_event(f, 0, "poison", "u1");
    struct claim_batch batch = fixture_batch(f);
    struct claim_outcome outcome;
    struct fault fault;
    cr_assert_eq(claim_run(f->claim, f->db, &batch, &outcome, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, "23514");
    cr_assert_str_eq(fault.field, "no_poison");
    cr_assert(strstr(fault.text, "title of") == NULL, "the fault holds the row: %s", fault.text);
    ASSERT_COUNT(f, 0,
                 "SELECT (SELECT count(*) FROM idempotency_keys) + (SELECT count(*) FROM notifications) +"
                 " (SELECT count(*) FROM dispatches) + (SELECT count(*) FROM batches) +"
                 " (SELECT next_offset + records FROM partition_offsets)");
    /* PER-03: the connection is as good as before, and the good half goes in. */
    batch.event_count = 1;
    f->parts[0].end = f->parts[0].records = 1;
    cr_assert_eq(claim_run(f->claim, f->db, &batch, &outcome, &fault), ST_OK);
    cr_assert_eq(outcome.notifications, 1);
    world_check_books(&f->world);
    fixture_close(f);
}

Test(claim, two_parts_one_stale)
{
    struct fixture *f = fixture_open("claim_stale", 2);
    struct db *other = fixture_connect(f);
    struct offsets_seat seat = {.partition = 1};
    struct fault fault;
    cr_assert_eq(offsets_seat(other, &f->scope, &seat, 1, &fault), ST_OK);
    cr_assert_eq(seat.generation, f->parts[1].generation + 1);
    cr_assert_eq(seat.next_offset, 0);

    fixture_event(f, 0, "r1", "u1");
    fixture_event(f, 1, "r2", "u1");
    struct claim_batch batch = fixture_batch(f);
    struct claim_outcome outcome;
    cr_assert_eq(claim_run(f->claim, f->db, &batch, &outcome, &fault), ST_OK);
    cr_assert(!outcome.moved);
    cr_assert_eq(outcome.notifications + outcome.dispatches + outcome.duplicates + outcome.batch_count, 0);
    ASSERT_COUNT(f, 0,
                 "SELECT (SELECT count(*) FROM idempotency_keys) + (SELECT count(*) FROM notifications) +"
                 " (SELECT sum(next_offset + records) FROM partition_offsets)");
    struct offsets_seat rows[2] = {{.partition = 0}, {.partition = 1}};
    cr_assert_eq(offsets_read(f->db, &f->scope, rows, 2, &fault), ST_OK);
    cr_assert_eq(offsets_judge(&f->parts[0], &rows[0]), OFFSETS_HELD);
    cr_assert_eq(offsets_judge(&f->parts[1], &rows[1]), OFFSETS_LOST);
    printf("partition 1 taken over: offsets moved to %lld and %lld of 1 and 1, rows stored %lld\n",
           (long long)rows[0].next_offset, (long long)rows[1].next_offset, (long long)outcome.notifications);
    db_close(other);
    fixture_close(f);
}

Test(claim, lost_answer_is_seen_as_committed)
{
    struct fixture *f = fixture_open("claim_again", 1);
    fixture_event(f, 0, "r1", "u1");
    struct claim_batch batch = fixture_batch(f);
    struct claim_outcome outcome;
    struct fault fault;
    cr_assert_eq(claim_run(f->claim, f->db, &batch, &outcome, &fault), ST_OK);
    cr_assert(outcome.moved);
    cr_assert_eq(claim_run(f->claim, f->db, &batch, &outcome, &fault), ST_OK);
    cr_assert(!outcome.moved);
    struct offsets_seat row = {.partition = 0};
    cr_assert_eq(offsets_read(f->db, &f->scope, &row, 1, &fault), ST_OK);
    cr_assert_eq(offsets_judge(&f->parts[0], &row), OFFSETS_COMMITTED);
    /* A database restored to an earlier time. */
    world_exec(&f->world, "UPDATE partition_offsets SET next_offset = 0");
    fixture_next(f);
    fixture_event(f, 0, "r2", "u1");
    batch = fixture_batch(f);
    cr_assert_eq(claim_run(f->claim, f->db, &batch, &outcome, &fault), ST_OK);
    cr_assert(!outcome.moved);
    cr_assert_eq(offsets_read(f->db, &f->scope, &row, 1, &fault), ST_OK);
    cr_assert_eq(offsets_judge(&f->parts[0], &row), OFFSETS_WENT_BACK);
    fixture_close(f);
}

/* CLM-07: zero rows is the normal answer of a duplicate. */
Test(claim, duplicates_within_and_across_batches)
{
    struct fixture *f = fixture_open("claim_dup", 2);
    fixture_device(f, "u1", "ExponentPushToken[a]", 0);
    fixture_event(f, 0, "r1", "u1");
    fixture_event(f, 0, "r1", "u1");                   /* in the same batch */
    fixture_event(f, 1, "r1", "u1")->content_hash = 2; /* on another partition, and another text */
    fixture_event(f, 1, "r1", "u1")->workspace_id = span_of("w2"); /* another workspace cannot collide */
    struct claim_outcome outcome = fixture_claim(f);
    cr_assert_eq(outcome.notifications, 2);
    cr_assert_eq(outcome.duplicates, 2);
    cr_assert_eq(outcome.dispatches, 2);
    cr_assert_eq(outcome.mismatch_count, 1);
    cr_assert_eq(outcome.mismatches_held, 1);
    cr_assert_eq(outcome.mismatches[0].event, 2);
    cr_assert_eq(outcome.mismatches[0].recipient, 0);
    for (int i = 0; i < 10; i++) {
        fixture_event(f, i % 2, "new", "u3 u4");
        fixture_event(f, i % 2, "r1", "u5 u1")->content_hash = i == 9 ? 7 : 1;
        outcome = fixture_claim(f);
        cr_assert_eq(outcome.notifications, i == 0 ? 3 : 0);
        cr_assert_eq(outcome.duplicates, i == 0 ? 1 : 4);
        cr_assert_eq(outcome.mismatch_count, i == 9 ? 2 : 0);
    }
    cr_assert_eq(outcome.mismatches[1].event, 1);
    cr_assert_eq(outcome.mismatches[1].recipient, 1);
    ASSERT_COUNT(f, 1,
                 "SELECT count(*) FROM notifications WHERE workspace_id = 'w' AND recipient_user_id = 'u1'"
                 " AND title = 'title of r1'");
    world_check_books(&f->world);
    fixture_close(f);
}

/* CLM-04 below the encoding: keys are told apart byte for byte. */
Test(claim, keys_that_look_alike_stay_apart)
{
    static const char *const keys[] = {"a:b",  "a%3Ab", "a%3ab", "A:b", "a:b ",      " a:b",
                                       "a::b", "a:",    ":a",    "",    "e\xcc\x81", "\xc3\xa9"};
    struct fixture *f = fixture_open("claim_alike", 1);
    enum { KEYS = sizeof keys / sizeof keys[0] };
    for (size_t i = 0; i < KEYS; i++)
        fixture_event(f, 0, "r", "u")->recipients[0].key = span_of(keys[i]);
    cr_assert_eq(fixture_claim(f).notifications, KEYS);
    for (size_t i = 0; i < KEYS; i++)
        fixture_event(f, 0, "r", "u")->recipients[0].key = span_of(keys[i]);
    cr_assert_eq(fixture_claim(f).duplicates, KEYS);
    /* A NUL is refused, not cut: two keys never become one. */
    fixture_event(f, 0, "r", "u")->recipients[0].key = (struct span){"a\0b", 3};
    struct claim_batch batch = fixture_batch(f);
    struct claim_outcome outcome;
    struct fault fault;
    cr_assert_eq(claim_run(f->claim, f->db, &batch, &outcome, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, "22021");
    fixture_close(f);
}

Test(claim, erased_users_are_counted_and_not_stored)
{
    struct fixture *f = fixture_open("claim_erased", 1);
    fixture_device(f, "gone", "ExponentPushToken[a]", 0);
    fixture_event(f, 0, "before", "gone other");
    cr_assert_eq(fixture_claim(f).notifications, 2);
    world_exec(&f->world, "SELECT belfry_erase_user('gone')");
    ASSERT_COUNT(f, 0, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'gone'");
    ASSERT_COUNT(f, 1, "SELECT count(*) FROM notifications");

    fixture_event(f, 0, "old", "gone other")->event_at_us -= 10000000;
    fixture_event(f, 0, "new", "gone")->event_at_us += 60000000;
    struct claim_outcome outcome = fixture_claim(f);
    cr_assert_eq(outcome.erased, 1);
    cr_assert_eq(outcome.notifications, 2);
    cr_assert_eq(outcome.dispatches, 0); /* the token went with the person */
    ASSERT_COUNT(f, 0, "SELECT count(*) FROM idempotency_keys WHERE key = 'notification:old:t:gone'");
    world_check_books(&f->world);
    fixture_close(f);
}

Test(claim, devices_per_user_are_the_newest)
{
    struct fixture *f = fixture_open("claim_devices", 1);
    for (int i = 0; i < 25; i++) {
        char token[64];
        snprintf(token, sizeof token, "ExponentPushToken[%02d]", i);
        fixture_device(f, "u1", token, i * 60);
    }
    world_exec(&f->world,
               "UPDATE device_tokens SET enabled = false, disabled_at = now() WHERE token LIKE '%%[00]'");
    fixture_event(f, 0, "r1", "u1");
    struct claim_outcome outcome = fixture_claim(f);
    cr_assert_eq(outcome.dispatches, 20);
    ASSERT_COUNT(
        f, 20,
        "SELECT count(*) FROM dispatches d JOIN device_tokens t ON t.id = d.device_id"
        " WHERE t.token = format('ExponentPushToken[%%s]', lpad(((d.id & 1048575) + 1)::text, 2, '0'))");
    fixture_close(f);
}

Test(claim, what_is_not_to_be_sent_is_suppressed_at_once)
{
    struct fixture *f = fixture_open("claim_suppress", 1);
    fixture_device(f, "u1", "ExponentPushToken[a]", 0);
    fixture_device(f, "u2", "ExponentPushToken[b]", 0);
    fixture_event(f, 0, "off", "u1")->push_choice = PUSH_OFF;
    struct claim_outcome outcome = fixture_claim(f);
    cr_assert_eq(outcome.suppressed, 1);
    cr_assert_eq(outcome.batch_count, 0);
    ASSERT_COUNT(f, 0, "SELECT count(*) FROM batches");

    fixture_event(f, 0, "off2", "u1 u2")->push_choice = PUSH_OFF;
    fixture_event(f, 0, "late", "u1")->expires_at = (struct instant){true, fixture_now_us() - 1000000};
    fixture_event(f, 0, "stale", "u2")->event_at_us -= (int64_t)2 * 3600 * 1000000;
    fixture_event(f, 0, "ok", "u1 u2")->expires_at = (struct instant){true, fixture_now_us() + 60000000};
    outcome = fixture_claim(f);
    cr_assert_eq(outcome.notifications, 6);
    cr_assert_eq(outcome.dispatches, 6);
    cr_assert_eq(outcome.suppressed, 4);
    cr_assert_eq(outcome.batch_count, 1);
    cr_assert_eq(outcome.batches[0].unsent, 2);
    ASSERT_COUNT(f, 3, "SELECT count(*) FROM dispatches WHERE state = 'suppressed' AND error = 'PushOff'");
    ASSERT_COUNT(f, 2, "SELECT count(*) FROM dispatches WHERE state = 'suppressed' AND error = 'Expired'");
    /* unsent is exactly the queued ones. */
    ASSERT_COUNT(f, 6,
                 "SELECT count(*) FROM batches b JOIN dispatches d ON d.id >> 20 = b.id"
                 " WHERE (d.state = 'queued') = (b.unsent @> (d.id & 1048575)::int4)");
    world_check_books(&f->world);
    fixture_close(f);
}

Test(claim, batches_taken_in_memory_are_leased)
{
    struct fixture *f = fixture_open("claim_take", 1);
    fixture_device(f, "u1", "ExponentPushToken[a]", 0);
    fixture_event(f, 0, "r1", "u1");
    struct claim_batch batch = fixture_batch(f);
    batch.take = true;
    struct claim_outcome outcome;
    struct fault fault;
    cr_assert_eq(claim_run(f->claim, f->db, &batch, &outcome, &fault), ST_OK);
    ASSERT_COUNT(
        f, 1,
        "SELECT count(*) FROM batches WHERE owner = %lld AND leased_until = created_at + interval '60 s'",
        (long long)f->scope.owner);
    fixture_close(f);
}

/* More dispatches than an id has room for: the statement refuses as a whole, and halves would fit. */
Test(claim, ordinals_stay_below_20_bits)
{
    struct fixture *f = fixture_open("claim_ordinals", 1);
    world_exec(&f->world, "INSERT INTO device_tokens (token, user_id, platform) SELECT 't' || i, 'u1', 'ios'"
                          " FROM generate_series(1, 1100) i");
    claim_free(f->claim);
    f->settings.devices_per_user_max = 2000;
    f->claim = claim_new(&f->settings);
    for (int i = 0; i < 954; i++) { /* 954 × 1,100 > 2^20 */
        char run[16];
        snprintf(run, sizeof run, "r%d", i);
        fixture_event(f, 0, run, "u1");
    }
    struct claim_batch batch = fixture_batch(f);
    struct claim_outcome outcome;
    struct fault fault;
    cr_assert_eq(claim_run(f->claim, f->db, &batch, &outcome, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, "22012");
    ASSERT_COUNT(f, 0, "SELECT count(*) FROM dispatches");
    fixture_close(f);
}

/* Two workers, the same keys in opposite orders, on partitions of their own: sorted claims do not deadlock.
 */
Test(claim, two_workers_do_not_deadlock)
{
    struct fixture *f = fixture_open("claim_deadlock", 2);
    struct db *dbs[2] = {f->db, fixture_connect(f)};
    struct claim *claims[2] = {f->claim, claim_new(&f->settings)};
    static struct event events[2][400];
    static const struct event *lists[2][400];
    int64_t stored = 0, duplicates = 0;
    for (int round = 0; round < 40; round++) {
        for (int worker = 0; worker < 2; worker++) {
            for (int i = 0; i < 400; i++) {
                char run[32];
                snprintf(run, sizeof run, "%d-%d", round, worker == 0 ? i : 399 - i);
                f->event_count = 0;
                events[worker][i] = *fixture_event(f, worker, run, "u1");
                lists[worker][i] = &events[worker][i];
            }
        }
        struct claim_batch batches[2];
        struct fault fault;
        for (int worker = 0; worker < 2; worker++) {
            batches[worker] = (struct claim_batch){.parts = &f->parts[worker],
                                                   .part_count = 1,
                                                   .events = lists[worker],
                                                   .event_count = 400,
                                                   .now_us = fixture_now_us()};
            cr_assert_eq(claim_send(claims[worker], dbs[worker], &batches[worker], 7, &fault), ST_OK);
        }
        for (int worker = 0; worker < 2; worker++) {
            struct db_answer answer;
            struct claim_outcome outcome;
            cr_assert(db_wait(dbs[worker], 20000));
            cr_assert(db_take(dbs[worker], &answer));
            cr_assert_eq(answer.tag, 7);
            enum status status = claim_finish(claims[worker], &answer, &outcome, &fault);
            cr_assert_eq(status, ST_OK, "%s %s", fault.code, fault.text);
            stored += outcome.notifications;
            duplicates += outcome.duplicates;
        }
        fixture_next(f);
    }
    cr_assert_eq(stored, 16000);
    cr_assert_eq(duplicates, 16000);
    world_check_books(&f->world);
    claim_free(claims[1]);
    db_close(dbs[1]);
    fixture_close(f);
}

/* An erasure while a batch is in flight, both ways: nothing of the person stays. */
Test(claim, erasure_and_claim_exclude_each_other)
{
    struct fixture *f = fixture_open("claim_race", 1);
    struct fault fault;
    for (int round = 0; round < 20; round++) {
        char users[4096] = "gone";
        for (int i = 0; i < 300; i++)
            snprintf(users + strlen(users), sizeof users - strlen(users), " v%d", i);
        char run[16];
        snprintf(run, sizeof run, "r%d", round);
        fixture_event(f, 0, run, users);
        struct claim_batch batch = fixture_batch(f);
        cr_assert_eq(claim_send(f->claim, f->db, &batch, 1, &fault), ST_OK);
        if (round % 2 == 0)
            world_sleep_ms(round / 2);
        world_exec(&f->world, "SELECT belfry_erase_user('gone')");
        struct db_answer answer;
        struct claim_outcome outcome;
        cr_assert(db_wait(f->db, 20000) && db_take(f->db, &answer));
        cr_assert_eq(claim_finish(f->claim, &answer, &outcome, &fault), ST_OK, "%s", fault.text);
        cr_assert_eq(outcome.notifications + outcome.erased, 301);
        ASSERT_COUNT(f, 0, "SELECT count(*) FROM notifications WHERE recipient_user_id = 'gone'");
        fixture_next(f);
    }
    world_check_books(&f->world);
    fixture_close(f);
}

/* 10,000 recipients at once: no join of the statement is quadratic, and the time is printed. */
Test(claim, large_batches)
{
    struct fixture *f = fixture_open("claim_large", 1);
    world_exec(&f->world,
               "INSERT INTO device_tokens (token, user_id, platform) SELECT 't' || i, 'u' || i, 'ios'"
               " FROM generate_series(1, 20000) i");
    for (int round = 0; round < 3; round++) {
        for (int e = 0; e < 1000; e++) {
            char run[32], users[512] = "";
            snprintf(run, sizeof run, "%d-%d", round, e);
            for (int i = 0; i < (round == 2 ? 10 : 1); i++)
                snprintf(users + strlen(users), sizeof users - strlen(users), "%su%d", i == 0 ? "" : " ",
                         (e * 13 + i * 1000) % 20000 + 1);
            fixture_event(f, 0, run, users);
        }
        int64_t began_us = fixture_now_us();
        struct claim_outcome outcome = fixture_claim(f);
        int64_t took_us = fixture_now_us() - began_us;
        printf("claim: %lld notifications and %lld dispatches in %.1f ms\n", (long long)outcome.notifications,
               (long long)outcome.dispatches, (double)took_us / 1000);
        cr_assert_eq(outcome.notifications, outcome.dispatches);
        cr_assert_lt(took_us, 5000000);
    }
    fixture_close(f);
}
