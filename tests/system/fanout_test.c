/* The real belfry-dispatcher (and a reconciler, so that outcomes become states) against a real Kafka, a real
 * Postgres and the scripted provider: the cases of shared/cases.md that concern fan-out and tickets. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { TEXT_MAX = 64 * 1024 };

#define ASSERT_COUNT(w, n, ...) cr_assert_eq(world_count(w, __VA_ARGS__), n, "%s", #__VA_ARGS__)
#define EXPECT_COUNT(w, n, ...) cr_expect_eq(world_count(w, __VA_ARGS__), n, "%s", #__VA_ARGS__)

static void open_world(struct world *w, const char *name)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, 2);
    world_simulator(w, NULL);
}

/* One event for the users "u<name>-0" … "u<name>-<count - 1>". */
static void produce_event(struct world *w, const char *name, int count)
{
    static char value[TEXT_MAX];
    size_t bytes =
        (size_t)snprintf(value, sizeof value,
                         "{\"run_id\":\"%s\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":"
                         "\"Private title\",\"body\":\"Private body\",\"recipients\":[",
                         name);
    for (int i = 0; i < count; i++)
        bytes +=
            (size_t)snprintf(value + bytes, sizeof value - bytes, "%s\"u%s-%d\"", i == 0 ? "" : ",", name, i);
    snprintf(value + bytes, sizeof value - bytes, "]}");
    world_produce(w, w->events, 0, name, value);
}

static void register_device(struct world *w, const char *name, int user, const char *token)
{
    char id[64];
    snprintf(id, sizeof id, "u%s-%d", name, user);
    world_register(w, id, token);
}

static void wait_registered(struct world *w)
{
    world_flush(w);
    world_wait_drained(w, w->group, w->devices, WORLD_WAIT_S);
}

/* Until this many notifications of the run exist and no dispatch of them is queued. */
static void wait_outcomes(struct world *w, const char *name, int notifications)
{
    world_wait_count(w, notifications,
                     "SELECT count(*) FROM notifications WHERE recipient_user_id LIKE 'u%s-%%'", name);
    world_wait_count(w, 0,
                     "SELECT count(*) FROM dispatches d JOIN notifications n ON n.id = d.notification_id"
                     " WHERE n.recipient_user_id LIKE 'u%s-%%' AND d.state = 'queued'",
                     name);
}

static int64_t count_state(struct world *w, const char *name, const char *condition)
{
    return world_count(w,
                       "SELECT count(*) FROM dispatches d JOIN notifications n ON n.id = d.notification_id"
                       " JOIN device_tokens t ON t.id = d.device_id"
                       " WHERE n.recipient_user_id LIKE 'u%s-%%' AND %s",
                       name, condition);
}

/* ---- FAN-02: the limit counts recipients, not events -----------------------------------------------------
 */

/* The record's lines of one run: within a call, positions rise with the dispatches, without a gap. */
static void check_order(struct world *w, const char *name)
{
    static char order[TEXT_MAX], line[4096];
    world_text(w, order, sizeof order,
               "SELECT string_agg(t.token, '' ORDER BY d.id) FROM dispatches d JOIN device_tokens t ON t.id ="
               " d.device_id JOIN notifications n ON n.id = d.notification_id"
               " WHERE n.recipient_user_id LIKE 'u%s-%%'",
               name);
    FILE *record = fopen(w->record, "r");
    cr_assert_not_null(record);
    long last_call = -1, next = 0;
    char mark[64];
    snprintf(mark, sizeof mark, "[%s-", name);
    while (fgets(line, sizeof line, record) != NULL) {
        if (strstr(line, mark) == NULL)
            continue;
        long call = strtol(strstr(line, "\"call\":") + 7, NULL, 10);
        char token[128];
        cr_assert_eq(sscanf(strstr(line, "\"token\":") + 8, "\"%127[^\"]\"", token), 1);
        const char *at = strstr(order, token);
        cr_assert_not_null(at, "a token nobody asked to push to");
        if (call == last_call)
            cr_expect_eq(at - order, next, "run %s call %ld: the order of the dispatches", name, call);
        last_call = call;
        next = at - order + (long)strlen(token);
    }
    fclose(record);
}

static void check_fan_02(struct world *w, int tokens)
{
    char name[32], mark[40];
    int users = tokens == 0 ? 1 : (tokens + 19) / 20;
    snprintf(name, sizeof name, "n%d", tokens);
    snprintf(mark, sizeof mark, "[%s-", name);
    simulator_reset(w);
    produce_event(w, name, users);
    wait_outcomes(w, name, users);
    int64_t calls = simulator_stat(w, "send", "calls"), accepted = simulator_accepted(w, mark);
    printf("fan_02: %d tokens: %lld requests, %lld accepted, largest %lld\n", tokens, (long long)calls,
           (long long)accepted, (long long)simulator_stat(w, "send", "largest"));
    cr_expect_eq(calls, (tokens + 99) / 100);
    cr_expect_eq(accepted, tokens);
    cr_expect_leq(simulator_stat(w, "send", "largest"), 100);
    cr_expect_eq(count_state(w, name, "d.state IN ('sent', 'delivered')"), tokens);
    for (int i = 0; i < tokens; i++) {
        char token[64];
        snprintf(token, sizeof token, "[%s-%d]", name, i);
        cr_expect_eq(simulator_accepted(w, token), 1, "%s", token);
    }
    if (tokens > 0)
        check_order(w, name);
}

Test(cases, fan_02)
{
    static const int counts[] = {0, 1, 99, 100, 101, 200, 201};
    struct world w;
    open_world(&w, "fan_02");
    struct child *dispatcher = world_dispatcher(&w, NULL), *reconciler = world_reconciler(&w, NULL);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (int k = 0; k < counts[i]; k++) {
            char name[32], token[64];
            snprintf(name, sizeof name, "n%d", counts[i]);
            snprintf(token, sizeof token, "ExponentPushToken[%s-%d]", name, k);
            register_device(&w, name, k / 20, token);
        }
    }
    wait_registered(&w);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        check_fan_02(&w, counts[i]);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* ---- FAN-05: one phone, one owner ------------------------------------------------------------------------
 */

Test(cases, fan_05)
{
    struct world w;
    open_world(&w, "fan_05");
    struct child *dispatcher = world_dispatcher(&w, NULL), *reconciler = world_reconciler(&w, NULL);
    register_device(&w, "a", 0, "ExponentPushToken[phone]");
    wait_registered(&w);
    register_device(&w, "b", 0, "ExponentPushToken[phone]");
    wait_registered(&w);
    produce_event(&w, "a", 1);
    produce_event(&w, "b", 1);
    wait_outcomes(&w, "a", 1);
    wait_outcomes(&w, "b", 1);
    EXPECT_COUNT(&w, 1, "SELECT count(*) FROM device_tokens WHERE user_id = 'ub-0' AND enabled");
    EXPECT_COUNT(&w, 1, "SELECT count(*) FROM device_tokens");
    cr_expect_eq(count_state(&w, "a", "true"), 0, "A's event reaches no device");
    cr_expect_eq(count_state(&w, "b", "d.state IN ('sent', 'delivered')"), 1);
    cr_expect_eq(simulator_accepted(&w, NULL), 1);
    child_stop(dispatcher);

    /* The phone changes hands while A's batch waits. */
    dispatcher = world_dispatcher(&w, "[run]\nroles = ingest\n");
    register_device(&w, "c", 0, "ExponentPushToken[other]");
    wait_registered(&w);
    produce_event(&w, "c", 1);
    world_wait_count(&w, 1, "SELECT count(*) FROM batches");
    register_device(&w, "b", 0, "ExponentPushToken[other]");
    wait_registered(&w);
    child_stop(dispatcher);
    dispatcher = world_dispatcher(&w, NULL);
    wait_outcomes(&w, "c", 1);
    cr_expect_eq(count_state(&w, "c", "d.state = 'suppressed' AND d.error = 'DeviceChanged'"), 1);
    cr_expect_eq(simulator_accepted(&w, "[other]"), 0, "B's screen shows nothing of C's");
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* ---- FAN-08 and TKT-01: answers that are none ------------------------------------------------------------
 */

struct odd_answer {
    const char *name;   /* also of the run and the users */
    const char *act;    /* the simulator's "do" */
    const char *state;  /* what all three dispatches must be */
    const char *detail; /* in each outcome record */
    bool again;         /* certainly not accepted: asked once more, and then taken */
};

struct outcome_tally {
    const char *user, *detail;
    int records, with_detail;
};

static void tally_outcome(void *context, const struct world_record *record)
{
    struct outcome_tally *tally = context;
    if (strstr(record->value, tally->user) == NULL)
        return;
    tally->records++;
    tally->with_detail += strstr(record->value, tally->detail) != NULL;
}

static void check_odd_answer(struct world *w, const struct odd_answer *odd)
{
    char rule[2048], user[64];
    snprintf(rule, sizeof rule, "{\"when\":{\"token\":\"[%s-\",\"next\":1},\"do\":%s}", odd->name, odd->act);
    simulator_script(w, rule);
    int64_t calls = simulator_stat(w, "send", "calls");
    produce_event(w, odd->name, 3);
    wait_outcomes(w, odd->name, 3);
    printf("%s: %lld requests, %lld as %s\n", odd->name,
           (long long)(simulator_stat(w, "send", "calls") - calls),
           (long long)count_state(w, odd->name, odd->state), odd->state);
    cr_expect_eq(count_state(w, odd->name, odd->state), 3, "%s: %s", odd->name, odd->state);
    cr_expect_eq(simulator_stat(w, "send", "calls") - calls, odd->again ? 2 : 1, "%s: requests", odd->name);
    cr_expect_eq(count_state(w, odd->name, "t.enabled"), 3, "%s: nobody is disabled", odd->name);
    snprintf(user, sizeof user, "\"u%s-", odd->name);
    struct outcome_tally tally = {.user = user, .detail = odd->detail};
    world_read_topic(w, w->receipts, tally_outcome, &tally);
    cr_expect_eq(tally.records, 3, "%s", odd->name);
    cr_expect_eq(tally.with_detail, 3, "%s: %s", odd->name, odd->detail);
}

static void check_odd_answers(const char *world_name, const struct odd_answer *odd, size_t count)
{
    struct world w;
    open_world(&w, world_name);
    /* One attempt, and no breaker: each answer is looked at by itself. A refusal by a provider that answered
     * nothing else since is not the last word. */
    struct child *dispatcher =
        world_dispatcher(&w, "[fanout]\nsend_attempts = 1\n[provider]\nprovider_failures = 1000\n");
    struct child *reconciler = world_reconciler(&w, NULL);
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < 3; k++) {
            char token[64];
            snprintf(token, sizeof token, "ExponentPushToken[%s-%d]", odd[i].name, k);
            register_device(&w, odd[i].name, k, token);
        }
    }
    register_device(&w, "after", 0, "ExponentPushToken[after]");
    wait_registered(&w);
    for (size_t i = 0; i < count; i++)
        check_odd_answer(&w, &odd[i]);
    produce_event(&w, "after", 1);
    wait_outcomes(&w, "after", 1);
    cr_expect_eq(count_state(&w, "after", "d.state IN ('sent', 'delivered')"), 1, "the worker lives");
    cr_expect(child_running(dispatcher));
    cr_expect(child_log_has(dispatcher, "FAN-ANSWER"));
    child_stop(dispatcher);
    child_stop(reconciler);
    cr_expect_not(world_logs_have(&w, "PushToken["), "no token in a log");
    cr_expect_not(world_logs_have(&w, "Private"), "no title and no body in a log");
    world_check_books(&w);
    world_close(&w);
}

#define UNCONFIRMED "d.state = 'failed' AND d.error = 'Unconfirmed'"
#define MISMATCH    "d.state = 'failed' AND d.error = 'TicketMismatch'"
#define OK_TICKET   "{\"status\":\"ok\",\"id\":\"x\"}"
#define DEAD_TICKET                                                                                          \
    "{\"status\":\"error\",\"message\":\"ExponentPushToken[tickets2-0] is gone\",\"details\":{\"error\":"    \
    "\"DeviceNotRegistered\"}}"

Test(cases, fan_08)
{
    static const struct odd_answer odd[] = {
        {"html502", "{\"status\":502,\"content_type\":\"text/html\",\"body\":\"<html>Bad Gateway</html>\"}",
         UNCONFIRMED, "HTTP 502"},
        {"text503", "{\"status\":503,\"content_type\":\"text/plain\",\"body\":\"Service Unavailable\"}",
         UNCONFIRMED, "HTTP 503"},
        {"html200", "{\"status\":200,\"content_type\":\"text/html\",\"body\":\"<html>Hello</html>\"}",
         UNCONFIRMED, "HTTP 200"},
        {"cut200",
         "{\"raw\":\"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: 500\\r\\n\\r\\n"
         "{\\\"data\\\":[\"}",
         UNCONFIRMED, "HTTP 200"},
        {"empty500", "{\"status\":500,\"body\":\"\"}", UNCONFIRMED, "HTTP 500"},
        {"reset", "{\"close\":\"reset\"}", UNCONFIRMED, "detail"},
        {"echo", /* a proxy that shows what it was sent */
         "{\"status\":502,\"content_type\":\"text/html\",\"body\":\"<p>to ExponentPushToken[echo-0] title "
         "Private "
         "title\"}",
         UNCONFIRMED, "HTTP 502"},
        {"list500", "{\"status\":500,\"body\":{\"errors\":[{\"code\":\"INTERNAL\",\"message\":\"m\"}]}}",
         "d.state IN ('sent', 'delivered')", "\"outcome\":\"sent\"", true},
        {"slow429", "{\"status\":429,\"content_type\":\"text/html\",\"body\":\"slow down\"}",
         "d.state IN ('sent', 'delivered')", "\"outcome\":\"sent\"", true}};
    check_odd_answers("fan_08", odd, sizeof odd / sizeof odd[0]);
}

Test(cases, tkt_01)
{
    static const struct odd_answer odd[] = {
        {"tickets2", "{\"tickets\":[" DEAD_TICKET "," OK_TICKET "]}", MISMATCH, "2 tickets for 3 messages"},
        {"tickets4", "{\"tickets\":[" DEAD_TICKET "," OK_TICKET "," OK_TICKET "," OK_TICKET "]}", MISMATCH,
         "4 tickets for 3 messages"},
        {"tickets0", "{\"tickets\":[]}", MISMATCH, "0 tickets for 3 messages"},
        {"errors", "{\"status\":200,\"body\":{\"errors\":[{\"code\":\"SOMETHING\",\"message\":\"m\"}]}}",
         "d.state = 'failed' AND d.error = 'ProviderRejected'", "HTTP 200 SOMETHING"},
        {"both2",
         "{\"status\":200,\"body\":{\"errors\":[{\"code\":\"SOMETHING\"}],\"data\":[" OK_TICKET "," OK_TICKET
         "]}}",
         MISMATCH, "2 tickets for 3 messages"},
        {"null", "{\"status\":200,\"body\":{\"data\":null}}", MISMATCH, "no list of tickets"},
        {"object", "{\"status\":200,\"body\":{\"data\":" OK_TICKET "}}", MISMATCH, "no list of tickets"},
        {"strings", "{\"tickets\":[\"a\",\"b\",\"c\"]}", MISMATCH, "not readable"}};
    check_odd_answers("tkt_01", odd, sizeof odd / sizeof odd[0]);
}

/* ---- TKT-04: positions count over the request as it was sent ---------------------------------------------
 */

Test(cases, tkt_04)
{
    static const char *const tokens[] = {"ExponentPushToken[tkt-1]", "not a token",
                                         "ExponentPushToken[tkt-2]", "ExponentPushToken[tkt-3]",
                                         "ExponentPushToken[tkt-4]", "ExponentPushToken[tkt-5]",
                                         "ExponentPushToken[tkt-6]"};
    static const char *const states[] = {"d.state IN ('sent', 'delivered')",
                                         "d.state = 'failed' AND d.error = 'InvalidToken'",
                                         "d.state = 'failed' AND d.error = 'DeviceNotRegistered'",
                                         "d.state IN ('sent', 'delivered')",
                                         "d.state = 'failed' AND d.error = 'MessageTooBig'",
                                         "d.state IN ('sent', 'delivered')",
                                         "d.state = 'failed' AND d.error = 'TicketMismatch'"};
    struct world w;
    open_world(&w, "tkt_04");
    struct child *dispatcher = world_dispatcher(&w, NULL), *reconciler = world_reconciler(&w, NULL);
    for (int i = 0; i < 7; i++)
        register_device(&w, "t", i, tokens[i]);
    wait_registered(&w);
    simulator_script(&w,
                     "[{\"when\":{\"token\":\"[tkt-2]\"},\"do\":{\"ticket_error\":\"DeviceNotRegistered\"}},"
                     "{\"when\":{\"token\":\"[tkt-4]\"},\"do\":{\"ticket_error\":\"MessageTooBig\"}},"
                     "{\"when\":{\"token\":\"[tkt-6]\"},\"do\":{\"ticket\":{\"status\":\"error\",\"message\":"
                     "\"m\",\"details\":{\"error\":\"DeviceNotRegistered\",\"expoPushToken\":"
                     "\"ExponentPushToken[tkt-1]\"}}}}]");
    produce_event(&w, "t", 7);
    wait_outcomes(&w, "t", 7);
    for (int i = 0; i < 7; i++) {
        char condition[200];
        snprintf(condition, sizeof condition, "t.token = '%s' AND %s", tokens[i], states[i]);
        cr_expect_eq(count_state(&w, "t", condition), 1, "%s", condition);
    }
    EXPECT_COUNT(&w, 1, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    EXPECT_COUNT(&w, 1, "SELECT count(*) FROM device_tokens WHERE NOT enabled AND token = '%s'", tokens[2]);
    cr_expect_eq(simulator_stat(&w, "send", "calls"), 1);
    cr_expect_eq(simulator_stat(&w, "send", "largest"), 6, "the malformed one was never sent");
    printf("tkt_04: 7 devices, %lld sent, %lld accepted, %lld disabled\n",
           (long long)simulator_stat(&w, "send", "largest"), (long long)simulator_accepted(&w, NULL),
           (long long)world_count(&w, "SELECT count(*) FROM device_tokens WHERE NOT enabled"));
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

/* ---- crash points ----------------------------------------------------------------------------------------
 */

/* Killed at the point, taken over by a second process: nobody is pushed to twice, and what was lost is one
 * window, failed/Unconfirmed. */
static void check_crash(const char *point, int64_t lost_max)
{
    char name[64];
    struct world w;
    snprintf(name, sizeof name, "fan_crash_%s", point);
    open_world(&w, name);
    struct child *reconciler = world_reconciler(&w, NULL), *dispatcher = world_dispatcher(&w, NULL);
    for (int i = 0; i < 1000; i++) {
        char token[64];
        snprintf(token, sizeof token, "ExponentPushToken[c-%d]", i);
        register_device(&w, "c", i, token);
    }
    wait_registered(&w);
    child_stop(dispatcher);
    dispatcher = world_dispatcher_crash(&w, NULL, point);
    produce_event(&w, "c", 1000);
    cr_expect_eq(child_wait(dispatcher, 60), 128 + 9);
    dispatcher = world_dispatcher(&w, NULL);
    wait_outcomes(&w, "c", 1000);
    world_wait_count(&w, 0, "SELECT count(*) FROM batches");
    int64_t sent = count_state(&w, "c", "d.state IN ('sent', 'delivered')");
    int64_t lost = count_state(&w, "c", UNCONFIRMED);
    int64_t accepted = simulator_accepted(&w, NULL);
    printf("crash at %s: %lld sent, %lld unconfirmed, %lld accepted by the provider\n", point,
           (long long)sent, (long long)lost, (long long)accepted);
    cr_expect_eq(sent + lost, 1000);
    cr_expect_leq(lost, lost_max, "at most one window");
    cr_expect_geq(accepted, sent);
    cr_expect_leq(accepted, 1000);
    for (int i = 0; i < 1000; i += 7) {
        char token[32];
        snprintf(token, sizeof token, "[c-%d]", i);
        cr_expect_leq(simulator_accepted(&w, token), 1, "%s twice", token);
    }
    child_stop(dispatcher);
    child_stop(reconciler);
    world_check_books(&w);
    world_close(&w);
}

Test(fanout, crash_window)
{
    check_crash("window", 600);
}

Test(fanout, crash_send)
{
    check_crash("send", 600);
}

Test(fanout, crash_published)
{
    check_crash("published", 0);
}
