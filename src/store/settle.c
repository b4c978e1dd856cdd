/* Who writes right now -> how far each feed is complete. Two statements, never one: a bound read in the
 * statement that uses it misses rows. A crash here leaves the bounds where they were: pages of *newer* come
 * later, never wrong. */
#include "store/settle.h"

#include <assert.h>
#include <string.h>

#include "store/sql.h"

enum { PARAMS_BYTES_MAX = SETTLE_FEEDS_MAX * (SETTLE_FEED_MAX + 32) + 1024 };

enum status settle_read(struct db *db, struct settle_bounds *bounds, struct fault *fault)
{
    static const struct db_statement statement = {.name = "settle_read", .sql = sql_settle_read};
    struct db_result *result = NULL;
    enum status status = db_run(db, &statement, NULL, &result, fault);
    if (status != ST_OK)
        return status;
    size_t rows = (size_t)db_result_rows(result);
    bounds->count = rows < SETTLE_FEEDS_MAX ? rows : SETTLE_FEEDS_MAX;
    bounds->left_out = rows - bounds->count;
    for (size_t i = 0; i < bounds->count; i++) {
        struct settle_bound *bound = &bounds->of[i];
        struct span feed = db_result_text(result, (int)i, 0);
        assert(feed.bytes <= SETTLE_FEED_MAX);
        memcpy(bound->feed, feed.at, feed.bytes);
        bound->feed[feed.bytes] = '\0';
        bound->bound_us = db_result_time(result, (int)i, 1);
        bound->prepared = db_result_int8(result, (int)i, 2);
    }
    db_result_free(result);
    return ST_OK;
}

enum status settle_move(struct db *db, const struct settle_bounds *bounds, struct fault *fault)
{
    static const struct db_statement statement = {.name = "settle_move", .sql = sql_settle_move};
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_begin(&params, DB_TEXT);
    for (size_t i = 0; i < bounds->count; i++)
        if (bounds->of[i].prepared == 0)
            db_params_text(&params, span_of(bounds->of[i].feed));
    db_params_end(&params);
    db_params_begin(&params, DB_TIME);
    for (size_t i = 0; i < bounds->count; i++)
        if (bounds->of[i].prepared == 0)
            db_params_time(&params, bounds->of[i].bound_us);
    db_params_end(&params);
    enum status status = db_run(db, &statement, &params, NULL, fault);
    db_params_done(&params);
    return status;
}
