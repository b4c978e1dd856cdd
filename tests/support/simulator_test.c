/* The simulator's faults, seen from a bare socket: what exactly comes over the wire, and whether the messages
 * count as accepted. What it does unasked is tested with the provider's own client (expo/test.mjs). */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "support/harness.h"

static const char send_path[] = "/--/api/v2/push/send";
static const char one[] =
    "[{\"to\":\"ExponentPushToken[t-1]\",\"title\":\"T\",\"data\":{\"notification_id\":\"n1\"}}]";
static const char two[] = "[{\"to\":\"ExponentPushToken[t-1]\"},{\"to\":\"ExponentPushToken[t-2]\"}]";

static int dial(const struct world *w)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)strtoul(strrchr(w->provider_url, ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval patience = {.tv_sec = 5};
    cr_assert(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    cr_assert(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static void ask(int fd, const char *body)
{
    char text[2048];
    int bytes = snprintf(text, sizeof text,
                         "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         send_path, strlen(body), body);
    cr_assert(write(fd, text, (size_t)bytes) == bytes);
}

enum { CLOSED, RESET, MORE, SILENT };

/* Reads one answer (or to the end of the connection when to_end) and says how it stopped. */
static int hear(int fd, char *text, size_t size, bool to_end)
{
    size_t bytes = 0;
    text[0] = '\0';
    for (;;) {
        ssize_t got = read(fd, text + bytes, size - 1 - bytes);
        if (got <= 0)
            return got == 0 ? CLOSED : errno == ECONNRESET ? RESET : SILENT;
        bytes += (size_t)got;
        text[bytes] = '\0';
        const char *body = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");
        if (!to_end && body != NULL && length != NULL && strlen(body + 4) >= strtoul(length + 16, NULL, 10))
            return MORE;
    }
}

/* One request on a new connection under one scripted rule. */
static int under(struct world *w, const char *rule, const char *body, char *text, size_t size)
{
    simulator_reset(w);
    simulator_script(w, rule);
    int fd = dial(w);
    ask(fd, body);
    int end = hear(fd, text, size, false);
    close(fd);
    return end;
}

static struct world world;

static void open_world(void)
{
    world_open(&world, "simulator");
    world_simulator(&world, NULL);
}

static void close_world(void)
{
    world_close(&world);
}

TestSuite(simulator, .init = open_world, .fini = close_world, .timeout = 30);

Test(simulator, ends_a_connection_as_scripted)
{
    static const struct {
        const char *act;
        const char *text; /* what is heard begins with this */
        int end;
        bool accepted;
    } rows[] = {
        {"{\"close\":\"before_reply\"}", "", CLOSED, true},
        {"{\"close\":\"before_reply\",\"accept\":false}", "", CLOSED, false},
        {"{\"close\":\"reset\"}", "", RESET, true},
        {"{\"close\":\"after_headers\"}", "HTTP/1.1 200", CLOSED, true},
        {"{\"close\":\"mid_body\"}", "HTTP/1.1 200", CLOSED, true},
        {"{\"hang_ms\":50}", "", CLOSED, true},
        {"{\"raw\":\"no HTTP\"}", "no HTTP", CLOSED, true},
        {"{\"status\":502,\"body\":\"<html>\"}", "HTTP/1.1 502", MORE, false},
        {"{\"status\":502,\"body\":\"<html>\",\"accept\":true}", "HTTP/1.1 502", MORE, true},
        {"{\"status\":200,\"body\":\"<html>\"}", "HTTP/1.1 200", MORE, true},
        {"{\"tickets\":[]}", "HTTP/1.1 200", MORE, true},
        {"{\"delay_ms\":50}", "HTTP/1.1 200", MORE, true},
        {"{\"status\":500}", "HTTP/1.1 500", MORE, false},
    };
    int64_t accepted = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char rule[256], text[4096];
        snprintf(rule, sizeof rule, "{\"do\":%s}", rows[i].act);
        int end = under(&world, rule, one, text, sizeof text);
        cr_expect(end == rows[i].end, "%s ends with %d, not %d", rows[i].act, end, rows[i].end);
        cr_expect(strncmp(text, rows[i].text, strlen(rows[i].text)) == 0 &&
                      (rows[i].text[0] != '\0' || text[0] == '\0'),
                  "%s says %s", rows[i].act, text);
        accepted += rows[i].accepted;
        int64_t recorded = simulator_accepted(&world, "\"notification_id\":\"n1\"");
        cr_expect(recorded == accepted, "%s: %ld recorded, %ld expected", rows[i].act, (long)recorded,
                  (long)accepted);
        cr_expect(simulator_stat(&world, "send", "accepted") == rows[i].accepted);
    }
    printf("simulator: %zu endings, %ld accepted\n", sizeof rows / sizeof *rows, (long)accepted);
}

Test(simulator, cuts_the_body_in_half)
{
    char text[4096];
    under(&world, "{\"do\":{\"close\":\"mid_body\"}}", one, text, sizeof text);
    const char *body = strstr(text, "\r\n\r\n");
    cr_assert(body != NULL);
    unsigned long promised = strtoul(strstr(text, "Content-Length: ") + 16, NULL, 10);
    cr_expect(strlen(body + 4) == promised / 2 && promised > 2, "%zu of %lu", strlen(body + 4), promised);
    under(&world, "{\"do\":{\"close\":\"after_headers\"}}", one, text, sizeof text);
    cr_expect(strcmp(strstr(text, "\r\n\r\n"), "\r\n\r\n") == 0);
}

Test(simulator, hangs_up_on_a_reused_connection_only)
{
    char text[4096];
    simulator_script(&world, "{\"when\":{\"reused\":true,\"next\":1},\"do\":{\"close\":\"before_reply\"}}");
    int fd = dial(&world);
    ask(fd, one);
    cr_expect(hear(fd, text, sizeof text, false) == MORE);
    ask(fd, one);
    cr_expect(hear(fd, text, sizeof text, true) == CLOSED && text[0] == '\0');
    close(fd);
    fd = dial(&world);
    ask(fd, one);
    cr_expect(hear(fd, text, sizeof text, false) == MORE);
    close(fd);
    cr_expect(simulator_accepted(&world, NULL) == 3);
}

Test(simulator, spends_rules_by_call_number_and_by_count)
{
    char text[4096];
    simulator_script(&world, "[{\"when\":{\"call\":2},\"do\":{\"status\":503}},"
                             "{\"when\":{\"next\":1,\"token\":\"t-2\"},\"do\":{\"status\":500}}]");
    static const struct {
        const char *body, *status;
    } calls[] = {{one, "200"}, {two, "503"}, {one, "200"}, {two, "500"}, {two, "200"}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int fd = dial(&world);
        ask(fd, calls[i].body);
        cr_expect(hear(fd, text, sizeof text, false) == MORE);
        cr_expect(strncmp(text + 9, calls[i].status, 3) == 0, "call %zu: %.12s", i + 1, text);
        close(fd);
    }
    cr_expect(simulator_stat(&world, "send", "calls") == 5);
    cr_expect(simulator_stat(&world, "send", "largest") == 2);
}

Test(simulator, answers_single_messages_by_token)
{
    char text[4096];
    under(&world, "{\"when\":{\"token\":\"t-2\"},\"do\":{\"ticket_error\":\"MessageRateExceeded\"}}", two,
          text, sizeof text);
    const char *ok = strstr(text, "\"ok\""), *error = strstr(text, "\"MessageRateExceeded\"");
    cr_expect(ok != NULL && error != NULL && ok < error, "%s", text);
    cr_expect(simulator_accepted(&world, NULL) == 1);
    under(&world, "{\"when\":{\"token\":\"t-1\"},\"do\":{\"ticket\":{\"status\":\"ok\"}}}", two, text,
          sizeof text);
    cr_expect(strstr(text, "{\"data\":[{\"status\":\"ok\"},{\"status\":\"ok\",\"id\":") != NULL, "%s", text);
    under(&world, "{\"when\":{\"token\":\"t-1\"},\"do\":{\"drop_ticket\":true}}", two, text, sizeof text);
    cr_expect(strstr(text, "},{") == NULL && strstr(text, "\"ok\"") != NULL, "%s", text);
}

Test(simulator, refuses_a_rule_it_does_not_know)
{
    static const char *const rules[] = {
        "{\"when\":{\"tokn\":\"x\"},\"do\":{\"status\":500}}",
        "{\"do\":{\"stauts\":500}}",
        "{\"when\":{}}",
        "{\"do\":{\"close\":\"sometimes\"}}",
        "[1]",
        "no JSON",
    };
    char url[256];
    snprintf(url, sizeof url, "%s/control/script", world.provider_url);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct world_reply reply;
        world_http("POST", url, NULL, rules[i], &reply);
        cr_expect(reply.status == 400 && strstr(reply.body, "\"error\"") != NULL, "%s: %ld", rules[i],
                  reply.status);
        world_reply_done(&reply);
    }
}

Test(simulator, answers_preferences_of_scripted_users)
{
    char url[256];
    struct world_reply reply;
    snprintf(url, sizeof url, "%s/control/preferences", world.provider_url);
    world_http("POST", url, NULL, "{\"users\":{\"u1\":{\"push\":false}}}", &reply);
    cr_expect(reply.status == 200);
    world_reply_done(&reply);
    snprintf(url, sizeof url, "%s/preferences", world.provider_url);
    world_http("POST", url, NULL, "{\"users\":[\"u1\",\"u2\"]}", &reply);
    cr_expect_str_eq(reply.body, "{\"users\":{\"u1\":{\"push\":false}}}");
    world_reply_done(&reply);
    simulator_script(&world,
                     "{\"when\":{\"path\":\"preferences\",\"token\":\"u2\"},\"do\":{\"status\":404}}");
    world_http("POST", url, NULL, "{\"users\":[\"u2\"]}", &reply);
    cr_expect(reply.status == 404);
    world_reply_done(&reply);
    cr_expect(simulator_stat(&world, "preferences", "calls") == 2);
}
