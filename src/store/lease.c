/* A name and an owner in, whether the work is his out. A crash of its holder leaves a lease that runs out. */
#include "store/lease.h"

#include "store/sql.h"

enum { PARAMS_BYTES_MAX = 1024 };

enum status lease_take(struct db *db, const struct lease *lease, bool *held, struct fault *fault)
{
    static const struct db_statement statement = {.name = "lease_take", .sql = sql_lease_take};
    int64_t taken = 0;
    struct db_params params;
    db_params_init(&params, PARAMS_BYTES_MAX);
    db_params_text(&params, span_of(lease->what));
    db_params_int8(&params, lease->owner);
    db_params_int8(&params, lease->lease_ms);
    enum status status = db_run_counted(db, &statement, &params, &taken, fault);
    db_params_done(&params);
    if (status == ST_OK)
        *held = taken == 1;
    return status;
}
