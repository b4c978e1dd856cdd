/* The push provider (Expo-shaped) over io/http_client.
 *
 * In: chunks of messages, lists of tickets. Out: one answer for each request, with a verdict for each message
 * or a receipt for each ticket, by index and by id. What always holds: nothing is sent twice from here; what
 * cannot be proven not accepted is Unconfirmed; only a ticket that names no other token may say
 * DeviceNotRegistered. A crash here loses the answers in flight; the batches' windows tell the sweeper
 * (design.md §5). */
#include "remote/provider.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "bearer.h"
#include "excerpt.h"
#include "io/http_client.h"
#include "provider_metrics.h"
#include "provider_table.h"
#include "remote/token.h"
#include "retry_after.h"

static const struct provider_capabilities expo = {
    .max_batch = 100, .max_receipt_batch = 1000, .rate = 600, .payload_max = 4096, .connections_max = 6};

enum {
    REQUEST_BYTES_MAX = 2 * 1024 * 1024,  /* 100 messages of 4,096 bytes, tokens, options and frames */
    RESPONSE_BYTES_MAX = 8 * 1024 * 1024, /* contracts/provider.md */
    TEXTS_BYTES_MAX = 1024 * 1024,
    HEADER_AUTHORIZATION = 2, /* the last: NULL when there is no token */
    HEADERS = 4
};

/* One request in flight. */
struct request {
    bool used, is_receipts;
    uint64_t tag;
    size_t count;
    struct arena texts;   /* of the spans below */
    struct span *tokens;  /* by index; of receipts: "" when not given */
    struct span *tickets; /* receipts only */
    struct buffer sent;   /* the JSON as it was sent */
};

struct provider {
    struct http_client *client;
    const struct clock *clock;
    struct metric_set *metrics;
    enum provider_token_check token_check;
    char *send_url, *receipts_url, *authorization; /* authorization NULL: none */
    const char *headers[HEADERS];
    struct provider_verdict *verdicts;          /* max_batch */
    char (*projects)[PROVIDER_PROJECT_MAX + 1]; /* the same */
    const char **project_names;                 /* of them */
    struct provider_receipt *receipts;          /* max_receipt_batch */
    size_t in_flight_max;
    struct request requests[];
};

/* ---- opening ------------------------------------------------------------------------------------------- */

static char *join(const char *head, size_t head_bytes, const char *tail)
{
    char *text = NULL;
    return asprintf(&text, "%.*s%s", (int)head_bytes, head, tail) < 0 ? NULL : text;
}

enum status provider_settings_check(const struct provider_settings *settings, struct fault *fault)
{
    if (!http_client_takes_url(settings->base_url) || strpbrk(settings->base_url, "?#") != NULL) {
        fault_set(fault, "config", "[provider] base_url is not a URL of http or https, without ? and #");
        fault_set_field(fault, "provider.base_url");
        return ST_REJECT;
    }
    return bearer_check(settings->token, "provider", fault);
}

enum status provider_set_token(struct provider *provider, const char *token, struct fault *fault)
{
    enum status status = bearer_set(&provider->authorization, token, "provider", fault);
    if (status == ST_OK)
        provider->headers[HEADER_AUTHORIZATION] = provider->authorization;
    return status;
}

static enum status make_texts(struct provider *provider, const struct provider_settings *settings,
                              struct fault *fault)
{
    size_t base = strlen(settings->base_url);
    while (base > 0 && settings->base_url[base - 1] == '/')
        base--;
    provider->send_url = join(settings->base_url, base, "/--/api/v2/push/send");
    provider->receipts_url = join(settings->base_url, base, "/--/api/v2/push/getReceipts");
    provider->headers[0] = "Accept: application/json";
    provider->headers[1] = "Content-Type: application/json";
    if (provider->send_url == NULL || provider->receipts_url == NULL) {
        fault_set(fault, "memory", "no memory for the provider's addresses");
        return ST_FATAL;
    }
    return provider_set_token(provider, settings->token, fault);
}

static enum status make_client(struct provider *provider, const struct provider_setup *setup,
                               struct fault *fault)
{
    struct http_client_settings settings = {.in_flight_max = provider->in_flight_max,
                                            .request_bytes_max = REQUEST_BYTES_MAX,
                                            .response_bytes_max = RESPONSE_BYTES_MAX,
                                            .request_timeout_ms = setup->settings->request_timeout_ms,
                                            .connect_timeout_ms = setup->settings->connect_timeout_ms,
                                            .user_agent = "belfry/" BELFRY_VERSION,
                                            .wake_fd = setup->wake_fd};
    for (size_t i = 0; i < provider->in_flight_max; i++) {
        arena_init(&provider->requests[i].texts, TEXTS_BYTES_MAX);
        buffer_init(&provider->requests[i].sent, REQUEST_BYTES_MAX);
    }
    provider->verdicts = calloc(expo.max_batch, sizeof provider->verdicts[0]);
    provider->receipts = calloc(expo.max_receipt_batch, sizeof provider->receipts[0]);
    provider->projects = calloc(expo.max_batch, sizeof provider->projects[0]);
    provider->project_names = calloc(expo.max_batch, sizeof provider->project_names[0]);
    if (provider->verdicts == NULL || provider->receipts == NULL || provider->projects == NULL ||
        provider->project_names == NULL) {
        fault_set(fault, "memory", "no memory for the provider's answers");
        return ST_FATAL;
    }
    return http_client_open(&settings, &provider->client, fault);
}

enum status provider_open(const struct provider_setup *setup, struct provider **provider, struct fault *fault)
{
    size_t count = setup->in_flight_max < expo.connections_max ? setup->in_flight_max : expo.connections_max;
    assert(count > 0);
    struct provider *made = calloc(1, sizeof *made + count * sizeof made->requests[0]);
    if (made == NULL) {
        fault_set(fault, "memory", "no memory for the provider client");
        return ST_FATAL;
    }
    made->in_flight_max = count;
    made->clock = setup->clock == NULL ? &clock_system : setup->clock;
    made->token_check = setup->settings->token_check;
    made->metrics = provider_metrics_add(setup->metrics);
    enum status status = provider_settings_check(setup->settings, fault);
    if (status == ST_OK)
        status = make_texts(made, setup->settings, fault);
    if (status == ST_OK)
        status = make_client(made, setup, fault);
    if (status != ST_OK) {
        provider_close(made);
        return status;
    }
    *provider = made;
    return ST_OK;
}

void provider_close(struct provider *provider)
{
    if (provider == NULL)
        return;
    http_client_close(provider->client);
    for (size_t i = 0; i < provider->in_flight_max; i++) {
        arena_done(&provider->requests[i].texts);
        buffer_done(&provider->requests[i].sent);
    }
    free(provider->verdicts);
    free(provider->projects);
    free(provider->project_names);
    free(provider->receipts);
    free(provider->send_url);
    free(provider->receipts_url);
    free(provider->authorization);
    free(provider);
}

struct provider_capabilities provider_capabilities(const struct provider *provider)
{
    (void)provider;
    return expo;
}

/* ---- asking -------------------------------------------------------------------------------------------- */

const char *provider_refuse(const struct provider *provider, const struct provider_message *message)
{
    if (!token_shape_ok(message->token, provider->token_check))
        return DISPATCH_INVALID_TOKEN;
    if (provider_message_fit(message, expo.payload_max) == PROVIDER_FIT_TOO_BIG)
        return DISPATCH_MESSAGE_TOO_BIG;
    return NULL;
}

static struct request *take_request(struct provider *provider, size_t count, struct fault *fault)
{
    for (size_t i = 0; i < provider->in_flight_max; i++) {
        struct request *request = &provider->requests[i];
        if (request->used)
            continue;
        arena_reset(&request->texts);
        buffer_reset(&request->sent);
        request->count = count;
        request->tokens = arena_array(&request->texts, count, sizeof request->tokens[0]);
        request->tickets = arena_array(&request->texts, count, sizeof request->tickets[0]);
        return request;
    }
    fault_set(fault, "busy", "%zu requests are out", provider->in_flight_max);
    return NULL;
}

static bool keep_text(struct request *request, struct span *kept, struct span text)
{
    *kept = (struct span){.at = arena_copy(&request->texts, text), .bytes = text.bytes};
    return kept->at != NULL;
}

static enum status submit(struct provider *provider, struct request *request, const char *url, uint64_t tag,
                          struct fault *fault)
{
    struct http_request http = {
        .url = url, .headers = provider->headers, .body = buffer_span(&request->sent), .gzip = true};
    if (request->sent.failed) {
        fault_set(fault, "memory", "no memory for a request of %zu entries", request->count);
        return ST_FATAL;
    }
    enum status status =
        http_client_submit(provider->client, &http, (uint64_t)(request - provider->requests), fault);
    if (status != ST_OK)
        return status == ST_RETRY ? ST_RETRY : ST_FATAL;
    request->used = true;
    request->tag = tag;
    return ST_OK;
}

enum status provider_submit_chunk(struct provider *provider, const struct provider_message *messages,
                                  size_t count, uint64_t tag, struct fault *fault)
{
    assert(count > 0 && count <= expo.max_batch);
    struct request *request = take_request(provider, count, fault);
    if (request == NULL)
        return ST_RETRY;
    bool kept = request->tokens != NULL;
    for (size_t i = 0; kept && i < count; i++) {
        kept = keep_text(request, &request->tokens[i], messages[i].token);
        provider_metrics_fit(provider->metrics, provider_message_fit(&messages[i], expo.payload_max));
    }
    if (!kept)
        request->sent.failed = true;
    request->is_receipts = false;
    provider_encode_messages(messages, count, expo.payload_max, &request->sent);
    return submit(provider, request, provider->send_url, tag, fault);
}

enum status provider_fetch_receipts(struct provider *provider, const struct provider_ask *asks, size_t count,
                                    uint64_t tag, struct fault *fault)
{
    assert(count > 0 && count <= expo.max_receipt_batch);
    struct request *request = take_request(provider, count, fault);
    if (request == NULL)
        return ST_RETRY;
    bool kept = request->tokens != NULL && request->tickets != NULL;
    for (size_t i = 0; kept && i < count; i++)
        kept = keep_text(request, &request->tickets[i], asks[i].ticket) &&
               keep_text(request, &request->tokens[i], asks[i].token);
    if (!kept)
        request->sent.failed = true;
    request->is_receipts = true;
    if (kept)
        provider_encode_receipts(request->tickets, count, &request->sent);
    return submit(provider, request, provider->receipts_url, tag, fault);
}

size_t provider_in_flight(const struct provider *provider)
{
    return http_client_in_flight(provider->client);
}

void provider_abort(struct provider *provider)
{
    http_client_abort(provider->client);
    for (size_t i = 0; i < provider->in_flight_max; i++)
        provider->requests[i].used = false;
}

/* ---- answers ------------------------------------------------------------------------------------------- */

/* What the error says; not DeviceNotRegistered when the details name another token than was asked about. */
static const char *error_of(const struct provider_entry *entry, struct span token)
{
    bool other = entry->token[0] != '\0' && token.bytes > 0 && !span_is(token, entry->token);
    return other && strcmp(entry->error, DISPATCH_NOT_REGISTERED) == 0 ? DISPATCH_TICKET_MISMATCH
                                                                       : entry->error;
}

static void set_verdict(struct provider_verdict *verdict, enum provider_verdict_kind kind, const char *error,
                        const char *detail)
{
    *verdict = (struct provider_verdict){.kind = kind};
    snprintf(verdict->error, sizeof verdict->error, "%s", error);
    snprintf(verdict->detail, sizeof verdict->detail, "%s", detail);
}

static void judge_ticket(const struct provider_reply *reply, const struct request *request, size_t index,
                         struct provider_verdict *verdict)
{
    struct provider_entry entry;
    provider_reply_ticket(reply, index, &entry);
    const char *error = error_of(&entry, request->tokens[index]);
    if (entry.item == PROVIDER_ITEM_OK)
        set_verdict(verdict, PROVIDER_SENT, "", "");
    else if (entry.item != PROVIDER_ITEM_ERROR)
        set_verdict(verdict, PROVIDER_FAILED, DISPATCH_TICKET_MISMATCH, "the ticket is not readable");
    else
        set_verdict(verdict, PROVIDER_FAILED, error,
                    error == entry.error ? "" : "DeviceNotRegistered, but for another token");
    memcpy(verdict->ticket, entry.ticket, sizeof verdict->ticket);
}

/* One sentence of ours about a request that brought no tickets. */
static void describe(char *text, size_t bytes, const struct provider_answer *answer,
                     const struct provider_body *body)
{
    if (answer->kind == PROVIDER_ANSWER_MISMATCH && body->data == PROVIDER_DATA_ARRAY)
        snprintf(text, bytes, "%zu tickets for %zu messages", body->data_count, answer->count);
    else if (answer->kind == PROVIDER_ANSWER_MISMATCH)
        snprintf(text, bytes, "no list of tickets for %zu messages", answer->count);
    else if (answer->http_status > 0)
        snprintf(text, bytes, "HTTP %d%s%s%s%.80s", answer->http_status, answer->code[0] == '\0' ? "" : " ",
                 answer->code, answer->cause[0] == '\0' ? "" : ", ", answer->cause);
    else
        snprintf(text, bytes, "%s", answer->cause);
}

static void fill_verdicts(struct provider *provider, const struct request *request,
                          const struct provider_reply *reply, const struct provider_row *row,
                          const char *detail)
{
    for (size_t i = 0; i < request->count; i++) {
        struct provider_verdict *verdict = &provider->verdicts[i];
        if (row->kind == PROVIDER_ANSWER_DATA)
            judge_ticket(reply, request, i, verdict);
        else
            set_verdict(verdict, row->verdict, row->error, detail);
        provider_metrics_verdict(provider->metrics, verdict);
    }
}

/* Receipts by id; returns how many of the map were never asked for. */
static size_t fill_receipts(struct provider *provider, const struct request *request,
                            const struct provider_reply *reply)
{
    size_t found = 0;
    for (size_t i = 0; i < request->count; i++) {
        struct provider_receipt *receipt = &provider->receipts[i];
        struct provider_entry entry;
        provider_reply_receipt(reply, request->tickets[i], &entry);
        *receipt = (struct provider_receipt){.kind = PROVIDER_RECEIPT_NONE};
        if (entry.item == PROVIDER_ITEM_OK)
            receipt->kind = PROVIDER_RECEIPT_OK;
        else if (entry.item == PROVIDER_ITEM_ERROR)
            receipt->kind = PROVIDER_RECEIPT_ERROR;
        if (receipt->kind == PROVIDER_RECEIPT_ERROR)
            snprintf(receipt->error, sizeof receipt->error, "%s", error_of(&entry, request->tokens[i]));
        found += entry.present;
    }
    size_t all = provider_reply_receipt_count(reply);
    return all > found ? all - found : 0;
}

static const char *const *fill_projects(struct provider *provider, const struct request *request,
                                        const struct provider_reply *reply)
{
    for (size_t i = 0; i < request->count; i++) {
        provider_reply_project(reply, request->tokens[i], provider->projects[i]);
        provider->project_names[i] = provider->projects[i];
    }
    return provider->project_names;
}

static int64_t retry_after(const struct provider *provider, const struct http_result *http)
{
    if (http->retry_after_count != 1)
        return -1; /* none; or several, and which of them holds is anybody's guess */
    return retry_after_ms(http->retry_after[0], clock_wall_us(provider->clock), PROVIDER_RETRY_AFTER_MAX_MS);
}

static bool data_fits(const struct request *request, const struct provider_body *body)
{
    if (request->is_receipts)
        return body->data == PROVIDER_DATA_OBJECT;
    if (body->data == PROVIDER_DATA_OBJECT)
        return request->count == 1;
    return body->data == PROVIDER_DATA_ARRAY && body->data_count == request->count;
}

static void fill_answer(struct provider *provider, const struct request *request,
                        const struct http_result *http, struct provider_answer *answer)
{
    struct provider_facts facts = {.transport = http->transport, .status = http->status};
    struct provider_reply *reply = NULL;
    if (http->transport == HTTP_ANSWERED)
        reply = provider_reply_parse(http->body, &facts.body); /* NULL: no memory, as good as garbage */
    facts.data_fits = data_fits(request, &facts.body);
    const struct provider_row *row = provider_judge(&facts);
    *answer = (struct provider_answer){.tag = request->tag,
                                       .is_receipts = request->is_receipts,
                                       .kind = row->kind,
                                       .http_status = http->status,
                                       .timed_out = http->timed_out,
                                       .retry_after_ms = retry_after(provider, http),
                                       .took_us = http->took_us,
                                       .count = request->count};
    snprintf(answer->code, sizeof answer->code, "%s", facts.body.code);
    snprintf(answer->cause, sizeof answer->cause, "%s", http->cause);
    if (row->kind == PROVIDER_ANSWER_MAYBE || row->kind == PROVIDER_ANSWER_MISMATCH)
        excerpt_make(answer->excerpt, sizeof answer->excerpt, http->body, buffer_span(&request->sent));
    if (!request->is_receipts) {
        char detail[DISPATCH_DETAIL_MAX + 1];
        describe(detail, sizeof detail, answer, &facts.body);
        fill_verdicts(provider, request, reply, row, detail);
        answer->verdicts = provider->verdicts;
        if (row->kind == PROVIDER_ANSWER_PROJECTS)
            answer->projects = fill_projects(provider, request, reply);
    } else if (row->kind == PROVIDER_ANSWER_DATA) {
        answer->unasked = fill_receipts(provider, request, reply);
        answer->receipts = provider->receipts;
    }
    provider_reply_free(reply);
}

bool provider_poll(struct provider *provider, int timeout_ms, struct provider_answer *answer)
{
    struct http_result http;
    if (!http_client_poll(provider->client, timeout_ms, &http))
        return false;
    struct request *request = &provider->requests[http.tag];
    fill_answer(provider, request, &http, answer);
    request->used = false;
    provider_metrics_answer(provider->metrics, answer);
    return true;
}
