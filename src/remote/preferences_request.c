/* Requests to the account service and what its replies mean.
 *
 * In: batches with users who wait. Out: each of them told. What always holds: a user is in one request at a
 * time; nothing but a valid 2xx reply is cached; an open breaker lets one trial call through at a time. A
 * crash here loses what was asked: it is asked again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "preferences_private.h"
#include "wire/record.h"

/* ---- the breaker --------------------------------------------------------------------------------------- */

/* Whether another request may go out. */
static bool may_call(const struct preferences *preferences)
{
    return !preferences->open ||
           (!preferences->trial_out && preferences_now_ms(preferences) >= preferences->open_until_ms);
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
        preferences->open_until_ms = preferences_now_ms(preferences) + preferences->settings.breaker_open_ms;
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

/* ---- requests ------------------------------------------------------------------------------------------ */

static bool is_in_flight(const struct preferences *preferences, struct span user)
{
    for (size_t i = 0; i < PREFERENCES_REQUESTS_MAX; i++) {
        const struct request *request = &preferences->requests[i];
        if (request->used &&
            bsearch(&user, request->users, request->count, sizeof user, preferences_compare_users) != NULL)
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
            preferences_unanswered(batch, person, PREFERENCES_MEMORY);
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

void preferences_refuse_waiting(struct preferences_batch *batch, enum preferences_reason reason)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->people[i].waiting && !is_in_flight(batch->owner, batch->people[i].user))
            preferences_unanswered(batch, &batch->people[i], reason);
    }
}

void preferences_send(struct preferences *preferences, struct preferences_batch *batch)
{
    while (batch->waiting > 0) {
        if (!may_call(preferences)) {
            preferences_refuse_waiting(batch, PREFERENCES_BREAKER_OPEN);
            return;
        }
        struct request *request = free_request(preferences);
        if (request == NULL)
            return; /* when one is answered */
        choose_users(batch, request);
        if (request->count == 0)
            return;
        if (!submit(preferences, request)) {
            preferences_refuse_waiting(batch, PREFERENCES_MEMORY);
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
        preferences_tell(preferences, user, NULL, PREFERENCES_WRONG_TYPE);
        return;
    }
    for (size_t i = 0; i < entry.denied_count; i++)
        denied[i] = siphash(&preferences->key, entry.denied[i]);
    struct preferences_answer answer = {entry.push, entry.denied_count, denied};
    preferences_cache_put(preferences->cache, user, &answer, preferences_now_ms(preferences));
    preferences_tell(preferences, user, &answer, PREFERENCES_ANSWERED);
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
            preferences_tell(preferences, request->users[i], NULL, result);
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
            preferences_send(preferences, preferences->batches[i]);
    }
    preferences_metrics_show(preferences->metrics, preferences_state(preferences).breaker,
                             preferences_cache_count(preferences->cache));
    return any;
}
