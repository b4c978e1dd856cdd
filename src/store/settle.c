/* Who writes notifications right now -> how far the feed is complete. Two statements, never one: a bound read
 * in the statement that uses it misses rows. A crash here leaves the bound where it was: pages of *newer*
 * come later, never wrong. */
#include "store/settle.h"

#include "store/sql.h"

enum status settle_read(struct db *db, struct db_params *params, const char *relation, int64_t *bound_us,
                        int64_t *prepared, struct fault *fault)
{
    static const struct db_statement statement = {.name = "settle_read", .sql = sql_settle_read};
    struct db_result *result = NULL;
    db_params_reset(params);
    db_params_text(params, span_of(relation));
    enum status status = db_run(db, &statement, params, &result, fault);
    if (status != ST_OK)
        return status;
    *bound_us = db_result_time(result, 0, 0);
    *prepared = db_result_int8(result, 0, 1);
    db_result_free(result);
    return ST_OK;
}

enum status settle_move(struct db *db, struct db_params *params, const char *feed, int64_t bound_us,
                        struct fault *fault)
{
    static const struct db_statement statement = {.name = "settle_move", .sql = sql_settle_move};
    db_params_reset(params);
    db_params_time(params, bound_us);
    db_params_text(params, span_of(feed));
    return db_run(db, &statement, params, NULL, fault);
}
