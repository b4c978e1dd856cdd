/* Exports: a feed as it stood at one instant, kept as rows (contracts/reader-api.md 'Exports').
 *
 * The life of one: export_create queues it · export_take leases it to an owner · export_fill reads and writes
 * all of it in one statement, whose snapshot is the export's, and calls it ready with its rows or failed
 * without any · export_rows gives it out · export_delete, or the reconciler's retention, ends it. So no row
 * is there before all are, whenever who dies. Everything is a question of the primary.
 *
 * Every answer tells the membership and, where there is one, the export: export_open. Whether the feed may be
 * read is then the caller's to say (who knows its source), from what the same statement saw. Nothing here
 * blocks; the statuses are db_send's. */
#ifndef BELFRY_STORE_EXPORT_H
#define BELFRY_STORE_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "base/status.h"
#include "io/db.h"
#include "model/uuid.h"
#include "store/source.h"

enum { EXPORT_LIST_MAX = 100, EXPORT_TRIES_MAX = 3 };

/* Whose export, and which. workspace_id at NULL: of a feed without one. */
struct export_query {
    struct span workspace_id, user_id;
    struct uuid id;
};

struct export
{
    bool found;
    struct uuid id;
    struct span feed, format, state; /* state: queued running ready failed expired */
    int64_t rows, bytes;
    struct span snapshot; /* at NULL: not taken yet */
    int64_t snapshot_at_us, created_at_us, finished_at_us, expires_at_us;
    bool has_snapshot_at, has_finished_at, has_expires_at;
    struct span error;     /* at NULL: none */
    struct span filters;   /* a JSON object, normalised */
    struct span filled_as; /* the member's role as of the snapshot; at NULL: none */
};

/* Who asks, as the statement saw it. */
struct export_asker {
    bool member;
    struct span role;
};

/* Points into the result. */
void export_open(const struct db_result *result, int row, struct export_asker *asker, struct export *export);

struct export_order {
    struct export_query of; /* its id is not looked at */
    const struct source *source;
    struct span filters, format, key; /* key at NULL: none */
    struct span hash;                 /* of what is ordered */
    int64_t open_max, stored_max, stored_bytes_max;
    bool fill; /* not queued, but the owner's at once */
    int64_t owner, lease_ms;
};

MUST_USE enum status export_create_send(struct db *db, const struct export_order *order, uint64_t tag,
                                        struct fault *fault);
struct export_created {
    bool fresh, same; /* same: the order found by its key is this one */
    bool too_many;
    int64_t room_ms; /* until what is stored makes room; 0: there is */
};
/* fresh and same are only meant where the export was found. */
struct export_created export_created_open(const struct db_result *result);

/* Rows of the result: export_open of each; EXPORT_LIST_MAX at most. */
MUST_USE enum status export_list_send(struct db *db, const struct export_query *query, uint64_t tag,
                                      struct fault *fault);
/* open_feeds: those that ask for no membership. The answer: export_open's asker; deleted. */
struct export_feeds {
    const char *const *names;
    size_t count;
};
MUST_USE enum status export_delete_send(struct db *db, const struct export_query *query,
                                        const struct export_feeds *open_feeds, uint64_t tag,
                                        struct fault *fault);
bool export_is_deleted(const struct db_result *result);

struct export_range {
    int64_t after;     /* rows behind this ordinal; the first has 1 */
    int64_t rows_max;  /* 0: the export alone */
    int64_t bytes_max; /* one row more than fits */
};
MUST_USE enum status export_rows_send(struct db *db, const struct export_query *query,
                                      const struct export_range *range, uint64_t tag, struct fault *fault);
/* How many rows of the export stand in the answer. */
int export_row_count(const struct db_result *result);
/* The ordinal and the row as JSON. */
struct span export_row(const struct db_result *result, int row, int64_t *ordinal);

/* ---- for whoever fills them ---------------------------------------------------------------------------- */

struct export_lease {
    int64_t owner, lease_ms;
    int64_t life_ms; /* of an export, once it is over */
};
MUST_USE enum status export_take_send(struct db *db, const struct export_lease *lease,
                                      const struct export_feeds *served, struct fault *fault);
/* What was taken: export_open's export (not found: nothing), whose, and how long the oldest waits. */
struct export_taken {
    struct export export;
    struct span workspace_id, user_id;
    int64_t oldest_s;
};
void export_taken_open(const struct db_result *result, struct export_taken *taken);

/* The statement that fills an export of this source, composed once. source must live as long. NULL: no
 * memory. */
struct export_statement;
struct export_statement *export_compose(const struct source *source);
void export_statement_free(struct export_statement *statement); /* NULL is fine */

struct export_fill {
    const struct export_statement *statement;
    struct export_query of;
    struct export_lease lease;
    int64_t rows_max, bytes_max; /* more: failed, too_large */
    struct source_value filters[SOURCE_FILTERS_MAX];
    bool flag;
};
/* One statement on a connection that prepares none (db_settings.prepared_statements off): planned from the
 * text each time, its locks are taken in the text's order, exports before export_rows, as
 * belfry_erase_user takes them. The answer: export_filled_open. */
MUST_USE enum status export_fill_send(struct db *db, const struct export_fill *fill, struct fault *fault);
struct export_filled {
    bool mine; /* false: it is no longer this owner's; nothing was written */
    struct span state, error;
    int64_t rows, bytes;
};
struct export_filled export_filled_open(const struct db_result *result);

/* Failed with this error, or queued again (NULL). */
MUST_USE enum status export_end_send(struct db *db, const struct uuid *id, const struct export_lease *lease,
                                     const char *error, struct fault *fault);

#endif
