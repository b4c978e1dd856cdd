/* 200 random histories of writers and readers through the real belfry-reader and a real Postgres, against the
 * model of reader_model.c.
 *
 *   system_reader_model [--seed N] [--histories N]     --seed: that history alone, told step by step
 *
 * Seeds from 1001 and from 2001 on are of declared feeds, with ids that are numbers and texts.
 *
 * Three clients of one user walk older and newer, under both contracts, with and without filters, go back to
 * old cursors, turn round, mark, count, ask again for what they have. Every answer is compared with what the
 * model says must come, every walk with the promise it was sold under, and every fourth history with an
 * export of its middle. One step at a time: nothing here depends on who is faster, so a seed is a history. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader_model_run.h"

enum { HISTORIES = 200, STEPS = 110 };

/* One request for a page. */
struct asking {
    const struct model_cursor *from;
    const char *cursor; /* NULL: the head */
    int limit;
    const char *etag; /* If-None-Match, or NULL */
};

/* ---- pages --------------------------------------------------------------------------------------------- */

static void write_query(struct model_run *r, const struct asking *asking, char *text, size_t size)
{
    const struct model_cursor *from = asking->from;
    bool says = asking->cursor == NULL || history_pick(&r->h, 3) == 0; /* what the cursor knows may be said */
    int at = snprintf(text, size, "feeds/%s?limit=%d", r->h.feed->name, asking->limit);
    if (from->filter.category != MODEL_ANY)
        at +=
            snprintf(text + at, size - (size_t)at, "&category=%s", history_categories[from->filter.category]);
    if (from->filter.unread)
        at += snprintf(text + at, size - (size_t)at, "&unread=true");
    if (from->filter.type != MODEL_ANY)
        at += snprintf(text + at, size - (size_t)at, "&event_type=%s", history_types[from->filter.type]);
    if (says)
        at += snprintf(text + at, size - (size_t)at, "&contract=%s&direction=%s",
                       from->boundary ? "boundary" : "live", from->newer ? "newer" : "older");
    if (asking->cursor != NULL)
        snprintf(text + at, size - (size_t)at, "&cursor=%s", asking->cursor);
}

static void tell_page(struct model_run *r, const struct asking *asking, const struct model_page *page)
{
    const struct model_filter *filter = &asking->from->filter;
    history_tell(&r->h, "%3d c%d %s%s%s%s%s%s%s limit %d:", r->h.steps, r->who,
                 asking->cursor == NULL ? "head"
                 : asking->from->newer  ? "newer"
                                        : "older",
                 asking->from->boundary ? " boundary" : "", filter->unread ? " unread" : "",
                 filter->category != MODEL_ANY ? " " : "",
                 filter->category != MODEL_ANY ? history_categories[filter->category] : "",
                 filter->type != MODEL_ANY ? " " : "",
                 filter->type != MODEL_ANY ? history_types[filter->type] : "", asking->limit);
    for (int i = 0; i < page->count; i++)
        history_tell(&r->h, " r%d", page->rows[i]);
    history_tell(&r->h, "%s\n", page->has_more ? " …" : "");
}

/* The page must be the one the model says. */
static void check_page(struct model_run *r, const json_t *json, const struct asking *asking,
                       const struct model_page *page)
{
    const json_t *items = json_object_get(json, "items");
    char found[512] = "";
    size_t at = 0, count = json_array_size(items);
    bool same = json_is_array(items) && count == (size_t)page->count;
    for (size_t i = 0; i < count; i++) {
        int row = history_row_of(&r->h, run_text_of(json_array_get(items, i), "id"));
        at += (size_t)snprintf(found + at, sizeof found - at, " r%d", row);
        same = same && row == page->rows[i];
    }
    if (!same)
        history_fail(&r->h, "another page came:%s (r-1: nobody's, or another's)", found);
    for (size_t i = 0; i < count; i++)
        run_check_item(r, json_array_get(items, i), page->rows[i], &r->h.model.rows[page->rows[i]]);
    if (json_is_true(json_object_get(json, "has_more")) != page->has_more)
        history_fail(&r->h, "has_more is not %s", page->has_more ? "true" : "false");
    if ((run_text_of(json, "next_cursor")[0] != '\0') != page->next.there)
        history_fail(&r->h, "next_cursor is '%s'", run_text_of(json, "next_cursor"));
    if (run_text_of(json, "prev_cursor")[0] == '\0')
        history_fail(&r->h, "prev_cursor is empty");
    if (strcmp(run_text_of(json, "contract"), asking->from->boundary ? "boundary" : "live") != 0)
        history_fail(&r->h, "contract is %s", run_text_of(json, "contract"));
    r->figures.pages++;
    r->figures.rows += page->count;
    r->figures.empty_more += page->count == 0 && page->has_more;
}

static void hold(struct held *held, const json_t *json, const char *name, const struct model_cursor *means)
{
    held->means = *means;
    snprintf(held->text, sizeof held->text, "%s", run_text_of(json, name));
}

static void keep(struct model_run *r, struct walker *w, const struct held *held)
{
    if (!held->means.there)
        return;
    int at = w->kept_count < KEPT ? w->kept_count++ : history_pick(&r->h, KEPT);
    w->kept[at] = *held;
}

/* Asks for a page, compares it, and gives what it said of going on. etag gets the header, "" when there is
 * none. */
static void get_page(struct model_run *r, const struct asking *asking, struct model_page *page,
                     struct held held[2], char etag[ETAG])
{
    char query[URL_MAX - 256];
    struct world_reply reply;
    struct model_cursor from = *asking->from;
    if (asking->cursor == NULL)
        from.began = r->h.model.event;
    model_read(&r->h.model, &from, asking->cursor == NULL, asking->limit, page);
    write_query(r, asking, query, sizeof query);
    tell_page(r, asking, page);
    run_send_to(r, &(struct world_request){.method = "GET", .url = query}, &reply);
    if (reply.status != 200)
        history_fail(&r->h, "%ld %s", reply.status, reply.body);
    json_t *json = run_json_of(r, &reply);
    check_page(r, json, asking, page);
    hold(&held[0], json, "next_cursor", &page->next);
    hold(&held[1], json, "prev_cursor", &page->prev);
    const char *tag = strcasestr(reply.headers, "\nETag: ");
    snprintf(etag, ETAG, "%.*s", tag == NULL ? 0 : (int)strcspn(tag + 7, "\r\n"), tag == NULL ? "" : tag + 7);
    json_decref(json);
    world_reply_done(&reply);
}

static void check_trail(struct model_run *r, const struct model_trail *trail)
{
    int row;
    const char *broken = model_trail_check(&r->h.model, trail, &row);
    if (broken != NULL)
        history_fail(&r->h, "%s: r%d", broken, row);
}

/* ---- what a client does -------------------------------------------------------------------------------- */

/* What a head page shows, as the model has it: rows, has_more, contract, and nothing of cursors. */
static void write_content(struct model_run *r, const struct walker *w, int limit, char content[CONTENT])
{
    struct model_page page;
    struct model_cursor from = w->asks;
    from.began = r->h.model.event;
    model_read(&r->h.model, &from, true, limit, &page);
    size_t at = (size_t)snprintf(content, CONTENT, "%d %d", from.boundary, page.has_more);
    for (int i = 0; i < page.count; i++) {
        const struct model_row *row = &r->h.model.rows[page.rows[i]];
        at += (size_t)snprintf(content + at, CONTENT - at, " %d %d %d %d %d %s", page.rows[i], row->version,
                               row->category, row->type, row->read, row->read ? row->read_at : "");
    }
}

static void do_head(struct model_run *r, struct walker *w)
{
    struct history *h = &r->h;
    struct model_page page;
    struct held held[2];
    memset(w, 0, sizeof *w);
    w->begun = true;
    w->limit = 1 + history_pick(h, 7);
    w->asks =
        (struct model_cursor){.filter = {.unread = history_pick(h, 10) < 3 && h->feed->marks,
                                         .category = history_pick(h, 2) == 0 ? MODEL_ANY : history_pick(h, 4),
                                         .type = history_pick(h, 4) > 0 ? MODEL_ANY : history_pick(h, 2)},
                              .boundary = history_pick(h, 5) < 2};
    get_page(r, &(struct asking){.from = &w->asks, .limit = w->limit}, &page, held, w->etag);
    if (w->etag[0] == '\0')
        history_fail(h, "a head page has no ETag");
    write_content(r, w, w->limit, w->content);
    w->older = held[0];
    w->newer = held[1];
    model_trail_begin(&w->down, &page.next, false);
    model_trail_go(&w->down, &page);
    model_trail_begin(&w->up, &page.prev, true);
    keep(r, w, &held[0]);
    keep(r, w, &held[1]);
    memcpy(w->last, page.rows, sizeof page.rows);
    w->last_count = page.count;
    check_trail(r, &w->down);
}

/* One page of one of its two walks. */
static void do_walk(struct model_run *r, struct walker *w, struct held *at, struct model_trail *trail)
{
    struct model_page page;
    struct held held[2];
    char etag[ETAG];
    if (!w->begun || !at->means.there)
        return;
    get_page(r, &(struct asking){.from = &at->means, .cursor = at->text, .limit = 1 + history_pick(&r->h, 7)},
             &page, held, etag);
    if (etag[0] != '\0')
        history_fail(&r->h, "a page behind a cursor has an ETag");
    *at = held[0];
    model_trail_go(trail, &page);
    keep(r, w, &held[0]);
    keep(r, w, &held[1]);
    memcpy(w->last, page.rows, sizeof page.rows);
    w->last_count = page.count;
    check_trail(r, trail);
}

/* An old cursor again, as a client does that went back or turned round. */
static void do_side(struct model_run *r, struct walker *w)
{
    struct model_page page;
    struct held held[2];
    char etag[ETAG];
    if (w->kept_count == 0)
        return;
    struct held from = w->kept[history_pick(&r->h, w->kept_count)];
    get_page(r,
             &(struct asking){.from = &from.means, .cursor = from.text, .limit = 1 + history_pick(&r->h, 7)},
             &page, held, etag);
    keep(r, w, &held[history_pick(&r->h, 2)]);
}

/* The head again, with the tag it had: 304 exactly when nothing of it changed. */
static void do_again(struct model_run *r, struct walker *w)
{
    char query[URL_MAX - 256], condition[ETAG + 32], content[CONTENT];
    struct world_reply reply;
    if (!w->begun)
        return;
    write_content(r, w, w->limit, content);
    bool same = strcmp(content, w->content) == 0;
    write_query(r, &(struct asking){.from = &w->asks, .limit = w->limit}, query, sizeof query);
    snprintf(condition, sizeof condition, "If-None-Match: %s", w->etag);
    const char *headers[] = {condition, NULL};
    history_tell(&r->h, "%3d c%d head again if changed: %s\n", r->h.steps, r->who,
                 same ? "it is not" : "it is");
    run_send_to(r, &(struct world_request){.method = "GET", .url = query, .headers = headers}, &reply);
    if (reply.status != (same ? 304 : 200))
        history_fail(&r->h, "%ld", reply.status);
    r->figures.not_modified += same;
    world_reply_done(&reply);
}

static void do_mark(struct model_run *r)
{
    char id[HISTORY_ID], path[128];
    struct world_reply reply;
    bool read = history_pick(&r->h, 3) > 0, look = history_pick(&r->h, 3) == 0;
    int at = r->h.model.count == 0 ? -1 : history_pick(&r->h, r->h.model.count);
    if (at < 0 || !r->h.feed->marks)
        return;
    int twin = history_pick(&r->h, 8) == 0 ? 1 + history_pick(&r->h, 2) : 0;
    if (twin > 0)
        at -= at % 5;
    struct model_row *row = &r->h.model.rows[at];
    history_id(&r->h, at, twin, id);
    bool there = row->state == MODEL_THERE && twin == 0;
    snprintf(path, sizeof path, "notifications/%s%s", id, look ? "" : read ? "/read" : "/unread");
    history_tell(&r->h, "%3d %s r%d%s\n", r->h.steps,
                 look   ? "look at"
                 : read ? "mark read"
                        : "mark unread",
                 at, there ? "" : ", which is not there");
    if (there && !look && row->read != read) {
        row->read = read;
        row->read_at[0] = '\0';
        row->changed_read = ++r->h.model.event;
    }
    run_send_to(
        r, &(struct world_request){.method = look ? "GET" : "POST", .url = path, .body = look ? NULL : ""},
        &reply);
    if (reply.status != (there ? 200 : 404))
        history_fail(&r->h, "%ld %s", reply.status, reply.body);
    json_t *json = run_json_of(r, &reply);
    if (there)
        run_check_item(r, json, at, row);
    json_decref(json);
    world_reply_done(&reply);
    r->figures.marks++;
}

static void do_mark_up_to(struct model_run *r, struct walker *w)
{
    char query[URL_MAX - 256], body[CURSOR_MAX + 64];
    if (w->kept_count == 0 || !r->h.feed->marks)
        return;
    const struct held *from = &w->kept[history_pick(&r->h, w->kept_count)];
    const struct model_filter *filter = &from->means.filter;
    int at = snprintf(query, sizeof query, "feeds/notifications/read?");
    if (filter->category != MODEL_ANY)
        at += snprintf(query + at, 64, "category=%s&", history_categories[filter->category]);
    if (filter->type != MODEL_ANY)
        at += snprintf(query + at, 64, "event_type=%s&", history_types[filter->type]);
    snprintf(query + at, 64, "%s", filter->unread ? "unread=true" : "");
    if (query[strlen(query) - 1] == '&' || query[strlen(query) - 1] == '?')
        query[strlen(query) - 1] = '\0';
    snprintf(body, sizeof body, "{\"up_to\":\"%s\"}", from->text);
    r->h.model.event++;
    int marked = model_up_to(&r->h.model, &from->means);
    history_tell(&r->h, "%3d read up to a %s cursor: %d\n", r->h.steps, from->means.newer ? "newer" : "older",
                 marked);
    run_check_figure(r, run_answer_to(r, "POST", query, body), "marked", marked, "more");
}

static void do_count(struct model_run *r)
{
    int unread = model_unread(&r->h.model);
    if (!r->h.feed->marks)
        return;
    history_tell(&r->h, "%3d unread: %d\n", r->h.steps, unread);
    run_check_figure(r, run_answer_to(r, "GET", "feeds/notifications/unread_count", NULL), "unread", unread,
                     "capped");
}

/* A cursor where it does not belong is refused; nothing of it is page one. */
static void do_misuse(struct model_run *r, struct walker *w)
{
    static const char *const names[] = {"filter", "filter", "contract", "user"};
    char query[URL_MAX - 256];
    if (w->kept_count == 0)
        return;
    const struct held *from = &w->kept[history_pick(&r->h, w->kept_count)];
    struct model_cursor other = from->means;
    int how = history_pick(&r->h, 4);
    if (how == 0)
        other.filter.type = other.filter.type == MODEL_ANY ? 0 : MODEL_ANY;
    if (how == 1)
        other.filter.category = other.filter.category == MODEL_ANY ? 0 : MODEL_ANY;
    write_query(r, &(struct asking){.from = &other, .cursor = from->text, .limit = 3}, query, sizeof query);
    if (how == 2) {
        char *at = strstr(query, strstr(query, "&contract=") == NULL ? "&cursor=" : "&contract=");
        snprintf(at, 64, "&contract=%s&cursor=", other.boundary ? "live" : "boundary");
        strcat(query, from->text);
    }
    char kept[TOKEN_MAX + 32];
    snprintf(kept, sizeof kept, "%s", r->h.client->authorization);
    if (how == 3)
        snprintf(r->h.client->authorization, sizeof kept, "%s", r->other_authorization);
    history_tell(&r->h, "%3d a cursor with another %s\n", r->h.steps, names[how]);
    run_refused(r, "GET", query, 400, "cursor_mismatch");
    snprintf(r->h.client->authorization, sizeof kept, "%s", kept);
}

/* Membership withdrawn between two pages: no call tells anything. */
static void do_stranger(struct model_run *r, struct walker *w)
{
    struct history *h = &r->h;
    char id[HISTORY_ID], path[URL_MAX - 256];
    history_exec(h, h->free_hand, "SELECT belfry_remove_member('h%u', 'u1')", h->seed);
    history_tell(h, "%3d no member for a while\n", h->steps);
    snprintf(path, sizeof path, "feeds/%s?limit=3", h->feed->name);
    run_refused(r, "GET", path, 403, "not_a_member");
    run_refused(r, "GET", "feeds/notifications/unread_count", 403, "not_a_member");
    if (w->kept_count > 0) {
        const struct held *from = &w->kept[history_pick(h, w->kept_count)];
        write_query(r, &(struct asking){.from = &from->means, .cursor = from->text, .limit = 3}, path,
                    sizeof path);
        run_refused(r, "GET", path, 403, "not_a_member");
    }
    int row = history_any_row(h);
    if (row >= 0 && h->feed->marks) {
        history_id(h, row, 0, id);
        snprintf(path, sizeof path, "notifications/%s", id);
        run_refused(r, "GET", path, 403, "not_a_member");
        snprintf(path, sizeof path, "notifications/%s/read", id);
        run_refused(r, "POST", path, 403, "not_a_member");
    }
    history_exec(h, h->free_hand, "SELECT belfry_set_member('h%u', 'u1', 'member')", h->seed);
}

/* ---- a history ----------------------------------------------------------------------------------------- */

static void do_delete(struct model_run *r, struct walker *w)
{
    int rows[2] = {history_any_row(&r->h), history_any_row(&r->h)};
    int what = history_pick(&r->h, 3);
    if (what == 0 && w->last_count > 0)
        history_delete(&r->h, w->last, w->last_count); /* the whole page it saw last */
    else if (what == 1 && w->last_count > 0)
        history_delete(&r->h, &w->last[w->last_count - 1], 1); /* the row its cursor was made from */
    else
        history_delete(&r->h, rows, 2);
}

static void step(struct model_run *r)
{
    struct history *h = &r->h;
    r->who = history_pick(h, CLIENTS);
    struct walker *w = &r->walkers[r->who];
    int what = history_pick(h, 100);
    h->steps++;
    r->figures.steps++;
    if (what < 22)
        history_write(h);
    else if (what < 27)
        do_delete(r, w);
    else if (what < 31)
        history_edit(h);
    else if (what < 39)
        history_settle(h);
    else if (what < 45 || !w->begun)
        do_head(r, w);
    else if (what < 61)
        do_walk(r, w, &w->older, &w->down);
    else if (what < 75)
        do_walk(r, w, &w->newer, &w->up);
    else if (what < 83)
        do_side(r, w);
    else if (what < 88)
        do_mark(r);
    else if (what < 90)
        do_mark_up_to(r, w);
    else if (what < 92)
        do_count(r);
    else if (what < 97)
        do_again(r, w);
    else if (what < 99)
        do_misuse(r, w);
    else
        do_stranger(r, w);
}

/* Both walks of every client to their ends; then nothing may be missing. */
static void walk_out(struct model_run *r, struct walker *w)
{
    if (!w->begun)
        return;
    while (w->older.means.there) {
        r->h.steps++;
        do_walk(r, w, &w->older, &w->down);
    }
    for (bool more = true; more; check_trail(r, &w->up)) {
        struct model_page page;
        model_read(&r->h.model, &w->newer.means, false, MODEL_LIMIT, &page);
        more = page.has_more || page.count > 0;
        r->h.steps++;
        do_walk(r, w, &w->newer, &w->up);
    }
    w->up.reached = (struct model_place){INT64_MAX, 0};
    check_trail(r, &w->up);
}

static void run_history(struct model_run *r, unsigned seed, bool told)
{
    memset(r->walkers, 0, sizeof r->walkers);
    history_begin(&r->h, seed, told);
    for (int i = 0; i < STEPS; i++) {
        if (i == STEPS / 2 && seed % 4 == 0)
            run_export(r);
        step(r);
    }
    history_finish(&r->h);
    if (r->frozen.ready)
        run_export_check(r);
    for (r->who = 0; r->who < CLIENTS; r->who++)
        walk_out(r, &r->walkers[r->who]);
}

Test(reader, model, .timeout = 600)
{
    static struct client c;
    static struct model_run r;
    long seed = world_asked_for("BELFRY_MODEL_SEED", -1);
    long histories = world_asked_for("BELFRY_MODEL_HISTORIES", HISTORIES);
    char base[64], ini[2048];
    client_open(&c, "reader_model");
    world_exec(&c.w, "ALTER ROLE belfry_reader IN DATABASE %s SET synchronous_commit = off", c.w.database);
    history_open(&r.h, &c, ini, sizeof ini);
    world_reader(&c.w, ini, base);
    client_move(&c, base);
    client_be(&c, "u2");
    snprintf(r.other_authorization, sizeof r.other_authorization, "%s", c.authorization);
    client_be(&c, "u1");
    int64_t from_ms = world_now_ms();
    long run = 0;
    if (seed >= 0)
        run_history(&r, (unsigned)seed, true);
    for (long i = 1; seed < 0 && i <= histories; i++, run++)
        run_history(&r, (unsigned)i, false);
    for (long i = 1; seed < 0 && i <= histories / 8; i++, run += 2) { /* declared feeds */
        run_history(&r, (unsigned)(1000 + i), false);
        run_history(&r, (unsigned)(2000 + i), false);
    }
    const struct figures *f = &r.figures;
    printf("%ld histories agree with the model in %lld ms: %lld steps, %lld pages of %lld rows, %lld of them"
           " empty with more behind; 304 %lld times, %lld marks and looks, %lld refusals, %lld exports\n",
           seed < 0 ? run : 1, (long long)(world_now_ms() - from_ms), (long long)f->steps,
           (long long)f->pages, (long long)f->rows, (long long)f->empty_more, (long long)f->not_modified,
           (long long)f->marks, (long long)f->refused, (long long)f->exports);
    world_http_leave(&r.line);
    history_close(&r.h);
    client_close(&c);
}

int main(int argc, char **argv)
{
    static const struct world_option options[] = {{"--seed", "BELFRY_MODEL_SEED"},
                                                  {"--histories", "BELFRY_MODEL_HISTORIES"}};
    return world_main(argc, argv, options, sizeof options / sizeof options[0]);
}
