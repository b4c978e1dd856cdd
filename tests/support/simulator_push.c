/* The send call: a request's messages come in; tickets in request order go out, or the provider's error list.
 * Always holds: a message is accepted when it is given an ok ticket; its line is in the record file before
 * the answer leaves, and exactly once. A record that cannot be written ends the program: it would no longer
 * be the truth. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/simulator.h"

/* A request taken apart: one entry a recipient. */
struct batch {
    json_t *messages; /* the array as it came */
    json_t *tokens;   /* array of strings, request order; owned */
    json_t **message; /* the message of each token */
    size_t count;
    bool single; /* one bare object: its ticket is answered bare, too */
};

static void batch_done(struct batch *batch)
{
    json_decref(batch->messages);
    json_decref(batch->tokens);
    free(batch->message);
}

static void add_recipient(struct batch *batch, json_t *token, json_t *message)
{
    json_t **grown =
        realloc(batch->message, (batch->count + 1) * sizeof *grown); // NOLINT(bugprone-sizeof-expression)
    if (grown == NULL)
        abort();
    batch->message = grown;
    batch->message[batch->count++] = message;
    json_array_append(batch->tokens, token);
}

static void batch_init(struct batch *batch, const struct buffer *body)
{
    *batch = (struct batch){.tokens = json_array()};
    batch->messages =
        json_loadb(body->bytes > 0 ? body->at : "", body->bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    if (json_is_object(batch->messages)) {
        json_t *array = json_pack("[o]", batch->messages);
        batch->messages = array;
        batch->single = true;
    }
    for (size_t i = 0; i < json_array_size(batch->messages); i++) {
        json_t *message = json_array_get(batch->messages, i);
        json_t *to = json_object_get(message, "to");
        for (size_t t = 0; t < json_array_size(to); t++)
            add_recipient(batch, json_array_get(to, t), message);
        if (json_is_string(to))
            add_recipient(batch, to, message);
    }
}

bool sim_authorized(struct sim_request *request)
{
    const char *right = request->sim->options.access_token, *given = request->authorization;
    if (right == NULL)
        return true;
    if (given == NULL) {
        sim_reply_error(request, 401, "UNAUTHORIZED",
                        "Insufficient permissions to send push notifications to this project.", NULL);
        return false;
    }
    if (strncmp(given, "Bearer ", 7) == 0 && strcmp(given + 7, right) == 0)
        return true;
    json_t *reply =
        json_pack("{s:s, s:s}", "error", "invalid_token", "error_description", "The bearer token is invalid");
    sim_reply_json(request, 401, reply);
    json_decref(reply);
    return false;
}

static bool check_shape(struct sim_request *request, const struct batch *batch)
{
    char text[200];
    if (!json_is_array(batch->messages) || json_array_size(batch->messages) == 0) {
        sim_reply_error(request, 400, "VALIDATION_ERROR", "The body must be an array of messages.", NULL);
        return false;
    }
    for (size_t i = 0; i < json_array_size(batch->messages); i++) {
        const char *fault = sim_validate_message(json_array_get(batch->messages, i), i, text, sizeof text);
        if (fault != NULL) {
            sim_reply_error(request, 400, "VALIDATION_ERROR", fault, NULL);
            return false;
        }
    }
    if (batch->count > SIM_RECIPIENTS_MAX) {
        sim_reply_error(request, 400, "PUSH_TOO_MANY_NOTIFICATIONS",
                        "You are trying to send more than 100 push notifications in one request.", NULL);
        return false;
    }
    return true;
}

static bool check_projects(struct sim_request *request, const struct batch *batch)
{
    json_t *details = json_object();
    for (size_t i = 0; i < batch->count; i++) {
        json_t *token = json_array_get(batch->tokens, i);
        const char *project = sim_project_of(request->sim, json_string_value(token));
        json_t *tokens = json_object_get(details, project);
        if (tokens == NULL) {
            json_object_set_new(details, project, json_array());
            tokens = json_object_get(details, project);
        }
        json_array_append(tokens, token);
    }
    if (json_object_size(details) <= 1) {
        json_decref(details);
        return true;
    }
    sim_reply_error(
        request, 400, "PUSH_TOO_MANY_EXPERIENCE_IDS",
        "All push notification messages in the same request must be for the same project; check the "
        "details field to investigate conflicting tokens.",
        details);
    return false;
}

static struct sim_bucket *bucket_of(struct sim *sim, const char *project, double full, int64_t now_ms)
{
    for (size_t i = 0; i < sim->bucket_count; i++) {
        if (strncmp(sim->buckets[i].project, project, sizeof sim->buckets[i].project - 1) == 0)
            return &sim->buckets[i];
    }
    size_t at = sim->bucket_count < SIM_PROJECTS_MAX ? sim->bucket_count++ : 0;
    struct sim_bucket *bucket = &sim->buckets[at];
    (void)snprintf(bucket->project, sizeof bucket->project, "%s", project);
    bucket->messages = full;
    bucket->at_ms = now_ms;
    return bucket;
}

static bool check_rate(struct sim_request *request, const struct batch *batch)
{
    struct sim *sim = request->sim;
    double rate = (double)sim->options.rate;
    if (sim->options.rate == 0)
        return true;
    double full = rate > SIM_RECIPIENTS_MAX ? rate : SIM_RECIPIENTS_MAX;
    int64_t now_ms = sim_now_ms(sim);
    const char *token = json_string_value(json_array_get(batch->tokens, 0));
    struct sim_bucket *bucket = bucket_of(sim, sim_project_of(sim, token), full, now_ms);
    bucket->messages += rate * (double)(now_ms - bucket->at_ms) / 1000;
    bucket->messages = bucket->messages > full ? full : bucket->messages;
    bucket->at_ms = now_ms;
    if (bucket->messages >= (double)batch->count) {
        bucket->messages -= (double)batch->count;
        return true;
    }
    char seconds[24];
    (void)snprintf(seconds, sizeof seconds, "%ld",
                   (long)(((double)batch->count - bucket->messages) / rate) + 1);
    json_t *headers = json_pack("{s:s}", "Retry-After", seconds);
    sim_reply_headers(request, headers);
    json_decref(headers);
    sim_reply_error(request, 429, "TOO_MANY_REQUESTS", "Too many push notifications a second.", NULL);
    return false;
}

/* Bytes of title + body + data as JSON text: what the platforms are given. */
static size_t payload_bytes(const json_t *message)
{
    static const char *const parts[] = {"title", "body", "data"};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *part = json_object_get(message, parts[i]);
        if (part != NULL)
            bytes += json_dumpb(part, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    }
    return bytes;
}

static json_t *error_of(const char *code, const char *token)
{
    char text[400];
    bool gone = strcmp(code, "DeviceNotRegistered") == 0;
    (void)snprintf(text, sizeof text, "\"%s\" %s", token,
                   gone ? "is not a registered push notification recipient" : "was not sent the message");
    return json_pack("{s:s, s:s, s:{s:s, s:s}}", "status", "error", "message", text, "details", "error", code,
                     "expoPushToken", token);
}

static void record(struct sim_request *request, const struct batch *batch, size_t index, const char *ticket,
                   struct buffer *lines)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    json_int_t at_ms = now.tv_sec * 1000LL + now.tv_nsec / 1000000;
    json_t *message = batch->message[index];
    json_t *id = json_object_get(json_object_get(message, "data"), "notification_id");
    json_t *line = json_pack(
        "{s:I, s:I, s:I, s:O, s:O?, s:I, s:s}", "at_ms", at_ms, "call", (json_int_t)request->call, "position",
        (json_int_t)index, "token", json_array_get(batch->tokens, index), "notification_id", id,
        "title_bytes", (json_int_t)json_string_length(json_object_get(message, "title")), "ticket", ticket);
    if (request->sim->options.record_full)
        json_object_set(line, "message", message);
    if (request->sim->options.record_full && index == 0)
        json_object_set_new(line, "request", json_stringn(request->body.at, request->body.bytes));
    char *text = json_dumps(line, JSON_COMPACT);
    buffer_add_text(lines, text);
    buffer_add_byte(lines, '\n');
    free(text);
    json_decref(line);
}

/* The ticket of one recipient; NULL when it is to be left out. An accepted one is numbered and recorded. */
static json_t *ticket_of(struct sim_request *request, const struct batch *batch, size_t index,
                         const struct sim_match *match, struct buffer *lines)
{
    const char *token = json_string_value(json_array_get(batch->tokens, index));
    if (json_is_true(sim_match_find(match, token, "drop_ticket")))
        return NULL;
    const char *code = json_string_value(sim_match_find(match, token, "ticket_error"));
    if (code == NULL && payload_bytes(batch->message[index]) > SIM_PAYLOAD_MAX)
        code = "MessageTooBig";
    if (code != NULL)
        return error_of(code, token);
    json_t *raw = sim_match_find(match, token, "ticket");
    const char *raw_status = json_string_value(json_object_get(raw, "status"));
    if (raw != NULL && (raw_status == NULL || strcmp(raw_status, "ok") != 0))
        return json_incref(raw);
    char id[SIM_TICKET_ID_BYTES];
    json_t *receipt = json_incref(sim_match_find(match, token, "receipt"));
    const char *receipt_code = json_string_value(sim_match_find(match, token, "receipt_error"));
    if (receipt == NULL && receipt_code != NULL)
        receipt = error_of(receipt_code, token);
    json_t *delay = sim_match_find(match, token, "receipt_delay_ms");
    sim_ticket_add(request->sim, id, receipt,
                   delay != NULL ? json_integer_value(delay) : request->sim->options.receipt_delay_ms);
    record(request, batch, index, id, lines);
    request->sim->counters[SIM_SEND].accepted++;
    return raw != NULL ? json_incref(raw) : json_pack("{s:s, s:s}", "status", "ok", "id", id);
}

/* One write(2) in append mode: whole lines, also when several processes share the file. */
static void write_record(const struct sim *sim, const struct buffer *lines)
{
    if (sim->record_fd < 0 || lines->bytes == 0)
        return;
    ssize_t written = write(sim->record_fd, lines->at, lines->bytes);
    if (lines->failed || written != (ssize_t)lines->bytes) {
        (void)fprintf(stderr, "belfry-simulator: the record cannot be written: %s\n", strerror(errno));
        exit(1);
    }
}

static void accept_messages(struct sim_request *request, const struct batch *batch,
                            const struct sim_match *match)
{
    struct buffer lines;
    buffer_init(&lines, SIM_RECORD_MAX);
    json_t *tickets = json_array();
    for (size_t i = 0; i < batch->count; i++) {
        json_t *ticket = ticket_of(request, batch, i, match, &lines);
        if (ticket != NULL)
            json_array_append_new(tickets, ticket);
    }
    write_record(request->sim, &lines);
    buffer_done(&lines);
    json_t *reply = json_pack("{s:O}", "data", batch->single ? json_array_get(tickets, 0) : tickets);
    if (reply == NULL)
        reply = json_pack("{s:O}", "data", tickets);
    sim_reply_json(request, 200, reply);
    json_decref(reply);
    json_decref(tickets);
}

void sim_push_send(struct sim_request *request)
{
    struct sim_counters *counters = &request->sim->counters[SIM_SEND];
    struct batch batch;
    struct sim_match match;
    batch_init(&batch, &request->body);
    if ((long)batch.count > counters->largest)
        counters->largest = (long)batch.count;
    sim_match_rules(request, batch.tokens, &match);
    bool right;
    if (match.whole != NULL)
        right = match.whole->accept && check_shape(request, &batch);
    else
        right = sim_authorized(request) && check_shape(request, &batch) && check_projects(request, &batch) &&
                check_rate(request, &batch);
    if (right)
        accept_messages(request, &batch, &match);
    else
        counters->refused++;
    sim_match_apply(request, &match);
    batch_done(&batch);
}
