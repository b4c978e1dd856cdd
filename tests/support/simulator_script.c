/* Scripted faults: rules come in as JSON, and for each request it is worked out which of them hold and what
 * they make of the answer. A member that is not known is refused, so that a typing error in a test shows. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/simulator.h"

static const char *const when_members[] = {"path", "token", "call", "next", "reused"};
static const char *const whole_members[] = {"status", "body", "tickets", "close", "hang_ms", "raw"};
static const char *const other_members[] = {"accept",        "content_type", "delay_ms",        "headers",
                                            "pad_bytes",     "ticket_error", "ticket",          "drop_ticket",
                                            "receipt_error", "receipt",      "receipt_delay_ms"};
static const char *const path_names[SIM_COUNTED_PATHS] = {"send", "receipts", "preferences"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static void rule_done(struct sim_rule *rule)
{
    free(rule->token);
    json_decref(rule->act);
    *rule = (struct sim_rule){0};
}

/* Every refusal goes through here: a sentence in text, and false. */
static bool refuse(char *text, size_t text_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(char *text, size_t text_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, text_bytes, format, args); // NOLINT(clang-analyzer-valist.Uninitialized)
    va_end(args);
    return false;
}

static bool parse_when(struct sim_rule *rule, json_t *when, char *text, size_t text_bytes)
{
    const char *name;
    json_t *value;
    json_object_foreach(when, name, value)
    {
        if (!one_of(name, when_members, COUNT(when_members)))
            return refuse(text, text_bytes, "when has no member \"%s\"", name);
    }
    const char *path = json_string_value(json_object_get(when, "path"));
    if (path == NULL)
        path = path_names[SIM_SEND];
    if (!one_of(path, path_names, COUNT(path_names)))
        return refuse(text, text_bytes, "when.path \"%s\" is none of send, receipts, preferences", path);
    for (size_t i = 0; i < SIM_COUNTED_PATHS; i++) {
        if (strcmp(path, path_names[i]) == 0)
            rule->path = (enum sim_path)i;
    }
    const char *token = json_string_value(json_object_get(when, "token"));
    rule->token = token == NULL ? NULL : strdup(token);
    rule->call = (long)json_integer_value(json_object_get(when, "call"));
    json_t *next = json_object_get(when, "next");
    rule->next = next == NULL ? -1 : (long)json_integer_value(next);
    json_t *reused = json_object_get(when, "reused");
    rule->reused = reused == NULL ? -1 : json_is_true(reused);
    return true;
}

static bool end_of(const char *name, enum sim_end *end)
{
    static const struct {
        const char *name;
        enum sim_end end;
    } ends[] = {{"before_reply", END_CLOSE},
                {"reset", END_RESET},
                {"after_headers", END_AFTER_HEADERS},
                {"mid_body", END_MID_BODY}};
    for (size_t i = 0; i < COUNT(ends); i++) {
        if (name != NULL && strcmp(name, ends[i].name) == 0) {
            *end = ends[i].end;
            return true;
        }
    }
    return false;
}

static bool parse_do(struct sim_rule *rule, json_t *act, char *text, size_t text_bytes)
{
    const char *name;
    json_t *value;
    enum sim_end end;
    if (!json_is_object(act))
        return refuse(text, text_bytes, "a rule needs \"do\", an object");
    json_object_foreach(act, name, value)
    {
        if (one_of(name, whole_members, COUNT(whole_members)))
            rule->whole = true;
        else if (!one_of(name, other_members, COUNT(other_members)))
            return refuse(text, text_bytes, "do has no member \"%s\"", name);
        if (strcmp(name, "close") == 0 && !end_of(json_string_value(value), &end))
            return refuse(text, text_bytes,
                          "do.close is none of before_reply, reset, after_headers, mid_body");
    }
    json_t *accept = json_object_get(act, "accept");
    rule->accept =
        accept != NULL ? json_is_true(accept) : json_integer_value(json_object_get(act, "status")) < 400;
    rule->act = json_incref(act);
    return true;
}

/* Rules whose "next" is spent make room. */
static void drop_spent(struct sim *sim)
{
    size_t kept = 0;
    for (size_t i = 0; i < sim->rule_count; i++) {
        if (sim->rules[i].next == 0)
            rule_done(&sim->rules[i]);
        else
            sim->rules[kept++] = sim->rules[i];
    }
    sim->rule_count = kept;
}

static bool add_rule(struct sim *sim, json_t *value, char *text, size_t text_bytes)
{
    const char *name;
    json_t *member;
    if (!json_is_object(value))
        return refuse(text, text_bytes, "a rule is an object with \"when\" and \"do\"");
    json_object_foreach(value, name, member)
    {
        if (strcmp(name, "when") != 0 && strcmp(name, "do") != 0)
            return refuse(text, text_bytes, "a rule has no member \"%s\"", name);
    }
    drop_spent(sim);
    if (sim->rule_count == SIM_RULES_MAX)
        return refuse(text, text_bytes, "at most %d rules", SIM_RULES_MAX);
    struct sim_rule rule = {0};
    if (!parse_when(&rule, json_object_get(value, "when"), text, text_bytes) ||
        !parse_do(&rule, json_object_get(value, "do"), text, text_bytes)) {
        rule_done(&rule);
        return false;
    }
    sim->rules[sim->rule_count++] = rule;
    return true;
}

static bool add_rules(struct sim *sim, json_t *value, char *text, size_t text_bytes)
{
    if (!json_is_array(value))
        return add_rule(sim, value, text, text_bytes);
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!add_rule(sim, json_array_get(value, i), text, text_bytes))
            return false;
    }
    return true;
}

static bool set_preferences(struct sim *sim, json_t *value, char *text, size_t text_bytes)
{
    const char *user;
    json_t *answer;
    json_t *users = json_object_get(value, "users");
    if (!json_is_object(users))
        return refuse(text, text_bytes, "\"users\" is an object");
    json_object_foreach(users, user, answer)
    {
        if (json_is_null(answer))
            json_object_del(sim->preferences, user);
        else
            json_object_set(sim->preferences, user, answer);
    }
    return true;
}

static void reset(struct sim *sim)
{
    while (sim->rule_count > 0)
        rule_done(&sim->rules[--sim->rule_count]);
    json_object_clear(sim->preferences);
    json_object_clear(sim->projects);
    sim->clock_offset_ms = 0;
    sim->connections_max = sim->connections;
    for (size_t i = 0; i < SIM_COUNTED_PATHS; i++) {
        long concurrent = sim->counters[i].concurrent;
        sim->counters[i] = (struct sim_counters){.concurrent = concurrent, .concurrent_max = concurrent};
    }
}

static json_t *stats(const struct sim *sim)
{
    json_t *all = json_pack("{s:I, s:I, s:I, s:I}", "connections", (json_int_t)sim->connections,
                            "connections_max", (json_int_t)sim->connections_max, "run", (json_int_t)sim->run,
                            "tickets", (json_int_t)sim->ticket_count);
    for (size_t i = 0; i < SIM_COUNTED_PATHS; i++) {
        const struct sim_counters *c = &sim->counters[i];
        const struct {
            const char *name;
            long value;
        } members[] = {
            {"calls", c->calls},   {"accepted", c->accepted},     {"refused", c->refused},
            {"faults", c->faults}, {"largest", c->largest},       {"largest_bytes", c->largest_bytes},
            {"gzip", c->gzip},     {"concurrent", c->concurrent}, {"concurrent_max", c->concurrent_max}};
        json_t *one = json_object();
        for (size_t m = 0; m < COUNT(members); m++)
            json_object_set_new(one, members[m].name, json_integer(members[m].value));
        json_object_set_new(all, path_names[i], one);
    }
    return all;
}

static bool obey(struct sim_request *request, json_t *value, char *text, size_t text_bytes)
{
    struct sim *sim = request->sim;
    if (strcmp(request->control, "reset") == 0) {
        reset(sim);
        return true;
    }
    if (value == NULL)
        return refuse(text, text_bytes, "the body is not JSON");
    if (strcmp(request->control, "script") == 0)
        return add_rules(sim, value, text, text_bytes);
    if (strcmp(request->control, "preferences") == 0)
        return set_preferences(sim, value, text, text_bytes);
    if (strcmp(request->control, "projects") == 0)
        return json_object_update(sim->projects, value) == 0 ||
               refuse(text, text_bytes, "an object is needed");
    if (strcmp(request->control, "clock") == 0) {
        sim->clock_offset_ms += json_integer_value(json_object_get(value, "advance_ms"));
        return true;
    }
    if (strcmp(request->control, "tickets") == 0) {
        char id[SIM_TICKET_ID_BYTES];
        json_int_t count = json_integer_value(json_object_get(value, "count"));
        for (json_int_t i = 0; i < count && i < SIM_TICKETS_MAX; i++)
            sim_ticket_add(sim, id, NULL, 0);
        return true;
    }
    return refuse(text, text_bytes,
                  "no such control: script, preferences, projects, clock, tickets, reset, stats");
}

void sim_control(struct sim_request *request)
{
    char text[200] = "";
    json_t *reply;
    unsigned status = 200;
    if (request->get && strcmp(request->control, "stats") == 0) {
        reply = stats(request->sim);
    } else {
        json_t *value =
            json_loadb(request->body.bytes > 0 ? request->body.at : "", request->body.bytes, 0, NULL);
        if (!request->get && obey(request, value, text, sizeof text)) {
            reply = json_pack("{s:I}", "rules", (json_int_t)request->sim->rule_count);
        } else {
            status = 400;
            reply = json_pack("{s:s}", "error", text);
        }
        json_decref(value);
    }
    sim_reply_json(request, status, reply);
    json_decref(reply);
}

static bool holds_for_any(const struct sim_rule *rule, const json_t *names)
{
    if (rule->token == NULL)
        return true;
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name != NULL && strstr(name, rule->token) != NULL)
            return true;
    }
    return false;
}

void sim_match_rules(struct sim_request *request, const json_t *names, struct sim_match *match)
{
    struct sim *sim = request->sim;
    match->count = 0;
    match->whole = NULL;
    for (size_t i = 0; i < sim->rule_count; i++) {
        struct sim_rule *rule = &sim->rules[i];
        if (rule->path != request->path || rule->next == 0 ||
            (rule->call != 0 && rule->call != request->call) ||
            (rule->reused >= 0 && rule->reused != request->reused) || !holds_for_any(rule, names))
            continue;
        if (rule->whole && match->whole != NULL)
            continue; /* an earlier rule answers: this one keeps its "next" */
        if (rule->next > 0)
            rule->next--;
        if (rule->whole)
            match->whole = rule;
        match->active[match->count++] = rule;
    }
    if (match->count > 0)
        sim->counters[request->path].faults++;
}

json_t *sim_match_find(const struct sim_match *match, const char *name, const char *member)
{
    for (size_t i = 0; i < match->count; i++) {
        const struct sim_rule *rule = match->active[i];
        json_t *value = json_object_get(rule->act, member);
        if (value == NULL)
            continue;
        if (rule->token == NULL || name == NULL || strstr(name, rule->token) != NULL)
            return value;
    }
    return NULL;
}

static void apply_body(struct sim_request *request, json_t *act)
{
    json_t *status = json_object_get(act, "status");
    json_t *body = json_object_get(act, "body");
    json_t *tickets = json_object_get(act, "tickets");
    if (tickets != NULL) {
        json_t *value = json_pack("{s:O}", "data", tickets);
        sim_reply_json(request, 200, value);
        json_decref(value);
    } else if (json_is_string(body)) {
        sim_reply_text(request, 200, "text/html", json_string_value(body));
    } else if (body != NULL) {
        sim_reply_json(request, 200, body);
    } else if (status != NULL) {
        sim_reply_text(request, 200, "", "");
    }
    if (status != NULL)
        request->reply.status = (unsigned)json_integer_value(status);
    const char *type = json_string_value(json_object_get(act, "content_type"));
    if (type != NULL)
        (void)snprintf(request->reply.content_type, sizeof request->reply.content_type, "%s", type);
}

static void apply_whole(struct sim_request *request, const struct sim_rule *rule)
{
    struct sim_reply *reply = &request->reply;
    apply_body(request, rule->act);
    json_t *hang = json_object_get(rule->act, "hang_ms");
    const char *raw = json_string_value(json_object_get(rule->act, "raw"));
    (void)end_of(json_string_value(json_object_get(rule->act, "close")), &reply->end);
    if (reply->body.bytes == 0 && (reply->end == END_AFTER_HEADERS || reply->end == END_MID_BODY))
        sim_reply_text(request, 200, "application/json",
                       "{\"data\":[{\"status\":\"ok\",\"id\":\"never-finished\"}]}");
    if (hang != NULL) {
        reply->delay_ms = json_integer_value(hang);
        reply->end = END_CLOSE;
    }
    if (raw != NULL) {
        sim_reply_text(request, 200, "", raw);
        reply->end = END_RAW;
    }
}

void sim_match_apply(struct sim_request *request, const struct sim_match *match)
{
    if (match->whole != NULL)
        apply_whole(request, match->whole);
    json_t *delay = sim_match_find(match, NULL, "delay_ms");
    if (delay != NULL)
        request->reply.delay_ms += json_integer_value(delay);
    json_t *headers = sim_match_find(match, NULL, "headers");
    if (headers != NULL)
        sim_reply_headers(request, headers);
    long pad = (long)json_integer_value(sim_match_find(match, NULL, "pad_bytes"));
    for (long i = 0; i < pad && !request->reply.body.failed; i++)
        buffer_add_byte(&request->reply.body, ' ');
}

const char *sim_project_of(const struct sim *sim, const char *token)
{
    const char *part;
    json_t *project;
    json_object_foreach(sim->projects, part, project)
    {
        if (strstr(token, part) != NULL && json_is_string(project))
            return json_string_value(project);
    }
    return "@belfry/app";
}
