/* Rows taken out of `unsent` that wait for a request, in the order they are to go: of what goes together, and
 * how a refused chunk is taken apart. Pure. Private to src/fanout.
 *
 * A request holds rows of one project, one urgency and one group. Groups other than 0 are parts of a chunk
 * that was refused as a whole: they stay apart until it is known which part is bad. */
#ifndef BELFRY_FANOUT_READY_H
#define BELFRY_FANOUT_READY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct window;

struct ready_row {
    struct window *window;
    int row; /* of the window */
    int64_t dispatch_id, device_id;
    uint32_t project, group;
    bool urgent;
};

struct ready {
    struct ready_row *rows;
    size_t count, max;
    size_t urgent; /* of them */
    uint32_t last_group;
};

MUST_USE enum status ready_init(struct ready *ready, size_t max, struct fault *fault);
void ready_done(struct ready *ready);

/* At the end. Asserts that there is room. */
void ready_add(struct ready *ready, const struct ready_row *row);
/* In front, in their order. */
void ready_add_first(struct ready *ready, const struct ready_row *rows, size_t count);
/* How many rows, at most max, go together with the one at `at`, from it on. */
size_t ready_together(const struct ready *ready, size_t at, size_t max);
/* Takes these rows out. */
void ready_take(struct ready *ready, size_t at, size_t count, struct ready_row *rows);

/* A chunk that is too large, or holds something bad: its two halves, in front. At least two rows. */
void ready_halve(struct ready *ready, struct ready_row *rows, size_t count);
/* A chunk of several projects: one group for each name, in front, in the order of their first rows. names are
 * of the rows; "" is one of them too. Returns the number of groups; 1: nothing was split, nothing was done.
 */
size_t ready_split(struct ready *ready, struct ready_row *rows, const char *const *names, size_t count);

#endif
