/* Outcomes in arrival order in, one item for each dispatch out, with its end from either start that lets an
 * outcome in. The row's own state is known only under its lock, so both ends travel to the statement. */
#include "reconcile/fold.h"

#include <stdlib.h>
#include <string.h>

static int compare_identity(const struct outcome *a, const struct outcome *b)
{
    if (a->dispatch_id != b->dispatch_id)
        return a->dispatch_id < b->dispatch_id ? -1 : 1;
    int order = memcmp(a->notification_id.bytes, b->notification_id.bytes, sizeof a->notification_id.bytes);
    if (order != 0)
        return order;
    return (a->device_id > b->device_id) - (a->device_id < b->device_id);
}

/* All point into one array: equal identities keep their order of arrival. */
static int compare_arrival(const void *left, const void *right)
{
    const struct outcome *a = *(const struct outcome *const *)left;
    const struct outcome *b = *(const struct outcome *const *)right;
    int order = compare_identity(a, b);
    return order != 0 ? order : (a > b) - (a < b);
}

static void copy_error(char *text, struct span error)
{
    size_t bytes = error.bytes < DISPATCH_ERROR_MAX ? error.bytes : DISPATCH_ERROR_MAX;
    if (bytes > 0)
        memcpy(text, error.at, bytes);
    text[bytes] = '\0';
}

static struct span present(struct span text)
{
    return text.bytes == 0 ? (struct span){NULL, 0} : text;
}

static struct outcome_end fold_from(enum dispatch_state state, const char *error,
                                    const struct outcome *const *run, size_t count)
{
    char from_error[DISPATCH_ERROR_MAX + 1], to_error[DISPATCH_ERROR_MAX + 1];
    struct outcome_end end = {.moves = false, .state = state, .error = {NULL, 0}, .ticket = {NULL, 0}};
    copy_error(from_error, span_of(error));
    for (size_t i = 0; i < count; i++) {
        copy_error(to_error, run[i]->error);
        if (!dispatch_may_move(end.state, from_error, run[i]->outcome, to_error))
            continue;
        end = (struct outcome_end){.moves = true,
                                   .state = run[i]->outcome,
                                   .error = present(run[i]->error),
                                   .ticket = present(run[i]->ticket)};
        memcpy(from_error, to_error, sizeof from_error);
    }
    return end;
}

static struct outcome_item fold_run(const struct outcome *const *run, size_t count)
{
    struct outcome_item item = {.dispatch_id = run[0]->dispatch_id,
                                .notification_id = run[0]->notification_id,
                                .device_id = run[0]->device_id,
                                .outcomes = (int32_t)count,
                                .queued = fold_from(DISPATCH_QUEUED, "", run, count),
                                .unconfirmed = fold_from(DISPATCH_FAILED, DISPATCH_UNCONFIRMED, run, count)};
    for (size_t i = count; i-- > 0;) {
        if (run[i]->outcome == DISPATCH_SENT)
            item.sent_at_us = run[i]->at_us; /* of the first: the others are replays */
    }
    return item;
}

enum status fold_outcomes(const struct outcome *outcomes, size_t count, struct arena *arena,
                          struct fold *fold, struct fault *fault)
{
    const struct outcome **order = arena_array(arena, count, sizeof(struct outcome *));
    struct outcome_item *items = arena_array(arena, count, sizeof *items);
    if (order == NULL || items == NULL) {
        fault_set(fault, "memory", "no room to fold %zu outcomes", count);
        return ST_RETRY;
    }
    for (size_t i = 0; i < count; i++)
        order[i] = &outcomes[i];
    qsort(order, count, sizeof(struct outcome *), compare_arrival);
    size_t made = 0;
    for (size_t from = 0, to = 0; from < count; from = to) {
        while (to < count && compare_identity(order[from], order[to]) == 0)
            to++;
        items[made++] = fold_run(&order[from], to - from);
    }
    *fold = (struct fold){.items = items, .count = made};
    return ST_OK;
}
