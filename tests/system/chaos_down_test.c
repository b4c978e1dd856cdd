/* Line 4 of issue "The dispatcher at full strength": the provider is away while events flow. Ten minutes and
 * push_max_age of an hour, scaled down to one minute and 30 s: the feed goes on, the dispatcher's memory
 * stays as it is, the backlog waits in `batches`, and when the provider is back what is still young is sent
 * and what is older than push_max_age is suppressed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "system/chaos.h"

enum { OUTAGE_S = 60, WARM_S = 15, EVENTS_A_SECOND = 300, WARM_EVENTS = 6000, FLAT_PERCENT = 10 };

#define DOWN_INI                                                                                             \
    CHAOS_INI "push_max_age = 30s\n"                                                                         \
              "[provider]\nprovider_pause = 200ms\nprovider_pause_max = 1s\n"

/* One second's events, and how long until the last of them was in the feed's table. */
static int64_t feed_a_second(struct chaos *c)
{
    chaos_produce(c, EVENTS_A_SECOND);
    int64_t begun = world_now_ms();
    while (chaos_stored(c) < c->made) {
        cr_assert(world_now_ms() - begun < 60000, "the feed stands still: see %s", c->w.folder);
        world_sleep_ms(5);
    }
    return world_now_ms() - begun;
}

struct minute {
    int64_t latency_max_ms, latency_sum_ms;
    int64_t rss_first_kib, rss_max_kib, rss_min_kib; /* after WARM_S */
    int64_t batches;
};

static void feed_for(struct chaos *c, const struct child *dispatcher, int seconds, struct minute *minute)
{
    *minute = (struct minute){.rss_min_kib = INT64_MAX};
    for (int i = 0; i < seconds; i++) {
        int64_t until = world_now_ms() + 1000, latency = feed_a_second(c);
        int64_t rss = child_rss_kib(dispatcher);
        minute->latency_sum_ms += latency;
        minute->latency_max_ms = latency > minute->latency_max_ms ? latency : minute->latency_max_ms;
        if (i == WARM_S)
            minute->rss_first_kib = rss;
        if (i >= WARM_S) {
            minute->rss_max_kib = rss > minute->rss_max_kib ? rss : minute->rss_max_kib;
            minute->rss_min_kib = rss < minute->rss_min_kib ? rss : minute->rss_min_kib;
        }
        if (until > world_now_ms())
            world_sleep_ms((int)(until - world_now_ms()));
    }
    minute->batches = world_count(&c->w, "SELECT count(*) FROM batches");
}

static void print_minute(const char *what, int seconds, const struct minute *minute)
{
    printf("%s: feed latency mean %lld ms, max %lld ms; RSS %lld KiB after %d s, then %lld ... %lld KiB; "
           "%lld batches waiting\n",
           what, (long long)minute->latency_sum_ms / seconds, (long long)minute->latency_max_ms,
           (long long)minute->rss_first_kib, WARM_S, (long long)minute->rss_min_kib,
           (long long)minute->rss_max_kib, (long long)minute->batches);
    fflush(stdout);
}

static void start_simulator_again(struct chaos *c)
{
    const char *argv[] = {"--listen", strstr(c->w.provider_url, "127.0.0.1"), NULL};
    c->simulator = world_simulator(&c->w, argv);
}

static void check_memory(const struct minute *down)
{
#ifdef __SANITIZE_ADDRESS__
    (void)down; /* the sanitizer keeps what is freed */
#else
    cr_expect(down->rss_max_kib * 100 <= down->rss_first_kib * (100 + FLAT_PERCENT),
              "memory grew: %lld, %lld", (long long)down->rss_first_kib, (long long)down->rss_max_kib);
#endif
}

Test(dispatcher, provider_down, .timeout = 380)
{
    static struct chaos c;
    struct chaos_figures figures;
    struct minute up, down;
    char went[64], came[64];
    chaos_open(&c, "down", 4, CHAOS_SHARED);
    struct child *dispatcher = world_dispatcher(&c.w, DOWN_INI);
    chaos_produce(&c, WARM_EVENTS);
    chaos_settle(&c, CHAOS_SETTLE_S);
    feed_for(&c, dispatcher, WARM_S + 5, &up);
    print_minute("provider up", WARM_S + 5, &up);
    chaos_settle(&c, CHAOS_SETTLE_S);

    child_stop(c.simulator);
    world_text(&c.w, went, sizeof went, "SELECT clock_timestamp()");
    feed_for(&c, dispatcher, OUTAGE_S, &down);
    print_minute("provider down", OUTAGE_S, &down);
    world_text(&c.w, came, sizeof came, "SELECT clock_timestamp()");
    start_simulator_again(&c);
    int64_t begun = world_now_ms();
    chaos_settle(&c, CHAOS_SETTLE_S);
    printf("the backlog was gone %.1f s after the provider came back\n",
           (double)(world_now_ms() - begun) / 1e3);

    chaos_check(&c, "provider down", 0, &figures);
    int64_t late = world_count(&c.w,
                               "SELECT count(*) FROM dispatches d JOIN notifications n ON n.id = "
                               "d.notification_id WHERE n.created_at > '%s' AND n.created_at < timestamptz "
                               "'%s' - interval '30 s' AND d.state <> 'suppressed'",
                               went, came);
    int64_t young = world_count(&c.w,
                                "SELECT count(*) FROM dispatches d JOIN notifications n ON n.id = "
                                "d.notification_id WHERE n.created_at > '%s' AND d.state = 'sent'",
                                went);
    printf("of the outage: %lld sent, %lld Expired, %lld not suppressed though older than push_max_age\n",
           (long long)young, (long long)figures.expired, (long long)late);
    cr_expect(late == 0 && young > 0 && figures.expired > 0 && figures.failed == 0);
    cr_expect(down.batches > 0, "the backlog does not wait in `batches`");
    check_memory(&down);
    child_stop(dispatcher);
    chaos_close(&c);
}
