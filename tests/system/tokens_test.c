/* Which tokens are switched off, with the real binaries: DeviceNotRegistered and nothing else, from a ticket
 * or a receipt; not one that registered again or changed hands since; not one for wrong credentials of ours.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { TEXT_MAX = 64 * 1024, CREDENTIALS = 300 };

#define POLLS                   "[reconciler]\nreceipt_delay = 100ms\npoll_interval = 200ms\n"
#define ASSERT_COUNT(w, n, ...) cr_assert_eq(world_count(w, __VA_ARGS__), n, "%s", #__VA_ARGS__)

static void open_world(struct world *w, const char *name)
{
    world_open(w, name);
    world_database(w);
    world_topics(w, 2);
    world_simulator(w, NULL);
}

static void add_device(struct world *w, const char *user, const char *token)
{
    char text[96];
    snprintf(text, sizeof text, "ExponentPushToken[%s]", token);
    world_register(w, user, text);
}

static void wait_registered(struct world *w)
{
    world_flush(w);
    world_wait_drained(w, w->group, w->devices, WORLD_WAIT_S);
}

static void wait_settled(struct world *w, int dispatches)
{
    world_wait_count(w, dispatches, "SELECT count(*) FROM dispatches WHERE state NOT IN ('queued', 'sent')");
    world_wait_count(w, 0, "SELECT count(*) FROM dispatches WHERE state IN ('queued', 'sent')");
}

/* One event for these users (JSON strings, commas between). */
static void produce(struct world *w, const char *run, const char *users)
{
    static char value[TEXT_MAX];
    snprintf(
        value, sizeof value,
        "{\"run_id\":\"%s\",\"event_type\":\"t\",\"workspace_id\":\"w\",\"title\":\"t\",\"recipients\":[%s]}",
        run, users);
    world_produce(w, w->events, 0, run, value);
}

static void check_audit(struct world *w)
{
    char *output = malloc(TEXT_MAX);
    cr_assert_not_null(output);
    cr_expect_eq(world_audit(w, NULL, output, TEXT_MAX), 0, "%s", output);
    free(output);
    world_check_books(w);
}

/* Every code of the provider's on a ticket and on a receipt, each for a device of its own. */
Test(tokens, only_the_dead, .timeout = 110)
{
    static const char *const codes[] = {"DeviceNotRegistered", "MessageTooBig",      "MessageRateExceeded",
                                        "MismatchSenderId",    "InvalidCredentials", "DeveloperError",
                                        "ExpoError",           "ProviderError",      "NeverHeardOf"};
    enum { CODES = sizeof codes / sizeof codes[0] };
    struct world w;
    char rules[TEXT_MAX] = "[", users[4096] = "\"fine\"", user[64];
    open_world(&w, "tokens_dead");
    struct child *dispatcher = world_dispatcher(&w, NULL), *reconciler = world_reconciler(&w, POLLS);
    add_device(&w, "fine", "fine");
    for (int i = 0; i < 2 * CODES; i++) {
        const char *where = i % 2 == 0 ? "ticket" : "receipt";
        size_t at = strlen(rules);
        snprintf(user, sizeof user, "%s-%s", where, codes[i / 2]);
        add_device(&w, user, user);
        snprintf(rules + at, sizeof rules - at,
                 "%s{\"when\":{\"token\":\"[%s]\"},\"do\":{\"%s_error\":\"%s\"}}", i == 0 ? "" : ",", user,
                 where, codes[i / 2]);
        at = strlen(users);
        snprintf(users + at, sizeof users - at, ",\"%s\"", user);
    }
    snprintf(rules + strlen(rules), sizeof rules - strlen(rules), "]");
    simulator_script(&w, rules);
    wait_registered(&w);
    produce(&w, "one", users);
    wait_settled(&w, 2 * CODES + 1);
    world_text(
        &w, rules, sizeof rules,
        "SELECT string_agg(concat_ws(' ', user_id, disabled_reason, disabled_at BETWEEN registered_at AND"
        " now()), ', ' ORDER BY user_id) FROM belfry_devices WHERE NOT enabled");
    printf("%d devices, %d codes on tickets and on receipts; off: %s\n", 2 * CODES + 1, CODES, rules);
    cr_assert_str_eq(rules, "receipt-DeviceNotRegistered DeviceNotRegistered t, ticket-DeviceNotRegistered"
                            " DeviceNotRegistered t");
    ASSERT_COUNT(&w, 2,
                 "SELECT count(*) FROM device_history h JOIN belfry_devices d ON d.id = h.device_id WHERE"
                 " h.change = 'disabled' AND h.reason = 'DeviceNotRegistered' AND h.at = d.disabled_at");
    ASSERT_COUNT(&w, 1, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    /* The dead are not pushed to any more; registered anew, they are. */
    produce(&w, "two", "\"fine\",\"ticket-DeviceNotRegistered\",\"receipt-DeviceNotRegistered\"");
    wait_settled(&w, 2 * CODES + 2);
    simulator_reset(&w);
    add_device(&w, "ticket-DeviceNotRegistered", "ticket-DeviceNotRegistered");
    wait_registered(&w);
    produce(&w, "three", "\"ticket-DeviceNotRegistered\",\"receipt-DeviceNotRegistered\"");
    wait_settled(&w, 2 * CODES + 3);
    ASSERT_COUNT(&w, 3, "SELECT count(*) FROM dispatches WHERE state = 'delivered'");
    ASSERT_COUNT(&w, 1, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    check_audit(&w);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_close(&w);
}

/* Of three devices the evidence says gone; one has registered again since, one has another owner: off is the
 * third. */
static void check_guard(struct world *w, const char *kind)
{
    char text[256];
    world_text(w, text, sizeof text,
               "SELECT string_agg(concat_ws(' ', user_id, enabled, disabled_reason), ', ' ORDER BY id)"
               " FROM belfry_devices");
    printf("%s: %s\n", kind, text);
    cr_assert_str_eq(text, "again t, other t, gone f DeviceNotRegistered");
    check_audit(w);
}

static void send_to_three(struct world *w)
{
    add_device(w, "again", "again");
    wait_registered(w);
    add_device(w, "moved", "moved");
    wait_registered(w);
    add_device(w, "gone", "gone");
    wait_registered(w);
    produce(w, "one", "\"again\",\"moved\",\"gone\"");
    world_wait_drained(w, w->group, w->events, WORLD_WAIT_S);
    world_wait_count(w, 0, "SELECT count(*) FROM batches");
    cr_assert_eq(simulator_stat(w, "send", "calls") > 0, true);
}

static void change_two(struct world *w)
{
    add_device(w, "again", "again");
    add_device(w, "other", "moved");
    wait_registered(w);
}

Test(tokens, alive_again_ticket, .timeout = 110)
{
    struct world w;
    open_world(&w, "tokens_ticket");
    simulator_script(&w, "{\"when\":{},\"do\":{\"ticket_error\":\"DeviceNotRegistered\"}}");
    struct child *dispatcher = world_dispatcher(&w, NULL);
    send_to_three(&w);
    change_two(&w); /* before anybody reads the outcomes */
    struct child *reconciler = world_reconciler(&w, POLLS);
    world_wait_count(&w, 3, "SELECT count(*) FROM dispatches WHERE error = 'DeviceNotRegistered'");
    check_guard(&w, "by ticket");
    child_stop(dispatcher);
    child_stop(reconciler);
    world_close(&w);
}

Test(tokens, alive_again_receipt, .timeout = 110)
{
    struct world w;
    open_world(&w, "tokens_receipt");
    simulator_script(&w, "[{\"when\":{},\"do\":{\"receipt_error\":\"DeviceNotRegistered\"}},"
                         "{\"when\":{\"path\":\"receipts\"},\"do\":{\"status\":500,\"body\":\"\"}}]");
    struct child *dispatcher = world_dispatcher(&w, NULL), *reconciler = world_reconciler(&w, POLLS);
    send_to_three(&w);
    world_wait_count(&w, 3, "SELECT count(*) FROM dispatches WHERE state = 'sent'");
    change_two(&w); /* before a receipt is answered */
    simulator_reset(&w);
    world_wait_count(&w, 3, "SELECT count(*) FROM dispatches WHERE state = 'receipt_error'");
    check_guard(&w, "by receipt");
    child_stop(dispatcher);
    child_stop(reconciler);
    world_close(&w);
}

/* Series of credential faults that are above 0, by name. */
static int raised(struct child *child, char *name, size_t size)
{
    char url[128];
    struct world_reply reply;
    int count = 0;
    snprintf(url, sizeof url, "http://%s/metrics", child->admin);
    world_http("GET", url, NULL, NULL, &reply);
    cr_assert_eq(reply.status, 200);
    for (char *save = NULL, *line = strtok_r(reply.body, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        const char *blank = strrchr(line, ' ');
        if (line[0] == '#' || strstr(line, "credential") == NULL || strtod(blank, NULL) <= 0)
            continue;
        snprintf(name, size, "%s", line);
        count++;
    }
    world_reply_done(&reply);
    return count;
}

/* The provider says of 300 receipts that our credentials are wrong: an alert, and everybody stays on. */
Test(tokens, credentials, .timeout = 110)
{
    struct world w;
    static char users[TEXT_MAX];
    char user[32], of_reconciler[256] = "", of_dispatcher[256] = "";
    open_world(&w, "tokens_credentials");
    simulator_script(&w, "{\"when\":{},\"do\":{\"receipt_error\":\"InvalidCredentials\"}}");
    struct child *dispatcher = world_dispatcher(&w, NULL), *reconciler = world_reconciler(&w, POLLS);
    for (int i = 0; i < CREDENTIALS; i++) {
        snprintf(user, sizeof user, "u%d", i);
        add_device(&w, user, user);
        snprintf(users + strlen(users), sizeof users - strlen(users), "%s\"%s\"", i == 0 ? "" : ",", user);
    }
    wait_registered(&w);
    produce(&w, "one", users);
    wait_settled(&w, CREDENTIALS);
    ASSERT_COUNT(&w, CREDENTIALS,
                 "SELECT count(*) FROM dispatches WHERE state = 'receipt_error' AND error ="
                 " 'InvalidCredentials'");
    ASSERT_COUNT(&w, 0, "SELECT count(*) FROM device_tokens WHERE NOT enabled");
    ASSERT_COUNT(&w, 0, "SELECT count(*) FROM device_history WHERE change = 'disabled'");
    int raised_here = raised(reconciler, of_reconciler, sizeof of_reconciler);
    int raised_there = raised(dispatcher, of_dispatcher, sizeof of_dispatcher);
    printf("%d receipts: 0 off; raised by the reconciler: %d (%s), by the dispatcher: %d\n", CREDENTIALS,
           raised_here, of_reconciler, raised_there);
    cr_assert(raised_here == 1 && raised_there == 0);
    cr_assert_str_eq(of_reconciler, "belfry_receipt_credential_faults_total 300");
    check_audit(&w);
    child_stop(dispatcher);
    child_stop(reconciler);
    world_close(&w);
}
