/* The fan-out thread alone while the provider, the database or a dead peer is away: what it still does, what
 * it does not, and that nobody is given up. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fanout_bench.h"

/* One message is all the traffic there is, so its own refusals are all the breaker sees: send_attempts (3)
 * come before provider_failures (5), and yet it is not given up. */
Test(fanout_outage, the_first_message_of_an_outage_is_not_given_up)
{
    struct bench b;
    bench_open(&b, "fanout_low");
    struct world *w = &b.f->world;
    b.provider.provider_failures = 5;
    bench_devices(&b, 1);
    simulator_script(w, BENCH_AWAY);
    bench_start(&b);
    (void)bench_batch(&b, "r1", 1, false);
    bench_wait_calls(&b, 8);
    cr_expect_eq(bench_outcomes(&b, "\"outcome\""), 0, "nothing is said of it yet");
    int64_t calls = simulator_stat(w, "send", "calls");
    simulator_reset(w);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    printf("low traffic: one message refused %lld times, send_attempts 3, provider_failures 5; then sent %d, "
           "failed %d\n",
           (long long)calls, bench_outcomes(&b, "\"outcome\":\"sent\""),
           bench_outcomes(&b, "\"outcome\":\"failed\""));
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 1);
    cr_expect_eq(bench_outcomes(&b, "\"outcome\""), 1);
    cr_expect_eq(simulator_accepted(w, NULL), 1);
    bench_stop(&b);
    bench_close(&b);
}

/* A message that the provider never takes opens the breaker; trials go round, so those behind it find it
 * closed. */
Test(fanout_outage, one_bad_message_does_not_keep_the_breaker_open)
{
    struct bench b;
    bench_open(&b, "fanout_bad");
    struct world *w = &b.f->world;
    b.provider.provider_failures = 5;
    bench_devices(&b, 4);
    simulator_script(
        w, "{\"when\":{\"token\":\"[0]\"},\"do\":{\"status\":503,\"body\":{\"errors\":[{\"code\":\"DOWN\","
           "\"message\":\"m\"}]},\"headers\":{\"Retry-After\":\"0\"}}}");
    bench_start(&b);
    (void)bench_batch_for(&b, "bad", "u0", false);
    bench_wait_calls(&b, 6);
    (void)bench_batch_for(&b, "good", "u1 u2 u3", true);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    printf("one bad message: sent %d of 3 behind it; the bad one failed %d times, in %lld requests\n",
           bench_outcomes(&b, "\"outcome\":\"sent\""),
           bench_outcomes(&b, "\"error\":\"ProviderUnavailable\""),
           (long long)simulator_stat(w, "send", "calls"));
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 3);
    cr_expect_eq(bench_outcomes(&b, "\"error\":\"ProviderUnavailable\""), 1);
    cr_expect_eq(simulator_accepted(w, NULL), 3);
    bench_stop(&b);
    bench_close(&b);
}

/* While the breaker is open, what a dead peer risked is told, and what it had not begun stays in the table.
 */
Test(fanout_outage, what_a_dead_owner_risked_is_told_all_the_same)
{
    struct bench b;
    bench_open(&b, "fanout_left");
    struct world *w = &b.f->world;
    b.provider.provider_failures = 2;
    bench_devices(&b, 200);
    simulator_script(w, BENCH_AWAY);
    bench_start(&b);
    (void)bench_batch(&b, "r1", 100, false);
    bench_wait_calls(&b, 3);
    int64_t dead = bench_batch(&b, "r2", 200, false), none = bench_batch(&b, "r3", 50, false);
    world_exec(w,
               "UPDATE batches SET owner = 5, leased_until = now(), unsent = '{[120,200)}' WHERE id = %lld",
               (long long)dead);
    world_wait_count(w, 1, "SELECT count(*) FROM batches WHERE id = %lld AND owner IS NULL", (long long)dead);
    int told = bench_outcomes(&b, "\"error\":\"Unconfirmed\""), all = bench_outcomes(&b, "\"outcome\"");
    int64_t left = world_count(w,
                               "SELECT count(*) FROM batches WHERE owner IS NULL AND leased_until IS NULL AND"
                               " (id = %lld AND unsent = '{[120,200)}' OR id = %lld AND unsent = '{[0,50)}')",
                               (long long)dead, (long long)none);
    printf("breaker open: %d of 120 that a dead owner risked are Unconfirmed, %d other outcomes; batches "
           "left in "
           "the table with what was not begun: %lld of 2\n",
           told, all - told, (long long)left);
    cr_expect_eq(told, 120);
    cr_expect_eq(all, 120);
    cr_expect_eq(left, 2);
    simulator_reset(w);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 100 + 80 + 50);
    cr_expect_eq(simulator_accepted(w, NULL), 100 + 80 + 50);
    bench_stop(&b);
    bench_close(&b);
}

static void cut_off(struct world *w)
{
    static const char mine[] = "application_name = 'stage-fanout' AND datname = current_database()";
    world_wait_count(w, 1, "SELECT count(*) FROM pg_stat_activity WHERE %s", mine);
    world_sleep_ms(500);
    world_exec(w, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE %s", mine);
    world_wait_count(
        w, 0, "SELECT count(*) FROM pg_stat_activity WHERE %s AND backend_start < now() - interval '300 ms'",
        mine);
    world_wait_count(w, 1, "SELECT count(*) FROM pg_stat_activity WHERE %s", mine);
}

/* Leases run out because the database was away for everybody. One owner comes back, and has sent nothing of
 * the window whose answer it never got; another one does not. */
Test(fanout_outage, after_an_outage_owners_may_renew_before_they_are_taken_over)
{
    struct bench b;
    bench_open(&b, "fanout_grace");
    struct world *w = &b.f->world;
    bench_devices(&b, 100);
    int64_t back = bench_batch(&b, "r1", 100, false), gone = bench_batch(&b, "r2", 100, false);
    world_exec(
        w, "UPDATE batches SET owner = 5, leased_until = now() + interval '1 hour', unsent = '{[60,100)}'");
    bench_start(&b);
    cut_off(w);
    world_exec(w, "UPDATE batches SET leased_until = now()");
    world_sleep_ms(1500); /* seven sweeps */
    int64_t kept = world_count(w, "SELECT count(*) FROM batches WHERE owner = 5");
    world_exec(w,
               "UPDATE batches SET owner = NULL, leased_until = NULL, unsent = '{[0,100)}' WHERE id = %lld",
               (long long)back); /* as its owner would */
    world_wait_count(w, 0, "SELECT count(*) FROM batches WHERE id = %lld", (long long)back);
    int early = bench_outcomes(&b, "Unconfirmed"), sent = bench_outcomes(&b, "\"outcome\":\"sent\"");
    world_wait_count(w, 0, "SELECT count(*) FROM batches WHERE id = %lld", (long long)gone);
    int late = bench_outcomes(&b, "Unconfirmed");
    printf("after an outage: %lld of 2 batches still their owners'; of the one that came back Unconfirmed "
           "%d, sent "
           "%d of 100; of the other Unconfirmed %d, sent %d\n",
           (long long)kept, early, sent, late, bench_outcomes(&b, "\"outcome\":\"sent\"") - sent);
    cr_expect_eq(kept, 2);
    cr_expect_eq(early, 0);
    cr_expect_eq(sent, 100);
    cr_expect_eq(late, 60);
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 140);
    bench_stop(&b);
    bench_close(&b);
}

static double shown(struct metrics *metrics, const char *series)
{
    struct buffer text;
    char line[128];
    buffer_init(&text, 1 << 20);
    metrics_write(metrics, &text);
    snprintf(line, sizeof line, "\n%s ", series);
    const char *at = strstr(text.at, line);
    double value = at == NULL ? -1 : strtod(at + strlen(line), NULL);
    buffer_done(&text);
    return value;
}

/* More is owed at once than the producer's queue takes: it is served and tried again, and every outcome
 * arrives. */
Test(fanout_outage, a_full_local_queue_is_served_and_tried_again)
{
    struct bench b;
    bench_open(&b, "fanout_full");
    struct world *w = &b.f->world;
    double most = 0;
    b.kafka[b.properties.count++] = (struct config_pair){.key = "linger.ms", .value = "500"};
    b.setup.metrics = metrics_new();
    bench_devices(&b, 1500);
    (void)bench_batch(&b, "r1", 1500, false);
    world_exec(w, "UPDATE batches SET owner = 5, leased_until = now(), unsent = '{}'"); /* all told at once */
    bench_start(&b);
    int64_t until_ms = world_now_ms() + 30000;
    while (world_count(w, "SELECT count(*) FROM batches") > 0 && world_now_ms() < until_ms) {
        double owed = shown(b.setup.metrics, "belfry_fanout_outcomes_owed");
        most = owed > most ? owed : most;
        world_sleep_ms(10);
    }
    int told = bench_outcomes(&b, "\"error\":\"Unconfirmed\"");
    printf("full queue: it takes 600 records, %g were owed at once, %d of 1500 outcomes arrived, %lld "
           "batches left\n",
           most, told, (long long)world_count(w, "SELECT count(*) FROM batches"));
    cr_expect_gt(most, 600);
    cr_expect_eq(told, 1500);
    cr_expect_eq(bench_outcomes(&b, "\"outcome\""), 1500);
    bench_stop(&b);
    metrics_free(b.setup.metrics);
    bench_close(&b);
}

/* While the provider's breaker is open the account service is asked for its trials' sake only. */
Test(fanout_outage, nobody_is_asked_for_while_nothing_is_sent)
{
    struct bench b;
    char url[160];
    bench_open(&b, "fanout_quiet");
    struct world *w = &b.f->world;
    snprintf(url, sizeof url, "%s/preferences", w->provider_url);
    b.preferences.url = url;
    b.preferences.ttl_ms = b.preferences.timeout_ms = 200;
    b.provider.provider_failures = 2;
    b.provider.provider_pause_ms = b.provider.provider_pause_max_ms = 1000;
    bench_devices(&b, 300);
    simulator_script(w, BENCH_AWAY);
    bench_start(&b);
    (void)bench_batch(&b, "r1", 300, false);
    bench_wait_calls(&b, 3);
    int64_t asked = simulator_stat(w, "preferences", "calls"), trials = simulator_stat(w, "send", "calls");
    world_sleep_ms(4000);
    asked = simulator_stat(w, "preferences", "calls") - asked;
    trials = simulator_stat(w, "send", "calls") - trials;
    printf("breaker open for 4 s, ttl 200 ms: %lld trials, the account service was asked %lld times\n",
           (long long)trials, (long long)asked);
    cr_expect_geq(trials, 1);
    cr_expect_leq(asked, trials + 1);
    simulator_reset(w);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(bench_outcomes(&b, "\"outcome\":\"sent\""), 300);
    bench_stop(&b);
    bench_close(&b);
}
