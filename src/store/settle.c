/* Who writes notifications right now -> how far the feed is complete. Two statements, never one: a bound read
 * in the statement that uses it misses rows. A crash here leaves the bound where it was: pages of *newer*
 * come later, never wrong. */
#include "store/settle.h"

#include "store/sql.h"

enum { PARAMS_BYTES_MAX = 1024 };

enum status settle_read(struct db *db, const char *relation, int64_t *bound_us, int64_t *prepared,
                        struct fault *fault)
{
    static const struct db_statement statement = {.name = "settle_read", .sql = sql_settle_read};
    struct db_params params;
    struct db_result *result = NULL;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_text(&params, span_of(relation));
    enum status status = db_run(db, &statement, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    *bound_us = db_result_time(result, 0, 0);
    *prepared = db_result_int8(result, 0, 1);
    db_result_free(result);
    return ST_OK;
}

enum status settle_move(struct db *db, const char *feed, int64_t bound_us, struct fault *fault)
{
    static const struct db_statement statement = {.name = "settle_move", .sql = sql_settle_move};
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_time(&params, bound_us);
    db_params_text(&params, span_of(feed));
    enum status status = db_run(db, &statement, &params, NULL, fault);
    db_params_done(&params);
    return status;
}
