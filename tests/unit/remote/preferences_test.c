/* The account service's client against a raw server on the loopback that follows a script, with a clock that
 * the test moves: cache, LRU, TTL, stale use, sharing, breaker, fail open, deadline. */
#include "remote/preferences.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "preferences_cache.h"
#include "preferences_metrics.h"

/* ---- the cache ----------------------------------------------------------------------------------------- */

static bool cached(struct preferences_cache *cache, const char *user, int64_t *at_ms)
{
    struct preferences_answer answer;
    return preferences_cache_find(cache, span_of(user), &answer, at_ms);
}

Test(preferences, cache_drops_the_least_recently_used)
{
    struct preferences_cache *cache = preferences_cache_new(3, (struct siphash_key){1, 2});
    struct preferences_answer answer = {.push = true};
    int64_t at_ms = 0;
    preferences_cache_put(cache, span_of("a"), &answer, 1);
    preferences_cache_put(cache, span_of("b"), &answer, 2);
    preferences_cache_put(cache, span_of("c"), &answer, 3);
    cr_expect(cached(cache, "a", &at_ms) && at_ms == 1); /* used: b is the oldest now */
    preferences_cache_put(cache, span_of("d"), &answer, 4);
    cr_expect_not(cached(cache, "b", &at_ms));
    cr_expect(cached(cache, "a", &at_ms) && cached(cache, "c", &at_ms) && cached(cache, "d", &at_ms));
    preferences_cache_put(cache, span_of("a"), &answer, 9); /* replaced, not added */
    cr_expect_eq(preferences_cache_count(cache), 3);
    cr_expect(cached(cache, "a", &at_ms) && at_ms == 9);
    preferences_cache_put(cache, span_of("e"), &answer, 10);
    cr_expect_not(cached(cache, "c", &at_ms));
    printf("cache for 3 users: 5 put in, %zu kept, the least recently used went\n",
           preferences_cache_count(cache));
    preferences_cache_free(cache);
}

Test(preferences, cache_of_one_and_of_many)
{
    struct preferences_cache *cache = preferences_cache_new(1, (struct siphash_key){1, 2});
    const uint64_t denied[] = {7, 8};
    struct preferences_answer answer = {.push = true, .denied_count = 2, .denied = denied};
    int64_t at_ms = 0;
    for (int i = 0; i < 100; i++) {
        char user[16];
        sprintf(user, "u%d", i);
        preferences_cache_put(cache, span_of(user), &answer, i);
        cr_expect(cached(cache, user, &at_ms) && at_ms == i);
        cr_expect_eq(preferences_cache_count(cache), 1);
    }
    preferences_cache_free(cache);
    cache = preferences_cache_new(1000, (struct siphash_key){3, 4});
    for (int i = 0; i < 20000; i++) {
        char user[16];
        sprintf(user, "u%d", i);
        preferences_cache_put(cache, span_of(user), &answer, i);
    }
    cr_expect_eq(preferences_cache_count(cache), 1000);
    cr_expect_not(cached(cache, "u18999", &at_ms));
    cr_expect(cached(cache, "u19000", &at_ms));
    cr_assert(preferences_cache_find(cache, span_of("u19500"), &answer, &at_ms));
    cr_expect(answer.push && answer.denied_count == 2 && answer.denied[0] == 7 && answer.denied[1] == 8);
    preferences_cache_free(cache);
}

/* ---- a service and a clock ------------------------------------------------------------------------------
 */

enum { REQUEST_MAX = 512 * 1024, SLICE_MS = 10 };

struct service {
    int fd, port;
    pthread_t thread;
    const char *status, *body; /* of every answer from now on; body NULL: says nothing and keeps the line */
    int blanks;                /* behind the body */
    bool idle_closes;          /* answers one request of a connection, and hangs up on the next */
    atomic_int requests, held;
    int held_fds[16];
    char last[REQUEST_MAX]; /* the last request, whole */
};

static bool read_request(struct service *service, int fd)
{
    size_t bytes = 0;
    for (;;) {
        service->last[bytes] = '\0';
        const char *body = strstr(service->last, "\r\n\r\n");
        const char *length = strcasestr(service->last, "content-length:");
        if (body != NULL && length != NULL &&
            bytes - (size_t)(body + 4 - service->last) >= strtoul(length + 15, NULL, 10))
            return true;
        ssize_t got = read(fd, service->last + bytes, REQUEST_MAX - 1 - bytes);
        if (got <= 0)
            return false;
        bytes += (size_t)got;
    }
}

static void answer(const struct service *service, int fd)
{
    static char blanks[4096];
    char head[256];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", service->status,
                     strlen(service->body) + (size_t)service->blanks,
                     service->idle_closes ? "" : "Connection: close\r\n");
    memset(blanks, ' ', sizeof blanks);
    (void)!send(fd, head, (size_t)n, MSG_NOSIGNAL);
    (void)!send(fd, service->body, strlen(service->body), MSG_NOSIGNAL);
    for (int left = service->blanks; left > 0; left -= (int)sizeof blanks) {
        if (send(fd, blanks, (size_t)left < sizeof blanks ? (size_t)left : sizeof blanks, MSG_NOSIGNAL) < 0)
            return;
    }
}

static void *serve(void *context)
{
    struct service *service = context;
    for (int fd; (fd = accept(service->fd, NULL, NULL)) >= 0;) {
        bool whole = read_request(service, fd);
        if (whole) /* before the answer: who has it may look at once */
            atomic_fetch_add(&service->requests, 1);
        if (whole && service->body != NULL)
            answer(service, fd);
        if (whole && service->idle_closes && read_request(service, fd))
            atomic_fetch_add(&service->requests, 1);
        if (whole && service->body == NULL)
            service->held_fds[atomic_fetch_add(&service->held, 1)] = fd;
        else
            close(fd);
    }
    return NULL;
}

static int64_t test_wall(void *context)
{
    (void)context;
    return 0;
}

static int64_t test_monotonic(void *context)
{
    return *(int64_t *)context;
}

struct desk {
    struct service service;
    int64_t now_ms;
    struct clock clock;
    char url[64];
    struct preferences_settings settings;
    struct metrics *metrics;
    struct preferences *preferences;
    struct preferences_batch *batch;
};

static void start_service(struct service *service)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    service->status = "200 OK";
    service->body = "{\"users\":{}}";
    service->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(service->fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(service->fd, 64), 0);
    getsockname(service->fd, (struct sockaddr *)&address, &bytes);
    service->port = ntohs(address.sin_port);
    pthread_create(&service->thread, NULL, serve, service);
}

/* timeout_ms is real time: generous where no test waits for it, so that a busy machine changes nothing. */
static struct desk *open_desk_for(int64_t timeout_ms)
{
    struct desk *desk = calloc(1, sizeof *desk);
    struct fault fault;
    start_service(&desk->service);
    snprintf(desk->url, sizeof desk->url, "http://127.0.0.1:%d/prefs?a=1", desk->service.port);
    desk->now_ms = 1000000;
    desk->clock = (struct clock){test_wall, test_monotonic, &desk->now_ms};
    desk->settings = (struct preferences_settings){.url = desk->url,
                                                   .token = "secret-token",
                                                   .timeout_ms = timeout_ms,
                                                   .ttl_ms = 30000,
                                                   .stale_ttl_ms = 600000,
                                                   .max_users = 1000,
                                                   .breaker_failures = 5,
                                                   .breaker_open_ms = 5000};
    desk->metrics = metrics_new();
    const struct preferences_setup setup = {&desk->settings, &desk->clock, desk->metrics};
    cr_assert_eq(preferences_open(&setup, &desk->preferences, &fault), ST_OK, "%s", fault.text);
    desk->batch = preferences_batch_new(desk->preferences, 600);
    return desk;
}

static struct desk *open_desk(void)
{
    return open_desk_for(20000);
}

static void close_desk(struct desk *desk)
{
    preferences_batch_free(desk->batch);
    preferences_close(desk->preferences);
    metrics_free(desk->metrics);
    shutdown(desk->service.fd, SHUT_RDWR);
    pthread_join(desk->service.thread, NULL);
    close(desk->service.fd);
    for (int i = 0; i < atomic_load(&desk->service.held); i++)
        close(desk->service.held_fds[i]);
    free(desk);
}

/* What the metrics page says for this series; -1: no such line. */
static double shown(struct desk *desk, const char *series)
{
    struct buffer text;
    char line[128];
    buffer_init(&text, 1 << 20);
    metrics_write(desk->metrics, &text);
    snprintf(line, sizeof line, "\n%s ", series);
    const char *at = strstr(text.at, line);
    double value = at == NULL ? -1 : strtod(at + strlen(line), NULL);
    buffer_done(&text);
    return value;
}

static void wait_ready(struct desk *desk)
{
    for (int i = 0; i < 500 && !preferences_ready(desk->preferences, desk->batch); i++)
        (void)preferences_poll(desk->preferences, SLICE_MS);
    cr_assert(preferences_ready(desk->preferences, desk->batch));
}

/* Asks for one user and waits for the real answer: the test's clock stands still. */
static bool allows(struct desk *desk, const char *user, const char *category)
{
    struct span span = span_of(user);
    preferences_ask(desk->preferences, desk->batch, &span, 1);
    wait_ready(desk);
    return preferences_allows(desk->batch, span, span_of(category));
}

#define OFF "{\"users\":{\"u1\":{\"push\":false}}}"

/* ---- answers, TTL, stale --------------------------------------------------------------------------------
 */

Test(preferences, an_answer_is_used_and_kept_for_the_ttl)
{
    struct desk *desk = open_desk();
    desk->service.body = "{\"users\":{\"u1\":{\"push\":false},\"u2\":{\"categories\":{\"chat\":false}}}}";
    cr_expect_not(allows(desk, "u1", "general"));
    cr_expect(strstr(desk->service.last, "POST /prefs?a=1 HTTP/1.1") == desk->service.last);
    cr_expect(strstr(desk->service.last, "Authorization: Bearer secret-token\r\n") != NULL);
    cr_expect(strstr(desk->service.last, "\r\n\r\n{\"users\":[\"u1\"]}") != NULL);
    cr_expect_not(allows(desk, "u2", "chat"));
    cr_expect(allows(desk, "u2", "general"));
    cr_expect(allows(desk, "u3", "chat"), "left out is allowed");
    cr_expect_eq(atomic_load(&desk->service.requests), 3);
    desk->service.body = "{\"users\":{}}";
    desk->now_ms += desk->settings.ttl_ms - 1;
    cr_expect_not(allows(desk, "u1", "general"));
    cr_expect(allows(desk, "u3", "chat"), "and cached");
    cr_expect_eq(atomic_load(&desk->service.requests), 3);
    desk->now_ms += 1;
    cr_expect(allows(desk, "u1", "general"), "asked again after the TTL");
    cr_expect_eq(atomic_load(&desk->service.requests), 4);
    printf("ttl: %d requests for 7 questions about 3 users\n", atomic_load(&desk->service.requests));
    cr_expect_eq(shown(desk, "belfry_preferences_cache_hits_total"), 3);
    cr_expect_eq(shown(desk, "belfry_preferences_cache_misses_total"), 4);
    cr_expect_eq(shown(desk, "belfry_preferences_cache_users"), 3);
    cr_expect_eq(shown(desk, "belfry_preferences_requests_total{result=\"answered\"}"), 4);
    close_desk(desk);
}

Test(preferences, stale_is_better_than_blind)
{
    struct desk *desk = open_desk();
    desk->service.body = OFF;
    cr_expect_not(allows(desk, "u1", "general"));
    desk->service.status = "500 Oops";
    desk->now_ms += desk->settings.ttl_ms;
    cr_expect_not(allows(desk, "u1", "general"), "stale");
    printf("after a 500: answered from the stale cache %d times, blindly %d times\n",
           (int)shown(desk, "belfry_preferences_stale_total"),
           (int)shown(desk, "belfry_preferences_fail_open_total{reason=\"5xx\"}"));
    cr_expect_eq(shown(desk, "belfry_preferences_stale_total"), 1);
    cr_expect_eq(shown(desk, "belfry_preferences_fail_open_total{reason=\"5xx\"}"), 0);
    desk->now_ms += desk->settings.stale_ttl_ms - desk->settings.ttl_ms;
    cr_expect(allows(desk, "u1", "general"), "too old");
    cr_expect_eq(shown(desk, "belfry_preferences_fail_open_total{reason=\"5xx\"}"), 1);
    cr_expect(allows(desk, "u1", "general"), "the failure was not cached");
    cr_expect_eq(atomic_load(&desk->service.requests), 4);
    close_desk(desk);
}

Test(preferences, a_cache_smaller_than_a_batch_loses_no_answer)
{
    struct desk *desk = open_desk();
    const struct span users[] = {span_of("u1"), span_of("u2"), span_of("u3"), span_of("u1")};
    struct fault fault;
    preferences_batch_free(desk->batch);
    preferences_close(desk->preferences);
    desk->settings.max_users = 1;
    const struct preferences_setup setup = {&desk->settings, &desk->clock, NULL};
    cr_assert_eq(preferences_open(&setup, &desk->preferences, &fault), ST_OK);
    desk->batch = preferences_batch_new(desk->preferences, 4);
    desk->service.body = "{\"users\":{\"u1\":{\"push\":false},\"u2\":{\"push\":false}}}";
    preferences_ask(desk->preferences, desk->batch, users, 4);
    wait_ready(desk);
    cr_expect_not(preferences_allows(desk->batch, users[0], span_of("c")));
    cr_expect_not(preferences_allows(desk->batch, users[1], span_of("c")));
    cr_expect(preferences_allows(desk->batch, users[2], span_of("c")));
    cr_expect(preferences_allows(desk->batch, span_of("stranger"), span_of("c")));
    close_desk(desk);
}

/* ---- what goes wrong ------------------------------------------------------------------------------------
 */

Test(preferences, failures_allow_and_are_counted)
{
    static const struct {
        const char *status, *body;
        int blanks;
        const char *reason;
    } rows[] = {
        {"500 Oops", OFF, 0, "5xx"},
        {"503 Busy", "", 0, "5xx"},
        {"404 Not Found", "{\"error\":\"unknown user\"}", 0, "4xx"},
        {"401 No", OFF, 0, "4xx"},
        {"302 Found\r\nLocation: /elsewhere", OFF, 0, "3xx"},
        {"200 OK", "<html><body>It works!</body></html>", 0, "not_json"},
        {"200 OK", "{\"users\":{\"u1\":{\"push\":fal", 0, "not_json"},
        {"204 No Content", "", 0, "not_json"},
        {"200 OK", "[]", 0, "wrong_type"},
        {"200 OK", "{\"users\":[]}", 0, "wrong_type"},
        {"200 OK", "{\"users\":{\"u1\":{\"push\":\"no\"}}}", 0, "wrong_type"},
        {"200 OK", OFF, 10 * 1024 * 1024, "incomplete"},
        {"200 OK", OFF, 1024 * 1024, "incomplete"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct desk *desk = open_desk();
        char series[128];
        desk->service.status = rows[i].status;
        desk->service.body = rows[i].body;
        desk->service.blanks = rows[i].blanks;
        snprintf(series, sizeof series, "belfry_preferences_fail_open_total{reason=\"%s\"}", rows[i].reason);
        cr_expect(allows(desk, "u1", "general"), "%zu", i);
        cr_expect_eq(shown(desk, series), 1, "%zu: %s", i, series);
        printf("fail open: %.20s: allowed, %s %d\n", rows[i].status, series, (int)shown(desk, series));
        cr_expect_eq(shown(desk, "belfry_preferences_cache_users"), 0, "%zu", i);
        close_desk(desk);
    }
}

Test(preferences, one_mistyped_entry_spoils_no_other)
{
    struct desk *desk = open_desk();
    const struct span users[] = {span_of("u1"), span_of("u2")};
    desk->service.body = "{\"users\":{\"u1\":{\"push\":false},\"u2\":{\"push\":\"no\"}}}";
    preferences_ask(desk->preferences, desk->batch, users, 2);
    wait_ready(desk);
    cr_expect_not(preferences_allows(desk->batch, users[0], span_of("c")));
    cr_expect(preferences_allows(desk->batch, users[1], span_of("c")));
    cr_expect_eq(shown(desk, "belfry_preferences_fail_open_total{reason=\"wrong_type\"}"), 1);
    cr_expect_eq(shown(desk, "belfry_preferences_cache_users"), 1);
    close_desk(desk);
}

Test(preferences, a_body_of_exactly_1_mib_is_taken)
{
    struct desk *desk = open_desk();
    desk->service.body = OFF;
    desk->service.blanks = 1024 * 1024 - (int)strlen(OFF);
    cr_expect_not(allows(desk, "u1", "general"));
    close_desk(desk);
}

Test(preferences, nobody_there)
{
    struct desk *desk = open_desk();
    shutdown(desk->service.fd, SHUT_RDWR);
    pthread_join(desk->service.thread, NULL);
    close(desk->service.fd);
    cr_expect(allows(desk, "u1", "general"));
    cr_expect_eq(shown(desk, "belfry_preferences_fail_open_total{reason=\"connection\"}"), 1);
    struct preferences_state state = preferences_state(desk->preferences);
    cr_expect_str_eq(state.reason, "connection");
    cr_expect_eq(state.failures, 1);
    start_service(&desk->service);
    close_desk(desk);
}

static int64_t real_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

Test(preferences, a_silent_service_holds_a_batch_for_the_timeout_only)
{
    struct desk *desk = open_desk_for(2000);
    struct span user = span_of("u1");
    desk->service.body = NULL;
    preferences_ask(desk->preferences, desk->batch, &user, 1);
    for (int i = 0; i < 10; i++)
        (void)preferences_poll(desk->preferences, SLICE_MS);
    cr_expect_not(preferences_ready(desk->preferences, desk->batch));
    desk->now_ms += desk->settings.timeout_ms - 1;
    cr_expect_not(preferences_ready(desk->preferences, desk->batch));
    desk->now_ms += 1;
    cr_expect(preferences_ready(desk->preferences, desk->batch));
    cr_expect(preferences_allows(desk->batch, user, span_of("c")));
    cr_expect_eq(shown(desk, "belfry_preferences_fail_open_total{reason=\"timeout\"}"), 1);
    int64_t from_ms = real_ms(); /* and the request ends by itself, by the real clock */
    while (!preferences_poll(desk->preferences, SLICE_MS) && real_ms() - from_ms < 10000)
        ;
    printf("a silent service: the batch had its answer after a timeout of %lld ms, not before\n",
           (long long)desk->settings.timeout_ms);
    cr_expect_eq(shown(desk, "belfry_preferences_requests_total{result=\"timeout\"}"), 1);
    cr_expect_eq(shown(desk, "belfry_preferences_fail_open_total{reason=\"timeout\"}"), 1, "counted once");
    close_desk(desk);
}

/* ---- requests -------------------------------------------------------------------------------------------
 */

Test(preferences, at_most_200_users_a_request)
{
    struct desk *desk = open_desk();
    static char names[450][16];
    static struct span users[450];
    for (int i = 0; i < 450; i++) {
        sprintf(names[i], "u%d", (i * 7919) % 450);
        users[i] = span_of(names[i]);
    }
    desk->service.body = "{\"users\":{\"u449\":{\"push\":false}}}";
    preferences_ask(desk->preferences, desk->batch, users, 450);
    wait_ready(desk);
    cr_expect_eq(atomic_load(&desk->service.requests), 3);
    cr_expect_eq(shown(desk, "belfry_preferences_cache_users"), 450);
    for (int i = 0; i < 450; i++)
        cr_expect_eq(preferences_allows(desk->batch, users[i], span_of("c")), !span_is(users[i], "u449"));
    close_desk(desk);
}

Test(preferences, two_batches_share_one_request)
{
    struct desk *desk = open_desk();
    struct preferences_batch *other = preferences_batch_new(desk->preferences, 10);
    const struct span users[] = {span_of("u1"), span_of("u2")};
    desk->service.body = OFF;
    preferences_ask(desk->preferences, desk->batch, users, 1);
    preferences_ask(desk->preferences, other, users, 2); /* u1 is in flight: u2 alone is asked for */
    wait_ready(desk);
    for (int i = 0; i < 500 && !preferences_ready(desk->preferences, other); i++)
        (void)preferences_poll(desk->preferences, SLICE_MS);
    cr_expect_not(preferences_allows(other, users[0], span_of("c")));
    cr_expect(preferences_allows(other, users[1], span_of("c")));
    printf("two batches at once about u1 and u1 u2: %d requests, the second for u2 alone\n",
           atomic_load(&desk->service.requests));
    cr_expect_eq(atomic_load(&desk->service.requests), 2);
    cr_expect(strstr(desk->service.last, "{\"users\":[\"u2\"]}") != NULL);
    preferences_batch_free(other);
    close_desk(desk);
}

Test(preferences, a_connection_that_died_while_idle_is_no_failure)
{
    struct desk *desk = open_desk();
    desk->service.idle_closes = true;
    desk->service.body = "{\"users\":{\"u2\":{\"push\":false}}}";
    cr_expect(allows(desk, "u1", "general"));
    cr_expect_eq(shown(desk, "belfry_preferences_requests_total{result=\"answered\"}"), 1);
    cr_expect_not(allows(desk, "u2", "general"), "hung up on, and asked again");
    cr_expect_eq(preferences_state(desk->preferences).failures, 0);
    cr_expect_eq(shown(desk, "belfry_preferences_fail_open_total{reason=\"connection\"}"), 0);
    close_desk(desk);
}

/* ---- the breaker ----------------------------------------------------------------------------------------
 */

Test(preferences, the_breaker_opens_tries_once_and_closes)
{
    struct desk *desk = open_desk();
    const char *open = "belfry_preferences_fail_open_total{reason=\"breaker_open\"}";
    desk->service.status = "500 Oops";
    for (int i = 0; i < 4; i++)
        cr_expect(allows(desk, "u1", "c"));
    cr_expect_eq(preferences_state(desk->preferences).breaker, PREFERENCES_CLOSED);
    cr_expect(allows(desk, "u1", "c"));
    cr_expect_eq(preferences_state(desk->preferences).breaker, PREFERENCES_BROKEN);
    cr_expect_eq(shown(desk, "belfry_preferences_breaker{state=\"open\"}"), 1);
    cr_expect_eq(atomic_load(&desk->service.requests), 5);
    desk->now_ms += desk->settings.breaker_open_ms - 1;
    cr_expect(allows(desk, "u1", "c"), "allowed at once");
    cr_expect_eq(atomic_load(&desk->service.requests), 5);
    cr_expect_eq(shown(desk, open), 1);
    desk->now_ms += 1;
    cr_expect(allows(desk, "u1", "c"), "the trial fails");
    cr_expect_eq(atomic_load(&desk->service.requests), 6);
    cr_expect(allows(desk, "u1", "c"), "and it is open again");
    cr_expect_eq(atomic_load(&desk->service.requests), 6);
    desk->now_ms += desk->settings.breaker_open_ms;
    desk->service.status = "200 OK";
    desk->service.body = OFF;
    cr_expect_not(allows(desk, "u1", "c"), "the trial succeeds");
    cr_expect_eq(preferences_state(desk->preferences).breaker, PREFERENCES_CLOSED);
    cr_expect_eq(shown(desk, "belfry_preferences_breaker{state=\"closed\"}"), 1);
    cr_expect(allows(desk, "u2", "c"));
    cr_expect_eq(atomic_load(&desk->service.requests), 8);
    close_desk(desk);
}

Test(preferences, one_trial_only)
{
    struct desk *desk = open_desk();
    static char names[250][16];
    static struct span users[250];
    for (int i = 0; i < 250; i++) {
        sprintf(names[i], "u%03d", i);
        users[i] = span_of(names[i]);
    }
    desk->service.status = "500 Oops";
    for (int i = 0; i < 5; i++)
        cr_expect(allows(desk, "u1", "c"));
    desk->now_ms += desk->settings.breaker_open_ms;
    desk->service.status = "200 OK";
    preferences_ask(desk->preferences, desk->batch, users, 250);
    cr_expect_eq(preferences_state(desk->preferences).breaker, PREFERENCES_TRIAL);
    wait_ready(desk);
    cr_expect_eq(atomic_load(&desk->service.requests), 6, "200 in the trial, 50 allowed at once");
    cr_expect_eq(shown(desk, "belfry_preferences_fail_open_total{reason=\"breaker_open\"}"), 50);
    cr_expect_eq(shown(desk, "belfry_preferences_cache_users"), 200);
    close_desk(desk);
}

Test(preferences, refuses_what_cannot_be_used)
{
    struct preferences_settings settings = {
        .url = "ftp://x/", .token = "", .timeout_ms = 300, .max_users = 1};
    const struct preferences_setup setup = {.settings = &settings};
    struct preferences *preferences = NULL;
    struct fault fault;
    cr_expect_eq(preferences_open(&setup, &preferences, &fault), ST_REJECT);
    cr_expect_str_eq(fault.field, "preferences.url");
    settings.url = "http://127.0.0.1:1/";
    settings.token = "a\r\nHost: b";
    cr_expect_eq(preferences_open(&setup, &preferences, &fault), ST_REJECT);
    cr_expect_str_eq(fault.field, "preferences.token");
    cr_expect(strstr(fault.text, "Host") == NULL);
}
