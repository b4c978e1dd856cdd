/* The provider's rate as it sees it, and the provider away: what waits, where, and what is lost. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pushes.h"

static void print_rate(const char *name, const struct pushes_rate *seen, int limit)
{
    double seconds = (double)(seen->last_ms - seen->first_ms) / 1000;
    printf("%s: limit %d/s: %lld messages in %lld requests (largest %lld) in %.2f s: %.0f/s, busiest second "
           "%lld\n",
           name, limit, (long long)seen->messages, (long long)seen->requests, (long long)seen->largest,
           seconds, seconds > 0 ? (double)seen->messages / seconds : 0, (long long)seen->busiest);
}

/* ---- the rate -------------------------------------------------------------------------------------------
 */

/* The backlog first, so that only fan-out's own pace is seen. */
static void make_backlog(struct world *w, const char *run, int devices)
{
    struct child *ingest = world_dispatcher(w, "[run]\nroles = ingest\n");
    pushes_devices(w, run, devices);
    pushes_event(w, run, run, devices, "");
    world_wait_count(w, devices, "SELECT count(*) FROM notifications WHERE event_type = '%s'", run);
    child_stop(ingest);
}

Test(dispatcher, rate)
{
    struct world w;
    pushes_open(&w, "rate", NULL);
    make_backlog(&w, "r", 10000);
    struct child *dispatcher = world_dispatcher(&w, "[run]\nroles = fanout\n[fanout]\nrate_limit = 600\n");
    pushes_wait(&w, "r", 10000);
    struct pushes_rate seen = pushes_rate_seen(&w, NULL);
    print_rate("rate", &seen, 600);
    int64_t calls = simulator_stat(&w, "send", "calls"), most = simulator_stat(&w, "send", "concurrent_max");
    printf("rate: %lld requests in all, %lld refused, at most %lld at once\n", (long long)calls,
           (long long)simulator_stat(&w, "send", "refused"), (long long)most);
    cr_expect_eq(calls, 100, "exactly as many requests as 10,000 messages need");
    cr_expect_eq(seen.requests, 100);
    cr_expect_eq(seen.largest, 100);
    cr_expect_leq(seen.busiest, 600, "no second sees more than the limit");
    cr_expect_leq(most, 6);
    cr_expect_leq(seen.last_ms - seen.first_ms, 25000, "and the limit is used");
    cr_expect_eq(pushes_accepted_once(&w), 10000);
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL), 10000);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

Test(dispatcher, rate_share)
{
    static const char half[] =
        "[run]\nroles = fanout\n[fanout]\nrate_limit = 600\nrate_share = 0.5\nbatches_in_memory = 1\n";
    struct world w;
    pushes_open(&w, "rate_share", NULL);
    struct child *ingest =
        world_dispatcher(&w, "[run]\nroles = ingest\n[ingest]\nbatch_max_recipients = 100\n");
    pushes_devices(&w, "s", 100);
    for (int i = 0; i < 40; i++) {
        char event[16];
        snprintf(event, sizeof event, "s%d", i);
        pushes_event(&w, "s", event, 100, "");
    }
    world_wait_count(&w, 4000, "SELECT count(*) FROM notifications");
    child_stop(ingest);
    struct child *first = world_dispatcher(&w, half), *second = world_dispatcher(&w, half);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    struct pushes_rate seen = pushes_rate_seen(&w, NULL);
    print_rate("rate_share: two processes with a half each", &seen, 600);
    double of_first = child_metric(first, "belfry_fanout_outcomes_total{result=\"sent\"}");
    double of_second = child_metric(second, "belfry_fanout_outcomes_total{result=\"sent\"}");
    printf("rate_share: %g sent by the first, %g by the second\n", of_first, of_second);
    cr_expect_leq(seen.busiest, 600, "no second of the provider sees more than the limit");
    cr_expect(of_first >= 500 && of_second >= 500, "both work");
    cr_expect_eq(pushes_accepted_once(&w), 4000);
    child_stop(first);
    child_stop(second);
    world_check_books(&w);
    world_close(&w);
}

static bool backlog_moves(void *context)
{
    return simulator_accepted(context, "[n-") >= 600;
}

Test(dispatcher, urgent_first)
{
    struct world w;
    pushes_open(&w, "urgent_first", NULL);
    make_backlog(&w, "n", 5000);
    pushes_devices(&w, "h", 50);
    struct child *dispatcher = world_dispatcher(&w, "[fanout]\nrate_limit = 600\n");
    world_wait("a part of the backlog", WORLD_WAIT_S, backlog_moves, &w);
    int64_t before = simulator_accepted(&w, "[n-"), from_ms = world_now_ms();
    pushes_event(&w, "h", "h", 50, ",\"push\":{\"priority\":\"high\"}");
    while (simulator_accepted(&w, "[h-") < 50 && world_now_ms() - from_ms < 20000)
        world_sleep_ms(20);
    int64_t took_ms = world_now_ms() - from_ms, after = simulator_accepted(&w, "[n-");
    printf("urgent_first: 50 urgent pushes through after %lld ms; of 5000 others %lld were through before, "
           "%lld then\n",
           (long long)took_ms, (long long)before, (long long)after);
    cr_expect_eq(simulator_accepted(&w, "[h-"), 50);
    cr_expect_lt(after, 4000, "they did not wait for the backlog");
    pushes_wait(&w, "n", 5000);
    cr_expect_leq(pushes_rate_seen(&w, NULL).busiest, 600);
    cr_expect_eq(pushes_accepted_once(&w), 5050);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

/* ---- the provider away ----------------------------------------------------------------------------------
 */

#define AWAY                                                                                                 \
    "{\"when\":{},\"do\":{\"status\":503,\"body\":{\"errors\":[{\"code\":\"DOWN\",\"message\":\"m\"}]}}}"
#define PAUSES "provider_pause = 200ms\nprovider_pause_max = 1s\n"

static bool breaker_is(struct child *child, int state)
{
    return (int)child_metric(child, "belfry_provider_breaker_state") == state;
}

static void wait_breaker(struct child *child, int state)
{
    int64_t until_ms = world_now_ms() + 30000;
    while (!breaker_is(child, state) && world_now_ms() < until_ms)
        world_sleep_ms(20);
    cr_assert(breaker_is(child, state), "the breaker is not %d", state);
}

static void produce_runs(struct world *w, int from, int count, int devices)
{
    for (int i = from; i < from + count; i++) {
        char event[16];
        snprintf(event, sizeof event, "b%d", i);
        pushes_event(w, "b", event, devices, "");
    }
}

Test(dispatcher, breaker)
{
    struct world w;
    char text[2048];
    pushes_open(&w, "breaker", NULL);
    struct child *dispatcher = world_dispatcher(&w, "[fanout]\nbatches_in_memory = 8\n[ingest]\n"
                                                    "batch_max_events = 1\n[provider]\n" PAUSES);
    pushes_devices(&w, "b", 100);
    simulator_script(&w, AWAY);
    produce_runs(&w, 0, 20, 100);
    wait_breaker(dispatcher, 1);
    world_sleep_ms(1000);
    int64_t calls = simulator_stat(&w, "send", "calls"), rss_kib = child_rss_kib(dispatcher);
    produce_runs(&w, 20, 200, 100);
    world_wait_count(&w, 22000, "SELECT count(*) FROM notifications");
    world_sleep_ms(4000);
    int64_t trials = simulator_stat(&w, "send", "calls") - calls, later_kib = child_rss_kib(dispatcher);
    printf(
        "breaker: 22,000 pushes wait; trials while open %lld, batches in the table %lld, held %g, ready and "
        "in flight %g; RSS %lld -> %lld KiB\n",
        (long long)trials, (long long)world_count(&w, "SELECT count(*) FROM batches"),
        child_metric(dispatcher, "belfry_fanout_batches_held"),
        child_metric(dispatcher, "belfry_fanout_ready") + child_metric(dispatcher, "belfry_fanout_in_flight"),
        (long long)rss_kib, (long long)later_kib);
    cr_expect_leq(trials, 20, "one a pause");
    cr_expect_eq(world_count(&w, "SELECT count(*) FROM batches"), 220, "the backlog waits in the table");
    cr_expect_eq(pushes_outcomes(&w, NULL, NULL), 0, "nobody is given up");
#ifndef __SANITIZE_ADDRESS__ /* it keeps freed memory for a while, on purpose */
    cr_expect_lt(later_kib, rss_kib + rss_kib / 10);
#endif
    cr_expect_eq(pushes_readyz(dispatcher, text, sizeof text), 200, "feeds go on: %s", text);
    cr_expect(strstr(text, "open") != NULL, "%s", text);

    int64_t from_ms = world_now_ms();
    simulator_reset(&w);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    printf("breaker: drained %lld ms after the provider was back\n", (long long)(world_now_ms() - from_ms));
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL), 22000);
    cr_expect_eq(pushes_accepted_once(&w), 22000);
    cr_expect(breaker_is(dispatcher, 0));
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

Test(dispatcher, hanging)
{
    struct world w;
    pushes_open(&w, "hanging", NULL);
    struct child *dispatcher =
        world_dispatcher(&w, "[provider]\nrequest_timeout = 500ms\nprovider_failures = 2\n" PAUSES);
    pushes_devices(&w, "b", 100);
    simulator_script(&w, "{\"when\":{},\"do\":{\"hang_ms\":30000,\"accept\":false}}");
    produce_runs(&w, 0, 60, 100);
    wait_breaker(dispatcher, 1);
    world_sleep_ms(5000);
    int lost = pushes_outcomes(&w, "Unconfirmed", NULL);
    int64_t calls = simulator_stat(&w, "send", "calls");
    simulator_reset(&w);
    world_wait_count(&w, 6000, "SELECT count(*) FROM notifications");
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    int sent = pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL),
        all = pushes_outcomes(&w, "Unconfirmed", NULL);
    printf("hanging: 5 s with the breaker open: %lld requests, %d of 6000 Unconfirmed; then %d sent, %d "
           "Unconfirmed\n",
           (long long)calls, lost, sent, all);
    cr_expect_leq(calls, 18, "six at first, then one a pause");
    cr_expect_eq(sent + all, 6000);
    cr_expect_leq(all, 1900);
    cr_expect_eq(pushes_accepted_once(&w), sent);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

/* The provider is away for longer than push_max_age: what waited is suppressed, while it is away by the
 * trials and when it is back before anything of it is sent; what is young is sent, the urgent first, at the
 * limit. */
Test(dispatcher, push_max_age)
{
    struct world w;
    pushes_open(&w, "push_max_age", NULL);
    struct child *dispatcher = world_dispatcher(
        &w,
        "[fanout]\npush_max_age = 4s\nrate_limit = 600\n[provider]\nprovider_failures = 2\nprovider_pause = "
        "1h\nprovider_pause_max = 1h\n");
    pushes_devices(&w, "b", 100);
    simulator_script(&w, AWAY);
    produce_runs(&w, 0, 30, 100);
    world_wait_count(&w, 3000, "SELECT count(*) FROM notifications");
    wait_breaker(dispatcher, 1);
    world_sleep_ms(4500);
    int64_t waited = world_count(&w, "SELECT count(*) FROM batches");
    child_stop(dispatcher); /* so that the next trial is now, and not in an hour */
    simulator_reset(&w);
    dispatcher = world_dispatcher(&w, "[fanout]\npush_max_age = 4s\nrate_limit = 600\n");
    produce_runs(&w, 30, 1, 100);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    int expired = pushes_outcomes(&w, "\"outcome\":\"suppressed\"", "\"Expired\""),
        sent = pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL);
    printf("push_max_age: 3,000 pushes waited in %lld batches for longer than that: %d suppressed as Expired "
           "when the "
           "provider was back, of 100 new ones %d sent, %d failed\n",
           (long long)waited, expired, sent, pushes_outcomes(&w, "\"outcome\":\"failed\"", NULL));
    cr_expect(waited > 0);
    cr_expect_geq(expired, 3000);
    cr_expect_eq(expired + sent, 3100);
    cr_expect_eq(pushes_accepted_once(&w), sent);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

Test(dispatcher, outage_drain)
{
    struct world w;
    pushes_open(&w, "outage_drain", NULL);
    struct child *dispatcher = world_dispatcher(&w, "[fanout]\nrate_limit = 600\n[provider]\n" PAUSES);
    pushes_devices(&w, "b", 100);
    pushes_devices(&w, "h", 50);
    simulator_script(&w, AWAY);
    produce_runs(&w, 0, 30, 100);
    pushes_event(&w, "h", "h", 50, ",\"push\":{\"priority\":\"high\"}");
    world_wait_count(&w, 3050, "SELECT count(*) FROM notifications");
    wait_breaker(dispatcher, 1);
    simulator_reset(&w);
    int64_t until_ms = world_now_ms() + 20000;
    while (simulator_accepted(&w, "[h-") < 50 && world_now_ms() < until_ms)
        world_sleep_ms(10);
    int64_t urgent = simulator_accepted(&w, "[h-"), others = simulator_accepted(&w, "[b-");
    pushes_wait(&w, "h", 50);
    struct pushes_rate seen = pushes_rate_seen(&w, NULL);
    print_rate("outage_drain", &seen, 600);
    printf("outage_drain: when the %lld urgent ones, the youngest of all, were through, %lld of 3000 others "
           "were\n",
           (long long)urgent, (long long)others);
    cr_expect_eq(urgent, 50);
    cr_expect_lt(others, 1500, "urgent first");
    cr_expect_leq(seen.busiest, 600);
    cr_expect_eq(pushes_accepted_once(&w), 3050);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

static void write_token(const char *path, const char *token)
{
    FILE *stream = fopen(path, "w");
    cr_assert(stream != NULL);
    fprintf(stream, "%s\n", token);
    fclose(stream);
}

static struct child *simulator_again(struct world *w, const char *token)
{
    const char *argv[] = {"--access-token", token, "--listen", strstr(w->provider_url, "127.0.0.1"), NULL};
    return world_simulator(w, argv);
}

/* The token is withdrawn, a new one is written to the file: with SIGHUP both processes go on, no restart. */
Test(dispatcher, tokens_reloaded)
{
    static const char *const first[] = {"--access-token", "first-secret", NULL};
    struct world w;
    char path[WORLD_PATH_MAX], extra[WORLD_PATH_MAX + 200], text[2048];
    pushes_open(&w, "tokens_reloaded", first);
    struct child *simulator = &w.children[w.child_count - 1];
    snprintf(path, sizeof path, "%.400s/token", w.folder);
    write_token(path, "first-secret");
    snprintf(extra, sizeof extra, "[provider]\ntoken_file = %s\nauth_pause = 1h\n", path);
    struct child *dispatcher = world_dispatcher(&w, extra);
    snprintf(extra, sizeof extra,
             "[provider]\ntoken_file = %s\n[reconciler]\nreceipt_delay = 1s\npoll_interval = 1s\n", path);
    struct child *reconciler = world_reconciler(&w, extra);
    pushes_devices(&w, "b", 100);
    produce_runs(&w, 0, 1, 100);
    world_wait_count(&w, 100, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    child_stop(simulator);
    simulator_again(&w, "second-secret");
    produce_runs(&w, 1, 1, 100);
    wait_breaker(dispatcher, 2);
    int64_t before = simulator_accepted(&w, NULL);
    write_token(path, "second-secret");
    child_signal(dispatcher, SIGHUP);
    child_signal(reconciler, SIGHUP);
    world_wait_count(&w, 200, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    printf(
        "tokens_reloaded: %lld accepted with the old token, %lld more after SIGHUP, delivered %lld of 200\n",
        (long long)before, (long long)(simulator_accepted(&w, NULL) - before),
        (long long)world_count(&w, "SELECT count(*) FROM dispatches WHERE state = 'delivered'"));
    cr_expect_eq(before, 100);
    cr_expect_eq(pushes_accepted_once(&w), 200);
    cr_expect(breaker_is(dispatcher, 0));
    cr_expect_eq(pushes_readyz(dispatcher, text, sizeof text), 200, "%s", text);
    cr_expect_eq(pushes_readyz(reconciler, text, sizeof text), 200, "%s", text);
    child_stop(dispatcher);
    child_stop(reconciler);
    cr_expect_not(world_logs_have(&w, "-secret"));
    world_check_books(&w);
    world_close(&w);
}

static void check_refused(struct world *w, struct child *dispatcher, int round, const char *act)
{
    char rule[512], text[2048];
    snprintf(rule, sizeof rule, "{\"when\":{},\"do\":%s}", act);
    simulator_reset(w);
    simulator_script(w, rule);
    produce_runs(w, round * 10, 10, 100);
    wait_breaker(dispatcher, 2);
    cr_expect_eq(pushes_readyz(dispatcher, text, sizeof text), 503, "%s", text);
    cr_expect(strstr(text, "credentials") != NULL, "%s", text);
    world_sleep_ms(3000);
    int64_t calls = simulator_stat(w, "send", "calls");
    simulator_reset(w);
    wait_breaker(dispatcher, 0);
    world_wait_count(w, (round + 1) * 1000, "SELECT count(*) FROM notifications");
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    printf("auth: %s: %lld requests in 3 s, not ready (%s); then all sent\n", act, (long long)calls,
           strtok(strstr(text, "provider"), "\n"));
    cr_expect_leq(calls, 6 + 4, "what was out, then one an auth_pause");
    cr_expect_eq(pushes_readyz(dispatcher, text, sizeof text), 200, "%s", text);
}

Test(dispatcher, auth)
{
    struct world w;
    pushes_open(&w, "auth", NULL);
    struct child *dispatcher = world_dispatcher(&w, "[provider]\nauth_pause = 1s\n");
    pushes_devices(&w, "b", 100);
    check_refused(&w, dispatcher, 0, "{\"status\":401,\"body\":{\"error\":\"invalid_token\"}}");
    check_refused(&w, dispatcher, 1, "{\"status\":403,\"body\":\"Forbidden\"}");
    check_refused(&w, dispatcher, 2,
                  "{\"status\":400,\"body\":{\"errors\":[{\"code\":\"UNAUTHORIZED\",\"message\":\"m\"}]}}");
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", "\"attempt\":1"), 3000,
                 "it is no try of theirs");
    cr_expect_eq(pushes_accepted_once(&w), 3000);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}
