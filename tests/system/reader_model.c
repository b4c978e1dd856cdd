/* The promises of contracts/reader-api.md, as plainly as they can be said. */
#include "reader_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int model_compare(struct model_place a, struct model_place b)
{
    if (a.at_us != b.at_us)
        return a.at_us < b.at_us ? -1 : 1;
    return a.id == b.id ? 0 : a.id < b.id ? -1 : 1;
}

static struct model_place higher_of(struct model_place a, struct model_place b)
{
    return model_compare(a, b) > 0 ? a : b;
}

bool model_matches(const struct model_row *row, const struct model_filter *filter)
{
    return !(filter->unread && row->read) &&
           (filter->category == MODEL_ANY || filter->category == row->category) &&
           (filter->type == MODEL_ANY || filter->type == row->type);
}

/* ---- a page -------------------------------------------------------------------------------------------- */

struct entry {
    struct model_place at;
    int row;
};

static int by_place(const void *a, const void *b)
{
    return model_compare(((const struct entry *)a)->at, ((const struct entry *)b)->at);
}

/* What lies beyond the place, in the order walked. `unread` has an index: only unread rows are read. */
static int entries_beyond(const struct model *model, const struct model_cursor *from, bool head,
                          struct entry *entries)
{
    int count = 0;
    for (int i = 0; i < model->count; i++) {
        const struct model_row *row = &model->rows[i];
        int way = head ? -1 : model_compare(row->at, from->at);
        bool beyond = from->newer ? way > 0 && row->at.at_us < model->bound_us : way < 0;
        if (row->state == MODEL_THERE && beyond && !(from->filter.unread && row->read))
            entries[count++] = (struct entry){row->at, i};
    }
    qsort(entries, (size_t)count, sizeof entries[0], by_place);
    for (int i = 0; !from->newer && i < count / 2; i++) {
        struct entry kept = entries[i];
        entries[i] = entries[count - 1 - i];
        entries[count - 1 - i] = kept;
    }
    return count;
}

/* Goes through the entries; returns the place of the last one returned, or read when scan_max ended it. */
static struct model_place fill(const struct model *model, const struct model_cursor *from,
                               const struct entry *entries, int count, struct model_page *page)
{
    int limit = page->count;
    struct model_place at = from->at;
    bool scans = from->boundary || from->filter.category != MODEL_ANY || from->filter.type != MODEL_ANY;
    page->count = 0;
    for (int i = 0; i < count && !page->has_more; i++) {
        const struct model_row *row = &model->rows[entries[i].row];
        bool matches =
            model_matches(row, &from->filter) && (!from->boundary || row->committed <= from->began);
        if (matches && page->count == limit) {
            page->has_more = true;
            return at;
        }
        if (matches) {
            page->rows[page->count++] = entries[i].row;
            at = row->at;
        }
        if (scans && i + 1 == model->scan_max) {
            page->has_more = true;
            at = row->at;
        }
    }
    return at;
}

/* From an older page upwards: from its newest row on, but never from above the bound. */
static void turn_newer(const struct model *model, const struct model_cursor *from, bool head,
                       struct model_page *page)
{
    struct model_cursor *prev = &page->prev;
    prev->at = (struct model_place){model->bound_us, MODEL_INSTANT};
    struct model_place top = {from->at.at_us, MODEL_INSTANT};
    if (page->count > 0)
        top = model->rows[page->rows[0]].at;
    if ((page->count > 0 || !head) && model_compare(top, prev->at) < 0)
        prev->at = top;
    prev->shown = page->count > 0 ? higher_of(top, prev->at) : prev->at;
}

/* From a newer page downwards: below its oldest row. A page that showed nothing: from where it stood. */
static void turn_older(const struct model *model, const struct model_cursor *from, struct model_page *page)
{
    if (page->count > 0)
        page->prev.at = model->rows[page->rows[page->count - 1]].at;
    else
        page->prev.at =
            (struct model_place){from->at.at_us + (from->at.id != MODEL_INSTANT ? 1 : 0), MODEL_INSTANT};
    page->prev.shown = page->prev.at;
}

void model_read(const struct model *model, const struct model_cursor *from, bool head, int limit,
                struct model_page *page)
{
    struct entry entries[MODEL_ROWS];
    assert(limit <= MODEL_LIMIT);
    *page = (struct model_page){.count = limit, .next = *from, .prev = *from};
    int count = entries_beyond(model, from, head, entries);
    page->next.at = fill(model, from, entries, count, page);
    page->next.shown = page->next.at;
    page->next.there = page->has_more || from->newer;
    page->prev.there = true;
    page->prev.newer = !from->newer;
    if (!from->newer) {
        turn_newer(model, from, head, page);
        return;
    }
    for (int i = 0; i < page->count / 2; i++) {
        int kept = page->rows[i];
        page->rows[i] = page->rows[page->count - 1 - i];
        page->rows[page->count - 1 - i] = kept;
    }
    turn_older(model, from, page);
    page->next.shown = higher_of(page->next.at, from->shown);
}

/* ---- a walk -------------------------------------------------------------------------------------------- */

void model_trail_begin(struct model_trail *trail, const struct model_cursor *walk, bool newer)
{
    memset(trail, 0, sizeof *trail);
    trail->newer = newer;
    trail->walk = *walk;
    trail->reached = newer ? walk->at : (struct model_place){INT64_MAX, 0};
}

void model_trail_go(struct model_trail *trail, const struct model_page *page)
{
    for (int i = 0; i < page->count; i++)
        trail->shown[page->rows[i]]++;
    trail->ended = !page->next.there;
    trail->reached = page->next.at;
}

static bool steady_since(const struct model_row *row, const struct model_cursor *walk)
{
    bool by_kind = walk->filter.category != MODEL_ANY || walk->filter.type != MODEL_ANY;
    return !(walk->filter.unread && row->changed_read > walk->began) &&
           !(by_kind && row->changed_kind > walk->began);
}

const char *model_trail_check(const struct model *model, const struct model_trail *trail, int *at)
{
    const struct model_cursor *walk = &trail->walk;
    for (int i = 0; i < model->count; i++) {
        const struct model_row *row = &model->rows[i];
        bool in_time = row->state != MODEL_OPEN && row->committed > 0 && row->committed <= walk->began;
        *at = i;
        if (trail->shown[i] > 1)
            return "a walk never repeats a row";
        if (trail->shown[i] == 1 && walk->boundary && !in_time)
            return "boundary shows only what had committed when the first page was read";
        if (row->state != MODEL_THERE || !model_matches(row, &walk->filter) || !steady_since(row, walk) ||
            trail->shown[i] == 1)
            continue;
        bool passed =
            trail->newer ? model_compare(row->at, walk->at) > 0 && model_compare(row->at, trail->reached) <= 0
                         : trail->ended || model_compare(row->at, trail->reached) > 0;
        if (passed && !trail->newer && in_time)
            return "older skips no row that had committed when the walk began and still exists";
        if (passed && trail->newer && (in_time || !walk->boundary))
            return "newer gives every row, also one that commits late";
    }
    return NULL;
}

/* ---- marks --------------------------------------------------------------------------------------------- */

int model_up_to(struct model *model, const struct model_cursor *cursor)
{
    int marked = 0;
    for (int i = 0; i < model->count; i++) {
        struct model_row *row = &model->rows[i];
        if (row->state != MODEL_THERE || row->read || !model_matches(row, &cursor->filter) ||
            model_compare(row->at, cursor->shown) > 0)
            continue;
        row->read = true;
        row->read_at[0] = '\0';
        row->changed_read = model->event;
        marked++;
    }
    return marked;
}

int model_unread(const struct model *model)
{
    int unread = 0;
    for (int i = 0; i < model->count; i++)
        unread += model->rows[i].state == MODEL_THERE && !model->rows[i].read;
    return unread;
}
