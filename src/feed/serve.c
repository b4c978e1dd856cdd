/* In: HTTP requests and database answers. Out: pages and refusals. Always: each request is answered once;
 * the database away is 503 at once and never an empty list; a request is told 503 after statement_timeout
 * in the queue as it is after it in the database. A crash here loses the answers under way: nothing is
 * written, and clients ask again. */
#include "feed/serve.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feed/auth.h"
#include "feed/calls.h"
#include "feed/download.h"
#include "feed/parameters.h"
#include "feed/reply.h"
#include "feed/routes.h"

enum {
    TRIES_MAX = 2, /* a recovery conflict or a lost connection is tried once more */
    LATE_MS = 250  /* over statement_timeout: the server's own answer comes first where it can */
};

enum {
    METRIC_REQUESTS,
    METRIC_SECONDS,
    METRIC_INCOMPLETE,
    METRIC_REFUSALS,
    METRIC_ROWS,
    METRIC_STAGE_SECONDS,
    METRIC_STAGE_IN_FLIGHT,
    METRIC_OLDEST_WAITING,
    METRICS
};

/* Of a request that needs the database: for a place on a connection, and for the answer. */
enum { STAGE_WAIT, STAGE_PAGE };
static const char *const metric_stages[] = {"wait", "page", NULL};

static const char *const metric_statuses[] = {"200", "202", "204", "304", "400",   "401", "403", "404",
                                              "405", "409", "410", "413", "414",   "422", "429", "431",
                                              "499", "500", "503", "505", "other", NULL};
static const char *const metric_codes[] = {"contract_not_offered",
                                           "role_required",
                                           "invalid_parameter",
                                           "unknown_parameter",
                                           "repeated_parameter",
                                           "invalid_body",
                                           "invalid_cursor",
                                           "cursor_unsupported",
                                           "cursor_mismatch",
                                           "cursor_expired",
                                           "token_missing",
                                           "token_invalid",
                                           "token_expired",
                                           "not_a_member",
                                           "not_found",
                                           "export_not_ready",
                                           "export_failed",
                                           "export_expired",
                                           "idempotency_mismatch",
                                           "too_many_exports",
                                           "method_not_allowed",
                                           "timeout",
                                           "unavailable",
                                           "internal",
                                           NULL};

static const struct metric_row metric_rows[METRICS] = {
    [METRIC_REQUESTS] = {.name = "belfry_http_requests_total",
                         .help = "Requests answered, by HTTP status.",
                         .label = "status",
                         .values = metric_statuses},
    [METRIC_SECONDS] = {.name = "belfry_http_request_seconds",
                        .help = "From a request's head to its reply; streams are not counted.",
                        .type = METRIC_HISTOGRAM,
                        .buckets = metric_buckets_seconds},
    [METRIC_INCOMPLETE] = {.name = "belfry_http_incomplete_total",
                           .help = "Replies cut before their end: the client left or took too little, or an "
                                   "export's stream failed."},
    [METRIC_REFUSALS] = {.name = "belfry_refusals_total",
                         .help = "Requests refused, by code.",
                         .label = "code",
                         .values = metric_codes},
    [METRIC_ROWS] = {.name = "belfry_page_items_total", .help = "Items on the pages given out."},
    [METRIC_STAGE_SECONDS] = {.name = "belfry_read_stage_seconds",
                              .help =
                                  "Time of a request in a stage: wait for a place on a database connection, "
                                  "page from there to the database's answer.",
                              .type = METRIC_HISTOGRAM,
                              .label = "stage",
                              .values = metric_stages,
                              .buckets = metric_buckets_seconds},
    [METRIC_STAGE_IN_FLIGHT] = {.name = "belfry_read_stage_in_flight",
                                .help = "Requests in the stage now.",
                                .type = METRIC_GAUGE,
                                .label = "stage",
                                .values = metric_stages},
    [METRIC_OLDEST_WAITING] = {.name = "belfry_read_oldest_waiting_seconds",
                               .help = "Since when the oldest request waits for a place; 0: none does.",
                               .type = METRIC_GAUGE},
};

static void serve_reset(struct serve *serve)
{
    for (size_t i = 0; i < SERVE_POOLS; i++)
        serve->pools[i] = (struct serve_pool){.links = serve->pools[i].links};
    serve->sent_count = 0;
    memset(serve->sent, 0, sizeof serve->sent);
}

void serve_init(struct serve *serve, struct metrics *metrics)
{
    serve_reset(serve);
    serve->metrics = metrics_add(metrics, metric_rows, METRICS);
    buffer_init(&serve->body, REPLY_BYTES_MAX);
    buffer_init(&serve->link, REPLY_LINK_BYTES_MAX);
    document_init(&serve->document);
}

static struct serve_pool *serve_pool(struct serve *serve, const struct asked *asked)
{
    bool primary = asked->call->writes && serve->pools[SERVE_PRIMARY].links != NULL;
    return &serve->pools[primary ? SERVE_PRIMARY : SERVE_PAGES];
}

static void pool_queue(struct serve_pool *pool, struct asked *asked)
{
    asked->next = NULL;
    if (pool->last == NULL)
        pool->first = asked;
    else
        pool->last->next = asked;
    pool->last = asked;
    pool->waiting++;
}

/* Takes the oldest that waits out of the queue. */
static struct asked *pool_next(struct serve_pool *pool)
{
    struct asked *asked = pool->first;
    pool->first = asked->next;
    if (pool->first == NULL)
        pool->last = NULL;
    pool->waiting--;
    return asked;
}

static void serve_free(struct asked *asked)
{
    if (asked != NULL)
        download_free(asked->download);
    free(asked);
}

void serve_done(struct serve *serve)
{
    for (size_t i = 0; i < SERVE_POOLS; i++) {
        while (serve->pools[i].first != NULL)
            serve_free(pool_next(&serve->pools[i]));
    }
    for (size_t i = 0; i < SERVE_SENT_MAX; i++)
        serve_free(serve->sent[i]);
    buffer_done(&serve->body);
    buffer_done(&serve->link);
    feeds_done(&serve->feeds);
    document_done(&serve->document);
    serve_reset(serve);
}

size_t serve_pending(const struct serve *serve)
{
    return serve->pools[SERVE_PAGES].waiting + serve->pools[SERVE_PRIMARY].waiting + serve->sent_count;
}

static void serve_refuse(struct serve *serve, struct http_request *request, const struct fault *fault)
{
    log_event(LOG_DEBUG, "READ-REFUSED", "request refused", log_text("code", fault->code),
              log_text("request_id", http_request_id(request)));
    metric_add(serve->metrics, METRIC_REFUSALS,
               metric_value_index(&metric_rows[METRIC_REFUSALS], fault->code), 1);
    (void)reply_refuse(request, fault);
}

static void serve_refuse_code(struct serve *serve, struct http_request *request, const char *code,
                              const char *detail)
{
    struct fault fault;
    fault_set(&fault, code, "%s", detail);
    serve_refuse(serve, request, &fault);
}

/* Answers a request that is held by nothing any more, and forgets it. */
static void serve_drop(struct serve *serve, struct asked *asked, const char *code, const char *detail)
{
    struct http_request *request = asked->request;
    if (asked->download != NULL) {
        download_cut(serve, asked, code);
        return;
    }
    free(asked);
    serve_refuse_code(serve, request, code, detail);
}

static void serve_drop_unavailable(struct serve *serve, struct asked *asked)
{
    serve_drop(serve, asked, "unavailable", "The database cannot be reached just now.");
}

static void serve_observe(struct serve *serve, size_t stage, int64_t took_ms)
{
    metric_observe(serve->metrics, METRIC_STAGE_SECONDS, stage, (double)took_ms / 1e3);
}

/* Sends a request that is held by nothing, or lets it wait, or refuses it. False: it waits. */
static bool serve_send(struct serve *serve, struct asked *asked)
{
    struct fault fault;
    struct serve_pool *pool = serve_pool(serve, asked);
    bool joins = asked->small && !asked->alone;
    struct db *db = !pool->fit ? NULL : joins ? links_pick_small(pool->links) : links_pick(pool->links);
    size_t place = 0;
    while (place < SERVE_SENT_MAX && serve->sent[place] != NULL)
        place++;
    if (db != NULL && asked->alone)
        db_release(db);
    if (db != NULL && place < SERVE_SENT_MAX && asked->call->send(db, asked, place, &fault) == ST_OK) {
        if (asked->alone)
            db_release(db);
        asked->tries++;
        asked->sent_ms = clock_monotonic_ms(&serve->clock);
        serve_observe(serve, STAGE_WAIT, asked->sent_ms - asked->since_ms);
        serve->sent[place] = asked;
        serve->sent_count++;
        return true;
    }
    if (!pool->fit || links_up(pool->links) == 0) {
        serve_drop_unavailable(serve, asked);
        return true;
    }
    pool_queue(pool, asked);
    return false;
}

void serve_again(struct serve *serve, struct asked *asked)
{
    (void)serve_send(serve, asked);
}

/* Which feed the path names. A path that names none of ours, or one with a workspace where it has none, is
 * no route; what serves no feed is the built-in one's. */
static void serve_find(struct serve *serve, struct asked *asked)
{
    struct span path = http_request_path(asked->request);
    struct feeds_entry *feed = &serve->feeds.entries[0];
    routes_find(path, &asked->route);
    if (asked->route.kind == ROUTE_OPENAPI)
        return;
    if (asked->route.kind == ROUTE_FEED || asked->route.kind == ROUTE_FEED_EXPORTS)
        feed = feeds_find(&serve->feeds, span_of(asked->route.feed));
    else if (asked->route.kind == ROUTE_NONE)
        feed = feeds_find_path(&serve->feeds, path);
    if (feed != NULL && asked->route.kind == ROUTE_NONE)
        asked->route.kind = ROUTE_FEED;
    bool scoped = asked->route.workspace[0] != '\0';
    bool any = asked->route.kind >= ROUTE_EXPORTS; /* the export says of which feed it is */
    asked->feed = feed;
    if (any)
        return;
    if (feed == NULL || (feed->source != NULL && scoped != (feed->source->workspace != NULL)))
        asked->route.kind = ROUTE_NONE;
}

/* The user a token speaks for; none where the feed is open to anybody, whatever is sent. */
static enum status serve_identify(struct serve *serve, struct asked *asked, int64_t now_us,
                                  struct span *user_id, struct fault *fault)
{
    if (asked->feed->source->auth == SOURCE_OPEN)
        return ST_OK;
    struct span authorization = http_request_header(asked->request, HTTP_AUTHORIZATION);
    struct jwt_rules rules = auth_rules(&serve->settings->auth, &serve->keys->auth);
    enum status status = auth_check(&rules, authorization, now_us, &asked->claims, fault);
    if (status == ST_OK)
        *user_id = span_of(asked->claims.sub);
    return status;
}

static enum status serve_understand(struct serve *serve, struct asked *asked, struct fault *fault)
{
    if (asked->feed->source == NULL) {
        fault_set(fault, "unavailable", "The database cannot be reached just now.");
        return ST_REJECT;
    }
    struct parameters_input input = {
        .workspace_id = span_of(asked->route.workspace),
        .statements = asked->feed->statements,
        .keys = &serve->keys->cursor,
        .scan_max = (int64_t)serve->http->scan_max,
        .cursor_ttl_us = serve->settings->cursor.cursor_ttl_ms * 1000,
        .now_us = clock_wall_us(&serve->clock),
    };
    enum status status = serve_identify(serve, asked, input.now_us, &input.user_id, fault);
    if (status != ST_OK)
        return status;
    input.parameters = http_request_parameters(asked->request, &input.count);
    input.body = http_request_body(asked->request);
    return asked->call->understand(asked, &input, fault);
}

/* What the reader offers: no token, no database. */
static enum status serve_document(struct serve *serve, struct http_request *request, struct fault *fault)
{
    struct parameters_input input = {.count = 0};
    input.parameters = http_request_parameters(request, &input.count);
    enum status status = parameters_none(&input, fault);
    if (status == ST_OK)
        status = document_make(&serve->document, &serve->feeds, fault);
    if (status != ST_OK)
        return status;
    struct answer answer = {.body = &serve->document.text, .link = &serve->link, .shared = true};
    snprintf(answer.etag, sizeof answer.etag, "%s", serve->document.etag);
    buffer_reset(&serve->link);
    reply_json(request, &answer);
    return ST_OK;
}

void serve_handle(void *context, struct http_request *request)
{
    struct serve *serve = context;
    struct fault fault;
    struct asked *asked = calloc(1, sizeof *asked);
    if (asked == NULL) {
        serve_refuse_code(serve, request, "unavailable", "The reader is out of memory.");
        return;
    }
    asked->request = request;
    asked->feeds = &serve->feeds;
    asked->settings = serve->settings;
    asked->since_ms = clock_monotonic_ms(&serve->clock);
    serve_find(serve, asked);
    enum status status = calls_find(&asked->route, http_request_method(request), &asked->call, &fault);
    bool document = status == ST_OK && asked->call->send == NULL;
    if (document)
        status = serve_document(serve, request, &fault);
    else if (status == ST_OK)
        status = serve_understand(serve, asked, &fault);
    if (status == ST_OK && !document) {
        (void)serve_send(serve, asked);
        return;
    }
    free(asked);
    if (status != ST_OK) {
        if (strcmp(fault.code, "method_not_allowed") != 0 || !http_request_preflight(request, fault.field))
            serve_refuse(serve, request, &fault);
    }
}

static bool pool_forget(struct serve_pool *pool, const struct http_request *request)
{
    struct asked *before = NULL, *asked = pool->first;
    while (asked != NULL && asked->request != request) {
        before = asked;
        asked = asked->next;
    }
    if (asked == NULL)
        return false;
    if (before == NULL)
        pool->first = asked->next;
    else
        before->next = asked->next;
    if (pool->last == asked)
        pool->last = before;
    pool->waiting--;
    free(asked);
    return true;
}

void serve_gone(void *context, struct http_request *request)
{
    struct serve *serve = context;
    bool found = false;
    for (size_t i = 0; i < SERVE_POOLS && !found; i++)
        found = pool_forget(&serve->pools[i], request);
    for (size_t i = 0; i < SERVE_SENT_MAX && !found; i++) {
        struct asked *asked = serve->sent[i];
        found = asked != NULL && asked->request == request;
        if (found)
            asked->request = NULL;
    }
}

void serve_finished(void *context, const struct http_exchange *exchange)
{
    struct serve *serve = context;
    char status[8] = "other";
    if (exchange->status >= 100 && exchange->status <= 999) {
        status[0] = (char)('0' + exchange->status / 100);
        status[1] = (char)('0' + exchange->status / 10 % 10);
        status[2] = (char)('0' + exchange->status % 10);
        status[3] = '\0';
    }
    metric_add(serve->metrics, METRIC_REQUESTS, metric_value_index(&metric_rows[METRIC_REQUESTS], status), 1);
    if (!exchange->stream)
        metric_observe(serve->metrics, METRIC_SECONDS, 0, (double)exchange->took_us / 1e6);
    metric_add(serve->metrics, METRIC_INCOMPLETE, 0, exchange->status != HTTP_GONE && !exchange->complete);
    log_event(LOG_INFO, "READ-REQUEST", "request answered", log_int("status", exchange->status),
              log_span("path", exchange->path), log_count("bytes", exchange->body_bytes),
              log_int("us", exchange->took_us), log_bool("complete", exchange->complete),
              log_text("request_id", exchange->request_id));
}

/* An answer that came. asked is held by nothing. */
static void serve_write(struct serve *serve, struct asked *asked, const struct db_result *result)
{
    struct fault fault;
    struct http_request *request = asked->request;
    struct answer answer = {.body = &serve->body, .link = &serve->link, .form = &asked->feed->form};
    buffer_reset(&serve->body);
    buffer_reset(&serve->link);
    enum status status = asked->call->write(asked, result, serve->keys, &answer, &fault);
    if (status == ST_OK && (serve->body.failed || serve->link.failed)) {
        fault_set(&fault, "internal", "The answer is too large.");
        status = ST_REJECT;
    }
    if (status == ST_OK && asked->call->route == ROUTE_EXPORT_ROWS) {
        download_begin(serve, asked, result);
        return;
    }
    if (status == ST_OK && answer.status == 202 && serve->exporter != NULL)
        exporter_kick(serve->exporter, true);
    free(asked);
    if (status == ST_OK) {
        reply_json(request, &answer);
        return;
    }
    if (strcmp(fault.code, "internal") == 0)
        log_event(LOG_ERROR, "READ-INTERNAL", "an answer could not be written",
                  log_text("request_id", http_request_id(request)));
    serve_refuse(serve, request, &fault);
}

/* A statement that failed. asked is held by nothing. */
static void serve_failed(struct serve *serve, struct asked *asked, enum status status,
                         const struct fault *fault)
{
    if (strcmp(fault->code, DB_JOINED) == 0) {
        asked->alone = true;
        asked->tries--;
        (void)serve_send(serve, asked);
    } else if (strcmp(fault->code, "57014") == 0) {
        log_fault(LOG_WARN, "READ-TIMEOUT", "a page took too long", status, fault,
                  log_text("request_id", http_request_id(asked->request)));
        serve_drop(serve, asked, "timeout", "The page took too long to read.");
    } else if (status == ST_RETRY && asked->tries < TRIES_MAX) {
        (void)serve_send(serve, asked);
    } else if (status == ST_RETRY || status == ST_STOP) {
        log_fault(LOG_WARN, "READ-FAILED", "a page could not be read", status, fault,
                  log_text("request_id", http_request_id(asked->request)));
        if (status == ST_RETRY)
            serve_drop_unavailable(serve, asked);
        else /* the table is gone, or the right to look: the database is there */
            serve_drop(serve, asked, "unavailable", "This cannot be read just now.");
    } else {
        log_fault(LOG_ERROR, "READ-INTERNAL", "the database refused a page", status, fault,
                  log_text("request_id", http_request_id(asked->request)));
        serve_drop(serve, asked, "internal", "The page could not be read.");
    }
}

void serve_answer(struct serve *serve, struct db_answer *answer)
{
    assert(answer->tag < SERVE_SENT_MAX && serve->sent[answer->tag] != NULL);
    struct asked *asked = serve->sent[answer->tag];
    serve->sent[answer->tag] = NULL;
    serve->sent_count--;
    serve_observe(serve, STAGE_PAGE, clock_monotonic_ms(&serve->clock) - asked->sent_ms);
    if (asked->download != NULL)
        download_answer(serve, asked, answer);
    else if (asked->request == NULL)
        free(asked);
    else if (answer->status == ST_OK)
        serve_write(serve, asked, answer->result);
    else
        serve_failed(serve, asked, answer->status, &answer->fault);
    db_result_free(answer->result);
}

/* Statements on one connection run one after another: behind slow ones a request may be late although its
 * own statement has not begun. Its client is told in time; the statement's answer is thrown away later. */
static void serve_late(struct serve *serve, int64_t now_ms)
{
    for (size_t i = 0; i < SERVE_SENT_MAX && serve->sent_count > 0; i++) {
        struct asked *asked = serve->sent[i];
        if (asked == NULL || asked->request == NULL ||
            now_ms - asked->since_ms <= serve->http->statement_timeout_ms + LATE_MS)
            continue;
        serve_refuse_code(serve, asked->request, "timeout", "The page took too long to read.");
        asked->request = NULL;
    }
}

static void serve_pool_waiting(struct serve *serve, struct serve_pool *pool, int64_t now_ms)
{
    while (pool->first != NULL) {
        bool late = now_ms - pool->first->since_ms > serve->http->statement_timeout_ms;
        if (!late && links_up(pool->links) > 0 && links_pick(pool->links) == NULL)
            return;
        struct asked *asked = pool_next(pool);
        if (late)
            serve_drop(serve, asked, "timeout", "The page took too long to read.");
        else if (!serve_send(serve, asked))
            return;
    }
}

void serve_waiting(struct serve *serve)
{
    int64_t now_ms = clock_monotonic_ms(&serve->clock), oldest_ms = 0;
    size_t waiting = 0;
    serve_late(serve, now_ms);
    for (size_t i = 0; i < SERVE_POOLS; i++) {
        struct serve_pool *pool = &serve->pools[i];
        serve_pool_waiting(serve, pool, now_ms);
        waiting += pool->waiting;
        if (pool->first != NULL && now_ms - pool->first->since_ms > oldest_ms)
            oldest_ms = now_ms - pool->first->since_ms;
    }
    metric_put(serve->metrics, METRIC_STAGE_IN_FLIGHT, STAGE_WAIT, (double)waiting);
    metric_put(serve->metrics, METRIC_STAGE_IN_FLIGHT, STAGE_PAGE, (double)serve->sent_count);
    metric_put(serve->metrics, METRIC_OLDEST_WAITING, 0, (double)oldest_ms / 1e3);
}
