/* The fan-out thread alone: what it sends, reports and leaves. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "fanout_bench.h"

Test(fanout, sends_reports_and_deletes_the_batch)
{
    struct bench b;
    bench_open(&b, "fanout_sends");
    struct world *w = &b.f->world;
    bench_devices(&b, 250);
    world_exec(w, "UPDATE device_tokens SET token = 'malformed' WHERE user_id = 'u7'");
    bench_start(&b);
    (void)bench_batch(&b, "r1", 250, false);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(simulator_stat(w, "send", "calls"), 3);
    cr_expect_eq(simulator_stat(w, "send", "largest"), 100);
    cr_expect_eq(simulator_accepted(w, NULL), 249);
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 249);
    cr_expect_eq(bench_outcomes(&b, "\"error\":\"InvalidToken\""), 1);
    (void)bench_batch(&b, "r2", 10, true);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 249 + 9);
    cr_expect_eq(world_count(w, "SELECT count(*) FROM dispatches WHERE state <> 'queued'"), 0,
                 "the dispatcher never updates a dispatch");
    cr_expect(handover_reserve(b.handover, 4), "every place is given back");
    bench_stop(&b);
    bench_close(&b);
}

Test(fanout, a_dead_owners_window_is_unconfirmed_and_the_rest_is_sent)
{
    struct bench b;
    bench_open(&b, "fanout_dead");
    struct world *w = &b.f->world;
    bench_devices(&b, 200);
    (void)bench_batch(&b, "r1", 200, false);
    world_exec(w,
               "UPDATE batches SET owner = 5, unsent = '{[120,200)}', leased_until = now() + interval '1 s';"
               "UPDATE dispatches SET state = 'sent' WHERE id & 1048575 < 20");
    bench_start(&b);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(bench_outcomes(&b, "\"error\":\"Unconfirmed\""), 100);
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 80);
    cr_expect_eq(simulator_accepted(w, NULL), 80);
    bench_stop(&b);
    bench_close(&b);
}

Test(fanout, stop_leaves_the_rest_unsent_and_ends_the_leases)
{
    struct bench b;
    bench_open(&b, "fanout_stop");
    struct world *w = &b.f->world;
    bench_devices(&b, 900);
    simulator_script(w, "{\"when\":{},\"do\":{\"delay_ms\":1500}}");
    (void)bench_batch(&b, "r1", 900, true);
    bench_start(&b);
    world_wait_count(w, 1, "SELECT count(*) FROM batches WHERE unsent <> '{[0,900)}'");
    bench_stop(&b);
    cr_expect_eq(world_count(w, "SELECT count(*) FROM batches WHERE unsent = '{[600,900)}'"
                                " AND owner IS NULL AND leased_until IS NULL"),
                 1);
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 600);
    cr_expect_eq(simulator_accepted(w, NULL), 600);
    bench_close(&b);
}

Test(fanout, what_is_not_answered_by_shutdown_is_unconfirmed)
{
    struct bench b;
    bench_open(&b, "fanout_hang");
    struct world *w = &b.f->world;
    bench_devices(&b, 50);
    b.provider.request_timeout_ms = 60000;
    simulator_script(w, "{\"when\":{},\"do\":{\"hang_ms\":20000}}");
    (void)bench_batch(&b, "r1", 50, true);
    bench_start(&b);
    world_wait_count(w, 1, "SELECT count(*) FROM batches WHERE isempty(unsent)");
    int64_t began = world_now_ms();
    bench_stop(&b);
    cr_expect_lt(world_now_ms() - began, 6000);
    cr_expect_eq(bench_outcomes(&b, "\"error\":\"Unconfirmed\""), 50);
    cr_expect_eq(world_count(w, "SELECT count(*) FROM batches"), 0, "all outcomes are acknowledged");
    bench_close(&b);
}

Test(fanout, the_database_goes_and_comes_back)
{
    struct bench b;
    bench_open(&b, "fanout_db");
    struct world *w = &b.f->world;
    bench_devices(&b, 900);
    simulator_script(w, "{\"when\":{},\"do\":{\"delay_ms\":200}}");
    bench_start(&b);
    for (int i = 0; i < 5; i++) {
        char run[16];
        snprintf(run, sizeof run, "r%d", i);
        (void)bench_batch(&b, run, 900, false);
        world_exec(w, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                      " WHERE application_name = 'stage-fanout' AND datname = current_database()");
        world_sleep_ms(150);
    }
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 4500);
    cr_expect_eq(simulator_accepted(w, NULL), 4500);
    bench_stop(&b);
    bench_close(&b);
}

/* Nothing is taken, and so nothing is pushed, before there is a place for the outcomes. */
Test(fanout, waits_for_its_topic_before_it_takes_anything)
{
    struct bench b;
    bench_open(&b, "fanout_start");
    struct world *w = &b.f->world;
    bench_devices(&b, 150);
    world_delete_topic(w, w->receipts);
    world_sleep_ms(500);
    bench_start(&b);
    (void)bench_batch(&b, "r1", 150, false);
    world_sleep_ms(2500);
    int64_t early = simulator_accepted(w, NULL);
    cr_expect_eq(early, 0);
    cr_expect_eq(world_count(w, "SELECT upper(unsent) FROM batches"), 150);
    world_create_topic(w, w->receipts, 3);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    printf("pushed without the topic: %lld, with it: %lld\n", (long long)early,
           (long long)simulator_accepted(w, NULL));
    cr_expect_eq(simulator_accepted(w, NULL), 150);
    bench_stop(&b);
    bench_close(&b);
}

Test(fanout, outcomes_wait_for_their_topic)
{
    struct bench b;
    bench_open(&b, "fanout_topic");
    struct world *w = &b.f->world;
    bench_devices(&b, 150);
    bench_start(&b);
    world_sleep_ms(1000);
    world_delete_topic(w, w->receipts);
    world_sleep_ms(500);
    (void)bench_batch(&b, "r1", 150, false);
    world_wait_count(w, 1, "SELECT count(*) FROM batches WHERE isempty(unsent)");
    world_sleep_ms(3500); /* longer than the lease: it is renewed while the outcomes wait */
    cr_expect_eq(world_count(w, "SELECT count(*) FROM batches WHERE leased_until > now()"), 1);
    world_create_topic(w, w->receipts, 3);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 150);
    cr_expect_eq(simulator_accepted(w, NULL), 150);
    bench_stop(&b);
    bench_close(&b);
}
