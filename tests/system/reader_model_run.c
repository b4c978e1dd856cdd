/* Requests of the model test's clients. */
#include "reader_model_run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void run_send_to(struct model_run *r, const struct world_request *what, struct world_reply *reply)
{
    char url[URL_MAX];
    const char *headers[3] = {r->h.client->authorization};
    struct world_request request = {what->method, url, headers, what->body};
    snprintf(url, sizeof url, "%s/v1/workspaces/h%u/%s", r->h.client->base, r->h.seed, what->url);
    for (int i = 0; what->headers != NULL && what->headers[i] != NULL; i++)
        headers[1] = what->headers[i];
    world_http_kept(&r->line, &request, reply);
}

json_t *run_json_of(struct model_run *r, const struct world_reply *reply)
{
    json_t *json = json_loadb(reply->body, reply->body_bytes, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL)
        history_fail(&r->h, "no JSON: %ld %.200s", reply->status, reply->body);
    return json;
}

json_t *run_answer_to(struct model_run *r, const char *method, const char *path, const char *body)
{
    struct world_reply reply;
    run_send_to(r, &(struct world_request){.method = method, .url = path, .body = body}, &reply);
    if (reply.status != 200)
        history_fail(&r->h, "%s %s: %ld %s", method, path, reply.status, reply.body);
    json_t *json = run_json_of(r, &reply);
    world_reply_done(&reply);
    return json;
}

void run_check_figure(struct model_run *r, json_t *json, const char *figure, int is, const char *flag)
{
    json_int_t found = json_integer_value(json_object_get(json, figure));
    if (found != is || !json_is_false(json_object_get(json, flag)))
        history_fail(&r->h, "%s is %lld, not %d, or %s is not false", figure, (long long)found, is, flag);
    json_decref(json);
}

const char *run_text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));
    return text == NULL ? "(none)" : text;
}

static void instant_text(int64_t us, char text[MODEL_TEXT])
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    char whole[24];
    gmtime_r(&seconds, &tm);
    strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, MODEL_TEXT, "%s.%06dZ", whole, (int)(us % 1000000));
}

void run_check_item(struct model_run *r, const json_t *item, int row, struct model_row *is)
{
    const json_t *read_at = json_object_get(item, "read_at");
    char title[32], at[MODEL_TEXT];
    instant_text(is->at.at_us, at);
    snprintf(title, sizeof title, "r%d v%d", row, is->version);
    bool same = strcmp(run_text_of(item, "title"), title) == 0 &&
                strcmp(run_text_of(item, "created_at"), at) == 0 &&
                strcmp(run_text_of(item, "category"), history_categories[is->category]) == 0 &&
                strcmp(run_text_of(item, "event_type"), history_types[is->type]) == 0 &&
                json_is_string(read_at) == is->read;
    if (same && is->read && is->read_at[0] == '\0')
        snprintf(is->read_at, sizeof is->read_at, "%s", json_string_value(read_at));
    if (!same || (is->read && strcmp(is->read_at, json_string_value(read_at)) != 0))
        history_fail(&r->h, "r%d is shown as title %s, created_at %s, category %s, event_type %s, read_at %s",
                     row, run_text_of(item, "title"), run_text_of(item, "created_at"),
                     run_text_of(item, "category"), run_text_of(item, "event_type"),
                     run_text_of(item, "read_at"));
}

void run_refused(struct model_run *r, const char *method, const char *path, long status, const char *code)
{
    struct world_reply reply;
    run_send_to(r,
                &(struct world_request){.method = method, .url = path, .body = method[0] == 'P' ? "" : NULL},
                &reply);
    json_t *json = run_json_of(r, &reply);
    if (reply.status != status || strcmp(run_text_of(json, "code"), code) != 0)
        history_fail(&r->h, "%s %s: %ld %s, not %ld %s", method, path, reply.status, reply.body, status,
                     code);
    json_decref(json);
    world_reply_done(&reply);
    r->figures.refused++;
}
