/* Origins in, and which of them were put back before, out. A crash between putting a record back and
 * remembering it puts it back once more: its idempotency key then says duplicate. */
#include "store/replays.h"

#include <assert.h>

#include "store/sql.h"

static const struct db_statement find = {"replays_find", sql_replays_find};
static const struct db_statement add = {"replays_add", sql_replays_add};

enum { PARAMS_BYTES_MAX = 1024 * 1024 };

static void add_origins(struct db_params *params, const struct replay_origin *origins, size_t count)
{
    assert(count <= REPLAYS_MAX);
    db_params_init(params, PARAMS_BYTES_MAX);
    struct db_rows rows = {origins, count, sizeof *origins};
    db_params_column(params, DB_TEXT, &rows, offsetof(struct replay_origin, topic));
    db_params_column(params, DB_INT4, &rows, offsetof(struct replay_origin, partition));
    db_params_column(params, DB_INT8, &rows, offsetof(struct replay_origin, offset));
    db_params_column(params, DB_INT8, &rows, offsetof(struct replay_origin, timestamp_ms));
}

enum status replays_find(struct db *db, const struct replay_origin *origins, size_t count, bool *done,
                         struct fault *fault)
{
    struct db_params params;
    struct db_result *result = NULL;
    add_origins(&params, origins, count);
    enum status status = db_run(db, &find, &params, &result, fault);
    db_params_done(&params);
    if (status != ST_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        done[i] = false;
    for (int row = 0; row < db_result_rows(result); row++)
        done[db_result_int4(result, row, 0) - 1] = true;
    db_result_free(result);
    return ST_OK;
}

enum status replays_add(struct db *db, const struct replay_origin *origins, size_t count, struct fault *fault)
{
    struct db_params params;
    add_origins(&params, origins, count);
    enum status status = db_run(db, &add, &params, NULL, fault);
    db_params_done(&params);
    return status;
}
