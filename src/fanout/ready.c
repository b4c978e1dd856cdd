/* In: rows of windows, refused chunks. Out: rows in the order to be sent. Always holds: a row is here or in a
 * chunk, never both; there are never more than a window's. A crash here: all of them are out of `unsent`, and
 * the sweeper reports them with their window. */
#include "ready.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SPLIT_MAX = 100 };

enum status ready_init(struct ready *ready, size_t max, struct fault *fault)
{
    *ready = (struct ready){.rows = calloc(max, sizeof ready->rows[0]), .max = max};
    if (ready->rows != NULL)
        return ST_OK;
    fault_set(fault, "memory", "no memory for the rows of a window");
    return ST_FATAL;
}

void ready_done(struct ready *ready)
{
    free(ready->rows);
}

void ready_add(struct ready *ready, const struct ready_row *row)
{
    assert(ready->count < ready->max);
    ready->rows[ready->count++] = *row;
    ready->urgent += row->urgent;
}

void ready_add_first(struct ready *ready, const struct ready_row *rows, size_t count)
{
    assert(ready->count + count <= ready->max);
    memmove(ready->rows + count, ready->rows, ready->count * sizeof rows[0]);
    memcpy(ready->rows, rows, count * sizeof rows[0]);
    ready->count += count;
    for (size_t i = 0; i < count; i++)
        ready->urgent += rows[i].urgent;
}

static bool go_together(const struct ready_row *a, const struct ready_row *b)
{
    return a->project == b->project && a->urgent == b->urgent && a->group == b->group;
}

size_t ready_together(const struct ready *ready, size_t at, size_t max)
{
    size_t count = 0;
    for (size_t i = at; i < ready->count && count < max; i++)
        count += go_together(&ready->rows[at], &ready->rows[i]);
    return count;
}

void ready_take(struct ready *ready, size_t at, size_t count, struct ready_row *rows)
{
    struct ready_row first = ready->rows[at];
    size_t taken = 0, kept = at;
    for (size_t i = at; i < ready->count; i++) {
        struct ready_row row = ready->rows[i];
        if (taken < count && go_together(&first, &row))
            rows[taken++] = row;
        else
            ready->rows[kept++] = row;
    }
    assert(taken == count);
    ready->count = kept;
    ready->urgent -= first.urgent ? count : 0;
}

/* 0 is nobody's own group. */
static uint32_t new_group(struct ready *ready)
{
    if (++ready->last_group == 0)
        ready->last_group = 1;
    return ready->last_group;
}

void ready_halve(struct ready *ready, struct ready_row *rows, size_t count)
{
    assert(count > 1);
    uint32_t group = new_group(ready);
    for (size_t i = 0; i < count; i++) {
        if (i == count / 2)
            group = new_group(ready);
        rows[i].group = group;
    }
    ready_add_first(ready, rows, count);
}

size_t ready_split(struct ready *ready, struct ready_row *rows, const char *const *names, size_t count)
{
    size_t first[SPLIT_MAX]; /* of the names, where each stands first */
    size_t groups = 0;
    assert(count <= SPLIT_MAX);
    for (size_t i = 0; i < count; i++) {
        size_t known = 0;
        while (known < groups && strcmp(names[first[known]], names[i]) != 0)
            known++;
        if (known == groups)
            first[groups++] = i;
    }
    if (groups < 2)
        return groups;
    for (size_t g = 0; g < groups; g++) {
        uint32_t group = new_group(ready);
        for (size_t i = first[g]; i < count; i++) {
            if (strcmp(names[first[g]], names[i]) == 0)
                rows[i].group = group;
        }
    }
    ready_add_first(ready, rows, count);
    return groups;
}
