/* Rules of fan-out that need the real dispatcher: several of them and their leases, roles, requests at once,
 * and what each code of a ticket does. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pushes.h"

#define FANOUT_ONLY "[run]\nroles = fanout\n"
#define INGEST_ONLY "[run]\nroles = ingest\n"

/* ---- requests at once -----------------------------------------------------------------------------------
 */

Test(dispatcher, concurrent)
{
    static const char *const slow[] = {"--delay", "40", NULL};
    struct world w;
    pushes_open(&w, "concurrent", slow);
    struct child *dispatcher =
        world_dispatcher(&w, "[fanout]\nmax_concurrent_requests = 3\nchunk_size = 10\n");
    pushes_devices(&w, "c", 1000);
    pushes_event(&w, "c", "c", 1000, "");
    pushes_wait(&w, "c", 1000);
    int64_t calls = simulator_stat(&w, "send", "calls"), most = simulator_stat(&w, "send", "concurrent_max");
    printf("concurrent: max_concurrent_requests 3, %lld requests of at most %lld messages: never more than "
           "%lld at "
           "once\n",
           (long long)calls, (long long)simulator_stat(&w, "send", "largest"), (long long)most);
    cr_expect_eq(calls, 100);
    cr_expect_eq(most, 3);
    cr_expect_eq(pushes_accepted_once(&w), 1000);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

/* ---- several dispatchers --------------------------------------------------------------------------------
 */

/* Lines of the log with this id, for a batch when it is not 0. */
static int log_lines(const struct child *child, const char *id, int64_t batch)
{
    FILE *stream = fopen(child->log, "r");
    char *line = NULL, mark[64] = "";
    size_t size = 0;
    int count = 0;
    cr_assert(stream != NULL);
    if (batch != 0)
        snprintf(mark, sizeof mark, "\"batch\":%lld}", (long long)batch);
    while (getline(&line, &size, stream) > 0)
        count += strstr(line, id) != NULL && strstr(line, mark) != NULL;
    free(line);
    fclose(stream);
    return count;
}

/* One batch is worked on for many leases, and the other dispatcher looks for expired ones all the time. */
Test(dispatcher, lease_renewed)
{
    static const char *const slow[] = {"--delay", "2000", NULL};
    static const char extra[] = "[fanout]\nlease = 1s\nsweep_interval = 100ms\nmax_concurrent_requests = 1\n";
    struct world w;
    pushes_open(&w, "lease_renewed", slow);
    struct child *both[2] = {world_dispatcher(&w, extra), world_dispatcher(&w, extra)};
    pushes_devices(&w, "l", 300);
    pushes_event(&w, "l", "l", 300, "");
    pushes_wait(&w, "l", 300);
    int taken = log_lines(both[0], "\"FAN-TAKEOVER\"", 0) + log_lines(both[1], "\"FAN-TAKEOVER\"", 0);
    printf("lease_renewed: 3 requests of 2 s each under a lease of 1 s: taken over %d times, %d sent, %d "
           "Unconfirmed\n",
           taken, pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL),
           pushes_outcomes(&w, "Unconfirmed", NULL));
    cr_expect_eq(taken, 0);
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL), 300);
    cr_expect_eq(pushes_accepted_once(&w), 300);
    for (int i = 0; i < 2; i++)
        child_stop(both[i]);
    world_check_books(&w);
    world_close(&w);
}

/* The owner of twelve batches is gone; three dispatchers see their leases run out at the same moment. */
Test(dispatcher, lease_taken_over_by_one)
{
    enum { BATCHES = 12, EACH = 50, RISKED = 20, PEERS = 3 };
    struct world w;
    struct child *peers[PEERS];
    pushes_open(&w, "lease_taken", NULL);
    struct child *ingest = world_dispatcher(&w, INGEST_ONLY "[ingest]\nbatch_max_recipients = 50\n");
    pushes_devices(&w, "t", EACH);
    for (int i = 0; i < BATCHES; i++) {
        char event[16];
        snprintf(event, sizeof event, "t%d", i);
        pushes_event(&w, "t", event, EACH, "");
    }
    world_wait_count(&w, BATCHES, "SELECT count(*) FROM batches");
    child_stop(ingest);
    int64_t first = world_count(&w, "SELECT min(id) FROM batches"),
            last = world_count(&w, "SELECT max(id) FROM batches");
    world_exec(&w,
               "UPDATE batches SET owner = 5, leased_until = now() + interval '1 hour', unsent = '{[%d,%d)}'",
               RISKED, EACH);
    for (int i = 0; i < PEERS; i++)
        peers[i] =
            world_dispatcher(&w, FANOUT_ONLY "[fanout]\nbatches_in_memory = 1\nsweep_interval = 100ms\n");
    world_exec(&w, "UPDATE batches SET leased_until = now()");
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    int taken = 0, once = 0, working = 0;
    for (int i = 0; i < PEERS; i++) {
        int of_peer = log_lines(peers[i], "\"FAN-TAKEOVER\"", 0);
        taken += of_peer;
        working += of_peer > 0;
    }
    for (int64_t id = first; id <= last; id++) {
        int of_batch = 0;
        for (int i = 0; i < PEERS; i++)
            of_batch += log_lines(peers[i], "\"FAN-TAKEOVER\"", id);
        once += of_batch == 1;
    }
    printf("lease_taken_over_by_one: %d batches, %d takeovers by %d of %d peers, %d batches by exactly one; "
           "sent %d, "
           "Unconfirmed %d, outcomes %d\n",
           BATCHES, taken, working, PEERS, once, pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL),
           pushes_outcomes(&w, "Unconfirmed", NULL), pushes_outcomes(&w, NULL, NULL));
    cr_expect_eq(taken, BATCHES);
    cr_expect_eq(once, BATCHES);
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL), BATCHES * (EACH - RISKED));
    cr_expect_eq(pushes_outcomes(&w, "Unconfirmed", NULL), BATCHES * RISKED);
    cr_expect_eq(pushes_outcomes(&w, NULL, NULL), BATCHES * EACH);
    cr_expect_eq(pushes_accepted_once(&w), BATCHES * (EACH - RISKED));
    for (int i = 0; i < PEERS; i++)
        child_stop(peers[i]);
    world_check_books(&w);
    world_close(&w);
}

/* ---- roles ----------------------------------------------------------------------------------------------
 */

Test(dispatcher, roles)
{
    struct world w;
    pushes_open(&w, "roles", NULL);
    pushes_devices(&w, "r", 10);
    struct child *child = world_dispatcher(&w, INGEST_ONLY);
    pushes_event(&w, "r", "one", 10, "");
    world_wait_count(&w, 10, "SELECT count(*) FROM notifications");
    world_sleep_ms(1000);
    int64_t pushed = simulator_stat(&w, "send", "calls");
    child_stop(child);
    child = world_dispatcher(&w, FANOUT_ONLY);
    pushes_event(&w, "r", "two", 10, "");
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    world_sleep_ms(1000);
    int64_t stored = world_count(&w, "SELECT count(*) FROM notifications"), sent = pushes_accepted_once(&w);
    child_stop(child);
    child = world_dispatcher(&w, NULL);
    pushes_wait(&w, "two", 10);
    printf("roles: ingest alone: 10 stored, %lld requests; fanout alone: %lld sent, %lld stored; both: %lld "
           "sent, "
           "%lld stored\n",
           (long long)pushed, (long long)sent, (long long)stored, (long long)pushes_accepted_once(&w),
           (long long)world_count(&w, "SELECT count(*) FROM notifications"));
    cr_expect_eq(pushed, 0);
    cr_expect_eq(sent, 10);
    cr_expect_eq(stored, 10);
    cr_expect_eq(pushes_accepted_once(&w), 20);
    child_stop(child);
    world_check_books(&w);
    world_close(&w);
}

/* ---- the codes of tickets -------------------------------------------------------------------------------
 */

static void check_code(struct world *w, struct child *dispatcher, int i, const char *code, const char *label)
{
    char series[128];
    snprintf(series, sizeof series, "belfry_provider_codes_total{code=\"%s\"}", label);
    int64_t failed =
        world_count(w,
                    "SELECT count(*) FROM dispatches d JOIN device_tokens t ON t.id = d.device_id WHERE "
                    "t.token = 'ExponentPushToken[k-%d]' AND d.state = 'failed' AND d.error = '%s'",
                    i, code);
    int64_t off = world_count(w,
                              "SELECT count(*) FROM device_tokens WHERE NOT enabled AND token = "
                              "'ExponentPushToken[k-%d]'",
                              i);
    double counted = child_metric(dispatcher, series);
    printf("codes: %s: failed %lld, token disabled %lld, counted as %s %g\n", code, (long long)failed,
           (long long)off, label, counted);
    cr_expect_eq(failed, 1, "%s", code);
    cr_expect_eq(off, strcmp(code, "DeviceNotRegistered") == 0, "%s", code);
    cr_expect_geq(counted, 1, "%s", code);
}

Test(dispatcher, codes)
{
    static const char *const codes[] = {"DeviceNotRegistered", "MessageTooBig",      "MessageRateExceeded",
                                        "MismatchSenderId",    "InvalidCredentials", "DeveloperError",
                                        "ExpoError",           "ProviderError",      "SomethingNew"};
    enum { CODES = sizeof codes / sizeof codes[0] };
    struct world w;
    pushes_open(&w, "codes", NULL);
    struct child *dispatcher = world_dispatcher(&w, NULL), *reconciler = world_reconciler(&w, NULL);
    pushes_devices(&w, "k", CODES + 1);
    for (int i = 0; i < CODES; i++) {
        char rule[200];
        snprintf(rule, sizeof rule, "{\"when\":{\"token\":\"[k-%d]\"},\"do\":{\"ticket_error\":\"%s\"}}", i,
                 codes[i]);
        simulator_script(&w, rule);
    }
    pushes_event(&w, "k", "k", CODES + 1, "");
    pushes_wait(&w, "k", CODES + 1);
    world_wait_count(&w, 0, "SELECT count(*) FROM dispatches WHERE state = 'queued'");
    world_wait_count(&w, 1, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    for (int i = 0; i < CODES; i++)
        check_code(&w, dispatcher, i, codes[i], i == CODES - 1 ? "other" : codes[i]);
    double faults = child_metric(dispatcher, "belfry_provider_credential_faults_total");
    printf("codes: %d of %d messages accepted, %lld requests, %g credential faults\n",
           (int)pushes_accepted_once(&w), CODES + 1, (long long)simulator_stat(&w, "send", "calls"), faults);
    cr_expect_eq(faults, 2);
    cr_expect_eq(simulator_stat(&w, "send", "calls"), 1, "final: none is tried again");
    cr_expect_eq(pushes_accepted_once(&w), 1);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}
