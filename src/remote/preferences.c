/* The account service over io/http_client.
 *
 * In: batches of users. Out: for each an answer: fresh, stale, or a blind yes. What always holds: a user is
 * in one request at a time, and whoever waits for him gets that one's answer; nothing but a valid 2xx reply
 * is cached; a batch waits at most `timeout`. A crash here loses the cache: everybody is asked for again. */
#include "remote/preferences.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "bearer.h"
#include "io/crypto.h"
#include "io/http_client.h"
#include "preferences_cache.h"
#include "preferences_metrics.h"
#include "wire/preferences.h"
#include "wire/record.h"

enum {
    HEADER_AUTHORIZATION = 2, /* the last: NULL when there is no token */
    HEADERS = 4,
    TEXTS_BYTES_MAX = 128 * 1024, /* at least two blocks of an arena; the ids of a request need 42 KiB */
    PERSON_BYTES_MAX = EVENT_ID_MAX + 8 * PREFERENCES_DENIED_MAX + 64
};

struct request {
    bool used, trial;
    bool again; /* sent a second time */
    size_t count;
    struct span users[PREFERENCES_USERS_MAX]; /* into texts; sorted, as those of a batch are */
    struct arena texts;
    struct buffer sent;
};

struct preferences {
    struct http_client *client;
    const struct clock *clock;
    struct metric_set *metrics;
    struct preferences_settings settings; /* its texts are the config's */
    char *url, *authorization;            /* authorization NULL: none */
    const char *headers[HEADERS];
    struct siphash_key key;
    struct preferences_cache *cache;
    struct preferences_batch *batches[PREFERENCES_BATCHES_MAX];
    struct request requests[PREFERENCES_REQUESTS_MAX];

    bool open; /* the breaker */
    size_t failures_in_row;
    int64_t open_until_ms;
    bool trial_out;

    uint64_t failures;
    enum preferences_reason last_reason;
    const char *last_cause; /* fixed words */
    int last_status;
};

struct person {
    struct span user; /* into the batch's texts */
    bool waiting;
    struct preferences_answer answer; /* into the batch's texts; once not waiting */
};

struct preferences_batch {
    struct preferences *owner;
    int64_t deadline_ms;
    struct arena texts;
    size_t users_max, count, waiting;
    struct person people[]; /* sorted by user */
};

static int64_t now_ms(const struct preferences *preferences)
{
    return clock_monotonic_ms(preferences->clock);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

enum status preferences_settings_check(const struct preferences_settings *settings, struct fault *fault)
{
    if (settings->url[0] != '\0' && !http_client_takes_url(settings->url)) {
        fault_set(fault, "config", "[preferences] url is not a URL of http or https");
        fault_set_field(fault, "preferences.url");
        return ST_REJECT;
    }
    return bearer_check(settings->token, "preferences", fault);
}

enum status preferences_set_token(struct preferences *preferences, const char *token, struct fault *fault)
{
    enum status status = bearer_set(&preferences->authorization, token, "preferences", fault);
    if (status == ST_OK)
        preferences->headers[HEADER_AUTHORIZATION] = preferences->authorization;
    return status;
}

static enum status make_texts(struct preferences *preferences, struct fault *fault)
{
    const struct preferences_settings *settings = &preferences->settings;
    preferences->headers[0] = "Accept: application/json";
    preferences->headers[1] = "Content-Type: application/json";
    preferences->url = strdup(settings->url);
    if (preferences->url == NULL) {
        fault_set(fault, "memory", "no memory for the account service's address");
        return ST_FATAL;
    }
    return preferences_set_token(preferences, settings->token, fault);
}

static enum status make_client(struct preferences *preferences, struct fault *fault)
{
    int64_t timeout_ms = preferences->settings.timeout_ms;
    struct http_client_settings settings = {.in_flight_max = PREFERENCES_REQUESTS_MAX,
                                            .request_bytes_max = PREFERENCES_REQUEST_BYTES_MAX,
                                            .response_bytes_max = PREFERENCES_REPLY_BYTES_MAX,
                                            .request_timeout_ms = timeout_ms,
                                            .connect_timeout_ms = timeout_ms,
                                            .user_agent = "belfry/" BELFRY_VERSION,
                                            .wake_fd = -1};
    for (size_t i = 0; i < PREFERENCES_REQUESTS_MAX; i++) {
        arena_init(&preferences->requests[i].texts, TEXTS_BYTES_MAX);
        buffer_init(&preferences->requests[i].sent, PREFERENCES_REQUEST_BYTES_MAX);
    }
    crypto_random(&preferences->key, sizeof preferences->key);
    preferences->cache = preferences_cache_new(preferences->settings.max_users, preferences->key);
    if (preferences->cache == NULL) {
        fault_set(fault, "memory", "no memory for the cache of preferences");
        return ST_FATAL;
    }
    return http_client_open(&settings, &preferences->client, fault);
}

enum status preferences_open(const struct preferences_setup *setup, struct preferences **preferences,
                             struct fault *fault)
{
    struct preferences *made = calloc(1, sizeof *made);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for the account service's client");
        return ST_FATAL;
    }
    made->settings = *setup->settings;
    made->clock = setup->clock == NULL ? &clock_system : setup->clock;
    made->metrics = preferences_metrics_add(setup->metrics);
    made->last_reason = PREFERENCES_ANSWERED;
    made->last_cause = "";
    enum status status = preferences_settings_check(setup->settings, fault);
    if (status == ST_OK)
        status = make_texts(made, fault);
    if (status == ST_OK)
        status = make_client(made, fault);
    if (status != ST_OK) {
        preferences_close(made);
        return status;
    }
    *preferences = made;
    return ST_OK;
}

void preferences_close(struct preferences *preferences)
{
    if (preferences == NULL)
        return;
    http_client_close(preferences->client);
    preferences_cache_free(preferences->cache);
    for (size_t i = 0; i < PREFERENCES_REQUESTS_MAX; i++) {
        arena_done(&preferences->requests[i].texts);
        buffer_done(&preferences->requests[i].sent);
    }
    free(preferences->url);
    free(preferences->authorization);
    free(preferences);
}

struct preferences_batch *preferences_batch_new(struct preferences *preferences, size_t users_max)
{
    size_t place = 0;
    while (place < PREFERENCES_BATCHES_MAX && preferences->batches[place] != NULL)
        place++;
    struct preferences_batch *batch = NULL;
    if (place < PREFERENCES_BATCHES_MAX)
        batch = calloc(1, sizeof *batch + users_max * sizeof batch->people[0]);
    if (batch == NULL)
        return NULL;
    batch->owner = preferences;
    batch->users_max = users_max;
    arena_init(&batch->texts, TEXTS_BYTES_MAX + users_max * PERSON_BYTES_MAX);
    preferences->batches[place] = batch;
    return batch;
}

void preferences_batch_free(struct preferences_batch *batch)
{
    if (batch == NULL)
        return;
    for (size_t i = 0; i < PREFERENCES_BATCHES_MAX; i++) {
        if (batch->owner->batches[i] == batch)
            batch->owner->batches[i] = NULL;
    }
    arena_done(&batch->texts);
    free(batch);
}

/* ---- the breaker --------------------------------------------------------------------------------------- */

/* Whether another request may go out. */
static bool may_call(const struct preferences *preferences)
{
    return !preferences->open ||
           (!preferences->trial_out && now_ms(preferences) >= preferences->open_until_ms);
}

static void note_result(struct preferences *preferences, const struct request *request,
                        enum preferences_reason result)
{
    if (request->trial)
        preferences->trial_out = false;
    if (result == PREFERENCES_ANSWERED) {
        preferences->open = false;
        preferences->failures_in_row = 0;
        return;
    }
    preferences->failures++;
    preferences->failures_in_row++;
    preferences->last_reason = result;
    /* One that was out already when it opened does not keep it open for longer. */
    bool opens = preferences->open ? request->trial
                                   : preferences->failures_in_row >= preferences->settings.breaker_failures;
    if (opens) {
        preferences->open = true;
        preferences->open_until_ms = now_ms(preferences) + preferences->settings.breaker_open_ms;
    }
}

struct preferences_state preferences_state(const struct preferences *preferences)
{
    return (struct preferences_state){.breaker = !preferences->open       ? PREFERENCES_CLOSED
                                                 : preferences->trial_out ? PREFERENCES_TRIAL
                                                                          : PREFERENCES_BROKEN,
                                      .failures = preferences->failures,
                                      .reason = preferences_reason_name(preferences->last_reason),
                                      .cause = preferences->last_cause,
                                      .http_status = preferences->last_status};
}

/* ---- answers into batches ------------------------------------------------------------------------------ */

static int compare_spans(struct span a, struct span b)
{
    int order = memcmp(a.at, b.at, a.bytes < b.bytes ? a.bytes : b.bytes);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

/* Of persons and of spans: both begin with the user. */
static int compare_users(const void *a, const void *b)
{
    return compare_spans(*(const struct span *)a, *(const struct span *)b);
}

static const struct person *find_person(const struct preferences_batch *batch, struct span user)
{
    if (batch->count == 0)
        return NULL;
    return bsearch(&user, batch->people, batch->count, sizeof batch->people[0], compare_users);
}

static void settle(struct preferences_batch *batch, struct person *person,
                   const struct preferences_answer *answer)
{
    size_t bytes = answer->denied_count * sizeof answer->denied[0];
    uint64_t *denied = bytes == 0 ? NULL : arena_alloc(&batch->texts, bytes);
    person->waiting = false;
    batch->waiting--;
    person->answer = (struct preferences_answer){.push = answer->push};
    if (denied == NULL) /* nothing switched off; or no memory for it, and the push goes out */
        return;
    memcpy(denied, answer->denied, bytes);
    person->answer.denied = denied;
    person->answer.denied_count = answer->denied_count;
}

/* No answer: an older one while it is good enough, else a blind yes. */
static void settle_unanswered(struct preferences_batch *batch, struct person *person,
                              enum preferences_reason reason)
{
    struct preferences *preferences = batch->owner;
    struct preferences_answer answer = {.push = true};
    int64_t at_ms = 0;
    bool stale = preferences_cache_find(preferences->cache, person->user, &answer, &at_ms) &&
                 now_ms(preferences) - at_ms < preferences->settings.stale_ttl_ms;
    if (!stale)
        answer = (struct preferences_answer){.push = true};
    settle(batch, person, &answer);
    preferences_metrics_unanswered(preferences->metrics, reason, stale);
}

/* Whoever waits for this user gets the answer; NULL: the reason. */
static void tell_batches(struct preferences *preferences, struct span user,
                         const struct preferences_answer *answer, enum preferences_reason reason)
{
    for (size_t i = 0; i < PREFERENCES_BATCHES_MAX; i++) {
        struct preferences_batch *batch = preferences->batches[i];
        const struct person *found = batch == NULL ? NULL : find_person(batch, user);
        if (found == NULL || !found->waiting)
            continue;
        struct person *person = &batch->people[found - batch->people];
        if (answer != NULL)
            settle(batch, person, answer);
        else
            settle_unanswered(batch, person, reason);
    }
}

/* ---- requests ------------------------------------------------------------------------------------------ */

static bool is_in_flight(const struct preferences *preferences, struct span user)
{
    for (size_t i = 0; i < PREFERENCES_REQUESTS_MAX; i++) {
        const struct request *request = &preferences->requests[i];
        if (request->used &&
            bsearch(&user, request->users, request->count, sizeof user, compare_users) != NULL)
            return true;
    }
    return false;
}

static struct request *free_request(struct preferences *preferences)
{
    for (size_t i = 0; i < PREFERENCES_REQUESTS_MAX; i++) {
        if (!preferences->requests[i].used)
            return &preferences->requests[i];
    }
    return NULL;
}

/* Those of the batch who wait and are in no request, as many as one takes. */
static void choose_users(struct preferences_batch *batch, struct request *request)
{
    request->count = 0;
    arena_reset(&request->texts);
    for (size_t i = 0; i < batch->count && request->count < PREFERENCES_USERS_MAX; i++) {
        struct person *person = &batch->people[i];
        if (!person->waiting || is_in_flight(batch->owner, person->user))
            continue;
        const char *copy = arena_copy(&request->texts, person->user);
        if (copy == NULL)
            settle_unanswered(batch, person, PREFERENCES_MEMORY);
        else
            request->users[request->count++] = (struct span){copy, person->user.bytes};
    }
}

static bool send_request(struct preferences *preferences, const struct request *request)
{
    struct fault fault;
    struct http_request http = {
        .url = preferences->url, .headers = preferences->headers, .body = buffer_span(&request->sent)};
    uint64_t tag = (uint64_t)(request - preferences->requests);
    return !request->sent.failed && http_client_submit(preferences->client, &http, tag, &fault) == ST_OK;
}

static bool submit(struct preferences *preferences, struct request *request)
{
    buffer_reset(&request->sent);
    preferences_encode(request->users, request->count, &request->sent);
    if (!send_request(preferences, request))
        return false;
    request->used = true;
    request->again = false;
    request->trial = preferences->open;
    preferences->trial_out = preferences->trial_out || request->trial;
    return true;
}

static void refuse_waiting(struct preferences_batch *batch, enum preferences_reason reason)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->people[i].waiting && !is_in_flight(batch->owner, batch->people[i].user))
            settle_unanswered(batch, &batch->people[i], reason);
    }
}

/* Asks for everybody who waits and is in no request, as far as breaker and places allow. */
static void send_batch(struct preferences *preferences, struct preferences_batch *batch)
{
    while (batch->waiting > 0) {
        if (!may_call(preferences)) {
            refuse_waiting(batch, PREFERENCES_BREAKER_OPEN);
            return;
        }
        struct request *request = free_request(preferences);
        if (request == NULL)
            return; /* when one is answered */
        choose_users(batch, request);
        if (request->count == 0)
            return;
        if (!submit(preferences, request)) {
            refuse_waiting(batch, PREFERENCES_MEMORY);
            return;
        }
    }
}

/* ---- replies ------------------------------------------------------------------------------------------- */

static enum preferences_reason judge_body(struct preferences *preferences, struct span body,
                                          struct preferences_reply **reply)
{
    struct fault fault;
    enum status status = preferences_reply_parse(body, reply, &fault);
    if (status == ST_OK)
        return PREFERENCES_ANSWERED;
    bool types = strcmp(fault.code, REASON_FIELD) == 0 || strcmp(fault.code, REASON_NOT_OBJECT) == 0;
    preferences->last_cause = types ? "the reply has other types than agreed" : "the reply is not JSON";
    return status != ST_REJECT ? PREFERENCES_MEMORY : types ? PREFERENCES_WRONG_TYPE : PREFERENCES_NOT_JSON;
}

/* The table of contracts/preferences.md; the status comes before the body. */
static enum preferences_reason judge(struct preferences *preferences, const struct http_result *http,
                                     struct preferences_reply **reply)
{
    static const enum preferences_reason by_class[] = {
        [3] = PREFERENCES_3XX, [4] = PREFERENCES_4XX, [5] = PREFERENCES_5XX};
    int class = http->status / 100;
    preferences->last_cause = http->cause;
    preferences->last_status = http->status;
    if (http->timed_out)
        return PREFERENCES_TIMEOUT;
    if (http->status == 0)
        return PREFERENCES_CONNECTION;
    if (class != 2)
        return class >= 3 && class <= 5 ? by_class[class] : PREFERENCES_STATUS;
    if (http->transport != HTTP_ANSWERED)
        return PREFERENCES_INCOMPLETE;
    return judge_body(preferences, http->body, reply);
}

static void take_user(struct preferences *preferences, const struct preferences_reply *reply,
                      struct span user)
{
    struct preferences_entry entry;
    uint64_t denied[PREFERENCES_DENIED_MAX];
    preferences_reply_user(reply, user, &entry);
    if (entry.wrong) {
        tell_batches(preferences, user, NULL, PREFERENCES_WRONG_TYPE);
        return;
    }
    for (size_t i = 0; i < entry.denied_count; i++)
        denied[i] = siphash(&preferences->key, entry.denied[i]);
    struct preferences_answer answer = {entry.push, entry.denied_count, denied};
    preferences_cache_put(preferences->cache, user, &answer, now_ms(preferences));
    tell_batches(preferences, user, &answer, PREFERENCES_ANSWERED);
}

/* A connection that was idle and died under the request says nothing about the service: it closes idle ones
 * when it likes. Asking is harmless, so it is asked once more, on the time of whoever waits. */
static bool ask_again(struct preferences *preferences, struct request *request,
                      const struct http_result *http)
{
    if (http->status != 0 || http->timed_out || !http->reused || request->again)
        return false;
    request->again = true;
    return send_request(preferences, request);
}

static void take_result(struct preferences *preferences, const struct http_result *http)
{
    struct request *request = &preferences->requests[http->tag];
    if (ask_again(preferences, request, http))
        return;
    struct preferences_reply *reply = NULL;
    enum preferences_reason result = judge(preferences, http, &reply);
    assert(request->used);
    note_result(preferences, request, result);
    preferences_metrics_request(preferences->metrics, result, http->took_us);
    for (size_t i = 0; i < request->count; i++) {
        if (result == PREFERENCES_ANSWERED)
            take_user(preferences, reply, request->users[i]);
        else
            tell_batches(preferences, request->users[i], NULL, result);
    }
    preferences_reply_free(reply);
    request->used = false;
}

bool preferences_poll(struct preferences *preferences, int timeout_ms)
{
    struct http_result http;
    bool any = false;
    while (http_client_poll(preferences->client, any ? 0 : timeout_ms, &http)) {
        take_result(preferences, &http);
        any = true;
    }
    for (size_t i = 0; any && i < PREFERENCES_BATCHES_MAX; i++) {
        if (preferences->batches[i] != NULL)
            send_batch(preferences, preferences->batches[i]);
    }
    preferences_metrics_show(preferences->metrics, preferences_state(preferences).breaker,
                             preferences_cache_count(preferences->cache));
    return any;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

static void copy_users(struct preferences_batch *batch, const struct span *users, size_t count)
{
    size_t kept = 0;
    arena_reset(&batch->texts);
    batch->count = 0;
    batch->waiting = 0;
    for (size_t i = 0; i < count; i++) {
        const char *copy = arena_copy(&batch->texts, users[i]);
        if (copy != NULL)
            batch->people[kept++] = (struct person){.user = {copy, users[i].bytes}, .waiting = true};
        else
            preferences_metrics_unanswered(batch->owner->metrics, PREFERENCES_MEMORY, false);
    }
    qsort(batch->people, kept, sizeof batch->people[0], compare_users);
    for (size_t i = 0; i < kept; i++) {
        if (i == 0 || compare_users(&batch->people[batch->count - 1], &batch->people[i]) != 0)
            batch->people[batch->count++] = batch->people[i];
    }
    batch->waiting = batch->count;
}

void preferences_ask(struct preferences *preferences, struct preferences_batch *batch,
                     const struct span *users, size_t count)
{
    assert(count <= batch->users_max);
    int64_t now = now_ms(preferences);
    copy_users(batch, users, count);
    batch->deadline_ms = now + preferences->settings.timeout_ms;
    for (size_t i = 0; i < batch->count; i++) {
        struct preferences_answer answer = {.push = true};
        int64_t at_ms = 0;
        struct person *person = &batch->people[i];
        bool fresh = preferences_cache_find(preferences->cache, person->user, &answer, &at_ms) &&
                     now - at_ms < preferences->settings.ttl_ms;
        preferences_metrics_looked_up(preferences->metrics, fresh);
        if (fresh)
            settle(batch, person, &answer);
    }
    send_batch(preferences, batch);
}

bool preferences_ready(struct preferences *preferences, struct preferences_batch *batch)
{
    if (batch->waiting == 0)
        return true;
    if (now_ms(preferences) < batch->deadline_ms)
        return false;
    refuse_waiting(batch, PREFERENCES_BUSY);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->people[i].waiting)
            settle_unanswered(batch, &batch->people[i], PREFERENCES_TIMEOUT);
    }
    return true;
}

bool preferences_allows(const struct preferences_batch *batch, struct span user, struct span category)
{
    const struct person *person = find_person(batch, user);
    if (person == NULL)
        return true;
    bool allowed = person->answer.push;
    uint64_t hash = siphash(&batch->owner->key, category);
    for (size_t i = 0; i < person->answer.denied_count && allowed; i++)
        allowed = person->answer.denied[i] != hash;
    return allowed;
}
