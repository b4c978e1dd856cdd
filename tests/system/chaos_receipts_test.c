/* The receipts topic away while pushes go out at full load: nothing is dropped, memory is bounded, what is
 * owed is published later, and a batch's row stays until then; also over a stop in the middle. Two minutes
 * scaled down. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/chaos.h"

enum { EVENTS = 10000, AWAY_MS = 15000, FLAT_PERCENT = 10 };

#define LOAD_INI CHAOS_INI "rate_limit = 2000\n[run]\nshutdown_timeout = 8s\n"

/* Events stored, a part of their pushes sent, and the broker gone. */
static struct child *begin(struct chaos *c, const char *name)
{
    chaos_open(c, name, 4, CHAOS_OWN_KAFKA);
    struct child *dispatcher = world_dispatcher(&c->w, LOAD_INI);
    chaos_produce(c, EVENTS);
    int64_t deadline = world_now_ms() + 60000;
    while (chaos_stored(c) < c->made || simulator_accepted(&c->w, NULL) < 500) {
        cr_assert(world_now_ms() < deadline, "the events are not stored: see %s", c->w.folder);
        world_sleep_ms(20);
    }
    chaos_kafka(c, "stop", "kill");
    world_sleep_ms(3000); /* a window goes out, and its outcomes find no broker */
    return dispatcher;
}

Test(dispatcher, receipts_away, .timeout = 380)
{
    static struct chaos c;
    struct chaos_figures figures;
    struct child *dispatcher = begin(&c, "receipts_away");
    int64_t accepted = simulator_accepted(&c.w, NULL), rss_kib = child_rss_kib(dispatcher);
    world_sleep_ms(AWAY_MS);
    int64_t later = simulator_accepted(&c.w, NULL), later_kib = child_rss_kib(dispatcher),
            batches = world_count(&c.w, "SELECT count(*) FROM batches");
    double owed = child_metric(dispatcher, "belfry_fanout_outcomes_owed");
    printf("receipts_away: 15 s without a broker: %lld accepted before, %lld then; %g outcomes owed (a "
           "window is "
           "%d), %lld batches kept; RSS %lld -> %lld KiB\n",
           (long long)accepted, (long long)later, owed, CHAOS_WINDOW, (long long)batches, (long long)rss_kib,
           (long long)later_kib);
    fflush(stdout);
    cr_expect(owed > 0 && owed <= CHAOS_WINDOW);
    cr_expect_eq(later, accepted, "no push leaves whose outcome has no place");
    cr_expect(batches > 0);
#ifndef __SANITIZE_ADDRESS__
    cr_expect(later_kib * 100 <= rss_kib * (100 + FLAT_PERCENT));
#endif
    chaos_kafka(&c, "start", NULL);
    chaos_settle(&c, CHAOS_SETTLE_S);
    chaos_check(&c, "receipts_away", 0, &figures);
    cr_expect(figures.failed == 0 && figures.expired == 0);
    child_stop(dispatcher);
    chaos_close(&c);
}

Test(dispatcher, stop_without_kafka, .timeout = 380)
{
    static struct chaos c;
    struct chaos_figures figures;
    struct child *dispatcher = begin(&c, "stop_without_kafka");
    double owed = child_metric(dispatcher, "belfry_fanout_outcomes_owed");
    int64_t begun = world_now_ms();
    child_signal(dispatcher, SIGTERM);
    int code = child_wait(dispatcher, 60);
    int64_t took_ms = world_now_ms() - begun, batches = world_count(&c.w, "SELECT count(*) FROM batches"),
            risked = world_count(&c.w, "SELECT count(*) FROM batches WHERE owner IS NOT NULL");
    printf("stop_without_kafka: %g outcomes owed; SIGTERM: exit code %d after %lld ms (shutdown_timeout 8 "
           "s); %lld "
           "batches kept, %lld of them with something owed\n",
           owed, code, (long long)took_ms, (long long)batches, (long long)risked);
    fflush(stdout);
    cr_expect_eq(code, 0);
    cr_expect_not(child_log_has(dispatcher, "RUN-STUCK"));
    cr_expect(batches > 0 && risked > 0);
    chaos_kafka(&c, "start", NULL);
    dispatcher = world_dispatcher(&c.w, LOAD_INI);
    chaos_settle(&c, CHAOS_SETTLE_S);
    chaos_check(&c, "stop_without_kafka", CHAOS_WINDOW, &figures);
    cr_expect(figures.unconfirmed > 0, "the tickets are lost, and that is told");
    child_stop(dispatcher);
    chaos_close(&c);
}
