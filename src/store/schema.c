/* The version the database has against the one this binary was written for. Schema files only add, so a newer
 * schema is fine as long as it says so (oldest_ok): that is what makes rolling upgrades work. */
#include "store/schema.h"

#include <string.h>

#include "store/sql.h"

static const struct db_statement check = {"schema_check", sql_schema_check};

static enum status refuse(struct fault *fault)
{
    if (fault != NULL)
        fault->exit_code = EXIT_SCHEMA;
    return ST_FATAL;
}

enum status store_check_schema(struct db *db, struct fault *fault)
{
    struct db_result *result = NULL;
    struct fault why;
    enum status status = db_run(db, &check, NULL, &result, &why);
    if (status != ST_OK && strcmp(why.code, "42P01") != 0) {
        if (fault != NULL)
            *fault = why;
        return status;
    }
    if (status != ST_OK || db_result_rows(result) == 0) {
        db_result_free(result);
        fault_set(fault, "schema", "found no schema, need version %d: run deploy/migrate",
                  STORE_SCHEMA_VERSION);
        return refuse(fault);
    }
    int version = db_result_int4(result, 0, 0);
    int oldest_ok = db_result_int4(result, 0, 1);
    db_result_free(result);
    if (version < STORE_SCHEMA_VERSION) {
        fault_set(fault, "schema", "found schema version %d, need version %d: run deploy/migrate", version,
                  STORE_SCHEMA_VERSION);
        return refuse(fault);
    }
    if (oldest_ok > STORE_SCHEMA_VERSION) {
        fault_set(
            fault, "schema",
            "found schema version %d, which needs a binary of schema version %d or newer; this one is of "
            "version %d: upgrade it",
            version, oldest_ok, STORE_SCHEMA_VERSION);
        return refuse(fault);
    }
    return ST_OK;
}
