/* Retention by the real reconciler: killed between its steps, two at once, and what it refuses to start with.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/harness.h"
#include "system/hand.h"

enum { BATCHES = 6, EACH = 700, ALL = BATCHES * EACH };

#define SHORT                                                                                                \
    "[reconciler]\nallow_short_retention = on\ndispatch_retention = 10min\nnotification_retention = 20min\n" \
    "token_stale_after = 10min\nlease = 1s\n[ingest]\nallow_short_key_retention = on\nkey_retention = "      \
    "10min\n"

/* Half of everything is old; the other half must stay. */
static void put_rows(struct world *w)
{
    for (int batch = 1; batch <= BATCHES; batch++)
        hand_batch(w, batch, EACH, batch % 2 == 0 ? "now() - interval '3 h'" : "now()");
    world_exec(w, "UPDATE dispatches SET state = 'delivered'");
    world_exec(w, "UPDATE notifications SET created_at = now() - interval '3 h' WHERE batch_id %% 2 = 0");
    world_exec(w, "INSERT INTO idempotency_keys SELECT 'notification:r:t:' || id, 'w', 0, created_at FROM"
                  " notifications");
    world_exec(w, "UPDATE device_tokens d SET registered_at = x, last_seen = x, source_at = x FROM"
                  " (SELECT now() - interval '1 h') t (x) WHERE (id >> 20) %% 2 = 0");
    world_exec(w, "UPDATE device_tokens d SET registered_at = now(), last_seen = now(), source_at = now()"
                  " WHERE (id >> 20) %% 2 = 1");
}

#define OLD_DISPATCHES    "SELECT count(*) FROM dispatches WHERE queued_at < now() - interval '10 min'"
#define OLD_NOTIFICATIONS "SELECT count(*) FROM notifications WHERE created_at < now() - interval '20 min'"
#define OLD_KEYS          "SELECT count(*) FROM idempotency_keys WHERE claimed_at < now() - interval '10 min'"
#define STALE             "SELECT count(*) FROM device_tokens WHERE disabled_reason = 'Stale'"

static int64_t old_rows(struct world *w)
{
    return world_count(w, OLD_DISPATCHES) + world_count(w, OLD_NOTIFICATIONS) + world_count(w, OLD_KEYS);
}

static void check_half_is_left(struct world *w)
{
    world_wait_count(w, 0, OLD_DISPATCHES);
    world_wait_count(w, 0, OLD_NOTIFICATIONS);
    world_wait_count(w, 0, OLD_KEYS);
    world_wait_count(w, ALL / 2, STALE);
    HAND_COUNT(w, ALL / 2, "SELECT count(*) FROM dispatches");
    HAND_COUNT(w, ALL / 2, "SELECT count(*) FROM notifications");
    HAND_COUNT(w, ALL / 2, "SELECT count(*) FROM idempotency_keys");
    HAND_COUNT(w, ALL, "SELECT sum(count) FROM retired");
    HAND_COUNT(w, ALL / 2, "SELECT count(*) FROM device_history WHERE reason = 'Stale'");
    world_check_books(w);
}

/* kill -9 before and between the steps of every walk: the next one goes on, and each row is counted once. */
Test(retain, crash)
{
    static const char *const points[] = {
        "retain_lease",           "retain_dispatches",  "retain_dispatches:2", "retain_notifications",
        "retain_notifications:2", "retain_keys",        "retain_keys:2",       "retain_tokens:2",
        "retain_expire",          "retain_export_rows", "retain_exports",      "retain_batches",
        "retain_replays",         "retain_topic"};
    enum { POINTS = sizeof points / sizeof points[0] };
    struct world w;
    hand_open(&w, "retain_crash", 1);
    put_rows(&w);
    int64_t before = old_rows(&w);
    for (int i = 0; i < POINTS; i++) {
        struct child *child = world_reconciler_crash(&w, SHORT, points[i]);
        cr_assert_eq(child_wait(child, 60), 128 + SIGKILL, "%s", points[i]);
        HAND_COUNT(&w, 0, "SELECT count(*) FROM belfry_books WHERE NOT ok");
    }
    int64_t after = old_rows(&w);
    struct child *child = world_reconciler(&w, SHORT);
    check_half_is_left(&w);
    printf(
        "%d kills: %lld old rows before, %lld after the kills, none in the end; books balanced after each\n",
        POINTS, (long long)before, (long long)after);
    child_stop(child);
    world_close(&w);
}

/* One retains and freezes half-way; another goes on when its lease has run out. It wakes, and does no harm.
 */
Test(retain, two_processes)
{
    struct world w;
    hand_open(&w, "retain_two", 1);
    put_rows(&w);
    struct child *first = world_reconciler_crash(&w, SHORT, "retain_notifications:2:stop");
    child_wait_log(first, "this process retains", 20);
    struct child *second = world_reconciler(&w, SHORT);
    check_half_is_left(&w);
    cr_assert(child_log_has(second, "this process retains"));
    child_signal(first, SIGCONT);
    child_wait_log(first, "another process retains", 20);
    child_stop(second); /* gives the lease back */
    world_sleep_ms(1500);
    check_half_is_left(&w);
    printf("the second process took over from the frozen one; woken, it removed nothing twice\n");
    child_stop(first);
    world_close(&w);
}

/* The database's clock stood a year ahead for a while: more rows of that time than a step sees do not hide
 * the old ones behind them. */
Test(retain, clock_step)
{
    enum { AHEAD = 3000, OLD = 500 };
    struct world w;
    hand_open(&w, "retain_step", 1);
    hand_batch(&w, 1, AHEAD, "now() + interval '1 year'");
    hand_batch(&w, 2, OLD, "now() - interval '3 h'");
    world_exec(&w, "UPDATE dispatches SET state = 'delivered'");
    struct child *child = world_reconciler(&w, SHORT);
    world_wait_count(&w, 0, OLD_DISPATCHES);
    HAND_COUNT(&w, AHEAD, "SELECT count(*) FROM dispatches");
    printf("%d dispatches of next year in front: the %d old ones behind them are gone\n", AHEAD, OLD);
    world_check_books(&w);
    child_stop(child);
    world_close(&w);
}

static int start_of(struct world *w, const char *extra, const char *more, char *log, size_t size)
{
    char path[WORLD_PATH_MAX];
    world_write_reconciler_ini(w, extra, path);
    const char *argv[] = {"-F", path, more, NULL};
    struct child *child = child_start(w, "src/bin/belfry-reconciler", argv, NULL);
    int code = child_wait(child, 30);
    FILE *stream = fopen(child->log, "r");
    cr_assert(stream != NULL);
    log[fread(log, 1, size - 1, stream)] = '\0';
    fclose(stream);
    return code;
}

/* What would remove too much is refused, with exit 2 and the key's name. */
Test(retain, refusals)
{
    static const struct {
        const char *extra, *says;
        const char *more;
    } cases[] = {
        {"[reconciler]\ndispatch_retention = 90s\n", "dispatch_retention is under a day", "--check-config"},
        {"[reconciler]\nnotification_retention = 30d\n", "dispatch_retention is above notification_retention",
         "--check-config"},
        {"[ingest]\nkey_retention = 30s\n", "key_retention is below 1h", "--check-config"},
        {"[ingest]\nkey_retention = 1d\n", "a record may come again after its key is gone", NULL},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    struct world w;
    char log[8192];
    hand_open(&w, "retain_refuse", 1);
    for (int i = 0; i < CASES; i++) {
        int code = start_of(&w, cases[i].extra, cases[i].more, log, sizeof log);
        cr_expect_eq(code, 2, "%s: exit %d", cases[i].extra, code);
        cr_expect(strstr(log, cases[i].says) != NULL, "%s: %s", cases[i].says, log);
    }
    printf("%d refusals, each exit 2 and named\n", CASES);
    world_close(&w);
}
