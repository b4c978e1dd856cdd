/* What the provider refuses as a whole: tried again when it certainly was not accepted, taken apart when a
 * part of it is to blame, and never sent a second time when it may have been accepted. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pushes.h"

/* No breaker: each refusal is looked at by itself. */
#define CALM "[provider]\nprovider_failures = 1000\n"

/* ---- FAN-10: Retry-After in all its forms ---------------------------------------------------------------
 */

struct form {
    const char *name, *header; /* NULL: none; "DATE n": an HTTP date n seconds from now */
    int64_t from_ms, to_ms;    /* the pause */
};

static void script_429(struct world *w, const struct form *form)
{
    char rule[1024], value[64] = "", header[128] = "";
    if (form->header != NULL && strncmp(form->header, "DATE ", 5) == 0) {
        time_t at = time(NULL) + strtol(form->header + 5, NULL, 10);
        struct tm parts;
        strftime(value, sizeof value, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&at, &parts));
    } else if (form->header != NULL) {
        snprintf(value, sizeof value, "%s", form->header);
    }
    if (strcmp(form->name, "two") == 0) {
        snprintf(rule, sizeof rule,
                 "{\"when\":{\"token\":\"[two-\",\"next\":1},\"do\":{\"accept\":false,\"raw\":\"HTTP/1.1 429 "
                 "Slow\\r\\n"
                 "Retry-After: 7\\r\\nRetry-After: 9\\r\\nContent-Length: 0\\r\\nConnection: "
                 "close\\r\\n\\r\\n\"}}");
    } else {
        if (form->header != NULL)
            snprintf(header, sizeof header, ",\"headers\":{\"Retry-After\":\"%s\"}", value);
        snprintf(rule, sizeof rule,
                 "{\"when\":{\"token\":\"[%s-\",\"next\":1},\"do\":{\"status\":429,\"body\":\"slow\"%s}}",
                 form->name, header);
    }
    simulator_script(w, rule);
}

static void check_form(struct world *w, struct child *dispatcher, const struct form *form)
{
    int64_t calls = simulator_stat(w, "send", "calls");
    pushes_devices(w, form->name, 1);
    script_429(w, form);
    int64_t from_ms = world_now_ms();
    pushes_event(w, form->name, form->name, 1, "");
    pushes_wait(w, form->name, 1);
    int64_t took_ms = world_now_ms() - from_ms,
            pause_ms = pushes_log_number(dispatcher, "FAN-PAUSE", "pause_ms");
    calls = simulator_stat(w, "send", "calls") - calls;
    printf("fan_10: Retry-After %s: paused %lld ms, through after %lld ms, %lld requests\n",
           form->header == NULL ? "(none)" : form->header, (long long)pause_ms, (long long)took_ms,
           (long long)calls);
    cr_expect(pause_ms >= form->from_ms && pause_ms <= form->to_ms, "%s: %lld", form->name,
              (long long)pause_ms);
    cr_expect_geq(took_ms, form->from_ms, "%s: honoured", form->name);
    cr_expect_eq(calls, 2, "%s: the same chunk again, once", form->name);
}

Test(cases, fan_10)
{
    static const struct form forms[] = {{"five", "5", 5000, 5000},           {"zero", "0", 0, 0},
                                        {"minus", "-5", 500, 1000},          {"junk", "120junk", 500, 1000},
                                        {"ahead", "DATE 3", 1900, 3000},     {"past", "DATE -3600", 0, 0},
                                        {"two", "(two headers)", 500, 1000}, {"none", NULL, 500, 1000}};
    struct world w;
    pushes_open(&w, "fan_10", NULL);
    struct child *dispatcher = world_dispatcher(&w, CALM);
    int count = (int)(sizeof forms / sizeof forms[0]);
    for (int i = 0; i < count; i++)
        check_form(&w, dispatcher, &forms[i]);
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", "\"attempt\":2"), count);

    /* Capped; and what waits is in the table, so that it outlives its process. */
    struct form huge = {"huge", "99999999999", 60000, 60000};
    pushes_devices(&w, "huge", 1);
    script_429(&w, &huge);
    pushes_event(&w, "huge", "huge", 1, "");
    child_wait_log(dispatcher, "\"pause_ms\":60000", WORLD_WAIT_S);
    world_wait_count(&w, 1, "SELECT count(*) FROM batches WHERE unsent = '{[0,1)}'");
    printf("fan_10: Retry-After 99999999999: paused %lld ms, max.poll.interval.ms is 300000\n",
           (long long)pushes_log_number(dispatcher, "FAN-PAUSE", "pause_ms"));
    cr_expect_eq(pushes_log_number(dispatcher, "FAN-PAUSE", "pause_ms"), 60000);
    child_kill(dispatcher);
    dispatcher = world_dispatcher(&w, CALM);
    pushes_wait(&w, "huge", 1);
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", "\"attempt\":1"), 1, "a restart counts anew");
    cr_expect_eq(pushes_outcomes(&w, "Unconfirmed", NULL), 0);
    cr_expect_eq(pushes_accepted_once(&w), count + 1);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

/* ---- trying again ---------------------------------------------------------------------------------------
 */

struct retry {
    const char *name;
    int next; /* requests that are refused */
    const char *act;
    int calls;
    const char *outcome, *attempt;
    bool pulse; /* others are answered meanwhile: the provider is there, so that the last try counts too */
};

#define LIST(code, more) "{\"errors\":[{\"code\":\"" code "\",\"message\":\"m\"" more "}]}"

static void pulse_until_done(struct world *w, const char *name, const char *user)
{
    for (int i = 0; pushes_outcomes(w, user, NULL) < 30; i++) {
        char event[64];
        cr_assert_lt(i, 1000);
        snprintf(event, sizeof event, "pulse-%s-%d", name, i);
        pushes_event(w, "pulse", event, 1, ",\"push\":{\"priority\":\"high\"}");
        world_sleep_ms(50);
    }
}

Test(dispatcher, retry)
{
    static const struct retry retries[] = {
        {"twice", 2, "{\"status\":500,\"body\":" LIST("INTERNAL", "") "}", 3, "\"outcome\":\"sent\"",
         "\"attempt\":3"},
        {"always", 99, "{\"status\":503,\"body\":" LIST("INTERNAL", "") "}", 3, "\"ProviderUnavailable\"",
         "\"attempt\":3", true},
        {"slow", 99, "{\"status\":429,\"headers\":{\"Retry-After\":\"1\"},\"body\":\"\"}", 3,
         "\"RateLimited\"", "\"attempt\":3", true},
        {"alone", 4, "{\"status\":503,\"headers\":{\"Retry-After\":\"0\"},\"body\":" LIST("INTERNAL", "") "}",
         5, "\"outcome\":\"sent\"", "\"attempt\":3"},
        {"transient", 1, "{\"status\":400,\"body\":" LIST("BUSY", ",\"isTransient\":true") "}", 2,
         "\"outcome\":\"sent\"", "\"attempt\":2"},
        {"final", 1, "{\"status\":400,\"body\":" LIST("NO", ",\"isTransient\":false") "}", 1,
         "\"ProviderRejected\"", "\"attempt\":1"},
        {"list200", 1, "{\"status\":200,\"accept\":false,\"body\":" LIST("BUSY", ",\"isTransient\":true") "}",
         2, "\"outcome\":\"sent\"", "\"attempt\":2"},
        {"maybe", 1, "{\"status\":502,\"body\":\"<html>\"}", 1, "\"Unconfirmed\"", "\"attempt\":1"},
        {"reset", 1, "{\"close\":\"reset\"}", 1, "\"Unconfirmed\"", "\"attempt\":1"}};
    struct world w;
    pushes_open(&w, "retry", NULL);
    struct child *dispatcher = world_dispatcher(&w, CALM);
    pushes_devices(&w, "pulse", 1);
    for (size_t i = 0; i < sizeof retries / sizeof retries[0]; i++) {
        const struct retry *retry = &retries[i];
        char rule[1024], user[64];
        snprintf(rule, sizeof rule, "{\"when\":{\"token\":\"[%s-\",\"next\":%d},\"do\":%s}", retry->name,
                 retry->next, retry->act);
        simulator_reset(&w);
        simulator_script(&w, rule);
        pushes_devices(&w, retry->name, 30);
        snprintf(user, sizeof user, "\"%s-", retry->name);
        pushes_event(&w, retry->name, retry->name, 30, "");
        if (retry->pulse)
            pulse_until_done(&w, retry->name, user);
        pushes_wait(&w, retry->name, 30);
        int64_t calls = simulator_stat(&w, "send", "calls");
        printf("retry: %s: %lld requests, %d of 30 %s with %s\n", retry->name, (long long)calls,
               pushes_outcomes(&w, retry->outcome, user), retry->outcome, retry->attempt);
        cr_expect(retry->pulse || calls == retry->calls, "%s", retry->name);
        cr_expect_eq(pushes_outcomes(&w, retry->outcome, user), 30, "%s", retry->name);
        cr_expect_geq(pushes_outcomes(&w, retry->attempt, user), 30, "%s", retry->name);
    }
    cr_expect_eq(pushes_accepted_once(&w) - simulator_accepted(&w, "[pulse-"), 5 * 30,
                 "four sent, and one whose answer was lost");
    cr_expect_eq((int)child_metric(dispatcher, "belfry_fanout_again_total{reason=\"RateLimited\"}"), 60);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

/* Killed when refused pushes are in unsent again: the next process sends them, and none is in doubt. */
Test(dispatcher, crash_again)
{
    struct world w;
    pushes_open(&w, "crash_again", NULL);
    pushes_devices(&w, "k", 100);
    simulator_script(&w, "{\"when\":{\"next\":1},\"do\":{\"status\":429,\"body\":\"\"}}");
    struct child *dispatcher = world_dispatcher_crash(&w, CALM, "again");
    pushes_event(&w, "k", "k", 100, "");
    cr_expect_eq(child_wait(dispatcher, 60), 128 + 9);
    cr_expect_eq(world_count(&w, "SELECT count(*) FROM batches WHERE unsent = '{[0,100)}'"), 1);
    dispatcher = world_dispatcher(&w, CALM);
    pushes_wait(&w, "k", 100);
    printf("crash_again: %d of 100 sent by the next process, %d Unconfirmed\n",
           pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL), pushes_outcomes(&w, "Unconfirmed", NULL));
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL), 100);
    cr_expect_eq(pushes_outcomes(&w, NULL, NULL), 100);
    cr_expect_eq(pushes_accepted_once(&w), 100);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

/* ---- several projects -----------------------------------------------------------------------------------
 */

static void set_projects(struct world *w, const char *json)
{
    char url[256];
    struct world_reply reply;
    snprintf(url, sizeof url, "%s/control/projects", w->provider_url);
    world_http("POST", url, NULL, json, &reply);
    cr_assert_lt(reply.status, 300);
    world_reply_done(&reply);
}

Test(dispatcher, projects)
{
    struct world w;
    pushes_open(&w, "projects", NULL);
    struct child *dispatcher = world_dispatcher(&w, NULL);
    set_projects(&w, "{\"1]\":\"@owner/one\",\"2]\":\"@owner/two\",\"3]\":\"@owner/three\"}");
    pushes_devices(&w, "p", 90);
    for (int i = 0; i < 2; i++) {
        char event[16];
        int64_t calls = simulator_stat(&w, "send", "calls"), refused = simulator_stat(&w, "send", "refused");
        snprintf(event, sizeof event, "p%d", i);
        pushes_event(&w, "p", event, 90, "");
        pushes_wait(&w, event, 90);
        calls = simulator_stat(&w, "send", "calls") - calls;
        refused = simulator_stat(&w, "send", "refused") - refused;
        printf("projects: event %d to 90 devices of 4 projects: %lld requests, %lld refused\n", i + 1,
               (long long)calls, (long long)refused);
        cr_expect_eq(calls, i == 0 ? 5 : 4);
        cr_expect_eq(refused, i == 0 ? 1 : 0, "the devices' projects are remembered");
    }
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", "\"attempt\":1"), 180, "splitting is no try");
    cr_expect_eq(pushes_accepted_once(&w), 180);

    /* Details that say nothing: halved until the projects stand apart. */
    simulator_reset(&w);
    pushes_devices(&w, "q", 4);
    simulator_script(&w, "{\"when\":{\"token\":\"[q-\",\"next\":1},\"do\":{\"status\":400,\"body\":"
                         "" LIST("PUSH_TOO_MANY_EXPERIENCE_IDS", "") "}}");
    pushes_event(&w, "q", "q", 4, "");
    pushes_wait(&w, "q", 4);
    cr_expect_eq(simulator_stat(&w, "send", "calls"), 3);
    cr_expect_eq(pushes_accepted_once(&w), 184);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

/* One chunk of both, which the provider refuses by project: whose each device is becomes known. */
static void make_known(struct world *w)
{
    char value[8192];
    size_t bytes = (size_t)snprintf(value, sizeof value, "%s",
                                    "{\"run_id\":\"both\",\"event_type\":\"both\",\"workspace_id\":\"w\","
                                    "\"title\":\"Private title\",\"recipients\":[");
    for (int i = 0; i < 50; i++)
        bytes += (size_t)snprintf(value + bytes, sizeof value - bytes, "%s\"slow-%d\",\"quick-%d\"",
                                  i == 0 ? "" : ",", i, i);
    snprintf(value + bytes, sizeof value - bytes, "]}");
    world_produce(w, w->events, 0, "both", value);
    pushes_wait(w, "both", 100);
}

static void produce_many(struct world *w, const char *run, int count)
{
    for (int i = 0; i < count; i++) {
        char event[32];
        snprintf(event, sizeof event, "%s%d", run, i);
        pushes_event(w, run, event, 50, "");
    }
}

/* One project is told to wait for a minute: its backlog stays in the table, and the pushes of others pass it.
 */
Test(dispatcher, projects_paused)
{
    struct world w;
    pushes_open(&w, "projects_paused", NULL);
    struct child *dispatcher =
        world_dispatcher(&w, "[ingest]\nbatch_max_recipients = 50\n[fanout]\nbatches_in_memory = 4\n");
    set_projects(&w, "{\"[slow-\":\"@owner/slow\",\"[quick-\":\"@owner/quick\"}");
    pushes_devices(&w, "slow", 50);
    pushes_devices(&w, "quick", 50);
    make_known(&w);
    simulator_script(&w,
                     "{\"when\":{\"token\":\"[slow-\"},\"do\":{\"status\":429,\"headers\":{\"Retry-After\":"
                     "\"60\"},\"body\":\"\"}}");
    produce_many(&w, "slow", 40);
    world_wait_count(&w, 2100, "SELECT count(*) FROM notifications");
    child_wait_log(dispatcher, "\"retry_after_ms\":60000", WORLD_WAIT_S);
    produce_many(&w, "quick", 10);
    int64_t until_ms = world_now_ms() + 20000;
    while (simulator_accepted(&w, "[quick-") < 550 && world_now_ms() < until_ms)
        world_sleep_ms(50);
    int64_t quick = simulator_accepted(&w, "[quick-") - 50, slow = simulator_accepted(&w, "[slow-") - 50;
    printf(
        "projects_paused: %lld of 500 of the other project through, %lld of 2000 of the paused one; held %g, "
        "batches in the table %lld\n",
        (long long)quick, (long long)slow, child_metric(dispatcher, "belfry_fanout_batches_held"),
        (long long)world_count(&w, "SELECT count(*) FROM batches"));
    cr_expect_eq(quick, 500);
    cr_expect_eq(slow, 0);
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"failed\"", NULL), 0);
    child_stop(dispatcher);
    world_exec(&w, "UPDATE batches SET leased_until = NULL"); /* the minute is over */
    simulator_reset(&w);
    dispatcher = world_dispatcher(&w, NULL);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    cr_expect_eq(pushes_accepted_once(&w), 100 + 500 + 2000);
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}

/* ---- one bad message, too many messages -----------------------------------------------------------------
 */

Test(dispatcher, validation)
{
    struct world w;
    pushes_open(&w, "validation", NULL);
    struct child *dispatcher = world_dispatcher(&w, NULL);
    pushes_devices(&w, "v", 100);
    simulator_script(&w, "[{\"when\":{\"token\":\"[v-41]\"},\"do\":{\"status\":400,\"body\":" LIST(
                             "VALIDATION_ERROR",
                             "") "}},"
                                 "{\"when\":{\"token\":\"[v-99]\"},\"do\":{\"status\":400,\"body\":" LIST(
                                     "VALIDATION_ERROR", "") "}}]");
    pushes_event(&w, "v", "v", 100, "");
    pushes_wait(&w, "v", 100);
    int64_t calls = simulator_stat(&w, "send", "calls");
    printf("validation: 2 bad of 100: %lld requests, %d sent, %d rejected\n", (long long)calls,
           pushes_outcomes(&w, "\"outcome\":\"sent\"", NULL), pushes_outcomes(&w, "ProviderRejected", NULL));
    cr_expect_leq(calls, 1 + 2 * 7 * 2);
    cr_expect_eq(pushes_outcomes(&w, "\"outcome\":\"sent\"", "\"attempt\":1"), 98);
    cr_expect_eq(pushes_outcomes(&w, "\"error\":\"ProviderRejected\"", "\"v-41\""), 1);
    cr_expect_eq(pushes_outcomes(&w, "\"error\":\"ProviderRejected\"", "\"v-99\""), 1);
    cr_expect_eq(pushes_accepted_once(&w), 98);

    simulator_reset(&w);
    pushes_devices(&w, "m", 100);
    simulator_script(&w, "{\"when\":{\"token\":\"[m-\",\"next\":1},\"do\":{\"status\":400,\"body\":" LIST(
                             "PUSH_TOO_MANY_NOTIFICATIONS", "") "}}");
    pushes_event(&w, "m", "m", 100, "");
    pushes_wait(&w, "m", 100);
    printf("validation: too many notifications: %lld requests\n",
           (long long)simulator_stat(&w, "send", "calls"));
    cr_expect_eq(simulator_stat(&w, "send", "calls"), 3);
    cr_expect_eq(pushes_accepted_once(&w), 198);
    cr_expect(child_log_has(dispatcher, "\"too_many\""));
    child_stop(dispatcher);
    cr_expect_not(world_logs_have(&w, "PushToken["));
    world_check_books(&w);
    world_close(&w);
}

/* ---- push options ---------------------------------------------------------------------------------------
 */

Test(dispatcher, push_options)
{
    static const char *const all[] = {"\"ttl\":90",
                                      "\"priority\":\"normal\"",
                                      "\"sound\":\"bell.wav\"",
                                      "\"badge\":7",
                                      "\"channelId\":\"meetings\"",
                                      "\"subtitle\":\"\303\234ber \\\"uns\\\"\"",
                                      "\"interruptionLevel\":\"time-sensitive\"",
                                      "\"mutableContent\":true",
                                      "\"collapseId\":\"c1\"",
                                      "\"tag\":\"t1\""};
    static const char *const arguments[] = {"--record-full", NULL};
    static char big[20000];
    struct world w;
    pushes_open(&w, "push_options", arguments);
    struct child *dispatcher = world_dispatcher(&w, NULL);
    pushes_devices(&w, "o", 1);
    pushes_event(
        &w, "o", "all", 1,
        ",\"expires_at\":\"2099-01-01T00:00:00Z\",\"push\":{ \"ttl\" : 90 ,\"priority\":\"normal\",\"sound\":"
        "\"bell.wav\",\"badge\":7,\"channel_id\":\"meetings\",\"subtitle\":\"\\u00dcber \\\"uns\\\"\","
        "\"interruption_level\":\"time-sensitive\",\"mutable_content\":true,\"collapse_id\":\"c1\","
        "\"t\\u0061g\":\"t1\",\"new_thing\":[1,{\"ttl\":5}]}");
    pushes_wait(&w, "all", 1);
    int found = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        cr_expect_eq(simulator_accepted(&w, all[i]), 1, "%s", all[i]);
        found += simulator_accepted(&w, all[i]) == 1;
    }
    cr_expect_eq(simulator_accepted(&w, "expiration"), 0, "ttl wins");
    cr_expect_eq(simulator_accepted(&w, "new_thing"), 0);
    pushes_event(&w, "o", "plain", 1,
                 ",\"expires_at\":\"2099-01-01T00:00:00Z\",\"push\":{\"priority\":\"high\"}");
    pushes_wait(&w, "plain", 1);
    cr_expect_eq(simulator_accepted(&w, "\"expiration\":4070908800"), 1);
    cr_expect_eq(simulator_accepted(&w, "\"priority\":\"high\""), 1);
    snprintf(big, sizeof big, ",\"data\":{\"pad\":\"%04090d\",\"n\":0.10},\"push\":{\"badge\":8}", 0);
    pushes_event(&w, "o", "big", 1, big);
    pushes_wait(&w, "big", 1);
    cr_expect_eq(simulator_accepted(&w, "\"badge\":8"), 1);
    cr_expect_eq(simulator_accepted(&w, "\"pad\""), 0);
    double dropped = child_metric(dispatcher, "belfry_provider_shortened_total{what=\"data\"}");
    printf("push_options: %d of %zu options arrived; %g messages lost their data to the size limit\n", found,
           sizeof all / sizeof all[0], dropped);
    cr_expect_eq((int)dropped, 1);
    cr_expect_eq(world_count(&w, "SELECT count(*) FROM notifications WHERE length(data::text) > 4000"), 1,
                 "the feed keeps it");
    child_stop(dispatcher);
    world_check_books(&w);
    world_close(&w);
}
