/* Windows and leases of `batches` (design.md §2): who may send what, told by the database alone. Leases use
 * its clock. Everything here is one statement, safe to run again when its answer was lost: only the owner
 * named in a row changes it, and `owner` is unique per process start.
 *
 * Statuses are db_judge's. A batch that another process took over is simply not among the answers. */
#ifndef BELFRY_STORE_WINDOW_H
#define BELFRY_STORE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "io/db.h"
#include "model/event.h"
#include "model/uuid.h"

/* Ordinals first … stop - 1 of a batch. */
struct window_range {
    int64_t batch_id;
    int32_t first, stop;
};

struct window_scope {
    struct db *db;
    struct db_params *params; /* scratch; made with WINDOW_PARAMS_BYTES_MAX or more */
    int64_t owner;
    int64_t lease_ms;
    int64_t push_max_age_ms;
};

enum { WINDOW_PARAMS_BYTES_MAX = 1 << 20 };

/* ---- batches ------------------------------------------------------------------------------------------- */

struct batch_query {
    size_t count_max; /* batches to take at most */
    bool urgent_only;
    bool left_only;      /* only those an owner has left behind */
    bool others;         /* also those with another owner whose lease ran out */
    const int64_t *held; /* not these: we hold them already */
    size_t held_count;
};

/* One row a range of a batch taken; a batch with nothing unsent has one row with an empty range. */
struct batch_row {
    struct window_range range;
    bool urgent;
    bool had_owner; /* somebody held it before: what is not unsent may have been risked, see batch_risked */
};

/* Takes batches that are free or whose lease ran out, urgent and oldest first; locked ones are skipped. */
MUST_USE enum status batch_take(const struct window_scope *scope, const struct batch_query *query,
                                struct db_result **rows, struct fault *fault);
void batch_take_row(const struct db_result *rows, int row, struct batch_row *batch);

/* How long the oldest batch of each urgency has been in the table, whoever has it; 0: none is there. */
MUST_USE enum status batches_oldest(struct db *db, int64_t *urgent_us, int64_t *normal_us,
                                    struct fault *fault);

/* Extends our leases. ids still ours come back, one a row: batch_id_row. */
MUST_USE enum status batch_renew(const struct window_scope *scope, const int64_t *ids, size_t count,
                                 struct db_result **rows, struct fault *fault);
/* Deletes rows of ours with nothing unsent: every outcome of theirs is acknowledged. *finished: how many. */
MUST_USE enum status batch_finish(const struct window_scope *scope, const int64_t *ids, size_t count,
                                  int64_t *finished, struct fault *fault);
static inline int64_t batch_id_row(const struct db_result *rows, int row)
{
    return db_result_int8(rows, row, 0);
}

struct batch_release {
    int64_t batch_id;
    bool settled; /* no outcome of it is owed: the next one need not look for risked ordinals */
};

struct batch_releases {
    const struct batch_release *batches;
    size_t count;
    const struct window_range *ranges; /* of any of the batches */
    size_t range_count;
    int64_t pause_ms; /* nobody takes them for so long; 0: free at once */
};

/* Ends our leases at once. The ranges are put back into unsent: those whose window's answer was lost may
 * stand outside, and were never begun. */
MUST_USE enum status batch_release(const struct window_scope *scope, const struct batch_releases *releases,
                                   struct fault *fault);

/* ---- windows ------------------------------------------------------------------------------------------- */

/* Whom the ranges' dispatches are for: each recipient once, one a row: window_recipient_row. Reads only, so
 * it says nothing about whose the batch is. */
MUST_USE enum status window_recipients(const struct window_scope *scope, const struct window_range *ranges,
                                       size_t range_count, struct db_result **rows, struct fault *fault);
static inline struct span window_recipient_row(const struct db_result *rows, int row)
{
    return db_result_text(rows, row, 0);
}

/* Takes the ranges out of `unsent` where the batch is ours (the fence), extends the lease, and returns their
 * dispatches as they are now, in id order. A batch of ours without any gives one row without a dispatch. */
MUST_USE enum status window_take(const struct window_scope *scope, const struct window_range *ranges,
                                 size_t range_count, struct db_result **rows, struct fault *fault);

/* Puts ordinals that certainly were not accepted back into `unsent`, where the batch is still ours; its ids
 * come back, one a row: batch_id_row. Harmless to run again, as long as none was taken since. */
MUST_USE enum status window_put_back(const struct window_scope *scope, const struct window_range *ranges,
                                     size_t range_count, struct db_result **rows, struct fault *fault);

struct window_row {
    int64_t batch_id;
    bool has_dispatch; /* false: the batch is ours, and nothing in the range is to be sent */
    int64_t dispatch_id, device_id;
    struct uuid notification_id;
    struct span workspace_id, recipient_user_id, traceparent; /* into the rows */
    /* DISPATCH_DEVICE_CHANGED: off, gone, or another user's. DISPATCH_EXPIRED_UNSENT: past expires_at, or the
     * event is older than push_max_age. Empty: to be sent, and what follows is filled. */
    struct span suppressed;
    struct span token; /* a secret */
    struct span title, body, data, category;
    struct span push; /* the event's push object as it came; empty when it had none */
    struct instant expires_at;
    bool urgent;
};

void window_take_row(const struct db_result *rows, int row, struct window_row *window);

/* Dispatches of a batch of ours that are still queued and not in unsent: risked by an owner who died, and
 * never seen to be reported. In id order, after_id excluded, at most count_max. Rows as of a window;
 * suppressed, token and content are empty. */
struct risked_query {
    int64_t batch_id;
    int64_t after_id; /* the first time: dispatch_id(batch_id, 0) - 1 */
    size_t count_max;
};
MUST_USE enum status batch_risked(const struct window_scope *scope, const struct risked_query *query,
                                  struct db_result **rows, struct fault *fault);
void batch_risked_row(const struct db_result *rows, int row, struct window_row *window);

#endif
