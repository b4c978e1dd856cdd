/* The contract `snapshot`: an export holds the members and the values of one instant, whatever happens after.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader_model_run.h"

enum { WAIT_MS = 10000 };

static int newest_first(const void *a, const void *b)
{
    return model_compare(((const struct model_row *)b)->at, ((const struct model_row *)a)->at);
}

/* What it must hold: nothing else happens until it is ready. */
static void freeze(struct model_run *r, const struct model_filter *filter)
{
    struct frozen *frozen = &r->frozen;
    frozen->count = 0;
    for (int i = 0; i < r->h.model.count; i++) {
        const struct model_row *row = &r->h.model.rows[i];
        if (row->state != MODEL_THERE || !model_matches(row, filter))
            continue;
        frozen->rows[frozen->count] = *row;
        frozen->rows[frozen->count++].session = i; /* its number */
    }
    qsort(frozen->rows, (size_t)frozen->count, sizeof frozen->rows[0], newest_first);
}

static void write_body(const struct model_filter *filter, char *body, size_t size)
{
    const char *comma = "";
    int at = snprintf(body, size, "{\"format\":\"ndjson\",\"filters\":{");
    if (filter->category != MODEL_ANY) {
        at += snprintf(body + at, size - (size_t)at, "\"category\":\"%s\"",
                       history_categories[filter->category]);
        comma = ",";
    }
    snprintf(body + at, size - (size_t)at, "%s}}",
             filter->unread ? (comma[0] ? ",\"unread\":true" : "\"unread\":true") : "");
}

void run_export(struct model_run *r)
{
    struct frozen *frozen = &r->frozen;
    struct model_filter filter = {.unread = r->h.feed->marks && r->h.seed % 8 == 0,
                                  .category = (int)(r->h.seed / 4 % 4) - 1,
                                  .type = MODEL_ANY};
    char path[128], body[160];
    struct world_reply reply;
    freeze(r, &filter);
    snprintf(path, sizeof path, "feeds/%s/exports", r->h.feed->name);
    write_body(&filter, body, sizeof body);
    history_tell(&r->h, "%3d export %s: %d rows\n", r->h.steps, body, frozen->count);
    run_send_to(r, &(struct world_request){.method = "POST", .url = path, .body = body}, &reply);
    if (reply.status != 202)
        history_fail(&r->h, "%ld %s", reply.status, reply.body);
    json_t *json = run_json_of(r, &reply);
    snprintf(frozen->id, sizeof frozen->id, "%s", run_text_of(json, "id"));
    json_decref(json);
    world_reply_done(&reply);
    snprintf(path, sizeof path, "exports/%s", frozen->id);
    for (int64_t until_ms = world_now_ms() + WAIT_MS; !frozen->ready;) {
        json = run_answer_to(r, "GET", path, NULL);
        const char *state = run_text_of(json, "state");
        frozen->ready = strcmp(state, "ready") == 0;
        if ((!frozen->ready && world_now_ms() > until_ms) || strcmp(state, "failed") == 0)
            history_fail(&r->h, "the export is %s after %d ms", state, WAIT_MS);
        if (frozen->ready && json_integer_value(json_object_get(json, "rows")) != frozen->count)
            history_fail(&r->h, "the export has another number of rows than %d", frozen->count);
        json_decref(json);
        if (!frozen->ready)
            world_sleep_ms(5);
    }
}

static void check_row(struct model_run *r, const json_t *item, int at)
{
    struct frozen *frozen = &r->frozen;
    if (at >= frozen->count)
        history_fail(&r->h, "the export gives more than its %d rows", frozen->count);
    struct model_row *row = &frozen->rows[at];
    if (history_row_of(&r->h, run_text_of(item, "id")) != row->session)
        history_fail(&r->h, "row %d of the export is not r%d", at + 1, row->session);
    run_check_item(r, item, row->session, row);
}

static void walk_pages(struct model_run *r)
{
    char path[URL_MAX - 256], cursor[CURSOR_MAX] = "";
    int at = 0;
    for (bool more = true; more;) {
        snprintf(path, sizeof path, "exports/%s/pages?limit=%d%s%s", r->frozen.id, 1 + at % 7,
                 cursor[0] == '\0' ? "" : "&cursor=", cursor);
        json_t *json = run_answer_to(r, "GET", path, NULL);
        const json_t *items = json_object_get(json, "items");
        for (size_t i = 0; i < json_array_size(items); i++)
            check_row(r, json_array_get(items, i), at++);
        more = json_is_true(json_object_get(json, "has_more"));
        snprintf(cursor, sizeof cursor, "%s", run_text_of(json, "next_cursor"));
        if (strcmp(run_text_of(json, "contract"), "snapshot") != 0 || more != (cursor[0] != '\0'))
            history_fail(&r->h, "contract %s, next_cursor '%s'", run_text_of(json, "contract"), cursor);
        json_decref(json);
    }
    if (at != r->frozen.count)
        history_fail(&r->h, "the export's pages end after %d of %d rows", at, r->frozen.count);
}

/* The stream from a row on: a line a row, and last how many there are in all. */
static void read_stream(struct model_run *r, int after)
{
    char path[128];
    struct world_reply reply;
    int at = after;
    snprintf(path, sizeof path, "exports/%s/rows?after=%d", r->frozen.id, after);
    run_send_to(r, &(struct world_request){.method = "GET", .url = path}, &reply);
    if (reply.status != 200)
        history_fail(&r->h, "%ld %s", reply.status, reply.body);
    bool ended = false;
    for (char *line = reply.body, *end; (end = strchr(line, '\n')) != NULL && !ended; line = end + 1) {
        json_t *json = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, NULL);
        const json_t *trailer = json_object_get(json, "_end");
        ended = trailer != NULL;
        if (ended && json_integer_value(json_object_get(trailer, "rows")) != r->frozen.count)
            history_fail(&r->h, "the stream's end says %.*s", (int)(end - line), line);
        if (!ended)
            check_row(r, json, at++);
        json_decref(json);
    }
    if (!ended || at != r->frozen.count)
        history_fail(&r->h, "the stream behind row %d ends at row %d of %d", after, at, r->frozen.count);
    world_reply_done(&reply);
}

void run_export_check(struct model_run *r)
{
    char path[128];
    struct world_reply reply;
    history_tell(&r->h, "    the export still holds %d rows as they were\n", r->frozen.count);
    walk_pages(r);
    read_stream(r, 0);
    read_stream(r, r->frozen.count / 2);
    snprintf(path, sizeof path, "exports/%s", r->frozen.id);
    run_send_to(r, &(struct world_request){.method = "DELETE", .url = path}, &reply);
    if (reply.status != 204)
        history_fail(&r->h, "%ld %s", reply.status, reply.body);
    world_reply_done(&reply);
    run_refused(r, "GET", path, 404, "not_found");
    r->frozen.ready = false;
    r->figures.exports++;
}
