/* The account service over io/http_client.
 *
 * In: batches of users. Out: for each an answer: fresh, stale, or a blind yes. What always holds: whoever
 * waits for a user gets the answer of the one request he is in (preferences_request.c); a batch waits at most
 * `timeout`. A crash here loses the cache: everybody is asked for again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bearer.h"
#include "io/crypto.h"
#include "preferences_private.h"

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

/* ---- answers into batches ------------------------------------------------------------------------------ */

static int compare_spans(struct span a, struct span b)
{
    int order = memcmp(a.at, b.at, a.bytes < b.bytes ? a.bytes : b.bytes);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

int preferences_compare_users(const void *a, const void *b)
{
    return compare_spans(*(const struct span *)a, *(const struct span *)b);
}

static const struct person *find_person(const struct preferences_batch *batch, struct span user)
{
    if (batch->count == 0)
        return NULL;
    return bsearch(&user, batch->people, batch->count, sizeof batch->people[0], preferences_compare_users);
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

void preferences_unanswered(struct preferences_batch *batch, struct person *person,
                            enum preferences_reason reason)
{
    struct preferences *preferences = batch->owner;
    struct preferences_answer answer = {.push = true};
    int64_t at_ms = 0;
    bool stale = preferences_cache_find(preferences->cache, person->user, &answer, &at_ms) &&
                 preferences_now_ms(preferences) - at_ms < preferences->settings.stale_ttl_ms;
    if (!stale)
        answer = (struct preferences_answer){.push = true};
    settle(batch, person, &answer);
    preferences_metrics_unanswered(preferences->metrics, reason, stale);
}

void preferences_tell(struct preferences *preferences, struct span user,
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
            preferences_unanswered(batch, person, reason);
    }
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
    qsort(batch->people, kept, sizeof batch->people[0], preferences_compare_users);
    for (size_t i = 0; i < kept; i++) {
        if (i == 0 || preferences_compare_users(&batch->people[batch->count - 1], &batch->people[i]) != 0)
            batch->people[batch->count++] = batch->people[i];
    }
    batch->waiting = batch->count;
}

void preferences_ask(struct preferences *preferences, struct preferences_batch *batch,
                     const struct span *users, size_t count)
{
    assert(count <= batch->users_max);
    int64_t now = preferences_now_ms(preferences);
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
    preferences_send(preferences, batch);
}

bool preferences_ready(struct preferences *preferences, struct preferences_batch *batch)
{
    if (batch->waiting == 0)
        return true;
    if (preferences_now_ms(preferences) < batch->deadline_ms)
        return false;
    preferences_refuse_waiting(batch, PREFERENCES_BUSY);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->people[i].waiting)
            preferences_unanswered(batch, &batch->people[i], PREFERENCES_TIMEOUT);
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
